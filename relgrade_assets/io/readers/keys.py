"""Judgments for `relgrade score`: TREC qrels, BEIR's TSV, or a frozen key, never grades that are not frozen (P34).

One grade a pair comes out. What the columns of qrels may hold is qrels.py's business; measures are methods'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers.plain_qrels import plain_qrels
from relgrade_assets.io.readers.qrels import qrels_of
from relgrade_assets.io.readers.records import Column, collect_records
from relgrade_assets.io.text import Missing, read_bytes, read_text
from relgrade_assets.methods.kept_rows import Judged, judged_of

KEY = "key.jsonl"
MOST_MANIFEST_BYTES = 1 << 26
_LINE = r'^\{"query_id":"(?:[^"\\]|\\.)*","chunk_id":"(?:[^"\\]|\\.)*","grade":(?:0|-?[1-9][0-9]*)\}$'
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")


@dataclass(frozen=True)
class Judgments:
    """Judgments as they were read, each pair once, and what was accepted and counted."""

    rows: pl.DataFrame | Judged
    notices: tuple[Notice, ...] = ()

    @cached_property
    def frame(self) -> pl.DataFrame:
        """query_id, chunk_id (String), grade (Int64, -1 for pooled without a grade)."""
        return self.rows.pairs() if isinstance(self.rows, Judged) else self.rows

    @property
    def grades(self) -> pl.DataFrame:
        """query_id and grade of the same rows: all that measures need where hits are found already."""
        return self.rows.frame if isinstance(self.rows, Judged) else self.rows.select("query_id", "grade")

    @property
    def query_ids(self) -> list[str]:
        """Every judged query, sorted by code point."""
        if isinstance(self.rows, Judged):
            return [name.decode() for name in sorted(self.rows.blocks)]
        return self.rows["query_id"].unique().sort().to_list()

    @cached_property
    def judged(self) -> Judged | None:
        """To look pairs up in; None where an id is empty or long."""
        return self.rows if isinstance(self.rows, Judged) else judged_of(self.rows)


def read_judgments(
    path: Path, *, name: str, group: str | None = None, negatives: Mapping[int, int] | None = None
) -> Judgments:
    """Judgments of pairs, one grade each.

    A folder stands for the frozen key in it: a published folder, or a round of the key store. A file that ends in
    .jsonl is a canonical key; if its folder lists digests, its own must be among them. Everything else is qrels, of
    which `group` picks one judge (column 2).

    P34: raises Refused for a folder without a frozen key and for JSON Lines that are no canonical key, such as grades;
    also as the readers do, and where two judges graded one pair and `group` doesn't say whose grade counts. Notices:
    read_qrels', key_void, key_post_hoc, key_superseded.
    """
    if path.is_dir():
        if not (path / KEY).is_file():
            found = "an experiment" if (path / "experiment.yaml").is_file() else f"a folder without {KEY}"
            mend = f"Freeze the key; it is then in the published folder as {KEY}."
            raise _not_frozen(name, found, mend)
        path, name = path / KEY, f"{name.rstrip('/')}/{KEY}"
    if path.suffix.lower() == ".parquet":
        mend = (
            f"{KEY} beside it has the same rows." if (path.parent / KEY).is_file() else f"Of a frozen key, give {KEY}."
        )
        expected = f"TREC qrels, BEIR's TSV, {KEY}, or the folder of a frozen key"
        raise Refused(f"{name} can't be used", [Fault(name, "Parquet", expected, mend)])
    if re.search(r"\.jsonl(\.gz|\.zst)?$", path.name, re.IGNORECASE):
        return _key(path, name)
    text = read_text(path, name=name)
    plain = plain_qrels(text.data) if group is None else None
    if plain is not None:
        return Judgments(plain, text.notices)
    read = qrels_of(text, name=name, negatives=negatives)
    return Judgments(_one_grade(read.frame, name, group), read.notices)


def _one_grade(frame: pl.DataFrame, name: str, group: str | None) -> pl.DataFrame:
    alone = (frame["group"] == frame["group"][0]).all()
    groups = [frame["group"][0]] if alone else frame["group"].unique().sort().to_list()
    if group is not None:
        frame = frame.filter(pl.col("group") == group)
        if not frame.height:
            listed = ", ".join(groups[:20])
            raise Refused(f"{name} can't be used", [Fault(f"{name}, column 2", f"no {group!r}", f"one of {listed}")])
    pairs = frame.select("query_id", "chunk_id", "grade")
    if len(groups) > 1 and group is None:
        twice = pairs.filter(pl.struct("query_id", "chunk_id").is_duplicated())
        if twice.height:
            listed = ", ".join(groups[:20])
            found = f"{twice.height} grades of pairs that several judges graded (column 2: {listed})"
            raise Refused(f"{name} can't be used", [Fault(name, found, "one grade a pair", "Choose with --group.")])
    return pairs


def _key(path: Path, name: str) -> Judgments:
    if not path.is_file():
        raise Missing(f"{name} is not there", [Fault(name, "no such file", "a file")])
    columns = {
        "query_id": Column("query_id", "id"),
        "chunk_id": Column("chunk_id", "id"),
        "grade": Column("grade", "int", needed=False, filled=False),
    }
    data = read_bytes(path, name=name)
    first = data[: data.find(b"\n") + 1 or 4096].decode(errors="replace").strip()
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        value = None
    keys = list(value) if isinstance(value, dict) else []
    if set(keys) - {"query_id", "chunk_id", "grade"} and {"grader", "reason", "grade"} & set(keys):
        raise _not_frozen(name, f"grades with {', '.join(keys)}", "Audit and freeze them; the key has no reasons.")
    read = collect_records(path, name=name, format="jsonl", columns=columns)
    read.faults.refuse()
    lines = pl.scan_lines(data, name="raw").select((~pl.col("raw").str.contains(_LINE)).sum()).collect().item()
    lines = lines or data.count(b"\r") + _spelled_otherwise(data)
    pairs = read.frame.select("query_id", "chunk_id", "grade")
    ordered = pairs.unique(["query_id", "chunk_id"]).sort("query_id", "chunk_id")
    if lines or not ordered.equals(pairs) or not data.endswith(b"\n"):
        found = f"JSON Lines that are no canonical key ({lines} lines of another form)" if lines else "unsorted pairs"
        raise _not_frozen(name, found, "Take key.jsonl as it was published, or qrels.txt.")
    return Judgments(pairs, (*read.notices, *_as_listed(path, name, data)))


def _spelled_otherwise(data: bytes) -> int:
    """Lines of JSON with a backslash where the canonical key has the character itself, or another escape of it."""
    escaped = [line for line in data.split(b"\n") if b"\\" in line] if b"\\" in data else []
    return sum(
        json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")).encode() != line for line in escaped
    )


def _as_listed(path: Path, name: str, data: bytes) -> list[Notice]:
    """The key against the digests in its folder; whether it is void (P35)."""
    import hashlib  # loads OpenSSL, which qrels need not

    digest = hashlib.sha256(data).hexdigest()
    manifest, sums, status = (path.parent / file for file in ("manifest.json", "SHA256SUMS", "status.json"))
    due = None
    if path.name == KEY and manifest.is_file() and manifest.stat().st_size < MOST_MANIFEST_BYTES:
        due = _at(_json(manifest), "files", KEY, "sha256")
    elif path.name == KEY and sums.is_file():
        listed = [_SUM.fullmatch(line) for line in sums.read_text("utf-8", "replace").splitlines()]
        due = next((m[1] for m in listed if m and m[2] == KEY), None)
    if due is not None and due != digest:
        raise Refused(f"{name} was altered after the freeze", [Fault(name, f"sha256 {digest}", f"{due}")])
    if not status.is_file():
        status = path.parent.with_suffix(".status.json")  # of the key store, whose folders are never written again
    about = _json(status) if path.name == KEY and status.is_file() else {}
    found = _at(about, "status")
    if found in ("void", "post_hoc", "superseded"):
        return [Notice(f"key_{found}", 1, f"{name}: the key is {found}: {_at(about, 'why')}")]
    return []


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError):
        return {}


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _not_frozen(name: str, found: str, mend: str) -> Refused:
    return Refused(
        "Only a frozen key is scored (P34)",
        [Fault(name, found, "qrels, or a frozen key", mend)],
        untouched="Nothing was measured.",
    )
