"""Measures per query against published outputs: expected.json's values and trec_eval's own test output (P37)."""

import gzip
import json
import math
from pathlib import Path

import ir_measures
import polars as pl
import pytest
from test_measures import DATA, RESULTS, read_qrels, read_run, real, rows, values

from relgrade_assets.methods.measures import evaluate

EXPECTED = {
    "nDCG@10": "nDCG@10",
    "nDCG@20": "nDCG@20",
    "AP": "AP",
    "AP(rel=2)": "AP(rel=2)",
    "RR": "RR",
    "RR(rel=2)": "RR(rel=2)",
    "P@10": "P@10",
    "P(rel=2)@10": "P(rel=2)@10",
    "Recall@100": "R@100",
    "Recall(rel=2)@100": "R(rel=2)@100",
    "Judged@10": "Judged@10",
    "Judged@20": "Judged@20",
    "Success@10": "Success@10",
    "Success(rel=2)@10": "Success(rel=2)@10",
    "Rprec": "Rprec",
    "Rprec(rel=2)": "Rprec(rel=2)",
    "bpref": "Bpref",
    "bpref(rel=2)": "Bpref(rel=2)",
    "infAP": "infAP",
    "infAP(rel=2)": "infAP(rel=2)",
    "ERR(max=4)@20": "ERR@20",
}
COLLECTIONS = ["trec_dl19_passage", "robust03", "cacm", "trec_eval_test"]


def each_run(collection: str):
    about = json.loads((DATA / "expected.json").read_text())["collections"][collection]
    qrels = read_qrels(DATA / collection / about["qrels"])
    for name, run in about["runs"].items():
        if "ir_measures" in run and (DATA / collection / run.get("file", "none")).is_file():
            yield name, qrels, DATA / collection / run["file"], run["ir_measures"]


def undefined_as_zero_mean(frame: pl.DataFrame, measure: str) -> float:
    scores = [v or 0.0 for v in values(frame, measure).values()]
    return math.fsum(scores) / len(scores)


@real
@pytest.mark.parametrize("collection", COLLECTIONS)
def test_linear_gain_against_published_values(collection: str) -> None:
    """expected.json (ir_measures 0.4.3): mean over all judged topics; per query to the six digits of
    expected_per_query.json.gz."""
    per_query = json.loads(gzip.decompress((DATA / "expected_per_query.json.gz").read_bytes())).get(collection, {})
    checked = 0
    for name, qrels, path, means in each_run(collection):
        asked = {ours: theirs for ours, theirs in EXPECTED.items() if theirs in means}
        out = evaluate(
            read_run(path),
            qrels,
            list(asked),
            relevant_from=1,
            gain="linear",
            arms=["a"],
            query_ids=qrels["query_id"].unique().to_list(),
        )
        got = {ours: undefined_as_zero_mean(out, ours) for ours in asked}
        # ir_measures breaks Judged's ties by chunk id ascending, so only runs without ties at the cut compare.
        loose = {"ERR(max=4)@20": 1e-5}  # gdeval.pl prints five digits a query
        loose |= {"Judged@10": 0.003, "Judged@20": 0.003} if collection in ("cacm", "robust03") else {}
        for ours, theirs in asked.items():
            assert got[ours] == pytest.approx(means[theirs], abs=loose.get(ours, 1e-6)), (name, ours)
            checked += 1
        for measure, expected in per_query.get(name, {}).items():
            mine_per_query = values(out, measure)
            for query, value in expected.items():
                assert (mine_per_query[query] or 0.0) == pytest.approx(value, abs=6e-7), (name, measure, query)
    assert checked >= 7


def read_run_as_listed(path: Path) -> pl.DataFrame:
    results = pl.DataFrame([("a", r[0], r[2], float(r[4])) for r in rows(path)], schema=RESULTS, orient="row")
    ordered = results.sort("query_id", "score", descending=[False, True], maintain_order=True)
    return ordered.with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query_id"))


@real
@pytest.mark.parametrize("collection", COLLECTIONS[:3])
def test_rbp_against_published_values_with_ties_as_listed(collection: str) -> None:
    """cwl_eval (ir_measures' RBP) leaves ties in the file's order; with that order the values are equal. Ours breaks
    them by chunk id, as every other measure: an explained difference."""
    differs = 0
    for name, qrels, path, means in each_run(collection):
        for ranking, close in ((read_run_as_listed(path), 1e-6), (read_run(path), 0.004)):
            out = evaluate(
                ranking,
                qrels,
                ["RBP(rel=1)"],
                relevant_from=1,
                gain="linear",
                arms=["a"],
                query_ids=qrels["query_id"].unique().to_list(),
            )
            got = undefined_as_zero_mean(out, "RBP(rel=1)")
            assert got == pytest.approx(means["RBP(rel=1)"], abs=close), name
            differs += abs(got - means["RBP(rel=1)"]) > 1e-6
    assert differs


@real
def test_exponential_gain_on_dl19_against_ir_measures() -> None:
    oracle = ir_measures.nDCG(gains={0: 0, 1: 1, 2: 3, 3: 7}) @ 10
    for name, qrels, path, _ in list(each_run("trec_dl19_passage"))[:4]:
        run = read_run(path)
        theirs = ir_measures.calc_aggregate(
            [oracle],
            [ir_measures.Qrel(q, d, g) for q, d, g in qrels.rows()],
            [ir_measures.ScoredDoc(q, d, s) for q, d, s in run.select("query_id", "chunk_id", "score").rows()],
        )[oracle]
        out = evaluate(
            run,
            qrels,
            ["nDCG@10"],
            relevant_from=1,
            gain="exponential",
            arms=["a"],
            query_ids=qrels["query_id"].unique().to_list(),
        )
        assert undefined_as_zero_mean(out, "nDCG@10") == pytest.approx(theirs, abs=1e-9), name


@real
def test_printed_digits_against_trec_eval_out_test_aq() -> None:
    """trec_eval's own expected output for results.test: every figure of ours that it prints, to its four digits."""
    folder = DATA / "trec_eval_test"
    printed = {(m, q): v for m, q, v in (r for r in rows(folder / "out.test.aq") if len(r) == 3)}
    ours = {"map": "AP", "recip_rank": "RR", "ndcg": "nDCG", "Rprec": "Rprec", "bpref": "bpref", "infAP": "infAP"}
    ours |= {f"success_{k}": f"Success@{k}" for k in (1, 5, 10)} | {"rbp": "RBP(p=0.9)"}
    ours |= {f"P_{k}": f"P@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)}
    ours |= {f"recall_{k}": f"Recall@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)}
    ours |= {f"ndcg_cut_{k}": f"nDCG@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)}
    ours |= {f"map_cut_{k}": f"AP@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)}
    run, qrels = read_run(folder / "results.test"), read_qrels(folder / "qrels.test")
    queries = run["query_id"].unique().to_list()
    out = evaluate(run, qrels, list(ours.values()), relevant_from=1, gain="linear", arms=["a"], query_ids=queries)
    checked = 0
    for theirs, name in ours.items():
        got = values(out, name)
        for query in queries:
            if (theirs, query) in printed:
                assert f"{got[query]:.4f}" == printed[theirs, query], (theirs, query)
                checked += 1
        mean = math.fsum(v for v in got.values() if v is not None) / len(queries)
        assert f"{mean:.4f}" == printed[theirs, "all"], theirs
    assert checked >= 39 * len(queries)
