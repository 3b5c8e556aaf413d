"""Whatever bytes stand in a file, a reader gives a whole result or a refusal, never another exception."""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io.readers.corpus import read_corpus
from relgrade_assets.io.readers.intents import read_intents, read_reviews
from relgrade_assets.io.readers.judgments import read_grades, read_qrels
from relgrade_assets.io.readers.query_log import read_query_log
from relgrade_assets.io.readers.runs import read_run

LOG = {k: k for k in ("query", "query_id", "count", "timestamp", "results", "clicks", "type")}
READERS: dict[str, Callable[[Path], Any]] = {
    "trec": lambda p: read_run(p, name="f", format="trec"),
    "run.jsonl": lambda p: read_run(p, name="f", format="jsonl", order="as_listed", duplicates="keep_first"),
    "run.csv": lambda p: read_run(p, name="f", format="csv", score_order="ascending"),
    "run.parquet": lambda p: read_run(p, name="f", format="parquet"),
    "log.csv": lambda p: read_query_log(p, name="f", format="csv", columns=LOG),
    "log.jsonl": lambda p: read_query_log(p, name="f", format="jsonl", columns=LOG),
    "corpus.jsonl": lambda p: read_corpus(p, name="f", format="jsonl"),
    "corpus.csv": lambda p: read_corpus(p, name="f", format="csv"),
    "qrels": lambda p: read_qrels(p, name="f"),
    "beir": lambda p: read_qrels(p, name="f", form="beir"),
    "grades": lambda p: read_grades(p, name="f", top_grade=2, reason_needed="all"),
    "intents": lambda p: read_intents(p, name="f", format="jsonl"),
    "reviews": lambda p: read_reviews(p, name="f", format="csv"),
}


def parquet() -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"query_id": ["q", "q"], "chunk_id": ["a", "b"], "score": [2.0, 1.0]}).write_parquet(out)
    return out.getvalue()


SEEDS: dict[str, bytes] = {
    "trec": b"q1 Q0 a 1 3.5 t\nq1 Q0 b 2 2.5 t\n\xc3\xa92 Q0 a 1 9 t\n",
    "run.jsonl": (
        b'{"query_id":"q","chunk_id":"a","score":1.5,"rank":1}\n{"query_id":"q","chunk_id":"b","score":1,"rank":2}\n'
    ),
    "run.csv": b'query_id,chunk_id,score\nq,a,1.5\nq,"b",1\n',
    "run.parquet": parquet(),
    "log.csv": b"query,query_id,count,timestamp,results,clicks,type\na,1,2,2024-05-31T10:00:00Z,1,,x\n",
    "log.jsonl": (
        b'{"query":"a","query_id":1,"count":2,"timestamp":"2024-05-31","results":1,"clicks":null,"type":"x"}\n'
    ),
    "corpus.jsonl": b'{"chunk_id":"a","header":"h","text":"x"}\n{"chunk_id":"b","header":null,"text":"x"}\n',
    "corpus.csv": b'chunk_id,header,text\na,h,"x\ny"\nb,,x\n',
    "qrels": b"q 0 a 1\nq 0 b -1\n",
    "beir": b"query-id\tcorpus-id\tscore\nq\ta\t1\n",
    "grades": b'{"query_id":"q","chunk_id":"a","reason":"r","grade":1,"unrateable":false}\n',
    "intents": b'{"query_id":"q","form":"how","intent":"x","author":"a"}\n',
    "reviews": b"query_id,intent,verdict,note\nq,x,ok,\n",
}
TOKENS = [
    b"\n",
    b"\r",
    b"\r\n",
    b" ",
    b"\t",
    b",",
    b'"',
    b"#",
    b"{",
    b"[",
    b"}",
    b":",
    b"\\",
    b"\0",
    b"\xff",
    b"nan",
    b"-",
    b"1e999",
]
TOKENS += [
    b"\\ud800",
    b"null",
    b"true",
    b"1.5",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"9" * 400,
    b"[" * 2000,
    b"PAR1",
    b"\xc2\xa0",
]


def check(path: Path, kind: str) -> None:
    try:
        read = READERS[kind](path)
    except Refused as error:
        assert str(error)
        assert str(path) not in str(error)
        return
    if kind == "grades":
        assert read.good.height + len(read.bad_lines) + sum(n.count for n in read.notices) > 0
        return
    assert read.frame.height or kind == "reviews"
    for column in {"query_id", "chunk_id", "score", "grade", "rank", "text", "intent"} & set(read.frame.columns):
        assert read.frame[column].null_count() == 0
    if "score" in read.frame.columns:
        assert all(math.isfinite(s) for s in read.frame["score"])
        assert read.frame.select(pl.struct("query_id", "chunk_id").n_unique()).item() == read.frame.height


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(READERS)), st.binary(max_size=200), st.booleans())
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, kind: str, data: bytes, packed: bool) -> None:
    path = tmp_path_factory.mktemp("f") / ("f.gz" if packed else "f")
    path.write_bytes(gzip.compress(data) if packed else data)
    check(path, kind)


@settings(max_examples=400, derandomize=True, deadline=None)
@given(
    st.sampled_from(sorted(READERS)),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 3), st.one_of(st.sampled_from(TOKENS), st.binary(max_size=3))),
        max_size=4,
    ),
)
def test_spoilt_files(
    tmp_path_factory: pytest.TempPathFactory, kind: str, edits: list[tuple[float, int, bytes]]
) -> None:
    data = SEEDS[kind]
    for place, cut, token in edits:
        at = int(place * len(data))
        data = data[:at] + token + data[at + cut :]
    path = tmp_path_factory.mktemp("f") / "f"
    path.write_bytes(data)
    check(path, kind)


@pytest.mark.parametrize("kind", sorted(SEEDS))
def test_seeds_are_read(tmp_path: Path, kind: str) -> None:
    (tmp_path / "f").write_bytes(SEEDS[kind])
    READERS[kind](tmp_path / "f")
