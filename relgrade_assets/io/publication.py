"""The published files as bytes (P41, P42): qrels, judgments, pools, measures, manifest.

Tables go in, bytes come out; writing the folder is `atomic.py`'s, looking for private text `leaks.py`'s, status.json
`standing.py`'s. Graders appear by pseudonym alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.cells import csv_rows, marked
from relgrade_assets.io.events import Event, head_of
from relgrade_assets.io.key_store import sums_bytes
from relgrade_assets.io.standing import Standing, standing_of, status_bytes
from relgrade_assets.protocol.canonical import digest_bytes
from relgrade_assets.protocol.design import Design

SCHEMA = Path(__file__).parent / "manifest.schema.json"
SUMS = "SHA256SUMS"
SIGNATURE = "manifest.json.sig"
NOT_LISTED = ("manifest.json", "status.json", SUMS)
"""Files whose digests the manifest does not hold: itself, the one that is remade from the log (P33), and the list of
all for `sha256sum --check`. A signature of the manifest may lie beside them.
"""
_PAIR = ("query_id", "chunk_id")


def manifest_schema() -> dict[str, object]:
    """The JSON Schema that every manifest.json validates against."""
    schema: dict[str, object] = json.loads(SCHEMA.read_bytes())
    return schema


def pseudonyms(design: Design) -> dict[str, str]:
    """Name of each grader and of the auditor -> grader-1, grader-2, ..., auditor-1, in the design's order (P42)."""
    names = {name: f"grader-{i}" for i, name in enumerate(design.key_graders, start=1)}
    return {**names, design.auditor.name: "auditor-1"}


def key_jsonl(key: pl.DataFrame) -> bytes:
    """The canonical key (P33): `{"query_id":...,"chunk_id":...,"grade":...}` a line, sorted by query then chunk id by
    code point.
    """
    return _lines(
        {"query_id": q, "chunk_id": c, "grade": g} for q, c, g in _sorted(key).select(*_PAIR, "grade").iter_rows()
    )


def unrateable_jsonl(unrateable: pl.DataFrame) -> bytes:
    """The key's sidecar (P19): every pooled pair that could not be rated, as `{"query_id":...,"chunk_id":...}` lines,
    sorted.
    """
    return _lines({"query_id": q, "chunk_id": c} for q, c in _sorted(unrateable).select(_PAIR).iter_rows())


def qrels_bytes(key: pl.DataFrame, unrateable: pl.DataFrame) -> bytes:
    """TREC qrels: `query_id 0 chunk_id grade`, unrateable pairs of the key's queries as -1, sorted (P42). A dropped
    query has no line.

    Raises Refused for ids that TREC's columns can't hold, and for a pair that has a grade and is unrateable.
    """
    rows = _judged(key, unrateable)
    _refuse_for_trec(rows, "qrels.txt")
    return "".join(f"{q} 0 {c} {g}\n" for q, c, g in rows.iter_rows()).encode()


def qrels_by_grader_bytes(grades: pl.DataFrame, names: Mapping[str, str]) -> bytes:
    """TREC qrels with the grader's pseudonym in column 2; `grades` has query_id, chunk_id, grader and grade (null is
    written -1).
    """
    rows = grades.select(*_PAIR, pl.col("grader").replace_strict(dict(names)), pl.col("grade").fill_null(-1)).sort(
        *_PAIR, "grader"
    )
    _refuse_for_trec(rows, "qrels_by_grader.txt")
    return "".join(f"{q} {who} {c} {g}\n" for q, c, who, g in rows.iter_rows()).encode()


def judgments_json(key: pl.DataFrame, queries: pl.DataFrame, *, private: bool) -> bytes:
    """`[{"query_id","query","ratings":[{"doc_id","rating"}]}]`; `query` only where nothing is private (P41).
    `queries`: query_id, query.
    """
    text = dict(queries.select("query_id", "query").iter_rows())
    records = [
        {
            "query_id": q,
            **({} if private else {"query": text[q]}),
            "ratings": [{"doc_id": c, "rating": g} for c, g in pairs],
        }
        for q, pairs in _by_query(_sorted(key))
    ]
    return _json(records)


def pools_jsonl(
    key: pl.DataFrame,
    unrateable: pl.DataFrame,
    sample: pl.DataFrame,
    contributions: pl.DataFrame,
    *,
    depth: int,
    private: bool,
) -> bytes:
    """One record a query of the key: id, query (not where private), stratum, pool depth, arms pooled, judgments (null
    is unrateable).

    `sample`: query_id, query, stratum; `contributions`: query_id, arm.
    """
    about = {q: (text, stratum) for q, text, stratum in sample.select("query_id", "query", "stratum").iter_rows()}
    arms: dict[str, list[str]] = {}
    for query_id, arm in contributions.select("query_id", "arm").unique().sort("query_id", "arm").iter_rows():
        arms.setdefault(query_id, []).append(arm)
    return _lines(
        {
            "query_id": q,
            **({} if private else {"query": about[q][0]}),
            "stratum": about[q][1],
            "pool_depth": depth,
            "arms_pooled": arms.get(q, []),
            "judgments": [{"chunk_id": c, "grade": None if g < 0 else g} for c, g in pairs],
        }
        for q, pairs in _by_query(_judged(key, unrateable))
    )


def measures_csv(measures: pl.DataFrame) -> bytes:
    """The table arm_measures as CSV: numbers to their last digit, empty where there is none; text that a spreadsheet
    would run is marked (cells.py).
    """
    rows = ([_cell(value) for value in row] for row in measures.iter_rows())
    return csv_rows(measures.columns, rows)


def manifest(
    identity: Mapping[str, object],
    files: Mapping[str, bytes],
    events: Sequence[Event],
    *,
    version: str,
    private: bool,
    carried: Mapping[int, int] | None = None,
    regraded: int | None = None,
    habits: Sequence[Notice] = (),
    sources: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """manifest.json (P33, P36): the key's identity, every published file with its digest, the event log's head and
    length.

    `identity` is the content of key.json. `carried`: pairs carried over, by the round they come from (P44); `regraded`:
    pairs graded anew where the round was a limited regrade (P30): P4's two exceptions are counted here. `habits`:
    those of P45 that this key shows. `sources`: digests of the files that the round was opened on.
    """
    last, length = head_of(events)
    standing = standing_of(events, int(str(identity["round"])), str(identity["key_sha256"]))
    if standing is None:
        raise Refused(f"The event log knows no key {identity['key_sha256']}, so it can't be published")
    listed = {name: data for name, data in sorted(files.items()) if name not in NOT_LISTED}
    return {
        "relgrade": version,
        "form": 1,
        "private": private,
        "key": dict(identity),
        **({"sources": dict(sources)} if sources else {}),
        "exceptions": {
            "carried": {str(n): count for n, count in sorted((carried or {}).items())},
            "regraded": regraded,
        },
        "habits": [{"code": n.code, "text": n.text} for n in habits],
        "files": {name: {"bytes": len(data), "sha256": digest_bytes(data)} for name, data in listed.items()},
        "events": {"head": last, "length": length},
        "status": status_of(standing),
    }


def status_of(standing: Standing) -> dict[str, object]:
    """How the key stood when the manifest was made (P35)."""
    return {"status": standing.status, "since": standing.since, "why": standing.why}


def sealed(files: Mapping[str, bytes], manifest_json: bytes, events: Sequence[Event]) -> dict[str, bytes]:
    """A published folder whole: `files` with manifest.json, status.json and SHA256SUMS, which has every file's digest
    but its own.
    """
    key = json.loads(manifest_json)["key"]
    sha = digest_bytes(manifest_json)
    status = status_bytes(events, round=key["round"], key_digest=key["key_sha256"], manifest=sha)
    whole = {**files, "manifest.json": manifest_json, "status.json": status}
    return {**whole, SUMS: sums_bytes({name: digest_bytes(data) for name, data in whole.items()})}


def manifest_bytes(content: Mapping[str, object]) -> bytes:
    """A manifest as indented JSON with sorted keys."""
    return _json(dict(content))


def _cell(value: object) -> str:
    return "" if value is None else marked(value) if isinstance(value, str) else repr(value)


def _sorted(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.sort(_PAIR)


def _judged(key: pl.DataFrame, unrateable: pl.DataFrame) -> pl.DataFrame:
    """Graded pairs and, as -1, the unrateable ones of queries that the key keeps; sorted."""
    both = key.join(unrateable, on=_PAIR, how="semi").sort(_PAIR)
    if both.height:
        faults = [
            Fault(f"{q} / {c}", "a grade and unrateable", "one of them (P19)")
            for q, c in both.select(_PAIR).iter_rows()
        ]
        raise Refused("Nothing was written of a key that contradicts its sidecar", faults)
    kept = unrateable.join(key, on="query_id", how="semi").select(*_PAIR, pl.lit(-1, pl.Int64).alias("grade"))
    return _sorted(pl.concat([key.select(*_PAIR, pl.col("grade").cast(pl.Int64)), kept]))


def _by_query(rows: pl.DataFrame) -> list[tuple[str, list[tuple[str, int]]]]:
    grouped: dict[str, list[tuple[str, int]]] = {}
    for query_id, chunk_id, grade in rows.select(*_PAIR, "grade").iter_rows():
        grouped.setdefault(query_id, []).append((chunk_id, grade))
    return list(grouped.items())


def _refuse_for_trec(rows: pl.DataFrame, name: str) -> None:
    faults = []
    for column in _PAIR:
        bad = rows.filter(pl.col(column).str.contains(r"^$|^#|[\s\p{Z}\p{Cc}]"))[column].unique().sort()
        mend = "Use judgments.json or key.jsonl, which hold any id, or give the ids without these characters."
        faults += [
            Fault(
                f"{column} {value!r}",
                "an id that a TREC file can't hold",
                "no blank, no control character, no leading #",
                mend,
            )
            for value in bad
        ]
    if faults:
        raise Refused(f"{name} was not written", faults)


def _lines(records: Iterable[Mapping[str, object]]) -> bytes:
    return "".join(
        json.dumps(r, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n" for r in records
    ).encode()


def _json(value: object) -> bytes:
    return (
        json.dumps(value, ensure_ascii=False, indent=2, sort_keys=not isinstance(value, list), allow_nan=False) + "\n"
    ).encode()
