"""What of a study is private (P41), as strings, and the refusal of words that would repeat it where they are published.

Looking for the strings in files is leaks.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from relgrade_assets.errors import Refused
from relgrade_assets.io.frames import read_table
from relgrade_assets.io.leaks import leak_check
from relgrade_assets.io.study import Study


def private_strings(study: Study, tables: dict[str, pl.DataFrame]) -> Iterator[str]:
    """All that must not leave where the experiment is private: queries, intents, texts and headers of pooled chunks,
    reasons, graders' names.
    """
    yield from tables["query_sample"]["query"]
    yield from tables["intents"]["intent"]
    for table in ("grades", "audit_grades"):
        yield from tables[table]["reason"].drop_nulls()
    pooled = study.corpus.join(tables["contributions"], on="chunk_id", how="semi")
    yield from pooled["text"]
    yield from pooled["header"]


def refuse_private(study: Study, texts: Mapping[str, str]) -> None:
    """Refused where a text that the event log will hold, and so every publication, repeats something private (P41).

    `texts`: what it is for, and the text. Looks at the tables that there are.
    """
    if not study.design.private:
        return
    kept = ("query_sample", "intents", "grades", "audit_grades", "contributions")
    there = {t: read_table(study.path(t)) for t in kept if study.path(t).is_file()}
    empty = {"query_sample": ["query"], "intents": ["intent"], "grades": ["reason"], "audit_grades": ["reason"]}
    blank = {t: pl.DataFrame(schema=dict.fromkeys(columns, pl.String)) for t, columns in empty.items()}
    none = {"contributions": pl.DataFrame(schema={"chunk_id": pl.String})}
    faults = leak_check(
        {name: text.encode() for name, text in texts.items()},
        sorted(set(private_strings(study, {**blank, **none, **there}))),
    )
    if faults:
        raise Refused("Private text would enter the event log, which is published", faults)
