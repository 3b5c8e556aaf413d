"""Corrected keys (P35): what the numbers would have been with some grades changed, made after measures were read, for
information only.

The frozen key, its measures and the ledger stay as they are, and the decision with them. A corrected key lies in a
folder of its own that says what it is, and is a line of the log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import events, measuring, publication
from relgrade_assets.io.atomic import replace_folder
from relgrade_assets.io.frames import read_label, read_table
from relgrade_assets.io.key_store import sums_bytes
from relgrade_assets.io.private_text import refuse_private
from relgrade_assets.io.readers.records import Column, collect_records
from relgrade_assets.io.standing import Standing, standing_of, status_bytes
from relgrade_assets.io.study import Study
from relgrade_assets.io.voiding import examine
from relgrade_assets.methods import grading
from relgrade_assets.methods import key as methods
from relgrade_assets.protocol.canonical import canonical_json, digest_bytes

_PAIR = ["query_id", "chunk_id"]


@dataclass(frozen=True, slots=True)
class Corrected:
    """A post-hoc key: its folder, how it stands, how many grades differ from the frozen key's, and the ArmMeasures
    under it.
    """

    folder: Path
    standing: Standing
    changed: int
    arm_measures: pl.DataFrame


def correct(study: Study, path: Path, *, name: str, why: str, by: str) -> Corrected:
    """Make the corrected key of the present round from the grades in `path` (JSON Lines query_id, chunk_id, grade).

    Raises Refused, and nothing is made, where no key is frozen or no measure of it was read yet, where a row is no
    pair of the pool or no grade of the scale, or says nothing new, and where what the key was made of is not there as
    it was.
    """
    examine(study)
    frozen = standing_of(study.log, study.round)
    read = any(e.kind == "first_reading" and e.round == study.round for e in study.log)
    if frozen is None or not read:
        found = "a key whose measures were not read" if frozen else "no frozen key"
        mend = "Before that there is nothing to correct after the fact; `relgrade revise` opens the next round."
        raise Refused(
            f"Round {study.round} of {study.name} has nothing to correct",
            [Fault(f"round {study.round}", found, "a key whose measures were read", mend)],
        )
    refuse_private(study, {"--why": why, "--by": by})
    tables = _as_frozen(study)
    d = study.design
    combined = grading.combine(tables["grades"], order=d.key_graders, rule=d.combine)
    rows = _rows(path, name, combined, d.scale.labels)
    new = _with(rows, combined)
    key = methods.build(new, tables["pools"], tables["query_sample"], relevant_from=d.scale.relevant_from)
    sha = methods.key_digest(key.frame)
    query_measures = measuring.query_measures_of(d, key.frame, tables["runs"])
    arms = measuring.arm_measures_of(d, query_measures, tables["query_sample"])
    told = {"corrects": frozen.key, "changed": rows.height, "why": why, "by": by}
    body = {"round": study.round, "key_digest": sha, **told}
    events.append(study.ledger, study.name, "corrected", body, study.clock(), once=True, salt=study.salt)
    was = rows.join(combined.select(*_PAIR, was="grade"), on=_PAIR).select(*_PAIR, "was", "is").sort(_PAIR)
    files = {
        "key.jsonl": methods.canonical_bytes(key.frame),
        "qrels.txt": publication.qrels_bytes(key.frame, key.unrateable),
        "corrections.jsonl": b"".join(canonical_json(row) + b"\n" for row in was.to_dicts()),
        "query_measures.parquet": _parquet(query_measures),
        "measures.parquet": _parquet(arms),
        "status.json": status_bytes(study.log, round=study.round, key_digest=sha),
    }
    files[publication.SUMS] = sums_bytes({n: digest_bytes(data) for n, data in files.items()})
    folder = study.home.state / "post-hoc" / study.name / f"round-{study.round}-{sha[:12]}"
    replace_folder(folder, files)
    standing = standing_of(study.log, study.round, sha)
    if standing is None:
        raise RuntimeError("the log was just told of this key")
    return Corrected(folder, standing, rows.height, arms)


def _with(rows: pl.DataFrame, combined: pl.DataFrame) -> pl.DataFrame:
    """The combined grades with those of `rows` in their place; a pair that has one now was rated."""
    both = combined.join(rows, on=_PAIR, how="left").with_columns(
        grade=pl.coalesce("is", "grade"), unrateable=pl.col("unrateable") & pl.col("is").is_null()
    )
    return both.drop("is")


def _as_frozen(study: Study) -> dict[str, pl.DataFrame]:
    """The tables that key and measures were made of, proved to be those."""
    about = json.loads(study.keys.load(study.name, study.round)["key.json"])["inputs"]
    measured = read_label(study.path("query_measures"))
    due = {t: about[t] for t in ("grades", "pools", "query_sample")}
    due["runs"] = measured.inputs["runs"] if measured else ""
    tables, faults = {}, []
    for table, then in due.items():
        label = read_label(study.path(table))
        if label is None or label.digest != then:
            found = f"content digest {label.digest[:12]}" if label else "no such table"
            faults.append(Fault(table, found, f"{then[:12]}, as it was measured", "Put back what it was made from."))
        else:
            tables[table] = read_table(study.path(table))
    if faults:
        raise Refused(f"Round {study.round} of {study.name} can't be corrected", faults)
    return tables


def _rows(path: Path, name: str, combined: pl.DataFrame, labels: list[int]) -> pl.DataFrame:
    columns = {
        "query_id": Column("query_id", "id"),
        "chunk_id": Column("chunk_id", "id"),
        "grade": Column("grade", "int"),
    }
    read = collect_records(path, name=name, format="jsonl", columns=columns)
    read.faults.refuse()
    given = read.frame.select(*_PAIR, pl.col("grade").alias("is"))
    held = {(q, c): (g, u) for q, c, g, u in combined.select(*_PAIR, "grade", "unrateable").iter_rows()}
    faults, seen = [], set()
    for query_id, chunk_id, grade in given.iter_rows():
        where = f"{name}, {query_id} / {chunk_id}"
        if (query_id, chunk_id) in seen:
            faults.append(Fault(where, "the pair again", "each pair once"))
        seen.add((query_id, chunk_id))
        if (query_id, chunk_id) not in held:
            faults.append(Fault(where, "a pair that is not in the pool", "a pooled pair"))
        elif grade not in labels:
            faults.append(Fault(where, f"grade {grade}", f"one of {', '.join(map(str, labels))}"))
        elif held[query_id, chunk_id][0] == grade:
            faults.append(Fault(where, f"grade {grade}, which it has", "another grade"))
    if faults or not given.height:
        raise Refused(f"{name} corrects nothing", faults or [Fault(name, "no rows", "pairs with their grades")])
    return given


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()
