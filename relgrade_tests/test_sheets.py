"""P13, P14, P18: the order of a grader's rows and what is on them."""

import hashlib
import json
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_by_hand import corpus_of, runs_of, sample_of

from relgrade_assets.errors import Refused
from relgrade_assets.methods.intents import row_digest as intent_digest
from relgrade_assets.methods.ordering import in_grader_order
from relgrade_assets.methods.pooling import contributions, pools
from relgrade_assets.methods.sheets import blind_rows, build, rubric_digest
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.schemas import TABLES

CORPUS = corpus_of({c: f"text of {c}" for c in "abcdefgh"})
SAMPLE = sample_of({"q1": "sort graph", "q2": "read file"})
POOLS = pools(contributions(runs_of({"x": {"q1": list("abcdef"), "q2": list("gh")}}), 10), CORPUS)
INTENTS = pl.DataFrame(
    [
        (
            1,
            i,
            "how",
            f"How do I {q}?",
            "author",
            "auditor",
            "2024-05-01T00:00:00Z",
            intent_digest(q, "how", f"How do I {q}?", "author"),
        )
        for i, q in SAMPLE.select("query_id", "query").rows()
    ],
    schema=["round", "query_id", "form", "intent", "author", "reviewer", "reviewed_at", "row_digest"],
    orient="row",
)
BOTH = frozenset({"q1", "q2"})


def built(**changes: object) -> pl.DataFrame:
    given_ = {"pools": POOLS, "intents": INTENTS, "queries_sample": SAMPLE, "corpus": CORPUS, "graders": ["g1", "g2"]}
    more = {"takes": {"g1": BOTH, "g2": BOTH}, "seed": "7", "round": 1, "rubric": "# Rubric\n"}
    return build(**{**given_, **more, **changes})  # type: ignore[arg-type]


def chunks(sheet: pl.DataFrame, grader: str, query: str) -> list[str]:
    return sheet.filter((pl.col("grader") == grader) & (pl.col("query_id") == query))["chunk_id"].to_list()


# ------------------------------------------------------------------ order (P14)
def test_p14_order_against_hashlib() -> None:
    pairs = POOLS.select("query_id", "chunk_id")
    got = in_grader_order(pairs, seed="7", round=2, grader="g1")

    def key(chunk: str) -> str:
        parts = ["order", "7", "2", "g1", "q1", chunk]
        return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()

    assert got.filter(pl.col("query_id") == "q1")["chunk_id"].to_list() == sorted("abcdef", key=key)
    assert got["position"].to_list() == [1, 2, 3, 4, 5, 6, 1, 2]


def test_p14_every_grader_round_and_seed_has_an_order_of_its_own() -> None:
    pairs = POOLS.select("query_id", "chunk_id")
    turns = [("7", 1, "g1"), ("7", 1, "g2"), ("7", 2, "g1"), ("8", 1, "g1")]
    orders = {tuple(in_grader_order(pairs, seed=s, round=r, grader=g)["chunk_id"]) for s, r, g in turns}
    assert len(orders) == 4


def test_p14_first_places_are_even_over_graders_in_simulation() -> None:
    """P14: over 1,200 graders each chunk of six comes first about 200 times (chi-square, 5 degrees: 20.5)."""
    pairs = POOLS.filter(pl.col("query_id") == "q1").select("query_id", "chunk_id")
    first = Counter(in_grader_order(pairs, seed="1", round=1, grader=f"g{i}")["chunk_id"][0] for i in range(1200))
    assert sum((first[c] - 200) ** 2 / 200 for c in "abcdef") < 20.5


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["q1", "q2"]), st.text("abé\u4e00", min_size=1, max_size=3)), unique=True, min_size=1
    )
)
def test_p14_the_shuffle_is_a_permutation_law(pairs: list[tuple[str, str]]) -> None:
    frame = pl.DataFrame(pairs, schema=["query_id", "chunk_id"], orient="row")
    got = in_grader_order(frame, seed="s", round=1, grader="g")
    assert sorted(got.select("query_id", "chunk_id").rows()) == sorted(pairs)
    for query in {q for q, _ in pairs}:
        held = got.filter(pl.col("query_id") == query)["position"].to_list()
        assert held == list(range(1, len(held) + 1))
    assert got.equals(in_grader_order(frame.reverse(), seed="s", round=1, grader="g"))


# ------------------------------------------------------------------ sheets (P18)
def test_p18_sheets_by_hand() -> None:
    sheet = built()
    TABLES["sheets"].model.validate(sheet, lazy=True)
    TABLES["audit_sheets"].model.validate(sheet, lazy=True)
    assert sheet["grader"].to_list() == ["g1"] * 8 + ["g2"] * 8
    row = sheet.filter((pl.col("grader") == "g1") & (pl.col("chunk_id") == "g")).to_dicts()[0]
    assert {k: row[k] for k in ("round", "query_id", "query", "intent", "header", "text")} == {
        "round": 1,
        "query_id": "q2",
        "query": "read file",
        "intent": "How do I read file?",
        "header": "G",
        "text": "text of g",
    }
    assert row["row_digest"] == digest(
        ["read file", "How do I read file?", "G", "text of g", rubric_digest("# Rubric\n")]
    )
    expected = in_grader_order(POOLS, seed="7", round=1, grader="g2").filter(pl.col("query_id") == "q1")
    assert chunks(sheet, "g2", "q1") == expected["chunk_id"].to_list()
    assert chunks(sheet, "g1", "q1") != chunks(sheet, "g2", "q1")


def test_p18_blind_rows_are_six_fields_in_sheet_order_and_nothing_else() -> None:
    sheet = built().filter(pl.col("grader") == "g1")
    rows = blind_rows(sheet.sample(fraction=1, shuffle=True, seed=1))
    assert all(list(r) == ["query_id", "chunk_id", "query", "intent", "header", "text"] for r in rows)
    assert [r["chunk_id"] for r in rows] == sheet["chunk_id"].to_list()
    with pytest.raises(ValueError, match="one grader"):
        blind_rows(built())


def test_p13_no_column_of_the_arms_reaches_a_sheet() -> None:
    """P13: pools that smuggle columns of contributions in leave the sheets as they were."""
    smuggled = POOLS.with_columns(arm=pl.lit("bm25"), rank=pl.lit(1), score=pl.lit(9.5), n_arms=pl.lit(1))
    assert built(pools=smuggled).equals(built())


def test_p30_each_grader_gets_the_queries_it_takes() -> None:
    sheet = built(takes={"g1": frozenset({"q1"}), "g2": BOTH})
    assert set(sheet.filter(pl.col("grader") == "g1")["query_id"]) == {"q1"}
    assert chunks(sheet, "g2", "q2") == chunks(built(), "g2", "q2")
    with pytest.raises(Refused, match="g2"):
        built(takes={"g1": BOTH})


def test_p26_an_audited_pool_is_whole_on_the_auditors_sheet() -> None:
    sheet = built(pools=POOLS.filter(pl.col("query_id") == "q2"), graders=["auditor"], takes={"auditor": BOTH})
    assert sorted(chunks(sheet, "auditor", "q2")) == ["g", "h"] and sheet.height == 2


@pytest.mark.parametrize(
    "change",
    [
        {"rubric": "# Other rubric\n"},
        {"corpus": CORPUS.with_columns(pl.col("text") + ".")},
        {"intents": INTENTS.with_columns(pl.col("intent") + " ")},
        {"queries_sample": SAMPLE.with_columns(pl.col("query") + " ")},
        {"corpus": CORPUS.with_columns(pl.col("header") + ".")},
    ],
)
def test_p18_a_row_digest_changes_with_anything_the_grader_sees(change: dict[str, pl.DataFrame]) -> None:
    if "corpus" in change:
        change = {**change, "pools": pools(POOLS.with_columns(arm=pl.lit("x")), change["corpus"])}
    assert not set(built(**change)["row_digest"]) & set(built()["row_digest"])


def test_p18_line_ends_of_the_rubric_change_nothing() -> None:
    assert built(rubric="\ufeff# Rubric\r\n").equals(built())


def test_p17_a_pooled_query_without_an_intent_of_the_round_stops_grading() -> None:
    with pytest.raises(Refused, match=r"query q2.*round 1"):
        built(intents=INTENTS.filter(pl.col("query_id") == "q1"))
    with pytest.raises(Refused, match="2 faults"):
        built(round=2)


def test_p2_a_corpus_other_than_the_pooled_one_is_refused() -> None:
    with pytest.raises(Refused, match="not the one that was pooled: 8 faults"):
        built(corpus=CORPUS.with_columns(pl.col("text") + "."))
    with pytest.raises(Refused, match="no such chunk"):
        built(corpus=CORPUS.filter(pl.col("chunk_id") != "a"))
