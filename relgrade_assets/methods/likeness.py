"""Whether one grader's answers are another's (P25): the same reasons word for word, or every row the same.

Independent graders agree on grades, that is what agreement measures; they don't find the same words. What becomes of
answers that are alike is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

PAIR = ["query_id", "chunk_id"]
STOCK = 3
"""A reason that one grader gave to more chunks than this is a stock phrase and tells nobody's hand."""
VERBATIM_AT_MOST = 0.2
REASONS_AT_LEAST = 5
ROWS_AT_LEAST = 20


@dataclass(frozen=True, slots=True)
class Likeness:
    """Answers that are too like those of `grader` in `round`: pairs that both answered and how many of them alike in
    grade, flags and reason; pairs with a reason of each that is no stock phrase, and how many of these word for word.
    """

    grader: str
    round: int
    pairs: int
    alike: int
    reasons: int
    verbatim: int


def likenesses(own: pl.DataFrame, others: pl.DataFrame) -> list[Likeness]:
    """The graders and rounds whose answers `own` is too like, by round and grader.

    `own`: query_id, chunk_id, reason, grade, unrateable, judge_later; `others` with round and grader besides. Too like:
    over a fifth of at least five reasons word for word, stock phrases apart; or at least 20 pairs, not all of one
    grade, without any difference.
    """
    mine = _settled(own)
    found = []
    for (round, grader), theirs in _settled(others).group_by("round", "grader", maintain_order=True):
        both = mine.join(theirs, on=PAIR, how="inner", suffix="_other")
        same_reason = pl.col("reason").eq_missing(pl.col("reason_other"))
        same = same_reason & pl.col("grade").eq_missing(pl.col("grade_other"))
        told = both.drop_nulls(["reason", "reason_other"]).filter(~pl.col("stock") & ~pl.col("stock_other"))
        verbatim = told.filter(same_reason).height
        alike = both.filter(same).height
        copied = told.height >= REASONS_AT_LEAST and verbatim > VERBATIM_AT_MOST * told.height
        equal = both.height >= ROWS_AT_LEAST and alike == both.height and both["grade"].n_unique() > 1
        if copied or equal:
            found.append(Likeness(str(grader), int(str(round)), both.height, alike, told.height, verbatim))
    return sorted(found, key=lambda one: (one.round, one.grader))


def _settled(rows: pl.DataFrame) -> pl.DataFrame:
    """Answers that count, their reasons without outer blanks and empty ones null, and whether each is a stock phrase;
    unrateable is grade -1.
    """
    reason = pl.col("reason").cast(pl.String).str.strip_chars().replace("", None)
    whose = [c for c in ("round", "grader") if c in rows.columns]
    return (
        rows.filter(~pl.col("judge_later"))
        .with_columns(reason=reason, grade=pl.when("unrateable").then(-1).otherwise(pl.col("grade").cast(pl.Int64)))
        .with_columns(stock=pl.col("chunk_id").n_unique().over([*whose, "reason"]) > STOCK)
        .select(*whose, *PAIR, "reason", "grade", "stock")
    )
