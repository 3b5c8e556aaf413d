"""Grading: the blind sheets of the key's graders, and their accepted answers."""

from dataclasses import replace
from functools import partial

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import GRADERS, Made, table
from relgrade_assets.errors import Waiting
from relgrade_assets.io import carrying
from relgrade_assets.io.grading_run import Tell, grade_all
from relgrade_assets.io.judging import graded
from relgrade_assets.io.study import Study
from relgrade_assets.methods import grader_checks as checking
from relgrade_assets.methods import sheets as methods


@table
def sheets(
    study: Study, query_sample: pl.DataFrame, pools: pl.DataFrame, intents: pl.DataFrame, audit_sample: pl.DataFrame
) -> Made:
    """Lay out each grader's rows, blind, in an order of their own (P14, P18), without those whose grades are carried
    (P44). That the audit sample is locked is all that is taken from it.
    """
    d = study.design
    carry = carrying.carried(study, pools, intents, query_sample)
    frame = methods.build(
        pools,
        intents,
        query_sample,
        study.corpus,
        graders=d.key_graders,
        takes=carrying.takes(study, pools),
        seed=d.seed,
        round=study.round,
        rubric=study.rubric,
        without=carry.frame,
    )
    return Made(
        frame,
        {
            **carry.metadata(),
            "pairs": frame.height,
            "pairs_by_grader": show.bars(dict(frame.group_by("grader").len().sort("grader").iter_rows()), unit="pairs"),
        },
    )


@partial(table, pool=GRADERS)
def grades(study: Study, sheets: pl.DataFrame, tell: Tell) -> Made | Waiting:
    """Run the design's model graders for what is missing (P21), and take the graders' accepted answers once every pair
    has one (P19, P23). Terminated, it keeps what was accepted; made again, it goes on from there.
    """
    unable = grade_all(study, study.design.key_graders, tell=tell)
    outcome = graded(study, sheets, study.design.key_graders)
    if isinstance(outcome, Waiting):
        return replace(outcome, what="; ".join([outcome.what, *unable]))
    named = outcome.with_columns(pl.col("grade").cast(pl.String).fill_null("unrateable").alias("named"))
    return Made(
        outcome, {"grades": show.bars(dict(named.group_by("named").len().sort("named").iter_rows()), unit="pairs")}
    )


@table
def grader_checks(study: Study, grades: pl.DataFrame, sheets: pl.DataFrame) -> Made:
    """Look for drift along the order, anchoring within prompts, reasons that repeat the query (P31), and drift since
    earlier rounds (P43). No gate: what is found is for people to look into before the freeze.
    """
    d = study.design
    again = carrying.earlier_grades(study, grades)
    since = checking.drift(again, labels=d.scale.labels, round=study.round, seed=d.seed)
    frame = pl.concat([checking.checks(grades, sheets, seed=d.seed), since])
    found = frame.filter(pl.col("note").str.contains("leaves 0 out"))
    pairs = dict(grades.group_by("grader").len().iter_rows())
    plots = {
        f"{check} of {grader}": show.bars(
            means, unit=f"mean grade, {pairs[grader]} pairs; intervals: the report", top=d.scale.top
        )
        for grader, check, means in checking.means(frame)
    }
    rows = frame.filter(pl.col("at").is_null()).select("grader", "check", "value", "low", "high", "note").rows()
    header = ("grader", "check", "value", "low", "high", "note")
    return Made(frame, {"to_look_into": found.height, "checks": show.grid(header, rows), **plots})
