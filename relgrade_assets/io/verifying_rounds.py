"""Every frozen round made again from what is kept of it (P33, P34, P36): its key from its grades, its measures from key
and runs.

For `relgrade verify NAME`, of tables that are sound in themselves. Log, sample, runs and pools are shared by all rounds
and made again when a file changes: of an earlier round each check says whether it could still be done, and if not, why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from relgrade_assets.errors import Fault
from relgrade_assets.io import measuring
from relgrade_assets.io.events import Event
from relgrade_assets.io.frames import Label, content_digest
from relgrade_assets.io.judging import combined_then
from relgrade_assets.io.study import Study
from relgrade_assets.methods import key as key_methods
from relgrade_assets.schemas import TABLES

Outcome = Iterator[Fault | str]
"""Faults, and reasons in words why a check could not be done."""
Held = dict[str, tuple[pl.DataFrame, Label]]
Tables = dict[Path, tuple[pl.DataFrame, Label]]
_PAIR = ["query_id", "chunk_id"]
_OTHER_DESIGN = "experiment.yaml is another than this round's"


def parts(study: Study, log: list[Event], frozen: Event, tables: Tables) -> Iterator[tuple[str, Outcome]]:
    """The checks of one frozen round, each by its name."""
    n, key = frozen.round, str(frozen.body["key_digest"])
    held = {t: tables[study.path(t, n)] for t in TABLES if study.path(t, n) in tables}

    def about() -> Mapping[str, Any]:
        made: dict[str, Any] = json.loads(study.keys.load(study.name, n)["key.json"])
        return made

    again = {t: held[t][0] for t in ("query_measures",) if t in held}
    checks: dict[str, Callable[[], Outcome]] = {
        "tables against the key": lambda: recorded(study, held, about(), key, n),
        "the key from its grades": lambda: key_again(study, held, about(), key, n),
        "all of the pool graded": lambda: pool_graded(study, held, about(), n),
        "measures against the log": lambda: logged(study, held, log, n),
        "query_measures from key and runs": lambda: measured(study, held, n, "query_measures", again),
        "arm_measures from query_measures": lambda: measured(study, held, n, "arm_measures", again),
        "arm_comparisons from query_measures": lambda: measured(study, held, n, "arm_comparisons", again),
    }
    for what, check in checks.items():
        yield f"round {n}: {what}", _begun(check)


def _begun(check: Callable[[], Outcome]) -> Outcome:
    """Begun when it is first asked, so that what can't be read is that check's own."""
    yield from check()


def recorded(study: Study, held: Held, about: Mapping[str, Any], key: str, n: int) -> Outcome:
    """The round's own tables against the digests in key.json, and `frozen_key` against the key."""
    for table, then in about["inputs"].items():
        if table in held and TABLES[table].per_round and held[table][1].digest != then:
            found = f"content digest {held[table][1].digest}"
            yield Fault(named(study, table, n), found, f"{then}, of which the key was frozen")
    if "frozen_key" not in held:
        yield "no table frozen_key"
    elif (found := key_methods.key_digest(held["frozen_key"][0])) != key:
        yield Fault(named(study, "frozen_key", n), f"a key with sha256 {found}", f"{key}, the frozen one")


def key_again(study: Study, held: Held, about: Mapping[str, Any], key: str, n: int) -> Outcome:
    """P30, P33: the key by the round's own rule from its grades alone."""
    if "grades" not in held:
        yield "no table grades"
        return
    grades = held["grades"][0]
    combined = combined_then(study, grades, about)
    if combined is None:
        yield f"{_OTHER_DESIGN}, so whose grade comes first is not known"
        return
    pairs = grades.select(_PAIR).unique()
    made = key_methods.build(
        combined,
        pairs,
        pairs.select("query_id", stratum=pl.lit("")).unique(),
        relevant_from=about["scale"]["relevant_from"],
    )
    found = key_methods.key_digest(made.frame)
    if found != key:
        yield Fault(named(study, "grades", n), f"a key with sha256 {found}", f"{key}, the frozen one")


def pool_graded(study: Study, held: Held, about: Mapping[str, Any], n: int) -> Outcome:
    """P33: the pairs that have grades are those of the round's pools."""
    if "grades" not in held or "pools" not in held:
        yield f"no table {'pools' if 'grades' in held else 'grades'}"
        return
    (grades, _), (pools, label) = held["grades"], held["pools"]
    if label.digest != about["inputs"]["pools"]:
        yield "the pools were made again since, from other inputs"
        return
    missing, more = (a.join(b, on=_PAIR, how="anti").height for a, b in ((pools, grades), (grades, pools)))
    if missing or more:
        found = f"{missing} pooled pairs without a grade, {more} grades outside the pool"
        yield Fault(named(study, "grades", n), found, "a grade for every pooled pair, and no other")


def logged(study: Study, held: Held, log: list[Event], n: int) -> Outcome:
    """P34: the digest of what was read last of the round's measures."""
    if "query_measures" not in held:
        yield "none are stored"
        return
    digest = held["query_measures"][1].digest
    read = [e.body for e in log if e.round == n and e.kind in ("first_reading", "read_again")]
    if not read or read[-1].get("measures_digest") != digest:
        due = f"{read[-1].get('measures_digest')}, as the log has it (P34)" if read else "a reading in the log (P34)"
        yield Fault(named(study, "query_measures", n), f"content digest {digest}", due)


def measured(study: Study, held: Held, n: int, table: str, again: dict[str, pl.DataFrame]) -> Outcome:
    """P37-P39: one table of measures again, from what its label says it was made from. `again` has query_measures as
    stored; once measured again it has those, so that of two tables the altered one is named.
    """
    d, source = study.design, "runs" if table == "query_measures" else "query_sample"
    needed = [source, "frozen_key" if table == "query_measures" else "query_measures"]
    if table not in held:
        yield "none are stored"
        return
    label = held[table][1]
    lacking = [t for t in needed if t not in held]
    if lacking:
        yield f"no table {', '.join(lacking)}"
    elif label.inputs.get("design") != study.source_digest("design"):
        yield _OTHER_DESIGN
    elif label.inputs.get(source) != held[source][1].digest:
        yield f"the table {source} was made again since, from other inputs"
    else:
        if table == "query_measures":
            made = again[table] = measuring.query_measures_of(d, held["frozen_key"][0], held["runs"][0])
        else:
            make = measuring.arm_measures_of if table == "arm_measures" else measuring.arm_comparisons_of
            made = make(d, again["query_measures"], held["query_sample"][0])
        due = content_digest(made)
        if label.digest != due:
            yield Fault(named(study, table, n), f"content digest {label.digest}", f"{due}, measured again")


def named(study: Study, table: str, n: int) -> str:
    """A table of the round as faults name it: its file under the state folder."""
    return str(study.path(table, n).relative_to(study.home.state))
