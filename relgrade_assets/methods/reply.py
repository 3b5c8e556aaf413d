"""A model's reply, read strictly: exactly the asked rows, or refused whole with the reason (P20).

JSON Lines in P19's order, alone or inside one code fence. A reply is never mended and a grade is never fished out of
prose. Reasons for a refusal quote nothing of the reply: it is kept raw beside them. Files of grades are taken row by
row elsewhere (P25).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

KEYS = ("query_id", "chunk_id", "reason", "grade")
FLAGS = ("unrateable", "corpus_cleanup")
"""What a model may add; `judge_later` is for people, who come back."""
WORDS_AT_MOST = 15
_FENCE = re.compile("```[A-Za-z]*")
_REPEATED = 3
"""Words in a row that make a repeat, as P41 counts them."""
_LETTERS = 12
"""A whole text of fewer words is one from so many characters on."""
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]|\\w+")
_A_ROW = re.compile(r"""(?:\{|^)[^{}]*["'](?:reason|grade)\\?["'].*?(?:\}|\Z)""", re.DOTALL)
_LEFT_OUT = "..."
_BREAK = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Row:
    """One accepted row; `grade` is None where the chunk is unrateable."""

    chunk_id: str
    reason: str
    grade: int | None
    unrateable: bool
    corpus_cleanup: bool


class NotTheRows(Exception):
    """A reply that is not exactly the asked rows, and why (P20)."""


def read_reply(text: str, *, query_id: str, chunk_ids: Sequence[str], top_grade: int) -> list[Row]:
    """P19, P20: the rows of `chunk_ids` in the order asked, grades 0 to `top_grade`. Raises NotTheRows otherwise."""
    rows: dict[str, Row] = {}
    for number, line in _lines(text):
        where = f"line {number}"
        row = _row(_object(line, where), where, query_id, top_grade)
        if row.chunk_id not in chunk_ids:
            raise NotTheRows(f"{where}: a chunk that was not asked")
        if row.chunk_id in rows:
            raise NotTheRows(f"{where}: a chunk that stands twice")
        rows[row.chunk_id] = row
    if len(rows) < len(chunk_ids):
        raise NotTheRows(f"{len(rows)} of {len(chunk_ids)} rows")
    return [rows[chunk] for chunk in chunk_ids]


def _lines(text: str) -> list[tuple[int, str]]:
    """Numbered lines that are not blank, without the code fence around them."""
    lines = [(n, line) for n, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1) if line.strip(" \t")]
    if lines and _FENCE.fullmatch(lines[0][1].strip(" \t")):
        if len(lines) < 2 or lines[-1][1].strip(" \t") != "```":
            raise NotTheRows("a code fence that is not closed, or text after it")
        lines = lines[1:-1]
    return lines


def _object(line: str, where: str) -> list[tuple[str, Any]]:
    try:
        value = json.loads(line, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        raise NotTheRows(f"{where}: no JSON object") from None
    if not isinstance(value, _Pairs):
        raise NotTheRows(f"{where}: no JSON object")
    return value


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys in order, doubled ones too."""


def _row(pairs: list[tuple[str, Any]], where: str, query_id: str, top: int) -> Row:
    keys = [key for key, _ in pairs]
    if tuple(keys[:4]) != KEYS or len(set(keys)) < len(keys) or not set(keys[4:]) <= set(FLAGS):
        raise NotTheRows(f"{where}: other keys than {', '.join(KEYS)} in that order")
    given = dict(pairs)
    if given["query_id"] != query_id:
        raise NotTheRows(f"{where}: another query")
    if not isinstance(given["chunk_id"], str):
        raise NotTheRows(f"{where}: a chunk that was not asked")
    flags = {name: given.get(name, False) for name in FLAGS}
    if any(not isinstance(value, bool) for value in flags.values()):
        raise NotTheRows(f"{where}: a flag that is not true or false")
    grade = given["grade"]
    if flags["unrateable"]:
        if grade is not None:
            raise NotTheRows(f"{where}: unrateable, and with a grade")
    elif type(grade) is not int or not 0 <= grade <= top:
        raise NotTheRows(f"{where}: a grade that is no whole number from 0 to {top}")
    reason = given["reason"]
    if not isinstance(reason, str) or not reason.strip() or _BREAK.search(reason):
        raise NotTheRows(f"{where}: no reason of one line")
    if len(reason.split()) > WORDS_AT_MOST:
        raise NotTheRows(f"{where}: a reason of more than {WORDS_AT_MOST} words")
    return Row(given["chunk_id"], reason, grade, **flags)


def without_repeats(said: str, texts: Iterable[str]) -> str:
    """What an agent said of its failure, without what it repeats of `texts` (three words in a row of one, or all of a
    text) and without rows that it was about to reply: "..." stands in their place (P13, P41).
    """
    said = _A_ROW.sub(_LEFT_OUT, said)
    words = list(_WORD.finditer(said))
    spoken = [w[0].casefold() for w in words]
    hidden = [False] * len(words)
    for text in texts:
        given = [w[0].casefold() for w in _WORD.finditer(text)]
        n = min(len(given), _REPEATED)
        if not n or (n < _REPEATED and len(text) < _LETTERS):
            continue
        runs = {tuple(given[i : i + n]) for i in range(len(given) - n + 1)}
        for i in range(len(words) - n + 1):
            if tuple(spoken[i : i + n]) in runs:
                hidden[i : i + n] = [True] * n
    out, end, covered = "", 0, False
    for word, hide in zip(words, hidden, strict=True):
        if hide:
            out += "" if covered else said[end : word.start()] + _LEFT_OUT
        else:
            out += said[end : word.end()]
        end, covered = word.end(), hide
    return out + said[end:]
