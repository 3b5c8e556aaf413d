"""Rounds on the event log: opening them, and locking what must stand before grading begins (P4, P16, P26).

The chain itself is in events.py; here is what a study writes to it and when.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import events
from relgrade_assets.io.calibration import require_calibrated
from relgrade_assets.io.frames import content_digest, read_table
from relgrade_assets.io.private_text import refuse_private
from relgrade_assets.io.restating import restate
from relgrade_assets.io.study import Study
from relgrade_assets.methods import grading
from relgrade_assets.methods.comparisons import audited
from relgrade_assets.methods.limited_regrade import against
from relgrade_assets.methods.sheets import rubric_digest
from relgrade_assets.protocol.canonical import digest

INPUTS = ("query_log", "corpus", "run_files", "intent_file")
"""Sources whose change is met by a refresh (P2)."""


def audited_before(study: Study) -> frozenset[str]:
    """Queries that the auditor of an earlier round was given."""
    paths = [study.path("audit_sample", n) for n in range(1, study.round)]
    return frozenset(q for path in paths if path.is_file() for q in read_table(path)["query_id"])


def frozen(study: Study) -> bool:
    """Whether the present round has a key."""
    return any(e.kind == "frozen" and e.round == study.round for e in study.log)


def require_fresh_audit(study: Study, query_ids: pl.Series) -> None:
    """Refuse queries that an earlier round's auditor was given, unless the design declares it (P3, P26)."""
    again = sorted(audited_before(study).intersection(query_ids))
    if again and not study.design.declared("reused_audit"):
        raise Refused(
            f"Too few queries of {study.name} are left that nobody audited",
            [
                Fault(
                    f"the audit sample of round {study.round}",
                    f"{len(again)} of {query_ids.n_unique()} queries that an earlier round's auditor was given",
                    "queries that nobody audited yet",
                    "Declare 'reused_audit' under deviations with a reason, or sample more queries; then "
                    f"`relgrade refresh {study.name}`, or `relgrade revise` where the last round was not passed.",
                )
            ],
            untouched="No sheet was laid out.",
        )


def lock_audit_sample(study: Study, frame: pl.DataFrame) -> str:
    """Lock the audit sample by digest, before the first sheet leaves (P26). Refused where grading began under another
    lock, and where it was used before and that isn't declared (P3).
    """
    require_fresh_audit(study, frame["query_id"])
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
                    f"Put runs, corpus and log back, or open the next round: `relgrade refresh {study.name}`.",
                )
            ],
        )
    study.lock("audit_locked", lock)
    return lock


def open_first_round(study: Study) -> None:
    """Open round 1 with the protocol it is graded under, at the first answer (P2, P4). Refused before the calibration
    that several people need (P26).
    """
    require_calibrated(study)
    if events.opening(study.log, study.round) is None:
        study.happened("opened", opening_body(study, study.round, cause="first grading", what="", by=""))


def open_next_round(study: Study, *, cause: str, what: str, by: str, limited: bool = False) -> int:
    """Open the next round with its logged cause (P4, P30). Returns its number. Refused where the present round has no
    grade yet, unless it was opened under another protocol than the present one.

    With `limited` only what was graded relevant is graded again (P30): refused unless the verdicts allow it.
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
                    "Change experiment.yaml, rubric or intents freely; no revision is needed. Where corpus, runs or "
                    f"arms changed under a key: `relgrade refresh {study.name}`.",
                )
            ],
        )
    if limited:
        _require_limited(study)
    carry: dict[str, object] = {"carry": "limited", "from": study.round, "rerate": 0} if limited else {}
    return _open(study, {**opening_body(study, study.round + 1, cause=cause, what=what, by=by), **carry})


def open_refresh(study: Study, *, cause: str, by: str, rerate: int = 0, affected_alone: bool = False) -> int:
    """Open the next round for inputs that changed, with every grade carried that P44 allows (P2, P43). Returns its
    number; the old key stands untouched.

    `rerate` is the percent of carried pairs that are given again, of the strata with new pairs where `affected_alone`.
    Refused where nothing was graded yet, where the present round failed a gate (P30: that is a revision), and where
    neither inputs nor protocol changed and nothing is to be given again.
    """
    opened = events.opening(study.log, study.round)
    if opened is None:
        fault = Fault("the ledger", "no grade yet", "a round with grades", "Change what you like; nothing is lost.")
        raise Refused(f"There is nothing of {study.name} to refresh", [fault])
    if any(e.kind == "gate_failed" and e.round == study.round for e in study.log):
        mend = f"`relgrade revise {study.name} --cause ...` regrades, on the new inputs."
        fault = Fault(f"round {study.round}", "a gate that was not passed", "a round that may be carried", mend)
        raise Refused(f"Round {study.round} of {study.name} failed, so its grades are not carried", [fault])
    if events.voided(study.log, study.round):
        mend = f"`relgrade revise {study.name} --cause ...` regrades the whole pool, blind."
        fault = Fault(f"round {study.round}", "a void round", "grades that stand", mend)
        raise Refused(f"Round {study.round} of {study.name} is void, so its grades are not carried", [fault])
    if same_inputs(study) and not rerate:
        fault = Fault("inputs and protocol", "as they were", "a change", "Or --rerate, to measure drift.")
        raise Refused(f"Nothing changed since round {study.round} of {study.name} was opened", [fault])
    where = {"rerate_in": "affected"} if affected_alone else {}
    carry: dict[str, object] = {"carry": "unchanged", "from": study.round, "rerate": rerate, **where}
    return _open(study, {**opening_body(study, study.round + 1, cause=cause, what="refresh", by=by), **carry})


def same_inputs(study: Study) -> bool:
    """Whether protocol, log, corpus, runs and intents are those that the present round was opened on."""
    opened = events.opening(study.log, study.round)
    return (
        opened is not None
        and opened.body["protocol_digest"] == study.protocol
        and opened.body.get("inputs") == _inputs(study)
    )


def opening_body(study: Study, number: int, *, cause: str, what: str, by: str) -> dict[str, object]:
    """What every opening says: the protocol, and what a grade's validity hangs on (P44)."""
    return {
        "round": number,
        "cause": cause,
        "what": what,
        "by": by,
        "protocol_digest": study.protocol,
        "rubric_digest": rubric_digest(study.rubric),
        "scale_digest": _scale_digest(study),
        "inputs": _inputs(study),
    }


def _inputs(study: Study) -> dict[str, object]:
    """Digests of the files that a round's pools and intents are made from; None where one is not there."""
    return {name: study.source_digest(name) for name in INPUTS}


def _scale_digest(study: Study) -> str:
    return digest(study.design.scale.model_dump(mode="json"))


def _open(study: Study, body: dict[str, object]) -> int:
    refuse_private(study, {f"--{name}": str(body[name]) for name in ("cause", "what", "by")})
    events.append(study.ledger, study.name, "opened", body, study.clock(), salt=study.salt)
    restate(study)
    return int(str(body["round"]))


def _require_limited(study: Study) -> None:
    """P30: the verdicts of the present round, and the very grades they judged, allow a limited regrade."""
    failed = [e.body for e in study.log if e.kind == "gate_failed" and e.round == study.round]
    what = f"Round {study.round} of {study.name} can't be followed by a limited regrade"
    if not failed:
        raise Refused(what, [Fault("the gates", "none that failed", "binary kappa passed, weighted kappa failed")])
    tables: dict[str, pl.DataFrame] = {}
    for name in ("grades", "audit_grades"):
        path = study.path(name)
        tables[name] = read_table(path) if path.is_file() else pl.DataFrame()
        if content_digest(tables[name]) != failed[-1][f"{name}_digest"]:
            fault = Fault(name, "another table than the gates judged", str(failed[-1][f"{name}_digest"])[:12])
            raise Refused(what, [fault])
    d = study.design
    combined = grading.combine(tables["grades"], order=d.key_graders, rule=d.combine)
    faults = against(
        [str(g["gate"]) for g in _gates(failed[-1])],
        audited(combined, tables["grades"], tables["audit_grades"], graders=d.key_graders),
        labels=d.scale.labels,
        relevant_from=d.scale.relevant_from,
        threshold=d.gates.weighted_kappa,
    )
    opened = events.opening(study.log, study.round)
    if opened is not None and opened.body.get("scale_digest") != _scale_digest(study):
        faults.append(
            Fault("scale", "another than the round was graded on", "the same: the grades mean something else")
        )
    if faults:
        raise Refused(what, faults)


def _gates(body: Mapping[str, object]) -> list[Mapping[str, object]]:
    gates = body["gates"]
    return list(gates) if isinstance(gates, list) else []


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
