"""Checks on graders (P31): against scipy, against a loop, against graders whose fault is known, and degenerate ones."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from relgrade_assets.methods import grader_checks as methods
from relgrade_assets.methods.resampling import draws, generator
from relgrade_assets.schemas import TABLES

Grade = Callable[[int, int, random.Random], int | None]


def study(
    grade: Grade, *, queries: int = 40, chunks: int = 12, reason: str | None = "says how", seed: int = 1
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Grades and sheets of one grader; `grade` is given the query's number, the position and a source of chance."""
    chance = random.Random(seed)  # noqa: S311
    rows = [
        (1, "ann", f"q{q:03}", f"c{p}", reason, grade(q, p, chance), p, f"2026-03-01T12:{q:02}:{p:02}Z")
        for q in range(queries)
        for p in range(1, chunks + 1)
    ]
    columns = ["round", "grader", "query_id", "chunk_id", "reason", "grade", "position", "answered_at"]
    schema = dict.fromkeys(columns, pl.String) | {"round": pl.Int64, "grade": pl.Int64, "position": pl.Int64}
    grades = pl.DataFrame(rows, schema=schema, orient="row")
    sheets = grades.select("grader", "query_id", "chunk_id", "position", query=pl.lit("how to sort a list"))
    return grades, sheets


def found(frame: pl.DataFrame, check: str, at: int | None = None) -> dict[str, object]:
    part = frame.filter((pl.col("check") == check) & (pl.col("at").eq_missing(at)))
    assert part.height == 1
    return part.row(0, named=True)


def honest(q: int, p: int, chance: random.Random) -> int:
    return chance.choice([0, 0, 1, 2])


def test_drift_since_an_earlier_round_against_sklearn() -> None:
    """P43: change, agreement and quadratic kappa of new grades with old, each grader's own; ungraded pairs left out."""
    chance = random.Random(5)  # noqa: S311
    rows = [
        (who, f"q{n % 7}", f"c{n}", max(0, old - (chance.random() < lower)), old)
        for who, lower in (("ann", 0.0), ("eve", 0.5))
        for n in range(60)
        for old in [chance.choice([0, 1, 2])]
    ]
    schema = {"grader": pl.String, "query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64, "before": pl.Int64}
    bare = pl.DataFrame([("ann", "q0", "x", None, 2), ("eve", "q0", "x", 1, None)], schema=schema, orient="row")
    again = pl.concat([pl.DataFrame(rows, schema=schema, orient="row"), bare])
    frame = methods.drift(again, labels=[0, 1, 2], round=2, seed="7")
    TABLES["grader_checks"].model.validate(frame)
    for who in ("ann", "eve"):
        own = frame.filter(pl.col("grader") == who)
        new, old = (np.array([r[i] for r in rows if r[0] == who]) for i in (3, 4))
        assert found(own, "regrade_change")["value"] == pytest.approx((new - old).mean())
        assert found(own, "regrade_same")["value"] == pytest.approx((new == old).mean())
        kappa = cohen_kappa_score(new, old, labels=[0, 1, 2], weights="quadratic")
        assert found(own, "regrade_kappa")["value"] == pytest.approx(kappa)
        assert (found(own, "regrade_change")["n"], found(own, "regrade_change")["queries"]) == (60, 7)
    assert "grades are lower than they were" in str(found(own, "regrade_change")["note"])
    assert methods.drift(again.clear(), labels=[0, 1, 2], round=2, seed="7").is_empty()


def test_the_table_fits_its_schema_and_repeats_to_the_byte() -> None:
    """P31."""
    grades, sheets = study(honest)
    frame = methods.checks(grades, sheets, seed="7")
    TABLES["grader_checks"].model.validate(frame)
    assert frame.equals(methods.checks(grades.reverse(), sheets.sample(fraction=1, shuffle=True, seed=3), seed="7"))
    assert frame["check"].unique(maintain_order=True).to_list() == [
        "position_slope", "position_tau", "position_fifth", "prompt_place", "prompt_first", "session_ends",
        "reason_overlap", "reason_echo",
    ]  # fmt: skip


@given(st.lists(st.integers(0, 3), min_size=3, max_size=12).filter(lambda g: len(set(g)) > 1))
@settings(max_examples=60, derandomize=True)
def test_slope_and_tau_of_one_query_against_scipy(grades: list[int]) -> None:
    """scipy.stats 1.x: linregress and kendalltau (tau-b)."""
    places = list(range(1, len(grades) + 1))
    rows, sheets = study(lambda q, p, _: grades[p - 1], queries=1, chunks=len(grades))
    frame = methods.checks(rows, sheets, seed="7")
    assert found(frame, "position_slope")["value"] == pytest.approx(stats.linregress(places, grades).slope)
    assert found(frame, "position_tau")["value"] == pytest.approx(stats.kendalltau(places, grades).statistic)


def test_the_interval_equals_a_loop_over_resamples() -> None:
    """Whole queries are drawn; the same draws by hand give the same ends."""
    grades, sheets = study(honest, queries=9, chunks=7)
    got = found(methods.checks(grades, sheets, seed="7"), "prompt_first")
    by_query = [part for _, part in grades.sort("query_id", "position").group_by("query_id", maintain_order=True)]
    bits = generator("grader checks", "7", "ann")
    values = []
    for counts in np.concatenate(list(draws(bits, 9, methods.RESAMPLES))):
        drawn = pl.concat([part for part, n in zip(by_query, counts, strict=True) for _ in range(int(n))])
        first = (drawn["position"] - 1) % 5 == 0
        values.append(drawn.filter(first)["grade"].mean() - drawn.filter(~first)["grade"].mean())  # type: ignore[operator]
    assert got["low"] == pytest.approx(np.quantile(values, 0.025), abs=1e-12)
    assert got["high"] == pytest.approx(np.quantile(values, 0.975), abs=1e-12)


def test_an_honest_grader_is_rarely_pointed_at() -> None:
    """P31: about one interval in twenty leaves 0 out by chance; here, of 4 x 30 checks, not many more."""
    pointed = 0
    for seed in range(30):
        frame = methods.checks(*study(honest, seed=seed), seed=str(seed))
        pointed += frame["note"].str.contains("leaves 0 out").sum()
    assert pointed <= 14


def tired(q: int, p: int, chance: random.Random) -> int:
    """Grades fall from the first chunk of a query to the last."""
    return 0 if chance.random() < p / 14 else 2


def anchored(q: int, p: int, chance: random.Random) -> int:
    """The first chunk of each prompt of five is graded high."""
    return 2 if (p - 1) % 5 == 0 and chance.random() < 0.8 else honest(q, p, chance)


def fading(q: int, p: int, chance: random.Random) -> int:
    """The later the query, the lower the grades."""
    return 0 if chance.random() < q / 45 else 2


@pytest.mark.parametrize(
    ("grader", "check", "sign", "said"),
    [
        (tired, "position_slope", -1, "grades fall along the order"),
        (tired, "position_tau", -1, "grades fall along the order"),
        (anchored, "prompt_first", 1, "the first of a prompt is graded higher"),
        (fading, "session_ends", -1, "grades fall over the session"),
    ],
)
def test_a_known_fault_is_found(grader: Grade, check: str, sign: int, said: str) -> None:
    """P31: fatigue, anchoring, drift."""
    frame = methods.checks(*study(grader), seed="7")
    row = found(frame, check)
    assert said in str(row["note"]) and sign * float(str(row["value"])) > 0
    assert float(str(row["low"])) <= float(str(row["value"])) <= float(str(row["high"]))
    assert not [c for c in ("prompt_first",) if grader is fading and "leaves" in str(found(frame, c)["note"])]


def test_means_by_fifth_and_by_place_are_what_they_say() -> None:
    frame = methods.checks(*study(lambda q, p, _: 2 if p == 1 else 0, chunks=10), seed="7")
    assert [found(frame, "position_fifth", i)["value"] for i in range(1, 6)] == [1, 0, 0, 0, 0]
    assert [found(frame, "prompt_place", i)["value"] for i in range(1, 6)] == [1, 0, 0, 0, 0]
    assert methods.means(frame)[0][2] == {"1": 1.0, "2": 0.0, "3": 0.0, "4": 0.0, "5": 0.0}


def test_reasons_that_repeat_the_query_are_counted_by_word() -> None:
    """P31: normalised as queries are, so that case and accents typed otherwise don't matter."""
    grades, sheets = study(honest, queries=2, chunks=2, reason="How to SORT: yes really it")
    frame = methods.checks(grades, sheets, seed="7")
    assert found(frame, "reason_overlap")["value"] == 0.5 and found(frame, "reason_echo")["value"] == 1
    none = methods.checks(grades.with_columns(reason=pl.lit("other words here how")), sheets, seed="7")
    assert found(none, "reason_overlap")["value"] == 0.25 and found(none, "reason_echo")["value"] == 0


def test_degenerate_graders_are_undefined_and_say_why() -> None:
    """One grade only, no reasons, all at one time, one query, nothing rated: no value is made up."""
    same, sheets = study(lambda q, p, _: 1)
    same = same.with_columns(reason=pl.lit(None, pl.String), answered_at=pl.lit("2026-03-01T12:00:00Z"))
    frame = methods.checks(same, sheets, seed="7")
    assert found(frame, "position_tau")["value"] is None and found(frame, "position_slope")["value"] == 0
    assert found(frame, "session_ends")["note"] == "undefined: the answers came in at once"
    assert found(frame, "reason_overlap")["note"] == "undefined: no reason was given"
    one = methods.checks(*study(honest, queries=1), seed="7")
    assert found(one, "position_slope")["low"] is None and "too few queries" in str(
        found(one, "position_slope")["note"]
    )
    nothing = methods.checks(*study(lambda q, p, _: None), seed="7")
    TABLES["grader_checks"].model.validate(nothing)
    assert nothing.filter(pl.col("check").str.starts_with("position"))["value"].null_count() == 7
    single = methods.checks(*study(honest, chunks=1), seed="7")
    assert found(single, "position_slope")["value"] is None and found(single, "prompt_place", 5)["value"] is None
