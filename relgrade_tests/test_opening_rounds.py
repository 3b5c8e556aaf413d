"""When the next round may be opened, and what its opening says (P4, P26, P30, P43): on the event log alone, without the
graph. What a round then asks for is test_rounds'.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tiny
from test_standing import chain
from tiny import study_of

from relgrade_assets.errors import Refused
from relgrade_assets.io import events, rounds
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.study import Study
from relgrade_assets.methods.carry_over import Source

UNDECLARED = tiny.DESIGN.replace("  - {code: reused_audit, reason: small enough to be audited whole}\n", "")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A study whose first round is opened, and has no grade."""
    tiny.write_experiment(tmp_path, design=UNDECLARED)
    study = study_of(tmp_path)
    rounds.open_first_round(study)
    return study


def again(study: Study) -> Study:
    """The study as it stands on disk."""
    return study_of(study.home.top)


def graded(study: Study, *, round: int = 1) -> None:
    row = {"query_id": "q", "chunk_id": "c", "reason": "r", "grade": 1, "unrateable": False, "judge_later": False,
           "corpus_cleanup": False, "row_digest": "d"}  # fmt: skip
    study.ledger.record_answers(study.name, round, "ann", pl.DataFrame([row]), source="f", at=tiny.AT)


def edited(study: Study, file: str, old: str, new: str) -> Study:
    path = study.folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return again(study)


INPUTS: dict[str, Callable[[Study], Study]] = {
    "query log": lambda s: edited(s, "log.csv", ",60", ",61"),
    "corpus": lambda s: edited(s, "corpus.jsonl", "thing 4.", "the thing 4."),
    "a run": lambda s: edited(s, "runs/new.trec", " 1 9 new", " 1 9.5 new"),
    "intents": lambda s: edited(s, "intents.csv", "written?", "written down?"),
    "protocol": lambda s: edited(s, "experiment.yaml", "depth: 5", "depth: 6"),
    "rubric": lambda s: edited(s, "rubric.md", "1 helps", "1 helps a little"),
}


@pytest.mark.parametrize("what", sorted(INPUTS))
def test_each_input_that_changed_is_a_refresh(study: Study, what: str) -> None:
    """P2, P43: log, corpus, each run, intents, protocol; and nothing else is one."""
    assert rounds.same_inputs(study)
    with pytest.raises(Refused, match="Nothing changed since round 1"):
        rounds.open_refresh(study, cause="why", by="")
    study = INPUTS[what](study)
    assert not rounds.same_inputs(study)
    assert rounds.open_refresh(study, cause="why", by="") == 2
    body = study.log[-1].body
    assert {k: body[k] for k in ("round", "carry", "from", "rerate", "cause")} == {
        "round": 2, "carry": "unchanged", "from": 1, "rerate": 0, "cause": "why",
    }  # fmt: skip
    assert "rerate_in" not in body and body["protocol_digest"] == study.protocol
    assert rounds.same_inputs(again(study)), "it was opened on these"


def test_drift_alone_is_a_refresh_and_is_asked_of_the_affected_where_wanted(study: Study) -> None:
    """P43."""
    assert rounds.open_refresh(study, cause="drift", by="", rerate=20, affected_alone=True) == 2
    assert (study.log[-1].body["rerate"], study.log[-1].body["rerate_in"]) == (20, "affected")


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        ("gate_failed", {"grades_digest": "g", "audit_grades_digest": "a", "gates": []}, "failed, so its grades"),
        ("voided", {"key_digest": "k", "why": "x"}, "is void, so its grades"),
    ],
)
def test_a_round_that_failed_or_is_void_carries_nothing(
    study: Study, kind: str, body: dict[str, Any], says: str
) -> None:
    """P30, P35: that round; one that did so before the present one stops nothing."""
    study.happened(kind, {"round": 1, **body})
    study = INPUTS["corpus"](study)
    with pytest.raises(Refused, match=says):
        rounds.open_refresh(study, cause="why", by="")
    assert rounds.open_next_round(study, cause="why", what="", by="") == 2
    assert "carry" not in study.log[-1].body, "the whole pool is graded again"
    assert rounds.open_refresh(INPUTS["rubric"](study), cause="why", by="") == 3


def test_a_round_without_a_grade_is_revised_only_for_another_protocol(study: Study) -> None:
    """P4, P30: the first round has a grade where it is open."""
    assert rounds.open_next_round(study, cause="why", what="", by="") == 2
    with pytest.raises(Refused, match="Round 2 of tiny has no grade yet"):
        rounds.open_next_round(again(study), cause="why", what="", by="")
    study = INPUTS["rubric"](study)
    assert rounds.open_next_round(study, cause="why", what="", by="") == 3
    graded(study, round=3)
    assert rounds.open_next_round(again(study), cause="why", what="", by="") == 4


def test_a_limited_round_needs_a_gate_that_failed(study: Study) -> None:
    """P30: nothing is opened without one."""
    graded(study)
    with pytest.raises(Refused, match="can't be followed by a limited regrade"):
        rounds.open_next_round(study, cause="why", what="", by="", limited=True)
    assert [e.kind for e in study.log] == ["opened"]


def test_an_opening_is_logged_once(study: Study) -> None:
    """P4: the first answer opens the round; the next ones find it open."""
    later = study_of(study.home.top)
    later.clock = lambda: tiny.AT.replace(year=2027)
    INPUTS["corpus"](later)
    rounds.open_first_round(again(later))
    assert [e.kind for e in study.log] == ["opened"]


def test_queries_of_any_earlier_auditor_are_not_fresh(study: Study) -> None:
    """P3, P26: refused undeclared, of the round before and of those before it."""
    sample = {n: pl.DataFrame({"query_id": [f"q{n}", f"r{n}"]}) for n in (1, 2, 3)}
    for n in (1, 2, 3):
        assert rounds.audited_before(study) == {q for m in range(1, n) for q in sample[m]["query_id"]}
        assert rounds.lock_audit_sample(study, sample[n]) == content_digest(sample[n])
        study.store("audit_sample", sample[n])
        graded(study, round=n)
        rounds.open_next_round(study, cause="why", what="", by="")
        study = again(study)
    for n in (1, 3):
        with pytest.raises(Refused, match=r"1 of 2 queries that an earlier round's auditor was given"):
            rounds.lock_audit_sample(study, pl.DataFrame({"query_id": ["new", f"q{n}"]}))
    before = len(study.log)
    study = edited(
        study,
        "experiment.yaml",
        "deviations:\n",
        "deviations:\n  - {code: reused_audit, reason: there are few queries}\n",
    )
    rounds.lock_audit_sample(study, sample[1])
    assert len(study.log) == before + 1


def test_a_sample_that_was_put_back_is_the_locked_one(tmp_path: Path) -> None:
    """P16, P26: the last lock before the first grade counts, whatever was locked in between."""
    tiny.write_experiment(tmp_path)
    study = study_of(tmp_path)
    one, two = (pl.DataFrame({"query_id": [q]}) for q in "ab")
    for sample in (one, two, one, one):
        rounds.lock_audit_sample(study, sample)
    assert [e.body["digest"] for e in study.log] == [content_digest(x) for x in (one, two, one)]
    for digest in ("a", "b", "b", "a"):
        study.lock("intents_locked", digest)
    assert [e.body["digest"] for e in study.log if e.kind == "intents_locked"] == ["a", "b", "a"]
    rounds.open_first_round(study)
    assert rounds.lock_audit_sample(study, one) == content_digest(one)
    with pytest.raises(Refused, match="was locked, and grading has begun"):
        rounds.lock_audit_sample(study, two)
    assert [e.kind for e in study.log].count("audit_locked") == 3


def opened(*openings: tuple[str, str, str]) -> list[events.Event]:
    """Rounds of (carry, rubric, scale), each but the first from the one before."""
    return chain(
        *(
            ("opened", {"round": n, "carry": carry, "rubric_digest": rubric, "scale_digest": scale, "from": n - 1})
            for n, (carry, rubric, scale) in enumerate(openings, start=1)
        )
    )


FIRST, SAME, LIMITED = ("none", "a", "s"), ("unchanged", "a", "s"), ("limited", "b", "s")


@pytest.mark.parametrize(
    ("openings", "sources"),
    [
        ([FIRST], []),
        ([FIRST, FIRST], []),
        ([FIRST, SAME], [(1, "a", False)]),
        ([FIRST, SAME, SAME], [(2, "a", False), (1, "a", False)]),
        ([FIRST, FIRST, SAME], [(2, "a", False)]),
        ([FIRST, ("unchanged", "b", "s")], []),
        ([FIRST, LIMITED], [(1, "a", True)]),
        ([FIRST, SAME, LIMITED], [(2, "a", True), (1, "a", True)]),
        ([FIRST, LIMITED, ("unchanged", "b", "s")], [(2, "b", False)]),
        ([FIRST, ("limited", "a", "s"), SAME], [(2, "a", False), (1, "a", True)]),
        ([FIRST, ("unchanged", "a", "t"), SAME], [(1, "a", False)]),
        ([FIRST, ("limited", "b", "t")], []),
    ],
)
def test_whose_answers_may_count(openings: list[Any], sources: list[Any]) -> None:
    """P30, P44: those of rounds that are carried from, latest first; of another scale never, of another rubric in a
    limited regrade alone, which is known of all that came through one.
    """
    log = opened(*openings)
    assert events.carried_from(log, len(openings)) == [Source(*source) for source in sources]


def test_a_round_is_frozen_by_its_own_key_alone(study: Study) -> None:
    """P33."""
    assert not rounds.frozen(study)
    study.happened("frozen", {"round": 1, "key_digest": "k"})
    assert rounds.frozen(study)
    rounds.open_next_round(study, cause="why", what="", by="")
    assert not rounds.frozen(again(study))


def test_gates_that_were_not_passed_are_logged_undefined_ones_too(study: Study) -> None:
    """P28, P30: with value and threshold; the round then takes no answers. Where all passed nothing is logged."""
    rows = [
        ("binary_kappa", 0.8, None, "undefined"),
        ("disagreement", 0.1, 0.2, "failed"),
        ("two_step", 0.02, 0, "passed"),
    ]
    columns = {"gate": pl.String, "threshold": pl.Float64, "value": pl.Float64, "verdict": pl.String}
    verdicts = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        grades_digest=pl.lit("g"), audit_grades_digest=pl.lit("a")
    )
    rounds.log_failed_gates(study, verdicts.filter(pl.col("verdict") == "passed"))
    assert [e.kind for e in study.log] == ["opened"]
    rounds.log_failed_gates(study, verdicts.reverse())
    body = study.log[-1].body
    assert (body["grades_digest"], body["audit_grades_digest"]) == ("g", "a")
    assert body["gates"] == [dict(zip(columns, row, strict=True)) for row in rows[:2]]
    with pytest.raises(Refused):
        graded(study)
