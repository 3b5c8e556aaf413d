"""Fuzzing of the readers: seed files spoilt at random, each read by relgrade and by naive_readers, and compared.

`python relgrade_tests/fuzzing.py INPUTS [SEED [SECONDS]]` runs it at any size; test_readers_million.py runs it small.
An input is a file, or one line of a file of a hundred whose lines were varied or spoilt one by one. What must hold: a
refusal that names the file and every bad line, or the rows that the naive reader finds; never another exception.
"""

from __future__ import annotations

import gzip
import io
import math
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import zstandard
from naive_readers import FLAGS, ORACLES, Naive, lines_of, text_of, trec_run

from relgrade_assets.errors import Refused
from relgrade_assets.io.readers.judgments import read_grades
from relgrade_assets.io.readers.keys import read_judgments
from relgrade_assets.io.readers.label_studio import read_label_studio
from relgrade_assets.io.readers.opensearch import read_opensearch
from relgrade_assets.io.readers.qrels import read_qrels
from relgrade_assets.io.readers.quepid import read_book
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.io.readers.spreadsheet import read_spreadsheet
from relgrade_assets.io.scoring import read_hits

NAME = "the-file"
LINES_AT_ONCE = 100
HARD = 0.12
"""Share of lines that are spoilt anyhow; the others are varied within what is allowed, and beyond by accident."""
Rows = list[tuple[Any, ...]]


def _columns(frame: pl.DataFrame, *names: str) -> Rows:
    return frame.select(*names).rows()


def _p19(path: Path) -> tuple[Rows, set[int]]:
    found = read_grades(path, name=NAME, top_grade=2, reason_needed="all")
    return _columns(found.good, "line", "query_id", "chunk_id", "reason", "grade", *FLAGS), {
        b[0] for b in found.bad_lines
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


def parquet_seeds() -> list[bytes]:
    """Small runs as Parquet, in several types and packings."""
    whole = pl.DataFrame({"query_id": ["q1", "q1", "q2"], "chunk_id": ["a", "b", "a"], "score": [2.0, 1.0, 3.5]})
    kinds = [
        whole,
        whole.with_columns(rank=pl.Series([1, 2, 1])),
        whole.with_columns(pl.col("score").cast(pl.Float32), query_id=pl.Series([1, 1, 2])),
        pl.concat([whole.with_columns(pl.col("query_id") + f"-{i}") for i in range(20)]),
    ]
    out = []
    for frame, packing in zip(kinds, ("uncompressed", "zstd", "snappy", "uncompressed"), strict=True):
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression=packing, statistics=packing != "zstd")  # type: ignore[arg-type]
        out.append(buffer.getvalue())
    return out


TREC = b"q1 Q0 a 1 3.5 t\nq1 Q0 b 2 2.5 t\n\xc3\xa92 Q0 a 1 9e-1 t\nq3\tQ0\tx\t1\t-2\tt\n# said\n\nq3  Q0 y 2 -3 t\n"
SEEDS: dict[str, list[bytes]] = {
    "trec": [
        TREC,
        b"1 Q0 d1 1 3 r\r\n1 Q0 d2 2 2 r\r\n2 Q0 d1 1 3.25 r\r\n",
        b"\xef\xbb\xbfq Q0 a 0 .5 t\nq Q0 b 1 0 t\n",
    ],
    "run.jsonl": [
        b'{"query_id":"q","chunk_id":"a","score":1.5,"rank":1}\n{"query_id":"q","chunk_id":"b","score":1,"rank":2}\n',
        b'{"chunk_id":7,"query_id":"\xc3\xa9","score":-1e-3}\n\n{"query_id":"\\u00e9x","chunk_id":"b c","score":0}\n',
    ],
    "run.csv": [
        b'query_id,chunk_id,score\nq,a,1.5\nq,"b",1\n',
        b'rank,query_id,extra,chunk_id,score\n1,q,x,a,2\n2,q,,b,1e0\n1,r,"x\ny",a,0.5\n',
    ],
    "parquet": parquet_seeds(),
    "gz": [gzip.compress(TREC, mtime=0), gzip.compress(TREC[:16], 0, mtime=0) + gzip.compress(TREC[16:], mtime=0)],
    "zst": [zstandard.compress(TREC), zstandard.compress(TREC[:16]) + zstandard.compress(TREC[16:])],
    "qrels": [b"q 0 a 1\nq 0 b -1\nq\t0\tc\t0\n#x\n\n\xc3\xa9 0 a 2\n", b"q ann a 1\nq bob a 2\nq bob a 2\n"],
    "beir": [b"query-id\tcorpus-id\tscore\nq\ta\t1\nq\tb c\t0 \n\nr\ta\t2\n"],
    "key": [
        b'{"query_id":"q1","chunk_id":"a","grade":2}\n{"query_id":"q1","chunk_id":"b","grade":0}\n'
        b'{"query_id":"q2","chunk_id":"\xc3\xa9 x","grade":-1}\n'
    ],
    "p19": [
        b'{"query_id":"q","chunk_id":"a","reason":"r","grade":1,"unrateable":false}\n'
        b'{"query_id":"q","chunk_id":"b","reason":"no text","grade":null,"unrateable":true}\n'
        b'{"query_id":3,"chunk_id":"b","reason":"says so","grade":2}\n'
    ],
    "quepid": [
        b'query,docid,ann,bob\nq one,a,2.0,\nq one," =b",,1\n"two, w",a,0,0.0\n',
        b"query,docid,explanation,ann\nq,a, why,2\nq,b,,1\n",
    ],
    "spreadsheet": [
        b"query_id,query_text,doc_id,grade,rater_id,notes\nq1,what,a,2,ann,says so\nq1,what,'=b,later,ann,\nq2,,c,,,\n",
        b'doc_id,grade,query_text\na,unrateable,"x\ny"\nb,1,"say ""x"""\n',
    ],
    "opensearch": [
        b'{"name":"n","judgmentRatings":[{"query":"q","ratings":[{"docId":"a","rating":"2"},{"docId":7,"rating":"0"}]},'
        b'{"query":"r","ratings":[{"docId":"b"}]}]}'
    ],
    "label studio": [
        b'[{"id":1,"data":{"query_id":"q","chunk_id":"a"},"annotations":[{"completed_by":{"email":"a@x"},"result":['
        b'{"from_name":"grade","value":{"choices":["2"]}},{"from_name":"reason","value":{"text":["says so"]}}]}]},'
        b'{"data":{"query_id":"q","chunk_id":"b"},"annotations":[{"completed_by":4,"result":[{"from_name":"grade",'
        b'"value":{"rating":1}},{"from_name":"flags","value":{"choices":["unrateable"]}}]},{"was_cancelled":true}]}]'
    ],
}
BY_LINE = ("trec", "run.jsonl", "qrels", "beir", "p19")
FILES_AT_ONCE = {
    **dict.fromkeys(BY_LINE, 1),
    **dict.fromkeys(("quepid", "spreadsheet", "opensearch", "label studio"), 10),
}
TOKENS = [
    *(b"\n", b"\r", b"\r\n", b" ", b"\t", b",", b'"', b'""', b"#", b"{", b"[", b"}", b"]", b":", b"\\", b"\0", b"\xff"),
    *(b"nan", b"-", b"+", b"1e999", b"inf", b".", b"e", b"_", b"0x1", b"1.5", b"1,5", b"-0", b"007", b"9" * 30, b"-2"),
    *(b"null", b"true", b"NaN", b"\\ud800", b"\\u0041", b"\\n", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xc2\xa0"),
    *(b"PAR1", b"=", b"'", b" =", b"Q0", b"q", b"a", b"\x0b", b"\x0c", b"\x85", b"\xc2\x85", b"\x7f", b"\xcc\x81"),
    *(b"query_id", b"chunk_id", b"score", b"rank", b"grade", b"[" * 3000, b'"grade":1,', b"\xd9\xa3", b"\xed\xa0\x80"),
]  # fmt: skip


def spoil(rng: random.Random, data: bytes, *, edits: int = 3) -> bytes:
    """One to `edits` edits: a token put in or over, a byte changed, a piece taken out, doubled, moved or cut off."""
    for _ in range(rng.randint(1, edits)):
        at = rng.randrange(len(data) + 1)
        kind = rng.random()
        if kind < 0.35:
            data = data[:at] + rng.choice(TOKENS) + data[at + rng.choice((0, 0, 0, 1, 1, 2)) :]
        elif kind < 0.5 and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif kind < 0.6:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind < 0.75:
            data = data[:at] + data[at + rng.randint(1, 8) :]
        elif kind < 0.85:
            end = at + rng.randint(1, 40)
            data = data[:end] + data[at:]
        elif kind < 0.95:
            end, to = at + rng.randint(1, 20), rng.randrange(len(data) + 1)
            piece, rest = data[at:end], data[:at] + data[end:]
            data = rest[:to] + piece + rest[to:]
        else:
            data = data[: max(1, at)]
    return data


IDS = [
    "q",
    "Q7",
    "007",
    "doc-1",
    "a.b/c:d",
    "é",
    "e\u0301",
    "日本",
    "x'y",
    '"',
    "a,b",
    "=1",
    "-",
    "0",
    "#",
    "🍕",
    "a#b",
]
NUMBERS = ["1", "0", "-0", "2.5", ".5", "5.", "1e3", "1E-3", "+4", "00012", "-1e-310", "1e308", "0.1", "3.0000000001"]
ODDITIES = ["nan", "inf", "1e999", "", "x", "1,5", "1_0", "0x1", "--1", "1e", "١", "9" * 30]


def _number(rng: random.Random) -> str:
    if rng.random() < 0.03:
        return rng.choice(ODDITIES)
    return rng.choice(NUMBERS) if rng.random() < 0.3 else repr(round(rng.uniform(-20, 20), rng.randint(0, 9)))


def _grade(rng: random.Random) -> str:
    return (
        rng.choice(["0", "1", "2", "-1", "3", "+1", "01"])
        if rng.random() > 0.03
        else rng.choice([*ODDITIES, "-2", "1.0"])
    )


def _gap(rng: random.Random) -> str:
    return " " if rng.random() < 0.9 else rng.choice(["\t", "  ", " \t "])


def line_of(kind: str, rng: random.Random, n: int) -> str:
    """A line of one form with its own ids, varied."""
    query, chunk = f"{rng.choice(IDS)}{rng.randrange(12)}", f"{rng.choice(IDS)}{n}"
    if kind == "trec":
        cells = [query, "Q0" if rng.random() < 0.97 else "0", chunk, str(rng.randrange(99)), _number(rng), "tag"]
        return _gap(rng).join(cells[:3]) + _gap(rng) + _gap(rng).join(cells[3:])
    if kind == "qrels":
        return _gap(rng).join([query, rng.choice(["0", "0", "ann"]), chunk, _grade(rng)])
    if kind == "beir":
        return "\t".join([query, chunk, _grade(rng)])
    quoted = [json_text(rng, t) for t in (query, chunk)]
    if kind == "run.jsonl":
        parts = [f'"query_id":{quoted[0]}', f'"chunk_id":{quoted[1]}', f'"score":{_number(rng)}']
        if rng.random() < 0.7:
            parts.append(f'"rank":{rng.randrange(99)}')
        if rng.random() < 0.1:
            rng.shuffle(parts)
        return "{" + rng.choice([",", ", "]).join(parts) + "}"
    reason = json_text(
        rng, " ".join(rng.choice(IDS) for _ in range(rng.choice([1, 3, 9, 15, 15, 16 if rng.random() < 0.1 else 2])))
    )
    tail = rng.choice(["", "", "", ',"unrateable":false', ',"corpus_cleanup":true', ',"judge_later":false'])
    grade = rng.choice("012") if rng.random() > 0.04 else rng.choice(["3", "null", "1.0", '"1"', "-1", "true", "1e0"])
    if grade == "null" and rng.random() < 0.7:
        tail = rng.choice([',"unrateable":true', ',"judge_later":true'])
    return f'{{"query_id":{quoted[0]},"chunk_id":{quoted[1]},"reason":{reason},"grade":{grade}{tail}}}'


def json_text(rng: random.Random, text: str) -> str:
    """JSON of a text: plain, escaped, or a number where it is one."""
    if text.isascii() and text.isdigit() and not text.startswith("0") and rng.random() < 0.5:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"'
        + (
            "".join(f"\\u{ord(c):04x}" if ord(c) < 65536 and rng.random() < 0.2 else c for c in text)
            if rng.random() < 0.1 and text.isalnum()
            else escaped
        )
        + '"'
    )


class Fuzz:
    """One run: a folder to write in, what was counted, and what was found."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.folder, self.seed = folder, seed
        self.inputs: Counter[str] = Counter()
        self.files: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.found: dict[str, tuple[str, bytes]] = {}

    def file(self, kind: str, n: int) -> None:
        """One seed file, spoilt, read both ways."""
        rng = random.Random(f"{self.seed} {kind} {n}")  # noqa: S311 - no secret
        data = spoil(rng, rng.choice(SEEDS[kind]))
        if kind not in ("gz", "zst", "parquet") and rng.random() < 0.03:
            data = spoil(rng, data + data, edits=1)
        self.inputs[kind] += 1
        self._checked(kind, data)

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

    def _hits(self, kind: str, path: Path, naive: Naive, data: bytes) -> None:
        """What `relgrade score` makes of a run: the ranks of judged rows, and how long each ranking is."""
        picked = naive.rows[::2] if naive.fine else []
        pairs = [("another", "x"), *(r[:2] for r in picked)]
        qrels = pl.DataFrame(pairs, schema=["query_id", "chunk_id"], orient="row").with_columns(
            grade=pl.lit(1, pl.Int64)
        )
        name = path.rename(path.with_name("g" + {"gz": ".run.gz", "zst": ".run.zst"}.get(kind, path.suffix)))
        try:
            hits = read_hits([str(name)], qrels, partial=True).hits
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
    for name, (more, data) in fuzz.found.items():
        print(f"FOUND {name}: {more} {data[:600]!r}")
    return bool(fuzz.found)


if __name__ == "__main__":
    sys.exit(main())
