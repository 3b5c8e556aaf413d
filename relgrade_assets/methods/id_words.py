"""Many ids at once, as eight-byte words: equality, hashes and byte order without a string each.

An id's bytes stand in words of eight, the last one filled up with zeros; since no id holds a NUL, words and id are one
to one. Arrays only: where the bytes come from is the reader's business, what rows mean is kept_rows.py's. numpy alone:
the fast path imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relgrade_assets.methods.hits import Flags, Ints

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

PAD = 8
"""Bytes to spare that a buffer needs before its first and behind its last id."""
LONGEST = 256
"""Bytes of an id that is taken here."""
_FIRST = np.array([0xFFFFFFFFFFFFFFFF >> max(0, 64 - 8 * n) for n in range(LONGEST + 1)], dtype=np.uint64)
_ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], dtype=np.uint64)
_SHIFT = np.uint64(29)
ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Ids:
    """n ids: `words[k]` holds bytes 8 k to 8 k + 7 of each, zeros behind its end; at least one array."""

    words: tuple[Words, ...]

    def __len__(self) -> int:
        return len(self.words[0])

    def take(self, rows: Ints | Flags) -> Ids:
        """The ids of some rows."""
        return Ids(tuple(word[rows] for word in self.words))

    def repeated(self, times: Ints) -> Ids:
        """Each id that many times in a row."""
        return Ids(tuple(np.repeat(word, times) for word in self.words))

    def text(self) -> npt.NDArray[np.bytes_]:
        """The ids as byte strings."""
        table = np.stack(self.words, axis=1)
        text: npt.NDArray[np.bytes_] = table.view(f"S{8 * len(self.words)}")[:, 0]
        return text

    def like_before(self) -> Flags:
        """Whether each id is the one before; the first is not."""
        like = np.ones(len(self), dtype=np.bool_)
        like[:1] = False
        for word in self.words:
            like[1:] &= word[1:] == word[:-1]
        return like

    def equal(self, other: Ids) -> Flags:
        """Whether each id is the other's of that row."""
        like = np.ones(len(self), dtype=np.bool_)
        for k in range(max(len(self.words), len(other.words))):
            mine, theirs = (ids.words[k] if k < len(ids.words) else np.uint64(0) for ids in (self, other))
            like &= mine == theirs
        return like

    def descending(self) -> list[Words]:
        """Keys that sort the ids by their bytes, last first; the most important key stands first."""
        return [~word.byteswap() for word in self.words]


def ids_at(data: Bytes, start: Ints, length: Ints) -> Ids | None:
    """The ids that stand in `data` from `start` on, `length` bytes each (1 or more); None where one is over LONGEST."""
    longest = int(length.max(initial=1))
    if longest > LONGEST:
        return None
    loads = loads_of(data)
    words = [_first_bytes(loads[start], length)]
    for k in range(1, -(-longest // 8)):
        more = np.flatnonzero(length > 8 * k)
        word = np.zeros(len(start), dtype=np.uint64)
        word[more] = _first_bytes(loads[start[more] + 8 * k], length[more] - 8 * k)
        words.append(word)
    return Ids(tuple(words))


def joined(parts: Sequence[Ids]) -> Ids:
    """The ids of several, one after the other."""
    width = max(len(part.words) for part in parts)
    empty = [np.zeros(len(part), dtype=np.uint64) for part in parts]
    return Ids(
        tuple(
            np.concatenate([p.words[k] if k < len(p.words) else e for p, e in zip(parts, empty, strict=True)])
            for k in range(width)
        )
    )


def loads_of(data: Bytes) -> Words:
    """Eight bytes from every place of `data` on, low byte first; a view, nothing is copied."""
    return np.ndarray(len(data) - 7, dtype="<u8", buffer=data, strides=(1,))


def _first_bytes(words: Words, count: Ints) -> Words:
    """The first `count` bytes of each word (all, where it has more), zeros behind them."""
    kept: Words = words & _FIRST[count]
    return kept


def pair_hashes(queries: Ids, chunks: Ids) -> Words:
    """A hash of each (query, chunk). Equal pairs have equal hashes; whoever finds equal hashes compares the pairs."""
    hashes = np.zeros(len(queries), dtype=np.uint64)
    for ids, odd in zip((queries, chunks), _ODD, strict=True):
        for k, word in enumerate(ids.words):
            mixed = (hashes ^ word) * odd
            mixed ^= mixed >> _SHIFT
            hashes = mixed if k == 0 else np.where(word > 0, mixed, hashes)
    hashes *= _ODD[0]
    return hashes


def _slots(hashes: Words, round: int, bits: int) -> Ints:
    """A slot of 2^bits for each hash, other ones each round."""
    turned = hashes if round == 0 else hashes * np.uint64(2 * round + 1) ^ (hashes >> np.uint64(7 * round % 61))
    slots: Ints = (turned >> np.uint64(64 - bits)).view(np.int64)
    return slots


def some_equal(hashes: Words) -> bool:
    """Whether a hash stands twice. Each round, one row of a slot is compared with the others; those go on."""
    left = hashes
    for round in range(ROUNDS):
        if len(left) < 2:
            return False
        bits = max(10, (4 * len(left)).bit_length())
        slots, rows = _slots(left, round, bits), np.arange(len(left), dtype=np.uint32)
        last = np.empty(1 << bits, dtype=np.uint32)
        last[slots] = rows
        held = last[slots]
        lost = np.flatnonzero(held != rows)
        if (left[held[lost]] == left[lost]).any():
            return True
        left = left[lost]
    left = np.sort(left)
    return bool((left[1:] == left[:-1]).any())


def numbered(ids: Ids) -> tuple[Ints, Ints]:
    """For each row the number of its id, and for each number a row that has it; the numbers in no order."""
    hashes = pair_hashes(ids, ids)
    number = np.empty(len(ids), dtype=np.int64)
    left, firsts, found = np.arange(len(ids)), [np.empty(0, dtype=np.int64)], 0
    bits = min(20, max(10, (4 * len(ids)).bit_length()))
    for round in range(ROUNDS):
        slots = _slots(hashes[left], round, bits)
        last = np.full(1 << bits, -1, dtype=np.int64)
        last[slots] = left
        held = last[slots]
        like = ids.take(left).equal(ids.take(held))
        # All rows of an id share a slot, so it is numbered whole, or waits whole where the slot holds another.
        winners = np.flatnonzero(last >= 0)
        firsts.append(last[winners])
        last[winners] = found + np.arange(len(winners))
        number[left[like]] = last[slots[like]]
        found += len(winners)
        left = left[~like]
        if not len(left):
            return number, np.concatenate(firsts)
    _, first, place = np.unique(ids.take(left).text(), return_index=True, return_inverse=True)
    number[left] = found + place
    return number, np.concatenate([*firsts, left[first]])
