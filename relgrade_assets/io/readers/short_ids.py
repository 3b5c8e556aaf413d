"""Short ids of a Polars column as words, straight from Arrow's string views: no byte of them is moved twice.

Arrow keeps a string of up to 12 bytes inside its view: four bytes of length, then the string, zeros behind it (Arrow
columnar format, variable-size binary view layout). What else a column holds, kept_rows.column_ids reads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from relgrade_assets.methods.id_words import Bytes, Ids, joined

SHORT = 12
"""Bytes of a string that is kept inside its view."""
_VIEW = 16
_FORMAT = b"vu"
"""Arrow's name for views of UTF-8."""


class _Array(ctypes.Structure):
    """Arrow's C data interface: ArrowArray."""


class _Schema(ctypes.Structure):
    """Arrow's C data interface: ArrowSchema."""


class _Stream(ctypes.Structure):
    """Arrow's C stream interface: ArrowArrayStream."""


_Array._fields_ = [
    *[(name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")],
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]
_Schema._fields_ = [
    *[(name, ctypes.c_char_p) for name in ("format", "name", "metadata")],
    *[(name, ctypes.c_int64) for name in ("flags", "n_children")],
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def short_ids(column: pl.Series) -> Ids | None:
    """The ids of a String column; None unless each has 1 to SHORT bytes of printable ASCII, no blank in it, and does
    not begin with #."""
    if column.null_count() or not len(column):
        return None
    parts = []
    for views in _views(column):
        part = _ids(views)
        if part is None:
            return None
        parts.append(part)
    return joined(parts) if len(parts) > 1 else parts[0] if parts else None


def _ids(views: Bytes) -> Ids | None:
    """The ids of some views, in one word where none is longer than eight bytes."""
    n = len(views) // _VIEW

    def each(kind: str, at: int) -> npt.NDArray[Any]:
        return np.ndarray(n, dtype=kind, buffer=views, offset=at, strides=(_VIEW,))

    length = each("<u4", 0)
    longest = int(length.max())
    if longest > SHORT or not length.all():
        return None
    words = [each("<u8", 4).copy(), *[each("<u4", 12).astype("<u8")] * (longest > 8)]
    # Zeros behind an id and what is not 33 to 126 look alike here: as many as are due, and all are zeros behind.
    odd = sum(np.count_nonzero((word.view(np.uint8) - np.uint8(33)) > 93) for word in words)
    if odd != 8 * n * len(words) - int(length.sum(dtype=np.int64)) or (words[0].astype(np.uint8) == ord("#")).any():
        return None
    return Ids(tuple(words))


@contextmanager
def _released(struct: Any) -> Iterator[Any]:
    """What was exported, until it is given back."""
    try:
        yield struct
    finally:
        if struct.release:
            struct.release(ctypes.byref(struct))


def _views(column: pl.Series) -> Iterator[Bytes]:
    """The views of each chunk of the column, _VIEW bytes each, good until the next is asked for."""
    capsule = column.__arrow_c_stream__()
    stream = _Stream.from_address(_pointer_of(capsule, b"arrow_array_stream"))
    with _released(_Schema()) as schema:
        if stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)) or schema.format != _FORMAT:
            return
    while True:
        with _released(_Array()) as array:
            if stream.get_next(ctypes.byref(stream), ctypes.byref(array)) or not array.release:
                return
            if array.length:
                start = array.buffers[1] + _VIEW * array.offset
                block = (ctypes.c_uint8 * (_VIEW * array.length)).from_address(start)
                yield np.frombuffer(block, dtype=np.uint8)
