"""Qrels and P19's rows: what a file alone can show of formats.md's table of judgments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from relgrade_assets.errors import Refused
from relgrade_assets.io.readers import Read
from relgrade_assets.io.readers.judgments import GradeRows, read_grades, read_qrels

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
HEADER = "query-id\tcorpus-id\tscore\n"


def qrels(folder: Path, content: str, **how: Any) -> Read:
    (folder / "q").write_bytes(content.encode())
    return read_qrels(folder / "q", name="qrels.txt", **how)


def counts(read: Read | GradeRows) -> dict[str, int]:
    return {n.code: n.count for n in read.notices}


@pytest.mark.parametrize(
    ("content", "how", "notices", "expected"),
    [
        ("q 0 a 1\nq 0 b 0\n", {}, {}, [("q", "0", "a", 1), ("q", "0", "b", 0)]),
        ("# c\n\nq\t0  a\t 1 \t\n", {}, {"blank_lines": 1, "comment_lines": 1}, [("q", "0", "a", 1)]),
        ("q 0 a -1\nq 0 b 0\n", {}, {"pooled_without_grade": 1}, [("q", "0", "a", -1), ("q", "0", "b", 0)]),
        (
            "q 0 a -2\nq 0 b 1\n",
            {"negatives": {-2: 0}},
            {"negatives_mapped": 1},
            [("q", "0", "a", 0), ("q", "0", "b", 1)],
        ),
        ("q 0 a 1\nq 0 a 1\n", {}, {"repeated_pairs": 1}, [("q", "0", "a", 1)]),
        ("q A a 1\nq B a 0\n", {}, {"judge_groups": 2}, [("q", "A", "a", 1), ("q", "B", "a", 0)]),
        ("q 0 a 1\r\n", {}, {"crlf": 1}, [("q", "0", "a", 1)]),
        (
            HEADER + "q\ta b\t2\n# c\n\nq\tc\t0 \n",
            {},
            {"blank_lines": 1, "comment_lines": 1},
            [("q", "", "a b", 2), ("q", "", "c", 0)],
        ),
        (HEADER + "007\t01\t1\n", {"form": "beir"}, {}, [("007", "", "01", 1)]),
        ("q 0 a 50\n", {}, {}, [("q", "0", "a", 50)]),
    ],
)
def test_qrels_accepted_and_counted(
    tmp_path: Path, content: str, how: dict[str, Any], notices: dict[str, int], expected: list[Any]
) -> None:
    read = qrels(tmp_path, content, **how)
    assert read.frame.rows() == expected
    assert read.frame.schema == {"query_id": pl.String, "group": pl.String, "chunk_id": pl.String, "grade": pl.Int64}
    assert counts(read) == notices


@pytest.mark.parametrize(
    ("content", "how", "says"),
    [
        ("q 0 a 1\nq 0 b 1.0\n", {}, ["line 2, grade: found the grade '1.0'; expected a whole number"]),
        ("q 0 a yes\nq 0 b 1\n", {}, ["line 1, grade", "header row"]),
        ("query_id group doc_id grade\nq 0 b 1\n", {}, ["line 1", "'grade'", "header row", "`form: beir`"]),
        ("q 0 a 1\nq 0 b x\n", {}, ["line 2, grade: found the grade 'x'; expected a whole number.\n"]),
        ("q 0 a 99999999999999999999\n", {}, ["line 1"]),
        ("q 0 a 1\nq 0 b 4\n", {"top_grade": 3}, ["line 2, grade: found the grade 4; expected a grade up to 3"]),
        ("q 0 a -2\n", {}, ["the grade -2", "`negatives`"]),
        ("q 0 a -3\n", {"negatives": {-2: 0}}, ["the grade -3"]),
        ("q 0 a -2\n", {"negatives": {-3: 0}}, ["the grade -2"]),
        (
            "q 0 a 1\nq 0 a 2\n",
            {},
            ["line 2, grade: found the grade 2 for query 'q' and chunk 'a', which has 1 on line 1"],
        ),
        ("q 0 a 0\nq 0 a -1\n", {}, ["the grade -1 for query 'q'", "one grade a pair"]),
        ("q a 1\n", {}, ["line 1: found 3 columns ('q a 1'); expected 4 columns"]),
        ("q 0 a b 1\n", {}, ["found 5 columns", "no blanks"]),
        ("q 0 #a 1\n", {}, ["line 1, chunk_id: found the id '#a'"]),
        ("1 10 0 0\n1 11 0 0\n", {}, ["Put the chunk ids into column 3"]),
        ("# only\n", {}, ["no judgment"]),
        ("q\ta\t1\n", {"form": "beir"}, ["line 1", "BEIR's header"]),
        (HEADER, {}, ["no judgment"]),
        (HEADER + "q\ta\n", {}, ["line 2: found 2 columns"]),
        (
            HEADER + "q\ta\t1\tx\n\ta\t1\n",
            {},
            ["2 faults", "line 2: found 4 columns", "line 3, query_id: found an empty id"],
        ),
        (HEADER + "q\ta\thigh\n", {}, ["line 2, grade: found the grade 'high'"]),
    ],
)
def test_qrels_refused_with_the_line(tmp_path: Path, content: str, how: dict[str, Any], says: list[str]) -> None:
    with pytest.raises(Refused) as caught:
        qrels(tmp_path, content, **how)
    for part in says:
        assert part in str(caught.value)


PUBLIC: dict[str, tuple[dict[int, int], dict[str, int]]] = {
    "robust03/robust03_qrels.txt.gz": ({0: 122722, 1: 5667, 2: 407}, {}),
    "trec_dl19_passage/qrels.dl19-passage.txt": ({0: 5158, 1: 1601, 2: 1804, 3: 697}, {}),
    "trec_dl19_passage/llm_judgments/gpt-4_binary.qrels.gz": ({0: 4938, 1: 4320}, {}),
    "trec_dl19_passage/llm_judgments/gpt-4o_binary.qrels.gz": ({0: 5456, 1: 3800}, {}),
    "fira_dl19_docs/fira-trec19-notrec-qrels-docs-max.txt": ({0: 141, 1: 288, 2: 759, 3: 815}, {}),
    "cranfield/cranqrel.variantC_binarised.trec.txt": ({0: 225, 1: 1611, 3: 1}, {"crlf": 1837}),
    "cacm/cacm.qrels": ({1: 796}, {}),
    "mini_peer_tests/trectools/qrel1.txt": ({0: 24, 1: 5, 2: 1}, {}),
    "mini_peer_tests/cwl/qrel_file": ({0: 8, 1: 15}, {"crlf": 23}),
    "trec_eval_test/qrels.123.gz": (
        {-1: 912, 0: 7960, 1: 1175, 2: 78, 3: 213, 4: 22, 6: 2},
        {"pooled_without_grade": 912, "judge_groups": 3},
    ),
    "trec_eval_test/qrels.test.with-comments": ({0: 3120, 1: 561}, {"comment_lines": 3}),
}


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
@pytest.mark.parametrize("file", PUBLIC)
def test_public_qrels_against_their_index(file: str) -> None:
    read = read_qrels(DATA / file, name=file)
    assert (dict(read.frame["grade"].value_counts().sort("grade").iter_rows()), counts(read)) == PUBLIC[file]


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
@pytest.mark.parametrize(
    ("file", "total", "says"),
    [
        ("trec_dl19_passage/llm_judgments/llama3.2_umbrela_with_duplicates.qrels.gz", 17736, "one grade a pair"),
        ("trec_dl19_passage/llm_judgments/gpt-4o_nuggets_weighted_float.qrels.gz", 7978, "the grade '0.2'"),
        ("cranfield/cranqrel.variantA_noneg", 1837, "found 3 columns"),
        ("cranfield/cranqrel.variantB_minus1", 1837, "found 3 columns"),
        ("trec_eval_test/prefs.test", 164, "found 5 columns"),
        ("mini_peer_tests/cwl/neg_gain_file", 23, "'-1.0'"),
        ("cacm/qrels.text", 1, "column 3"),
    ],
)
def test_public_qrels_that_are_refused(file: str, total: int, says: str) -> None:
    with pytest.raises(Refused) as caught:
        read_qrels(DATA / file, name=file)
    assert caught.value.total == total
    assert says in str(caught.value)


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
def test_a_scale_up_to_five_needs_its_top() -> None:
    file = DATA / "trec_dl19_passage/llm_judgments/gpt-4o_exam_graded_max_0to5.qrels.gz"
    assert read_qrels(file, name="exam", top_grade=5).frame["grade"].max() == 5
    with pytest.raises(Refused, match="a grade up to 3"):
        read_qrels(file, name="exam", top_grade=3)


# ---- P19


def row(**changed: Any) -> str:
    return json.dumps({"query_id": "q", "chunk_id": "a", "reason": "says how", "grade": 1} | changed)


def grades(folder: Path, *lines: str, reason_needed: Any = "all") -> GradeRows:
    (folder / "g.jsonl").write_text("\n".join(lines) + "\n")
    return read_grades(folder / "g.jsonl", name="g.jsonl", top_grade=2, reason_needed=reason_needed)


def test_p19_good_rows(tmp_path: Path) -> None:
    """P19, P25: flags in any order, ids as text, unrateable and later without a grade."""
    read = grades(
        tmp_path,
        row(),
        row(chunk_id=7, grade=0),
        "",
        row(chunk_id="c", grade=None, unrateable=True),
        row(chunk_id="d", grade=None, corpus_cleanup=True, judge_later=True),
    )
    assert read.bad == ()
    assert read.good.rows() == [
        (1, "q", "a", "says how", 1, False, False, False),
        (2, "q", "7", "says how", 0, False, False, False),
        (4, "q", "c", "says how", None, True, False, False),
        (5, "q", "d", "says how", None, False, True, True),
    ]
    assert counts(read) == {"blank_lines": 1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (row(grade=3), "grade: found the number 3; expected a whole number from 0 to 2"),
        (row(grade=-1), "the number -1"),
        (row(grade=True), "found true"),
        (row(grade="2"), "found the text '2'"),
        (row(grade=2.0), "found the number 2.0"),
        (row(grade=None), "null with unrateable or judge_later"),
        (row(grade=1, unrateable=True), "expected null, since the row is unrateable"),
        (row(grade=None, unrateable=True, judge_later=True), "at once"),
        (row(unrateable="yes"), "unrateable: found the text 'yes'; expected true or false"),
        (row(unrateable=0), "true or false"),
        (row(query_id=" "), "query_id: found an empty id"),
        (row(chunk_id=None), "chunk_id: found null"),
        (row(chunk_id=1.5), "chunk_id: found the number 1.5"),
        (row(reason=""), "no reason"),
        (row(reason=None), "no reason"),
        (row(reason=5), "reason: found the number 5"),
        (row(reason="w " * 16), "found 16 words; expected at most 15"),
        (row(reason="a\nb"), "one line"),
        (row(reason="a\u2028b"), "one line"),
        (row(reason="\ud800"), "surrogate"),
        (row(rank=1), "the keys 'query_id, chunk_id, reason, grade, rank'"),
        ('{"query_id":"q","chunk_id":"a","grade":1,"reason":"x"}', "in that order"),
        ('{"query_id":"q","chunk_id":"a","reason":"x","grade":1,"grade":2}', "the keys"),
        ('{"query_id":"q","chunk_id":"a","reason":"x"}', "the keys"),
        ('[{"query_id":"q"}]', "a list"),
        ("The grade is 2.", "no JSON"),
        ("```json", "no JSON"),
        ('{"query_id":"q","chunk_id":"a","reason":"x","grade":NaN}', "NaN"),
        ('{"query_id":"q","chunk_id":"a","reason":"x","grade":' + "9" * 5000 + "}", "expected a whole number"),
    ],
)
def test_p19_bad_rows_are_kept_and_the_others_taken(tmp_path: Path, line: str, says: str) -> None:
    """P19, P20, P25: a grade is never fished out of prose, and never becomes 0."""
    read = grades(tmp_path, row(chunk_id="fine"), line)
    assert read.good["chunk_id"].to_list() == ["fine"]
    assert any(says in str(fault) for fault in read.bad)
    assert [(n, raw) for n, raw, _ in read.bad_lines] == [(2, line[:2000])]
    assert all(f.where.startswith("g.jsonl, line 2") for f in read.bad)


def test_p19_fifteen_words_are_allowed_and_one_line_can_have_two_faults(tmp_path: Path) -> None:
    assert grades(tmp_path, row(reason="w " * 15)).bad == ()
    read = grades(tmp_path, row(grade=9, reason=""))
    assert len(read.bad) == 2
    assert len(read.bad_lines) == 1


def test_p19_reasons_where_needed(tmp_path: Path) -> None:
    zero, one = row(grade=0, reason=""), row(chunk_id="b", reason=None)
    assert [len(grades(tmp_path, zero, one, reason_needed=n).bad) for n in ("all", "above_zero", "none")] == [2, 1, 0]
    assert grades(tmp_path, zero, reason_needed="none").good["reason"].to_list() == [None]


def test_p19_a_pair_twice(tmp_path: Path) -> None:
    same = grades(tmp_path, row(), row(reason="other words"))
    assert (same.good.height, counts(same)) == (1, {"repeated_pairs": 1})
    different = grades(tmp_path, row(), row(chunk_id="b"), row(grade=2), row())
    assert different.good["chunk_id"].to_list() == ["b"]
    assert [n for n, _, _ in different.bad_lines] == [1, 3, 4]
    assert "different answers on lines 1, 3, 4" in str(different.bad[0])
    unrateable = grades(tmp_path, row(grade=None, unrateable=True), row(grade=None, judge_later=True))
    assert unrateable.good.height == 0


def test_p19_a_whole_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g").write_bytes(b"\xff\xfe\0")
    with pytest.raises(Refused):
        read_grades(tmp_path / "g", name="g", top_grade=2, reason_needed="all")
