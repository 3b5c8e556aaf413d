"""The design: `experiment.yaml` as a checked model (P1), its canonical form and the protocol digest (P2).

Only what the file says belongs here. Reading it, and looking at the files it names, is `io/`'s work.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from relgrade_assets.protocol.canonical import digest
from relgrade_assets.protocol.deviations import DeviationCode
from relgrade_assets.protocol.scale import NAMED, Scale

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


def _inside(path: str) -> str:
    if path.startswith(("/", "\\", "~")) or ".." in re.split(r"[/\\]", path) or ":" in path or "\0" in path:
        raise ValueError(f"the path {path!r} leads out of the experiment's folder; give one inside it")
    return path


FilePath = Annotated[
    str,
    Field(min_length=1, description="Relative to the experiment's folder; stays inside it."),
    AfterValidator(_inside),
]
Family = Annotated[
    str, Field(min_length=1, description="Model family, or a person's organisation; compared as written.")
]
FORMS = ("where", "how", "why", "which", "usage")

GATE_DEFAULTS: dict[str, float] = {"weighted_kappa": 0.75, "binary_kappa": 0.80, "disagreement": 0.10, "two_step": 0.02}
KAPPA_FLOOR = 0.60
T = TypeVar("T")


class Part(BaseModel):
    """A part of the design: unknown keys are faults, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LogColumns(Part):
    """Which column of the log holds what (P7)."""

    query: str = "query"
    query_id: str | None = None
    count: str | None = None
    timestamp: str | None = None
    results: str | None = None
    clicks: str | None = None
    type: str | None = None


class QueryLog(Part):
    """The query log: one row a search, or one row a distinct query with a count."""

    file: FilePath
    format: Literal["csv", "jsonl", "parquet"] | None = Field(
        default=None, description="By the file's ending where absent."
    )
    columns: LogColumns = LogColumns()
    window_days: int = Field(
        default=90, ge=1, description="Days back from the log's last day; only where it has times."
    )
    authored: bool = Field(default=False, description="True where queries or traffic were written, not measured.")


class Stratum(Part):
    """One part of the log's queries, and how many to sample from it (P8-P10)."""

    name: Name
    target: int = Field(ge=1)
    share: float | None = Field(
        default=None, gt=0, le=1, description="Declared share of all searches; measured where absent."
    )
    tiers: tuple[Literal["head", "torso", "tail"], ...] = ()
    types: tuple[str, ...] = ()


class Strata(Part):
    """How the log is cut (P8): by tier, by type, or both. Every query falls into exactly one stratum."""

    by: Literal["tier", "type", "both"] = "tier"
    type_from: Literal["column", "classifier"] = Field(
        default="column", description="The log's own column, or rules and a classifier."
    )
    labelled: FilePath | None = Field(default=None, description="CSV query,type that trains the classifier.")
    head_traffic: float = Field(default=0.80, gt=0, lt=1)
    head_at_most: int = Field(default=500, ge=1)
    torso_to_rank: int = Field(default=5000, ge=1)
    weight_cap: int = Field(default=50, ge=1, description="w = min(count, cap) in the inclusion probabilities.")
    parts: tuple[Stratum, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _partition(self) -> Strata:
        return _without_faults(self, _strata_faults(self) + _share_faults(self))


class Corpus(Part):
    """The chunks that can be retrieved: one file or a folder of them."""

    path: FilePath
    format: Literal["jsonl", "csv", "parquet"] | None = None
    chunk_id: str = "chunk_id"
    header: str | None = "header"
    text: str = "text"


class Arm(Part):
    """One retrieval system under comparison, and its run."""

    name: Name
    family: Family
    run: FilePath
    format: Literal["trec", "jsonl", "csv", "parquet"] | None = None
    score_order: Literal["descending", "ascending"] = "descending"
    order: Literal["by_score", "as_listed"] = "by_score"
    duplicates: Literal["refuse", "keep_first"] = "refuse"


class Intents(Part):
    """Where the locked intents are written (P16, P17)."""

    file: FilePath


class Grader(Part):
    """Who grades; `takes` is all queries or a share of them (P30)."""

    name: Name
    family: Family
    kind: Literal["model", "human", "import"] = "model"
    takes: Literal["all"] | Annotated[float, Field(gt=0, lt=1)] = "all"


class Auditor(Part):
    """Who grades the audit sample again, blind."""

    name: Name
    family: Family
    kind: Literal["model", "human", "import"] = "model"


class Audit(Part):
    """Size of the audit sample (P26)."""

    share: float = Field(default=0.10, gt=0, le=1)
    at_least: int = Field(default=10, ge=1)
    random_too: bool = Field(default=False, description="As many queries again, drawn at random.")


class Gates(Part):
    """P28's thresholds; kappas at least, shares at most."""

    weighted_kappa: float = Field(default=0.75, ge=0, le=1)
    binary_kappa: float = Field(default=0.80, ge=0, le=1)
    disagreement: float = Field(default=0.10, ge=0, le=1)
    two_step: float = Field(default=0.02, ge=0, le=1)
    judge_on: Literal["point", "worst_end"] = Field(
        default="point", description="The point estimate, or the worse end of its 95% interval."
    )


class Deviation(Part):
    """A declared departure from the protocol (P3)."""

    code: DeviationCode
    reason: str = Field(min_length=10)


class Design(Part):
    """One experiment, fixed in advance. Everything that could change a number is in here or in a file named here."""

    relgrade: Literal[1] = Field(description="Version of this file's form.")
    name: Name = Field(description="The same as the experiment's folder.")
    title: str = Field(min_length=1)
    seed: str = Field(min_length=1, description="Text; every random choice comes from it.")
    private: bool = Field(default=False, description="True: no query, intent, chunk text or reason leaves.")
    scale: Scale = Field(description="0-2, 0-3, binary, or a declared list of grades.")
    rubric: FilePath = "rubric.md"
    query_log: QueryLog
    strata: Strata
    corpus: Corpus
    arms: tuple[Arm, ...] = Field(min_length=1)
    depth: int = Field(default=20, ge=1, le=1000)
    intents: Intents
    graders: tuple[Grader, ...] = Field(min_length=1)
    combine: Literal["first_listed", "median_low"] = "first_listed"
    auditor: Auditor
    audit: Audit = Audit()
    gates: Gates = Gates()
    measures: tuple[str, ...] = Field(
        default=("nDCG@10", "Recall@10", "RR@10", "P@10", "AP", "Judged@10"),
        min_length=1,
        description="As ir_measures names them.",
    )
    headline: str = Field(default="nDCG@10", description="One of the measures.")
    estimand: Literal["searches", "distinct_queries"] = "searches"
    deviations: tuple[Deviation, ...] = ()

    @field_validator("scale", mode="before")
    @classmethod
    def _named_scale(cls, value: object) -> object:
        if isinstance(value, str):
            if value not in NAMED:
                raise ValueError(
                    f"no scale is called {value!r}; there are {', '.join(NAMED)}, or declare a list of grades"
                )
            return NAMED[value]
        return value

    @field_validator("seed", mode="before")
    @classmethod
    def _seed_text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _coherent(self) -> Design:
        return _without_faults(self, _incoherent(self) + _undeclared(self))

    def declared(self, code: DeviationCode) -> bool:
        """Whether the design admits this departure."""
        return any(d.code == code for d in self.deviations)

    def canonical(self) -> dict[str, object]:
        """The design with every default written out, as JSON values."""
        return self.model_dump(mode="json")

    def protocol_digest(self, rubric: str) -> str:
        """P2: covers the design in canonical form and the rubric's text (line ends and a byte-order mark apart)."""
        text = rubric.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        return digest(["protocol", self.canonical(), text])

    @property
    def key_graders(self) -> list[str]:
        """Names of those whose grades are the key, in the order listed."""
        return [g.name for g in self.graders]


def _without_faults(value: T, faults: list[tuple[str, str]]) -> T:
    """`value`, or one ValueError that holds every fault as key, tab, text."""
    if faults:
        raise ValueError("\n".join(f"{key}\t{text}" for key, text in faults))
    return value


def _incoherent(d: Design) -> list[tuple[str, str]]:
    """Every fault that two keys make together, as (key, text)."""
    faults: list[tuple[str, str]] = []
    for key, names in {
        "arms": [a.name for a in d.arms],
        "graders": [*d.key_graders, d.auditor.name],
        "deviations": [x.code for x in d.deviations],
        "measures": list(d.measures),
    }.items():
        faults += [
            (key, f"the name {n!r} stands {c} times; each may stand once") for n, c in Counter(names).items() if c > 1
        ]
    if d.headline not in d.measures:
        faults.append(("headline", f"{d.headline!r} is not among measures ({', '.join(d.measures)})"))
    by_type = d.strata.by in ("type", "both")
    if by_type and d.strata.type_from == "column" and d.query_log.columns.type is None:
        faults.append(("query_log.columns.type", "strata are cut by the log's own type, and no column for it is named"))
    return faults


def _strata_faults(d: Strata) -> list[tuple[str, str]]:
    parts = d.parts
    by_tier, by_type = d.by in ("tier", "both"), d.by in ("type", "both")
    names = Counter(p.name for p in parts)
    faults = [("parts", f"the name {n!r} stands {c} times; each may stand once") for n, c in names.items() if c > 1]
    for i, part in enumerate(parts):
        for used, key, values in ((by_tier, "tiers", part.tiers), (by_type, "types", part.types)):
            if used and not values:
                faults.append(
                    (f"parts.{i}.{key}", f"stratum {part.name!r} names no {key}, and strata are cut by {d.by}")
                )
            if not used and values:
                faults.append((f"parts.{i}.{key}", f"stratum {part.name!r} names {key}, but strata are cut by {d.by}"))
    cells = Counter((t, y) for p in parts for t in (p.tiers or ("",)) for y in (p.types or ("",)))
    faults += [
        ("parts", f"{' '.join(filter(None, cell))!r} falls into {n} strata; it must fall into one")
        for cell, n in cells.items()
        if n > 1
    ]
    if by_tier:
        missing = {"head", "torso", "tail"} - {t for p in parts for t in p.tiers}
        faults += [("parts", f"no stratum holds the tier {t!r}; strata are a partition") for t in sorted(missing)]
    if by_type and d.type_from == "classifier" and d.labelled is None:
        faults.append(("labelled", "the classifier needs a CSV query,type of labelled examples"))
    return faults


def _share_faults(d: Strata) -> list[tuple[str, str]]:
    shares = [p.share for p in d.parts]
    faults: list[tuple[str, str]] = []
    declared = [s for s in shares if s is not None]
    if declared and len(declared) < len(shares):
        faults.append(("parts", "some strata declare a share and some do not; declare all of them or none"))
    elif declared and abs(sum(declared) - 1) > 1e-9:
        faults.append(("parts", f"the shares sum to {sum(declared):.12g}; they must sum to 1 within 1e-9"))
    return faults


def _undeclared(d: Design) -> list[tuple[str, str]]:
    """P3: departures that the file itself shows and does not declare; those that only data shows are found later."""
    found: list[tuple[DeviationCode, str, str]] = []
    families = [
        ("auditor", d.auditor.family),
        *[(f"grader {g.name}", g.family) for g in d.graders],
        *[(f"arm {a.name}", a.family) for a in d.arms],
    ]
    shared = [
        (a, b, fa)
        for i, (a, fa) in enumerate(families)
        for b, fb in families[i + 1 :]
        if fa == fb and a[:3] != b[:3]
    ]
    found += [("shared_families", "auditor.family", f"{a} and {b} are both of family {f!r}") for a, b, f in shared[:1]]
    if len(d.arms) == 1:
        found.append(("one_arm", "arms", "only one arm is pooled"))
    if d.depth < 10 or (d.depth < 20 and len(d.arms) > 3):
        found.append(("shallow_depth", "depth", f"depth {d.depth} with {len(d.arms)} arms"))
    if d.audit.share < 0.10 or d.audit.at_least < 10:
        found.append(
            ("small_audit", "audit", f"share {d.audit.share:g} and at least {d.audit.at_least}, under 0.1 and 10")
        )
    if d.query_log.authored:
        found.append(("authored_queries", "query_log.authored", "the log is authored"))
    for gate, default in GATE_DEFAULTS.items():
        value: float = getattr(d.gates, gate)
        lower = value < default if gate.endswith("kappa") else value > default
        if lower:
            found.append(("gate_lowered", f"gates.{gate}", f"{value:g} is easier than the default {default:g}"))
    faults = [
        (f"gates.{g}", f"{getattr(d.gates, g):g} is below {KAPPA_FLOOR:g}, under which no key is made")
        for g in ("weighted_kappa", "binary_kappa")
        if getattr(d.gates, g) < KAPPA_FLOOR
    ]
    return faults + [
        (key, f"{text}: that departs from the protocol; declare {code!r} under deviations with a reason")
        for code, key, text in found
        if not d.declared(code)
    ]
