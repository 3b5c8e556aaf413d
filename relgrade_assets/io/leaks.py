"""P41's leak check: private strings looked for in the decoded, normalised content of everything that would be
published.

What is private, and what happens on a find, is decided by the caller; nothing is written here, and a fault never
repeats the string found.
"""

from __future__ import annotations

import base64
import binascii
import html
import io
import re
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping

import polars as pl
import zstandard

from relgrade_assets.errors import Fault
from relgrade_assets.io.parquet import BROKEN, read_parquet
from relgrade_assets.protocol.canonical import digest_bytes

AT_LEAST = 12
"""Characters from which a private string is looked for; shorter ones from three words on."""
WINDOW = 40
"""A longer string is also looked for in pieces of this many characters, so that an excerpt of twice as many can't
pass.
"""
UNPACKED_AT_MOST = 1 << 28
_DEEP = 3
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{24,}={0,2}")
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
"""How a zstd frame that holds no data begins; others may follow it."""
_A_TIME = 1024
"""Packed bytes that are given to zstd at a time: they give at most some 30 MB."""
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/nrt])')
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def leak_check(files: Mapping[str, bytes], private_strings: Iterable[str]) -> list[Fault]:
    """Every file (names too) that holds a private string of at least 12 characters or three words, one fault a file
    and string.

    Looked into: text, JSON and HTML and percent escapes, base64, gzip, zstd, zip and Parquet, as written and nested up
    to three deep; all after NFKC, lower case, format characters out, blanks collapsed. A file that unpacks to more than
    256 MiB is a fault itself.
    """
    whole = sorted({s for s in private_strings if s})
    needles: dict[str, str] = {}
    for original, text in zip(whole, _normalised(whole), strict=True):
        if len(text) < AT_LEAST and text.count(" ") < 2:
            continue
        needles.setdefault(text, original)
        for start in range(0, max(len(text) - WINDOW + 1, 0), WINDOW):
            needles.setdefault(text[start : start + WINDOW], original)
    starts: dict[str, list[str]] = {}
    for needle in sorted(needles):
        starts.setdefault(needle[:AT_LEAST], []).append(needle)
    faults = []
    names: list[str] = []
    texts: list[str] = []
    for name in sorted(files):
        readings, complete = _readings(files[name])
        distinct = list(dict.fromkeys(_normalised([name, *readings])))
        names += [name] * len(distinct)
        texts += distinct
        if not complete:
            found = "content that is broken, nested too deep, or unpacks to more than 256 MiB"
            faults.append(Fault(name, found, "a file that can be looked through (P41)"))
    leaks = {(name, needles[needle]) for name, needle in _found(names, texts, starts)}
    for name, text in sorted(leaks):
        found = f"a private string of {len(text)} characters (sha256 {digest_bytes(text.encode())[:12]})"
        faults.append(Fault(name, found, "no private text in what is published (P41)"))
    return sorted(faults, key=lambda fault: fault.where)


def _found(names: list[str], texts: list[str], starts: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Needles in the texts: their beginnings all at once (Aho-Corasick, in Polars), the rest of those one by one."""
    if not starts:
        return
    hits = pl.Series(texts, dtype=pl.String).str.extract_many(list(starts), overlapping=True).list.unique().to_list()
    for name, text, here in zip(names, texts, hits, strict=True):
        for needle in (needle for start in here for needle in starts[start]):
            if len(needle) >= AT_LEAST:
                if needle in text:
                    yield name, needle
            elif re.search(rf"(?<!\w){re.escape(needle)}(?!\w)", text):
                yield name, needle


def _normalised(texts: list[str]) -> list[str]:
    column = pl.Series(texts, dtype=pl.String).str.normalize("NFKC").str.to_lowercase()
    return (
        column.str.replace_all(r"\p{Cf}", "").str.replace_all(r"[\s\p{Z}\p{Cc}]+", " ").str.strip_chars(" ").to_list()
    )


def _readings(data: bytes) -> tuple[list[str], bool]:
    """Every text that the bytes can be read as, and whether all of them could be looked at."""
    texts: list[str] = []
    room = UNPACKED_AT_MOST
    whole = True
    waiting = [(data, 0)]
    while waiting:
        content, depth = waiting.pop()
        room -= len(content)
        if room < 0 or depth > _DEEP:
            whole = False
            continue
        inner, complete = _unpacked(content, room)
        whole = whole and complete
        waiting += [(part, depth + 1) for part in inner]
        texts += _texts(content)
    return texts, whole


def _unpacked(content: bytes, room: int) -> tuple[list[bytes], bool]:
    if content.startswith(b"\x1f\x8b"):
        return _members(content, room)
    if content.startswith(b"\x28\xb5\x2f\xfd") or _SKIPPABLE.match(content):
        return _zstd(content, room)
    if content.startswith(b"PK"):
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                entries = archive.infolist()
                if sum(entry.file_size for entry in entries) > room:
                    return [], False
                return [entry.filename.encode() for entry in entries] + [archive.read(entry) for entry in entries], True
        except (zipfile.BadZipFile, RuntimeError, zlib.error):
            return [], False
    if content.startswith(b"PAR1"):
        try:
            return [read_parquet(content).write_json().encode()], True
        except BROKEN:
            return [], False
    parts = []
    for match in _BASE64.finditer(content):
        try:
            parts.append(base64.b64decode(match[0], validate=True))
        except binascii.Error:
            continue
    return [b"\n".join(parts)] if parts else [], True


def _members(content: bytes, room: int) -> tuple[list[bytes], bool]:
    """Every member of a gzip file, up to `room` bytes in all."""
    parts: list[bytes] = []
    while content.startswith(b"\x1f\x8b"):
        engine = zlib.decompressobj(wbits=31)
        try:
            parts.append(engine.decompress(content, room + 1))
        except zlib.error:
            return parts, False
        room -= len(parts[-1])
        if room < 0 or engine.unconsumed_tail or not engine.eof:
            return parts, False
        content = engine.unused_data
    return [*parts, content], True


def _zstd(content: bytes, room: int) -> tuple[list[bytes], bool]:
    """Every zstd frame, those without data too, up to `room` bytes in all."""
    parts: list[bytes] = []
    while content:
        if _SKIPPABLE.match(content):
            end = 8 + int.from_bytes(content[4:8], "little")
            parts.append(content[8:end])
            if len(content) < max(end, 8):
                return parts, False
            content = content[end:]
            continue
        engine = zstandard.ZstdDecompressor().decompressobj()
        at, size = 0, 0
        pieces: list[bytes] = []
        try:
            while at < len(content) and not engine.eof and size <= room:
                pieces.append(engine.decompress(content[at : at + _A_TIME]))
                at, size = at + _A_TIME, size + len(pieces[-1])
        except zstandard.ZstdError:
            return [*parts, b"".join(pieces)], False
        parts.append(b"".join(pieces))
        room -= size
        if not engine.eof or room < 0:
            return parts, False
        content = engine.unused_data + content[at:]
    return parts, True


def _texts(content: bytes) -> list[str]:
    raw = content.decode("utf-8", "replace")
    unescaped = _ESCAPE.sub(_character, raw)
    plain = [raw, unescaped, raw.replace('""', '"')]
    if "&" in raw or "<" in raw or "\\u" in raw:
        plain += [html.unescape(re.sub(r"<[^>]*>", "", text)) for text in (raw, unescaped)] + [html.unescape(unescaped)]
    if "%" in raw or "+" in raw:
        plain.append(urllib.parse.unquote_plus(raw))
    if b"\0" in content:
        plain.append(content.decode("utf-16-le", "replace"))
    return [text.encode("utf-8", "replace").decode() for text in dict.fromkeys(plain)]


def _character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if code[0] == "u" else _ESCAPED.get(code, code)
