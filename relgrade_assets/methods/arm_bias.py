"""Whether a grader likes the finds of an arm's family better than others' (P31, second half): only after the freeze,
since it looks at arms and grades together.

Checks that need no arms are the grader checks' before the freeze; what a change of grades does to arms is trust.py's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from relgrade_assets.methods.resampling import draws, generator, quantile
from relgrade_assets.methods.trust import PAIR, Row

Floats = npt.NDArray[np.float64]
RESAMPLES = 2_000


def arm_bias(
    grades: pl.DataFrame,
    audit_grades: pl.DataFrame,
    contributions: pl.DataFrame,
    *,
    grader_families: Mapping[str, str],
    arm_families: Mapping[str, str],
    seed: str,
    resamples: int = RESAMPLES,
) -> list[Row]:
    """P31: rows of schemas.PoolTrust, two for every grader and family of arms.

    `grade_by_family`: the grader's mean grade of chunks that an arm of the family found, less that of the others
    (`base`: of the others). It holds how good the arms are. `excess_by_family`: the same of the grader's grade less
    the auditor's on the audited pairs, from which the arms' quality is gone; above 0 the grader is kinder to the
    family than the auditor is. Intervals are percentiles over `resamples` resamples of whole queries. `verdict` is
    `shared` where grader and arms are of one family, else `apart`.
    """
    theirs = audit_grades.select(*PAIR, audit_grade="grade").drop_nulls()
    rows: list[Row] = []
    for grader in sorted(grader_families):
        own = grades.filter(pl.col("grader") == grader).select(*PAIR, "grade").drop_nulls()
        both = own.join(theirs, on=PAIR).select(*PAIR, x=(pl.col("grade") - pl.col("audit_grade")).cast(pl.Float64))
        for family in sorted(set(arm_families.values())):
            arms = [arm for arm, of in arm_families.items() if of == family]
            found = contributions.filter(pl.col("arm").is_in(arms)).select(PAIR).unique()
            shared = "shared" if grader_families[grader] == family else "apart"
            for check, frame in (
                ("grade_by_family", own.select(*PAIR, x=pl.col("grade").cast(pl.Float64))),
                ("excess_by_family", both),
            ):
                value, low, high, base, n, why = _apart(
                    frame, found, generator("arm_bias", seed, check, grader, family), resamples
                )
                rows.append(
                    {
                        "check": check, "subject": f"{grader}~{family}", "value": value, "low": low, "high": high,
                        "base": base, "n": n, "verdict": shared,
                        "note": why or "pairs that the family found, less the others; 95% by resampled queries",
                    }
                )  # fmt: skip
    return rows


def _apart(
    frame: pl.DataFrame, found: pl.DataFrame, bits: np.random.PCG64, resamples: int
) -> tuple[float | None, float | None, float | None, float | None, int, str]:
    """Mean of x over pairs that were found less that over others, its interval, the others' mean, pairs, and why not.

    Sums of grades are whole numbers, so that every resample's sums are exact.
    """
    marked = frame.join(found.with_columns(found=pl.lit(True)), on=PAIR, how="left").with_columns(
        pl.col("found").fill_null(False)
    )
    by_query = (
        marked.group_by("query_id")
        .agg(
            a=pl.col("x").filter(pl.col("found")).sum(),
            n_a=pl.col("found").sum(),
            b=pl.col("x").filter(~pl.col("found")).sum(),
            n_b=(~pl.col("found")).sum(),
        )
        .sort("query_id")
    )
    sums = by_query.select("a", "n_a", "b", "n_b").cast(pl.Float64).to_numpy()
    whole = _difference(sums.sum(axis=0, keepdims=True))[0] if len(sums) else float("nan")
    if np.isnan(whole):
        return None, None, None, None, frame.height, "every pair, or none, was found by the family"
    base = float(sums[:, 2].sum() / sums[:, 3].sum())
    if len(sums) < 2:
        return float(whole), None, None, base, frame.height, "no interval: one query"
    values = np.concatenate([_difference(block @ sums) for block in draws(bits, len(sums), resamples)])
    kept = np.sort(values[~np.isnan(values)])
    return float(whole), quantile(kept, 0.025), quantile(kept, 0.975), base, frame.height, ""


def _difference(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
    found[~np.isfinite(found)] = np.nan
    return found
