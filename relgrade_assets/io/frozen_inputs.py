"""What a frozen round was made from stays (P33, P35): files that change after the freeze belong to the next round.

The tables of a frozen round are never made again from other inputs, so that the old round stands beside the new one.
"""

from __future__ import annotations

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import events
from relgrade_assets.io.ledger import frozen_rounds
from relgrade_assets.io.rounds import INPUTS
from relgrade_assets.io.study import Study
from relgrade_assets.schemas import TABLES, on_the_way

RECORDED = frozenset({"reviews", "answers", "audit_answers", "events", "design", "rubric"})
"""Sources that are no files of inputs: what people said has its own rules (P35), and the protocol too (P2)."""


def changed_since(study: Study, table: str, *, files: bool = True) -> Refused | None:
    """Where the present round is frozen and `table`, one of those that its key is made from, would be made from inputs
    that were changed since: the refusal, with each input, both digests, and the way on. Of a file it is not known here
    whether it comes to another table, since other bytes may say the same; without `files` tables alone are looked at.
    """
    if not TABLES[table].per_round or not study.has_ledger:
        return None
    way = [*on_the_way("frozen_key"), "frozen_key"]
    if table not in way or study.round not in study.ledger.read(lambda c: frozen_rounds(c, study.name)):
        return None
    mend = f"Put it back, or open the next round with it: {_ways(study)}."
    faults: dict[str, Fault] = {}
    for each in [t for t in way if TABLES[t].per_round and (t == table or t in on_the_way(table))]:
        label = study.label(each)
        if label is None or label.round != study.round:
            continue
        for name in TABLES[each].inputs:
            outer = not TABLES[name].per_round if name in TABLES else files and name not in RECORDED
            then, now = label.inputs.get(name) or None, study.digest_of(name)
            if outer and then != now:
                found, before = (f"{d[:12]}" if d else "nothing" for d in (now, then))
                moved = changed_files(study, name)
                found += f" ({', '.join(moved)} changed since the round was opened)" if moved else ""
                expected = f"{before}, from which round {study.round} was frozen"
                faults[name] = Fault(name, found, expected, mend)
    if not faults:
        return None
    return Refused(
        f"Round {study.round} of {study.name} is frozen, and what it was made from was changed since",
        list(faults.values()),
        untouched=f"The key and the tables of round {study.round} are as they were.",
    )


def changed_files(study: Study, name: str) -> list[str]:
    """Which files that a table, or a source, comes from are not those that the present round was opened with. Of
    several runs it is not known which one. A file that is missing is waited for, and not among them.
    """
    then = events.opened_on(study.log, study.round)
    found = []
    for source in INPUTS if then else ():
        comes_from = name == source or (
            name in TABLES and any(source in TABLES[t].inputs for t in (name, *on_the_way(name)))
        )
        if comes_from and study.source_digest(source) not in (None, then.get(source)):
            files = study.source_files(source)
            found.append(files[0] if len(files) == 1 else f"one of {', '.join(files)}")
    return found


def passed_by(study: Study, table: str) -> str:
    """Where the present round is frozen and files that `table` comes from were changed since: which, and the ways on.
    Empty elsewhere.
    """
    if not study.has_ledger or study.round not in study.ledger.read(lambda c: frozen_rounds(c, study.name)):
        return ""
    moved = changed_files(study, table)
    if not moved:
        return ""
    return f"{', '.join(moved)} changed since round {study.round} was opened, which is frozen: {_ways(study)}"


def commands_on(study: Study) -> str:
    """The commands that open the next round after a freeze: no grade of a void round is carried."""
    revise = f"relgrade revise {study.name} --cause ..."
    return revise if events.voided(study.log, study.round) else f"relgrade refresh {study.name}, or {revise}"


def _ways(study: Study) -> str:
    anew = f"`relgrade revise {study.name} --cause ...` grades all anew"
    carried = f"`relgrade refresh {study.name}` carries the grades that still hold"
    return anew if events.voided(study.log, study.round) else f"{carried}, {anew}"
