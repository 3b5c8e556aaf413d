"""Fuzzing of the readers: seed files spoilt at random, each read by relgrade and by naive_readers, and compared.

`python relgrade_tests/fuzzing.py INPUTS [SEED [SECONDS]]` runs it at any size; test_readers_million.py runs it small.
An input is a file, or one line of a file of a hundred whose lines were varied or spoilt one by one. What must hold: a
refusal that names the file and every bad line, or the rows that the naive reader finds; never another exception.
"""

from __future__ import annotations

import gzip
import io
import math
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import naive_readers as naive_of
import naive_tools
import polars as pl
import zstandard
from naive_readers import FLAGS, Naive, lines_of, text_of, trec_run
from spoiling import BY_LINE, FILES_AT_ONCE, HARD, SEEDS, line_of, spoil

from relgrade_assets.errors import Refused
from relgrade_assets.io.parquet import ENDED
from relgrade_assets.io.readers.judgments import read_grades
from relgrade_assets.io.readers.keys import Judgments, read_judgments
from relgrade_assets.io.readers.label_studio import read_label_studio
from relgrade_assets.io.readers.opensearch import read_opensearch
from relgrade_assets.io.readers.qrels import read_qrels
from relgrade_assets.io.readers.quepid import read_book
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.io.readers.spreadsheet import read_spreadsheet
from relgrade_assets.io.scoring import read_hits

NAME = "the-file"
LINES_AT_ONCE = 100
Rows = list[tuple[Any, ...]]


def _columns(frame: pl.DataFrame, *names: str) -> Rows:
    return frame.select(*names).rows()


def _p19(path: Path) -> tuple[Rows, set[int]]:
    found = read_grades(path, name=NAME, top_grade=2, reason_needed="all")
    return _columns(found.good, "line", "query_id", "chunk_id", "reason", "grade", *FLAGS), {
        b[0] for b in found.bad_lines
    }


ORACLES: dict[str, Callable[[bytes], Naive]] = {
    "trec": trec_run,
    "run.jsonl": naive_of.jsonl_run,
    "run.csv": naive_of.csv_run,
    "qrels": naive_of.trec_qrels,
    "beir": naive_of.beir_qrels,
    "key": naive_of.key,
    "p19": naive_of.p19,
    "quepid": naive_tools.quepid_book,
    "spreadsheet": naive_tools.spreadsheet,
    "opensearch": naive_tools.opensearch,
    "label studio": naive_tools.label_studio,
}
RUN = ("query_id", "chunk_id", "rank", "score")
QRELS = ("query_id", "group", "chunk_id", "grade")
SUBJECTS: dict[str, tuple[str, Callable[[Path], Rows]]] = {
    "trec": ("f.run", lambda p: _columns(read_run(p, name=NAME, format="trec").frame, *RUN)),
    "run.jsonl": ("f.jsonl", lambda p: _columns(read_run(p, name=NAME, format="jsonl").frame, *RUN)),
    "run.csv": ("f.csv", lambda p: _columns(read_run(p, name=NAME, format="csv").frame, *RUN)),
    "parquet": ("f.parquet", lambda p: _columns(read_run(p, name=NAME, format="parquet").frame, *RUN)),
    "gz": ("f.gz", lambda p: _columns(read_run(p, name=NAME, format="trec").frame, *RUN)),
    "zst": ("f.zst", lambda p: _columns(read_run(p, name=NAME, format="trec").frame, *RUN)),
    "qrels": ("f.qrels", lambda p: _columns(read_qrels(p, name=NAME).frame, *QRELS)),
    "beir": ("f.tsv", lambda p: _columns(read_qrels(p, name=NAME, form="beir").frame, *QRELS)),
    "key": ("f.jsonl", lambda p: _columns(read_judgments(p, name=NAME).frame, "query_id", "chunk_id", "grade")),
    "p19": ("f.jsonl", lambda p: _p19(p)[0]),
    "quepid": (
        "f.csv",
        lambda p: _columns(read_book(p, name=NAME).frame, "line", "grader", "query", "chunk_id", "rating", "reason"),
    ),
    "spreadsheet": (
        "f.csv",
        lambda p: _columns(
            read_spreadsheet(p, name=NAME).frame,
            *("line", "grader", "query_id", "query", "chunk_id", "rating", "reason", "unrateable", "judge_later"),
        ),
    ),
    "opensearch": ("f.json", lambda p: _columns(read_opensearch(p, name=NAME).frame, "query", "chunk_id", "rating")),
    "label studio": (
        "f.json",
        lambda p: _columns(
            read_label_studio(p, name=NAME).frame, "grader", "query_id", "chunk_id", "rating", "reason", *FLAGS
        ),
    ),
}


class Apart:
    """A process of its own for Parquet, since Polars ends one over some files."""

    def __init__(self, folder: Path) -> None:
        self.words = folder / "words"
        context = multiprocessing.get_context("spawn")
        self.end_here, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there, folder, self.words))
        self.process.start()
        there.close()

    def checked(self, data: bytes) -> tuple[dict[str, tuple[str, bytes]] | None, int]:
        """What was found and how many were accepted; None where the process ended."""
        try:
            self.end_here.send(data)
            told: tuple[dict[str, tuple[str, bytes]], int] = self.end_here.recv()
        except (EOFError, OSError):
            return None, 0
        return told

    def end(self) -> str:
        """End it; what it said where it ended by itself, and with which exit code where that is another."""
        self.end_here.close()
        self.process.join()
        code = self.process.exitcode
        said = self.words.read_text("utf-8", "replace")
        return said if code in (0, ENDED) else f"exit code {code}: {said}"


def _serve(pipe: Connection, folder: Path, words: Path) -> None:
    os.dup2(os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    apart = folder / "apart"
    apart.mkdir(exist_ok=True)
    while True:
        fuzz = Fuzz(apart, "")
        try:
            data = pipe.recv()
        except EOFError:
            return
        fuzz._checked("parquet", data)
        pipe.send((fuzz.found, fuzz.accepted["parquet"]))


class Fuzz:
    """One run: a folder to write in, what was counted, and what was found."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.folder, self.seed = folder, seed
        self.inputs: Counter[str] = Counter()
        self.files: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.found: dict[str, tuple[str, bytes]] = {}
        self.ended = 0
        self._apart: Apart | None = None

    def file(self, kind: str, n: int) -> None:
        """One seed file, spoilt, read both ways."""
        rng = random.Random(f"{self.seed} {kind} {n}")  # noqa: S311 - no secret
        data = spoil(rng, rng.choice(SEEDS[kind]))
        if kind not in ("gz", "zst", "parquet") and rng.random() < 0.03:
            data = spoil(rng, data + data, edits=1)
        self.inputs[kind] += 1
        if kind == "parquet":
            self._parquet(data)
        else:
            self._checked(kind, data)

    def _parquet(self, data: bytes) -> None:
        self._apart = self._apart or Apart(self.folder)
        found, accepted = self._apart.checked(data)
        self.files["parquet"] += 1
        self.accepted["parquet"] += accepted
        if found is None:
            self.ended += 1
            said = self._apart.end()
            if not said.startswith(f"{NAME} can't be read: ") or "panicked" in said:
                self._note("parquet", "the process ended", data, said)
            self._apart = None
        else:
            self.found = {**found, **self.found}

    def close(self) -> None:
        """End the process that reads Parquet."""
        if self._apart is not None:
            self._apart.end()

    def lines(self, kind: str, n: int) -> None:
        """A hundred lines, each varied or spoilt; then the same without the bad ones, until it is accepted."""
        rng = random.Random(f"{self.seed} {kind} lines {n}")  # noqa: S311 - no secret
        made = [line_of(kind, rng, i).encode() for i in range(LINES_AT_ONCE)]
        made = [spoil(rng, line, edits=2) if rng.random() < HARD else line for line in made]
        data = b"\n".join([b"query-id\tcorpus-id\tscore", *made] if kind == "beir" else made) + b"\n"
        self.inputs[kind] += LINES_AT_ONCE
        if text_of(data) is None:  # such a byte hides the other lines: they are read without it
            self._checked(kind, data)
            kept = [line for line in data.split(b"\n") if text_of(line + b"\n") is not None]
            data = b"\n".join(kept)
        for _ in range(4):
            naive = self._checked(kind, data)
            if not naive.bad:
                break
            text = text_of(data) or ""
            data = "".join(f"{line}\n" for i, line in enumerate(lines_of(text), 1) if i not in naive.bad).encode()
            if not data.strip():
                break

    def _checked(self, kind: str, data: bytes) -> Naive:
        name, read = SUBJECTS[kind]
        path = self.folder / name
        path.write_bytes(data)
        self.files[kind] += 1
        naive = self._naive(kind, data)
        refusal: Refused | None = None
        rows: Rows = []
        try:
            rows = read(path)
        except Refused as error:
            refusal = error
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            at = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else ""
            self._note(kind, f"{type(error).__name__} at {at}", data)
            return naive
        if refusal is not None:
            self._refusal(kind, refusal, naive, data)
        else:
            self.accepted[kind] += 1
            self._rows(kind, rows, naive, data, path)
        if kind == "qrels":
            self._judgments(path, naive, data)
        if kind in ("trec", "run.jsonl", "run.csv", "gz", "zst", "parquet"):
            self._hits(
                kind,
                path,
                naive if kind != "parquet" else Naive(rows=rows, whole="refused" * (refusal is not None)),
                data,
            )
        return naive

    def _naive(self, kind: str, data: bytes) -> Naive:
        if kind in ("gz", "zst"):
            unpacked = unpack(kind, data)
            return Naive(whole="archive") if not unpacked else trec_run(unpacked)
        return ORACLES[kind](data) if kind in ORACLES else Naive()

    def _refusal(self, kind: str, refusal: Refused, naive: Naive, data: bytes) -> None:
        places = [f.where for f in refusal.faults]
        if (
            not places
            or not str(refusal)
            or any(not p.startswith(NAME) for p in places)
            or str(self.folder) in str(refusal)
        ):
            self._note(kind, "a refusal that does not name the file", data)
        if kind == "parquet":
            return
        if naive.fine and not (kind in ("gz", "zst") and "archive" in refusal.faults[0].expected):
            self._note(kind, f"refused: {re.sub('[0-9]+', 'N', refusal.faults[0].expected)}", data)
        named = {int(m[1]) for p in places if (m := re.match(rf"{NAME}, line ([0-9]+)", p))}
        plain = unpack(kind, data) if kind in ("gz", "zst") else data
        if any(n > plain.count(b"\n") + 1 for n in named):
            self._note(kind, "a line that is not there", data)
        if (
            naive.bad
            and not naive.whole
            and kind in BY_LINE
            and not any(f.expected.startswith("a column") for f in refusal.faults)
        ):
            if not named or named - naive.bad:
                self._note(kind, "good lines named, or none", data)
            elif refusal.total <= 20 and named != naive.bad:
                self._note(kind, "bad lines not named", data)

    def _rows(self, kind: str, rows: Rows, naive: Naive, data: bytes, path: Path) -> None:
        if kind == "parquet":
            scores = [r[3] for r in rows]
            lawful = rows and all(math.isfinite(s) for s in scores) and len({r[:2] for r in rows}) == len(rows)
            if not lawful or any(v is None for r in rows for v in r):
                self._note(kind, "unlawful rows", data)
        elif kind == "p19":
            if rows != naive.rows or _p19(path)[1] != naive.bad or naive.whole:
                self._note(kind, "other rows or other bad lines", data)
        elif not naive.fine:
            self._note(kind, f"accepted: {naive.whole or 'bad lines'}", data)
        elif rows != naive.rows or repr(rows) != repr(naive.rows):
            self._note(
                kind,
                "other rows",
                data,
                next((f"{a} for {b}" for a, b in zip(rows, naive.rows, strict=False) if repr(a) != repr(b)), "length"),
            )

    def _judgments(self, path: Path, naive: Naive, data: bytes) -> None:
        """What `relgrade score` makes of qrels: one judge's rows, each pair once; several judges may be refused."""
        try:
            rows = _columns(read_judgments(path, name=NAME).frame, "query_id", "chunk_id", "grade")
        except Refused:
            if naive.fine and len({r[1] for r in naive.rows}) == 1:
                self._note("qrels", "refused by score", data)
            return
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._note("qrels", f"score: {type(error).__name__}", data)
            return
        if not naive.fine or rows != [(query, chunk, grade) for query, _, chunk, grade in naive.rows]:
            self._note("qrels", "other judgments in score", data)

    def _hits(self, kind: str, path: Path, naive: Naive, data: bytes) -> None:
        """What `relgrade score` makes of a run: the ranks of judged rows, and how long each ranking is."""
        picked = naive.rows[::2] if naive.fine else []
        pairs = [("another", "x"), *(r[:2] for r in picked)]
        qrels = pl.DataFrame(pairs, schema=["query_id", "chunk_id"], orient="row").with_columns(
            grade=pl.lit(1, pl.Int64)
        )
        name = path.rename(path.with_name("g" + {"gz": ".run.gz", "zst": ".run.zst"}.get(kind, path.suffix)))
        try:
            hits = read_hits([str(name)], Judgments(qrels), partial=True).hits
        except Refused:
            if naive.fine and kind not in ("gz", "zst"):
                self._note(kind, "refused by score", data)
            return
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._note(kind, f"score: {type(error).__name__}", data)
            return
        if not naive.fine:
            self._note(kind, f"accepted by score: {naive.whole or 'bad lines'}", data)
            return
        lengths = Counter(r[0] for r in naive.rows)
        due = sorted((r[0], r[2]) for r in picked)
        got = sorted(zip((hits.queries[c] for c in hits.cell), hits.rank.tolist(), strict=True))
        if got != due or dict(zip(hits.queries, hits.retrieved.tolist(), strict=True)) != {
            q: lengths[q] for q in hits.queries
        }:
            self._note(kind, "other ranks in score", data)

    def _note(self, kind: str, what: str, data: bytes, more: str = "") -> None:
        self.found.setdefault(f"{kind}: {what}", (more, data))


def unpack(kind: str, data: bytes) -> bytes:
    """The archive's content by the packages' own readers; nothing where it is broken."""
    try:
        if kind == "gz":
            return gzip.decompress(data)
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
        return reader.read() if data.startswith(b"\x28\xb5\x2f\xfd") else b""
    except (OSError, EOFError, zstandard.ZstdError, ValueError, Exception):
        return b""


def steps(inputs: int) -> Iterator[tuple[str, str, int, int]]:
    """(kind, way, number, inputs): kinds in turn, so that a run cut short has all of them; `inputs` at least in all."""
    n = done = 0
    while done < inputs:
        for kind in SUBJECTS:
            files = FILES_AT_ONCE.get(kind, 3)
            yield from ((kind, "file", n * files + i, 1) for i in range(files))
            if kind in BY_LINE:
                yield kind, "lines", n, LINES_AT_ONCE
            done += files + LINES_AT_ONCE * (kind in BY_LINE)
        n += 1


def run(inputs: int, seed: str = "1", seconds: float = math.inf) -> Fuzz:
    """Fuzz every reader with `inputs` inputs in all, or for so long."""
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(Path(folder), seed)
        for kind, way, n, _ in steps(inputs):
            fuzz.file(kind, n) if way == "file" else fuzz.lines(kind, n)
            if time.monotonic() > ends:
                break
        fuzz.close()
    return fuzz


def main() -> int:
    """Print the counts and every kind of finding with its input."""
    given = [*sys.argv[1:], "1", "inf"]
    fuzz = run(
        int(given[0]), given[1] if len(sys.argv) > 2 else "1", float(given[2]) if len(sys.argv) > 3 else math.inf
    )
    for kind in SUBJECTS:
        print(
            f"{kind:<14} inputs {fuzz.inputs[kind]:>9,}  files {fuzz.files[kind]:>8,}  "
            f"accepted {fuzz.accepted[kind]:>8,}"
        )
    print(f"in all         inputs {fuzz.inputs.total():>9,}  files {fuzz.files.total():>8,}")
    print(f"Parquet over which Polars ended the process, with a refusal: {fuzz.ended}")
    for name, (more, data) in fuzz.found.items():
        print(f"FOUND {name}: {more} {data[:600]!r}")
    return bool(fuzz.found)


if __name__ == "__main__":
    sys.exit(main())
