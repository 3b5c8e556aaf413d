"""Keeping a round's report: both versions as files in the state folder, their digests as the table `report`, and the
proof that what is shown is what was made and what leaves holds no private text (P41).

What is on the page is page.py's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import polars as pl

from relgrade_assets.errors import Fault, NotThere, Refused, Waiting
from relgrade_assets.io.atomic import write_bytes
from relgrade_assets.io.frames import read_table
from relgrade_assets.io.leaks import leak_check
from relgrade_assets.io.report import page
from relgrade_assets.io.report.banner import with_standing
from relgrade_assets.io.report.findings import findings_of, words_of
from relgrade_assets.io.standing import standing_of
from relgrade_assets.io.study import Study
from relgrade_assets.protocol.canonical import digest_bytes

Version = Literal["private", "public"]
VERSIONS: tuple[Version, ...] = ("private", "public")


def make_reports(study: Study, tables: Mapping[str, pl.DataFrame], private_strings: Iterable[str]) -> pl.DataFrame:
    """Write both versions of the present round's report. Returns the Report table.

    Refused where the study is private and a private string would stand in the public version; the reports that were
    there then stand.
    """
    public = findings_of(study, tables, public=True)
    pages: dict[Version, bytes] = {
        "private": page.render(findings_of(study, tables, public=False), words_of(tables)),
        "public": page.render(public),
    }
    if study.design.private:
        # The page is the program's own words, which a query may happen to repeat, and these findings. They are checked.
        held = {"report.html": json.dumps(public.plain(), ensure_ascii=False).encode()}
        faults = leak_check(held, sorted(set(private_strings)))
        if faults:
            raise Refused("Private text would stand in the public report", faults, untouched="No report was written.")
    rows = []
    for version, data in pages.items():
        write_bytes(report_path(study, version), data)
        rows.append((version, len(data), digest_bytes(data)))
    return pl.DataFrame(rows, schema={"version": pl.String, "bytes": pl.Int64, "sha256": pl.String}, orient="row")


def report_path(study: Study, version: Version, round_: int | None = None) -> Path:
    """Where a round's report is kept."""
    folder = study.home.state / "reports" / study.name / f"round-{round_ or study.round}"
    return folder / f"{version}.html"


def stored_report(study: Study, version: Version, round_: int | None = None) -> bytes:
    """A round's report as it was made, with the banner of how its key stands now (P33, P35).

    Raises NotThere where the round has no report, Refused where its file is not the one that was made.
    """
    number = round_ or study.round
    table = study.path("report", number)
    if not table.is_file():
        raise NotThere(Waiting(f"there is no report of round {number} before its measures"))
    sha = dict(read_table(table).select("version", "sha256").iter_rows())[version]
    path = report_path(study, version, number)
    data = path.read_bytes() if path.is_file() else b""
    if digest_bytes(data) != sha:
        found = "another file than was made" if data else "no such file"
        mend = f"`relgrade run {study.name}` makes it again once `report` is materialised."
        raise Refused(f"The report of round {number} can't be shown", [Fault(path.name, found, sha[:12], mend)])
    return with_standing(data, standing_of(study.log, number))
