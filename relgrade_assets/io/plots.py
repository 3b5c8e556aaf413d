"""Plots as one self-contained HTML file: agreement, and the plan. Drawn by plotly, which is inlined, so that nothing is
fetched when the page is opened. No number is computed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from relgrade_assets.io.atomic import write_bytes
from relgrade_assets.methods import planning

SHOWN = {
    "weighted_kappa": "weighted kappa",
    "binary_kappa": "binary kappa",
    "alpha": "alpha (ordinal)",
    "ac2": "AC2",
}
MATRICES = 6
"""Confusion tables that are drawn at most."""


def plot_agreement(agreement: pl.DataFrame, path: Path) -> None:
    """Every coefficient with its interval, by comparison, and the first comparisons' confusion tables."""
    from plotly import graph_objects as go
    from plotly.subplots import make_subplots

    whole = agreement.filter(pl.col("scope") == "all")
    pairs = whole.filter(pl.col("statistic") == "confusion")["comparison"].unique(maintain_order=True).to_list()
    drawn = pairs[:MATRICES]
    rows = 1 + -(-len(drawn) // 2)
    specs: list[list[dict[str, Any] | None]] = [[{"colspan": 2}, None]]
    for _ in range(rows - 1):
        specs.append([{}, {}])
    titles = ["Agreement, with 95% intervals", *[f"{p}: pairs" for p in drawn]]
    figure = make_subplots(rows=rows, cols=2, specs=specs, subplot_titles=titles)
    for statistic, name in SHOWN.items():
        part = whole.filter(pl.col("statistic") == statistic).drop_nulls("value")
        reach = part.select(up=pl.col("high") - pl.col("value"), down=pl.col("value") - pl.col("low"))
        error = {"array": reach["up"].to_list(), "arrayminus": reach["down"].to_list(), "symmetric": False}
        dots = go.Scatter(
            x=part["value"].to_list(), y=part["comparison"].to_list(), error_x=error, mode="markers", name=name
        )
        figure.add_trace(dots, row=1, col=1)
    for i, pair in enumerate(drawn):
        cells = whole.filter((pl.col("statistic") == "confusion") & (pl.col("comparison") == pair))
        labels = cells["grade"].unique().sort().to_list()
        counts = cells.sort("grade", "audit_grade")["value"].to_list()
        grid = [counts[k * len(labels) : (k + 1) * len(labels)] for k in range(len(labels))]
        heat = go.Heatmap(
            z=grid, x=labels, y=labels, text=grid, texttemplate="%{text:.0f}", colorscale="Blues", showscale=False
        )
        figure.add_trace(heat, row=2 + i // 2, col=1 + i % 2)
        first, _, second = pair.partition("~")
        figure.update_xaxes(title=second, dtick=1, row=2 + i // 2, col=1 + i % 2)
        figure.update_yaxes(title=first, dtick=1, row=2 + i // 2, col=1 + i % 2)
    figure.update_layout(height=240 + 24 * len(pairs) + 360 * (rows - 1), title="Agreement of graders")
    _write(figure, path)


def plot_plan(plan: pl.DataFrame, path: Path) -> None:
    """How the band and the smallest difference shrink with the number of queries, and where the design stands."""
    from plotly import graph_objects as go

    row = plan.filter(pl.col("scope") == "all").row(0, named=True)
    rate, spread = row["rate"], row["spread"]
    sizes = sorted({*range(5, 50, 5), *range(50, 1001, 25), max(2, row["queries"])})
    figure = go.Figure()
    bands = [planning.band(rate, n) for n in sizes]
    least = [planning.smallest_difference(spread, n) for n in sizes]
    figure.add_trace(go.Scatter(x=sizes, y=bands, name=f"half of the 95% band at a rate of {rate:g}"))
    figure.add_trace(go.Scatter(x=sizes, y=least, name=f"smallest difference of two arms, spread {spread:g}"))
    stands = plan.filter(pl.col("scope") != "headline")
    figure.add_trace(
        go.Scatter(
            x=stands["queries"].to_list(),
            y=stands["band"].to_list(),
            text=stands["scope"].to_list(),
            mode="markers+text",
            textposition="top center",
            name="the design",
        )
    )
    figure.update_layout(title="What the plan can tell", xaxis_title="queries", yaxis_rangemode="tozero")
    _write(figure, path)


def _write(figure: Any, path: Path) -> None:
    page: str = figure.to_html(include_plotlyjs=True, full_html=True, div_id="plot")
    write_bytes(path, page.encode())
