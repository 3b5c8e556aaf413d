"""Names of measures, the ranking, and measures per query: against peers, published outputs, and laws (P5, P37)."""

import gzip
import math
from pathlib import Path

import ir_measures
import polars as pl
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.methods.measure_names import SPELLED, Measure, parse, parse_all
from relgrade_assets.methods.measures import evaluate, judged_hits
from relgrade_assets.methods.ranking import ranked

DATA = Path(__file__).parents[2] / "shared" / "data"
real = pytest.mark.skipif(not (DATA / "expected.json").exists(), reason="the public data is not here")
QRELS = {"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64}
RESULTS = {"arm": pl.String, "query_id": pl.String, "chunk_id": pl.String, "score": pl.Float64}


def rows(path: Path) -> list[list[str]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line.split() for line in data.decode("latin-1").splitlines() if line.strip()]


def read_qrels(path: Path) -> pl.DataFrame:
    return pl.DataFrame([(q, d, int(g)) for q, _, d, g in rows(path)], schema=QRELS, orient="row")


def read_run(path: Path, arm: str = "a") -> pl.DataFrame:
    return ranked(pl.DataFrame([(arm, r[0], r[2], float(r[4])) for r in rows(path)], schema=RESULTS, orient="row"))


def frames(run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    results = [("a", q, d, float(s)) for q, docs in run.items() for d, s in docs.items()]
    judged = [(q, d, g) for q, docs in qrels.items() for d, g in docs.items()]
    return ranked(pl.DataFrame(results, schema=RESULTS, orient="row")), pl.DataFrame(judged, schema=QRELS, orient="row")


def values(frame: pl.DataFrame, measure: str) -> dict[str, float | None]:
    return dict(frame.filter(pl.col("measure") == measure).select("query_id", "value").rows())


def mine(run, qrels, names, *, relevant_from=1, gain="linear"):
    ranking, judged = frames(run, qrels)
    return evaluate(ranking, judged, names, relevant_from=relevant_from, gain=gain, arms=["a"], query_ids=sorted(qrels))


# --- names


@pytest.mark.parametrize(
    "name",
    [
        "nDCG@10",
        "nDCG(gain=linear)@10",
        "nDCG",
        "Recall@100",
        "RR",
        "RR@10",
        "P(rel=2)@5",
        "AP",
        "AP@100",
        "AP(rel=2)",
        "Judged@10",
        "Success(rel=2)@5",
        "Rprec",
        "RBP(p=0.8)",
        "RBP(p=0.95,rel=2)@10",
        "ERR@20",
        "ERR(max=4)@20",
        "bpref",
        "infAP(rel=2)",
    ],
)
def test_canonical_names_round_trip(name: str) -> None:
    assert parse(name).name == name
    assert parse(parse(name).name) == parse(name)


def test_r_is_recall_and_one_measure_may_stand_once() -> None:
    assert parse("R@100") == parse("Recall@100") == Measure("Recall", 100)
    assert parse("AP( rel = '2' )") == Measure("AP", rel=2)
    assert parse("RBP") == parse("RBP(p=.8)") == Measure("RBP", p=0.8)
    assert parse("Bpref") == parse("BPref") == Measure("bpref") and parse("RPrec") == Measure("Rprec")
    with pytest.raises(Refused, match=r"'R@5': found the same as 'Recall@5'"):
        parse_all(["Recall@5", "AP", "R@5"])


THEIRS = (
    "Success@5",
    "Success(rel=2)@5",
    "Rprec",
    "RBP(p=0.8)",
    "RBP(p=0.9,rel=2)@7",
    "ERR@20",
    "Bpref",
    "infAP(rel=3)",
)


def test_names_against_ir_measures() -> None:
    for name in ("nDCG@10", "R@100", "RR", "RR@10", "P(rel=2)@5", "AP", "AP@100", "AP(rel=2)", "Judged@10", *THEIRS):
        theirs, ours = ir_measures.parse_measure(name), parse(name)
        assert ours.cutoff == theirs.params.get("cutoff"), name
        assert ours.rel == theirs.params.get("rel"), name
        assert ours.p == theirs.params.get("p"), name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("NDCG@10", "The nearest is nDCG@10"),
        ("map", "The nearest is AP"),
        ("recall@5", "The nearest is Recall@5"),
        ("MRR@10", "The nearest is RR@10"),
        ("P", "no cut-off"),
        ("P@0", "no such measure"),
        ("P@05", "no such measure"),
        ("nDCG(rel=1)@10", "the parameter 'rel=1'"),
        ("nDCG(gain=log)@10", "gain=log"),
        ("P(rel=0)@10", "rel=0"),
        ("P()@10", "the parameter ''"),
        ("bpref@10", "the cut-off 10"),
        ("Success", "no cut-off"),
        ("RBP(p=1)", "p=1"),
        ("RBP(p=0.0)", "p=0.0"),
        ("ERR(rel=1)", "the parameter 'rel=1'"),
        ("ERR(max=0)@5", "max=0"),
        ("", "no such measure"),
    ],
)
def test_other_names_are_refused_with_the_list(name: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(name)
    assert says in str(refused.value)
    if "no such" in says or "nearest" in says:
        assert all(spelled in str(refused.value) for spelled in SPELLED)


def test_every_bad_name_is_listed_at_once() -> None:
    with pytest.raises(Refused) as refused:
        parse_all(["x", "AP", "P", "y@3"])
    assert len(refused.value.faults) == 3


# --- ranking


def test_ties_by_chunk_id_descending_in_bytes() -> None:
    frame = pl.DataFrame(
        [
            ("a", "q", c, s)
            for c, s in [("b", 0.0), ("é", -0.0), ("z", 0.0), ("\U0001f600", 0.0), ("\uffff", 0.0), ("top", 1.0)]
        ],
        schema=RESULTS,
        orient="row",
    )
    out = ranked(frame)
    assert out["chunk_id"].to_list() == ["top", "\U0001f600", "\uffff", "é", "z", "b"]
    assert out["rank"].to_list() == [1, 2, 3, 4, 5, 6]


def test_ranks_restart_for_every_arm_and_query_and_empty_is_legal() -> None:
    frame = pl.DataFrame([(a, q, "c", 1.0) for a in "ab" for q in "xy"], schema=RESULTS, orient="row")
    assert ranked(frame)["rank"].to_list() == [1, 1, 1, 1]
    assert ranked(frame.clear()).schema["rank"] == pl.Int64
    assert ranked(frame.drop("arm").head(1), by=[])["rank"].to_list() == [1]


@pytest.mark.parametrize("score", [math.nan, math.inf, None])
def test_a_score_that_is_no_number_is_refused(score: float | None) -> None:
    frame = pl.DataFrame([("a", "q1", "c", 1.0), ("a", "q1", "d", score)], schema=RESULTS, orient="row")
    with pytest.raises(Refused, match="query 'q1', chunk 'd'"):
        ranked(frame)


# --- measures by hand


QREL = {"q1": {"a": 2, "b": 1, "c": 0, "d": -1}, "q2": {"a": 0}, "q3": {"x": 1}}
NULLS = ["nDCG@10", "Recall@2", "RR", "AP", "Success@2", "Rprec", "bpref", "infAP"]
RUN = {"q1": {"u": 5.0, "b": 4.0, "d": 3.0, "a": 2.0}, "q2": {"a": 1.0}}


def test_p37_by_hand() -> None:
    """Ranks: u unjudged, b 1, d pooled without grade, a 2."""
    names = ["nDCG@10", "Recall@2", "RR", "RR@1", "P@5", "AP", "Judged@10", "nDCG(gain=linear)@10"]
    out = mine(RUN, QREL, names, gain="exponential")
    want = {
        "nDCG@10": (1 / math.log2(3) + 3 / math.log2(5)) / (3 + 1 / math.log2(3)),
        "nDCG(gain=linear)@10": (1 / math.log2(3) + 2 / math.log2(5)) / (2 + 1 / math.log2(3)),
        "Recall@2": 0.5,
        "RR": 0.5,
        "RR@1": 0.0,
        "P@5": 0.4,
        "AP": (1 / 2 + 2 / 4) / 2,
        "Judged@10": 0.5,
    }
    assert {n: values(out, n)["q1"] for n in names} == pytest.approx(want, abs=1e-12)
    judged = dict(out.filter(pl.col("query_id") == "q1").select("measure", "judged").rows())
    assert judged["Recall@2"] == 0.5 and judged["RR@1"] == 0.0 and judged["AP"] == 0.5 and judged["P@5"] == 0.5


def test_p37_by_hand_of_the_measures_that_look_at_more_than_hits() -> None:
    """Ranks: n1 judged 0, p pooled without grade, a 2, u unjudged, b 1; c 1 is not found."""
    qrels = {"q": {"a": 2, "b": 1, "c": 1, "n1": 0, "n2": 0, "p": -1}}
    run = {"q": {"n1": 9.0, "p": 8.0, "a": 7.0, "u": 6.0, "b": 5.0}}
    names = ["Success@2", "Success@3", "Rprec", "RBP(p=0.5)", "RBP(p=0.5)@3", "bpref", "infAP", "ERR", "ERR(max=3)@3"]
    out = mine(run, qrels, names)
    e = 0.00001
    inferred = [
        1 / 3 + (2 / 3) * (2 / 2) * ((0 + e) / (1 + 2 * e)),
        1 / 5 + (4 / 5) * (3 / 4) * ((1 + e) / (2 + 2 * e)),
    ]
    want = {
        "Success@2": 0.0,
        "Success@3": 1.0,
        "Rprec": 1 / 3,
        "RBP(p=0.5)": 0.5 * (0.25 + 0.0625),
        "RBP(p=0.5)@3": 0.5 * 0.25,
        "bpref": (2 * (1 - 1 / 2)) / 3,
        "infAP": sum(inferred) / 3,
        "ERR": (3 / 4) / 3 + (1 - 3 / 4) * (1 / 4) / 5,
        "ERR(max=3)@3": (3 / 8) / 3,
    }
    assert {n: values(out, n)["q"] for n in names} == pytest.approx(want, abs=1e-15)


def test_bpref_without_a_judged_non_relevant_chunk_is_one_as_trec_eval_has_it() -> None:
    assert values(mine({"q": {"u": 2.0, "a": 1.0}}, {"q": {"a": 1}}, ["bpref"]), "bpref") == {"q": 1.0}


def test_err_above_its_top_grade_is_refused() -> None:
    with pytest.raises(Refused, match=r"'ERR\(max=1\)@5': found the grade 2; expected grades up to 1"):
        mine(RUN, QREL, ["ERR(max=1)@5"])


def test_p37_undefined_is_null_and_absent_is_zero_and_counted() -> None:
    out = mine(RUN, QREL, [*NULLS, "P@5", "Judged@10", "RBP", "ERR"])
    for name in NULLS:
        assert values(out, name)["q2"] is None
        assert values(out, name)["q3"] == 0.0
    assert [values(out, n)["q2"] for n in ("P@5", "RBP", "ERR")] == [0.0, 0.0, 0.0]
    assert values(out, "Judged@10") == {"q1": 0.5, "q2": 1.0, "q3": 0.0}
    assert out.filter(~pl.col("retrieved"))["query_id"].unique().to_list() == ["q3"]
    assert out.filter(~pl.col("retrieved"))["judged"].unique().to_list() == [1.0]


def test_p5_relevant_from_and_gain_of_the_scale_are_used() -> None:
    out = mine(RUN, QREL, ["RR", "AP", "Recall@10", "RR(rel=1)", "AP(rel=1)"], relevant_from=2)
    got = {n: values(out, n)["q1"] for n in ("RR", "AP", "Recall@10", "RR(rel=1)", "AP(rel=1)")}
    assert got == {"RR": 0.25, "AP": 0.25, "Recall@10": 1.0, "RR(rel=1)": 0.5, "AP(rel=1)": 0.5}
    assert values(out, "RR")["q3"] is None
    linear, exponential = mine(RUN, QREL, ["nDCG@10"]), mine(RUN, QREL, ["nDCG@10"], gain="exponential")
    assert values(linear, "nDCG@10")["q1"] != values(exponential, "nDCG@10")["q1"]
    assert values(linear, "nDCG@10") == values(
        mine(RUN, QREL, ["nDCG(gain=linear)@10"], gain="exponential"), "nDCG(gain=linear)@10"
    )


def test_every_arm_and_query_has_its_rows_in_order() -> None:
    ranking, qrels = frames(RUN, QREL)
    out = evaluate(
        ranking,
        qrels,
        ["RR", "AP"],
        relevant_from=1,
        gain="linear",
        arms=["b", "a", "é"],
        query_ids=["q3", "q1", "nowhere"],
    )
    assert out.columns == ["arm", "query_id", "measure", "value", "judged", "retrieved"]
    assert out.height == 18 and out.equals(out.sort("arm", "query_id", "measure"))
    assert set(out.filter(pl.col("arm") == "b")["retrieved"]) == {False}
    assert out.filter((pl.col("arm") == "b") & (pl.col("query_id") == "q1"))["value"].to_list() == [0.0, 0.0]
    assert out.filter(pl.col("query_id") == "nowhere")["value"].to_list() == [None] * 6
    empty = evaluate(ranking, qrels, ["RR"], relevant_from=1, gain="linear", arms=[], query_ids=[])
    assert empty.height == 0 and empty.schema == out.schema


def test_rows_of_arms_and_queries_that_are_not_listed_count_nowhere() -> None:
    """Neither as hits nor in the length of another ranking."""
    ranking, _ = frames(RUN, QREL)
    both = pl.concat([ranking.with_columns(arm=pl.lit(arm)) for arm in ("a", "b", "c")])
    qrels = pl.DataFrame({"query_id": ["q1", "q3"], "chunk_id": ["a", "a"], "grade": [1, 1]})
    for arms, queries in ((["a", "c"], ["q1", "q9"]), (["b"], ["q9"]), (["a", "b", "c"], ["q3"])):
        hits = judged_hits(both, qrels, arms, queries)
        lengths = [both.filter((pl.col("arm") == a) & (pl.col("query_id") == q)).height for a in arms for q in queries]
        assert hits.retrieved.tolist() == lengths
        wanted = ranking.filter(pl.col("query_id").is_in(queries)).join(qrels, on=["query_id", "chunk_id"]).height
        assert len(hits.cell) == wanted * len(arms)


def test_a_pair_twice_in_the_judgments_is_refused() -> None:
    ranking, qrels = frames(RUN, QREL)
    with pytest.raises(Refused, match=r"query 'q1', chunk 'a': found 2 grades"):
        evaluate(
            ranking,
            pl.concat([qrels, qrels.head(1)]),
            ["AP"],
            relevant_from=1,
            gain="linear",
            arms=["a"],
            query_ids=["q1"],
        )


# --- against peers


ids = st.sampled_from(["a", "b", "c", "d", "aa", "é", "Z", "7", "07", "ab", "x", "y"])
qrels_st = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]), st.dictionaries(ids, st.integers(-1, 3), min_size=1), min_size=1
)
runs_st = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]),
    st.dictionaries(ids, st.sampled_from([0.0, 1.0, -2.5, 3.0, 1e-3]), min_size=1),
    min_size=1,
)
PYTREC = {
    "nDCG@3": "ndcg_cut_3",
    "nDCG": "ndcg",
    "Recall@3": "recall_3",
    "RR": "recip_rank",
    "P@3": "P_3",
    "AP": "map",
    "AP@3": "map_cut_3",
    "Success@3": "success_3",
    "Rprec": "Rprec",
    "bpref": "bpref",
    "infAP": "infAP",
}


@settings(derandomize=True, max_examples=150, deadline=None)
@given(run=runs_st, qrels=qrels_st, level=st.integers(1, 2))
def test_linear_gain_against_pytrec_eval(run, qrels, level) -> None:
    """Against pytrec_eval-terrier 0.5.x, ties, missing queries and -1 included."""
    asked = {
        "ndcg_cut.3",
        "ndcg",
        "recall.3",
        "recip_rank",
        "P.3",
        "map",
        "map_cut.3",
        "success.3",
        "Rprec",
        "bpref",
        "infAP",
    }
    # pytrec_eval never returns from a query whose grades are all negative; it has nothing relevant, so 0 stands for it.
    graded = {q: docs for q, docs in qrels.items() if max(docs.values()) >= 0}
    theirs = pytrec_eval.RelevanceEvaluator(graded, asked, relevance_level=level).evaluate(run) if graded else {}
    out = mine(run, qrels, list(PYTREC), relevant_from=level)
    for name, key in PYTREC.items():
        for query, value in values(out, name).items():
            assert (value or 0.0) == pytest.approx(theirs.get(query, {key: 0.0})[key], abs=1e-12), (name, query)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(run=runs_st, qrels=qrels_st)
def test_exponential_gain_and_cut_rr_against_ir_measures(run, qrels) -> None:
    """Against ir_measures 0.4.3; its nDCG maps gains, which is the same as exponential gain."""
    gains = {0: 0, 1: 1, 2: 3, 3: 7}
    pairs = {"nDCG@3": ir_measures.nDCG(gains=gains) @ 3, "RR@2": ir_measures.RR @ 2}
    clean = {q: {d: max(g, 0) for d, g in docs.items()} for q, docs in qrels.items()}
    # ir_measures breaks RR@k's ties by id ascending: give it the one ranking as scores.
    ranking = frames(run, qrels)[0]
    scores: dict[str, dict[str, float]] = {}
    for q, d, r in ranking.select("query_id", "chunk_id", "rank").rows():
        scores.setdefault(q, {})[d] = 1000.0 - r
    out = mine(run, qrels, list(pairs), gain="exponential")
    for name, measure in pairs.items():
        theirs = {m.query_id: m.value for m in ir_measures.iter_calc([measure], clean, scores)}
        for query, value in values(out, name).items():
            assert (value or 0.0) == pytest.approx(theirs.get(query, 0.0), abs=1e-9), (name, query)


# --- laws


@settings(derandomize=True, max_examples=50, deadline=None)
@given(run=runs_st, qrels=qrels_st)
def test_laws_of_measures(run, qrels) -> None:
    """In [0, 1]; a constant added changes nothing; nothing below rank k changes a measure @k; relabelling queries
    changes nothing."""
    names = ["nDCG@2", "Recall@2", "RR@2", "P@2", "AP@2", "Judged@2", "Success@2", "RBP@2", "ERR@2"]
    names += ["AP", "nDCG", "Rprec", "bpref", "infAP", "RBP", "ERR"]
    out = mine(run, qrels, names)
    assert out["value"].drop_nulls().is_between(0, 1).all() and out["judged"].is_between(0, 1).all()
    shifted = {q: {d: s + 64.0 for d, s in docs.items()} for q, docs in run.items()}
    assert mine(shifted, qrels, names).equals(out)
    ranking, judged = frames(run, qrels)
    cut = evaluate(
        ranking.filter(pl.col("rank") <= 2),
        judged,
        names[:9],
        relevant_from=1,
        gain="linear",
        arms=["a"],
        query_ids=sorted(qrels),
    )
    assert cut.equals(mine(run, qrels, names[:9]))
    renamed = mine({f"z{q}": v for q, v in run.items()}, {f"z{q}": v for q, v in qrels.items()}, names)
    assert renamed.drop("query_id").equals(out.drop("query_id"))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(qrels=qrels_st, gain=st.sampled_from(["linear", "exponential"]))
def test_the_ideal_order_has_ndcg_one(qrels, gain) -> None:
    run = {q: {d: float(g) for d, g in docs.items()} for q, docs in qrels.items()}
    out = mine(run, qrels, ["nDCG@3", "nDCG"], gain=gain)
    assert set(out["value"].drop_nulls()) <= {1.0}


def test_the_ideal_comes_from_the_key_not_from_what_was_retrieved() -> None:
    out = mine({"q": {"b": 1.0}}, {"q": {"a": 2, "b": 1}}, ["nDCG@10"])
    assert values(out, "nDCG@10")["q"] == pytest.approx(1 / (2 + 1 / math.log2(3)))
