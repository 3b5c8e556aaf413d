"""The arrays under the fast reader: scores and ranks from bytes, ids as words, slices of whole queries."""

from __future__ import annotations

import gc
import random
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.io.readers.keys import Judgments, read_judgments
from relgrade_assets.io.readers.plain_qrels import plain_qrels
from relgrade_assets.io.readers.qrels import read_qrels
from relgrade_assets.io.readers.short_ids import SHORT, short_ids
from relgrade_assets.io.readers.sieve import whole_queries
from relgrade_assets.io.readers.trec_bytes import trec_rows
from relgrade_assets.methods import id_words
from relgrade_assets.methods.id_words import (
    LONGEST,
    PAD,
    ROUNDS,
    Ids,
    ids_at,
    joined,
    numbered,
    pair_hashes,
    some_equal,
)
from relgrade_assets.methods.kept_rows import Judged, Rows, column_ids, judged_of, sift


def ids_of(names: list[str]) -> Ids:
    ids = column_ids(pl.Series(names, dtype=pl.String))
    assert ids is not None
    return ids


def rows_of(text: str) -> Rows | None:
    read = trec_rows(bytes(PAD) + text.encode() + bytes(PAD))
    return None if read is None else read[0]


def scores_of(scores: list[str]) -> list[float] | None:
    rows = rows_of("".join(f"q Q0 c{i} {i} {s} t\n" for i, s in enumerate(scores)))
    return None if rows is None else rows.score.tolist()


def test_scores_to_the_last_bit_against_python() -> None:
    """Every length and place of the point that is divided here, alone and among others, and those left to Polars."""
    rng = random.Random(5)  # noqa: S311
    made = []
    for digits in range(1, 19):
        for behind in range(digits + 1):
            number = str(rng.randrange(10 ** (digits - 1), 10**digits))
            before, after = number[: digits - behind], number[digits - behind :]
            made += [f"{sign}{before or '0'}{'.' if after else ''}{after}" for sign in ("", "-")]
    made += ["0", "-0", "0.0", "00012.50", "9007199254740992", "9007199254740993", "999999999999999", "1e5", "+1", "5."]
    made += [".5", "-.5", "1E-3", "0.1", "0.30000000000000004", "1.7976931348623157e308", "4.9e-324", "12.345678"]
    made += ["9999999999999999", "-9999999999999999"]
    for score in made:
        assert scores_of([score]) == [float(score)], score
    for size in (2, 5, 40):
        for _ in range(60):
            some = rng.choices(made, k=size)
            assert scores_of(some) == [float(s) for s in some], some
    short = [s for s in made if len(s) < 9 and s[0] not in "+." and "e" not in s.lower()]
    assert scores_of(short) == [float(s) for s in short]


@pytest.mark.parametrize(
    "score",
    [
        "",
        ".",
        "-",
        "-.",
        "--1",
        "1.2.3",
        "1.234567.8",
        "1.2345678.9",
        "12345678.1.",
        "1,5",
        "1_0",
        "0x1",
        "nan5",
        "1e",
        "٣",
    ],
)
def test_no_score_that_is_no_number(score: str) -> None:
    assert scores_of(["1.5", score]) is None
    assert scores_of([score]) is None


@pytest.mark.parametrize("rank", ["1.0", "+1", "-1", "a", "123456789", ""])
def test_ranks_are_up_to_eight_digits(rank: str) -> None:
    assert rows_of(f"q Q0 c {rank} 1.0 t\n") is None
    good = rows_of("q Q0 c 0 1 t\nq Q0 d 12345678 1 t\nq Q0 e 007 1 t\n")
    assert good is not None and good.given is not None and good.given.tolist() == [0, 12345678, 7]


def test_ids_are_told_apart_by_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{'x' * n}{end}" for n in range(40) for end in ("", "a", "b") if n or end]
    rng = random.Random(6)  # noqa: S311
    order = rng.sample(names, len(names))
    ids = ids_of(order)
    assert [t.decode() for t in ids.text().tolist()] == order
    keys = ids.descending()
    assert [order[i] for i in np.lexsort(keys[::-1])] == sorted(order, reverse=True)
    hashes = pair_hashes(ids, ids)
    assert len(set(hashes.tolist())) == len(names)
    alone = [int(pair_hashes(ids_of([n]), ids_of([n]))[0]) for n in order]
    assert alone == hashes.tolist(), "a hash depends on the ids beside it"
    assert pair_hashes(ids_of(["ab"]), ids_of(["c"])) != pair_hashes(ids_of(["a"]), ids_of(["bc"]))
    twice = joined([ids, ids_of(["a"]), ids])
    number, firsts = numbered(twice)
    assert len(set(number.tolist())) == len(names) == len(firsts)
    texts = [t.decode() for t in twice.text().tolist()]
    monkeypatch.setattr(id_words, "ROUNDS", 1)  # what rounds of hashing leave is sorted
    monkeypatch.setattr(id_words, "_slots", lambda hashes, round, bits: np.zeros(len(hashes), dtype=np.int64))
    slowly, slow_firsts = numbered(twice)
    assert [texts[slow_firsts[n]] for n in slowly] == texts and len(slow_firsts) == len(names)
    assert [texts[firsts[n]] for n in number] == texts
    assert ids.equal(ids_of(order[::-1])).tolist() == [a == b for a, b in zip(order, order[::-1], strict=True)]
    assert ids_of(["a", "a", "b", "a"]).like_before().tolist() == [False, True, False, False]


def test_long_ids_are_left_to_the_slower_reader() -> None:
    data = np.frombuffer(bytes(PAD) + b"x" * (LONGEST + 1) + bytes(PAD), dtype=np.uint8)
    assert ids_at(data, np.array([PAD]), np.array([LONGEST])) is not None
    assert ids_at(data, np.array([PAD]), np.array([LONGEST + 1])) is None


def test_equal_hashes_are_found_wherever_they_stand() -> None:
    draw = np.random.default_rng(7)
    for size in (0, 1, 2, 3, 50, 3000):
        hashes = draw.integers(0, 1 << 63, size) if size < 3000 else draw.permutation(size)
        hashes = np.asarray(hashes, dtype=np.uint64)
        assert not some_equal(hashes)
        for _ in range(20 if size > 1 else 0):
            again = hashes.copy()
            one, other = draw.choice(size, 2, replace=False)
            again[one] = again[other]
            assert some_equal(again)
    crowded = np.arange(4000, dtype=np.uint64)  # all in one slot, round after round
    assert not some_equal(crowded) and some_equal(np.append(crowded, np.uint64(17))) and ROUNDS > 2


def test_slices_end_where_the_query_changes() -> None:
    rng = random.Random(8)  # noqa: S311
    for _ in range(300):
        lines = []
        for query in range(rng.randrange(1, 12)):
            lines += [f"q{query}{rng.choice([' ', chr(9)])}Q0 c{i} 1 1 t" for i in range(rng.choice([1, 2, 9, 40]))]
        text = "\n".join(lines).encode() + b"\n" * rng.randrange(2)
        pieces = [bytes(p[PAD:-PAD]) for p in whole_queries(BytesIO(text), rng.choice([16, 64, 300, 5000]))]
        assert b"".join(pieces) == text.rstrip(b"\n") + b"\n"
        ends = [(a.split(b"\n")[-2].split()[0], b.split()[0]) for a, b in pairwise(pieces)]
        assert all(a != b for a, b in ends) and all(p.endswith(b"\n") for p in pieces)
    assert list(whole_queries(BytesIO(b""))) == []


def test_ranks_may_be_in_any_order_within_tied_scores_alone() -> None:
    judged = judged_of(pl.DataFrame({"query_id": ["q"], "chunk_id": ["b"], "grade": [1]}))
    assert judged is not None
    text = "q Q0 a 2 9 t\nq Q0 c 1 9 t\nq Q0 b 3 9 t\nq Q0 d {} 8 t\nq Q0 e {} 7 t\n"
    for fourth, fifth, taken in ((4, 5, True), (4, 4, False), (5, 4, False), (3, 5, False), (2, 9, False)):
        rows = rows_of(text.format(fourth, fifth))
        assert rows is not None
        sifted = sift(rows, judged)
        assert (sifted is not None) == taken, (fourth, fifth)
        if sifted is not None:  # c, b, a: chunk ids descending within the tie
            assert sifted.rank.tolist() == [2] and sifted.tied == 3


@pytest.mark.parametrize("odd", [[None, "a"], ["a", ""], ["a", "x" * 257]])
def test_columns_of_ids_that_are_null_empty_or_long_are_not_taken(odd: list[str | None]) -> None:
    assert column_ids(pl.Series(odd, dtype=pl.String)) is None


@pytest.mark.parametrize(
    ("ids", "taken"),
    [
        (["a b", "a#"], True),
        (["a", " b"], False),
        (["a", "#b"], False),
        (["a", "b\n"], False),
        (["a", "\u00e9"], False),
    ],
)
def test_plain_columns_of_ids_begin_neither_with_a_blank_nor_a_number_sign(ids: list[str], taken: bool) -> None:
    column = pl.Series(ids, dtype=pl.String)
    assert (column_ids(column, plain=True) is not None) is taken and column_ids(column) is not None


ODD = st.sampled_from(["12345678", "x" * 12, "x" * 13, "\u00e9", "a\0b", "\x7f", "#a", "a#"])
ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=14)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(ASCII, st.sampled_from(["12345678", "x" * 12, "x" * 13, "\u00e9", "a\0b", "\x7f", "#a", "a#"])))
)
def test_short_ids_are_those_that_are_read_byte_by_byte(ids: list[str]) -> None:
    """From Arrow's views: nothing that is not plain, empty or over twelve bytes is taken, and all else is."""
    column = pl.Series(ids, dtype=pl.String)
    found, due = short_ids(column), column_ids(column, plain=True)
    fit = bool(ids) and all(0 < len(name.encode()) <= SHORT and " " not in name for name in ids) and due is not None
    assert (found is not None) is fit
    if found is not None and due is not None:
        assert found.text().tolist() == due.text().tolist() and len(found.words) == len(due.words)


def test_short_ids_of_slices_and_of_many_chunks() -> None:
    """A slice begins within Arrow's buffer; chunks may need different widths; nothing of Polars is held afterwards."""
    whole = pl.Series([f"id-{i}" for i in range(1000)])
    parts = [whole[7:300], pl.Series(["twelve-bytes"] * 3), whole[990:], whole[:0]]
    column = pl.concat(parts, rechunk=False)
    assert column.n_chunks() > 2
    found, due = short_ids(column), column.to_list()
    del column, parts, whole
    gc.collect()
    assert found is not None and [name.decode() for name in found.text().tolist()] == due
    assert short_ids(pl.Series([None, "a"], dtype=pl.String)) is None
    assert short_ids(pl.Series([1, 2])) is None


# judgments


def qrels_text(pairs: list[tuple[str, str]], blank: str = " ", judge: str = "0") -> str:
    return "".join(f"{q}{blank}{judge}{blank}{c}{blank}{i % 4}\n" for i, (q, c) in enumerate(pairs))


PAIRS = [(f"q{i % 7}" * (1 + i % 3), f"c{i:0{1 + i % 20}d}") for i in range(400)]


@pytest.mark.parametrize("blank", [" ", "\t"])
@pytest.mark.parametrize("pairs", [sorted(PAIRS), PAIRS, PAIRS[:1]], ids=["blocks", "scattered", "one"])
def test_plain_qrels_are_what_the_reader_that_explains_reads(
    tmp_path: Path, pairs: list[tuple[str, str]], blank: str
) -> None:
    """The rows and their order; what is looked up in them; without a line end at the end too."""
    path, text = tmp_path / "qrels", qrels_text(pairs, blank)
    due = read_qrels(_written(path, text), name="qrels").frame.select("query_id", "chunk_id", "grade")
    for said in (text, text[:-1]):
        read = read_judgments(_written(path, said), name="qrels")
        assert plain_qrels(said.encode()) is not None and read.frame.equals(due)
        assert read.grades.equals(due.select("query_id", "grade"))
        assert read.query_ids == sorted(set(due["query_id"]))
        slow = Judgments(due)
        assert slow.query_ids == read.query_ids and slow.grades.equals(read.grades)
        mine, theirs = read.judged, slow.judged
        assert mine is not None and theirs is not None and mine.blocks == theirs.blocks
        assert np.array_equal(mine.hashes, theirs.hashes) and np.array_equal(mine.rows, theirs.rows)


@pytest.mark.parametrize(
    "line",
    [
        "q 0 x -1",
        "q 0 x +1",
        "q 0 x 1.0",
        "q 0 x 123456789",
        "q 0 x",
        "q 0 x 1 1",
        "q  0 x 1",
        " q 0 x 1",
        "q 0 x 1 ",
        "q\t0 x 1",
        "#q 0 x 1",
        "q 0 #x 1",
        "",
        "q 1 x 1",
        "q0 0 c0 1",
        "q\u00e9 0 x 1",
        "q 0 x\x7f 1",
        "q 0 x 1\r",
        f"q 0 {'x' * 257} 1",
    ],
)
def test_other_lines_of_qrels_are_left_to_the_reader_that_explains(line: str) -> None:
    """A grade below 0, another judge, a pair again, a blank too many: one such line amid plain ones."""
    text = qrels_text([("q0", "c0"), ("q1", "c1")])
    assert plain_qrels(text.encode()) is not None
    assert plain_qrels(f"{text}{line}\n{qrels_text([('q2', 'c2')])}".encode()) is None


def test_what_was_mended_in_plain_qrels_is_told_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    path.write_bytes(b"\xef\xbb\xbf" + qrels_text(PAIRS).replace("\n", "\r\n").encode())
    read, due = read_judgments(path, name="qrels"), read_qrels(path, name="qrels")
    assert read.notices == due.notices and {n.code for n in read.notices} == {"byte_order_mark", "crlf"}
    assert isinstance(read.rows, Judged) and read.frame.equals(due.frame.select("query_id", "chunk_id", "grade"))


def test_qrels_of_many_pieces_of_which_one_is_odd() -> None:
    """Pieces go through threads; the order stays, and one odd line anywhere is seen."""
    pairs = [(f"query-{i // 50}", f"chunk-{i}") for i in range(120_000)]
    text = qrels_text(pairs).encode()
    assert len(text) > 3 << 20
    read = plain_qrels(text)
    assert read is not None and read.pairs().select("query_id", "chunk_id").rows() == pairs
    assert plain_qrels(text.replace(b"chunk-119000 ", b"chunk-119000  ")) is None


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
