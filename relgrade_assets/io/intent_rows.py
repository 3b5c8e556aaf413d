"""Intents at the desk, row by row: the owner writes them (P16), the auditor reviews them and sees nothing else (P17).

The file holds the text and the ledger the reviews, as for files; nothing of pools is reachable from here.
"""

from __future__ import annotations

import csv
import io
import json

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.atomic import locked, write_bytes
from relgrade_assets.io.readers.intents import read_intents
from relgrade_assets.io.readers.records import format_of
from relgrade_assets.io.returns import require_before_audit
from relgrade_assets.io.study import Study
from relgrade_assets.methods import intents as methods
from relgrade_assets.protocol.design import FORMS

LENGTH_AT_MOST = 300
NOTE_AT_MOST = 500
_COLUMNS = ("query_id", "query", "form", "intent", "author", "lint_override")
_LOCK_SECONDS = 10.0


def rows(study: Study) -> list[dict[str, str | None]]:
    """Every sampled query by id: query_id, query, and form, intent, author, lint_override and row_digest, null where
    there is no intent yet; verdict and note of the auditor's review of the row as it stands, null where there is none.
    """
    sample = study.load("query_sample").select("query_id", "query").sort("query_id")
    written = {r["query_id"]: r for r in _written(study).to_dicts()}
    auditor = study.design.auditor.name
    reviews = study.ledger.reviews(study.name).filter(pl.col("reviewer") == auditor).to_dicts()
    said = {(r["query_id"], r["row_digest"]): r for r in reviews}
    found: list[dict[str, str | None]] = []
    for query_id, query in sample.rows():
        own = written.get(query_id, {})
        row = {name: own.get(name) for name in ("form", "intent", "author", "lint_override")}
        digest = methods.row_digest(query, own["form"], own["intent"], own["author"]) if own else None
        review = said.get((query_id, digest), {})
        found.append(
            {
                "query_id": query_id,
                "query": query,
                **row,
                "row_digest": digest,
                "verdict": review.get("verdict"),
                "note": review.get("note"),
            }
        )
    return found


def write(study: Study, query_id: str, *, form: str, intent: str, author: str, lint_override: str) -> list[str]:
    """Put one intent into the experiment's file. Returns the lint's findings; where there are any and no reason to
    override them, nothing is written.

    Raises Refused for a query that isn't sampled, an unknown form, no text or a long one, and where sheets of this
    round have gone out: intents are written before (P16).
    """
    intent, lint_override = intent.strip(), lint_override.strip()
    queries = dict(study.load("query_sample").select("query_id", "query").rows())
    faults = []
    if query_id not in queries:
        faults.append(Fault("query", "a query that isn't sampled", "a sampled query"))
    if form not in FORMS:
        faults.append(Fault("form", repr(form[:40]), f"one of {', '.join(FORMS)}"))
    if not intent or len(intent) > LENGTH_AT_MOST or any(not c.isprintable() for c in intent):
        faults.append(Fault("intent", f"{len(intent)} characters", f"one line of at most {LENGTH_AT_MOST}"))
    if len(lint_override) > LENGTH_AT_MOST or any(not c.isprintable() for c in lint_override):
        faults.append(Fault("reason", f"{len(lint_override)} characters", f"one line of at most {LENGTH_AT_MOST}"))
    if faults:
        raise Refused("The intent was not written", faults)
    given_out = [
        who
        for who in (*study.design.key_graders, study.design.auditor.name)
        if study.ledger.latest_issued(study.name, study.round, who)
    ]
    if given_out:
        raise Refused(
            f"Sheets of round {study.round} have gone out, so its intents stand (P16)",
            [Fault("the intent", "a change after the first sheet", "none", "Open the next round first.")],
        )
    findings = methods.lint(intent)
    if findings and not lint_override:
        return findings
    named = study.design.intents.file
    new = {
        "query_id": query_id,
        "query": queries.get(query_id),
        "form": form,
        "intent": intent,
        "author": author,
        "lint_override": lint_override or None,
    }
    with locked(study.home.state / "desk" / f"intents-{study.name}.lock", wait_seconds=_LOCK_SECONDS):
        kept = [r for r in _written(study).to_dicts() if r["query_id"] != query_id]
        ordered = sorted([*kept, new], key=lambda r: str(r["query_id"]))
        write_bytes(study.file(named), _bytes(ordered, format_of(named, None)))
    return findings


def review(study: Study, query_id: str, row_digest: str, *, verdict: str, note: str) -> None:
    """Record the auditor's word on one row as it was shown. Raises Refused where the row was changed since, the
    verdict is neither `ok` nor `change`, or something new is said after the first audit sheet (P17).
    """
    present = {r["query_id"]: r for r in rows(study)}
    row = present.get(query_id)
    if row is None or row["row_digest"] is None or row["row_digest"] != row_digest:
        raise Refused(
            "The review was not recorded",
            [Fault("the row", "another wording than you were shown", "the row as it stands", "Reload the page.")],
        )
    note = " ".join(note.split())[:NOTE_AT_MOST]
    if (row["verdict"], row["note"] or "") == (verdict, note):
        return
    auditor = study.design.auditor.name
    require_before_audit(study, auditor)
    frame = pl.DataFrame([{"query_id": query_id, "row_digest": row_digest, "verdict": verdict, "note": note}])
    study.ledger.record_reviews(study.name, auditor, frame, at=study.clock())


def _written(study: Study) -> pl.DataFrame:
    named = study.design.intents.file
    if not study.file(named).exists():
        return pl.DataFrame(schema=dict.fromkeys(_COLUMNS, pl.String))
    return read_intents(study.file(named), name=named).frame


def _bytes(ordered: list[dict[str, str | None]], form: str) -> bytes:
    if form == "jsonl":
        lines = [{k: r[k] for k in _COLUMNS if r[k] is not None} for r in ordered]
        return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([r[k] or "" for k in _COLUMNS] for r in ordered)
    return buffer.getvalue().encode()
