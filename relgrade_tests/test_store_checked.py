"""P36: `relgrade verify NAME`, part by part: what each check of a store finds by itself, of what the others would miss.
The command on spoilt stores is test_tampering's.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tiny
from command_line import LEDGER, at
from test_standing import FROZEN, OPENED, READ, SECOND, VOID, chain

from relgrade_assets.errors import Fault
from relgrade_assets.io import events, publication, verifying_rounds, verifying_study
from relgrade_assets.io.standing import status_bytes
from relgrade_assets.io.study import Study
from relgrade_assets.io.verifying import Checked, Key
from relgrade_assets.methods import key as key_methods
from relgrade_assets.protocol.canonical import canonical_json

Tables = verifying_study.Tables
NOTHING_WRONG = Checked({}, (), (), (), None, Key(None, "", ""), (), b"", b"")
"""What the published folder's own check found."""


def said(outcome: Iterable[Fault | str]) -> list[str]:
    """What a part found, as `where: words`; what it left out as it stands."""
    return [x if isinstance(x, str) else f"{x.where}: {x.found}" for x in outcome]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([OPENED, FROZEN, READ, SECOND], []),
        ([OPENED, FROZEN, FROZEN], []),
        ([OPENED, READ, FROZEN], ["event 2: measures read before the freeze"]),
        ([OPENED, SECOND, FROZEN, ("read_again", {"round": 2})], ["event 4: measures read before the freeze"]),
        ([OPENED, FROZEN, ("frozen", {"round": 1, "key_digest": "x"})], ["event 3: another key of a frozen round"]),
        ([OPENED, OPENED], ["events: openings of the rounds [1, 1]"]),
        ([SECOND], ["events: openings of the rounds [2]"]),
    ],
)
def test_the_log_by_itself(steps: list[Any], found: list[str]) -> None:
    """P4, P33, P34, P36: with every hash right; rounds in order, one key a round, frozen before it is read."""
    assert said(verifying_study._chain("it", chain(*steps))) == [f"it, {x}" for x in found]
    broken = [replace(e, at="x") if e.seq == 1 else e for e in chain(*steps)]
    assert said(verifying_study._chain("it", broken))[0].startswith("it, event 1: content of hash")


def test_a_status_file_says_what_the_log_said_and_still_says() -> None:
    """P33, P35: one that is older is right while nothing new was said of the key."""
    log = chain(OPENED, FROZEN, READ, VOID)

    def states(length: int, *, of: int, key: str = "k", found: bytes | None = None) -> bool:
        made = status_bytes(log[:length], round=1, key_digest="k") if found is None else found
        return verifying_study._stated(made, log[:of], 1, key)

    assert states(3, of=3) and states(2, of=3) and states(4, of=4)
    assert not states(3, of=4), "void since"
    assert not states(3, of=2), "of a longer log"
    assert not states(3, of=3, key="x")
    log[3] = replace(log[3], at=log[1].at)
    assert not states(3, of=4), "void at the very time of the freeze"
    now = status_bytes(log[:3], round=1, key_digest="k")
    for other in (
        b"",
        b"[]",
        now + b" ",
        now.replace(b'"valid"', b'"void"'),
        now.replace(b'"length": 3', b'"length": 0'),
    ):
        assert other != now and not states(3, of=3, found=other), other


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return at("frozen", tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def study(made: Path) -> Study:
    """A published study, that no test changes."""
    return tiny.study_of(made)


@pytest.fixture(scope="module")
def tables(study: Study) -> Tables:
    """Every table of it with its label."""
    found: Tables = {}
    assert said(verifying_study._tables(study, found)) == []
    return found


def test_every_trigger_that_is_gone_is_named(tmp_path: Path) -> None:
    """P23, P36: the database's own refusal of changes, of each table."""
    top = at("frozen", tmp_path)
    assert said(verifying_study._database(tiny.study_of(top))) == []
    with closing(sqlite3.connect(top / LEDGER)) as ledger:
        names = [n for (n,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name")]
        for name in names:
            ledger.execute(f'DROP TRIGGER "{name}"')
        ledger.commit()
    found = sorted(said(verifying_study._database(tiny.study_of(top))))
    assert found == [f"ledger.sqlite: no trigger {name}" for name in names] and len(names) == 14


def test_a_spoilt_key_is_told_once(tmp_path: Path) -> None:
    """P33, P36: by its name under the state folder; nothing is made again from it."""
    top = at("frozen", tmp_path)
    path = top / ".relgrade" / "keys" / tiny.NAME / "round-1" / "key.jsonl"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])
    found = verifying_study.check_study(tiny.study_of(top))
    assert {fault.where for fault in found.faults} == {"keys/tiny/round-1/key.jsonl"}
    assert not any(what.startswith("round 1: ") for what in found.checked)
    assert "round 1: the key from its grades (the stored key was found changed)" in found.left_out
    (key,) = found.keys
    assert key.found != key.frozen and str(key).endswith(f"NOT the one that was frozen, {key.frozen}")


def test_a_stored_key_whose_freeze_was_taken_out_of_the_log(tmp_path: Path) -> None:
    """P33: the log comes before the store, so that one without the other was altered; with nothing published, too."""
    top = at("frozen", tmp_path)
    shutil.rmtree(top / ".relgrade" / "published")
    with closing(sqlite3.connect(top / LEDGER)) as ledger:
        ledger.execute("DROP TRIGGER events_no_delete")
        ledger.execute("DELETE FROM events WHERE seq > 3")
        ledger.commit()
    faults = verifying_study.check_study(tiny.study_of(top)).faults
    assert ("ledger.sqlite, events", "no freeze") in [(f.where, f.found) for f in faults]


def test_files_that_are_no_table_or_another_one(tmp_path: Path) -> None:
    """P36: by name, place and label; a link is none, and what is named is not used."""
    study = tiny.study_of(at("frozen", tmp_path))
    base = study.home.state / "tables" / tiny.NAME
    first = base / "rounds" / "1"
    (base / "notes.txt").write_text("x")
    (base / "rounds" / "2").mkdir()
    (base / "rounds" / "old").mkdir()
    for to in (base / "grades.csv", base / "what.parquet", first / "deeper", base / "rounds" / "old"):
        to.mkdir(exist_ok=True) if to.suffix == "" else None
        shutil.copy(first / "grades.parquet", to if to.suffix else to / "grades.parquet")
    shutil.copy(first / "grades.parquet", base / "grades.parquet")
    shutil.copy(first / "grades.parquet", base / "rounds" / "2" / "grades.parquet")
    shutil.copy(first / "grades.parquet", first / "audit_grades.parquet")
    shutil.move(first / "verdicts.parquet", tmp_path / "verdicts.parquet")
    (first / "verdicts.parquet").symlink_to(tmp_path / "verdicts.parquet")
    found: Tables = {}
    none, other = "a file that is no table of this study", "the table grades of round"
    assert said(verifying_study._tables(study, found)) == [
        f"tables/tiny/{path}: {words}"
        for path, words in (
            ("grades.csv", none),
            ("grades.parquet", f"{other} 1"),
            ("notes.txt", none),
            ("rounds/1/audit_grades.parquet", f"{other} 1"),
            ("rounds/1/deeper/grades.parquet", none),
            ("rounds/1/verdicts.parquet", none),
            ("rounds/2/grades.parquet", f"{other} 1"),
            ("rounds/old/grades.parquet", none),
            ("what.parquet", none),
        )
    ]
    assert first / "grades.parquet" in found and first / "audit_grades.parquet" not in found
    assert not any(p.is_symlink() for p in found)


def test_a_store_that_says_another_key_than_the_log(study: Study) -> None:
    """P33: where the log's line holds no digests of files (it was rewritten), the key's identity still tells."""
    log = study.log
    frozen = next(e for e in log if e.kind == "frozen")
    assert said(verifying_study._stored(study, log, frozen)) == []
    assert set(frozen.body["files"]) == {"key.json", "key.jsonl", "unrateable.jsonl"}  # type: ignore[call-overload]
    folder = study.keys.folder(tiny.NAME, 1)
    bare = replace(frozen, body={k: v for k, v in frozen.body.items() if k != "files"})
    without = [bare if e == frozen else e for e in log]
    assert said(verifying_study._stored(study, without, bare)) == []
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    about = json.loads(kept[folder / "key.json"])
    for change in ({"round": 2}, {"key_sha256": "0" * 64}):
        spoilt = {p.name: data for p, data in kept.items() if p.name != publication.SUMS}
        spoilt["key.json"] = canonical_json({**about, **change}) + b"\n"
        elsewhere = replace_store(study, spoilt)
        first = said(verifying_study._stored(elsewhere, without, bare))[0]
        assert first == "keys/tiny/round-1/key.json: another key's identity"
    same = {p.name: data for p, data in kept.items() if p.name != publication.SUMS}
    (found,) = said(verifying_study._stored(replace_store(study, {**same, "key.jsonl": b""}), without, bare))
    assert found.startswith("keys/tiny/round-1/key.jsonl: sha256 "), "another key, with the digests of its files"
    (found,) = said(verifying_study._stored(replace_store(study, same, status=b"{}"), without, bare))
    assert found == "keys/tiny/round-1.status.json: not how the log says the key stands"


def replace_store(study: Study, files: dict[str, bytes], *, status: bytes | None = None) -> Study:
    """The study with a store of its own beside it, in which `files` were frozen, and the status file (or another)."""
    top = study.home.top / f"other-{len(list(study.home.top.iterdir()))}"
    state = top / ".relgrade"
    shutil.copytree(study.home.top / "data", top / "data")
    other = tiny.study_of(top)
    other.keys.freeze(tiny.NAME, 1, files)
    path = study.keys.folder(tiny.NAME, 1).with_suffix(".status.json")
    (state / "keys" / tiny.NAME / path.name).write_bytes(path.read_bytes() if status is None else status)
    return other


def test_reports_against_their_digests(study: Study, tables: Tables) -> None:
    """P36: both versions of every round; one changed, gone or too many is named."""
    folder = study.home.state / "reports" / tiny.NAME / "round-1"
    assert said(verifying_study._reports(study, tables)) == []
    page = (folder / "public.html").read_bytes()
    for name, data, words in (
        ("public.html", page + b" ", "sha256 "),
        ("public.html", None, "no such file"),
        ("more.html", b"x", "sha256 "),
    ):
        path = folder / name
        path.unlink() if data is None else path.write_bytes(data)
        (found,) = said(verifying_study._reports(study, tables))
        assert found.startswith(f"reports/tiny/round-1/{name}: {words}")
        path.unlink(missing_ok=True)
        (folder / "public.html").write_bytes(page)
    (without,) = [p for p in tables if p.stem == "report"]
    assert len(said(verifying_study._reports(study, {p: t for p, t in tables.items() if p != without}))) == 2


Held = verifying_rounds.Held


def held(study: Study, tables: Tables) -> Held:
    return {path.stem: table for path, table in tables.items()}


def relabelled(table: Any, **changes: Any) -> Any:
    """The table with another label."""
    return table[0], replace(table[1], **changes)


def about(study: Study) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(study.keys.load(tiny.NAME, 1)["key.json"])
    return made


def redesigned(study: Study) -> Study:
    """The study under another design."""
    later = tiny.study_of(study.home.top)
    later.design = later.design.model_copy(update={"depth": 9})
    return later


def test_the_key_is_made_again_from_grades(study: Study, tables: Tables) -> None:
    """P30, P33: from the graders' grades alone, by the round's own rule; of several graders under its design alone."""
    there, made_of = held(study, tables), about(study)
    key = key_methods.key_digest(there["frozen_key"][0])
    again = verifying_rounds.key_again
    assert said(again(study, there, made_of, key, 1)) == []
    frame, label = there["grades"]
    other = {**there, "grades": (frame.with_columns(grade=pl.lit(1, pl.Int64)), label)}
    (found,) = said(again(study, other, made_of, key, 1))
    assert found.startswith("tables/tiny/rounds/1/grades.parquet: a key with sha256 ")
    assert said(again(study, {}, made_of, key, 1)) == ["no table grades"]
    assert said(again(redesigned(study), there, made_of, key, 1)) == [], "one grader"
    twice = {**there, "grades": (pl.concat([frame, frame.with_columns(grader=pl.lit("cid"))]), label)}
    (found,) = said(again(redesigned(study), twice, made_of, key, 1))
    assert found == "experiment.yaml is another than this round's, so whose grade comes first is not known"


def test_the_pool_is_graded_whole(study: Study, tables: Tables) -> None:
    """P33: pairs without a grade and grades outside; pools of other inputs say nothing of a round."""
    there, made_of = held(study, tables), about(study)
    graded = verifying_rounds.pool_graded
    assert said(graded(study, there, made_of, 1)) == []
    for table, words in (
        ("grades", "1 pooled pairs without a grade, 0"),
        ("pools", "0 pooled pairs without a grade, 1"),
    ):
        frame, label = there[table]
        (found,) = said(graded(study, {**there, table: (frame[1:], label)}, made_of, 1))
        assert found.startswith(f"tables/tiny/rounds/1/grades.parquet: {words} grades outside")
    later = {**there, "pools": relabelled(there["pools"], digest="x")}
    assert said(graded(study, later, made_of, 1)) == ["the pools were made again since, from other inputs"]
    for table in ("grades", "pools"):
        assert said(graded(study, {t: x for t, x in there.items() if t != table}, made_of, 1)) == [f"no table {table}"]


MEASURES = ("query_measures", "arm_measures", "arm_comparisons")


def test_measures_are_made_again_from_key_and_runs(study: Study, tables: Tables) -> None:
    """P34, P37-P39: each table of them is named for its own, and each says why it could not be made again."""
    there, where = held(study, tables), "tables/tiny/rounds/1"

    def found(held: Held, study: Study = study) -> list[list[str]]:
        again = {t: held[t][0] for t in MEASURES[:1] if t in held}
        return [said(verifying_rounds.measured(study, held, 1, table, again)) for table in MEASURES]

    assert found(there) == [[], [], []]
    for place, table in enumerate(MEASURES):
        one: list[list[str]] = [[], [], []]
        one[place] = [f"{where}/{table}.parquet: content digest x"]
        assert found({**there, table: relabelled(there[table], digest="x")}) == one
        one[place] = ["none are stored"]
        less = found({t: x for t, x in there.items() if t != table})
        assert less == (one if place else [["none are stored"], *[["no table query_measures"]] * 2])
        source = "query_sample" if place else "runs"
        one[place] = [f"the table {source} was made again since, from other inputs"]
        inputs = {**there[table][1].inputs, source: "y"}
        assert found({**there, table: relabelled(there[table], digest="x", inputs=inputs)}) == one
    frame, label = there["query_measures"]
    spoilt = {**there, "query_measures": (frame.with_columns(value=pl.lit(1.0)), replace(label, digest="x"))}
    assert [len(x) for x in found(spoilt)] == [1, 0, 0], "the altered table alone"
    assert found({t: x for t, x in there.items() if t != "runs"}) == [["no table runs"], [], []]
    assert found(there, redesigned(study)) == [["experiment.yaml is another than this round's"]] * 3


def test_measures_are_those_that_were_read(study: Study, tables: Tables) -> None:
    """P34: the last reading of the round that the log has."""
    there, log = held(study, tables), study.log
    logged = verifying_rounds.logged
    where = "tables/tiny/rounds/1/query_measures.parquet: content digest "
    assert said(logged(study, there, log, 1)) == []
    assert said(logged(study, there, log[:-1], 1))[0].startswith(where)
    read = log[-1]
    later = events.Event(read.experiment, 9, read.at, "read_again", {**read.body, "measures_digest": "x"}, "", "")
    assert said(logged(study, there, [*log, later], 1))[0].startswith(where)
    elsewhere = replace(later, body={**later.body, "round": 2})
    assert said(logged(study, there, [*log, elsewhere], 1)) == [], "a reading of another round"
    assert said(logged(study, {}, log, 1)) == ["none are stored"]


def test_a_frozen_round_is_held_against_what_its_key_was_made_of(study: Study, tables: Tables) -> None:
    """P2, P33: a table of that round with another digest than key.json has is named, and another table frozen_key."""
    there, made_of = held(study, tables), about(study)
    key = key_methods.key_digest(there["frozen_key"][0])
    recorded = verifying_rounds.recorded
    assert said(recorded(study, there, made_of, key, 1)) == []
    spoilt = {**there, "verdicts": relabelled(there["verdicts"], digest="x")}
    assert said(recorded(study, spoilt, made_of, key, 1)) == ["tables/tiny/rounds/1/verdicts.parquet: content digest x"]
    shared = {**there, "pools": relabelled(there["pools"], digest="x")}
    assert said(recorded(study, shared, made_of, key, 1)) == [], "pools are made again"
    (found,) = said(recorded(study, there, made_of, "x", 1))
    assert found.startswith("tables/tiny/rounds/1/frozen_key.parquet: a key with sha256 ")
    assert said(recorded(study, {}, made_of, key, 1)) == ["no table frozen_key"]


def named(found: verifying_study.StudyChecked) -> set[str]:
    """Every check by its name, done or not."""
    return {*found.checked, *(what.split(" (")[0] for what in found.left_out if "is not current" not in what)}


def spoil(top: Path, file: str, data: bytes | None) -> None:
    path = top / ".relgrade" / file
    if data is None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("file", "data", "checks", "why"),
    [
        ("keys/tiny/round-1/key.jsonl", b"{}\n", "round 1: ", "the stored key was found changed"),
        ("tables/tiny/pools.parquet", b"x", "round 1: ", "a table was found changed"),
        ("published/tiny/manifest.json", b"{}", "in the folder: ", "manifest.json does not fit its schema"),
        ("published/tiny/manifest.json", None, "in the folder: ", "without manifest.json"),
        ("published/tiny", None, "the published folder against store and tables", "none is published"),
    ],
)
def test_every_check_stands_under_done_or_not_done(
    made: Path, tmp_path: Path, file: str, data: bytes | None, checks: str, why: str
) -> None:
    """P36: whatever is found, no check goes missing from what is said; those that hang on it are not done, with why."""
    whole = verifying_study.check_study(tiny.study_of(made))
    assert whole.faults == () and whole.left_out == ()
    top = tmp_path / "top"
    shutil.copytree(made, top)
    spoil(top, file, data)
    found = verifying_study.check_study(tiny.study_of(top))
    folder = {} if file != "published/tiny" else {what for what in named(whole) if what.startswith("in the folder: ")}
    assert named(found) == named(whole) - set(folder)
    due = {f"{what} ({why})" for what in named(found) if what.startswith(checks)}
    assert due and due <= set(found.left_out) and not any(what.startswith(checks) for what in found.checked)
    assert bool(found.faults) is (why != "none is published")


Files = dict[str, bytes]


def title(files: Files) -> Files:
    content = json.loads(files["manifest.json"])
    content["key"]["title"] = "Another"
    return {"manifest.json": publication.manifest_bytes(content)}


def another_round(files: Files) -> Files:
    content = json.loads(files["manifest.json"])
    content["key"]["round"] = 2
    return {"manifest.json": publication.manifest_bytes(content)}


PUBLISHED: dict[str, tuple[Callable[[Files], Files], list[str]]] = {
    "key": (lambda f: {"key.jsonl": f["key.jsonl"][1:]}, ["key.jsonl: not the stored key's", "key.jsonl: sha256 "]),
    "sidecar": (lambda f: {"unrateable.jsonl": b"x\n"}, ["unrateable.jsonl: not the", "unrateable.jsonl: sha256 "]),
    "identity": (title, ["manifest.json: another identity of the key"]),
    "round": (another_round, ["manifest.json: a key of round 2"]),
    "no manifest": (
        lambda f: {"manifest.json": b"{}"},
        ["its manifest.json does not say which round's key it is"],
    ),
    "measures": (
        lambda f: {"measures.parquet": f["query_measures.parquet"]},
        ["measures.parquet: other rows", "measures.parquet: sha256 "],
    ),
    "per query": (
        lambda f: {"query_measures.parquet": b"PAR1"},
        ["query_measures.parquet: other rows", "query_measures.parquet: sha256 "],
    ),
    "qrels": (lambda f: {"qrels.txt": f["qrels.txt"] + b"\n"}, ["qrels.txt: sha256 "]),
    "page": (lambda f: {"report.html": b"x"}, ["report.html: another page"]),
    "log": (lambda f: {"events.jsonl": f["events.jsonl"].replace(b"frozen", b"thawed")}, ["ledger.sqlite, events: 5 "]),
}


@pytest.mark.parametrize("how", sorted(PUBLISHED))
def test_a_published_folder_against_the_store(study: Study, tables: Tables, how: str) -> None:
    """P36, P41: though the folder's own check found nothing, each file that is not what the store has is named."""
    folder = study.home.published / tiny.NAME
    change, due = PUBLISHED[how]
    kept = {p.name: p.read_bytes() for p in folder.iterdir()}
    try:
        for name, data in change(kept).items():
            (folder / name).write_bytes(data)
        found = said(verifying_study._published(study, study.log, folder, NOTHING_WRONG, tables))
    finally:
        for name, data in kept.items():
            (folder / name).write_bytes(data)
    assert len(found) == len(due)
    for one, words in zip(found, due, strict=True):
        assert one.removeprefix("published/tiny/").startswith(words)


def test_a_published_folder_against_the_log(study: Study, tables: Tables) -> None:
    """P35, P36: a log that has grown is no fault unless it says something new of the key; who differs is told."""
    folder, log = study.home.published / tiny.NAME, study.log

    def found(log: list[events.Event], itself: Checked = NOTHING_WRONG) -> list[str]:
        return said(verifying_study._published(study, log, folder, itself, tables))

    def then(kind: str, **body: object) -> events.Event:
        return events.Event(tiny.NAME, 6, "2026-04-01T00:00:00.000000Z", kind, {"round": 1, **body}, "", "")

    assert found(log) == [] == found([*log, then("corrected", key_digest="x")])
    for new in (then("voided", why="x"), replace(then("opened"), body={"round": 2})):
        assert found([*log, new]) == ["published/tiny/status.json: how the key stood once"]
    assert found(log[:-1]) == ["ledger.sqlite, events: 4 events"]
    itself = replace(NOTHING_WRONG, faults=(Fault("manifest.json", "sha256", "another"),))
    assert found(log[:-1], itself) == [
        "published/tiny/events.jsonl: 5 events that are not the first 5 of 4 in the ledger"
    ]
