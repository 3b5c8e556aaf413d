"""Anchors from outside (P36): a hash known beforehand, an earlier manifest or list of digests, or who may sign, held
against what a check found.

What an anchor does not speak of is said too: without one that covers the whole, a consistent rewrite can't be
excluded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import publication, signing
from relgrade_assets.io.croissant import NAME
from relgrade_assets.io.verifying import loaded
from relgrade_assets.protocol.canonical import digest_bytes

NOT_EXCLUDED = "that everything was rewritten together, consistently"
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST = 1 << 24


@dataclass(frozen=True, slots=True)
class Anchorable:
    """What anchors can be held against: the keys' sha256, every event's hash in order, each published file's sha256
    by name, and manifest and signature where they are there.
    """

    keys: Sequence[str]
    chain: Sequence[str]
    digests: Mapping[str, str]
    manifest: bytes = b""
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Held:
    """Anchors that hold, in words; faults of those that don't; whether one of them covers every file."""

    said: tuple[str, ...]
    faults: tuple[Fault, ...]
    covers_all: bool


def hold(given: Sequence[str], found: Anchorable) -> Held:
    """Hold every anchor in `given` (a hash, or the name of a file) against what was found.

    Raises Refused for one that is neither a hash nor a file that holds one.
    """
    said: list[str] = []
    faults: list[Fault] = []
    whole = False
    for anchor in given:
        text = anchor.strip().lower()
        if _HASH.fullmatch(text):
            what = _meant(text, found)
            if what is None:
                due = "the key's sha256, the manifest's, or the hash of an event of the log"
                faults.append(Fault(f"anchor {text[:16]}...", "nothing here with this hash", due, _DIFFERS))
            else:
                said.append(what)
                whole = whole or text == found.digests.get("manifest.json")
            continue
        words, wrong, covers = _file(Path(anchor), found)
        said += words
        faults += wrong
        whole = whole or covers
    return Held(tuple(said), tuple(faults), whole and not faults)


_DIFFERS = "What lies here is not what the anchor was taken of."


def _meant(text: str, found: Anchorable) -> str | None:
    if text in found.keys:
        return "the key is the one known beforehand (this says nothing of log and measures)"
    if text in found.chain:
        at = list(found.chain).index(text) + 1
        return f"the log up to event {at} of {len(found.chain)} is the one known beforehand, with the keys it froze"
    name = next((n for n, digest in found.digests.items() if digest == text), None)
    if name == "manifest.json":
        return "manifest.json is the one known beforehand, and with it every file that it lists"
    return None if name is None else f"{name} is the one known beforehand"


def _file(path: Path, found: Anchorable) -> tuple[list[str], list[Fault], bool]:
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= _MOST else b""
    except OSError:
        data = b""
    text = data.decode("utf-8", "replace")
    if signing.knows_signers(text):
        return _signature(path, text, found)
    content = loaded(data)
    if isinstance(content, dict):
        return _earlier(path, data, content, found)
    lines = [(m[0], line[m.end() :].strip(" *")) for line in text.splitlines() if (m := _HASH.search(line))]
    if not lines:
        fault = Fault(str(path), "neither a hash nor a file with one", "64 hex digits, or a file: see verify's page")
        raise Refused("An anchor can't be used", [fault])
    said, faults, whole = [], [], False
    for digest, name in lines:
        what = _meant(digest, found)
        if what is None or (name in found.digests and found.digests[name] != digest):
            due = found.digests.get(name, "something here with this hash")
            faults.append(Fault(f"{path}, {name or digest[:16]}", f"sha256 {digest}", due, _DIFFERS))
        else:
            said.append(what)
            whole = whole or digest == found.digests.get("manifest.json")
    return said, faults, whole


def _signature(path: Path, text: str, found: Anchorable) -> tuple[list[str], list[Fault], bool]:
    if not found.signature:
        return [], [Fault(publication.SIGNATURE, "no such file", f"a signature by somebody in {path}")], False
    who = signing.signer(found.manifest, found.signature, text)
    if who is None:
        due = f"a signature of this manifest by somebody in {path}"
        return [], [Fault(publication.SIGNATURE, "another signature", due, _DIFFERS)], False
    name = path.name if who == "anchor" else who
    return [f"manifest.json is signed by {name}, and with it every file that it lists"], [], True


def _earlier(
    path: Path, data: bytes, content: dict[str, object], found: Anchorable
) -> tuple[list[str], list[Fault], bool]:
    """An earlier manifest.json or status.json of the same key: its key, its place in the log, its files."""
    key, at, listed = content.get("key"), content.get("events"), content.get("files")
    sha = key.get("key_sha256") if isinstance(key, dict) else key
    head, length = (at.get("head"), at.get("length")) if isinstance(at, dict) else (None, None)
    if not isinstance(sha, str) or not isinstance(length, int):
        fault = Fault(str(path), "JSON that is neither a manifest nor a status", "manifest.json or status.json")
        raise Refused("An anchor can't be used", [fault])
    faults = []
    if sha not in found.keys:
        faults.append(Fault(f"{path}, key", sha, f"{', '.join(found.keys)}, the key here", _DIFFERS))
    there = found.chain[length - 1] if 0 < length <= len(found.chain) else f"a log of {len(found.chain)} events"
    if there != head:
        faults.append(Fault(f"{path}, events", f"{head} at {length}", there, "The log was cut or rewritten since."))
    for name, about in listed.items() if isinstance(listed, dict) else ():
        due = about.get("sha256") if isinstance(about, dict) else None
        remade = name in ("events.jsonl", NAME) or name.endswith(".html")  # when the log says something new
        if found.digests and not remade and found.digests.get(name) != due:
            faults.append(Fault(f"{path}, {name}", str(due), str(found.digests.get(name)), _DIFFERS))
    words = [] if faults else [f"key, log up to event {length} and files are those of {path}"]
    return words, faults, not faults and digest_bytes(data) == found.digests.get("manifest.json")
