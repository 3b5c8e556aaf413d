"""Which columns of the main tables come from which columns before them, as Dagster keeps it on every materialisation.

Only columns that are carried or counted from named ones stand here; what a statistic is computed from is its method's
docs. The way of one row is `relgrade trace`'s.
"""

from __future__ import annotations

import dagster as dg

_QUERY, _PAIR = "query_id", ("query_id", "chunk_id")
COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "query_sample": {c: (f"queries.{c}",) for c in ("query_id", "query", "stratum", "count")}
    | {"stratum_size": ("queries.stratum",), "inclusion_probability": ("queries.count", "queries.stratum")},
    "contributions": {c: (f"runs.{c}",) for c in (*_PAIR, "arm", "rank", "score")},
    "pools": {c: (f"contributions.{c}",) for c in _PAIR},
    "audit_sample": {_QUERY: ("audit_selection.query_id",)},
    "sheets": {
        "query_id": ("pools.query_id",),
        "chunk_id": ("pools.chunk_id",),
        "query": ("query_sample.query",),
        "intent": ("intents.intent",),
        "round": ("intents.round",),
    },
    "grades": {c: (f"sheets.{c}",) for c in ("round", "grader", *_PAIR, "position")},
    "audit_grades": {c: (f"audit_sheets.{c}",) for c in ("round", "grader", *_PAIR, "position")},
    "agreement": {
        "value": ("grades.grade", "audit_grades.grade"),
        "scope": ("query_sample.stratum",),
    },
    "verdicts": {"value": ("agreement.value",), "gate": ("agreement.statistic",)},
    "frozen_key": {
        "query_id": ("grades.query_id", "pools.query_id"),
        "chunk_id": ("grades.chunk_id", "pools.chunk_id"),
        "grade": ("grades.grade", "grades.grader"),
    },
    "query_measures": {
        "arm": ("runs.arm",),
        "query_id": ("frozen_key.query_id",),
        "value": ("frozen_key.grade", "frozen_key.chunk_id", "runs.chunk_id", "runs.rank"),
        "judged": ("frozen_key.chunk_id", "runs.chunk_id", "runs.rank"),
        "retrieved": ("runs.query_id",),
    },
    "arm_measures": {
        "arm": ("query_measures.arm",),
        "measure": ("query_measures.measure",),
        "scope": ("query_sample.stratum",),
        "judged": ("query_measures.judged",),
        "value": ("query_measures.value", "query_sample.count", "query_sample.inclusion_probability"),
    },
    "arm_comparisons": {
        "arm": ("query_measures.arm",),
        "other": ("query_measures.arm",),
        "measure": ("query_measures.measure",),
        "difference": ("query_measures.value",),
        "moved": ("query_measures.query_id",),
        "weighted": ("query_measures.value", "query_sample.count", "query_sample.inclusion_probability"),
    },
}
"""Table -> its column -> the columns it comes from, as table.column; every such table is one of its inputs."""


def column_lineage(table: str) -> dict[str, dg.TableColumnLineage]:
    """The metadata of a materialisation that holds a table's column lineage; nothing for a table without."""
    if table not in COLUMNS:
        return {}
    deps = {
        column: [dg.TableColumnDep(dg.AssetKey(at), name) for at, _, name in (f.partition(".") for f in sources)]
        for column, sources in COLUMNS[table].items()
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(deps_by_column=deps)}
