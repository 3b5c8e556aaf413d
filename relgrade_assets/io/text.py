"""A file as checked bytes: plain, .gz or .zst, bounded, UTF-8, no NUL, no endless line.

What stands in the lines is the readers' business; writing and hashing of files is elsewhere. No frames here, and
nothing of the design: the fast path imports this module.
"""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relgrade_assets.errors import SHOWN_AT_MOST, Fault, Notice, Refused

MIB = 1 << 20
SIZE_LIMIT = 4096 * MIB
"""Bytes that a packed file may unpack to."""
RATIO_LIMIT = 250
"""Times its packed size that a file may unpack to, once past `RATIO_FROM`; ordinary text packs 3 to 40 times."""
RATIO_FROM = 64 * MIB
LINE_LIMIT = 16 * MIB
"""Bytes of the longest line that is read."""
BOM = b"\xef\xbb\xbf"


class Missing(Refused):
    """The file is not there (yet): a caller who can wait for it tells this from a fault."""

    def __reduce__(self) -> tuple[object, ...]:
        """Survives pickling as itself."""
        return (_missing, (self.what, self.faults, self.untouched, self.total))


def _missing(what: str, faults: tuple[Fault, ...], untouched: str, total: int) -> Missing:
    return Missing(what, faults, untouched=untouched, total=total)


@dataclass(frozen=True, slots=True)
class Text:
    """A file's bytes, valid UTF-8 with `\\n` line ends and no byte-order mark, and what was mended on the way."""

    data: bytes
    notices: tuple[Notice, ...]


def read_bytes(
    path: Path,
    *,
    name: str,
    inside: Path | None = None,
    size_limit: int = SIZE_LIMIT,
    ratio_limit: int = RATIO_LIMIT,
) -> bytes:
    """The file's bytes, unpacked where its name ends in .gz or .zst; once read, nothing on disk can change them.

    Raises Missing where there is no such file, and Refused for a folder, a device, a link that leads out of `inside`,
    a file without a byte, a broken archive, or one that unpacks beyond `size_limit` bytes or `ratio_limit` times its
    size.
    """
    _regular(path, name, inside)
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise _refused(name, f"a file that can't be read ({error.strerror})", "a file this user may read") from error
    if not packed:
        raise _refused(name, "a file of 0 bytes", "content", "Write the file again; it may have been cut off.")
    pieces = {".gz": _gunzip, ".zst": _unzstd}.get(path.suffix.lower())
    if pieces is None:
        return packed
    out: list[bytes] = []
    size = 0
    for piece in pieces(packed, name):
        size += len(piece)
        if size > size_limit:
            raise _refused(
                name,
                f"an archive that unpacks to more than {size_limit} bytes",
                "less",
                "Unpack it by hand if you trust it.",
            )
        if size > RATIO_FROM and size > ratio_limit * len(packed):
            raise _refused(
                name,
                f"an archive of {len(packed)} bytes that unpacks to more than {ratio_limit} times as much",
                "text packed by an ordinary factor",
                "Unpack it by hand if you trust it.",
            )
        out.append(piece)
    if not size:
        raise _refused(name, "an archive of 0 bytes", "content", "Write the file again; it may have been cut off.")
    return b"".join(out)


def read_text(
    path: Path,
    *,
    name: str,
    inside: Path | None = None,
    size_limit: int = SIZE_LIMIT,
    ratio_limit: int = RATIO_LIMIT,
    line_limit: int = LINE_LIMIT,
) -> Text:
    """The file as `Text`. Raises as `read_bytes`, and Refused for NUL bytes, bytes that are not UTF-8, too long lines.

    Notices: `byte_order_mark`, `crlf` (lines).
    """
    data = read_bytes(path, name=name, inside=inside, size_limit=size_limit, ratio_limit=ratio_limit)
    notices: list[Notice] = []
    if data.startswith(BOM):
        data = data[len(BOM) :]
        notices.append(Notice("byte_order_mark", 1, f"{name}: a byte-order mark was taken off"))
        if not data:
            raise _refused(name, "a byte-order mark and nothing else", "content")
    _no_nul(data, name)
    _lines_end(data, name, line_limit)
    _utf8(data, name, line_limit)
    if b"\r" in data and b"\r\n" in data:  # one byte is found ten times as fast as two
        notices.append(Notice("crlf", data.count(b"\r\n"), f"{name}: lines ended in CR LF"))
        data = data.replace(b"\r\n", b"\n")
    return Text(data, tuple(notices))


def _refused(where: str, found: str, expected: str, mend: str = "") -> Refused:
    return Refused(f"{where.split(',')[0]} can't be read", [Fault(where, found, expected, mend)])


def _regular(path: Path, name: str, inside: Path | None) -> None:
    try:
        if inside is not None and not path.resolve().is_relative_to(inside.resolve()):
            raise _refused(name, "a path or link that leads out of its folder", "a file inside it", "Copy the file in.")
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Missing(f"{name} is not there", [Fault(name, "no such file", "a file")]) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused(name, f"a path that can't be followed ({type(error).__name__})", "a file") from error
    if stat.S_ISDIR(mode):
        raise _refused(name, "a folder", "a file", "Name a file in it.")
    if not stat.S_ISREG(mode):
        raise _refused(name, "a device, pipe or socket", "a file")


def _gunzip(packed: bytes, name: str) -> Iterator[bytes]:
    """Pieces of at most 1 MiB; several members one after the other are one file, as gzip has it."""
    rest = packed
    while rest:
        unpack = zlib.decompressobj(wbits=31)
        try:
            while not unpack.eof:
                piece = unpack.decompress(rest, MIB)
                rest = unpack.unconsumed_tail
                if not piece and not rest and not unpack.eof:
                    raise _refused(name, "a gzip archive that breaks off", "a whole archive", "Copy or pack it again.")
                yield piece
        except zlib.error as error:
            found = f"bytes that are not gzip ({error})"
            raise _refused(name, found, "a gzip archive, as the name says", "Pack it again or rename it.") from error
        rest = unpack.unused_data.lstrip(b"\0")


def _unzstd(packed: bytes, name: str) -> Iterator[bytes]:
    import zstandard

    rest = packed
    while rest:
        unpack = zstandard.ZstdDecompressor(max_window_size=128 * MIB).decompressobj()
        try:
            # A block of zstd can grow thousandfold, so little goes in at a time: 4 KiB of input bounds one piece.
            at = 0
            while at < len(rest) and not unpack.eof:
                yield unpack.decompress(rest[at : at + 4096])
                at += 4096
        except zstandard.ZstdError as error:
            found = f"bytes that are not zstd ({error})"
            raise _refused(name, found, "a zstd archive, as the name says", "Pack it again or rename it.") from error
        if not unpack.eof:
            raise _refused(name, "a zstd archive that breaks off", "a whole archive", "Copy or pack it again.")
        rest = unpack.unused_data + rest[at:]


_MAGIC = {
    b"\x1f\x8b": "It is gzip: let its name end in .gz.",
    b"\x28\xb5\x2f\xfd": "It is zstd: let its name end in .zst.",
    b"PAR1": "It is Parquet: let its name end in .parquet, or give `format: parquet`.",
    b"PK": "It is a zip archive or a spreadsheet: export CSV.",
    b"\xff\xfe": "It is UTF-16: save it as UTF-8.",
    b"\xfe\xff": "It is UTF-16: save it as UTF-8.",
}


def _kind(data: bytes) -> str:
    return next((mend for magic, mend in _MAGIC.items() if data.startswith(magic)), "")


def _line_of(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


def _no_nul(data: bytes, name: str) -> None:
    at = data.find(b"\0")
    if at >= 0:
        where = f"{name}, line {_line_of(data, at)}, byte {at + 1}"
        raise _refused(where, "a NUL byte", "text", _kind(data) or "It is a binary file.")


def _lines_end(data: bytes, name: str, limit: int) -> None:
    """Looks for a line end in every window of `limit` bytes, so that the cost is that of one search from the right."""
    at = 0
    while len(data) - at > limit:
        end = data.rfind(b"\n", at, at + limit + 1)
        if end < 0:
            raise _refused(f"{name}, line {_line_of(data, at)}", f"a line of more than {limit} bytes", "shorter lines")
        at = end + 1


def _utf8(data: bytes, name: str, piece: int) -> None:
    if data.isascii():
        return
    faults: list[Fault] = []
    total, at, line, counted = 0, 0, 1, 0
    while at < len(data):
        end = len(data) if len(data) - at <= piece else data.rfind(b"\n", at, at + piece + 1) + 1
        try:
            data[at:end].decode("utf-8")
            at = end
        except UnicodeDecodeError as error:
            bad = at + error.start
            line, counted = line + data.count(b"\n", counted, bad), bad
            total += 1
            if len(faults) < SHOWN_AT_MOST:
                faults.append(
                    Fault(
                        f"{name}, line {line}, byte {bad + 1}",
                        f"the byte 0x{data[bad]:02X}, which is not UTF-8",
                        "UTF-8",
                        _kind(data) or "Save the file as UTF-8.",
                    )
                )
            newline = data.find(b"\n", bad)
            at = len(data) if newline < 0 else newline + 1
    if faults:
        raise Refused(f"{name} can't be read", faults, total=total)
