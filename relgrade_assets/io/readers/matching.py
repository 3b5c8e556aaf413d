"""A run against the study's own queries and corpus (P15): what it answers, what it leaves out, what nobody knows.

Takes frames and ids, reads no file; `runs` does.
"""

from __future__ import annotations

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers import Read
from relgrade_assets.io.readers.faults import shown

FOREIGN_CHUNKS_AT_MOST = 0.01
"""Share of an arm's results whose chunk the corpus doesn't have, above which the run is refused."""
LISTED = 10
NO_PAIRS = pl.DataFrame(schema={"id": pl.String, "id_set": pl.String})


def match_run(
    run: pl.DataFrame,
    *,
    arm: str,
    name: str,
    query_ids: list[str],
    corpus_ids: pl.Series | None,
    may_be_partial: bool = False,
) -> Read:
    """The run's results for `query_ids`: arm, query_id, chunk_id, rank (from 1), score; sorted by query, rank.

    Results for other queries, and results whose chunk is not in `corpus_ids` (where given), are left out and counted.
    Ids that differ only by leading zeros are never matched. Raises Refused where no query matches, where fewer than
    half do (unless declared: `may_be_partial`), and where more than 1% of the results are of chunks that the corpus
    doesn't have.

    Notices: queries_not_in_set, queries_missing, leading_zeros, chunks_not_in_corpus.
    """
    wanted = pl.Series("query_id", query_ids, pl.String).unique()
    there = run["query_id"].unique(maintain_order=True)
    foreign = there.filter(~there.is_in(wanted.implode()))
    matched = there.len() - foreign.len()
    absent = wanted.filter(~wanted.is_in(there.implode())).sort()
    zeros = _leading_zeros(foreign, absent) if foreign.len() and absent.len() else NO_PAIRS
    if not matched:
        what = f"{name} answers none of the set's {wanted.len()} queries, for arm {arm}"
        raise Refused(what, [_nothing_matches(name, foreign, wanted, zeros)])
    if 2 * matched < wanted.len() and not may_be_partial:
        found = f"results for {matched} of {wanted.len()} queries; without any: {_some(absent)}"
        mend = "Run the arm on all of them; `relgrade score` takes it so with --partial, a study with the deviation"
        mend = f"{_hint(zeros)} {mend} `missing_arm`.".strip()
        raise Refused(f"{name}: the arm {arm} did not run", [Fault(name, found, "at least half", mend)])
    notices: list[Notice] = []
    if foreign.len():
        text = f"{name}: queries that are not in the set were left out: {_some(foreign.sort())}"
        notices.append(Notice("queries_not_in_set", foreign.len(), text))
    if zeros.height:
        notices.append(Notice("leading_zeros", zeros.height, f"{name}: {_hint(zeros)}"))
    kept = run.filter(pl.col("query_id").is_in(wanted.implode()))
    if corpus_ids is not None:
        outside = ~kept["chunk_id"].is_in(corpus_ids.unique().implode())
        notices += _foreign_chunks(kept.filter(outside), kept.height, name)
        kept = kept.filter(~outside)
        absent = wanted.filter(~wanted.is_in(kept["query_id"].unique().implode())).sort()
    if absent.len():
        notices.append(
            Notice("queries_missing", absent.len(), f"{name}: queries without a result, which score 0: {_some(absent)}")
        )
    frame = kept.sort("query_id", "rank").select(
        pl.lit(arm).alias("arm"),
        "query_id",
        "chunk_id",
        (pl.int_range(pl.len(), dtype=pl.Int64).over("query_id") + 1).alias("rank"),
        "score",
    )
    return Read(frame, tuple(notices))


def _some(ids: pl.Series) -> str:
    more = f" and {ids.len() - LISTED} more" if ids.len() > LISTED else ""
    return ", ".join(shown(i) for i in ids.head(LISTED)) + more


def _leading_zeros(foreign: pl.Series, absent: pl.Series) -> pl.DataFrame:
    """Pairs of the run's and the set's ids, neither matched, that are equal without the zeros in front of a number."""
    bare = pl.col("id").str.replace_all(r"(^|[^0-9])0+([0-9])", "${1}${2}").alias("bare")
    sides = [s.alias("id").to_frame().with_columns(bare) for s in (foreign, absent)]
    return sides[0].join(sides[1], on="bare", suffix="_set").select("id", "id_set").sort("id", "id_set")


def _hint(zeros: pl.DataFrame) -> str:
    if not zeros.height:
        return ""
    mine, theirs = zeros.row(0)
    such = f"{shown(mine)} here and {shown(theirs)} in the set"
    return f"Query ids differ only by leading zeros and were not matched, such as {such}."


def _nothing_matches(name: str, foreign: pl.Series, wanted: pl.Series, zeros: pl.DataFrame) -> Fault:
    from difflib import get_close_matches  # for refusals alone

    mends = [_hint(zeros)]
    if not zeros.height:
        near = [(i, get_close_matches(i, wanted.sort().head(5000).to_list(), 1, 0.3)) for i in foreign.head(3)]
        pairs = [f"{shown(i)} ~ {shown(n[0])}" for i, n in near if n]
        mends = [
            f"Nearest: {', '.join(pairs)}." if pairs else "No id is even near: is this the run of another collection?"
        ]
    return Fault(
        name, f"query ids such as {_some(foreign.head(3))}", f"ids such as {_some(wanted.sort().head(3))}", mends[0]
    )


def _foreign_chunks(outside: pl.DataFrame, of: int, name: str) -> list[Notice]:
    if not outside.height:
        return []
    such = ", ".join(
        f"{shown(c)} (query {shown(q)})" for q, c in outside.select("query_id", "chunk_id").head(3).iter_rows()
    )
    if outside.height > FOREIGN_CHUNKS_AT_MOST * of:
        found = f"{outside.height} of {of} results of chunks that the corpus doesn't have, such as {such}"
        mend = "The run and the corpus are of different versions, or their chunk ids are written differently."
        raise Refused(f"{name} can't be used", [Fault(name, found, "at most 1%", mend)])
    text = f"{name}: results of chunks that the corpus doesn't have were left out, such as {such}"
    return [Notice("chunks_not_in_corpus", outside.height, text)]
