"""Intents: one locked line a sampled query. No pool leads here (P16)."""

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.errors import Waiting
from relgrade_assets.io.readers.intents import read_intents
from relgrade_assets.io.study import Study
from relgrade_assets.methods import intents as methods


@table
def intents(study: Study, query_sample: pl.DataFrame) -> Made | Waiting:
    """Join what was written with its reviews, and lock the table by digest (P16, P17)."""
    named = study.design.intents.file
    study.named(named)
    locked = methods.lock(
        query_sample,
        read_intents(study.file(named), name=named, besides=methods.row_check(query_sample)).frame,
        study.ledger.reviews(study.name),
        round=study.round,
        reviewers={study.design.auditor.name},
        unreviewed_ok=study.design.declared("unreviewed_intents"),
    )
    if isinstance(locked, Waiting):
        return locked
    lock = methods.intents_digest(locked.frame)
    study.lock("intents_locked", lock)
    forms = dict(locked.frame.group_by("form").len().sort("form").iter_rows())
    reviewed = locked.frame["reviewer"].count()
    return Made(locked.frame, {"reviewed": reviewed, "lock": lock, "forms": show.bars(forms, unit="intents")})
