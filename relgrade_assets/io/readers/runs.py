"""Runs: an arm's ranked results from a file alone (P15), as one ranking. Sample and corpus meet it in `matching`.

Every row of formats.md's table of runs is a refusal with its line or a counted notice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.io.readers import Read
from relgrade_assets.io.readers.columns import column_faults, other_blanks, split_columns
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.readers.ids import odd, odd_id_faults, only_nfc_equal
from relgrade_assets.io.readers.matching import match_run
from relgrade_assets.io.readers.records import Column, collect_records, format_of
from relgrade_assets.io.readers.slow_records import FLOAT, comma_mend
from relgrade_assets.io.text import read_text

__all__ = ["match_run", "read_run"]

TREC = "query id, Q0, chunk id, rank, score, tag"
TIES = "results share their score with another of their query; the higher chunk id stands first"


def read_run(
    path: Path,
    *,
    name: str,
    format: Literal["trec", "jsonl", "csv", "parquet"] | None = None,
    score_order: Literal["descending", "ascending"] = "descending",
    order: Literal["by_score", "as_listed"] = "by_score",
    duplicates: Literal["refuse", "keep_first"] = "refuse",
    extra_columns: Literal["refuse", "ignore"] = "refuse",
    inside: Path | None = None,
) -> Read:
    """A run as query_id, chunk_id (String), rank (Int64, from 1) and score (Float64); queries as they first appear.

    The rank is ours: score descending, then chunk id descending by UTF-8 bytes (trec_eval's order); with `as_listed`
    the file's order. Where lower scores are better (`ascending`) the score is negated, so that higher is better in
    every frame. The format is the one given or the ending's, TREC otherwise. `extra_columns="ignore"` takes a TREC
    line's first six, as trec_eval does.

    Raises Refused with every fault and Missing where there is no file. Notices: byte_order_mark, crlf, blank_lines,
    comment_lines, extra_columns, column_2_not_q0, ranks_from_zero, ranks_not_numbers, rank_disagrees,
    duplicates_dropped, tied_scores, nfc_equal_ids.
    """
    if format_of(name, format, "trec") == "trec":
        frame, notices = _trec(path, name, extra_columns == "ignore", inside)
        unit = "line"
    else:
        frame, notices, unit = _records(path, name, format_of(name, format), inside)
    if score_order == "ascending":
        frame = frame.with_columns(score=-pl.col("score"))
    # -0.0 and 0.0 are equal scores; with one sign they tie in every later reading too. (Polars drops a `+ 0.0`.)
    frame = _with_groups(frame.with_columns(score=pl.when(pl.col("score") == 0).then(0.0).otherwise(pl.col("score"))))
    faults = Faults(name, unit)
    by_score = order == "by_score"
    notices += _rank_column(frame, faults, by_score, score_order)
    again = _repeated(frame)
    if duplicates == "refuse":
        _duplicate_faults(frame, again, faults)
    if by_score and frame.height > 1 and frame["score"].n_unique() == 1:
        mend = "Where the lines stand in the order of their ranks, a study's arm may say `order: as_listed`."
        faults.add(
            0, f"the same score, {abs(frame['score'][0]):g}, on every {unit}", "scores that order the chunks", mend
        )
    faults.refuse()
    ranked = _sorted(frame, by_score)
    if again.height:
        ranked = _keep_first(ranked, again)
        text = f"{name}: a chunk stood again for its query; the best rank was kept"
        notices.append(Notice("duplicates_dropped", frame.height - ranked.height, text))
    if by_score:
        notices += _ties(ranked, name)
    notices += only_nfc_equal(ranked["query_id"], name) + only_nfc_equal(ranked["chunk_id"], name)
    row = pl.int_range(pl.len(), dtype=pl.Int64)
    start = pl.when(pl.col("g").ne_missing(pl.col("g").shift())).then(row).forward_fill()
    rank = (row - start + 1).alias("rank")
    return Read(ranked.select("query_id", "chunk_id", rank, "score"), tuple(notices))


def _trec(path: Path, name: str, extra: bool, inside: Path | None) -> tuple[pl.DataFrame, list[Notice]]:
    text = read_text(path, name=name, inside=inside)
    score = pl.col("c5").cast(pl.Float64, strict=False)
    split = split_columns(
        text.data,
        6,
        [
            pl.col("c1").alias("query_id"),
            pl.col("c3").alias("chunk_id"),
            pl.col("c4").cast(pl.Int64, strict=False).alias("given"),
            score.alias("score"),
            (pl.col("c2") != "Q0").alias("not_q0"),
            (~score.is_finite().fill_null(False) | pl.col("c6").is_null() | odd("c1") | odd("c3")).alias("bad"),
        ],
    )
    frame = split.frame
    faults = Faults(name)
    if not frame.height:
        faults.add(1, "nothing but blank lines and comments", f"six columns: {TREC}")
    elif frame["bad"].any() or (frame["columns"] != 6).any() or other_blanks(text.data):
        column_faults(text.data, 6, faults, what=TREC, extra=extra)
        _value_faults(text.data, faults, extra)
    faults.refuse()
    notices = [*text.notices, *split.notices(name)]
    counted: list[tuple[str, int, str]] = [
        (
            "extra_columns",
            frame.filter(pl.col("columns") > 6).height,
            "lines had more than six columns; the first six were read",
        ),
        ("column_2_not_q0", frame.filter("not_q0").height, "lines had something else than Q0 in column 2"),
        ("ranks_not_numbers", frame["given"].null_count(), "lines had no whole number as rank, which decides nothing"),
    ]
    notices += [Notice(code, n, f"{name}: {text}") for code, n, text in counted if n]
    return frame.select(pl.col("line").cast(pl.Int64), "query_id", "chunk_id", "given", "score"), notices


def _value_faults(data: bytes, faults: Faults, extra: bool) -> None:
    score = pl.col("c5").cast(pl.Float64, strict=False)
    named = [
        pl.col("c1").alias("query_id"),
        pl.col("c3").alias("chunk_id"),
        pl.col("c5").alias("text"),
        score.alias("score"),
    ]
    frame = split_columns(data, 6, named).frame.filter(pl.col("columns") >= 6 if extra else pl.col("columns") == 6)
    wrong = frame.filter(~pl.col("score").is_finite().fill_null(False))
    faults.rows(wrong, lambda r: shown(r["text"]), FLOAT, lambda r: comma_mend(r["text"]), column="column 5 (score)")
    odd_id_faults(frame, ("query_id", "chunk_id"), faults)


def _records(path: Path, name: str, format: str, inside: Path | None) -> tuple[pl.DataFrame, list[Notice], str]:
    columns = {
        "query_id": Column("query_id", "id"),
        "chunk_id": Column("chunk_id", "id"),
        "score": Column("score", "float"),
        "given": Column("rank", "int", needed=False),
    }
    read = collect_records(path, name=name, format=format, columns=columns, inside=inside)
    odd_id_faults(read.frame, ("query_id", "chunk_id"), read.faults)
    read.faults.refuse()
    return read.frame.select("line", "query_id", "chunk_id", "given", "score"), list(read.notices), read.faults.unit


def _with_groups(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `g`: queries numbered as they first appear."""
    grouped = frame.with_columns(g=pl.col("query_id").rle_id())
    runs: int = grouped["g"][-1] + 1
    if runs == grouped["query_id"].n_unique():
        return grouped
    firsts = frame.select(pl.col("query_id").unique(maintain_order=True)).with_row_index("g")
    return frame.join(firsts, on="query_id", how="left", maintain_order="left")


def _rank_column(frame: pl.DataFrame, faults: Faults, by_score: bool, score_order: str) -> list[Notice]:
    """Compares the file's ranks with its scores (or with its order), by pairs of neighbours within a query."""
    ranks = frame.select("g", "given", "score").drop_nulls("given")
    if not ranks.height:
        return []
    notices = []
    from_zero = ranks.group_by("g").agg(pl.col("given").min()).filter(pl.col("given") == 0).height
    if from_zero:
        notices.append(Notice("ranks_from_zero", from_zero, f"{faults.name}: queries whose ranks begin at 0"))
    same = pl.col("g") == pl.col("g").shift()
    rank, score = pl.col("given"), pl.col("score")
    backwards = same & (rank < rank.shift())
    if not by_score:
        ranks = ranks.sort("g", maintain_order=True)
        n = ranks.select((same & (rank <= rank.shift())).sum()).item()
        return [
            *notices,
            *_disagrees(n, f"{faults.name}: lines whose rank is not above the one before; the order listed decides"),
        ]
    if ranks.select((backwards | (pl.col("g") < pl.col("g").shift())).any()).item():
        ranks = ranks.sort("g", "given", maintain_order=True)
    later = same & (rank > rank.shift())
    found = ranks.select(
        agree=(later & (score < score.shift())).sum(),
        against=(later & (score > score.shift())).sum(),
        repeated=(same & (rank == rank.shift()) & (score != score.shift())).sum(),
    ).row(0, named=True)
    if found["against"] and not found["agree"] and not found["repeated"]:
        other = "ascending" if score_order == "descending" else "descending"
        better = "lower" if other == "ascending" else "higher"
        mend = f"Where {better} scores are better, turn their sign; a study's arm may say `score_order: {other}`."
        faults.add(
            0,
            f"scores that get worse the better the rank, in all {found['against']} pairs",
            "ranks that follow the scores",
            mend,
        )
        return notices
    n = found["against"] + found["repeated"]
    return [
        *notices,
        *_disagrees(n, f"{faults.name}: lines whose rank column disagrees with the score; the score decides"),
    ]


def _disagrees(n: int, text: str) -> list[Notice]:
    return [Notice("rank_disagrees", n, text)] if n else []


def _repeated(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows (g, chunk_id, line) whose pair stands more than once; hashes first, since there is seldom any."""
    hashes = frame.select(h=pl.col("chunk_id").hash() ^ pl.col("g").hash(1))["h"]
    few = frame.select("g", "chunk_id", "line")
    if hashes.n_unique() == frame.height:
        return few.clear()
    return few.filter(hashes.is_duplicated()).filter(pl.struct("g", "chunk_id").is_duplicated())


def _keep_first(ranked: pl.DataFrame, again: pl.DataFrame) -> pl.DataFrame:
    """`ranked` with the first row of each pair in `again` and none of its others."""
    rows = ranked.select("g", "chunk_id", "line").with_row_index("row")
    maybe = rows.join(again.select("line"), on="line", how="semi", maintain_order="left")
    later = maybe.filter(~pl.struct("g", "chunk_id").is_first_distinct())["row"]
    return ranked.filter(~rows["row"].is_in(later.implode()))


def _duplicate_faults(frame: pl.DataFrame, again: pl.DataFrame, faults: Faults) -> None:
    first = pl.col("line").min().over("g", "chunk_id")
    queries = frame.select("g", "query_id").unique("g")
    later = again.with_columns(first=first).filter(pl.col("line") > pl.col("first")).join(queries, on="g")
    faults.rows(
        later,
        lambda r: (
            f"the chunk {shown(r['chunk_id'])} again for query {shown(r['query_id'])} "
            f"(first on {faults.unit} {r['first']})"
        ),
        "each chunk once a query",
        "Take one out; a study's arm may say `duplicates: keep_first`, which keeps the best rank.",
    )


def _sorted(frame: pl.DataFrame, by_score: bool) -> pl.DataFrame:
    g, score, chunk = pl.col("g"), pl.col("score"), pl.col("chunk_id")
    same = g == g.shift()
    ahead = (score > score.shift()) | ((score == score.shift()) & (chunk > chunk.shift()))
    wrong = (g < g.shift()) | (same & ahead) if by_score else g < g.shift()
    if not frame.select(wrong.any()).item():
        return frame
    if not by_score:
        return frame.sort("g", maintain_order=True)
    return frame.sort("g", "score", "chunk_id", descending=[False, True, True], maintain_order=True)


def _ties(ranked: pl.DataFrame, name: str) -> list[Notice]:
    g, score = pl.col("g"), pl.col("score")
    tied = (g == g.shift()) & (score == score.shift())
    n = ranked.select((tied.fill_null(False) | tied.shift(-1).fill_null(False)).sum()).item()
    return [Notice("tied_scores", n, f"{name}: {TIES}")] if n else []
