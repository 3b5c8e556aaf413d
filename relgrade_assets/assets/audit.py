"""Audit: which queries the auditor grades again, the auditor's sheets and grades, agreement, disagreements, verdicts
and revisions.
"""

from dataclasses import replace
from functools import partial

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import GRADERS, Made, table
from relgrade_assets.errors import Waiting
from relgrade_assets.io import events
from relgrade_assets.io.grading_run import Tell, grade_all
from relgrade_assets.io.history import side_by_side
from relgrade_assets.io.judging import agreement_of, graded, verdicts_on
from relgrade_assets.io.rounds import audited_before, lock_audit_sample, log_failed_gates
from relgrade_assets.io.study import Study
from relgrade_assets.methods import agreement as methods
from relgrade_assets.methods import audit_sample as selecting
from relgrade_assets.methods import comparisons as comparing
from relgrade_assets.methods import disagreements as listing
from relgrade_assets.methods import gates, grading
from relgrade_assets.methods import sheets as sheet_methods
from relgrade_assets.methods.jackknife import how_far


@table
def audit_selection(study: Study, contributions: pl.DataFrame, pools: pl.DataFrame, query_sample: pl.DataFrame) -> Made:
    """Choose, evenly over strata, the queries whose pools fewest arms agree on (P26). No sheet reads it."""
    audit = study.design.audit
    chosen = selecting.select(
        contributions,
        query_sample,
        pools,
        share=audit.share,
        at_least=audit.at_least,
        random_too=audit.random_too,
        seed=study.design.seed,
        round=study.round,
        arms=len(study.design.arms),
        used_before=audited_before(study),
    )
    return Made(chosen.frame, {"queries": chosen.frame.height, "reused": chosen.reused})


@table
def audit_sample(study: Study, audit_selection: pl.DataFrame) -> Made:
    """Keep the ids alone and lock them by digest, before the first sheet leaves (P26)."""
    frame = audit_selection.select("query_id").sort("query_id")
    return Made(frame, {"queries": frame.height, "lock": lock_audit_sample(study, frame)})


@table
def audit_sheets(
    study: Study, query_sample: pl.DataFrame, audit_sample: pl.DataFrame, pools: pl.DataFrame, intents: pl.DataFrame
) -> Made:
    """Lay out every chunk of the audited pools for the auditor, blind, in an order of its own (P14, P18, P26)."""
    auditor = study.design.auditor.name
    frame = sheet_methods.build(
        pools.join(audit_sample, on="query_id", how="semi"),
        intents,
        query_sample,
        study.corpus,
        graders=[auditor],
        takes={auditor: frozenset(audit_sample["query_id"])},
        seed=study.design.seed,
        round=study.round,
        rubric=study.rubric,
    )
    return Made(frame, {"pairs": frame.height, "queries": audit_sample.height})


@partial(table, pool=GRADERS)
def audit_grades(study: Study, audit_sheets: pl.DataFrame, tell: Tell) -> Made | Waiting:
    """Run the auditor for what is missing, where it is a model with a command (P21), and take its accepted answers once
    every pair has one (P19, P23).
    """
    auditor = [study.design.auditor.name]
    unable = grade_all(study, auditor, tell=tell)
    outcome = graded(study, audit_sheets, auditor)
    if isinstance(outcome, Waiting):
        return replace(outcome, what="; ".join([outcome.what, *unable]))
    return Made(outcome, {"grades": show.bars(_counts(outcome), unit="pairs")})


@table
def agreement(study: Study, grades: pl.DataFrame, audit_grades: pl.DataFrame, query_sample: pl.DataFrame) -> Made:
    """Compare the combined grades with the auditor's over the audited pools, and grader with grader (P27, P30)."""
    d = study.design
    frame = agreement_of(study, grades, audit_grades, query_sample)
    whole = frame.filter((pl.col("comparison") == methods.KEY_AUDITOR) & (pl.col("scope") == "all"))
    confusion = whole.filter(pl.col("statistic") == "confusion")
    named = whole.filter(pl.col("statistic").is_in([*gates.gates_of(binary_scale=d.scale.top == 1), "alpha", "ac2"]))
    n = named.select(pl.col("n").max()).item()
    shown = named.drop_nulls(["value", "low", "high"]).select("statistic", "value", "low", "high").rows()
    told = how_far(whole["queries"].to_list()[0], [(low, high) for _, _, low, high in shown])
    return Made(
        frame,
        {
            **dict(named.drop_nulls("value").select("statistic", "value").iter_rows()),
            **({"how_far_to_trust_them": " ".join(told)} if told else {}),
            "with_intervals": show.intervals(shown, unit=f"on {n or 0} pairs of the audited queries, 95%"),
            "confusion": show.grid(
                ("grade", "auditor's", "pairs"),
                confusion.select("grade", "audit_grade", pl.col("value").cast(pl.Int64)).rows(),
            ),
        },
    )


@table
def disagreements(study: Study, grades: pl.DataFrame, audit_grades: pl.DataFrame, intents: pl.DataFrame) -> Made:
    """List the audited pairs on which they differ, with both reasons and a likely cause (P30)."""
    d = study.design
    key = grading.combine(grades, order=d.key_graders, rule=d.combine)
    pairs = comparing.audited(key, grades, audit_grades, graders=d.key_graders)
    frame = listing.disagreements(pairs, intents, round=study.round)
    causes = dict(frame.group_by("likely_cause").len().sort("likely_cause").iter_rows())
    return Made(frame, {"pairs": frame.height, "likely_causes": show.bars(causes, unit="pairs")})


@table
def verdicts(study: Study, agreement: pl.DataFrame, grades: pl.DataFrame, audit_grades: pl.DataFrame) -> Made:
    """Judge each gate on the agreement, and keep the digests of what was judged (P28, P29)."""
    frame = verdicts_on(study, agreement, audit_grades)
    log_failed_gates(study, frame)
    rows = frame.select("gate", "threshold", "value", "verdict").rows()
    passed = frame.filter(pl.col("verdict") == "passed").height
    return Made(frame, {"gates": show.grid(("gate", "threshold", "value", "verdict"), rows), "passed": passed})


@table
def revisions(study: Study) -> Made:
    """List the rounds that were opened and why (P4, P30), with what came of each beside it."""
    frame = events.rounds(study.log)
    beside = side_by_side(study).select("round", "cause", "carry", "graded", "carried", "gates", "standing")
    return Made(frame, {"rounds": frame.height, "side_by_side": show.grid(beside.columns, beside.rows())})


def _counts(grades: pl.DataFrame) -> dict[str, int]:
    named = grades.with_columns(pl.col("grade").cast(pl.String).fill_null("unrateable").alias("named"))
    return dict(named.group_by("named").len().sort("named").iter_rows())
