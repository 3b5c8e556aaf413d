"""Grades in our own form, P19's JSON Lines, row by row (P20, P25): good rows taken, bad ones kept with the reason.

Whether a row was asked for, and by whom it was graded, is the ledger's business. Foreign qrels are read by `qrels`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from relgrade_assets.errors import Fault, Notice
from relgrade_assets.io.readers.faults import Faults, shown
from relgrade_assets.io.readers.qrels import read_qrels
from relgrade_assets.io.readers.slow_records import Pairs, Whole, described, objects
from relgrade_assets.io.text import read_text

__all__ = ["GradeRows", "check_row", "read_grades", "read_qrels"]

KEYS = ("query_id", "chunk_id", "reason", "grade")
FLAGS = ("unrateable", "judge_later", "corpus_cleanup")
WORDS_AT_MOST = 15
RAW_AT_MOST = 2000
LINE_BREAK = re.compile("[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")
SCHEMA: dict[str, type[pl.DataType]] = {
    "line": pl.Int64,
    "query_id": pl.String,
    "chunk_id": pl.String,
    "reason": pl.String,
    "grade": pl.Int64,
    **dict.fromkeys(FLAGS, pl.Boolean),
}


@dataclass(frozen=True, slots=True)
class GradeRows:
    """`good` has line, query_id, chunk_id, reason and grade (null where there is none) and three flags.

    `bad` has every fault; `bad_lines` each refused line once: its number, its text cut to 2,000 characters, and why.
    `sheets`: the tokens of sheets that the file carries.
    """

    good: pl.DataFrame
    bad: tuple[Fault, ...]
    bad_lines: tuple[tuple[int, str, str], ...]
    notices: tuple[Notice, ...]
    sheets: tuple[str, ...] = ()


def read_grades(
    path: Path,
    *,
    name: str,
    top_grade: int,
    reason_needed: Literal["all", "above_zero", "none"],
    inside: Path | None = None,
) -> GradeRows:
    """P19 rows, graded 0 to `top_grade`; a pair twice with one answer is taken once and counted, with two both are bad.
    A line `{"sheet": TOKEN}`, anywhere, is no row: it says for which sheet the answers are.

    Raises Refused only where the file can't be read as text, Missing where there is none. Notices: byte_order_mark,
    crlf, blank_lines, repeated_pairs.
    """
    text = read_text(path, name=name, inside=inside)
    rows: list[dict[str, Any]] = []
    whys: dict[int, list[Fault]] = {}
    raws: dict[int, str] = {}
    blank = 0
    sheets: list[str] = []
    for line, raw, pairs, syntax in _lines(text.data, name):
        if not raw:
            blank += 1
            continue
        if pairs is not None and len(pairs) == 1 and pairs[0][0] == "sheet" and type(pairs[0][1]) is str:
            sheets.append(pairs[0][1])
            continue
        row, faults = (None, syntax) if pairs is None else _row(pairs, f"{name}, line {line}", top_grade, reason_needed)
        if faults or row is None:
            whys[line], raws[line] = faults, raw.decode()[:RAW_AT_MOST]
        else:
            rows.append({"line": line, **row, "raw": raw})
    good, repeated = _once(rows, name, whys, raws)
    notices = [*text.notices]
    if blank:
        notices.append(Notice("blank_lines", blank, f"{name}: blank lines were passed over"))
    if repeated:
        notices.append(Notice("repeated_pairs", repeated, f"{name}: lines repeated a pair with the same grade"))
    frame = pl.DataFrame([{k: r[k] for k in SCHEMA} for r in good], schema=SCHEMA)
    bad = tuple(fault for line in sorted(whys) for fault in whys[line])
    reasons = tuple(
        (line, raws[line], "; ".join(f"found {f.found}, expected {f.expected}" for f in whys[line]))
        for line in sorted(whys)
    )
    return GradeRows(frame, bad, reasons, tuple(notices), tuple(dict.fromkeys(sheets)))


def check_row(
    line: bytes, *, name: str, top_grade: int, reason_needed: Literal["all", "above_zero", "none"]
) -> tuple[dict[str, Any] | None, list[Fault]]:
    """One P19 row as JSON: query_id, chunk_id, reason, grade and three flags, or None and every fault of it."""
    for _, raw, pairs, syntax in _lines(line, name):
        if pairs is None or b"\n" in line:
            return None, syntax or [Fault(name, described(raw.decode("utf-8", "replace")), "one JSON object")]
        row, faults = _row(pairs, f"{name}", top_grade, reason_needed)
        return (None, faults) if faults else ({k: row[k] for k in SCHEMA if k != "line"}, [])
    return None, [Fault(name, "nothing", "one JSON object")]


def _lines(data: bytes, name: str) -> Iterator[tuple[int, bytes, Pairs | None, list[Fault]]]:
    """Each line with its own syntax faults."""
    faults = Faults(name)
    for line, raw, pairs in objects(data, faults):
        yield line, raw, pairs, faults.kept()
        faults.clear()


def _row(pairs: Pairs, where: str, top: int, reason_needed: str) -> tuple[dict[str, Any], list[Fault]]:
    faults: list[Fault] = []
    keys = [k for k, _ in pairs]
    if tuple(keys[:4]) != KEYS or len(set(keys)) < len(keys) or not set(keys[4:]) <= set(FLAGS):
        expected = f"{', '.join(KEYS)} in that order, then at most {', '.join(FLAGS)}"
        return {}, [Fault(where, f"the keys {shown(', '.join(keys))}", expected)]
    given = dict(pairs)
    row: dict[str, Any] = {}
    for key in ("query_id", "chunk_id"):
        value = given[key]
        row[key] = str(value)
        if not isinstance(value, Whole) and (type(value) is not str or not value.strip()):
            faults.append(Fault(f"{where}, {key}", "an empty id" if type(value) is str else described(value), "an id"))
    for flag in FLAGS:
        value = given.get(flag, False)
        row[flag] = value is True
        if not isinstance(value, bool):
            faults.append(Fault(f"{where}, {flag}", described(value), "true or false"))
    row["grade"], wrong = _grade(given["grade"], row, where, top)
    faults += wrong
    row["reason"], wrong = _reason(given["reason"], row["grade"], where, reason_needed)
    faults += wrong
    for key in ("query_id", "chunk_id", "reason"):
        if row[key] is not None and any("\ud800" <= c <= "\udfff" for c in row[key]):
            faults.append(Fault(f"{where}, {key}", "half of a surrogate pair", "whole characters"))
    return row, faults


def _grade(value: Any, row: dict[str, Any], where: str, top: int) -> tuple[int | None, list[Fault]]:
    at = f"{where}, grade"
    scale = f"a whole number from 0 to {top}"
    if row["unrateable"] and row["judge_later"]:
        return None, [Fault(where, "unrateable and judge_later at once", "one of them")]
    without = row["unrateable"] or row["judge_later"]
    if value is None:
        return None, [] if without else [Fault(at, "null", f"{scale}, or null with unrateable or judge_later")]
    if without:
        return None, [Fault(at, described(value), "null, since the row is unrateable or for later")]
    if isinstance(value, Whole) and re.fullmatch("[0-9]{1,3}", value) and int(value) <= top:
        return int(value), []
    return None, [Fault(at, described(value), scale)]


def _reason(value: Any, grade: int | None, where: str, needed: str) -> tuple[str | None, list[Fault]]:
    at = f"{where}, reason"
    if value is not None and type(value) is not str:
        return None, [Fault(at, described(value), "text")]
    if value is None or not value.strip():
        due = needed == "all" or (needed == "above_zero" and grade is not None and grade > 0)
        return None, [Fault(at, "no reason", "what the chunk says about the intent")] if due else []
    faults = []
    if LINE_BREAK.search(value):
        faults.append(Fault(at, f"a line break or control character in {shown(value)}", "one line"))
    words = len(value.split())
    if words > WORDS_AT_MOST:
        faults.append(Fault(at, f"{words} words", f"at most {WORDS_AT_MOST}"))
    return value, faults


def _once(
    rows: list[dict[str, Any]], name: str, whys: dict[int, list[Fault]], raws: dict[int, str]
) -> tuple[list[dict[str, Any]], int]:
    """Each pair's first row, and how many repeated one; every row of a pair with two answers goes to the bad lines."""
    pairs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        pairs.setdefault((row["query_id"], row["chunk_id"]), []).append(row)
    good, repeated = [], 0
    for (query, chunk), same in pairs.items():
        if len({(r["grade"], r["unrateable"], r["judge_later"]) for r in same}) == 1:
            good.append(same[0])
            repeated += len(same) - 1
            continue
        lines = ", ".join(str(r["line"]) for r in same[:10])
        for r in same:
            found = f"query {shown(query)} and chunk {shown(chunk)} with different answers on lines {lines}"
            whys[r["line"]] = [
                Fault(f"{name}, line {r['line']}", found, "one answer a pair", "Keep the one that holds.")
            ]
            raws[r["line"]] = r["raw"].decode()[:RAW_AT_MOST]
    return good, repeated
