"""Parquet that is broken so that Polars panics: refused in our words, and none of Rust's on standard error."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import polars as pl
import pytest
from driving import relgrade

from relgrade_assets.errors import Refused
from relgrade_assets.io.frames import Label, read_table, write_table
from relgrade_assets.io.leaks import leak_check
from relgrade_assets.io.parquet import BROKEN, read_parquet, unspoken
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.io.readers.sieve import sift_run
from relgrade_assets.methods.kept_rows import judged_of

RUN = pl.DataFrame({"query_id": ["q1", "q1", "q2"], "chunk_id": ["a", "b", "a"], "score": [3.0, 2.0, 1.0]})


ROWS = 40
FOUND = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}


def in_row_groups(path: Path) -> bytes:
    """ROWS rows in four row groups."""
    columns = {"query_id": [f"q{i // 10}" for i in range(ROWS)], "chunk_id": [f"c{i}" for i in range(ROWS)]}
    pl.DataFrame({**columns, "score": [float(ROWS - i) for i in range(ROWS)]}).write_parquet(path, row_group_size=10)
    return path.read_bytes()


def panicking(path: Path) -> bytes:
    """A run whose bytes are spoilt so that Polars panics."""
    RUN.write_parquet(path)
    whole = path.read_bytes()
    for seed in range(2_000):
        draw, spoilt = random.Random(seed), bytearray(whole)  # noqa: S311
        for _ in range(draw.choice([1, 2, 3])):
            spoilt[draw.randrange(len(spoilt))] = draw.randrange(256)
        try:
            read_parquet(bytes(spoilt))
        except pl.exceptions.PanicException:
            path.write_bytes(spoilt)
            return bytes(spoilt)
        except BROKEN:
            continue
    raise AssertionError("no spoilt file made Polars panic")


def test_a_file_that_makes_polars_panic_is_refused_without_its_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By a reader, as a table of ours, in a search for private text; and by the command, all that it says."""
    spoilt = panicking(tmp_path / "a.parquet")
    with pytest.raises(Refused, match="bytes that are not Parquet"):
        read_run(tmp_path / "a.parquet", name="a.parquet")
    assert [f.where for f in leak_check({"a.parquet": spoilt}, ["a private question"])] == ["a.parquet"]
    write_table(tmp_path / "t.parquet", RUN, Label("t", 1, "", {}, ""))
    (tmp_path / "t.parquet").write_bytes(spoilt)
    with pytest.raises(Refused):
        read_table(tmp_path / "t.parquet")
    assert capfd.readouterr() == ("", "")
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 a 1\n")
    ran = relgrade(tmp_path, "score", "qrels", "a.parquet")
    assert ran.returncode == 2 and "a.parquet" in ran.stderr
    assert "panicked" not in ran.stderr and "backtrace" not in ran.stderr


def test_what_is_said_while_a_file_is_read_is_said_after_it(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is lost of a file that can be read, also where many are read at once."""
    together = Barrier(4)

    def read(n: int) -> None:
        with unspoken("a"):
            together.wait(10)
            os.write(2, f"word {n}\n".encode())
            together.wait(10)

    with unspoken("a"):
        os.write(2, b"held\n")
        assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == "held\n"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))
    assert sorted(capfd.readouterr().err.split()) == sorted(["word", "0", "word", "1", "word", "2", "word", "3"])
    with pytest.raises(pl.exceptions.PolarsError), unspoken("a"):
        os.write(2, b"thread panicked\n")
        raise pl.exceptions.ComputeError("broken")
    assert capfd.readouterr().err == ""
    with unspoken("a"):
        os.write(2, b"heard again\n")
    assert capfd.readouterr().err == "heard again\n"


@pytest.mark.parametrize("seed", [1480])
def test_a_file_over_which_polars_ends_the_process_is_named(tmp_path: Path, seed: int) -> None:
    """A byte changed makes Polars ask for 2^61 bytes and abort, which nothing in Python can catch."""
    whole, path = in_row_groups(tmp_path / "a.parquet"), tmp_path / "a.parquet"
    draw, spoilt = random.Random(seed), bytearray(whole)  # noqa: S311
    spoilt[draw.randrange(4, len(spoilt) * 2 // 3)] = draw.randrange(256)
    path.write_bytes(spoilt)
    (tmp_path / "qrels").write_text("q0 0 c1 1\nq1 0 c11 1\n")
    for _ in range(3):
        ran = relgrade(tmp_path, "score", "qrels", "a.parquet")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert (
            ran.stderr.startswith("a.parquet can't be read: 1 fault.\n  a.parquet: ") and "panicked" not in ran.stderr
        )


def test_an_abort_elsewhere_stays_an_abort(tmp_path: Path) -> None:
    """Once a file is read, nobody stands between."""
    RUN.write_parquet(tmp_path / "a.parquet")
    code = "import os; from relgrade_assets.io.parquet import *; read_parquet(Path('a.parquet')); os.abort()"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=FOUND, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGABRT


def test_a_process_without_standard_error_reads_all_the_same(tmp_path: Path) -> None:
    RUN.write_parquet(tmp_path / "a.parquet")
    saved = os.dup(2)
    try:
        os.close(2)
        assert read_parquet(tmp_path / "a.parquet").equals(RUN)
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def test_a_run_of_which_a_part_is_broken_is_never_taken_for_a_shorter_one(tmp_path: Path) -> None:
    """Batches end without a word where Polars panics in a later row group; the fast reader must not take what came. Nor
    must either where a row group says less than the file."""
    path, early = tmp_path / "a.parquet", 0
    whole = in_row_groups(path)
    judged = judged_of(pl.read_parquet(path).select("query_id", "chunk_id", grade=pl.lit(1, pl.Int64)))
    for seed in range(400):
        draw, spoilt = random.Random(seed), bytearray(whole)  # noqa: S311
        spoilt[draw.randrange(4, len(spoilt))] = draw.randrange(256)
        path.write_bytes(spoilt)
        taken = sift_run(path, name="a.parquet", judged=judged)
        assert taken is None or taken[0].rows == ROWS, seed
        early += taken is None
        if taken is None and (early < 40 or seed == 252):
            with pytest.raises(Refused, match=r"a\.parquet"):
                read_run(path, name="a.parquet")
    assert early > 100
