"""What to do next in a study, by whom, with which command (P46). Reads how far it is, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from relgrade_assets.errors import NotThere, Refused, Waiting
from relgrade_assets.io import attempts, events
from relgrade_assets.io.calibration import uncalibrated
from relgrade_assets.io.frozen_inputs import changed_since, commands_on, passed_by
from relgrade_assets.io.judging import graded
from relgrade_assets.io.ledger import Whose
from relgrade_assets.io.progress import Step
from relgrade_assets.io.study import Study
from relgrade_assets.methods.reply import without_repeats
from relgrade_assets.methods.sheets import BLIND
from relgrade_assets.schemas import TABLES


@dataclass(frozen=True, slots=True)
class Next:
    """One thing to do: by whom, what, and the command that does it; empty where none does."""

    who: str
    what: str
    command: str = ""

    def __str__(self) -> str:
        return f"{self.who}: {self.what}" + (f": {self.command}" if self.command else "")


def next_steps(study: Study, steps: Sequence[Step]) -> list[Next]:
    """What can be done now, the first first; `steps` as `progress.steps` gives them. Several where several people are
    waited for at once.
    """
    refused = next((s for s in steps if s.state == "refused"), None)
    if refused is not None:
        return [_after_refusal(study, refused)]
    found: list[Next] = []
    for step in (s for s in steps if s.state == "waiting"):
        found += [one for one in waited_for(study, step) if one not in found]
    made_by_run = [s for s in steps if TABLES[s.table].group != "refresh"]  # that has a command and a sensor of its own
    to_make = [s.table for s in made_by_run if s.state in ("open", "outdated") and not s.text.startswith("after ")]
    if any(passed_by(study, table) for table in to_make):
        return [_after_freeze(study)]
    if to_make:
        return [Next("owner", "make what can be made now", f"relgrade run {study.name}"), *found]
    if not found:
        folder = study.home.published / study.name
        where = f": {folder.relative_to(study.home.top)}" if folder.is_relative_to(study.home.top) else ""
        return [Next("nobody", f"nothing is owed; the key is published{where}")]
    return found


def _after_refusal(study: Study, step: Step) -> Next:
    name = study.name
    revise = f"relgrade revise {name} --cause ..."
    opening = events.opening(study.log, study.round)
    try:
        protocol = opening is not None and opening.body["protocol_digest"] != study.protocol
    except (Refused, NotThere):
        protocol = False
    if protocol:
        return Next("owner", "put experiment.yaml and rubric back, or open the next round with them", revise)
    if changed_since(study, step.table) is not None:
        return _after_freeze(study)
    if step.table == "frozen_key":
        what = "read the disagreements (`relgrade desk`), mend their causes, and open the next round"
        return Next("owner", what, revise)
    return Next("owner", f"mend what refuses {step.table}; all faults at once", f"relgrade check {name}")


def _after_freeze(study: Study) -> Next:
    return Next("owner", "put the changed files back, or open the next round with them", commands_on(study))


def waited_for(study: Study, step: Step) -> list[Next]:
    """Who is waited for by a table that waits, for what, and how it comes."""
    d, name, table = study.design, study.name, step.table
    if table == "intents" and not study.file(d.intents.file).exists():
        what = f"write {d.intents.file}, a line query_id,form,intent,author for each sampled query"
        return [Next("owner", what, f"relgrade export-queries {name}")]
    if " not there yet" in step.text or "not yet: " in step.text:
        return [Next("owner", step.text)]
    if table == "intents":
        if "missing" in step.text or "sent back" in step.text:
            return [Next("owner", f"write the intents into {d.intents.file} ({step.text})", f"relgrade check {name}")]
        sheet = f"relgrade review {name} --write review.csv, fill it in, relgrade review {name} review.csv"
        return [Next(d.auditor.name, f"review the intents ({step.text})", sheet)]
    if table not in ("grades", "audit_grades"):
        return [Next("owner", step.text)]
    due = uncalibrated(study)
    if due:
        return [Next("owner", f"calibrate {', '.join(due)} before they grade", f"relgrade calibrate {name}")]
    sheets = study.load("sheets" if table == "grades" else "audit_sheets")
    found = []
    kinds = {g.name: g.kind for g in d.graders} if table == "grades" else {d.auditor.name: d.auditor.kind}
    for who, kind in kinds.items():
        owed = graded(study, sheets.filter(pl.col("grader") == who), [who])
        if isinstance(owed, Waiting):
            said = _last_failure(study, who, sheets)
            found.append(Next(who, f"{owed}{said}", _way_in(study, who, kind)))
    return found


def _last_failure(study: Study, who: str, sheets: pl.DataFrame) -> str:
    """Why the last reply of a model grader that was not accepted was not (P20), with nothing of what it was asked."""
    failed = (
        attempts.last_failed(study.ledger, Whose(study.name, study.round, who)) if study.design.run_of(who) else None
    )
    if failed is None:
        return ""
    rows = sheets.filter(pl.col("grader") == who, pl.col("query_id") == failed.query_id)
    shown = [name for name in BLIND if not name.endswith("_id")]
    reason = without_repeats(failed.reason, rows.select(shown).unpivot()["value"].drop_nulls().unique())
    return f"; the last attempt that was not accepted: {failed.outcome}: {' '.join(reason.split())}"


def _way_in(study: Study, who: str, kind: str) -> str:
    """The command by which a grader's answers come."""
    name = study.name
    if study.design.run_of(who) is not None:
        return f"relgrade grade {name} --grader {who}"
    files = f"relgrade sheets {name} --grader {who}, then relgrade collect {name} --grader {who} ANSWERS"
    if kind == "human":
        return f"relgrade desk-link {name} --person {who}, or {files}"
    return files
