"""The fast reader of runs for `relgrade score`: one pass over slices of whole queries, a thread a core.

It takes a run only where nothing is odd: six columns with one blank between (or Parquet's plain types), ASCII ids, a
rank column that follows the scores. For anything else it gives None, and `runs.read_run` reads, counts and refuses.
Lines become arrays in trec_bytes.py; what is kept of them and how ranks follow is methods/kept_rows.py.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from io import BytesIO
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import BinaryIO, TypeVar

import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.io.parquet import BROKEN, unspoken
from relgrade_assets.io.readers.records import format_of
from relgrade_assets.io.readers.runs import TIES
from relgrade_assets.io.readers.short_ids import short_ids
from relgrade_assets.io.readers.trec_bytes import keep_memory, trec_rows
from relgrade_assets.io.text import LINE_LIMIT, read_text
from relgrade_assets.methods.hits import Ints, ints
from relgrade_assets.methods.id_words import PAD
from relgrade_assets.methods.kept_rows import (
    Judged,
    KeptRun,
    OutOfOrder,
    Rows,
    Sifted,
    all_rows,
    column_ids,
    kept,
    rank_order,
    sift,
)

WINDOW = 1 << 20
"""Bytes of a slice; more where a query is longer."""
BATCH = 1 << 16
"""Rows of a slice of Parquet, and of a run that was put into order."""
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

T = TypeVar("T")
Slice = Callable[[], tuple[Rows, int] | None]
"""Makes the rows of a slice, and how many had something else than Q0 in column 2; None where one is odd."""


def sift_run(path: Path, *, name: str, judged: Judged | None) -> tuple[KeptRun, tuple[Notice, ...]] | None:
    """What measures need of a run, equal to what `read_run` gives, or None where that one must read it.

    `judged` is `judged_of` the qrels. Notices are `read_run`'s: column_2_not_q0, ranks_from_zero, tied_scores. Raises
    Refused where an archive can't be unpacked.
    """
    format = format_of(name, None, "trec")
    if judged is None or format not in ("trec", "parquet") or not path.is_file():
        return None
    slices = partial(_parquet, path)
    if format == "trec":
        slices = partial(_trec, lambda: path.open("rb", buffering=0))
        if path.suffix.lower() in (".gz", ".zst"):
            text = read_text(path, name=name)
            if text.notices:
                return None
            slices = partial(_trec, partial(BytesIO, text.data))
    keep_memory()
    try:
        with unspoken(name):
            try:
                found = _in_order(slices(), judged)
            except OutOfOrder:
                found = _out_of_order(slices(), judged)
    except (*BROKEN, OutOfOrder):
        return None
    if found is None:
        return None
    run, not_q0 = found
    told = [
        ("column_2_not_q0", not_q0, "lines had something else than Q0 in column 2"),
        ("ranks_from_zero", run.from_zero, "queries whose ranks begin at 0"),
        ("tied_scores", run.tied, TIES),
    ]
    return run, tuple(Notice(code, n, f"{name}: {text}") for code, n, text in told if n)


def _in_order(slices: Iterator[Slice], judged: Judged) -> tuple[KeptRun, int] | None:
    """A run whose queries stand in one block each, best score first. Raises OutOfOrder for others."""

    def work(make: Slice) -> tuple[Sifted, int] | None:
        made = make()
        sifted = None if made is None else sift(made[0], judged)
        return None if made is None or sifted is None else (sifted, made[1])

    parts = in_threads(partial(work, make) for make in slices)
    run = kept([part for part, _ in parts], judged) if parts else None
    return None if run is None or parts is None else (run, sum(not_q0 for _, not_q0 in parts))


def _out_of_order(slices: Iterator[Slice], judged: Judged) -> tuple[KeptRun, int] | None:
    """A run in any order. Raises OutOfOrder where its ranks, once sorted, have rising scores."""
    parts = in_threads(slices)
    if not parts:
        return None
    rows = all_rows([part for part, _ in parts])
    ordered = rank_order(rows)
    if ordered is None:
        return None
    order, start = ordered
    cuts = [0, *(int(at) for at in start[1:]), len(rows)]
    kept_cuts = [0]
    for at in cuts[1:]:
        if at - kept_cuts[-1] >= BATCH or at == len(rows):
            kept_cuts.append(at)
    blocks = pairwise(kept_cuts)
    sifted = in_threads(partial(_sift_some, rows, order[low:high], judged) for low, high in blocks)
    run = kept(sifted, judged) if sifted else None
    return None if run is None else (run, sum(not_q0 for _, not_q0 in parts))


def _sift_some(rows: Rows, which: Ints, judged: Judged) -> Sifted | None:
    return sift(rows.take(which), judged)


def in_threads(works: Iterator[Callable[[], T | None]]) -> list[T] | None:
    """What each gives, in order, a thread a core; None as soon as one gives None."""
    done: list[T] = []
    ahead = list(islice(works, 2))
    if len(ahead) < 2:  # a small file is not worth a thread
        return [result for result in (work() for work in ahead) if result is not None] or None
    waiting: deque[Future[T | None]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for work in chain(ahead, works):
                waiting.append(pool.submit(work))
                # One waits for each that is at work, so that little is read ahead.
                if len(waiting) > 2 * THREADS and not _took(waiting, done):
                    return None
            while waiting:
                if not _took(waiting, done):
                    return None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return done


def _took(waiting: deque[Future[T | None]], done: list[T]) -> bool:
    """Moves the first result from `waiting` to `done`; False where there is none."""
    result = waiting.popleft().result()
    if result is not None:
        done.append(result)
    return result is not None


def _trec(opened: Callable[[], BinaryIO]) -> Iterator[Slice]:
    with opened() as file:
        for piece in whole_queries(file):
            yield partial(trec_rows, piece)


def whole_queries(file: BinaryIO, window: int = WINDOW) -> Iterator[memoryview]:
    """The file in pieces of about `window` bytes that end where the query changes; PAD bytes before and behind each.

    The last line ends in a line end, whether or not the file's does.
    """
    rest, size, more = b"", window, True
    while more:
        buffer = bytearray(PAD + len(rest) + size + 1 + PAD)
        view = memoryview(buffer)
        buffer[PAD : PAD + len(rest)] = rest
        end = PAD + len(rest)
        while more and end < len(buffer) - PAD - 1:
            got = file.readinto(view[end : len(buffer) - PAD - 1])  # type: ignore[attr-defined]
            more, end = bool(got), end + (got or 0)
        if not more:
            if end > PAD and buffer[end - 1] != 10:
                buffer[end] = 10
                end += 1
            cut = end
        else:
            cut = _query_change(buffer, end)
        if cut > PAD:
            yield view[: cut + PAD]
        # A query that is longer than the window is read in ever larger ones.
        rest, size = bytes(view[cut:end]), window if cut > PAD else 2 * size


def _query_change(buffer: bytearray, end: int) -> int:
    """Where the last whole line's query begins, or PAD where all lines are of that query."""
    line_end = buffer.rfind(b"\n", PAD, end)
    high = buffer.rfind(b"\n", PAD, max(line_end, PAD)) + 1
    if high <= PAD:
        return end if end - PAD > LINE_LIMIT else PAD
    query = bytes(buffer[high:line_end]).replace(b"\t", b" ").partition(b" ")[0]
    same = (query + b" ", query + b"\t")
    low = PAD
    if buffer.startswith(same, low):
        return PAD
    while True:  # the line at low is of another query, the line at high of this one
        middle = (low + high) // 2
        line = buffer.find(b"\n", middle, high - 1) + 1 or buffer.rfind(b"\n", low, middle) + 1
        if not line:
            return high
        low, high = (low, line) if buffer.startswith(same, line) else (line, high)


def _parquet(path: Path) -> Iterator[Slice]:
    """Parquet whose columns have their plain types already."""
    # One column after the other: the cores are busy with the rows that came before.
    scan = pl.scan_parquet(path, use_statistics=False, parallel="none")
    schema = scan.collect_schema()
    plain = {"query_id": pl.String, "chunk_id": pl.String, "score": pl.Float64}
    rank = schema.get("rank")
    if any(schema.get(column) != dtype for column, dtype in plain.items()) or (rank and not rank.is_integer()):
        yield lambda: None
        return
    rest = pl.DataFrame(schema={column: schema[column] for column in (*plain, *["rank"] * bool(rank))})
    seen = 0
    for batch in scan.select(rest.columns).collect_batches(maintain_order=True):
        seen += batch.height
        # Up to where the last query of the batch begins; one that fills it whole waits for what follows.
        blocks = batch["query_id"].rle().struct.field("len")
        cut = batch.height - blocks[-1] if batch.height else 0
        if cut and rest.height + cut >= BATCH:
            yield partial(_parquet_rows, pl.concat([rest, batch[:cut]]))
            rest = batch[cut:]
        else:
            rest = pl.concat([rest, batch])
    due = scan.select(pl.len()).collect().item()
    if seen != due:  # batches just end where Polars panics
        raise pl.exceptions.ComputeError(f"{seen} rows of {due}")
    if rest.height:
        yield partial(_parquet_rows, rest)


def _parquet_rows(frame: pl.DataFrame) -> tuple[Rows, int] | None:
    ranks = frame["rank"].cast(pl.Int64) if "rank" in frame.columns else None
    blocks = frame["query_id"].rle().struct.unnest()
    names, chunks = column_ids(blocks["value"], plain=True), short_ids(frame["chunk_id"])
    if chunks is None:
        chunks = column_ids(frame["chunk_id"], plain=True)
    if names is None or chunks is None or frame["score"].null_count() or (ranks is not None and ranks.null_count()):
        return None
    given = None if ranks is None else ints(ranks)
    if given is not None and given.min() < 0:
        return None
    queries = names.repeated(ints(blocks["len"]))
    return Rows(queries, chunks, frame["score"].to_numpy(), given), 0
