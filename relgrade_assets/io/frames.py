"""Tables on disk: one Parquet file each, with its content digest and the digests of what it was made from inside (P2).

Content digests cover columns, types and values, not Parquet's bytes: another version of Polars writes other bytes for
the same table.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.atomic import write_bytes
from relgrade_assets.io.parquet import BROKEN, read_parquet, unspoken
from relgrade_assets.protocol.canonical import digest, digest_bytes

_META = "relgrade"


@dataclass(frozen=True, slots=True)
class Label:
    """What a stored table says of itself: its name, round (None where it has none), protocol, inputs and content
    digest.
    """

    table: str
    round: int | None
    protocol: str
    inputs: dict[str, str]
    digest: str
    polars: str = pl.__version__
    """The Polars that wrote the file: another may write other bytes for the same rows."""

    def dumps(self) -> str:
        """As the text kept inside the file, with a digest of its own, so that no part of it changes unseen."""
        said = {
            "table": self.table,
            "round": self.round,
            "protocol": self.protocol,
            "inputs": self.inputs,
            "digest": self.digest,
            "polars": self.polars,
        }
        return json.dumps({**said, "seal": digest(said)}, sort_keys=True)


def content_digest(frame: pl.DataFrame) -> str:
    """Hex sha256 over column names, types and values in order; the same on every machine and version of Polars."""
    total = hashlib.sha256()
    for name in frame.columns:
        total.update(f"{name}\0{frame.schema[name]}\0{frame.height}\0".encode())
        _update(total, frame[name])
    return total.hexdigest()


def _update(total: hashlib._Hash, column: pl.Series) -> None:
    nulls = column.null_count()
    total.update(np.packbits(column.is_null().to_numpy()).tobytes() if nulls else bytes(-(-len(column) // 8)))
    kind = column.dtype
    if isinstance(kind, pl.List):
        total.update(column.list.len().fill_null(0).cast(pl.Int64).to_numpy().astype("<i8").tobytes())
        _update(total, column.list.explode().drop_nulls())
    elif kind == pl.String:
        filled = column.fill_null("") if nulls else column
        total.update(filled.str.len_bytes().to_numpy().astype("<i8").tobytes())
        total.update("".join(filled.to_list()).encode())
    elif kind.is_float():
        filled = column.fill_null(0.0) if nulls else column
        total.update((filled.to_numpy().astype("<f8") + 0.0).tobytes())
    elif kind.is_integer() or kind == pl.Boolean:
        numbers = column.cast(pl.Int64)
        total.update((numbers.fill_null(0) if nulls else numbers).to_numpy().astype("<i8").tobytes())
    else:
        raise TypeError(f"no digest is defined for a column of type {kind}")


def write_table(path: Path, frame: pl.DataFrame, label: Label) -> int:
    """Write `frame` with its label, whole or not at all. Returns the file's size in bytes."""
    data = table_bytes(frame, label)
    write_bytes(path, data)
    return len(data)


def table_bytes(frame: pl.DataFrame, label: Label) -> bytes:
    """`frame` with its label as Parquet: the same bytes for the same rows by the same Polars."""
    buffer = io.BytesIO()
    frame.rechunk().write_parquet(buffer, compression="zstd", metadata={_META: label.dumps()})
    return buffer.getvalue()


def read_label(path: Path) -> Label | None:
    """The label of a stored table; None where there is no file. An unreadable file is Refused."""
    if not path.is_file():
        return None
    try:
        with unspoken(path.name):
            text = pl.read_parquet_metadata(path)[_META]
        raw = json.loads(text)
        label = Label(raw["table"], raw["round"], raw["protocol"], dict(raw["inputs"]), raw["digest"], raw["polars"])
        if label.dumps() != text:
            raise ValueError("a label that was changed")
        return label
    except (*BROKEN, KeyError, ValueError, TypeError) as error:
        raise _unreadable(path, type(error).__name__) from error


def read_table(path: Path) -> pl.DataFrame:
    """The rows of a stored table, proved to be those that were written. A changed or broken file is Refused."""
    label = read_label(path)
    if label is None:
        raise Refused(f"The table {path.name} has not been made", untouched="Nothing was changed.")
    try:
        frame = read_parquet(path)
        found = content_digest(frame)
    except (*BROKEN, TypeError) as error:
        raise _unreadable(path, type(error).__name__) from error
    if found != label.digest:
        raise Refused(
            f"The stored table {path.name} was changed after it was written",
            [
                Fault(
                    path.name,
                    f"content digest {found[:12]}",
                    f"{label.digest[:12]}, as written",
                    "Materialise it again.",
                )
            ],
        )
    return frame


def _unreadable(path: Path, why: str) -> Refused:
    return Refused(
        f"The stored table {path.name} can't be read",
        [
            Fault(
                path.name,
                f"a file that is no table of relgrade's ({why})",
                "a Parquet file with relgrade's label",
                "Remove it and materialise again.",
            )
        ],
    )


def bytes_fault(path: Path, frame: pl.DataFrame, label: Label) -> Fault | None:
    """A stored table, read already, whose file is not, to the byte, what Polars writes for its rows and label; None
    where it is. Of a file that another release of Polars wrote only rows and label can be held to their digests.
    """
    found = path.read_bytes()
    if label.polars != pl.__version__ or (made := table_bytes(frame, label)) == found:
        return None
    return Fault(path.name, f"sha256 {digest_bytes(found)}", f"{digest_bytes(made)}, what its rows are written as")
