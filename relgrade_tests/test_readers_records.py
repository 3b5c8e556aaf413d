"""Query log (P7), corpus, intents (P16) and reviews (P17); and that the fast way of reading records is the slow way."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io.readers import Read, records
from relgrade_assets.io.readers.corpus import read_corpus
from relgrade_assets.io.readers.intents import read_intents, read_reviews
from relgrade_assets.io.readers.query_log import read_query_log
from relgrade_assets.io.readers.records import Column, read_records
from relgrade_assets.io.text import Missing

ALL = {k: k for k in ("query", "query_id", "count", "timestamp", "results", "clicks", "type")}


def put(folder: Path, file: str, content: str | bytes) -> Path:
    (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / file


def log(
    folder: Path, content: str | bytes, file: str = "log.csv", columns: dict[str, str | None] | None = None
) -> Read:
    return read_query_log(put(folder, file, content), name=file, columns=columns or ALL)


def counts(read: Read) -> dict[str, int]:
    return {n.code: n.count for n in read.notices}


# ---- query log


def test_p7_log_with_every_column_in_every_format(tmp_path: Path) -> None:
    """Quoted cells with line ends and commas, empty cells as null, all formats the same."""
    text = "\n".join(
        [
            ",".join(ALL),
            '"two,\nlines ""q""",007,3,2024-05-31T14:05:00+02:00,0,,usage',
            "x,8,1,2024-05-31,,2,",
        ]
    )
    expected = [
        (1, 'two,\nlines "q"', "007", 3, datetime(2024, 5, 31, 12, 5, tzinfo=UTC), 0, None, "usage"),
        (2, "x", "8", 1, datetime(2024, 5, 31, tzinfo=UTC), None, 2, None),
    ]
    read = log(tmp_path, text + "\n\n")
    assert read.frame.rows() == expected
    assert read.frame.columns == ["row", *ALL]
    assert read.frame.schema["timestamp"] == pl.Datetime("us", "UTC")
    assert counts(read) == {"blank_lines": 1, "times_without_offset": 1}
    cells = list(csv.DictReader(io.StringIO(text)))
    numbers = ("count", "results", "clicks")
    objects = [{k: (int(v) if k in numbers else v) if v else None for k, v in r.items()} for r in cells]
    assert log(tmp_path, "".join(json.dumps(o) + "\n" for o in objects), "log.jsonl").frame.rows() == expected
    frame = pl.DataFrame(objects).with_columns(pl.col("results").cast(pl.Float64))
    frame.write_parquet(tmp_path / "log.parquet")
    assert read_query_log(tmp_path / "log.parquet", name="log.parquet", columns=ALL).frame.rows() == expected


def test_p7_absent_is_not_zero(tmp_path: Path) -> None:
    read = log(tmp_path, "q,n\na b,2\nc,1\n", columns={"query": "q", "count": None})
    assert read.frame.rows() == [(1, "a b", None, 1, None, None, None, None), (2, "c", None, 1, None, None, None, None)]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2024-05-31", datetime(2024, 5, 31, tzinfo=UTC)),
        ("2024-05-31T23:59", datetime(2024, 5, 31, 23, 59, tzinfo=UTC)),
        ("2024-05-31 23:59:58.1234567", datetime(2024, 5, 31, 23, 59, 58, 123456, tzinfo=UTC)),
        ("2024-05-31T23:59:58,5Z", datetime(2024, 5, 31, 23, 59, 58, 500000, tzinfo=UTC)),
        ("2024-05-31T01:00:00-0530", datetime(2024, 5, 31, 6, 30, tzinfo=UTC)),
        ("2024-05-31T01:00:00+02", datetime(2024, 5, 30, 23, tzinfo=UTC)),
        ("2024-02-29T00:00:00 +00:00", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_iso_8601_times_against_the_standard_library(tmp_path: Path, text: str, instant: datetime) -> None:
    read = log(tmp_path, f'query,t\na,"{text}"\n', columns={"query": "query", "timestamp": "t"})
    assert read.frame["timestamp"].to_list() == [instant]


def test_parquet_times_and_dates(tmp_path: Path) -> None:
    for values in ([date(2024, 5, 31)], [datetime(2024, 5, 31)], [datetime(2024, 5, 31, tzinfo=UTC)]):
        pl.DataFrame({"query": ["a"], "t": values}).write_parquet(tmp_path / "l.parquet")
        read = read_query_log(
            tmp_path / "l.parquet", name="l", format="parquet", columns={"query": "query", "timestamp": "t"}
        )
        assert read.frame["timestamp"].to_list() == [datetime(2024, 5, 31, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "Query,count\na,1\n",
            ["line 1: found the columns 'Query', 'count'; expected a column 'query'. Nearest: 'Query'."],
        ),
        ("query,count\n,1\n \t,1\n", ["2 faults", "line 2, query: found an empty query"]),
        ("query,count\na,0\n", ["line 2, count: found 0; expected a whole number from 1"]),
        ("query,count\na,1.5\nb,\nc,many\nd,-1\n", ["4 faults", "'1.5'", "an empty cell", "'many'", "found -1"]),
        (
            "query,timestamp\na,31.05.2024\nb,1717164000\n",
            ["2 faults", "'31.05.2024'", "ISO 8601", "2024-05-31T14:05:00Z"],
        ),
        ("query,timestamp\na,2024-02-30\nb,2024-05-31T24:00\n", ["2 faults"]),
        ("query,results\na,-1\n", ["results: found -1; expected a whole number from 0"]),
        ('query,count\n"a\nb",1\nc,x\n', ["line 4, count"]),
        ('query,count\n"a\nb",x\nc,1\n', ["line 2, count"]),
        ('query,count\na,1\n"b"c,1\n', ["line 3: found broken quoting"]),
        ("query,count\na,1\nb\n", ["line 3: found 1 cells; expected 2"]),
    ],
)
def test_p7_log_refused_with_line_and_column(tmp_path: Path, content: str, says: list[str]) -> None:
    header = content.split("\n", 1)[0].lower().split(",")
    with pytest.raises(Refused) as caught:
        log(tmp_path, content, columns={h: h for h in header})
    for part in says:
        assert part in str(caught.value)


def test_an_unknown_ending_or_mapping_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"the ending '\.tsv'"):
        log(tmp_path, "query\na\n", "log.tsv")
    with pytest.raises(Refused, match="no column for query"):
        log(tmp_path, "query\na\n", columns={"count": "n"})


# ---- corpus


def test_corpus_from_one_file_and_from_a_folder(tmp_path: Path) -> None:
    one = '{"chunk_id":"b","header":"h","text":"same"}\n{"chunk_id":3,"header":null,"text":"same"}\n'
    two = 'chunk_id,text,header,url\na,"x, ""y""\nz",,u\ne,,h,u\nf,,h,u\n'
    folder = tmp_path / "corpus"
    folder.mkdir()
    put(folder, "1.jsonl.gz", gzip.compress(one.encode()))
    put(folder, "2.csv", two)
    put(folder, "README.md", "no")
    (folder / "deeper").mkdir()
    read = read_corpus(folder, name="corpus")
    assert read.frame.rows() == [
        ("3", "", "same"),
        ("a", "", 'x, "y"\nz'),
        ("b", "h", "same"),
        ("e", "h", ""),
        ("f", "h", ""),
    ]
    assert counts(read) == {"files_passed_over": 2, "headers_absent": 1, "empty_texts": 2, "equal_texts": 2}
    assert "'3' = 'b'" in str(next(n for n in read.notices if n.code == "equal_texts"))
    pl.DataFrame({"id": ["é", "z", "a"], "body": ["1", "2", "3"]}).write_parquet(tmp_path / "c.parquet")
    read = read_corpus(tmp_path / "c.parquet", name="c.parquet", chunk_id="id", header=None, text="body")
    assert read.frame.rows() == [("a", "", "3"), ("z", "", "2"), ("é", "", "1")]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {"a.jsonl": '{"chunk_id":"a","header":"","text":null}\n'},
            "c/a.jsonl, line 1, text: found null; expected text",
        ),
        ({"a.jsonl": '{"chunk_id":"a","header":"","text":5}\n'}, "text: found the number 5"),
        ({"a.jsonl": '{"chunk_id":"","header":"","text":"x"}\n'}, "chunk_id: found an empty id"),
        ({"a.csv": "chunk_id,header,text\n  ,h,x\n"}, "line 2, chunk_id: found an empty id"),
        ({"a.csv": "chunk_id,text\na,x\n"}, "a column 'header'"),
        (
            {"a.csv": "chunk_id,header,text\na,h,x\n", "b.jsonl": '{"chunk_id":"a","header":"","text":"y"}\n'},
            "c/b.jsonl, line 1: found the chunk id 'a' again (first at c/a.csv, line 2)",
        ),
        ({"a.csv": "chunk_id,header,text\n,h,x\n", "b.csv": "chunk_id,header,text\n,h,x\n"}, "2 faults"),
    ],
)
def test_corpus_refused(tmp_path: Path, files: dict[str, str], says: str) -> None:
    (tmp_path / "c").mkdir()
    for file, content in files.items():
        put(tmp_path / "c", file, content)
    with pytest.raises(Refused) as caught:
        read_corpus(tmp_path / "c", name="c")
    assert says in str(caught.value)


def test_corpus_links_that_lead_out_and_empty_folders(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    with pytest.raises(Missing):
        read_corpus(folder, name="c")
    with pytest.raises(Missing):
        read_corpus(tmp_path / "none", name="none")
    (folder / "a.csv").symlink_to(put(tmp_path, "out.csv", "chunk_id,header,text\na,h,x\n"))
    with pytest.raises(Refused, match=r"c/a\.csv: found a path or link that leads out"):
        read_corpus(folder, name="c")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "c").symlink_to(folder)
    with pytest.raises(Refused, match="leads out"):
        read_corpus(tmp_path / "home" / "c", name="c", inside=tmp_path / "home")


# ---- intents and reviews


def test_p16_intents(tmp_path: Path) -> None:
    content = "query_id,form,intent,author,lint_override\nq1,how,How is x done?,ann,\n"
    content += 'q2,which,"A, or B?",ann,both are named\n'
    read = read_intents(put(tmp_path, "i.csv", content), name="i.csv")
    assert read.frame.rows() == [
        ("q1", None, "how", "How is x done?", "ann", None),
        ("q2", None, "which", "A, or B?", "ann", "both are named"),
    ]
    assert read.frame.columns == ["query_id", "query", "form", "intent", "author", "lint_override"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            '{"query_id":"q","form":"who","intent":"x","author":"a"}',
            "form: found the form 'who'; expected one of where, how, why",
        ),
        ('{"query_id":"q","form":"how","intent":" ","author":"a"}', "intent: found nothing"),
        ('{"query_id":"q","form":"how","intent":"x\\ny","author":"a"}', "several lines"),
        ('{"query_id":"q","form":"how","intent":"x\\u2029y","author":"a"}', "several lines"),
        ('{"query_id":"q","form":"how","intent":"x","author":""}', "author: found nothing"),
        ('{"query_id":"q","form":"how","author":"a"}', "intent: found no such key"),
        (
            '{"query_id":"p","form":"how","intent":"x","author":"a"}',
            "line 2, query_id: found the query 'p' again (first on line 1)",
        ),
    ],
)
def test_p16_intents_refused(tmp_path: Path, line: str, says: str) -> None:
    fine = '{"query_id":"p","form":"how","intent":"x","author":"a"}\n'
    with pytest.raises(Refused) as caught:
        read_intents(put(tmp_path, "i.jsonl", fine + line + "\n"), name="i.jsonl")
    assert says in str(caught.value)


def test_p17_reviews(tmp_path: Path) -> None:
    content = "query_id,intent,verdict,note\nq1,x,ok,\nq2,y,change,too wide\nq3,z,,\n"
    read = read_reviews(put(tmp_path, "r.csv", content), name="r.csv")
    assert read.frame.rows() == [("q1", "x", "ok", None), ("q2", "y", "change", "too wide")]
    assert counts(read) == {"rows_not_reviewed": 1}
    with pytest.raises(Refused, match=r"(?s)2 faults.*line 2, verdict: found the verdict 'OK'.*line 3, query_id"):
        read_reviews(put(tmp_path, "r.csv", "query_id,intent,verdict\nq1,x,OK\nq1,x,ok\n"), name="r.csv")


# ---- fast against slow

COLUMNS = {
    "id": Column("id", "id"),
    "s": Column("s", "float", filled=False),
    "n": Column("n", "int", needed=False, filled=False),
    "t": Column("t", "text", filled=False),
}
VALUE = st.one_of(
    st.text(max_size=5),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.booleans(),
    st.none(),
    st.sampled_from(["1", " 2", "1,5", "-0", '"id": 1', "é"]),
    st.lists(st.integers(), max_size=1),
)


def accepted(path: Path, format: str) -> list[Any]:
    return read_records(path, name="f", format=format, columns=COLUMNS).frame.rows()


def both(path: Path, format: str) -> list[Any]:
    """What the fast way and the slow way make of a file: rows, or the refusal."""
    found: list[Any] = []
    for fast in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not fast:
                patch.setattr(records, "_fast_jsonl", lambda *_: None)
                patch.setattr(records, "_fast_csv", lambda *_: None)
            try:
                found.append(accepted(path, format))
            except Refused as error:
                found.append(str(error))
    return found


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({"id": VALUE, "s": VALUE, "t": VALUE}, optional={"n": VALUE, "x": VALUE}),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_json_lines_fast_against_slow(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], escaped: bool
) -> None:
    text = "".join(json.dumps(r, ensure_ascii=escaped) + "\n" for r in rows)
    fast, slow = both(put(tmp_path_factory.mktemp("j"), "f", text.encode(errors="replace")), "jsonl")
    assert repr(fast) == repr(slow)


PLAIN = st.text(st.characters(categories=["Ll", "Nd", "Zs", "Po"], exclude_characters='"'), max_size=4)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(PLAIN, st.integers().map(str), st.floats().map(repr)), min_size=3, max_size=4), max_size=4
    )
)
def test_csv_fast_against_slow(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    text = "id,s,n,t\n" + "".join(",".join(r) + "\n" for r in rows)
    fast, slow = both(put(tmp_path_factory.mktemp("c"), "f", text), "csv")
    assert repr(fast) == repr(slow)


def test_the_fast_way_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("slow")

    monkeypatch.setattr(records.slow_records, "jsonl", never)
    monkeypatch.setattr(records.slow_records, "csv_rows", never)
    for format, text in {
        "jsonl": '{"id": "a", "s": 1.5, "t": "x\\n\\"y\\""}\n{"t":"z","id":7,"s":-2}',
        "csv": "x,id,s,t\n,a,1.5,\n,7, -2,z\n",
    }.items():
        frame = read_records(put(tmp_path, "f", text), name="f", format=format, columns=COLUMNS).frame
        assert frame["id"].to_list() == ["a", "7"]
        assert frame["s"].to_list() == [1.5, -2.0]


def test_bad_values_never_pass_as_null(tmp_path: Path) -> None:
    path = put(tmp_path, "f", "id,s,t\n,x,t\n")
    with pytest.raises(Refused, match="2 faults"):
        read_records(path, name="f", format="csv", columns=COLUMNS)
    assert records.collect_records(path, name="f", format="csv", columns=COLUMNS).faults.total == 2
