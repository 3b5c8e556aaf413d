"""Whether the next round may regrade only what was graded relevant (P30): binary passed, weighted failed, and it failed
on which relevant grade.

From the gates that were not passed and the audited pairs to the reasons against it. What is then carried is
carry_over.py's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from relgrade_assets.errors import Fault
from relgrade_assets.methods.agreement import query_tables, weighted_kappa

MAY_FAIL = ("weighted_kappa", "disagreement")
"""Gates that grades 1 against 2 can fail."""
_WHOLE = "Open the next round without --limited: it regrades the whole pool."


def against(
    unmet: Collection[str], pairs: pl.DataFrame, *, labels: Sequence[int], relevant_from: int, threshold: float
) -> list[Fault]:
    """Why a limited regrade is not allowed; empty where it is.

    `unmet` are the gates that the round did not pass; `pairs` [query_id, grade, audit_grade] every audited pair. It is
    allowed where weighted kappa is among them and nothing but raw disagreement besides, and where weighted kappa meets
    `threshold` once every pair on which both grades are relevant counts as agreed: then which relevant grade is all
    that is in doubt.
    """
    faults = [
        Fault(f"gate {gate}", "not passed", "passed: else what is relevant is in doubt", _WHOLE)
        for gate in sorted(set(unmet) - set(MAY_FAIL))
    ]
    if "weighted_kappa" not in unmet:
        faults.append(Fault("gate weighted_kappa", "passed", "the gate that failed", _WHOLE))
    if faults:
        return faults
    both = (pl.col("grade") >= relevant_from) & (pl.col("audit_grade") >= relevant_from)
    settled = pairs.select("query_id", a="grade", b=pl.when(both).then("grade").otherwise("audit_grade"))
    value = weighted_kappa(query_tables(settled, labels)[1].sum(axis=0)).value
    if value is None or value < threshold:
        found = "undefined" if value is None else f"{value:.3f}"
        where = "weighted kappa, with relevant against relevant taken as agreed"
        return [Fault(where, found, f"at least {threshold:g}: the failure lies elsewhere too", _WHOLE)]
    return []
