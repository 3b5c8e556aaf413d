"""The strict reader of a model's reply (P19, P20)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steering import STEERING

from relgrade_assets.methods.reply import NotTheRows, Row, read_reply, without_repeats

A = {"query_id": "q", "chunk_id": "a", "reason": "says so", "grade": 2}
B = {"query_id": "q", "chunk_id": "b", "reason": "says nothing", "grade": 0}


def read(text: str) -> list[Row]:
    return read_reply(text, query_id="q", chunk_ids=["a", "b"], top_grade=2)


def lines(*rows: Any) -> str:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        lines(A, B),
        lines(B, A) + "\n",
        "\n\n" + lines(A, "", B) + "\n\n",
        lines(A, B).replace("\n", "\r\n"),
        "```json\n" + lines(A, B) + "\n```\n",
        "```\n" + lines(A, B) + "\n```",
    ],
)
def test_exactly_the_asked_rows_are_taken_in_the_order_asked(text: str) -> None:
    assert read(text) == [Row("a", "says so", 2, False, False), Row("b", "says nothing", 0, False, False)]


def test_unrateable_is_no_grade_and_clean_up_is_a_flag() -> None:
    """P19."""
    found = read(lines({**A, "grade": None, "unrateable": True}, {**B, "corpus_cleanup": True}))
    assert found == [Row("a", "says so", None, True, False), Row("b", "says nothing", 0, False, True)]


@pytest.mark.parametrize(
    ("text", "why"),
    {
        "": "0 of 2 rows",
        lines(A): "1 of 2 rows",
        lines("Here you are:", A, B): "line 1: no JSON",
        lines(A, B, "I hope this helps."): "line 3: no JSON",
        "My grades:\n```\n" + lines(A, B) + "\n```": "line 1: no JSON",
        "```json\n" + lines(A, B): "code fence",
        "```json\n" + lines(A, B) + "\n```\nDone.": "code fence",
        "```": "code fence",
        lines([A, B]): "line 1: no JSON object",
        lines(A, B, A): "line 3: a chunk that stands twice",
        lines(A, {**B, "chunk_id": "c"}): "line 2: a chunk that was not asked",
        lines(A, {**B, "chunk_id": ["b"]}): "line 2: a chunk that was not asked",
        lines(A, {**B, "query_id": "p"}): "line 2: another query",
        lines(A, json.dumps(B)[:-9]): "line 2: no JSON",
        lines(A) + lines(B): "line 1: no JSON",
        lines({**A, "grade": 7}, B): "line 1: a grade",
        lines({**A, "grade": -1}, B): "line 1: a grade",
        lines({**A, "grade": 2.0}, B): "line 1: a grade",
        lines({**A, "grade": "2"}, B): "line 1: a grade",
        lines({**A, "grade": True}, B): "line 1: a grade",
        lines({**A, "grade": None}, B): "line 1: a grade",
        lines({**A, "unrateable": True}, B): "line 1: unrateable, and with a grade",
        lines({**A, "unrateable": 1, "grade": None}, B): "line 1: a flag",
        lines({**A, "judge_later": True, "grade": None}, B): "line 1: other keys",
        lines({**A, "confidence": 1}, B): "line 1: other keys",
        lines(dict(reversed(A.items())), B): "line 1: other keys",
        lines('{"query_id": "q", "chunk_id": "a", "reason": "x", "grade": 0, "grade": 2}', B): "line 1: other keys",
        lines(json.dumps(A)[:-1] + ', "corpus_cleanup": true, "corpus_cleanup": false}', B): "line 1: other keys",
        lines({**A, "reason": ""}, B): "line 1: no reason",
        lines({**A, "reason": None}, B): "line 1: no reason",
        lines({**A, "reason": "two\nlines"}, B): "line 1: no reason",
        lines({**A, "reason": "half \ud800"}, B): "line 1: no reason",
        lines({**A, "reason": "w " * 16}, B): "line 1: a reason of more than 15 words",
        lines("[" * 100_000, B): "line 1: no JSON",
        lines('{"query_id": "q", "chunk_id": "a", "reason": "x", "grade": ' + "9" * 5000 + "}", B): "line 1:",
    }.items(),
)
def test_anything_else_is_refused_whole_with_the_reason(text: str, why: str) -> None:
    """P20: never mended, never a 0, never fished out of prose."""
    with pytest.raises(NotTheRows) as caught:
        read(text)
    assert str(caught.value).startswith(why) or why in str(caught.value)


def test_fifteen_words_are_a_reason() -> None:
    assert len(read(lines({**A, "reason": "w " * 15}, B))) == 2


@given(st.text(max_size=200))
def test_any_text_is_refused_or_the_rows(text: str) -> None:
    with pytest.raises(NotTheRows):
        read(text)


@given(st.integers(0, 300), st.text(max_size=3))
def test_a_reply_with_something_put_in_is_refused_or_reads_the_same_ids(at: int, put: str) -> None:
    whole = lines(A, B)
    try:
        found = read(whole[:at] + put + whole[at:])
    except NotTheRows:
        return
    assert [row.chunk_id for row in found] == ["a", "b"]


@pytest.mark.parametrize("number", range(len(STEERING)))
def test_what_steers_a_reply_makes_no_row_of_its_own(number: int) -> None:
    """P20, P22: a grader that was taken in repeats the passage before, between or after its rows, as a chunk's id, or
    inside a reason: refused whole, or a reason that reads as it was written, and never another row or grade.
    """
    bad = STEERING[number]
    blank = not bad.strip(" \t\r\n")
    for text in (f"{bad}\n{lines(A, B)}", f"{lines(A)}\n{bad}\n{lines(B)}", f"{lines(A, B)}\n{bad}"):
        if not blank:
            with pytest.raises(NotTheRows):
                read(text)
    with pytest.raises(NotTheRows):
        read(lines(A, {**B, "chunk_id": bad}))
    try:
        found = read(lines({**A, "reason": bad}, B))
    except NotTheRows:
        return
    assert [(r.chunk_id, r.reason, r.grade) for r in found] == [("a", bad, 2), ("b", "says nothing", 0)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("exit status 1: boom: no login", "exit status 1: boom: no login"),
        ("echo: THIS is  a passage, about; end", "echo: ...; end"),
        ('trace {"query_id": "q", "reason": "it says so", "grade": 1} boom', "trace ... boom"),
        ('it says so", "grade": 1}\nboom', "...\nboom"),
        ('{\\"reason\\": \\"it says so', "..."),
        ("asked reset passwort!", "asked ...!"),
        ("no login, of an account", "no login, of an account"),
        ("検索の結果", "...結果"),
        ("", ""),
    ],
)
def test_what_an_agent_repeats_of_its_prompt_or_reply_is_left_out(said: str, told: str) -> None:
    """P13, P41: three words in a row, or a whole text from twelve characters on; a word alone tells nothing."""
    texts = ["This is a passage about an account.", "login", "reset passwort", "", "検索の"]
    assert without_repeats(said, texts) == told
