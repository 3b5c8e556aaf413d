"""What a finished study looks like on the terminal: the arms with intervals, the key's hash, and where to look next."""

from __future__ import annotations

import polars as pl

from relgrade_assets.io.study import Study


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
    return "\n".join(lines) + "\n"


def where_next(study: Study) -> str:
    """The key's hash and size, the verdicts, and where the files and the UI are."""
    key = study.load("frozen_key")
    published = study.home.published / study.name
    gates = ", ".join(
        f"{r['gate']} {_number(r['value'])} (gate {r['threshold']:g})" for r in study.load("verdicts").to_dicts()
    )
    at = published.relative_to(study.home.top) if published.is_relative_to(study.home.top) else published
    sha = {r["file"]: r["sha256"] for r in study.load("published_key").to_dicts()}["key.jsonl"]
    return "\n".join(
        [
            f"Agreement on the audited queries: {gates}",
            f"Key: {key.height} grades of {key['query_id'].n_unique()} queries, round {study.round}",
            f"sha256 {sha}",
            f"Published: {at} (manifest.json says how it was made; qrels.txt is for other tools)",
            f"Next: `relgrade status {study.name}`, or `make ui` for the graph",
        ]
    )


def _number(value: float | None) -> str:
    return "  -  " if value is None else f"{value:.3f}"
