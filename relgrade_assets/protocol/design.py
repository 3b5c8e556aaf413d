"""The design: `experiment.yaml` as a checked model (P1), its canonical form and the protocol digest (P2).

Only what the file says belongs here; what two of its keys make together is in `coherence.py`. Reading it, and looking
at the files it names, is `io/`'s work.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from relgrade_assets.protocol.canonical import digest
from relgrade_assets.protocol.coherence import incoherent, run_faults, share_faults, strata_faults, undeclared
from relgrade_assets.protocol.deviations import DeviationCode
from relgrade_assets.protocol.publication import Publication
from relgrade_assets.protocol.scale import NAMED, Scale, ScaleName

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
"""Small letters, digits, - and _, at most 63."""


def _inside(path: str) -> str:
    if path.startswith(("/", "\\", "~")) or ".." in re.split(r"[/\\]", path) or ":" in path or "\0" in path:
        raise ValueError(f"the path {path!r} leads out of the experiment's folder; give one inside it")
    return path


def _named_scale(value: object) -> object:
    if isinstance(value, str):
        if value not in NAMED:
            known = ", ".join(NAMED)
            raise ValueError(f"no scale is called {value!r}; there are {known}, or declare a list of grades")
        return NAMED[value]
    return value


def _text_of_seed(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _only_int(value: object) -> object:
    if type(value) is not int:
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


FilePath = Annotated[
    str,
    Field(min_length=1, description="Relative to the experiment's folder; stays inside it."),
    AfterValidator(_inside),
]
Family = Annotated[
    str, Field(min_length=1, description="Model family, or a person's organisation; compared as written (P26).")
]
Whole = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
"""A number of things: from 1, and within what tables hold. `true`, `"20"` and `20.0` are no whole numbers."""
Ratio = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
FORMS = ("where", "how", "why", "which", "usage")

T = TypeVar("T")


class Part(BaseModel):
    """A part of the design: unknown keys are faults, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LogColumns(Part):
    """Which column of the log holds what (P7)."""

    query: str = Field(default="query", min_length=1, description="The text as it was typed; every log has it.")
    query_id: str | None = Field(
        default=None, description="The log's own ids; made by HMAC from the text where absent."
    )
    count: str | None = Field(default=None, description="How often, where a row is a distinct query; 1 where absent.")
    timestamp: str | None = Field(default=None, description="ISO 8601; UTC where it names no offset.")
    results: str | None = Field(default=None, description="How many results were shown.")
    clicks: str | None = Field(default=None, description="How many results were clicked.")
    type: str | None = Field(default=None, description="The query's type, where the log has one (P8).")


class QueryLog(Part):
    """The query log: one row a search, or one row a distinct query with a count (P7)."""

    file: FilePath = Field(description="The log, relative to the experiment's folder.")
    format: Literal["csv", "jsonl", "parquet"] | None = Field(
        default=None, description="By the file's ending where absent."
    )
    columns: LogColumns = Field(default=LogColumns(), description="Which column of the log holds what.")
    window_days: int = Field(
        default=90,
        strict=True,
        ge=1,
        le=36_500,
        description="Days back from the log's last day; only where it has times.",
    )
    authored: bool = Field(
        default=False, strict=True, description="True where queries or traffic were written, not measured: a deviation."
    )


class Stratum(Part):
    """One part of the log's queries, and how many to sample from it (P8-P10)."""

    name: Name = Field(description="Small letters, digits, - and _; each once.")
    target: Whole = Field(description="Queries to sample; a stratum that has fewer gives all it has.")
    share: float | None = Field(
        default=None,
        strict=True,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Declared part of all searches, for all strata or none; measured from the log where absent (P9).",
    )
    tiers: tuple[Literal["head", "torso", "tail"], ...] = Field(
        default=(), description="The tiers it holds, where strata are cut by tier or both."
    )
    types: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="The types it holds, where strata are cut by type or both."
    )


class Strata(Part):
    """How the log is cut (P8): by tier, by type, or both. Every query falls into exactly one stratum."""

    by: Literal["tier", "type", "both"] = Field(default="tier", description="By traffic, by type of query, or by both.")
    type_from: Literal["column", "classifier"] = Field(
        default="column", description="The log's own column, or rules and a classifier."
    )
    labelled: FilePath | None = Field(default=None, description="CSV query,type that trains the classifier.")
    head_traffic: float = Field(
        default=0.80, strict=True, gt=0, lt=1, description="The head is the most frequent that carry this much traffic."
    )
    head_at_most: Whole = Field(default=500, description="The head has at most this many queries.")
    torso_to_rank: Whole = Field(default=5000, description="The torso goes to this rank by traffic; the tail follows.")
    weight_cap: Whole = Field(default=50, description="w = min(count, cap) in the inclusion probabilities (P10).")
    parts: tuple[Stratum, ...] = Field(min_length=1, description="The strata: a partition, with no silent rest.")

    @model_validator(mode="after")
    def _partition(self) -> Strata:
        return _without_faults(self, strata_faults(self) + share_faults(self))


class Corpus(Part):
    """The chunks that can be retrieved: one file or a folder of them."""

    path: FilePath = Field(description="A file or a folder of files, relative to the experiment's folder.")
    format: Literal["jsonl", "csv", "parquet"] | None = Field(
        default=None, description="By the file's ending where absent."
    )
    chunk_id: str = Field(default="chunk_id", min_length=1, description="Column of the ids; the runs use the same.")
    header: str | None = Field(default="header", description="Column of what is shown above the text; null for none.")
    text: str = Field(default="text", min_length=1, description="Column of the text that is graded.")


class Index(Part):
    """Versions of what an arm searches with, each as you name it: a change is a refresh trigger (P43)."""

    mapping: str | None = Field(default=None, min_length=1, description="Of the index's schema: which fields, how.")
    analyser: str | None = Field(default=None, min_length=1, description="Of how text is cut and folded.")
    embedding: str | None = Field(default=None, min_length=1, description="Of the embedding model.")


class Arm(Part):
    """One retrieval system under comparison, and its run (P12)."""

    name: Name = Field(description="Small letters, digits, - and _; each once. Graders never see it (P13).")
    family: Family
    run: FilePath = Field(description="Its ranked results, relative to the experiment's folder.")
    format: Literal["trec", "jsonl", "csv", "parquet"] | None = Field(
        default=None, description="By the file's ending where absent; any other ending is TREC."
    )
    score_order: Literal["descending", "ascending"] = Field(
        default="descending", description="ascending where a lower score is better, as a distance is."
    )
    order: Literal["by_score", "as_listed"] = Field(
        default="by_score", description="as_listed where the run has ranks and no scores."
    )
    duplicates: Literal["refuse", "keep_first"] = Field(
        default="refuse", description="keep_first keeps the best rank of a chunk that stands twice, and counts."
    )
    index: Index | None = Field(default=None, description="What it searches with, by version (P43).")


class Intents(Part):
    """Where the locked intents are written (P16, P17)."""

    file: FilePath = Field(description="CSV or JSON Lines: query_id, form, intent, author.")


_RUN = "Command that grades what is missing, for kind model (P21); sheets and files where absent."


class Run(Part):
    """The command that a model grader is run by (P21), once a prompt, and how much of it at a time."""

    command: (
        Literal["claude", "llm", "local-model"]
        | Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    ) = Field(
        description="A preset's name, or program and arguments as a list; it reads a prompt on standard input and "
        "prints rows. Never a shell."
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        pattern="^[^-\\x00]",
        description="Model to ask a preset for; with a list it is only recorded. The command's own where absent.",
    )
    chunks_a_prompt: int = Field(
        default=5, strict=True, ge=1, le=5, description="Chunks of one query in a prompt at most (P21)."
    )
    allow_environment: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = Field(
        default=(), description="Key variables that stay in the command's environment; others are taken out (P21)."
    )
    concurrency: int = Field(
        default=4, strict=True, ge=1, le=64, description="Commands at a time. Pace: not part of the protocol digest."
    )
    timeout_seconds: int = Field(
        default=300, strict=True, ge=1, le=86_400, description="A command that takes longer is killed. Pace, likewise."
    )
    attempts: int = Field(
        default=3,
        strict=True,
        ge=1,
        le=20,
        description="Times a prompt is asked before it is exhausted. Pace, likewise.",
    )
    pause_seconds: float = Field(
        default=2.0,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="Pause before asking again, doubled each time up to a minute, with jitter. Pace, likewise.",
    )


PACE = ("concurrency", "timeout_seconds", "attempts", "pause_seconds")
"""Keys of `Run` that change when grades come in, not what they are: left out of the protocol digest (P2)."""


class Grader(Part):
    """Who grades, and how much of it (P30)."""

    name: Name = Field(description="Small letters, digits, - and _; each once. Published under a pseudonym.")
    family: Family
    kind: Literal["model", "human", "import"] = Field(default="model", description="import: grades come from files.")
    takes: Literal["all"] | Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False)] = Field(
        default="all", description="all queries, or a share of them."
    )
    run: Run | None = Field(default=None, description=_RUN)

    @model_validator(mode="after")
    def _only_models_run(self) -> Grader:
        return _without_faults(self, run_faults(self))


class Auditor(Part):
    """Who reviews the intents and grades the audit sample again, blind (P17, P26)."""

    name: Name = Field(description="No grader's name.")
    family: Family
    kind: Literal["model", "human", "import"] = Field(default="model", description="import: grades come from files.")
    run: Run | None = Field(default=None, description=_RUN)

    @model_validator(mode="after")
    def _only_models_run(self) -> Auditor:
        return _without_faults(self, run_faults(self))


class Audit(Part):
    """Size of the audit sample: the greater of the two (P26)."""

    share: float = Field(
        default=0.10, strict=True, gt=0, le=1, description="Share of the queries; under 0.10 is a deviation."
    )
    at_least: Whole = Field(default=10, description="Queries at least; under 10 is a deviation.")
    random_too: bool = Field(default=False, strict=True, description="As many queries again, drawn at random.")


class Gates(Part):
    """P28's thresholds; kappas at least, shares at most. Easier than the default is a deviation."""

    weighted_kappa: Ratio = Field(default=0.75, description="Quadratic weighted kappa at least; never under 0.60.")
    binary_kappa: Ratio = Field(default=0.80, description="Kappa of relevant or not at least; never under 0.60.")
    disagreement: Ratio = Field(default=0.10, description="Share of chunks with unequal grades at most.")
    two_step: Ratio = Field(default=0.02, description="Share of chunks two or more grades apart at most.")
    judge_on: Literal["point", "worst_end"] = Field(
        default="point", description="The point estimate, or the worse end of its 95% interval."
    )


Trigger = Literal[
    "index", "embedding", "new_arm", "corpus_growth", "unjudged", "new_stratum", "rubric", "monthly_unjudged"
]
"""P43's triggers, by name."""


class Refresh(Part):
    """What is done when a key grows stale (P43): how it is kept up, not what it is. No part of the protocol digest."""

    act_on: tuple[Trigger, ...] = Field(
        default=(), description="Triggers that open the next round by themselves; every other is shown alone."
    )
    rerate: int = Field(
        default=20,
        strict=True,
        ge=0,
        le=100,
        description="Percent of carried pairs rated again after a change of index or embedding, to measure drift.",
    )
    rejudge: Literal["changed", "all"] = Field(
        default="changed", description="all: after an embedding change, judge the affected strata all again."
    )


class Deviation(Part):
    """A declared departure from the protocol (P3)."""

    code: DeviationCode = Field(description="Which departure; each once.")
    reason: str = Field(min_length=10, description="Why, for readers of the report.")


class Design(Part):
    """One experiment, fixed in advance: everything that could change a number is here or in a file named here (P1)."""

    relgrade: Annotated[Literal[1], BeforeValidator(_only_int)] = Field(description="Version of this file's form.")
    name: Name = Field(description="The same as the experiment's folder.")
    title: str = Field(min_length=1, description="What is compared, in a line; stands over the report.")
    seed: Annotated[str, BeforeValidator(_text_of_seed, json_schema_input_type=str | int)] = Field(
        min_length=1, description="Any text; every random choice comes from it (P10)."
    )
    private: bool = Field(
        default=False, strict=True, description="True: no query, intent, chunk text or reason leaves (P41)."
    )
    scale: Annotated[Scale, BeforeValidator(_named_scale, json_schema_input_type=ScaleName | Scale)] = Field(
        description="0-2, 0-3, binary, or a declared list of grades (P5)."
    )
    rubric: FilePath = Field(default="rubric.md", description="The grading instruction, in Markdown (P6).")
    query_log: QueryLog = Field(description="What was typed, with traffic (P7).")
    strata: Strata = Field(description="How the log is cut, and how many queries each part gives (P8-P10).")
    corpus: Corpus = Field(description="The chunks that can be retrieved.")
    arms: tuple[Arm, ...] = Field(min_length=1, description="The systems under comparison; one alone is a deviation.")
    depth: int = Field(
        default=20, strict=True, ge=1, le=1000, description="Results of each arm that are graded for a query (P12)."
    )
    intents: Intents = Field(description="What each sampled query asks, one locked line each (P16).")
    graders: tuple[Grader, ...] = Field(min_length=1, description="Those whose grades are the key (P30).")
    combine: Literal["first_listed", "median_low"] = Field(
        default="first_listed", description="Which grade counts where graders overlap (P30)."
    )
    auditor: Auditor = Field(description="Who checks them: of another family than graders and arms (P26).")
    audit: Audit = Field(default=Audit(), description="Size of the audit sample (P26).")
    gates: Gates = Field(default=Gates(), description="What agreement must reach before there is a key (P28).")
    measures: tuple[str, ...] = Field(
        default=("nDCG@10", "Recall@10", "RR@10", "P@10", "AP", "Judged@10"),
        min_length=1,
        description="As ir_measures names them (P37).",
    )
    headline: str = Field(default="nDCG@10", description="One of the measures.")
    estimand: Literal["searches", "distinct_queries"] = Field(
        default="searches", description="What the headline is a mean over (P38)."
    )
    equivalence_margin: Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False)] | None = Field(
        default=None,
        description="A difference of the headline that would not matter; arms are called equivalent within it (P39).",
    )
    refresh: Refresh | None = Field(
        default=None, description="What is done when the key grows stale; shown alone where absent (P43)."
    )
    deviations: tuple[Deviation, ...] = Field(
        default=(), description="Departures from the protocol, with reasons (P3)."
    )
    publication: Publication | None = Field(
        default=None,
        description="What the published folder says of itself to other tools (P42). Not part of the protocol digest.",
    )

    @model_validator(mode="after")
    def _coherent(self) -> Design:
        return _without_faults(self, incoherent(self) + undeclared(self))

    def declared(self, code: DeviationCode) -> bool:
        """Whether the design admits this departure."""
        return any(d.code == code for d in self.deviations)

    def canonical(self) -> dict[str, object]:
        """The design with every default written out, as JSON values. `run`, `index` and `equivalence_margin` stand only
        where they are declared, `run` without its pace; `publication` and `refresh` never do.
        """
        whole = self.model_dump(mode="json", exclude={"publication", "refresh"})
        for arm in whole["arms"]:
            if arm["index"] is None:
                del arm["index"]
        if self.equivalence_margin is None:
            del whole["equivalence_margin"]
        for part in (*whole["graders"], whole["auditor"]):
            run = part.pop("run")
            if run is not None:
                part["run"] = {key: value for key, value in run.items() if key not in PACE}
        return whole

    def protocol_digest(self, rubric: str) -> str:
        """P2: covers the design in canonical form and the rubric's text (line ends and a byte-order mark apart)."""
        text = rubric.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        return digest(["protocol", self.canonical(), text])

    @property
    def key_graders(self) -> list[str]:
        """Names of those whose grades are the key, in the order listed."""
        return [g.name for g in self.graders]

    def run_of(self, name: str) -> Run | None:
        """The command of a grader or of the auditor; None where there is none."""
        who: list[Grader | Auditor] = [*self.graders, self.auditor]
        return next((g.run for g in who if g.name == name), None)


def _without_faults(value: T, faults: list[tuple[str, str]]) -> T:
    """`value`, or one ValueError that holds every fault as key, tab, text."""
    if faults:
        raise ValueError("\n".join(f"{key}\t{text}" for key, text in faults))
    return value
