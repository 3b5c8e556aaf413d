"""How sensors and schedules look at every experiment, and ask for one run each time that something is newly seen.

Dagster starts a run key once and for ever, and a change that was taken back and made again reads like the first one. So
a sensor's run key names what is seen and since when; its cursor keeps that from tick to tick.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import dagster as dg

from relgrade_assets.assets.build import EXPERIMENT
from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io.study import Study
from relgrade_assets.io.turns import taken
from relgrade_assets.resources.studies import Studies

REASON = "relgrade/reason"
T = TypeVar("T")


def each(
    context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext,
    studies: Studies,
    look: Callable[[Study], T | None],
) -> dict[str, T]:
    """What `look` finds in each known experiment; those that can't be read, or wait for a file, are passed over."""
    known = set(context.instance.get_dynamic_partitions(str(EXPERIMENT.name)))
    found = {}
    for name in studies.home.names():
        try:
            seen = look(studies.study(name)) if name in known else None
        except (Refused, NotThere, dg.Failure):
            continue
        if seen is not None:
            found[name] = seen
    return found


def at_work(studies: Studies) -> set[str]:
    """Experiments whose tables some run makes at this moment; a sensor asks for nothing there until it ends."""
    return {name for name in studies.home.names() if taken(studies.home, name)}


def run_keys(
    found: Mapping[str, str], cursor: str | None, *, at: datetime, busy: Collection[str] = ()
) -> tuple[dict[str, str], str]:
    """A run key for each that is found (experiment to a digest of what is seen of it), and the next cursor.

    A key stays from tick to tick while the same is found, so that its run starts once; what was not found at one tick
    is new at the next. What is `busy` gets no key, and is remembered as it was. A sensor that lost its cursor takes
    all for new: one run more, never one less.
    """
    before: dict[str, list[str]] = json.loads(cursor or "{}")
    found = {name: digest for name, digest in found.items() if name not in busy}
    since = {
        name: before[name][1] if before.get(name, [""])[0] == digest else at.isoformat(timespec="microseconds")
        for name, digest in found.items()
    }
    kept = {name: before[name] for name in busy if name in before}
    kept |= {name: [digest, since[name]] for name, digest in found.items()}
    return {name: f"{name}:{found[name]}:{since[name]}" for name in found}, json.dumps(kept, sort_keys=True)


def sought(
    context: dg.SensorEvaluationContext,
    studies: Studies,
    look: Callable[[Study], T | None],
    digest: Callable[[T], str],
) -> tuple[dict[str, tuple[T, str]], str]:
    """What `look` finds where no run is at work, by experiment, with the run key to ask for; and the next cursor.
    `digest` tells one find from another.
    """
    busy = at_work(studies)  # before the look: what a run changes meanwhile is for the next tick
    found = each(context, studies, look)
    seen = {name: digest(one) for name, one in found.items()}
    keys, cursor = run_keys(seen, context.cursor, at=studies.clock(), busy=busy)
    return {name: (found[name], key) for name, key in keys.items()}, cursor


def asked(
    requests: Iterable[dg.RunRequest],
    cursor: str,
    *,
    otherwise: str,
    told: Sequence[dg.AssetObservation] = (),
) -> dg.SensorResult:
    """What a tick came to: the runs it asks for and what is `told` with them, or why there are none; its cursor in both
    cases.
    """
    found = list(requests)
    skipped = None if found else dg.SkipReason(otherwise)
    return dg.SensorResult(run_requests=found, cursor=cursor, asset_events=told, skip_reason=skipped)
