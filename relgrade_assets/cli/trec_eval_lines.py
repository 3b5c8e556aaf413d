"""trec_eval's own lines: its names for our measures, their order, and the way it prints them.

Layout of trec_eval 9 and 10. Measures that relgrade doesn't have (gm_map, iprec_at_recall ...) and the run's tag are
left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods.formulas import counted
from relgrade_assets.methods.hits import Hits, pool_of
from relgrade_assets.methods.measure_names import parse

CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
OURS = {
    "map": "AP",
    "Rprec": "Rprec",
    "bpref": "bpref",
    "recip_rank": "RR",
    "P": "P",
    "recall": "Recall",
    "infAP": "infAP",
    "ndcg": "nDCG",
    "ndcg_cut": "nDCG",
    "map_cut": "AP",
    "success": "Success",
}
"""trec_eval's families that we have, in its order."""
CUT = {"P": CUTOFFS, "recall": CUTOFFS, "ndcg_cut": CUTOFFS, "map_cut": CUTOFFS, "success": (1, 5, 10)}
OFFICIAL = ("map", "Rprec", "bpref", "recip_rank", "P")
COUNTS = ("num_ret", "num_rel", "num_rel_ret")


def names_asked(given: Sequence[str]) -> dict[str, str]:
    """trec_eval's name -> ours, for what was asked: names of either, `ndcg_cut.10`, `official` or `all_trec`.

    Without anything, what trec_eval prints of itself. Raises Refused for a measure that trec_eval doesn't have.
    """
    wanted: dict[str, str] = {}
    faults = []
    for name in given or ["official"]:
        found = _asked(name)
        wanted |= found
        if not found:
            near = get_close_matches(name, [*OURS, *OURS.values()], 1, 0.5)
            mend = f"The nearest is {near[0]}." if near else ""
            faults.append(Fault(f"measure {name!r}", "none of trec_eval's that relgrade has", ", ".join(OURS), mend))
    if faults:
        raise Refused("Some measures can't be printed as trec_eval's", faults)
    order = list(OURS)
    return dict(sorted(wanted.items(), key=lambda item: (order.index(_family(item[0])), _cut(item[0]))))


def lines(
    measured: pl.DataFrame, hits: Hits, qrels: pl.DataFrame, asked: dict[str, str], *, relevant_from: int, each: bool
) -> list[str]:
    """The lines of one run: of each query first where `each`, then of all; undefined is 0 here."""
    pool = pool_of(qrels, hits.queries)
    numbers = {
        "num_ret": hits.retrieved.tolist(),
        "num_rel": [int(n) for n in pool.count(relevant_from).tolist()],
        "num_rel_ret": [int(n) for n in counted(hits, hits.grade >= relevant_from).tolist()],
    }
    value = {
        ours: dict(part.select("query_id", "value").iter_rows())
        for (ours,), part in measured.with_columns(pl.col("value").fill_null(0.0)).group_by("measure")
    }
    out = []
    if each:
        for i, query in enumerate(hits.queries):
            out += [_line(name, query, str(numbers[name][i])) for name in COUNTS]
            out += [_line(name, query, f"{value[ours][query]:6.4f}") for name, ours in asked.items()]
    out.append(_line("num_q", "all", str(len(hits.queries))))
    out += [_line(name, "all", str(sum(numbers[name]))) for name in COUNTS]
    for name, ours in asked.items():
        # One sum after the other in the queries' order, as trec_eval adds.
        out.append(_line(name, "all", f"{sum(value[ours][q] for q in hits.queries) / max(len(hits.queries), 1):6.4f}"))
    return out


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<22}\t{query}\t{value}"


def _asked(name: str) -> dict[str, str]:
    if name in ("official", "all_trec"):
        listed = OFFICIAL if name == "official" else tuple(OURS)
        return {theirs: ours for family in listed for theirs, ours in _asked(family).items()}
    if name in CUT:
        return {f"{name}_{k}": f"{OURS[name]}@{k}" for k in CUT[name]}
    if name in OURS:
        return {name: OURS[name]}
    match = re.fullmatch(r"(P|recall|ndcg_cut|map_cut|success)[._]([1-9][0-9]*(?:,[1-9][0-9]*)*)", name)
    if match:
        return {f"{match[1]}_{k}": f"{OURS[match[1]]}@{k}" for k in match[2].split(",")}
    try:
        measure = parse(name)
    except Refused:
        return {}
    if (measure.rel, measure.gain, measure.p, measure.max) != (None, None, None, None):
        return {}
    families = [theirs for theirs, ours in OURS.items() if ours == measure.family]
    if measure.cutoff is None:
        return {families[0]: measure.family} if families else {}
    cut = [family for family in families if family in CUT]
    return {f"{cut[0]}_{measure.cutoff}": measure.name} if cut else {}


def _family(name: str) -> str:
    return re.sub(r"_[0-9]+$", "", name)


def _cut(name: str) -> int:
    found = re.search(r"_([0-9]+)$", name)
    return int(found[1]) if found else 0
