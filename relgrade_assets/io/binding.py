"""Whose a file of answers is (P25): a sheet's token, which its answers carry back, and rows that are another grader's.

A token names no one: it is a keyed digest of study, round, grader and sheet, with a secret of the study that no sheet
holds. Where a form can't carry one, or rows come without, the rows themselves are held against every other grader's.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

import polars as pl
import sqlalchemy as sa

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.ledger import ANSWERS, current_answers, issued
from relgrade_assets.io.publication import pseudonyms
from relgrade_assets.io.readers.faults import shown
from relgrade_assets.io.study import Study
from relgrade_assets.methods.likeness import Likeness, likenesses
from relgrade_assets.protocol.canonical import canonical_json

HEX_DIGITS = 32


def token(study: Study, round: int, grader: str, sheet_digest: str) -> str:
    """The token of one sheet: 128 bits of HMAC-sha256, in hex."""
    message = canonical_json(["sheet", study.name, str(round), grader, sheet_digest])
    return hmac.new(study.sheet_secret.encode(), message, hashlib.sha256).hexdigest()[:HEX_DIGITS]


def require_own(study: Study, grader: str, sheet_digest: str, found: Sequence[str], *, name: str) -> None:
    """Raises Refused, by name, where a file carries the token of another sheet than `grader`'s present one."""
    own = token(study, study.round, grader, sheet_digest)
    strange = [t for t in dict.fromkeys(found) if not hmac.compare_digest(t.encode(), own.encode())]
    if not strange:
        return
    known = {token(study, r, g, digest): (r, g) for r, g, digest in _issued(study)}
    faults = []
    for each in strange:
        expected = f"the token of {grader}'s present sheet, round {study.round}"
        if each not in known:
            mend = f"`relgrade sheets {study.name} --grader {grader}` writes the sheet that can be answered."
            faults.append(
                Fault(name, f"the token {shown(each[:40])}, which no sheet of this study has", expected, mend)
            )
            continue
        round, who = known[each]
        if (round, who) == (study.round, grader):
            found_ = f"the token of an earlier making of {grader}'s sheet"
            mend = f"`relgrade sheets {study.name} --grader {grader}`, and grade those rows."
        else:
            found_ = f"the token of {who}'s sheet, round {round}"
            mend = f"Collect it with --grader {who}." if round == study.round else "That round is over."
        faults.append(Fault(name, found_, expected, mend))
    raise Refused(f"{name} is not the file of {grader}'s sheet", faults, untouched="No row of it was taken.")


def require_unlike(study: Study, grader: str, rows: pl.DataFrame, *, name: str, because: str | None) -> None:
    """P25: rows that are another grader's, or another round's, are no second opinion. Raises Refused, naming whose,
    unless `because` says why they are taken all the same: that goes on record in the event log.

    `rows`: the file's good rows of pairs on the sheet.
    """
    kept = ["query_id", "chunk_id", "reason", "grade", "unrateable", "judge_later"]
    answers = all_answers(study)
    mine = (pl.col("grader") == grader) & (pl.col("round") == study.round)
    before = answers.filter(mine).select(kept).join(rows, on=kept[:2], how="anti")
    own, whole = pl.col("grader") == grader, pl.concat([rows.select(kept), before])
    alike = [*likenesses(whole, answers.filter(~own)), *likenesses(rows.select(kept), answers.filter(own & ~mine))]
    if not alike:
        return
    if because is None:
        faults = [_fault(study, grader, one, name) for one in alike]
        raise Refused(f"{name} holds another's answers", faults, untouched="No row of it was taken.")
    names = pseudonyms(study.design)
    for one in alike:
        body = {
            "round": study.round,
            "grader": names[grader],
            "other": names.get(one.grader, "a grader of an earlier design"),
            "other_round": one.round,
            "pairs": one.pairs,
            "alike": one.alike,
            "reasons": one.reasons,
            "verbatim": one.verbatim,
            "why": because,
        }
        study.happened("alike_taken", body)


def all_answers(study: Study) -> pl.DataFrame:
    """The current answers of everybody in every round: columns ledger.ANSWERS."""
    wanted = sa.select(*[current_answers.c[name] for name in ANSWERS])
    wanted = wanted.where(current_answers.c.experiment == study.name)
    rows = study.ledger.read(lambda c: [tuple(row) for row in c.execute(wanted)])
    return pl.DataFrame(rows, schema=pl.Schema(ANSWERS), orient="row")


def _issued(study: Study) -> list[tuple[int, str, str]]:
    """Round, grader and digest of every sheet that was written out."""
    wanted = sa.select(issued.c.round, issued.c.grader, issued.c.sheets_digest)
    wanted = wanted.where(issued.c.experiment == study.name).distinct()
    return study.ledger.read(lambda c: [(int(r), str(g), str(d)) for r, g, d in c.execute(wanted)])


def _fault(study: Study, grader: str, one: Likeness, name: str) -> Fault:
    whose = one.grader if one.round == study.round else f"{one.grader} in round {one.round}"
    said = f"{one.alike} of {one.pairs} rows as {whose} answered them"
    if one.reasons:
        said += f", {one.verbatim} of {one.reasons} reasons word for word"
    mend = (
        f"If it is {one.grader}'s file, give {grader}'s own. If {one.grader}'s answers are the ones given by mistake, "
        f"collect {one.grader}'s own file first. If both are their own, --alike-because WHY takes it, on record."
    )
    return Fault(name, said, f"{grader}'s own answers", mend)
