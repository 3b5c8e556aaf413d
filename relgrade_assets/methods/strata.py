"""Which stratum each query falls into: by tier, by type or both, a partition without a silent "other" (P8).

Filing is here, and the spot check that tells how far to trust a classifier. Typing is `query_types.py`'s, tiers are
`queries.py`'s, drawing is `sampling.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import polars as pl

from relgrade_assets.errors import Fault, Refused, Waiting
from relgrade_assets.methods.query_types import classified, rule_type
from relgrade_assets.methods.sampling import evenly
from relgrade_assets.protocol.canonical import hash_key
from relgrade_assets.protocol.design import Design

SPOT_CHECKED = 200
"""P8: rows of the spot-check sheet."""

Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Misfiled:
    """A stratum's part of a spot check: rows read, rows of another type, their share with its 95% Wilson interval (each
    0 to 1).

    `expected`, `low` and `high` are queries out of `size`; null where no size was given.
    """

    stratum: str
    checked: int
    wrong: int
    share: float
    share_low: float
    share_high: float
    size: int | None
    expected: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class SpotCheckResult:
    """P8's agreement of types with a person's on the checked rows, its 95% Wilson interval, and what is misfiled in
    each stratum."""

    checked: int
    agreed: int
    agreement: float
    low: float
    high: float
    strata: tuple[Misfiled, ...]

    def __str__(self) -> str:
        """One line for people."""
        interval = f"95% Wilson {self.low:.3f} to {self.high:.3f}"
        return f"types agree on {self.agreed} of {self.checked} checked queries: {self.agreement:.3f} ({interval})"


def assign(queries: pl.DataFrame, design: Design, labelled: pl.DataFrame | None) -> pl.DataFrame:
    """P8: the Queries table, sorted by query id. `queries` is `queries.with_tiers`' frame; `labelled` (query, type)
    trains the classifier.

    Raises Refused: a query without a type where strata need one; every (tier, type) that no stratum holds, with its
    queries, and every stratum that no query falls into; labelled examples that can't train.
    """
    typed = queries.with_columns(type=pl.Series(_types(queries, design, labelled), dtype=pl.String))
    by_tier, by_type = design.strata.by in ("tier", "both"), design.strata.by in ("type", "both")
    if by_type:
        _refuse_untyped(typed)
    cells: dict[tuple[str, str], str] = {
        (tier, type_): part.name
        for part in design.strata.parts
        for tier in (part.tiers or ("",))
        for type_ in (part.types or ("",))
    }
    keys = [(tier if by_tier else "", type_ if by_type else "") for tier, type_ in typed.select("tier", "type").rows()]
    filed = typed.with_columns(stratum=pl.Series([cells.get(k) for k in keys], dtype=pl.String))
    _refuse_no_partition(filed, keys, cells)
    order = (
        "query_id",
        "query",
        "normalised",
        "raw_rows",
        "count",
        "traffic_share",
        "tier",
        "type",
        "stratum",
        "results",
        "clicks",
    )
    return filed.select(order).sort("query_id")


def spot_check(queries: pl.DataFrame, design: Design, filled: pl.DataFrame | None = None) -> pl.DataFrame:
    """P8: the SpotCheck table, up to 200 queries drawn by hash, evenly over strata; empty where strata need no type.
    Sorted by query id.

    `filled` (query_id, type_by_person) holds what a person wrote; rows of queries that were not drawn are passed over.
    Raises Refused: a person's type that no stratum of the design has; a query twice.
    """
    names = [p.name for p in design.strata.parts]
    if design.strata.by == "tier":
        queries = queries.clear()
    sizes = {name: queries.filter(pl.col("stratum") == name).height for name in names}
    places = evenly(sizes, SPOT_CHECKED, purpose="spot_check_strata", seed=design.seed)
    taken: list[str] = []
    for name in names:
        ids = queries.filter(pl.col("stratum") == name)["query_id"].to_list()
        keys = {i: hash_key("spot_check", design.seed, name, i) for i in ids}
        taken += sorted(ids, key=keys.__getitem__)[: places[name]]
    drawn = queries.filter(pl.col("query_id").is_in(taken)).sort("query_id")
    classified = design.strata.type_from == "classifier"
    by = ["column" if not classified else "classifier" if rule_type(q) is None else "rule" for q in drawn["query"]]
    sheet = drawn.select("query_id", "query", "stratum", "type").with_columns(by=pl.Series(by, dtype=pl.String))
    if filled is None:
        return sheet.with_columns(type_by_person=pl.lit(None, pl.String))
    known = {t for p in design.strata.parts for t in p.types}
    faults = [
        Fault(f"spot check, query {i!r}", f"the type {t!r}", f"one of {', '.join(sorted(known))}")
        for i, t in filled.select("query_id", "type_by_person").drop_nulls().sort("query_id").rows()
        if t not in known
    ]
    twice = filled["query_id"].value_counts().filter(pl.col("count") > 1).sort("query_id")
    faults += [Fault(f"spot check, query {i!r}", f"{n} rows", "one") for i, n in twice.rows()]
    if faults:
        raise Refused("The spot check can't be used", faults)
    return sheet.join(
        filled.select("query_id", "type_by_person"), on="query_id", how="left", validate="1:1", maintain_order="left"
    )


def spot_check_agreement(sheet: pl.DataFrame, sizes: Mapping[str, int] | None = None) -> SpotCheckResult | Waiting:
    """P8: agreement with a person on a filled sheet, and misfiled queries to expect in each stratum of `sizes`
    (queries, by stratum).

    A query of another type counts as misfiled; where one stratum holds several types that is an upper count. Waiting
    until every row is filled.
    """
    done = sheet.height - sheet["type_by_person"].null_count()
    if not sheet.height:
        return Waiting("no types to check: strata are cut by tier alone")
    if done < sheet.height:
        return Waiting("rows of the spot-check sheet filled in", done, sheet.height)
    wrong = (
        sheet.group_by("stratum")
        .agg(n=pl.len(), wrong=(pl.col("type") != pl.col("type_by_person")).sum())
        .sort("stratum")
    )
    strata = []
    for name, n, k in wrong.rows():
        low, high = wilson(k, n)
        size = None if sizes is None else sizes.get(name)
        ends = (None, None, None) if size is None else (size * k / n, size * low, size * high)
        strata.append(Misfiled(name, n, k, k / n, low, high, size, *ends))
    agreed = sheet.height - sum(s.wrong for s in strata)
    low, high = wilson(agreed, sheet.height)
    return SpotCheckResult(sheet.height, agreed, agreed / sheet.height, low, high, tuple(strata))


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The 95% Wilson (1927) score interval of a share, without continuity correction; n is at least 1."""
    p, z2 = successes / n, Z95 * Z95
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


def _types(queries: pl.DataFrame, design: Design, labelled: pl.DataFrame | None) -> list[str | None]:
    if design.strata.type_from == "column" or design.strata.by == "tier":
        return queries["type"].to_list()
    types = [rule_type(q) for q in queries["query"]]
    texts = [t for t, found in zip(queries["normalised"], types, strict=True) if found is None]
    given = iter(classified(texts, labelled))
    return [next(given) if found is None else found for found in types]


def _refuse_untyped(typed: pl.DataFrame) -> None:
    bare = typed.filter(pl.col("type").is_null()).sort("count", "normalised", descending=[True, False])
    if bare.height:
        faults = [
            Fault(
                f"query {q!r}",
                "no type",
                "a type in the log's column",
                "Fill the column, or let the classifier type queries.",
            )
            for q in bare["query"].head(50)
        ]
        raise Refused("Strata are cut by type, and queries have none", faults, total=bare.height)


def _refuse_no_partition(
    filed: pl.DataFrame, keys: list[tuple[str, str]], cells: Mapping[tuple[str, str], str]
) -> None:
    uncovered: dict[str, int] = {}
    for key in keys:
        if key not in cells:
            name = " ".join(filter(None, key))
            uncovered[name] = uncovered.get(name, 0) + 1
    faults = [
        Fault(
            "strata.parts",
            f"{n} queries that are {name!r}",
            "a stratum that holds them",
            "Name it in a stratum's tiers or types.",
        )
        for name, n in sorted(uncovered.items())
    ]
    empty = sorted(set(cells.values()) - set(filed["stratum"].drop_nulls()))
    faults += [
        Fault(
            "strata.parts",
            f"stratum {name!r} without a query",
            "at least one query of the log",
            "Take it out or widen it.",
        )
        for name in empty
    ]
    if faults:
        raise Refused("The strata are no partition of the log's queries", faults)
