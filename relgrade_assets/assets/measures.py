"""Measures: only of a frozen key (P34), per query and arm (P37), then per arm (P38), arm against arm (P39), and how far
pool and key can be trusted (P40).
"""

import polars as pl

from relgrade_assets.assets import show
from relgrade_assets.assets.build import Made, table
from relgrade_assets.io.freezing import first_reading, require_frozen
from relgrade_assets.io.measuring import arm_comparisons_of, arm_measures_of, query_measures_of
from relgrade_assets.io.study import Study
from relgrade_assets.io.trusting import trust_of


@table
def query_measures(study: Study, frozen_key: pl.DataFrame, runs: pl.DataFrame, query_sample: pl.DataFrame) -> Made:
    """Measure every arm on every kept query, and record the first reading (P34, P37)."""
    d = study.design
    key = require_frozen(study, frozen_key)
    kept = frozen_key["query_id"].unique().sort().to_list()
    frame = query_measures_of(d, frozen_key, runs)
    first_reading(study, key, frame)
    headline = frame.filter(pl.col("measure") == d.headline).group_by("arm").agg(pl.col("value").mean()).sort("arm")
    absent = frame.filter(~pl.col("retrieved")).select("arm", "query_id").unique().height
    return Made(
        frame,
        {
            "queries": len(kept),
            "absent_from_a_run": absent,
            "plain_means": show.bars(
                dict(headline.iter_rows()),
                unit=f"{d.headline}, plain, {len(kept)} queries; intervals: arm_measures",
                top=1,
            ),
        },
    )


@table
def arm_measures(study: Study, query_measures: pl.DataFrame, query_sample: pl.DataFrame) -> Made:
    """Estimate each arm's measures: plain, by stratum, and weighted by traffic, each with its interval (P38)."""
    d = study.design
    frame = arm_measures_of(d, query_measures, query_sample)
    top = frame.filter((pl.col("measure") == d.headline) & (pl.col("scope") == "headline")).drop_nulls(
        ["value", "low", "high"]
    )
    rows = [(r["arm"], r["value"], r["low"], r["high"]) for r in top.to_dicts()]
    numbers = {f"{d.headline} {r['arm']}": r["value"] for r in top.to_dicts()}
    unjudged = {f"unjudged {a}": 1 - j for a, j in top.select("arm", "judged").iter_rows()}
    unit = f"{d.headline} per {d.estimand}, {query_measures['query_id'].n_unique()} queries, 95%"
    return Made(frame, {"headline": show.intervals(rows, unit=unit), **numbers, **unjudged})


@table
def arm_comparisons(study: Study, query_measures: pl.DataFrame, query_sample: pl.DataFrame) -> Made:
    """Compare every two arms on every measure: paired differences, test, interval, what moved most (P39)."""
    d = study.design
    frame = arm_comparisons_of(d, query_measures, query_sample)
    top = frame.filter(pl.col("measure") == d.headline).with_columns(pair=pl.col("arm") + " - " + pl.col("other"))
    rows = top.drop_nulls(["difference", "low", "high"]).select("pair", "difference", "low", "high").rows()
    said = top.select("pair", "difference", "p", "p_holm", "wins", "ties", "losses").rows()
    n = query_measures["query_id"].n_unique()
    header = ("pair", d.headline, "p", "p (Holm)", "wins", "ties", "losses")
    numbers = {f"difference {pair}": x for pair, x, _, _ in rows}
    return Made(
        frame,
        {
            "differences": show.intervals(rows, unit=f"{d.headline}, plain, {n} queries, 95%", least=-1),
            "tests": show.grid(header, said),
            **numbers,
            "pairs_below_0.05": top.filter(pl.col("p_holm") <= 0.05).height,
        },
    )


@table
def pool_trust(
    study: Study,
    frozen_key: pl.DataFrame,
    runs: pl.DataFrame,
    contributions: pl.DataFrame,
    query_measures: pl.DataFrame,
    query_sample: pl.DataFrame,
    grades: pl.DataFrame,
    audit_grades: pl.DataFrame,
) -> Made:
    """Try the key: unjudged chunks graded, an arm left out, the auditor's grades, other thresholds, graders' errors
    (P40), and grades by family of grader and arm (P31).
    """
    require_frozen(study, frozen_key)
    frame = trust_of(study, frozen_key, runs, contributions, query_measures, grades, audit_grades, query_sample)
    headline = pl.col("measure") == study.design.headline
    noise = frame.filter((pl.col("check") == "label_noise_weighted") & headline).drop_nulls(["value", "low", "high"])
    unjudged = frame.filter(pl.col("check") == "unjudged")
    worst = unjudged.group_by("subject").agg(pl.col("value").max()).sort("subject")
    tau = frame.filter((pl.col("check") == "auditor_tau_b") & headline).drop_nulls("value")
    turned = frame.filter(pl.col("check") == "drop_one_query")
    n = f"{frozen_key['query_id'].n_unique()} queries"
    return Made(
        frame,
        {
            "with_graders_errors": show.intervals(
                noise.select("subject", "value", "low", "high").rows(),
                unit=f"{study.design.headline}, weighted, {n}, 95%",
            ),
            "unjudged_at_most": show.bars(
                dict(worst.iter_rows()), unit=f"share of a top k, {n}; counted, no interval", top=1
            ),
            **{f"unjudged {arm}": share for arm, share in worst.iter_rows()},
            "to_act_on": unjudged.filter(pl.col("verdict") == "act").height,
            **({"tau_b_under_auditor": tau["value"][0]} if tau.height else {}),
            "pairs_of_arms_that_one_query_turns": turned.filter(pl.col("value") > 0).height,
        },
    )
