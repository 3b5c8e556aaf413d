"""`relgrade verify NAME` (P36): a whole experiment checked with access to all of it: key store, ledger, log, tables,
measures, published folder.

Every fault names its file under the state folder, all are told at once, and every check stands under what was checked
or under what was not, with why; nothing is written but a void that is found (P35). What a published folder says by
itself is verifying.py's to check, and making a round again verifying_rounds.py's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from relgrade_assets.errors import Fault, NotThere, Refused
from relgrade_assets.io import events, publication, restating, verifying, verifying_rounds
from relgrade_assets.io.croissant import NAME
from relgrade_assets.io.events import Event
from relgrade_assets.io.frames import bytes_fault, content_digest, read_label, read_table
from relgrade_assets.io.parquet import BROKEN, read_parquet
from relgrade_assets.io.publishing import REPORT
from relgrade_assets.io.report.store import stored_report
from relgrade_assets.io.standing import Standing, kept_files, standing_of, status_bytes
from relgrade_assets.io.study import Study
from relgrade_assets.io.verifying_content import NEVER
from relgrade_assets.io.verifying_rounds import Outcome, Tables
from relgrade_assets.io.voiding import RECORDED, altered, examine
from relgrade_assets.protocol.canonical import canonical_json, digest_bytes
from relgrade_assets.schemas import TABLES

_REMADE = ("manifest.json", "status.json", "events.jsonl", NAME, publication.SUMS)
"""Published files that are remade when the log says something new of the key."""
_PUBLISHED = {
    "measures.parquet": "arm_measures",
    "query_measures.parquet": "query_measures",
    "arm_comparisons.parquet": "arm_comparisons",
}


@dataclass(frozen=True, slots=True)
class StudyChecked:
    """Faults by file; what was checked; what could not be, and why; the folder's own check where one is published."""

    faults: tuple[Fault, ...]
    checked: tuple[str, ...]
    left_out: tuple[str, ...]
    standing: Standing | None
    chain: tuple[str, ...]
    keys: tuple[verifying.Key, ...]
    folder: verifying.Checked | None


def check_study(study: Study) -> StudyChecked:
    """Check everything that is kept of an experiment. Raises Refused where nothing was recorded yet."""
    if not study.has_ledger:
        fault = Fault(study.home.ledger_url.rsplit("/", 1)[-1], "no ledger", "a study that has begun")
        raise Refused(f"Nothing of {study.name} is recorded yet, so there is nothing to verify", [fault])
    faults: list[Fault] = []
    checked: list[str] = []
    left: list[str] = []
    log: list[Event] = []
    standing: Standing | None = None

    def part(what: str, outcome: Outcome, *, unless: str = "") -> bool:
        """Whether it was done and found nothing; not begun where there is a reason `unless`."""
        said: list[Fault | str] = [unless] if unless else []
        try:
            for one in () if unless else outcome:
                said.append(one)
        except Refused as refused:
            said += list(refused.faults) or [Fault(what, refused.what, "what was written")]
        except NotThere as missing:
            said.append(str(missing))
        faults.extend(x for x in said if isinstance(x, Fault))
        left.extend(f"{what} ({x})" for x in said if isinstance(x, str))
        checked.extend([] if any(isinstance(x, str) for x in said) else [what])
        return not said

    part("the ledger's database", _database(study))
    broken = ""
    try:
        log = study.log
    except Refused as refused:
        broken = "the event log can't be read"
        said = refused.faults or [Fault("events", refused.what, "the event log")]
        faults += [Fault(f"{_ledger(study)}, {f.where}", f.found, f.expected, f.mend) for f in said]
    chained = part("the event log's chain", _chain(_ledger(study), log), unless=broken)
    rounds = {e.round: e for e in reversed(log) if e.kind == "frozen"}
    frozen = [rounds[n] for n in sorted(rounds)]
    kept = {}
    for each in frozen:
        part(f"the ledger's rows of round {each.round}", iter(altered(study, each)))
        kept[each.round] = part(f"the key store, round {each.round}", _stored(study, log, each))
    part("every stored key in the log", _unlogged(study, log), unless=broken)
    tables: Tables = {}
    sound = part("tables", _tables(study, tables))
    part("reports", _reports(study, tables), unless="" if sound else _TABLES)
    for each in frozen:
        why = _LOG if not chained else "" if kept[each.round] else _STORE
        for what, outcome in verifying_rounds.parts(study, log, each, tables):
            part(what, outcome, unless="" if sound and not why else why or _TABLES)
    if not frozen:
        part("each round's key and measures made again", iter(()), unless=broken or "nothing is frozen yet")
    folder, found = study.home.published / study.name, None
    there = folder.is_dir()
    if there:
        found = verifying.check_folder(folder)
        faults += [Fault(f"published/{study.name}/{f.where}", f.found, f.expected, f.mend) for f in found.faults]
        outcome = _published(study, log, folder, found, tables)
    else:
        outcome = iter(())
    part("the published folder against store and tables", outcome, unless=broken if there else "none is published")
    if log:
        standing = examine(study)
        left += [f"{f.where} is not current: {f.found}" for f in _outdated(study)]
    if found:
        checked += [f"in the folder: {what}" for what in found.recomputed]
        left += [f"in the folder: {what}" for what in found.left_out if what not in NEVER]  # the store has them
    keys = tuple(verifying.Key(e.round, str(e.body["key_digest"]), _key_found(study, e.round)) for e in frozen)
    return StudyChecked(
        tuple(dict.fromkeys(faults)), tuple(checked), tuple(left), standing, tuple(e.hash for e in log), keys, found
    )


_TABLES = "a table was found changed"
_LOG = "the event log was found changed"
_STORE = "the stored key was found changed"


def _key_found(study: Study, n: int) -> str:
    """sha256 of the key as the store has it now; "" where it has none that can be read."""
    try:
        return digest_bytes((study.keys.folder(study.name, n) / "key.jsonl").read_bytes())
    except OSError:
        return ""


def _ledger(study: Study) -> str:
    return "ledger.sqlite" if study.ledger.sqlite else "the ledger"


def _database(study: Study) -> Outcome:
    where = _ledger(study)
    if not study.ledger.sqlite:
        yield "PostgreSQL checks its own files; relgrade sees rows alone"
        return

    def work(connection: sa.Connection) -> list[Fault]:
        said = [str(x) for x in connection.execute(sa.text("PRAGMA integrity_check(20)")).scalars()]
        names = set(connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars())
        gone = [f"{t}_no_{how}" for t in (*RECORDED, "events") for how in ("update", "delete")]
        broken = [line[:120] for line in said if line != "ok"]
        return [Fault(where, line, "a sound database", "Restore it from a copy.") for line in broken] + [
            Fault(where, f"no trigger {name}", "the database's own refusal of changes", "Somebody took it away.")
            for name in gone
            if name not in names
        ]

    yield from study.ledger.read(work)


def _chain(ledger: str, log: list[Event]) -> Outcome:
    for fault in events.check_chain(log):
        yield Fault(f"{ledger}, {fault.where}", fault.found, fault.expected, fault.mend)
    rounds = [e.round for e in log if e.kind == "opened"]
    if rounds != list(range(1, len(rounds) + 1)):
        yield Fault(f"{ledger}, events", f"openings of the rounds {rounds}", "each round opened once, in order")
    frozen: dict[int, tuple[int, object]] = {}
    for e in log:
        if e.kind == "frozen" and frozen.setdefault(e.round, (e.seq, e.body["key_digest"]))[1] != e.body["key_digest"]:
            yield Fault(f"{ledger}, event {e.seq}", "another key of a frozen round", "one key a round (P33)")
        if e.kind in ("first_reading", "read_again") and e.round not in frozen:
            yield Fault(f"{ledger}, event {e.seq}", "measures read before the freeze", "after it (P34)")


def _unlogged(study: Study, log: list[Event]) -> Iterator[Fault]:
    """Keys of the store whose freeze the log does not have, which comes before the store (P33)."""
    frozen = {study.keys.folder(study.name, e.round) for e in log if e.kind == "frozen"}
    for folder in sorted((study.home.state / "keys" / study.name).glob("round-*/")):
        if folder not in frozen:
            due = f"that of keys/{study.name}/{folder.name}"
            yield Fault(f"{_ledger(study)}, events", "no freeze", due, "Restore the ledger from a copy.")


def _stored(study: Study, log: list[Event], frozen: Event) -> Outcome:
    key, top = str(frozen.body["key_digest"]), study.home.state
    try:
        files = study.keys.load(study.name, frozen.round, key_digest=key, digests=kept_files(log, frozen.round))
    except Refused as refused:
        where = study.keys.folder(study.name, frozen.round).relative_to(top)
        for fault in refused.faults or [Fault(str(where), refused.what, "the key that was frozen")]:
            yield Fault(fault.where.removeprefix(f"{top}/"), fault.found, fault.expected, fault.mend)
        return
    where = study.keys.folder(study.name, frozen.round).relative_to(top)
    about = json.loads(files["key.json"])
    whose = (about["round"], about["key_sha256"])
    if canonical_json(about) + b"\n" != files["key.json"] or whose != (frozen.round, key):
        yield Fault(f"{where}/key.json", "another key's identity", f"round {frozen.round}, {key}")
    path = restating.status_path(study, frozen.round)
    found = path.read_bytes() if path.is_file() else b""
    if not _stated(found, log, frozen.round, key):
        mend = f"It is remade by the next `relgrade run {study.name}`."
        yield Fault(str(path.relative_to(top)), "not how the log says the key stands", "status.json of the log", mend)


def _stated(found: bytes, log: list[Event], round: int, key: str) -> bool:
    """Whether a status file says what the log said of the key at its length then, and still says."""
    said = verifying.loaded(found)
    at = said.get("events") if isinstance(said, dict) else None
    length = at.get("length") if isinstance(at, dict) else None
    if not isinstance(length, int):
        return False
    try:
        then = status_bytes(log[:length], round=round, key_digest=key)
    except Refused:
        return False
    return found == then and _words(standing_of(log, round, key)) == _words(standing_of(log[:length], round, key))


def _words(standing: Standing | None) -> tuple[str, ...]:
    return () if standing is None else (standing.status, standing.since, standing.why)


def _tables(study: Study, sound: Tables) -> Outcome:
    base = study.home.state / "tables" / study.name
    for path in sorted(p for p in base.rglob("*") if not p.is_dir() or p.is_symlink()):
        where = str(path.relative_to(study.home.state))
        table = path.stem
        parts = path.relative_to(base).parts
        due = ("rounds", parts[1]) if len(parts) == 3 and parts[1].isdecimal() else ()
        if path.is_symlink() or table not in TABLES or path.suffix != ".parquet" or parts[:-1] != due:
            yield Fault(where, "a file that is no table of this study", "its tables alone", "Take it out.")
            continue
        try:
            frame, label = read_table(path), read_label(path)
        except Refused as refused:
            for f in refused.faults:
                yield Fault(where, f.found, f.expected, f.mend)
            continue
        fault = bytes_fault(path, frame, label) if label is not None else None
        if fault is not None:
            yield Fault(where, fault.found, fault.expected, f"`relgrade run {study.name}` writes it again.")
        elif label is not None and (label.table, label.round) != (table, int(due[1]) if due else None):
            yield Fault(where, f"the table {label.table} of round {label.round}", "the table that its name says")
        elif label is not None:
            sound[path] = (frame, label)


def _reports(study: Study, tables: Tables) -> Outcome:
    """Every round's report, both versions, against the digests in the table `report`."""
    base = study.home.state / "reports" / study.name
    for folder in sorted(base.iterdir()) if base.is_dir() else []:
        n = int(folder.name.removeprefix("round-")) if folder.name.removeprefix("round-").isdecimal() else 0
        held = tables.get(study.path("report", n)) if n else None
        due = {f"{version}.html": sha for version, _, sha in held[0].iter_rows()} if held else {}
        there = {p.name: digest_bytes(p.read_bytes()) if p.is_file() else "" for p in sorted(folder.iterdir())}
        for name in sorted({*due, *there}):
            if there.get(name) != due.get(name):
                found = f"sha256 {there[name]}" if name in there else "no such file"
                where = str((folder / name).relative_to(study.home.state))
                yield Fault(where, found, due.get(name, "no report of that name"), "Materialise `report` again.")


def _published(study: Study, log: list[Event], folder: Path, itself: verifying.Checked, tables: Tables) -> Outcome:
    altered = {fault.where.split(",")[0] for fault in itself.faults}
    where = f"published/{study.name}"
    files = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    content = verifying.loaded(files.get("manifest.json", b""))
    about = content.get("key") if isinstance(content, dict) else None
    if not isinstance(about, dict) or not isinstance(about.get("round"), int):
        yield "its manifest.json does not say which round's key it is"
        return
    n = about["round"]
    if not study.keys.exists(study.name, n):
        yield Fault(f"{where}/manifest.json", f"a key of round {n}", "a round whose key is in the store")
        return
    try:
        stored = study.keys.load(study.name, n)
    except Refused:  # told already
        yield _STORE
        return
    for name in ("key.jsonl", "unrateable.jsonl"):
        if files.get(name) != stored[name]:
            yield Fault(f"{where}/{name}", "not the stored key's", f"sha256 {digest_bytes(stored[name])}")
    if about != json.loads(stored["key.json"]):
        yield Fault(f"{where}/manifest.json", "another identity of the key", "that of key.json in the store")
    known = files.get("events.jsonl", b"").count(b"\n")
    if files.get("events.jsonl") != events.as_jsonl(log[:known], publication.pseudonyms(study.design)):
        if altered & {"manifest.json", "events.jsonl"}:
            found = f"{known} events that are not the first {known} of {len(log)} in the ledger"
            yield Fault(f"{where}/events.jsonl", found, "the log as it stood then")
        else:  # the folder bears itself out, so the ledger's log was cut or rewritten since
            due = f"the {known} that {where}/events.jsonl has, or more"
            yield Fault(f"{_ledger(study)}, events", f"{len(log)} events", due, "Restore the ledger from a copy.")
    elif _words(standing_of(log, n, about["key_sha256"])) != _words(standing_of(log[:known], n, about["key_sha256"])):
        mend = f"`relgrade run {study.name}` remakes it."
        yield Fault(f"{where}/status.json", "how the key stood once", "how it stands by the log now", mend)
    for name, table in _PUBLISHED.items():
        held = tables.get(study.path(table, n))
        if held is not None and name in files and name not in altered and _rows_digest(files[name]) != held[1].digest:
            yield Fault(f"{where}/{name}", "other rows", f"content digest {held[1].digest}, the table {table}")
    if study.path("published_key", n) in tables:
        for name, _, sha in tables[study.path("published_key", n)][0].iter_rows():
            if name not in _REMADE and not name.endswith(".html") and digest_bytes(files.get(name, b"")) != sha:
                found = f"sha256 {digest_bytes(files[name])}" if name in files else "no such file"
                yield Fault(f"{where}/{name}", found, f"{sha}, as it was published")
    if REPORT in files:
        try:
            if stored_report(study, "public", n) != files[REPORT]:
                yield Fault(f"{where}/{REPORT}", "another page", "the stored report of that round")
        except (Refused, NotThere):  # told already, or not kept
            pass


def _rows_digest(data: bytes) -> str:
    """Content digest of a Parquet file; empty where it can't be read."""
    try:
        return content_digest(read_parquet(data))
    except (*BROKEN, TypeError):
        return ""


def _outdated(study: Study) -> list[Fault]:
    try:
        return study.outdated("published_key")
    except (Refused, NotThere):
        return []
