"""Label Studio's JSON export (P25): a list of tasks, each with its annotations; the shape that `worksheets` asks for.

A task's data hold query_id and chunk_id, and the sheet's token. An annotation's results are read by their control's
name: `grade` (choices, rating or number), `reason` (textarea), `flags` (choices). Predictions and skipped annotations
are no judgments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers.documents import json_document
from relgrade_assets.io.readers.faults import Faults
from relgrade_assets.io.readers.imported import Raw, raw_frame, row
from relgrade_assets.io.readers.slow_records import Fractional, Whole, described

FLAGS = ("unrateable", "judge_later", "corpus_cleanup")


def read_label_studio(path: Path, *, name: str, inside: Path | None = None) -> Raw:
    """Every annotation as a row; the grader is who completed it (an e-mail address, or Label Studio's number).

    Raises Refused as `documents` does, for a file that is no list of tasks, tasks without ids, and results of another
    shape than the controls' named above. Notices: those of `text`, skipped_annotations, tasks_without_annotation.
    """
    tasks, notices = json_document(path, name=name, inside=inside)
    if not isinstance(tasks, list):
        mend = "Export as JSON, not as JSON-MIN or CSV."
        raise Refused(f"{name} can't be used", [Fault(name, described(tasks), "a list of tasks", mend)])
    faults = Faults(name)
    rows: list[dict[str, Any]] = []
    sheets: list[str] = []
    skipped = bare = 0
    for t, task in enumerate(tasks):
        at = f"[{t}]"
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict) or not all(_id(data.get(k)) for k in ("query_id", "chunk_id")):
            faults.add(0, "no data with query_id and chunk_id", "a task as `relgrade sheets` wrote it", column=at)
            continue
        if _id(data.get("sheet")):
            sheets.append(str(data["sheet"]))
        given = task.get("annotations", [])
        if not isinstance(given, list) or not all(isinstance(a, dict) for a in given):
            faults.add(0, described(given), "a list of annotations", column=f"{at}.annotations")
            continue
        kept = [(a, annotation) for a, annotation in enumerate(given) if annotation.get("was_cancelled") is not True]
        skipped += len(given) - len(kept)
        bare += not kept
        for a, annotation in kept:
            place = f"{at}.annotations[{a}]"
            found = _result(annotation.get("result"), place, faults)
            rows.append(
                row(
                    len(rows) + 1,
                    place,
                    grader=_who(annotation.get("completed_by")),
                    query_id=str(data["query_id"]),
                    chunk_id=str(data["chunk_id"]),
                    **found,
                )
            )
    faults.refuse()
    counted = [
        ("skipped_annotations", skipped, "annotations were skipped by their annotator; none was made of them"),
        ("tasks_without_annotation", bare, "tasks have no annotation yet"),
    ]
    all_notices = (*notices, *(Notice(code, n, f"{name}: {text}") for code, n, text in counted if n))
    return Raw(raw_frame(rows, name, "tasks with annotations"), all_notices, sheets=tuple(dict.fromkeys(sheets)))


def _id(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Fractional) and bool(value.strip())


def _who(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("email") or value.get("id")
    return str(value) if isinstance(value, str) and value else None


def _result(result: Any, place: str, faults: Faults) -> dict[str, Any]:
    """rating, reason and flags of one annotation; a fault for a control's value that is of another shape."""
    found: dict[str, Any] = {}
    if not isinstance(result, list):
        faults.add(0, described(result), "a list of results", column=f"{place}.result")
        return found
    for part in result:
        control = part.get("from_name") if isinstance(part, dict) else None
        value = part.get("value") if isinstance(part, dict) else None
        if control not in ("grade", "reason", "flags"):
            continue
        got = _value(control, value)
        if got is None or control in found or (control == "grade" and "rating" in found):
            faults.add(0, f"{control} {described(value)}", f"one {control}, as its control writes it", column=place)
        elif control == "grade":
            found["rating"] = got
        elif control == "reason":
            found["reason"] = got
        else:
            found |= dict.fromkeys(got, True)
    return found


def _value(control: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    if control == "grade":
        chosen = value.get("choices")
        one = chosen[0] if isinstance(chosen, list) and len(chosen) == 1 else value.get("rating", value.get("number"))
        return str(one) if isinstance(one, Whole | Fractional) or (isinstance(one, str) and one) else None
    key = "text" if control == "reason" else "choices"
    given = value.get(key)
    many = [given] if isinstance(given, str) else given
    if not isinstance(many, list) or not all(isinstance(v, str) for v in many):
        return None
    if control == "flags":
        return many if set(many) <= set(FLAGS) else None
    return many[0] if len(many) == 1 else None
