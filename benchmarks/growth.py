"""How time and memory of `relgrade score` grow with the rows of a run: a hundredth of M to ten times M.

    .venv/bin/python benchmarks/growth.py --rounds 5 --write

Prints a table and draws docs/growth.svg. Ten times M is 70 million rows, 3.3 GB of text, made on first use.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections.abc import Sequence

from run import HERE, RESULT, WORK, Piece, machine, parquet_of, put

from data import SIZES, make

GROWING = ("M100", "M10", "M", "10M")
LINES = (("TREC", "#3b6ea8"), ("Parquet", "#b35c1e"))
PICTURE = RESULT.with_name("growth.svg")
WIDE, HIGH, LEFT, TOP, PANEL_WIDE, PANEL_HIGH = 760, 330, 62, 46, 290, 220


def pieces(sizes: Sequence[str]) -> list[Piece]:
    """One arm of each size, as text and as Parquet."""
    found = []
    for size in sizes:
        folder = WORK / size
        make(folder, size, 1, shuffled=False)
        run = folder / "arm0.run"
        for form, path in (("TREC", run), ("Parquet", parquet_of(run))):
            command = [sys.executable, str(HERE / "work.py"), "relgrade", str(folder / "qrels"), str(path)]
            found.append(Piece(f"{form} {size}", command))
    return found


def rows_of(found: Sequence[Piece], sizes: Sequence[str]) -> dict[str, list[tuple[float, float, float, float]]]:
    """For each form, at every size: rows, and medians of seconds of wall, of CPU, and of peak MB."""
    by = {piece.name: piece for piece in found}
    medians = {
        name: (statistics.median(p.wall), statistics.median(p.cpu), statistics.median(p.memory))
        for name, p in by.items()
    }
    return {form: [(math.prod(SIZES[s]), *medians[f"{form} {s}"]) for s in sizes] for form, _ in LINES}


def table(grown: dict[str, list[tuple[float, float, float, float]]]) -> list[str]:
    """The figures as rows."""
    lines = [
        "| rows of an arm | form | wall, s | CPU, s | CPU, µs a row | peak, MB |",
        "| ---: | --- | --- | --- | --- | --- |",
    ]
    for form, rows in grown.items():
        for n, wall, cpu, peak in rows:
            lines.append(f"| {n:,} | {form} | {wall:.3f} | {cpu:.3f} | {1e6 * cpu / n:.3f} | {peak:.0f} |")
    return lines


def picture(grown: dict[str, list[tuple[float, float, float, float]]]) -> str:
    """Two panels, both axes logarithmic: seconds of CPU with a line of equal cost a row, and peak memory."""
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        'aria-label="Seconds of CPU and peak memory of scoring one arm, against its rows; the table has the figures" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#24292f">',
        f'<rect width="{WIDE}" height="{HIGH}" rx="8" fill="#ffffff" stroke="#c9d1d9"/>',
    ]
    for panel, (title, at) in enumerate((("CPU, seconds", 2), ("peak memory, MB", 3))):
        values = [row[at] for rows in grown.values() for row in rows]
        span = [row[0] for rows in grown.values() for row in rows]
        left = LEFT + panel * (PANEL_WIDE + LEFT + 10)
        low_x, high_x = math.floor(math.log10(min(span))), math.ceil(math.log10(max(span)))
        low_y, high_y = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

        def place(
            x: float,
            y: float,
            *,
            left: int = left,
            xs: tuple[int, int] = (low_x, high_x),
            ys: tuple[int, int] = (low_y, high_y),
        ) -> str:
            along, up = (math.log10(x) - xs[0]) / (xs[1] - xs[0]), (math.log10(y) - ys[0]) / (ys[1] - ys[0])
            return f"{left + along * PANEL_WIDE:.1f} {TOP + (1 - up) * PANEL_HIGH:.1f}"

        out.append(f'<text x="{left}" y="30" font-size="14" font-weight="bold">{title}</text>')
        for k in range(low_x, high_x + 1):
            out.append(f'<path d="M{place(10**k, 10**low_y)}L{place(10**k, 10**high_y)}" stroke="#e3e7ec"/>')
            x, y = place(10**k, 10**low_y).split()
            out.append(f'<text x="{x}" y="{float(y) + 18}" text-anchor="middle">{_short(10**k)}</text>')
        for k in range(low_y, high_y + 1):
            out.append(f'<path d="M{place(10**low_x, 10**k)}L{place(10**high_x, 10**k)}" stroke="#e3e7ec"/>')
            x, y = place(10**low_x, 10**k).split()
            out.append(f'<text x="{float(x) - 8}" y="{float(y) + 4}" text-anchor="end">{_short(10**k)}</text>')
        out.append(f'<text x="{left + PANEL_WIDE / 2}" y="{TOP + PANEL_HIGH + 38}" text-anchor="middle">rows</text>')
        if at == 2:
            n, *_ = largest = grown["TREC"][-1]
            start = 10**low_x if largest[at] * 10**low_x / n >= 10**low_y else n * 10**low_y / largest[at]
            flat = f"M{place(start, largest[at] * start / n)}L{place(n, largest[at])}"
            out.append(f'<path d="{flat}" fill="none" stroke="#5b6b7d" stroke-dasharray="4 4"/>')
        for form, colour in LINES:
            points = [place(row[0], row[at]) for row in grown[form]]
            out.append(f'<path d="M{"L".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
            for point in points:
                x, y = point.split()
                out.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>')
    for i, (form, colour) in enumerate(LINES):
        x, y = LEFT + i * 110, HIGH - 14
        out.append(
            f'<path d="M{x} {y - 4}h22" stroke="{colour}" stroke-width="2"/><text x="{x + 28}" y="{y}">{form}</text>'
        )
    x, y = LEFT + 220, HIGH - 14
    out.append(
        f'<path d="M{x} {y - 4}h22" stroke="#5b6b7d" stroke-dasharray="4 4"/>'
        f'<text x="{x + 28}" y="{y}">the same for every row as at the largest</text></svg>'
    )
    return "\n".join(out) + "\n"


def _short(n: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if n >= size:
            return f"{n / size:g} {letter}"
    return f"{n:g}"


def main() -> None:
    """Run the rounds and print the table; with --write also into docs/, with the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(GROWING), metavar="SIZE")
    parser.add_argument("--write", action="store_true", help="put the result into docs/")
    given = parser.parse_args()
    found = pieces(given.sizes)
    before = os.getloadavg()[0]
    for _ in range(given.rounds):
        for piece in found:
            piece.once()
    grown = rows_of(found, given.sizes)
    load = f"load average {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    lines = [f"Medians of {given.rounds} interleaved rounds. {machine()}; {load}.", "", *table(grown)]
    print("\n".join(lines))
    if given.write:
        put("growth", lines)
        PICTURE.write_text(picture(grown), encoding="utf-8")


if __name__ == "__main__":
    main()
