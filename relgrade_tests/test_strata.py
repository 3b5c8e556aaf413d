"""P8: types, strata as a partition, and the spot check."""

import polars as pl
import pytest
from statsmodels.stats.proportion import proportion_confint
from study_by_hand import design_of

from relgrade_assets.errors import Refused, Waiting
from relgrade_assets.methods.queries import with_tiers
from relgrade_assets.methods.query_types import classified, rule_type
from relgrade_assets.methods.strata import SpotCheckResult, assign, spot_check, spot_check_agreement, wilson
from relgrade_assets.schemas import TABLES

LABELLED = pl.DataFrame(
    [
        ("how do i read a csv file", "how"),
        ("how to join two tables", "how"),
        ("how can i sort rows by date", "how"),
        ("how to write a frame to disk", "how"),
        ("why is my join so slow", "why"),
        ("why does the import fail on windows", "why"),
        ("why are rows lost after a merge", "why"),
        ("why is the sort not stable", "why"),
    ],
    schema=["query", "type"],
    orient="row",
)
BY_TYPE = {
    "by": "type",
    "type_from": "classifier",
    "labelled": "labelled.csv",
    "parts": [
        {"name": "errors", "target": 2, "types": ["error"]},
        {"name": "short", "target": 2, "types": ["navigational"]},
        {"name": "questions", "target": 2, "types": ["how", "why"]},
    ],
}


def table(*queries: tuple[str, int, str | None]) -> pl.DataFrame:
    """What `with_tiers` gives for (query, count, type) rows."""
    total = sum(c for _, c, _ in queries)
    rows = [(f"q{i:03}", q, q.lower(), [i], c, c / total, t, None, None) for i, (q, c, t) in enumerate(queries)]
    schema = {
        "query_id": pl.String,
        "query": pl.String,
        "normalised": pl.String,
        "raw_rows": pl.List(pl.Int64),
        "count": pl.Int64,
        "traffic_share": pl.Float64,
        "type": pl.String,
        "results": pl.Int64,
        "clicks": pl.Int64,
    }
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return with_tiers(frame, head_traffic=0.5, head_at_most=500, torso_to_rank=2)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("ECONNREFUSED when calling the api from docker", "error"),
        ("node ERR_MODULE_NOT_FOUND", "error"),
        ("ORA-00942 table or view does not exist", "error"),
        ("process died with SIGSEGV after an hour", "error"),
        ("ERROR", "error"),
        ("econnrefused", "navigational"),  # the raw form decides, and this one is lower case
        ("at Foo.bar(Baz.java:12) what is this", "error"),
        ('File "a.py", line 3, in f', "error"),
        ("Traceback (most recent call last)", "error"),
        ("src/lib/io.rs:44 borrowed value", "error"),
        ("LOR", "navigational"),
        ("EXCEL", "navigational"),
        ("TERRORIST film", "navigational"),
        ("graph docs", "navigational"),
        ("install numpy", None),
        ("Install", None),
        ("is it", None),
        ("three plain words", None),
    ],
)
def test_p8_rules_on_the_raw_form_in_order(raw: str, expected: str | None) -> None:
    assert rule_type(raw) == expected


def test_p8_classifier_types_the_rest_whatever_the_order_of_examples() -> None:
    texts = ["how do i sort a table", "why is the import slow"]
    assert classified(texts, LABELLED) == ["how", "why"]
    assert classified(texts, LABELLED.reverse().vstack(LABELLED)) == ["how", "why"]


def test_p8_rules_come_before_the_classifier() -> None:
    """P8: an example labelled otherwise does not overrule a rule."""
    labelled = LABELLED.vstack(pl.DataFrame({"query": ["econnrefused on connect"], "type": ["why"]}))
    frame = table(("ECONNREFUSED on connect", 5, None), ("LOR", 3, None), ("how do i sort a table", 2, None))
    got = assign(frame, design_of(strata=BY_TYPE), labelled)
    TABLES["queries"].model.validate(got, lazy=True)
    assert got.select("type", "stratum").rows() == [
        ("error", "errors"),
        ("navigational", "short"),
        ("how", "questions"),
    ]


def test_p8_tier_alone_keeps_the_logs_type_or_null() -> None:
    got = assign(table(("a", 5, "how"), ("b", 3, None), ("c", 1, None)), design_of(), None)
    TABLES["queries"].model.validate(got, lazy=True)
    assert got.select("tier", "stratum", "type").rows() == [
        ("head", "head", "how"),
        ("torso", "torso", None),
        ("tail", "tail", None),
    ]


def test_p8_both_cuts_by_tier_and_type() -> None:
    parts = [
        {"name": "head", "target": 1, "tiers": ["head"], "types": ["how", "why"]},
        {"name": "rest-how", "target": 1, "tiers": ["torso", "tail"], "types": ["how"]},
        {"name": "rest-why", "target": 1, "tiers": ["torso", "tail"], "types": ["why"]},
    ]
    design = design_of(strata={"by": "both", "parts": parts})
    got = assign(table(("a", 5, "how"), ("b", 3, "why"), ("c", 1, "how")), design, None)
    assert got["stratum"].to_list() == ["head", "rest-why", "rest-how"]


def test_p8_no_silent_other_every_uncovered_cell_and_empty_stratum_is_named() -> None:
    design = design_of(strata={**BY_TYPE, "type_from": "column"})
    frame = table(("a", 5, "how"), ("b", 3, "shop"), ("c", 1, "shop"), ("d", 1, "blog"))
    with pytest.raises(Refused) as caught:
        assign(frame, design, None)
    text = str(caught.value)
    assert "4 faults" in text and "2 queries that are 'shop'" in text and "1 queries that are 'blog'" in text
    assert "stratum 'errors' without a query" in text and "stratum 'short' without a query" in text


def test_p8_no_query_may_lack_a_type_where_strata_are_cut_by_it() -> None:
    with pytest.raises(Refused, match=r"2 faults"):
        assign(
            table(("a", 5, "how"), ("b", 3, None), ("c", 1, None)),
            design_of(strata={**BY_TYPE, "type_from": "column"}),
            None,
        )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("a b c", "how"), ("d e f", "how")], "at least two types"),
        ([("a b c", "how"), ("A  b c", "why")], "contradict"),
        ([("a b c", "how"), ("", "why")], "lack a query"),
        ([("a b c", "how"), ("d e f", None)], "lack a query"),
    ],
)
def test_p8_examples_that_cannot_train_are_refused(rows: list[tuple[str, str | None]], said: str) -> None:
    with pytest.raises(Refused, match=said):
        classified(["x y z"], pl.DataFrame(rows, schema={"query": pl.String, "type": pl.String}, orient="row"))


def test_p8_no_examples_at_all_are_refused() -> None:
    with pytest.raises(Refused, match="at least two types"):
        classified(["x y z"], None)


# ------------------------------------------------------------------ spot check
def many(n: int) -> pl.DataFrame:
    return assign(
        table(
            *((f"ERROR number {i}", 1, None) for i in range(n)),
            *((f"lor{i}", 1, None) for i in range(30)),
            ("how do i sort it", 1, None),
        ),
        design_of(strata=BY_TYPE),
        LABELLED,
    )


def test_p8_spot_check_is_200_rows_evenly_over_strata() -> None:
    queries, design = many(400), design_of(strata=BY_TYPE)
    sheet = spot_check(queries, design)
    TABLES["spot_check"].model.validate(sheet, lazy=True)
    assert dict(sheet.group_by("stratum").len().rows()) == {"errors": 169, "short": 30, "questions": 1}
    assert set(sheet["by"]) == {"rule", "classifier"}
    assert sheet.filter(pl.col("by") == "classifier")["type"].to_list() == ["how"]
    assert spot_check(queries.reverse(), design).equals(sheet)
    other = spot_check(queries, design_of(seed="other", strata=BY_TYPE))
    assert set(other["query_id"]) != set(sheet["query_id"])


def test_p8_spot_check_takes_up_what_a_person_filled_in() -> None:
    queries, design = many(3), design_of(strata=BY_TYPE)
    sheet = spot_check(queries, design)
    assert sheet.height == 34
    some = sheet.select("query_id", type_by_person="type").head(5)
    waiting = spot_check_agreement(spot_check(queries, design, some))
    assert isinstance(waiting, Waiting) and (waiting.done, waiting.of) == (5, 34)
    with pytest.raises(Refused, match="'shop'"):
        spot_check(queries, design, some.with_columns(type_by_person=pl.lit("shop")))
    with pytest.raises(Refused, match="5 faults"):
        spot_check(queries, design, some.vstack(some))


def test_p8_spot_check_by_column_and_by_tier() -> None:
    frame = table(("a", 5, "error"), ("b", 3, "navigational"), ("c", 1, "how"))
    design = design_of(strata={**BY_TYPE, "type_from": "column"})
    assert spot_check(assign(frame, design, None), design)["by"].to_list() == ["column"] * 3
    empty = spot_check(assign(frame, design_of(), None), design_of())
    TABLES["spot_check"].model.validate(empty, lazy=True)
    assert empty.is_empty()
    assert str(spot_check_agreement(empty)) == "no types to check: strata are cut by tier alone"


def test_p8_agreement_and_misfiled_by_hand() -> None:
    rows = [
        (f"q{i}", "x", s, "how", "classifier", p)
        for i, (s, p) in enumerate([("a", "how")] * 8 + [("a", "why")] * 2 + [("b", "how")] * 10)
    ]
    sheet = pl.DataFrame(rows, schema=["query_id", "query", "stratum", "type", "by", "type_by_person"], orient="row")
    got = spot_check_agreement(sheet, {"a": 50})
    assert isinstance(got, SpotCheckResult)
    assert (got.checked, got.agreed, got.agreement) == (20, 18, 0.9)
    assert (got.low, got.high) == pytest.approx(proportion_confint(18, 20, method="wilson"))
    a, b = got.strata
    assert (a.stratum, a.wrong, a.expected) == ("a", 2, 10.0)
    assert (a.low, a.high) == pytest.approx([50 * x for x in proportion_confint(2, 10, method="wilson")])
    assert (b.wrong, b.share_low, b.expected) == (0, 0.0, None)
    assert "0.900 (95% Wilson" in str(got)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 30), (1, 1), (7, 9), (190, 200), (200, 200)])
def test_p8_wilson_against_statsmodels(k: int, n: int) -> None:
    assert wilson(k, n) == pytest.approx(proportion_confint(k, n, alpha=0.05, method="wilson"), abs=1e-12)
