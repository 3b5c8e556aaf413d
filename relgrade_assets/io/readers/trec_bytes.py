"""Lines of a TREC run as arrays, straight from their bytes: the plainest form only, many lines at once.

Six columns with one blank (or one tab) between, printable ASCII, whole ranks. Whatever else stands there gives None;
what it is, `runs.read_run` finds out. Scores that are more than digits and a point are read by Polars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from relgrade_assets.io.text import LINE_LIMIT
from relgrade_assets.methods.hits import Flags, Floats, Ints
from relgrade_assets.methods.id_words import PAD, Bytes, Words, ids_at, loads_of
from relgrade_assets.methods.kept_rows import Rows

COLUMNS = 6
RANK_DIGITS = 8
WORKING_MEMORY = (1 << 25) - (1 << 16)
"""glibc hands freed memory back to the system, page by page, until a block of about this size was once freed; every
slice would then pay for its pages anew, half of all its time."""
_LAST = np.array([(0xFFFFFFFFFFFFFFFF << max(0, 64 - 8 * n)) & 0xFFFFFFFFFFFFFFFF for n in range(17)], dtype=np.uint64)
_ZEROS, _ONES, _TOPS = (np.uint64(0x0101010101010101 * b) for b in (0x30, 0x01, 0x80))
_DOT, _BYTE = np.uint64(ord(".") ^ ord("0")), np.uint64(0xFF)
_NINES = np.uint64(0x7676767676767676)
_POWERS = np.array([10.0**k for k in range(17)])


def keep_memory() -> None:
    """Lets this process keep what it frees, up to WORKING_MEMORY a block."""
    np.empty(WORKING_MEMORY, dtype=np.uint8)  # freed at once


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines of columns: the bytes, PAD to spare before and behind; where each line begins; where each column ends
    (columns x lines); what stands between columns."""

    data: Bytes
    first: Ints
    ends: Ints
    blank: str


def plain_columns(padded: bytes | memoryview, width: int) -> Lines | None:
    """Where the columns of whole lines stand, PAD bytes of anything before and behind them; None unless each line has
    `width` columns of printable ASCII, one blank (or one tab) between them, and neither it nor column 3 begins with #.
    """
    data = np.frombuffer(padded, dtype=np.uint8)
    text = data[PAD:-PAD]
    # One subtraction finds all but 33 to 126: blanks, line ends, control characters, DEL and what isn't ASCII.
    mark = (text - np.uint8(33)) > 93
    marks = np.flatnonzero(mark)
    if not len(marks) or len(marks) % width or mark[0] or (mark[1:] & mark[:-1]).any():
        return None
    marks += PAD
    ends = np.ascontiguousarray(marks.reshape(-1, width).T)
    blank = int(data[ends[0, 0]])
    # With every last mark a line end and as many blanks as there are other marks, each line has its columns.
    blanks = (width - 1) * ends.shape[1]
    if (data[ends[-1]] != 10).any() or blank not in b" \t" or np.count_nonzero(text == blank) != blanks:
        return None
    first = np.empty_like(ends[0])
    first[0], first[1:] = PAD, ends[-1, :-1] + 1
    if len(data) > LINE_LIMIT and (ends[-1] - first).max() > LINE_LIMIT:
        return None
    if (text == ord("#")).any() and ((data[first] == ord("#")).any() or (data[ends[1] + 1] == ord("#")).any()):
        return None
    return Lines(data, first, ends, chr(blank))


def trec_rows(padded: bytes | memoryview) -> tuple[Rows, int] | None:
    """The rows of whole lines, PAD bytes of anything before and behind them, and how many of them had something else
    than Q0 in column 2; None where a line is not plain."""
    split = plain_columns(padded, COLUMNS)
    if split is None:
        return None
    data, first, ends, blank = split.data, split.first, split.ends, split.blank
    second, third, fifth = ends[0] + 1, ends[1] + 1, ends[3] + 1
    loads = loads_of(data)
    queries, chunks = ids_at(data, first, ends[0] - first), ids_at(data, third, ends[2] - third)
    given = whole_numbers(loads, ends[3], ends[3] - ends[2] - 1)
    if queries is None or chunks is None or given is None:
        return None
    score = _decimals(data, loads, fifth, ends[4])
    if score is None:
        score = _floats(bytes(padded[PAD:-PAD]), blank)
    if score is None or len(score) != len(given):
        return None
    q0 = (data[second] == ord("Q")) & (data[second + 1] == ord("0")) & (ends[1] - second == 2)
    not_q0 = len(q0) - np.count_nonzero(q0)
    return Rows(queries, chunks, score, given), int(not_q0)


def whole_numbers(loads: Words, end: Ints, length: Ints) -> Ints | None:
    """Numbers of `length` digits that stand before `end`; None where one has more than eight, or another character."""
    if length.max() > RANK_DIGITS:
        return None
    digits = _keep_last(loads[end - 8] ^ _ZEROS, length)
    return None if _not_digits(digits) else _eight_digits(digits).view(np.int64)


def _decimals(data: Bytes, loads: Words, start: Ints, end: Ints) -> Floats | None:
    """Numbers of at most 16 characters with at most one point, correctly rounded: 15 digits and a point are one
    division of two exact floats (Clinger, 1990), 16 digits one rounding.

    None where one is longer, begins with a plus or has an exponent: those are for a reader that knows them.
    """
    minus = data[start] == ord("-")
    length = end - start
    if minus.any():
        length -= minus
    longest = int(length.max())
    if longest > 16 or length.min() < 1:
        return None
    # The last eight characters, and the eight before them: digits end at the top byte, zeros fill up from below.
    last, dot, places = _without_dot(_keep_last(loads[end - 8] ^ _ZEROS, length))
    if longest > 8:
        front = loads[np.maximum(end - 16, 0)] ^ _ZEROS
        front = np.where(length > 8, _keep_last(front, np.maximum(length - 8, 1)), np.uint64(0))
        # A point among the last eight made room for one character more.
        last = np.where(dot, last | (front >> np.uint64(56)), last)
        front, dot_in_front, places_in_front = _without_dot(np.where(dot, front << np.uint64(8), front))
        if (dot & dot_in_front).any() or _not_digits(front):
            return None
        places = np.where(dot_in_front, places_in_front + 8, places)
        dot = dot | dot_in_front
    if _not_digits(last) or (length <= dot).any():
        return None
    digits = _eight_digits(last)
    if longest > 8:
        digits += _eight_digits(front) * np.uint64(10**8)
    value: Floats = digits.astype(np.float64) / _POWERS[places]
    return np.where(minus, -value, value) if minus.any() else value


def _floats(lines: bytes, blank: str) -> Floats | None:
    names: dict[str, Any] = {f"c{k}": pl.String for k in range(COLUMNS)} | {"c4": pl.Float64}
    try:
        scan = pl.scan_csv(lines, separator=blank, has_header=False, quote_char=None, schema=names)
        score = scan.select("c4").collect()["c4"]
    except pl.exceptions.PolarsError:
        return None
    return None if score.null_count() else score.to_numpy()


def _keep_last(words: Words, count: Ints) -> Words:
    """The last `count` bytes of each word (up to 16; all from 8 on), zeros before them."""
    kept: Words = words & _LAST[count]
    return kept


def _not_digits(words: Words) -> bool:
    return bool((((words + _NINES) | words) & _TOPS).any())


def _without_dot(words: Words) -> tuple[Words, Flags | np.bool_, Ints | np.int64]:
    """Words (bytes ^ "0") whose first point is taken out, what stood before it moved up; whether there was one; and how
    many characters stood behind it. Where all have their point at one place, that place alone is told."""
    dot, before, places = _dots(words[:1])
    if dot[0] and (((words >> (np.uint64(56) - np.uint64(8) * places.view(np.uint64))) & _BYTE) == _DOT).all():
        dot, before, places = dot[0], before[0], places[0]
    else:
        dot, before, places = _dots(words)
    behind = (before << np.uint64(8)) | _BYTE
    kept = ((words & before) << np.uint64(8)) | (words & ~behind)
    return kept if dot.all() else np.where(dot, kept, words), dot, places


def _dots(words: Words) -> tuple[Flags, Words, Ints]:
    """Whether there is a point, the bits of the bytes before the first, and the number of bytes behind it."""
    apart = words ^ (_DOT * _ONES)
    found = (apart - _ONES) & ~apart & _TOPS  # the lowest bit set is the first point; those above it may be false
    dot = found > 0
    below = np.where(dot, (found & (~found + np.uint64(1))) - np.uint64(1), np.uint64(0))
    return dot, below >> np.uint64(7), np.where(dot, 7 - (np.bitwise_count(below).astype(np.int64) >> 3), 0)


def _eight_digits(words: Words) -> Words:
    """The number that eight bytes of 0 to 9 are, the first digit in the lowest byte."""
    low, high = np.uint64(0x000000FF000000FF), np.uint64(16)
    pairs = words * np.uint64(10) + (words >> np.uint64(8))
    four = (pairs & low) * np.uint64(0x000F424000000064) + ((pairs >> high) & low) * np.uint64(0x0000271000000001)
    eight: Words = four >> np.uint64(32)
    return eight
