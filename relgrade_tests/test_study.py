"""A study as it stands: what is outdated and why (P2), what a design may name, the secret, and disks that fail."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
import tiny
from tiny import AT, study_of

from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io import atomic, events
from relgrade_assets.io.frames import content_digest, read_table
from relgrade_assets.io.progress import first_owed, steps
from relgrade_assets.io.rounds import audited_before, lock_audit_sample, open_first_round, open_next_round
from relgrade_assets.io.study import SPOT_CHECK_FILE, Study, open_study
from relgrade_assets.schemas import SOURCES, TABLES, on_the_way

CHECKOUT = Path(__file__).resolve().parents[1]
PRIVATE = tiny.DESIGN.replace('seed: "7"', 'seed: "7"\nprivate: true')


@pytest.fixture
def top(tmp_path: Path) -> Path:
    tiny.write_experiment(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("whole")
    tiny.write_experiment(top)
    store_all(study_of(top))
    return top


@pytest.fixture
def stored(whole: Path, tmp_path: Path) -> Path:
    """Every table stored with a label as it should be; the rows are stand-ins, which no label minds."""
    top = tmp_path / "stored"
    shutil.copytree(whole, top)
    assert not outdated(study_of(top))
    return top


def store_all(study: Study) -> None:
    for table in TABLES:
        study.store(table, stand_in(table))


def stand_in(table: str, n: int = 1) -> pl.DataFrame:
    return pl.DataFrame({"query_id": [f"{table} {i}" for i in range(n)]})


def after(*inputs: str) -> set[str]:
    """Every table that is made from one of `inputs`, near or far."""
    found: set[str] = set()
    for table, spec in TABLES.items():
        if set(spec.inputs) & (found | set(inputs)):
            found.add(table)
    return found


def outdated(study: Study) -> set[str]:
    return {table for table in TABLES if study.outdated(table)}


# outdated


def append(file: str, text: str) -> Callable[[Study], object]:
    def change(study: Study) -> None:
        path = study.folder / file
        path.write_text((path.read_text() if path.exists() else "") + text)

    return change


def answered(grader: str) -> Callable[[Study], object]:
    row = {
        "query_id": "q",
        "chunk_id": "c",
        "reason": "r",
        "grade": 1,
        "unrateable": False,
        "judge_later": False,
        "corpus_cleanup": False,
        "row_digest": "d",
    }
    return lambda study: study.ledger.record_answers(
        study.name, study.round, grader, pl.DataFrame([row]), source="test", at=AT
    )


def begin(study: Study) -> None:
    """Round 1 has its first grade."""
    open_first_round(study)
    answered("ann")(study)


def reviewed(study: Study) -> None:
    row = pl.DataFrame([{"query_id": "q", "row_digest": "d", "verdict": "ok", "note": ""}])
    study.ledger.record_reviews(study.name, "bob", row, at=AT)


CHANGES: dict[str, Callable[[Study], object]] = {
    "query_log": append("log.csv", "another,1\n"),
    "corpus": append("corpus.jsonl", '{"chunk_id": "c99", "header": "", "text": "new"}\n'),
    "run_files": append("runs/old.trec", "q0 Q0 c01 1 1 old\n"),
    "intent_file": append("intents.csv", "q0,x,where,What?,cleo\n"),
    "spot_check_file": append(SPOT_CHECK_FILE, "query_id,query,type,type_by_person\n"),
    "reviews": reviewed,
    "answers": answered("ann"),
    "audit_answers": answered("bob"),
    "events": open_first_round,
    "keys": lambda study: study.happened("frozen", {"round": study.round, "key_digest": "d" * 64}),
    "policy": append("experiment.yaml", "refresh: {act_on: [new_arm]}\n"),
}
"""`carried` is of a later round: test_rounds.py."""


def test_every_source_is_tried() -> None:
    assert {*CHANGES, "design", "rubric", "carried"} == set(SOURCES)


@pytest.mark.parametrize("source", CHANGES)
def test_a_changed_source_outdates_what_is_made_from_it_and_nothing_else(source: str, stored: Path) -> None:
    """P2: by name, with the digest it was made from and the present one."""
    then = study_of(stored).digest_of(source)
    CHANGES[source](study_of(stored))
    study = study_of(stored)
    now = study.digest_of(source)
    assert then != now
    assert outdated(study) == after(source)
    named = then[:12] if then else "that was not there"
    for table in after(source):
        with pytest.raises(Refused, match=f"The table {table} of tiny can't be used") as refused:
            study.load(table)
        assert f"made from {source} {named}; expected {str(now)[:12]}, as it is now" in refused.value.message()


@pytest.mark.parametrize("file", ["log.csv", "corpus.jsonl", "runs/new.trec", "intents.csv"])
def test_a_file_taken_away_outdates_too(file: str, stored: Path) -> None:
    (study_of(stored).folder / file).unlink()
    study = study_of(stored)
    source = {"log.csv": "query_log", "corpus.jsonl": "corpus", "intents.csv": "intent_file"}.get(file, "run_files")
    assert outdated(study) == after(source)
    assert "expected that was not there, as it is now" in str(
        study.outdated(min(after(source), key=list(TABLES).index))[0]
    )


@pytest.mark.parametrize("file", ["experiment.yaml", "rubric.md"])
def test_a_changed_protocol_outdates_every_table(file: str, stored: Path) -> None:
    """P2: both protocol digests are named."""
    then = study_of(stored).protocol
    path = study_of(stored).folder / file
    path.write_text(path.read_text().replace("A tiny study", "Another study").replace("1 helps", "1 helps a bit"))
    study = study_of(stored)
    assert outdated(study) == set(TABLES)
    for table in TABLES:
        said = "\n".join(map(str, study.outdated(table)))
        assert f"protocol {then[:12]}; expected {study.protocol[:12]}, the present one" in said


def test_what_says_the_same_outdates_nothing(stored: Path) -> None:
    """P2: a comment in the design, line ends and a byte-order mark of the rubric are not the protocol."""
    folder = study_of(stored).folder
    design, rubric = folder / "experiment.yaml", folder / "rubric.md"
    design.write_text("# a remark\n" + design.read_text().replace("depth: 5", "depth:   5"))
    rubric.write_bytes(b"\xef\xbb\xbf" + rubric.read_bytes().replace(b"\n", b"\r\n"))
    study = study_of(stored)
    assert {t for t in TABLES if study.label(t) and study.label(t).protocol != study.protocol} == set()  # type: ignore[union-attr]


@pytest.mark.parametrize("table", [t for t in TABLES if after(t)])
def test_a_table_made_anew_outdates_what_was_made_from_the_old_one(table: str, stored: Path) -> None:
    then = study_of(stored).digest_of(table)
    study_of(stored).store(table, stand_in(table, 2))
    study = study_of(stored)
    assert outdated(study) == after(table)
    direct = next(t for t in TABLES if table in TABLES[t].inputs)
    said = "\n".join(map(str, study.outdated(direct)))
    assert f"made from {table} {str(then)[:12]}; expected {str(study.digest_of(table))[:12]}, as it is now" in said


@pytest.mark.parametrize("table", [t for t in TABLES if after(t)])
def test_the_same_table_made_again_outdates_nothing(table: str, stored: Path) -> None:
    study_of(stored).store(table, stand_in(table))
    assert not outdated(study_of(stored))


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_table_is_named_as_far_back_as_it_is(table: str, stored: Path) -> None:
    study_of(stored).path(table).unlink()
    study = study_of(stored)
    assert outdated(study) == {table} | after(table)
    for later in after(table):
        assert any(f.where == table and f.found == "no such table yet" for f in study.outdated(later))


def test_a_table_of_another_experiment_or_round_is_refused(stored: Path) -> None:
    """P4: a label knows its round; copied over, the table is of another protocol or round."""
    tiny.write_experiment(stored, name="other", design=tiny.DESIGN.replace("depth: 5", "depth: 4"))
    other = study_of(stored, name="other")
    other.path("pools").parent.mkdir(parents=True)
    other.path("pools").write_bytes(study_of(stored).path("pools").read_bytes())
    assert any(f.found.startswith("protocol") for f in study_of(stored, name="other").outdated("pools"))
    study = study_of(stored)
    begin(study)
    open_next_round(study, cause="boundary", what="", by="dora")
    study = study_of(stored)
    study.path("grades").parent.mkdir(parents=True)
    study.path("grades").write_bytes(study.path("grades", 1).read_bytes())
    assert any(f.found == "round 1" and f.expected.startswith("2,") for f in study_of(stored).outdated("grades"))


def test_tables_of_a_round_have_a_folder_of_their_own(stored: Path) -> None:
    """P4: and those before the intents have none."""
    study = study_of(stored)
    before = {t: study.path(t) for t in TABLES}
    begin(study)
    open_next_round(study, cause="boundary", what="", by="dora")
    now = {t: study_of(stored).path(t) for t in TABLES}
    moved = {t for t in TABLES if now[t] != before[t]}
    assert moved == {t for t, spec in TABLES.items() if spec.per_round}
    assert {"intents", "grades", "verdicts", "frozen_key", "query_measures"} <= moved
    assert not {"queries", "runs", "contributions", "pools", "revisions"} & moved


def test_a_protocol_of_an_opened_round_stands(stored: Path) -> None:
    """P2, P4: tables of the round are neither read nor written under another; the refusal says how to go on."""
    begin(study_of(stored))
    then = study_of(stored).protocol
    append("rubric.md", "More.\n")(study_of(stored))
    study = study_of(stored)
    for act in (lambda: study.load("grades"), lambda: study.store("grades", stand_in("grades"))):
        with pytest.raises(Refused, match="changed after round 1 had its first grade") as refused:
            act()
        assert f"protocol {study.protocol[:12]}; expected {then[:12]}" in refused.value.message()
        assert "relgrade revise tiny" in refused.value.message()
    study.store("queries", stand_in("queries"))  # those of no round can be made for what comes
    open_next_round(study, cause="rubric", what="", by="dora")
    study_of(stored).store("grades", stand_in("grades"))


def test_a_round_without_a_grade_is_not_revised(stored: Path) -> None:
    with pytest.raises(Refused, match="has no grade yet, so there is nothing to revise"):
        open_next_round(study_of(stored), cause="rubric", what="", by="dora")


def test_the_audit_sample_is_locked_once_grading_began(stored: Path) -> None:
    """P26: free to change before the first grade, refused with both digests after it, fresh in the next round."""
    one, two = stand_in("audit_sample"), stand_in("audit_sample", 2)
    study = study_of(stored)
    assert lock_audit_sample(study, one) == content_digest(one)
    assert lock_audit_sample(study, one) == content_digest(one)
    assert lock_audit_sample(study, two) == content_digest(two)
    assert [e.kind for e in study.log] == ["audit_locked", "audit_locked"]
    begin(study)
    assert lock_audit_sample(study, two) == content_digest(two)
    with pytest.raises(Refused, match="was locked, and grading has begun") as refused:
        lock_audit_sample(study, one)
    assert content_digest(one)[:12] in refused.value.message()
    assert content_digest(two)[:12] in refused.value.message()
    assert events.current_round(study.log) == 1
    assert audited_before(study) == frozenset()
    open_next_round(study, cause="boundary", what="", by="dora")
    assert lock_audit_sample(study_of(stored), one) == content_digest(one)
    assert audited_before(study_of(stored)) == {"audit_sample 0"}


# progress


def test_status_knows_every_table_in_graph_order(top: Path) -> None:
    """`staleness` once somebody looked at it (test_keeping_up)."""
    found = steps(study_of(top))
    assert [s.table for s in found] == [t for t in TABLES if t != "staleness"]
    assert {s.table for s in found if s.text == "can be made now"} == {"queries", "revisions"}
    assert on_the_way("pools") == ["queries", "query_sample", "runs", "contributions"]
    assert on_the_way("published_key") == [t for t in TABLES if "published_key" in after(t)]


def test_the_first_thing_owed_is_named_however_far_away(top: Path) -> None:
    """P2: a file that is not there yet, on the way to a table that is asked for."""
    (study_of(top).folder / "log.csv").unlink()
    owed = first_owed(study_of(top), "frozen_key")
    assert owed is not None and "log.csv" in str(owed)
    assert first_owed(study_of(top), "queries") is None


# what a design may name


def test_a_link_that_leads_out_is_refused_and_not_read(top: Path, tmp_path: Path) -> None:
    """A file, a folder on the way, and a chain of links; inside the folder a link may lead where it likes."""
    folder = study_of(top).folder
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "log.csv").write_text("query,count\nsecret,1\n")
    (folder / "log.csv").unlink()
    (folder / "log.csv").symlink_to(outside / "log.csv")
    (folder / "elsewhere").symlink_to(outside)
    (folder / "again.csv").symlink_to(folder / "log.csv")
    (folder / "inside.csv").symlink_to(folder / "intents.csv")
    study = study_of(top)
    for named in ("log.csv", "elsewhere/log.csv", "again.csv", "../other/experiment.yaml", "/etc/hostname"):
        with pytest.raises(Refused, match="leads out of the experiment's folder"):
            study.file(named)
    assert study.file("inside.csv").read_text().startswith("query_id")
    with pytest.raises(Refused, match=r"log\.csv leads out"):
        study.query_log()
    with pytest.raises(Refused, match=r"log\.csv leads out"):
        study.digest_of("query_log")


def test_a_link_inside_a_corpus_folder_that_leads_out_is_refused(tmp_path: Path) -> None:
    top = tmp_path / "top"
    folder = tiny.write_experiment(top, design=tiny.DESIGN.replace("path: corpus.jsonl", "path: corpus"))
    (folder / "corpus").mkdir()
    (folder / "corpus.jsonl").rename(folder / "corpus" / "a.jsonl")
    assert study_of(top).corpus.height == 30
    (tmp_path / "b.jsonl").write_text('{"chunk_id": "x", "header": "", "text": "secret"}\n')
    (folder / "corpus" / "b.jsonl").symlink_to(tmp_path / "b.jsonl")
    with pytest.raises(Refused, match="leads out"):
        _ = study_of(top).corpus


def test_a_link_in_a_circle_is_refused(top: Path) -> None:
    folder = study_of(top).folder
    (folder / "log.csv").unlink()
    (folder / "log.csv").symlink_to(folder / "log.csv")
    with pytest.raises((Refused, NotThere), match=r"can't be followed|not there"):
        study_of(top).query_log()


@pytest.mark.parametrize("name", ["../tiny", "tiny/../tiny", "", ".", "Tiny", "x" * 64, "tiny\0", "/tiny"])
def test_a_name_never_becomes_a_path_unchecked(name: str, top: Path) -> None:
    with pytest.raises(Refused, match="can't be the name of an experiment"):
        open_study(tiny.home_of(top), name)


# the secret


def test_the_secret_is_drawn_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    """P7: 64 hex digits, mode 600, the same ever after; the seed serves where nothing is private."""
    tiny.write_experiment(tmp_path, design=PRIVATE)
    path = tmp_path / ".relgrade" / "secrets" / tiny.NAME
    secret = study_of(tmp_path).secret
    assert re.fullmatch("[0-9a-f]{64}", secret) and path.read_text() == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert study_of(tmp_path).secret == secret
    tiny.write_experiment(tmp_path, design=PRIVATE, name="other")
    assert study_of(tmp_path, name="other").secret != secret
    tiny.write_experiment(tmp_path, name="open")
    assert study_of(tmp_path, name="open").secret == study_of(tmp_path, name="open").design.seed
    assert not (tmp_path / ".relgrade" / "secrets" / "open").exists()


def test_nobody_else_can_open_the_secret_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.write_experiment(tmp_path, design=tiny.DESIGN)
    (tmp_path / "data/experiments/tiny/experiment.yaml").write_text(PRIVATE)
    seen: list[int] = []
    honest = os.write

    def watching(handle: int, data: bytes) -> int:
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return honest(handle, data)

    monkeypatch.setattr(os, "write", watching)
    monkeypatch.setattr(os, "umask", os.umask)
    before = os.umask(0)
    try:
        _ = study_of(tmp_path).secret
    finally:
        os.umask(before)
    assert seen == [0o600]


def test_processes_at_once_draw_one_secret(tmp_path: Path) -> None:
    tiny.write_experiment(tmp_path, design=tiny.DESIGN)
    (tmp_path / "data/experiments/tiny/experiment.yaml").write_text(PRIVATE)
    code = (
        "import sys, tiny; from pathlib import Path; sys.stdin.read(1); print(tiny.study_of(Path(sys.argv[1])).secret)"
    )
    workers = [in_python(code, str(tmp_path)) for _ in range(2)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("g")
        worker.stdin.flush()
    said = {w.communicate()[0] for w in workers}
    assert len(said) == 1
    assert re.fullmatch("[0-9a-f]{64}\n", said.pop())


def in_python(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{Path(__file__).parent}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# disks


@pytest.mark.parametrize("at", ["half_written", "before_the_rename"])
def test_a_kill_while_a_table_is_written_leaves_the_old_one_whole(at: str, stored: Path) -> None:
    code = f"""
import os, sys, time, tiny
from pathlib import Path
from test_study import stand_in
study = tiny.study_of(Path(sys.argv[1]))
honest = os.write
def hang(*args):
    if {at == "half_written"}:
        honest(args[0], bytes(args[1])[: len(args[1]) // 2])
    print("now", flush=True)
    time.sleep(60)
setattr(os, {"write" if at == "half_written" else "rename"!r}, hang)
study.store("queries", stand_in("queries", 5000))
"""
    path = study_of(stored).path("queries")
    before = path.read_bytes()
    with in_python(code, str(stored)) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "now\n"
        worker.kill()
    left = [p.name for p in path.parent.iterdir() if p.name.endswith(atomic.TEMPORARY)]
    assert left == [f".queries.parquet{atomic.TEMPORARY}"]
    assert path.read_bytes() == before
    assert not outdated(study_of(stored))
    study_of(stored).store("queries", stand_in("queries", 2))
    assert read_table(path).height == 2
    assert not [p for p in path.parent.iterdir() if p.name.endswith(atomic.TEMPORARY)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, where this process may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this process may not mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_gives_one_clear_message(small_disk: Path) -> None:
    """The table that was there stands, and nothing half written is left."""
    tiny.write_experiment(small_disk)
    (small_disk / ".relgrade").mkdir()
    home = tiny.home_of(small_disk)
    study = Study(home, tiny.NAME, home.folder(tiny.NAME), study_of(small_disk).design, lambda: AT)
    study.store("revisions", stand_in("revisions"))
    before = study.path("revisions").read_bytes()
    big = pl.DataFrame({"query_id": [os.urandom(60).hex() for _ in range(9000)]})
    with pytest.raises(Refused, match="was not written: the disk is full") as refused:
        study.store("revisions", big)
    assert "Free some space and run again. What was there before is unchanged." in refused.value.message()
    assert study.path("revisions").read_bytes() == before
    assert [p.name for p in study.path("revisions").parent.iterdir()] == ["revisions.parquet"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "the disk is full. Free some space"),
        (errno.EDQUOT, "the disk quota is used up. Free some space"),
        (errno.EROFS, "the file system is read-only. Write elsewhere"),
        (errno.EACCES, "there is no permission to write there. Give this user the right"),
        (errno.EIO, "Input/output error. Mend that"),
    ],
)
def test_a_disk_that_refuses_is_told_with_what_to_do(
    code: int, said: str, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(stored)
    before = study.path("queries").read_bytes()
    honest = os.open

    def refusing(path: object, flags: int, *more: int, **named: int) -> int:
        if flags & os.O_CREAT and str(path).endswith(atomic.TEMPORARY):
            raise OSError(code, os.strerror(code), str(path))
        return honest(path, flags, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(Refused) as refused:
        study.store("queries", stand_in("queries", 2))
    first, second = said.split(". ")
    assert re.search(rf"queries\.parquet was not written: {first}\.\n{second}", refused.value.message())
    assert study.path("queries").read_bytes() == before


def test_a_folder_that_is_read_only_is_told_with_what_to_do(stored: Path) -> None:
    """By its mode where that binds this user, else by mounting it read-only."""
    study = study_of(stored)
    folder = study.path("queries").parent
    folder.chmod(0o555)
    mounted = os.access(folder, os.W_OK)
    if mounted and subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        pytest.skip("this user may write anywhere and mount nothing")
    try:
        if mounted:
            subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
        with pytest.raises(Refused, match=r"no permission to write there|the file system is read-only") as refused:
            study.store("queries", stand_in("queries", 2))
        assert "What was there before is unchanged" in refused.value.message()
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)
        folder.chmod(0o755)
    assert not outdated(study_of(stored))
