"""From queries to arms: Hajek's mean, the headline and intervals, against scipy, formulas and a simulation (P32,
P37, P38)."""

import math

import numpy as np
import polars as pl
import pytest
import scipy.stats

from relgrade_assets.errors import Refused
from relgrade_assets.methods.estimation import arm_measures, combine, hajek
from relgrade_assets.methods.intervals import bca, student
from relgrade_assets.methods.resampling import draws, generator
from relgrade_assets.schemas import ArmMeasures

SAMPLE = pl.DataFrame(
    {
        "query_id": ["h1", "h2", "h3", "t1", "t2", "t3"],
        "query": ["x"] * 6,
        "stratum": ["head"] * 3 + ["tail"] * 3,
        "count": [100, 40, 20, 1, 2, 4],
        "stratum_share": [0.75] * 3 + [0.25] * 3,
        "stratum_size": [3] * 3 + [60] * 3,
        "target": [3] * 6,
        "inclusion_probability": [1.0, 0.8, 0.4, 0.02, 0.04, 0.08],
    }
)
VALUES = {"h1": 0.9, "h2": 0.5, "h3": 0.1, "t1": 0.2, "t2": 0.6, "t3": 0.7}


def measured(
    values: dict[str, float | None], judged: dict[str, float] | None = None, measure: str = "AP"
) -> pl.DataFrame:
    return pl.DataFrame(
        [("a", q, measure, v, (judged or {}).get(q, 1.0), True) for q, v in values.items()],
        schema={
            "arm": pl.String,
            "query_id": pl.String,
            "measure": pl.String,
            "value": pl.Float64,
            "judged": pl.Float64,
            "retrieved": pl.Boolean,
        },
        orient="row",
    )


def made(
    values: dict[str, float | None] | None = None, *, sample: pl.DataFrame = SAMPLE, **more: object
) -> dict[str, dict]:
    values = values or VALUES
    judged = more.pop("judged", None)
    arguments = {
        "kept": list(values),
        "names": ["AP"],
        "estimand": "searches",
        "seed": "s",
        "collapsed_ok": False,
        "resamples": 500,
    }
    out = arm_measures(measured(values, judged), sample, **{**arguments, **more})  # type: ignore[arg-type]
    ArmMeasures.validate(out)
    return {row["scope"]: row for row in out.to_dicts()}


def by_hand(queries: list[str], estimand: str) -> float:
    rows = {r["query_id"]: r for r in SAMPLE.to_dicts()}
    w = {q: (rows[q]["count"] if estimand == "searches" else 1) / rows[q]["inclusion_probability"] for q in queries}
    return sum(w[q] * VALUES[q] for q in queries) / sum(w.values())


@pytest.mark.parametrize("estimand", ["searches", "distinct_queries"])
def test_p38_strata_and_headline_by_hand(estimand: str) -> None:
    """Sum(m y / pi) / sum(m / pi), m the searches or 1; the headline sums traffic share x stratum mean."""
    out = made(estimand=estimand)
    head, tail = by_hand(["h1", "h2", "h3"], estimand), by_hand(["t1", "t2", "t3"], estimand)
    assert out["head"]["value"] == pytest.approx(head, abs=1e-14)
    assert out["tail"]["value"] == pytest.approx(tail, abs=1e-14)
    assert out["headline"]["value"] == pytest.approx(0.75 * head + 0.25 * tail, abs=1e-14)
    assert out["plain"]["value"] == pytest.approx(sum(VALUES.values()) / 6, abs=1e-14)
    assert {s: r["estimand"] for s, r in out.items()} == {
        "plain": "sampled_queries",
        "head": estimand,
        "tail": estimand,
        "headline": estimand,
    }
    assert out["headline"]["value"] != pytest.approx(out["plain"]["value"], abs=1e-3)


def test_linearised_variance_against_formulas() -> None:
    """Equal probabilities: (1 - n/N) s^2/n exactly. Unequal: the derivative of the ratio, by numerical differences."""
    y = [0.1, 0.4, 0.8, 0.3]
    found = hajek(y, [1.0] * 4, [0.25] * 4)
    assert found.variance == pytest.approx((1 - 0.25) * np.var(y, ddof=1) / 4, abs=1e-16)
    assert found.df == 3
    pi, m = [0.1, 0.5, 0.9, 0.2], [3.0, 1.0, 7.0, 2.0]
    unequal = hajek(y, m, pi)
    w = np.array(m) / np.array(pi)
    z = []
    for i in range(4):
        up = w.copy()
        up[i] *= 1 + 1e-6
        z.append(((up * y).sum() / up.sum() - (w * y).sum() / w.sum()) / 1e-6)
    assert unequal.variance == pytest.approx(4 / 3 * np.sum(np.square(z)), rel=1e-5)
    assert hajek(y, [1.0] * 4, [1.0] * 4).variance == 0


def test_satterthwaite_against_welch() -> None:
    """Two strata with share 1 and -1 are Welch's test: scipy.stats.ttest_ind(equal_var=False) gives the same df
    and interval."""
    x, y = [0.1, 0.5, 0.4, 0.9, 0.3], [0.2, 0.25, 0.3]
    parts = [hajek(v, [1.0] * len(v), [1e-12] * len(v)) for v in (x, y)]
    value, variance, df = combine([(1.0, parts[0]), (-1.0, parts[1])])
    welch = scipy.stats.ttest_ind(x, y, equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert df == pytest.approx(welch.df, rel=1e-9)
    assert value / math.sqrt(variance or 0) == pytest.approx(welch.statistic, rel=1e-9)
    found = student(value, variance or 0.0, df, "")
    assert found.high == pytest.approx(interval.high, rel=1e-9) and found.low == 0.0 and "cut to 0..1" in found.how


def test_bca_against_scipy_on_the_same_resamples(monkeypatch) -> None:
    """scipy.stats.bootstrap, BCa, given our draws: equal ends. Values are 64ths, so that scipy's means of ties are
    equal too."""
    y = np.array([6, 0, 0, 58, 32, 32, 64, 13, 3, 39, 19, 0]) / 64
    counts = np.concatenate(list(draws(generator("bca", "seed", "plain"), len(y), 999)))
    index = np.stack([np.repeat(np.arange(len(y)), row.astype(int)) for row in counts])
    monkeypatch.setattr(
        scipy.stats._resampling,
        "_bootstrap_resample",
        lambda sample, n_resamples=None, random_state=None, **_: sample[..., index],
    )
    theirs = scipy.stats.bootstrap((y,), np.mean, n_resamples=999, method="BCa", vectorized=True).confidence_interval
    mine = bca([y.tolist()], seed="seed", part="plain", resamples=999)[0]
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_bca_is_close_to_scipy_with_its_own_resamples() -> None:
    y = np.random.default_rng(5).beta(0.5, 1.0, 60)
    theirs = scipy.stats.bootstrap((y,), np.mean, n_resamples=9_999, method="BCa", random_state=1).confidence_interval
    mine = bca([y.tolist()], seed="s", part="plain")[0]
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_bca_columns_do_not_disturb_each_other_and_blocks_do_not_matter(monkeypatch) -> None:
    columns = np.random.default_rng(6).random((3, 40)).tolist()
    together = bca(columns, seed="s", part="p", resamples=500)
    assert together == [bca([c], seed="s", part="p", resamples=500)[0] for c in columns]
    monkeypatch.setattr("relgrade_assets.methods.resampling.AT_ONCE", 400)
    assert bca(columns, seed="s", part="p", resamples=500) == together


def test_no_interval_says_why_degenerate() -> None:
    assert bca([[0.5]], seed="s", part="p")[0] == (None, None, "no interval: 1 query")
    assert bca([[]], seed="s", part="p")[0].low is None
    assert "same value" in bca([[1.0] * 8], seed="s", part="p")[0].how
    assert "same value" in bca([[0.0] * 8], seed="s", part="p")[0].how
    flat = made(dict.fromkeys(VALUES, 0.5))
    assert (
        flat["headline"]["value"] == 0.5
        and flat["headline"]["low"] is None
        and "no spread" in flat["headline"]["interval"]
    )


def test_p32_an_emptied_stratum_blocks_the_headline_and_is_named() -> None:
    out = made({q: v for q, v in VALUES.items() if q.startswith("h")})
    assert out["headline"]["value"] is None and out["headline"]["low"] is None
    assert "stratum tail (P32)" in out["headline"]["interval"]
    assert out["tail"]["value"] is None and out["tail"]["n"] == 0
    assert out["head"]["value"] is not None and out["plain"]["n"] == 3


def test_p38_one_query_in_a_stratum_has_no_interval_unless_declared_collapsed() -> None:
    one = {q: v for q, v in VALUES.items() if q[0] == "h" or q == "t1"}
    out = made(one)
    assert out["tail"]["value"] == 0.2 and out["tail"]["low"] is None
    assert (
        out["headline"]["value"] is not None
        and out["headline"]["low"] is None
        and "stratum tail" in out["headline"]["interval"]
    )
    collapsed = made(one, collapsed_ok=True)
    assert collapsed["tail"]["low"] == 0.0 and "collapsed" in collapsed["tail"]["interval"]
    assert collapsed["headline"]["low"] < collapsed["headline"]["value"] < collapsed["headline"]["high"]
    assert collapsed["headline"]["value"] == out["headline"]["value"]


def test_a_stratum_graded_whole_has_no_sampling_error() -> None:
    whole = SAMPLE.with_columns(
        inclusion_probability=pl.when(pl.col("stratum") == "head").then(1.0).otherwise("inclusion_probability")
    )
    out = made(sample=whole)
    assert out["head"]["low"] == out["head"]["value"] == out["head"]["high"]
    assert out["headline"]["low"] < out["headline"]["value"]


def test_p37_the_judged_share_is_averaged_with_the_value() -> None:
    judged = {"h1": 1.0, "h2": 0.5, "h3": 0.0, "t1": 1.0, "t2": 1.0, "t3": 0.0}
    out = made(judged=judged)
    assert out["plain"]["judged"] == pytest.approx(3.5 / 6)
    w = {"t1": 50, "t2": 50, "t3": 50}
    assert out["tail"]["judged"] == pytest.approx((w["t1"] + w["t2"]) / sum(w.values()))
    assert out["headline"]["judged"] == pytest.approx(0.75 * out["head"]["judged"] + 0.25 * out["tail"]["judged"])


def test_a_query_undefined_for_a_measure_is_left_out_and_counted() -> None:
    out = made({**VALUES, "h1": None})
    assert out["plain"]["n"] == 5 and "1 queries left out" in out["plain"]["interval"]


def test_refused_where_the_weights_or_measures_do_not_fit() -> None:
    with pytest.raises(Refused, match=r"a sum of 0.8;"):
        made(sample=SAMPLE.with_columns(stratum_share=pl.when(pl.col("stratum") == "head").then(0.55).otherwise(0.25)))
    with pytest.raises(Refused, match="two traffic shares"):
        made(
            sample=SAMPLE.with_columns(
                stratum_share=pl.when(pl.col("query_id") == "h1").then(0.7).otherwise("stratum_share")
            )
        )
    with pytest.raises(Refused, match="stands for all strata"):
        made(sample=SAMPLE.with_columns(stratum=pl.col("stratum").replace("tail", "headline")))
    with pytest.raises(Refused) as refused:
        made(kept=[*VALUES, "z9"], names=["AP", "RR"])
    assert {f.found for f in refused.value.faults} == {
        "in the key and not in the sample",
        "1 kept queries without it",
        "7 kept queries without it",
    }


def test_rows_do_not_depend_on_order_and_follow_the_seed() -> None:
    frame, arguments = (
        measured(VALUES),
        {"kept": list(VALUES), "names": ["AP"], "estimand": "searches", "collapsed_ok": False, "resamples": 300},
    )
    first = arm_measures(frame, SAMPLE, seed="s", **arguments)  # type: ignore[arg-type]
    assert arm_measures(frame.reverse(), SAMPLE.reverse(), seed="s", **arguments).equals(first)  # type: ignore[arg-type]
    assert not arm_measures(frame, SAMPLE, seed="t", **arguments).equals(first)  # type: ignore[arg-type]


def zipf_log() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The named population: 600 queries, count ~ 2000 / rank, value falls with rarity, with noise; head 60, torso
    180, tail 360."""
    rng = np.random.default_rng(11)
    count = np.maximum(1, 2000 // np.arange(1, 601))
    value = np.clip(0.35 + 0.07 * np.log(count) + rng.normal(0, 0.25, 600), 0, 1)
    return count, value, np.repeat([0, 1, 2], [60, 180, 360])


@pytest.mark.parametrize("estimand", ["searches", "distinct_queries"])
def test_headline_in_simulation_with_known_truth(estimand: str) -> None:
    """Zipf log, pi-ps systematic on a random order, w = min(count, 50), 30 a stratum: unbiased, and 95% intervals
    cover 91-99%."""
    count, value, stratum = zipf_log()
    rng = np.random.default_rng(12)
    share = np.bincount(stratum, count) / count.sum()
    m = count.astype(float) if estimand == "searches" else np.ones(600)
    truth = sum(share[h] * np.average(value[stratum == h], weights=m[stratum == h]) for h in range(3))
    estimates, covered = [], 0
    for _ in range(500):
        parts = []
        for h in range(3):
            order = rng.permutation(np.flatnonzero(stratum == h))
            w = np.minimum(count[order], 50).astype(float)
            pi, sure = np.zeros(len(order)), np.zeros(len(order), dtype=bool)
            while True:
                pi = np.where(sure, 1.0, (30 - sure.sum()) * w / w[~sure].sum())
                if not ((pi >= 1) & ~sure).any():
                    break
                sure |= pi >= 1
            steps = np.floor(np.cumsum(pi) + rng.random())
            taken = np.diff(np.concatenate([[np.floor(0)], steps])) >= 1
            taken[0] = steps[0] >= 1
            chosen = order[taken]
            parts.append((float(share[h]), hajek(value[chosen].tolist(), m[chosen].tolist(), pi[taken].tolist())))
        estimate, variance, df = combine(parts)
        interval = student(estimate, variance or 0.0, df, "")
        estimates.append(estimate)
        covered += (interval.low or 0) <= truth <= (interval.high or 0)
    error = np.mean(estimates) - truth
    assert abs(error) < 4 * np.std(estimates) / math.sqrt(500) + 0.003
    assert 0.91 <= covered / 500 <= 0.99
    print(f"{estimand}: bias {error:+.4f}, coverage {covered / 500:.3f}")
