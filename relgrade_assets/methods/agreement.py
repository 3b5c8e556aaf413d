"""Agreement of the key's grades with the auditor's, and of graders with each other (P27, P30).

From pairs of grades to schemas.Agreement. Whether an agreement is enough is gates.py's question. Every statistic
comes from counts, in whole numbers up to one last division, so that it is the same everywhere and a bootstrap equals
its loop exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods import alpha as many_graders
from relgrade_assets.methods.jackknife import fisher_z
from relgrade_assets.methods.resampling import draws, generator, quantile

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
BLOCK = 1 << 16
KEY_AUDITOR = "key~auditor"
ON_AUDITED = "on the audited queries"
AGREEMENT: dict[str, pl.DataType | type[pl.DataType]] = {
    "statistic": pl.String,
    "comparison": pl.String,
    "scope": pl.String,
    "grade": pl.Int64,
    "audit_grade": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
    "queries": pl.Int64,
    "note": pl.String,
}
"""Columns of schemas.Agreement."""

LANDIS_KOCH = ((0.20, "slight"), (0.40, "fair"), (0.60, "moderate"), (0.80, "substantial"), (1.00, "almost perfect"))


class Statistic(NamedTuple):
    """A statistic, or None and why it is undefined."""

    value: float | None
    why: str = ""


def confusion(pairs: pl.DataFrame, labels: Sequence[int]) -> pl.DataFrame:
    """Pairs [query_id, a, b] counted: [a, b, count] for every a and b of the scale, used or not, in order.

    Pairs without one of the grades are left out. Raises Refused where a grade is off the scale.
    """
    graded = pairs.select("query_id", "a", "b").drop_nulls()
    matrix = pair_counts(graded["a"], graded["b"], labels)
    if matrix is None:  # a grade off the scale: told with its query
        matrix = query_tables(graded, labels)[1].sum(axis=0)
    cells = [(a, b, int(matrix[i, j])) for i, a in enumerate(labels) for j, b in enumerate(labels)]
    return pl.DataFrame(cells, schema={"a": pl.Int64, "b": pl.Int64, "count": pl.Int64}, orient="row")


def pair_counts(a: pl.Series, b: pl.Series, labels: Sequence[int]) -> Counts | None:
    """Counts [a, b] of two equally long columns of whole grades without nulls, in one pass; None where one is off the
    scale. `labels` is the whole scale in order.
    """
    size, low, high = len(labels), int(labels[0]), int(labels[-1])
    x, y = (series.cast(pl.Int64).to_numpy() for series in (a, b))
    cells = np.empty(len(x), dtype=np.uint8 if size < 16 else np.uint64)
    place = None
    if list(labels) != list(range(low, high + 1)):
        place = np.full(high - low + 1, high - low + 1, dtype=np.int64)
        place[np.asarray(labels) - low] = np.arange(size)
    for at in range(0, len(x), BLOCK):  # what is made of a block stays near the processor
        rows = slice(at, at + BLOCK)
        parts = [column[rows] - low if low else column[rows] for column in (x, y)]
        # As numbers without a sign, those below the scale are above it too.
        if any(part.view(np.uint64).max() > high - low for part in parts):
            return None
        if place is not None:
            parts = [place[part] for part in parts]
            if any(part.max() >= size for part in parts):
                return None
        row, column = (part.astype(cells.dtype) for part in parts)
        cells[rows] = row * cells.dtype.type(size) + column
    return _counted(cells, size * size).reshape(size, size)


def _counted(cells: npt.NDArray[Any], different: int) -> Counts:
    """How often each number below `different` stands in `cells`; bytes are counted two at a time."""
    if cells.dtype != np.uint8:
        return np.bincount(cells.astype(np.int64), minlength=different).astype(np.int64)
    even = len(cells) // 2 * 2
    pairs = np.bincount(cells[:even].view(np.uint16), minlength=1 << 16).reshape(256, 256)
    counts: Counts = (pairs.sum(axis=0) + pairs.sum(axis=1))[:different].astype(np.int64)
    counts[cells[even:]] += 1
    return counts


def query_tables(pairs: pl.DataFrame, labels: Sequence[int]) -> tuple[list[str], Counts]:
    """The queries in order, and each one's confusion table: counts [query, a, b]. `pairs` as in `confusion`."""
    cells = pairs.lazy().group_by("query_id", "a", "b").len().drop_nulls().collect()
    place = {label: i for i, label in enumerate(labels)}
    if not set(cells["a"]) | set(cells["b"]) <= set(place):
        _refuse_off_scale(pairs.select("query_id", "a", "b").drop_nulls(), labels)
    queries = sorted(set(cells["query_id"]))
    number = {query: i for i, query in enumerate(queries)}
    counts = np.zeros((len(queries), len(labels), len(labels)), dtype=np.int64)
    at = [(number[q], place[a], place[b]) for q, a, b in cells.select("query_id", "a", "b").iter_rows()]
    if at:
        counts[tuple(np.array(at).T)] = cells["len"].to_numpy()
    return queries, counts


def weighted_kappa(matrix: Counts) -> Statistic:
    """Cohen's kappa with quadratic weights (i - j)^2 over the whole scale (Cohen 1968), from counts [a, b]."""
    return _kappa(matrix, _squares(len(matrix)))


def cohen_kappa(matrix: Counts) -> Statistic:
    """Cohen's unweighted kappa (Cohen 1960), from counts [a, b]."""
    return _kappa(matrix, 1 - np.eye(len(matrix), dtype=np.int64))


def binary(tables: Counts, labels: Sequence[int], relevant_from: int) -> Counts:
    """Tables [..., a, b] collapsed to not relevant against relevant: [..., 2, 2] (P5's threshold)."""
    cut = sum(1 for label in labels if label < relevant_from)
    parts = [
        [tables[..., i, j].sum(axis=(-2, -1)) for j in (slice(0, cut), slice(cut, None))]
        for i in (slice(0, cut), slice(cut, None))
    ]
    return np.stack([np.stack(row, axis=-1) for row in parts], axis=-2)


def disagreement(matrix: Counts, steps: int = 1) -> Statistic:
    """Share of pairs whose grades are at least `steps` apart; 1 is raw disagreement, 2 is two-step (P27)."""
    n = int(matrix.sum())
    return (
        Statistic(int((matrix * _apart(len(matrix), steps)).sum()) / n)
        if n
        else Statistic(None, "no pair was graded by both")
    )


def landis_koch(kappa: float) -> str:
    """The word of Landis and Koch (1977) for a kappa."""
    if kappa < 0:
        return "poor"
    return next((word for top, word in LANDIS_KOCH if kappa <= top), "almost perfect")


def resampled(tables: Counts, statistic: Callable[[Counts], Floats], bits: np.random.PCG64, resamples: int) -> Floats:
    """The statistic of each resample of whole queries, NaN where undefined.

    One matrix product: draws [resamples, queries] x per-query tables [queries, cells]. Counts are far below 2^53,
    so the product is exact in whatever order it is summed. `statistic` takes tables [resamples, a, b].
    """
    queries, size = tables.shape[0], tables.shape[-1]
    flat = tables.reshape(queries, size * size).astype(np.float64)
    sums = [np.rint(block @ flat).astype(np.int64) for block in draws(bits, queries, resamples)]
    return statistic(np.concatenate(sums).reshape(-1, size, size))


def table(
    comparisons: Mapping[str, pl.DataFrame],
    *,
    labels: Sequence[int],
    relevant_from: int,
    strata: Sequence[str],
    seed: str,
    on_random: bool,
    ratings: pl.DataFrame | None = None,
    resamples: int = RESAMPLES,
) -> pl.DataFrame:
    """P27: every statistic of every comparison, over all pairs and in each stratum, as schemas.Agreement.

    `comparisons`: name -> pairs [query_id, chunk_id, stratum, grade, audit_grade]; `key~auditor` holds the combined
    grade and the auditor's (P30); graders against each other are named `first~second` and stand apart. A null grade
    is unrateable: the pair leaves the comparison and is counted in the note. `labels` is the whole scale,
    `relevant_from` its threshold, `strata` every stratum of the sample (one without a pair still has its rows,
    undefined); with none, all pairs stand together alone. `ratings` [query_id, chunk_id, stratum, grader, grade] of
    three graders or more, with holes, adds
    alpha and AC2 over all of them together, under their names joined by `~`.

    Intervals of kappas, `alpha` and `ac2` are jackknife.fisher_z's, with the percentiles beside them in the note, or
    the percentiles where that is undefined; those of shares are percentiles: the 2.5% and 97.5% points over
    `resamples` resamples of whole queries. With `on_random` false the note says "on the audited queries", since these
    were not drawn at random (P26). In `confusion` rows `value` is a count; in `exact_by_grade` rows it is the share
    of the first's grade on which both agree, and `n` the pairs of that grade.

    Raises Refused for a grade off the scale, a pair that stands twice, or a stratum that is not in `strata`.
    """
    rows: list[tuple[object, ...]] = []
    for name in sorted(comparisons):
        pairs = comparisons[name].select("query_id", "chunk_id", "stratum", a="grade", b="audit_grade")
        _check(name, pairs, strata)
        for scope in ("all", *sorted(strata)):
            part = pairs if scope == "all" else pairs.filter(pl.col("stratum") == scope)
            rows += [
                (statistic, name, scope, *rest)
                for statistic, *rest in _scope_rows(
                    part, labels, relevant_from, on_random, generator("agreement", seed, name, scope), resamples
                )
            ]
    if ratings is not None:
        rows += _many_rows(ratings, labels, strata, on_random, seed, resamples)
    return pl.DataFrame(rows, schema=AGREEMENT, orient="row").sort(
        "comparison", "scope", "statistic", "grade", "audit_grade"
    )


def among(ratings: pl.DataFrame, *, labels: Sequence[int], relevant_from: int, seed: str) -> pl.DataFrame:
    """P27: how far graders agree where there are no strata: `table` of every two, and of all where there are three.

    `ratings` has query_id, chunk_id, grader, grade. Raises Refused where no two graded a pair in common.
    """
    graders = ratings["grader"].unique().sort().to_list()
    held = {g: ratings.filter(pl.col("grader") == g).select("query_id", "chunk_id", "grade") for g in graders}
    pairs: dict[str, pl.DataFrame] = {}
    for one, other in combinations(graders, 2):
        both = held[one].join(held[other].rename({"grade": "audit_grade"}), on=["query_id", "chunk_id"])
        if both.height:
            pairs[f"{one}~{other}"] = both.with_columns(stratum=pl.lit(""))
    if not pairs:
        fault = Fault(", ".join(graders), "no pair that two of them graded", "pairs in common")
        raise Refused("The graders can't be compared", [fault])
    return table(
        pairs,
        labels=labels,
        relevant_from=relevant_from,
        strata=[],
        seed=seed,
        on_random=True,
        ratings=ratings.with_columns(stratum=pl.lit("")) if len(graders) > 2 else None,
    )


def _many_rows(
    ratings: pl.DataFrame, labels: Sequence[int], strata: Sequence[str], on_random: bool, seed: str, resamples: int
) -> list[tuple[object, ...]]:
    name = "~".join(ratings["grader"].unique().sort().to_list())
    rows: list[tuple[object, ...]] = []
    for scope in ("all", *sorted(strata)):
        part = ratings if scope == "all" else ratings.filter(pl.col("stratum") == scope)
        found = many_graders.tallies(part, labels)
        bits = generator("agreement", seed, name, scope)
        n = int(found.several.sum())
        tail = [f"{int(found.ratings.sum())} grades of {int(found.any.sum())} pairs", *_labelled(on_random)]
        rows += [
            (statistic, name, scope, *rest)
            for statistic, *rest in _coefficients(found, labels, n, bits, resamples, tail)
        ]
    return rows


def _scope_rows(
    part: pl.DataFrame,
    labels: Sequence[int],
    relevant_from: int,
    on_random: bool,
    bits: np.random.PCG64,
    resamples: int,
) -> list[tuple[object, ...]]:
    queries, tables = query_tables(part, labels)
    matrix = tables.sum(axis=0)
    n, without = int(matrix.sum()), part.height - int(matrix.sum())
    label = _labelled(on_random)
    tail = [*label, *([f"{without} pairs without a grade from one side left out"] if without else [])]
    two = binary(tables, labels, relevant_from)
    size = len(labels)
    measured: list[tuple[str, Statistic, Counts, Callable[[Counts], Floats]]] = [
        ("weighted_kappa", weighted_kappa(matrix), tables, lambda t: _kappas(t, _squares(size))),
        ("binary_kappa", cohen_kappa(two.sum(axis=0)), two, lambda t: _kappas(t, _squares(2))),
        ("disagreement", disagreement(matrix), tables, lambda t: _shares(t, _apart(size, 1))),
        ("two_step", disagreement(matrix, 2), tables, lambda t: _shares(t, _apart(size, 2))),
    ]
    # One set of draws for all, so that their intervals come from the same resamples.
    state = bits.state
    rows: list[tuple[object, ...]] = []
    for statistic, (value, why), counted, many in measured:
        kappa = statistic.endswith("kappa")
        bits.state = state
        drawn = resampled(counted, many, bits, resamples) if len(counted) > 1 else np.empty(0)
        without_one = many(counted.sum(axis=0)[np.newaxis] - counted) if kappa and len(counted) > 1 else None
        low, high, said = _ends(value, drawn, without_one)
        words = [landis_koch(value)] if value is not None and kappa else []
        note = "; ".join([*words, *([why] if why else []), *([said] if said else []), *tail])
        rows.append((statistic, None, None, value, low, high, n, len(queries), note))
    bits.state = state
    found = many_graders.counted(*_as_units(tables), queries)
    rows += _coefficients(found, labels, n, bits, resamples, tail)
    for i, a in enumerate(labels):
        of = int(matrix[i].sum())
        share = int(matrix[i, i]) / of if of else None
        with_grade = int((tables[:, i, :].sum(axis=1) > 0).sum())
        note = "; ".join([*([] if of else [f"no pair has {a} from the first"]), *label])
        rows.append(("exact_by_grade", a, None, share, None, None, of, with_grade, note))
        for j, b in enumerate(labels):
            rows.append(
                ("confusion", a, b, float(matrix[i, j]), None, None, n, len(queries), "; ".join(["pairs", *label]))
            )
    return rows


def _coefficients(
    found: many_graders.Tallies,
    labels: Sequence[int],
    n: int,
    bits: np.random.PCG64,
    resamples: int,
    tail: Sequence[str],
) -> list[tuple[object, ...]]:
    """Rows of alpha (ordinal) and AC2, from one set of draws."""
    sums, k = found.rows(), len(labels)
    drawn = [block @ sums for block in draws(bits, len(sums), resamples)] if len(sums) > 1 else []
    rows: list[tuple[object, ...]] = []
    named: dict[str, Callable[[Floats], Floats]] = {
        "alpha": lambda t: many_graders.alphas(t, k, found.scale, level="ordinal", labels=labels),
        "ac2": lambda t: many_graders.ac2s(t, k, found.scale, labels=labels),
    }
    for statistic, many in named.items():
        total = sums.sum(axis=0, keepdims=True)
        value: float | None = float(many(total)[0])
        why = ""
        if value is None or np.isnan(value):
            value = None
            why = "undefined: no pair was graded by two" if not n else "undefined: only one grade was given"
        values = np.concatenate([many(block) for block in drawn]) if drawn else np.empty(0)
        low, high, said = _ends(value, values, many(total - sums) if len(sums) > 1 else None)
        note = "; ".join([*([why] if why else []), *([said] if said else []), *tail])
        rows.append((statistic, None, None, value, low, high, n, len(found.queries), note))
    return rows


def _ends(value: float | None, drawn: Floats, without_one: Floats | None) -> tuple[float | None, float | None, str]:
    """The interval's ends and how they were made; `drawn` are the resamples' values, `without_one` leaves each query
    out, None for a share, whose interval is the percentiles.
    """
    if value is None:
        return None, None, ""
    if not len(drawn):
        return None, None, "no interval: it needs at least two queries to resample"
    low, high, said = _percentiles(drawn)
    if without_one is None:
        return low, high, said
    better = fisher_z(value, without_one)
    if better.low is None:
        how = [f"no jackknife interval: {better.how}", *(["percentiles of resamples"] if low is not None else [])]
        return low, high, "; ".join([*how, *([said] if said else [])])
    beside = f"percentiles [{low:.3f}, {high:.3f}]" if low is not None and high is not None else "no percentiles"
    return better.low, better.high, "; ".join([better.how, beside, *([said] if said else [])])


def _percentiles(values: Floats) -> tuple[float | None, float | None, str]:
    defined = np.sort(values[~np.isnan(values)])
    undefined = len(values) - len(defined)
    if len(defined) < len(values) / 2:
        return None, None, f"no interval: undefined in {undefined} of {len(values)} resamples"
    said = f"undefined in {undefined} of {len(values)} resamples, left out of the interval" if undefined else ""
    return quantile(defined, 0.025), quantile(defined, 0.975), said


def _as_units(tables: Counts) -> tuple[Counts, Counts]:
    """Tables [query, a, b] as units [unit, grades given of each label], and each one's query."""
    query, a, b = np.nonzero(tables)
    times = tables[query, a, b]
    one = np.eye(tables.shape[-1], dtype=np.int64)
    return np.repeat(one[a] + one[b], times, axis=0), np.repeat(query, times)


def _labelled(on_random: bool) -> list[str]:
    return [] if on_random else [ON_AUDITED]


def _kappa(matrix: Counts, weights: Counts) -> Statistic:
    """1 - observed / expected weighted disagreement: 1 - n sum(w O) / sum(w r c'), r and c the margins."""
    n = int(matrix.sum())
    if n == 0:
        return Statistic(None, "undefined: no pair was graded by both")
    value = float(_kappas(matrix[np.newaxis], weights)[0])
    if np.isnan(value):
        return Statistic(
            None, f"undefined: both gave one and the same grade to all {n} pairs, so chance explains all agreement"
        )
    return Statistic(value)


def _kappas(tables: Counts, weights: Counts) -> Floats:
    """Kappa of each table [tables, a, b]; NaN where chance leaves nothing to agree on."""
    n = tables.sum(axis=(1, 2))
    observed = n * (tables * weights).sum(axis=(1, 2))
    expected = (tables.sum(axis=2)[:, :, np.newaxis] * tables.sum(axis=1)[:, np.newaxis, :] * weights).sum(axis=(1, 2))
    kappas: Floats = np.divide(expected - observed, expected, out=np.full(len(tables), np.nan), where=expected > 0)
    return kappas


def _shares(tables: Counts, counted: Counts) -> Floats:
    n = tables.sum(axis=(1, 2))
    shares: Floats = np.divide((tables * counted).sum(axis=(1, 2)), n, out=np.full(len(tables), np.nan), where=n > 0)
    return shares


def _squares(size: int) -> Counts:
    return np.subtract.outer(np.arange(size, dtype=np.int64), np.arange(size, dtype=np.int64)) ** 2


def _apart(size: int, steps: int) -> Counts:
    return (_squares(size) >= steps * steps).astype(np.int64)


def _refuse_off_scale(pairs: pl.DataFrame, labels: Sequence[int]) -> None:
    off = pairs.filter(~pl.col("a").is_in(list(labels)) | ~pl.col("b").is_in(list(labels)))
    expected = f"one of {', '.join(map(str, labels))}"
    faults = [Fault(f"query {q!r}", f"the grades {a} and {b}", expected) for q, a, b in off.head(20).rows()]
    raise Refused("Some grades are off the scale", faults, total=off.height)


def _check(name: str, pairs: pl.DataFrame, strata: Sequence[str]) -> None:
    twice = pairs.group_by("query_id", "chunk_id").len().filter(pl.col("len") > 1).sort("query_id", "chunk_id")
    faults = [Fault(f"{name}: query {q!r}, chunk {c!r}", f"{n} pairs", "one") for q, c, n in twice.rows()]
    known = [*strata]
    other = (
        pairs.filter(~pl.col("stratum").is_in(known) & bool(known))
        .select("stratum")
        .unique()
        .sort("stratum")["stratum"]
        .to_list()
    )
    faults += [Fault(f"{name}: stratum {s!r}", "no such stratum in the sample", ", ".join(known)) for s in other]
    if "all" in known:
        faults.append(Fault("stratum 'all'", "the name that stands for every stratum together", "another name"))
    if faults:
        raise Refused(f"The pairs of {name} can't be compared", faults)
