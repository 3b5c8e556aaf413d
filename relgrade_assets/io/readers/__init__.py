"""Readers: a file in, a plain Polars frame and counted oddities out, or a refusal that lists every fault (P15).

Each takes plain values, never the design, and reads nothing but the file named. What tables mean together is for
`methods/`; nothing is written here. No schemas, pandera, pydantic or Dagster: the fast path imports these modules.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from relgrade_assets.errors import Notice


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader made of a file: its rows, and the oddities that were accepted and counted."""

    frame: pl.DataFrame
    notices: tuple[Notice, ...]


__all__ = ["Read"]
