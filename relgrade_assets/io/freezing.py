"""Freezing: what stands beside the key in the store (P33), the freeze itself, and the proof that a table is the
frozen key (P34).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import sqlalchemy as sa

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import attempts, events
from relgrade_assets.io.calibration import require_calibrated
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.ledger import Whose
from relgrade_assets.io.refreshing import baseline
from relgrade_assets.io.restating import restate
from relgrade_assets.io.rounds import require_fresh_audit
from relgrade_assets.io.standing import kept_files
from relgrade_assets.io.study import Study
from relgrade_assets.io.voiding import records, require_standing
from relgrade_assets.methods import key as methods
from relgrade_assets.protocol.canonical import canonical_json, digest, digest_bytes
from relgrade_assets.protocol.design import Auditor, Grader
from relgrade_assets.schemas import TABLES

UNRATEABLE_AT_MOST = 0.02


def freeze(study: Study, key: methods.Key, verdicts: pl.DataFrame) -> str:
    """Put the key into the write-once store and the freeze into the event log. Returns the key's digest.

    Refused where more of the pool is unrateable than the protocol allows undeclared (P19), where several people graded
    without a calibration (P26), where the audit sample was used before and that isn't declared (P3), where nothing is
    left, or where another key of this round, or this one with other particulars, is frozen already.
    """
    require_calibrated(study)
    require_standing(study)
    _require_rateable(study, key)
    require_fresh_audit(study, study.load("audit_grades")["query_id"])
    content = methods.canonical_bytes(key.frame)
    sha = methods.key_digest(key.frame)
    lines = [
        canonical_json(row) + b"\n"
        for row in key.unrateable.select("query_id", "chunk_id").sort("query_id", "chunk_id").to_dicts()
    ]
    files = {
        "key.jsonl": content,
        "unrateable.jsonl": b"".join(lines),
        "key.json": canonical_json(identity(study, key, verdicts, sha)) + b"\n",
    }
    digests = {name: digest_bytes(data) for name, data in files.items()}
    body = {"round": study.round, "key_digest": sha, "files": digests}
    judged = {name: study.source_digest(name) for name in ("answers", "audit_answers")}

    def seal(connection: sa.Connection) -> Mapping[str, object]:
        _require_as_judged(study, judged)
        return {"records": records(connection, study.name, study.round)}

    events.append(  # first: it closes the round (P35); a freeze that was cut short, or another run's, is logged once
        study.ledger,
        study.name,
        "frozen",
        body,
        study.clock(),
        once=lambda log: next((e for e in log if _freezes(e, study.round, sha)), None),
        more=seal,
    )
    _require_as_logged(study, digests, kept_files(study.log, study.round) or digests)
    study.keys.freeze(study.name, study.round, files)
    restate(study)
    return sha


def _freezes(event: events.Event, round: int, sha: str) -> bool:
    return event.kind == "frozen" and event.round == round and event.body["key_digest"] == sha


def _require_as_judged(study: Study, judged: Mapping[str, str | None]) -> None:
    """Inside the transaction that closes the round: no answer came in since the grades were judged (P23, P29)."""
    study.look_at(*judged)
    faults = [
        Fault(f"the ledger, {name}", "an answer that came in while the key was made", "those that were judged", "")
        for name, then in judged.items()
        if study.source_digest(name) != then
    ]
    if faults:
        untouched = f"Nothing was frozen, and the answer stands; run `relgrade run {study.name}` again."
        raise Refused(f"Grades of {study.name} changed under the freeze", faults, untouched=untouched)


def _require_as_logged(study: Study, digests: Mapping[str, str], logged: Mapping[str, str]) -> None:
    """A freeze that was cut short is finished with what it logged, or not at all (P33)."""
    odd = [name for name in sorted({*digests, *logged}) if digests.get(name) != logged.get(name)]
    if odd:
        mend = "Put back what the key was made from, or open the next round with `relgrade revise`."
        raise Refused(
            f"Round {study.round} of {study.name} is frozen, and was made from something else",
            [Fault(n, f"sha256 {digests.get(n)}", f"{logged.get(n)}, as the event log has it", mend) for n in odd],
            untouched="The frozen key stands.",
        )


def identity(study: Study, key: methods.Key, verdicts: pl.DataFrame, sha: str) -> dict[str, object]:
    """Everything of P33 except times and standing: what the key is, and from what it was made. Graders by pseudonym."""
    d = study.design
    counts = {str(g): n for g, n in key.frame.group_by("grade").len().sort("grade").iter_rows()}
    return {
        "experiment": study.name,
        "title": d.title,
        "round": study.round,
        "key_sha256": sha,
        "pairs": key.frame.height,
        "queries": key.frame["query_id"].n_unique(),
        "grades": counts,
        "protocol_sha256": study.protocol,
        "rubric_sha256": digest(study.rubric),
        "scale": d.scale.model_dump(mode="json"),
        "seed_sha256" if d.private else "seed": digest(d.seed) if d.private else d.seed,
        "depth": d.depth,
        "arms": [{"name": a.name, "family": a.family} for a in d.arms],
        "graders": [
            {"pseudonym": f"grader-{i}", "family": g.family, "kind": g.kind, "takes": g.takes, **_set_up(study, g)}
            for i, g in enumerate(d.graders, start=1)
        ],
        "combine": d.combine,
        "auditor": {
            "pseudonym": "auditor-1",
            "family": d.auditor.family,
            "kind": d.auditor.kind,
            **_set_up(study, d.auditor),
        },
        "inputs": {name: study.digest_of(name) for name in TABLES["frozen_key"].inputs},
        "verdicts": verdicts.select("gate", "threshold", "value", "verdict", "why").sort("gate").to_dicts(),
        "dropped_queries": list(key.dropped),
        "emptied_strata": list(key.emptied),
        "unrateable": key.unrateable.height,
        "deviations": [x.model_dump(mode="json") for x in d.deviations],
        "baseline": baseline(study),
    }


def _set_up(study: Study, who: Grader | Auditor) -> dict[str, object]:
    """How a model that we ran was asked (P21, P33): the preset, or a command's digest, since a path may say who runs
    it; model, passages a prompt, and the versions and templates that the ledger has of accepted replies.
    """
    if who.run is None:
        return {}
    command = who.run.command
    asked = attempts.accepted_by(study.ledger, Whose(study.name, study.round, who.name))
    return {
        "run": {
            "command": command if isinstance(command, str) else f"sha256 {digest(list(command))}",
            "model": who.run.model,
            "chunks_a_prompt": who.run.chunks_a_prompt,
            "versions": sorted({version for version, _ in asked}),
            "templates": sorted({template for _, template in asked}),
        }
    }


def require_frozen(study: Study, frame: pl.DataFrame) -> str:
    """The digest of the frozen key, proved to be that of `frame` (P34). Refused where nothing is frozen, or something
    else is.
    """
    require_standing(study)
    found = methods.key_digest(frame)
    log = study.log
    stored = study.keys.load(study.name, study.round, digests=kept_files(log, study.round))
    logged = [e.body["key_digest"] for e in log if e.kind == "frozen" and e.round == study.round]
    frozen = digest_bytes(stored["key.jsonl"])
    if not found == frozen or logged != [frozen]:
        raise Refused(
            f"The table frozen_key of {study.name} is not the key that was frozen for round {study.round}",
            [
                Fault(
                    "frozen_key",
                    f"a key with hash {found[:12]}",
                    f"{frozen[:12]} in the store and {', '.join(str(x)[:12] for x in logged) or 'nothing'} in the log",
                )
            ],
        )
    return found


def first_reading(study: Study, key: str, measured: pl.DataFrame) -> None:
    """Record that measures of this round's key were read for the first time, and which (P34); where they are made
    again with other numbers, that they were.
    """
    numbers = content_digest(measured)

    def readings(log: Sequence[events.Event]) -> list[events.Event]:
        return [e for e in log if e.kind in ("first_reading", "read_again") and e.round == study.round]

    def known(log: Sequence[events.Event]) -> events.Event | None:
        return next((e for e in readings(log)[-1:] if e.body.get("measures_digest") == numbers), None)

    body = {"round": study.round, "key_digest": key, "measures_digest": numbers}
    kind = "read_again" if readings(study.log) else "first_reading"
    events.append(study.ledger, study.name, kind, body, study.clock(), once=known)


def _require_rateable(study: Study, key: methods.Key) -> None:
    share = key.unrateable_share
    if share > UNRATEABLE_AT_MOST and not study.design.declared("unrateable_share"):
        raise Refused(
            "Too much of the pool could not be rated",
            [
                Fault(
                    "grades",
                    f"{key.unrateable.height} pairs unrateable, {share:.1%} of the pool",
                    "at most 2%",
                    "Mend the corpus or the rubric, or declare 'unrateable_share' under deviations with a reason.",
                )
            ],
            untouched="Nothing was frozen.",
        )
