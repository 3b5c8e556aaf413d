"""TREC qrels as arrays, straight from their bytes: the plainest form only, as nearly all are.

One judge, whole grades from 0, every pair once, lines as in trec_bytes.py. Whatever else stands there gives None; what
it is, `qrels.read_qrels` finds out.
"""

from __future__ import annotations

from functools import partial
from io import BytesIO

import numpy as np
import polars as pl

from relgrade_assets.io.readers.sieve import in_threads, whole_queries
from relgrade_assets.io.readers.trec_bytes import keep_memory, plain_columns, whole_numbers
from relgrade_assets.methods.hits import Ints, column_of
from relgrade_assets.methods.id_words import Ids, ids_at, joined, loads_of, pair_hashes, some_equal
from relgrade_assets.methods.kept_rows import Judged, judged_rows

COLUMNS = 4


def plain_qrels(text: bytes) -> Judged | None:
    """The judgments in `text`, in its order, equal to what `read_qrels` reads; None where a line is not plain."""
    keep_memory()
    parts = in_threads(partial(_rows, piece) for piece in whole_queries(BytesIO(text)))
    if not parts:
        return None
    judges, queries, chunks = (joined([ids[k] for ids, _ in parts]) for k in range(3))
    grade = np.concatenate([grade for _, grade in parts])
    if not judges.like_before()[1:].all() or some_equal(pair_hashes(queries, chunks)):
        return None
    first = np.flatnonzero(~queries.like_before())
    names = pl.Series("query_id", [name.decode() for name in queries.take(first).text().tolist()], dtype=pl.String)
    query = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(grade))))
    return judged_rows(pl.DataFrame([names.gather(column_of(query)), column_of(grade, "grade")]), queries, chunks)


def _rows(piece: memoryview) -> tuple[tuple[Ids, Ids, Ids], Ints] | None:
    """Judges, queries, chunks and grades of whole lines."""
    split = plain_columns(piece, COLUMNS)
    if split is None:
        return None
    data, start, ends = split.data, (split.first, split.ends[0] + 1, split.ends[1] + 1), split.ends
    queries, judges, chunks = (ids_at(data, start[k], ends[k] - start[k]) for k in range(3))
    grade = whole_numbers(loads_of(data), ends[3], ends[3] - ends[2] - 1)
    if judges is None or queries is None or chunks is None or grade is None:
        return None
    return (judges, queries, chunks), grade
