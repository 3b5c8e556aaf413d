"""From the ledger's answers to complete grades, and from several graders' grades to the key's (P19, P30).

Completeness, combination and who takes which query belong here. Checking an answer's form is the ledger's door.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from math import floor
from typing import Literal

import polars as pl

from relgrade_assets.errors import Fault, Refused, Waiting
from relgrade_assets.protocol.canonical import hash_key

PAIR = ("query_id", "chunk_id")
COLUMNS = (
    *("round", "grader", *PAIR, "reason", "grade", "unrateable", "corpus_cleanup", "position", "answered_at"),
    "from_round",
)


def complete(sheets: pl.DataFrame, answers: pl.DataFrame, *, who: Sequence[str]) -> pl.DataFrame | Waiting:
    """P19: the Grades table of the graders in `who`, in sheet order; or how many pairs each still owes.

    `answers` is the ledger's current view: round, grader, query_id, chunk_id, reason, grade (null where unrateable),
    unrateable, judge_later, corpus_cleanup, row_digest, answered_at. An answer counts only for the bytes it was given
    for; one kept for later is open. An absent answer is never a grade.

    Raises Refused: two current answers to a row; an answer with neither a grade nor `unrateable`, or with both.
    """
    asked = sheets.filter(pl.col("grader").is_in(list(who)))
    key = ["round", "grader", *PAIR]
    given = answers.join(asked.select(key), on=key, how="semi")
    _refuse_ambiguous(given, key)
    wanted = (*key, "row_digest", "reason", "grade", "unrateable", "judge_later", "corpus_cleanup", "answered_at")
    joined = asked.select(*key, "position", "row_digest").join(
        given.select(wanted), on=key, how="left", suffix="_answered", maintain_order="left", validate="1:1"
    )
    answered = pl.col("row_digest_answered").is_not_null()
    same = answered & (pl.col("row_digest_answered") == pl.col("row_digest"))
    rows = joined.with_columns(
        kept=(same & pl.col("judge_later")).fill_null(False),
        other=(answered & ~same).fill_null(False),
        done=(same & ~pl.col("judge_later")).fill_null(False),
    )
    if not rows["done"].all():
        return _owed(rows, who)
    return rows.select(
        "round", "grader", *PAIR, pl.col("reason").cast(pl.String), pl.col("grade").cast(pl.Int64),
        "unrateable", "corpus_cleanup", "position", "answered_at", pl.col("round").alias("from_round"),
    )  # fmt: skip


def with_carried(grades: pl.DataFrame, carried: pl.DataFrame, *, round: int) -> pl.DataFrame:
    """P44: the Grades table of a round, with the grades it carries (carry_over.CARRIED) after those it gave. They have
    no place in an order, and keep the round they were given in.
    """
    rows = carried.with_columns(round=pl.lit(round, pl.Int64), position=pl.lit(None, pl.Int64))
    return pl.concat([grades, rows.select(COLUMNS)])


def combine(grades: pl.DataFrame, *, order: Sequence[str], rule: Literal["first_listed", "median_low"]) -> pl.DataFrame:
    """P30: one grade a pair: query_id, chunk_id, grade, unrateable, reason; sorted by pair.

    `first_listed`: the grade of the first in `order` who gave one. `median_low`: the lower median of all grades given,
    with the reason of the first in `order` who gave it. Unrateable is no grade (P19): a pair is unrateable where nobody
    graded it, with the first listed's reason.

    Raises Refused: grades by somebody who is not in `order`.
    """
    strangers = sorted(set(grades["grader"]) - set(order))
    if strangers:
        raise Refused(
            "Grades come from graders whose grades are not the key",
            [Fault("grades", f"grader {g!r}", f"one of {', '.join(order)}") for g in strangers],
        )
    place = {g: i for i, g in enumerate(order)}
    ranked = grades.with_columns(
        place=pl.col("grader").replace_strict(place, return_dtype=pl.Int64), rated=pl.col("grade").is_not_null()
    ).sort(*PAIR, "place")
    if rule == "first_listed":
        chosen = ranked.sort(*PAIR, "rated", "place", descending=[False, False, True, False])
    else:
        by_grade = ranked.filter("rated").sort(*PAIR, "grade", "place")
        middle = by_grade.with_columns(at=pl.int_range(pl.len()).over(PAIR), n=pl.len().over(PAIR)).filter(
            pl.col("at") == (pl.col("n") - 1) // 2
        )
        medians = middle.select(*PAIR, median="grade")
        joined = ranked.join(medians, on=PAIR, how="left", maintain_order="left").with_columns(
            is_it=(pl.col("grade") == pl.col("median")).fill_null(False)
        )
        chosen = joined.sort(*PAIR, "is_it", "place", descending=[False, False, True, False])
    first = chosen.unique(PAIR, keep="first", maintain_order=True).sort(PAIR)
    return first.select(*PAIR, "grade", unrateable=pl.col("grade").is_null(), reason="reason")


def share_of_queries(
    query_ids: Collection[str], *, seed: str, graders: Sequence[tuple[str, Literal["all"] | float]]
) -> dict[str, frozenset[str]]:
    """P30: the queries each grader takes, by hash and so that shares which sum to 1 leave none out.

    Queries stand on a circle in hash order; graders with a share take arcs of that length one after another, each
    beginning where the one before ended. Arcs that sum to 1 meet without overlap, arcs that sum to more share what runs
    past the start. Every arc has at least one query.

    Raises Refused: some query is taken by nobody.
    """
    circle = sorted(set(query_ids), key=lambda i: (hash_key("takes", seed, i), i))
    n, end, total = len(circle), 0, Fraction(0)
    takes: dict[str, frozenset[str]] = {}
    for grader, share in graders:
        if share == "all":
            takes[grader] = frozenset(circle)
            continue
        start, total = end, total + Fraction(str(share))
        end = floor(total * n + Fraction(1, 2))
        takes[grader] = frozenset(circle[i % n] for i in range(start, max(end, start + 1))) if n else frozenset()
    left = set(circle).difference(*takes.values())
    if left:
        shares = ", ".join(f"{g} {s}" for g, s in graders)
        raise Refused(
            "Graders do not cover the queries",
            [
                Fault(
                    "graders, takes",
                    f"{len(left)} of {n} queries that nobody takes ({shares})",
                    "shares that sum to 1 or more, or a grader who takes all",
                )
            ],
        )
    return takes


def _refuse_ambiguous(given: pl.DataFrame, key: list[str]) -> None:
    faults = [
        Fault(f"answer of {g} to {q} {c}, round {r}", f"{n} current answers", "one")
        for r, g, q, c, n in given.group_by(key).agg(pl.len()).filter(pl.col("len") > 1).sort(key).rows()
    ]
    settled = given.filter(~pl.col("judge_later") & (pl.col("grade").is_null() != pl.col("unrateable"))).sort(key)
    faults += [
        Fault(
            f"answer of {g} to {q} {c}, round {r}",
            f"grade {grade} and unrateable {flag}",
            "a grade, or unrateable and no grade",
        )
        for r, g, q, c, grade, flag in settled.select(*key, "grade", "unrateable").rows()
    ]
    if faults:
        raise Refused("The ledger's answers can't be used", faults)


def _owed(rows: pl.DataFrame, who: Sequence[str]) -> Waiting:
    items = []
    for grader in who:
        own = rows.filter(pl.col("grader") == grader)
        done, kept, other = (int(own[c].sum()) for c in ("done", "kept", "other"))
        if done < own.height:
            notes = [f"{kept} kept for later"] * (kept > 0) + [f"{other} answered for other text"] * (other > 0)
            said = f"by {grader}" + (f" with {' and '.join(notes)}" if notes else "")
            items.append((said, f"{done} of {own.height} {said}"))
    done, of = int(rows["done"].sum()), rows.height
    if len(who) == 1:
        return Waiting(f"pairs graded {items[0][0]}", done, of)
    return Waiting("pairs graded", done, of, tuple(item for _, item in items))
