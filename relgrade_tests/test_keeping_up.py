"""Keeping a key up by itself (P43): what each sensor and the schedule ask for when files change under a frozen key, and
what they leave alone; the round that is opened where the design says so.

The full count does the same to a running `dagster dev`: a file is changed and runs appear.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import command_line
import dagster as dg
import pytest
import tiny
from driving import config, copy, instance_for, job, run
from tiny import grade_all, review_all, study_of

from relgrade_assets.automation.asking import REASON, run_keys
from relgrade_assets.automation.jobs import REPOOLED
from relgrade_assets.automation.refresh import inputs_under_key, monthly_staleness, open_refresh, stale_keys
from relgrade_assets.definitions import defs
from relgrade_assets.io.progress import steps
from relgrade_assets.io.rounds import open_refresh as open_next
from relgrade_assets.resources.studies import Studies
from relgrade_assets.schemas import TABLES

INDEXED = "run: runs/new.trec, index: {mapping: m1, analyser: a1, embedding: e1}}"
DESIGN = tiny.DESIGN.replace("run: runs/new.trec}", INDEXED).replace(
    "deviations:\n",
    "audit: {at_least: 3}\ndeviations:\n  - {code: small_audit, reason: small enough to know by heart}\n",
)
FROM_POOLS = ("runs", "contributions", "pools", "staleness")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a key, at whose staleness was looked once."""
    top = tmp_path_factory.mktemp("kept")
    tiny.write_experiment(top, design=DESIGN)
    run(top, "queries", "query_sample")
    review_all(top)
    assert run(top).ok
    grade_all(top, "ann")
    grade_all(top, "bob")
    assert run(top).ok
    return top


@pytest.fixture(scope="module")
def looked_at(frozen: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = copy(frozen, tmp_path_factory.mktemp("looked-at"))
    assert run(top, "staleness").ok
    return top


def test_status_knows_every_table_once_somebody_looked(frozen: Path, looked_at: Path) -> None:
    assert [s.table for s in steps(study_of(frozen))] == [t for t in TABLES if t != "staleness"]
    assert [s.table for s in steps(study_of(looked_at))] == list(TABLES)


@pytest.fixture
def top(looked_at: Path, tmp_path: Path) -> Path:
    return copy(looked_at, tmp_path / "top")


CURSORS: dict[tuple[Path, str], str | None] = {}
"""What each sensor keeps of a top folder from tick to tick."""


def tick(top: Path, sensor: dg.SensorDefinition) -> list[dg.RunRequest]:
    """What a tick asks for; its cursor is kept, as the daemon keeps it."""
    at = (top, sensor.name)
    context = dg.build_sensor_context(
        instance=instance_for(top), cursor=CURSORS.get(at), resources={"studies": Studies(top=str(top))},
        definitions=defs,
    )  # fmt: skip
    found = sensor(context)
    assert isinstance(found, dg.SensorResult)
    CURSORS[at] = found.cursor
    return list(found.run_requests or [])


def tables_of(request: dg.RunRequest) -> list[str]:
    return [key.to_user_string() for key in request.asset_selection or []]


def edit(file: str, old: str, new: str) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        path = study_of(top).folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def grow(n: int) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        path = study_of(top).folder / "corpus.jsonl"
        rows = [{"chunk_id": f"c{i}", "header": "", "text": f"thing {i}"} for i in range(31, 31 + n)]
        path.write_text(path.read_text() + "".join(json.dumps(row) + "\n" for row in rows))

    return change


def new_arm(top: Path) -> None:
    """An arm that finds what the others find, and two chunks of its own."""
    runs = study_of(top).folder / "runs"
    (runs / "third.trec").write_text((runs / "old.trec").read_text().replace("old", "third"))
    edit("experiment.yaml", "depth: 5", "  - {name: third, family: graph, run: runs/third.trec}\ndepth: 5")(top)


def elsewhere(top: Path) -> None:
    """The second arm finds other chunks for every query."""
    path = study_of(top).folder / "runs" / "new.trec"
    lines = []
    for line in path.read_text().splitlines():
        q, zero, chunk, *rest = line.split()
        lines.append(" ".join([q, zero, f"c{(tiny.number(chunk) + 11) % 30 + 1:02}", *rest]))
    path.write_text("\n".join(lines) + "\n")


CHANGES: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "index": (edit("experiment.yaml", "analyser: a1", "analyser: a2"), REPOOLED),
    "embedding": (edit("experiment.yaml", "embedding: e1", "embedding: e2"), REPOOLED),
    "new_arm": (new_arm, REPOOLED),
    "corpus_growth": (grow(7), FROM_POOLS),
    "unjudged": (elsewhere, FROM_POOLS),
    "new_stratum": (edit("experiment.yaml", "{name: tail,", "{name: rare,"), REPOOLED),
    "rubric": (edit("rubric.md", "1 helps", "1 helps a bit"), REPOOLED),
}
"""Trigger -> a change of a file that makes it due, and the tables that then hang on it. A change of design or rubric is
one of the protocol, which every table records (P2).
"""


def test_every_trigger_is_tried() -> None:
    """P43: the monthly one by the schedule below."""
    from typing import get_args

    from relgrade_assets.protocol.design import Trigger

    assert {*CHANGES, "monthly_unjudged"} == set(get_args(Trigger))


@pytest.mark.parametrize("trigger", CHANGES)
def test_a_changed_file_pools_again_what_hangs_on_it_and_makes_the_trigger_due(trigger: str, top: Path) -> None:
    """P43: one request, for the tables that are outdated by it and no other, with the reason; nothing of the round is
    among them; afterwards nothing is asked for but, where the design says so, the next round.
    """
    edit("experiment.yaml", "deviations:", f"refresh: {{act_on: [{trigger}]}}\ndeviations:")(top)
    change, tables = CHANGES[trigger]
    change(top)
    (request,) = tick(top, inputs_under_key)
    assert tables_of(request) == list(tables)
    assert not any(TABLES[t].per_round for t in tables_of(request))
    assert request.tags[REASON].startswith("changed under the key") and request.partition_key == tiny.NAME
    run(top, tables[0])
    (again,) = tick(top, inputs_under_key)
    assert again.run_key == request.run_key, "while it is at work, it is the same run: the daemon starts a key once"
    told = run(top, *tables_of(request))
    assert told.ok and set(told.made) == set(tables), told.text
    assert tick(top, inputs_under_key) == []
    rows = {r["trigger"]: r for r in study_of(top).load("staleness").to_dicts()}
    assert rows[trigger]["state"] == "due", rows
    (acted,) = tick(top, stale_keys)
    assert acted.tags[REASON] == f"stale: {trigger}", "where the design says so"


def test_a_change_that_is_taken_back_and_made_again_is_another_each_time(top: Path) -> None:
    """P43: the tables are made again from what there was before, and again from the same change."""
    corpus = study_of(top).folder / "corpus.jsonl"
    before = corpus.read_text()
    keys = []
    for n in range(2):
        grow(7)(top)
        (there,) = tick(top, inputs_under_key)
        assert run(top, *tables_of(there)).ok and tick(top, inputs_under_key) == [], n
        states = dict(study_of(top).load("staleness").select("trigger", "state").iter_rows())
        assert states["corpus_growth"] == "due" and tick(top, stale_keys) == [], "shown; the design doesn't say to act"
        corpus.write_text(before)
        (back,) = tick(top, inputs_under_key)
        assert tables_of(back) == list(FROM_POOLS) and run(top, *tables_of(back)).ok
        assert tick(top, inputs_under_key) == []
        keys += [there.run_key, back.run_key]
    assert len(set(keys)) == 4, "Dagster starts a run key once"


def test_a_change_whose_run_failed_is_tried_again_once_it_is_made_again(top: Path) -> None:
    """P43: not over and over while it lies there."""
    grow(7)(top)
    (first,) = tick(top, inputs_under_key)
    assert [r.run_key for r in tick(top, inputs_under_key)] == [first.run_key]
    corpus = study_of(top).folder / "corpus.jsonl"
    grown = corpus.read_text()
    corpus.unlink()
    assert tick(top, inputs_under_key) == []
    corpus.write_text(grown)
    (again,) = tick(top, inputs_under_key)
    assert again.run_key != first.run_key


def test_what_is_newly_seen_has_a_run_key_of_its_own() -> None:
    """P43: stays while it is seen, whatever else comes and goes; a lost cursor makes all new."""
    at = [datetime(2026, 5, day, tzinfo=UTC) for day in range(1, 6)]
    first, cursor = run_keys({"a": "1"}, None, at=at[0])
    both, cursor = run_keys({"a": "1", "b": "1"}, cursor, at=at[1])
    assert both["a"] == first["a"] and both["b"] != first["a"]
    other, cursor = run_keys({"a": "2", "b": "1"}, cursor, at=at[2])
    assert other["a"] != both["a"] and other["b"] == both["b"]
    back, cursor = run_keys({"a": "1"}, cursor, at=at[3])
    assert back["a"] not in (first["a"], other["a"])
    lost, _ = run_keys({"a": "1"}, "", at=at[4])
    assert lost["a"] not in (first["a"], back["a"])


def test_a_key_that_was_never_looked_at_is(frozen: Path, tmp_path: Path) -> None:
    (request,) = tick(frozen, inputs_under_key)
    assert tables_of(request) == ["staleness"]
    top = tmp_path / "top"
    tiny.write_experiment(top)
    assert tick(top, inputs_under_key) == [], "no key, nothing to keep up"


def test_a_file_that_is_away_is_waited_for(top: Path) -> None:
    """P2, P43."""
    (study_of(top).folder / "corpus.jsonl").unlink()
    assert tick(top, inputs_under_key) == []


def test_the_schedule_looks_at_every_key_each_month(top: Path, tmp_path: Path) -> None:
    """P43: though nothing changed."""
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides={"telemetry": {"enabled": False}}) as instance:
        instance.add_dynamic_partitions("experiment", [tiny.NAME])
        context = dg.build_schedule_context(
            instance=instance,
            scheduled_execution_time=datetime(2026, 5, 1, 5, tzinfo=UTC),
            resources={"studies": Studies(top=str(top))},
        )
        (request,) = monthly_staleness(context)  # type: ignore[union-attr]
    assert tables_of(request) == ["staleness"] and request.run_key == "tiny:2026-05"
    assert monthly_staleness.cron_schedule == "0 5 1 * *"
    assert monthly_staleness.default_status == dg.DefaultScheduleStatus.RUNNING


def test_where_the_design_says_so_the_next_round_is_opened(top: Path) -> None:
    """P43: by the job, once, with cause and overlap; then the trigger is met and people's sensor goes on."""
    from relgrade_assets.automation.sensors import people_are_done

    edit("experiment.yaml", "deviations:", "refresh: {act_on: [index], rerate: 30}\ndeviations:")(top)
    edit("experiment.yaml", "mapping: m1", "mapping: m2")(top)
    assert run(top, *REPOOLED).ok
    (request,) = tick(top, stale_keys)
    assert request.tags[REASON] == "stale: index"
    done = defs.resolve_job_def("open_refresh").execute_in_process(
        run_config={"resources": {"studies": config(top)["resources"]["studies"]}},
        instance=instance_for(top), partition_key=tiny.NAME, tags=request.tags,
    )  # fmt: skip
    assert done.success
    study = study_of(top)
    assert study.round == 2
    body = study.log[-1].body
    assert (body["cause"], body["carry"], body["rerate"]) == ("index", "unchanged", 30)
    assert tick(top, stale_keys) == [], "staleness is not current: the round was opened since"
    (again,) = tick(top, inputs_under_key)
    assert tables_of(again) == ["staleness"] and run(top, "staleness").ok
    assert dict(study_of(top).load("staleness").select("trigger", "state").iter_rows())["index"] == "open"
    assert tick(top, stale_keys) == []
    (goes_on,) = tick(top, people_are_done)
    assert goes_on.tags[REASON] == "the last intent is written and reviewed (round 2)"
    assert run(top).waiting["grades"] == "0 of 29 pairs graded by ann"


def test_the_same_from_the_command_line(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P43: `staleness` exits with 1 where something is due, `refresh` opens the round with that as its cause."""

    monkeypatch.chdir(top)
    tiny.settings(top)

    def relgrade(*words: str) -> tuple[int, str]:
        ran = command_line.relgrade(top, *words)
        return ran.code, ran.said

    code, said = relgrade("staleness", tiny.NAME)
    assert code == 0 and "tiny, the key of round 1" in said and "Next:" not in said
    grow(7)(top)
    edit("corpus.jsonl", "This is thing 4.", "This is the thing 4.")(top)
    code, said = relgrade("staleness", tiny.NAME)
    assert code == 1 and "37 chunks, 30 at the freeze (+23.3%)" in said
    assert "4 pairs to judge (0.0 hours), 92 saved by carry-over" in said
    code, said = relgrade("staleness", tiny.NAME, "--json")
    rows = {row["trigger"]: row for row in json.loads(said)["triggers"]}
    assert code == 1 and rows["corpus_growth"]["pairs_to_judge"] == 4 and rows["rubric"]["state"] == "fine"
    code, said = relgrade("refresh", tiny.NAME)
    assert code == 0 and "Round 2 of tiny is open; the old key stands." in said
    assert study_of(top).log[-1].body["cause"] == "corpus_growth"
    code, said = relgrade("refresh", tiny.NAME)
    assert code == 2 and "Nothing changed since round 2 of tiny was opened" in said
    code, said = relgrade("status", tiny.NAME)
    assert "  1  2026-03-01  first grading: 96 graded; gates passed; key " in said and ", superseded" in said
    assert "corpus_growth: 0 graded, unchanged carried; gates not judged; no key" in said


def test_a_key_that_is_used_on_after_another_embedding_is_named_where_it_is_met(top: Path) -> None:
    """P45: by check, plan and status, until the next round is opened on what there is."""
    told = "the key was pooled under another embedding of new (e1 -> e2)"
    line = "P45  arms embed as they did when the latest key was pooled"

    def said() -> list[bool]:
        checked, planned, status = (command_line.relgrade(top, w, tiny.NAME) for w in ("check", "plan", "status"))
        (stands,) = (x for x in status.out.splitlines() if line in x)
        return [told in checked.said, told in planned.said, "note" in stands]

    assert said() == [False] * 3
    edit("experiment.yaml", "embedding: e1", "embedding: e2")(top)
    assert said() == [True] * 3
    open_next(study_of(top), cause="embedding", by="dora")
    assert said() == [False] * 3


def test_nothing_is_stale_without_a_key(tmp_path: Path) -> None:
    """P43: waited for, no fault."""
    top = tmp_path / "top"
    tiny.write_experiment(top)
    assert "no key of tiny is frozen yet" in command_line.expect(3, top, "staleness", tiny.NAME).err
    assert "There is nothing of tiny to refresh" in command_line.expect(2, top, "refresh", tiny.NAME).err


def test_jobs_and_sensors_are_in_the_graph_and_run_by_themselves() -> None:
    for sensor in (inputs_under_key, stale_keys):
        assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert defs.resolve_job_def(open_refresh.name) is not None
    made = {key.to_user_string() for key in job("repool").asset_layer.selected_asset_keys}
    assert made == set(REPOOLED) and not any(TABLES[t].per_round for t in made)
    assert "staleness" not in {k.to_user_string() for k in job("everything").asset_layer.selected_asset_keys}
