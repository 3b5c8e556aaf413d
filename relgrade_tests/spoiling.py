"""Small files of every form that is read, and how they are spoilt at random: for fuzzing.py. No reader here."""

from __future__ import annotations

import gzip
import io
import random

import polars as pl
import zstandard

HARD = 0.12
"""Share of lines that are spoilt anyhow; the others are varied within what is allowed, and beyond by accident."""


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
    kinds.append(kinds[-1].sort("query_id", "score", descending=[False, True]))
    for frame, packing in zip(kinds, ("uncompressed", "zstd", "snappy", "uncompressed", "zstd"), strict=True):
        buffer = io.BytesIO()
        frame.write_parquet(  # the last in several row groups: one may be broken, and the others whole
            buffer,
            compression=packing,  # type: ignore[arg-type]
            statistics=packing != "zstd",
            row_group_size=20 if frame is kinds[-1] else None,
        )
        out.append(buffer.getvalue())
    return out


TREC = b"q1 Q0 a 1 3.5 t\nq1 Q0 b 2 2.5 t\n\xc3\xa92 Q0 a 1 9e-1 t\nq3\tQ0\tx\t1\t-2\tt\n# said\n\nq3  Q0 y 2 -3 t\n"
SEEDS: dict[str, list[bytes]] = {
    "trec": [
        TREC,
        b"1 Q0 d1 1 3 r\r\n1 Q0 d2 2 2 r\r\n2 Q0 d1 1 3.25 r\r\n",
        b"\xef\xbb\xbfq Q0 a 0 .5 t\nq Q0 b 1 0 t\n",
        b"q1 Q0 a 1 3.5 t\nq1 Q0 b 2 2.5 t\nq2 Q0 a 1 9 t\nq2 Q0 c 2 9 t\nq3 Q0 x 1 -2 t\n",
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
    "qrels": [
        b"q 0 a 1\nq 0 b -1\nq\t0\tc\t0\n#x\n\n\xc3\xa9 0 a 2\n",
        b"q ann a 1\nq bob a 2\nq bob a 2\n",
        b"q 0 a 1\nq 0 b 0\nr 0 a 2\ns 0 c 3\n",
    ],
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
