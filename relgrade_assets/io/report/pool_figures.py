"""The report's plots of the pool: unjudged by rank, what the arms' pools share, each arm left out (P40). As in
figures.py, no number is computed here.
"""

from __future__ import annotations

import polars as pl

from relgrade_assets.io.report.drawing import (
    COLOURS,
    Plot,
    Spec,
    across,
    arm_style,
    categories,
    counted,
    number,
    rounded,
)
from relgrade_assets.io.report.findings import Findings
from relgrade_assets.methods.habits import ACT, WATCH

SETS = 24
"""Sets of arms that the overlap is drawn for; the table has all."""


def unjudged(f: Findings) -> Plot:
    """The share of each rank that nobody judged, an arm each (P40)."""
    style = arm_style(f)
    data = []
    for arm, _ in f.arms:
        rows = f.unjudged.filter(pl.col("arm") == arm).sort("rank")
        colour, mark = style[arm]
        data.append(
            {
                "type": "scatter", "mode": "lines+markers", "name": arm, "x": rows["rank"].to_list(),
                "y": rounded(rows["unjudged"].to_list()), "line": {"color": colour},
                "marker": {"color": colour, "symbol": mark, "size": 7},
                "hovertemplate": arm + ", rank %{x}: %{y:.1%}<extra></extra>",
            }
        )  # fmt: skip
    lines = [across(WATCH, "dot"), across(ACT, "dash")]
    layout = {
        "height": 340, "shapes": lines, "xaxis": {"title": {"text": "rank"}, "dtick": 1, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "share unjudged"}, "tickformat": ".0%", "range": [0, 1]},
    }  # fmt: skip
    n = max(f.unjudged["n"].to_list(), default=0)
    worst = f.unjudged.sort("unjudged", descending=True).head(1).to_dicts()
    alt = (
        f"The highest share is {worst[0]['unjudged']:.1%}, of {worst[0]['arm']} at rank {worst[0]['rank']}."
        if worst and worst[0]["unjudged"] > 0
        else "Nothing that was retrieved at these ranks is unjudged."
    )
    return Plot(
        "unjudged",
        "Unjudged by rank",
        f"Unit: share of the results at a rank that have no grade. n: up to {counted(n)} a rank. Interval: 95%, "
        f"Wilson's, in the table. Lines: watch from {WATCH:.0%} (dotted), act from {ACT:.0%} (dashed) of a top k.",
        alt,
        {"data": data, "layout": layout},
        ("arm", "rank", "unjudged", "95% interval", "queries"),
        [
            (a, str(rank), f"{x:.1%}", f"[{low:.1%}, {high:.1%}]", str(n))
            for a, rank, x, low, high, n in f.unjudged.rows()
        ],
    )


def overlap(f: Findings) -> Plot:
    """UpSet plot: how many chunks each set of arms, and no other arm, found (Lex et al. 2014)."""
    rows = f.overlap.to_dicts()
    shown, names = rows[:SETS], [name for name, _ in f.arms]
    places = {name: len(names) - 1 - i for i, name in enumerate(names)}
    held = [[places[a] for a in r["arms"].split(" & ")] for r in shown]
    steps = list(range(1, len(shown) + 1))
    totals = {a: sum(r["chunks"] for r in rows if a in r["arms"].split(" & ")) for a in names}
    matrix = {"type": "scatter", "yaxis": "y2", "hoverinfo": "skip", "showlegend": False}
    dots = [(x, y) for x, ys in zip(steps, held, strict=True) for y in ys]
    joined = [p for x, ys in zip(steps, held, strict=True) for p in ((x, min(ys)), (x, max(ys)), (None, None))]
    bar = {"type": "bar", "x": steps, "customdata": [r["arms"] for r in shown]}
    data: list[Spec] = [
        bar | {"name": "relevant", "y": [r["relevant"] for r in shown], "marker": {"color": COLOURS[0]},
               "hovertemplate": "%{customdata}: %{y} relevant<extra></extra>"},
        bar | {"name": "others", "y": [r["chunks"] - r["relevant"] for r in shown], "marker": {"color": COLOURS[7]},
               "hovertemplate": "%{customdata}: %{y} others<extra></extra>"},
        matrix | {"mode": "markers", "x": [x for x in steps for _ in names],
                  "y": [y for _ in steps for y in places.values()],
                  "marker": {"color": "#999", "opacity": 0.25, "size": 8}},
        matrix | {"mode": "lines", "x": [x for x, _ in joined], "y": [y for _, y in joined],
                  "line": {"color": COLOURS[0], "width": 2}},
        matrix | {"mode": "markers", "x": [x for x, _ in dots], "y": [y for _, y in dots],
                  "marker": {"color": COLOURS[0], "size": 9}},
    ]  # fmt: skip
    part = min(0.6, 0.08 * len(names) + 0.06)
    layout = {
        "height": 300 + 20 * len(names), "barmode": "stack",
        "xaxis": {"showticklabels": False, "showgrid": False, "anchor": "y2", "range": [0.3, len(shown) + 0.7]},
        "yaxis": {"title": {"text": "chunks"}, "domain": [part + 0.04, 1]},
        "yaxis2": {
            "domain": [0, part], "tickvals": list(places.values()), "range": [-0.6, len(names) - 0.4],
            "ticktext": [f"{a} ({totals[a]:,})" for a in places], "showgrid": False, "zeroline": False,
        },
    }  # fmt: skip
    alone = [(r["arms"], r["chunks"]) for r in rows if r["of"] == 1]
    every = next((r["chunks"] for r in rows if r["of"] == len(names)), 0)
    total = sum(r["chunks"] for r in rows)
    more = f" The {SETS} largest of {len(rows)} sets are drawn." if len(rows) > SETS else ""
    return Plot(
        "overlap",
        "What the arms' pools share",
        "Unit: pooled chunks, each counted once under the exact set of arms that found it; a column of dots is a set, "
        f"the number beside an arm is all that it found. n: {total:,} pairs of query and chunk, to depth {f.depth}. "
        f"These are counts, so there is no interval.{more}",
        f"All arms found {every:,} of {total:,}. Found by one arm alone: "
        + (", ".join(f"{a} {n:,}" for a, n in alone) or "none")
        + ".",
        {"data": data, "layout": layout} if rows else {},
        ("found by", "arms", "chunks", "relevant"),
        [(r["arms"], str(r["of"]), f"{r['chunks']:,}", f"{r['relevant']:,}") for r in rows],
    )


def left_out(f: Findings) -> Plot:
    """Each arm's score had it not been pooled (P40)."""
    held = f.trust.filter(pl.col("check") == "leave_arm_out")
    rows = held.filter(pl.col("measure") == f.headline).sort("base", descending=True, nulls_last=True).to_dicts()
    rows = [r for r in rows if r["value"] is not None]
    names = [r["subject"] for r in rows]
    alone = {r["subject"]: r for r in f.trust.filter(pl.col("check") == "unique_relevant").to_dicts()}
    joined = [(x, r["subject"]) for r in rows for x in (r["base"], r["value"], None)]
    common: Spec = {"type": "scatter", "y": names}
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "x": rounded([x for x, _ in joined]), "y": [y for _, y in joined],
         "line": {"color": COLOURS[7], "width": 2}, "hoverinfo": "skip", "showlegend": False},
        common | {"mode": "markers", "name": "as it is", "x": rounded([r["base"] for r in rows]),
                  "marker": {"color": COLOURS[0], "size": 11}},
        common | {"mode": "markers", "name": "had it not been pooled", "x": rounded([r["value"] for r in rows]),
                  "marker": {"color": COLOURS[1], "size": 10, "symbol": "diamond-open", "line": {"width": 2}}},
    ]  # fmt: skip
    layout = {
        "height": 120 + 30 * len(rows), "yaxis": categories(names),
        "xaxis": {"title": {"text": f"{f.headline}, plain mean"}, "range": [0, 1]},
    }  # fmt: skip
    return Plot(
        "left-out",
        "Each arm left out of the pool",
        f"Unit: {f.headline}, plain mean over queries, under the key less the chunks that the arm alone found. "
        f"n: {counted(f.queries)}. No interval: it is the same key with less in it. A new arm that is not pooled would "
        "lose about as much.",
        "; ".join(
            f"{r['subject']} {number(r['base'])} would be {number(r['value'])}, place {r['base_place']} would be "
            f"{r['place']}"
            for r in rows
        )
        + ".",
        {"data": data, "layout": layout} if rows else {},
        ("arm", "as it is", "had it not been pooled", "place", "place then", "relevant that it alone found", "note"),
        [
            (
                r["subject"], number(r["base"]), number(r["value"]), str(r["base_place"]), str(r["place"]),
                "{:.0f} of {:.0f}".format(alone[r["subject"]]["value"], alone[r["subject"]]["base"]), r["note"],
            )
            for r in rows
        ],
    )  # fmt: skip
