"""P19, P30: complete grades, one grade a pair, and who takes which queries."""

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused, Waiting
from relgrade_assets.methods.grading import combine, complete, share_of_queries
from relgrade_assets.schemas import TABLES

SHEET = pl.DataFrame(
    [
        (1, g, p, "q1", c, "query", "intent", "H", f"text {c}", f"digest-{c}")
        for g in ("ann", "bob")
        for p, c in enumerate("ba" if g == "ann" else "ab", start=1)
    ],
    schema=["round", "grader", "position", "query_id", "chunk_id", "query", "intent", "header", "text", "row_digest"],
    orient="row",
)
ANSWERS = {
    "round": pl.Int64,
    "grader": pl.String,
    "query_id": pl.String,
    "chunk_id": pl.String,
    "reason": pl.String,
    "grade": pl.Int64,
    "unrateable": pl.Boolean,
    "judge_later": pl.Boolean,
    "corpus_cleanup": pl.Boolean,
    "row_digest": pl.String,
    "answered_at": pl.String,
}


def answer(grader: str, chunk: str, grade: int | None = 1, **changes: object) -> dict[str, object]:
    base = {
        "round": 1,
        "grader": grader,
        "query_id": "q1",
        "chunk_id": chunk,
        "reason": "says it",
        "grade": grade,
        "unrateable": False,
        "judge_later": False,
        "corpus_cleanup": False,
        "row_digest": f"digest-{chunk}",
        "answered_at": "2024-05-03T00:00:00Z",
    }
    return {**base, **changes}


def answers(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=ANSWERS)


FULL = [
    answer("ann", "a", 2),
    answer("ann", "b", 0),
    answer("bob", "a", None, unrateable=True),
    answer("bob", "b", 1, reason=None),
]


def test_p19_complete_by_hand() -> None:
    got = complete(SHEET, answers(*reversed(FULL)), who=["ann", "bob"])
    assert isinstance(got, pl.DataFrame)
    TABLES["grades"].model.validate(got, lazy=True)
    TABLES["audit_grades"].model.validate(got, lazy=True)
    assert got.select("grader", "chunk_id", "grade", "unrateable", "position").rows() == [
        ("ann", "b", 0, False, 1),
        ("ann", "a", 2, False, 2),
        ("bob", "a", None, True, 1),
        ("bob", "b", 1, False, 2),
    ]


def test_p19_a_missing_pair_is_owed_and_never_a_zero() -> None:
    got = complete(SHEET, answers(*FULL[:3]), who=["ann", "bob"])
    assert isinstance(got, Waiting)
    assert (got.done, got.of, got.items) == (3, 4, ("1 of 2 by bob",))
    assert isinstance(complete(SHEET, answers(*FULL[:3]), who=["ann"]), pl.DataFrame)
    nothing = complete(SHEET, answers(), who=["ann", "bob"])
    assert str(nothing) == "0 of 4 pairs graded (0 of 2 by ann, 0 of 2 by bob)"
    assert str(complete(SHEET, answers(), who=["ann"])) == "0 of 2 pairs graded by ann"


def test_p19_kept_for_later_and_answers_for_other_text_are_open_and_told_apart() -> None:
    rows = [answer("ann", "a", None, judge_later=True), answer("ann", "b", row_digest="old"), *FULL[2:]]
    got = complete(SHEET, answers(*rows), who=["ann", "bob"])
    assert isinstance(got, Waiting)
    assert got.items == ("0 of 2 by ann with 1 kept for later and 1 answered for other text",)
    graded_but_later = complete(SHEET, answers(answer("ann", "a", 2, judge_later=True), *FULL[1:]), who=["ann", "bob"])
    assert isinstance(graded_but_later, Waiting)


def test_p4_answers_of_another_round_do_not_count() -> None:
    got = complete(SHEET, answers(*(answer("ann", c, round=2) for c in "ab")), who=["ann"])
    assert isinstance(got, Waiting) and got.done == 0


def test_p19_answers_beside_the_sheet_change_nothing() -> None:
    extra = answers(*FULL, answer("ann", "z"), answer("eve", "a"))
    assert complete(SHEET, extra, who=["ann", "bob"]).equals(complete(SHEET, answers(*FULL), who=["ann", "bob"]))  # type: ignore[union-attr,arg-type]


def test_p19_ambiguous_or_empty_answers_are_refused_all_at_once() -> None:
    rows = [*FULL, answer("ann", "a", 1), answer("bob", "b", None), answer("ann", "b", 2, unrateable=True)]
    with pytest.raises(Refused) as caught:
        complete(SHEET, answers(*rows), who=["ann", "bob"])
    text = str(caught.value)
    assert (
        "5 faults" in text
        and "ann to q1 a" in text
        and "grade None and unrateable False" in text
        and "grade 2 and unrateable True" in text
    )


# ------------------------------------------------------------------ combining (P30)
def graded(**by: list[int | None]) -> pl.DataFrame:
    """Grades of pairs a, b, c ... by each grader; -1 is no row."""
    rows = [
        (1, g, "q1", "abcdef"[i], f"{g} on {'abcdef'[i]}", grade, grade is None, False, 1, "t")
        for g, grades in by.items()
        for i, grade in enumerate(grades)
        if grade != -1
    ]
    columns = [
        "round",
        "grader",
        "query_id",
        "chunk_id",
        "reason",
        "grade",
        "unrateable",
        "corpus_cleanup",
        "position",
        "answered_at",
    ]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.col("grade").cast(pl.Int64))


def test_p30_first_listed_by_hand() -> None:
    grades = graded(bob=[2, 2, 2, None], ann=[0, -1, None, None])
    got = combine(grades, order=["ann", "bob"], rule="first_listed")
    assert got.rows() == [
        ("q1", "a", 0, False, "ann on a"),
        ("q1", "b", 2, False, "bob on b"),
        ("q1", "c", 2, False, "bob on c"),
        ("q1", "d", None, True, "ann on d"),
    ]
    assert combine(grades, order=["bob", "ann"], rule="first_listed")["grade"].to_list() == [2, 2, 2, None]
    assert combine(grades.reverse(), order=["ann", "bob"], rule="first_listed").equals(got)


def test_p30_median_low_by_hand() -> None:
    grades = graded(ann=[0, 2, 1, None, 3], bob=[2, 1, 1, 2, None], eve=[2, -1, 0, -1, None], dan=[1, -1, -1, -1, 1])
    got = combine(grades, order=["ann", "bob", "eve", "dan"], rule="median_low")
    assert got["grade"].to_list() == [1, 1, 1, 2, 1]  # of 0 1 2 2; 1 2; 0 1 1; 2; 1 3
    assert got["reason"].to_list() == ["dan on a", "bob on b", "ann on c", "bob on d", "dan on e"]
    assert not got["unrateable"].any()
    assert combine(graded(ann=[None], bob=[None]), order=["ann", "bob"], rule="median_low").rows() == [
        ("q1", "a", None, True, "ann on a")
    ]


def test_p30_grades_of_strangers_are_refused() -> None:
    with pytest.raises(Refused, match="grader 'eve'"):
        combine(graded(ann=[1], eve=[1]), order=["ann"], rule="first_listed")


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=6))
def test_p30_median_low_against_the_standard_library_law(column: list[int | None]) -> None:
    from statistics import median_low

    grades = graded(**{f"g{i}": [g] for i, g in enumerate(column)})
    order = [f"g{i}" for i in range(len(column))]
    given_ = [g for g in column if g is not None]
    assert combine(grades, order=order, rule="median_low")["grade"].item() == (median_low(given_) if given_ else None)
    assert combine(grades, order=order, rule="first_listed")["grade"].item() == (given_[0] if given_ else None)


# ------------------------------------------------------------------ who takes what (P30)
IDS = [f"q{i:03}" for i in range(100)]


def test_p30_shares_that_sum_to_one_part_the_queries() -> None:
    takes = share_of_queries(IDS, seed="s", graders=[("a", 0.5), ("b", 0.3), ("c", 0.2)])
    assert [len(takes[g]) for g in "abc"] == [50, 30, 20]
    assert takes["a"] | takes["b"] | takes["c"] == set(IDS)


def test_p30_shares_above_one_overlap_by_the_excess() -> None:
    takes = share_of_queries(IDS, seed="s", graders=[("a", 0.6), ("b", 0.55)])
    assert len(takes["a"] & takes["b"]) == 15 and takes["a"] | takes["b"] == set(IDS)


def test_p30_all_and_a_share() -> None:
    takes = share_of_queries(IDS, seed="s", graders=[("a", "all"), ("b", 0.2)])
    assert takes["a"] == set(IDS) and len(takes["b"]) == 20
    assert share_of_queries(IDS, seed="t", graders=[("a", "all"), ("b", 0.2)])["b"] != takes["b"]
    assert share_of_queries(reversed(IDS), seed="s", graders=[("a", "all"), ("b", 0.2)]) == takes


def test_p30_uncovered_queries_are_refused_with_their_number() -> None:
    with pytest.raises(Refused, match="10 of 100 queries that nobody takes"):
        share_of_queries(IDS, seed="s", graders=[("a", 0.5), ("b", 0.4)])


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(1, 99), min_size=1, max_size=5))
def test_p30_shares_cover_all_and_keep_their_size_law(n: int, percents: list[int]) -> None:
    percents = [*percents, max(1, 100 - sum(percents))] if sum(percents) < 100 else percents
    graders = [(f"g{i}", p / 100) for i, p in enumerate(percents)]
    takes = share_of_queries(IDS[:n], seed="s", graders=graders)
    assert set().union(*takes.values()) == set(IDS[:n])
    assert all(abs(len(takes[g]) - share * n) <= 1 for g, share in graders)
    if sum(percents) == 100 and n >= 100 / min(percents):
        assert all(not takes[a] & takes[b] for (a, _), (b, _) in pairwise(graders))
