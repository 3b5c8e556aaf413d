"""How far a study is: what is ready, what waits for whom and how much, what is refused. Reads tables and the ledger,
changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relgrade_assets.errors import NotThere, Refused, Waiting
from relgrade_assets.io.frozen_inputs import changed_since, passed_by
from relgrade_assets.io.judging import graded, unmet
from relgrade_assets.io.readers.intents import read_intents
from relgrade_assets.io.rounds import frozen
from relgrade_assets.io.study import Study
from relgrade_assets.methods import intents as intent_methods
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.schemas import TABLES, on_the_way

State = Literal["ready", "outdated", "waiting", "refused", "open"]


@dataclass(frozen=True, slots=True)
class Step:
    """One table of the graph as it stands: its state, and a line that says why."""

    table: str
    state: State
    text: str


@dataclass(frozen=True, slots=True)
class Complete:
    """Something people were waited for has become complete; the digest tells one completion from the next."""

    reason: str
    digest: str


def steps(study: Study) -> list[Step]:
    """Every table in graph order with its state; `staleness` once somebody looked at it, since no run needs it."""
    found: dict[str, Step] = {}
    for table, spec in TABLES.items():
        if spec.group != "refresh" or study.path(table).is_file():
            found[table] = _step(study, table, found)
    return list(found.values())


def _step(study: Study, table: str, before: dict[str, Step]) -> Step:
    try:
        if TABLES[table].per_round and all(s.state != "refused" for s in before.values()):
            study.require_protocol_of_round()
        study.named(*_files(study, table))
        held_up = [i for i in TABLES[table].inputs if i in before and before[i].state != "ready"]
        owed = None if held_up else waits_for(study, table)
        closed = None if held_up else changed_since(study, table)
        if closed is not None:
            return Step(table, "refused", closed.message())
        if owed is not None:
            return Step(table, "waiting", str(owed))
        refusal = "" if held_up else _refusal(study, table)
        if refusal:
            return Step(table, "refused", refusal)
        faults = study.outdated(table)
    except NotThere as missing:
        return Step(table, "waiting", str(missing))
    except Refused as refused:
        return Step(table, "refused", refused.message())
    if not faults:
        return Step(table, "ready", f"{study.digest_of(table) or ''}"[:12])
    if held_up:
        return Step(table, "open", f"after {', '.join(held_up)}")
    if not study.path(table).is_file():
        return Step(table, "open", "can be made now")
    if TABLES[table].group == "refresh":
        return Step(table, "outdated", f"`relgrade staleness {study.name}` looks again")
    return Step(table, "outdated", passed_by(study, table) or "\n".join(map(str, faults)))


def waits_for(study: Study, table: str) -> Waiting | None:
    """What people or files still owe to a table whose input tables are ready; None where nothing is owed."""
    d = study.design
    try:
        study.named(*_files(study, table))
    except NotThere as missing:
        return missing.waiting
    if table == "intents":
        sample = study.load("query_sample")
        locked = intent_methods.lock(
            sample,
            read_intents(
                study.file(d.intents.file), name=d.intents.file, besides=intent_methods.row_check(sample)
            ).frame,
            study.ledger.reviews(study.name),
            round=study.round,
            reviewers={d.auditor.name},
            unreviewed_ok=d.declared("unreviewed_intents"),
        )
        return locked if isinstance(locked, Waiting) else None
    asked = {"grades": ("sheets", d.key_graders), "audit_grades": ("audit_sheets", [d.auditor.name])}.get(table)
    if asked is None:
        return None
    sheets, who = asked
    outcome = graded(study, study.load(sheets), who)
    return outcome if isinstance(outcome, Waiting) else None


def _files(study: Study, table: str) -> list[str]:
    """Files of the design that a table is the first to need."""
    d = study.design
    files = {
        "queries": [d.rubric, d.query_log.file],
        "plan": [d.corpus.path],
        "runs": [a.run for a in d.arms],
        "pools": [d.corpus.path],
        "intents": [d.intents.file],
        "revisions": [d.rubric],
    }
    return files.get(table, [])


def first_owed(study: Study, table: str) -> Waiting | None:
    """What a table that is to be made waits for, before anything else of it is looked at: where an input table is not
    current, the first thing that people or files still owe on the way to it. None where nothing is owed.
    """
    if not any(study.outdated(i) for i in TABLES[table].inputs if i in TABLES):
        return None
    for before in on_the_way(table):
        if any(study.outdated(i) for i in TABLES[before].inputs if i in TABLES):
            continue
        owed = waits_for(study, before) if study.outdated(before) else None
        if owed is not None:
            return Waiting(f"{owed} for {before}", owed.done, owed.of) if not owed.of else owed
    return None


def _refusal(study: Study, table: str) -> str:
    if table != "frozen_key" or study.outdated("verdicts"):
        return ""
    return "\n".join(str(f) for f in unmet(study, study.load("verdicts")))


def complete_now(study: Study) -> Complete | None:
    """What people owed and have now given, where the table it goes into is not made from it yet. Nothing of a round
    that is frozen: it takes no answers.
    """
    if frozen(study):
        return None
    for table, before, what in (
        ("intents", "query_sample", "the last intent is written and reviewed"),
        ("grades", "sheets", "the last grade is in"),
        ("audit_grades", "audit_sheets", "the auditor's last grade is in"),
    ):
        if study.outdated(before):
            continue
        if study.outdated(table) and waits_for(study, table) is None:
            inputs = {name: study.digest_of(name) for name in TABLES[table].inputs}
            return Complete(f"{what} (round {study.round})", digest([table, study.round, inputs, study.protocol]))
    return None
