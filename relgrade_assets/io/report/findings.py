"""What a report says: tables of ids and numbers, gathered from a study's own (P37-P40), and apart from them the words
that only the study's owner may read (P41).

`Findings` has no field for the text of a query, an intent, a chunk or a reason, so that a page made of findings alone
can't show any. Nothing is drawn and nothing written here; what is computed is methods/'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from relgrade_assets.io import events
from relgrade_assets.io.frames import read_table
from relgrade_assets.io.publication import pseudonyms
from relgrade_assets.io.standing import Standing, standing_of
from relgrade_assets.io.study import Study
from relgrade_assets.methods import grading, habits, report_tables
from relgrade_assets.methods.agreement import KEY_AUDITOR
from relgrade_assets.methods.key import key_digest
from relgrade_assets.methods.planning import Effort

PAIR = ["query_id", "chunk_id"]
COEFFICIENTS = ("weighted_kappa", "binary_kappa", "alpha", "ac2", "disagreement", "two_step")


@dataclass(frozen=True, slots=True)
class Round:
    """One round as it went: why it was opened, its gates, its key and how that stands, the arms' headline then."""

    round: int
    cause: str
    gates: tuple[tuple[str, float | None, str], ...]
    key: str
    status: str
    headline: tuple[tuple[str, float | None, float | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything of the public report. Frames are named after what they stand for; see methods/report_tables.py and
    schemas.py for their columns.
    """

    experiment: str
    title: str
    round: int
    key: str
    standing: Standing | None
    headline: str
    estimand: str
    labels: tuple[tuple[int, str], ...]
    depth: int
    queries: int
    pairs: int
    arms: tuple[tuple[str, str], ...]
    graders: tuple[tuple[str, str, str], ...]
    deviations: tuple[tuple[str, str], ...]
    habits: tuple[str, ...]
    verdicts: pl.DataFrame
    agreement: pl.DataFrame
    confusion: pl.DataFrame
    arm_measures: pl.DataFrame
    comparisons: pl.DataFrame
    side_by_side: pl.DataFrame
    movers: pl.DataFrame
    unjudged: pl.DataFrame
    overlap: pl.DataFrame
    trust: pl.DataFrame
    grader_checks: pl.DataFrame
    next_study: pl.DataFrame
    rounds: tuple[Round, ...]

    def plain(self) -> dict[str, Any]:
        """All of it as what JSON holds: what a leak check looks through (P41)."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class Words:
    """What only the owner may read: query and intent by query id, and the disagreements with both reasons (P30)."""

    queries: Mapping[str, str]
    intents: Mapping[str, str]
    disagreements: pl.DataFrame


def findings_of(study: Study, tables: Mapping[str, pl.DataFrame], *, public: bool) -> Findings:
    """The findings of a study's present round; graders by pseudonym where `public` (P42).

    `tables`: those that schemas.TABLES["report"] names. Of them only ids, numbers and the program's own words are
    taken.
    """
    d = study.design
    names = pseudonyms(d) if public else {}
    key = tables["frozen_key"].select(*PAIR, "grade")
    sample = tables["query_sample"].drop("query")
    measures = tables["query_measures"]
    combined = grading.combine(tables["grades"], order=d.key_graders, rule=d.combine)
    audited = combined.select(*PAIR, a="grade").join(tables["audit_grades"].select(*PAIR, b="grade"), on=PAIR)
    effort = Effort(len(d.arms), d.depth, None)
    by_grader = pl.col("check").str.ends_with("_by_family")  # whose subjects are grader~family
    trust = pl.concat(
        [_renamed(tables["pool_trust"].filter(by_grader), "subject", names), tables["pool_trust"].filter(~by_grader)]
    )
    return Findings(
        experiment=study.name,
        title=d.title,
        round=study.round,
        key=key_digest(key),
        standing=standing_of(study.log, study.round),
        headline=d.headline,
        estimand=d.estimand,
        labels=tuple((g.grade, g.label) for g in d.scale.grades),
        depth=d.depth,
        queries=key["query_id"].n_unique(),
        pairs=key.height,
        arms=tuple((a.name, a.family) for a in d.arms),
        graders=(
            *((names.get(g.name, g.name), g.kind, g.family) for g in d.graders),
            (names.get(d.auditor.name, d.auditor.name), d.auditor.kind, d.auditor.family),
        ),
        deviations=tuple((x.code, x.reason) for x in d.deviations),
        habits=tuple(_habits(study, sample, tables["arm_measures"])),
        verdicts=tables["verdicts"].select("gate", "threshold", "value", "verdict", "why"),
        agreement=_renamed(tables["agreement"], "comparison", names).filter(pl.col("statistic").is_in(COEFFICIENTS)),
        confusion=report_tables.confusion(audited.select("query_id", "a", "b"), labels=d.scale.labels, seed=d.seed),
        arm_measures=tables["arm_measures"],
        comparisons=tables["arm_comparisons"].drop("moved", "moved_by"),
        side_by_side=report_tables.side_by_side(measures, sample, d.headline),
        movers=report_tables.movers(tables["arm_comparisons"], d.headline),
        unjudged=report_tables.unjudged_by_rank(tables["runs"], key),
        overlap=report_tables.overlap(tables["contributions"], key, relevant_from=d.scale.relevant_from),
        trust=trust,
        grader_checks=_renamed(tables["grader_checks"], "grader", names),
        next_study=report_tables.next_study(measures, sample, d.headline, effort),
        rounds=tuple(_rounds(study)),
    )


def words_of(tables: Mapping[str, pl.DataFrame]) -> Words:
    """The words of the private report."""
    return Words(
        dict(tables["query_sample"].select("query_id", "query").iter_rows()),
        dict(tables["intents"].select("query_id", "intent").iter_rows()),
        tables["disagreements"],
    )


def _rounds(study: Study) -> list[Round]:
    """Every round that was opened, from what it left behind. Their keys are never compared (P4)."""
    found = []
    log = study.log
    for number in sorted({e.round for e in log if e.kind == "opened"} | {study.round}):
        opening = events.opening(log, number)
        standing = standing_of(log, number)
        gates = _stored(study, "verdicts", number)
        arms = _stored(study, "arm_measures", number)
        if arms is not None:
            arms = arms.filter((pl.col("measure") == study.design.headline) & (pl.col("scope") == "headline"))
        found.append(
            Round(
                number,
                str(opening.body["cause"]) if opening else "",
                () if gates is None else tuple(gates.sort("gate").select("gate", "value", "verdict").rows()),
                standing.key if standing else "",
                standing.status if standing else "not frozen",
                () if arms is None else tuple(arms.sort("arm").select("arm", "value", "low", "high").rows()),
            )
        )
    return found


def _stored(study: Study, table: str, number: int) -> pl.DataFrame | None:
    path = study.path(table, number)
    return read_table(path) if path.is_file() else None


def _habits(study: Study, sample: pl.DataFrame, arm_measures: pl.DataFrame) -> list[str]:
    """P45: habits that spoil judgments, where this study has them, and two to keep from."""
    shown = [*habits.of_study(study.design, sample), *habits.of_scores(arm_measures.filter(pl.col("scope") == "plain"))]
    return [
        *(f"{text[0].upper()}{text[1:]}." for text in (notice.text for notice in shown)),
        "An unjudged chunk counts as not relevant. An arm that was not pooled is scored lower than it deserves: "
        "pool it and judge what is new before it is compared.",
        "After a change of the embedding model, pool again and judge what is new before this key is reused.",
    ]


def _renamed(frame: pl.DataFrame, column: str, names: Mapping[str, str]) -> pl.DataFrame:
    """Graders in a column of names joined by ~, renamed; other parts stay."""

    def renamed(text: str) -> str:
        return "~".join(names.get(part, part) for part in text.split("~"))

    return frame.with_columns(pl.col(column).map_elements(renamed, return_dtype=pl.String)) if names else frame


def _plain(value: object) -> object:
    if isinstance(value, pl.DataFrame):
        return value.to_dicts()
    if isinstance(value, Standing):
        return value.record()
    if isinstance(value, Round):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value


__all__ = ["COEFFICIENTS", "KEY_AUDITOR", "Findings", "Round", "Words", "findings_of", "words_of"]
