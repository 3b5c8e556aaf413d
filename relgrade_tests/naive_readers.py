"""Readers written a second time, line by line in plain Python, from docs/reference/formats.md: what a file means, or
that it must be refused. Oracles for fuzzing; nothing of relgrade is imported.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"[+-]?[0-9]+")
FORMULA = "[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
FLAGS = ("unrateable", "judge_later", "corpus_cleanup")


@dataclass
class Naive:
    """What a file means: its rows, or the lines that can't be used, or why the file as a whole can't."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    bad: set[int] = field(default_factory=set)
    whole: str = ""

    @property
    def fine(self) -> bool:
        """Whether it must be accepted."""
        return not self.bad and not self.whole


def text_of(data: bytes) -> str | None:
    """UTF-8 without a byte-order mark, lines that end in LF, CR LF or CR CR LF (the last's LF may be cut off).

    None where it is none, holds NUL, or nothing.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return re.sub("\r?\r\n", "\n", data.decode()).removesuffix("\r") if data and b"\0" not in data else None
    except UnicodeDecodeError:
        return None


def lines_of(text: str) -> list[str]:
    """Lines without their ends."""
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


def odd_id(text: str) -> bool:
    """An id that a TREC file can't hold: blanks other than the ASCII one, control characters, # at its beginning."""
    return text.startswith("#") or any(c != " " and unicodedata.category(c) in ("Cc", "Zs", "Zl", "Zp") for c in text)


def finite(text: str) -> float | None:
    """The number, None where it is none or not finite."""
    found = float(text) if NUMBER.fullmatch(text) else math.nan
    return found + 0.0 if math.isfinite(found) else None


def whole(text: str) -> int | None:
    """The whole number of 64 bits, None where it is none."""
    found = int(text) if WHOLE.fullmatch(text) and len(text) < 25 else 1 << 70
    return found if -(1 << 63) <= found < 1 << 63 else None


def columns_of(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """TREC's lines: number, line, and its columns; without blank lines and comments."""
    for n, line in enumerate(lines_of(text), 1):
        cells = re.split("[ \t]+", line.strip(" \t"))
        if not line.startswith("#") and cells != [""]:
            yield n, line, cells


# runs


def trec_run(data: bytes) -> Naive:
    """Six columns a line; rows are (query, chunk, rank, score), ranked."""
    out, rows = Naive(), []
    text = text_of(data)
    if text is None:
        return Naive(whole="no text")
    for n, line, cells in columns_of(text):
        score = finite(cells[4]) if len(cells) == 6 else None
        if score is None or re.search("[\r\v\f]", line) or odd_id(cells[0]) or odd_id(cells[2]):
            out.bad.add(n)
        else:
            rows.append((n, cells[0], cells[2], whole(cells[3]), score))
    return ranked(out, rows)


def jsonl_run(data: bytes) -> Naive:
    """One object a line: query_id, chunk_id, score, and rank where there is one."""
    out, rows = Naive(), []
    text = text_of(data)
    if text is None:
        return Naive(whole="no text")
    for n, line in enumerate(lines_of(text), 1):
        if not line.strip(" \t\r\v\f"):
            continue
        pairs = json_of(line)
        if not isinstance(pairs, Object) or any(pairs.count(k) > 1 for k in ("query_id", "chunk_id", "score", "rank")):
            out.bad.add(n)
            continue
        ids = [id_of(pairs.get(k)) for k in ("query_id", "chunk_id")]
        score, rank = pairs.get("score"), pairs.get("rank", Number("0"))
        number = finite(score) if isinstance(score, Number) else None
        place = whole(rank) if isinstance(rank, Number) and re.fullmatch("[+-]?[0-9]{1,18}", rank) else None
        if None in ids or number is None or place is None or any(odd_id(i) for i in ids if i):
            out.bad.add(n)
        else:
            rows.append((n, *ids, place if "rank" in pairs else None, number))
    return ranked(out, rows)


def csv_run(data: bytes) -> Naive:
    """A header, and a row a result."""
    out, rows = Naive(), []
    table = csv_table(data, ("query_id", "chunk_id", "score", "rank"))
    if isinstance(table, Naive):
        return table
    names, lines, out.bad = table
    if not {"query_id", "chunk_id", "score"} <= set(names):
        return Naive(whole="columns")
    for n, cells in lines:
        row = dict(zip(names, cells, strict=True))
        score = finite(row["score"].strip(" \t"))
        rank = row.get("rank", "0").strip(" \t")
        place = whole(rank) if re.fullmatch("[+-]?[0-9]{1,18}", rank) else None
        ids = row["query_id"], row["chunk_id"]
        if score is None or place is None or any(not i.strip() or odd_id(i) for i in ids):
            out.bad.add(n)
        else:
            rows.append((n, *ids, place if "rank" in row else None, score))
    return ranked(out, rows)


def ranked(out: Naive, rows: list[tuple[Any, ...]]) -> Naive:
    """Queries as they first appear, best score first, then the higher chunk id."""
    if out.bad:
        return out
    if not rows:
        return Naive(whole="no row")
    queries: dict[str, dict[str, tuple[float, int | None]]] = {}
    for n, query, chunk, given, score in rows:
        held = queries.setdefault(query, {})
        if chunk in held:
            out.bad.add(n)
        held.setdefault(chunk, (score, given))
    if len(rows) > 1 and len({score for *_, score in rows}) == 1:
        out.whole = "one score"
    steps = {"agree": 0, "against": 0, "repeated": 0}
    for query in queries:
        with_rank = [(given, score) for _, q, _, given, score in rows if q == query and given is not None]
        with_rank.sort(key=lambda r: r[0])
        for (rank, score), (next_rank, next_score) in pairwise(with_rank):
            if rank == next_rank:
                steps["repeated"] += score != next_score
            elif next_score != score:
                steps["agree" if next_score < score else "against"] += 1
    if steps["against"] and not steps["agree"] and not steps["repeated"]:
        out.whole = "ranks reversed"
    for query, held in queries.items():
        order = sorted(held, key=lambda c: (held[c][0], c.encode()), reverse=True)
        out.rows += [(query, chunk, rank, held[chunk][0]) for rank, chunk in enumerate(order, 1)]
    return out


# judgments


def trec_qrels(data: bytes) -> Naive:
    """Four columns a line; rows are (query, group, chunk, grade), a pair of a group once."""
    out, rows = Naive(), []
    text = text_of(data)
    if text is None:
        return Naive(whole="no text")
    for n, line, cells in columns_of(text):
        grade = whole(cells[3]) if len(cells) == 4 else None
        if grade is None or re.search("[\r\v\f]", line) or odd_id(cells[0]) or odd_id(cells[2]):
            out.bad.add(n)
        else:
            rows.append((n, *cells[:3], grade))
    if not out.bad and {r[3] for r in rows} == {"0"} and len({r[2] for r in rows}) > 1:
        out.whole = "chunk ids in column 2"
    return judged(out, rows)


def beir_qrels(data: bytes) -> Naive:
    """A header and three columns, separated by tabs; the group is empty."""
    out, rows, header = Naive(), [], False
    text = text_of(data)
    if text is None:
        return Naive(whole="no text")
    for n, raw in enumerate(lines_of(text), 1):
        line = raw.rstrip(" \t")
        if raw.startswith("#") or not line:
            continue
        cells = line.split("\t")
        if not header:
            if cells != ["query-id", "corpus-id", "score"]:
                return Naive(whole="header")
            header = True
            continue
        grade = whole(cells[2].strip(" ")) if len(cells) == 3 else None
        if grade is None or any(not c.strip() or odd_id(c) for c in cells[:2]):
            out.bad.add(n)
        else:
            rows.append((n, cells[0], "", cells[1], grade))
    return judged(out, rows)


def judged(out: Naive, rows: list[tuple[Any, ...]]) -> Naive:
    """-1 is pooled; other negatives are refused, and a pair with two grades."""
    if out.bad or out.whole:
        return out
    if not rows:
        return Naive(whole="no row")
    first: dict[tuple[str, ...], int] = {}
    for n, *pair, grade in rows:
        if first.setdefault(tuple(pair), grade) != grade or grade < -1:
            out.bad.add(n)
    out.rows = [(*pair, grade) for pair, grade in first.items()]
    return out


def key(data: bytes) -> Naive:
    """The canonical key: spelled in one way alone, sorted, each pair once."""
    rows = []
    text = data.decode("utf-8", "replace")
    for line in text.split("\n")[:-1] if text.endswith("\n") else [""]:
        value = json_of(line)
        if not isinstance(value, Object) or [k for k, _ in value] != ["query_id", "chunk_id", "grade"]:
            return Naive(whole="no key")
        (_, query), (_, chunk), (_, grade) = value
        ids = all(type(i) is str and i.strip() and not halved(i) for i in (query, chunk))
        if not ids or not isinstance(grade, Number) or not re.fullmatch("-?[0-9]{1,18}", grade):
            return Naive(whole="no key")
        rows.append((query, chunk, int(grade)))
    again = "".join(
        json.dumps({"query_id": q, "chunk_id": c, "grade": g}, ensure_ascii=False, separators=(",", ":")) + "\n"
        for q, c, g in rows
    ).encode()
    ordered = [r[:2] for r in rows] == sorted({r[:2] for r in rows})
    return Naive(rows=rows) if again == data and ordered and rows else Naive(whole="no key")


def p19(data: bytes) -> Naive:
    """Grades 0 to 2 with a reason: rows are (line, query, chunk, reason, grade, flags); bad lines beside them."""
    out, pairs_of = Naive(), {}
    text = text_of(data)
    if text is None:
        return Naive(whole="no text")
    for n, line in enumerate(lines_of(text), 1):
        if not line.strip(" \t\r\v\f"):
            continue
        row = _p19_row(json_of(line))
        if row is None:
            out.bad.add(n)
        else:
            pairs_of.setdefault(row[:2], []).append((n, *row))
    for same in pairs_of.values():
        if len({r[4:7] for r in same}) > 1:
            out.bad |= {r[0] for r in same}
        else:
            out.rows.append(same[0])
    out.rows.sort()
    return out


def _p19_row(pairs: Any) -> tuple[Any, ...] | None:
    if not isinstance(pairs, Object):
        return None
    keys = [k for k, _ in pairs]
    if keys[:4] != ["query_id", "chunk_id", "reason", "grade"] or len(set(keys)) < len(keys):
        return None
    flags = [pairs.get(f, False) for f in FLAGS]
    if not set(keys[4:]) <= set(FLAGS) or any(not isinstance(f, bool) for f in flags) or (flags[0] and flags[1]):
        return None
    query, chunk = id_of(pairs.get("query_id")), id_of(pairs.get("chunk_id"))
    grade, reason = pairs.get("grade"), pairs.get("reason")
    without = flags[0] or flags[1]
    if query is None or chunk is None or (grade is None) != without:
        return None
    if grade is not None and not (isinstance(grade, Number) and re.fullmatch("0{0,2}[012]", grade)):
        return None
    if type(reason) is not str or not reason.strip() or len(reason.split()) > 15 or halved(reason):
        return None
    if re.search("[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]", reason):
        return None
    return (query, chunk, reason, None if grade is None else int(grade), *flags)


# JSON and CSV


class Number(str):
    """A JSON number, as it is written."""

    __slots__ = ()


class Object(list):  # type: ignore[type-arg]
    """A JSON object: its keys and values in order."""

    def get(self, key: str, otherwise: Any = None) -> Any:
        """The last value of a key."""
        return dict(self).get(key, otherwise)

    def count(self, key: Any) -> int:
        """How often a key stands there."""
        return sum(k == key for k, _ in self)

    def __contains__(self, key: object) -> bool:
        return any(k == key for k, _ in self)


def json_of(text: str) -> Any:
    """The value, numbers as they are written; a text of that name where it is no JSON."""
    try:
        return json.loads(text, object_pairs_hook=Object, parse_int=Number, parse_float=Number, parse_constant=Number)
    except (ValueError, RecursionError):
        return "no JSON"


def id_of(value: Any) -> str | None:
    """Text that is not blank, or a whole number's digits."""
    if isinstance(value, Number):
        return str(value) if re.fullmatch("-?[0-9]+", value) else None
    return value if isinstance(value, str) and value.strip() and not halved(value) else None


def unmarked(cell: str, mark: str) -> str:
    """A cell without the mark that keeps spreadsheets from running it."""
    return cell[1:] if re.match(f"{mark}+{FORMULA}", cell) else cell


def halved(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


def filled(value: Any) -> bool:
    return id_of(value) is not None or (isinstance(value, str) and type(value) is str and bool(value.strip()))


def list_of(value: Any) -> list[Any]:
    assert isinstance(value, list) and not isinstance(value, Object) and all(isinstance(v, Object) for v in value)
    return value


def document(data: bytes) -> Any:
    """The file's one JSON value; None where it is none, or an object has a key twice."""
    text = text_of(data)
    value = "no JSON" if text is None else json_of(text)
    left = [value]
    while left:
        some = left.pop()
        if isinstance(some, Object):
            if len({k for k, _ in some}) < len(some):
                return None
            left += [v for pair in some for v in pair]
        elif isinstance(some, list):
            left += some
        elif isinstance(some, str) and halved(some):
            return None
    return value


def csv_table(
    data: bytes, once: tuple[str, ...] | None = None
) -> tuple[list[str], list[tuple[int, list[str]]], set[int]] | Naive:
    """Header, rows (line, cells) and bad lines. `once`: columns that may stand once alone; every one where None."""
    text = text_of(data)
    rows = None if text is None else _cells(text)
    if rows is None:
        return Naive(whole="no CSV")
    rows = [(n, cells) for n, cells in rows if cells]
    if not rows:
        return Naive(whole="no row")
    names = rows[0][1]
    if any(names.count(n) > 1 for n in (names if once is None else once)):
        return Naive(whole="a column twice")
    bad = {n for n, cells in rows[1:] if len(cells) != len(names)}
    return names, [(n, cells) for n, cells in rows[1:] if n not in bad], bad


def _cells(text: str) -> list[tuple[int, list[str]]] | None:
    """RFC 4180 as a machine of four states; None for broken quoting or a carriage return outside quotes."""
    rows: list[tuple[int, list[str]]] = []
    cells: list[str] = []
    cell, state, line, begins = "", "start", 1, 1
    for c in text:
        if state == "quoted":
            line += c == "\n"
            if c == '"':
                state = "closed"
            else:
                cell += c
        elif state == "closed" and c == '"':
            cell, state = cell + '"', "quoted"
        elif c == ",":
            cells, cell, state = [*cells, cell], "", "start"
        elif c == "\n":
            line += 1
            empty = state == "start" and not cells
            rows.append((begins, [] if empty else [*cells, cell]))
            cells, cell, state, begins = [], "", "start", line
        elif c == "\r" or state == "closed":
            return None
        elif c == '"' and state == "start":
            state = "quoted"
        else:
            cell, state = cell + c, "open"
    if state == "quoted":
        return None
    if cells or state != "start":
        rows.append((begins, [*cells, cell]))
    return rows
