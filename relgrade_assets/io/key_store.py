"""The write-once store of frozen keys (P33): one read-only folder a round, with the digests of its files.

Only keeping and verifying bytes belongs here; what is in them is made elsewhere, and whether a key is valid or void is
the event log's to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.atomic import create_folder
from relgrade_assets.protocol.canonical import digest_bytes

KEY = "key.jsonl"
IDENTITY = "key.json"
UNRATEABLE = "unrateable.jsonl"
SUMS = "SHA256SUMS"
REQUIRED = (KEY, IDENTITY, UNRATEABLE)
_EXPERIMENT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")


@dataclass(frozen=True, slots=True)
class Frozen:
    """A frozen key: its folder, its digest (that of key.jsonl), every file's bytes, and whether this call made it."""

    folder: Path
    experiment: str
    round: int
    key_digest: str
    files: Mapping[str, bytes]
    new: bool = False

    @property
    def digests(self) -> dict[str, str]:
        """Hex sha256 of each file, by name."""
        return {name: digest_bytes(data) for name, data in sorted(self.files.items())}


class KeyStore:
    """Frozen keys under `<root>/keys/<experiment>/round-<n>/`."""

    def __init__(self, root: Path) -> None:
        """Nothing is read or made before it is needed."""
        self.root = Path(root)

    def folder(self, experiment: str, round: int) -> Path:
        """Where the round's key lies or would lie. Raises Refused for a name that is no experiment's, so that none
        leads out of the store.
        """
        if not _EXPERIMENT.fullmatch(experiment) or round < 1:
            raise Refused(
                f"{experiment!r}, round {round} names no key: "
                "experiments are called by a-z, 0-9, _ and -, rounds count from 1"
            )
        return self.root / "keys" / experiment / f"round-{int(round)}"

    def exists(self, experiment: str, round: int) -> bool:
        """Whether the round has a key."""
        return self.folder(experiment, round).is_dir()

    def freeze(self, experiment: str, round: int, files: Mapping[str, bytes]) -> Frozen:
        """Keep `files` (at least REQUIRED) as the round's key, whole or not at all; the same bytes again change
        nothing (P33).

        Raises Refused, naming both digests, where the round has another key, and where the disk will not take it.
        """
        folder = self.folder(experiment, round)
        odd = sorted({name for name in files if not _FILE.fullmatch(name) or name == SUMS} | set(REQUIRED) - set(files))
        if odd:
            raise Refused(
                f"The key of {experiment}, round {round} was not frozen: "
                f"{', '.join(map(repr, odd))} missing or not a name for its files"
            )
        digests = {name: digest_bytes(data) for name, data in sorted(files.items())}
        if create_folder(folder, {**files, SUMS: sums_bytes(digests)}, mode=0o444):
            return Frozen(folder, experiment, round, digests[KEY], dict(files), new=True)
        stored = Frozen(folder, experiment, round, digests[KEY], self.load(experiment, round))
        both = {
            name: (stored.digests.get(name, "absent"), digests.get(name, "absent"))
            for name in sorted({*stored.files, *files})
        }
        faults = [
            Fault(
                f"{folder / name}",
                f"sha256 {new}",
                f"the frozen one, {old}",
                "Open the next round with `relgrade revise`.",
            )
            for name, (old, new) in both.items()
            if old != new
        ]
        if faults:
            raise Refused(
                f"Round {round} of {experiment} has another key already, and a key is written once",
                faults,
                untouched="The frozen key stands.",
            )
        return stored

    def load(
        self,
        experiment: str,
        round: int,
        *,
        key_digest: str | None = None,
        digests: Mapping[str, str] | None = None,
    ) -> dict[str, bytes]:
        """The bytes of the round's files, every one hashed again. Raises Refused naming each file that was altered,
        added or taken away.

        With `key_digest` (the event log's), also where the store was rewritten consistently to hold another key; with
        `digests` (every file's, from the log), the list of digests itself is told from the files that it lists.
        """
        folder = self.folder(experiment, round)
        if not folder.is_dir():
            raise Refused(f"Round {round} of {experiment} has no frozen key", untouched=f"It would lie at {folder}.")
        try:
            paths = sorted(folder.iterdir())
            odd = [path for path in paths if path.is_symlink() or not path.is_file()]
            found = {path.name: path.read_bytes() for path in paths if path not in odd}
        except OSError as error:
            raise Refused(f"The key at {folder} can't be read: {error.strerror}") from error
        sums = found.pop(SUMS, b"")
        faults = [Fault(f"{path}", "a link or a folder", "a plain file") for path in odd]
        if digests is not None and sums != sums_bytes(digests):
            faults.append(_fault(folder / SUMS, f"sha256 {digest_bytes(sums)}", f"{digest_bytes(sums_bytes(digests))}"))
        listed = _sums(sums, folder) if digests is None else dict(digests)
        for name in sorted({*found, *listed, *REQUIRED}):
            old = listed.get(name, "no such file")
            new = digest_bytes(found[name]) if name in found else "no file"
            if old != new:
                faults.append(_fault(folder / name, f"sha256 {new}" if name in found else new, old))
        if not faults and key_digest is not None and listed[KEY] != key_digest:
            faults.append(Fault(f"{folder / KEY}", f"sha256 {listed[KEY]}", f"{key_digest}, as the event log has it"))
        if faults:
            raise Refused(
                f"The frozen key of {experiment}, round {round} was altered after the freeze",
                faults,
                untouched="Nothing was read from it.",
            )
        return found


def sums_bytes(digests: Mapping[str, str]) -> bytes:
    """Digests by name as `sha256sum --check` reads them, sorted by name."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())).encode()


def _fault(path: Path, found: str, expected: str) -> Fault:
    return Fault(f"{path}", found, expected, "Restore it from a copy of the store.")


def _sums(data: bytes, folder: Path) -> dict[str, str]:
    listed = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = _SUM.fullmatch(line)
        if match is None:
            fault = _fault(folder / SUMS, repr(line[:80]), "a digest, two blanks, a name")
            raise Refused(f"{folder / SUMS} was altered", [fault], untouched="Nothing was read from the key.")
        listed[match[2]] = match[1]
    return listed
