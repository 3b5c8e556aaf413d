"""Rounds on the event log: opening them, and locking what must stand before grading begins (P4, P16, P26).

The chain itself is in events.py; here is what a study writes to it and when.
"""

from __future__ import annotations

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import events
from relgrade_assets.io.frames import content_digest, read_table
from relgrade_assets.io.study import Study


def audited_before(study: Study) -> frozenset[str]:
    """Queries that the auditor of an earlier round was given."""
    paths = [study.path("audit_sample", n) for n in range(1, study.round)]
    return frozenset(q for path in paths if path.is_file() for q in read_table(path)["query_id"])


def lock_audit_sample(study: Study, frame: pl.DataFrame) -> str:
    """Lock the audit sample by digest, before the first sheet leaves (P26). Refused where grading began under another
    lock.
    """
    lock = content_digest(frame)
    earlier = [e for e in study.log if e.kind == "audit_locked" and e.round == study.round]
    if earlier and earlier[-1].body["digest"] != lock and events.opening(study.log, study.round) is not None:
        raise Refused(
            f"The audit sample of round {study.round} was locked, and grading has begun",
            [
                Fault(
                    "audit_sample",
                    f"another sample, {lock[:12]}",
                    f"the locked one, {str(earlier[-1].body['digest'])[:12]}",
                    f"Put runs, corpus and log back, or open the next round: `relgrade revise {study.name}`.",
                )
            ],
        )
    if not earlier or earlier[-1].body["digest"] != lock:
        study.happened("audit_locked", {"round": study.round, "digest": lock})
    return lock


def open_first_round(study: Study) -> None:
    """Open round 1 with the protocol it is graded under, at the first answer (P2, P4)."""
    if events.opening(study.log, study.round) is None:
        body = {"round": study.round, "cause": "first grading", "what": "", "by": "", "protocol_digest": study.protocol}
        study.happened("opened", body)


def open_next_round(study: Study, *, cause: str, what: str, by: str) -> int:
    """Open the next round with its logged cause (P4, P30). Returns its number. Refused where the present round has no
    grade yet, unless it was opened under another protocol than the present one.
    """
    opening = events.opening(study.log, study.round)
    everyone = [*study.design.key_graders, study.design.auditor.name]
    graded = study.round == 1 or not study.ledger.answers(study.name, study.round, everyone).is_empty()
    if opening is None or not (graded or opening.body["protocol_digest"] != study.protocol):
        raise Refused(
            f"Round {study.round} of {study.name} has no grade yet, so there is nothing to revise",
            [
                Fault(
                    "the ledger",
                    "a round without grades",
                    "a round with grades",
                    "Change experiment.yaml, rubric or intents freely; no revision is needed.",
                )
            ],
        )
    number = study.round + 1
    body = {"round": number, "cause": cause, "what": what, "by": by, "protocol_digest": study.protocol}
    events.append(study.ledger, study.name, "opened", body, study.clock(), salt=study.salt)
    return number


def log_failed_gates(study: Study, verdicts: pl.DataFrame) -> None:
    """P30: log the gates that a round did not pass, with their values. The round then takes no more answers, so that
    no gate is graded away: what comes next is a revision and the next round.
    """
    unmet = verdicts.filter(pl.col("verdict") != "passed").sort("gate")
    if unmet.is_empty():
        return
    body = {
        "round": study.round,
        "grades_digest": verdicts["grades_digest"][0],
        "audit_grades_digest": verdicts["audit_grades_digest"][0],
        "gates": unmet.select("gate", "threshold", "value", "verdict").to_dicts(),
    }
    study.happened("gate_failed", body)
