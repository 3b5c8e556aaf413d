"""Checks on graders before the freeze (P31): do grades drift along the order, depend on the place in a prompt, and do
reasons only repeat the query.

From grades and sheets to schemas.GraderChecks. Nothing here is a gate; what is found is for people to look into. Every
statistic comes from whole-number sums a query, so that a resample of queries is one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from relgrade_assets.methods.normalise import normalised
from relgrade_assets.methods.resampling import draws, generator, quantile

Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
PARTS = 5
"""Parts that a query's order is cut into, and chunks in a prompt (P21)."""
GRADER_CHECKS: dict[str, pl.DataType | type[pl.DataType]] = {
    "round": pl.Int64,
    "grader": pl.String,
    "check": pl.String,
    "at": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
    "queries": pl.Int64,
    "note": pl.String,
}
"""Columns of schemas.GraderChecks."""
_WORD = r"[\p{L}\p{N}]+"


class _Statistic(NamedTuple):
    """A check: sums a query [queries, parts], the value that sums of them give, rows it comes from, and its words.

    `moves` says how to read a value whose interval leaves 0 out: (below, above).
    """

    check: str
    at: int | None
    sums: Floats
    value: Callable[[Floats], Floats]
    n: int
    queries: int
    note: str
    moves: tuple[str, str] | None = None


def checks(grades: pl.DataFrame, sheets: pl.DataFrame, *, seed: str) -> pl.DataFrame:
    """The GraderChecks table: a row a grader and check, graders by name.

    `grades`: round, grader, query_id, chunk_id, reason, grade, position, answered_at; `sheets`: grader, query_id,
    chunk_id, query, position. Unrateable chunks count for reasons alone. 95% intervals are percentiles over resampled
    queries, from one set of draws a grader.

    - position_slope: grades a place within the query's order, least squares over all pairs of chunks of one query.
    - position_tau: Kendall's tau-b of grade and place, over the same pairs (Kendall 1945).
    - position_fifth: mean grade in each fifth of the order.
    - prompt_place: mean grade at each place of a prompt of five; prompt_first: the first place less the others.
    - session_ends: mean grade of the last third of a grader's answers less that of the first, by time of answering.
    - reason_overlap: share of the reasons' words that stand in the query; reason_echo: share of reasons of which at
      least half the words do.
    """
    rows: list[tuple[object, ...]] = []
    asked = sheets.select("grader", "query_id", "chunk_id", "query", of=pl.len().over("grader", "query_id"))
    both = grades.join(asked, on=["grader", "query_id", "chunk_id"], how="inner", validate="1:1")
    for (grader,), own in both.sort("grader", "query_id", "position").group_by("grader", maintain_order=True):
        bits = generator("grader checks", seed, str(grader))
        state = bits.state
        for found in _statistics(own):
            bits.state = state
            rows.append((own["round"][0], grader, found.check, found.at, *_row(found, bits)))
    return pl.DataFrame(rows, schema=GRADER_CHECKS, orient="row")


def drift(again: pl.DataFrame, *, labels: Sequence[int], round: int, seed: str) -> pl.DataFrame:
    """P43: rows of GraderChecks on the pairs that were given again, a grader each; no rows where none were.

    `again` [grader, query_id, chunk_id, grade, before]. Intervals as in `checks`.

    - regrade_change: mean of the new grade less the old one.
    - regrade_same: share of pairs with the grade they had.
    - regrade_kappa: quadratic weighted kappa of the new grades with the old ones, over the whole scale.
    """
    rows: list[tuple[object, ...]] = []
    both = again.drop_nulls(["grade", "before"]).sort("grader", "query_id", "chunk_id")
    for (grader,), own in both.group_by("grader", maintain_order=True):
        n, queries = own.height, own["query_id"].n_unique()
        change = pl.col("grade") - pl.col("before")
        same = (pl.col("grade") == pl.col("before")).cast(pl.Int64)
        cells = [
            ((pl.col("grade") == a) & (pl.col("before") == b)).cast(pl.Int64).sum() for a in labels for b in labels
        ]
        moved = ("grades are lower than they were", "grades are higher than they were")
        found = [
            _Statistic(
                "regrade_change", None, _by_query(own, change.sum(), pl.len().cast(pl.Int64)), _ratio, n, queries,
                "new grade less the old one", moved,
            ),
            _Statistic(
                "regrade_same", None, _by_query(own, same.sum(), pl.len().cast(pl.Int64)), _ratio, n, queries,
                "share with the grade they had",
            ),
            _Statistic(
                "regrade_kappa", None, _by_query(own, *cells), _kappa, n, queries, "weighted kappa, new with old"
            ),
        ]  # fmt: skip
        bits = generator("grader drift", seed, str(grader))
        state = bits.state
        for statistic in found:
            bits.state = state
            rows.append((round, grader, statistic.check, None, *_row(statistic, bits)))
    return pl.DataFrame(rows, schema=GRADER_CHECKS, orient="row")


def means(found: pl.DataFrame) -> list[tuple[str, str, dict[str, float]]]:
    """Of a GraderChecks table, for pictures: grader, check, and the mean grade at each of its places that has one."""
    placed = found.drop_nulls(["at", "value"]).sort("grader", "check", "at")
    return [
        (str(grader), str(check), {str(at): value for at, value in part.select("at", "value").iter_rows()})
        for (grader, check), part in placed.group_by("grader", "check", maintain_order=True)
    ]


def _row(found: _Statistic, bits: np.random.PCG64) -> tuple[object, ...]:
    """value, low, high, n, queries, note."""
    value = float(found.value(found.sums.sum(axis=0, keepdims=True))[0]) if len(found.sums) else float("nan")
    if np.isnan(value):
        return None, None, None, found.n, found.queries, f"undefined: {found.note}"
    blocks = [found.value(block @ found.sums) for block in draws(bits, len(found.sums), RESAMPLES)]
    drawn = np.concatenate(blocks)
    defined = np.sort(drawn[~np.isnan(drawn)])
    if len(found.sums) < 2 or len(defined) < len(drawn) / 2:
        return value, None, None, found.n, found.queries, f"{found.note}; no interval: too few queries to resample"
    low, high = quantile(defined, 0.025), quantile(defined, 0.975)
    said = [found.note]
    if found.moves and (low > 0 or high < 0):
        said.append(f"the interval leaves 0 out: {found.moves[low > 0]}")
    return value, low, high, found.n, found.queries, "; ".join(said)


def _statistics(own: pl.DataFrame) -> list[_Statistic]:
    """Every check of one grader's rows, sorted by query and position."""
    rated = own.drop_nulls("grade")
    per_query = [
        (part["position"].to_numpy().astype(np.int64), part["grade"].to_numpy().astype(np.int64))
        for _, part in rated.group_by("query_id", maintain_order=True)
    ]
    pairs = np.array([_pairs(x, y) for x, y in per_query], dtype=np.float64).reshape(-1, 5)
    n, queries = rated.height, len(per_query)
    along = ("grades fall along the order", "grades rise along the order")
    out = [
        _Statistic("position_slope", None, pairs[:, :2], _ratio, n, queries, "grades a place", along),
        _Statistic("position_tau", None, pairs[:, 2:], _tau, n, queries, "tau-b within queries", along),
    ]
    fifth = (pl.col("position") - 1) * PARTS // pl.col("of") + 1
    out += _means(rated, fifth.clip(1, PARTS), "position_fifth", "mean grade in this fifth of the order")
    place = (pl.col("position") - 1) % PARTS + 1
    out += _means(rated, place, "prompt_place", "mean grade at this place of five")
    first = _contrast(rated, place == 1, place > 1)
    out.append(
        _Statistic(
            "prompt_first", None, first, _difference, n, queries, "first of five less the others",
            ("the first of a prompt is graded lower", "the first of a prompt is graded higher"),
        )
    )  # fmt: skip
    out.append(_session(rated, n, queries))
    return [*out, *_reasons(own)]


def _session(rated: pl.DataFrame, n: int, queries: int) -> _Statistic:
    note = "last third of the answers less the first, by time"
    if rated["answered_at"].n_unique() < 3:
        return _Statistic(
            "session_ends", None, np.empty((0, 4)), _difference, n, queries, "the answers came in at once"
        )
    rank = pl.col("answered_at").rank("min") - 1
    third = rank * 3 // pl.len()
    sums = _contrast(rated, third == 2, third == 0)
    moves = ("grades fall over the session", "grades rise over the session")
    return _Statistic("session_ends", None, sums, _difference, n, queries, note, moves)


def _reasons(own: pl.DataFrame) -> list[_Statistic]:
    given = own.filter(pl.col("reason").is_not_null() & (pl.col("reason") != ""))
    said = normalised(pl.col("reason")).str.extract_all(_WORD).alias("said")
    asked = normalised(pl.col("query")).str.extract_all(_WORD).alias("asked")
    pairs = given.select(said, asked)
    shared = [sum(word in asked_words for word in words) for words, asked_words in pairs.iter_rows()]
    words = given.select("query_id", said.list.len().cast(pl.Int64).alias("of")).with_columns(
        pl.Series("shared", shared, pl.Int64)
    )
    worded = words.filter(pl.col("of") > 0)
    sums = (
        worded.group_by("query_id", maintain_order=True)
        .agg(
            pl.col("shared").sum(),
            pl.col("of").sum(),
            (pl.col("shared") * 2 >= pl.col("of")).sum().cast(pl.Int64).alias("echoes"),
            pl.len().cast(pl.Int64).alias("reasons"),
        )
        .select("shared", "of", "echoes", "reasons")
        .to_numpy()
        .astype(np.float64)
    )
    n, queries = worded.height, len(sums)
    each = "words of the reasons that stand in the query" if n else "no reason was given"
    half = "reasons of which half the words or more stand in the query" if n else "no reason was given"
    return [
        _Statistic("reason_overlap", None, sums[:, :2], _ratio, n, queries, each),
        _Statistic("reason_echo", None, sums[:, 2:], _ratio, n, queries, half),
    ]


def _pairs(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64]) -> tuple[int, int, int, int, int]:
    """Over all pairs of one query's chunks: sum dx dy, sum dx^2, concordant less discordant, pairs that differ in x, in
    y.
    """
    dx, dy = np.subtract.outer(x, x), np.subtract.outer(y, y)
    upper = np.triu_indices(len(x), 1)
    a, b = dx[upper], dy[upper]
    signs = np.sign(a) * np.sign(b)
    return int((a * b).sum()), int((a * a).sum()), int(signs.sum()), int((a != 0).sum()), int((b != 0).sum())


def _means(rated: pl.DataFrame, cell: pl.Expr, check: str, note: str) -> list[_Statistic]:
    """Mean grade in each of the five cells."""
    out = []
    for at in range(1, PARTS + 1):
        inside = (cell == at).cast(pl.Int64)
        sums = _by_query(rated, (pl.col("grade") * inside).sum(), inside.sum())
        n = int(sums[:, 1].sum())
        out.append(_Statistic(check, at, sums, _ratio, n, int((sums[:, 1] > 0).sum()), note if n else "no chunk here"))
    return out


def _contrast(rated: pl.DataFrame, one: pl.Expr, other: pl.Expr) -> Floats:
    """Grades and chunks of one side and of the other, a query."""
    flagged = rated.with_columns(one=one.cast(pl.Int64), other=other.cast(pl.Int64))
    grade = pl.col("grade")
    return _by_query(
        flagged,
        (grade * pl.col("one")).sum(),
        pl.col("one").sum(),
        (grade * pl.col("other")).sum(),
        pl.col("other").sum(),
    )


def _by_query(rows: pl.DataFrame, *sums: pl.Expr) -> Floats:
    named = [expression.alias(str(i)) for i, expression in enumerate(sums)]
    summed = rows.group_by("query_id", maintain_order=True).agg(named).drop("query_id")
    return summed.to_numpy().astype(np.float64).reshape(-1, len(sums))


def _ratio(sums: Floats) -> Floats:
    out: Floats = np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] > 0)
    return out


def _difference(sums: Floats) -> Floats:
    return _ratio(sums[:, :2]) - _ratio(sums[:, 2:])


def _kappa(sums: Floats) -> Floats:
    """Quadratic weighted kappa of each row of sums: a square table, flat."""
    width = math.isqrt(sums.shape[1])
    tables = sums.reshape(-1, width, width)
    weights = np.subtract.outer(np.arange(width), np.arange(width)) ** 2
    seen = (tables * weights).sum(axis=(1, 2))
    by_chance = np.einsum("ra,rb,ab->r", tables.sum(axis=2), tables.sum(axis=1), weights)
    total = tables.sum(axis=(1, 2))
    part = np.divide(seen * total, by_chance, out=np.full(len(sums), np.nan), where=by_chance > 0)
    out: Floats = 1 - part
    return out


def _tau(sums: Floats) -> Floats:
    below = np.sqrt(sums[:, 1] * sums[:, 2])
    out: Floats = np.divide(sums[:, 0], below, out=np.full(len(sums), np.nan), where=below > 0)
    return out
