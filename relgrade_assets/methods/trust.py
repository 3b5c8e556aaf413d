"""How far the pool and the key can be trusted, once the key is frozen (P40).

Everything here is the same measures on a key that is changed on purpose: unjudged chunks graded, an arm's finds taken
out, the auditor's grades, another threshold; and what the order of arms does then. From tables to schemas.PoolTrust.
Graders' errors are label_noise.py's, their liking for arms arm_bias.py's, comparisons of arms arm_tests.py's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import polars as pl

from relgrade_assets.methods.habits import ACT, WATCH
from relgrade_assets.methods.measure_names import Gain, parse
from relgrade_assets.methods.measures import evaluate
from relgrade_assets.methods.rank_correlation import places, tau_ap, tau_b

MONOTONE = ("P", "Success", "RR", "RBP")
"""Families that no higher grade can lower: the two scenarios are bounds for these alone."""
PAIR = ["query_id", "chunk_id"]
POOL_TRUST: dict[str, pl.DataType | type[pl.DataType]] = {
    "check": pl.String,
    "subject": pl.String,
    "measure": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "base": pl.Float64,
    "place": pl.Int64,
    "base_place": pl.Int64,
    "n": pl.Int64,
    "verdict": pl.String,
    "note": pl.String,
}
"""Columns of schemas.PoolTrust."""
Row = dict[str, object]
Means = dict[str, dict[str, float]]
"""Measure -> arm -> mean over the queries on which it is defined."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What was measured: `key` [query_id, chunk_id, grade], `runs` as schemas.Runs, `contributions` as theirs, the
    measures' names and how they count.
    """

    key: pl.DataFrame
    runs: pl.DataFrame
    contributions: pl.DataFrame
    names: Sequence[str]
    relevant_from: int
    gain: Gain
    top: int

    @property
    def arms(self) -> list[str]:
        """Every arm, sorted."""
        found: list[str] = self.runs["arm"].unique().sort().to_list()
        return found

    @property
    def counted(self) -> list[str]:
        """The measures that say how good an arm is: all but Judged."""
        return [name for name in self.names if parse(name).family != "Judged"]

    def values(
        self,
        qrels: pl.DataFrame,
        names: Sequence[str],
        *,
        arms: Sequence[str] = (),
        relevant_from: int | None = None,
        top: int | None = None,
    ) -> pl.DataFrame:
        """The measures of `arms` (all where empty) on `qrels`, over the queries that it has; ERR's top grade is the
        scale's unless `top` says another.
        """
        return evaluate(
            self.runs,
            qrels,
            names,
            relevant_from=relevant_from or self.relevant_from,
            gain=self.gain,
            arms=list(arms) or self.arms,
            query_ids=qrels["query_id"].unique().sort().to_list(),
            top_grade=self.top if top is None else top,
        )


def pool_trust(ground: Ground, query_measures: pl.DataFrame, audit_grades: pl.DataFrame, headline: str) -> list[Row]:
    """P40: rows of schemas.PoolTrust; `query_measures` as the key gave them, `audit_grades` [query_id, chunk_id,
    grade].

    `base` and `base_place` are what stands under the key as it is; `value` and `place` what stands then.
    """
    base = means(query_measures)
    return [
        *unjudged(query_measures),
        *scenarios(ground, base),
        *leave_one_arm_out(ground, base),
        *unique_relevant(ground),
        *under_auditor(ground, audit_grades),
        *thresholds(ground, base),
        *influence(query_measures.filter(pl.col("measure") == headline)),
    ]


def as_table(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as schemas.PoolTrust, sorted by check, subject and measure."""
    whole = [tuple(row.get(column) for column in POOL_TRUST) for row in rows]
    return pl.DataFrame(whole, schema=POOL_TRUST, orient="row").sort("check", "subject", "measure", nulls_last=False)


def means(query_measures: pl.DataFrame) -> Means:
    """The plain mean of every measure and arm over the queries on which it is defined; none where there is none."""
    found: Means = {}
    defined = query_measures.drop_nulls("value").sort("measure", "arm", "query_id")
    for (name, arm), part in defined.group_by("measure", "arm", maintain_order=True):
        values = part["value"].to_list()
        found.setdefault(str(name), {})[str(arm)] = math.fsum(values) / len(values)
    return found


def unjudged(query_measures: pl.DataFrame) -> Iterator[Row]:
    """The share of each top k that nobody judged: ok, watch from 20% and act from 30%."""
    at = {name: parse(name).cutoff for name in query_measures["measure"].unique().sort().to_list()}
    for k in sorted(set(at.values()), key=lambda k: (k is None, k or 0)):
        name = next(n for n, cutoff in at.items() if cutoff == k)
        part = query_measures.filter(pl.col("measure") == name).sort("arm", "query_id")
        for (arm,), rows in part.group_by("arm", maintain_order=True):
            each = rows["judged"].to_list()
            share = max(0.0, 1 - math.fsum(each) / len(each))
            verdict = "act" if share >= ACT - 1e-9 else "watch" if share >= WATCH - 1e-9 else "ok"
            top = f"Judged@{k}" if k else "Judged"
            yield {
                "check": "unjudged", "subject": arm, "measure": top, "value": share, "n": len(each),
                "verdict": verdict, "note": f"watch from {WATCH:.0%}, act from {ACT:.0%}",
            }  # fmt: skip


def scenarios(ground: Ground, base: Means) -> Iterator[Row]:
    """Each measure with the arm's own unjudged chunks in its top k at 0, and at the scale's top."""
    for name in ground.counted:
        measure = parse(name)
        found: dict[int, dict[str, float]] = {0: {}, ground.top: {}}
        for arm in ground.arms:
            for grade in found:
                qrels = _filled(ground, arm, measure.cutoff, grade)
                found[grade] |= means(ground.values(qrels, [name], arms=[arm])).get(name, {})
        bound = measure.family in MONOTONE
        for check, grade, said in (
            ("unjudged_at_zero", 0, "a lower bound" if bound else "a scenario, not a bound"),
            ("unjudged_at_top", ground.top, "an upper bound" if bound else "a scenario, not a bound"),
        ):
            yield from _moved(check, name, found[grade], base.get(name, {}), said)


def leave_one_arm_out(ground: Ground, base: Means) -> Iterator[Row]:
    """Each arm's score and place had it not been in the pool: the key without the chunks that it alone found."""
    alone = _alone(ground.contributions)
    for arm in ground.arms:
        less = ground.key.join(alone.filter(pl.col("arm") == arm), on=PAIR, how="anti")
        taken = ground.key.height - less.height
        then = means(ground.values(_with_relevant(less, ground.relevant_from), ground.counted))
        lost = ground.key["query_id"].n_unique() - _with_relevant(less, ground.relevant_from)["query_id"].n_unique()
        note = f"{taken} chunks only it found taken out" + (f", {lost} queries left with nothing relevant" * (lost > 0))
        for name in ground.counted:
            rows = _moved("leave_arm_out", name, then.get(name, {}), base.get(name, {}), note)
            yield from (row for row in rows if row["subject"] == arm)


def unique_relevant(ground: Ground) -> Iterator[Row]:
    """How many relevant chunks each arm alone found, beside all relevant ones that it found."""
    relevant = ground.key.filter(pl.col("grade") >= ground.relevant_from)
    alone = _alone(ground.contributions)
    for arm in ground.arms:
        own = ground.contributions.filter(pl.col("arm") == arm)
        yield {
            "check": "unique_relevant",
            "subject": arm,
            "value": float(relevant.join(alone.filter(pl.col("arm") == arm), on=PAIR, how="semi").height),
            "base": float(relevant.join(own, on=PAIR, how="semi").height),
            "n": relevant.height,
            "note": "relevant chunks that no other arm found; base: all relevant that it found; n: all in the key",
        }


def under_auditor(ground: Ground, audit_grades: pl.DataFrame) -> Iterator[Row]:
    """Arms on the audited queries under the auditor's grades against the key's on the same pairs, and how far the two
    orders agree.
    """
    theirs = audit_grades.select(*PAIR, "grade").drop_nulls().join(ground.key, on=PAIR, how="semi")
    ours = ground.key.join(theirs, on=PAIR, how="semi")
    both = [_with_relevant(frame, ground.relevant_from) for frame in (ours, theirs)]
    ours, theirs = (
        frame.join(other, on="query_id", how="semi") for frame, other in ((ours, both[1]), (theirs, both[0]))
    )
    ours, theirs = ours.join(both[0], on="query_id", how="semi"), theirs.join(both[1], on="query_id", how="semi")
    n = ours["query_id"].n_unique()
    said = "on the audited queries; base: under the key's grades on the same pairs"
    key_means = means(ground.values(ours, ground.counted)) if n else {}
    audit_means = means(ground.values(theirs, ground.counted)) if n else {}
    for name in ground.counted:
        one, other = key_means.get(name, {}), audit_means.get(name, {})
        for row in _moved("under_auditor", name, other, one, said):
            yield row | {"n": n}
        if len(ground.arms) > 1:
            yield from _taus("auditor", name, one, other, n, "order under the key's grades against the auditor's")


def thresholds(ground: Ground, base: Means) -> Iterator[Row]:
    """Arms at every threshold of relevance: grades cut to relevant or not at each grade of the scale."""
    for least in range(1, ground.top + 1):
        cut = ground.key.with_columns(grade=(pl.col("grade") >= least).cast(pl.Int64))
        qrels = _with_relevant(cut, 1)
        n = qrels["query_id"].n_unique()
        then = means(ground.values(qrels, ground.counted, relevant_from=1, top=1)) if n else {}
        for name in ground.counted:
            note = f"grades from {least} up relevant, others not; queries with one alone"
            for row in _moved("threshold", name, then.get(name, {}), base.get(name, {}), note):
                yield row | {"measure": f"{name} from grade {least}", "n": n}
            if len(ground.arms) > 1 and n:
                for row in _taus("threshold", name, then[name], base[name], n, "order then against the order now"):
                    yield row | {"measure": f"{name} from grade {least}"}


def influence(query_measures: pl.DataFrame) -> Iterator[Row]:
    """Of every two arms: the queries any one of which, left out, turns their order by the headline measure; and how
    many must go, the most favourable first, before it turns.
    """
    wide: dict[str, dict[str, float]] = {}
    for arm, query, value in query_measures.drop_nulls("value").select("arm", "query_id", "value").rows():
        wide.setdefault(arm, {})[query] = value
    name = query_measures["measure"][0] if query_measures.height else ""
    for one, other in combinations(sorted(wide), 2):
        apart = {q: wide[one][q] - wide[other][q] for q in sorted(wide[one].keys() & wide[other].keys())}
        total = math.fsum(apart.values())
        towards = {q: x if total > 0 else -x for q, x in apart.items()}
        size = abs(total)
        turning = [q for q, x in towards.items() if size - x <= 1e-12] if size > 1e-12 else []
        gone, left = 0, size
        for x in sorted(towards.values(), reverse=True):
            if left <= 1e-12 or x <= 0:
                break
            gone, left = gone + 1, left - x
        at = {"subject": f"{one}~{other}", "measure": name, "n": len(apart)}
        listed = ", ".join(turning[:5]) + (", ..." if len(turning) > 5 else "")
        tied = "equal as they are" if size <= 1e-12 else ""
        yield at | {
            "check": "drop_one_query",
            "value": float(len(turning)),
            "note": tied or (f"without any one of them the order turns: {listed}" if turning else "no query alone"),
        }
        yield at | {
            "check": "queries_to_turn",
            "value": float(gone) if left <= 1e-12 else None,
            "note": tied or "queries that must go before the order turns, the most favourable first",
        }


def _moved(check: str, name: str, then: Mapping[str, float], base: Mapping[str, float], note: str) -> Iterator[Row]:
    place, base_place = places(then), places(base)
    for arm in sorted(base):
        yield {
            "check": check, "subject": arm, "measure": name, "value": then.get(arm), "base": base[arm],
            "place": place.get(arm), "base_place": base_place[arm], "note": note,
        }  # fmt: skip


def _taus(
    check: str, name: str, found: Mapping[str, float], true: Mapping[str, float], n: int, note: str
) -> Iterator[Row]:
    arms = sorted(found.keys() & true.keys())
    one, other = [found[a] for a in arms], [true[a] for a in arms]
    for statistic, value in (("tau_b", tau_b(one, other)), ("tau_ap", tau_ap(one, other))):
        yield {
            "check": f"{check}_{statistic}", "subject": "all", "measure": name, "value": value, "n": n,
            "note": f"{note}, {len(arms)} arms",
        }  # fmt: skip


def _filled(ground: Ground, arm: str, cutoff: int | None, grade: int) -> pl.DataFrame:
    """The key with the arm's unjudged chunks within its top k at `grade`."""
    seen = ground.runs.filter(pl.col("arm") == arm).join(ground.key, on="query_id", how="semi")
    if cutoff is not None:
        seen = seen.filter(pl.col("rank") <= cutoff)
    new = seen.join(ground.key, on=PAIR, how="anti").select(*PAIR, grade=pl.lit(grade, dtype=pl.Int64))
    return pl.concat([ground.key.select(*PAIR, "grade"), new])


def _alone(contributions: pl.DataFrame) -> pl.DataFrame:
    """Contributed chunks that one arm alone found, with that arm."""
    return contributions.filter(pl.col("arm").n_unique().over(PAIR) == 1).select(*PAIR, "arm")


def _with_relevant(key: pl.DataFrame, relevant_from: int) -> pl.DataFrame:
    """The pairs of queries that have something relevant."""
    return key.join(key.filter(pl.col("grade") >= relevant_from), on="query_id", how="semi")
