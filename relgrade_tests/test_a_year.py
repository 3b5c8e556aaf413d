"""The year of a_year.py through the graph: files change, the tables that hang on them are made, the due triggers open
rounds, people grade, keys are frozen (P43, P44). The same year by pure functions is test_staleness.py's.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import tiny
from a_year import DUE, JUDGED, SAVED, truth, year
from driving import run, standing_files
from tiny import grade_all, review_all, study_of

from relgrade_assets.automation.jobs import REPOOLED
from relgrade_assets.io.history import side_by_side
from relgrade_assets.io.refreshing import changed_under_key
from relgrade_assets.io.rounds import open_refresh
from relgrade_assets.methods.staleness import due, rerate_of


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
        assert due(frame) == DUE.get(month, []), (month, frame.select("trigger", "state", "evidence").rows())
        assert standing_files(top / ".relgrade" / "keys") == keys
        if not due(frame):
            continue
        percent, affected = rerate_of(frame)
        number = open_refresh(
            study_of(top), cause=", ".join(due(frame)), by="", rerate=percent, affected_alone=affected
        )
        run(top)
        for who in ("ann", "bob"):
            grade_all(top, who, by=truth)
        told = run(top)
        assert told.ok and study_of(top).keys.exists(tiny.NAME, number), (month, told.text)
        grades = study_of(top).load("grades")
        judged += grades.filter(pl.col("from_round") == number).height
        saved += grades.filter(pl.col("from_round") < number).height
        by_round = {
            n: study_of(top).ledger.answers(tiny.NAME, n, ["ann"]).select("query_id", "chunk_id", "grade", "row_digest")
            for n in range(1, number)
        }
        for n, part in grades.filter(pl.col("from_round") < number).group_by("from_round"):
            of = by_round[int(str(n[0]))]
            assert part.join(of, on=["query_id", "chunk_id", "grade"], how="semi").height == part.height
        assert keys.items() <= standing_files(top / ".relgrade" / "keys").items()
    print(f"a year through the graph: {judged} pairs judged, {saved} saved by carry-over")
    assert (judged, saved) == (JUDGED, SAVED)
    beside = side_by_side(study_of(top))
    assert beside.height == 1 + len(DUE) and set(beside["gates"]) == {"passed"}
    assert beside["standing"].to_list() == ["superseded"] * len(DUE) + ["valid"]
