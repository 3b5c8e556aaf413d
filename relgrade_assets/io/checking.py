"""`relgrade check`: read everything that an experiment names, and list every fault of every file at once (P1-P6).
Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from relgrade_assets.errors import Notice, Refused, Waiting
from relgrade_assets.io.home import Home
from relgrade_assets.io.readers.intents import read_intents
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.io.study import NotThere, Study, open_study
from relgrade_assets.io.worksheets import filled_in, labelled
from relgrade_assets.methods import queries as query_methods
from relgrade_assets.methods import sampling, strata


@dataclass
class Report:
    """What a check found: refusals (each with its faults), files that are waited for, and counted oddities."""

    refused: list[Refused] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


def check(home: Home, name: str) -> Report:
    """Check an experiment: its design, then every file that it names, whether or not another is at fault."""
    report = Report()
    try:
        study = open_study(home, name)
    except Refused as refused:
        report.refused.append(refused)
        return report
    for look in _looks(study):
        try:
            look()
        except Refused as refused:
            report.refused.append(refused)
        except NotThere as missing:
            report.waiting.append(missing.waiting)
    report.notices += study.notices
    return report


def _looks(study: Study) -> list[Callable[[], object]]:
    d = study.design

    def sample() -> None:
        q = query_methods.distinct(study.query_log(), secret=d.seed, window_days=d.query_log.window_days)
        tiers = query_methods.with_tiers(
            q,
            head_traffic=d.strata.head_traffic,
            head_at_most=d.strata.head_at_most,
            torso_to_rank=d.strata.torso_to_rank,
        )
        frame = strata.assign(tiers, d, labelled(study))
        closing = sampling.shares_close(frame, d)
        if not closing.passed:
            raise Refused(closing.text)
        filled_in(study)

    def intents() -> None:
        study.named(d.intents.file)
        read_intents(study.file(d.intents.file), name=d.intents.file)

    def run_of(i: int) -> Callable[[], None]:
        def look() -> None:
            arm = d.arms[i]
            study.named(arm.run)
            read = read_run(
                study.file(arm.run),
                name=arm.run,
                format=arm.format,
                score_order=arm.score_order,
                order=arm.order,
                duplicates=arm.duplicates,
            )
            study.notices.extend(read.notices)

        return look

    return [lambda: study.rubric, sample, lambda: study.corpus, intents, *(run_of(i) for i in range(len(d.arms)))]
