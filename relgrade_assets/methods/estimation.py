"""From measures of queries to measures of arms: plain mean, each stratum's, and the headline by traffic (P38).

Estimates and their variances belong here; the measures are measures.py's, the interval constructions intervals.py's.
Sums over queries are math.fsum, in the order of query ids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods.intervals import RESAMPLES, Interval, bca, student

Estimand = Literal["searches", "distinct_queries"]
ARM_MEASURES: dict[str, pl.DataType | type[pl.DataType]] = {
    "arm": pl.String,
    "measure": pl.String,
    "scope": pl.String,
    "estimand": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "interval": pl.String,
    "n": pl.Int64,
    "judged": pl.Float64,
}
"""Columns of schemas.ArmMeasures."""


@dataclass(frozen=True, slots=True)
class Graded:
    """One kept query of one arm and measure: its value, how much of it was judged, and its weights."""

    value: float
    judged: float
    weight: float
    pi: float


class Estimate(NamedTuple):
    """A stratum's mean, its variance (None with fewer than two queries), its degrees of freedom, and its queries."""

    value: float
    variance: float | None
    df: float
    n: int
    how: str


def hajek(values: Sequence[float], weights: Sequence[float], pis: Sequence[float]) -> Estimate:
    """Hajek's ratio mean sum(m y / pi) / sum(m / pi) with the variance of its linearised residuals.

    Saerndal, Swensson and Wretman 1992, 5.7: with w = m / pi, z = w (y - mean) / sum(w). Each residual is divided by
    1 - w / sum(w), which makes (n - 1) / n sum(z^2) the delete-one jackknife (Yung and Rao 1996): a query with most
    of the weight draws the mean to itself and would hide its own error. That is the with-replacement form, which suits
    a fixed-size draw with unequal probabilities (pi-ps) and errs to the safe side. Where all pi are equal it is
    multiplied by the finite-population factor 1 - pi; with m = 1 that is (1 - n/N) s^2 / n. Degrees of freedom are
    one less than the equal weights that these are worth, sum(w)^2 / sum(w^2) (Kish 1965), 1 at least. `values` in the
    measure's units, `weights` m, `pis` in (0, 1]; equally long, not empty.
    """
    n = len(values)
    w = [m / pi for m, pi in zip(weights, pis, strict=True)]
    size = math.fsum(w)
    mean = math.fsum(x * y for x, y in zip(w, values, strict=True)) / size
    if n < 2:
        return Estimate(mean, None, 0.0, n, "")
    equal = min(pis) == max(pis)
    factor = 1 - pis[0] if equal else 1.0
    least = min(w)
    z = [x * (y - mean) / max(size - x, least) for x, y in zip(w, values, strict=True)]
    variance = factor * (n - 1) / n * math.fsum(x * x for x in z)
    how = f"equal probabilities, finite-population factor {factor:.3g}" if equal else "unequal probabilities"
    if least == max(w):
        return Estimate(mean, variance, n - 1.0, n, how)
    worth = 1 / math.fsum((x / size) ** 2 for x in w)
    return Estimate(mean, variance, max(worth - 1.0, 1.0), n, f"{how}, weights worth {worth:.3g} equal ones")


def combine(parts: Sequence[tuple[float, Estimate]]) -> tuple[float, float | None, float]:
    """The headline from (traffic share, stratum): sum of share x mean, its variance, Satterthwaite's df.

    Variance sum(share^2 v), None where a stratum has none; df = (sum a)^2 / sum(a^2 / df_h), a = share^2 v
    (Satterthwaite 1946; Cochran 1977, 5.4).
    """
    value = math.fsum(share * e.value for share, e in parts)
    if any(e.variance is None for _, e in parts):
        return value, None, 0.0
    a = [(share * share * (e.variance or 0.0), e.df) for share, e in parts]
    variance, below = math.fsum(x for x, _ in a), math.fsum(x * x / df for x, df in a if df > 0)
    return value, variance, variance * variance / below if below > 0 else math.inf


def headline_estimate(
    parts: Mapping[str, Sequence[Graded]], shares: Mapping[str, float], collapsed_ok: bool
) -> tuple[float, float | None, float] | None:
    """`combine` over the strata's queries; None where a stratum has none (P32).

    A stratum of one query has no variance, unless `collapsed_ok`: then it borrows (`arm_measures`).
    """
    if any(not graded for graded in parts.values()):
        return None
    flat = [g.value for graded in parts.values() for g in graded]
    found = []
    for name, graded in parts.items():
        estimate = hajek([g.value for g in graded], [g.weight for g in graded], [g.pi for g in graded])
        alone = estimate.variance is None and collapsed_ok
        found.append((shares[name], _collapsed(estimate, flat) if alone else estimate))
    return combine(found)


def arm_measures(
    query_measures: pl.DataFrame,
    sample: pl.DataFrame,
    *,
    kept: Sequence[str],
    names: Sequence[str],
    estimand: Estimand,
    seed: str,
    collapsed_ok: bool,
    resamples: int = RESAMPLES,
) -> pl.DataFrame:
    """P38: every arm x measure x scope, as schemas.ArmMeasures, sorted by arm, measure and scope.

    `query_measures` as schemas.QueryMeasures, `sample` as schemas.QuerySample (all sampled queries); `kept` are the
    key's queries and `names` the measures wanted. Scopes: `plain` is the unweighted mean over the kept queries with a
    BCa interval (estimand sampled_queries); each stratum is Hajek's mean with m = count for searches and m = 1 for
    distinct queries; `headline` is the sum of traffic share x stratum mean. Strata and headline have Student's t
    interval, the headline's with Satterthwaite's degrees of freedom.

    A stratum without a graded query has no value and blocks the headline, which names it (P32). One with a single
    query has no interval, nor has the headline, unless `collapsed_ok`: then it borrows the variance between all
    graded queries (the collapsed-stratum idea, Wolter 2007, 2.5, with all strata in one group), which holds the
    differences between strata too and so errs to the safe side. `judged` is the mean share judged, weighted as the
    value (P37); 1 where no query is left. A query whose measure is undefined is left out and counted in `interval`.

    Raises Refused where strata's shares do not sum to 1, a stratum has two shares, one is called `plain` or
    `headline`, or a kept query is not in the sample or lacks a measure.
    """
    strata = shares_of(sample)
    wanted = query_measures.filter(pl.col("measure").is_in(list(names)) & pl.col("query_id").is_in(list(kept)))
    _complete(query_measures, wanted, sample, kept, names)
    weighted = wanted.join(sample.select("query_id", "stratum", "count", "inclusion_probability"), on="query_id")
    weighted = weighted.sort("arm", "measure", "query_id")
    rows: list[tuple[object, ...]] = []
    cells = list(weighted.group_by("arm", "measure", maintain_order=True))
    defined = [frame.drop_nulls("value") for _, frame in cells]
    plain = _plain(defined, seed, resamples)
    for (key, frame), graded, interval in zip(cells, defined, plain, strict=True):
        undefined = frame.height - graded.height
        said = f"; {undefined} queries left out, undefined for this measure" if undefined else ""
        parts: dict[str, list[Graded]] = {name: [] for name in strata}
        for stratum, count, pi, value, judged in graded.select(
            "stratum", "count", "inclusion_probability", "value", "judged"
        ).rows():
            parts[stratum].append(Graded(value, judged, float(count) if estimand == "searches" else 1.0, pi))
        flat = [g for name in strata for g in parts[name]]
        values = graded["value"].to_list()
        mean = math.fsum(values) / len(values) if values else None
        rows.append(
            (*key, "plain", "sampled_queries", mean, *interval[:2], interval.how + said, len(values), _judged(flat))
        )
        for scope, value, (low, high, how), n, judged in weighted_rows(parts, strata, collapsed_ok, flat):
            rows.append((*key, scope, estimand, value, low, high, how + said, n, judged))
    return pl.DataFrame(rows, schema=ARM_MEASURES, orient="row").sort("arm", "measure", "scope")


def weighted_rows(
    parts: dict[str, list[Graded]],
    strata: dict[str, float],
    collapsed_ok: bool,
    flat: list[Graded],
    *,
    least: float = 0.0,
) -> list[tuple[str, float | None, Interval, int, float]]:
    """(scope, value, interval, queries, judged) of every stratum and, last, of the headline, as `arm_measures` says.

    `parts` are the strata's queries, `strata` the traffic shares, `flat` all queries in order of strata; `least` is
    the lowest that a value can be (-1 for differences).
    """
    rows: list[tuple[str, float | None, Interval, int, float]] = []
    estimates: dict[str, Estimate] = {}
    shares: dict[str, float] = {}
    for name, graded in parts.items():
        if not graded:
            rows.append((name, None, Interval(None, None, "no graded query in this stratum"), 0, 1.0))
            continue
        found = hajek([g.value for g in graded], [g.weight for g in graded], [g.pi for g in graded])
        if found.variance is None and collapsed_ok:
            found = _collapsed(found, [g.value for g in flat])
        estimates[name] = found
        shares[name] = hajek([g.judged for g in graded], [g.weight for g in graded], [g.pi for g in graded]).value
        rows.append((name, found.value, _stratum_interval(found, graded, least), found.n, min(shares[name], 1.0)))
    empty = [name for name in strata if name not in estimates]
    if empty:
        why = f"no headline: no graded query in stratum {', '.join(empty)} (P32)"
        return [*rows, ("headline", None, Interval(None, None, why), len(flat), _judged(flat))]
    value, variance, df = combine([(share, estimates[name]) for name, share in strata.items()])
    alone = [name for name in strata if estimates[name].variance is None]
    if variance is None:
        interval = Interval(None, None, f"no interval: one graded query in stratum {', '.join(alone)}")
    elif variance == 0:
        interval = _no_spread(flat, value)
    else:
        interval = student(
            value,
            variance,
            df,
            f"t with {df:.1f} degrees of freedom (Satterthwaite), {len(strata)} strata",
            least=least,
        )
    judged = math.fsum(share * shares[name] for name, share in strata.items())
    return [*rows, ("headline", value, interval, len(flat), min(judged, 1.0))]


def _stratum_interval(found: Estimate, graded: list[Graded], least: float) -> Interval:
    if found.variance is None:
        return Interval(None, None, "no interval: one graded query")
    if found.variance == 0:
        return _no_spread(graded, found.value)
    how = f"t with {found.df:.4g} degrees of freedom; {found.how}"
    return student(found.value, found.variance, found.df, how, least=least)


def _no_spread(graded: Sequence[Graded], value: float) -> Interval:
    if all(g.pi == 1 for g in graded):
        return Interval(value, value, "every query was graded: no sampling error")
    return Interval(None, None, "no interval: no spread between the queries of a stratum")


def _collapsed(alone: Estimate, values: Sequence[float]) -> Estimate:
    """A one-query stratum with the variance between all graded queries, whatever their stratum."""
    n = len(values)
    if n < 2:
        return alone
    mean = math.fsum(values) / n
    variance = math.fsum((v - mean) ** 2 for v in values) / (n - 1)
    return alone._replace(
        variance=variance, df=n - 1.0, how=f"variance borrowed from all {n} queries (collapsed stratum)"
    )


def _plain(defined: Sequence[pl.DataFrame], seed: str, resamples: int) -> list[Interval]:
    """BCa intervals of every cell; cells over the same queries share their resamples."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, frame in enumerate(defined):
        groups.setdefault(tuple(frame["query_id"].to_list()), []).append(i)
    found: dict[int, Interval] = {}
    for places in groups.values():
        columns = [defined[i]["value"].to_list() for i in places]
        found |= dict(zip(places, bca(columns, seed=seed, part="plain", resamples=resamples), strict=True))
    return [found[i] for i in range(len(defined))]


def _judged(graded: Sequence[Graded]) -> float:
    return min(math.fsum(g.judged for g in graded) / len(graded), 1.0) if graded else 1.0


def shares_of(sample: pl.DataFrame) -> dict[str, float]:
    """Every sampled stratum and its traffic share, by name. Refused where they can't be weights."""
    pairs = sample.select("stratum", "stratum_share").unique().sort("stratum", "stratum_share").rows()
    strata = dict(pairs)
    faults = [
        Fault(f"stratum {name!r}", "two traffic shares", "one")
        for name in strata
        if sum(p[0] == name for p in pairs) > 1
    ]
    faults += [
        Fault(f"stratum {n!r}", "a name that stands for all strata", "another")
        for n in ("plain", "headline")
        if n in strata
    ]
    total = math.fsum(strata.values())
    if abs(total - 1) > 1e-9 and not faults:
        faults.append(Fault("traffic shares of the sampled strata", f"a sum of {total:.12g}", "1 within 1e-9"))
    if faults:
        raise Refused("The strata can't be weighted", faults)
    return strata


def _complete(
    measures: pl.DataFrame, wanted: pl.DataFrame, sample: pl.DataFrame, kept: Sequence[str], names: Sequence[str]
) -> None:
    known = set(sample["query_id"].to_list())
    faults = [
        Fault(f"query {q!r}", "in the key and not in the sample", "a sampled query") for q in sorted(set(kept) - known)
    ]
    for arm in measures["arm"].unique().sort().to_list():
        for name in names:
            have = wanted.filter((pl.col("arm") == arm) & (pl.col("measure") == name))["query_id"]
            lacking = len(set(kept)) - have.n_unique()
            if lacking:
                faults.append(Fault(f"{arm}, {name}", f"{lacking} kept queries without it", "one row a kept query"))
            elif len(have) > have.n_unique():
                faults.append(Fault(f"{arm}, {name}", "a query twice", "one row a kept query"))
    if faults:
        raise Refused("The measures do not cover the key", faults)
