"""`relgrade check`: read everything that an experiment names, and list every fault of every file at once (P1-P6).
Changes nothing, and makes nothing: no ledger, no table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import polars as pl

from relgrade_assets.errors import Fault, Notice, NotThere, Refused, Waiting
from relgrade_assets.io.experiment_file import read_sound_parts
from relgrade_assets.io.home import Home
from relgrade_assets.io.ledger import REVIEWS
from relgrade_assets.io.readers.intents import read_intents
from relgrade_assets.io.readers.matching import match_run
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.io.refreshing import reused
from relgrade_assets.io.study import Study, open_study
from relgrade_assets.io.worksheets import filled_in, labelled
from relgrade_assets.methods import habits, planning, sampling, strata
from relgrade_assets.methods import intents as intent_methods
from relgrade_assets.methods import queries as query_methods
from relgrade_assets.protocol.design import Arm, Design

T = TypeVar("T")
_OF_TEMPLATE = "say in a line what is compared", "Delete this paragraph."
"""What templates/ asks to replace, in the title and in the rubric."""
_OF_SAMPLE = {"query_log", "strata", "seed", "private"}


@dataclass
class Report:
    """What a check found: refusals (each with its faults), what is waited for, and counted oddities."""

    refused: list[Refused] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def look(self, at: Callable[[], T]) -> T | None:
        """What `at` gives, or None where it refuses or waits, which is kept."""
        try:
            return at()
        except Refused as refused:
            self.refused.append(refused)
        except NotThere as missing:
            self.waiting.append(missing.waiting)
        return None


def check(home: Home, name: str) -> Report:
    """Check an experiment: its design, then every file that the design names as far as that part of it is sound,
    whether or not another is at fault. Raises Refused where there is no such experiment.

    Once log and strata give the sample, the intents are linted, their reviews counted and each run matched with it.
    """
    report = Report()
    own = frozenset(Design.model_fields)
    folder = home.folder(name)
    study = report.look(lambda: open_study(home, name))
    if study is None:
        parts = read_sound_parts(folder / "experiment.yaml", name="experiment.yaml")
        if parts is None:
            return report
        study, own = Study(home, name, folder, parts[0]), parts[1]
    sample = _files(study, own, report)
    report.notices += study.notices
    if own >= {"arms", "graders", "strata"}:
        report.notices += habits.of_study(study.design, sample)
        report.notices += _coarse(study.design, sample)
    if own == frozenset(Design.model_fields):
        report.notices += report.look(lambda: reused(study)) or ()
    return report


def _coarse(d: Design, sample: pl.DataFrame | None) -> list[Notice]:
    """P11: strata in which one query moves a mean far; of the design's targets where no sample is drawn yet."""
    strata_ = {p.name: p.target for p in d.strata.parts}
    if sample is not None:
        strata_ = {name: sample.filter(pl.col("stratum") == name).height for name in strata_}
    said = planning.plan_notes(planning.plan(strata_, {}, planning.Effort(len(d.arms), d.depth, None)))
    return [Notice("coarse", len(said), "; ".join(said))] if said else []


def _files(study: Study, own: frozenset[str], report: Report) -> pl.DataFrame | None:
    """Look at every file; the sample where it can be drawn."""
    rubric = report.look(lambda: study.rubric_file) if "rubric" in own else None
    study.notices += rubric.notices if rubric else ()
    report.notices += left_of_the_template(study.design.title if "title" in own else "", study.rubric if rubric else "")
    whole = rubric is not None and own >= set(Design.model_fields)
    readable = report.look(lambda: _ledger(study, whole=whole))
    sample = None
    if own >= _OF_SAMPLE:
        sample = report.look(lambda: _sample(study))
    elif "query_log" in own:
        report.look(study.query_log)
    corpus = report.look(lambda: study.corpus) if "corpus" in own else None
    if "intents" in own:
        owed = report.look(lambda: _intents(study, sample, recorded=bool(readable)))
        report.waiting += [owed] if owed else []
    for arm in study.design.arms if "arms" in own else ():
        report.look(lambda arm=arm: _run(study, arm, sample, corpus))  # type: ignore[misc]
    return sample


def left_of_the_template(title: str, rubric: str) -> list[Notice]:
    """What `relgrade init` wrote to be replaced, and still stands (P6): graders and readers of the key would see it."""
    found = []
    if _OF_TEMPLATE[0] in title:
        found.append(Notice("template_title", 1, "experiment.yaml's title is still the template's; it is published"))
    if _OF_TEMPLATE[1] in rubric:
        text = "the rubric still holds the template's paragraph on what to change; graders would read it"
        found.append(Notice("template_rubric", 1, text))
    return found


def _ledger(study: Study, *, whole: bool) -> bool:
    """Read the event log, where there is one, and hold the protocol against it (P2). True where it can be read."""
    if study.log and whole:
        study.require_protocol_of_round()
    return True


def _sample(study: Study) -> pl.DataFrame | None:
    """The query sample as it will be drawn; None where the ids of a private log are not drawn yet."""
    d = study.design
    secret = study.known_secret
    q = query_methods.distinct(study.query_log(), secret=secret or "", window_days=d.query_log.window_days)
    tiers = query_methods.with_tiers(
        q,
        head_traffic=d.strata.head_traffic,
        head_at_most=d.strata.head_at_most,
        torso_to_rank=d.strata.torso_to_rank,
    )
    frame = strata.assign(tiers, d, labelled(study))
    closing = sampling.shares_close(frame, d)
    if not closing.passed:
        raise Refused("The strata's shares don't close", [Fault("strata.parts", closing.text, "a sum of 1 (P9)")])
    strata.spot_check(frame, d, filled_in(study))
    drawn = sampling.draw(frame, d)
    study.notices += sampling.shortfalls(drawn, d)
    return drawn if secret is not None or d.query_log.columns.query_id is not None else None


def _intents(study: Study, sample: pl.DataFrame | None, *, recorded: bool) -> Waiting | None:
    """What intents still owe, reviews included (P16, P17)."""
    named = study.design.intents.file
    study.named(named)
    besides = None if sample is None else intent_methods.row_check(sample)
    read = read_intents(study.file(named), name=named, besides=besides)
    study.notices += read.notices
    if sample is None:
        return None
    there = recorded and study.has_ledger
    outcome = intent_methods.lock(
        sample,
        read.frame,
        study.ledger.reviews(study.name) if there else pl.DataFrame(schema=REVIEWS),
        round=study.round if there else 1,
        reviewers={study.design.auditor.name},
        unreviewed_ok=study.design.declared("unreviewed_intents"),
    )
    if isinstance(outcome, Waiting):
        return outcome
    study.notices += outcome.notices
    return None


def _run(study: Study, arm: Arm, sample: pl.DataFrame | None, corpus: pl.DataFrame | None) -> None:
    """A run's file alone, and where they are known against sample and corpus (P15)."""
    study.named(arm.run)
    read = read_run(
        study.file(arm.run),
        name=arm.run,
        format=arm.format,
        score_order=arm.score_order,
        order=arm.order,
        duplicates=arm.duplicates,
    )
    study.notices += read.notices
    if sample is not None:
        matched = match_run(
            read.frame,
            arm=arm.name,
            name=arm.run,
            query_ids=sample["query_id"].to_list(),
            corpus_ids=None if corpus is None else corpus["chunk_id"],
            may_be_partial=study.design.declared("missing_arm"),
        )
        study.notices += matched.notices
