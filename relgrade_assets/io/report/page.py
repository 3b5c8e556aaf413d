"""The report as one HTML page: findings, and for its owner words, put into a template with everything it needs inside
(P40, P41). It fetches nothing, and says so to the browser; equal findings give equal bytes.

What the findings are is findings.py's, what is drawn figures.py's and pool_figures.py's.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from relgrade_assets.io.report import figures, pool_figures
from relgrade_assets.io.report.banner import banner
from relgrade_assets.io.report.drawing import counted, interval, number, six
from relgrade_assets.io.report.findings import KEY_AUDITOR, Findings, Words

_POLICY = re.compile(rb'http-equiv="Content-Security-Policy" content="([^"]+)"')
_TEMPLATES = Environment(
    loader=PackageLoader("relgrade_assets.io.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.tests["short"] = lambda text: len(text) <= 18


def render(f: Findings, words: Words | None = None) -> bytes:
    """The page of a round: the public one, or with `words` the private one (P41)."""
    script = _packed("templates/report.js")
    plots = [
        figures.agreement(f), figures.arms(f), figures.pairs(f), pool_figures.unjudged(f), pool_figures.overlap(f),
        pool_figures.left_out(f), figures.positions(f), figures.planner(f),
    ]  # fmt: skip
    specs = {p.name: p.spec for p in plots if p.spec}
    page = _TEMPLATES.get_template("report.html").render(
        f=f,
        words=words,
        plots={p.name: p for p in plots},
        data={"plots": specs, "queries": _queries(f, words)},
        gate_intervals=_gate_intervals(f),
        confusion=_confusion(f),
        movers=_movers(f, words),
        by_query=_by_query(f, words),
        trust=_trust(f),
        disagreements=words.disagreements.to_dicts() if words else [],
        number=number,
        counted=counted,
        interval=interval,
        standing=Markup(banner(f.standing).decode()),  # noqa: S704
        policy=policy(),
        style=Markup(_packed("templates/report.css")),  # noqa: S704
        script=Markup(script),  # noqa: S704
        plotly=Markup(plotly()),  # noqa: S704
    )
    return page.lstrip().encode()


def policy_of(page: bytes) -> str:
    """What a page of ours lets a browser do; nothing at all where it doesn't say."""
    found = _POLICY.search(page)
    return found[1].decode().replace("&#39;", "'") if found else "default-src 'none'"


def policy() -> str:
    """The page's own scripts alone, styles and pictures inside it, and no network."""
    hashes = " ".join(_hash(text) for text in (plotly(), _packed("templates/report.js")))
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def plotly() -> str:
    """The smallest bundle of plotly that has points, lines and bars."""
    return _packed("plotly-basic.min.js")


@cache
def _packed(name: str) -> str:
    return (resources.files("relgrade_assets.io.report") / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _gate_intervals(f: Findings) -> dict[str, str]:
    held = f.agreement.filter((pl.col("comparison") == KEY_AUDITOR) & (pl.col("scope") == "all"))
    return {r["statistic"]: interval(r["low"], r["high"]) for r in held.to_dicts()}


def _confusion(f: Findings) -> list[list[dict[str, Any]]]:
    """Rows of the confusion table, a cell each with its share of the row."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for cell in f.confusion.to_dicts():
        rows.setdefault(cell["grade"], []).append(cell | {"shade": round(100 * (cell["share"] or 0))})
    return list(rows.values())


def _queries(f: Findings, words: Words | None) -> dict[str, Any]:
    """What the plot of two arms' differences is drawn from: every query's value under every arm."""
    names = [a for a, _ in f.arms if a in f.side_by_side.columns]
    ids = f.side_by_side["query_id"].to_list()
    return {
        "measure": f.headline,
        "ids": ids,
        "strata": f.side_by_side["stratum"].to_list(),
        "texts": [words.queries.get(q, "") for q in ids] if words else [],
        "values": {a: [six(v) for v in f.side_by_side[a].to_list()] for a in names},
        "pairs": [
            {
                "arm": r["arm"],
                "other": r["other"],
                "said": f"Better under {r['arm']}: {counted(r['wins'])}; under {r['other']}: {r['losses']}; "
                f"equal: {r['ties']}. Mean difference {number(r['difference'])} "
                f"{interval(r['low'], r['high'])}, p (Holm) {number(r['p_holm'], 4)}.",
            }
            for r in f.comparisons.filter(pl.col("measure") == f.headline).to_dicts()
        ],
    }


def _movers(f: Findings, words: Words | None) -> list[tuple[str, ...]]:
    return [
        (f"{arm} \N{MINUS SIGN} {other}", q, *_said(q, words), number(by))
        for arm, other, q, by in f.movers.select("arm", "other", "query_id", "by").iter_rows()
    ]


def _by_query(f: Findings, words: Words | None) -> tuple[list[str], list[tuple[str, ...]]]:
    names = [a for a, _ in f.arms if a in f.side_by_side.columns]
    rows = [
        (r["query_id"], r["stratum"], *_said(r["query_id"], words), *(number(r[a]) for a in names))
        for r in f.side_by_side.to_dicts()
    ]
    return ["query", "stratum", *(["typed", "intent"] if words else []), *names], rows


def _said(query_id: str, words: Words | None) -> tuple[str, ...]:
    return (words.queries.get(query_id, ""), words.intents.get(query_id, "")) if words else ()


def _trust(f: Findings) -> dict[str, list[tuple[str, ...]]]:
    """The checks on pool and key that have no plot, as rows of tables (P40, P31)."""
    at = {
        (r["check"], r["subject"], r["measure"]): r
        for r in f.trust.filter(pl.col("measure").is_null() | (pl.col("measure") == f.headline)).to_dicts()
    }

    def of(check: str) -> list[dict[str, Any]]:
        return [r for (c, _, _), r in at.items() if c == check]

    zero, top = ({r["subject"]: r for r in of(f"unjudged_at_{end}")} for end in ("zero", "top"))
    tau = {r["check"]: r for r in f.trust.filter(pl.col("check").str.contains("_tau_")).to_dicts()}
    return {
        "unjudged": [
            (r["subject"], r["measure"], f"{r['value']:.1%}", r["verdict"], str(r["n"]))
            for r in f.trust.filter(pl.col("check") == "unjudged").to_dicts()
        ],
        "scenarios": [
            (a, number(r["value"]), number(r["base"]), number(top[a]["value"]), f"{r['place']} to {top[a]['place']}",
             r["note"])
            for a, r in zero.items() if a in top
        ],
        "auditor": [
            (r["subject"], number(r["base"]), number(r["value"]), f"{r['base_place']} to {r['place']}", str(r["n"]))
            for r in of("under_auditor")
        ],
        "tau": [
            (r["check"].replace("_", " "), r["measure"] or "", number(r["value"]), str(r["n"]), r["note"])
            for r in f.trust.filter(
                pl.col("check").str.contains("_tau_") & pl.col("measure").str.starts_with(f.headline)
            ).to_dicts()
        ] if tau else [],
        "noise": [
            (r["subject"], number(r["base"]), number(r["value"]), interval(r["low"], r["high"]), r["note"])
            for r in of("label_noise")
        ],
        "influence": [
            (r["subject"].replace("~", " \N{MINUS SIGN} "), f"{r['value']:.0f}", r["note"])
            for r in of("drop_one_query")
        ],
        "families": [
            (r["check"].replace("_", " "), *r["subject"].split("~", 1), number(r["value"]),
             interval(r["low"], r["high"]), f"{r['n']:,}", r["verdict"])
            for r in f.trust.filter(pl.col("check").str.ends_with("_by_family")).to_dicts()
        ],
    }  # fmt: skip
