"""`relgrade verify FOLDER` (P36): a published folder checked by itself, with nothing else at hand.

Which file was altered is found here, from the digests that three files of the folder hold of each other; what the
files say is recomputed in verifying_content.py. Every fault names its file, all are told at once, and nothing is
written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import events, publication, verifying_content
from relgrade_assets.io.key_store import sums_bytes
from relgrade_assets.io.standing import Standing, standing_of, status_bytes
from relgrade_assets.protocol.canonical import digest_bytes

MANIFEST, STATUS, LOG = "manifest.json", "status.json", "events.jsonl"
MOST_BYTES = 1 << 31
"""A published folder is read whole; a larger one is refused."""
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_ALTERED = "Take it from where it was published."


@dataclass(frozen=True, slots=True)
class Key:
    """A key's sha256 as it was frozen and as it was found: "" where the one is not known, or the other not there."""

    round: int | None
    frozen: str
    found: str

    def __str__(self) -> str:
        of = f"round {self.round} " if self.round else ""
        found = f"sha256 {self.found}" if self.found else "no key.jsonl"
        if self.found and self.found == self.frozen:
            return f"{of}{found}"
        due = f"NOT the one that was frozen, {self.frozen}" if self.frozen else "which nothing sound says was frozen"
        return f"{of}{found}, {due}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found: faults by file, what was recomputed, and what an outside anchor can be held against: the key's
    and the manifest's sha256 and the chain (the hash of every event). `standing` is None where the log can't say;
    `digests` has every file's sha256.
    """

    digests: Mapping[str, str]
    faults: tuple[Fault, ...]
    recomputed: tuple[str, ...]
    left_out: tuple[str, ...]
    standing: Standing | None
    key: Key
    chain: tuple[str, ...]
    manifest: bytes
    signature: bytes


def check_folder(folder: Path) -> Checked:
    """Check a published folder. Raises Refused where there is none, or it can't be read."""
    files, faults = _read(folder)
    return check_files(files, faults)


def check_files(files: Mapping[str, bytes], faults: list[Fault] | None = None) -> Checked:
    """`check_folder` on a folder's files, by name."""
    faults = list(faults or ())
    content = _manifest(files, faults)
    log = _log(files, faults)
    altered = _altered(files, content, log, faults)
    sound = {name: data for name, data in files.items() if name not in altered}
    standing = _standing(content, log) if LOG in sound else None
    why = _unusable(files, content, sound, faults)
    recomputed: tuple[str, ...] = ()
    left_out = verifying_content.not_checked(why)
    if content is not None and not why:
        found = verifying_content.check(sound, content, log if LOG in sound else None)
        faults += found.faults
        recomputed, left_out = found.recomputed, found.left_out
    return Checked(
        {name: digest_bytes(data) for name, data in sorted(files.items())},
        tuple(faults),
        recomputed,
        left_out,
        standing,
        _key(files, content if MANIFEST in sound else None, log if LOG in sound else None),
        tuple(e.hash for e in log or ()),
        files.get(MANIFEST, b""),
        files.get(publication.SIGNATURE, b""),
    )


def _unusable(
    files: Mapping[str, bytes], content: dict[str, Any] | None, sound: Mapping[str, bytes], faults: list[Fault]
) -> str:
    """Why nothing can be held against the manifest; "" where it can."""
    if MANIFEST not in files:
        return f"without {MANIFEST}"
    if content is None:
        return f"{MANIFEST} does not fit its schema"
    if MANIFEST not in sound:
        return f"{MANIFEST} is not the one that was published"
    return f"{MANIFEST} has a fault" if any(f.where.startswith(MANIFEST) for f in faults) else ""


def _key(files: Mapping[str, bytes], content: dict[str, Any] | None, log: list[events.Event] | None) -> Key:
    """The key that lies here, and the one that was frozen: by the log where it is sound, else by the manifest."""
    found = digest_bytes(files["key.jsonl"]) if "key.jsonl" in files else ""
    said, round_ = _at(content, "key", "key_sha256"), _at(content, "key", "round")
    number = round_ if isinstance(round_, int) else None
    logged = [e for e in log or () if e.kind in ("frozen", "corrected") and number in (None, e.round)]
    if log is None:
        return Key(number, str(said or ""), found)
    if not logged:
        return Key(number, "", found)
    mine = next((e for d in (found, said) for e in logged if e.body.get("key_digest") == d), logged[-1])
    return Key(mine.round, str(mine.body.get("key_digest")), found)


def _read(folder: Path) -> tuple[dict[str, bytes], list[Fault]]:
    if not folder.is_dir():
        raise Refused(f"{folder} can't be verified", [Fault(str(folder), "no such folder", "a published folder")])
    files: dict[str, bytes] = {}
    faults = []
    try:
        paths = sorted(folder.iterdir())
        if sum(p.stat().st_size for p in paths if p.is_file()) > MOST_BYTES:
            fault = Fault(str(folder), "more than 2 GiB", "a published folder")
            raise Refused(f"{folder} is too large to be read", [fault])
        for path in paths:
            if path.is_symlink() or not path.is_file():
                faults.append(Fault(path.name, "a link or a folder", "plain files alone", "Take it out."))
            else:
                files[path.name] = path.read_bytes()
    except OSError as error:
        where = str(error.filename or folder)
        raise Refused(f"{folder} can't be read", [Fault(where, str(error.strerror), "a file to read")]) from error
    if MANIFEST not in files and not {"key.jsonl", STATUS, publication.SUMS} & set(files):
        found = "a folder without manifest.json, status.json and key.jsonl"
        raise Refused(f"{folder} can't be verified", [Fault(str(folder), found, "a published folder")])
    return files, faults


def _manifest(files: Mapping[str, bytes], faults: list[Fault]) -> dict[str, Any] | None:
    """The manifest where it fits its schema, else None."""
    if MANIFEST not in files:
        faults.append(Fault(MANIFEST, "no such file", "the manifest", _ALTERED))
        return None
    content = loaded(files[MANIFEST])
    validator = jsonschema.Draft202012Validator(publication.manifest_schema())
    wrong = sorted(validator.iter_errors(content), key=lambda e: [str(p) for p in e.absolute_path])
    for error in wrong[:20]:
        where = "/".join(map(str, error.absolute_path))
        faults.append(Fault(f"{MANIFEST}, {where or 'the whole'}", error.message[:160], "what its schema allows"))
    if wrong or not isinstance(content, dict):
        return None
    if publication.manifest_bytes(content) != files[MANIFEST]:
        faults.append(Fault(MANIFEST, "JSON in another form", "sorted keys, indented by two, a line feed at the end"))
    return content


def _log(files: Mapping[str, bytes], faults: list[Fault]) -> list[events.Event] | None:
    """The events, where every line is one; faults of the chain are told later, against the manifest."""
    if LOG not in files:
        return None
    try:
        return events.from_jsonl(files[LOG])
    except Refused as refused:
        faults += [Fault(f"{LOG}, {f.where}", f.found, f.expected) for f in refused.faults]
        return None


def _altered(
    files: Mapping[str, bytes], content: dict[str, Any] | None, log: list[events.Event] | None, faults: list[Fault]
) -> set[str]:
    """Files that are not what the others say of them. SHA256SUMS and status.json both hold the manifest's digest, so
    that of the three the odd one out is told; a manifest that they bear out is believed about the rest.
    """
    actual = {name: digest_bytes(data) for name, data in files.items()}
    sums = _sums(files, faults)
    altered: set[str] = set()

    def wrong(name: str, found: str, expected: str, mend: str = _ALTERED) -> None:
        altered.add(name)
        faults.append(Fault(name, found, expected, mend))

    said = _at(loaded(files.get(STATUS, b"")), "manifest_sha256")
    claims = {publication.SUMS: sums.get(MANIFEST), STATUS: said if isinstance(said, str) else None}
    present = actual.get(MANIFEST)
    borne_out = present is not None and present in claims.values()
    if present is not None and not borne_out:
        listed = {claim for claim in claims.values() if claim}
        wrong(MANIFEST, f"sha256 {present}", f"{' or '.join(sorted(listed)) or 'a digest'} (SHA256SUMS, status.json)")
    due: dict[str, str] = dict(sums)
    if borne_out and content is not None:
        due = {name: str(about["sha256"]) for name, about in content["files"].items()}
        due[MANIFEST] = str(present)
    for name in sorted({*files, *due} - {publication.SUMS, publication.SIGNATURE, STATUS}):
        if name not in due:
            wrong(name, "a file that the manifest does not list", "the published files alone", "Take it out.")
        elif name not in actual:
            wrong(name, "no such file", f"sha256 {due[name]}")
        elif actual[name] != due[name] and name not in altered:
            wrong(name, f"sha256 {actual[name]}", f"{due[name]}, as it was published")
    _check_status(files, log if LOG not in altered else None, content, sums, claims[STATUS], borne_out, wrong)
    rest = {name: digest for name, digest in due.items() if name != publication.SUMS}
    if STATUS in files and STATUS not in altered:
        rest[STATUS] = actual[STATUS]
    if publication.SUMS not in files:
        wrong(publication.SUMS, "no such file", "the digests of all files")
    elif borne_out and STATUS not in altered and files[publication.SUMS] != sums_bytes(rest):
        odd = sorted(n for n in {*sums, *rest} if sums.get(n) != rest.get(n))
        found = f"other lines for {', '.join(map(repr, odd))}" if odd else "lines in another form or order"
        wrong(publication.SUMS, found, "those of the files as they were published")
    return altered


def _check_status(
    files: Mapping[str, bytes],
    log: list[events.Event] | None,
    content: dict[str, Any] | None,
    sums: Mapping[str, str],
    claimed: str | None,
    borne_out: bool,
    wrong: Any,
) -> None:
    if STATUS not in files:
        wrong(STATUS, "no such file", "how the key stands")
        return
    found = digest_bytes(files[STATUS])
    if borne_out and log is not None and content is not None:
        about = content["key"]
        try:
            manifest = digest_bytes(files[MANIFEST])
            due = status_bytes(log, round=about["round"], key_digest=about["key_sha256"], manifest=manifest)
        except Refused as refused:
            wrong(STATUS, refused.what, "the standing of a key that the log knows")
            return
        if due != files[STATUS]:
            wrong(STATUS, _difference(files[STATUS], due), "what the event log and the manifest say")
    elif STATUS in sums and sums[STATUS] != found:
        wrong(STATUS, f"sha256 {found}", f"{sums[STATUS]}, as SHA256SUMS has it")


def _difference(found: bytes, due: bytes) -> str:
    one, other = loaded(found), loaded(due)
    if not isinstance(one, dict) or not isinstance(other, dict):
        return "no JSON object"
    odd = sorted(k for k in {*one, *other} if one.get(k) != other.get(k))
    return f"another {', '.join(map(repr, odd))}" if odd else "JSON in another form"


def _sums(files: Mapping[str, bytes], faults: list[Fault]) -> dict[str, str]:
    listed = {}
    for number, line in enumerate(files.get(publication.SUMS, b"").decode("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            faults.append(Fault(f"{publication.SUMS}, line {number}", repr(line[:90]), "a digest, two blanks, a name"))
        else:
            listed[match[2]] = match[1]
    return listed


def _standing(content: dict[str, Any] | None, log: list[events.Event] | None) -> Standing | None:
    if content is None or log is None:
        return None
    try:
        return standing_of(log, content["key"]["round"], content["key"]["key_sha256"])
    except (KeyError, ValueError, TypeError):
        return None


def loaded(data: bytes) -> object:
    """JSON, strictly: None for anything else, a number that is none and a key that stands twice included."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise ValueError("a key stands twice")
        return made

    def no_number(text: str) -> float:
        raise ValueError(text)

    try:
        return json.loads(data, object_pairs_hook=once, parse_constant=no_number)
    except (ValueError, RecursionError):
        return None


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
