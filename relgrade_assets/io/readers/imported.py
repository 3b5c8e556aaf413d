"""Judgments of other tools, one row a (query, chunk, grader), before anything is made of them; and how a rating becomes
a grade (P25).

Each tool's reader gives `Raw`; the checks here are the same for all of them, and those of a row are P19's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from relgrade_assets.errors import SHOWN_AT_MOST, Fault, Notice, Refused
from relgrade_assets.io.readers.faults import shown
from relgrade_assets.io.readers.judgments import RAW_AT_MOST, SCHEMA, GradeRows, check_row

RAW: dict[str, type[pl.DataType]] = {
    "line": pl.Int64,
    "place": pl.String,
    "grader": pl.String,
    "query_id": pl.String,
    "query": pl.String,
    "chunk_id": pl.String,
    "rating": pl.String,
    "reason": pl.String,
    "unrateable": pl.Boolean,
    "judge_later": pl.Boolean,
    "corpus_cleanup": pl.Boolean,
}
"""`line` is the file's line, or a running number where there are none; `place` says where the row stands, for messages.
`query_id` is null where the tool knows only the query's text; `rating` is what stood there, null where nothing did."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A file's judgments as they stand: `frame` has the columns RAW. `whole_floats`: the tool writes 2 as 2.0.
    `rating_words`: its ratings are labels or figures of its own, and need a declared mapping. `sheets`: the tokens of
    sheets that the file carries.
    """

    frame: pl.DataFrame
    notices: tuple[Notice, ...]
    whole_floats: bool = False
    rating_words: bool = False
    sheets: tuple[str, ...] = ()


def row(line: int, place: str, **given: Any) -> dict[str, Any]:
    """One row of RAW; what is not given is null, flags false."""
    flags = dict.fromkeys(("unrateable", "judge_later", "corpus_cleanup"), False)
    return {**dict.fromkeys(RAW), **flags, "line": line, "place": place, **given}


def raw_frame(rows: Sequence[Mapping[str, Any]], name: str, expected: str) -> pl.DataFrame:
    """Rows as RAW. Raises Refused where there is none."""
    if not rows:
        raise Refused(f"{name} can't be used", [Fault(name, "no judgment", expected)])
    return pl.DataFrame(list(rows), schema=RAW)


def of_judge(raw: Raw, judge: str | None, *, name: str) -> Raw:
    """The rows of one grader of the file: the one named, or the only one there.

    Raises Refused where there are several and none is named, or the named one has no row; all are listed.
    """
    there = dict(raw.frame.group_by("grader").len().sort("grader", nulls_last=True).iter_rows())
    listed = ", ".join(f"{shown(who) if who is not None else 'nobody named'} ({n})" for who, n in there.items())
    if judge is None:
        if len(there) > 1:
            mend = "Name one with --judge, and collect each grader's own."
            raise Refused(
                f"{name} holds the judgments of several graders",
                [Fault(name, f"judgments of {listed}", "one grader's judgments", mend)],
            )
        return raw
    if judge not in there:
        raise Refused(f"{name} has no judge {judge!r}", [Fault("--judge", shown(judge), f"one of: {listed}")])
    own = raw.frame.filter(pl.col("grader") == judge)
    return replace(raw, frame=own)


def parse_map(pairs: Sequence[str], *, top_grade: int) -> dict[str, int | None]:
    """`100.000=2` texts as a mapping from rating to grade; `unrateable` stands for no grade (None).

    Raises Refused for a pair without =, a grade off the scale, and a rating that is mapped twice.
    """
    faults: list[Fault] = []
    found: dict[str, int | None] = {}
    expected = f"RATING=GRADE, the grade from 0 to {top_grade} or `unrateable`"
    for pair in pairs:
        rating, _, grade = pair.rpartition("=")
        fits = re.fullmatch("[0-9]", grade) and int(grade) <= top_grade
        if not rating or not (fits or grade == "unrateable"):
            faults.append(Fault("--map", shown(pair), expected))
        elif rating in found:
            faults.append(Fault("--map", f"{shown(rating)} twice", "each rating once"))
        else:
            found[rating] = int(grade) if fits else None
    if faults:
        raise Refused("The mapping of ratings to grades can't be used", faults)
    return found


def grade_rows(
    raw: Raw,
    *,
    name: str,
    top_grade: int,
    reason_needed: Literal["all", "above_zero", "none"],
    mapping: Mapping[str, int | None] | None = None,
) -> GradeRows:
    """The rows with a rating as P19 rows; `raw` has query ids. A pair twice with one answer is taken once, with two
    both are bad.

    A rating is a whole number on the scale, or `mapping` says what it means. Raises Refused where the tool's ratings
    need a mapping and there is none. Notices: those of `raw`, rows_without_grade, whole_floats, ratings_mapped,
    repeated_pairs.
    """
    rated = raw.frame.filter(pl.col("rating").is_not_null() | pl.col("unrateable") | pl.col("judge_later"))
    if raw.rating_words and not mapping and rated.height:
        _needs_mapping(rated, name, top_grade)
    counted = [("rows_without_grade", raw.frame.height - rated.height, "rows have no grade yet; none was made of them")]
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = []
    whys: dict[int, list[Fault]] = {}
    raws: dict[int, str] = {}
    floats = mapped = 0
    for given in rated.to_dicts():
        line = given["line"]
        raws[line] = _text(given)
        grade, off, how = _grade(given, mapping, raw.whole_floats, top_grade, name)
        floats += how == "float"
        mapped += how == "mapped"
        checked: dict[str, Any] | None = None
        if not off:
            checked, off = _checked(given, grade, name, top_grade, reason_needed)
        if off or checked is None:
            whys[line] = off
        else:
            rows.append((given, {"line": line, **checked}))
    good, repeated = _once(rows, name, whys)
    counted += [
        ("whole_floats", floats, "grades were written with a point and zeros, such as 2.0"),
        ("ratings_mapped", mapped, "ratings were mapped to grades as declared"),
        ("repeated_pairs", repeated, "rows repeated a pair with the same grade"),
    ]
    notices = (*raw.notices, *(Notice(code, n, f"{name}: {text}") for code, n, text in counted if n))
    lines = sorted(whys)
    bad = tuple(fault for line in lines for fault in whys[line])
    bad_lines = tuple(
        (line, raws[line], "; ".join(f"found {f.found}, expected {f.expected}" for f in whys[line])) for line in lines
    )
    return GradeRows(pl.DataFrame(good, schema=SCHEMA), bad, bad_lines, notices)


def _text(given: Mapping[str, Any]) -> str:
    """A row as the ledger keeps it where it is refused."""
    kept = {k: v for k, v in given.items() if k not in ("line", "place") and v not in (None, False)}
    return json.dumps(kept, ensure_ascii=False)[:RAW_AT_MOST]


def _needs_mapping(rated: pl.DataFrame, name: str, top: int) -> None:
    counts = rated.group_by("rating").len().sort("rating").rows()
    mend = f"Give --map for each, such as --map {counts[-1][0] if counts else '1.0'}={top}."
    faults = [
        Fault(f"{name}: {n} ratings", shown(rating), "a declared meaning: which grade it is", mend)
        for rating, n in counts[:SHOWN_AT_MOST]
    ]
    raise Refused("The ratings of this file are not grades, and nothing says what they mean", faults, total=len(counts))


def _grade(
    given: Mapping[str, Any], mapping: Mapping[str, int | None] | None, floats: bool, top: int, name: str
) -> tuple[int | None, list[Fault], str]:
    """The grade, or what is wrong with the rating; and how it was read."""
    rating = given["rating"]
    at = f"{name}, {given['place']}"
    if rating is None:
        return None, [], ""
    if mapping:
        if rating not in mapping:
            expected = f"a mapped one: {', '.join(shown(r) for r in list(mapping)[:12])}"
            return None, [Fault(at, f"the rating {shown(rating)}", expected, "Say with --map what it means.")], ""
        return mapping[rating], [], "mapped"
    expected = f"a whole number from 0 to {top}"
    plain = re.fullmatch(r"([0-9]{1,3})(\.0+)?", rating)
    if not plain or (plain[2] and not floats) or int(plain[1]) > top:
        mend = "It looks like a header row: take it off." if rating.lower() in ("rating", "grade") else ""
        return None, [Fault(at, f"the grade {shown(rating)}", expected, mend)], ""
    return int(plain[1]), [], "float" if plain[2] else ""


def _checked(
    given: Mapping[str, Any],
    grade: int | None,
    name: str,
    top: int,
    reason_needed: Literal["all", "above_zero", "none"],
) -> tuple[dict[str, Any] | None, list[Fault]]:
    """The row through P19's own check, as if it had come as our JSON."""
    flags = {k: True for k in ("unrateable", "judge_later", "corpus_cleanup") if given[k]}
    if given["rating"] is not None and grade is None:
        flags["unrateable"] = True
    pair = {"query_id": given["query_id"], "chunk_id": given["chunk_id"], "reason": given["reason"], "grade": grade}
    line = json.dumps({**pair, **flags}).encode()
    return check_row(line, name=f"{name}, {given['place']}", top_grade=top, reason_needed=reason_needed)


def _once(
    rows: list[tuple[dict[str, Any], dict[str, Any]]], name: str, whys: dict[int, list[Fault]]
) -> tuple[list[dict[str, Any]], int]:
    """Each pair's first row, and how many repeated one; every row of a pair with two answers is bad."""
    pairs: dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for given, checked in rows:
        pairs.setdefault((checked["query_id"], checked["chunk_id"]), []).append((given, checked))
    good: list[dict[str, Any]] = []
    repeated = 0
    for (query, chunk), same in pairs.items():
        if len({(c["grade"], c["unrateable"], c["judge_later"]) for _, c in same}) == 1:
            good.append(same[0][1])
            repeated += len(same) - 1
            continue
        places = ", ".join(g["place"] for g, _ in same[:10])
        for g, c in same:
            found = f"query {shown(query)} and chunk {shown(chunk)} with different answers ({places})"
            mend = "Keep the one that holds."
            whys[c["line"]] = [Fault(f"{name}, {g['place']}", found, "one answer a pair", mend)]
    return good, repeated
