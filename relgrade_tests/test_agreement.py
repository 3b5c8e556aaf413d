"""Agreement against scikit-learn, published values and the bootstrap's own loop, and its laws (P27, P30)."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from relgrade_assets.errors import Refused
from relgrade_assets.methods.agreement import (
    BLOCK,
    binary,
    cohen_kappa,
    confusion,
    disagreement,
    landis_koch,
    pair_counts,
    query_tables,
    resampled,
    table,
    weighted_kappa,
)
from relgrade_assets.methods.agreement import _kappas as kappas
from relgrade_assets.methods.agreement import _squares as squares
from relgrade_assets.methods.alpha import alpha, alpha_of_counts
from relgrade_assets.methods.resampling import draws, generator, quantile

DATA = Path(__file__).parents[2] / "shared" / "data"
real = pytest.mark.skipif(not (DATA / "expected.json").exists(), reason="the public data is not here")
LABELS = [0, 1, 2, 3]


def pairs(a: list[int], b: list[int], queries: list[str] | None = None) -> pl.DataFrame:
    return pl.DataFrame({"query_id": queries or ["q"] * len(a), "a": a, "b": b})


def counts(a: list[int], b: list[int], labels: list[int]) -> np.ndarray:
    return query_tables(pairs(a, b), labels)[1].sum(axis=0)


def test_the_whole_declared_scale_counts() -> None:
    """P27 and statistics.md: 0.5522 with labels 0-3 although nobody used 2; 0.4828 would be kappa over the labels
    seen."""
    a, b = [0, 0, 3, 3, 1, 0], [0, 3, 3, 3, 1, 1]
    assert weighted_kappa(counts(a, b, LABELS)).value == pytest.approx(0.5522, abs=5e-5)
    assert cohen_kappa_score(a, b, weights="quadratic") == pytest.approx(0.4828, abs=5e-5)


grades = st.integers(0, 3)
graded = st.lists(st.tuples(grades, grades), min_size=1, max_size=30)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(graded)
def test_kappa_against_sklearn(both) -> None:
    """Against scikit-learn 1.9's cohen_kappa_score with labels=, quadratic, unweighted and binary."""
    a, b = [x for x, _ in both], [y for _, y in both]
    matrix = counts(a, b, LABELS)
    two = binary(matrix, LABELS, 2)
    if len({*a, *b}) > 1:
        assert weighted_kappa(matrix).value == pytest.approx(
            cohen_kappa_score(a, b, labels=LABELS, weights="quadratic"), abs=1e-12
        )
        assert cohen_kappa(matrix).value == pytest.approx(cohen_kappa_score(a, b, labels=LABELS), abs=1e-12)
    a2, b2 = [int(x >= 2) for x in a], [int(y >= 2) for y in b]
    if len({*a2, *b2}) > 1:
        assert cohen_kappa(two).value == pytest.approx(cohen_kappa_score(a2, b2, labels=[0, 1]), abs=1e-12)
        assert weighted_kappa(two) == cohen_kappa(two)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(graded)
def test_laws_of_kappa(both) -> None:
    """Symmetric, in [-1, 1], 1 for equal graders where defined."""
    a, b = [x for x, _ in both], [y for _, y in both]
    for kappa in (weighted_kappa, cohen_kappa):
        value = kappa(counts(a, b, LABELS)).value
        assert value == kappa(counts(b, a, LABELS)).value
        assert value is None or -1 <= value <= 1
        assert kappa(counts(a, a, LABELS)).value == (1.0 if len(set(a)) > 1 else None)


def test_undefined_kappa_says_why_degenerate() -> None:
    """P28: one label alone is no agreement beyond chance; one label against another is kappa 0."""
    assert weighted_kappa(counts([1] * 5, [1] * 5, LABELS)) == (
        None,
        "undefined: both gave one and the same grade to all 5 pairs, so chance explains all agreement",
    )
    assert weighted_kappa(np.zeros((4, 4), dtype=np.int64)).value is None
    assert disagreement(np.zeros((4, 4), dtype=np.int64)).value is None
    assert weighted_kappa(counts([0] * 5, [1] * 5, LABELS)).value == 0.0


def test_published_table_against_sas() -> None:
    """SAS PROC FREQ's printout, as statsmodels' tests quote it; the second rater never uses the first category."""
    sas = np.array([[0, 4, 1], [0, 8, 0], [0, 1, 5]], dtype=np.int64)
    assert cohen_kappa(sas).value == pytest.approx(0.4842, abs=5e-5)


@real
def test_dl19_judges_against_published_values() -> None:
    """expected.json (scikit-learn 1.9.1): two LLM judgments of DL19 against NIST's on 9,260 pairs."""
    folder = DATA / "trec_dl19_passage"
    want = json.loads((DATA / "expected.json").read_text())["collections"]["trec_dl19_passage"]["agreement"]["judges"]
    lines = [line.split() for line in (folder / "qrels.dl19-passage.txt").read_text().splitlines()]
    human = {(q, d): int(g) for q, _, d, g in lines}
    for judge in ("gpt-4_umbrela", "flan-t5-large_4prompts"):
        text = gzip.decompress((folder / "llm_judgments" / f"{judge}.qrels.gz").read_bytes()).decode()
        model = {(q, d): int(g) for q, _, d, g in (line.split() for line in text.splitlines())}
        matrix = counts([human[k] for k in human], [model[k] for k in human], LABELS)
        about = want[judge]["vs_human"]
        got = {
            "kappa": cohen_kappa(matrix).value,
            "kappa_quadratic": weighted_kappa(matrix).value,
            "percent_agreement": 1 - (disagreement(matrix).value or 0),
            **{f"kappa_bin>={k}": cohen_kappa(binary(matrix, LABELS, k)).value for k in (1, 2, 3)},
        }
        assert got == pytest.approx({k: about[k] for k in got}, abs=1e-6), judge


def test_confusion_has_every_cell_and_leaves_nulls_out() -> None:
    frame = pl.DataFrame(
        {"query_id": ["q", "q", "r"], "a": [0, 2, None], "b": [1, 2, 0]}, schema_overrides={"a": pl.Int64}
    )
    out = confusion(frame, [0, 1, 2])
    assert out.height == 9 and out["count"].sum() == 2
    assert out.filter((pl.col("a") == 0) & (pl.col("b") == 1))["count"].to_list() == [1]
    with pytest.raises(Refused, match="the grades 7 and 1"):
        confusion(pairs([7], [1]), [0, 1, 2])


@pytest.mark.parametrize(
    ("kappa", "word"),
    [
        (-0.01, "poor"),
        (0.0, "slight"),
        (0.2, "slight"),
        (0.21, "fair"),
        (0.6, "moderate"),
        (0.61, "substantial"),
        (0.81, "almost perfect"),
        (1.0, "almost perfect"),
    ],
)
def test_landis_and_koch_words(kappa: float, word: str) -> None:
    assert landis_koch(kappa) == word


# --- intervals


def study(queries: int, each: int, seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, queries * each)
    b = np.clip(a + rng.choice([-1, 0, 0, 0, 1], len(a)), 0, 3)
    ids = [f"q{i // each:03d}" for i in range(len(a))]
    return pl.DataFrame(
        {
            "query_id": ids,
            "chunk_id": [f"c{i}" for i in range(len(a))],
            "stratum": [("head", "tail")[i // each % 2] for i in range(len(a))],
            "grade": a,
            "audit_grade": b,
        }
    )


def test_intervals_equal_the_loop_exactly() -> None:
    """P27: one matrix product over per-query tables is the loop over resampled pairs, to the bit."""
    frame = study(12, 8).select("query_id", a="grade", b="audit_grade")
    queries, tables = query_tables(frame, LABELS)
    fast = resampled(tables, lambda t: kappas(t, squares(4)), generator("t", "s"), 150)
    by_query = {q: (g["a"].to_list(), g["b"].to_list()) for (q,), g in frame.group_by("query_id", maintain_order=True)}
    slow = []
    for times in np.concatenate(list(draws(generator("t", "s"), len(queries), 150))):
        a = [x for q, k in zip(queries, times, strict=True) for x in by_query[q][0] * int(k)]
        b = [x for q, k in zip(queries, times, strict=True) for x in by_query[q][1] * int(k)]
        slow.append(weighted_kappa(counts(a, b, LABELS)).value)
        assert slow[-1] == pytest.approx(cohen_kappa_score(a, b, labels=LABELS, weights="quadratic"), abs=1e-12)
    assert fast.tolist() == slow


def test_draws_are_whole_even_seeded_and_do_not_depend_on_blocks(monkeypatch) -> None:
    """Every row sums to the number of queries; the stream is pinned, so that bytes are equal everywhere."""
    whole = np.concatenate(list(draws(generator("p", "seed"), 7, 3000)))
    assert (whole.sum(axis=1) == 7).all()
    assert abs(whole.mean(axis=0) - 1).max() < 0.06
    monkeypatch.setattr("relgrade_assets.methods.resampling.AT_ONCE", 70)
    assert np.array_equal(np.concatenate(list(draws(generator("p", "seed"), 7, 3000))), whole)
    assert not np.array_equal(np.concatenate(list(draws(generator("p", "other"), 7, 3000))), whole)
    assert whole[0].tolist() == PINNED


PINNED = [0.0, 2.0, 1.0, 0.0, 3.0, 1.0, 0.0]


def test_quantile_against_numpy() -> None:
    values = np.sort(np.random.default_rng(1).random(101))
    for at in (0.0, 0.025, 0.5, 0.975, 1.0):
        assert quantile(values, at) == pytest.approx(np.quantile(values, at), abs=1e-15)


# --- the table


def made(frame: pl.DataFrame, **more: object) -> pl.DataFrame:
    arguments = {
        "labels": LABELS,
        "relevant_from": 1,
        "strata": ["head", "tail"],
        "seed": "s",
        "on_random": False,
        "resamples": 200,
    }
    return table({"key~auditor": frame}, **{**arguments, **more})  # type: ignore[arg-type]


def one(out: pl.DataFrame, statistic: str, scope: str = "all", **more: object) -> dict:
    return out.filter(statistic=statistic, scope=scope, **more).row(0, named=True)


def test_p27_the_table_has_every_statistic_in_every_scope() -> None:
    out = made(study(12, 8))
    assert out.height == 3 * (6 + 4 + 16)
    row = one(out, "weighted_kappa")
    assert row["low"] < row["value"] < row["high"] and row["n"] == 96 and row["queries"] == 12
    assert row["note"].split("; ")[0] == landis_koch(row["value"])
    assert one(out, "weighted_kappa", "tail")["queries"] == 6
    frame = study(12, 8)
    assert one(out, "disagreement")["value"] == frame.select((pl.col("grade") != pl.col("audit_grade")).mean()).item()
    assert (
        one(out, "two_step")["value"]
        == frame.select(((pl.col("grade") - pl.col("audit_grade")).abs() >= 2).mean()).item()
    )
    exact = one(out, "exact_by_grade", grade=2)
    of = frame.filter(pl.col("grade") == 2)
    assert exact["n"] == of.height and exact["value"] == of.select((pl.col("audit_grade") == 2).mean()).item()
    assert out.filter(statistic="confusion", scope="all")["value"].sum() == 96


def test_p27_on_the_audited_queries_unless_drawn_at_random() -> None:
    assert all("on the audited queries" in note for note in made(study(6, 4))["note"])
    assert not any("audited" in note for note in made(study(6, 4), on_random=True)["note"])


def test_unrateable_pairs_leave_the_comparison_and_are_counted() -> None:
    frame = study(6, 4)
    holes = frame.with_columns(grade=pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise("grade"))
    row = one(made(holes), "weighted_kappa")
    assert row["n"] == 21 and "3 pairs without a grade from one side left out" in row["note"]


def test_p30_graders_against_each_other_stand_apart_and_rows_do_not_depend_on_order() -> None:
    frame = study(6, 4)
    other = frame.with_columns(audit_grade=pl.col("grade"))
    arguments = {
        "labels": LABELS,
        "relevant_from": 1,
        "strata": ["head", "tail"],
        "seed": "s",
        "on_random": True,
        "resamples": 50,
    }
    out = table({"key~auditor": frame, "ada~bo": other}, **arguments)  # type: ignore[arg-type]
    again = table(
        {"ada~bo": other.reverse(), "key~auditor": frame.sample(fraction=1, shuffle=True, seed=1)}, **arguments
    )  # type: ignore[arg-type]
    assert out.equals(again)
    assert out.filter(comparison="ada~bo", statistic="weighted_kappa", scope="all")["value"].to_list() == [1.0]
    assert one(out.filter(comparison="key~auditor"), "weighted_kappa")["value"] < 1


def test_undefined_scopes_are_explained_degenerate() -> None:
    flat = study(4, 3).with_columns(grade=pl.lit(0), audit_grade=pl.lit(0)).filter(pl.col("stratum") == "head")
    out = made(flat)
    kappa = one(out, "weighted_kappa")
    assert kappa["value"] is None and kappa["low"] is None and "one and the same grade" in kappa["note"]
    assert one(out, "disagreement")["value"] == 0.0
    assert (
        one(out, "disagreement", "tail")["value"] is None
        and "no pair was graded by both" in one(out, "disagreement", "tail")["note"]
    )
    assert one(out, "exact_by_grade", grade=3)["value"] is None
    single = one(made(study(1, 8)), "weighted_kappa")
    assert single["value"] is not None and single["low"] is None and "at least two queries" in single["note"]


def test_the_table_refuses_what_can_not_be_compared() -> None:
    frame = study(2, 2)
    with pytest.raises(Refused) as refused:
        made(pl.concat([frame, frame.head(1)]), strata=["head"])
    assert {"2 pairs", "no such stratum in the sample"} <= {f.found for f in refused.value.faults}


def test_columns_are_the_schemas() -> None:
    from relgrade_assets.schemas import Agreement

    Agreement.validate(made(study(6, 4)))
    assert not math.isnan(made(study(6, 4))["value"].drop_nulls().sum())


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [1, 2, 5], [-1, 0, 1], list(range(15)), list(range(17)), [0, 99]])
@pytest.mark.parametrize("n", [1, 2, 999, 2 * BLOCK + 1])
def test_counts_at_every_width_and_length_against_sklearn(labels: list[int], n: int) -> None:
    """P27: and a grade off the scale is seen wherever it stands."""
    draw = np.random.default_rng(n)
    a, b = (draw.choice(labels, n) for _ in range(2))
    found = pair_counts(pl.Series(a), pl.Series(b), labels)
    assert found is not None and (found == confusion_matrix(a, b, labels=labels)).all()
    for off in {max(labels) + 1, min(labels) - 1, min(labels) + 256, 3, 2**62, -(2**62)} - set(labels):
        b[draw.integers(n)] = off
        assert pair_counts(pl.Series(a), pl.Series(b), labels) is None
        assert pair_counts(pl.Series(b), pl.Series(a), labels) is None


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [1, 2, 5], [-1, 0, 1]])
def test_counts_in_one_pass_against_sklearn(labels: list[int]) -> None:
    """P27: and alpha from them is that of the ratings."""
    draw = np.random.default_rng(4)
    a, b = (draw.choice(labels, 500).tolist() for _ in range(2))
    frame = pairs(a, b, [f"q{i % 7}" for i in range(500)])
    found = pair_counts(frame["a"], frame["b"], labels)
    assert found is not None and (found == confusion_matrix(a, b, labels=labels)).all()
    assert (found == counts(a, b, labels)).all()
    ratings = pl.concat(
        [
            frame.select("query_id", chunk_id=pl.int_range(pl.len()).cast(pl.String), grader=pl.lit(c), grade=c)
            for c in ("a", "b")
        ]
    )
    assert alpha_of_counts(found, labels) == pytest.approx(alpha(ratings, labels), abs=1e-14)
    for off in {max(labels) + 1, min(labels) - 1, 3} - set(labels):
        assert pair_counts(pl.Series([off]), pl.Series([labels[0]]), labels) is None
        assert pair_counts(pl.Series([labels[0]]), pl.Series([off]), labels) is None
    nothing = pair_counts(frame["a"].clear(), frame["b"].clear(), labels)
    assert nothing is not None and not nothing.any() and alpha_of_counts(nothing, labels) is None
