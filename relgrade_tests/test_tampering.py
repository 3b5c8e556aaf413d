"""P36: what was altered is found and its file named; what only an anchor from outside can find is found by one."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tiny
from command_line import LEDGER, at, expect, nothing_changes, relgrade
from conftest import FULL
from test_arm_tests import measured, sampled

from relgrade_assets.errors import Refused
from relgrade_assets.io import anchors, croissant, events, publication, restating, signing, verifying_content
from relgrade_assets.io.key_store import sums_bytes
from relgrade_assets.io.verifying import Checked, check_files, check_folder
from relgrade_assets.io.verifying_study import check_study
from relgrade_assets.methods.arm_tests import arm_comparisons
from relgrade_assets.protocol.canonical import canonical_json, digest_bytes

PUBLISHED = Path(".relgrade") / "published" / "tiny"
KEY = Path(".relgrade") / "keys" / "tiny" / "round-1" / "key.jsonl"
SEED = 20261130
EACH = 500 if FULL else 12
"""Single-byte changes of a published folder, and as many of the store."""
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published study that no test of this module leaves changed."""
    return at("frozen", tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def files(top: Path) -> Files:
    """The published folder's files."""
    return {p.name: p.read_bytes() for p in (top / PUBLISHED).iterdir()}


def named(found: Checked | tuple[Any, ...]) -> set[str]:
    """The files that faults name."""
    faults = found.faults if isinstance(found, Checked) else found
    return {fault.where.split(",")[0] for fault in faults}


def changed(data: bytes, draw: random.Random) -> bytes:
    """One byte of `data` made another."""
    place = draw.randrange(len(data))
    other = draw.choice([b for b in range(256) if b != data[place]])
    return data[:place] + bytes([other]) + data[place + 1 :]


def test_an_untouched_folder_verifies_and_says_what_it_can_not_exclude(top: Path, files: Files) -> None:
    """P36: with the folder alone; nothing is written."""
    with nothing_changes(top):
        said = expect(0, top, "verify", top / PUBLISHED).out
        whole = expect(0, top, "verify", "tiny").out
    assert f"verifies: {len(files)} published files" in said
    for text in (said, whole):
        assert "Not excluded: that everything was rewritten together" in text
    found = check_files(files)
    assert found.faults == ()
    assert len(found.recomputed) == 12, found.left_out
    elsewhere = check_folder(top / PUBLISHED)
    assert elsewhere == found


def test_every_single_byte_of_a_folder_counts(files: Files) -> None:
    """P36, tampering: random single-byte changes over every file, each reported with the file's name, and no other
    file blamed.
    """
    draw = random.Random(SEED)  # noqa: S311 - no secret
    names = sorted(name for name, data in files.items() if data)
    for n in range(max(EACH, len(names))):
        name = names[n % len(names)]
        spoilt = changed(files[name], draw)
        assert named(check_files({**files, name: spoilt})) == {name}, (name, n)


def test_of_the_three_that_hold_each_other_the_odd_one_is_told(files: Files) -> None:
    """P36: manifest, status and the list of digests; the manifest where it still fits its schema."""
    content = json.loads(files["manifest.json"])
    content["key"]["title"] = "Another"
    other = publication.manifest_bytes(content)
    there, here = digest_bytes(files["manifest.json"]).encode(), digest_bytes(other).encode()
    sums, status = (files[name].replace(there, here) for name in (publication.SUMS, "status.json"))
    for spoilt, name in (
        ({"manifest.json": other}, "manifest.json"),
        ({publication.SUMS: sums}, publication.SUMS),
        ({"status.json": status}, "status.json"),
        ({"manifest.json": other, publication.SUMS: sums}, "status.json"),
    ):
        assert named(check_files({**files, **spoilt})) == {name}, spoilt.keys()
    kept = {n: d for n, d in files.items() if n not in publication.NOT_LISTED}
    wide = json.dumps(json.loads(files["manifest.json"]), sort_keys=True, indent=4).encode()
    again = check_files(publication.sealed(kept, wide, events.from_jsonl(files["events.jsonl"])))
    assert [(f.where, f.found) for f in again.faults] == [("manifest.json", "JSON in another form")]


@pytest.mark.parametrize("name", ["key.jsonl", "manifest.json", "status.json", "SHA256SUMS", "events.jsonl", "ltr.txt"])
@pytest.mark.parametrize("how", ["gone", "empty", "cut", "doubled", "garbage"])
def test_a_file_that_is_gone_cut_or_garbage_is_named(files: Files, name: str, how: str) -> None:
    """P36: never a traceback."""
    data = files[name]
    ways = {"empty": b"", "cut": data[: len(data) // 2], "doubled": data * 2, "garbage": b"\x00\xff{[" * 50}
    spoilt = {n: d for n, d in files.items() if n != name} | ({} if how == "gone" else {name: ways[how]})
    assert name in named(check_files(spoilt))


def test_missing_extra_and_strange_files_are_named_all_at_once(top: Path, tmp_path: Path) -> None:
    """P36: no file too few or too many, no links; several faults are told together."""
    folder = tmp_path / "copy"
    shutil.copytree(top / PUBLISHED, folder)
    (folder / "qrels.txt").unlink()
    (folder / "extra.txt").write_text("x")
    (folder / "inner").mkdir()
    (folder / "pools.jsonl").unlink()
    (folder / "pools.jsonl").symlink_to(top / PUBLISHED / "pools.jsonl")
    (folder / "key.jsonl").write_bytes((folder / "key.jsonl").read_bytes().replace(b'"grade":0', b'"grade":1', 1))
    assert {"qrels.txt", "extra.txt", "inner", "pools.jsonl", "key.jsonl"} <= named(check_folder(folder))
    told = expect(1, tmp_path, "verify", folder)
    for name in ("qrels.txt", "extra.txt", "inner", "pools.jsonl", "key.jsonl"):
        assert f"  {name}: found" in told.err
    assert json.loads(relgrade(tmp_path, "verify", folder, "--json").out)["faults"]
    assert "no such folder" in expect(2, tmp_path, "verify", tmp_path / "nothing").err
    assert "a folder without" in expect(2, tmp_path, "verify", tmp_path).err


def test_an_altered_key_is_marked_and_does_not_stand(top: Path, tmp_path: Path) -> None:
    """P33, P36: the digest found is not shown as the frozen one, and nothing that does not verify stands valid."""
    frozen = digest_bytes((top / PUBLISHED / "key.jsonl").read_bytes())
    for sound in ("tiny", top / PUBLISHED):
        said = expect(0, top, "verify", sound).out
        assert f"  key    round 1 sha256 {frozen}\n" in said and "  stands valid since" in said
    for file, target in ((PUBLISHED / "key.jsonl", PUBLISHED), (KEY, "tiny")):
        copied = tmp_path / str(target).replace("/", "-")
        shutil.copytree(top, copied)
        path = copied / file
        path.chmod(0o644)
        path.write_bytes(path.read_bytes().replace(b'"grade":0', b'"grade":1', 1))
        found = digest_bytes(path.read_bytes())
        where = copied / target if isinstance(target, Path) else target
        ran = expect(1, copied, "verify", where)
        assert f"  key    round 1 sha256 {found}, NOT the one that was frozen, {frozen}\n" in ran.out
        assert "stands valid" not in ran.out and "  stands not known, since it does not verify; the log by" in ran.out
        told = json.loads(relgrade(copied, "verify", where, "--json").out)
        assert told["keys"] == [{"round": 1, "sha256": found, "frozen": frozen}]
        assert told["standing"] is None and told["standing_by_log"]["status"] == "valid"
        path.unlink()
        assert f"round 1 no key.jsonl, NOT the one that was frozen, {frozen}" in expect(1, copied, "verify", where).out


def test_a_manifest_that_can_not_be_used_leaves_every_check_said(files: Files) -> None:
    """P36: all that would be recomputed stands under what was not checked, with why; the key by the log."""
    parts = set(check_files(files).recomputed)
    content = json.loads(files["manifest.json"])
    other = content["key"] | {"title": "Another"}
    for manifest, why in (
        (None, "without manifest.json"),
        (b"{}", "manifest.json does not fit its schema"),
        (publication.manifest_bytes({**content, "private": "no"}), "manifest.json does not fit its schema"),
        (publication.manifest_bytes(content | {"key": other}), "manifest.json is not the one that was published"),
    ):
        spoilt = {n: d for n, d in files.items() if n != "manifest.json"}
        found = check_files(spoilt if manifest is None else {**spoilt, "manifest.json": manifest})
        assert {f"{part} ({why})" for part in parts} <= set(found.left_out) and found.recomputed == ()
        assert found.key.frozen == found.key.found and found.key.round == 1
    nothing = check_files({n: d for n, d in files.items() if n not in ("manifest.json", "events.jsonl")})
    assert str(nothing.key).endswith(", which nothing sound says was frozen")


LINES: dict[str, Callable[[list[bytes], int], list[bytes]]] = {
    "removed": lambda lines, n: lines[:n] + lines[n + 1 :],
    "swapped": lambda lines, n: [*lines[:n], lines[n + 1], lines[n], *lines[n + 2 :]],
    "cut": lambda lines, n: lines[: n + 1],
    "replayed": lambda lines, n: [*lines, lines[n]],
    "doubled": lambda lines, n: [*lines[: n + 1], *lines[n:]],
}


@pytest.mark.parametrize("how", sorted(LINES))
@pytest.mark.parametrize("place", range(4))
def test_lines_of_the_log_removed_reordered_cut_or_replayed(files: Files, how: str, place: int) -> None:
    """P36: by the manifest's digest; where the digests were made again too, by the chain and its head and length."""
    data = b"\n".join(LINES[how](files["events.jsonl"].splitlines(), place)) + b"\n"
    assert named(check_files({**files, "events.jsonl": data})) == {"events.jsonl"}
    content = json.loads(files["manifest.json"])
    content["files"]["events.jsonl"] = {"bytes": len(data), "sha256": digest_bytes(data)}
    again = resealed({**files, "events.jsonl": data}, content)
    assert "events.jsonl" in named(check_files(again))


def resealed(files: Files, content: dict[str, Any]) -> Files:
    """A folder whose manifest, status and sums were made again by somebody who has this source."""
    kept = {n: d for n, d in files.items() if n not in publication.NOT_LISTED}
    log = events.from_jsonl(files["events.jsonl"])
    try:
        return publication.sealed(kept, publication.manifest_bytes(content), log)
    except Refused:
        manifest = publication.manifest_bytes(content)
        whole = {**kept, "manifest.json": manifest, "status.json": files["status.json"]}
        return {**whole, publication.SUMS: sums_bytes({n: digest_bytes(d) for n, d in whole.items()})}


def rechained(log: list[events.Event], body: Callable[[events.Event], dict[str, Any]]) -> list[events.Event]:
    """The log with other bodies, every hash made again."""
    made: list[events.Event] = []
    for e in log:
        prev, new = events.head_of(made)[0], body(e)
        sha = events.event_hash(e.experiment, e.seq, e.at, e.kind, new, prev)
        made.append(events.Event(e.experiment, e.seq, e.at, e.kind, new, prev, sha))
    return made


def _bytes(frame: pl.DataFrame, tmp: Path) -> bytes:
    frame.write_parquet(tmp, compression="zstd", statistics=False)
    return tmp.read_bytes()


def rewritten(files: Files, tmp: Path) -> Files:
    """All of a folder rewritten consistently, to tell of better measures of one arm: no check from inside finds it."""
    each = pl.read_parquet(files["query_measures.parquet"])
    arm = each["arm"][0]
    better = each.with_columns(value=pl.when(pl.col("arm") == arm).then(1.0).otherwise(pl.col("value")))
    plain = better.group_by("arm", "measure").agg(mean=pl.col("value").mean())
    means = pl.read_parquet(files["measures.parquet"]).join(plain, on=["arm", "measure"], how="left")
    scope = pl.col("scope") == "plain"
    means = means.with_columns(value=pl.when(scope).then("mean").otherwise("value")).drop("mean")
    held = {(r["arm"], r["query_id"], r["measure"]): r["value"] for r in better.to_dicts()}
    rows = []
    for r in pl.read_parquet(files["arm_comparisons.parquet"]).to_dicts():
        queries = sorted({q for _, q, m in held if m == r["measure"]})
        gaps = [held[r["arm"], q, r["measure"]] - held[r["other"], q, r["measure"]] for q in queries]
        rows.append((sum(gaps) / len(gaps), sum(g > 0 for g in gaps), sum(g < 0 for g in gaps), len(gaps)))
    pairs = pl.read_parquet(files["arm_comparisons.parquet"]).with_columns(
        difference=pl.Series([r[0] for r in rows]),
        wins=pl.Series([r[1] for r in rows]),
        losses=pl.Series([r[2] for r in rows]),
        n=pl.Series([r[3] for r in rows]),
    )
    from relgrade_assets.io.frames import content_digest

    log = rechained(
        events.from_jsonl(files["events.jsonl"]),
        lambda e: {**e.body, "measures_digest": content_digest(better)} if e.kind == "first_reading" else dict(e.body),
    )
    made = {
        **files,
        "query_measures.parquet": _bytes(better, tmp),
        "measures.parquet": _bytes(means, tmp),
        "measures.csv": publication.measures_csv(means),
        "arm_comparisons.parquet": _bytes(pairs, tmp),
        "events.jsonl": events.as_jsonl(log),
    }
    made[croissant.NAME] = croissant.with_files(files[croissant.NAME], made)
    content = json.loads(files["manifest.json"])
    content["files"] = {n: {"bytes": len(made[n]), "sha256": digest_bytes(made[n])} for n in content["files"]}
    content["events"] = {"head": log[-1].hash, "length": len(log)}
    return resealed(made, content)


def test_a_consistent_rewrite_is_found_only_with_an_anchor(top: Path, files: Files, tmp_path: Path) -> None:
    """P36: without one it verifies, and the command says that it can't exclude this; each anchor that covers it finds
    it, and one that doesn't says so.
    """
    folder = tmp_path / "forged"
    folder.mkdir()
    for name, data in rewritten(files, tmp_path / "x.parquet").items():
        (folder / name).write_bytes(data)
    assert check_folder(folder).faults == ()
    assert "Not excluded" in expect(0, tmp_path, "verify", folder).out
    true = check_files(files)
    manifest = digest_bytes(files["manifest.json"])
    (tmp_path / "manifest.json").write_bytes(files["manifest.json"])
    (tmp_path / "sums").write_bytes(files["SHA256SUMS"])
    (tmp_path / "note.txt").write_text(f"read aloud on the day: {manifest}\n")
    for anchor in (manifest, true.chain[-1], *(tmp_path / n for n in ("manifest.json", "sums", "note.txt"))):
        assert "What lies here is not what" in expect(1, tmp_path, "verify", folder, "--anchor", anchor).err
        assert "Anchor: " in expect(0, tmp_path, "verify", top / PUBLISHED, "--anchor", anchor).out
    told = expect(0, tmp_path, "verify", folder, "--anchor", true.key.found).out
    assert "says nothing of log and measures" in told and "Not excluded" in told
    assert "Not excluded" not in expect(0, tmp_path, "verify", top / PUBLISHED, "--anchor", manifest).out
    assert "Not excluded" in expect(0, tmp_path, "verify", top / PUBLISHED, "--anchor", true.chain[-1]).out
    assert "neither a hash nor a file" in expect(2, tmp_path, "verify", folder, "--anchor", "nonsense").err


def test_a_rewrite_with_one_thing_forgotten_is_found(files: Files, tmp_path: Path) -> None:
    """P36: digests made again over changed content don't hide it from what is recomputed."""

    def forged(name: str, data: bytes) -> Checked:
        content = json.loads(files["manifest.json"])
        content["files"][name] = {"bytes": len(data), "sha256": digest_bytes(data)}
        return check_files(resealed({**files, name: data}, content))

    lower = files["key.jsonl"].replace(b'"grade":2', b'"grade":1', 1)
    assert "key.jsonl" in named(forged("key.jsonl", lower))
    for name in ("qrels.txt", "qrels_by_grader.txt", "judgments.json", "pools.jsonl", "quepid_book.csv", "ltr.txt"):
        data = files[name]
        place = max(i for i, b in enumerate(data) if b in b"012")
        other = data[:place] + (b"1" if data[place : place + 1] != b"1" else b"2") + data[place + 1 :]
        assert name in named(forged(name, other)), name
    each = pl.read_parquet(files["query_measures.parquet"])
    better = _bytes(each.with_columns(value=pl.lit(1.0)), tmp_path / "x")
    assert {"query_measures.parquet", "measures.parquet"} <= named(forged("query_measures.parquet", better))
    means = pl.read_parquet(files["measures.parquet"])
    better = _bytes(means.with_columns(value=pl.lit(1.0)), tmp_path / "x")
    assert "measures.parquet" in named(forged("measures.parquet", better))
    pairs = pl.read_parquet(files["arm_comparisons.parquet"])
    better = _bytes(pairs.with_columns(difference=pl.lit(0.5)), tmp_path / "x")
    assert "arm_comparisons.parquet" in named(forged("arm_comparisons.parquet", better))
    agreed = pl.read_parquet(files["agreement.parquet"])
    better = _bytes(agreed.with_columns(value=pl.lit(0.9)), tmp_path / "x")
    assert "agreement.parquet" in named(forged("agreement.parquet", better))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: c["key"].update(pairs=1),
        lambda c: c["key"].update(title=""),
        lambda c: c["key"]["verdicts"][0].update(value=0.123),
        lambda c: c["key"]["verdicts"].pop(),
        lambda c: c.update(more=1),
        lambda c: c["status"].update(status="void", why="x"),
        lambda c: c["events"].update(length=3),
        lambda c: c["key"].update(key_sha256="0" * 64),
    ],
)
def test_a_manifest_that_says_something_else_is_found(files: Files, spoil: Callable[[dict[str, Any]], object]) -> None:
    """P33, P36: against its schema, and against the folder's files, also where it was sealed again."""
    content = json.loads(files["manifest.json"])
    spoil(content)
    assert check_files(resealed(files, content)).faults


def test_measures_read_before_the_freeze_are_found(files: Files) -> None:
    """P34, P36: in the order of the log, with every hash made again."""
    log = events.from_jsonl(files["events.jsonl"])
    order = [*log[:3], log[4], log[3]]
    made = rechained([events.Event(e.experiment, n, e.at, e.kind, e.body, "", "") for n, e in enumerate(order, 1)],
                     lambda e: dict(e.body))  # fmt: skip
    content = json.loads(files["manifest.json"])
    data = events.as_jsonl(made)
    content["files"]["events.jsonl"] = {"bytes": len(data), "sha256": digest_bytes(data)}
    content["events"] = {"head": made[-1].hash, "length": len(made)}
    found = check_files(resealed({**files, "events.jsonl": data}, content))
    assert any("read before the freeze" in f.found for f in found.faults)


@pytest.mark.skipif(not signing.is_there(), reason="no ssh-keygen on PATH")
def test_a_signed_manifest(top: Path, tmp_path: Path) -> None:
    """P36: `relgrade sign`, by OpenSSH; the public key, or an allowed-signers file, is the anchor."""
    folder = tmp_path / "folder"
    shutil.copytree(top / PUBLISHED, folder)
    for who in ("mine", "other"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", str(tmp_path / who)]
        subprocess.run(words, check=True)
    public = tmp_path / "mine.pub"
    (tmp_path / "signers").write_text(f"dora@lab {public.read_text()}", encoding="utf-8")
    assert "no such file" in expect(1, tmp_path, "verify", folder, "--anchor", public).err
    assert "was not signed" in expect(2, tmp_path, "sign", folder, "--key", tmp_path / "nothing").err
    expect(0, tmp_path, "sign", folder, "--key", tmp_path / "mine")
    for anchor, name in ((public, "mine.pub"), (tmp_path / "signers", "dora@lab")):
        said = expect(0, tmp_path, "verify", folder, "--anchor", anchor).out
        assert f"signed by {name}" in said and "Not excluded" not in said
    assert "another signature" in expect(1, tmp_path, "verify", folder, "--anchor", tmp_path / "other.pub").err
    words = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "dora@lab", "-n", "relgrade"]
    with (folder / "manifest.json").open("rb") as manifest:
        subprocess.run([*words, "-s", str(folder / "manifest.json.sig")], stdin=manifest, check=True)
    forged = rewritten({p.name: p.read_bytes() for p in folder.iterdir() if p.suffix != ".sig"}, tmp_path / "x")
    for name, data in forged.items():
        (folder / name).write_bytes(data)
    assert "another signature" in expect(1, tmp_path, "verify", folder, "--anchor", public).err
    (folder / "key.jsonl").write_bytes(b"x")
    told = expect(2, tmp_path, "sign", folder, "--key", tmp_path / "mine")
    assert "does not verify, so it was not signed" in told.err


def test_a_signature_of_a_program_that_failed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P36: though it left a file."""

    def half(words: list[str], given: bytes = b"", *, ask: bool = False) -> subprocess.CompletedProcess[str]:
        Path(words[-1]).with_name("manifest.json.sig").write_bytes(b"half")
        return subprocess.CompletedProcess(words, 1, "", "no space left")

    monkeypatch.setattr(signing, "_run", half)
    with pytest.raises(Refused, match=r"was not signed(.|\n)*no space left"):
        signing.sign(b"{}", tmp_path / "key")


# the store


@dataclass(frozen=True)
class Cell:
    """A cell of the ledger: table, row and column."""

    table: str
    row: int
    column: str


TABLES = ("answers", "reviews", "issued", "events")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published study whose ledger has no triggers, as its owner can make it, for tests that put things back."""
    made = at("frozen", tmp_path_factory.mktemp("store"))
    with closing(sqlite3.connect(made / LEDGER)) as ledger:
        names = [n for (n,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for name in names:
            ledger.execute(f'DROP TRIGGER "{name}"')
        ledger.commit()
    return made


def faults_of(store: Path) -> set[str]:
    """Files of the store that a check names; missing triggers apart, which each of these would find."""
    return {
        fault.where.split(",")[0]
        for fault in check_study(tiny.study_of(store)).faults
        if not fault.found.startswith("no trigger")
    }


@pytest.fixture
def spoilt(store: Path) -> Iterator[Callable[[Path, bytes], None]]:
    """Writes other bytes into a file of the store; the old ones come back after the test."""
    kept: dict[Path, tuple[bytes, int]] = {}

    def write(path: Path, data: bytes) -> None:
        kept.setdefault(path, (path.read_bytes(), path.stat().st_mode))
        path.chmod(0o644)
        path.write_bytes(data)

    yield write
    for path, (data, mode) in kept.items():
        path.write_bytes(data)
        path.chmod(mode)


@pytest.fixture
def put_back(store: Path) -> Iterator[Callable[[], None]]:
    """Puts ledger, statuses and published folder back as they were, since a void that is found remakes them."""
    paths = [store / LEDGER, *(p for p in stored_files(store) if "tables" not in p.parts)]
    kept = {path: path.read_bytes() for path in paths if os.access(path, os.W_OK) and path.stat().st_mode & 0o200}

    def back() -> None:
        for path, data in kept.items():
            path.write_bytes(data)

    yield back
    back()


def stored_files(store: Path) -> list[Path]:
    """Every file of the store but the database: key, status, tables, published folder."""
    state = store / ".relgrade"
    found = [p for part in ("keys", "tables", "published") for p in sorted((state / part).rglob("*")) if p.is_file()]
    return [p for p in found if p.stat().st_size]


def test_every_single_byte_of_the_store_counts(store: Path, spoilt: Callable[[Path, bytes], None]) -> None:
    """P36, tampering: random single-byte changes over every file of the store: keys, tables of grades and measures,
    statuses, the published folder.
    """
    assert faults_of(store) == set()
    draw = random.Random(SEED + 1)  # noqa: S311 - no secret
    paths = stored_files(store)
    draw.shuffle(paths)
    for n in range(EACH):
        path = paths[n % len(paths)]
        data = path.read_bytes()
        spoilt(path, changed(data, draw))
        assert str(path.relative_to(store / ".relgrade")) in faults_of(store), (path, n)
        path.write_bytes(data)
    assert faults_of(store) == set()


def cells(store: Path) -> list[Cell]:
    with closing(sqlite3.connect(store / LEDGER)) as ledger:
        found = []
        for table in TABLES:
            columns = [row[1] for row in ledger.execute(f"PRAGMA table_info({table})") if row[1] != "id"]
            found += [Cell(table, r, c) for (r,) in ledger.execute(f"SELECT rowid FROM {table}") for c in columns]
        return found


def test_every_cell_of_the_ledger_counts(store: Path, put_back: Callable[[], None]) -> None:
    """P35, P36: answers, reviews and sheets handed out before the freeze, and every event, one character changed."""
    draw = random.Random(SEED + 2)  # noqa: S311 - no secret
    there = cells(store)
    for n in range(EACH // 2):
        table = TABLES[n % len(TABLES)]
        cell = draw.choice([c for c in there if c.table == table])
        with closing(sqlite3.connect(store / LEDGER)) as ledger:
            old = ledger.execute(f"SELECT {cell.column} FROM {table} WHERE rowid = {cell.row}").fetchone()[0]
            if isinstance(old, str) and old:
                place = draw.randrange(len(old))
                new: object = old[:place] + chr((ord(old[place]) - 31) % 95 + 32) + old[place + 1 :]
            else:
                new = (old or 0) + 1
            try:
                ledger.execute(f"UPDATE {table} SET {cell.column} = ? WHERE rowid = {cell.row}", [new])
            except sqlite3.IntegrityError:
                continue  # the database itself refuses it
            ledger.commit()
        assert "ledger.sqlite" in faults_of(store) or "the ledger" in faults_of(store), (cell, old, new)
        put_back()
    assert faults_of(store) == set()


def _sql(store: Path, *statements: str) -> None:
    with closing(sqlite3.connect(store / LEDGER)) as ledger:
        for statement in statements:
            ledger.execute(statement)
        ledger.commit()


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM events WHERE seq = 2",),
        ("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",),
        ("UPDATE events SET seq = 99 WHERE seq = 2", "UPDATE events SET seq = 2 WHERE seq = 3",
         "UPDATE events SET seq = 3 WHERE seq = 99"),
        ("INSERT INTO events SELECT experiment, 6, at, kind, body, prev, hash FROM events WHERE seq = 2",),
        ("DELETE FROM events WHERE seq > 3",),
        ("DELETE FROM events",),
        ("UPDATE events SET experiment = 'tjny' WHERE seq = (SELECT max(seq) FROM events)",),
        ("DELETE FROM reviews WHERE id = 3",),
        ("UPDATE events SET body = replace(body, '\"round\"', '\"rouod\"') WHERE seq = 2",),
        ("UPDATE events SET body = replace(body, '\"key_digest\"', '\"key_dig\"') WHERE kind = 'frozen'",),
    ],
)  # fmt: skip
def test_lines_of_the_ledgers_log_removed_reordered_cut_or_replayed(
    store: Path, put_back: Callable[[], None], statements: tuple[str, ...]
) -> None:
    """P36: by the chain, and where the end was cut off by what the manifest holds."""
    _sql(store, *statements)
    assert {"ledger.sqlite", "the ledger"} & faults_of(store)
    put_back()
    assert faults_of(store) == set()


def test_a_table_rewritten_with_its_label_is_found_by_measuring_again(store: Path) -> None:
    """P36: digests inside the file are consistent; key, log and runs say otherwise."""
    import driving

    for table, change in (
        ("query_measures", lambda f: f.with_columns(value=pl.lit(1.0))),
        ("arm_measures", lambda f: f.with_columns(value=pl.lit(0.5))),
        ("arm_comparisons", lambda f: f.with_columns(p=pl.lit(0.01))),
        ("grades", lambda f: f.with_columns(grade=pl.lit(1))),
        ("frozen_key", lambda f: f.with_columns(grade=pl.lit(1))),
    ):
        path = tiny.study_of(store).path(table)
        before = path.read_bytes()
        driving.rewrite(store, table, change)
        assert str(path.relative_to(store / ".relgrade")) in faults_of(store), table
        path.write_bytes(before)


def test_a_changed_grade_is_named_and_voids(tmp_path: Path) -> None:
    """P35, P36: `relgrade verify NAME` is one of the checks that find it."""
    top = at("frozen", tmp_path)
    _sql(top, "DROP TRIGGER answers_no_update", "UPDATE answers SET grade = (grade + 1) % 3 WHERE id = 5")
    told = expect(1, top, "verify", "tiny")
    assert "the ledger, answers" in told.err and "no trigger answers_no_update" in told.err
    assert "VOID: round 1 of tiny" in told.out
    assert "VOID" in expect(1, top, "verify", top / PUBLISHED).out, "the folder says so by itself"
    assert check_folder(top / PUBLISHED).faults == ()


@pytest.mark.full
def test_bytes_of_the_database_file(store: Path, put_back: Callable[[], None]) -> None:
    """P36: a byte of the file that changes what is in it is reported; one in unused space changes nothing."""
    draw = random.Random(SEED + 3)  # noqa: S311 - no secret
    path = store / LEDGER
    before = path.read_bytes()
    content = _dump(path)
    told = silent = 0
    for _ in range(200):
        path.write_bytes(changed(before, draw))
        now = _dump(path)
        try:
            found = bool(faults_of(store))
        except Refused:
            found = True
        assert found or now == content
        told, silent = told + found, silent + (not found)
        put_back()
    print(f"{told} told, {silent} in unused space")
    assert told > 20


def _dump(path: Path) -> str:
    try:
        with closing(sqlite3.connect(path)) as ledger:
            rows = [ledger.execute(f"SELECT * FROM {t} ORDER BY rowid").fetchall() for t in TABLES]
        return canonical_json(rows).decode()
    except (sqlite3.DatabaseError, ValueError, UnicodeError, TypeError):
        return "broken"


def test_anchors_against_what_they_cover() -> None:
    """P36: an anchor of the log holds for a log that has grown since; what one doesn't speak of is said."""
    there = anchors.Anchorable(("k" * 64,), tuple(c * 64 for c in "abc"), {"manifest.json": "d" * 64, "x": "e" * 64})
    for given, words, covers in (
        ("a" * 64, "up to event 1 of 3", False),
        ("D" * 64, "every file that it lists", True),
        ("e" * 64, "x is the one", False),
    ):
        held = anchors.hold([given], there)
        assert words in held.said[0] and held.covers_all is covers and not held.faults
    assert anchors.hold(["f" * 64], there).faults
    both = anchors.hold(["d" * 64, "f" * 64], there)
    assert both.said and both.faults and not both.covers_all


EARLIER: dict[str, Any] = {
    "key": {"key_sha256": "k" * 64},
    "events": {"head": "b" * 64, "length": 2},
    "files": {"x": {"sha256": "e" * 64}, "report.html": {"sha256": "0" * 64}, "events.jsonl": {"sha256": "0" * 64}},
}
"""A manifest of the key at its log's second event; what is remade since may differ."""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"key": "k" * 64, "files": None}, []),
        ({"key": {"key_sha256": "f" * 64}}, [", key"]),
        ({"events": {"head": "c" * 64, "length": 2}}, [", events"]),
        ({"events": {"head": "c" * 64, "length": 4}}, [", events"]),
        ({"events": {"head": "c" * 64, "length": 0}}, [", events"]),
        ({"files": {"x": {"sha256": "f" * 64}, "y": {"sha256": "e" * 64}}}, [", x", ", y"]),
    ],
)
def test_an_earlier_manifest_as_anchor(tmp_path: Path, change: dict[str, Any], found: list[str]) -> None:
    """P36: or an earlier status.json: of this key, at its place in the log, with the files that it lists."""
    path = tmp_path / "before.json"
    path.write_text(json.dumps({**EARLIER, **change}), encoding="utf-8")
    digests = {"manifest.json": "d" * 64, "x": "e" * 64, "report.html": "1" * 64, "events.jsonl": "1" * 64}
    there = anchors.Anchorable(("k" * 64,), tuple(c * 64 for c in "abc"), digests)
    held = anchors.hold([str(path)], there)
    assert [fault.where.removeprefix(str(path)) for fault in held.faults] == found
    assert bool(held.said) is not bool(found) and not held.covers_all
    now = anchors.hold(
        [str(path)], replace(there, digests={**digests, "manifest.json": digest_bytes(path.read_bytes())})
    )
    assert now.covers_all is not bool(found), "this very manifest"
    if "files" in change:
        assert anchors.hold([str(path)], replace(there, digests={})).faults == (), "where nothing is published"


def test_what_is_no_anchor_is_refused_and_lists_count_by_name(tmp_path: Path) -> None:
    """P36: a digest beside another file's name is not this file's; one anchor that covers all is enough."""
    digests = {"manifest.json": "d" * 64, "x": "e" * 64}
    there = anchors.Anchorable(("k" * 64,), ("a" * 64,), digests)
    path = tmp_path / "sums"
    for text, faults, covers in (
        (f"{'d' * 64}  manifest.json\n{'e' * 64}  x\n", 0, True),
        (f"{'e' * 64}  x\n", 0, False),
        (f"{'e' * 64}  manifest.json\n", 1, False),
        (f"{'f' * 64}  x\n{'d' * 64} *manifest.json\n", 1, False),
    ):
        path.write_text(text, encoding="utf-8")
        held = anchors.hold([str(path)], there)
        assert (len(held.faults), held.covers_all) == (faults, covers), text
    path.write_text(f"{'e' * 64}  x\n", encoding="utf-8")
    assert anchors.hold(["d" * 64, "a" * 64, str(path)], there).covers_all
    for text in ("{}", json.dumps({**EARLIER, "events": {"head": "b" * 64}}), "nothing"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(Refused, match="can't be used"):
            anchors.hold([str(path)], there)


def voided(files: Files) -> list[events.Event]:
    """The published log, and a void after it."""
    log = events.from_jsonl(files["events.jsonl"])
    body = {"round": 1, "key_digest": digest_bytes(files["key.jsonl"]), "why": "a grade was changed"}
    at_, prev = "2026-05-01T00:00:00.000000Z", log[-1].hash
    sha = events.event_hash("tiny", len(log) + 1, at_, "voided", body, prev)
    return [*log, events.Event("tiny", len(log) + 1, at_, "voided", body, prev, sha)]


def test_what_is_restated_verifies_and_covers_nothing_up(files: Files) -> None:
    """P33, P35: log, manifest, status, pages and digests as the log has them now; a file that was altered stays told,
    and gets no banner; a signature goes, for it was another manifest's.
    """
    log = voided(files)
    made = restating.restated({**files, publication.SIGNATURE: b"x"}, log, {})
    found = check_files(made)
    assert found.faults == () and found.standing is not None and found.standing.status == "void"
    assert set(made) == set(files) and b"VOID: round 1 of tiny" in made["report.html"]
    content = json.loads(made["manifest.json"])
    assert content["events"] == {"head": log[-1].hash, "length": len(log)} and content["status"]["status"] == "void"
    for name in ("qrels.txt", "report.html", croissant.NAME):
        spoilt = restating.restated({**files, name: b"x"}, log, {})
        assert spoilt[name] == b"x" and named(check_files(spoilt)) == {name}


def test_a_broken_parquet_file_is_named_though_its_reader_panics(files: Files) -> None:
    """P36: lengths in a page's header that lead out of the file, over every byte of its head."""
    name = "query_measures.parquet"
    for place in range(4, 60, 7):
        data = files[name][:place] + bytes([files[name][place] ^ 0xFF]) + files[name][place + 1 :]
        content = json.loads(files["manifest.json"])
        content["files"][name] = {"bytes": len(data), "sha256": digest_bytes(data)}
        assert name in named(check_files(resealed({**files, name: data}, content))), place


def test_differences_are_made_again_query_by_query() -> None:
    """P36, P39: what `arm_comparisons` says is accepted, an undefined query included; one that differs is named."""
    draw = random.Random(SEED + 4)  # noqa: S311 - no secret
    held: dict[str, list[float | None]] = {arm: [draw.random() for _ in range(12)] for arm in "abc"}
    held["b"][3] = None
    each = measured(held)
    pairs = arm_comparisons(
        each, sampled(12), names=["nDCG@10"], estimand="searches", seed="s", collapsed_ok=False, resamples=99, draws=99
    )

    def found(each: pl.DataFrame, pairs: pl.DataFrame) -> list[str]:
        streams = {"query_measures.parquet": io.BytesIO(), "arm_comparisons.parquet": io.BytesIO()}
        for frame, stream in zip((each, pairs), streams.values(), strict=True):
            frame.write_parquet(stream)
        said = verifying_content.check({n: s.getvalue() for n, s in streams.items()}, {}, None)
        assert said.recomputed == ("differences between arms",)
        return [fault.where for fault in said.faults]

    assert pairs.height == 3 and found(each, pairs) == []
    other = pl.when(pl.int_range(pl.len()) == 5).then(0.5).otherwise(pl.col("value")).alias("value")
    assert found(each.with_columns(other), pairs) == ["arm_comparisons.parquet"] * 2
    for column in ("difference", "wins", "losses", "n"):
        assert found(each, pairs.with_columns(pl.col(column) + 1)) == ["arm_comparisons.parquet"] * 3
