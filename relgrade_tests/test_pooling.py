"""P12, P13, P45: pools and contributions."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_by_hand import corpus_of, runs_of

from relgrade_assets.errors import Refused
from relgrade_assets.methods.pooling import contributions, pool_report, pools
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.schemas import TABLES

RUNS = runs_of({"bm25": {"q1": ["a", "b", "c"], "q2": ["d"]}, "dense": {"q1": ["b", "d", "a"]}})
CORPUS = corpus_of({"a": "alpha", "b": "beta", "c": "gamma", "d": "delta", "e": "unused"})


def test_p12_p13_pool_is_the_union_cut_to_depth_by_hand() -> None:
    found = contributions(RUNS, 2)
    TABLES["contributions"].model.validate(found, lazy=True)
    assert found.select("query_id", "chunk_id", "arm", "rank").rows() == [
        ("q1", "a", "bm25", 1),
        ("q1", "b", "bm25", 2),
        ("q1", "b", "dense", 1),
        ("q1", "d", "dense", 2),
        ("q2", "d", "bm25", 1),
    ]
    pooled = pools(found, CORPUS)
    TABLES["pools"].model.validate(pooled, lazy=True)
    assert pooled.select("query_id", "chunk_id").rows() == [("q1", "a"), ("q1", "b"), ("q1", "d"), ("q2", "d")]
    assert pooled["chunk_digest"][0] == digest(["A", "alpha"])


def test_p13_pools_hold_nothing_of_arms() -> None:
    """P13: the columns exactly, and the same bytes whichever arm found what at which rank."""
    swapped = RUNS.with_columns(arm=pl.lit("x"), score=pl.col("score") * 2).unique(["query_id", "chunk_id"])
    one, two = pools(contributions(RUNS, 3), CORPUS), pools(contributions(swapped, 3), CORPUS)
    assert one.columns == ["query_id", "chunk_id", "chunk_digest"]
    assert one.equals(two)


def test_p12_a_chunk_outside_the_corpus_is_refused_by_name() -> None:
    found = contributions(RUNS, 3)
    with pytest.raises(Refused) as caught:
        pools(found, CORPUS.filter(~pl.col("chunk_id").is_in(["a", "d"])))
    assert "chunk 'a'" in str(caught.value) and "chunk 'd': found a run's result for 2 queries" in str(caught.value)
    with pytest.raises(Refused, match="chunk ids twice"):
        pools(found, CORPUS.vstack(CORPUS))


@pytest.mark.parametrize(
    ("arms", "depth", "chunks", "codes"),
    [
        (3, 10, 99_999, []),
        (3, 9, 10, ["shallow_depth"]),
        (4, 19, 10, ["shallow_depth"]),
        (4, 20, 100_000, []),
        (3, 19, 100_000, ["shallow_depth"]),
        (1, 10, 10, ["one_arm"]),
    ],
)
def test_p12_p45_warnings(arms: int, depth: int, chunks: int, codes: list[str]) -> None:
    found = contributions(RUNS, depth)
    report = pool_report(found, pools(found, CORPUS), arms=arms, depth=depth, chunks=chunks)
    assert [n.code for n in report.notices] == codes
    assert report.sizes.rows() == [("q1", 4, arms * depth), ("q2", 1, arms * depth)]


def test_p45_one_arm_that_found_anything_is_named() -> None:
    found = contributions(RUNS.filter(pl.col("arm") == "bm25"), 10)
    assert [n.code for n in pool_report(found, pools(found, CORPUS), arms=2, depth=10, chunks=5).notices] == ["one_arm"]


lists = st.lists(st.sampled_from("abcde"), unique=True, min_size=1)
two_queries = st.fixed_dictionaries({"q1": lists, "q2": lists})


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.fixed_dictionaries({"x": two_queries, "y": two_queries}), st.integers(1, 5), st.integers(1, 5))
def test_p12_a_deeper_pool_contains_a_shallower_one_law(runs: dict, one: int, two: int) -> None:
    table = runs_of(runs)
    small = set(pools(contributions(table, min(one, two)), CORPUS).rows())
    large = set(pools(contributions(table, max(one, two)), CORPUS).rows())
    assert small <= large
    relabelled = pools(contributions(table.with_columns(query_id="r" + pl.col("query_id")), max(one, two)), CORPUS)
    assert {(q[1:], c, d) for q, c, d in relabelled.rows()} == large
