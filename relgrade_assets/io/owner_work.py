"""What the study's owner does at the desk: the spot-check of query types (P8), and disagreements after the gate, with
a cause named for each (P30). Never for a grader or the auditor of the study.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from relgrade_assets.errors import Fault, NotThere, Refused, Waiting
from relgrade_assets.io.atomic import locked, write_bytes
from relgrade_assets.io.cells import csv_bytes, unmarked
from relgrade_assets.io.readers.records import Column, read_records
from relgrade_assets.io.study import SPOT_CHECK_FILE, Study
from relgrade_assets.io.worksheets import write_spot_check
from relgrade_assets.protocol.canonical import hash_key

CAUSES = ("intent", "boundary", "drift", "slip")
"""What may lie behind a disagreement; a slip is a mistake of one of the two and nothing else."""
NOTE_AT_MOST = 300
_SPOT = ("query_id", "query", "type", "type_by_person")
_LOCK_SECONDS = 10.0


def spot_check(study: Study) -> list[dict[str, str]]:
    """The spot-check sheet: query_id, query, type, type_by_person (empty where not filled in). From the file where
    there is one, else as it will be written.
    """
    if not study.file(SPOT_CHECK_FILE).is_file():
        rows = study.load("spot_check")
        return [{**{k: r[k] for k in _SPOT[:3]}, "type_by_person": ""} for r in rows.to_dicts()]
    columns = {name: Column(name, "id" if name == "query_id" else "text", filled=False) for name in _SPOT}
    frame = read_records(study.file(SPOT_CHECK_FILE), name=SPOT_CHECK_FILE, format="csv", columns=columns).frame
    return [{c: unmarked(row[c] or "") for c in _SPOT} for row in frame.to_dicts()]


def types(study: Study) -> list[str]:
    """Types that a query may be filed under."""
    parts = {t for part in study.design.strata.parts for t in part.types}
    return sorted(parts | {row["type"] for row in spot_check(study)})


def spot(study: Study, query_id: str, type_by_person: str) -> None:
    """Fill in one row of the spot-check sheet; the file is made at the first. Refused for an unknown query or type."""
    with locked(study.home.state / "desk" / f"spot-check-{study.name}.lock", wait_seconds=_LOCK_SECONDS):
        if not study.file(SPOT_CHECK_FILE).is_file():
            write_spot_check(study)
        rows = spot_check(study)
        row = next((r for r in rows if r["query_id"] == query_id), None)
        known = {*types(study), ""}
        if row is None or type_by_person not in known:
            fault = Fault("the row", "a query or type that isn't there", "one of those on the page")
            raise Refused("The spot-check was not filled in", [fault])
        row["type_by_person"] = type_by_person
        write_bytes(study.file(SPOT_CHECK_FILE), csv_bytes(_SPOT, ([r[c] for c in _SPOT] for r in rows)))


def disagreements(study: Study) -> list[dict[str, Any]]:
    """Audited pairs on which key and auditor differ, once the gates have judged: query, intent, header, text, the two
    grades and reasons as `a` and `b`, the likely cause, and the cause and note that the owner named.

    Which of the two is `a` is drawn for each pair, so that neither side is known by its place. NotThere before the
    verdicts are made on the present grades.
    """
    if study.outdated("verdicts") or study.outdated("disagreements"):
        raise NotThere(Waiting("disagreements are listed after the gates have judged the present grades"))
    rows = study.load("disagreements")
    seen = study.load("audit_sheets").select("query_id", "chunk_id", "query", "header", "text")
    named = _causes(study)
    found = []
    for row in rows.join(seen, on=["query_id", "chunk_id"], how="left", maintain_order="left").to_dicts():
        sides = [(row["grade"], row["reason"] or ""), (row["audit_grade"], row["audit_reason"] or "")]
        if int(hash_key("side", study.design.seed, str(study.round), row["query_id"], row["chunk_id"])[:2], 16) % 2:
            sides.reverse()
        cause, note = named.get((row["query_id"], row["chunk_id"]), ("", ""))
        shown = {name: row[name] for name in ("query_id", "chunk_id", "query", "intent", "header", "text")}
        found.append(
            {**shown, "a": sides[0], "b": sides[1], "likely": row["likely_cause"], "cause": cause, "note": note}
        )
    return found


def name_cause(study: Study, query_id: str, chunk_id: str, cause: str, note: str) -> None:
    """Keep the owner's word on one disagreement of this round. Refused for an unknown pair or cause."""
    note = " ".join(note.split())
    pairs = {(r["query_id"], r["chunk_id"]) for r in disagreements(study)}
    if (query_id, chunk_id) not in pairs or cause not in CAUSES or len(note) > NOTE_AT_MOST:
        expected = f"a pair of the page, a cause of {', '.join(CAUSES)}, a note of at most {NOTE_AT_MOST} characters"
        raise Refused("The cause was not kept", [Fault("the cause", "something else", expected)])
    path = _causes_file(study)
    with locked(path.with_suffix(".lock"), wait_seconds=_LOCK_SECONDS):
        named = {**_causes(study), (query_id, chunk_id): (cause, note)}
        lines = [json.dumps([*pair, *said], ensure_ascii=False) for pair, said in sorted(named.items())]
        write_bytes(path, ("\n".join(lines) + "\n").encode())


def _causes_file(study: Study) -> Path:
    return study.home.state / "desk" / "causes" / study.name / f"{study.round}.jsonl"


def _causes(study: Study) -> dict[tuple[str, str], tuple[str, str]]:
    path = _causes_file(study)
    if not path.is_file():
        return {}
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {(q, c): (cause, note) for q, c, cause, note in rows}
