"""Each difference from a peer that docs/reference/measures.md explains, shown on the smallest case (P37)."""

import ir_measures
import pytest
import pytrec_eval
from test_measures import mine, values


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


def test_err_takes_the_scale_s_top_where_gdeval_takes_four() -> None:
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 2}}
    out = mine(run, qrels, ["ERR", "ERR(max=4)"])
    assert values(out, "ERR") == {"q": 3 / 4} and values(out, "ERR(max=4)") == {"q": 3 / 16}
