"""Lines of columns split on ASCII blanks, as TREC writes them: runs and qrels.

Two ways to the same frame: one CSV scan where every line has exactly one blank (or tab) between columns, and a slower
one, line by line in Polars, for runs of blanks, blank lines and comments. What the columns mean is the reader's
business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.io.readers.faults import Faults, shown

RUNS_OF_BLANKS = r"[ \t]+"
OTHER_BLANKS = (b"\r", b"\v", b"\f")


@dataclass(frozen=True, slots=True)
class Columns:
    """`frame` has `line` (1-based, UInt32), `columns` (how many stood there; UInt32) and what was selected."""

    frame: pl.DataFrame
    blank: int
    comments: int
    clean: bool

    def notices(self, name: str) -> list[Notice]:
        """Blank lines and comments that were passed over."""
        found = [
            ("blank_lines", self.blank, "blank lines were passed over"),
            ("comment_lines", self.comments, "lines beginning with # were passed over"),
        ]
        return [Notice(code, n, f"{name}: {text}") for code, n, text in found if n]


def split_columns(data: bytes, width: int, select: Sequence[pl.Expr]) -> Columns:
    """Splits every line into c1 ... c`width` (null where short) and evaluates `select` on them in the same pass."""
    fast = _one_scan(data, width, select)
    return _by_line(data, width, select) if fast is None else fast


def _one_scan(data: bytes, width: int, select: Sequence[pl.Expr]) -> Columns | None:
    tabs, blanks = b"\t" in data, b" " in data
    if tabs == blanks or data.startswith(b"#") or b"\n#" in data or other_blanks(data):
        return None
    names = [f"c{i}" for i in range(1, width + 1)]
    scan = pl.scan_csv(
        data,
        separator="\t" if tabs else " ",
        has_header=False,
        quote_char=None,
        schema=dict.fromkeys(names, pl.String),
        row_index_name="line",
        row_index_offset=1,
    )
    whole = pl.all_horizontal(pl.col(names).is_not_null())
    try:
        frame = scan.select(
            "line", pl.lit(width, dtype=pl.UInt32).alias("columns"), *select, whole.alias("whole")
        ).collect(engine="streaming")
    except pl.exceptions.PolarsError:
        return None
    if not frame["whole"].all():
        return None
    return Columns(frame.drop("whole"), 0, 0, True)


def _by_line(data: bytes, width: int, select: Sequence[pl.Expr]) -> Columns:
    lines = pl.scan_lines(data, name="raw", row_index_name="line", row_index_offset=1)
    marked = lines.with_columns(
        comment=pl.col("raw").str.starts_with("#"),
        text=pl.col("raw").str.replace_all(RUNS_OF_BLANKS, " ").str.strip_chars(" "),
    ).with_columns(blank=pl.col("text") == "")
    counts = marked.select(pl.col("comment").sum(), (pl.col("blank") & ~pl.col("comment")).sum()).collect()
    parts = pl.col("text").str.splitn(" ", width + 1).struct.rename_fields([f"c{i}" for i in range(1, width + 2)])
    frame = (
        marked.filter(~pl.col("comment") & ~pl.col("blank"))
        .select(
            "line", (pl.col("text").str.count_matches(" ", literal=True) + 1).alias("columns"), parts.alias("parts")
        )
        .unnest("parts")
        .select("line", "columns", *select)
        .collect()
    )
    return Columns(frame, counts["blank"][0], counts["comment"][0], False)


def other_blanks(data: bytes) -> bool:
    """Whether a blank stands anywhere that would separate columns for others, and does not here."""
    return any(c in data for c in OTHER_BLANKS)


def column_faults(data: bytes, width: int, faults: Faults, *, what: str, extra: bool = False) -> None:
    """Adds a fault for every line that has not `width` columns (more pass where `extra`) or holds another blank."""
    first = pl.concat_str([f"c{i}" for i in range(1, width + 2)], separator=" ", ignore_nulls=True).alias("text")
    frame = _by_line(data, width, [first]).frame
    wrong = pl.col("columns") < width if extra else pl.col("columns") != width
    expected = f"{width} columns: {what}"
    faults.rows(
        frame.filter(wrong),
        lambda r: f"{r['columns']} columns ({shown(r['text'])})",
        expected,
        lambda r: "Ids hold no blanks here." if r["columns"] > width else "",
    )
    if other_blanks(data):
        odd = frame.filter(pl.col("text").str.contains("[\r\x0b\x0c]"))
        faults.rows(
            odd,
            lambda r: f"a carriage return, vertical tab or form feed ({shown(r['text'])})",
            "blanks and tabs between columns",
        )
