"""What is observed, not made: one observable source an input, partitioned by experiment. Its data version is the
digest of its content.
"""

import dagster as dg

from relgrade_assets.assets.build import EXPERIMENT
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io.study import Study
from relgrade_assets.resources.studies import Studies
from relgrade_assets.schemas import SOURCES

ABSENT = "not there yet"


def source_version(study: Study, name: str) -> str:
    """The digest of a source's content, or that it is not there yet."""
    try:
        return study.source_digest(name) or ABSENT
    except NotThere:
        return ABSENT


def observations(study: Study) -> list[dg.AssetObservation]:
    """An observation of every source of a study, with its data version."""
    return [_observation(study.name, name, source_version(study, name)) for name in SOURCES]


def _observation(experiment: str, name: str, version: str) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset_key=name, partition=experiment, tags={"dagster/data_version": version}, metadata={"digest": version}
    )


def _source(name: str, description: str) -> dg.SourceAsset | dg.AssetsDefinition:
    @dg.observable_source_asset(name=name, partitions_def=EXPERIMENT, group_name="sources", description=description)
    def source(context: dg.OpExecutionContext, studies: Studies) -> dg.DataVersionsByPartition:
        found: dict[str, str] = {}
        for partition in (
            context.partition_keys
            if context.has_partition_key or context.has_partition_key_range
            else studies.home.names()
        ):
            try:
                found[partition] = source_version(studies.study(partition), name)
            except (Refused, dg.Failure) as error:
                context.log.warning(f"{partition} can't be observed: {error}")
        return dg.DataVersionsByPartition(found)

    return source


SOURCE_ASSETS = [_source(name, description) for name, description in SOURCES.items()]
