"""Judging a study: complete grades from the ledger, their agreement, the gates' verdicts, and whether those stand.

The assets make tables of these; the freeze makes them again, so that a stored table which was rewritten by hand, label
and all, doesn't count (P29). The statistics and rules are methods'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose
from typing import Any

import polars as pl

from relgrade_assets.errors import Fault, Waiting
from relgrade_assets.io import attempts, carrying, events
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.ledger import Whose
from relgrade_assets.io.rounds import audited_before
from relgrade_assets.io.study import Study
from relgrade_assets.methods import agreement as methods
from relgrade_assets.methods import comparisons, gates, grading

_AGAIN = "Materialise grades, audit_grades, agreement and verdicts again."


def graded(study: Study, sheets: pl.DataFrame, who: Sequence[str]) -> pl.DataFrame | Waiting:
    """The ledger's accepted answers to `sheets` and what is carried from earlier rounds (P44) as the Grades table, or
    how many pairs each grader still owes (P19).
    """
    study.look_at("audit_answers" if study.design.auditor.name in who else "answers")
    answers = study.ledger.answers(study.name, study.round, who)
    outcome = grading.complete(sheets, answers, who=who)
    if isinstance(outcome, Waiting):
        out = _exhausted(study, answers, who)
        return replace(outcome, what=f"{outcome.what}{out}", items=outcome.items)
    if study.design.auditor.name in who or not events.carried_from(study.log, study.round):
        return outcome
    carry = carrying.carried(study, *(study.load(t) for t in ("pools", "intents", "query_sample")))
    return grading.with_carried(outcome, carry.frame, round=study.round)


def _exhausted(study: Study, answers: pl.DataFrame, who: Sequence[str]) -> str:
    """P20: what model graders were asked in vain as often as the design allows, in words; empty where nothing was."""
    said = ""
    for grader in who:
        if study.design.run_of(grader) is not None:
            pairs = attempts.exhausted(study.ledger, Whose(study.name, study.round, grader))
            graded = answers.filter(pl.col("grader") == grader).select("query_id", "chunk_id").rows()
            left = len(pairs.difference(graded))
            said += f", {left} exhausted: no reply of {grader} could be accepted" if left else ""
    return said


def agreement_of(
    study: Study, grades: pl.DataFrame, audit_grades: pl.DataFrame, query_sample: pl.DataFrame
) -> pl.DataFrame:
    """The Agreement table of the combined grades with the auditor's, and of grader with grader (P27, P30)."""
    d = study.design
    key = grading.combine(grades, order=d.key_graders, rule=d.combine)
    strata = query_sample.select("query_id", "stratum")
    many = grades.join(strata, on="query_id", how="left") if len(d.key_graders) > 2 else None
    return methods.table(
        comparisons.comparisons(key, grades, audit_grades, query_sample, graders=d.key_graders),
        labels=d.scale.labels,
        relevant_from=d.scale.relevant_from,
        strata=[p.name for p in d.strata.parts],
        seed=d.seed,
        on_random=False,
        ratings=many,
    )


def verdicts_on(study: Study, agreement: pl.DataFrame, audit_grades: pl.DataFrame) -> pl.DataFrame:
    """The Verdicts table of an agreement, with the digests of what is present (P28, P29)."""
    d = study.design
    binary = d.scale.top == 1
    return gates.judge(
        agreement,
        gates=d.gates,
        binary_scale=binary,
        round=study.round,
        grades_digest=study.digest_of("grades") or "",
        audit_grades_digest=study.digest_of("audit_grades") or "",
        gates_digest=gates.digest_of(d.gates, binary_scale=binary),
        protocol_digest=study.protocol,
        reused_sample=not audited_before(study).isdisjoint(audit_grades["query_id"]),
    )


def unmet(study: Study, verdicts: pl.DataFrame) -> list[Fault]:
    """Why the gates don't hold on what is present (P29); empty where every verdict passed, is current, and is what the
    ledger's answers give when they are judged again.

    The asset check, the status and the freeze all ask this.
    """
    binary = study.design.scale.top == 1
    faults = gates.standing(
        verdicts,
        grades_digest=study.digest_of("grades") or "",
        audit_grades_digest=study.digest_of("audit_grades") or "",
        gates_digest=gates.digest_of(study.design.gates, binary_scale=binary),
        protocol_digest=study.protocol,
        expected_gates=gates.gates_of(binary_scale=binary),
    )
    return faults or _rewritten(study, verdicts)


def combined_then(study: Study, grades: pl.DataFrame, about: Mapping[str, Any]) -> pl.DataFrame | None:
    """The combined grades of a frozen round by its own rule (P30); `about` is its key.json. None where whose grade
    comes first is not known: of several graders the round's own experiment.yaml alone says it.
    """
    order = grades["grader"].unique().to_list()
    if len(order) > 1:
        if study.source_digest("design") != about["inputs"]["design"]:
            return None
        order = study.design.key_graders
    return grading.combine(grades, order=order, rule=about["combine"])


def _rewritten(study: Study, verdicts: pl.DataFrame) -> list[Fault]:
    d = study.design
    grades, audit_grades = study.load("grades"), study.load("audit_grades")
    faults: list[Fault] = []
    for table, sheets, who, stored in (
        ("grades", "sheets", d.key_graders, grades),
        ("audit_grades", "audit_sheets", [d.auditor.name], audit_grades),
    ):
        again = graded(study, study.load(sheets), who)
        expected = str(again) if isinstance(again, Waiting) else content_digest(again)
        if expected != content_digest(stored):
            held = expected if isinstance(again, Waiting) else f"{expected[:12]}, the ledger's answers"
            faults.append(Fault(table, f"grades {content_digest(stored)[:12]}", held, _AGAIN))
    if faults:
        return faults
    agreement = agreement_of(study, grades, audit_grades, study.load("query_sample"))
    present = {row["gate"]: row for row in verdicts_on(study, agreement, audit_grades).to_dicts()}
    for row in verdicts.to_dicts():
        now = present[row["gate"]]
        same = (row["verdict"], row["threshold"]) == (now["verdict"], now["threshold"])
        if not same or not isclose(row["value"], now["value"], abs_tol=1e-9):  # both passed, so both have a value
            faults.append(
                Fault(
                    f"gate {row['gate']}", f"{row['verdict']}: {row['why']}", f"{now['verdict']}: {now['why']}", _AGAIN
                )
            )
    return faults
