"""P16, P17: the lint, and what must be there before the intents are locked."""

import re

import polars as pl
import pytest
from study_by_hand import sample_of

from relgrade_assets.errors import Refused, Waiting
from relgrade_assets.methods.intents import Locked, intents_digest, lint, lock, row_digest, row_faults
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.schemas import TABLES

SAMPLE = sample_of({"q1": "sort graph", "q2": "read gml", "q3": "why slow"})
WRITTEN = {
    "query_id": pl.String,
    "query": pl.String,
    "form": pl.String,
    "intent": pl.String,
    "author": pl.String,
    "lint_override": pl.String,
}
REVIEWS = {
    "query_id": pl.String,
    "row_digest": pl.String,
    "reviewer": pl.String,
    "at": pl.String,
    "verdict": pl.String,
    "note": pl.String,
}
ROWS = {
    "q1": ("sort graph", "how", "How do I sort a graph topologically?", "ann", None),
    "q2": ("read gml", "how", "How do I read a GML file?", "ann", None),
    "q3": (None, "why", "Why is betweenness slow on large graphs?", "ann", None),
}


def written(**rows: tuple | None) -> pl.DataFrame:
    held = {**ROWS, **rows}
    return pl.DataFrame([(i, *r) for i, r in held.items() if r is not None], schema=WRITTEN, orient="row")


def review(
    query_id: str,
    *,
    verdict: str = "ok",
    reviewer: str = "eve",
    at: str = "2024-05-02T10:00:00Z",
    intent: str | None = None,
) -> tuple:
    query, form, text, author, _ = ROWS[query_id]
    return (query_id, row_digest(query or "why slow", form, intent or text, author), reviewer, at, verdict, "")


def reviews(*rows: tuple) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=REVIEWS, orient="row")


ALL_OK = reviews(*(review(i) for i in ROWS))


def locked(
    frame: pl.DataFrame | None = None, seen: pl.DataFrame = ALL_OK, *, unreviewed_ok: bool = False
) -> Locked | Waiting:
    return lock(
        SAMPLE, written() if frame is None else frame, seen, round=1, reviewers={"eve"}, unreviewed_ok=unreviewed_ok
    )


# ------------------------------------------------------------------ lint (P16)
@pytest.mark.parametrize(
    ("intent", "said"),
    [
        ("How do I read or write GraphML files?", "'or'"),
        ("Where is the token, OR the key, kept?", "'or'"),
        ("How do I sort and/or filter rows?", "'or'"),
        ("How do I parse either form?", "'either'"),
        ("How do I cache it, alternatively memoise it?", "'alternatively'"),
        ("How do I import/export a graph?", "slash between words"),
        ("How do I import / export a graph?", "slash between words"),
        ("How do I sort rows? By date?", "follows the question mark"),
        ("- How do I sort rows?", "a list"),
        ("1. How do I sort rows?", "a list"),
        ("How do I sort rows; how are nulls placed?", "a list"),
        ("How do I 1) read a file and 2) sort it?", "a list"),
        ("How do I read a table (e.g. CSV)?", "parentheses"),
        ("How do I read a table (also a nested one)?", "parentheses"),
        ("How do I read\na table?", "more than one line"),
        ("   ", "empty"),
    ],
)
def test_p16_lint_refuses_a_second_reading(intent: str, said: str) -> None:
    assert any(said in finding for finding in lint(intent))


@pytest.mark.parametrize(
    "intent",
    [
        "How do I order vectors for a colour map?",
        "Where is the directory /etc/app/conf.d read?",
        "Which page describes https://example.org/a/b?",
        "How does non-blocking I/O work here?",
        "How do I set up TCP/IP keep-alive?",
        "What does the `or` operator return?",
        'What does "and/or" mean in the licence?',
        "How do I install numpy, scipy and pandas?",
        "Why does 1/2 give 0?",
        "How do I draw a graph (NetworkX 3)?",
        "What is step 2) of the tutorial about?",
        "How do I keep the query of a.org/x?y=1 in a link?",
        "Neither flag works: why?",
    ],
)
def test_p16_lint_lets_one_question_pass(intent: str) -> None:
    assert lint(intent) == []


def test_what_is_wrong_repeats_no_text() -> None:
    """P41: what is found ends in Dagster's log."""
    row = {"query_id": "q1", "query": "zanzibar", "intent": "the quagga/okapi or xylem?", "lint_override": None}
    found = row_faults(row, {"q1": "the sampled yurt"})
    said = " ".join(text for fault in found for text in fault)
    assert len(found) == 3 and not re.search("zanzibar|quagga|okapi|xylem|yurt", said)


def test_p16_an_author_overrides_the_lint_with_a_reason_and_it_is_counted() -> None:
    text = "How do I read or write GraphML files?"
    row = ("read gml", "how", text, "ann", "one page covers both")
    got = locked(written(q2=row), reviews(review("q1"), review("q2", intent=text), review("q3")))
    assert isinstance(got, Locked)
    assert [(n.code, n.count) for n in got.notices] == [("lint_overridden", 1)]
    with pytest.raises(Refused, match="lint_override"):
        locked(written(q2=(*row[:4], "  ")))


# ------------------------------------------------------------------ locking (P16, P17)
def test_p16_p17_locked_table_by_hand() -> None:
    got = locked()
    assert isinstance(got, Locked) and got.notices == ()
    TABLES["intents"].model.validate(got.frame, lazy=True)
    assert got.frame.rows()[2] == (
        1,
        "q3",
        "why",
        "Why is betweenness slow on large graphs?",
        "ann",
        "eve",
        "2024-05-02T10:00:00Z",
        digest(["why slow", "why", "Why is betweenness slow on large graphs?", "ann"]),
    )


def test_p16_every_fault_of_every_row_is_listed_at_once() -> None:
    frame = written(
        q1=("sort graphs", "how", "How do I sort?", "ann", None),
        q2=("read gml", "what", "How do I read or write?", None, None),
    )
    with pytest.raises(Refused) as caught:
        locked(pl.concat([frame, written().filter(pl.col("query_id") == "q3")]))
    text = str(caught.value)
    for said in (
        "5 faults",
        "q1, query: found another text; expected the sampled query's",
        "q2, form",
        "q2, author",
        "'or' offers",
        "q3: found 2 rows",
    ):
        assert said in text


@pytest.mark.parametrize("gone", [None, ("read gml", "how", None, "ann", None), ("read gml", "how", " ", "ann", None)])
def test_p16_waits_for_missing_intents(gone: tuple | None) -> None:
    got = locked(written(q2=gone))
    assert isinstance(got, Waiting)
    assert (got.done, got.of, got.items) == (2, 3, ("q2",))


def test_p17_waits_and_says_which_rows_are_unreviewed_changed_or_sent_back() -> None:
    seen = reviews(review("q1", verdict="change"), review("q2", intent="How do I read GML?"))
    got = locked(seen=seen)
    assert isinstance(got, Waiting)
    assert got.items == ("q1 sent back", "q2 changed since its review", "q3 unreviewed")
    assert str(got).startswith("0 of 3 intents ready to lock: 1 sent back, 1 changed since its review, 1 unreviewed (")


def test_p17_a_review_by_somebody_else_does_not_count() -> None:
    got = locked(seen=reviews(review("q1"), review("q2", reviewer="mallory"), review("q3")))
    assert isinstance(got, Waiting) and got.items == ("q2",)


def test_p17_the_reviewers_latest_word_holds_whatever_the_order_of_rows() -> None:
    early, late = "2024-05-02T09:00:00Z", "2024-05-02T11:00:00Z"
    others = [review("q2"), review("q3")]
    first_no = reviews(review("q1", at=late), review("q1", verdict="change", at=early), *others)
    assert isinstance(locked(seen=first_no), Locked)
    then_no = reviews(review("q1", verdict="change", at=late), review("q1", at=early), *others)
    assert isinstance(locked(seen=then_no), Waiting)


def test_p17_unreviewed_rows_pass_only_as_a_declared_deviation() -> None:
    seen = reviews(review("q1"), review("q2", intent="How do I read GML?"))
    got = locked(seen=seen, unreviewed_ok=True)
    assert isinstance(got, Locked)
    TABLES["intents"].model.validate(got.frame, lazy=True)
    assert got.frame["reviewer"].to_list() == ["eve", None, None]
    assert [(n.code, n.count) for n in got.notices] == [("unreviewed_intents", 2)]
    sent_back = locked(seen=reviews(review("q1", verdict="change")), unreviewed_ok=True)
    assert isinstance(sent_back, Waiting) and str(sent_back) == "2 of 3 intents ready to lock: 1 sent back (q1)"


def test_p16_intents_outside_the_sample_are_counted_not_read() -> None:
    got = locked(written(q9=("other", "nonsense", "a or b", None, None)))
    assert isinstance(got, Locked)
    assert got.frame.height == 3 and [(n.code, n.count) for n in got.notices] == [("intents_outside_sample", 1)]


def test_p17_the_tables_digest_changes_with_a_row_and_not_with_order() -> None:
    got = locked()
    assert isinstance(got, Locked)
    frame = got.frame
    assert intents_digest(frame) == intents_digest(frame.reverse())
    for column in ("form", "intent", "author", "row_digest", "query_id"):
        assert intents_digest(frame.with_columns(pl.col(column) + "x")) != intents_digest(frame)


def test_p16_row_digest_changes_with_every_part() -> None:
    parts = ("q", "how", "i", "a")
    assert len({row_digest(*(p + "x" * (i == j) for j, p in enumerate(parts))) for i in range(5)}) == 5
