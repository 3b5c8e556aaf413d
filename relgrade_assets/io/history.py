"""Rounds side by side (P4, P30): what each was opened for, what was graded, carried and given again, what the gates
said, and how its key stands. Reads the log, the ledger and the stored tables; changes nothing.
"""

from __future__ import annotations

import polars as pl

from relgrade_assets.errors import Refused
from relgrade_assets.io import events
from relgrade_assets.io.frames import read_table
from relgrade_assets.io.standing import standing_of
from relgrade_assets.io.study import Study

ROUNDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "round": pl.Int64,
    "opened": pl.String,
    "cause": pl.String,
    "carry": pl.String,
    "graded": pl.Int64,
    "carried": pl.Int64,
    "rerate": pl.Int64,
    "gates": pl.String,
    "key": pl.String,
    "standing": pl.String,
}
"""Columns of `side_by_side`: `graded` and `carried` count answers of the key's graders, `key` is the digest."""


def side_by_side(study: Study) -> pl.DataFrame:
    """A row a round that was opened, oldest first: columns ROUNDS. `carried` is null until the round's grades are
    complete; `key` and `standing` are null where it has none.
    """
    rows = []
    for row in events.rounds(study.log).to_dicts():
        n = row["round"]
        standing = standing_of(study.log, n)
        given = study.ledger.answers(study.name, n, study.design.key_graders).filter(~pl.col("judge_later"))
        rows.append(
            (
                n,
                row["at"][:10],
                row["cause"],
                row["carry"],
                given.height,
                _carried(study, n),
                row["rerate"],
                _gates(study, n),
                standing.key if standing else None,
                standing.status if standing else None,
            )
        )
    return pl.DataFrame(rows, schema=ROUNDS, orient="row")


def lines(frame: pl.DataFrame) -> list[str]:
    """`side_by_side` for the terminal; no lines where no round was opened."""
    out = ["", "Rounds"] if frame.height else []
    for r in frame.to_dicts():
        carried = {"none": "", "limited": ", what was not relevant carried", "unchanged": ", unchanged carried"}
        of = f", {r['carried']} carried" if r["carried"] else carried[r["carry"]]
        key = f"key {r['key'][:12]}, {r['standing']}" if r["key"] else "no key"
        out.append(f"  {r['round']}  {r['opened']}  {r['cause']}: {r['graded']} graded{of}; gates {r['gates']}; {key}")
    return out


def _carried(study: Study, round_: int) -> int | None:
    path = study.path("grades", round_)
    try:
        grades = read_table(path) if path.is_file() else None
    except Refused:
        return None
    return None if grades is None else grades.filter(pl.col("from_round") < round_).height


def _gates(study: Study, round_: int) -> str:
    """`passed`, `failed`, or `not judged`, by the log: a freeze needs every gate passed."""
    kinds = {e.kind for e in study.log if e.round == round_}
    return "passed" if "frozen" in kinds else "failed" if "gate_failed" in kinds else "not judged"
