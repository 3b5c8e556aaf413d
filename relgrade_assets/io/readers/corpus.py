"""The corpus: every chunk that can be retrieved, from one file or from a folder of them.

Digests of chunks and what runs make of them are elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused
from relgrade_assets.io.readers import Read
from relgrade_assets.io.readers.faults import shown
from relgrade_assets.io.readers.ids import odd_id_notice, only_nfc_equal
from relgrade_assets.io.readers.records import ENDINGS, Column, collect_records, format_of
from relgrade_assets.io.text import Missing

LISTED = 5


def read_corpus(
    path: Path,
    *,
    name: str,
    format: Literal["jsonl", "csv", "parquet"] | None = None,
    chunk_id: str = "chunk_id",
    header: str | None = "header",
    text: str = "text",
    inside: Path | None = None,
) -> Read:
    """The chunks as chunk_id, header, text (String, none null), sorted by chunk_id.

    In a folder every file that ends in .jsonl, .ndjson, .csv or .parquet is read (the first three also packed), in
    the order of their names; folders in it, hidden files and files of other formats are passed over. A chunk without
    a header has an empty one.

    Raises Refused for ids that stand twice, are empty or blank, for chunks whose text is null, for links that lead
    out of the folder; Missing where there is nothing. Notices: those of `text`, files_passed_over, headers_absent,
    empty_texts, equal_texts, odd_ids, nfc_equal_ids.
    """
    files, notices = _files(path, name, format, inside)
    wanted = {
        "chunk_id": Column(chunk_id, "id"),
        "text": Column(text, "text"),
        **({"header": Column(header, "text", filled=False)} if header is not None else {}),
    }
    frames: list[pl.DataFrame] = []
    units: list[str] = []
    refused: list[Refused] = []
    for i, (file, file_name, within) in enumerate(files):
        try:
            read = collect_records(
                file, name=file_name, format=format_of(file_name, format), columns=wanted, inside=within
            )
            read.faults.refuse()
        except Refused as error:
            refused.append(error)
            continue
        notices += read.notices
        units.append(read.faults.unit)
        frames.append(read.frame.with_columns(file=pl.lit(i, pl.Int32)))
    if len(refused) == 1:
        raise refused[0]
    if refused:
        faults = [fault for error in refused for fault in error.faults]
        raise Refused(f"{name} can't be used", faults, total=sum(error.total for error in refused))
    frame = pl.concat(frames)
    if header is None:
        frame = frame.with_columns(header=pl.lit("", pl.String))
    _no_id_twice(frame, name, [f for _, f, _ in files], units)
    notices += _counted(frame, name)
    notices += odd_id_notice(frame["chunk_id"], name) + only_nfc_equal(frame["chunk_id"], name)
    out = frame.select("chunk_id", pl.col("header").fill_null(""), "text").sort("chunk_id")
    return Read(out, tuple(notices))


def _files(
    path: Path, name: str, format: str | None, inside: Path | None
) -> tuple[list[tuple[Path, str, Path | None]], list[Notice]]:
    """Files to read, each with its name in messages and the folder that it may not lead out of."""
    if not path.is_dir():
        if not path.exists() and not path.is_symlink():
            raise Missing(f"{name} is not there", [Fault(name, "no such file or folder", "a corpus")])
        return [(path, name, inside)], []
    if inside is not None and not path.resolve().is_relative_to(inside.resolve()):
        raise Refused(
            f"{name} can't be read",
            [Fault(name, "a link that leads out of its folder", "a folder inside it", "Copy it in.")],
        )
    try:
        there = sorted(path.iterdir(), key=lambda p: p.name)
    except OSError as error:
        found = f"a folder that can't be read ({error.strerror})"
        raise Refused(f"{name} can't be read", [Fault(name, found, "a folder this user may read")]) from error
    chosen: list[tuple[Path, str, Path | None]] = []
    for file in there:
        ending = ENDINGS.get(Path(re.sub(r"\.(gz|zst)$", "", file.name, flags=re.IGNORECASE)).suffix.lower())
        packed_parquet = ending == "parquet" and not file.name.lower().endswith(".parquet")
        wanted = ending and not packed_parquet and (format is None or ending == format)
        if wanted and not file.name.startswith(".") and not file.is_dir():
            chosen.append((file, f"{name.rstrip('/')}/{file.name}", path))
    if not chosen:
        expected = f"files ending in {', '.join(ENDINGS)}"
        raise Missing(f"{name} holds no corpus yet", [Fault(name, f"{len(there)} other files", expected)])
    passed = len(there) - len(chosen)
    text = f"{name}: files and folders that are no part of the corpus were passed over"
    return chosen, [Notice("files_passed_over", passed, text)] if passed else []


def _no_id_twice(frame: pl.DataFrame, name: str, files: list[str], units: list[str]) -> None:
    if frame["chunk_id"].n_unique() == frame.height:
        return
    ordered = frame.filter(pl.col("chunk_id").is_duplicated()).select("chunk_id", "file", "line").sort("file", "line")
    first = ordered.unique("chunk_id", keep="first", maintain_order=True)
    again = ordered.join(first, on=["chunk_id", "file", "line"], how="anti", maintain_order="left").join(
        first, on="chunk_id", suffix="_first", maintain_order="left"
    )

    def place(file: int, line: int) -> str:
        return f"{files[file]}, {units[file]} {line}"

    faults = [
        Fault(
            place(r["file"], r["line"]),
            f"the chunk id {shown(r['chunk_id'])} again (first at {place(r['file_first'], r['line_first'])})",
            "each chunk id once",
        )
        for r in again.head(20).iter_rows(named=True)
    ]
    raise Refused(f"{name} can't be used", faults, total=again.height)


def _counted(frame: pl.DataFrame, name: str) -> list[Notice]:
    notices: list[Notice] = []
    headless = frame["header"].null_count()
    if headless:
        notices.append(Notice("headers_absent", headless, f"{name}: chunks have no header; it was taken as empty"))
    empty = pl.col("text").str.strip_chars() == ""
    hollow = frame.filter(empty).select("chunk_id").sort("chunk_id")["chunk_id"]
    if hollow.len():
        notices.append(Notice("empty_texts", hollow.len(), f"{name}: chunks have an empty text: {_some(hollow)}"))
    equal = frame.filter(~empty).filter(pl.col("text").is_duplicated())
    if equal.height:
        groups = equal.group_by("text").agg(pl.col("chunk_id").sort())
        groups = groups.with_columns(first=pl.col("chunk_id").list.first()).sort("first")
        such = "; ".join(" = ".join(shown(i) for i in ids[:LISTED]) for ids in groups["chunk_id"].head(3).to_list())
        text = f"{name}: chunks share their text with another, such as {such}; each is graded on its own"
        notices.append(Notice("equal_texts", equal.height, text))
    return notices


def _some(ids: pl.Series) -> str:
    more = f" and {ids.len() - LISTED} more" if ids.len() > LISTED else ""
    return ", ".join(shown(i) for i in ids.head(LISTED)) + more
