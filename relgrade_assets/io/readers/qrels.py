"""Qrels as others write them: TREC's four columns and BEIR's TSV, for `relgrade score` and imports.

Our own rows (P19) are `judgments`' work.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.io.readers import Read
from relgrade_assets.io.readers.columns import Columns, column_faults, other_blanks, split_columns
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.readers.ids import odd, odd_id_faults, only_nfc_equal
from relgrade_assets.io.text import Text, read_text

TREC = "query id, group (0), chunk id, grade"
BEIR = ("query-id", "corpus-id", "score")
POOLED = -1
"""In qrels: pooled and not graded. Ours for unrateable."""


def read_qrels(
    path: Path,
    *,
    name: str,
    form: Literal["trec", "beir"] | None = None,
    top_grade: int | None = None,
    negatives: Mapping[int, int] | None = None,
    inside: Path | None = None,
) -> Read:
    """Qrels as query_id, group (column 2; empty for BEIR), chunk_id (String) and grade (Int64), in the file's order.

    -1 (pooled, no grade) is kept apart from 0; any other negative grade is refused unless `negatives` says what it
    means. Grades above `top_grade`, where given, are refused. The form is BEIR's where the first line is its header.
    Raises Refused with every fault. Notices: byte_order_mark, crlf, blank_lines, comment_lines, pooled_without_grade,
    negatives_mapped, repeated_pairs, judge_groups, nfc_equal_ids.
    """
    text = read_text(path, name=name, inside=inside)
    return qrels_of(text, name=name, form=form, top_grade=top_grade, negatives=negatives)


def qrels_of(
    text: Text,
    *,
    name: str,
    form: Literal["trec", "beir"] | None = None,
    top_grade: int | None = None,
    negatives: Mapping[int, int] | None = None,
) -> Read:
    """`read_qrels`, of a file that is read already."""
    faults = Faults(name)
    if form == "beir" or (form is None and _first_line(text.data).split("\t")[:3] == list(BEIR)):
        split = _beir(text, faults)
    else:
        split = _trec(text, faults)
    frame = split.frame
    if not frame.height and not faults.total:
        faults.add(1, "no judgment", f"lines of {TREC}")
    faults.refuse()
    mapping = dict(negatives or {})
    off = (pl.col("given") < POOLED) & ~pl.col("given").is_in(list(mapping)) if mapping else pl.col("given") < POOLED
    mend = "Say what it means: `negatives` maps it to a grade."
    expected = "a grade from 0, or -1 for pooled without one"
    faults.rows(frame.filter(off), lambda r: f"the grade {r['given']}", expected, mend, column="grade")
    frame = frame.with_columns(grade=pl.col("given").replace(mapping) if mapping else pl.col("given"))
    if top_grade is not None:
        high = frame.filter(pl.col("grade") > top_grade)
        faults.rows(high, lambda r: f"the grade {r['grade']}", f"a grade up to {top_grade}", column="grade")
    frame, repeated = _once(frame, faults)
    faults.refuse()
    counted = [
        (
            "pooled_without_grade",
            frame.filter(pl.col("grade") == POOLED).height,
            "pairs were pooled without a grade (-1)",
        ),
        (
            "negatives_mapped",
            frame.filter(pl.col("given") != pl.col("grade")).height,
            "negative grades were mapped as declared",
        ),
        ("repeated_pairs", repeated, "lines repeated a pair with the same grade"),
    ]
    groups = 1 if (frame["group"] == frame["group"][0]).all() else frame["group"].n_unique()
    if groups > 1:
        counted.append(("judge_groups", groups, "groups of judgments stand in column 2; they are kept apart"))
    notices = [*text.notices, *split.notices(name), *[Notice(code, n, f"{name}: {t}") for code, n, t in counted if n]]
    notices += only_nfc_equal(frame["query_id"], name) + only_nfc_equal(frame["chunk_id"], name)
    return Read(frame.select("query_id", "group", "chunk_id", "grade"), tuple(notices))


def _first_line(data: bytes) -> str:
    """The first line that is neither blank nor a comment, as far as the first 64 KiB go."""
    lines = data[:65536].decode(errors="ignore").split("\n")
    return next((line.rstrip() for line in lines if line.strip() and not line.startswith("#")), "")


def _trec(text: Text, faults: Faults) -> Columns:
    def columns(grade: str) -> list[pl.Expr]:
        named = [
            pl.col("c1").alias("query_id"),
            pl.col("c2").alias("group"),
            pl.col("c3").alias("chunk_id"),
            pl.col(grade).alias("text"),
        ]
        return [*named, pl.col(grade).cast(pl.Int64, strict=False).alias("given"), (odd("c1") | odd("c3")).alias("odd")]

    split = split_columns(text.data, 4, columns("c4"))
    frame = split.frame
    wrong = (frame["columns"] != 4).any() or frame["given"].null_count() or frame["odd"].any()
    if wrong or other_blanks(text.data):
        column_faults(text.data, 4, faults, what=TREC)
        _grade_faults(frame.filter(pl.col("columns") == 4), faults)
        odd_id_faults(frame.filter(pl.col("columns") == 4), ("query_id", "chunk_id"), faults)
    elif frame.height and (frame["chunk_id"] == "0").all() and frame["group"].n_unique() > 1:
        faults.add(
            frame["line"][0],
            "the chunk id 0 on every line, and ids in column 2",
            TREC,
            "Put the chunk ids into column 3.",
        )
    return split


def _grade_faults(frame: pl.DataFrame, faults: Faults) -> None:
    bad = frame.filter(pl.col("given").is_null())
    first = frame["line"].min() if frame.height else None

    def mend(row: dict[str, object]) -> str:
        header = row["line"] == first and any(c.isalpha() for c in str(row["text"]))
        return "It looks like a header row: take it off, or give `form: beir` if it is BEIR's." if header else ""

    faults.rows(bad, lambda r: f"the grade {shown(r['text'])}", "a whole number", mend, column="grade")


def _beir(text: Text, faults: Faults) -> Columns:
    lines = pl.scan_lines(text.data, name="raw", row_index_name="line", row_index_offset=1).with_columns(
        text=pl.col("raw").str.strip_chars_end(" \t"), comment=pl.col("raw").str.starts_with("#")
    )
    blank = ~pl.col("comment") & (pl.col("text") == "")
    counts = lines.select(pl.col("comment").sum(), blank.sum().alias("blank")).collect()
    rows = lines.filter(~pl.col("comment") & (pl.col("text") != ""))
    cells = pl.col("text").str.splitn("\t", 3).struct.rename_fields(["query_id", "chunk_id", "grade_text"])
    frame = (
        rows.select("line", "text", cells.alias("cells"))
        .unnest("cells")
        .select(
            "line",
            "query_id",
            pl.lit("").alias("group"),
            "chunk_id",
            (pl.col("text").str.count_matches("\t", literal=True) + 1).alias("columns"),
            "text",
            pl.col("grade_text").str.strip_chars(" ").cast(pl.Int64, strict=False).alias("given"),
            "grade_text",
        )
        .collect()
    )
    header = f"BEIR's header {' '.join(BEIR)}, separated by tabs"
    if not frame.height or frame["text"][0].split("\t") != list(BEIR):
        first = frame["line"][0] if frame.height else 1
        faults.add(first, shown(frame["text"][0]) if frame.height else "nothing", header)
        return Columns(frame.clear(), counts["blank"][0], counts["comment"][0], False)
    frame = frame.slice(1)
    wrong = frame.filter(pl.col("columns") != 3)
    faults.rows(wrong, lambda r: f"{r['columns']} columns ({shown(r['text'])})", "three columns separated by tabs")
    three = frame.filter(pl.col("columns") == 3)
    for column in ("query_id", "chunk_id"):
        nameless = three.filter(pl.col(column).str.strip_chars() == "")
        faults.rows(nameless, lambda r: "an empty id", "an id", column=column)
    _grade_faults(three.with_columns(text=pl.col("grade_text")), faults)
    odd_id_faults(three, ("query_id", "chunk_id"), faults)
    return Columns(frame, counts["blank"][0], counts["comment"][0], False)


def _once(frame: pl.DataFrame, faults: Faults) -> tuple[pl.DataFrame, int]:
    """The frame with each (query, group, chunk) once and how many lines repeated one; another grade is a fault."""
    from relgrade_assets.methods.id_words import some_equal  # brings numpy, which no other reader needs

    pair = ["query_id", "group", "chunk_id"]
    hashes = frame.select(pl.col("chunk_id").hash() ^ pl.col("query_id").hash(1) ^ pl.col("group").hash(2)).to_series()
    if not some_equal(hashes.to_numpy()):
        return frame, 0
    once = frame.unique(pair, keep="first", maintain_order=True)
    firsts = once.select(*pair, first="line", first_grade="grade")
    against = frame.join(firsts, on=pair, maintain_order="left").filter(pl.col("grade") != pl.col("first_grade"))
    faults.rows(
        against,
        lambda r: (
            f"the grade {r['grade']} for query {shown(r['query_id'])} and chunk {shown(r['chunk_id'])}, "
            f"which has {r['first_grade']} on line {r['first']}"
        ),
        "one grade a pair",
        column="grade",
    )
    return once, frame.height - once.height
