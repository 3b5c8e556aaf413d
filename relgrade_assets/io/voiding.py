"""Grades that changed after their key was frozen: found against the digests that the freeze logged, and the round
voided for it where measures were read (P35).

`examine` is what every check, command and asset calls before it shows or uses a key. How a key stands is standing.py's
to say, from the log; the whole check of a store is verifying_study.py's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import ledger as tables
from relgrade_assets.io.events import Event
from relgrade_assets.io.restating import restate
from relgrade_assets.io.standing import Standing, standing_of
from relgrade_assets.io.study import Study
from relgrade_assets.protocol.canonical import canonical_json

RECORDED: dict[str, sa.Table] = {
    t.name: t for t in (tables.answers, tables.refusals, tables.reviews, tables.issued, tables.prompts, tables.attempts)
}
"""The ledger's tables whose rows a freeze seals. The round is closed to answers; to the others rows may be added."""


def records(connection: sa.Connection, experiment: str, round: int) -> dict[str, object]:
    """How many rows of the experiment and round each of the ledger's tables has, and hex sha256 over them: what a
    `frozen` event holds as `records`, so that the log tells a row that was changed since.
    """
    return {name: _sealed(connection, name, experiment, round) for name in RECORDED}


def altered(study: Study, frozen: Event, *names: str) -> list[Fault]:
    """The ledger's tables (all of them, or `names`) whose rows are not those that stood at this freeze (P35)."""
    held = frozen.body.get("records")
    sealed: Mapping[str, Any] = held if isinstance(held, dict) else {}

    def work(connection: sa.Connection) -> list[Fault]:
        faults = []
        for name in names or RECORDED:
            then = sealed.get(name)
            if then is None:
                continue
            then = then if isinstance(then, dict) else {}  # an altered event
            rows = then.get("rows")
            most = None if name == "answers" or not isinstance(rows, int) else rows
            now = _sealed(connection, name, study.name, frozen.round, most=most)
            if now != then:
                found = f"{now['rows']} rows of round {frozen.round} with sha256 {str(now['sha256'])[:12]}"
                due = f"{rows} with {str(then.get('sha256'))[:12]}, as they were at the freeze"
                faults.append(Fault(f"the ledger, {name}", found, due, "Restore the ledger from a copy."))
        return faults

    return study.ledger.read(work)


def examine(study: Study) -> Standing | None:
    """Look for changed grades in every frozen round, void a round that has some and whose measures were read, and say
    how the present round's key stands; None where none is frozen.

    A void is logged once and for good: grades that were put back don't undo that numbers were read of others.
    """
    if not study.has_ledger:
        return None
    log = study.log
    found = False
    for frozen in [e for e in log if e.kind == "frozen"]:
        kinds = {e.kind for e in log if e.round == frozen.round}
        if "voided" in kinds or "first_reading" not in kinds:
            continue
        faults = altered(study, frozen, "answers")
        if faults:
            why = f"grades were found changed after measures were read ({faults[0].found}; {faults[0].expected})"
            study.happened("voided", {"round": frozen.round, "key_digest": frozen.body["key_digest"], "why": why})
            found = True
    if found:
        restate(study)
    return standing_of(study.log if found else log, study.round)


def require_standing(study: Study) -> None:
    """Refused where the present round is void: nothing more is made of its key (P35)."""
    found = examine(study)
    if found is not None and not found.decides:
        mend = f"`relgrade revise {study.name}` opens the next round; `relgrade correct` makes a post-hoc key."
        raise Refused(
            found.banner.rstrip("."),
            [Fault(f"round {found.round}", found.status, "a round whose grades stand", mend)],
            untouched="What was made before stands, and says that it is void.",
        )


def _sealed(
    connection: sa.Connection, name: str, experiment: str, round: int, *, most: int | None = None
) -> dict[str, object]:
    """Rows and their digest; with `most`, of the oldest so many alone."""
    table = RECORDED[name]
    columns = [c for c in table.columns if c.name != "id"]
    wanted = sa.select(*columns).where(table.c.experiment == experiment).order_by(table.c.id)
    if "round" in table.c:
        wanted = wanted.where(table.c.round == round)
    total, rows = hashlib.sha256(canonical_json([name, [c.name for c in columns]])), 0
    for row in connection.execute(wanted.limit(most)):
        total.update(b"\n" + canonical_json(list(row)))
        rows += 1
    return {"rows": rows, "sha256": total.hexdigest()}
