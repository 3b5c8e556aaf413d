"""The formula of each measure (P37), over all cells of `Hits` at once.

Definitions are trec_eval's where it has the measure; ERR is Chapelle and others' (2009), RBP Moffat and Zobel's (2008).
Names and parameters are measure_names.py's, tables measures.py's. Sums run in rank order, one term after the other
(numpy.bincount), so that the same input gives the same bits everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from relgrade_assets.methods.hits import Flags, Floats, Hits, Ints, Pool
from relgrade_assets.methods.measure_names import Family, Gain, Measure

INFAP_EPSILON = 0.00001
"""trec_eval's own, which keeps infAP's inner ratio defined."""


def values(hits: Hits, pool: Pool, measure: Measure, *, rel: int, gain: Gain, top_grade: int) -> Floats:
    """One measure in every cell; NaN where undefined. `rel` and `gain` hold where the name says nothing else."""
    if measure.family == "Judged":
        return judged_share(hits, measure.cutoff, empty=0.0)
    if measure.family == "nDCG":
        return _ndcg(hits, pool, measure.cutoff, measure.gain or gain)
    if measure.family == "ERR":
        return _err(hits, measure.cutoff, measure.max or top_grade)
    return _OF_RELEVANT[measure.family](hits, pool, measure, measure.rel or rel)


def judged_share(hits: Hits, cutoff: int | None, *, empty: float) -> Floats:
    """Share with a grade of what was retrieved within the cut-off; `empty` where nothing was."""
    graded = _within(hits, cutoff) & (hits.grade >= 0)
    looked_at = hits.retrieved if cutoff is None else np.minimum(hits.retrieved, cutoff)
    counts = np.bincount(hits.cell[graded], minlength=len(looked_at)).astype(np.float64)
    return np.where(looked_at > 0, _share(counts, looked_at.astype(np.float64)), empty)


def _ndcg(hits: Hits, pool: Pool, cutoff: int | None, gain: Gain) -> Floats:
    cells = len(hits.retrieved)
    within = _within(hits, cutoff) & (hits.grade > 0)
    terms = _gains(hits.grade[within], gain) * _discounts(hits.rank[within])
    return _share(_sums(hits.cell[within], terms, cells), _over_arms(_ideal(pool, cutoff, gain), cells))


def _ideal(pool: Pool, cutoff: int | None, gain: Gain) -> Floats:
    """DCG of each query's best order, from the qrels alone."""
    query, grade = pool.query[pool.grade > 0], pool.grade[pool.grade > 0]
    rank = np.arange(1, len(query) + 1) - np.searchsorted(query, query, side="left")
    top = rank <= (cutoff or len(query))
    return _sums(query[top], _gains(grade[top], gain) * _discounts(rank[top]), pool.queries)


def _err(hits: Hits, cutoff: int | None, top_grade: int) -> Floats:
    """A reader stops at a chunk with probability (2^g - 1) / 2^top, after passing all above it; 1 / rank is gained."""
    wanted = _within(hits, cutoff) & (hits.grade > 0)
    cell, rank = hits.cell[wanted], hits.rank[wanted]
    stops = np.ldexp(_gains(hits.grade[wanted], "exponential"), -top_grade)
    place = _place(cell)
    out, passing = np.zeros(len(hits.retrieved)), np.ones(len(hits.retrieved))
    for nth in range(int(place.max(initial=-1)) + 1):
        now = place == nth
        out[cell[now]] += passing[cell[now]] * stops[now] / rank[now]
        passing[cell[now]] *= 1.0 - stops[now]
    return out


def _precision(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    return counted(hits, _found(hits, measure, rel)) / float(measure.cutoff or 1)


def _recall(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    return _share(counted(hits, _found(hits, measure, rel)), _relevant(hits, pool, rel))


def _success(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    some = np.minimum(counted(hits, _found(hits, measure, rel)), 1.0)
    return np.where(_relevant(hits, pool, rel) > 0, some, np.nan)


def _reciprocal_rank(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    found = _found(hits, measure, rel)
    cell, first = np.unique(hits.cell[found], return_index=True)
    best = _sums(cell, 1.0 / hits.rank[found][first], len(hits.retrieved))
    return np.where(_relevant(hits, pool, rel) > 0, best, np.nan)


def _average_precision(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    """Precision at each relevant chunk's rank, over all that is relevant (also with a cut-off, as map_cut has it)."""
    found = _found(hits, measure, rel)
    cell, rank = hits.cell[found], hits.rank[found]
    return _share(_sums(cell, (_place(cell) + 1) / rank, len(hits.retrieved)), _relevant(hits, pool, rel))


def _r_precision(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    of = _relevant(hits, pool, rel)
    return _share(counted(hits, (hits.grade >= rel) & (hits.rank <= of[hits.cell])), of)


def _rank_biased_precision(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    """(1 - p) p^(rank - 1) for each relevant chunk; powers by math.pow, one a distinct rank."""
    p = measure.p or 0.0
    found = _found(hits, measure, rel)
    weights = _each(hits.rank[found], lambda rank: (1.0 - p) * math.pow(p, rank - 1))
    return _sums(hits.cell[found], weights, len(hits.retrieved))


def _bpref(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    """For each relevant chunk, 1 less the share of judged non-relevant above it, counted up to the number relevant."""
    of = _relevant(hits, pool, rel)
    bad = _over_arms(pool.count(0, rel), len(hits.retrieved))
    relevant = hits.grade >= rel
    cell = hits.cell[relevant]
    above = np.minimum(_so_far(hits, (hits.grade >= 0) & ~relevant)[relevant], of[cell])
    # Where none is judged non-relevant, none stands above: 1, as trec_eval has it.
    terms = 1.0 - np.divide(above, np.minimum(bad, of)[cell], out=np.zeros(len(cell)), where=above > 0)
    return _share(_sums(cell, terms, len(hits.retrieved)), of)


def _inferred_ap(hits: Hits, pool: Pool, measure: Measure, rel: int) -> Floats:
    """AP with the precision above a relevant chunk inferred from the part of the pool that was graded (Yilmaz and
    Aslam, 2006)."""
    relevant = hits.grade >= rel
    cell, above = hits.cell[relevant], (hits.rank[relevant] - 1).astype(np.float64)
    good = _so_far(hits, relevant)[relevant] - 1.0
    bad = _so_far(hits, (hits.grade >= 0) & ~relevant)[relevant]
    ungraded = _so_far(hits, hits.grade < 0)[relevant]
    pooled = np.divide(good + bad + ungraded, above, out=np.zeros(len(cell)), where=above > 0)
    inferred = (good + INFAP_EPSILON) / (good + bad + 2 * INFAP_EPSILON)
    terms = 1.0 / (above + 1.0) + (above / (above + 1.0)) * pooled * inferred
    return _share(_sums(cell, terms, len(hits.retrieved)), _relevant(hits, pool, rel))


_OF_RELEVANT: dict[Family, Callable[[Hits, Pool, Measure, int], Floats]] = {
    "Recall": _recall,
    "RR": _reciprocal_rank,
    "P": _precision,
    "AP": _average_precision,
    "Success": _success,
    "Rprec": _r_precision,
    "RBP": _rank_biased_precision,
    "bpref": _bpref,
    "infAP": _inferred_ap,
}


def _within(hits: Hits, cutoff: int | None) -> Flags:
    return np.ones(len(hits.rank), dtype=np.bool_) if cutoff is None else hits.rank <= cutoff


def _found(hits: Hits, measure: Measure, rel: int) -> Flags:
    return (hits.grade >= rel) & _within(hits, measure.cutoff)


def _relevant(hits: Hits, pool: Pool, rel: int) -> Floats:
    return _over_arms(pool.count(rel), len(hits.retrieved))


def _place(cell: Ints) -> Ints:
    """0, 1, 2 ... within each cell."""
    return np.arange(len(cell)) - np.searchsorted(cell, cell, side="left")


def _so_far(hits: Hits, flags: Flags) -> Floats:
    """How many of `flags` stand in the row's cell, down to and with the row."""
    total = np.concatenate([[0], np.cumsum(flags)])
    so_far: Ints = total[1:] - total[np.searchsorted(hits.cell, hits.cell, side="left")]
    return so_far.astype(np.float64)


def _gains(grade: Ints, gain: Gain) -> Floats:
    return grade.astype(np.float64) if gain == "linear" else np.ldexp(1.0, grade.astype(np.int32)) - 1.0


def _discounts(rank: Ints) -> Floats:
    return _each(rank, lambda r: 1.0 / math.log2(r + 1))


def _each(rank: Ints, value: Callable[[int], float]) -> Floats:
    """`value` once a distinct rank, from the standard library (numpy's functions vary with the processor)."""
    distinct, place = np.unique(rank, return_inverse=True)
    return np.array([value(r) for r in distinct.tolist()], dtype=np.float64)[place]


def counted(hits: Hits, flags: Flags) -> Floats:
    """How many rows of each cell are flagged."""
    return np.bincount(hits.cell[flags], minlength=len(hits.retrieved)).astype(np.float64)


def _sums(cell: Ints, terms: Floats, cells: int) -> Floats:
    return np.bincount(cell, weights=terms, minlength=cells).astype(np.float64)


def _share(part: Floats, whole: Floats) -> Floats:
    share: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return share


def _over_arms(per_query: Floats, cells: int) -> Floats:
    return np.tile(per_query, cells // max(len(per_query), 1))
