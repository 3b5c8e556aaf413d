"""The two sensors: experiments found and observed, and runs asked for once people are done. They decide when, never
what.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pytest
import tiny
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.remote_representation.external_data import SensorExecutionErrorSnap
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._grpc.impl import get_external_sensor_execution
from driving import BEFORE_THE_GATES, copy, run
from test_voiding import RAISED, change
from tiny import grade_all, hand_in, review_all, study_of

from relgrade_assets.assets.sources import ABSENT
from relgrade_assets.automation.asking import REASON
from relgrade_assets.automation.sensors import experiment_folders, people_are_done
from relgrade_assets.automation.standing import ON_A_KEY, keys_that_fell
from relgrade_assets.definitions import EXPERIMENT, defs
from relgrade_assets.io.rounds import open_next_round
from relgrade_assets.schemas import SOURCES, TABLES

ORIGIN = InProcessCodeLocationOrigin(
    loadable_target_origin=LoadableTargetOrigin(module_name="relgrade_assets.definitions"), location_name="relgrade"
)


@dataclass(frozen=True)
class Tick:
    """What a tick came to: why nothing, what was observed (`experiment/source` and its version), what was asked for."""

    skipped: str | None
    observed: dict[str, str]
    asked_for: list[tuple[str | None, str]]


@dataclass
class Daemon:
    """A sensor's ticks, with what the daemon keeps between them: the partitions, the cursors, the run keys."""

    top: Path
    instance: dg.DagsterInstance
    cursors: dict[str, str | None] = field(default_factory=dict)
    run_keys: set[str] = field(default_factory=set)

    def tick(self, sensor: dg.SensorDefinition) -> Tick:
        """One tick as the code server evaluates it; partitions that it asks for are added, and requests whose run key
        was seen are left out, as the daemon does.
        """
        found = get_external_sensor_execution(
            defs.get_repository_def(),
            ORIGIN,
            self.instance.get_ref(),
            sensor.name,
            last_tick_completion_timestamp=None,
            last_run_key=None,
            cursor=self.cursors.get(sensor.name),
            log_key=None,
            last_sensor_start_timestamp=None,
        )
        assert not isinstance(found, SensorExecutionErrorSnap), found.error.to_string()
        self.cursors[sensor.name] = found.cursor
        for request in found.dynamic_partitions_requests or ():
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        fresh = [r for r in found.run_requests or () if r.run_key not in self.run_keys]
        self.run_keys |= {str(r.run_key) for r in fresh}
        observed = {
            f"{o.partition}/{o.asset_key.to_user_string()}": o.tags.get("dagster/data_version", str(o.description))
            for o in found.asset_events
            if isinstance(o, dg.AssetObservation)
        }
        return Tick(found.skip_message, observed, [(r.partition_key, r.tags[REASON]) for r in fresh])

    @property
    def partitions(self) -> set[str]:
        return set(self.instance.get_dynamic_partitions(str(EXPERIMENT.name)))


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """An instance on disk, as the daemon's is: without one, requests for dynamic partitions can't be looked up."""
    folder = tmp_path_factory.mktemp("instance")
    with dg.DagsterInstance.local_temp(str(folder), overrides={"telemetry": {"enabled": False}}) as instance:
        yield instance


@pytest.fixture
def daemon(tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """A daemon that has seen nothing, over a top folder of the test's own; it finds it as the code server does."""
    top = tmp_path / "top"
    top.mkdir()
    monkeypatch.setenv("RELGRADE_HOME", str(top))
    for name in instance.get_dynamic_partitions(str(EXPERIMENT.name)):
        instance.delete_dynamic_partition(str(EXPERIMENT.name), name)
    return Daemon(top, instance)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("asked")
    tiny.write_experiment(top)
    assert run(top, "queries", "query_sample").ok
    review_all(top)
    assert run(top, *BEFORE_THE_GATES).ok
    return top


# experiments


def test_a_new_folder_becomes_a_partition_without_a_reload(daemon: Daemon) -> None:
    """graph.md: the same loaded definitions; each source is observed when it is first seen."""
    found = daemon.tick(experiment_folders)
    assert found.skipped == "nothing changed"
    tiny.write_experiment(daemon.top)
    found = daemon.tick(experiment_folders)
    assert daemon.partitions == {tiny.NAME}
    assert set(found.observed) == {f"{tiny.NAME}/{s}" for s in SOURCES}
    tiny.write_experiment(daemon.top, name="second")
    found = daemon.tick(experiment_folders)
    assert daemon.partitions == {tiny.NAME, "second"}
    assert {at.split("/")[0] for at in found.observed} == {"second"}
    assert run(daemon.top, "queries", name="second", instance=daemon.instance).ok


def test_what_is_no_experiment_becomes_no_partition(daemon: Daemon) -> None:
    folder = tiny.write_experiment(daemon.top)
    for name in ("Upper", "with space", ".hidden", "no-design"):
        (folder.parent / name).mkdir()
        if name != "no-design":
            shutil.copy(folder / "experiment.yaml", folder.parent / name)
    daemon.tick(experiment_folders)
    assert daemon.partitions == {tiny.NAME}


def test_a_changed_source_is_observed_once(daemon: Daemon) -> None:
    """P2, P43: with the digest of what it is now; unchanged ones are not observed again."""
    folder = tiny.write_experiment(daemon.top)
    first = daemon.tick(experiment_folders).observed
    assert daemon.tick(experiment_folders).skipped == "nothing changed"
    (folder / "corpus.jsonl").write_text((folder / "corpus.jsonl").read_text().replace("thing 4.", "thing four."))
    changed = daemon.tick(experiment_folders).observed
    assert set(changed) == {"tiny/corpus"}
    assert changed["tiny/corpus"] == study_of(daemon.top).digest_of("corpus") != first["tiny/corpus"]
    (folder / "runs" / "old.trec").unlink()
    assert daemon.tick(experiment_folders).observed == {"tiny/run_files": ABSENT}
    assert daemon.tick(experiment_folders).skipped == "nothing changed"


def test_what_people_hand_in_is_observed(daemon: Daemon, asked: Path) -> None:
    """P23: the ledger is a source as any file is."""
    copy(asked, daemon.top)
    daemon.tick(experiment_folders)
    grade_all(daemon.top, "ann", at_most=1)
    assert set(daemon.tick(experiment_folders).observed) == {"tiny/answers", "tiny/events"}


def test_removed_and_unreadable_experiments_are_told_and_the_rest_goes_on(daemon: Daemon) -> None:
    folder = tiny.write_experiment(daemon.top)
    tiny.write_experiment(daemon.top, name="gone")
    broken = tiny.write_experiment(daemon.top, name="broken")
    (broken / "experiment.yaml").write_text("relgrade: 1\nname: broken\n")
    found = daemon.tick(experiment_folders)
    assert daemon.partitions == {tiny.NAME, "gone", "broken"}
    assert {at.split("/")[0] for at in found.observed} == {tiny.NAME, "gone"}
    shutil.rmtree(folder.parent / "gone")
    found = daemon.tick(experiment_folders)
    assert found.skipped == "no folder any more: gone; can't be read (relgrade check): broken"
    assert "gone" in daemon.partitions  # its history stays
    (broken / "experiment.yaml").write_text(tiny.DESIGN.replace("name: tiny", "name: broken"))
    assert {at.split("/")[0] for at in daemon.tick(experiment_folders).observed} == {"broken"}


def test_a_lost_cursor_observes_everything_again_and_harms_nothing(daemon: Daemon) -> None:
    tiny.write_experiment(daemon.top)
    first = daemon.tick(experiment_folders).observed
    assert json.loads(str(daemon.cursors[experiment_folders.name])) == first
    daemon.cursors.clear()
    assert daemon.tick(experiment_folders).observed == first


# people


def test_only_known_and_readable_experiments_are_asked_for(daemon: Daemon, asked: Path) -> None:
    """No request for an experiment that is no partition yet, or that can't be read."""
    copy(asked, daemon.top)
    grade_all(daemon.top, "ann")
    assert daemon.tick(people_are_done).asked_for == []  # no partition yet
    daemon.tick(experiment_folders)
    assert [p for p, _ in daemon.tick(people_are_done).asked_for] == [tiny.NAME]
    design = study_of(daemon.top).folder / "experiment.yaml"
    design.write_text("relgrade: 1\n")
    assert daemon.tick(people_are_done).skipped == "no experiment became complete"


@pytest.mark.parametrize("at_most", [1, 40, 95])
def test_an_unfinished_sheet_asks_for_no_run(at_most: int, daemon: Daemon, asked: Path) -> None:
    copy(asked, daemon.top)
    daemon.tick(experiment_folders)
    grade_all(daemon.top, "ann", at_most=at_most)
    assert daemon.tick(people_are_done).skipped == "no experiment became complete"
    grade_all(daemon.top, "ann", later=1)
    assert daemon.tick(people_are_done).skipped == "no experiment became complete"


def test_each_completion_asks_for_one_run_that_says_why(daemon: Daemon) -> None:
    """The last review, the last grade, the auditor's last grade: once each, until the run that follows."""
    tiny.write_experiment(daemon.top)
    daemon.tick(experiment_folders)
    assert daemon.tick(people_are_done).skipped == "no experiment became complete"
    up_to_intents = tuple(t for t in BEFORE_THE_GATES if not TABLES[t].per_round)
    run(daemon.top, *up_to_intents)
    assert daemon.tick(people_are_done).asked_for == []
    of_intents = ("intents", "audit_selection", "audit_sample", "sheets", "audit_sheets")
    steps = (
        (lambda: review_all(daemon.top), "the last intent is written and reviewed (round 1)", of_intents),
        (lambda: grade_all(daemon.top, "ann"), "the last grade is in (round 1)", ("grades",)),
        (lambda: grade_all(daemon.top, "bob"), "the auditor's last grade is in (round 1)", ("audit_grades",)),
    )
    for hand_over, reason, made in steps:
        hand_over()
        assert daemon.tick(people_are_done).asked_for == [(tiny.NAME, reason)]
        assert daemon.tick(people_are_done).asked_for == []  # the run key is known
        assert set(run(daemon.top, *made).made) == set(made)
        assert daemon.tick(people_are_done).skipped == "no experiment became complete"


def test_a_changed_answer_completes_anew(daemon: Daemon, asked: Path) -> None:
    copy(asked, daemon.top)
    daemon.tick(experiment_folders)
    grade_all(daemon.top, "ann")
    assert len(daemon.tick(people_are_done).asked_for) == 1
    row = tiny.answer(next(iter(study_of(daemon.top).load("sheets").head(1).to_dicts())))
    hand_in(daemon.top, "ann", [{**row, "grade": 1 - min(int(str(row["grade"])), 1)}])
    assert len(daemon.tick(people_are_done).asked_for) == 1


def test_intents_that_are_changed_and_taken_back_complete_anew(daemon: Daemon, asked: Path) -> None:
    """Each time: the table is made again from what there was before."""
    copy(asked, daemon.top)
    daemon.tick(experiment_folders)
    path = study_of(daemon.top).folder / "intents.csv"
    before = path.read_text()
    for _ in range(2):
        path.write_text(before.replace("Where is thing 4 written?", "Where is thing 4 said?"))
        review_all(daemon.top)
        for text in (path.read_text(), before):
            path.write_text(text)
            assert daemon.tick(people_are_done).asked_for == [
                (tiny.NAME, "the last intent is written and reviewed (round 1)")
            ]
            assert run(daemon.top, *BEFORE_THE_GATES).ok
            assert daemon.tick(people_are_done).asked_for == []


def test_a_new_round_completes_anew(daemon: Daemon, asked: Path) -> None:
    copy(asked, daemon.top)
    daemon.tick(experiment_folders)
    grade_all(daemon.top, "ann")
    assert daemon.tick(people_are_done).asked_for == [(tiny.NAME, "the last grade is in (round 1)")]
    open_next_round(study_of(daemon.top), cause="boundary", what="", by="dora")
    assert daemon.tick(people_are_done).asked_for == [(tiny.NAME, "the last intent is written and reviewed (round 2)")]
    run(daemon.top, *BEFORE_THE_GATES)
    assert daemon.tick(people_are_done).asked_for == []
    grade_all(daemon.top, "ann")
    assert daemon.tick(people_are_done).asked_for == [(tiny.NAME, "the last grade is in (round 2)")]


def test_a_key_that_fell_is_told_on_its_tables_and_checked_once(daemon: Daemon, asked: Path) -> None:
    """P35: the page finds a changed grade by itself; the checks that it asks for fail."""
    top = copy(asked, daemon.top)
    daemon.tick(experiment_folders)
    grade_all(top, "ann")
    grade_all(top, "bob")
    assert run(top).ok
    quiet = daemon.tick(keys_that_fell)
    assert (quiet.asked_for, quiet.observed) == ([], {})
    change(top, RAISED)
    fell = daemon.tick(keys_that_fell)
    assert fell.asked_for == [(tiny.NAME, "round 1 is void")]
    assert fell.observed == {f"{tiny.NAME}/{table}": "void" for table in ON_A_KEY}
    assert {"frozen_key", "query_measures", "report", "published_key"} <= set(ON_A_KEY)
    again = daemon.tick(keys_that_fell)
    assert (again.asked_for, again.observed) == ([], {})
    assert "VOID" in run(top, of="recheck").failed_checks["published_key: published_key_stands"]


def test_both_sensors_run_by_themselves_and_start_the_whole_chain() -> None:
    for sensor in (experiment_folders, people_are_done, keys_that_fell):
        assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
        assert defs.resolve_sensor_def(sensor.name) is not None
    assert people_are_done.job_name == "everything"
