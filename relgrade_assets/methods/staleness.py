"""Whether a frozen key still fits what it is used on: P43's triggers, each with its evidence, what to do, and what that
costs.

From what the key was made from and what there is now to schemas.Staleness. Nothing is looked up and nothing acted on
here. Which grades would be carried is carry_over.py's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

import polars as pl

from relgrade_assets.methods.habits import ACT, WATCH
from relgrade_assets.methods.planning import A_MINUTE

GROWTH = 0.20
"""A corpus that grew by more than this is pooled again (P43)."""
ROSE = 0.05
"""Zero-result or zero-click searches are watched where their share rose by this much or more."""
TOUCH = 1e-12
STALENESS: dict[str, pl.DataType | type[pl.DataType]] = {
    "trigger": pl.String,
    "state": pl.String,
    "value": pl.Float64,
    "limit": pl.Float64,
    "evidence": pl.String,
    "action": pl.String,
    "rerate": pl.Int64,
    "pairs_to_judge": pl.Int64,
    "pairs_carried": pl.Int64,
    "hours": pl.Float64,
}
"""Columns of schemas.Staleness."""
State = Literal["due", "open", "watch", "fine", "unknown"]
OVERLAP, ONLY_NEW, WHOLE = (
    "pool every query again, judge the new pairs, rate {rerate}% of the carried ones again",
    "pool again, judge the new pairs alone",
    "open a new round and judge the whole pool",
)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a key is made from, or what there is now: chunks in the corpus, arms with their families, each arm's index
    (mapping, analyser, embedding), strata, digests of rubric and of each source, and the shares of searches without a
    result and of queries' searches without a click (None where not logged).
    """

    chunks: int
    arms: Mapping[str, str]
    index: Mapping[str, Mapping[str, str | None]]
    strata: tuple[str, ...]
    rubric: str
    sources: Mapping[str, str | None]
    zero_results: float | None = None
    zero_clicks: float | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """(Grader, pair)s that a next round asks for anew, could carry, and could carry in strata with new ones; `whole` is
    all of them, and `strata` names those with new pairs.
    """

    new: int
    carried: int
    carried_in_affected: int
    strata: tuple[str, ...] = ()

    @property
    def whole(self) -> int:
        """All that the pools ask for."""
        return self.new + self.carried


@dataclass(frozen=True, slots=True)
class _Found:
    trigger: str
    state: State
    value: float | None
    limit: float | None
    evidence: str
    action: str
    rerate: int = 0
    affected_alone: bool = False
    carries: bool = True


def staleness(
    then: Situation,
    now: Situation,
    unjudged: Mapping[str, float] | None,
    effort: Effort,
    *,
    rerate: int = 20,
    rejudge: Literal["changed", "all"] = "changed",
    opened: bool = False,
) -> pl.DataFrame:
    """P43: every trigger, as schemas.Staleness, in the protocol's order.

    `then` is what the key was made from, `now` what there is. `unjudged` is each arm's mean share of its top k that the
    key does not know, None where it can't be told. `rerate` is the percent of carried pairs that is rated again where
    an index or an embedding changed, all of them after an embedding change with `rejudge` all. With `opened` a round
    was opened on just these inputs, so that what would be due is met.
    """
    again = 100 if rejudge == "all" else rerate
    found = [
        _changed(then, now, ("mapping", "analyser"), "index", OVERLAP, rerate, affected_alone=False),
        _changed(then, now, ("embedding",), "embedding", _embedding(effort, again), again, affected_alone=True),
        _new_arms(then, now),
        _growth(then, now),
        _unjudged(unjudged),
        _new_strata(then, now),
        _rubric(then, now),
        _monthly(unjudged),
        _inputs(then, now),
        _watched("zero_results", then.zero_results, now.zero_results, "searches without a result"),
        _watched("zero_clicks", then.zero_clicks, now.zero_clicks, "searches of queries that nobody clicked on"),
    ]
    return pl.DataFrame([_row(f, effort, opened) for f in found], schema=STALENESS, orient="row")


def due(frame: pl.DataFrame) -> list[str]:
    """Triggers that ask for something to be done, in the protocol's order."""
    found: list[str] = frame.filter(pl.col("state") == "due")["trigger"].to_list()
    return found


def rerate_of(frame: pl.DataFrame) -> tuple[int, bool]:
    """P43: the percent of carried pairs that the due triggers want rated again, and whether of affected strata
    alone.
    """
    wanted = dict(frame.filter(pl.col("state") == "due").select("trigger", "rerate").iter_rows())
    most = max(wanted.values(), default=0)
    return most, most > 0 and wanted.get("index", 0) == 0


def effort_of(asked: pl.DataFrame, carried: pl.DataFrame, strata: pl.DataFrame) -> Effort:
    """What a next round would ask for: `asked` and `carried` as in carry_over.py; `strata` has query_id, stratum."""
    pair = ["grader", "query_id", "chunk_id"]
    placed = asked.select(pair).join(strata, on="query_id", how="left")
    new = placed.join(carried, on=pair, how="anti")
    held = placed.join(carried, on=pair, how="semi")
    touched = new["stratum"].drop_nulls().unique().sort()
    inside = held.filter(pl.col("stratum").is_in(touched.implode())).height
    return Effort(new.height, held.height, inside, tuple(touched.to_list()))


def _row(found: _Found, effort: Effort, opened: bool) -> tuple[object, ...]:
    state = "open" if opened and found.state == "due" else found.state
    head = (found.trigger, state, found.value, found.limit, found.evidence)
    if found.state != "due":
        return (*head, found.action if found.state == "watch" else "none", 0, None, None, None)
    eligible = effort.carried_in_affected if found.affected_alone else effort.carried
    again = ceil(Fraction(found.rerate, 100) * eligible)
    judge = effort.new + again if found.carries else effort.whole
    return (*head, found.action, found.rerate, judge, effort.whole - judge, judge / A_MINUTE / 60)


def _changed(
    then: Situation, now: Situation, keys: tuple[str, ...], trigger: str, action: str, rerate: int, *,
    affected_alone: bool,
) -> _Found:  # fmt: skip
    shared = [arm for arm in now.arms if arm in then.arms]
    moved = [
        f"{arm}: {key} {then.index.get(arm, {}).get(key) or 'undeclared'} -> {now.index.get(arm, {}).get(key)}"
        for arm in shared
        for key in keys
        if now.index.get(arm, {}).get(key) != then.index.get(arm, {}).get(key)
    ]
    told = any(now.index.get(arm, {}).get(key) for arm in shared for key in keys)
    if not moved:
        said = "as it was" if told else "no arm declares one under index"
        return _Found(trigger, "fine" if told else "unknown", 0.0 if told else None, 0.0, said, "")
    return _Found(
        trigger, "due", float(len(moved)), 0.0, "; ".join(moved), action.format(rerate=rerate), rerate, affected_alone
    )


def _embedding(effort: Effort, rerate: int) -> str:
    where = ", ".join(effort.strata) or "none"
    if rerate == 100:
        return f"pool the affected strata again ({where}) and judge all of them again"
    return f"pool the affected strata again ({where}), carry unchanged pairs, rate {rerate}% of those again"


def _new_arms(then: Situation, now: Situation) -> _Found:
    new = [arm for arm in now.arms if arm not in then.arms]
    families = sorted({f for a, f in now.arms.items() if f not in then.arms.values()})
    if not new and not families:
        return _Found("new_arm", "fine", 0.0, 0.0, "the arms of the key", "")
    said = [f"new arms: {', '.join(new)}"] * bool(new) + [f"new families: {', '.join(families)}"] * bool(families)
    return _Found("new_arm", "due", float(len(new) or len(families)), 0.0, "; ".join(said), ONLY_NEW)


def _growth(then: Situation, now: Situation) -> _Found:
    grown = now.chunks / then.chunks - 1
    said = f"{now.chunks} chunks, {then.chunks} at the freeze ({grown:+.1%})"
    stale = grown > GROWTH + TOUCH
    return _Found("corpus_growth", "due" if stale else "fine", grown, GROWTH, said, ONLY_NEW if stale else "")


def _unjudged(unjudged: Mapping[str, float] | None) -> _Found:
    if not unjudged:
        return _Found("unjudged", "unknown", None, ACT, "no query of the key is in the runs", "")
    worst = max(unjudged, key=lambda arm: (unjudged[arm], arm))
    said = ", ".join(f"{arm} {share:.1%}" for arm, share in sorted(unjudged.items()))
    stale = unjudged[worst] > ACT + TOUCH
    action = "judge the unjudged" if stale else ""
    return _Found("unjudged", "due" if stale else "fine", unjudged[worst], ACT, f"of the top k: {said}", action)


def _monthly(unjudged: Mapping[str, float] | None) -> _Found:
    if not unjudged:
        return _Found("monthly_unjudged", "unknown", None, WATCH, "no query of the key is in the runs", "")
    mean = sum(unjudged.values()) / len(unjudged)
    stale = mean > WATCH + TOUCH
    said = f"{mean:.1%} of the top k unjudged, the mean over {len(unjudged)} arms"
    return _Found(
        "monthly_unjudged", "due" if stale else "fine", mean, WATCH, said, "schedule judging" if stale else ""
    )


def _new_strata(then: Situation, now: Situation) -> _Found:
    new = [name for name in now.strata if name not in then.strata]
    if not new:
        return _Found("new_stratum", "fine", 0.0, 0.0, "the strata of the key", "")
    said = f"new strata: {', '.join(new)}"
    return _Found("new_stratum", "due", float(len(new)), 0.0, said, "sample the new strata and judge their pools")


def _rubric(then: Situation, now: Situation) -> _Found:
    if then.rubric == now.rubric:
        return _Found("rubric", "fine", 0.0, 0.0, f"{now.rubric[:12]}, as it was", "")
    said = f"{then.rubric[:12]} -> {now.rubric[:12]}"
    return _Found("rubric", "due", 1.0, 0.0, said, WHOLE, carries=False)


def _inputs(then: Situation, now: Situation) -> _Found:
    """Any other change of what the key was made from: small enough to wait, and never silent (P2)."""
    moved = [name for name, digest in now.sources.items() if then.sources.get(name) != digest]
    if not moved:
        return _Found("inputs", "fine", 0.0, 0.0, "log, corpus, runs and intents as they were", "")
    said = f"changed: {', '.join(moved)}"
    return _Found("inputs", "watch", float(len(moved)), 0.0, said, "refresh when it suits: no trigger asks for it yet")


def _watched(trigger: str, then: float | None, now: float | None, what: str) -> _Found:
    if now is None:
        return _Found(trigger, "unknown", None, None, "not logged", "")
    before = "not logged then" if then is None else f"{then:.1%} at the freeze"
    rose = then is not None and now - then >= ROSE - TOUCH
    action = "look at these queries: vocabulary that the corpus lacks, or results that nobody wants" if rose else ""
    limit = None if then is None else then + ROSE
    return _Found(trigger, "watch" if rose else "fine", now, limit, f"{now:.1%} of {what}, {before}", action)
