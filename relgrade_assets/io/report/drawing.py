"""How the report draws: what a plot consists of, colours and marks, numbers in words, and the pieces that plots share.

Which plots there are is figures.py's and pool_figures.py's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relgrade_assets.io.report.findings import Findings

Spec = dict[str, Any]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#3f9fd8", "#8a6fd1", "#7f7f7f")
"""Eight that people with any colour vision tell apart on light and dark (after Okabe and Ito); arms beyond differ by
mark.
"""
MARKS = ("circle", "diamond", "square", "triangle-up", "x", "star", "cross", "hexagon")


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its name, what it shows, how to read it (unit, n, interval), the same in words, the drawing, and the
    rows behind it. `spec` is empty where there is nothing to draw.
    """

    name: str
    title: str
    read: str
    alt: str
    spec: Spec
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    summary: str = "The numbers"


def number(value: float | None, places: int = 3) -> str:
    """A number as the report writes it; a dash where there is none."""
    return "\N{EN DASH}" if value is None else f"{value:.{places}f}".replace("-", "\N{MINUS SIGN}")


def interval(low: float | None, high: float | None, places: int = 3) -> str:
    """Both ends in brackets; a dash where there are none."""
    return "\N{EN DASH}" if low is None or high is None else f"[{number(low, places)}, {number(high, places)}]"


def counted(queries: int) -> str:
    """A number of queries in words."""
    return "1 query" if queries == 1 else f"{queries:,} queries"


def arm_style(f: Findings) -> dict[str, tuple[str, str]]:
    """Arm -> its colour and mark, the same in every plot."""
    names = [name for name, _ in f.arms]
    return {a: (COLOURS[i % len(COLOURS)], MARKS[(i + i // len(COLOURS)) % len(MARKS)]) for i, a in enumerate(names)}


def forest(rows: Sequence[Mapping[str, Any]], at: Sequence[object], *, name: str, colours: Sequence[str]) -> Spec:
    """Points with their intervals: rows have value, low and high."""
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": rounded([r["value"] for r in rows]), "y": list(at),
        "error_x": reach(rows) | {"color": "#888"}, "marker": {"color": list(colours), "size": 9},
    }  # fmt: skip


def reach(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """How far an interval reaches on both sides of each value, for error bars; 0 where there is none."""
    up = [0.0 if r["high"] is None else r["high"] - r["value"] for r in rows]
    down = [0.0 if r["low"] is None else r["value"] - r["low"] for r in rows]
    return {
        "type": "data", "symmetric": False, "array": rounded(up), "arrayminus": rounded(down), "thickness": 1.5,
        "width": 3,
    }  # fmt: skip


def categories(labels: Sequence[str]) -> Spec:
    """An axis of names, the first on top."""
    return {"type": "category", "categoryarray": list(reversed(labels)), "categoryorder": "array"}


def note(text: str, y: float) -> Spec:
    """A line of text at the left of a plot, at height `y`."""
    return {
        "text": text, "x": 0, "xref": "paper", "y": y, "yref": "y", "xanchor": "left", "showarrow": False,
        "font": {"size": 12},
    }  # fmt: skip


def across(y: float, dash: str) -> Spec:
    """A line across a plot."""
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": {"dash": dash, "color": "#888"},
    }  # fmt: skip


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Numbers as a specification holds them: to six places."""
    return [six(v) for v in values]


def six(value: float | None) -> float | None:
    """A number to six places; -0 becomes 0."""
    return None if value is None else round(value, 6) + 0.0


def listed(what: str, rows: Sequence[tuple[str, float | None, float | None, float | None]]) -> str:
    """A plot's values with their intervals as a sentence."""
    return f"{what}: " + "; ".join(f"{n} {number(v)} {interval(low, high)}" for n, v, low, high in rows) + "."
