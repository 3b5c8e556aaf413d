"""Writes that are whole or not at all, under real kills at every system call that matters."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relgrade_assets.errors import Refused
from relgrade_assets.io import atomic

OLD = {"a.txt": b"old a", "deep/b.txt": b"old b"}
NEW = {"a.txt": b"new a", "c.txt": b"new c"}

KILLED_AT = """
import os, signal, sys
from pathlib import Path
from relgrade_assets.io import atomic
target, place, exchange, what = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "exchange", sys.argv[4]
count = 0
def watched(call):
    def inner(*args, **kwargs):
        global count
        count += 1
        if count == place:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return inner
for name in ("rename", "fsync", "write", "rmdir", "mkdir", "unlink"):
    setattr(os, name, watched(getattr(os, name)))
swap = atomic._exchange
atomic._exchange = watched(swap if exchange else lambda one, other: False)
if what == "folder":
    atomic.replace_folder(target, {"a.txt": b"new a", "c.txt": b"new c"})
else:
    atomic.write_bytes(target, b"new " * 1000)
"""


def killed_at(target: Path, place: int, exchange: str, what: str) -> int:
    done = subprocess.run([sys.executable, "-c", KILLED_AT, str(target), str(place), exchange, what], check=False)
    return done.returncode


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("exchange", ["exchange", "aside"])
def test_replace_folder_killed_at_every_step(tmp_path: Path, exchange: str) -> None:
    """quality.md, kill -9 anywhere: the old folder or the new, whole; the next write leaves nothing behind."""
    seen = set()
    for place in range(1, 40):
        target = tmp_path / str(place) / "out"
        atomic.replace_folder(target, OLD)
        code = killed_at(target, place, exchange, "folder")
        if exchange == "exchange":
            assert target.is_dir()
        atomic.recover_folder(target)
        found = content(target)
        assert found in (OLD, NEW)
        seen.add(found == NEW)
        atomic.replace_folder(target, NEW)
        assert content(target.parent) == {f"out/{name}": data for name, data in NEW.items()}
        assert [p.name for p in target.parent.iterdir()] == ["out"]
        if code == 0:
            break
        assert code == -9
    assert code == 0, "every step was passed"
    assert seen == {True, False}


def test_write_bytes_never_touches_the_old_bytes(tmp_path: Path) -> None:
    atomic.write_bytes(tmp_path / "a", b"old")
    os.link(tmp_path / "a", tmp_path / "kept")
    atomic.write_bytes(tmp_path / "a", b"new")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "kept").read_bytes()) == (b"new", b"old")


def test_write_bytes_killed_at_every_step(tmp_path: Path) -> None:
    seen = set()
    for place in range(1, 12):
        target = tmp_path / str(place) / "table.parquet"
        atomic.write_bytes(target, b"old")
        code = killed_at(target, place, "exchange", "file")
        seen.add(target.read_bytes())
        atomic.write_bytes(target.parent / "another", b"x")
        assert sorted(p.name for p in target.parent.iterdir()) == ["another", "table.parquet"], "leftovers are cleaned"
        if code == 0:
            break
    assert code == 0
    assert seen == {b"old", b"new " * 1000}


@pytest.mark.parametrize(
    ("code", "said"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "the file system is read-only")]
)
def test_a_disk_that_will_not_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str) -> None:
    atomic.replace_folder(tmp_path / "out", OLD)
    atomic.write_bytes(tmp_path / "one", b"old")
    real = os.write

    def full(handle: int, data: bytes) -> int:
        if len(data) > 2:
            return real(handle, data[:2])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", full)
    for write in (
        lambda: atomic.replace_folder(tmp_path / "out", NEW),
        lambda: atomic.write_bytes(tmp_path / "one", b"new one"),
        lambda: atomic.create_folder(tmp_path / "fresh", NEW),
    ):
        with pytest.raises(Refused, match=said):
            write()
    assert content(tmp_path) == {"one": b"old", "out/a.txt": b"old a", "out/deep/b.txt": b"old b"}


def test_a_name_that_leads_out_and_a_target_that_is_no_folder(tmp_path: Path) -> None:
    for name in ("../x", "/x", "a/../../x", "", "a//b", "./a"):
        with pytest.raises(Refused, match="leads out"):
            atomic.replace_folder(tmp_path / "out", {name: b""})
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(Refused, match="not a folder"):
            atomic.replace_folder(tmp_path / name, NEW)
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert not (tmp_path / "out").exists()


def test_create_folder_is_once(tmp_path: Path) -> None:
    assert atomic.create_folder(tmp_path / "k", OLD, mode=0o444)
    assert not atomic.create_folder(tmp_path / "k", NEW)
    assert content(tmp_path / "k") == OLD
    assert (tmp_path / "k" / "a.txt").stat().st_mode & 0o777 == 0o444


def test_a_lock_keeps_a_second_process_out_and_a_kill_frees_it(tmp_path: Path) -> None:
    lock = tmp_path / "demo" / ".lock"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path; from relgrade_assets.io.atomic import locked\n"
            "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)",
            str(lock),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Refused, match=f"another relgrade process .number {holder.pid}."), atomic.locked(lock):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with atomic.locked(lock), pytest.raises(Refused, match=str(os.getpid())), atomic.locked(lock):
        pass
