"""How stale a study's key is (P43): what it was made from, out of the key store, against what there is now, and what a
refresh would cost.

The triggers are `methods/staleness.py`'s; opening the next round is `rounds.py`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from relgrade_assets.errors import Notice, Waiting
from relgrade_assets.io import carrying, events
from relgrade_assets.io.readers.intents import read_intents
from relgrade_assets.io.rounds import INPUTS, opening_body, same_inputs
from relgrade_assets.io.study import Study
from relgrade_assets.methods import habits, measures, staleness
from relgrade_assets.methods.measure_names import parse
from relgrade_assets.methods.queries import zero_shares
from relgrade_assets.methods.staleness import Effort, Situation
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.protocol.design import Refresh
from relgrade_assets.schemas import SOURCES, TABLES

TOP = 10
"""Depth of the top that is looked at for unjudged chunks, where the headline names none."""


def baseline(study: Study) -> dict[str, Any]:
    """What key.json keeps for later refreshes: counts and versions that P43's triggers compare with. The digests of the
    files are in the opening of the round: other bytes may say the same, and the key is the same then (P33).
    """
    now = present(study, study.load("queries"))
    return {
        "chunks": now.chunks,
        "strata": list(now.strata),
        "index": {arm: dict(index) for arm, index in now.index.items()},
        "zero_results": now.zero_results,
        "zero_clicks": now.zero_clicks,
    }


def present(study: Study, queries: pl.DataFrame) -> Situation:
    """What there is now."""
    d = study.design
    no_results, no_clicks = zero_shares(queries)
    return Situation(
        chunks=study.corpus.height,
        arms={a.name: a.family for a in d.arms},
        index={a.name: a.index.model_dump() for a in d.arms if a.index is not None},
        strata=tuple(p.name for p in d.strata.parts),
        rubric=digest(study.rubric),
        sources={name: study.source_digest(name) for name in INPUTS},
        zero_results=no_results,
        zero_clicks=no_clicks,
    )


def last_frozen(study: Study) -> int | None:
    """The latest round that has a key; None where none has."""
    return max((e.round for e in study.log if e.kind == "frozen"), default=None)


def reused(study: Study) -> tuple[Notice, ...]:
    """P45: that the latest key was pooled under another embedding than an arm has now, until a round is opened on what
    there is.
    """
    round_ = last_frozen(study)
    if round_ is None or (study.round > round_ and same_inputs(study)):
        return ()
    made = json.loads(study.keys.load(study.name, round_)["key.json"])
    then = {a["name"]: made["baseline"]["index"].get(a["name"], {}).get("embedding") for a in made["arms"]}
    return habits.of_reuse(then, {a.name: a.index.embedding if a.index else None for a in study.design.arms})


def stale(
    study: Study, *, queries: pl.DataFrame, query_sample: pl.DataFrame, runs: pl.DataFrame, pools: pl.DataFrame
) -> pl.DataFrame | Waiting:
    """The Staleness table of the latest key; Waiting where nothing is frozen yet."""
    round_ = last_frozen(study)
    if round_ is None:
        return Waiting("no key is frozen yet")
    files = study.keys.load(study.name, round_)
    identity = json.loads(files["key.json"])
    key = pl.read_ndjson(files["key.jsonl"], schema={"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64})
    policy = study.design.refresh or Refresh()
    return staleness.staleness(
        _made_from(identity, events.opened_on(study.log, round_)),
        present(study, queries),
        _unjudged(study, key, runs, query_sample),
        effort(study, pools, query_sample),
        rerate=policy.rerate,
        rejudge=policy.rejudge,
        opened=study.round > round_ and same_inputs(study),
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What changed under a key: the tables to make again, in graph order, why, and a digest that tells one change from
    the next.
    """

    tables: tuple[str, ...]
    reason: str
    digest: str


@dataclass(frozen=True, slots=True)
class Due:
    """Triggers to act on, with the share of carried pairs to rate again, and a digest of what they were found on."""

    triggers: tuple[str, ...]
    rerate: int
    affected_alone: bool
    digest: str


def changed_under_key(study: Study, tables: Sequence[str], *, anyway: str = "") -> Change | None:
    """Which of `tables` are not current under a frozen key, with `anyway` in any case (P43). None where no key is
    frozen, where all are current, or while a file that the design names is not there.
    """
    if last_frozen(study) is None:
        return None
    made = [t for t in tables if study.path(t).is_file()]
    stale_ones = tuple(t for t in tables if t == anyway or t not in made or study.outdated(t))
    sources = {name: study.source_digest(name) for t in stale_ones for name in TABLES[t].inputs if name in SOURCES}
    if not stale_ones or None in sources.values():
        return None
    moved = [name for name, now in sources.items() if any(_seen(study, t, name) not in (now, None) for t in made)]
    why = [f"{name} {_seen_by(study, made, name)[:8]} -> {str(sources[name])[:8]}" for name in moved]
    reason = "changed under the key: " + ", ".join(why) if why else "how stale the key is was not looked at yet"
    return Change(stale_ones, reason, _since_last_look(study, tables))


def _since_last_look(study: Study, tables: Sequence[str]) -> str:
    """A digest of what there is and of what the last of `tables` was made from: it stays while they are being made, so
    that a change starts one run, and a change that is taken back is another.
    """
    now = {name: study.source_digest(name) for t in tables for name in TABLES[t].inputs if name in SOURCES}
    last = study.label(tables[-1])
    return digest([study.protocol, now, [last.protocol, last.inputs] if last else None])


def due_now(study: Study) -> Due | None:
    """Triggers that are due and on which the design says to act (P43). None where there are none, or where the table
    `staleness` is not current.
    """
    policy = study.design.refresh
    if policy is None or not policy.act_on or study.outdated("staleness"):
        return None
    frame = study.load("staleness")
    acted = tuple(t for t in staleness.due(frame) if t in policy.act_on)
    if not acted:
        return None
    percent, affected = staleness.rerate_of(frame)
    return Due(acted, percent, affected, digest([study.round, study.digest_of("staleness")]))


def _seen(study: Study, table: str, source: str) -> str | None:
    label = study.label(table)
    return label.inputs.get(source) if label else None


def _seen_by(study: Study, tables: Sequence[str], source: str) -> str:
    return next((seen for t in tables if (seen := _seen(study, t, source))), "")


def effort(study: Study, pools: pl.DataFrame, query_sample: pl.DataFrame) -> Effort:
    """What the next round would ask the key's graders for, and what it would carry (P44). A query without an intent yet
    carries nothing.
    """
    named = study.design.intents.file
    study.named(named)
    written = read_intents(study.file(named), name=named).frame.select("query_id", "intent")
    intents = query_sample.select("query_id").join(written, on="query_id", how="left").fill_null("")
    number = study.round + 1
    body = {**opening_body(study, number, cause="", what="", by=""), "carry": "unchanged", "from": study.round}
    log = [*study.log, events.Event(study.name, 0, "", "opened", body, "", "")]
    sources = events.carried_from(log, number)
    asked, found = carrying.asked_and_carried(
        study, sources, pools, intents.with_columns(round=pl.lit(number, pl.Int64)), query_sample, round=number
    )
    return staleness.effort_of(asked, found, query_sample.select("query_id", "stratum"))


def _made_from(identity: Mapping[str, Any], inputs: Mapping[str, Any]) -> Situation:
    made = identity["baseline"]
    return Situation(
        chunks=made["chunks"],
        arms={a["name"]: a["family"] for a in identity["arms"]},
        index=made["index"],
        strata=tuple(made["strata"]),
        rubric=identity["rubric_sha256"],
        sources=inputs,
        zero_results=made["zero_results"],
        zero_clicks=made["zero_clicks"],
    )


def _unjudged(
    study: Study, key: pl.DataFrame, runs: pl.DataFrame, query_sample: pl.DataFrame
) -> dict[str, float] | None:
    """Each arm's mean share of the top k without a grade in the key, over the key's queries that are still sampled."""
    both = key.join(query_sample, on="query_id", how="semi")
    if both.is_empty():
        return None
    d = study.design
    name = f"Judged@{parse(d.headline).cutoff or TOP}"
    found = measures.evaluate(
        runs,
        both,
        [name],
        relevant_from=d.scale.relevant_from,
        gain=d.scale.gain,
        arms=[a.name for a in d.arms],
        query_ids=both["query_id"].unique().sort().to_list(),
    )
    return {arm: 1 - mean for arm, mean in found.group_by("arm").agg(pl.col("judged").mean()).sort("arm").iter_rows()}
