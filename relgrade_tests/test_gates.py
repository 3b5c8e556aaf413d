"""Gates, verdicts as data, and the list of disagreements (P26, P28, P29, P30)."""

import polars as pl
import pytest

from relgrade_assets.methods.agreement import table
from relgrade_assets.methods.disagreements import disagreements
from relgrade_assets.methods.gates import digest_of, gates_of, judge, standing, verdict
from relgrade_assets.protocol.design import Gates
from relgrade_assets.schemas import Disagreements, Verdicts

DIGESTS = {"grades_digest": "g1", "audit_grades_digest": "a1", "gates_digest": "t1", "protocol_digest": "p1"}
ALL = gates_of(binary_scale=False)


def agreement(grades: list[tuple[int, int]], *, per_query: int = 4, top: int = 2) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "query_id": [f"q{i // per_query}" for i in range(len(grades))],
            "chunk_id": [f"c{i}" for i in range(len(grades))],
            "stratum": ["head"] * len(grades),
            "grade": [a for a, _ in grades],
            "audit_grade": [b for _, b in grades],
        }
    )
    return table(
        {"key~auditor": frame},
        labels=list(range(top + 1)),
        relevant_from=1,
        strata=["head"],
        seed="s",
        on_random=False,
        resamples=200,
    )


def judged(
    grades: list[tuple[int, int]], gates: Gates | None = None, *, binary_scale: bool = False, **more: bool
) -> pl.DataFrame:
    out = agreement(grades, top=1 if binary_scale else 2)
    return judge(out, gates=gates or Gates(), binary_scale=binary_scale, round=1, **DIGESTS, **more)


GOOD = [(0, 0), (1, 1), (2, 2), (0, 0)] * 10


def outcome(frame: pl.DataFrame) -> dict[str, str]:
    return dict(frame.select("gate", "verdict").rows())


def test_p28_all_four_pass_on_good_agreement() -> None:
    out = judged(GOOD)
    assert outcome(out) == dict.fromkeys(sorted(ALL), "passed")
    Verdicts.validate(out)
    assert standing(out, **DIGESTS, expected_gates=ALL) == []


def test_p28_each_gate_fails_alone_at_its_own_threshold() -> None:
    """10% raw disagreement is a pass and 12.5% is not; a kappa at the threshold passes and one below it does not."""
    at = [(1, 2)] * 4 + [(0, 0), (1, 1), (2, 2)] * 12
    assert outcome(judged(at))["disagreement"] == "passed"
    assert outcome(judged([(1, 2), *at]))["disagreement"] == "failed"
    assert outcome(judged([(0, 2)] * 2 + GOOD))["two_step"] == "failed"
    assert outcome(judged([(0, 1)] * 5 + GOOD))["binary_kappa"] == "failed"
    assert (
        verdict("weighted_kappa", 0.75, 0.75)[0] == "passed" and verdict("weighted_kappa", 0.75, 0.7499)[0] == "failed"
    )
    assert verdict("two_step", 0.02, 0.02)[0] == "passed" and verdict("two_step", 0.02, 0.0201)[0] == "failed"


def test_p28_a_binary_scale_has_two_gates() -> None:
    out = judged([(0, 0), (1, 1)] * 10, binary_scale=True)
    assert outcome(out) == {"binary_kappa": "passed", "disagreement": "passed"}
    assert standing(out, **DIGESTS, expected_gates=gates_of(binary_scale=True)) == []


def test_p28_undefined_is_not_a_pass_and_says_why() -> None:
    out = judged([(0, 0)] * 12)
    row = out.filter(pl.col("gate") == "weighted_kappa").row(0, named=True)
    assert row["verdict"] == "undefined" and row["value"] is None and "one and the same grade" in row["why"]
    assert outcome(out)["disagreement"] == "passed"
    faults = standing(out, **DIGESTS, expected_gates=ALL)
    assert {f.where for f in faults} == {"gate weighted_kappa", "gate binary_kappa"}
    empty = judge(agreement(GOOD).clear(), gates=Gates(), binary_scale=False, round=1, **DIGESTS)
    assert set(empty["verdict"]) == {"undefined"} and "0 rows" in empty["why"][0]


def test_p28_the_worst_end_is_low_for_kappas_and_high_for_shares() -> None:
    grades = [(1, 2)] * 3 + [(0, 0), (1, 1), (2, 2)] * 14
    rows = {r["statistic"]: r for r in agreement(grades).filter(scope="all").to_dicts() if r["grade"] is None}
    out = judged(grades, Gates(judge_on="worst_end"))
    value = dict(out.select("gate", "value").rows())
    assert value["weighted_kappa"] == rows["weighted_kappa"]["low"] < rows["weighted_kappa"]["value"]
    assert value["disagreement"] == rows["disagreement"]["high"] > rows["disagreement"]["value"]
    assert outcome(out)["disagreement"] == "failed" and outcome(judged(grades))["disagreement"] == "passed"
    assert "the upper end of the 95% interval" in out.filter(gate="disagreement")["why"][0]
    one_query = judge(
        agreement(GOOD, per_query=100), gates=Gates(judge_on="worst_end"), binary_scale=False, round=1, **DIGESTS
    )
    assert set(one_query["verdict"]) == {"undefined"} and "at least two queries" in one_query["why"][0]


def test_p26_a_reused_sample_is_said() -> None:
    assert all("reused sample" in why for why in judged(GOOD, reused_sample=True)["why"])


@pytest.mark.parametrize("digest", sorted(DIGESTS))
def test_p29_a_verdict_on_something_else_does_not_stand(digest: str) -> None:
    faults = standing(judged(GOOD), **{**DIGESTS, digest: "other"}, expected_gates=ALL)
    assert len(faults) == 4 and all(digest in f.found and "other" in f.expected for f in faults)


def test_p29_missing_failed_doubled_and_edited_verdicts_are_faults() -> None:
    good = judged(GOOD)
    assert [f.where for f in standing(good.filter(pl.col("gate") != "two_step"), **DIGESTS, expected_gates=ALL)] == [
        "gate two_step"
    ]
    assert len(standing(good.clear(), **DIGESTS, expected_gates=ALL)) == 4
    assert "2 verdicts" in standing(pl.concat([good, good.head(1)]), **DIGESTS, expected_gates=ALL)[0].found
    failed = judged([(0, 2)] * 2 + GOOD)
    assert any(f.found.startswith("failed") for f in standing(failed, **DIGESTS, expected_gates=ALL))
    edited = failed.with_columns(verdict=pl.lit("passed"))
    assert "gate two_step" in {f.where for f in standing(edited, **DIGESTS, expected_gates=ALL)}
    assert "no such gate" in standing(good, **DIGESTS, expected_gates=gates_of(binary_scale=True))[-1].expected


def test_p29_the_gates_digest_covers_thresholds_basis_and_scale() -> None:
    base = digest_of(Gates(), binary_scale=False)
    assert base == digest_of(Gates(), binary_scale=False)
    others = [
        digest_of(Gates(two_step=0.01), binary_scale=False),
        digest_of(Gates(judge_on="worst_end"), binary_scale=False),
        digest_of(Gates(), binary_scale=True),
    ]
    assert len({base, *others}) == 4


def pair_rows(rows: list[tuple[str, int, int | None, int | None]]) -> pl.DataFrame:
    return pl.DataFrame(
        [(q, f"c{p:02d}", p, a, b, "a says", "b says") for q, p, a, b in rows],
        schema={
            "query_id": pl.String,
            "chunk_id": pl.String,
            "position": pl.Int64,
            "grade": pl.Int64,
            "audit_grade": pl.Int64,
            "reason": pl.String,
            "audit_reason": pl.String,
        },
        orient="row",
    )


def causes(rows: list[tuple[str, int, int | None, int | None]]) -> dict[tuple[str, str], str]:
    pairs = pair_rows(rows)
    intents = pl.DataFrame({"query_id": pairs["query_id"].unique().sort(), "intent": "what it asks"})
    out = disagreements(pairs, intents, round=2)
    Disagreements.validate(out)
    return {(q, c): cause for q, c, cause in out.select("query_id", "chunk_id", "likely_cause").rows()}


def test_p30_likely_causes() -> None:
    boundary = [("q1", p, 1, 2 if p == 1 else 1) for p in range(1, 7)]
    assert causes(boundary) == {("q1", "c01"): "boundary"}
    two_step = [("q2", p, 0, 2 if p == 3 else 0) for p in range(1, 7)]
    assert causes(two_step) == {("q2", "c03"): "intent"}
    most = [("q3", p, 0, 1 if p <= 4 else 0) for p in range(1, 7)]
    assert set(causes(most).values()) == {"intent"}
    late = [(f"q{q}", p, 0, 1 if p == 9 else 0) for q in range(4, 8) for p in range(1, 10)]
    assert causes(late) == {(f"q{q}", "c09"): "drift" for q in range(4, 8)}
    assert set(
        causes(
            [*late, *[(f"q{q}", p, 0, 1 if p in (1, 2) else 0) for q in range(10, 20) for p in range(1, 10)]]
        ).values()
    ) == {"boundary"}
    assert causes([("q1", 1, None, 2), ("q1", 2, 1, None), ("q1", 3, 1, 1)]) == {}
