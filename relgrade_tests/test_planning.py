"""The plan (P11) against statsmodels, the figures of statistics.md, simulation and laws."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from relgrade_assets.methods.planning import (
    PLAN,
    Effort,
    band,
    plan,
    plan_notes,
    power,
    size_for,
    size_for_difference,
    smallest_difference,
    standard_error,
)

STRATA = {"head": 25, "tail": 135}
SHARES = {"head": 0.8, "tail": 0.2}


def made(**more: object) -> dict[str, dict]:
    rows = plan(STRATA, SHARES, Effort(3, 10, 5_000), **more).to_dicts()  # type: ignore[arg-type]
    return {row["scope"]: row for row in rows}


def test_p11_figures_of_the_specification() -> None:
    """p 0.7: 25 queries give 0.092 and +-18 points, 160 give 0.036 and +-7."""
    assert standard_error(0.7, 25) == pytest.approx(0.092, abs=5e-4) and round(100 * band(0.7, 25)) == 18
    assert standard_error(0.7, 160) == pytest.approx(0.036, abs=5e-4) and round(100 * band(0.7, 160)) == 7


@settings(max_examples=40)
@given(st.floats(0.01, 0.99), st.integers(1, 5_000))
def test_law_half_the_band_takes_four_times_the_queries(rate: float, n: int) -> None:
    assert size_for(rate, band(rate, n)) == n
    assert size_for(rate, band(rate, n) / 2) == 4 * n
    assert band(rate, 4 * n) == pytest.approx(band(rate, n) / 2)


@pytest.mark.parametrize(("spread", "n"), [(0.2, 10), (0.2, 43), (0.15, 160), (0.3, 400), (0.05, 2)])
def test_smallest_difference_against_statsmodels(spread: float, n: int) -> None:
    """Against statsmodels 0.14's TTestPower, two-sided 5%, power 0.8."""
    effect = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)
    assert smallest_difference(spread, n) == pytest.approx(spread * float(effect), rel=1e-5)
    assert power(spread * float(effect), spread, n) == pytest.approx(0.8, abs=1e-5)


@pytest.mark.parametrize(("difference", "spread"), [(0.02, 0.2), (0.05, 0.2), (0.1, 0.15)])
def test_queries_for_a_difference_against_statsmodels(difference: float, spread: float) -> None:
    n = TTestPower().solve_power(effect_size=difference / spread, alpha=0.05, power=0.8)
    assert size_for_difference(difference, spread) == math.ceil(float(n))


@pytest.mark.parametrize("df", [1, 2, 5, 30, 400, 5_000])
def test_power_grows_with_the_difference_and_is_never_nan(df: int) -> None:
    """scipy's noncentral t is NaN in its far tails, which a comparison would take for found."""
    powers = [power(float(difference), 1.0, df + 1) for difference in np.geomspace(1e-4, 1e3, 2_000)]
    assert np.isfinite(powers).all() and (np.diff(powers) >= -1e-9).all()
    assert powers[0] == pytest.approx(0.05, abs=0.01) and powers[-1] == pytest.approx(1, abs=0.03)


def test_power_in_simulation() -> None:
    """A t test finds the smallest detectable difference of 40 queries in 80% of 4,000 samples."""
    n, spread = 40, 0.2
    drawn = np.random.default_rng(3).normal(smallest_difference(spread, n), spread, (4_000, n))
    found = stats.ttest_1samp(drawn, 0, axis=1).pvalue <= 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.02)


def test_p11_every_stratum_the_whole_and_the_headline() -> None:
    out = made()
    assert list(out) == ["head", "tail", "all", "headline"]
    assert out["all"]["queries"] == 160 and out["all"]["standard_error"] == pytest.approx(standard_error(0.7, 160))
    weighted = math.sqrt(0.64 * 0.21 / 25 + 0.04 * 0.21 / 135)
    assert out["headline"]["standard_error"] == pytest.approx(weighted)
    assert out["headline"]["band"] > out["all"]["band"]
    assert out["head"]["resolution"] == 0.04 and out["head"]["queries_wanted"] == 100
    assert made(wanted=0.05)["all"]["queries_wanted"] == size_for(0.7, 0.05) == 323


def test_p11_judging_effort_and_what_more_would_add() -> None:
    """Two a minute; 3 arms at depth 10 over 160 queries; another arm adds 10 a query, another rank 3 a query."""
    row = made()["all"]
    assert (row["pairs_pooled"], row["hours_pooled"]) == (4_800, 40.0)
    assert (row["pairs_exhaustive"], row["hours_exhaustive"]) == (800_000, pytest.approx(6_666.67, abs=0.01))
    assert (row["pairs_another_arm"], row["pairs_deeper"]) == (1_600, 480)
    unknown = plan(STRATA, SHARES, Effort(3, 10, None)).to_dicts()[0]
    assert unknown["pairs_exhaustive"] is None and unknown["hours_exhaustive"] is None


@pytest.mark.parametrize(("n", "coarse"), [(9, True), (10, True), (11, False)])
def test_p11_a_resolution_of_a_tenth_and_above_is_a_warning(n: int, coarse: bool) -> None:
    out = plan({"head": n}, {"head": 1.0}, Effort(2, 10, None))
    assert out["coarse"].to_list() == [coarse] * 3
    assert bool([s for s in plan_notes(out) if "head" in s]) == coarse


def test_degenerate_strata() -> None:
    """One query has no smallest difference; an empty stratum has no row and blocks the headline."""
    assert plan({"a": 1}, {"a": 1.0}, Effort(1, 1, 1))["smallest_difference"].to_list() == [None] * 3
    assert plan({"a": 3, "b": 0}, {"a": 0.5, "b": 0.5}, Effort(1, 1, 1))["scope"].to_list() == ["a", "all"]
    assert plan({}, {}, Effort(1, 1, 1)).height == 0


def test_columns_are_the_schemas() -> None:
    from relgrade_assets.schemas import Plan

    frame = plan(STRATA, SHARES, Effort(3, 10, None))
    Plan.validate(frame)
    assert frame.schema == pl.Schema(PLAN)
