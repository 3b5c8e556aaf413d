"""The report's plots of graders and arms, and of the next study: each a plotly specification in plain data, with its
unit, n and interval in words, a text in place of the picture, and the table behind it. The pool's are in
pool_figures.py.

No number is computed here, and nothing has an id or a time of its own, so that equal findings give equal bytes. What
is shown in light, dark, on phones and in print is templates/report.js's and report.css's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from relgrade_assets.io.report.drawing import (
    COLOURS,
    MARKS,
    Plot,
    Spec,
    arm_style,
    categories,
    counted,
    forest,
    interval,
    listed,
    note,
    number,
    reach,
    rounded,
    six,
)
from relgrade_assets.io.report.findings import KEY_AUDITOR, Findings
from relgrade_assets.methods import report_tables

PAIRS_TOLD = 10
"""Pairs of arms whose differences are all put in words; of more, those that are clear."""
STATISTICS = {
    "weighted_kappa": "weighted kappa",
    "binary_kappa": "binary kappa",
    "alpha": "alpha (ordinal)",
    "ac2": "AC2",
    "disagreement": "disagreement",
    "two_step": "two-step disagreement",
}


def agreement(f: Findings) -> Plot:
    """Coefficients of key and auditor with their intervals, and each gate."""
    rows = _whole(f)
    gates = dict(f.verdicts.select("gate", "threshold").iter_rows())
    drawn = [r for r in rows if r["value"] is not None]
    labels = [STATISTICS[r["statistic"]] for r in drawn]
    data = [forest(drawn, labels, name="measured", colours=[COLOURS[0]] * len(drawn))]
    marked = [(STATISTICS[r["statistic"]], gates[r["statistic"]]) for r in drawn if r["statistic"] in gates]
    data.append(
        {
            "type": "scatter", "mode": "markers", "name": "gate", "x": [x for _, x in marked],
            "y": [y for y, _ in marked],
            "marker": {"symbol": "line-ns-open", "size": 16, "color": COLOURS[1], "line": {"width": 3}},
            "hovertemplate": "gate %{x}<extra></extra>",
        }
    )  # fmt: skip
    layout = {"height": 110 + 34 * len(drawn), "xaxis": {"title": {"text": "value"}}, "yaxis": categories(labels)}
    pairs, queries = (rows[0]["n"], rows[0]["queries"]) if rows else (0, 0)
    return Plot(
        "agreement",
        "Agreement of the key with the auditor",
        f"Unit: a coefficient, or a share of pairs. n: {pairs:,} pairs of {queries} audited queries. Interval: 95%, by "
        "resampling or leaving out whole queries; it is of the audited queries, which were not drawn at random.",
        listed("Agreement", [(STATISTICS[r["statistic"]], r["value"], r["low"], r["high"]) for r in rows]),
        {"data": data, "layout": layout} if drawn else {},
        ("statistic", "scope", "value", "95% interval", "pairs", "queries", "note"),
        [
            (
                STATISTICS[r["statistic"]], r["scope"], number(r["value"]), interval(r["low"], r["high"]),
                f"{r['n']:,}", str(r["queries"]), r["note"],
            )
            for r in f.agreement.filter(pl.col("comparison") == KEY_AUDITOR).to_dicts()
        ],
        "The numbers, whole and by stratum",
    )  # fmt: skip


def arms(f: Findings) -> Plot:
    """Every arm by the headline measure: weighted, plain, and a stratum each."""
    held = f.arm_measures.filter(pl.col("measure") == f.headline)
    scopes = ["headline", "plain", *sorted(set(held["scope"].to_list()) - {"headline", "plain"})]
    said = {"headline": f"weighted by traffic, per {f.estimand.replace('_', ' ')}", "plain": "plain mean over queries"}
    order = _best_first(held, [name for name, _ in f.arms])
    style = arm_style(f)
    ticks: list[tuple[float, str]] = []
    notes: list[Spec] = []
    data: list[Spec] = []
    at = 0.0
    for scope in scopes:
        rows = {r["arm"]: r for r in held.filter(pl.col("scope") == scope).to_dicts()}
        n = max((r["n"] for r in rows.values()), default=0)
        notes.append(note(f"{said.get(scope, 'stratum ' + scope)} ({counted(n)})", at - 0.85))
        places = {arm: at + i for i, arm in enumerate(order)}
        ticks += [(y, arm) for arm, y in places.items()]
        drawn = [rows[a] for a in order if a in rows and rows[a]["value"] is not None]
        data.append(
            forest(drawn, [places[r["arm"]] for r in drawn], name=scope, colours=[style[r["arm"]][0] for r in drawn])
            | {"text": [r["arm"] for r in drawn], "hovertemplate": _HOVER}
        )
        data[-1]["marker"]["symbol"] = [style[r["arm"]][1] for r in drawn]
        at += len(order) + 1.3
    layout = {
        "height": round(90 + 17 * at),
        "showlegend": False,
        "annotations": notes,
        "xaxis": {"title": {"text": f.headline}, "range": [0, 1]},
        "yaxis": {"tickvals": [y for y, _ in ticks], "ticktext": [t for _, t in ticks], "range": [at - 0.9, -1.6]},
    }
    top = held.filter(pl.col("scope") == "headline").sort("value", descending=True, nulls_last=True)
    return Plot(
        "arms",
        f"Arms by {f.headline}",
        f"Unit: {f.headline}, from 0 to 1. n: {counted(f.queries)} of the key, as given for each stratum. Interval: "
        "95%, of one arm alone; that two overlap does not say that the arms are equal (see arm against arm).",
        listed(f"{f.headline} weighted by traffic", top.select("arm", "value", "low", "high").rows()),
        {"data": data, "layout": layout},
        ("arm", "measure", "scope", "value", "95% interval", "queries", "judged", "how the interval was made"),
        [
            (
                r["arm"], r["measure"], said.get(r["scope"], r["scope"]), number(r["value"]),
                interval(r["low"], r["high"]), str(r["n"]), f"{r['judged']:.1%}", r["interval"],
            )
            for r in f.arm_measures.sort(pl.col("measure") != f.headline, "measure", "arm", "scope").to_dicts()
        ],
        "The numbers, every measure",
    )  # fmt: skip


def pairs(f: Findings) -> Plot:
    """Every two arms: the difference of the headline measure, its interval and test (P39)."""
    rows = f.comparisons.filter(pl.col("measure") == f.headline).to_dicts()
    named = [f"{r['arm']} \N{MINUS SIGN} {r['other']}" for r in rows]
    drawn = [(r | {"value": r["difference"]}, name) for r, name in zip(rows, named, strict=True)]
    drawn = [(r, name) for r, name in drawn if r["value"] is not None]
    clear = [r["p_holm"] <= 0.05 for r, _ in drawn]
    points = forest(
        [r for r, _ in drawn], [n for _, n in drawn], name="difference",
        colours=[COLOURS[0] if c else COLOURS[7] for c in clear],
    )  # fmt: skip
    points["marker"]["symbol"] = ["circle" if c else "circle-open" for c in clear]
    layout = {
        "height": 90 + 22 * len(drawn), "showlegend": False,
        "xaxis": {"title": {"text": f"difference of {f.headline}"}, "zeroline": True},
        "yaxis": categories([n for _, n in drawn]),
    }  # fmt: skip
    found = [(n, r["value"], r["low"], r["high"]) for r, n in drawn]
    margin = next((r["margin"] for r in rows if r["margin"] is not None), None)
    return Plot(
        "pairs",
        "Arm against arm",
        f"Unit: difference of {f.headline}, first less second, plain mean over queries; filled where p (Holm, over "
        f"all pairs of arms) is at most 0.05. n: {counted(max((r['n'] for r in rows), default=0))}. Interval: 95%, "
        "paired, by resampling queries."
        + (f" A difference within \N{PLUS-MINUS SIGN}{margin:g} was declared not to matter." if margin else ""),
        _told(found, clear),
        {"data": [points], "layout": layout} if drawn else {},
        (
            "measure", "pair", "difference", "95% interval", "weighted", "95% interval (weighted)", "p", "p (Holm)",
            "wins / ties / losses", "queries", "against the margin",
        ),
        [
            (
                r["measure"], f"{r['arm']} \N{MINUS SIGN} {r['other']}", number(r["difference"]),
                interval(r["low"], r["high"]), number(r["weighted"]), interval(r["weighted_low"], r["weighted_high"]),
                number(r["p"], 4), number(r["p_holm"], 4), f"{r['wins']} / {r['ties']} / {r['losses']}", str(r["n"]),
                (r["equivalence"] or "no margin declared").replace("_", " "),
            )
            for r in f.comparisons.sort(pl.col("measure") != f.headline, "measure", "arm", "other").to_dicts()
        ],
        "The numbers, every measure",
    )  # fmt: skip


def positions(f: Findings) -> Plot:
    """Mean grade along each grader's order, and at each place of a prompt (P31)."""
    placed = f.grader_checks.drop_nulls(["at", "value"])
    rows = placed.sort("grader", "check", "at").to_dicts()
    said = {"position_fifth": "fifth of the order", "prompt_place": "place in a prompt of five"}
    data = []
    series = list(dict.fromkeys((r["grader"], r["check"]) for r in rows))
    for i, (grader, check) in enumerate(series):
        part = [r for r in rows if (r["grader"], r["check"]) == (grader, check)]
        shift = 0.06 * (i - (len(series) - 1) / 2)
        data.append(
            {
                "type": "scatter", "mode": "lines+markers", "name": f"{grader}, {said.get(check, check)}",
                "x": [r["at"] + round(shift, 3) for r in part], "y": rounded([r["value"] for r in part]),
                "error_y": reach(part),
                "line": {"dash": "solid" if check == "position_fifth" else "dot", "color": COLOURS[i % len(COLOURS)]},
                "marker": {"symbol": MARKS[i % len(MARKS)], "size": 7, "color": COLOURS[i % len(COLOURS)]},
                "hovertemplate": "%{y:.3f}<extra>%{fullData.name}</extra>",
            }
        )  # fmt: skip
    top = f.labels[-1][0]
    layout = {
        "height": 360, "xaxis": {"title": {"text": "fifth of the order, or place in a prompt"}, "dtick": 1},
        "yaxis": {"title": {"text": "mean grade"}, "rangemode": "tozero"},
    }  # fmt: skip
    moving = f.grader_checks.filter(pl.col("note").str.contains("leaves 0 out"))
    alt = "; ".join(
        f"{r['grader']}: {r['check'].replace('_', ' ')} {number(r['value'])} {interval(r['low'], r['high'])}"
        for r in moving.to_dicts()
    )
    return Plot(
        "positions",
        "Grade by position",
        f"Unit: mean grade, on the scale from 0 to {top}. n: graded pairs at each place, in the table. Interval: 95%, "
        "by resampling whole queries. The order is random, so that a line that is not level means drift, fatigue or "
        "anchoring, or chance.",
        f"Checks whose interval leaves 0 out: {alt}." if alt else "No check's interval leaves 0 out.",
        {"data": data, "layout": layout} if rows else {},
        ("grader", "check", "place", "value", "95% interval", "n", "note"),
        [
            (
                r["grader"], r["check"].replace("_", " "), "" if r["at"] is None else str(r["at"]), number(r["value"]),
                interval(r["low"], r["high"]), f"{r['n']:,}", r["note"],
            )
            for r in f.grader_checks.to_dicts()
        ],
    )  # fmt: skip


def planner(f: Findings) -> Plot:
    """What a next study of more queries could tell, by what this one measured (P11)."""
    rows = f.next_study.to_dicts()
    whole = next((r for r in rows if r["scope"] == "all"), None)
    if whole is None:
        return Plot("planner", "The next study", "Nothing was sampled.", "Nothing was sampled.", {}, (), ())
    found = report_tables.curve(whole["rate"], whole["spread"], whole["queries"])
    most = [x for name in ("band", "smallest_difference") for x in found[name].drop_nulls().to_list()]
    line: Spec = {"type": "scatter", "mode": "lines", "x": found["queries"].to_list()}
    here: Spec = {"type": "scatter", "mode": "markers", "x": [whole["queries"]], "showlegend": False}
    data: list[Spec] = [
        line | {"name": "half of the 95% band", "y": rounded(found["band"].to_list()), "line": {"color": COLOURS[0]}},
        line | {"name": "smallest difference found", "y": rounded(found["smallest_difference"].to_list()),
                "line": {"color": COLOURS[1], "dash": "dash"}},
        here | {"y": [six(whole["band"])], "marker": {"color": COLOURS[0], "size": 10}},
        here | {"y": [six(whole["smallest_difference"])],
                "marker": {"color": COLOURS[1], "size": 10, "symbol": "diamond"}},
    ]  # fmt: skip
    layout = {
        "height": 340, "xaxis": {"title": {"text": "queries"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": f.headline}, "range": [0, min(1, 1.05 * max(most))]},
    }  # fmt: skip
    least = number(whole["smallest_difference"])
    return Plot(
        "planner",
        "The next study",
        f"Unit: {f.headline}. n: queries, this study's {whole['queries']} marked. Half of the 95% band of a mean of "
        f"{whole['rate']:.2f} (as measured), and the smallest paired difference found with a chance of 80% at 5%, "
        f"where per-query differences of two arms have a standard deviation of {whole['spread']:.3f} (the widest "
        "measured). These are plans, not estimates: there is no interval.",
        f"With {counted(whole['queries'])} half of the band is {number(whole['band'])} and the smallest difference "
        f"{least}; half of that band takes {counted(whole['queries_wanted'])}.",
        {"data": data, "layout": layout},
        (
            "scope", "queries", "half of the band", "one query moves a mean by", "queries for half of that",
            "smallest difference", "pairs pooled at most", "hours", "pairs that another arm adds",
        ),
        [
            (
                r["scope"], str(r["queries"]), number(r["band"]), number(r["resolution"]), f"{r['queries_wanted']:,}",
                number(r["smallest_difference"]), f"{r['pairs_pooled']:,}", f"{r['hours_pooled']:,.1f}",
                f"{r['pairs_another_arm']:,}",
            )
            for r in rows
        ],
    )  # fmt: skip


def _told(found: Sequence[tuple[str, float, float | None, float | None]], clear: Sequence[bool]) -> str:
    """The differences in words: all where they are few, else those that stand after Holm."""
    if not found:
        return "There is one arm, so there is nothing to compare."
    if len(found) <= PAIRS_TOLD:
        return listed("Differences", found)
    kept = [row for row, stands in zip(found, clear, strict=True) if stands]
    return (
        listed(f"{len(kept)} of {len(found)} differences stand after Holm", kept) if kept else "None stands after Holm."
    )


_HOVER = "%{text}: %{x:.3f}<extra></extra>"


def _whole(f: Findings) -> list[dict[str, Any]]:
    """Key against auditor over all strata, in the order in which statistics are listed."""
    held = f.agreement.filter((pl.col("comparison") == KEY_AUDITOR) & (pl.col("scope") == "all"))
    rows = {r["statistic"]: r for r in held.to_dicts()}
    return [rows[s] for s in STATISTICS if s in rows]


def _best_first(held: pl.DataFrame, names: Sequence[str]) -> list[str]:
    ranked = held.filter(pl.col("scope") == "headline").sort("value", descending=True, nulls_last=True)["arm"].to_list()
    return [*ranked, *(n for n in names if n not in ranked)]
