"""Which queries are graded: a fixed number from each stratum, with known inclusion probabilities (P9, P10).

Sums, steps and starts are integers and order comes from hashes, so that the same bytes come out everywhere. Estimating
from the sample is not done here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, gcd

import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.protocol.canonical import hash_key
from relgrade_assets.protocol.design import Design

SHARES_WITHIN = 1e-9
"""P9: how far from 1 the traffic shares may sum."""


@dataclass(frozen=True, slots=True)
class SampleCheck:
    """One of P9's two checks: the value found, the value expected, and a line for people."""

    passed: bool
    value: float
    expected: float
    text: str


def inclusion(counts: Sequence[int], n: int, cap: int) -> list[tuple[int, int]]:
    """P10: pi = n w / sum(w), w = min(count, cap), as (numerator, denominator) in lowest terms; they sum to min(n,
    len(counts)).

    Those at 1 or more are taken surely and the rest is computed anew without them, until none is at 1 (Särndal,
    Swensson and Wretman 1992, section 3.6.2). Counts are at least 1.
    """
    weights = [min(c, cap) for c in counts]
    if n >= len(weights):
        return [(1, 1)] * len(weights)
    open_, left = set(range(len(weights))), n
    while True:
        total = sum(weights[i] for i in open_)
        sure = {i for i in open_ if left * weights[i] >= total}
        if not sure:
            break
        open_ -= sure
        left -= len(sure)
    return [_lowest(left * weights[i], total) if i in open_ else (1, 1) for i in range(len(weights))]


def draw(queries: pl.DataFrame, design: Design) -> pl.DataFrame:
    """P10: the QuerySample table, sorted by query id: in each stratum min(target, size) queries without replacement.

    Systematic (Madow 1949) on an order random by hash: each query has a length proportional to pi on a line, and every
    point of an equal-step grid, whose integer start comes from a hash, takes the query it falls on. Shares are the
    design's, or the stratum's part of all searches.
    """
    total = int(queries["count"].sum())
    parts: list[pl.DataFrame] = []
    for part in design.strata.parts:
        held = (
            queries.filter(pl.col("stratum") == part.name)
            .select("query_id", "query", "stratum", "count")
            .sort("query_id")
        )
        ids, counts = held["query_id"].to_list(), held["count"].to_list()
        pi = inclusion(counts, part.target, design.strata.weight_cap)
        taken = _systematic(ids, pi, seed=design.seed, stratum=part.name)
        share = part.share if part.share is not None else sum(counts) / total
        parts.append(
            held.with_columns(
                stratum_share=pl.lit(share, pl.Float64),
                stratum_size=pl.lit(held.height, pl.Int64),
                target=pl.lit(part.target, pl.Int64),
                inclusion_probability=pl.Series([a / b for a, b in pi], dtype=pl.Float64),
            ).filter(pl.col("query_id").is_in(sorted(taken)))
        )
    return pl.concat(parts).sort("query_id")


def shares_close(frame: pl.DataFrame, design: Design) -> SampleCheck:
    """P9: the traffic shares of the design's strata sum to 1 within 1e-9; `frame` is the query sample, or all queries.

    From all queries the text also sets declared shares beside measured ones.
    """
    if "stratum_share" in frame.columns:
        shares = dict(frame.select("stratum", "stratum_share").unique().sort("stratum").rows())
        text = "shares of the sampled strata"
    else:
        shares = measured_shares(frame)
        text = "shares measured in the log"
        gaps = [(p.name, p.share, shares.get(p.name, 0.0)) for p in design.strata.parts if p.share is not None]
        if gaps:
            text += "; declared against measured: " + ", ".join(
                f"{name} {declared:.4f} against {found:.4f}" for name, declared, found in gaps
            )
            shares = {name: declared for name, declared, _ in gaps}
    value = fsum(shares.get(p.name, 0.0) for p in design.strata.parts)
    absent = [p.name for p in design.strata.parts if p.name not in shares]
    text += f"; they sum to {value:.12g}" + (f"; no query of {', '.join(absent)}" if absent else "")
    return SampleCheck(passed=abs(value - 1) <= SHARES_WITHIN and not absent, value=value, expected=1.0, text=text)


def measured_shares(queries: pl.DataFrame) -> dict[str, float]:
    """Each stratum's part of all searches, by name."""
    sums = queries.group_by("stratum").agg(pl.col("count").sum()).sort("stratum")
    total = int(queries["count"].sum())
    return {name: count / total for name, count in sums.rows()}


def set_size(sample: pl.DataFrame, design: Design) -> SampleCheck:
    """P9: the set's size is the sum over strata of min(target, stratum's size), and so is each stratum's."""
    found = {
        name: (n, size)
        for name, n, size in sample.group_by("stratum")
        .agg(n=pl.len(), size=pl.col("stratum_size").first())
        .sort("stratum")
        .rows()
    }
    expected, wrong = 0, []
    for part in design.strata.parts:
        n, size = found.get(part.name, (0, part.target))
        expected += min(part.target, size)
        if n != min(part.target, size):
            wrong.append(f"{part.name} has {n} of {min(part.target, size)}")
    wrong += [
        f"{name} is no stratum of the design" for name in found if name not in {p.name for p in design.strata.parts}
    ]
    text = f"{sample.height} queries sampled, {expected} expected" + (f": {'; '.join(wrong)}" if wrong else "")
    return SampleCheck(
        passed=not wrong and sample.height == expected, value=sample.height, expected=expected, text=text
    )


def shortfalls(sample: pl.DataFrame, design: Design) -> tuple[Notice, ...]:
    """P10: a notice a stratum that holds fewer queries than its target; the count is how many are missing."""
    sizes = dict(sample.select("stratum", "stratum_size").unique().rows())
    return tuple(
        Notice(
            "short_stratum",
            p.target - sizes.get(p.name, 0),
            f"stratum {p.name} has {sizes.get(p.name, 0)} queries, {p.target} were asked for; it gives all",
        )
        for p in design.strata.parts
        if sizes.get(p.name, 0) < p.target
    )


def evenly(sizes: Mapping[str, int], n: int, *, purpose: str, seed: str) -> dict[str, int]:
    """`n` places over the named parts, as evenly as their sizes allow; odd places go by hash. All of `sizes` where `n`
    is more."""
    given = dict.fromkeys(sizes, 0)
    left = min(n, sum(sizes.values()))
    order = sorted(sizes, key=lambda name: hash_key(purpose, seed, name))
    while left:
        open_ = [name for name in order if given[name] < sizes[name]][:left]
        for name in open_:
            given[name] += 1
        left -= len(open_)
    return given


def _systematic(ids: Sequence[str], pi: Sequence[tuple[int, int]], *, seed: str, stratum: str) -> set[str]:
    sure = {i for i, (a, b) in zip(ids, pi, strict=True) if a == b}
    rest = [(hash_key("sample", seed, stratum, i), i, a, b) for i, (a, b) in zip(ids, pi, strict=True) if a < b]
    if not rest:
        return sure
    step = 1
    for _, _, _, b in rest:
        step = step * b // gcd(step, b)
    point = int(hash_key("sample_start", seed, stratum), 16) % step
    taken, end = sure, 0
    for _, query_id, a, b in sorted(rest):
        end += a * (step // b)
        if point < end:
            taken.add(query_id)
            point += step
    return taken


def _lowest(a: int, b: int) -> tuple[int, int]:
    return a // gcd(a, b), b // gcd(a, b)
