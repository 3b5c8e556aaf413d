"""Facts of other people's packages that the design leans on: a failure after an upgrade says that one changed.

No `from __future__ import annotations`: Dagster refuses an annotated context under it.
"""

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pandera.polars as pa
import polars as pl
import pytest

BOOM = "no kappa above the gate"


class Grades(pa.DataFrameModel):
    grade: int = pa.Field(ge=0, le=3)


class Coerced(pa.DataFrameModel):
    grade: int = pa.Field(ge=0, le=3)
    reason: str

    class Config:
        coerce = True


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


class Kept(dg.IOManager):
    """Keeps what it is given, as the Parquet IO manager would."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        self.values[context.asset_key.to_user_string()] = obj

    def load_input(self, context: dg.InputContext) -> object:
        return self.values[context.asset_key.to_user_string()]


def test_pandera_passes_bad_values_of_lazy_frames() -> None:
    bad = pl.DataFrame({"grade": [9]})
    Grades.validate(bad.lazy(), lazy=True).collect()
    with pytest.raises(pa.errors.SchemaErrors):
        Grades.validate(bad, lazy=True)


def test_pandera_coercion_hides_a_missing_column_behind_a_polars_error() -> None:
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        Coerced.validate(pl.DataFrame({"grade": [1]}), lazy=True)


def test_polars_parquet_carries_metadata_and_needs_no_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "grades.parquet"
    pl.DataFrame({"grade": [2]}).write_parquet(path, metadata={"digest": "abc"})
    assert pl.read_parquet_metadata(path)["digest"] == "abc"
    assert pl.read_parquet(path)["grade"].to_list() == [2]
    assert "pyarrow" not in sys.modules


def test_dagster_blocking_check_stops_its_own_run_and_guards_nothing_alone(instance: dg.DagsterInstance) -> None:
    @dg.asset
    def agreement() -> float:
        return 0.2

    @dg.asset_check(asset=agreement, blocking=True)
    def kappa(agreement: float) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=agreement > 0.75, description=BOOM)

    @dg.asset
    def frozen_key(agreement: float) -> float:
        return agreement

    resources = {"io_manager": Kept()}
    everything = [agreement, kappa, frozen_key]
    whole = dg.materialize(everything, instance=instance, resources=resources, raise_on_error=False)
    assert not whole.success
    assert not whole.asset_materializations_for_node("frozen_key")
    alone = dg.materialize(everything, selection=[frozen_key], instance=instance, resources=resources)
    assert alone.success
    assert alone.asset_materializations_for_node("frozen_key")


def test_dagster_blocking_check_that_warns_blocks_nothing(instance: dg.DagsterInstance) -> None:
    @dg.asset
    def agreement() -> float:
        return 0.2

    @dg.asset_check(asset=agreement, blocking=True)
    def kappa() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN)

    @dg.asset(deps=[agreement])
    def frozen_key() -> None: ...

    assert dg.materialize([agreement, kappa, frozen_key], instance=instance).success


def test_dagster_result_value_goes_through_the_io_manager_with_its_data_version(instance: dg.DagsterInstance) -> None:
    @dg.asset
    def pools() -> dg.MaterializeResult[int]:
        return dg.MaterializeResult(value=7, data_version=dg.DataVersion("sha256:abc"))

    @dg.asset
    def sheets(pools: int) -> int:
        return pools + 1

    kept = Kept()
    result = dg.materialize([pools, sheets], instance=instance, resources={"io_manager": kept})
    assert kept.values == {"pools": 7, "sheets": 8}
    (made,) = result.asset_materializations_for_node("pools")
    assert made.tags is not None
    assert made.tags["dagster/data_version"] == "sha256:abc"


def test_dagster_asset_that_yields_no_output_skips_what_follows_and_is_no_failure(instance: dg.DagsterInstance) -> None:
    @dg.asset(output_required=False)
    def grades() -> Iterator[dg.Output[int]]:
        if BOOM == "":
            yield dg.Output(1)

    @dg.asset
    def agreement(grades: int) -> int:
        return grades

    result = dg.materialize([grades, agreement], instance=instance, resources={"io_manager": Kept()})
    assert result.success
    assert not result.get_asset_materialization_events()
    assert [e.step_key for e in result.get_step_skipped_events()] == ["agreement"]


def test_dagster_partitioned_check_warns_that_it_is_a_preview_and_keeps_one_record_a_partition(
    instance: dg.DagsterInstance,
) -> None:
    experiments = dg.DynamicPartitionsDefinition(name="experiment")

    @dg.asset(partitions_def=experiments)
    def agreement(context: dg.AssetExecutionContext) -> str:
        return context.partition_key

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        @dg.asset_check(asset=agreement, blocking=True, partitions_def=experiments)
        def kappa(agreement: str) -> dg.AssetCheckResult:
            return dg.AssetCheckResult(passed=agreement == "alpha")

    assert {w.category for w in caught} == {dg.PreviewWarning}
    instance.add_dynamic_partitions("experiment", ["alpha", "beta"])
    outcome = {}
    for name in ("alpha", "beta"):
        result = dg.materialize(
            [agreement, kappa],
            instance=instance,
            partition_key=name,
            resources={"io_manager": Kept()},
            raise_on_error=False,
        )
        outcome[name] = (result.success, [e.passed for e in result.get_asset_check_evaluations()])
    assert outcome == {"alpha": (True, [True]), "beta": (False, [False])}


def test_dagster_paths_of_the_instance_file_are_relative_to_the_current_folder(tmp_path: Path) -> None:
    """So whoever starts Dagster in a process goes to the top folder first."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / "dagster.yaml").write_text(
        (Path(__file__).resolve().parents[1] / "dagster.yaml").read_text("utf-8"), encoding="utf-8"
    )
    code = """import dagster as dg
with dg.DagsterInstance.get() as i:
    print(i.get_runs_count(), i.telemetry_enabled, i.nux_enabled)"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=elsewhere,
        env={"DAGSTER_HOME": str(home), "HOME": str(tmp_path / "person"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.split() == ["0", "False", "False"], ran.stderr
    assert (elsewhere / ".relgrade" / "dagster" / "history" / "runs.db").is_file()
    assert not (tmp_path / "person").exists()
