"""P9 and P10: probabilities by hand and by law, realised frequencies by simulation, bytes by value."""

from collections import Counter
from fractions import Fraction
from math import fsum

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from study_by_hand import design_of

from relgrade_assets.methods.sampling import draw, evenly, inclusion, set_size, shares_close, shortfalls
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.schemas import TABLES

GOLDEN = "101b6acdb74d2a54e5616a12d1457d9724519f5331ed47994fef12af280b886d"
COUNTS = [400, 90, 30, 12, 7, 7, 4, 3, 2, 1, 1, 1]


def queries(**strata: list[int]) -> pl.DataFrame:
    rows = [
        (f"{name}{i:03}", f"{name} query {i}", name, count)
        for name, counts in strata.items()
        for i, count in enumerate(counts)
    ]
    return pl.DataFrame(rows, schema=["query_id", "query", "stratum", "count"], orient="row")


def test_p10_inclusion_by_hand() -> None:
    # w = 50, 50, 10, 6, 4; n = 3: of 120, 3*50 >= 120 twice; the one place left is shared 10:6:4
    assert inclusion([90, 50, 10, 6, 4], 3, 50) == [(1, 1), (1, 1), (1, 2), (3, 10), (1, 5)]


def test_p10_taken_surely_is_iterated() -> None:
    # n = 2 of w 10, 5, 2, 2, 1: first 2*10 >= 20; then 1*5 of 10 is a half, no more
    assert inclusion([10, 5, 2, 2, 1], 2, 50) == [(1, 1), (1, 2), (1, 5), (1, 5), (1, 10)]
    # n = 3 of w 20, 9, 1, 1, 1: first 3*20 >= 32 alone; only then 2*9 >= 12
    assert inclusion([20, 9, 1, 1, 1], 3, 50) == [(1, 1), (1, 1), (1, 3), (1, 3), (1, 3)]


def test_p10_short_stratum_gives_all_degenerate() -> None:
    assert inclusion([5, 1], 2, 50) == inclusion([5, 1], 9, 50) == [(1, 1), (1, 1)]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.integers(1, 45), st.integers(1, 60))
def test_p10_inclusion_laws(counts: list[int], n: int, cap: int) -> None:
    pi = [Fraction(a, b) for a, b in inclusion(counts, n, cap)]
    assert sum(pi) == min(n, len(counts))
    assert all(0 < p <= 1 for p in pi)
    below = [(p, min(c, cap)) for p, c in zip(pi, counts, strict=True) if p < 1]
    assert len({p / w for p, w in below}) <= 1  # proportional to the weight
    assert all(min(c, cap) >= max((w for _, w in below), default=0) for p, c in zip(pi, counts, strict=True) if p == 1)


def test_p10_realised_frequencies_against_pi_in_simulation() -> None:
    """P10: over 1,500 seeds each query is drawn as often as its pi says, within 4.5 standard errors."""
    frame = queries(head=COUNTS, torso=[1], tail=[1])
    drawn: Counter[str] = Counter()
    for seed in range(1500):
        sample = draw(frame, design_of(seed=f"s{seed}", targets={"head": 5, "torso": 1, "tail": 1}))
        drawn.update(sample.filter(pl.col("stratum") == "head")["query_id"].to_list())
    for i, (a, b) in enumerate(inclusion(COUNTS, 5, 50)):
        pi = a / b
        band = 4.5 * (pi * (1 - pi) / 1500) ** 0.5
        assert abs(drawn[f"head{i:03}"] / 1500 - pi) <= band + 1e-12


def test_p10_golden_bytes_for_one_seed() -> None:
    design = design_of(targets={"head": 80, "torso": 150, "tail": 80})
    frame = queries(head=COUNTS * 20, torso=COUNTS * 30, tail=[1] * 300)
    sample = draw(frame, design)
    TABLES["query_sample"].model.validate(sample, lazy=True)
    assert digest([list(row) for row in sample.rows()]) == GOLDEN
    assert draw(frame.reverse(), design).equals(sample)


def test_p10_p9_sizes_shares_and_shortfall() -> None:
    design = design_of(targets={"head": 4, "torso": 3, "tail": 5})
    frame = queries(head=[60, 20, 10, 5, 5], torso=[5, 5, 5], tail=[1, 1, 1])
    sample = draw(frame, design)
    assert Counter(sample["stratum"]) == {"head": 4, "torso": 3, "tail": 3}
    shares = dict(sample.select("stratum", "stratum_share").unique().rows())
    assert shares == {"head": 100 / 118, "torso": 15 / 118, "tail": 3 / 118}
    assert sample.filter(pl.col("stratum") != "head")["inclusion_probability"].to_list() == [1.0] * 6
    assert fsum(sample["inclusion_probability"]) < 10
    (short,) = shortfalls(sample, design)
    assert (short.code, short.count) == ("short_stratum", 2) and "tail has 3 queries, 5 were asked for" in short.text
    size = set_size(sample, design)
    assert size.passed and (size.value, size.expected) == (10, 10)
    fewer = set_size(sample.filter(pl.col("query_id") != sample["query_id"][0]), design)
    assert not fewer.passed and "head has 3 of 4" in fewer.text
    assert not set_size(sample.filter(pl.col("stratum") != "torso"), design).passed


def test_p9_declared_shares_are_compared_with_the_log() -> None:
    design = design_of(shares={"head": 0.5, "torso": 0.3, "tail": 0.2})
    frame = queries(head=[60, 20], torso=[15], tail=[5])
    sample = draw(frame, design)
    assert dict(sample.select("stratum", "stratum_share").unique().rows()) == {"head": 0.5, "torso": 0.3, "tail": 0.2}
    check = shares_close(frame, design)
    assert check.passed and "head 0.5000 against 0.8000" in check.text and "tail 0.2000 against 0.0500" in check.text


def test_p9_shares_off_one_fail() -> None:
    design = design_of()
    sample = draw(queries(head=[60], torso=[15], tail=[5]), design)
    assert shares_close(sample, design).passed
    off = sample.with_columns(stratum_share=pl.col("stratum_share") + 1e-9)
    assert not shares_close(off, design).passed
    without = shares_close(sample.filter(pl.col("stratum") != "tail"), design)
    assert not without.passed and "no query of tail" in without.text
    assert not shares_close(queries(head=[60], torso=[15]), design).passed  # they sum to 1, and a stratum is not there


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), min_size=1), st.integers(0, 60))
def test_evenly_laws(sizes: dict[str, int], n: int) -> None:
    """P26, P8: all places are given, none beyond a size, and only full parts have less than another less one."""
    got = evenly(sizes, n, purpose="p", seed="s")
    assert sum(got.values()) == min(n, sum(sizes.values()))
    assert all(got[k] <= sizes[k] for k in sizes)
    assert all(got[k] >= max(got.values()) - 1 for k in sizes if got[k] < sizes[k])
    assert got == evenly(dict(reversed(sizes.items())), n, purpose="p", seed="s")


def test_evenly_gives_odd_places_by_hash() -> None:
    """P26: no stratum is first by its name or place; each gets the one odd place under some seed."""
    got = [evenly({"a": 5, "b": 5, "c": 5}, 4, purpose="p", seed=str(i)) for i in range(20)]
    assert {name for held in got for name, n in held.items() if n == 2} == {"a", "b", "c"}


def test_p10_strata_of_one_query_degenerate() -> None:
    design = design_of(targets={"head": 1, "torso": 1, "tail": 1})
    assert draw(queries(head=[1], torso=[1], tail=[1]), design)["inclusion_probability"].to_list() == [1.0, 1.0, 1.0]
