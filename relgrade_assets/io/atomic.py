"""Files and folders that are written whole or not at all, and locks between processes.

Local disks only, standard library only. What the bytes mean does not belong here; databases keep their own promises.

Folders are swapped by the kernel's exchange of two names (Linux, renameat2), so that a reader never finds the name
missing and the folder stays a plain folder that can be copied and zipped, which a symbolic link to a version would
not. Where the file system can't exchange, the old folder is set aside and the new one renamed; a kill between the two
is mended at the next write or by `recover_folder`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from relgrade_assets.errors import Refused

TEMPORARY = ".relgrade-tmp"
"""Ending of files being written; one that is found while its folder is locked was left by a killed write."""

_NEW = f".new{TEMPORARY}"
_OLD = f".old{TEMPORARY}"
_EXCHANGE = 2
_AT_FDCWD = -100
_CANT_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_REASONS = {
    errno.ENOSPC: ("the disk is full", "Free some space and run again."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space and run again."),
    errno.EROFS: ("the file system is read-only", "Write elsewhere, or mount it for writing."),
    errno.EACCES: ("there is no permission to write there", "Give this user the right to write there."),
    errno.EPERM: ("there is no permission to write there", "Give this user the right to write there."),
    errno.ENOLCK: ("the file system can't lock", "Keep the state on a local disk."),
    errno.EBADF: ("the file system can't lock folders", "Keep the state on a local disk."),
}


class Held(Refused):
    """Another process holds a lock; `holder` is its number, as far as it is known."""

    def __init__(self, path: Path, holder: str) -> None:
        self.holder = holder
        super().__init__(
            f"{path} is held by another relgrade process (number {holder}); wait for it to end, then run again"
        )


def write_bytes(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` at `path`, so that a kill at any moment leaves the old bytes or the new. Folders above are made.

    With `mode` (0o600 for a secret) nobody else can open it at any moment, not while it is written either.
    Raises Refused where the disk will not take it (full, read-only, no permission); the old file then stands.
    """
    path = Path(path)
    with disk_faults(path), _folder_held(path.parent) as folder:
        _clean_temporaries(path.parent)
        temporary = path.parent / f".{path.name}{TEMPORARY}"
        try:
            _write_new(temporary, data, mode)
            os.rename(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        os.fsync(folder)


def replace_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Make `target` hold exactly `files` (relative names with /), so that a kill at any moment leaves the old folder
    or the new, whole.

    Raises Refused where the disk will not take it, where `target` is no folder, or where a name leads out of it.
    """
    target = Path(target)
    with disk_faults(target), _folder_held(target.parent) as parent:
        _recover(target, parent)
        new = _build(target, files, mode=None)
        if not target.exists():
            os.rename(new, target)
            os.fsync(parent)
            return
        if not _exchange(new, target):
            os.rename(target, _aside(target))
            os.rename(new, target)
            os.rename(_aside(target), new)  # half removed under its other name it would be taken for a whole folder
        os.fsync(parent)
        shutil.rmtree(new, ignore_errors=True)  # the new folder stands; what is left goes at the next write


def create_folder(target: Path, files: Mapping[str, bytes], *, mode: int | None = None) -> bool:
    """Make `target` with `files` if nothing is there yet: whole or not at all, and by one process only. False where it
    was there.

    `mode` is given to every file before the folder appears (0o444 for write-once files). Raises Refused as
    `replace_folder` does.
    """
    target = Path(target)
    with disk_faults(target), _folder_held(target.parent) as parent:
        _recover(target, parent)
        if target.exists():
            return False
        os.rename(_build(target, files, mode=mode), target)
        os.fsync(parent)
        return True


def recover_folder(target: Path) -> None:
    """Bring back the old folder that a killed `replace_folder` left aside; for readers. Does nothing where `target`
    stands.
    """
    target = Path(target)
    if not target.exists() and _aside(target).exists():
        with disk_faults(target), _folder_held(target.parent) as parent:
            _recover(target, parent)


@contextmanager
def locked(path: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock file `path` (made if missing, never removed), so that two runs of one partition don't mix. Freed
    by the kernel on a kill.

    Waits up to `wait_seconds`; raises Held, a Refused that names the process that holds it.
    """
    path = Path(path)
    with disk_faults(path):
        _make_folders(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        give_up = time.monotonic() + wait_seconds
        while not _try_lock(handle, path):
            if time.monotonic() >= give_up:
                holder = os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
                raise Held(path, holder)
            time.sleep(0.05)
        with disk_faults(path):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock file `path` at this moment; the file is made if missing."""
    try:
        with locked(path):
            return False
    except Held:
        return True


@contextmanager
def disk_faults(path: Path) -> Iterator[None]:
    """Turn what the disk says about `path` into one Refused that says what to do."""
    try:
        yield
    except OSError as error:
        reason, mend = _REASONS.get(
            error.errno or 0, (os.strerror(error.errno) if error.errno else str(error), "Mend that and run again.")
        )
        raise Refused(
            f"{path} was not written: {reason}", untouched=f"{mend} What was there before is unchanged."
        ) from error


def _try_lock(handle: int, path: Path) -> bool:
    with disk_faults(path):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextmanager
def _folder_held(folder: Path) -> Iterator[int]:
    """The folder, made, open and locked against other writers of ours; no lock file is left in it."""
    _make_folders(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _make_folders(folder: Path) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_new(path: Path, data: bytes, mode: int | None = None) -> None:
    made_as = 0o666 if mode is None else 0o600
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, made_as)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        if mode is not None:
            os.fchmod(handle, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def _clean_temporaries(folder: Path) -> None:
    """With the folder held: nothing left of killed writes, save a folder set aside, which may have to come back."""
    for left in sorted(folder.glob(f".*{TEMPORARY}")):
        if left.is_dir() and not left.is_symlink():
            if left.name.endswith(_NEW):
                shutil.rmtree(left)
        else:
            left.unlink()


def _coming(target: Path) -> Path:
    return target.parent / f".{target.name}{_NEW}"


def _aside(target: Path) -> Path:
    return target.parent / f".{target.name}{_OLD}"


def _recover(target: Path, parent: int) -> None:
    """With the parent held: the old folder back where the name is missing, then nothing left of killed writes."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise Refused(f"{target} is not a folder, so it was not replaced by one; move it away and run again")
    if not target.exists() and _aside(target).exists():
        os.rename(_aside(target), target)
        os.fsync(parent)
    _clean_temporaries(target.parent)
    if _aside(target).exists():
        shutil.rmtree(_aside(target))


def _build(target: Path, files: Mapping[str, bytes], *, mode: int | None) -> Path:
    """The new folder beside `target`, every byte on disk; removed again where the disk refuses."""
    for name in files:
        if (
            not name
            or name != str(PurePosixPath(name))
            or name.startswith("/")
            or {".", ".."} & set(name.split("/"))
            or "\0" in name
        ):
            raise Refused(f"{target} can't hold a file named {name!r}: the name leads out of the folder")
    new = _coming(target)
    try:
        new.mkdir()
        folders = {new}
        for name in sorted(files):
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.update(p for p in path.parents if p.is_relative_to(new))
            _write_new(path, files[name], mode)
        for folder in sorted(folders, reverse=True):
            _sync_folder(folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return new


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system or the file system can't."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANT_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(other))
