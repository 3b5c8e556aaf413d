"""What comes back from graders and reviewers: rows into the ledger, one by one, the bad ones refused with reasons and
kept (P20, P23, P25).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.readers.intents import read_reviews
from relgrade_assets.io.readers.judgments import read_grades
from relgrade_assets.io.readers.qrels import read_qrels
from relgrade_assets.io.rounds import open_first_round
from relgrade_assets.io.study import Study
from relgrade_assets.io.worksheets import row_digests, sheet_of

Form = Literal["rows", "qrels"]
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
    passed_over: int = 0

    def __str__(self) -> str:
        known = f"{self.new} new, {self.changed} changed, {self.same} already there"
        over = f", {self.passed_over} of pairs that are not on the sheet passed over" if self.passed_over else ""
        return f"{self.name}: {known}, {len(self.refused)} refused{over}"


def collect(study: Study, grader: str, path: Path, *, name: str, form: Form = "rows") -> Taken:
    """Take a grader's answers from a file. Good rows are in the ledger when this returns, bad rows are recorded there
    as refused.

    Refused as a whole where the file can't be read, where the sheet was made anew since it was written out, or after
    the freeze (P35).
    """
    sheet = sheet_of(study, grader)
    study.require_protocol_of_round()
    _require_issued(study, grader, sheet)
    good, bad = _rows(study, grader, path, name, form)
    known = good.join(sheet.select(*_PAIR, "row_digest"), on=_PAIR, how="left", maintain_order="left")
    strangers = known.filter(pl.col("row_digest").is_null())
    foreign = [
        (line, "", Fault(f"{name}, line {line}", f"the pair {q} {c}", f"a pair on {grader}'s sheet"))
        for line, q, c in strangers.select("line", *_PAIR).iter_rows()
    ]
    rows = known.drop_nulls("row_digest")
    if form == "qrels" and rows.height:
        passed_over = len(foreign)
    else:
        bad, passed_over = bad + foreign, 0
    if rows.height:
        open_first_round(study)
    taken = study.ledger.record_answers(
        study.name, study.round, grader, rows.drop("line"), source=name, at=study.clock()
    )
    refusals = [(line, raw, str(fault)) for line, raw, fault in bad]
    study.ledger.record_refusals(study.name, study.round, grader, refusals, source=name, at=study.clock())
    return Taken(name, taken.new, taken.changed, taken.same, tuple(fault for _, _, fault in bad), passed_over)


def _rows(
    study: Study, grader: str, path: Path, name: str, form: Form
) -> tuple[pl.DataFrame, list[tuple[int, str, Fault]]]:
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
        frame = read_qrels(path, name=name, form=None).frame.with_row_index("line", offset=1)
        off = frame.filter((pl.col("grade") > top) | (pl.col("grade") < -1))
        bad = [
            (n, "", Fault(f"{name}, row {n}", f"grade {g}", f"0 to {top}, or -1"))
            for n, g in off.select("line", "grade").iter_rows()
        ]
        kept = frame.join(off, on="line", how="anti")
        return kept.select(
            pl.col("line").cast(pl.Int64),
            *_PAIR,
            reason=pl.lit(None, pl.String),
            grade=pl.when(pl.col("grade") >= 0).then(pl.col("grade")),
            unrateable=pl.col("grade") == -1,
            judge_later=pl.lit(False),
            corpus_cleanup=pl.lit(False),
        ), bad
    auditor_is_human = grader == d.auditor.name and d.auditor.kind == "human"
    read = read_grades(path, name=name, top_grade=top, reason_needed="above_zero" if auditor_is_human else "all")
    raw = {line: (text, why) for line, text, why in read.bad_lines}
    bad = [(line, raw[line][0], fault) for line, fault in zip(raw, read.bad, strict=True)]
    return read.good, bad


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

    A row whose intent is not the present one is refused. Refused as a whole where the reviewer is not the auditor.
    """
    if reviewer != study.design.auditor.name:
        raise Refused(
            "Intents are reviewed by the auditor",
            [Fault("--reviewer", repr(reviewer), repr(study.design.auditor.name))],
        )
    _require_before_audit(study, reviewer)
    present = row_digests(study)
    rows: list[dict[str, str | None]] = []
    bad: list[Fault] = []
    for row in read_reviews(path, name=name).frame.to_dicts():
        query = str(row["query_id"])
        where = f"{name}, query {query}"
        if query not in present:
            bad.append(Fault(where, "a query without an intent in the sample", "a sampled query"))
        elif row["intent"] is not None and row["intent"] != present[query][0]:
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
    taken = study.ledger.record_reviews(study.name, reviewer, pl.DataFrame(rows, schema=schema), at=study.clock())
    return Taken(name, taken.new, taken.changed, taken.same, tuple(bad))


def _require_before_audit(study: Study, reviewer: str) -> None:
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
