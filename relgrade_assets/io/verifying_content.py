"""What a published folder says, computed again from its other files (P33, P36): key, qrels and other forms, log,
agreement and means.

For `relgrade verify`, of files that are known to be those that were published: a fault here is a folder that was made
wrong, or rewritten as a whole without care. Nothing is read from outside of the folder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import events, publication, tool_exports
from relgrade_assets.io.croissant import NAME
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.parquet import BROKEN, read_parquet
from relgrade_assets.io.standing import standing_of
from relgrade_assets.methods import agreement as statistics
from relgrade_assets.methods import gates, grading
from relgrade_assets.protocol.canonical import canonical_json, digest_bytes

_PAIR = ["query_id", "chunk_id"]
_KEY = {"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64}
_NEAR = 1e-9
_BROKEN = (
    *(Refused, ValueError, KeyError, TypeError, IndexError, AttributeError, OSError),
    *BROKEN,
)


@dataclass
class Found:
    """Faults by file; what was recomputed, and what could not be and why."""

    faults: list[Fault] = field(default_factory=list)
    recomputed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass
class _Folder:
    """The folder's content, read as the parts need it."""

    files: Mapping[str, bytes]
    manifest: dict[str, Any]
    log: Sequence[events.Event] | None

    @property
    def about(self) -> dict[str, Any]:
        """The key's identity."""
        return self.manifest["key"]  # type: ignore[no-any-return]

    @property
    def key(self) -> pl.DataFrame:
        return _lines(self.files["key.jsonl"], _KEY)

    @property
    def unrateable(self) -> pl.DataFrame:
        return _lines(self.files["unrateable.jsonl"], {name: _KEY[name] for name in _PAIR})

    @property
    def pools(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files["pools.jsonl"].splitlines()]

    @property
    def sample(self) -> pl.DataFrame:
        """query_id, query, stratum of the key's queries; query is the id where the study is private."""
        rows = [(p["query_id"], p.get("query", p["query_id"]), p["stratum"]) for p in self.pools]
        return pl.DataFrame(rows, schema=["query_id", "query", "stratum"], orient="row")

    @property
    def graders(self) -> list[str]:
        return [g["pseudonym"] for g in self.about["graders"]]

    @property
    def by_grader(self) -> pl.DataFrame:
        """query_id, chunk_id, grader (pseudonym), grade (null where unrateable)."""
        rows = [line.split(" ") for line in self.files["qrels_by_grader.txt"].decode().splitlines()]
        columns = dict.fromkeys(["query_id", "grader", "chunk_id", "grade"], pl.String)
        frame = pl.DataFrame(rows, schema=columns, orient="row")
        return frame.select(*_PAIR, "grader", pl.col("grade").cast(pl.Int64).replace(-1, None))

    def table(self, name: str) -> pl.DataFrame:
        return read_parquet(self.files[f"{name}.parquet"])


def check(files: Mapping[str, bytes], manifest: dict[str, Any], log: Sequence[events.Event] | None) -> Found:
    """Recompute what `files` allow. `manifest` fits its schema; `log` is None where the events are altered."""
    folder = _Folder(files, manifest, log)
    found = Found()
    done: list[str] = []
    left: list[str] = []
    for needed, what, part in _PARTS:
        lacking = [name for name in needed if name not in files or (name == "events.jsonl" and not log)]
        if lacking:
            left.append(f"{what} (without a sound {', '.join(lacking)})")
            continue
        try:
            outcome = list(part(folder))
        except _BROKEN as error:
            outcome = [Fault(needed[0], f"content that can't be read ({type(error).__name__})", "what is published")]
        said = [x for x in outcome if isinstance(x, str)]
        left += said
        found.faults += [x for x in outcome if isinstance(x, Fault)]
        if not said:
            done.append(what)
    found.recomputed, found.left_out = tuple(done), (*left, *NEVER)
    return found


def not_checked(why: str) -> tuple[str, ...]:
    """What `check` says was left out where nothing could be recomputed, for one reason."""
    return (*(f"{what} ({why})" for _, what, _ in _PARTS), *NEVER)


NEVER = (
    "per-query measures (the runs are not published: `relgrade score` computes them from key and run)",
    "headlines and intervals (the sampling weights are not published)",
)
"""What no published folder can tell."""


Outcome = Iterator[Fault | str]


def _key(folder: _Folder) -> Outcome:
    about, key = folder.about, folder.key
    data = folder.files["key.jsonl"]
    if digest_bytes(data) != about["key_sha256"]:
        yield Fault("key.jsonl", f"sha256 {digest_bytes(data)}", f"{about['key_sha256']}, as the manifest names it")
    if publication.key_jsonl(key) != data:
        yield Fault("key.jsonl", "another form", "canonical JSON Lines, sorted by query and chunk (P33)")
    counts = {str(g): n for g, n in key.group_by("grade").len().iter_rows()}
    scale = {g["grade"] for g in about["scale"]["grades"]}
    for name, is_, due in (
        ("pairs", key.height, about["pairs"]),
        ("queries", key["query_id"].n_unique(), about["queries"]),
        ("grades", counts, about["grades"]),
        ("unrateable", folder.unrateable.height, about["unrateable"]),
        ("grades off the scale", sorted(set(key["grade"]) - scale), []),
        ("dropped queries", sorted(set(key["query_id"]) & set(about["dropped_queries"])), []),
        ("pairs twice", key.height - key.unique(_PAIR).height, 0),
    ):
        if is_ != due:
            yield Fault("key.jsonl", f"{name} {is_}", f"{due}, as the manifest says")
    if "key.parquet" in folder.files and not folder.table("key").equals(key):
        yield Fault("key.parquet", "other rows", "those of key.jsonl")
    if publication.unrateable_jsonl(folder.unrateable) != folder.files["unrateable.jsonl"]:
        yield Fault("unrateable.jsonl", "another form", "canonical JSON Lines, sorted by query and chunk")


def _qrels(folder: _Folder) -> Outcome:
    yield from _same(folder, "qrels.txt", publication.qrels_bytes(folder.key, folder.unrateable))


def _by_grader(folder: _Folder) -> Outcome:
    given = folder.by_grader
    names = [*folder.graders, folder.about["auditor"]["pseudonym"]]
    strangers = sorted(set(given["grader"]) - set(names))
    if strangers:
        yield Fault("qrels_by_grader.txt", f"grades by {', '.join(strangers)}", f"by {', '.join(names)}")
        return
    same = {name: name for name in names}
    yield from _same(folder, "qrels_by_grader.txt", publication.qrels_by_grader_bytes(given, same))
    combined = grading.combine(
        given.filter(pl.col("grader").is_in(folder.graders)).with_columns(reason=pl.lit("")),
        order=folder.graders,
        rule=folder.about["combine"],
    )
    made = combined.drop_nulls("grade").select(*_PAIR, "grade").sort(_PAIR)
    if not made.equals(folder.key.sort(_PAIR)):
        odd = made.join(folder.key, on=[*_PAIR, "grade"], how="anti").height
        yield Fault("qrels_by_grader.txt", f"{odd} grades that don't combine to the key's", "the key (P30)")


def _judgments(folder: _Folder) -> Outcome:
    private = folder.manifest["private"]
    yield from _same(folder, "judgments.json", publication.judgments_json(folder.key, folder.sample, private=private))


def _pools(folder: _Folder) -> Outcome:
    arms = {a["name"] for a in folder.about["arms"]}
    found = [(p["query_id"], arm) for p in folder.pools for arm in p["arms_pooled"]]
    strangers = sorted({arm for _, arm in found} - arms)
    if strangers:
        yield Fault("pools.jsonl", f"the arms {', '.join(strangers)}", "arms that the manifest names")
    pooled = pl.DataFrame(found, schema={"query_id": pl.String, "arm": pl.String}, orient="row")
    depth, private = folder.about["depth"], folder.manifest["private"]
    due = publication.pools_jsonl(folder.key, folder.unrateable, folder.sample, pooled, depth=depth, private=private)
    yield from _same(folder, "pools.jsonl", due)


def _tools(folder: _Folder) -> Outcome:
    about, names = folder.about, [*folder.graders, folder.about["auditor"]["pseudonym"]]
    made = tool_exports.exports(
        folder.key,
        folder.by_grader,
        folder.sample,
        {name: name for name in names},
        name=about["experiment"],
        description=f"relgrade, round {about['round']}, key {about['key_sha256']}",
        private=folder.manifest["private"],
    )
    for name, data in made.items():
        if name in folder.files:
            yield from _same(folder, name, data)


def _chain(folder: _Folder) -> Outcome:
    log, about = list(folder.log or ()), folder.about
    head = (folder.manifest["events"]["head"], folder.manifest["events"]["length"])
    for fault in events.check_chain(log, anchor=head):
        yield Fault(f"events.jsonl, {fault.where}", fault.found, fault.expected, fault.mend)
    if len(log) != head[1]:
        yield Fault("events.jsonl", f"{len(log)} events", f"{head[1]}, as the manifest says")
    lines = [canonical_json({n: getattr(e, n) for n in events.Event.__dataclass_fields__}) + b"\n" for e in log]
    if b"".join(lines) != folder.files["events.jsonl"]:
        yield Fault("events.jsonl", "another form", "canonical JSON Lines")
    if {e.experiment for e in log} - {about["experiment"]}:
        yield Fault("events.jsonl", "events of another experiment", str(about["experiment"]))
    mine = [e for e in log if e.round == about["round"]]
    frozen = next((e.seq for e in mine if e.kind == "frozen" and e.body["key_digest"] == about["key_sha256"]), None)
    if frozen is None:
        yield Fault("events.jsonl", "no freeze of this key", f"{about['key_sha256']} in round {about['round']}")
    for e in mine:
        if e.kind in ("first_reading", "read_again") and (frozen is None or e.seq < frozen):
            yield Fault(f"events.jsonl, event {e.seq}", "measures read before the freeze", "after it (P34)")
    standing = standing_of(log, about["round"], about["key_sha256"])
    if standing is not None and folder.manifest["status"] != publication.status_of(standing):
        yield Fault("manifest.json", f"status {folder.manifest['status']['status']}", f"{standing.status}, by the log")
    read = [e.body.get("measures_digest") for e in mine if e.kind in ("first_reading", "read_again")]
    if not read:
        yield Fault("events.jsonl", "no reading of measures", "one before they were published (P34)")
    elif "query_measures.parquet" in folder.files and read[-1] is not None:
        found = content_digest(folder.table("query_measures"))
        if found != read[-1]:
            yield Fault("query_measures.parquet", f"content digest {found}", f"{read[-1]}, as the log has it (P34)")


def _verdicts(folder: _Folder) -> Outcome:
    rows = folder.table("agreement").filter(
        (pl.col("comparison") == statistics.KEY_AUDITOR) & (pl.col("scope") == "all") & pl.col("grade").is_null()
    )
    held = {r["statistic"]: r for r in rows.to_dicts()}
    binary = len(folder.about["scale"]["grades"]) == 2
    judged = {v["gate"]: v for v in folder.about["verdicts"]}
    if set(judged) != set(gates.gates_of(binary_scale=binary)):
        yield Fault("manifest.json", f"verdicts of {', '.join(sorted(judged))}", "one of each gate (P28)")
    for gate, said in judged.items():
        row = held.get(gate)
        if row is None or not any(_near(said["value"], row[end]) for end in ("value", gates.worst_end_of(gate))):
            yield Fault("agreement.parquet", f"{gate} {row and row['value']}", f"{said['value']}, as the manifest says")
        elif gates.verdict(gate, said["threshold"], said["value"])[0] != "passed":
            yield Fault("manifest.json", f"{gate} {said['value']} passed", f"not at the gate {said['threshold']}")


def _agreement(folder: _Folder) -> Outcome:
    auditor, scale = folder.about["auditor"]["pseudonym"], folder.about["scale"]
    given = folder.by_grader
    audited = given.filter(pl.col("grader") == auditor).select(*_PAIR, b="grade")
    combined = grading.combine(
        given.filter(pl.col("grader") != auditor).with_columns(reason=pl.lit("")),
        order=folder.graders,
        rule=folder.about["combine"],
    )
    pairs = combined.select(*_PAIR, a="grade").join(audited, on=_PAIR, how="inner").drop_nulls()
    labels = sorted(g["grade"] for g in scale["grades"])
    tables = statistics.query_tables(pairs, labels)[1]
    matrix = tables.sum(axis=0)
    two = statistics.binary(tables, labels, scale["relevant_from"]).sum(axis=0)
    rows = folder.table("agreement").filter(
        (pl.col("comparison") == statistics.KEY_AUDITOR) & (pl.col("scope") == "all") & pl.col("grade").is_null()
    )
    held = {r["statistic"]: r for r in rows.to_dicts()}
    if any(held[name]["n"] != int(matrix.sum()) for name in ("weighted_kappa", "disagreement")):
        yield "agreement from grades (audited queries without anything relevant are not published)"
        return
    for name, made in (
        ("weighted_kappa", statistics.weighted_kappa(matrix)),
        ("binary_kappa", statistics.cohen_kappa(two)),
        ("disagreement", statistics.disagreement(matrix)),
        ("two_step", statistics.disagreement(matrix, 2)),
    ):
        if not _near(made.value, held[name]["value"]):
            yield Fault("agreement.parquet", f"{name} {held[name]['value']}", f"{made.value}, from qrels_by_grader.txt")


def _means(folder: _Folder) -> Outcome:
    each, arms = folder.table("query_measures"), folder.table("measures")
    kept, named = set(folder.key["query_id"]), {a["name"] for a in folder.about["arms"]}
    if set(each["query_id"]) != kept or set(each["arm"]) != named:
        yield Fault("query_measures.parquet", "other queries or arms", "the key's queries and the manifest's arms")
    if each.group_by("arm", "measure").len()["len"].unique().to_list() != [len(kept)]:
        yield Fault("query_measures.parquet", "queries missing or twice", "one row an arm, query and measure")
    made = {
        (arm, measure): part["value"].drop_nulls().to_list()
        for (arm, measure), part in each.sort("query_id").group_by("arm", "measure")
    }
    if "measures.csv" in folder.files:
        yield from _same(folder, "measures.csv", publication.measures_csv(arms))
    for row in arms.filter(pl.col("scope") == "plain").to_dicts():
        values = made.get((row["arm"], row["measure"]), [])
        due = math.fsum(values) / len(values) if values else None
        if not _near(row["value"], due) or row["n"] != len(values):
            where = f"{row['measure']} of {row['arm']}"
            yield Fault("measures.parquet", f"{where} {row['value']}", f"{due}, the mean of query_measures.parquet")


def _listed(folder: _Folder) -> Outcome:
    held = {f["name"]: f["sha256"] for f in json.loads(folder.files[NAME])["distribution"]}
    for name, digest in held.items():
        if name not in folder.manifest["files"] or folder.manifest["files"][name]["sha256"] != digest:
            yield Fault(NAME, f"sha256 {digest} of {name}", "the manifest's")


def _differences(folder: _Folder) -> Outcome:
    each = folder.table("query_measures").drop_nulls("value")
    held = {(r["arm"], r["query_id"], r["measure"]): r["value"] for r in each.to_dicts()}
    queries = sorted(set(each["query_id"]))
    for row in folder.table("arm_comparisons").to_dicts():
        one, other, measure = row["arm"], row["other"], row["measure"]
        both = [(held.get((one, q, measure)), held.get((other, q, measure))) for q in queries]
        pairs = [(x, y) for x, y in both if x is not None and y is not None]
        due = math.fsum(x - y for x, y in pairs) / len(pairs) if pairs else None
        wins, losses = sum(x > y for x, y in pairs), sum(x < y for x, y in pairs)
        if not _near(row["difference"], due) or (row["n"], row["wins"], row["losses"]) != (len(pairs), wins, losses):
            where = f"{row['measure']}, {row['arm']} - {row['other']}"
            yield Fault("arm_comparisons.parquet", f"{where} {row['difference']}", f"{due}, by query_measures.parquet")


_PARTS: tuple[tuple[tuple[str, ...], str, Callable[[_Folder], Outcome]], ...] = (
    (("key.jsonl", "unrateable.jsonl"), "the key and its counts", _key),
    (("events.jsonl",), "the event log's chain", _chain),
    (("qrels.txt", "key.jsonl", "unrateable.jsonl"), "qrels", _qrels),
    (("qrels_by_grader.txt", "key.jsonl"), "the key from graders' grades", _by_grader),
    (("pools.jsonl", "key.jsonl", "unrateable.jsonl"), "pools", _pools),
    (("judgments.json", "key.jsonl", "pools.jsonl"), "judgments", _judgments),
    (("ltr.txt", "key.jsonl", "pools.jsonl", "qrels_by_grader.txt"), "other tools' forms", _tools),
    (("agreement.parquet",), "verdicts from agreement", _verdicts),
    (("agreement.parquet", "qrels_by_grader.txt"), "agreement from grades", _agreement),
    (("query_measures.parquet", "measures.parquet", "key.jsonl"), "plain means from per-query measures", _means),
    ((NAME,), "digests in croissant.json", _listed),
    (("arm_comparisons.parquet", "query_measures.parquet"), "differences between arms", _differences),
)


def _same(folder: _Folder, name: str, due: bytes) -> Outcome:
    if folder.files[name] != due:
        yield Fault(name, f"sha256 {digest_bytes(folder.files[name])}", f"{digest_bytes(due)}, made again from the key")


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=0, abs_tol=_NEAR)


def _lines(data: bytes, schema: Mapping[str, Any]) -> pl.DataFrame:
    rows = [json.loads(line) for line in data.splitlines()]
    return pl.DataFrame(rows, schema=dict(schema), orient="row")
