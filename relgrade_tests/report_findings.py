"""Findings of a study that never was, of any size, for tests of the report: numbers drawn from a seed, in the shapes of
the real tables. No expectations.
"""

from __future__ import annotations

import random
from itertools import combinations

import polars as pl

from relgrade_assets.io.report.findings import KEY_AUDITOR, Findings, Round, Words
from relgrade_assets.io.standing import Standing
from relgrade_assets.methods import planning, report_tables
from relgrade_assets.methods.trust import POOL_TRUST

MEASURES = ("nDCG@10", "R@100", "RR", "AP", "P@10")
STRATA = ("head", "torso", "tail")


def made_up(queries: int = 40, arms: int = 3, *, seed: int = 1, standing: Standing | None = None) -> Findings:
    """Findings with everything in them."""
    draw = random.Random(seed)  # noqa: S311
    names = [f"arm-{i}" for i in range(1, arms + 1)]
    ids = [f"q{i:04}" for i in range(queries)]
    strata = {q: STRATA[i % 3] for i, q in enumerate(ids)}
    values = {(a, q, m): round(draw.random(), 6) for a in names for q in ids for m in MEASURES}
    measures = pl.DataFrame(
        [(a, q, m, v, 0.9, True) for (a, q, m), v in values.items()],
        schema=["arm", "query_id", "measure", "value", "judged", "retrieved"],
        orient="row",
    )
    sample = pl.DataFrame(
        {"query_id": ids, "stratum": list(strata.values()), "stratum_share": [1 / 3] * queries},
        schema={"query_id": pl.String, "stratum": pl.String, "stratum_share": pl.Float64},
    )
    chunks = [(q, f"{q}-c{i}") for q in ids for i in range(12)]
    found = [(*p, a, 1 + i % 10, 1.0) for i, p in enumerate(chunks) for a in names if draw.random() < 0.4]
    contributions = pl.DataFrame(found, schema=["query_id", "chunk_id", "arm", "rank", "score"], orient="row")
    key = pl.DataFrame(
        [(*p, draw.choice([0, 0, 0, 1, 2])) for p in chunks], schema=["query_id", "chunk_id", "grade"], orient="row"
    )
    runs = pl.DataFrame(
        [(a, q, f"{q}-c{i}", i + 1, 20.0 - i) for a in names for q in ids for i in range(20)],
        schema=["arm", "query_id", "chunk_id", "rank", "score"],
        orient="row",
    )
    pairs = [
        {
            "measure": m, "arm": a, "other": b, "n": queries, "wins": queries // 2, "ties": 1, "losses": queries // 3,
            "difference": draw.uniform(-0.2, 0.2), "low": -0.25, "high": 0.25, "weighted": 0.01, "weighted_low": -0.1,
            "weighted_high": 0.1, "p": draw.random(), "p_holm": draw.random(), "margin": None, "equivalence": None,
            "moved": ids[:5], "moved_by": [0.9, -0.8, 0.7, -0.6, 0.5][: len(ids[:5])],
        }
        for m in MEASURES
        for a, b in combinations(names, 2)
    ]  # fmt: skip
    schema = {
        "measure": pl.String, "arm": pl.String, "other": pl.String, "n": pl.Int64, "wins": pl.Int64, "ties": pl.Int64,
        "losses": pl.Int64, "difference": pl.Float64, "low": pl.Float64, "high": pl.Float64, "weighted": pl.Float64,
        "weighted_low": pl.Float64, "weighted_high": pl.Float64, "p": pl.Float64, "p_holm": pl.Float64,
        "margin": pl.Float64, "equivalence": pl.String, "moved": pl.List(pl.String), "moved_by": pl.List(pl.Float64),
    }  # fmt: skip
    comparisons = pl.DataFrame(pairs, schema=schema)
    per_arm = pl.DataFrame(
        [
            (a, m, s, "searches", draw.uniform(0.3, 0.7), 0.2, 0.8, "t with 20 degrees of freedom", queries, 0.9)
            for a in names
            for m in MEASURES
            for s in ("headline", "plain", *STRATA)
        ],
        schema=["arm", "measure", "scope", "estimand", "value", "low", "high", "interval", "n", "judged"],
        orient="row",
    )
    audited = pl.DataFrame(
        [(q, draw.choice([0, 1, 2]), draw.choice([0, 1, 2])) for q in ids[:10] for _ in range(8)],
        schema={"query_id": pl.String, "a": pl.Int64, "b": pl.Int64},
        orient="row",
    )
    statistics = ("weighted_kappa", "binary_kappa", "alpha", "ac2", "disagreement", "two_step")
    agreement = pl.DataFrame(
        [(s, KEY_AUDITOR, "all", None, None, 0.8, 0.6, 0.9, 80, 10, "on the audited queries") for s in statistics],
        schema=[
            "statistic", "comparison", "scope", "grade", "audit_grade", "value", "low", "high", "n", "queries", "note",
        ],
        orient="row",
    )  # fmt: skip
    gates = [("weighted_kappa", 0.75, 0.8, "passed", "0.8 >= 0.75"), ("two_step", 0.02, 0.01, "passed", "0.01 <= 0.02")]
    trust: list[dict[str, object]] = []
    for i, a in enumerate(names):
        for check in ("leave_arm_out", "unjudged_at_zero", "unjudged_at_top", "under_auditor"):
            row = {"check": check, "subject": a, "measure": MEASURES[0], "value": 0.5, "base": 0.51}
            trust.append(row | {"place": i + 1, "base_place": i + 1, "n": queries, "note": "9 chunks taken out"})
        trust.append({"check": "unique_relevant", "subject": a, "value": 4.0, "base": 30.0, "n": 200, "note": ""})
        noise = {"check": "label_noise", "subject": a, "measure": MEASURES[0], "value": 0.5, "low": 0.4, "high": 0.6}
        trust.append(noise | {"base": 0.51, "n": queries, "note": "400 resamples"})
        share = {"check": "unjudged", "subject": a, "measure": "Judged@10", "value": 0.1, "n": queries}
        trust.append(share | {"verdict": "ok", "note": ""})
    checks = pl.DataFrame(
        [
            (1, "grader-1", "position_fifth", at, 0.5 - at / 50, 0.3, 0.6, 90, queries, "mean grade in this fifth")
            for at in range(1, 6)
        ],
        schema=["round", "grader", "check", "at", "value", "low", "high", "n", "queries", "note"],
        orient="row",
    )
    side = report_tables.side_by_side(measures, sample, MEASURES[0])
    headline = tuple((a, 0.5, 0.4, 0.6) for a in names)
    return Findings(
        experiment="made-up", title="A study that never was", round=1, key="0" * 64, standing=standing,
        headline=MEASURES[0], estimand="searches", labels=((0, "doesn't help"), (1, "helps"), (2, "answers it")),
        depth=10, queries=queries, pairs=key.height, arms=tuple((a, f"family-of-{a}") for a in names),
        graders=(("grader-1", "model", "f"), ("auditor-1", "human", "g")),
        deviations=(("shallow_depth", "small enough to know by heart"),), habits=("One habit.",),
        verdicts=pl.DataFrame(gates, schema=["gate", "threshold", "value", "verdict", "why"], orient="row"),
        agreement=agreement, confusion=report_tables.confusion(audited, labels=[0, 1, 2], seed="1"),
        arm_measures=per_arm, comparisons=comparisons.drop("moved", "moved_by"), side_by_side=side,
        movers=report_tables.movers(comparisons, MEASURES[0]), unjudged=report_tables.unjudged_by_rank(runs, key),
        overlap=report_tables.overlap(contributions, key, relevant_from=1),
        trust=pl.DataFrame(trust, schema=POOL_TRUST), grader_checks=checks,
        next_study=report_tables.next_study(measures, sample, MEASURES[0], planning.Effort(arms, 10, None)),
        rounds=(Round(1, "first grading", (("two_step", 0.01, "passed"),), "0" * 64, "valid", headline),),
    )  # fmt: skip


def words_for(f: Findings) -> Words:
    """Words to go with them."""
    ids = f.side_by_side["query_id"].to_list()
    return Words(
        {q: f"what is <b>{q}</b> & why" for q in ids},
        {q: f"What does {q} do?" for q in ids},
        pl.DataFrame(
            [(1, q, f"{q}-c1", "What?", 1, 0, "mentions it", "off the subject", "boundary") for q in ids[:10]],
            schema=[
                "round", "query_id", "chunk_id", "intent", "grade", "audit_grade", "reason", "audit_reason",
                "likely_cause",
            ],
            orient="row",
        ),
    )  # fmt: skip
