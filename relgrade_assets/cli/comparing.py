"""`relgrade score --compare`: arm against arm on every query (P39), as a table, JSON, CSV or a frame.

What is asked and how it is printed; the numbers are methods/arm_tests.py's. scipy is loaded here alone, when it is
asked for: plain scoring starts without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from relgrade_assets.errors import Fault, Refused

SEED = "score"
MOVED_SHOWN = 3
"""Queries that moved most, in the printed table; JSON, CSV and Parquet have five."""
LEAST_P = 0.0001
"""The least p-value that is printed as it is; none is ever 0."""


class Asked(NamedTuple):
    """What is compared: measures by name, the draws' seed, and what would not matter of a measure, in its units."""

    names: list[str]
    seed: str
    margins: dict[str, float]


def asked(
    compare: bool,
    runs: Sequence[str],
    margins: Sequence[str] | None,
    seed: str | None,
    names: Sequence[str],
    alone: bool,
) -> Asked | None:
    """What the options ask for; None without --compare. `alone`: no option is given that it can't stand beside.

    Raises Refused, with every fault: options that need --compare, one run, `MEASURE=D` that is no margin.
    """
    faults: list[Fault] = []
    if not compare:
        lone = {"--margin": bool(margins), "--seed": seed is not None}
        faults = [Fault(option, "given", "--compare beside it") for option, given in lone.items() if given]
    elif not alone:
        faults.append(Fault("--compare", "--like or --per-query beside it", "--compare without them"))
    elif len(runs) < 2:
        faults.append(Fault("--compare", "one run", "two runs or more"))
    found: dict[str, float] = {}
    each = [text for given in margins or [] for text in re.split(r",(?![^(]*\))", given)]
    for text in each if compare else []:
        name, _, number = text.rpartition("=")
        value = float(number) if re.fullmatch(r"[0-9]*\.?[0-9]+", number, re.ASCII) else 0.0
        if name not in names:
            faults.append(Fault(f"--margin {text}", f"the measure {name!r}", f"one of {', '.join(names)}"))
        elif name in found:
            faults.append(Fault(f"--margin {text}", "a second margin of one measure", "one"))
        elif not 0 < value <= 1:
            faults.append(Fault(f"--margin {text}", repr(number), "a number above 0, at most 1"))
        else:
            found[name] = value
    if faults:
        raise Refused("The runs can't be compared so", faults)
    return Asked(sorted(set(names)), SEED if seed is None else seed, found) if compare else None


def compared(measured: pl.DataFrame, about: Asked) -> pl.DataFrame:
    """Every two arms on every measure: arm_tests.PAIRED, sorted by measure, arm and other.

    `measured` as measures.score makes it.
    """
    from relgrade_assets.methods.arm_tests import paired

    return paired(measured, names=about.names, seed=about.seed, margins=about.margins)


def document(about: Asked | None, comparisons: pl.DataFrame | None) -> dict[str, Any]:
    """What JSON has besides."""
    if about is None or comparisons is None:
        return {}
    return {"seed": about.seed, "comparisons": comparisons.to_dicts()}


def flat(comparisons: pl.DataFrame) -> pl.DataFrame:
    """For CSV: the lists `moved` and `moved_by` as JSON text."""
    as_text = [
        pl.Series(name, [json.dumps(value, ensure_ascii=False) for value in comparisons[name].to_list()])
        for name in ("moved", "moved_by")
    ]
    return comparisons.with_columns(as_text)


def shown(comparisons: pl.DataFrame) -> pl.DataFrame:
    """For the printed table: what is read first; a p-value below the least that is shown says so."""
    moved = [
        ", ".join(f"{q} {x:+.3f}" for q, x in list(zip(queries, by, strict=True))[:MOVED_SHOWN]) or "-"
        for queries, by in comparisons.select("moved", "moved_by").rows()
    ]
    verdict = [] if comparisons["equivalence"].null_count() == comparisons.height else ["equivalence"]
    chances = [
        pl.Series(name, [f"{p:.4f}" if p >= LEAST_P else f"<{LEAST_P:g}" for p in comparisons[name]], dtype=pl.String)
        for name in ("p", "p_holm")
    ]
    before = ["measure", "arm", "other", "n", "difference", "low", "high"]
    after = ["wins", "ties", "losses", *verdict]
    return comparisons.select(*before, *chances, *after, pl.Series("moved_most", moved, dtype=pl.String))
