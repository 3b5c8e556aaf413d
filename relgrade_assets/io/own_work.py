"""One person's own sheet at work (P24): the rows they may see, how far they are, and one answer into the ledger.

Nothing of another grader, of arms, ranks or scores is reachable from here (P13, P18): only the person's own rows and
answers are read. An answer goes through the same door as a file's (P19, P25): the same check of the row, and it holds
for the bytes that were shown.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl
import sqlalchemy as sa

from relgrade_assets.errors import Fault, NotThere, Refused
from relgrade_assets.io.calibration import uncalibrated
from relgrade_assets.io.database import Unusable
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.ledger import ROWS, Closed
from relgrade_assets.io.ledger import answers as answers_table
from relgrade_assets.io.readers.judgments import check_row
from relgrade_assets.io.rounds import open_first_round
from relgrade_assets.io.study import Study
from relgrade_assets.io.worksheets import sheet_of
from relgrade_assets.methods.pace import in_words, seconds_each
from relgrade_assets.methods.sheets import BLIND

KEY_AT_MOST = 64
_FLAGS = ("unrateable", "judge_later", "corpus_cleanup")


TEXTS = {
    "not_ready": "This can't be shown at the moment. Tell the study's owner.",
    "uncalibrated": "Grading begins after you have tried the rubric together. Tell the study's owner.",
    "remade": "The sheet was made anew since you opened it. Reload the page; what you have read and not sent is kept.",
    "closed": "This round is closed, and no answer can change any more (P30, P35).",
    "changed": "Design or rubric were changed after grading began. Tell the study's owner.",
    "busy": "The answer can't be kept at the moment. It waits in your browser and is sent again.",
    "bad_row": "This is no answer:",
    "away": "The desk can't reach its records at the moment. Nothing that was kept is lost; try again in a minute.",
}
"""What a person is told; nothing of the study stands in it, since messages about tables name arms and their files."""


class NotNow(Exception):
    """What can't be taken or shown as things stand. `code` is for programs, text and `faults` are for the person."""

    def __init__(self, code: str, *faults: str) -> None:
        self.code = code
        self.text = TEXTS[code]
        self.faults = faults
        self.on_page = TEXTS["away" if code == "busy" else code]  # where nothing was being sent
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A person's rows in their order (BLIND and row_digest), and the digest of what is handed out."""

    rows: pl.DataFrame
    digest: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a person is: rows in all, done, kept for later; the pace and what is left in words, or None."""

    of: int
    done: int
    later: int
    pace: str | None
    left_in_words: str | None

    @property
    def left(self) -> int:
        """Rows without an answer that counts."""
        return self.of - self.done


_sheets: dict[tuple[str, int, str, str], Sheet] = {}
_sheets_lock = threading.Lock()
_SHEETS_KEPT = 64


def own_sheet(study: Study, person: str) -> Sheet:
    """The person's sheet, proved current. Raises NotNow, without saying why: messages about tables name arms' files.
    Where the ledger can't be reached it is `busy`, which a page takes to try again.
    """
    table = "audit_sheets" if person == study.design.auditor.name else "sheets"
    try:
        study.require_protocol_of_round()
        if study.outdated(table):
            raise NotNow("not_ready")
        key = (study.name, study.round, person, study.digest_of(table) or "")
        with _sheets_lock:
            kept = _sheets.get(key)
        if kept is None:
            rows = sheet_of(study, person)
            kept = Sheet(rows.select(*BLIND, "row_digest"), content_digest(rows))
            with _sheets_lock:
                while len(_sheets) >= _SHEETS_KEPT:
                    _sheets.pop(next(iter(_sheets)))
                _sheets[key] = kept
    except Unusable as gone:
        raise NotNow("busy") from gone
    except Refused as refused:
        raise NotNow("changed" if "protocol" in refused.what else "not_ready") from refused
    except NotThere as missing:
        raise NotNow("not_ready") from missing
    return kept


def hand_out(study: Study, person: str) -> Sheet:
    """The person's sheet, noted as issued: answers hold for it from now on. NotNow before a calibration that is due
    (P26).
    """
    if uncalibrated(study):
        raise NotNow("uncalibrated")
    sheet = own_sheet(study, person)
    study.ledger.record_issued(study.name, study.round, person, sheet.digest, at=study.clock())
    return sheet


def standing(study: Study, person: str, sheet: Sheet) -> pl.DataFrame:
    """The sheet's rows with the person's own answers that hold for them: BLIND, row_digest, and reason, grade,
    unrateable, judge_later, corpus_cleanup, answered_at, null where there is no such answer.
    """
    own = study.ledger.answers(study.name, study.round, [person]).drop("round", "grader")
    return sheet.rows.join(
        own, on=["query_id", "chunk_id", "row_digest"], how="left", maintain_order="left", validate="1:1"
    )


def closed(study: Study) -> bool:
    """Whether the round takes no answers any more (P30, P35); not why, which a grader is not told."""
    return any(e.kind in ("frozen", "gate_failed") and e.round == study.round for e in study.log)


def progress(rows: pl.DataFrame) -> Progress:
    """How far the person is whose standing rows these are."""
    given = rows.drop_nulls("answered_at")
    later = given.filter("judge_later").height
    done = given.height - later
    pace = seconds_each([datetime.fromisoformat(t) for t in given["answered_at"]])
    each = None if pace is None else max(pace, 1.0)
    left = rows.height - done
    return Progress(
        rows.height,
        done,
        later,
        None if each is None else f"{3600 / each:.0f} an hour",
        None if each is None or not left else in_words(each * left),
    )


def marks(rows: pl.DataFrame) -> str:
    """One character a row: `d` done, `l` kept for later, `.` open."""
    return "".join(
        "." if at is None else "l" if later else "d" for at, later in rows.select("answered_at", "judge_later").rows()
    )


def shown(rows: pl.DataFrame, start: int, n: int) -> list[dict[str, object]]:
    """Rows as a page gets them: P18's columns, the digest that an answer holds for, and the person's own answer."""
    found = []
    for i, row in enumerate(rows.slice(start, n).to_dicts(), start=start):
        answer = None
        if row["answered_at"] is not None:
            answer = {name: row[name] for name in ("reason", "grade", *_FLAGS)}
        found.append({"i": i, **{name: row[name] for name in BLIND}, "row_digest": row["row_digest"], "answer": answer})
    return found


_one_at_a_time: dict[tuple[str, str], threading.Lock] = {}


def take(study: Study, person: str, row: Mapping[str, object], row_digest: str, key: str) -> None:
    """Record one answer; when this returns it is in the ledger (P23). `key` names the attempt: sent again, it changes
    nothing, also when the person has answered otherwise since.

    Raises NotNow: a row that is no answer (P19), a pair that isn't on the person's sheet, a sheet made anew since, a
    closed round (P35).
    """
    auditor = study.design.auditor
    if not key or len(key) > KEY_AT_MOST or not key.isascii() or not key.isprintable():
        raise NotNow("bad_row", "it has no key of its own")
    lenient = person == auditor.name and auditor.kind == "human"
    line = json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace")
    needed = "none" if row.get("judge_later") is True else "above_zero" if lenient else "all"
    good, faults = check_row(line, name="answer", top_grade=study.design.scale.top, reason_needed=needed)  # type: ignore[arg-type]
    if good is None:
        raise NotNow("bad_row", *[_in_words(f) for f in faults])
    sheet = own_sheet(study, person)
    if study.ledger.latest_issued(study.name, study.round, person) != sheet.digest:
        raise NotNow("remade")
    asked = sheet.rows.filter((pl.col("query_id") == good["query_id"]) & (pl.col("chunk_id") == good["chunk_id"]))
    if not asked.height:
        raise NotNow("bad_row", "the pair is not on your sheet")
    if asked["row_digest"].item() != row_digest:
        raise NotNow("remade")
    frame = pl.DataFrame([{**good, "row_digest": row_digest}], schema=pl.Schema(ROWS))
    source = f"desk {key}"
    with _sheets_lock:
        own = _one_at_a_time.setdefault((study.name, person), threading.Lock())
    with own:
        if _known(study, person, good, source):
            return
        try:
            open_first_round(study)
        except Refused as refused:
            raise NotNow("busy" if isinstance(refused, Unusable) else "uncalibrated") from refused
        try:
            study.ledger.record_answers(study.name, study.round, person, frame, source=source, at=study.clock())
        except Refused as refused:
            if isinstance(refused, Closed):
                raise NotNow("closed") from refused
            raise NotNow("busy") from refused


def _known(study: Study, person: str, row: Mapping[str, object], source: str) -> bool:
    where = {
        "experiment": study.name,
        "round": study.round,
        "grader": person,
        "query_id": row["query_id"],
        "chunk_id": row["chunk_id"],
        "source": source,
    }
    asked = sa.select(answers_table.c.id).where(*[answers_table.c[name] == value for name, value in where.items()])
    return study.ledger.read(lambda c: c.execute(asked.limit(1)).first()) is not None


def _in_words(fault: Fault) -> str:
    what = fault.where.rpartition(", ")[2]
    return f"{what}: {fault.found}; expected {fault.expected}"
