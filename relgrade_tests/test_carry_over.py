"""Which grades carry (P30, P44), which are given again (P43), and when a limited regrade is allowed (P30): by hand, by
law, and with each condition broken in turn.
"""

from __future__ import annotations

import random
from itertools import product

import polars as pl
import pytest

from relgrade_assets.methods import carry_over as methods
from relgrade_assets.methods.carry_over import PAIR, Source
from relgrade_assets.methods.limited_regrade import against
from relgrade_assets.methods.sheets import row_digest

RUBRIC, OTHER = "r" * 64, "s" * 64
ANSWER = {
    "round": pl.Int64, "grader": pl.String, "query_id": pl.String, "chunk_id": pl.String, "reason": pl.String,
    "grade": pl.Int64, "unrateable": pl.Boolean, "judge_later": pl.Boolean, "corpus_cleanup": pl.Boolean,
    "row_digest": pl.String, "answered_at": pl.String,
}  # fmt: skip


def seen(query: str, chunk: str, *, intent: str = "an intent", text: str = "a text") -> dict[str, str]:
    return {
        "query_id": query, "chunk_id": chunk, "query": f"query {query}", "intent": intent, "header": chunk,
        "text": text,
    }  # fmt: skip


def answer(
    row: dict[str, str], grade: int | None, *, round_: int = 1, grader: str = "ann", rubric: str = RUBRIC,
    later: bool = False,
) -> dict[str, object]:  # fmt: skip
    return {
        "round": round_, "grader": grader, "query_id": row["query_id"], "chunk_id": row["chunk_id"], "reason": "so",
        "grade": grade, "unrateable": grade is None and not later, "judge_later": later, "corpus_cleanup": False,
        "row_digest": row_digest(row["query"], row["intent"], row["header"], row["text"], rubric),
        "answered_at": f"2026-0{round_}-01",
    }  # fmt: skip


def asked(*rows: dict[str, str], graders: tuple[str, ...] = ("ann",)) -> pl.DataFrame:
    contents = pl.DataFrame(list(rows))
    return methods.asked(contents, {g: frozenset(contents["query_id"]) for g in graders})


def carried(
    rows: list[dict[str, str]], answers: list[dict[str, object]], *sources: Source, graders: tuple[str, ...] = ("ann",)
) -> dict[tuple[str, str], tuple[int, int | None]]:
    """{(grader, chunk): (from_round, grade)}"""
    frame = methods.carried(
        asked(*rows, graders=graders), pl.DataFrame(answers, schema=ANSWER), sources=sources, relevant_from=1
    )
    return {(g, c): (n, grade) for g, c, n, grade in frame.select("grader", "chunk_id", "from_round", "grade").rows()}


ROWS = [seen("q1", "c1"), seen("q1", "c2")]


def test_unchanged_grades_carry_and_say_from_which_round() -> None:
    """P44."""
    found = carried(ROWS, [answer(ROWS[0], 2), answer(ROWS[1], None)], Source(1, RUBRIC))
    assert found == {("ann", "c1"): (1, 2), ("ann", "c2"): (1, None)}


@pytest.mark.parametrize("change", ["text", "header", "intent", "query", "rubric", "grader", "later", "source"])
def test_any_one_change_keeps_a_grade_from_carrying(change: str) -> None:
    """P44: chunk text, intent, rubric by digest; another grader's, one put off, or a round not named don't count."""
    then = ROWS[0] | ({change: "other"} if change in ROWS[0] else {})
    given = answer(
        then, None if change == "later" else 2, rubric=OTHER if change == "rubric" else RUBRIC,
        grader="eve" if change == "grader" else "ann", later=change == "later",
        round_=3 if change == "source" else 1,
    )  # fmt: skip
    assert carried(ROWS, [given, answer(ROWS[1], 0)], Source(1, RUBRIC)) == {("ann", "c2"): (1, 0)}


def test_latest_round_with_the_same_text_holds() -> None:
    """P44: a text that was changed and changed back carries the grade it had."""
    changed = seen("q1", "c1", text="another")
    answers = [answer(changed, 0, round_=2), answer(ROWS[0], 2), answer(ROWS[1], 1, round_=2), answer(ROWS[1], 2)]
    sources = (Source(2, RUBRIC), Source(1, RUBRIC))
    assert carried(ROWS, answers, *sources) == {("ann", "c1"): (1, 2), ("ann", "c2"): (2, 1)}


def test_limited_regrade_carries_only_what_nobody_found_relevant() -> None:
    """P30: 0s and unrateables keep their round, under another rubric too; 1s and 2s are asked for again, by all."""
    rows = [seen("q1", f"c{i}") for i in range(5)]
    grades = {"ann": [0, 1, 2, 0, None], "bea": [0, 0, 2, 1, 0]}
    answers = [answer(r, g, grader=who) for who, held in grades.items() for r, g in zip(rows, held, strict=True)]
    found = carried(rows, answers, Source(1, RUBRIC, only_not_relevant=True), graders=("ann", "bea"))
    assert found == {("ann", "c0"): (1, 0), ("bea", "c0"): (1, 0), ("ann", "c4"): (1, None), ("bea", "c4"): (1, 0)}


def test_limited_regrade_looks_at_the_latest_grade_of_a_chain() -> None:
    """P30: a chunk graded relevant in the failed round is asked for, though an earlier round had it at 0."""
    answers = [answer(ROWS[0], 1, round_=2), answer(ROWS[0], 0, round_=1), answer(ROWS[1], 0, round_=1)]
    sources = (Source(2, RUBRIC, only_not_relevant=True), Source(1, RUBRIC, only_not_relevant=True))
    assert carried(ROWS, answers, *sources) == {("ann", "c2"): (1, 0)}


def test_nothing_carries_without_a_source_or_into_an_empty_pool() -> None:
    assert carried(ROWS, [answer(ROWS[0], 2)]) == {}
    nobody = methods.carried(
        asked(*ROWS).clear(), pl.DataFrame([answer(ROWS[0], 2)], schema=ANSWER), sources=[Source(1, RUBRIC)],
        relevant_from=1,
    )  # fmt: skip
    assert nobody.is_empty() and nobody.columns == list(methods.CARRIED)


def test_every_carried_grade_is_an_answer_to_the_very_same_row_by_law() -> None:
    """P44 on 60 random pools with random changes: what carries is exactly what a loop over digests finds."""
    chance = random.Random(44)  # noqa: S311
    for _ in range(60):
        rows = [seen(f"q{q}", f"c{c}", text=chance.choice("ab")) for q, c in product(range(3), range(4))]
        earlier = {
            (n, r["query_id"], r["chunk_id"]): answer(r | {"text": chance.choice("ab")}, chance.randint(0, 2), round_=n)
            for n in (1, 2)
            for r in rows
            if chance.random() < 0.7
        }
        expected = {}
        for row in rows:
            wanted = row_digest(row["query"], row["intent"], row["header"], row["text"], RUBRIC)
            for n in (1, 2):
                given = earlier.get((n, row["query_id"], row["chunk_id"]))
                if given and given["row_digest"] == wanted:
                    expected[row["query_id"], row["chunk_id"]] = (n, given["grade"])
        sources = [Source(2, RUBRIC), Source(1, RUBRIC)]
        answers = chance.sample(list(earlier.values()), len(earlier))
        found = methods.carried(asked(*rows), pl.DataFrame(answers, schema=ANSWER), sources=sources, relevant_from=1)
        assert {(q, c): (n, g) for q, c, n, g in found.select(*PAIR, "from_round", "grade").rows()} == expected


def pairs(n: int) -> pl.DataFrame:
    return pl.DataFrame([(f"q{i % 10}", f"c{i}") for i in range(n)], schema=PAIR, orient="row")


@pytest.mark.parametrize(("percent", "size"), [(0, 0), (20, 21), (100, 101)])
def test_rerated_share_is_exact_and_by_hash(percent: int, size: int) -> None:
    """P43: 20% rounded up, the same for any order of rows, another choice in another round."""
    given = pairs(101)
    found = methods.rerated(given, percent=percent, seed="7", round=2)
    assert found.height == size and found.join(given, on=PAIR, how="anti").is_empty()
    assert found.equals(methods.rerated(given.reverse(), percent=percent, seed="7", round=2))
    other = methods.rerated(given, percent=percent, seed="7", round=3)
    assert percent != 20 or not found.equals(other)


def test_rerated_is_spread_evenly_whatever_the_grade() -> None:
    """P43: over 40 rounds each pair is given again about as often as any other."""
    given = pairs(50)
    counts = pl.concat([methods.rerated(given, percent=20, seed="7", round=n) for n in range(40)]).group_by(PAIR).len()
    assert counts.height == 50 and counts["len"].max() <= 20


def test_rerated_of_affected_strata_alone() -> None:
    """P43: an embedding change gives again what lies in strata with a new pair."""
    rows = asked(seen("q1", "c1"), seen("q1", "c2"), seen("q2", "c1"), seen("q3", "c1"))
    strata = pl.DataFrame({"query_id": ["q1", "q2", "q3"], "stratum": ["head", "head", "tail"]})
    held = rows.filter(~((pl.col("query_id") == "q1") & (pl.col("chunk_id") == "c2")))
    assert methods.affected(rows, held, strata) == {"q1", "q2"}
    assert methods.affected(rows, rows, strata) == set()
    again = methods.rerated(held, percent=100, seed="7", round=2, queries={"q1", "q2"})
    assert again.rows() == [("q1", "c1"), ("q2", "c1")]


# limited regrade


def audited(counts: dict[tuple[int, int], int]) -> pl.DataFrame:
    rows = [(f"q{i % 5}", a, b) for (a, b), n in counts.items() for i in range(n)]
    return pl.DataFrame(rows, schema=["query_id", "grade", "audit_grade"], orient="row")


ONE_TWO = {(0, 0): 60, (1, 1): 4, (2, 2): 6, (1, 2): 10, (2, 1): 8, (0, 1): 1}


@pytest.mark.parametrize(
    ("unmet", "counts", "says"),
    [
        (["weighted_kappa"], ONE_TWO, None),
        (["weighted_kappa", "disagreement"], ONE_TWO, None),
        (["weighted_kappa", "binary_kappa"], ONE_TWO, "gate binary_kappa"),
        (["weighted_kappa", "two_step"], ONE_TWO, "gate two_step"),
        (["disagreement"], ONE_TWO, "gate weighted_kappa"),
        (["weighted_kappa"], {(0, 0): 20, (1, 0): 12, (2, 1): 1, (2, 2): 4}, "weighted kappa, with relevant"),
        (["weighted_kappa"], {(0, 0): 20}, "weighted kappa, with relevant"),
    ],
)
def test_limited_regrade_only_where_one_against_two_is_in_doubt(
    unmet: list[str], counts: dict[tuple[int, int], int], says: str | None
) -> None:
    """P30: binary passed, weighted failed, and on 1 against 2."""
    faults = against(unmet, audited(counts), labels=[0, 1, 2], relevant_from=1, threshold=0.75)
    assert (not faults) if says is None else says in faults[0].where
