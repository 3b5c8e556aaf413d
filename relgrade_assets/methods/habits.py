"""Habits that spoil judgments (P45), as notices to put where a user meets them: before grading from the design and the
sample, with the numbers from what was left unjudged, and once a key is used on after an arm's embedding changed.

Whether a study may go on is not decided here. The fast path imports this: no pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from relgrade_assets.errors import Notice
from relgrade_assets.methods.measure_names import parse

if TYPE_CHECKING:
    from relgrade_assets.protocol.design import Design

WATCH, ACT = 0.20, 0.30
"""Unjudged shares from which to watch, and to judge them first (P40)."""
BEYOND_CAP = 0.5
"""Share of a stratum's searches beyond the sampling weights' cap from which its interval per searches held the truth in
fewer than 93% of simulated samples (docs/reference/statistics.md, headline)."""


def of_study(design: Design, sample: pl.DataFrame | None) -> tuple[Notice, ...]:
    """What the design, and the sample where it is drawn (schemas.QuerySample), already show."""
    found = []
    if len(design.arms) == 1:
        text = "one arm alone fills the pools, which favours it: what it misses can't be found by anyone"
        found.append(Notice("one_arm", len(design.arms), text))
    if not overlaps(design):
        text = "no query is sure to have two graders: only the auditor can be held against them"
        found.append(Notice("no_overlap", len(design.graders), text))
    if sample is not None and head_only(design, sample):
        text = "every sampled query is of the head: the key says nothing of rare queries"
        found.append(Notice("head_only", sample.height, text))
    if sample is not None and design.estimand == "searches" and (beyond := beyond_cap(sample, design)):
        listed = ", ".join(f"{share:.0%} of {name}" for name, share in beyond.items())
        text = f"searches beyond the sampling weights' cap of {design.strata.weight_cap} are {listed}"
        why = "a few queries hold them, and intervals are too narrow"
        mend = "raise strata.weight_cap, or measure distinct_queries"
        found.append(Notice("counts_beyond_cap", len(beyond), f"{text}: {why}; {mend}"))
    return tuple(found)


def beyond_cap(sample: pl.DataFrame, design: Design) -> dict[str, float]:
    """Strata by name in which `BEYOND_CAP` of the searches or more stand beyond the cap (P10), and their share, both
    estimated from the sample; a stratum that was taken whole has no such error."""
    weight, cap = pl.col("count") / pl.col("inclusion_probability"), design.strata.weight_cap
    beyond = (pl.col("count") - cap).clip(0) / pl.col("inclusion_probability")
    shares = sample.group_by("stratum").agg(
        share=beyond.sum() / weight.sum(), part=pl.col("inclusion_probability").min() < 1
    )
    wide = shares.filter(pl.col("part") & (pl.col("share") >= BEYOND_CAP)).sort("stratum")
    return dict(wide.select("stratum", "share").rows())


def overlaps(design: Design) -> bool:
    """Whether some query is sure to have two of the key's graders."""
    takes = [1.0 if g.takes == "all" else g.takes for g in design.graders]
    return len(takes) > 1 and sum(takes) > 1


def head_only(design: Design, sample: pl.DataFrame) -> bool:
    """Whether every sampled query falls into strata that hold the head alone; False where strata know no tiers."""
    head = [part.name for part in design.strata.parts if part.tiers == ("head",)]
    return sample.height > 0 and sample["stratum"].is_in(head).all()


def of_reuse(then: Mapping[str, str | None], now: Mapping[str, str | None]) -> tuple[Notice, ...]:
    """A key that is used on after a change of embedding without pooling again: each arm's embedding (None where not
    told) as its pools were made, and as it is. An arm that the key doesn't know has no pools to reuse.
    """
    moved = [
        f"{a} ({then[a] or 'not told'} -> {e or 'not told'})" for a, e in now.items() if a in then and e != then[a]
    ]
    if not moved:
        return ()
    text = f"the key was pooled under another embedding of {', '.join(moved)}: what is found now was never judged"
    return (Notice("reuse", len(moved), f"{text}; pool again and judge what is new, by `relgrade refresh`"),)


def of_scores(means: pl.DataFrame, key: pl.DataFrame | None = None) -> tuple[Notice, ...]:
    """What stands beside the numbers. `means`: arm, measure, judged (mean share of what the measure looked at); `key`:
    grade, where it is not relgrade's own.

    Unjudged counts as not relevant (P37): told from `WATCH` at the shallowest cut-off that was asked for, from `ACT`
    with what to do first. Judgments without a single 0 can't tell an unjudged chunk from one that is not relevant.
    """
    found = []
    cuts = {name: cut for name in means["measure"].unique() if (cut := parse(name).cutoff) is not None}
    least = min(cuts.values(), default=0)
    shares = means.filter(pl.col("measure").is_in([name for name, cut in cuts.items() if cut == least]))
    worst = shares.group_by("arm").agg(unjudged=(1 - pl.col("judged")).max()).filter(pl.col("unjudged") >= WATCH - 1e-9)
    if worst.height:
        arm, share = worst.sort("unjudged", "arm", descending=[True, False]).row(0)
        todo = "judge these before comparing" if share >= ACT - 1e-9 else "watch it"
        text = f"unjudged chunks count as not relevant, and are {share:.0%} of the top {least} of {arm}: {todo}"
        found.append(Notice("unjudged", worst.height, f"{text}; arms with a fifth or more"))
    if key is not None and key.height and not key["grade"].is_in([0]).any():
        text = "no judgment is 0: an unjudged chunk can't be told from one that is not relevant"
        found.append(Notice("only_relevant_judged", key.height, text))
    return tuple(found)
