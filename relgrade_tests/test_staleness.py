"""P43's triggers by hand, each at its edge; and a year of changes in which the right ones are due in the right months,
grades carry only as P44 allows, and the judging that is saved is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl
import pytest
import tiny
from a_year import DEPTH, JUDGED, REFRESHES, RUBRIC, SAVED, STRATUM, World, actions, truth, year

from relgrade_assets.methods import carry_over, measures, pooling, queries, sheets, staleness
from relgrade_assets.methods.carry_over import PAIR, Source
from relgrade_assets.methods.staleness import Effort, Situation
from relgrade_assets.schemas import TABLES

THEN = Situation(
    chunks=100,
    arms={"old": "lexical", "new": "dense"},
    index={"new": {"mapping": "m1", "analyser": "a1", "embedding": "e1"}},
    strata=("head", "tail"),
    rubric="r" * 64,
    sources={"query_log": "l", "corpus": "c", "run_files": "f", "intent_file": "i"},
    zero_results=0.10,
    zero_clicks=0.30,
)
EFFORT = Effort(new=30, carried=101, carried_in_affected=50, strata=("head",))
KNOWN = {"old": 0.05, "new": 0.15}


def look(now: Situation, unjudged: dict[str, float] | None = KNOWN, **more: object) -> dict[str, dict[str, object]]:
    frame = staleness.staleness(THEN, now, unjudged, EFFORT, **more)  # type: ignore[arg-type]
    TABLES["staleness"].model.validate(frame)
    return {row["trigger"]: row for row in frame.to_dicts()}


def index(**changed: str) -> Situation:
    return replace(THEN, index={"new": {**THEN.index["new"], **changed}})


@pytest.mark.parametrize(
    ("trigger", "now", "unjudged", "judge"),
    [
        ("index", index(mapping="m2"), KNOWN, 30 + 21),
        ("index", index(analyser="a2"), KNOWN, 30 + 21),
        ("embedding", index(embedding="e2"), KNOWN, 30 + 10),
        ("new_arm", replace(THEN, arms={**THEN.arms, "rrf": "fused"}), KNOWN, 30),
        ("new_arm", replace(THEN, arms={"old": "lexical", "new": "late"}), KNOWN, 30),
        ("corpus_growth", replace(THEN, chunks=121), KNOWN, 30),
        ("unjudged", THEN, {"old": 0.0, "new": 0.31}, 30),
        ("new_stratum", replace(THEN, strata=("head", "tail", "error")), KNOWN, 30),
        ("rubric", replace(THEN, rubric="s" * 64), KNOWN, 131),
        ("monthly_unjudged", THEN, {"old": 0.15, "new": 0.27}, 30),
    ],
)
def test_each_trigger_is_due_alone_with_its_action_and_effort(
    trigger: str, now: Situation, unjudged: dict[str, float], judge: int
) -> None:
    """P43: what must be judged is the new pairs and the overlap; the rest is saved; two judgments a minute."""
    found = look(now, unjudged)
    assert [t for t, row in found.items() if row["state"] == "due"] == [trigger]
    row = found[trigger]
    assert (row["pairs_to_judge"], row["pairs_carried"]) == (judge, 131 - judge)
    assert row["hours"] == pytest.approx(judge / 120)
    assert row["action"] != "none" and row["evidence"]


@pytest.mark.parametrize(
    ("trigger", "now", "unjudged"),
    [
        ("corpus_growth", replace(THEN, chunks=120), KNOWN),
        ("corpus_growth", replace(THEN, chunks=50), KNOWN),
        ("unjudged", THEN, {"old": 0.0, "new": 0.30}),
        ("monthly_unjudged", THEN, {"old": 0.10, "new": 0.30}),
        ("new_arm", replace(THEN, arms={"old": "lexical"}), KNOWN),
        ("new_stratum", replace(THEN, strata=("head",)), KNOWN),
    ],
)
def test_at_the_limit_or_with_less_nothing_is_due(trigger: str, now: Situation, unjudged: dict[str, float]) -> None:
    """P43: over 20%, over 30%; an arm or stratum that is gone asks for no judging."""
    found = look(now, unjudged)
    assert found[trigger]["state"] == "fine" and not staleness.due(_frame(now, unjudged))


def _frame(now: Situation, unjudged: dict[str, float] | None = KNOWN) -> pl.DataFrame:
    return staleness.staleness(THEN, now, unjudged, EFFORT)


def test_nothing_is_said_where_nothing_tells() -> None:
    """P43: absent is not fine."""
    bare = replace(THEN, index={}, zero_results=None, zero_clicks=None)
    found = {r["trigger"]: r for r in staleness.staleness(bare, bare, None, EFFORT).to_dicts()}
    unknown = {t for t, row in found.items() if row["state"] == "unknown"}
    assert unknown == {"index", "embedding", "unjudged", "monthly_unjudged", "zero_results", "zero_clicks"}


def test_any_other_change_of_inputs_is_watched() -> None:
    """P2, P43: never silent, and no reason to judge by itself."""
    found = look(replace(THEN, sources={**THEN.sources, "corpus": "d"}))
    assert found["inputs"]["state"] == "watch" and found["inputs"]["evidence"] == "changed: corpus"
    assert staleness.due(_frame(replace(THEN, sources={**THEN.sources, "corpus": "d"}))) == []


@pytest.mark.parametrize(("now", "state"), [(0.149, "fine"), (0.15, "watch"), (0.0, "fine")])
def test_zero_results_and_clicks_are_watched(now: float, state: str) -> None:
    """P43."""
    found = look(replace(THEN, zero_results=now, zero_clicks=now + 0.2))
    assert found["zero_results"]["state"] == found["zero_clicks"]["state"] == state


def test_zero_shares_by_hand() -> None:
    """P43: 2 of 10 searches without a result; 4 of 10 of queries that nobody clicked on."""
    frame = pl.DataFrame({"count": [6, 4], "results": [5, 3], "clicks": [3, 0]})
    assert queries.zero_shares(frame) == (0.2, 0.4)
    none = pl.DataFrame({"count": [6], "results": [None], "clicks": [None]}, schema_overrides={"results": pl.Int64})
    assert queries.zero_shares(none.cast({"clicks": pl.Int64})) == (None, None)


def test_a_round_that_was_opened_for_it_meets_the_trigger() -> None:
    """P43: once acted on, it isn't acted on again."""
    found = look(replace(THEN, chunks=200), opened=True)
    assert found["corpus_growth"]["state"] == "open"


def test_rejudge_all_and_another_overlap() -> None:
    """P43: `rejudge: all` is selectable; the overlap is the design's."""
    assert look(index(embedding="e2"), rejudge="all")["embedding"]["pairs_to_judge"] == 30 + 50
    assert look(index(mapping="m2"), rerate=50)["index"]["pairs_to_judge"] == 30 + 51
    assert staleness.rerate_of(_frame(index(embedding="e2"))) == (20, True)
    assert staleness.rerate_of(_frame(index(embedding="e2", mapping="m2"))) == (20, False)
    assert staleness.rerate_of(_frame(replace(THEN, chunks=121))) == (0, False)


# a year

IDS = tiny.query_ids()
STRATA = pl.DataFrame({"query_id": list(IDS.values()), "stratum": [STRATUM[q] for q in IDS]})
TEXT_OF = {i: q for q, i in IDS.items()}


@dataclass
class Keeper:
    """Who keeps the key up with the pure functions alone: what was answered, what the last key was made from."""

    world: World
    answers: pl.DataFrame
    sources: list[Source]
    key: pl.DataFrame
    round: int = 1


def contents(world: World) -> pl.DataFrame:
    pools = pooling.pools(pooling.contributions(world.runs(IDS), DEPTH), world.corpus_frame())
    sample = pl.DataFrame({"query_id": list(IDS.values()), "query": list(IDS)})
    intents = sample.select("query_id", round=pl.lit(1, pl.Int64), intent=pl.col("query") + "?")
    return sheets.contents(pools, intents, sample, world.corpus_frame(), round=1)


def situation(world: World) -> Situation:
    return Situation(
        chunks=len(world.corpus),
        arms={a: family for a, (family, _) in world.arms.items()},
        index={a: {"embedding": e} for a, (_, e) in world.arms.items()},
        strata=("head", "torso", "tail"),
        rubric=sheets.rubric_digest(world.rubric),
        sources={"corpus": str(hash(tuple(world.corpus.items())))},
    )


def judged(world: World, rows: pl.DataFrame, round_: int) -> pl.DataFrame:
    """Answers of an honest grader to rows that were asked for."""
    rubric = sheets.rubric_digest(world.rubric)
    digests = [sheets.row_digest(*r, rubric) for r in rows.select("query", "intent", "header", "text").rows()]
    grades = [truth(TEXT_OF[q], c) for q, c in rows.select(PAIR).rows()]
    return rows.select("grader", *PAIR).with_columns(
        round=pl.lit(round_, pl.Int64), reason=pl.lit("so"), grade=pl.Series(grades, dtype=pl.Int64),
        unrateable=False, judge_later=False, corpus_cleanup=False, answered_at=pl.lit("2026"),
        row_digest=pl.Series(digests, dtype=pl.String),
    )  # fmt: skip


def unjudged(world: World, key: pl.DataFrame) -> dict[str, float]:
    found = measures.evaluate(
        world.runs(IDS), key, ["Judged@5"], relevant_from=1, gain="exponential", arms=list(world.arms),
        query_ids=sorted(key["query_id"].unique()),
    )  # fmt: skip
    return {arm: 1 - share for arm, share in found.group_by("arm").agg(pl.col("judged").mean()).sort("arm").rows()}


def test_a_year_of_changes_by_the_pure_functions(record_property: pytest.RecordProperty) -> None:
    """P43, P44: twelve months, two new arms, one embedding and one rubric change: the right actions in the right months
    and in no other; every carried grade is an answer to the very row as it reads; what is saved is told beforehand.
    """
    months = year()
    first = carry_over.asked(contents(months[0]), {"ann": frozenset(IDS.values())})
    answers = judged(months[0], first, 1)
    keeper = Keeper(
        months[0], answers, [Source(1, sheets.rubric_digest(RUBRIC))], answers.select(*PAIR, "grade").sort(PAIR)
    )
    asked_for = saved = 0
    for month, world in enumerate(months[1:], start=1):
        asked = carry_over.asked(contents(world), {"ann": frozenset(IDS.values())})
        rubric = sheets.rubric_digest(world.rubric)
        sources = [s for s in keeper.sources if s.rubric_digest == rubric]
        held = carry_over.carried(asked, keeper.answers, sources=sources, relevant_from=1)
        effort = staleness.effort_of(asked, held, STRATA)
        frame = staleness.staleness(situation(keeper.world), situation(world), unjudged(world, keeper.key), effort)
        wanted = REFRESHES.get(month)
        assert actions(frame) == (wanted.actions if wanted else {}), (month, frame.select("trigger", "evidence").rows())
        if wanted is None:
            continue
        keeper.round += 1
        percent, affected = staleness.rerate_of(frame)
        assert percent == wanted.rerate
        among = carry_over.affected(asked, held, STRATA) if affected else None
        again = carry_over.rerated(held, percent=percent, seed="7", round=keeper.round, queries=among)
        kept = held.join(again, on=PAIR, how="anti")
        assert kept.is_empty() if "rubric" in wanted.actions else not kept.is_empty()
        by_digest = {(r["round"], r["query_id"], r["chunk_id"], r["row_digest"]) for r in keeper.answers.to_dicts()}
        present = {(q, c): r for q, c, *r in asked.select(*PAIR, "query", "intent", "header", "text").rows()}
        for n, q, c, grade in kept.select("from_round", *PAIR, "grade").rows():
            assert (n, q, c, sheets.row_digest(*present[q, c], rubric)) in by_digest
            assert grade == truth(TEXT_OF[q], c)
        given = judged(world, asked.join(kept, on=PAIR, how="anti"), keeper.round)
        told = frame.filter(pl.col("state") == "due").sort("pairs_to_judge").row(-1, named=True)
        assert (told["pairs_to_judge"], told["pairs_carried"]) == (given.height, kept.height), "as the sheet then holds"
        assert (given.height, kept.height) == (wanted.judged, wanted.saved), month
        asked_for += given.height
        saved += kept.height
        keeper.answers = pl.concat([keeper.answers, given.select(keeper.answers.columns)])
        keeper.sources = [Source(keeper.round, rubric), *keeper.sources]
        keeper.world = world
        keeper.key = pl.concat([given.select(*PAIR, "grade"), kept.select(*PAIR, "grade")]).sort(PAIR)
        assert keeper.key.height == asked.height and keeper.key.select(PAIR).is_unique().all()
    record_property("judged", asked_for)
    record_property("saved", saved)
    print(f"a year: {asked_for} pairs judged, {saved} saved by carry-over")
    assert (asked_for, saved) == (JUDGED, SAVED)
