"""Every reader against one written a second time, on spoilt files (P15, P20, P25): a refusal that names file and line,
or the same rows. And what fuzzing found, case by case. `fuzzing.py` has the million.
"""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from fuzzing import NAME, ORACLES, SUBJECTS, run
from spoiling import SEEDS, TREC

from relgrade_assets.errors import Refused
from relgrade_assets.io.readers import sieve
from relgrade_assets.io.readers.keys import Judgments, read_judgments
from relgrade_assets.io.readers.qrels import read_qrels
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.io.scoring import read_hits


def told(inputs: int) -> None:
    fuzz = run(inputs)
    print(
        {kind: fuzz.inputs[kind] for kind in SUBJECTS}, "files", fuzz.files.total(), "accepted", fuzz.accepted.total()
    )
    assert not fuzz.found, {name: (more, data[:400]) for name, (more, data) in fuzz.found.items()}
    assert fuzz.inputs.total() >= inputs and all(fuzz.inputs[kind] for kind in SUBJECTS)
    assert all(fuzz.accepted[kind] for kind in ORACLES if kind not in ("key", "gz", "zst")), fuzz.accepted


def test_readers_against_naive_ones_on_spoilt_files() -> None:
    told(6_000)


@pytest.mark.full
def test_readers_against_naive_ones_a_million_times() -> None:
    """The figure of docs/reliability.md."""
    told(int(os.environ.get("RELGRADE_FUZZ_INPUTS", "1000000")))


@pytest.mark.parametrize("kind", sorted(ORACLES))
def test_the_naive_readers_take_every_seed_that_is_right(tmp_path: Path, kind: str) -> None:
    """The seeds are read, and to the same rows: what is compared is not two refusals."""
    file, read = SUBJECTS[kind]
    for seed in SEEDS[kind]:
        (tmp_path / file).write_bytes(seed)
        naive = ORACLES[kind](seed)
        assert naive.fine and naive.rows == read(tmp_path / file)


# found by fuzzing


@pytest.mark.parametrize("blank", ["\f", "\v", "\r"])
@pytest.mark.parametrize("column", range(6))
def test_another_blank_anywhere_in_a_line_of_columns_is_refused(tmp_path: Path, blank: str, column: int) -> None:
    """A form feed in column 2 or the tag was taken as part of it; trec_eval splits there."""
    cells = ["q1", "Q0", "a", "1", "2.5", "tag"]
    cells[column] = cells[column][:1] + blank + cells[column][1:]
    path = tmp_path / "f"
    path.write_text(f"q1 Q0 b 2 1.5 tag\n{' '.join(cells)} \n", newline="")
    with pytest.raises(Refused, match=f"{NAME}, line 2"):
        read_run(path, name=NAME)
    if column < 4:
        path.write_text(f"q1 0 b 2\n{' '.join([*cells[:3], '1' if column < 3 else cells[3]])} \n", newline="")
        with pytest.raises(Refused, match=f"{NAME}, line 2"):
            read_qrels(path, name=NAME)


def test_blanks_of_comments_are_let_be(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"# a\x0cb\r\n" + TREC.replace(b"# said", b"# s\x0baid"))
    assert read_run(tmp_path / "f", name=NAME).frame.height == 5


@pytest.mark.parametrize(
    "line",
    [
        b'{"query_id":' + b"[" * 3000,
        b"[[1]]",
        b'{"query_id":"q","chunk_id":"a","grade":1}\r',
        b'{"query_id":"\\u0071","chunk_id":"a","grade":1}',
        b'{"query_id":"q","chunk_id":"a\\/b","grade":1}',
        b'{"query_id":"q","chunk_id":"a","grade":-0}',
        b'{"query_id":"q","chunk_id":"a","grade":' + b"9" * 5000 + b"}",
        b'{"query_id":"\\ud800","chunk_id":"a","grade":1}',
    ],
)
def test_p33_a_key_is_spelled_in_one_way_alone(tmp_path: Path, line: bytes) -> None:
    """Nesting ended in a traceback; carriage returns and escapes were taken, though the key's hash is another."""
    (tmp_path / "f.jsonl").write_bytes(line + b"\n")
    with pytest.raises(Refused, match=NAME):
        read_judgments(tmp_path / "f.jsonl", name=NAME)


@pytest.mark.parametrize("kind", ["opensearch", "label studio"])
def test_half_of_a_surrogate_pair_in_another_tools_json_is_refused(tmp_path: Path, kind: str) -> None:
    """It ended in a traceback when the table was made."""
    file, read = SUBJECTS[kind]
    for seed in SEEDS[kind]:
        (tmp_path / file).write_bytes(seed.replace(b'"a"', b'"a\\ud800"'))
        with pytest.raises(Refused, match=f"{NAME}: found half of a surrogate pair"):
            read(tmp_path / file)
        (tmp_path / file).write_bytes(seed.replace(b'"a"', b'"a\\ud83c\\udf55"'))
        assert any("a\U0001f355" in row for row in read(tmp_path / file))


def test_a_key_with_characters_that_must_be_escaped_is_taken(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_bytes(b'{"query_id":"q\\"1","chunk_id":"a\\\\b","grade":1}\n')
    assert read_judgments(tmp_path / "f.jsonl", name=NAME).frame.rows() == [('q"1', "a\\b", 1)]


def test_a_panic_of_the_fast_way_is_left_to_the_one_that_explains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken Parquet can make Polars panic, which is no Exception and ended `relgrade score` in a traceback."""

    def panics(*_: object) -> None:
        raise pl.exceptions.PanicException("assertion failed")

    path = tmp_path / "f.run"
    path.write_bytes(TREC)
    qrels = pl.DataFrame({"query_id": ["q1", "q3"], "chunk_id": ["b", "x"], "grade": [1, 0]})
    plain = read_hits([str(path)], Judgments(qrels), partial=True).hits
    monkeypatch.setattr(sieve, "_in_order", panics)
    found = read_hits([str(path)], Judgments(qrels), partial=True).hits
    assert (found.rank.tolist(), found.retrieved.tolist()) == (plain.rank.tolist(), plain.retrieved.tolist())
