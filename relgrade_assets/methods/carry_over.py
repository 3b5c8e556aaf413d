"""Which grades of earlier rounds count in a new one, and which of those are given again to measure drift (P30, P43,
P44).

From texts as they stand and answers of earlier rounds to carried grades. Which earlier rounds may be asked is the
event log's to say. Nothing of arms comes in, so that what is carried tells nobody anything of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import polars as pl

from relgrade_assets.methods.sheets import row_digest
from relgrade_assets.protocol.canonical import hash_key

PAIR = ["query_id", "chunk_id"]
CARRIED: dict[str, pl.DataType | type[pl.DataType]] = {
    "grader": pl.String,
    "query_id": pl.String,
    "chunk_id": pl.String,
    "from_round": pl.Int64,
    "reason": pl.String,
    "grade": pl.Int64,
    "unrateable": pl.Boolean,
    "corpus_cleanup": pl.Boolean,
    "answered_at": pl.String,
}
"""Columns of a frame of carried grades."""


@dataclass(frozen=True, slots=True)
class Source:
    """An earlier round whose answers may count: its number, the digest of the rubric it was graded under, and whether
    only what was not relevant there may (P30's limited regrade).
    """

    round: int
    rubric_digest: str
    only_not_relevant: bool = False


def asked(contents: pl.DataFrame, takes: Mapping[str, Collection[str]]) -> pl.DataFrame:
    """Every (grader, pair) that the pool asks for, with what the grader would see: `contents` (the columns of
    sheets.BLIND) once for each grader who takes the query.
    """
    parts = [
        contents.filter(pl.col("query_id").is_in(sorted(queries))).select(pl.lit(grader).alias("grader"), pl.all())
        for grader, queries in takes.items()
    ]
    return pl.concat(parts)


def carried(
    asked: pl.DataFrame, answers: pl.DataFrame, *, sources: Sequence[Source], relevant_from: int
) -> pl.DataFrame:
    """P44: the grades that count without being given again, as CARRIED, sorted by grader, query and chunk.

    `asked` is `asked`'s frame; `answers` the ledger's current ones of the rounds in `sources`, which come latest first.
    An answer counts for its grader and pair where the row digest is that of query, intent, header and text as they
    stand and of the rubric of its round; whether that rubric is the present one is decided by who names the sources.
    The latest such answer holds. From a round that is only asked for what was not relevant (P30), a pair is carried
    where no grader found it relevant, and its grades keep their round. What was put off is no grade.
    """
    if not sources or asked.is_empty():
        return pl.DataFrame(schema=CARRIED)
    settled = answers.filter(~pl.col("judge_later"))
    place = pl.DataFrame(
        [(s.round, i, s.only_not_relevant, s.rubric_digest) for i, s in enumerate(sources)],
        schema={"round": pl.Int64, "place": pl.Int64, "limited": pl.Boolean, "rubric": pl.String},
        orient="row",
    )
    seen = asked.select(*PAIR, "query", "intent", "header", "text").unique(PAIR).sort(PAIR)
    digests = pl.concat(
        [
            seen.select(
                *PAIR,
                rubric=pl.lit(rubric),
                row_digest=pl.Series(
                    [row_digest(q, i, h, t, rubric) for q, i, h, t in seen.drop(PAIR).rows()], dtype=pl.String
                ),
            )
            for rubric in sorted({s.rubric_digest for s in sources})
        ]
    )
    held = (
        settled.join(place, on="round", how="inner")
        .join(asked.select("grader", *PAIR), on=["grader", *PAIR], how="semi")
        .join(digests, on=[*PAIR, "rubric", "row_digest"], how="semi")
        .sort("grader", *PAIR, "place")
        .unique(["grader", *PAIR], keep="first", maintain_order=True)
    )
    spoilt = held.filter(pl.col("limited") & (pl.col("grade") >= relevant_from)).select(PAIR)
    kept = held.filter(~pl.col("limited")).vstack(held.filter("limited").join(spoilt, on=PAIR, how="anti"))
    named = kept.rename({"round": "from_round"}).select(pl.col(n).cast(t) for n, t in CARRIED.items())
    return named.sort("grader", *PAIR)


def pairs_by_round(frame: pl.DataFrame) -> dict[int, int]:
    """Pairs by the round that their grades come from, oldest first; `frame` has PAIR and from_round."""
    pairs = frame.select(*PAIR, "from_round").unique()
    return dict(pairs.group_by("from_round").len().sort("from_round").iter_rows())


def rerated(
    carried: pl.DataFrame, *, percent: int, seed: str, round: int, queries: Collection[str] | None = None
) -> pl.DataFrame:
    """P43: the pairs [query_id, chunk_id] of `carried` that are given again all the same, sorted.

    `percent` of the carried pairs (of `queries` alone, where given), rounded up: those with the lowest hash of
    ["rerate", seed, round, query, chunk], so that neither grade, arm nor anybody's wish has a say.
    """
    pairs = carried.select(PAIR).unique().sort(PAIR)
    if queries is not None:
        pairs = pairs.filter(pl.col("query_id").is_in(sorted(queries)))
    size = ceil(Fraction(percent, 100) * pairs.height)
    ranked = sorted(pairs.rows(), key=lambda p: hash_key("rerate", seed, str(round), *p))[:size]
    return pl.DataFrame(ranked, schema=dict.fromkeys(PAIR, pl.String), orient="row").sort(PAIR)


def affected(asked: pl.DataFrame, carried: pl.DataFrame, strata: pl.DataFrame) -> set[str]:
    """P43: the queries of every stratum in which some asked pair is not carried. `strata` has query_id, stratum."""
    new = asked.select(PAIR).unique().join(carried, on=PAIR, how="anti").join(strata, on="query_id", how="inner")
    touched = strata.filter(pl.col("stratum").is_in(new["stratum"].unique().implode()))
    return set(touched["query_id"])
