"""How a typed query becomes the text under which it is counted (P7).

Only the text rule belongs here; counting and ids are `queries.py`'s. Polars' string functions are used because their
Unicode version comes with the pinned package, where `unicodedata` changes with the interpreter.
"""

from __future__ import annotations

import polars as pl


def normalised(column: pl.Expr) -> pl.Expr:
    """P7: NFKC, lower case, trimmed, inner blanks collapsed to one space. Null stays null; applying it twice changes
    nothing.

    NFKC runs again after lower-casing because a lower-cased letter can be a composable pair (U+0130 gives i and a dot).
    """
    text = column.str.normalize("NFKC").str.to_lowercase().str.normalize("NFKC")
    return text.str.replace_all(r"\s+", " ").str.strip_chars(" ")
