"""The write-once store of frozen keys (P33), with real kills and real tampering."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from relgrade_assets.errors import Refused
from relgrade_assets.io.key_store import KeyStore
from relgrade_assets.protocol.canonical import digest_bytes

FILES = {
    "key.jsonl": b'{"query_id":"q1","chunk_id":"c1","grade":2}\n',
    "key.json": b'{"experiment":"demo"}\n',
    "unrateable.jsonl": b"",
}
OTHER = {**FILES, "key.jsonl": b'{"query_id":"q1","chunk_id":"c1","grade":1}\n'}

KILLED_AT = """
import os, signal, sys
from pathlib import Path
from relgrade_assets.io.key_store import KeyStore
place, count = int(sys.argv[2]), 0
def watched(call):
    def inner(*args, **kwargs):
        global count
        count += 1
        if count == place:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return inner
for name in ("rename", "fsync", "fchmod", "mkdir"):
    setattr(os, name, watched(getattr(os, name)))
KeyStore(Path(sys.argv[1])).freeze("demo", 1, {"key.jsonl": b"k", "key.json": b"{}", "unrateable.jsonl": b""})
"""


def test_the_same_key_again_changes_nothing_and_another_is_refused(tmp_path: Path) -> None:
    """P33: a key is written once; a different one for the round is refused with both digests."""
    store = KeyStore(tmp_path)
    first = store.freeze("demo", 1, FILES)
    times = {p.name: p.stat().st_mtime_ns for p in first.folder.iterdir()}
    again = store.freeze("demo", 1, FILES)
    assert (first.new, again.new, again.key_digest) == (True, False, digest_bytes(FILES["key.jsonl"]))
    assert {p.name: p.stat().st_mtime_ns for p in first.folder.iterdir()} == times
    with pytest.raises(Refused) as caught:
        store.freeze("demo", 1, OTHER)
    for files in (FILES, OTHER):
        assert digest_bytes(files["key.jsonl"]) in str(caught.value)
    with pytest.raises(Refused, match=r"key\.json"):
        store.freeze("demo", 1, {**FILES, "key.json": b"{}\n"})
    assert store.load("demo", 1) == FILES
    assert store.freeze("demo", 2, OTHER).new, "another round has its own key"


def test_files_are_read_only_and_sha256sum_agrees(tmp_path: Path) -> None:
    """P33, against coreutils."""
    folder = KeyStore(tmp_path).freeze("demo", 1, FILES).folder
    assert folder == tmp_path / "keys" / "demo" / "round-1"
    assert all(path.stat().st_mode & 0o222 == 0 for path in folder.iterdir())
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("how", ["altered", "gone", "link"])
def test_a_file_that_was_altered_is_named(tmp_path: Path, name: str, how: str) -> None:
    """P33: what is loaded was hashed again."""
    store = KeyStore(tmp_path)
    path = store.freeze("demo", 1, FILES).folder / name
    data = path.read_bytes()
    path.chmod(0o644)
    if how == "altered":
        path.write_bytes(data + b" ")
    else:
        path.unlink()
    if how == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    for act in (lambda: store.load("demo", 1), lambda: store.freeze("demo", 1, FILES)):
        with pytest.raises(Refused, match="altered after the freeze") as caught:
            act()
        assert f"round-1/{name}" in str(caught.value)


def test_added_files_altered_sums_and_a_consistent_rewrite(tmp_path: Path) -> None:
    """P33, P36: a store rewritten whole is found by the digest that the event log has."""
    store = KeyStore(tmp_path)
    frozen = store.freeze("demo", 1, FILES)
    (frozen.folder / "extra").write_bytes(b"")
    with pytest.raises(Refused, match="extra"):
        store.load("demo", 1)
    (frozen.folder / "extra").unlink()
    (frozen.folder / "inner").mkdir()
    with pytest.raises(Refused, match="inner: found a link or a folder"):
        store.load("demo", 1)
    (frozen.folder / "inner").rmdir()
    sums = frozen.folder / "SHA256SUMS"
    sums.chmod(0o644)
    sums.write_bytes(b"nonsense\n")
    with pytest.raises(Refused, match="SHA256SUMS was altered"):
        store.load("demo", 1)
    with pytest.raises(Refused) as caught:
        store.load("demo", 1, digests=frozen.digests)
    assert [f.where for f in caught.value.faults] == [str(sums)], (
        "with the log's digests the files are known to be right"
    )
    more = store.freeze("demo", 2, {**FILES, "more.txt": b"x"}).folder / "more.txt"
    more.unlink()
    with pytest.raises(Refused, match=r"more\.txt: found no file"):
        store.load("demo", 2)
    elsewhere = KeyStore(tmp_path / "forged").freeze("demo", 1, OTHER).folder
    for path in elsewhere.iterdir():
        (frozen.folder / path.name).unlink()
        (frozen.folder / path.name).write_bytes(path.read_bytes())
    assert store.load("demo", 1) == OTHER, "no store can exclude a consistent rewrite by itself"
    with pytest.raises(Refused, match="as the event log has it"):
        store.load("demo", 1, key_digest=frozen.key_digest)
    with pytest.raises(Refused) as caught:
        store.load("demo", 1, digests=frozen.digests)
    assert [f.where for f in caught.value.faults] == [str(sums), str(frozen.folder / "key.jsonl")]


@pytest.mark.parametrize("experiment", ["../demo", "/etc", "", "Demo", "a/b", "a\0", "demo\n"])
def test_names_never_lead_out(tmp_path: Path, experiment: str) -> None:
    store = KeyStore(tmp_path / "state")
    with pytest.raises(Refused, match="names no key"):
        store.freeze(experiment, 1, FILES)
    for number in (0, -1):
        with pytest.raises(Refused, match="rounds count from 1"):
            store.load("demo", number)
    for name in ("../x", "a/b", ".hidden", "SHA256SUMS"):
        with pytest.raises(Refused, match=re.escape(repr(name))):
            store.freeze("demo", 1, {**FILES, name: b""})
    with pytest.raises(Refused, match=r"unrateable\.jsonl"):
        store.freeze("demo", 1, {"key.jsonl": b"", "key.json": b""})
    with pytest.raises(Refused, match="no frozen key"):
        store.load("demo", 1)
    assert list(tmp_path.iterdir()) == []


def test_freeze_killed_at_every_step(tmp_path: Path) -> None:
    """P33, kill -9 anywhere: no key or a whole one, and the same freeze again succeeds."""
    outcomes = []
    for place in range(1, 30):
        root = tmp_path / str(place)
        root.mkdir()
        code = subprocess.run([sys.executable, "-c", KILLED_AT, str(root), str(place)], check=False).returncode
        store = KeyStore(root)
        outcomes.append(store.exists("demo", 1))
        files = {"key.jsonl": b"k", "key.json": b"{}", "unrateable.jsonl": b""}
        assert store.freeze("demo", 1, files).new is not outcomes[-1]
        assert store.load("demo", 1) == files
        assert os.listdir(root / "keys" / "demo") == ["round-1"]
        if code == 0:
            break
    assert code == 0
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
