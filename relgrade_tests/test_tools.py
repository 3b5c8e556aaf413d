"""Other tools' files in and out (P25, P42): shapes, oddities, and round trips against the readers. Real exports are in
test_tools_real."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io import tool_exports
from relgrade_assets.io.cells import APOSTROPHE, BLANK, LONGEST, csv_bytes, legible, marked, short_enough, unmarked
from relgrade_assets.io.imports import Asked, read_tool
from relgrade_assets.io.readers.documents import csv_table
from relgrade_assets.io.readers.mangled import Known
from relgrade_assets.io.readers.quepid import read_book
from relgrade_assets.io.tool_sheets import SHEET_TOOLS, tool_sheet
from relgrade_assets.protocol.scale import NAMED

QUERIES = pl.DataFrame(
    [("q1", "Where is  X?"), ("q2", "=SUM(A1)"), ("q3", "café"), ("007", "bond")],
    schema=["query_id", "query"],
    orient="row",
)
PAIRS = pl.DataFrame(
    [("q1", "a"), ("q1", "-b"), ("q2", "6901234567890"), ("q3", "0012"), ("q3", "=c"), ("007", "a")],
    schema=["query_id", "chunk_id"],
    orient="row",
)
ASKED = Asked(QUERIES, PAIRS)
LABELS = NAMED["0-2"]


def read(tmp: Path, text: str | bytes, tool: Any, **more: Any) -> tuple[Any, int]:
    path = tmp / "export"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    settings_ = {"asked": ASKED, "top_grade": 2, "reason_needed": "none", **more}
    return read_tool(path, name="export", tool=tool, **settings_)


def rows(found: Any) -> list[tuple[Any, ...]]:
    out: list[tuple[Any, ...]] = found.good.select("query_id", "chunk_id", "grade").rows()
    return out


def blind(queries: pl.DataFrame = QUERIES, pairs: pl.DataFrame = PAIRS) -> list[dict[str, str]]:
    both = pairs.join(queries, on="query_id", how="left")
    return both.with_columns(intent=pl.lit("Where?"), header=pl.lit("-h"), text=pl.lit('=1+1\r\n,"x"')).to_dicts()


# cells


@given(st.text() | st.text("' =+-@\t\r\n\uff1d\uff0b\uff0d\uff20x", max_size=4), st.sampled_from([APOSTROPHE, BLANK]))
@settings(max_examples=500, derandomize=True)
def test_a_marked_cell_reads_back_to_the_same_text_and_never_begins_like_a_formula(text: str, mark: str) -> None:
    """P42."""
    written = marked(text, mark)
    assert unmarked(written, mark) == text
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"))


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=2),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=100, derandomize=True)
def test_cells_come_back_through_a_csv_file(tmp_path_factory: pytest.TempPathFactory, raw: list[list[str]]) -> None:
    """P42: what is written is what any CSV reader, and ours, gives back; control characters written out."""
    table = [[legible(cell) for cell in row] for row in raw]
    assert all(c in "\t\n" or unicodedata.category(c) != "Cc" for row in table for cell in row for c in cell)
    assert all(new == old for r, t in zip(raw, table, strict=True) for old, new in zip(r, t, strict=True) if clean(old))
    data = csv_bytes(["=a", "b"], raw)
    assert data.startswith(b"'=a,b\n")
    plain = list(csv.reader(io.StringIO(data.decode(), newline="")))[1:]
    assert [[unmarked(c) for c in row] for row in plain] == table
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(data)
    ours = csv_table(path, name="x.csv")
    assert [[unmarked(c) for c in row] for row in zip(*ours.columns.values(), strict=True)] == table


def clean(text: str) -> bool:
    return not any(unicodedata.category(c) == "Cc" and c not in "\t\n" for c in text)


def test_a_passage_is_cut_only_where_it_is_longer_than_a_cell() -> None:
    """P25: to the character."""
    assert short_enough("x" * LONGEST, "sheet.jsonl") == "x" * LONGEST
    cut = short_enough("x" * (LONGEST + 1), "sheet.jsonl")
    sheet = [{**r, "header": "h" * 40_000} for r in blind()]
    cells = csv.reader(
        io.StringIO(tool_sheet(sheet, "spreadsheet", grader="a", scale=LABELS, mark="")["sheet.csv"].decode())
    )
    assert max(len(cell) for row in cells for cell in row) == LONGEST, "headers too"
    assert len(cut) == LONGEST and cut.endswith(f"x [cut here: {LONGEST + 1} characters, all of them in sheet.jsonl]")


def test_what_no_cell_holds_is_written_out_and_comes_back(tmp_path: Path) -> None:
    """P22, P25: a query, an intent and a passage with control characters, carriage returns and 200 kB of text: a file
    that any reader takes for text, a row a pair, no cell longer than Excel takes, and the queries are known again.
    """
    queries = QUERIES.with_columns(query="b\x00\r" + pl.col("query") + "\x1b[2J")
    sheet = [{**r, "intent": "\x85Where?\x7f", "text": "\x07" * 200_000, "header": "a\rb\r\nc"} for r in blind(queries)]
    asked = Asked(queries, PAIRS)
    out = tool_sheet(sheet, "spreadsheet", grader="ann", scale=LABELS, mark="t0")["sheet.csv"].decode()
    header, *cells = list(csv.reader(io.StringIO(out, newline="")))
    assert clean(out) and len(cells) == len(sheet) and max(len(c) for row in cells for c in row) < 32_767
    row = dict(zip(header, cells[0], strict=True))
    assert row["text"].endswith(" [cut here: 1600000 characters, all of them in sheet.jsonl]")
    assert (row["header"], row["intent"]) == ("a<U+000D>b\nc", "<U+0085>Where?<U+007F>")
    found, over = read(tmp_path, out.replace(",,ann,,", ",1,ann,so,"), "spreadsheet", asked=asked, reason_needed="all")
    assert (len(rows(found)), over, found.bad) == (len(PAIRS), 0, ())
    ratings = tool_sheet(sheet, "quepid", grader="ann", scale=LABELS, mark="t0")["quepid.csv"].decode()
    head, *lines = ratings.splitlines()
    found, over = read(tmp_path, "\n".join([head, *(f"{x}1" for x in lines)]), "quepid-ratings", asked=asked)
    assert (len(rows(found)), over, found.bad) == (len(PAIRS), 0, ())
    tasks = tool_sheet(sheet, "label-studio", grader="ann", scale=LABELS, mark="t0")["label-studio.json"]
    assert b"\\u00" not in tasks and len(json.loads(tasks)[0]["data"]["text"]) == 1_600_000


@pytest.mark.parametrize(
    ("bad", "tool"), [(b, t) for b in ("a\0", "a\x85b", "a\rb", "a\tb", "a\nb") for t in SHEET_TOOLS]
)
def test_ids_that_no_cell_gives_back_are_refused(bad: str, tool: Any) -> None:
    """P25: all at once, by name; the sheet's own file holds them."""
    pairs = pl.DataFrame({"query_id": ["q1", "q1"], "chunk_id": [bad, "b"]})
    with pytest.raises(Refused, match=r"control character(.|\n)*Use sheet.jsonl"):
        tool_sheet(blind(QUERIES, pairs), tool, grader="ann", scale=LABELS, mark="t0")
    queries = pl.DataFrame({"query_id": [bad], "query": ["x"]})
    pairs = pl.DataFrame({"query_id": [bad], "chunk_id": ["b"]})
    if tool != "quepid":  # which has no place for it
        with pytest.raises(Refused, match=r"query_id .*control character"):
            tool_sheet(blind(queries, pairs), tool, grader="ann", scale=LABELS, mark="t0")


def test_ids_with_blanks_around_them_are_refused_where_the_tool_trims() -> None:
    """P25, P42."""
    rows_ = blind(QUERIES, pl.DataFrame({"query_id": ["q1"], "chunk_id": [" a"]}))
    assert b'" a"' in tool_sheet(rows_, "label-studio", grader="ann", scale=LABELS, mark="t0")["label-studio.json"]
    assert b", a," in tool_sheet(rows_, "spreadsheet", grader="ann", scale=LABELS, mark="t0")["sheet.csv"]
    with pytest.raises(Refused, match="an id with blanks around it"):
        tool_sheet(rows_, "quepid", grader="ann", scale=LABELS, mark="t0")


# sheets out, answers in


def test_a_spreadsheet_goes_out_and_comes_back_with_every_id_as_it_was(tmp_path: Path) -> None:
    """P25, P42: ids and texts that look like formulas or numbers too."""
    sheet = tool_sheet(blind(), "spreadsheet", grader="ann", scale=LABELS, mark="t0")["sheet.csv"].decode()
    assert all(not cell.startswith(("=", "-")) for row in csv.reader(io.StringIO(sheet)) for cell in row)
    filled = [row for row in csv.reader(io.StringIO(sheet, newline=""))]
    header = filled[0]
    for i, row in enumerate(filled[1:]):
        row[header.index("grade")] = str(i % 3)
        row[header.index("notes")] = "- says so"
    out = io.StringIO(newline="")
    csv.writer(out).writerows(filled)
    found, over = read(tmp_path, out.getvalue(), "spreadsheet", reason_needed="all")
    assert rows(found) == [(q, c, i % 3) for i, (q, c) in enumerate(PAIRS.rows())]
    assert (over, found.bad) == (0, ()) and set(found.good["reason"]) == {"- says so"}


def test_quepid_ratings_go_out_and_come_back_by_the_text_of_the_query(tmp_path: Path) -> None:
    """P25: Quepid trims cells and writes a blank before what a spreadsheet would run."""
    sheet = tool_sheet(blind(), "quepid", grader="ann", scale=LABELS, mark="t0")["quepid.csv"].decode()
    assert sheet.splitlines()[0] == "query,docid,rating"
    assert " =SUM(A1),6901234567890," in sheet and ", -b," in sheet
    filled = "\n".join(line + ("2.0" if i else "") for i, line in enumerate(sheet.splitlines())) + "\n"
    found, _ = read(tmp_path, filled, "quepid-ratings")
    assert sorted(rows(found)) == sorted((q, c, 2) for q, c in PAIRS.rows())
    assert "whole_floats" in [n.code for n in found.notices]
    empty, _ = read(tmp_path, sheet, "quepid-ratings")
    assert not rows(empty) and "rows_without_grade" in [n.code for n in empty.notices]


def test_queries_with_one_text_are_not_written_for_a_tool_that_knows_no_ids(tmp_path: Path) -> None:
    same = QUERIES.with_columns(query=pl.when(pl.col("query_id") == "007").then(pl.lit("CAFÉ ")).otherwise("query"))
    with pytest.raises(Refused, match=r"can't tell these queries apart(.|\n)*query 007: (.|\n)*query q3: "):
        tool_sheet(blind(same), "quepid", grader="ann", scale=LABELS, mark="t0")
    with pytest.raises(Refused, match="can't be told apart by their text"):
        read(tmp_path, "query,docid,rating\ncafé,=c,1\n", "quepid-ratings", asked=Asked(same, PAIRS))


def annotation(**given: Any) -> dict[str, Any]:
    grade, reason = given.pop("grade", None), given.pop("reason", None)
    flags = given.pop("flags", None)
    result = []
    if grade is not None:
        result.append({"from_name": "grade", "to_name": "text", "type": "choices", "value": {"choices": [grade]}})
    if reason is not None:
        result.append({"from_name": "reason", "type": "textarea", "value": {"text": [reason]}})
    if flags:
        result.append({"from_name": "flags", "type": "choices", "value": {"choices": flags}})
    return {"completed_by": 1, "was_cancelled": False, "result": result, **given}


def test_label_studio_tasks_go_out_and_annotations_come_back(tmp_path: Path) -> None:
    """P25."""
    files = tool_sheet(blind(), "label-studio", grader="ann", scale=LABELS, mark="t0")
    tasks = json.loads(files["label-studio.json"])
    assert [list(t) for t in tasks] == [["data"]] * len(tasks), "a task shows a grader nothing but its data (P18)"
    assert set(tasks[0]["data"]) == {"query_id", "chunk_id", "query", "intent", "header", "text", "sheet"}
    assert b'<Choice value="2" hotkey="2"' in files["label-studio.xml"]
    for i, task in enumerate(tasks):
        task |= {"id": i, "annotations": [annotation(grade=str(i % 3), reason="says so")]}
    tasks[1]["annotations"] = [annotation(flags=["unrateable"], reason="cut off")]
    tasks[2]["annotations"] = [annotation(was_cancelled=True)]
    tasks[3]["annotations"][0]["result"][0] = {"from_name": "grade", "type": "rating", "value": {"rating": 1}}
    found, _ = read(tmp_path, json.dumps(tasks), "label-studio", reason_needed="all")
    wanted = {(q, c): i % 3 for i, (q, c) in enumerate(PAIRS.rows())} | {("q1", "-b"): None, ("q3", "0012"): 1}
    wanted.pop(("q2", "6901234567890"))
    assert {(q, c): g for q, c, g in rows(found)} == wanted
    assert found.good.filter("unrateable")["chunk_id"].to_list() == ["-b"]
    assert "skipped_annotations" in [n.code for n in found.notices]


def test_two_annotators_are_two_graders_of_which_one_is_chosen(tmp_path: Path) -> None:
    """P25: who graded is kept; one file, one grader at a time."""
    task = {
        "data": {"query_id": "q1", "chunk_id": "a"},
        "annotations": [annotation(grade="1"), annotation(grade="2", completed_by={"id": 7, "email": "b@example.org"})],
    }
    with pytest.raises(Refused, match=r"several graders(.|\n)*'1' \(1\), 'b@example.org' \(1\)"):
        read(tmp_path, json.dumps([task]), "label-studio")
    found, _ = read(tmp_path, json.dumps([task]), "label-studio", judge="b@example.org")
    assert rows(found) == [("q1", "a", 2)]
    with pytest.raises(Refused, match="no judge 'nobody'"):
        read(tmp_path, json.dumps([task]), "label-studio", judge="nobody")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "a list of tasks"),
        ('[{"data":{"query_id":"q1"}}]', r"\[0\].*no data with query_id and chunk_id"),
        ('[{"data":{"query_id":"q1","query_id":"q2"}}]', "the key 'query_id' twice"),
        ("[1,", "no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"data":{"query_id":"q1","chunk_id":"a"},"annotations":[{"result":[{"from_name":"grade","value":{"choices":'
         '["1","2"]}}]}]}]', "one grade, as its control writes it"),
        ('[{"data":{"query_id":"q1","chunk_id":1.5},"annotations":[]}]', "no data with"),
    ],
)  # fmt: skip
def test_a_broken_label_studio_export_is_refused_whole(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=said):
        read(tmp_path, text, "label-studio")


# Quepid's book


BOOK = "query,docid,Ann,Bob,explanation\nwhere is x?,a,2.0,,clear\nWHERE IS X?, -b,0,1,no\ncafé,0012,,,\n"


def test_a_book_has_a_column_a_judge_and_a_blank_cell_is_no_grade(tmp_path: Path) -> None:
    """P25."""
    found, over = read(tmp_path, BOOK, "quepid-book", judge="Ann")
    assert rows(found) == [("q1", "a", 2), ("q1", "-b", 0)] and over == 0
    assert found.good["reason"].null_count() == 2, "nobody says whose explanation it is"
    assert "explanations_of_nobody" in [n.code for n in found.notices]
    alone, _ = read(tmp_path, BOOK.replace("Bob,", "").replace(",,c", ",c").replace("0,1,", "0,").replace(",,,", ",,"),
                    "quepid-book", reason_needed="all")  # fmt: skip
    assert alone.good["reason"].to_list() == ["clear", "no"]
    with pytest.raises(Refused, match="several graders"):
        read(tmp_path, BOOK, "quepid-book")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("query,docid,Ann,Ann,explanation", "the column 'Ann' 2 times"),
        ("query,docid,Ann,,explanation", "a judge column without a name"),
        ("query,doc,Ann,Bob,explanation", "a column 'docid'"),
    ],
)
def test_judges_of_one_name_and_nameless_ones_are_refused(header: str, said: str, tmp_path: Path) -> None:
    """P25, formats: two judges of one name, an empty judge column."""
    with pytest.raises(Refused, match=said):
        read(tmp_path, BOOK.replace("query,docid,Ann,Bob,explanation", header), "quepid-book", judge="Ann")


def test_a_judge_column_that_holds_nothing_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "book.csv"
    path.write_text("query,docid,Ann,Bob\nx,a,1,\n")
    assert [str(n) for n in read_book(path, name="book.csv").notices] == [
        "book.csv: judge columns hold nothing: 'Bob' (1)"
    ]


# what ratings mean, and bad rows


OPENSEARCH = {
    "type": "IMPORT_JUDGMENT",
    "judgmentRatings": [
        {"query": "café", "ratings": [{"docId": "=c", "rating": "100.000"}, {"docId": "0012", "rating": "0.000"}]},
        {"query": "elsewhere", "ratings": [{"docId": "z", "rating": "10.000"}]},
    ],
}


def test_opensearch_ratings_need_a_declared_meaning(tmp_path: Path) -> None:
    """P25: nothing is guessed from figures such as 100.000."""
    text = json.dumps(OPENSEARCH)
    with pytest.raises(Refused, match=r"nothing says what they mean(.|\n)*'0.000'(.|\n)*'100.000'"):
        read(tmp_path, text, "opensearch")
    found, over = read(tmp_path, text, "opensearch", ratings=["100.000=2", "0.000=unrateable", "7=1"])
    assert rows(found) == [("q3", "=c", 2), ("q3", "0012", None)] and over == 1
    assert {"ratings_mapped", "mapping_unused"} <= {n.code for n in found.notices}
    partly, _ = read(tmp_path, text, "opensearch", ratings=["100.000=2"])
    assert rows(partly) == [("q3", "=c", 2)]
    assert "judgmentRatings[0].ratings[1]: found the rating '0.000'" in str(partly.bad[0])


@pytest.mark.parametrize("bad", ["100=3", "100", "=2", "100=x", "100=2.0"])
def test_a_mapping_to_no_grade_of_the_scale_is_refused(bad: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="mapping of ratings to grades can't be used"):
        read(tmp_path, json.dumps(OPENSEARCH), "opensearch", ratings=[bad])


def test_a_numeric_rating_in_opensearch_is_refused_with_its_path(tmp_path: Path) -> None:
    text = json.dumps(OPENSEARCH).replace('"100.000"', "100")
    with pytest.raises(Refused, match=r"judgmentRatings\[0\].ratings\[0\].rating: found the number 100"):
        read(tmp_path, text, "opensearch", ratings=["100=2"])


@pytest.mark.parametrize("grade", ["3", "-1", "1.5", "2.0", "two", "1,0", "٢"])
def test_a_grade_that_is_none_of_the_scale_is_refused_with_its_line(grade: str, tmp_path: Path) -> None:
    """P20, P25: row by row, the others are taken; only Quepid writes 2 as 2.0."""
    cell = f'"{grade}"'
    found, _ = read(tmp_path, f"query_id,doc_id,grade\nq1,a,{cell}\nq3,0012,1\n", "spreadsheet")
    assert rows(found) == [("q3", "0012", 1)]
    assert str(found.bad[0]).startswith("export, line 2: found the grade ")
    assert found.bad_lines[0][0] == 2 and grade in found.bad_lines[0][1]


def test_a_pair_twice_is_taken_once_or_refused(tmp_path: Path) -> None:
    text = "query_id,doc_id,grade\nq1,a,1\nq1,a,1\nq3,0012,1\nq3,0012,2\n"
    found, _ = read(tmp_path, text, "spreadsheet")
    assert rows(found) == [("q1", "a", 1)]
    assert [line for line, _, _ in found.bad_lines] == [4, 5]


def test_words_in_a_grade_cell_and_reasons_as_p19_has_them(tmp_path: Path) -> None:
    """P19: the same checks as for our own rows."""
    long = " ".join(["word"] * 16)
    text = f"query_id,doc_id,grade,notes\nq1,a,unrateable,cut off\nq1,-b,later,\nq3,0012,1,\nq3,=c,1,{long}\n"
    found, _ = read(tmp_path, text, "spreadsheet", reason_needed="above_zero")
    assert found.good.select("chunk_id", "grade", "unrateable", "judge_later").rows() == [
        ("a", None, True, False),
        ("-b", None, False, True),
    ]
    assert [f.found for f in found.bad] == ["no reason", "16 words"]


def test_a_file_without_reasons_needs_the_declared_deviation(tmp_path: Path) -> None:
    """P3, P19."""
    text = "query,docid,rating\nbond,a,1\n"
    with pytest.raises(Refused, match="holds no reasons"):
        read(tmp_path, text, "quepid-ratings", reason_needed="all")
    with pytest.raises(Refused, match="holds no reasons"):
        read(tmp_path, "query,docid,Ann\nbond,a,1\n", "quepid-book", reason_needed="all")


def test_a_query_id_beside_the_text_of_another_query_is_refused(tmp_path: Path) -> None:
    text = "query_id,query_text,doc_id,grade\nq1,café,a,1\n007,BOND,a,1\n"
    found, _ = read(tmp_path, text, "spreadsheet")
    assert rows(found) == [("007", "a", 1)] and "the text of that query" in str(found.bad[0])


def test_nothing_that_fits_is_refused_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="1 rows, none of a pair on the sheet; the first is 'nowhere' 'a'"):
        read(tmp_path, "query,docid,rating\nnowhere,a,1\n", "quepid-ratings")


# ids that a spreadsheet has changed


@pytest.mark.parametrize(
    ("query", "given", "original"),
    [("q2", "6.9E+12", "6901234567890"), ("q2", "6.90123E+12", "6901234567890"), ("q3", "12", "0012"),
     ("q3", "12.0", "0012"), ("7", "a", "007")],
)  # fmt: skip
def test_an_id_changed_by_a_spreadsheet_is_refused_with_the_likely_original(
    query: str, given: str, original: str, tmp_path: Path
) -> None:
    """P25, formats: never mended."""
    found, over = read(tmp_path, f"query_id,doc_id,grade\n{query},{given},1\nq1,a,1\n", "spreadsheet")
    assert rows(found) == [("q1", "a", 1)] and over == 0
    assert f"It was likely '{original}'." in found.bad[0].mend


def test_a_shortened_number_without_an_original_is_refused_and_a_known_id_stays(tmp_path: Path) -> None:
    found, over = read(tmp_path, "query_id,doc_id,grade\nq1,4.2E+15,1\nq1,other,1\nq1,a,2\n", "spreadsheet")
    assert rows(found) == [("q1", "a", 2)] and over == 1 and "spreadsheet has changed" in str(found.bad[0])
    odd = Asked(QUERIES, pl.DataFrame([("q1", "4.2E+15")], schema=["query_id", "chunk_id"], orient="row"))
    kept, _ = read(tmp_path, "query_id,doc_id,grade\nq1,4.2E+15,1\n", "spreadsheet", asked=odd)
    assert rows(kept) == [("q1", "4.2E+15", 1)]


@given(st.integers(0, 10**17), st.integers(0, 3))
@settings(max_examples=200, derandomize=True)
def test_what_a_spreadsheet_makes_of_a_number_leads_back_to_it(number: int, zeros: int) -> None:
    """Against Python's own formatting of floats in six digits, as a spreadsheet's General format has it."""
    wanted = "0" * zeros + str(number)
    shown = f"{number:.5e}" if number >= 10**12 else str(number)
    if "e" in shown:
        mantissa, power = shown.split("e+")
        shown = f"{mantissa.rstrip('0').rstrip('.')}E+{power}"
    if shown != wanted:
        assert Known([wanted]).original(shown) == wanted


# the key in other tools' forms


KEY = pl.DataFrame(
    [("q3", "0012", 1), ("q1", "a", 2), ("q1", "-b", 0), ("q2", "6901234567890", 2)],
    schema=["query_id", "chunk_id", "grade"],
    orient="row",
)
BY_GRADER = pl.concat(
    [KEY.with_columns(grader=pl.lit("ann")), KEY.head(2).with_columns(grader=pl.lit("bob"), grade=pl.lit(1, pl.Int64))]
)
NAMES = {"ann": "grader-1", "cy": "grader-2", "bob": "auditor-1"}


def exported(private: bool = False) -> dict[str, bytes]:
    return tool_exports.exports(KEY, BY_GRADER, QUERIES, NAMES, name="demo", description="relgrade", private=private)


@pytest.mark.parametrize(
    ("file", "tool", "more"),
    [
        ("opensearch_judgments.json", "opensearch", {"ratings": ["0=0", "1=1", "2=2"]}),
        ("quepid_ratings.csv", "quepid-ratings", {}),
        ("quepid_book.csv", "quepid-book", {"judge": "grader-1"}),
        ("ltr.txt", "ltr", {}),
    ],
)
def test_the_key_comes_back_exactly_from_every_form(file: str, tool: str, more: dict[str, Any], tmp_path: Path) -> None:
    """P42: round trips are exact."""
    found, over = read(tmp_path, exported()[file], tool, **more)
    assert sorted(rows(found)) == sorted(KEY.rows()) and over == 0 and not found.bad


def test_opensearch_ratings_are_text_and_the_shape_is_the_tools(tmp_path: Path) -> None:
    content = json.loads(exported()["opensearch_judgments.json"])
    assert list(content) == ["name", "description", "type", "judgmentRatings"]
    assert content["judgmentRatings"][0] == {
        "query": "Where is  X?",
        "ratings": [{"docId": "-b", "rating": "0"}, {"docId": "a", "rating": "2"}],
    }


def test_graders_leave_by_pseudonym_and_who_graded_nothing_has_no_column() -> None:
    """P41, P42."""
    book = exported()["quepid_book.csv"].decode()
    assert book.splitlines()[0] == "query,docid,grader-1,auditor-1"
    assert all(name not in book for name in ("ann", "bob", "cy"))


def test_a_private_key_leaves_without_any_text_of_a_query() -> None:
    """P41."""
    files = exported(private=True)
    assert list(files) == ["ltr.txt"]
    assert files["ltr.txt"].decode().startswith("# qid:1: q1*1\n# qid:2: q2*1\n")
    assert not any(q.encode() in files["ltr.txt"] for q in QUERIES["query"])


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,4}[a-z*0-9 ]{0,3}\*?[0-9]?", fullmatch=True).filter(str.strip),
        st.dictionaries(st.text("=+-@a0é:", min_size=1, max_size=4), st.integers(0, 2), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=60, derandomize=True)
def test_any_key_survives_every_form(
    tmp_path_factory: pytest.TempPathFactory, judged: dict[str, dict[str, int]]
) -> None:
    """P42: round trips are exact whatever the ids and texts."""
    texts = {" ".join(text.split()): grades for text, grades in judged.items()}
    queries = pl.DataFrame({"query_id": [f"id{i}" for i in range(len(texts))], "query": list(texts)})
    key = pl.DataFrame(
        [(f"id{i}", c, g) for i, grades in enumerate(texts.values()) for c, g in grades.items()],
        schema={"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64},
        orient="row",
    )
    files = tool_exports.exports(
        key, key.with_columns(grader=pl.lit("ann")), queries, NAMES, name="n", description="d", private=False
    )
    tmp = tmp_path_factory.mktemp("forms")
    asked = Asked(queries, key)
    for file, tool in (
        ("quepid_ratings.csv", "quepid-ratings"),
        ("quepid_book.csv", "quepid-book"),
        ("ltr.txt", "ltr"),
    ):
        found, _ = read(tmp, files[file], tool, asked=asked)
        assert sorted(rows(found)) == sorted(key.rows()), file
    found, _ = read(tmp, files["opensearch_judgments.json"], "opensearch", asked=asked, ratings=["0=0", "1=1", "2=2"])
    assert sorted(rows(found)) == sorted(key.rows())
