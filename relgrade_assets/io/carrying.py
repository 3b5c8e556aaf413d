"""What a study's present round carries from earlier ones, out of the ledger (P30, P43, P44).

Earlier rounds are read here as a resource: as an edge of the graph it would be a cycle. The rules are
`methods/carry_over.py`'s; which rounds may be asked is the event log's to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from relgrade_assets.io import events
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.ledger import ANSWERS
from relgrade_assets.io.study import Study
from relgrade_assets.methods import carry_over as methods
from relgrade_assets.methods import grading, sheets


@dataclass(frozen=True, slots=True)
class Carry:
    """What counts without being asked for: `frame` (carry_over.CARRIED), and how many pairs are carried all told and
    given again (P43).
    """

    frame: pl.DataFrame
    eligible: int
    rerated: int

    @property
    def digest(self) -> str:
        """Of the carried rows, in order."""
        return content_digest(self.frame)

    @property
    def by_round(self) -> dict[int, int]:
        """Carried pairs by the round they come from."""
        return methods.pairs_by_round(self.frame)

    def metadata(self) -> dict[str, object]:
        """For people who run the study; empty where the round carries nothing."""
        if not self.eligible:
            return {}
        by_round = ", ".join(f"{n} of round {r}" for r, n in self.by_round.items()) or "none"
        return {"carried": by_round, "carried_digest": self.digest, "given_again": self.rerated}


NOTHING = Carry(pl.DataFrame(schema=methods.CARRIED), 0, 0)


def takes(study: Study, pools: pl.DataFrame) -> Mapping[str, frozenset[str]]:
    """The queries of the pools that each grader takes (P30)."""
    d = study.design
    graders = [(g.name, g.takes) for g in d.graders]
    return grading.share_of_queries(pools["query_id"].to_list(), seed=d.seed, graders=graders)


def carried(study: Study, pools: pl.DataFrame, intents: pl.DataFrame, query_sample: pl.DataFrame) -> Carry:
    """The grades of earlier rounds that count in the present one, with those left out that are given again."""
    sources = events.carried_from(study.log, study.round)
    opened = events.opening(study.log, study.round)
    if not sources or opened is None:
        return NOTHING
    asked, found = asked_and_carried(study, sources, pools, intents, query_sample, round=study.round)
    strata = query_sample.select("query_id", "stratum")
    again = methods.rerated(
        found,
        percent=int(str(opened.body.get("rerate", 0))),
        seed=study.design.seed,
        round=study.round,
        queries=methods.affected(asked, found, strata) if opened.body.get("rerate_in") == "affected" else None,
    )
    pairs = found.select(methods.PAIR).unique().height
    return Carry(found.join(again, on=methods.PAIR, how="anti", maintain_order="left"), pairs, again.height)


def asked_and_carried(
    study: Study,
    sources: Sequence[methods.Source],
    pools: pl.DataFrame,
    intents: pl.DataFrame,
    query_sample: pl.DataFrame,
    *,
    round: int,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What `round` asks the key's graders for (carry_over.asked), and the ledger's answers of the rounds in `sources`
    that count for it (carry_over.CARRIED).
    """
    contents = sheets.contents(pools, intents, query_sample, study.corpus, round=round)
    asked = methods.asked(contents, takes(study, pools))
    graders = study.design.key_graders
    answers = [study.ledger.answers(study.name, s.round, graders) for s in sources]
    found = methods.carried(
        asked,
        pl.concat([pl.DataFrame(schema=pl.Schema(ANSWERS)), *answers]),
        sources=sources,
        relevant_from=study.design.scale.relevant_from,
    )
    return asked, found


def earlier_grades(study: Study, grades: pl.DataFrame) -> pl.DataFrame:
    """P43: of the pairs that were given again, both grades: grader, query_id, chunk_id, grade, before, before_round.
    `grades` is the present round's table. Empty where nothing was.
    """
    sources = events.carried_from(study.log, study.round)
    schema = {"grader": pl.String, "query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64}
    schema_all = pl.Schema({**schema, "before": pl.Int64, "before_round": pl.Int64})
    if not sources:
        return pl.DataFrame(schema=schema_all)
    pools, intents, sample = (study.load(t) for t in ("pools", "intents", "query_sample"))
    _, before = asked_and_carried(study, sources, pools, intents, sample, round=study.round)
    given = grades.filter(pl.col("from_round") == study.round)
    both = given.join(before, on=["grader", *methods.PAIR], how="inner", suffix="_before", maintain_order="left")
    return both.select(*schema, before="grade_before", before_round="from_round_before")
