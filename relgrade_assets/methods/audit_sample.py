"""Which queries the auditor grades again (P26): those that few arms agree on, evenly over strata.

It reads contributions, so nothing of its table but query ids may go on to a sheet (P13); `ids` is that cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import polars as pl

from relgrade_assets.methods.sampling import evenly
from relgrade_assets.protocol.canonical import hash_key


@dataclass(frozen=True, slots=True)
class Selection:
    """The AuditSelection table, and how many of its queries were audited in an earlier round (over 0: "reused
    sample")."""

    frame: pl.DataFrame
    reused: int


def select(
    contributions: pl.DataFrame,
    sample: pl.DataFrame,
    pools: pl.DataFrame,
    *,
    share: float,
    at_least: int,
    random_too: bool,
    seed: str,
    round: int,
    arms: int,
    used_before: frozenset[str],
) -> Selection:
    """P26: the AuditSelection table, sorted by query id.

    Size: the greater of `at_least` and `share` of the sampled queries, rounded up; no more than have a pool. Over
    strata evenly, odd places by hash. In a stratum those whose pool has the highest part found by at most two arms
    (one, with three arms or fewer); of equals the lowest hash. Queries of `used_before` come in only when no others are
    left. With `random_too` as many again, drawn by hash from the rest of the sample without regard to strata.
    """
    parts = few_arms_share(contributions, pools, arms=arms)
    strata = {i: s for i, s in sample.select("query_id", "stratum").sort("query_id").rows() if i in parts}
    size = min(max(at_least, ceil(Fraction(str(share)) * sample.height)), len(strata))
    fresh = [i for i in strata if i not in used_before]
    used = [i for i in strata if i in used_before]
    tag = [seed, str(round)]

    def best(ids: Sequence[str], n: int) -> list[str]:
        names = sorted({strata[i] for i in ids})
        held = {name: [i for i in ids if strata[i] == name] for name in names}
        places = evenly({name: len(held[name]) for name in names}, n, purpose="audit_strata", seed="/".join(tag))
        ranked = {name: sorted(held[name], key=lambda i: (-parts[i], hash_key("audit", *tag, i))) for name in names}
        return [i for name in names for i in ranked[name][: places[name]]]

    chosen = best(fresh, size)
    chosen += best(used, size - len(chosen))
    at_random: list[str] = []
    if random_too:
        taken = set(chosen)
        rest = [i for i in strata if i not in taken]
        at_random = sorted(rest, key=lambda i: (i in used_before, hash_key("audit_random", *tag, i)))[:size]
    rows = [(i, strata[i], parts[i], why) for ids, why in ((chosen, "few_arms"), (at_random, "random")) for i in ids]
    schema = {"query_id": pl.String, "stratum": pl.String, "few_arms_share": pl.Float64, "chosen_for": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row").sort("query_id")
    return Selection(frame=frame, reused=sum(1 for i in [*chosen, *at_random] if i in used_before))


def few_arms_share(contributions: pl.DataFrame, pools: pl.DataFrame, *, arms: int) -> dict[str, float]:
    """P26: by query, the part of its pool (0 to 1) that at most two arms found; that one arm found, with three arms or
    fewer."""
    few = 1 if arms <= 3 else 2
    found = contributions.group_by("query_id", "chunk_id").agg(n=pl.col("arm").n_unique())
    counted = pools.select("query_id", "chunk_id").join(found, on=["query_id", "chunk_id"], how="left")
    parts = counted.group_by("query_id").agg(few=(pl.col("n") <= few).sum(), of=pl.len()).sort("query_id")
    return {query_id: k / n for query_id, k, n in parts.rows()}


def ids(frame: pl.DataFrame) -> pl.DataFrame:
    """P13: the AuditSample table, query ids alone; all that leaves the selection."""
    return frame.select("query_id").sort("query_id")
