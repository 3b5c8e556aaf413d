"""Broken runs (P15, formats.md): each is refused in words, with nothing changed on disk and no traceback."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from broken import (
    Broken,
    both,
    design,
    every_line,
    file,
    line,
    link,
    refused_in_words,
    score,
    write,
)


def bomb(top: Path) -> None:
    design("runs/old.trec", "runs/old.trec.gz")(top)
    file(top, "runs/old.trec.gz").write_bytes(gzip.compress(b"a" * (70 << 20)))


ALL = [
    Broken(
        "scores that are none",
        both(*(line("runs/old.trec", n, score(s)) for n, s in ((2, "NaN"), (3, "inf"), (4, "high"), (5, "0,7")))),
        ("4 faults", "line 2, column 5 (score): found 'NaN'", "line 3", "line 4", "'0,7'", "a finite number"),
    ),
    Broken(
        "reversed ranks",
        every_line("runs/old.trec", lambda i, c: [*c[:4], c[3], c[5]]),
        ("runs/old.trec", "ranks that follow the scores", "score_order: ascending"),
    ),
    Broken(
        "constant scores",
        every_line("runs/old.trec", lambda i, c: [*c[:4], "1.0", c[5]]),
        ("the same score, 1, on every line", "order: as_listed"),
    ),
    Broken(
        "five columns",
        line("runs/old.trec", 7, lambda t: t.rsplit(" ", 1)[0]),
        ("runs/old.trec, line 7", "5 columns", "6 columns: query id, Q0"),
    ),
    Broken(
        "seven columns",
        line("runs/old.trec", 7, lambda t: t + " extra"),
        ("runs/old.trec, line 7", "7 columns", "Ids hold no blanks"),
    ),
    Broken(
        "a chunk twice",
        line("runs/old.trec", 2, lambda t: t.replace(" c06 ", " c01 ")),
        ("line 2", "'c01' again", "first on line 1", "keep_first"),
    ),
    Broken(
        "run of another set",
        every_line("runs/old.trec", lambda i, c: [f"q{i // 6:03}x", *c[1:]]),
        ("answers none of the set's 12 queries", "arm old", "ids such as"),
    ),
    Broken(
        "run of few queries",
        lambda top: file(top, "runs/old.trec").write_text(
            "".join(file(top, "runs/old.trec").read_text().splitlines(True)[:12])
        ),
        ("the arm old did not run", "results for 2 of 12 queries", "at least half", "missing_arm"),
    ),
    Broken(
        "chunks of another corpus",
        every_line("runs/old.trec", lambda i, c: [c[0], c[1], c[2] + "x" * (i % 9 == 0), *c[3:]]),
        ("runs/old.trec", "chunks that the corpus doesn't have", "at most 1%", "different versions"),
    ),
    Broken(
        "a Unicode blank in an id",
        line("runs/old.trec", 1, lambda t: t.replace(" c01 ", " c\u00a001 ")),
        ("runs/old.trec, line 1, chunk_id", "Rename it"),
    ),
    Broken(
        "a column named otherwise",
        both(design("runs/old.trec}", "runs/old.csv}"), write("runs/old.csv", "query,chunk_id,score\nq,c,1\n")),
        ("runs/old.csv, line 1", "a column 'query_id'", "Nearest"),
    ),
    Broken(
        "not Parquet",
        both(design("runs/old.trec}", "runs/old.parquet}"), write("runs/old.parquet", "PAR1 no more")),
        ("runs/old.parquet", "not Parquet", "Write the file again"),
    ),
    Broken("gzip bomb", bomb, ("runs/old.trec.gz", "more than 250 times as much", "Unpack it by hand if you trust it")),
    Broken(
        "no gzip",
        both(design("runs/old.trec}", "runs/old.trec.gz}"), write("runs/old.trec.gz", "q Q0 c 1 1 t")),
        ("not gzip", "rename it"),
    ),
    Broken(
        "gzip by another name",
        write("runs/old.trec", gzip.compress(b"q Q0 c 1 1 t\n", mtime=0)),
        ("runs/old.trec, line 1", "end in .gz"),
    ),
    Broken(
        "line of a million",
        line("runs/old.trec", 3, lambda t: "x" * 1_000_000),
        ("runs/old.trec, line 3", "1 columns", "6 columns", "xxx..."),
    ),
    Broken(
        "endless line",
        line("runs/old.trec", 3, lambda t: "x" * (17 << 20)),
        ("runs/old.trec, line", "16777216 bytes", "shorter lines"),
    ),
    Broken("link out", link("runs/old.trec", "/etc/hostname"), ("runs/old.trec", "leads outside", "a file inside")),
    Broken(
        "link out in a folder of the corpus",
        both(
            design("corpus.jsonl", "corpus"),
            lambda top: file(top, "corpus").mkdir(),
            link("corpus/a.jsonl", "/etc/hostname"),
        ),
        ("corpus/a.jsonl", "leads out of its folder", "Copy the file in"),
    ),
    Broken("a loop of links", both(link("runs/old.trec", "old.trec")), ("runs/old.trec",)),
    Broken(
        "a folder for a run",
        lambda top: (file(top, "runs/old.trec").unlink(), file(top, "runs/old.trec").mkdir()),
        ("runs/old.trec", "found a folder", "Name a file in it"),
    ),
    Broken(
        "a pipe for a run",
        lambda top: (file(top, "runs/old.trec").unlink(), os.mkfifo(file(top, "runs/old.trec"))),
        ("runs/old.trec", "a device, pipe or socket"),
    ),
]


@pytest.mark.parametrize("broken", ALL, ids=repr)
def test_a_broken_experiment_is_refused_in_words(broken: Broken, tmp_path: Path) -> None:
    refused_in_words(broken, tmp_path / "top")
