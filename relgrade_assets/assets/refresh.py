"""Refresh: whether the latest key still fits what it is used on (P43)."""

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.errors import Waiting
from relgrade_assets.io.refreshing import stale
from relgrade_assets.io.study import Study
from relgrade_assets.methods.staleness import due


@table
def staleness(
    study: Study, queries: pl.DataFrame, query_sample: pl.DataFrame, runs: pl.DataFrame, pools: pl.DataFrame
) -> Made | Waiting:
    """Compare what the key was made from with what there is now, and say for each trigger what to do and what it costs
    (P43).
    """
    frame = stale(study, queries=queries, query_sample=query_sample, runs=runs, pools=pools)
    if isinstance(frame, Waiting):
        return frame
    numbers = {f"{t}_now": v for t, v in frame.drop_nulls("value").select("trigger", "value").iter_rows()}
    shown = frame.filter(pl.col("state").is_in(["due", "open", "watch"]))
    return Made(
        frame,
        {
            "due": ", ".join(due(frame)) or "nothing",
            "triggers": show.grid(
                ("trigger", "state", "evidence"), shown.select("trigger", "state", "evidence").rows()
            ),
            "pairs_to_judge": frame["pairs_to_judge"].max() or 0,
            **numbers,
        },
    )
