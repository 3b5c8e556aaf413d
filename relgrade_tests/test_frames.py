"""Tables on disk: content digests that stay, labels, and files that are whole or refused (P2)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io.frames import Label, content_digest, read_label, read_table, write_table

MIXED = pl.DataFrame(
    {
        "text": ["", None, "a", "ß\u0301 \U0001f600", "line\nbreak"],
        "whole": [0, None, -(2**62), 7, 2**62],
        "share": [0.0, None, 1 / 3, 1e-300, -2.5],
        "flag": [True, None, False, True, False],
        "rows": [[1], None, [], [2, 3], [-(2**40)]],
    },
    schema={
        "text": pl.String, "whole": pl.Int64, "share": pl.Float64, "flag": pl.Boolean, "rows": pl.List(pl.Int64)
    },
)  # fmt: skip
LABEL = Label("pools", 1, "p" * 64, {"corpus": "c" * 64, "contributions": "d" * 64}, content_digest(MIXED))

GOLDEN = {
    "mixed": (MIXED, "356b3885cfc6be978bfb278e2c630d07f198189e16f706120982770dd22a4109"),
    "empty": (MIXED.clear(), "040a4aa6cf86395cdc7e9aa2232bc34de17c32934e9533500605eca79295df78"),
    "no_columns": (pl.DataFrame(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
}
"""Digests that any machine, Python and Polars must give; a change of one orphans every stored table."""


@pytest.mark.parametrize("name", GOLDEN)
def test_content_digests_are_what_they_were(name: str) -> None:
    frame, digest = GOLDEN[name]
    assert content_digest(frame) == digest


def same_schema(values: dict[str, list[Any]]) -> pl.DataFrame:
    return pl.DataFrame(values, schema={k: MIXED.schema[k] for k in values})


DIFFERENT = {
    "null_and_empty_text": (same_schema({"text": [""]}), same_schema({"text": [None]})),
    "null_and_zero": (same_schema({"whole": [0]}), same_schema({"whole": [None]})),
    "null_and_zero_share": (same_schema({"share": [0.0]}), same_schema({"share": [None]})),
    "null_and_false": (same_schema({"flag": [False]}), same_schema({"flag": [None]})),
    "null_and_empty_list": (same_schema({"rows": [[]]}), same_schema({"rows": [None]})),
    "rows_in_another_order": (same_schema({"whole": [1, 2]}), same_schema({"whole": [2, 1]})),
    "texts_cut_elsewhere": (same_schema({"text": ["ab", "c"]}), same_schema({"text": ["a", "bc"]})),
    "lists_cut_elsewhere": (same_schema({"rows": [[1, 2], [3]]}), same_schema({"rows": [[1], [2, 3]]})),
    "columns_in_another_order": (MIXED.select("text", "whole"), MIXED.select("whole", "text")),
    "another_name": (MIXED.select("whole"), MIXED.select(count="whole")),
    "another_type": (MIXED.select("flag"), MIXED.select(pl.col("flag").cast(pl.Int64))),
    "whole_and_float": (pl.DataFrame({"n": [1]}), pl.DataFrame({"n": [1.0]})),
    "last_bit": (pl.DataFrame({"n": [0.1 + 0.2]}), pl.DataFrame({"n": [0.3]})),
    "one_row_more": (same_schema({"text": ["", ""]}), same_schema({"text": [""]})),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_tables_that_differ_have_other_digests(what: str) -> None:
    one, other = DIFFERENT[what]
    assert content_digest(one) != content_digest(other)


def test_tables_that_say_the_same_have_one_digest() -> None:
    """Chunking, sliced buffers and the sign of zero are no content."""
    parts = pl.concat([MIXED.slice(0, 2), MIXED.slice(2)], rechunk=False)
    assert parts.n_chunks() == 2
    assert content_digest(parts) == content_digest(MIXED)
    assert content_digest(MIXED.slice(1, 2)) == content_digest(MIXED.head(3).tail(2))
    assert content_digest(pl.DataFrame({"n": [0.0]})) == content_digest(pl.DataFrame({"n": [-0.0]}))


def test_a_column_type_without_a_digest_is_an_error() -> None:
    with pytest.raises(TypeError, match="Date"):
        content_digest(pl.DataFrame({"day": [None]}, schema={"day": pl.Date}))


rows = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(max_size=4),
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "share": st.none() | st.floats(allow_nan=False),
        "flag": st.none() | st.booleans(),
        "rows": st.none() | st.lists(st.integers(-3, 3), max_size=3),
    }
)


def as_frame(records: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(records, schema=MIXED.schema, orient="row")


@settings(max_examples=150)
@given(st.lists(rows, min_size=1, max_size=5), st.data())
def test_any_changed_cell_changes_the_digest(records: list[dict[str, Any]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(records) - 1))
    column = data.draw(st.sampled_from(MIXED.columns))
    other = data.draw(rows)[column]
    assume(other != records[at][column] and repr(other) != repr(records[at][column]))
    changed = [{**r, column: other} if i == at else r for i, r in enumerate(records)]
    assert content_digest(as_frame(changed)) != content_digest(as_frame(records))


@settings(max_examples=60)
@given(st.lists(rows, max_size=5))
def test_a_digest_survives_the_disk(records: list[dict[str, Any]]) -> None:
    frame = as_frame(records)
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    buffer.seek(0)
    assert content_digest(pl.read_parquet(buffer)) == content_digest(frame)


def test_a_table_comes_back_with_its_label(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "pools.parquet"
    size = write_table(path, MIXED, LABEL)
    assert size == path.stat().st_size
    assert read_label(path) == LABEL
    assert read_table(path).equals(MIXED)
    assert json.loads(LABEL.dumps())["inputs"] == LABEL.inputs
    assert read_label(tmp_path / "none.parquet") is None
    with pytest.raises(Refused, match=r"The table none.parquet has not been made"):
        read_table(tmp_path / "none.parquet")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"PAR1",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-4] + b"XXXX",
    ],
    ids=["empty", "magic_alone", "half", "broken_end"],
)
def test_a_broken_file_is_refused_with_what_to_do(spoil: Any, tmp_path: Path) -> None:
    path = tmp_path / "pools.parquet"
    write_table(path, MIXED, LABEL)
    path.write_bytes(spoil(path.read_bytes()))
    for read in (read_label, read_table):
        with pytest.raises(Refused, match=r"pools\.parquet can't be read") as refused:
            read(path)
        assert "Remove it and materialise again" in refused.value.message()


def test_a_byte_changed_inside_is_refused(tmp_path: Path) -> None:
    """Whichever data byte is flipped, the rows are never silently others."""
    path = tmp_path / "pools.parquet"
    write_table(path, MIXED, LABEL)
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), 9):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
        try:
            assert content_digest(read_table(path)) == LABEL.digest
        except Refused:
            refused += 1
    assert refused > len(whole) / 9 / 4


def test_a_table_of_another_tool_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pools.parquet"
    MIXED.write_parquet(path)
    with pytest.raises(Refused, match="no table of relgrade's"):
        read_label(path)
    MIXED.write_parquet(path, metadata={"relgrade": json.dumps({"table": "pools"})})
    with pytest.raises(Refused, match="no table of relgrade's"):
        read_label(path)


def test_an_edited_table_is_refused_with_both_digests(tmp_path: Path) -> None:
    """P2."""
    path = tmp_path / "pools.parquet"
    write_table(path, MIXED, LABEL)
    edited = MIXED.with_columns(whole=pl.lit(2))
    edited.write_parquet(path, metadata={"relgrade": LABEL.dumps()})
    with pytest.raises(Refused) as refused:
        read_table(path)
    assert f"content digest {content_digest(edited)[:12]}; expected {LABEL.digest[:12]}" in refused.value.message()
