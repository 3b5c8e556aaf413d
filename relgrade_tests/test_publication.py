"""What is published (P41, P42), against the formats' own readers where there are some."""

import base64
import gzip
import html
import io
import json
import urllib.parse
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import ir_measures
import jsonschema
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io import events, publication
from relgrade_assets.io.events import Event
from relgrade_assets.io.leaks import leak_check
from relgrade_assets.protocol.canonical import digest_bytes
from relgrade_assets.protocol.design import Design

SHA = "0123456789abcdef" * 4
AT = datetime(2026, 3, 1, tzinfo=UTC)

DESIGN = Design.model_validate(
    {
        "relgrade": 1,
        "name": "demo",
        "title": "Demo",
        "seed": "7",
        "scale": "0-2",
        "query_log": {"file": "log.csv"},
        "strata": {
            "parts": [{"name": t, "target": 1, "tiers": [t]} for t in ("head", "torso", "tail")],
        },
        "corpus": {"path": "corpus.jsonl"},
        "arms": [{"name": "bm25", "family": "lucene", "run": "a"}, {"name": "dense", "family": "e5", "run": "b"}],
        "intents": {"file": "intents.csv"},
        "graders": [{"name": "alice", "family": "x"}, {"name": "bob", "family": "y"}],
        "auditor": {"name": "eve", "family": "z"},
    }
)


def pairs(*rows: tuple[str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64}, orient="row")


KEY = pairs(("q2", "b", 0), ("q1", "nx:é", 2), ("q1", "Z", 0), ("q1", "z", 1), ("q2", "a", 1))
UNRATEABLE = pairs(("q2", "c", 0), ("q9", "c", 0)).drop("grade")
SAMPLE = pl.DataFrame(
    [("q1", "sort a graph", "head"), ("q2", "cycle", "tail"), ("q9", "dropped", "tail")],
    schema=["query_id", "query", "stratum"],
    orient="row",
)
CONTRIBUTIONS = pl.DataFrame(
    [("q1", "dense"), ("q1", "bm25"), ("q1", "bm25"), ("q2", "dense")], schema=["query_id", "arm"], orient="row"
)


def event(seq: int, kind: str, prev: str = events.GENESIS, **body: object) -> Event:
    at = f"2026-03-0{seq}T00:00:00.000000Z"
    return Event("demo", seq, at, kind, body, prev, events.event_hash("demo", seq, at, kind, body, prev))


def identity(**more: object) -> dict[str, object]:
    """The content of a key.json."""
    return {
        "experiment": "demo",
        "title": "Demo",
        "round": 1,
        "key_sha256": SHA,
        "pairs": 5,
        "queries": 2,
        "grades": {"0": 2, "1": 2, "2": 1},
        "unrateable": 1,
        "protocol_sha256": SHA,
        "rubric_sha256": SHA,
        "scale": DESIGN.scale.model_dump(mode="json"),
        "seed": "7",
        "depth": 20,
        "arms": [{"name": a.name, "family": a.family} for a in DESIGN.arms],
        "graders": [{"pseudonym": "grader-1", "family": "x", "kind": "model", "takes": "all"}],
        "combine": "first_listed",
        "auditor": {"pseudonym": "auditor-1", "family": "z", "kind": "model"},
        "inputs": {"grades": SHA},
        "verdicts": [{"gate": "two_step", "threshold": 0.02, "value": 0.0, "verdict": "passed", "why": ""}],
        "dropped_queries": ["q9"],
        "emptied_strata": [],
        "deviations": [],
        **more,
    }


def manifest(private: bool = False, **more: object) -> dict[str, Any]:
    made = publication.manifest(
        identity(**more),
        {"key.jsonl": b"x", "status.json": b"{}", "manifest.json": b"{}"},
        [event(1, "frozen", round=1, key_digest=SHA)],
        version="0.1.0",
        private=private,
        carried={1: 3},
        regraded=None,
    )
    return json.loads(publication.manifest_bytes(made))  # type: ignore[no-any-return]


def faults_of(content: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft202012Validator(publication.manifest_schema())
    return [error.message for error in validator.iter_errors(content)]


def test_canonical_key_golden() -> None:
    """P33, P42: sorted by code point, keys in order, unescaped, no blanks, a newline after every line."""
    expected = (
        '{"query_id":"q1","chunk_id":"Z","grade":0}\n{"query_id":"q1","chunk_id":"nx:é","grade":2}\n'
        '{"query_id":"q1","chunk_id":"z","grade":1}\n{"query_id":"q2","chunk_id":"a","grade":1}\n'
        '{"query_id":"q2","chunk_id":"b","grade":0}\n'
    ).encode()
    assert publication.key_jsonl(KEY) == expected
    assert publication.key_jsonl(KEY.reverse()) == expected
    assert publication.unrateable_jsonl(UNRATEABLE.reverse()) == (
        b'{"query_id":"q2","chunk_id":"c"}\n{"query_id":"q9","chunk_id":"c"}\n'
    )


def test_qrels_against_ir_measures() -> None:
    """P42: unrateable is -1, a dropped query has no line."""
    data = publication.qrels_bytes(KEY, UNRATEABLE)
    assert data.decode() == "q1 0 Z 0\nq1 0 nx:é 2\nq1 0 z 1\nq2 0 a 1\nq2 0 b 0\nq2 0 c -1\n"
    read = list(ir_measures.read_trec_qrels(data.decode()))
    assert {(q.query_id, q.doc_id): q.relevance for q in read} == {
        **{(q, c): g for q, c, g in KEY.iter_rows()},
        ("q2", "c"): -1,
    }


@pytest.mark.parametrize("bad", ["a b", "a\tb", "#a", "", "a\u00a0b", "a\u2028b", "a\x00", "a\x85", "\u3000"])
def test_ids_that_trec_cant_hold_are_refused_with_the_way_round(bad: str) -> None:
    """P42."""
    for key in (pairs((bad, "c", 1)), pairs(("q", bad, 1))):
        with pytest.raises(Refused, match=r"judgments\.json or key\.jsonl"):
            publication.qrels_bytes(key, UNRATEABLE)
        grades = key.with_columns(grader=pl.lit("bob"))
        with pytest.raises(Refused, match=r"qrels_by_grader\.txt"):
            publication.qrels_by_grader_bytes(grades, {"bob": "grader-1"})
        texts = pl.DataFrame({"query_id": key["query_id"], "query": ["x"]})
        assert json.loads(publication.judgments_json(key, texts, private=False))


def test_a_pair_graded_and_unrateable_is_refused() -> None:
    """P19."""
    with pytest.raises(Refused, match="contradicts its sidecar"):
        publication.qrels_bytes(KEY, KEY.head(1).drop("grade"))


def test_graders_by_pseudonym() -> None:
    """P42: no name of a grader in what is published."""
    names = publication.pseudonyms(DESIGN)
    assert names == {"alice": "grader-1", "bob": "grader-2", "eve": "auditor-1"}
    grades = pl.DataFrame(
        [("q1", "c", "bob", None), ("q1", "c", "alice", 2)],
        schema={"query_id": pl.String, "chunk_id": pl.String, "grader": pl.String, "grade": pl.Int64},
        orient="row",
    )
    assert publication.qrels_by_grader_bytes(grades, names) == b"q1 grader-1 c 2\nq1 grader-2 c -1\n"


def test_judgments_and_pools() -> None:
    """P42's shapes; P41: no query text where private."""
    assert json.loads(publication.judgments_json(KEY, SAMPLE, private=False))[1] == {
        "query_id": "q2",
        "query": "cycle",
        "ratings": [{"doc_id": "a", "rating": 1}, {"doc_id": "b", "rating": 0}],
    }
    pools = publication.pools_jsonl(KEY, UNRATEABLE, SAMPLE, CONTRIBUTIONS, depth=20, private=False)
    first, second = map(json.loads, pools.splitlines())
    assert (first["query"], first["stratum"], first["pool_depth"], first["arms_pooled"]) == (
        "sort a graph",
        "head",
        20,
        ["bm25", "dense"],
    )
    assert second["judgments"] == [
        {"chunk_id": "a", "grade": 1},
        {"chunk_id": "b", "grade": 0},
        {"chunk_id": "c", "grade": None},
    ]
    hidden = {
        "judgments.json": publication.judgments_json(KEY, SAMPLE, private=True),
        "pools.jsonl": publication.pools_jsonl(KEY, UNRATEABLE, SAMPLE, CONTRIBUTIONS, depth=20, private=True),
    }
    for data in hidden.values():
        assert b"query_id" in data
        assert b'"query"' not in data
        assert not any(text.encode() in data for text in SAMPLE["query"])


def test_manifest_validates_against_its_schema() -> None:
    """P33, P36, P42; P4's exceptions are counted."""
    jsonschema.Draft202012Validator.check_schema(publication.manifest_schema())
    made = manifest()
    assert faults_of(made) == []
    assert made["files"] == {"key.jsonl": {"bytes": 1, "sha256": digest_bytes(b"x")}}
    assert made["events"] == {"head": event(1, "frozen", round=1, key_digest=SHA).hash, "length": 1}
    assert made["exceptions"] == {"carried": {"1": 3}, "regraded": None}
    assert faults_of(manifest(private=True)), "the seed of a private study stays in"
    secret = manifest(private=True)
    secret["key"]["seed_sha256"] = secret["key"].pop("seed")
    secret["key"]["seed_sha256"] = SHA
    assert faults_of(secret) == []


@pytest.mark.parametrize("left_out", sorted(set(identity()) - {"seed"}))
def test_a_manifest_without_any_one_thing_is_found(left_out: str) -> None:
    """P33: everything that it names."""
    made = manifest()
    del made["key"][left_out]
    assert faults_of(made)


@pytest.mark.parametrize(
    "more",
    [
        {"graders": [{"pseudonym": "alice", "family": "x", "kind": "model", "takes": "all"}]},
        {"auditor": {"pseudonym": "eve", "family": "z", "kind": "model"}},
        {"frozen_at": "2026-03-01"},
        {"valid": True},
        {"verdicts": []},
        {"verdicts": [{"gate": "two_step", "threshold": 0.02, "value": 0.1, "verdict": "failed", "why": ""}]},
    ],
)
def test_a_manifest_that_says_too_much_is_found(more: dict[str, object]) -> None:
    """P33: no time and no standing inside the key's identity; P42: pseudonyms; P29: no failed verdict."""
    assert faults_of(manifest(**more))


SECRET = 'How do I cancel Müller\'s "Order"\n № 4711?'  # noqa: S105


def _zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.txt", data)
    return buffer.getvalue()


def _parquet(text: str) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"a": [["x", text]]}).write_parquet(buffer)
    return buffer.getvalue()


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


HIDINGS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "upper": lambda s: s.upper().encode(),
    "json": lambda s: json.dumps({"q": [s]}).encode(),
    "json_key": lambda s: json.dumps({s: 1}, ensure_ascii=False).encode(),
    "html": lambda s: f"<td>{html.escape(s)}</td>".encode(),
    "html_marked": lambda s: html.escape(s).replace("cancel", "<mark>can</mark>cel").encode(),
    "html_numeric": lambda s: "".join(f"&#{ord(c)};" for c in s).encode(),
    "json_in_html": lambda s: f"<script>x = {json.dumps(html.escape(s))}</script>".encode(),
    "csv": lambda s: b'a,"' + s.replace('"', '""').encode() + b'"',
    "percent": lambda s: b"?q=" + urllib.parse.quote_plus(s).encode(),
    "base64": lambda s: b"data:x;base64," + base64.b64encode(b"..." + s.encode()),
    "gzip": lambda s: gzip.compress(s.encode()),
    "gzip_members": lambda s: gzip.compress(b"one") * 5 + gzip.compress(s.encode()),
    "zstd": lambda s: zstandard.compress(s.encode()),
    "zstd_frames": lambda s: (
        b"\x50\x2a\x4d\x18\x01\0\0\0x" + zstandard.compress(b"one") + zstandard.compress(s.encode())
    ),
    "zstd_aside": lambda s: zstandard.compress(b"one") + b"\x5f\x2a\x4d\x18" + _sized(gzip.compress(s.encode())),
    "parquet_in_zstd": lambda s: zstandard.compress(_parquet(s)),
    "zip": lambda s: _zipped(json.dumps(s).encode()),
    "gzip_in_zip": lambda s: _zipped(gzip.compress(s.encode())),
    "parquet": _parquet,
    "utf16": lambda s: s.encode("utf-16"),
    "blanks": lambda s: s.replace(" ", "\u00a0\n ").encode(),
    "soft_hyphen": lambda s: s.replace("cancel", "can\u00adcel").encode(),
    "wide": lambda s: s.replace("Order", "\uff2frder").encode(),
}


@pytest.mark.parametrize("hiding", sorted(HIDINGS))
def test_a_private_string_is_found_however_it_is_written(hiding: str) -> None:
    """P41: decoded and normalised content; the fault does not repeat the string."""
    found = leak_check({"clean.txt": b"nothing here", "out.bin": HIDINGS[hiding](SECRET)}, [SECRET])
    assert [fault.where for fault in found] == ["out.bin"]
    assert "cancel" not in str(found[0])


def test_which_strings_count() -> None:
    """P41: at least 12 characters, or three words; file names too; an excerpt of a long text."""
    said = {"r.txt": b"the graph is it ok to do that, elevenchars twelve.chars"}
    assert leak_check(said, ["elevenchars"]) == []
    assert leak_check(said, ["the graph"]) == []
    assert len(leak_check(said, ["twelve.chars"])) == 1
    assert len(leak_check(said, ["is it ok"])) == 1
    assert leak_check(said, ["s it ok t"]) == [], "short strings count as whole words"
    assert leak_check({"how to cancel.txt": b""}, ["How to cancel"])
    long = " ".join(f"word{i}" for i in range(100))
    assert leak_check({"p.html": long[137:220].encode()}, [long])
    assert leak_check({"p.html": long[137:150].encode()}, [long]) == []
    assert leak_check({"x": b"anything"}, ["", "  "]) == []


def test_a_bomb_and_a_broken_archive_are_faults() -> None:
    """P41, quality.md: decompression is bounded, and what can't be looked into doesn't pass."""
    bomb = gzip.compress(gzip.compress(b"\0" * (1 << 28)) + b"")
    assert "unpacks" in str(leak_check({"a.gz": gzip.compress(bomb)}, [SECRET]))
    assert "unpacks" in str(leak_check({"a.zst": zstandard.compress(b"\0" * ((1 << 28) + 1))}, [SECRET]))
    cut = (gzip.compress(b"cut short")[:-9], zstandard.compress(b"cut short")[:-3], zstandard.compress(b"x") + b"rest")
    for broken in (b"PK\x03\x04 broken", b"\x1f\x8b broken", b"PAR1 broken", b"\x28\xb5\x2f\xfd broken", *cut):
        assert "broken" in str(leak_check({"a": broken}, [SECRET])[0])


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.text(min_size=12, max_size=90), st.text(max_size=20), st.text(max_size=20))
def test_whatever_stands_around_it(secret: str, before: str, after: str) -> None:
    """P41, a law: a private string between any two blanks is found."""
    normal = pl.Series([secret]).str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\p{Cf}", "")[0]
    if len(" ".join(normal.split())) < 14 or not normal.isprintable():
        return
    assert leak_check({"x": json.dumps(f"{before} {secret} {after}").encode()}, [secret])
