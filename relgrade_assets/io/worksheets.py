"""What leaves for people and agents, and what comes back: blind sheets, intent review sheets, the spot-check. Formats
as in docs/formats.md.

No arm, rank, score or other grader's grade is reachable from here: only the tables `sheets`, `audit_sheets`,
`intents` and `spot_check` are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.atomic import replace_folder, write_bytes
from relgrade_assets.io.binding import token
from relgrade_assets.io.calibration import require_calibrated
from relgrade_assets.io.cells import APOSTROPHE, csv_bytes, unmarked
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.readers.intents import read_intents
from relgrade_assets.io.readers.quepid import read_ratings
from relgrade_assets.io.readers.records import Column, read_records
from relgrade_assets.io.readers.spreadsheet import read_spreadsheet
from relgrade_assets.io.study import SPOT_CHECK_FILE, Study
from relgrade_assets.io.tool_sheets import FILES, SheetTool, refuse_ids, tool_sheet
from relgrade_assets.methods import intents as intent_methods
from relgrade_assets.methods import sheets as sheet_methods
from relgrade_assets.protocol.canonical import digest

ANSWERS = "answers.jsonl"
"""The file that a grader's rows are written into: its first line is the sheet's token."""
GRADED_IN_PLACE = {"sheet.csv": read_spreadsheet, "quepid.csv": read_ratings}
"""Files of other tools' forms that are filled in as they are, and their readers."""
AT_ONCE = 5
"""Chunks an agent is shown at a time (P21)."""


def sheet_table(study: Study, grader: str) -> str:
    """Which table holds a grader's sheet. Refused where the design has no such grader."""
    if grader == study.design.auditor.name:
        return "audit_sheets"
    if grader in study.design.key_graders:
        return "sheets"
    names = [*study.design.key_graders, study.design.auditor.name]
    raise Refused(
        f"{study.name} has no grader {grader!r}", [Fault("--grader", repr(grader), f"one of: {', '.join(names)}")]
    )


def sheet_of(study: Study, grader: str) -> pl.DataFrame:
    """A grader's own rows, current, in the grader's order: queries by id, chunks by position."""
    rows = study.load(sheet_table(study, grader)).filter(pl.col("grader") == grader)
    return rows.sort("query_id", "position")


def write_sheets(
    study: Study, grader: str, folder: Path, *, page: bytes | None = None, tool: SheetTool | None = None
) -> int:
    """Write a grader's blind sheet (P18): `sheet.jsonl`, `rubric.md`, `answers.jsonl` with the sheet's token to be
    filled in below it (P25), and `queries/<query_id>/<n>.jsonl` of five chunks each; `page` as `sheet.html` and the
    sheet in the form of `tool` beside them. Returns the pairs.

    Each query has a folder of its own, so that a fresh agent can be given that folder and nothing else. Refused where
    `folder` holds anything else than a sheet, or answers, and before a calibration that is due (P26).
    """
    require_calibrated(study)
    rows = sheet_of(study, grader)
    _require_own_folder(folder)
    mark = token(study, study.round, grader, content_digest(rows))
    files = {
        "rubric.md": study.rubric.encode(),
        "sheet.jsonl": _json_lines(sheet_methods.blind_rows(rows)),
        ANSWERS: _json_lines([{"sheet": mark}]),
    }
    if page is not None:
        files["sheet.html"] = page
    if tool is not None:
        files |= tool_sheet(sheet_methods.blind_rows(rows), tool, grader=grader, scale=study.design.scale, mark=mark)
    for (query,), part in rows.group_by("query_id", maintain_order=True):
        blind = sheet_methods.blind_rows(part)
        for n, start in enumerate(range(0, len(blind), AT_ONCE), start=1):
            files[f"queries/{_as_name(str(query))}/{n:02}.jsonl"] = _json_lines(blind[start : start + AT_ONCE])
    replace_folder(folder, files)
    study.ledger.record_issued(study.name, study.round, grader, content_digest(rows), at=study.clock())
    return rows.height


def _require_own_folder(folder: Path) -> None:
    """The folder is replaced whole, so it must hold a sheet or nothing; answers would be lost."""
    there = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    other = [n for n in there if n not in ("rubric.md", "sheet.jsonl", "sheet.html", "queries", ANSWERS, *FILES)]
    if other:
        more = f" and {len(other) - 3} more" if len(other) > 3 else ""
        raise Refused(
            f"{folder} is not the folder of a sheet, so none was written into it",
            [Fault(str(folder), f"{', '.join(other[:3])}{more}", "no folder, or one with a sheet alone")],
        )
    filled = [name for name in there if _filled(folder / name)]
    if filled:
        mend = "Collect them first, then move the file away; or give another folder by --out."
        raise Refused(
            f"{folder} holds answers, so no sheet was written over them",
            [Fault(str(folder / name), "a file that was filled in", "no answer in it", mend) for name in filled],
        )


def _filled(path: Path) -> bool:
    """Whether a file to be filled in has an answer; one that can't be read any more may have some."""
    try:
        if path.name == ANSWERS:
            return sum(1 for line in path.read_bytes().splitlines() if line.strip()) > 1
        if path.name in GRADED_IN_PLACE:
            raw = GRADED_IN_PLACE[path.name](path, name=path.name).frame
            return bool(raw.select(pl.any_horizontal(pl.col("rating", "reason").is_not_null())).to_series().any())
    except Refused:
        return True
    return False


def sheet_digest(study: Study, grader: str) -> str:
    """sha256 of all that a grader is shown, in order: the rubric and the blind rows. Recorded answers hold for it."""
    return digest([study.rubric, sheet_methods.blind_rows(sheet_of(study, grader))])


def write_review_sheet(study: Study, path: Path) -> int:
    """Write the sampled queries' intents for the auditor to review row by row (P17): nothing else is on it. Returns
    the rows.
    """
    named = study.design.intents.file
    study.named(named)
    written = read_intents(study.file(named), name=named).frame
    sample = study.load("query_sample").select("query_id", pl.col("query").alias("sampled"))
    rows = sample.join(written, on="query_id", how="inner").sort("query_id")
    if rows.height < sample.height:
        missing = sorted(set(sample["query_id"]) - set(rows["query_id"]))
        raise Refused(
            "Intents are missing, so they can't be reviewed yet",
            [Fault(named, f"no intent for {q}", "one line") for q in missing],
        )
    refuse_ids(rows.to_dicts(), path.name, APOSTROPHE, ("query_id",))
    header = ("query_id", "query", "form", "intent", "verdict", "note")
    write_bytes(
        path,
        csv_bytes(header, ((r["query_id"], r["sampled"], r["form"], r["intent"], "", "") for r in rows.to_dicts())),
    )
    return rows.height


def row_digests(study: Study) -> dict[str, tuple[str, str]]:
    """Of every sampled query with an intent: the intent as it stands, and its row digest, to which a review is tied
    (P16).
    """
    named = study.design.intents.file
    study.named(named)
    written = read_intents(study.file(named), name=named).frame
    sample = study.load("query_sample").select("query_id", pl.col("query").alias("sampled"))
    rows = sample.join(written, on="query_id", how="inner").sort("query_id").to_dicts()
    return {
        r["query_id"]: (r["intent"], intent_methods.row_digest(r["sampled"], r["form"], r["intent"], r["author"]))
        for r in rows
    }


def write_spot_check(study: Study) -> Path:
    """Write P8's sheet into the experiment's folder, for a person to fill in `type_by_person`. Refused where one is
    there already.
    """
    path = study.file(SPOT_CHECK_FILE)
    if path.exists():
        raise Refused(
            f"{SPOT_CHECK_FILE} is there already",
            [Fault(SPOT_CHECK_FILE, "a sheet", "none", "Fill it in, or move it away.")],
        )
    rows = study.load("spot_check")
    if not rows.height:
        raise Refused(
            f"{study.name} has no types to check",
            [Fault("strata.by", "strata cut by tier alone", "strata cut by type or both")],
        )
    refuse_ids(rows.to_dicts(), path.name, APOSTROPHE, ("query_id",))
    header = ("query_id", "query", "type", "type_by_person")
    write_bytes(path, csv_bytes(header, ((r["query_id"], r["query"], r["type"], "") for r in rows.to_dicts())))
    return path


def filled_in(study: Study) -> pl.DataFrame | None:
    """What a person wrote into the spot-check sheet: query_id, type_by_person; None where there is no sheet."""
    path = study.file(SPOT_CHECK_FILE)
    if not path.is_file():
        return None
    columns = {"query_id": Column("query_id", "id"), "type_by_person": Column("type_by_person", "text", filled=False)}
    frame = read_records(path, name=SPOT_CHECK_FILE, format="csv", columns=columns).frame
    ids = pl.Series("query_id", [unmarked(i) for i in frame["query_id"]], pl.String)
    return frame.select(ids, pl.col("type_by_person").replace("", None))


def labelled(study: Study) -> pl.DataFrame | None:
    """The labelled examples that train the query classifier (P8): query, type. None where the design names none;
    NotThere where it is missing.
    """
    named = study.design.strata.labelled
    if named is None:
        return None
    study.named(named)
    columns = {"query": Column("query", "text"), "type": Column("type", "text")}
    return read_records(study.file(named), name=named, format="csv", columns=columns).frame.select("query", "type")


def export_queries(study: Study) -> bytes:
    """The sampled queries as JSON Lines (query_id, query), for whoever runs the arms."""
    return _json_lines(study.load("query_sample").select("query_id", "query").sort("query_id").to_dicts())


def _json_lines(rows: Iterable[dict[str, str]]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def _as_name(query_id: str) -> str:
    """An id as a file name: letters, digits, - and _ stay, every other byte is %XX, so that no id leads anywhere."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "-_") else "".join(f"%{b:02X}" for b in c.encode()) for c in query_id
    )
