"""The picture of the asset graph, drawn from schemas.TABLES. Which page it stands on is build.py's."""

from __future__ import annotations

from xml.sax.saxutils import escape

LANES = (
    ("queries",),
    ("pooling", "refresh"),
    ("audit",),
    ("grading",),
    ("intents",),
    ("key", "measures", "publication"),
)
"""Groups side by side in the picture; those of one lane follow each other."""


def graph_svg() -> str:
    """The asset graph: a lane a group, a row a step; what is read from outside stands under each table's name."""
    from relgrade_assets.schemas import SOURCES, TABLES

    inputs = {name: [i for i in spec.inputs if i in TABLES] for name, spec in TABLES.items()}
    row, side = _places(inputs)
    widths = [1 + max(side[n] for n, spec in TABLES.items() if spec.group in lane) for lane in LANES]
    step_x, step_y, left, top, box_x, box_y = 138, 58, 16, 58, 122, 38
    lane_of = {group: i for i, lane in enumerate(LANES) for group in lane}
    start = [left + sum(widths[:i]) * step_x for i in range(len(LANES))]
    at = {n: (start[lane_of[spec.group]] + side[n] * step_x, top + row[n] * step_y) for n, spec in TABLES.items()}
    last = top + (max(row.values()) + 1) * step_y
    wide, high = left + sum(widths) * step_x, last + 42
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" '
        'aria-label="The asset graph of relgrade" font-family="Helvetica, Arial, sans-serif">',
        '<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6b7d"/></marker></defs>',
        f'<rect width="{wide}" height="{high}" rx="8" fill="#ffffff" stroke="#c9d1d9"/>',
    ]
    for i, lane in enumerate(LANES):
        x, span = start[i] - 7, widths[i] * step_x - 2
        colour = "#eef3f9" if i % 2 else "#f8f9fb"
        out.append(f'<rect x="{x}" y="12" width="{span}" height="{last - 20}" rx="6" fill="{colour}"/>')
        titles = [lane[0]] if len(lane) == 1 else [", ".join(lane[:-1]) + ",", lane[-1]]
        for n, title in enumerate(titles):
            y = 35 if len(titles) == 1 else 29 + 16 * n
            out.append(_text(x + span / 2, y, 14, "#24292f", title, ' font-weight="bold"'))
    for name in TABLES:
        for before in _direct(name, inputs):
            (x1, y1), (x2, y2) = at[before], at[name]
            far = abs(x2 - x1) > step_x
            x1, y1, x2 = x1 + box_x // 2, y1 + box_y, x2 + box_x // 2 + (0 if not far else 40 if x1 > x2 else -40)
            bend = min(30, max(16, (y2 - y1) // 2))
            out.append(
                f'<path d="M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}" fill="none" stroke="#5b6b7d" '
                'stroke-width="1.3" marker-end="url(#to)"/>'
            )
    for name, spec in TABLES.items():
        x, y = at[name]
        read = [i for i in spec.inputs if i in SOURCES and i != "design"]
        outside = ", ".join(read) if len(read) <= 3 else f"{', '.join(read[-2:])} and {len(read) - 2} more"
        out.append(f'<rect x="{x}" y="{y}" width="{box_x}" height="{box_y}" rx="4" fill="#ffffff" stroke="#3b6ea8"/>')
        out.append(_text(x + box_x / 2, y + (16 if outside else 24), 13.5, "#0b2e59", name))
        if outside:
            out.append(_text(x + box_x / 2, y + 31, 11, "#9a4a00", outside))
    said = (
        "A box is a table; an arrow leads to what is made from it; arrows that follow from others are left out.",
        "Brown: files and the ledger, read by that table. The design goes into nearly every table.",
    )
    out += [
        f'<text x="{left}" y="{last + 12 + 17 * i}" font-size="13" fill="#24292f">{escape(line)}</text>'
        for i, line in enumerate(said)
    ]
    return "\n".join([*out, "</svg>", ""])


def _text(x: float, y: float, size: float, colour: str, text: str, more: str = "") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="{size:g}" fill="{colour}"{more}>'
        f"{escape(text)}</text>"
    )


def _places(inputs: dict[str, list[str]]) -> tuple[dict[str, int], dict[str, int]]:
    """Each table's row (one under the lowest of its inputs; without any, one over what it goes into), and its place
    beside others of its lane in that row."""
    from relgrade_assets.schemas import TABLES

    row: dict[str, int] = {}
    for name in TABLES:
        row[name] = max((row[i] + 1 for i in inputs[name]), default=0)
    for name in TABLES:
        if not inputs[name]:
            row[name] = min((row[n] for n in TABLES if name in inputs[n]), default=1) - 1
    side: dict[str, int] = {}
    filled: dict[tuple[tuple[str, ...], int], int] = {}
    for name, spec in TABLES.items():
        cell = (next(lane for lane in LANES if spec.group in lane), row[name])
        side[name] = filled.get(cell, 0)
        filled[cell] = side[name] + 1
    return row, side


def _direct(name: str, inputs: dict[str, list[str]]) -> list[str]:
    """The inputs of a table that are not inputs of its other inputs."""

    def behind(table: str) -> set[str]:
        return set(inputs[table]).union(*(behind(i) for i in inputs[table]))

    return [i for i in inputs[name] if not any(i in behind(other) for other in inputs[name] if other != i)]
