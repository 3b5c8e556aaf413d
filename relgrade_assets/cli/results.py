"""What a finished study looks like on the terminal: the arms with intervals, the key's hash, and where to look next."""

from __future__ import annotations

import polars as pl

from relgrade_assets.io.study import Study
from relgrade_assets.methods.agreement import KEY_AUDITOR
from relgrade_assets.methods.jackknife import how_far


def arm_table(study: Study) -> str:
    """The arms by the headline measure, best first: value, 95% interval, plain mean, unjudged share, queries."""
    frame = study.load("arm_measures")
    d = study.design
    of = frame.filter(pl.col("measure") == d.headline)
    plain = {r["arm"]: r for r in of.filter(pl.col("scope") == "plain").to_dicts()}
    rows = of.filter(pl.col("scope") == "headline").sort("value", descending=True, nulls_last=True).to_dicts()
    width = max(len(r["arm"]) for r in rows)
    lines = [f"{d.headline}, weighted by traffic (per {d.estimand.replace('_', ' ')}), 95% interval", ""]
    lines.append(f"  {'arm':<{width}}  weighted  interval        plain mean  unjudged  queries")
    for r in rows:
        p = plain[r["arm"]]
        interval = f"[{_number(r['low'])}, {_number(r['high'])}]"
        unjudged = f"{1 - p['judged']:.1%}"
        lines.append(
            f"  {r['arm']:<{width}}  {_number(r['value']):>8}  {interval:<14}  {_number(p['value']):>10}"
            f"  {unjudged:>8}  {p['n']:>7}"
        )
    lines += ["", "  Each interval is of one arm alone: that two overlap does not say that the arms are equal."]
    return "\n".join(lines) + "\n"


def agreement_lines(study: Study) -> list[str]:
    """The gates' statistics on the audited queries, each with its interval and threshold."""
    found = study.load("agreement").filter((pl.col("comparison") == KEY_AUDITOR) & (pl.col("scope") == "all"))
    rows = {r["statistic"]: r for r in found.filter(pl.col("grade").is_null()).to_dicts()}
    judged = study.load("verdicts").sort("gate").to_dicts()
    width = max(len(v["gate"]) for v in judged)
    lines = [f"Agreement on the {rows[judged[0]['gate']]['queries']} audited queries, 95% interval:"]
    for v in judged:
        r = rows[v["gate"]]
        interval = f"[{_number(r['low'])}, {_number(r['high'])}]"
        lines.append(f"  {v['gate']:<{width}}  {_number(v['value']):>6}  {interval:<16}  gate {v['threshold']:g}")
    intervals = [(rows[v["gate"]]["low"], rows[v["gate"]]["high"]) for v in judged]
    return [*lines, *(f"  {text}" for text in how_far(rows[judged[0]["gate"]]["queries"], intervals))]


def where_next(study: Study) -> str:
    """The key's hash and size, the verdicts, and where the files and the UI are."""
    key = study.load("frozen_key")
    published = study.home.published / study.name
    at = published.relative_to(study.home.top) if published.is_relative_to(study.home.top) else published
    sha = {r["file"]: r["sha256"] for r in study.load("published_key").to_dicts()}["key.jsonl"]
    return "\n".join(
        [
            *agreement_lines(study),
            f"Key: {key.height} grades of {key['query_id'].n_unique()} queries, round {study.round}",
            f"sha256 {sha}",
            f"Published: {at} (manifest.json says how it was made; qrels.txt is for other tools)",
            f"Next: `relgrade status {study.name}`, or `make ui` for the graph",
        ]
    )


def _number(value: float | None) -> str:
    return "  -  " if value is None else f"{value:.3f}"
