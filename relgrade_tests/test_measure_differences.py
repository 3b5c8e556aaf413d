"""Each difference from a peer that docs/reference/measures.md explains, shown on the smallest case (P37)."""

import json
import math
import shutil
from pathlib import Path

import ir_measures
import pytest
import pytrec_eval
import ranx_values
from test_measures import mine, values
from test_score import score


def theirs(measure: str, run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> float:
    return ir_measures.calc_aggregate([parsed := ir_measures.parse_measure(measure)], qrels, run)[parsed]


def test_scores_beyond_float32_differ_here_and_tie_in_trec_eval() -> None:
    run, qrels = {"q": {"a": 1.00000001, "b": 1.0}}, {"q": {"a": 1, "b": 0}}
    assert values(mine(run, qrels, ["RR"]), "RR") == {"q": 1.0}
    assert pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(run)["q"]["recip_rank"] == 0.5


def test_ties_of_rr_at_k_and_judged_against_ir_measures() -> None:
    """The higher id first here, as trec_eval has it; the lower first in ir_measures' own two measures."""
    run, qrels = {"q": {"a": 1.0, "b": 1.0}}, {"q": {"a": 1}}
    out = mine(run, qrels, ["RR@1", "RR", "Judged@1"])
    assert values(out, "RR@1") == {"q": 0.0} and theirs("RR@1", run, qrels) == 1.0
    assert values(out, "Judged@1") == {"q": 0.0} and theirs("Judged@1", run, qrels) == 1.0
    assert values(out, "RR")["q"] == theirs("RR", run, qrels) == 0.5


def test_plain_ndcg_of_peers_is_linear() -> None:
    run, qrels = {"q": {"a": 1.0, "b": 2.0}}, {"q": {"a": 2, "b": 1}}
    peer = theirs("nDCG@5", run, qrels)
    assert values(mine(run, qrels, ["nDCG@5"], gain="exponential"), "nDCG@5")["q"] != pytest.approx(peer, abs=1e-3)
    assert values(mine(run, qrels, ["nDCG(gain=linear)@5"], gain="exponential"), "nDCG(gain=linear)@5")[
        "q"
    ] == pytest.approx(peer, abs=1e-12)


def test_nothing_relevant_is_undefined_here_and_zero_in_peers() -> None:
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 0}}
    assert values(mine(run, qrels, ["AP"]), "AP") == {"q": None}
    assert theirs("AP", run, qrels) == 0.0


def test_a_judged_query_without_results_is_zero_here_and_left_out_by_trec_eval() -> None:
    run, qrels = {"q1": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"a": 1}}
    assert values(mine(run, qrels, ["AP"]), "AP") == {"q1": 1.0, "q2": 0.0}
    assert set(pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run)) == {"q1"}
    assert theirs("AP", run, qrels) == 0.5


def test_rbp_is_binary_and_ties_go_by_chunk_id() -> None:
    """ir_measures 0.4.3 with cwl_eval 1.0.12 printed 0.328 for RBP(p=0.8,rel=1) of the first case, refuses RBP(p=0.8),
    and leaves the second's tie in the file's order (0.5). On whole collections: test_measures_published.
    """
    run, qrels = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q": {"a": 1, "b": 0, "c": 2}}
    for name in ("RBP(p=0.8)", "RBP(p=0.8,rel=1)"):
        assert values(mine(run, qrels, [name]), name)["q"] == pytest.approx(0.328, abs=1e-12)
    with pytest.raises(ValueError, match="Unsupported measures"):
        theirs("RBP(p=0.8)", run, qrels)
    tied = mine({"q": {"a": 1.0, "b": 1.0}}, {"q": {"a": 1}}, ["RBP(p=0.5)"])
    assert values(tied, "RBP(p=0.5)")["q"] == 0.25


def test_a_query_nobody_judged_is_left_out_as_in_trec_eval_9_and_refused_by_10(tmp_path: Path) -> None:
    """trec_eval 10.0-rc3 ends with "result qid '64' not found in qrels" (as recorded with cacm's run in the data's
    index); 9.0.4, ir_measures and relgrade leave the query out; relgrade counts it.
    """
    qrels, run = {"q1": {"a": 1}}, {"q1": {"a": 1.0}, "64": {"a": 1.0}}
    assert theirs("AP", run, qrels) == 1.0
    assert set(pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run)) == {"q1"}
    (tmp_path / "qrels").write_text("q1 0 a 1\n")
    (tmp_path / "one.run").write_text("q1 Q0 a 1 2.0 t\n64 Q0 a 1 1.0 t\n")
    code, out, err = score(tmp_path / "qrels", tmp_path / "one.run", "-m", "AP", "--format", "csv")
    assert code == 0 and out.splitlines()[1] == "one,AP,1.0,1,1.0,1,1.0"
    assert "'64'" in err and "(1)" in err


def test_every_measure_against_ranx() -> None:
    """ranx 0.3.21, recorded in ranx_values.json: 60 queries with grades to 3, unjudged and short rankings, 15 measures,
    equal to 1e-9 but for two explained ones. bpref is not a number there where none is judged non-relevant, and RBP
    adds the grade where ours adds 1. Theirs of a tie: the file's order.
    """
    told = json.loads(ranx_values.FILE.read_text())
    qrels, run = ranx_values.cases()
    out = mine(run, qrels, list(ranx_values.MEASURES), gain="exponential")
    compared = 0
    for name in ranx_values.MEASURES:
        for query, value in values(out, name).items():
            peer = told["values"][name][query]
            if name.startswith("RBP"):
                p = float(name[6:-1])
                ranking = sorted(run[query], key=lambda c, q=query: -run[q][c])
                gained = [(1 - p) * p**i * qrels[query].get(c, 0) for i, c in enumerate(ranking)]
                binary = [(1 - p) * p**i * (qrels[query].get(c, 0) > 0) for i, c in enumerate(ranking)]
                assert peer == pytest.approx(sum(gained), abs=1e-9) and value == pytest.approx(sum(binary), abs=1e-9)
            elif name == "bpref" and 0 not in qrels[query].values():
                assert math.isnan(peer) if value else peer == 0
            else:
                assert value == pytest.approx(peer, abs=1e-9), (name, query)
            compared += 1
    assert compared == 60 * 15 and told["ranx"] == "0.3.21"
    tied = mine({"q": ranx_values.TIED[1]}, {"q": ranx_values.TIED[0]}, ["RR"])
    assert values(tied, "RR")["q"] == 0.5 and told["values"]["RR"]["tied"] == 1.0


def test_gdeval_prints_five_digits() -> None:
    """ir_measures' ERR is gdeval.pl's, which prints five digits: the top grade 4 is as in `ERR(max=4)`."""
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    qrels = {"q": {"a": 1, "b": 0, "c": 2}}
    exact = values(mine(run, qrels, ["ERR(max=4)@20"]), "ERR(max=4)@20")["q"]
    assert exact == pytest.approx(1 / 16 + (15 / 16) * (3 / 16) / 3, abs=1e-12)
    printed = gdeval(run, qrels)
    if printed is None:
        pytest.skip("ir_measures' gdeval.pl needs Perl")
    assert printed == pytest.approx(exact, abs=5e-6) and round(printed, 5) == printed


def gdeval(run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> float | None:
    """ERR@20 by ir_measures, which calls a Perl script that wants numbers for query ids."""
    if shutil.which("perl") is None:
        return None
    return theirs("ERR@20", {"1": run["q"]}, {"1": qrels["q"]})


def test_err_takes_the_scale_s_top_where_gdeval_takes_four() -> None:
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 2}}
    out = mine(run, qrels, ["ERR", "ERR(max=4)"])
    assert values(out, "ERR") == {"q": 3 / 4} and values(out, "ERR(max=4)") == {"q": 3 / 16}
