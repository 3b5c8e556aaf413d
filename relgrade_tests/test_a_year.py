"""The year of a_year.py through the graph: files change, the tables that hang on them are made, the due triggers open
rounds, people grade, keys are frozen (P43, P44). The same year by pure functions is test_staleness.py's.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import tiny
from a_year import JUDGED, REFRESHES, SAVED, actions, truth, year
from driving import run, standing_files
from tiny import grade_all, review_all, study_of

from relgrade_assets.automation.jobs import REPOOLED
from relgrade_assets.io.history import side_by_side
from relgrade_assets.io.refreshing import changed_under_key
from relgrade_assets.io.rounds import open_refresh
from relgrade_assets.io.study import Study
from relgrade_assets.methods import sheets
from relgrade_assets.methods.carry_over import PAIR
from relgrade_assets.methods.staleness import rerate_of


def rows_as_they_read(study: Study) -> pl.DataFrame:
    """Every pooled pair, with the digest of all that a grader would see of it now."""
    rubric = sheets.rubric_digest(study.rubric)
    tables = [study.load(t) for t in ("pools", "intents", "query_sample")]
    found = sheets.contents(*tables, study.corpus, round=study.round)
    rows = found.select("query", "intent", "header", "text").rows()
    return found.select(*PAIR, row_digest=pl.Series([sheets.row_digest(*r, rubric) for r in rows]))


@pytest.mark.full
def test_a_year_of_changes_through_the_graph(tmp_path: Path) -> None:
    """P43, P44: the right actions in the right months; every carried grade is an answer to the very row as it reads;
    what is asked for and saved is what the pure functions say; every earlier key stands to the byte.
    """
    top = tmp_path
    months = year()
    tiny.write_experiment(top)
    months[0].write(study_of(top).folder)
    run(top, "queries", "query_sample")
    review_all(top)
    run(top)
    for who in ("ann", "bob"):
        grade_all(top, who, by=truth)
    assert run(top).ok
    judged = saved = 0
    for month, world in enumerate(months[1:], start=1):
        keys = standing_files(top / ".relgrade" / "keys")
        world.write(study_of(top).folder)
        change = changed_under_key(study_of(top), REPOOLED)
        assert change is not None and run(top, *change.tables).ok
        frame = study_of(top).load("staleness")
        wanted = REFRESHES.get(month)
        assert actions(frame) == (wanted.actions if wanted else {}), (month, frame.select("trigger", "evidence").rows())
        assert standing_files(top / ".relgrade" / "keys") == keys
        if wanted is None:
            continue
        percent, affected = rerate_of(frame)
        assert percent == wanted.rerate
        number = open_refresh(
            study_of(top), cause=", ".join(wanted.actions), by="", rerate=percent, affected_alone=affected
        )
        run(top)
        for who in ("ann", "bob"):
            grade_all(top, who, by=truth)
        told = run(top)
        assert told.ok and study_of(top).keys.exists(tiny.NAME, number), (month, told.text)
        grades = study_of(top).load("grades")
        carried = grades.filter(pl.col("from_round") < number)
        assert (grades.height - carried.height, carried.height) == (wanted.judged, wanted.saved), month
        judged, saved = judged + wanted.judged, saved + wanted.saved
        present = rows_as_they_read(study_of(top))
        for (n,), part in carried.group_by("from_round"):
            given = study_of(top).ledger.answers(tiny.NAME, int(str(n)), ["ann"])
            same = part.join(present, on=PAIR).join(given, on=[*PAIR, "grade", "row_digest"], how="semi")
            assert same.height == part.height, "an answer to the very row as it reads now"
        told = json.loads((top / ".relgrade" / "published" / tiny.NAME / "manifest.json").read_text())
        assert sum(told["exceptions"]["carried"].values()) == wanted.saved
        assert keys.items() <= standing_files(top / ".relgrade" / "keys").items()
    print(f"a year through the graph: {judged} pairs judged, {saved} saved by carry-over")
    assert (judged, saved) == (JUDGED, SAVED)
    beside = side_by_side(study_of(top))
    assert beside.height == 1 + len(REFRESHES) and set(beside["gates"]) == {"passed"}
    assert beside["standing"].to_list() == ["superseded"] * len(REFRESHES) + ["valid"]
