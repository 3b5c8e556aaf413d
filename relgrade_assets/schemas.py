"""Every table of the graph as a pandera model, in graph order: the data model on a page.

`TABLES` says for each which inputs it is made from, and whether it belongs to a round. The asset graph, the lineage
check and the docs all
read it, so that they can't disagree. No rows and no reading here.
"""

from dataclasses import dataclass

import pandera.polars as pa
import polars as pl

GROUPS = ("sources", "queries", "intents", "pooling", "audit", "grading", "key", "measures", "publication", "refresh")
"""Groups of the graph, in the order in which a study goes through them."""

SOURCES: dict[str, str] = {
    "design": "experiment.yaml, checked (P1); its protocol digest also covers the rubric",
    "query_log": "what was typed (P7)",
    "corpus": "the chunks that can be retrieved",
    "run_files": "each arm's ranked results, as files (P15)",
    "rubric": "the grading instruction (P6)",
    "intent_file": "one line an intent (P16)",
    "reviews": "the ledger's reviews of intents (P17)",
    "answers": "the ledger's answers of the key's graders, in this round (P23)",
    "audit_answers": "the ledger's answers of the auditor, in this round (P23)",
    "carried": "answers of earlier rounds that may count in this one (P30, P44)",
    "spot_check_file": "the spot-check sheet as a person filled it in (P8); may be absent",
    "keys": "the keys that were frozen, as the event log has them (P33)",
    "policy": "what the design says is done when the key grows stale (P43)",
    "events": "the rounds that the hash-chained event log has opened (P4, P36)",
}
"""Inputs that are observed, not made."""


def _share(**more: object) -> float:
    return pa.Field(ge=0, le=1, **more)  # type: ignore[arg-type,no-any-return]


class Table(pa.DataFrameModel):
    """A table of the graph: these columns in this order, these types, nothing coerced."""

    class Config:
        strict = True
        coerce = False
        ordered = True


class Queries(Table):
    """Every distinct query of the log's window (P7), its traffic, tier, type and stratum (P8)."""

    query_id: str = pa.Field(description="The log's own id, or q and 12 hex digits of an HMAC of the normalised query.")
    query: str = pa.Field(description="Its commonest raw form.")
    normalised: str = pa.Field(description="NFKC, lower case, trimmed, inner blanks collapsed.")
    raw_rows: pl.List = pa.Field(
        dtype_kwargs={"inner": pl.Int64}, description="Rows of the log it came from, the first data row being 1."
    )
    count: int = pa.Field(ge=1, description="Searches.")
    traffic_share: float = _share(description="Its part of all searches.")
    tier: str = pa.Field(isin=["head", "torso", "tail"])
    type: str = pa.Field(nullable=True, description="Null where strata are cut by tier alone and the log has no type.")
    stratum: str
    results: int = pa.Field(nullable=True, ge=0, description="Searches with at least one result, where logged.")
    clicks: int = pa.Field(nullable=True, ge=0, description="Clicks, where logged.")

    class Config(Table.Config):
        unique = ["query_id"]


class QuerySample(Table):
    """The sampled queries (P10) with what is needed to weight them (P38)."""

    query_id: str
    query: str
    stratum: str
    count: int = pa.Field(ge=1, description="Searches.")
    stratum_share: float = _share(description="The stratum's part of all searches; declared or measured.")
    stratum_size: int = pa.Field(ge=1, description="Distinct queries in the stratum.")
    target: int = pa.Field(ge=1, description="Queries that the design asked for in the stratum.")
    inclusion_probability: float = pa.Field(gt=0, le=1, description="pi; 1 for those taken surely.")

    class Config(Table.Config):
        unique = ["query_id"]


class SpotCheck(Table):
    """P8's sheet: up to 200 queries with the type the rules or classifier gave, and a person's where filled in."""

    query_id: str
    query: str
    stratum: str
    type: str
    by: str = pa.Field(isin=["rule", "classifier", "column"])
    type_by_person: str = pa.Field(nullable=True)

    class Config(Table.Config):
        unique = ["query_id"]


class Plan(Table):
    """What the design can tell before anything is spent (P11)."""

    scope: str = pa.Field(description="A stratum, `all` queries together, or `headline`, weighted by traffic.")
    queries: int = pa.Field(ge=1, description="Queries sampled.")
    rate: float = _share(description="What a measure is assumed to be.")
    standard_error: float = pa.Field(ge=0, description="Of a mean at that rate.")
    band: float = pa.Field(ge=0, description="Half the width of its 95% band.")
    resolution: float = pa.Field(gt=0, le=1, description="1/n: how far one query can move a plain mean.")
    coarse: bool = pa.Field(description="True where that is 0.10 or more.")
    band_wanted: float = pa.Field(ge=0, description="The band asked for; half of the present one unless told.")
    queries_wanted: int = pa.Field(ge=1, description="Queries that give it.")
    spread: float = pa.Field(gt=0, description="Assumed standard deviation of per-query differences of two arms.")
    smallest_difference: float = pa.Field(
        nullable=True, gt=0, description="Of two arms, found with a chance of 80% by a two-sided test at 5%."
    )
    pairs_pooled: int = pa.Field(ge=1, description="Pairs to judge at most: arms x depth x queries.")
    hours_pooled: float = pa.Field(gt=0, description="Hours for them, at two judgments a minute.")
    pairs_exhaustive: int = pa.Field(nullable=True, ge=1, description="Pairs where every chunk is judged.")
    hours_exhaustive: float = pa.Field(nullable=True, gt=0, description="Hours for those.")
    pairs_another_arm: int = pa.Field(ge=1, description="Pairs that another arm adds at most.")
    pairs_deeper: int = pa.Field(ge=1, description="Pairs that one rank more of depth adds at most.")

    class Config(Table.Config):
        unique = ["scope"]


class Intents(Table):
    """One locked intent a sampled query (P16), reviewed row by row (P17)."""

    round: int = pa.Field(ge=1)
    query_id: str
    form: str = pa.Field(isin=["where", "how", "why", "which", "usage"])
    intent: str = pa.Field(str_length={"min_value": 1})
    author: str
    reviewer: str = pa.Field(nullable=True, description="Null only where unreviewed intents are a declared deviation.")
    reviewed_at: str = pa.Field(nullable=True, description="UTC, ISO 8601.")
    row_digest: str = pa.Field(description="Of query, form, intent and author: a changed row loses its review.")

    class Config(Table.Config):
        unique = ["query_id"]


class Runs(Table):
    """Every arm's results for the sampled queries, as one ranking (statistics.md): score descending, then chunk id
    descending.
    """

    arm: str
    query_id: str
    chunk_id: str
    rank: int = pa.Field(ge=1)
    score: float

    class Config(Table.Config):
        unique = ["arm", "query_id", "chunk_id"]


class Contributions(Table):
    """Runs cut to the pool's depth (P13). Hidden from every grader."""

    query_id: str
    chunk_id: str
    arm: str
    rank: int = pa.Field(ge=1)
    score: float

    class Config(Table.Config):
        unique = ["query_id", "chunk_id", "arm"]


class Pools(Table):
    """The union of all arms' top `depth` a query (P12). Nothing of arms, not even a count (P13)."""

    query_id: str
    chunk_id: str
    chunk_digest: str = pa.Field(description="sha256 of header and text.")

    class Config(Table.Config):
        unique = ["query_id", "chunk_id"]


class AuditSelection(Table):
    """Why the auditor gets which queries (P26). No sheet reads it."""

    query_id: str
    stratum: str
    few_arms_share: float = _share(
        description="Part of the pool that at most two arms found (one, with three arms or fewer)."
    )
    chosen_for: str = pa.Field(isin=["few_arms", "random"])

    class Config(Table.Config):
        unique = ["query_id"]


class AuditSample(Table):
    """The queries the auditor grades again (P26): ids alone."""

    query_id: str

    class Config(Table.Config):
        unique = ["query_id"]


class Sheets(Table):
    """The blind rows of each grader, in that grader's order (P14, P18)."""

    round: int = pa.Field(ge=1)
    grader: str
    position: int = pa.Field(ge=1, description="Place in the grader's order within the query.")
    query_id: str
    chunk_id: str
    query: str
    intent: str
    header: str
    text: str
    row_digest: str = pa.Field(
        description="Of all that the grader sees and the rubric: an answer holds for these bytes alone."
    )

    class Config(Table.Config):
        unique = ["grader", "query_id", "chunk_id"]


class Grades(Table):
    """The accepted answers of every grader, complete (P19, P23)."""

    round: int = pa.Field(ge=1)
    grader: str
    query_id: str
    chunk_id: str
    reason: str = pa.Field(nullable=True)
    grade: int = pa.Field(nullable=True, ge=0, le=9, description="Null where unrateable.")
    unrateable: bool
    corpus_cleanup: bool
    position: int = pa.Field(nullable=True, ge=1, description="Null where the grade was carried: it was not asked for.")
    answered_at: str = pa.Field(description="UTC, ISO 8601.")
    from_round: int = pa.Field(
        ge=1, description="The round in which it was given: an earlier one where it was carried (P30, P44)."
    )

    class Config(Table.Config):
        unique = ["grader", "query_id", "chunk_id"]


class GraderChecks(Table):
    """Drift along the order, anchoring within a prompt, reasons that repeat the query, a grader each (P31)."""

    round: int = pa.Field(ge=1)
    grader: str
    check: str = pa.Field(description="What was looked at: see [checks](statistics.md#checks-on-graders).")
    at: int = pa.Field(nullable=True, ge=1, le=5, description="Which fifth of the order, or place in a prompt.")
    value: float = pa.Field(nullable=True, description="Null where undefined; the note says why.")
    low: float = pa.Field(nullable=True)
    high: float = pa.Field(nullable=True)
    n: int = pa.Field(ge=0, description="Grades or reasons that it comes from.")
    queries: int = pa.Field(ge=0)
    note: str

    class Config(Table.Config):
        unique = ["grader", "check", "at"]


class AuditSheets(Sheets):
    """The auditor's blind rows: every chunk of the audited pools (P26)."""


class AuditGrades(Grades):
    """The auditor's accepted answers, complete."""


class Agreement(Table):
    """Agreement of the key's grades with the auditor's, and of graders with each other (P27, P30)."""

    statistic: str
    comparison: str = pa.Field(description="`key~auditor`, two graders' names, or all graders' where they are more.")
    scope: str = pa.Field(description="`all`, or a stratum.")
    grade: int = pa.Field(nullable=True, description="Of the first, in confusion and per-grade rows.")
    audit_grade: int = pa.Field(nullable=True, description="Of the second, in confusion rows.")
    value: float = pa.Field(nullable=True, description="Null where undefined; the note says why.")
    low: float = pa.Field(nullable=True)
    high: float = pa.Field(nullable=True)
    n: int = pa.Field(ge=0, description="Pairs graded by both, or by two at least.")
    queries: int = pa.Field(ge=0)
    note: str

    class Config(Table.Config):
        unique = ["statistic", "comparison", "scope", "grade", "audit_grade"]


class Disagreements(Table):
    """Audited pairs on which key and auditor differ, with both reasons (P30)."""

    round: int = pa.Field(ge=1)
    query_id: str
    chunk_id: str
    intent: str
    grade: int
    audit_grade: int
    reason: str = pa.Field(nullable=True)
    audit_reason: str = pa.Field(nullable=True)
    likely_cause: str = pa.Field(isin=["intent", "boundary", "drift"])

    class Config(Table.Config):
        unique = ["query_id", "chunk_id"]


class Verdicts(Table):
    """The gates' verdicts as data, with the digests of what they judged (P28, P29)."""

    round: int = pa.Field(ge=1)
    gate: str = pa.Field(isin=["weighted_kappa", "binary_kappa", "disagreement", "two_step"])
    threshold: float = _share()
    value: float = pa.Field(nullable=True)
    verdict: str = pa.Field(isin=["passed", "failed", "undefined"])
    why: str
    grades_digest: str
    audit_grades_digest: str
    gates_digest: str
    protocol_digest: str

    class Config(Table.Config):
        unique = ["gate"]


class Revisions(Table):
    """The rounds that were opened, with their logged causes (P4, P30), and what each carried (P43, P44)."""

    round: int = pa.Field(ge=1)
    cause: str
    what: str
    by: str
    at: str = pa.Field(description="UTC, ISO 8601.")
    protocol_digest: str
    carry: str = pa.Field(
        isin=["none", "limited", "unchanged"],
        description="Which grades of earlier rounds count: none, what was not relevant (P30), what is unchanged (P44).",
    )
    rerate: int = pa.Field(ge=0, le=100, description="Percent of the carried pairs that are given again (P43).")

    class Config(Table.Config):
        unique = ["round"]


class FrozenKey(Table):
    """The key: one row a graded pair of a kept query, sorted by query id then chunk id (P33)."""

    query_id: str
    chunk_id: str
    grade: int = pa.Field(ge=0, le=9)

    class Config(Table.Config):
        unique = ["query_id", "chunk_id"]


class QueryMeasures(Table):
    """Per arm, query and measure (P37)."""

    arm: str
    query_id: str
    measure: str
    value: float = pa.Field(nullable=True, ge=0, description="Null where undefined.")
    judged: float = _share(description="Share of what the measure looked at that is in the key.")
    retrieved: bool = pa.Field(description="False where the arm's run has no such query: it scores 0 and is counted.")

    class Config(Table.Config):
        unique = ["arm", "query_id", "measure"]


class ArmMeasures(Table):
    """Per arm: plain mean, each stratum's, and the headline weighted by traffic (P38)."""

    arm: str
    measure: str
    scope: str = pa.Field(description="`headline`, `plain`, or a stratum.")
    estimand: str = pa.Field(isin=["searches", "distinct_queries", "sampled_queries"])
    value: float = pa.Field(nullable=True, ge=0)
    low: float = pa.Field(nullable=True)
    high: float = pa.Field(nullable=True)
    interval: str = pa.Field(description="How the interval was made, or why there is none.")
    n: int = pa.Field(ge=0, description="Queries.")
    judged: float = _share()

    class Config(Table.Config):
        unique = ["arm", "measure", "scope"]


class ArmComparisons(Table):
    """Arm against arm: paired differences, test, interval, and the queries they rest on (P39)."""

    measure: str
    arm: str
    other: str = pa.Field(description="The arm it is compared with; a difference is the first less the other.")
    n: int = pa.Field(ge=0, description="Queries on which the measure is defined.")
    wins: int = pa.Field(ge=0, description="Queries on which the first is better.")
    ties: int = pa.Field(ge=0, description="Queries on which they are equal.")
    losses: int = pa.Field(ge=0, description="Queries on which the other is better.")
    difference: float = pa.Field(nullable=True, ge=-1, le=1, description="Plain mean over queries.")
    low: float = pa.Field(nullable=True)
    high: float = pa.Field(nullable=True)
    interval: str = pa.Field(description="How the interval was made, or why there is none.")
    weighted: float = pa.Field(
        nullable=True, ge=-1, le=1, description="Headline of the differences, weighted by traffic (P38)."
    )
    weighted_low: float = pa.Field(nullable=True, description="Lower end of its 95% interval.")
    weighted_high: float = pa.Field(nullable=True, description="Upper end of its 95% interval.")
    weighted_interval: str = pa.Field(description="How that interval was made, or why there is none.")
    estimand: str = pa.Field(isin=["searches", "distinct_queries"], description="What `weighted` is a mean over.")
    p: float = pa.Field(gt=0, le=1, description="Two-sided, of the plain mean, by sign flips.")
    p_holm: float = pa.Field(gt=0, le=1, description="Holm's, over all pairs of arms within the measure.")
    test: str = pa.Field(description="How the test was made.")
    margin: float = pa.Field(nullable=True, gt=0, description="What would not matter, where it was declared.")
    equivalence: str = pa.Field(
        nullable=True,
        isin=["equivalent", "beyond", "not_shown"],
        description="Where the 95% interval lies against the margin; null where none was declared.",
    )
    moved: pl.List = pa.Field(
        dtype_kwargs={"inner": pl.String}, description="The queries that moved most, at most five."
    )
    moved_by: pl.List = pa.Field(dtype_kwargs={"inner": pl.Float64}, description="By how much each did.")

    class Config(Table.Config):
        unique = ["measure", "arm", "other"]


class PoolTrust(Table):
    """How far pool and key can be trusted (P40), and graders' liking for arms of their family (P31)."""

    check: str = pa.Field(description="What was tried: see [trust](statistics.md#trust-in-the-pool).")
    subject: str = pa.Field(description="An arm, two arms, a grader and a family of arms, or `all`.")
    measure: str = pa.Field(nullable=True, description="The measure, where the check has one.")
    value: float = pa.Field(nullable=True, description="What it comes to; null where it is undefined.")
    low: float = pa.Field(nullable=True)
    high: float = pa.Field(nullable=True)
    base: float = pa.Field(nullable=True, description="The same number under the key as it is.")
    place: int = pa.Field(nullable=True, ge=1, description="The arm's place then; equal arms share one.")
    base_place: int = pa.Field(nullable=True, ge=1, description="Its place under the key as it is.")
    n: int = pa.Field(nullable=True, ge=0, description="Queries, pairs or chunks that it rests on.")
    verdict: str = pa.Field(nullable=True, isin=["ok", "watch", "act", "shared", "apart"])
    note: str

    class Config(Table.Config):
        unique = ["check", "subject", "measure"]


class Report(Table):
    """The report of the round in both versions, with their digests; the pages lie beside the tables."""

    version: str = pa.Field(isin=["private", "public"], description="The private one holds queries and reasons.")
    bytes: int = pa.Field(ge=0)
    sha256: str

    class Config(Table.Config):
        unique = ["version"]


class PublishedKey(Table):
    """The files that left, with their digests (P41)."""

    file: str
    bytes: int = pa.Field(ge=0)
    sha256: str

    class Config(Table.Config):
        unique = ["file"]


class Staleness(Table):
    """Whether the latest key still fits what it is used on: P43's triggers with evidence, action and effort."""

    trigger: str = pa.Field(description="What was looked at: see [staleness](statistics.md#staleness).")
    state: str = pa.Field(
        isin=["due", "open", "watch", "fine", "unknown"],
        description="`open` where the next round was opened for it; `unknown` where nothing tells.",
    )
    value: float = pa.Field(nullable=True, description="What it comes to.")
    limit: float = pa.Field(nullable=True, description="Above this it is due, or watched.")
    evidence: str
    action: str = pa.Field(description="What the protocol asks for; `none` where nothing is due.")
    rerate: int = pa.Field(ge=0, le=100, description="Percent of carried pairs that is to be rated again.")
    pairs_to_judge: int = pa.Field(
        nullable=True, ge=0, description="By all graders, with the carried ones rated again."
    )
    pairs_carried: int = pa.Field(nullable=True, ge=0, description="Judgments saved by carry-over (P44).")
    hours: float = pa.Field(nullable=True, ge=0, description="At two judgments a minute.")

    class Config(Table.Config):
        unique = ["trigger"]


@dataclass(frozen=True)
class TableSpec:
    """One table of the graph: its model, its group, what it is made from, and whether each round has its own."""

    model: type[Table]
    group: str
    inputs: tuple[str, ...]
    per_round: bool = False


TABLES: dict[str, TableSpec] = {
    "queries": TableSpec(Queries, "queries", ("design", "query_log")),
    "query_sample": TableSpec(QuerySample, "queries", ("design", "queries")),
    "spot_check": TableSpec(SpotCheck, "queries", ("design", "queries", "spot_check_file")),
    "plan": TableSpec(Plan, "queries", ("design", "query_sample", "corpus")),
    "runs": TableSpec(Runs, "pooling", ("design", "run_files", "query_sample", "corpus")),
    "contributions": TableSpec(Contributions, "pooling", ("design", "runs")),
    "pools": TableSpec(Pools, "pooling", ("contributions", "corpus")),
    "intents": TableSpec(Intents, "intents", ("design", "query_sample", "intent_file", "reviews"), per_round=True),
    "audit_selection": TableSpec(
        AuditSelection, "audit", ("design", "contributions", "pools", "query_sample"), per_round=True
    ),
    "audit_sample": TableSpec(AuditSample, "audit", ("audit_selection",), per_round=True),
    "sheets": TableSpec(
        Sheets,
        "grading",
        ("design", "rubric", "query_sample", "pools", "intents", "corpus", "audit_sample", "carried"),
        per_round=True,
    ),
    "grades": TableSpec(Grades, "grading", ("design", "sheets", "answers", "carried"), per_round=True),
    "grader_checks": TableSpec(GraderChecks, "grading", ("design", "grades", "sheets"), per_round=True),
    "audit_sheets": TableSpec(
        AuditSheets,
        "audit",
        ("design", "rubric", "query_sample", "audit_sample", "pools", "intents", "corpus"),
        per_round=True,
    ),
    "audit_grades": TableSpec(AuditGrades, "audit", ("design", "audit_sheets", "audit_answers"), per_round=True),
    "agreement": TableSpec(Agreement, "audit", ("design", "grades", "audit_grades", "query_sample"), per_round=True),
    "disagreements": TableSpec(Disagreements, "audit", ("design", "grades", "audit_grades", "intents"), per_round=True),
    "verdicts": TableSpec(Verdicts, "audit", ("design", "agreement", "grades", "audit_grades"), per_round=True),
    "revisions": TableSpec(Revisions, "audit", ("events",)),
    "frozen_key": TableSpec(
        FrozenKey,
        "key",
        ("design", "rubric", "query_sample", "pools", "grades", "audit_grades", "verdicts", "intents"),
        per_round=True,
    ),
    "query_measures": TableSpec(
        QueryMeasures, "measures", ("design", "frozen_key", "runs", "query_sample"), per_round=True
    ),
    "arm_measures": TableSpec(ArmMeasures, "measures", ("design", "query_measures", "query_sample"), per_round=True),
    "arm_comparisons": TableSpec(
        ArmComparisons, "measures", ("design", "query_measures", "query_sample"), per_round=True
    ),
    "pool_trust": TableSpec(
        PoolTrust,
        "measures",
        (
            "design",
            "frozen_key",
            "runs",
            "contributions",
            "query_measures",
            "query_sample",
            "grades",
            "audit_grades",
        ),
        per_round=True,
    ),
    "report": TableSpec(
        Report,
        "publication",
        (
            "design",
            "frozen_key",
            "query_measures",
            "arm_measures",
            "arm_comparisons",
            "pool_trust",
            "verdicts",
            "agreement",
            "disagreements",
            "grader_checks",
            "grades",
            "audit_grades",
            "query_sample",
            "runs",
            "contributions",
            "intents",
            "corpus",
            "events",
        ),
        per_round=True,
    ),
    "published_key": TableSpec(
        PublishedKey,
        "publication",
        (
            "design",
            "frozen_key",
            "query_measures",
            "arm_measures",
            "arm_comparisons",
            "verdicts",
            "agreement",
            "query_sample",
            "contributions",
            "intents",
            "grades",
            "audit_grades",
            "corpus",
            "revisions",
            "report",
        ),
        per_round=True,
    ),
    "staleness": TableSpec(
        Staleness,
        "refresh",
        (
            "design",
            "rubric",
            "query_log",
            "corpus",
            "run_files",
            "intent_file",
            "queries",
            "query_sample",
            "runs",
            "pools",
            "events",
            "keys",
            "policy",
        ),
    ),
}
"""Every table in graph order; an input stands before whatever is made from it."""


def on_the_way(table: str) -> list[str]:
    """Every table that `table` is made from, in graph order."""
    needed: set[str] = set()
    todo = [i for i in TABLES[table].inputs if i in TABLES]
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            todo += [i for i in TABLES[name].inputs if i in TABLES]
    return [name for name in TABLES if name in needed]
