"""Runs (P15): every row of formats.md's table that a file alone can show, and that the fast way is the slow way."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io.readers import Read, columns
from relgrade_assets.io.readers.runs import read_run

RUN = "q1 Q0 a 1 3.5 t\nq1 Q0 b 2 2.5 t\nq2 Q0 a 1 9 t\n"


def run(folder: Path, content: str | bytes, file: str = "a.run", **how: Any) -> Read:
    path = folder / file
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_run(path, name=file, **how)


def counts(read: Read) -> dict[str, int]:
    return {n.code: n.count for n in read.notices}


def rows(read: Read) -> list[tuple[Any, ...]]:
    return read.frame.rows()


def lines(*rows: str) -> str:
    return "".join(f"{r} t\n" for r in rows)


def test_a_clean_run_has_no_notice(tmp_path: Path) -> None:
    read = run(tmp_path, RUN)
    assert rows(read) == [("q1", "a", 1, 3.5), ("q1", "b", 2, 2.5), ("q2", "a", 1, 9.0)]
    assert read.frame.schema == {"query_id": pl.String, "chunk_id": pl.String, "rank": pl.Int64, "score": pl.Float64}
    assert read.notices == ()


ACCEPTED: dict[str, tuple[str, dict[str, Any], dict[str, int], list[tuple[str, str, int, float]]]] = {
    "ties by chunk id descending": (
        lines("q Q0 a 1 2", "q Q0 é 2 2", "q Q0 z 3 2", "q Q0 c 4 1"),
        {},
        {"tied_scores": 3},
        [("q", "é", 1, 2.0), ("q", "z", 2, 2.0), ("q", "a", 3, 2.0), ("q", "c", 4, 1.0)],
    ),
    "ties by bytes, not by UTF-16": (
        lines("q Q0 \uffee 1 2", "q Q0 \U0001f600 2 2", "q Q0 a 3 1"),
        {},
        {"tied_scores": 2},
        [("q", "\U0001f600", 1, 2.0), ("q", "\uffee", 2, 2.0), ("q", "a", 3, 1.0)],
    ),
    "minus zero ties with zero": (
        lines("q Q0 a 1 1", "q Q0 b 2 0.0", "q Q0 c 3 -0.0"),
        {},
        {"tied_scores": 2},
        [("q", "a", 1, 1.0), ("q", "c", 2, 0.0), ("q", "b", 3, 0.0)],
    ),
    "rank disagrees": (
        lines("q Q0 a 1 3", "q Q0 b 2 1", "q Q0 c 3 2"),
        {},
        {"rank_disagrees": 1},
        [("q", "a", 1, 3.0), ("q", "c", 2, 2.0), ("q", "b", 3, 1.0)],
    ),
    "one rank for all": (
        lines("q Q0 a 1 3", "q Q0 b 1 1"),
        {},
        {"rank_disagrees": 1},
        [("q", "a", 1, 3.0), ("q", "b", 2, 1.0)],
    ),
    "lower is better": (
        lines("q Q0 a 1 0.5", "q Q0 b 2 0.75"),
        {"score_order": "ascending"},
        {},
        [("q", "a", 1, -0.5), ("q", "b", 2, -0.75)],
    ),
    "all equal, as listed": (
        lines("q Q0 a 1 1", "q Q0 b 2 1"),
        {"order": "as_listed"},
        {},
        [("q", "a", 1, 1.0), ("q", "b", 2, 1.0)],
    ),
    "as listed, ranks jump": (
        lines("q Q0 a 2 1", "r Q0 b 1 1", "q Q0 b 1 2"),
        {"order": "as_listed"},
        {"rank_disagrees": 1},
        [("q", "a", 1, 1.0), ("q", "b", 2, 2.0), ("r", "b", 1, 1.0)],
    ),
    "a chunk twice, best kept": (
        lines("q Q0 a 1 1", "q Q0 b 2 3", "q Q0 a 3 2"),
        {"duplicates": "keep_first"},
        {"duplicates_dropped": 1, "rank_disagrees": 1},
        [("q", "b", 1, 3.0), ("q", "a", 2, 2.0)],
    ),
    "a chunk twice, first listed kept": (
        lines("q Q0 a 1 1", "q Q0 b 2 3", "q Q0 a 3 2"),
        {"duplicates": "keep_first", "order": "as_listed"},
        {"duplicates_dropped": 1},
        [("q", "a", 1, 1.0), ("q", "b", 2, 3.0)],
    ),
    "exponents and negatives": (
        lines("q Q0 a 1 1E+2", "q Q0 b 2 1e-3", "q Q0 c 3 -.5", "q Q0 d 4 -1e300"),
        {},
        {},
        [("q", "a", 1, 100.0), ("q", "b", 2, 0.001), ("q", "c", 3, -0.5), ("q", "d", 4, -1e300)],
    ),
    "float64 to the end": (
        lines("q Q0 a 1 0.30000000000000004", "q Q0 b 2 0.3"),
        {},
        {},
        [("q", "a", 1, 0.30000000000000004), ("q", "b", 2, 0.3)],
    ),
    "runs of blanks and tabs, blank lines, comments": (
        "# made by\n\nq\t Q0  a 1\t2 t \n \t\n  q Q0 b 2 1 t\n#q Q0 c 3 1 t\n",
        {},
        {"blank_lines": 2, "comment_lines": 2},
        [("q", "a", 1, 2.0), ("q", "b", 2, 1.0)],
    ),
    "ranks from zero": (
        lines("q Q0 a 0 2", "q Q0 b 1 1", "r Q0 b 1 1"),
        {},
        {"ranks_from_zero": 1},
        [("q", "a", 1, 2.0), ("q", "b", 2, 1.0), ("r", "b", 1, 1.0)],
    ),
    "column 2 not Q0": (
        lines("q QO a 1 2", "q Q0 b 2 1"),
        {},
        {"column_2_not_q0": 1},
        [("q", "a", 1, 2.0), ("q", "b", 2, 1.0)],
    ),
    "rank no number": (
        lines("q Q0 a - 2", "q Q0 b 2 1"),
        {},
        {"ranks_not_numbers": 1},
        [("q", "a", 1, 2.0), ("q", "b", 2, 1.0)],
    ),
    "ids are text": (
        lines("007 Q0 01 1 2", "7 Q0 1 1 1"),
        {},
        {},
        [("007", "01", 1, 2.0), ("7", "1", 1, 1.0)],
    ),
    "equal only after NFC": (
        lines("q Q0 \u00e9 1 2", "q Q0 e\u0301 2 1"),
        {},
        {"nfc_equal_ids": 2},
        [("q", "\u00e9", 1, 2.0), ("q", "e\u0301", 2, 1.0)],
    ),
    "Kelvin and K": (
        lines("q Q0 \u212a 1 2", "q Q0 K 2 1"),
        {},
        {"nfc_equal_ids": 2},
        [("q", "\u212a", 1, 2.0), ("q", "K", 2, 1.0)],
    ),
    "BOM and CRLF": (
        "\ufeffq Q0 a 1 2 t\r\nq Q0 b 2 1 t\r\n",
        {},
        {"byte_order_mark": 1, "crlf": 2},
        [("q", "a", 1, 2.0), ("q", "b", 2, 1.0)],
    ),
    "extra columns as trec_eval": (
        "q Q0 a 1 2 t more junk\nq Q0 b 2 1 t\n",
        {"extra_columns": "ignore"},
        {"extra_columns": 1},
        [("q", "a", 1, 2.0), ("q", "b", 2, 1.0)],
    ),
    "queries in pieces": (
        lines("r Q0 a 1 2", "q Q0 a 1 5", "r Q0 b 2 1"),
        {},
        {},
        [("r", "a", 1, 2.0), ("r", "b", 2, 1.0), ("q", "a", 1, 5.0)],
    ),
    "no line end at the end": ("q Q0 a 1 2 t", {}, {}, [("q", "a", 1, 2.0)]),
    "quotes are characters": (lines('q Q0 "a 1 2', "q Q0 b' 2 1"), {}, {}, [("q", '"a', 1, 2.0), ("q", "b'", 2, 1.0)]),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted_and_counted(tmp_path: Path, case: str) -> None:
    """P15."""
    content, how, notices, expected = ACCEPTED[case]
    read = run(tmp_path, content, **how)
    assert rows(read) == expected
    assert counts(read) == notices
    assert "-0.0" not in repr(rows(read))


GOOD = "q Q0 x 1 9 t\n"
REFUSED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "reversed": (lines("q Q0 a 1 1", "q Q0 b 2 2", "r Q0 b 1 1", "r Q0 a 2 3"), {}, ["`score_order: ascending`"]),
    "reversed, declared ascending": (
        lines("q Q0 a 1 2", "q Q0 b 2 1"),
        {"score_order": "ascending"},
        ["`score_order: descending`"],
    ),
    "all equal": (
        lines("q Q0 a 1 1", "q Q0 b 2 1.0", "r Q0 b 1 1e0"),
        {},
        ["`order: as_listed`", "the same score, 1,"],
    ),
    "twice": (
        lines("q Q0 a 1 3", "q Q0 b 2 2", "q Q0 a 3 1"),
        {},
        ["line 3", "'a' again for query 'q' (first on line 1)", "`duplicates: keep_first`"],
    ),
    "NaN": (GOOD + lines("q Q0 a 1 NaN"), {}, ["line 2, column 5 (score)", "'NaN'"]),
    "infinite": (GOOD + lines("q Q0 a 1 -inf"), {}, ["line 2", "'-inf'"]),
    "overflow": (GOOD + lines("q Q0 a 1 1e999"), {}, ["line 2", "'1e999'"]),
    "text": (
        GOOD + lines("q Q0 a 1 high", "q Q0 b 1 0x1", "q Q0 c 1 1_0"),
        {},
        ["3 faults", "line 2", "'high'", "'0x1'", "'1_0'"],
    ),
    "decimal comma": (GOOD + lines("q Q0 a 1 1,5"), {}, ["line 2", "'1,5'", "Write 1.5."]),
    "empty score": ("q\tQ0\ta\t1\t\tt\n", {}, ["line 1", "5 columns"]),
    "five columns": (GOOD + "# c\nq Q0 a 1 2\n", {}, ["line 3", "found 5 columns", "6 columns: query id, Q0"]),
    "five columns all": ("q Q0 a 1 2\nq Q0 b 2 1\n", {}, ["2 faults", "line 1", "line 2"]),
    "extra columns": (GOOD + "q Q0 a b 1 2 t\n", {}, ["line 2", "7 columns ('q Q0 a b 1 2 t')", "no blanks"]),
    "extra first": ("q Q0 a b 1 2 t\n" + GOOD, {}, ["line 1", "7 columns"]),
    "extra columns all": ("q Q0 a 1 2 t x\nq Q0 b 2 1 t x\n", {}, ["2 faults"]),
    "empty file": ("", {}, ["0 bytes"]),
    "only comments": ("# a\n\n", {}, ["nothing but blank lines and comments"]),
    "Unicode blank in id": (GOOD + lines("q Q0 a\u00a0b 1 2"), {}, ["line 2, chunk_id", "xa0"]),
    "control character in id": (GOOD + lines("q\x01 Q0 a 1 2"), {}, ["line 2, query_id", "x01"]),
    "# in column 3": (GOOD + lines("q Q0 #a 1 2"), {}, ["line 2, chunk_id", "'#a'"]),
    "# after a blank": (GOOD + " #q Q0 a 1 2 t\n", {}, ["line 2, query_id", "'#q'"]),
    "a carriage return inside": (GOOD + "q Q0 a 1 2 t\rq Q0 b 1 1 t\n", {}, ["line 2", "carriage return"]),
    "NUL": (GOOD + "q\0 Q0 a 1 2 t\n", {}, ["line 2", "NUL"]),
    "every kind at once": (
        "q Q0 a 1 NaN t\nq Q0 b 2\nq Q0 #c 3 1 t\n",
        {},
        ["3 faults", "line 1, column 5", "line 2: found 4 columns", "line 3, chunk_id"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_line(tmp_path: Path, case: str) -> None:
    """P15."""
    content, how, says = REFUSED[case]
    with pytest.raises(Refused) as caught:
        run(tmp_path, content, **how)
    for part in says:
        assert part in str(caught.value)
    assert "a.run" in str(caught.value)


def test_twenty_faults_are_listed_in_order_and_all_counted(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        run(tmp_path, "".join(f"q Q0 d{i} 1 {'nan' if i % 2 else 'x y'} t\n" for i in range(100)))
    assert caught.value.total == 100
    assert len(caught.value.faults) == 20
    assert [f.where.split(",")[1] for f in caught.value.faults] == [f" line {i}" for i in range(1, 21)]
    assert "... and 80 more." in str(caught.value)


TABLE = [("q1", "a", 3.5), ("q1", "b b", 2.5), ("7", "ü", -1e-7)]


def written(folder: Path, kind: str) -> Path:
    path = folder / f"r.{kind}"
    if kind == "jsonl":
        path.write_text(
            "".join(json.dumps(dict(zip(("query_id", "chunk_id", "score"), r, strict=True))) + "\n" for r in TABLE)
        )
    elif kind == "csv":
        with path.open("w", newline="") as f:
            csv.writer(f).writerows([("query_id", "chunk_id", "score"), *TABLE])
    else:
        pl.DataFrame(TABLE, schema=["query_id", "chunk_id", "score"], orient="row").write_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_other_formats_say_the_same(tmp_path: Path, kind: str) -> None:
    read = read_run(written(tmp_path, kind), name=f"r.{kind}")
    assert rows(read) == [("q1", "a", 1, 3.5), ("q1", "b b", 2, 2.5), ("7", "ü", 1, -1e-7)]
    assert counts(read) in ({}, {"crlf": 4})


@pytest.mark.parametrize("pack", ["gz", "zst"])
def test_packed_runs(tmp_path: Path, pack: str) -> None:
    import zstandard

    data = gzip.compress(RUN.encode()) if pack == "gz" else zstandard.compress(RUN.encode())
    assert rows(run(tmp_path, data, f"a.run.{pack}")) == rows(run(tmp_path, RUN))


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        (
            "a.jsonl",
            '{"query_id":1.5,"chunk_id":"a","score":1}\n',
            "line 1, query_id: found the number 1.5; expected an id",
        ),
        ("a.jsonl", '{"query_id":"q","chunk_id":true,"score":1}\n', "chunk_id: found true"),
        ("a.jsonl", '{"query_id":"q","chunk_id":" ","score":1}\n', "an empty id"),
        ("a.jsonl", '{"query_id":"q","chunk_id":"a","score":"1.5"}\n', "score: found the text '1.5'"),
        ("a.jsonl", '{"query_id":"q","chunk_id":"a","score":NaN}\n', "score: found the number NaN"),
        ("a.jsonl", '{"query_id":"q","chunk_id":"a","score":1e999}\n', "1e999"),
        ("a.jsonl", '{"query_id":"q","chunk_id":"a","score":null}\n', "score: found null"),
        (
            "a.jsonl",
            '{"query_id":"q","chunk_id":"a","score":1}\n{"query_id":"q","score":1}\n',
            "line 2, chunk_id: found no such key",
        ),
        ("a.jsonl", '{"query_id":"q","query_id":"r","chunk_id":"a","score":1}\n', "the key 'query_id' twice"),
        ("a.jsonl", '{"qid":"q","chunk_id":"a","score":1}\n', "a column 'query_id'"),
        ("a.jsonl", '{"query_id":"q","chunk_id":"\\ud800","score":1}\n', "surrogate"),
        ("a.jsonl", '{"query_id":"q","chunk_id":"#a","score":1}\n', "'#a'"),
        ("a.jsonl", '{"query_id":"q","chunk_id":"a\\u0000","score":1}\n', "x00"),
        ("a.jsonl", "[1]\n{}x\n", "2 faults"),
        ("a.jsonl", '{"query_id":' + "[" * 100_000 + "\n", "line 1"),
        ("a.csv", "query_id,chunk_id,score\nq,a,\n", "line 2, score: found an empty cell"),
        ("a.csv", 'query_id,chunk_id,score\nq,a,"1,5"\n', "Write 1.5."),
        ("a.csv", "query_id,chunk_id,score\nq,a\n", "line 2: found 2 cells; expected 3"),
        ("a.csv", "query_id,chunk_id,score\nq,a,inf\nq,,1\n", "2 faults"),
        ("a.csv", "query_id;chunk_id;score\nq;a;1\n", "Separate cells by commas."),
        ("a.csv", "query_id,chunk,score\nq,a,1\n", "Nearest: 'chunk'"),
        ("a.csv", "query_id,query_id,chunk_id,score\nq,q,a,1\n", "the column 'query_id' 2 times"),
        ("a.csv", 'query_id,chunk_id,score\n"q,a,1\n', "line 2: found broken quoting"),
        ("a.csv", "query_id,chunk_id,score\n", "no row"),
        ("a.csv", "query_id,chunk_id,score,rank\nq,a,1,first\n", "rank: found the text 'first'"),
        ("a.parquet", "PAR1 no", "not Parquet"),
    ],
)
def test_other_formats_refused_with_line_and_key(tmp_path: Path, file: str, content: str, says: str) -> None:
    with pytest.raises(Refused) as caught:
        run(tmp_path, content, file)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("chunk_id", [1.5, 2.0], "chunk_id: found a column of Float64; expected text or whole numbers"),
        ("chunk_id", ["a", None], "row 2, chunk_id: found null"),
        ("score", ["1", "2"], "score: found a column of String; expected numbers"),
        ("score", [1.0, float("nan")], "row 2, score: found nan"),
        ("score", [1.0, None], "row 2, score: found null"),
        ("other", [1, 2], "a column 'other'"),
    ],
)
def test_parquet_refused_with_row_and_column(tmp_path: Path, column: str, values: list[Any], says: str) -> None:
    frame = pl.DataFrame({"query_id": ["q", "q"], "chunk_id": ["a", "b"], "score": [2.0, 1.0]})
    frame = frame.drop("score") if column == "other" else frame.with_columns(pl.Series(column, values))
    frame.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(Refused) as caught:
        read_run(tmp_path / "a.parquet", name="a.parquet")
    assert says.replace("other", "score") in str(caught.value)


def test_whole_number_ids_are_their_decimal_text(tmp_path: Path) -> None:
    frame = pl.DataFrame({"query_id": [7, 7], "chunk_id": [1, 20], "score": [2, 1]})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ndjson(tmp_path / "a.jsonl")
    for file in ("a.parquet", "a.jsonl"):
        assert rows(read_run(tmp_path / file, name=file)) == [("7", "1", 1, 2.0), ("7", "20", 2, 1.0)]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("qrs"), st.integers(0, 30), st.floats(allow_nan=False, allow_infinity=False, width=32)
        ),
        min_size=2,
        unique_by=lambda r: r[:2],
    )
)
def test_ranking_against_plain_python(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, int, float]]
) -> None:
    """statistics.md's ranking, whatever the order of lines; the line-by-line way gives the same as the one scan."""
    if len({s for _, _, s in table}) == 1:
        return
    content = "".join(f"{q} Q0 d{c} x {s!r} t\n" for q, c, s in table)
    read = run(tmp_path_factory.mktemp("r"), content)
    for query in {q for q, _, _ in table}:
        mine = [r[1] for r in rows(read) if r[0] == query]
        expected = sorted(
            sorted((f"d{c}" for q, c, _ in table if q == query), reverse=True),
            key=lambda d: -next(s for q, c, s in table if (q, f"d{c}") == (query, d)),
        )
        assert mine == expected
    slow = run(tmp_path_factory.mktemp("r"), content.replace(" Q0 ", " \tQ0 "))
    assert rows(slow) == rows(read)


def test_one_scan_is_taken_where_lines_are_clean_and_only_there() -> None:
    assert columns.split_columns(b"a b c\nd e f\n", 3, [pl.col("c1")]).clean
    for data in (
        b"a b\tc d\n",
        b"a  b c\n",
        b"a b c\n\nd e f\n",
        b"#\na b c\n",
        b"a b c\n#d e f\n",
        b"a b c \n",
        b"a b\n",
        b"a b c d\n",
    ):
        assert not columns.split_columns(data, 3, [pl.col("c1")]).clean


def test_readers_import_nothing_heavy() -> None:
    modules = "runs, query_log, corpus, judgments, intents"
    heavy = "pydantic", "pandera", "dagster", "sqlalchemy", "numpy", "zstandard"
    loaded = f"{{m.split('.')[0] for m in sys.modules}} & {set(heavy)}"
    code = f"import sys; from relgrade_assets.io.readers import {modules}; print({loaded} or '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
