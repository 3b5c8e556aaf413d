"""What comes back from graders and reviewers: rows into the ledger, one by one, the bad ones refused with reasons and
kept (P20, P23, P25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Fault, Notice, NotThere, Refused
from relgrade_assets.io.binding import require_own, require_unlike
from relgrade_assets.io.cells import legible
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.imports import Asked, Tool, read_tool
from relgrade_assets.io.readers.intents import read_reviews
from relgrade_assets.io.readers.judgments import read_grades
from relgrade_assets.io.readers.qrels import read_qrels
from relgrade_assets.io.rounds import open_first_round
from relgrade_assets.io.study import Study
from relgrade_assets.io.worksheets import row_digests, sheet_of
from relgrade_assets.protocol.canonical import canonical_json

Form = Literal["rows", "qrels"] | Tool
Bound = Callable[[Sequence[str]], None]
"""Refuses the tokens of sheets other than the grader's own."""
_PAIR = ["query_id", "chunk_id"]


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a file: rows new to the ledger, changed (a new revision), the same as before, refused, and (of
    another tool's judgments) passed over since their pairs are not on the sheet.
    """

    name: str
    new: int
    changed: int
    same: int
    refused: tuple[Fault, ...]
    rows_refused: int
    passed_over: int = 0
    notices: tuple[Notice, ...] = ()

    def __str__(self) -> str:
        known = f"{self.new} new, {self.changed} changed, {self.same} already there"
        over = f", {self.passed_over} of pairs that are not on the sheet passed over" if self.passed_over else ""
        return f"{self.name}: {known}, {self.rows_refused} refused{over}"


@dataclass(frozen=True, slots=True)
class _Rows:
    """A file's rows: the good ones; of the others every fault, and for the ledger line, text and why, once a row."""

    good: pl.DataFrame
    faults: tuple[Fault, ...]
    refused: tuple[tuple[int, str, str], ...]
    notices: tuple[Notice, ...]
    passed_over: int = 0


def collect(
    study: Study,
    grader: str,
    path: Path,
    *,
    name: str,
    form: Form = "rows",
    judge: str | None = None,
    ratings: Sequence[str] = (),
    alike_because: str | None = None,
) -> Taken:
    """Take a grader's answers from a file. Good rows are in the ledger when this returns, bad rows are recorded there
    as refused. Of another tool's file, `judge` says whose judgments are taken and `ratings` (`100.000=2`) what its
    ratings mean (P25). `alike_because`: why rows that are another's are taken all the same.

    Refused as a whole where the file can't be read, where it carries the token of another sheet, where its rows are
    another grader's or round's, where the sheet was made anew since it was written out, or after the freeze (P35).
    """
    sheet = sheet_of(study, grader)
    study.require_protocol_of_round()
    _require_issued(study, grader, sheet)

    def bound(tokens: Sequence[str]) -> None:
        require_own(study, grader, content_digest(sheet), tokens, name=name)

    if form == "rows" or form == "qrels":
        read = _rows(study, grader, path, name, form, bound)
    else:
        read = _tool_rows(study, grader, path, name, form, sheet, judge, ratings, bound)
    known = read.good.join(sheet.select(*_PAIR, "row_digest"), on=_PAIR, how="left", maintain_order="left")
    rows = known.drop_nulls("row_digest")
    strangers = known.filter(pl.col("row_digest").is_null()).to_dicts()
    if form != "qrels":
        _require_on_sheet(study, grader, known.select(_PAIR), len(strangers), name=name)
    faults = list(read.faults)
    refused = list(read.refused)
    passed_over = len(strangers) if form == "qrels" and rows.height else read.passed_over
    for row in strangers if not passed_over else ():
        fault = Fault(
            f"{name}, line {row['line']}",
            f"the pair {row['query_id']} {row['chunk_id']}",
            f"a pair on {grader}'s sheet of round {study.round}",
        )
        faults.append(fault)
        refused.append((row["line"], _as_text(row), str(fault)))
    if rows.height:
        require_unlike(study, grader, rows, name=name, because=alike_because)
        open_first_round(study)
    taken = study.ledger.record_answers(
        study.name, study.round, grader, rows.drop("line"), source=name, at=study.clock()
    )
    study.ledger.record_refusals(study.name, study.round, grader, sorted(refused), source=name, at=study.clock())
    return Taken(name, taken.new, taken.changed, taken.same, tuple(faults), len(refused), passed_over, read.notices)


def _require_on_sheet(study: Study, grader: str, pairs: pl.DataFrame, strangers: int, *, name: str) -> None:
    """P25: a file without a token that fits another's sheet whole, and the grader's own only in part, is the other's.

    `pairs`: query_id, chunk_id of every good row, of which `strangers` are not on the grader's sheet. Raises Refused,
    naming whose, from a quarter of strangers on: a single stray row is a fault of that row alone.
    """
    if 4 * strangers < pairs.height or not strangers:
        return
    people = [*study.design.key_graders, study.design.auditor.name]
    whose = next((who for who in people if who != grader and _fits(study, who, pairs)), None)
    if whose is None:
        return
    found = f"{strangers} of {pairs.height} rows are not on {grader}'s sheet, and all are on {whose}'s"
    mend = f"Collect it as {whose}'s, or take the rows out that are not {grader}'s."
    raise Refused(
        f"{name} fits another's sheet",
        [Fault(name, found, f"rows of {grader}'s sheet of round {study.round}", mend)],
        untouched="No row of it was taken.",
    )


def _fits(study: Study, who: str, pairs: pl.DataFrame) -> bool:
    """Whether all pairs are on somebody's sheet; one that is not made yet has none."""
    with suppress(Refused, NotThere):
        return pairs.join(sheet_of(study, who), on=_PAIR, how="anti").is_empty()
    return False


def _as_text(row: dict[str, object]) -> str:
    return canonical_json({k: row[k] for k in (*_PAIR, "reason", "grade")}).decode()


def _rows(study: Study, grader: str, path: Path, name: str, form: Literal["rows", "qrels"], bound: Bound) -> _Rows:
    d = study.design
    top = d.scale.top
    if form == "qrels":
        if not d.declared("imported_without_reasons"):
            raise Refused(
                "A qrels file holds no reasons",
                [
                    Fault(
                        name,
                        "grades without reasons",
                        "P19 rows",
                        "Declare 'imported_without_reasons' under deviations with a reason.",
                    )
                ],
            )
        qrels = read_qrels(path, name=name, form=None)
        frame = qrels.frame.with_row_index("line", offset=1)
        off = frame.filter((pl.col("grade") > top) | (pl.col("grade") < -1))
        faults = tuple(
            Fault(f"{name}, row {n}", f"grade {g}", f"0 to {top}, or -1")
            for n, g in off.select("line", "grade").iter_rows()
        )
        refused = tuple(
            (row["line"], f"{row['query_id']} {row['group']} {row['chunk_id']} {row['grade']}", str(fault))
            for row, fault in zip(off.to_dicts(), faults, strict=True)
        )
        kept = frame.join(off, on="line", how="anti")
        good = kept.select(
            pl.col("line").cast(pl.Int64),
            *_PAIR,
            reason=pl.lit(None, pl.String),
            grade=pl.when(pl.col("grade") >= 0).then(pl.col("grade")),
            unrateable=pl.col("grade") == -1,
            judge_later=pl.lit(False),
            corpus_cleanup=pl.lit(False),
        )
        return _Rows(good, faults, refused, qrels.notices)
    auditor_is_human = grader == d.auditor.name and d.auditor.kind == "human"
    read = read_grades(path, name=name, top_grade=top, reason_needed="above_zero" if auditor_is_human else "all")
    bound(read.sheets)
    return _Rows(read.good, read.bad, read.bad_lines, read.notices)


def _tool_rows(
    study: Study,
    grader: str,
    path: Path,
    name: str,
    tool: Tool,
    sheet: pl.DataFrame,
    judge: str | None,
    ratings: Sequence[str],
    bound: Bound,
) -> _Rows:
    """Another tool's judgments of the pairs that are on the sheet (P25)."""
    d = study.design
    human_auditor = grader == d.auditor.name and d.auditor.kind == "human"
    read, passed_over = read_tool(
        path,
        name=name,
        tool=tool,
        asked=Asked(sheet.select("query_id", "query").unique().sort("query_id"), sheet.select(_PAIR)),
        top_grade=d.scale.top,
        reason_needed="none" if d.declared("imported_without_reasons") else "above_zero" if human_auditor else "all",
        judge=judge,
        ratings=ratings,
        bound=bound,
    )
    return _Rows(read.good, read.bad, read.bad_lines, read.notices, passed_over)


def _require_issued(study: Study, grader: str, sheet: pl.DataFrame) -> None:
    """Answers hold for the sheet that was handed out: one that was made anew since can't have been read by the
    grader.
    """
    issued = study.ledger.latest_issued(study.name, study.round, grader)
    present = content_digest(sheet)
    if issued != present:
        found = f"{issued[:12]}, as last written out" if issued else "no sheet written out"
        raise Refused(
            f"The sheet of {grader} was made anew after it was written out"
            if issued
            else f"The sheet of {grader} was never written out",
            [
                Fault(
                    "the sheet",
                    found,
                    f"{present[:12]}, the present one",
                    f"`relgrade sheets {study.name} --grader {grader}`, and grade those rows.",
                )
            ],
        )


def take_reviews(study: Study, path: Path, *, name: str, reviewer: str) -> Taken:
    """Take reviews of intents; each is tied to the row as it stands, so that a changed row loses it (P16, P17).

    A row whose intent is not the present one is refused. Refused as a whole where the reviewer is not the auditor, or
    says something new after the first audit sheet. A review that stands already changes nothing.
    """
    if reviewer != study.design.auditor.name:
        raise Refused(
            "Intents are reviewed by the auditor",
            [Fault("--reviewer", repr(reviewer), repr(study.design.auditor.name))],
        )
    present = row_digests(study)
    rows: list[dict[str, str | None]] = []
    bad: list[Fault] = []
    read = read_reviews(path, name=name)
    for row in read.frame.to_dicts():
        query = str(row["query_id"])
        where = f"{name}, query {query}"
        if query not in present:
            bad.append(Fault(where, "a query without an intent in the sample", "a sampled query"))
        elif row["intent"] is not None and legible(row["intent"]) != legible(present[query][0]):
            bad.append(
                Fault(
                    where, "a review of another wording", "the intent as it stands now", "Write the review sheet again."
                )
            )
        else:
            rows.append(
                {"query_id": query, "row_digest": present[query][1], "verdict": row["verdict"], "note": row["note"]}
            )
    schema = {"query_id": pl.String, "row_digest": pl.String, "verdict": pl.String, "note": pl.String}
    frame = pl.DataFrame(rows, schema=schema).with_columns(pl.col("note").fill_null(""))
    known = study.ledger.reviews(study.name).filter(pl.col("reviewer") == reviewer)
    if frame.join(known, on=frame.columns, how="anti").height:
        require_before_audit(study, reviewer)
    taken = study.ledger.record_reviews(study.name, reviewer, frame, at=study.clock())
    return Taken(name, taken.new, taken.changed, taken.same, tuple(bad), len(bad), notices=read.notices)


def require_before_audit(study: Study, reviewer: str) -> None:
    """P17: the auditor finishes reviewing before opening any audit sheet; later reviews depart from the protocol."""
    if study.ledger.latest_issued(study.name, study.round, reviewer) and not study.design.declared(
        "same_reviewer_after_round"
    ):
        raise Refused(
            f"{reviewer} has been given audit sheets of round {study.round} and can't review intents any more",
            [
                Fault(
                    "the review",
                    "a reviewer who has seen the pools",
                    "reviews finished before the first audit sheet",
                    "Declare 'same_reviewer_after_round' under deviations with a reason, or open the next round.",
                )
            ],
        )
