"""Ids: what no id may hold, and ids that only look equal. None is ever changed or merged."""

from __future__ import annotations

import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.io.readers.faults import Faults, shown

ODD = r"^#|[\p{Cc}[\p{Z}&&[^ ]]]"
"""Begins with #, or holds a control character or a Unicode blank other than the ASCII one."""
ODD_WORDS = "an id without control characters or Unicode blanks, that does not begin with #"


def odd(column: str) -> pl.Expr:
    """Whether an id can't be written to TREC files unambiguously."""
    return pl.col(column).str.contains(ODD)


def odd_id_faults(frame: pl.DataFrame, columns: tuple[str, ...], faults: Faults) -> None:
    """Adds a fault for each odd id of `columns`; `frame` also has `line`."""
    for column in columns:
        mend = "Rename it where it comes from; a TREC file can't hold it."
        bad = frame.filter(odd(column)).select("line", pl.col(column).alias("id"))
        faults.rows(bad, lambda r: f"the id {shown(r['id'])}", ODD_WORDS, mend, column=column)


def odd_id_notice(ids: pl.Series, name: str) -> list[Notice]:
    """Counts odd ids where they are accepted."""
    found = ids.filter(ids.str.contains(ODD)).unique().sort()
    if not found.len():
        return []
    such = shown(found[0])
    text = f"{name}: ids in {ids.name} hold control characters or Unicode blanks or begin with #, such as {such}"
    return [Notice("odd_ids", found.len(), f"{text}; runs and qrels.txt can't hold them")]


def only_nfc_equal(ids: pl.Series, name: str) -> list[Notice]:
    """Counts ids that are equal to another only after Unicode's NFC."""
    if ids.str.len_bytes().sum() == ids.str.len_chars().sum():
        return []
    distinct = ids.unique().drop_nulls().alias("id").to_frame()
    forms = distinct.with_columns(nfc=pl.col("id").str.normalize("NFC"))
    changed = forms.filter(pl.col("id") != pl.col("nfc"))
    alike = forms.filter(pl.col("nfc").is_in(changed["nfc"].implode())).filter(pl.len().over("nfc") > 1).sort("id")
    if not alike.height:
        return []
    shown_ids = ", ".join(ascii(i) for i in alike["id"].head(4))
    text = f"{name}: ids in {ids.name} are equal only after NFC, such as {shown_ids}; they stay apart"
    return [Notice("nfc_equal_ids", alike.height, text)]
