"""The fast reader of runs for `relgrade score`: one streaming pass that keeps only what measures need.

It takes a run only where nothing is odd: six columns with one blank between (or Parquet's plain types), ASCII ids, a
rank column that follows the scores. For anything else it gives None, and `runs.read_run` reads, counts and refuses.
What to keep and how ranks follow from it is methods/kept_rows.py.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.io.readers.records import format_of
from relgrade_assets.io.readers.runs import TIES
from relgrade_assets.io.text import read_text
from relgrade_assets.methods.kept_rows import KeptRun, in_order, kept_and_hashes, out_of_order, pair_hash

WINDOW = 1 << 20
PEEK = 4096
NOT_PLAIN = r"^$|^[# ]|[^ -~]"
"""An id that is empty, begins with # or a blank, or holds anything but printable ASCII."""
TREC = {
    "query_id": pl.String,
    "q0": pl.String,
    "chunk_id": pl.String,
    "given": pl.Int64,
    "score": pl.Float64,
    "tag": pl.String,
}
COLUMNS = ("query_id", "chunk_id", "score", "given", "not_q0", "odd")


@dataclass(frozen=True, slots=True)
class _Scan:
    """A lazy run with COLUMNS; and for TREC, the blanks and line ends in the file, and whether it ends in one."""

    rows: pl.LazyFrame
    blanks: int | None = None
    ends: bool = True


def hashed(qrels: pl.DataFrame) -> pl.DataFrame:
    """`qrels` [query_id, chunk_id, grade] with the hash of each pair, as `sift_run` wants them."""
    return qrels.select("query_id", "chunk_id", "grade", hash=pair_hash())


def sift_run(path: Path, *, name: str, qrels: pl.DataFrame) -> tuple[KeptRun, tuple[Notice, ...]] | None:
    """What measures need of a run, equal to what `read_run` gives, or None where that one must read it.

    `qrels` is `hashed`. Notices are `read_run`'s: column_2_not_q0, ranks_from_zero, tied_scores. Raises Refused where
    an archive can't be unpacked.
    """
    format = format_of(name, None, "trec")
    if format not in ("trec", "parquet") or not path.is_file():
        return None
    try:
        scan = _parquet(path) if format == "parquet" else _trec(path, name)
        return None if scan is None else _sifted(scan, name, qrels)
    except pl.exceptions.PolarsError:
        return None


def _sifted(scan: _Scan, name: str, qrels: pl.DataFrame) -> tuple[KeptRun, tuple[Notice, ...]] | None:
    run, lines, not_q0 = None, 0, 0
    scattered = _scattered(scan.rows)
    if not scattered:
        plans = kept_and_hashes(scan.rows.select(*COLUMNS).with_row_index("row"), qrels["hash"])
        kept, all_rows = pl.collect_all(plans, engine="streaming")
        lines, not_q0, scattered = all_rows.height, int(all_rows["not_q0"].sum()), not kept["odd"].any()
        run = in_order(kept, all_rows["hash"], qrels)
        del kept, all_rows
    if run is None and scattered:
        whole = _whole(scan.rows, qrels["hash"])
        lines, not_q0, run = whole.height, int(whole["not_q0"].sum()), out_of_order(whole, qrels)
    if run is None or (scan.blanks is not None and scan.blanks != 6 * lines - (not scan.ends)):
        return None
    told = [
        ("column_2_not_q0", not_q0, "lines had something else than Q0 in column 2"),
        ("ranks_from_zero", run.from_zero, "queries whose ranks begin at 0"),
        ("tied_scores", run.tied, TIES),
    ]
    return run, tuple(Notice(code, n, f"{name}: {text}") for code, n, text in told if n)


def _scattered(rows: pl.LazyFrame) -> bool:
    """Whether the first lines' queries come and go, so that looking for query starts would keep everything."""
    first = rows.select("query_id").head(PEEK).collect()["query_id"]
    return first.rle_id().n_unique() > 2 * first.n_unique()


def _whole(rows: pl.LazyFrame, judged: pl.Series) -> pl.DataFrame:
    marked = rows.select(*COLUMNS, hash=pair_hash()).with_columns(hit=pl.col("hash").is_in(judged.implode()))
    query = pl.col("query_id").cast(pl.Categorical).alias("query")
    return marked.select(query, "chunk_id", "score", "given", "hash", "hit", "not_q0", "odd").collect(
        engine="streaming"
    )


def _trec(path: Path, name: str) -> _Scan | None:
    source: Path | bytes = path
    if path.suffix.lower() in (".gz", ".zst"):
        text = read_text(path, name=name)
        if text.notices:
            return None
        source = text.data
    seen = _blanks(source)
    if seen is None:
        return None
    total, ends, tabs = seen
    separator = "\t" if tabs else " "
    whole = pl.scan_csv(source, separator=separator, has_header=False, quote_char=None, schema=TREC)
    return _Scan(
        whole.with_columns(not_q0=pl.col("q0") != "Q0", odd=pl.any_horizontal(pl.all().is_null())), total, ends
    )


def _blanks(source: Path | bytes) -> tuple[int, bool, bool] | None:
    """How many blanks and line ends there are, whether the last byte is one, and whether the first line has tabs; None
    where a byte is odd.

    Control characters count as blanks here, so that a file of n lines with six columns and nothing odd has 6 n.
    """
    total, last, tabs = 0, b"\n", None
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb", buffering=0) as file:
        window = bytearray(WINDOW)
        view = memoryview(window)
        signed = np.frombuffer(window, dtype=np.int8)
        while size := file.readinto(view):
            if window.find(b"\x7f", 0, size) >= 0 or window.find(b"\n", 0, size) < 0:
                return None
            if window.find(b"#", 0, size) >= 0 and re.search(rb"[\n\t ]#", last + window[:size]):
                return None
            if tabs is None:
                tabs = window.find(b"\t", 0, window.find(b"\n", 0, size)) >= 0
            total += int(np.count_nonzero(signed[:size] < 33))
            last = bytes(window[size - 1 : size])
    return total, last == b"\n", bool(tabs)


def _parquet(path: Path) -> _Scan | None:
    """Parquet whose columns have their plain types already."""
    scan = pl.scan_parquet(path, use_statistics=False)
    schema = scan.collect_schema()
    plain = {"query_id": pl.String, "chunk_id": pl.String, "score": pl.Float64}
    if any(schema.get(column) != dtype for column, dtype in plain.items()):
        return None
    rank = schema.get("rank")
    if rank is not None and not rank.is_integer():
        return None
    given = pl.lit(None, dtype=pl.Int64) if rank is None else pl.col("rank").cast(pl.Int64)
    odd_ids = [pl.col(column).str.contains(NOT_PLAIN) for column in ("query_id", "chunk_id")]
    rows = scan.select(*plain, given=given).with_columns(
        not_q0=False,
        odd=pl.any_horizontal(pl.col(*plain).is_null(), *odd_ids, *([pl.col("given").is_null()] if rank else [])),
    )
    return _Scan(rows)
