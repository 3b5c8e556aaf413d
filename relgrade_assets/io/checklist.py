"""The protocol's checklists as live status (P46), the habits that spoil judgments where they are met (P45), and what
a key can't tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from relgrade_assets.errors import Refused
from relgrade_assets.io.calibration import people, uncalibrated
from relgrade_assets.io.checking import left_of_the_template
from relgrade_assets.io.progress import Step
from relgrade_assets.io.refreshing import last_frozen, reused
from relgrade_assets.io.standing import standing_of
from relgrade_assets.io.study import Study
from relgrade_assets.methods import habits

ALIKE = "answers like another's were taken: {}"
When = Literal["Before grading", "While grading and after", "What this key can't tell"]


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a checklist: when it is due, the rule it comes from, what it asks, and how it stands (done, open,
    declared, note).
    """

    when: When
    rule: str
    text: str
    state: str


def items(study: Study, steps: Sequence[Step]) -> list[Item]:
    """Every line of the checklists as it stands."""
    d = study.design
    state = {s.table: s.state for s in steps}

    def done(*tables: str) -> str:
        return "done" if all(state[t] == "ready" for t in tables) else "open"

    def kept(code: str, fine: bool) -> str:
        return "done" if fine else "declared" if any(x.code == code for x in d.deviations) else "open"

    kinds = {event.kind for event in study.log if event.round == study.round}
    before: list[tuple[str, str, str]] = [
        ("P1", "the design is checked, and every departure is declared", "done"),
        ("P6", "title and rubric are the study's own, not the template's", "open" if _of_template(study) else "done"),
        (
            "P7",
            "the log is declared as measured, not as written for the study",
            kept("authored_queries", not d.query_log.authored),
        ),
        ("P9", "the strata are a partition, their shares close, the sample is drawn", done("query_sample")),
        ("P12", "more than one arm is pooled (a pool of one arm favours it)", kept("one_arm", len(d.arms) > 1)),
        (
            "P12",
            f"the pool is deep enough (depth {d.depth})",
            kept("shallow_depth", d.depth >= 20 or (d.depth >= 10 and len(d.arms) <= 3)),
        ),
        ("P16", "every sampled query has one locked intent", done("intents")),
        ("P17", "the auditor reviewed the intents row by row", kept("unreviewed_intents", state["intents"] == "ready")),
        ("P26", "grader, auditor and arms are of different families", kept("shared_families", _families_differ(study))),
        *_of_several_people(study),
        ("P45", "graders overlap, so that one can be held against another", "done" if habits.overlaps(d) else "note"),
        ("P45", "queries outside the head are sampled", _beyond_the_head(study, state["query_sample"])),
        (
            "P26",
            "the audit sample is locked before the first sheet leaves",
            "done" if "audit_locked" in kinds else "open",
        ),
    ]
    after: list[tuple[str, str, str]] = [
        ("P19", "every pooled pair is graded", done("grades")),
        ("P26", "the auditor graded every chunk of the audited pools", done("audit_grades")),
        ("P28", "every gate passed on the present grades", "done" if state["frozen_key"] == "ready" else "open"),
        ("P30", "disagreements were listed with both reasons", done("disagreements")),
        ("P33", "the key is frozen under its hash", "done" if "frozen" in kinds else "open"),
        (
            "P34",
            "measures were first read after the freeze",
            "done" if {"frozen", "first_reading"} <= kinds else "open",
        ),
        ("P35", "no grade was found changed since measures were read", "done" if _stands(study) else "open"),
        (
            "P45",
            "under a fifth of every arm's top results is unjudged, which counts as not relevant",
            _little_unjudged(study, state["arm_measures"]),
        ),
        ("P45", "arms embed as they did when the latest key was pooled", _as_pooled(study)),
        ("P41", "key and measures are published", "done" if _published(study, state["published_key"]) else "open"),
    ]
    after += [
        ("P25", ALIKE.format(event.body["why"]), "note")
        for event in study.log
        if event.kind == "alike_taken" and event.round == study.round
    ]
    cannot = [
        ("P46", "queries that nobody typed", "note"),
        ("P46", "what is generated from the passages afterwards", "note"),
        ("P46", "latency and cost", "note"),
        ("P45", "chunks that no pooled arm found: unjudged counts as not relevant", "note"),
    ]
    lists: list[tuple[When, list[tuple[str, str, str]]]] = [
        ("Before grading", before),
        ("While grading and after", after),
        ("What this key can't tell", cannot),
    ]
    return [Item(when, rule, text, stands) for when, rows in lists for rule, text, stands in rows]


def _of_several_people(study: Study) -> list[tuple[str, str, str]]:
    """P26's lines where several people grade; a study with one, or with models alone, has none of them."""
    d = study.design
    if not people(d):
        return []
    calibrated = "declared" if d.declared("no_calibration") else "open" if uncalibrated(study) else "done"
    return [
        ("P26", "those who grade were calibrated together first", calibrated),
        ("P26", "they share a tenth of the queries", "declared" if d.declared("little_overlap") else "done"),
    ]


def _stands(study: Study) -> bool:
    found = standing_of(study.log, study.round)
    return found is not None and found.decides


def _published(study: Study, state: str) -> bool:
    """Files that changed after the freeze belong to the next round: what was published of this one stays so (P33)."""
    published, key = study.label("published_key"), study.label("frozen_key")
    stays = published is not None and key is not None and published.inputs.get("frozen_key") == key.digest
    return state == "ready" or (stays and _stands(study))


def _of_template(study: Study) -> bool:
    rubric = study.rubric if study.file(study.design.rubric).exists() else ""
    return bool(left_of_the_template(study.design.title, rubric))


def _beyond_the_head(study: Study, state: str) -> str:
    if state != "ready":
        return "open"
    return "note" if habits.head_only(study.design, study.load("query_sample")) else "done"


def _little_unjudged(study: Study, state: str) -> str:
    if state != "ready":
        return "open"
    measures = study.load("arm_measures").filter(pl.col("scope") == "plain")
    return "note" if habits.of_scores(measures) else "done"


def _as_pooled(study: Study) -> str:
    if last_frozen(study) is None:
        return "open"
    try:
        return "note" if reused(study) else "done"
    except Refused:  # a key that was altered is another line's to say
        return "open"


def _families_differ(study: Study) -> bool:
    d = study.design
    graders, arms = {g.family for g in d.graders}, {a.family for a in d.arms}
    return not (graders & arms or d.auditor.family in graders | arms)
