"""Habits that spoil judgments, named where they happen (P45), and what a plan's size can't tell (P11)."""

from __future__ import annotations

import inspect
import re
from typing import Any

import polars as pl
import pytest
from test_design import design

from relgrade_assets.io.publication import manifest_schema
from relgrade_assets.methods import habits

SAMPLE = pl.DataFrame(
    {
        "query_id": ["a", "b"],
        "stratum": ["head", "rest"],
        "count": [40, 3],
        "inclusion_probability": [0.5, 0.1],
    }
)
BOTH = {"graders": [{"name": "g", "family": "fg"}, {"name": "i", "family": "fg"}]}


def codes(found: tuple[habits.Notice, ...]) -> list[str]:
    return [notice.code for notice in found]


def test_habits_of_a_design() -> None:
    """P45: one arm, one grader without overlap, the head alone."""
    arms = [{"name": "a", "family": "fa", "run": "a"}]
    alone = {"arms": arms, "deviations": [{"code": "one_arm", "reason": "only one yet"}]}
    assert codes(habits.of_study(design(BOTH), SAMPLE)) == []
    assert codes(habits.of_study(design({**BOTH, **alone}), SAMPLE)) == ["one_arm"]
    assert codes(habits.of_study(design(), SAMPLE)) == ["no_overlap"]
    head = SAMPLE.filter(pl.col("stratum") == "head")
    assert codes(habits.of_study(design(BOTH), head)) == ["head_only"]
    assert codes(habits.of_study(design(BOTH), head.clear())) == codes(habits.of_study(design(BOTH), None)) == []


@pytest.mark.parametrize(
    ("counts", "pis", "more", "said"),
    [
        ([99, 3], [0.5, 0.1], {}, ""),
        ([100, 3], [0.5, 0.1], {}, "50% of head"),
        ([100, 9], [0.5, 0.1], {"estimand": "distinct_queries"}, ""),
        ([100, 900], [0.5, 0.1], {}, "50% of head, 94% of rest"),
        ([100, 3], [1.0, 0.1], {}, ""),
    ],
)
def test_counts_far_beyond_the_cap_are_told(
    counts: list[int], pis: list[float], more: dict[str, object], said: str
) -> None:
    """P45, P10: half of a stratum's searches or more; not of one taken whole, nor where each query counts once."""
    sample = SAMPLE.with_columns(pl.Series("count", counts), pl.Series("inclusion_probability", pis))
    found = habits.of_study(design({**BOTH, **more}), sample)
    assert codes(found) == ["counts_beyond_cap"] * bool(said)
    assert all(f"are {said}: " in notice.text and "cap of 50" in notice.text for notice in found)


def test_the_manifest_knows_every_habit_that_it_may_tell() -> None:
    """P45: those of the design and its sample, and unjudged chunks."""
    told = set(re.findall(r'Notice\("(\w+)"', inspect.getsource(habits.of_study))) | {"unjudged"}
    schema: Any = manifest_schema()
    assert set(schema["properties"]["habits"]["items"]["properties"]["code"]["enum"]) == told


def test_rare_queries_of_a_stratum_take_nothing_from_what_is_beyond_the_cap() -> None:
    """P10: 150 searches are 100 beyond a cap of 50, of 160 in all; with pi 0.05, 10 searches stand for 200."""
    sample = pl.DataFrame({"stratum": ["head", "head"], "count": [150, 10], "inclusion_probability": [0.5, 0.5]})
    assert habits.beyond_cap(sample, design()) == {"head": 100 / 160}
    assert habits.beyond_cap(sample.with_columns(inclusion_probability=pl.Series([0.5, 0.05])), design()) == {}


@pytest.mark.parametrize(
    ("takes", "sure"), [((0.5, 0.5), False), ((0.5, 0.6), True), (("all", 0.1), True), (("all",), False)]
)
def test_graders_overlap_where_shares_exceed_the_whole(takes: tuple[object, ...], sure: bool) -> None:
    """P45, P30."""
    graders = [{"name": f"g{i}", "family": "fg", "takes": share} for i, share in enumerate(takes)]
    assert habits.overlaps(design({"graders": graders})) is sure


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ({"a": "e1"}, {"a": "e1"}, ""),
        ({"a": "e1"}, {"a": "e2"}, "a (e1 -> e2)"),
        ({"a": None}, {"a": "e2"}, "a (not told -> e2)"),
        ({"a": "e1"}, {"a": None}, "a (e1 -> not told)"),
        ({"a": None}, {"a": None}, ""),
        ({"a": "e1"}, {"a": "e1", "b": "e9"}, ""),
        ({"a": "e1", "b": "e1"}, {"b": "e2"}, "b (e1 -> e2)"),
    ],
)
def test_a_key_is_reused_where_an_arm_it_pooled_embeds_otherwise(
    then: dict[str, str | None], now: dict[str, str | None], said: str
) -> None:
    """P45: a new arm has no pools to reuse, and one that is gone reuses nothing."""
    found = habits.of_reuse(then, now)
    assert codes(found) == ["reuse"] * bool(said) and all(said in notice.text for notice in found)


def means(*rows: tuple[str, str, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["arm", "measure", "judged"], orient="row")


@pytest.mark.parametrize(
    ("judged", "said"),
    [(0.81, ""), (0.8, "watch it"), (0.71, "watch it"), (0.7, "judge these before comparing"), (0.0, "100%")],
)
def test_unjudged_is_told_from_a_fifth_and_acted_on_from_three_tenths(judged: float, said: str) -> None:
    """P40, P45: at the shallowest cut-off, which pools are made to reach."""
    table = means(("a", "nDCG@10", judged), ("a", "Recall@100", 0.1), ("a", "AP", 0.0), ("b", "P@10", 1.0))
    found = habits.of_scores(table)
    assert len(found) == bool(said)
    if found:
        assert said in found[0].text and "top 10 of a" in found[0].text and found[0].count == 1
    assert habits.of_scores(means(("a", "AP", 0.0))) == ()


def test_judgments_without_a_nought_are_told() -> None:
    """P45: unjudged taken as relevant, or relevant alone judged."""
    table = means(("a", "P@10", 1.0))
    assert codes(habits.of_scores(table, pl.DataFrame({"grade": [1, 2]}))) == ["only_relevant_judged"]
    assert codes(habits.of_scores(table, pl.DataFrame({"grade": [1, 0]}))) == []
    assert codes(habits.of_scores(table, pl.DataFrame({"grade": [-1, 1]}))) == ["only_relevant_judged"]
