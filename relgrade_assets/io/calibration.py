"""The calibration of several people before they grade (P26): shared items outside the sample, their answers, the log.

A folder holds all of it: `items.csv`, and a sheet for each person. What is logged holds for the rubric as it stood: a
changed rubric takes another calibration. Figures of agreement are methods'.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from relgrade_assets.errors import Fault, NotThere, Refused, Waiting
from relgrade_assets.io import events
from relgrade_assets.io.atomic import write_bytes
from relgrade_assets.io.cells import csv_bytes, unmarked
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.imports import Asked, read_tool
from relgrade_assets.io.publication import pseudonyms
from relgrade_assets.io.readers.records import Column, read_records
from relgrade_assets.io.study import Study
from relgrade_assets.io.tool_sheets import tool_sheet
from relgrade_assets.methods import agreement as methods
from relgrade_assets.methods import calibration as drafting
from relgrade_assets.methods.normalise import normalised
from relgrade_assets.methods.ordering import in_grader_order
from relgrade_assets.methods.sheets import BLIND, rubric_digest
from relgrade_assets.protocol.design import Design

ITEMS = "items.csv"
PAIRS_AT_LEAST, QUERIES_AT_LEAST = 10, 3
"""Fewer show nothing of how people differ."""
_PAIR = ["query_id", "chunk_id"]


def people(design: Design) -> list[str]:
    """Those who need a calibration: the key's human graders, where there are several (P26)."""
    found = [g.name for g in design.graders if g.kind == "human"]
    return found if len(found) > 1 else []


def uncalibrated(study: Study) -> list[str]:
    """People of whom no calibration under the present rubric is logged; none where that is declared (P26)."""
    wanted = people(study.design)
    if not wanted or study.design.declared("no_calibration"):
        return []
    present = rubric_digest(study.rubric)
    logged = {e.body["by"] for e in study.log if e.kind == "calibrated" and e.body["rubric_digest"] == present}
    return [who for who in wanted if who not in logged]


def require_calibrated(study: Study) -> None:
    """P26: several people are calibrated before anybody grades. Refused where that is neither logged for the present
    rubric nor declared.
    """
    missing = uncalibrated(study)
    if not missing:
        return
    before = {e.body["by"] for e in study.log if e.kind == "calibrated"}
    mend = f"`relgrade calibrate {study.name}` leads through it."
    if events.opening(study.log, study.round) is None:
        mend += " Or declare 'no_calibration' under deviations with a reason."
    faults = [
        Fault(who, "one under another rubric" if who in before else "none in the log", "one under this rubric", mend)
        for who in missing
    ]
    raise Refused("Several people grade, and begin after a calibration (P26)", faults)


def draft_items(study: Study, folder: Path) -> int:
    """Write `items.csv` with queries outside the sample and chunks, for the owner to fill in intents and to change as
    wanted. Returns its rows.
    """
    sample = study.load("query_sample")
    rows = drafting.draft(study.load("queries"), sample, study.corpus, seed=study.design.seed).rows()
    write_bytes(folder / ITEMS, csv_bytes(("query", "intent", "chunk_id"), ((q, "", c) for q, c in rows)))
    return len(rows)


def read_items(study: Study, folder: Path) -> pl.DataFrame:
    """The items as blind rows: columns BLIND, `query_id` a number of their own. Refused with every fault: a sampled
    query, an unknown chunk, an item without intent or that stands twice, too few. NotThere while no intent is there.
    """
    columns = {"query": Column("query", "text"), "chunk_id": Column("chunk_id", "id")}
    columns |= {"intent": Column("intent", "text", filled=False)}
    name = f"{folder.name}/{ITEMS}"
    read = read_records(folder / ITEMS, name=name, format="csv", columns=columns).frame
    text = {c: pl.Series(c, [unmarked(v or "").strip() for v in read[c]], pl.String) for c in columns}
    items = read.select("line").with_columns(**text).with_columns(known=normalised(pl.col("query")))
    if items.height and not items.filter(pl.col("intent") != "").height:
        raise NotThere(Waiting(f"intents in {name}", 0, items.height))
    sampled = set(study.load("query_sample").select(normalised(pl.col("query"))).to_series())
    chunks = study.corpus.filter(pl.col("chunk_id").is_in(items["chunk_id"].to_list()))
    there = set(chunks["chunk_id"])
    twice = items.select("known", "chunk_id").is_duplicated()
    faults = []
    for row, again in zip(items.to_dicts(), twice, strict=True):
        where = f"{name}, line {row['line']}"
        if row["known"] in sampled:
            faults.append(Fault(where, "a query of the sample", "a query outside it, which nobody grades later"))
        if not row["intent"]:
            faults.append(Fault(where, "no intent", "one line that says what the query asks"))
        if row["chunk_id"] not in there:
            faults.append(Fault(where, f"the chunk {row['chunk_id']!r}", "a chunk of the corpus"))
        if again:
            faults.append(Fault(where, "an item that stands twice", "each once"))
    if items.height < PAIRS_AT_LEAST or items["known"].n_unique() < QUERIES_AT_LEAST:
        found = f"{items.height} items of {items['known'].n_unique()} queries"
        faults.append(Fault(name, found, f"{PAIRS_AT_LEAST} at least, of {QUERIES_AT_LEAST} queries"))
    if faults:
        raise Refused(f"{name} can't be used", faults)
    ids = {q: f"calibration-{n}" for n, q in enumerate(items["known"].unique(maintain_order=True), start=1)}
    numbered = items.with_columns(query_id=pl.col("known").replace_strict(ids, return_dtype=pl.String))
    return numbered.join(chunks.select("chunk_id", "header", "text"), on="chunk_id").select(BLIND).sort(_PAIR)


def sheet_path(folder: Path, person: str) -> Path:
    """The person's sheet in the folder."""
    return folder / f"sheet-{person}.csv"


def write_sheets(study: Study, folder: Path, items: pl.DataFrame) -> list[Path]:
    """Write the rubric, and a sheet for each person who has none there yet, each in an order of its own (P14). Returns
    the sheets that are new.
    """
    write_bytes(folder / "rubric.md", study.rubric.encode())
    new = []
    for who in people(study.design):
        path = sheet_path(folder, who)
        if path.exists():
            continue
        order = in_grader_order(items, seed=study.design.seed, round=0, grader=who)
        rows = order.join(items, on=_PAIR, how="left", maintain_order="left").select(BLIND).to_dicts()
        files = tool_sheet(rows, "spreadsheet", grader=who, scale=study.design.scale, mark="")
        write_bytes(path, files["sheet.csv"])
        new.append(path)
    return new


def read_answers(study: Study, folder: Path, items: pl.DataFrame) -> pl.DataFrame:
    """What everybody answered: grader, query_id, chunk_id, grade (null where unrateable), reason. Refused with the
    faults of every sheet; NotThere while a row has no answer.
    """
    asked = Asked(items.select("query_id", "query").unique().sort("query_id"), items.select(_PAIR))
    frames, faults, owed = [], [], []
    for who in people(study.design):
        path = sheet_path(folder, who)
        name = f"{folder.name}/{path.name}"
        top = study.design.scale.top
        read, other = read_tool(
            path, name=name, tool="spreadsheet", asked=asked, top_grade=top, reason_needed="all", judge=who
        )
        faults += list(read.bad)
        if other:
            mend = f"Were {ITEMS} changed since? Move the sheet away, and it is written anew."
            faults.append(Fault(name, f"{other} rows that are not items", f"the rows of {ITEMS}", mend))
        done = read.good.filter(~pl.col("judge_later"))
        if done.height < items.height:
            owed.append(f"{done.height} of {items.height} by {who} in {name}")
        frames.append(done.select(pl.lit(who).alias("grader"), *_PAIR, "grade", "reason"))
    if faults:
        raise Refused("The answers can't be used", faults)
    answers = pl.concat(frames).sort("grader", *_PAIR)
    if owed:
        raise NotThere(Waiting("items graded", answers.height, items.height * len(frames), tuple(owed)))
    return answers


def agreement(study: Study, answers: pl.DataFrame) -> pl.DataFrame:
    """How far the people agree on the items, two by two and all together: schemas.Agreement without strata (P27)."""
    d = study.design
    return methods.among(answers, labels=d.scale.labels, relevant_from=d.scale.relevant_from, seed=d.seed)


def log_calibration(study: Study, answers: pl.DataFrame, table: pl.DataFrame, *, discussed: str) -> None:
    """P26, P36: log the calibration of each person, under the rubric as it stands; logged again it changes nothing.

    The log is published: people by pseudonym, no item, and in a private study no word of the discussion (P41).
    """
    names = pseudonyms(study.design)
    figures = table.filter(pl.col("statistic").is_in(["weighted_kappa", "binary_kappa", "alpha", "disagreement"]))
    figures = figures.with_columns(
        graders=pl.col("comparison").str.split("~").list.eval(pl.element().replace_strict(names)).list.join("~")
    )
    body = {
        "round": study.round,
        "rubric_digest": rubric_digest(study.rubric),
        "answers_digest": content_digest(answers),
        "pairs": answers.select(_PAIR).n_unique(),
        "queries": answers["query_id"].n_unique(),
        "agreement": figures.select("graders", "statistic", "value").to_dicts(),
        "discussed": "" if study.design.private else discussed,
    }
    for who in people(study.design):
        study.happened("calibrated", {**body, "by": who})
