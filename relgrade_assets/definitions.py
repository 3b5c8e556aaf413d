"""All of the graph in one place, for Dagster to load: assets, checks, jobs, sensors and resources. Nothing is decided
here.
"""

import warnings

import dagster as dg

warnings.filterwarnings("ignore", message=".*partitions_def on an AssetCheckSpec.*", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", message=".*observable_source_asset. is currently in beta", category=dg.BetaWarning)
warnings.filterwarnings("ignore", message=".*DataVersionsByPartition. is currently in beta", category=dg.BetaWarning)

from relgrade_assets.assets import (  # noqa: E402
    audit,
    grading,
    intents,
    key,
    measures,
    pooling,
    publication,
    queries,
    refresh,
)
from relgrade_assets.assets.build import EXPERIMENT  # noqa: E402
from relgrade_assets.assets.sources import SOURCE_ASSETS, observations  # noqa: E402
from relgrade_assets.automation.jobs import JOBS  # noqa: E402
from relgrade_assets.automation.loggers import progress  # noqa: E402
from relgrade_assets.automation.refresh import SCHEDULES, open_refresh  # noqa: E402
from relgrade_assets.automation.sensors import SENSORS  # noqa: E402
from relgrade_assets.checks.gates import GATE_CHECKS  # noqa: E402
from relgrade_assets.resources.studies import Studies  # noqa: E402
from relgrade_assets.resources.tables import TableStore  # noqa: E402
from relgrade_assets.resources.turns import Turns  # noqa: E402
from relgrade_assets.schemas import TABLES  # noqa: E402

__all__ = ["EXPERIMENT", "defs", "observations"]

_MODULES = (queries, intents, pooling, audit, grading, key, measures, publication, refresh)
ASSETS = [
    next(asset for module in _MODULES if isinstance(asset := getattr(module, name, None), dg.AssetsDefinition))
    for name in TABLES
]

studies = Studies.configure_at_launch()  # so that the table store gets the same configuration
defs = dg.Definitions(
    assets=[*SOURCE_ASSETS, *ASSETS],
    asset_checks=GATE_CHECKS,
    jobs=[*JOBS, open_refresh],
    sensors=SENSORS,
    schedules=SCHEDULES,
    loggers={"console": dg.colored_console_logger, "progress": progress},
    executor=dg.in_process_executor,  # a process for each step costs more than the step
    resources={"studies": studies, "tables": TableStore(studies=studies), "turns": Turns()},
)
