"""Small pictures and tables for asset metadata: what the Dagster UI shows inline. No figures are computed here.

Markdown over 999 characters is folded away by the UI, so that pictures are kept tiny.
"""

import base64
from collections.abc import Mapping, Sequence

import dagster as dg

_WIDTH, _BAR, _GAP = 180, 9, 3


def bars(values: Mapping[str, float], *, unit: str, top: float | None = None) -> dg.MarkdownMetadataValue:
    """A horizontal bar a value, with its number; at most eight (then only the numbers)."""
    numbers = ", ".join(f"{name} {_number(value)}" for name, value in values.items())
    if not values or len(values) > 8:
        return dg.MetadataValue.md(f"{numbers} ({unit})")
    most = top or max(values.values()) or 1
    rects = "".join(
        f'<rect y="{i * (_BAR + _GAP)}" width="{_WIDTH * value / most:.0f}" height="{_BAR}" fill="#3b6ea8"/>'
        for i, value in enumerate(values.values())
    )
    height = len(values) * (_BAR + _GAP)
    return dg.MetadataValue.md(f"![bars]({_data(rects, height)})\n\n{numbers} ({unit})")


def intervals(
    rows: Sequence[tuple[str, float, float, float]], *, unit: str, least: float = 0.0
) -> dg.MarkdownMetadataValue:
    """A point with its interval a row on the axis from `least` to 1; rows are (name, value, low, high)."""
    text = ", ".join(f"{name} {v:.3f} [{low:.3f}, {high:.3f}]" for name, v, low, high in rows)
    if not rows or len(rows) > 6:
        return dg.MetadataValue.md(f"{text} ({unit})")

    def at(x: float) -> str:
        return f"{3 + (_WIDTH - 2) * (x - least) / (1 - least):.0f}"  # room for a point at either end

    zero = f'<path d="M{at(0)} 0V{12 * len(rows)}" stroke="#ccc"/>' if least < 0 else ""
    marks = zero + "".join(
        f'<path d="M{at(low)} {y}H{at(high)}" stroke="#888"/><circle cx="{at(v)}" cy="{y}" r="3"/>'
        for y, (_, v, low, high) in ((6 + i * 12, row) for i, row in enumerate(rows))
    )
    return dg.MetadataValue.md(f"![intervals]({_data(marks, 12 * len(rows))})\n\n{text} ({unit})")


def grid(header: Sequence[str], rows: Sequence[Sequence[object]]) -> dg.MarkdownMetadataValue:
    """A Markdown table."""
    lines = [
        " | ".join(header),
        " | ".join("---" for _ in header),
        *(" | ".join(_cell(c) for c in row) for row in rows),
    ]
    return dg.MetadataValue.md("\n".join(f"| {line} |" for line in lines))


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:.3f}"


def _data(body: str, height: int) -> str:
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 4}" height="{height}">{body}</svg>'
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
