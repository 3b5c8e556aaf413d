"""The key: what it holds and leaves out, and its bytes (P19, P32, P33)."""

import hashlib
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.methods.key import build, canonical_bytes, key_digest
from relgrade_assets.schemas import FrozenKey

GRADES = {"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64, "unrateable": pl.Boolean}
SAMPLE = pl.DataFrame({"query_id": ["q1", "q2", "q3", "q4"], "stratum": ["head", "head", "tail", "torso"]})
ROWS = [
    ("q1", "a", 2, False),
    ("q1", "b", 0, False),
    ("q1", "c", None, True),
    ("q2", "a", 1, False),
    ("q3", "z", 0, False),
]


def grades(rows: list[tuple[str, str, int | None, bool | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=GRADES, orient="row")


def made(rows=ROWS, *, pool=None, relevant_from: int = 1):
    combined = grades(rows)
    return build(combined, grades(pool or ROWS).select("query_id", "chunk_id"), SAMPLE, relevant_from=relevant_from)


def test_p32_queries_with_nothing_relevant_are_dropped_and_listed() -> None:
    key = made()
    FrozenKey.validate(key.frame)
    assert key.frame.rows() == [("q1", "a", 2), ("q1", "b", 0), ("q2", "a", 1)]
    assert key.kept == ["q1", "q2"]
    assert key.dropped == ("q3", "q4"), "q4 has no pool at all: nothing relevant either"
    assert key.emptied == ("tail", "torso")


def test_p32_relevance_is_the_scales_threshold() -> None:
    key = made(relevant_from=2)
    assert key.dropped == ("q2", "q3", "q4") and key.emptied == ("tail", "torso")


def test_p19_unrateable_is_no_grade_and_is_counted() -> None:
    key = made()
    assert key.unrateable.rows() == [("q1", "c")] and key.unrateable_share == 1 / 5


def test_an_incomplete_pool_is_refused_with_every_fault_at_once() -> None:
    rows = [
        ("q1", "a", None, False),
        ("q1", "b", 1, True),
        ("q2", "a", 1, False),
        ("q2", "a", 2, False),
        ("q9", "y", 1, False),
        ("q1", "c", 1, None),
    ]
    pool = [*ROWS, ("q8", "x", 0, False)]
    with pytest.raises(Refused) as refused:
        made(rows, pool=pool)
    found = {(f.where, f.found) for f in refused.value.faults}
    assert found == {
        ("query 'q3', chunk 'z'", "no answer"),
        ("query 'q8', chunk 'x'", "no answer"),
        ("query 'q1', chunk 'a'", "no grade, and not unrateable"),
        ("query 'q1', chunk 'c'", "no grade, and not unrateable"),
        ("query 'q1', chunk 'b'", "a grade, and unrateable"),
        ("query 'q2', chunk 'a'", "more than one combined grade"),
        ("query 'q9', chunk 'y'", "a grade outside the pool"),
        ("query 'q8'", "in the pool"),
    }


def test_many_missing_pairs_are_counted() -> None:
    pool = [("q1", f"c{i:03d}", 0, False) for i in range(30)]
    with pytest.raises(Refused, match=r"30 faults\.[\s\S]*and 10 more"):
        made([], pool=pool)


def test_a_key_without_anything_relevant_is_refused() -> None:
    with pytest.raises(Refused, match="The key would be empty"):
        made([(q, c, None if u else 0, u) for q, c, _, u in ROWS])


def test_p33_bytes_are_those_of_formats_md() -> None:
    """The line that formats.md shows, and characters that JSON lets stand."""
    frame = pl.DataFrame({"query_id": ["q031"], "chunk_id": ["nx.dag:topological_sort"], "grade": [2]})
    assert canonical_bytes(frame) == b'{"query_id":"q031","chunk_id":"nx.dag:topological_sort","grade":2}\n'
    odd = pl.DataFrame({"query_id": ["\U0001f600"], "chunk_id": ['ü/"\\\u2028\x7f'], "grade": [0]})
    assert canonical_bytes(odd) == '{"query_id":"\U0001f600","chunk_id":"ü/\\"\\\\\u2028\x7f","grade":0}\n'.encode()
    assert key_digest(frame) == hashlib.sha256(canonical_bytes(frame)).hexdigest()


def test_p33_sorted_by_code_point_not_by_utf16_or_locale() -> None:
    ids = ["b", "B", "a", "é", "\uffff", "\U00010000", "a\x00", "10", "9", "q1", "q10"]
    frame = pl.DataFrame({"query_id": ids, "chunk_id": ids[::-1], "grade": [1] * len(ids)})
    lines = [json.loads(line)["query_id"] for line in canonical_bytes(frame).decode().split("\n")[:-1]]
    assert lines == sorted(ids)


pairs = st.dictionaries(st.tuples(st.text(max_size=4), st.text(max_size=4)), st.integers(0, 9), max_size=12)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(pairs, st.randoms(use_true_random=False))
def test_p33_the_hash_does_not_depend_on_row_order(pairs, random) -> None:
    """A law; and the bytes read back are the key, sorted by code point."""
    rows = [(q, c, g) for (q, c), g in pairs.items()]
    shuffled = rows[:]
    random.shuffle(shuffled)
    schema = {"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64}
    one, other = (pl.DataFrame(r, schema=schema, orient="row") for r in (rows, shuffled))
    assert key_digest(one) == key_digest(other)
    back = [tuple(json.loads(line).values()) for line in canonical_bytes(one).decode().split("\n")[:-1]]
    assert back == sorted(rows)


def test_a_pair_twice_has_no_bytes() -> None:
    frame = pl.DataFrame({"query_id": ["q", "q"], "chunk_id": ["c", "c"], "grade": [1, 1]})
    with pytest.raises(Refused, match="query 'q', chunk 'c': found 2 grades"):
        canonical_bytes(frame)
