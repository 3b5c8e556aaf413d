"""A run against the sample and the corpus (P15), and what peers' public runs hold."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from relgrade_assets.errors import Refused
from relgrade_assets.io.readers import Read
from relgrade_assets.io.readers.matching import match_run
from relgrade_assets.io.readers.runs import read_run

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def counts(read: Read) -> dict[str, int]:
    return {n.code: n.count for n in read.notices}


def rows(read: Read) -> list[tuple[Any, ...]]:
    return read.frame.rows()


# ---- against the sample and the corpus


def matched(
    run_rows: list[tuple[str, str, float]], query_ids: list[str], corpus: list[str] | None = None, partial: bool = False
) -> Read:
    frame = pl.DataFrame(
        run_rows, schema={"query_id": pl.String, "chunk_id": pl.String, "score": pl.Float64}, orient="row"
    )
    frame = frame.with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query_id"))
    ids = None if corpus is None else pl.Series(corpus, dtype=pl.String)
    return match_run(frame, arm="bm25", name="a.run", query_ids=query_ids, corpus_ids=ids, may_be_partial=partial)


def test_matching_keeps_the_set_and_counts_the_rest() -> None:
    read = matched([("q3", "a", 2.0), ("q1", "b", 2.0), ("x", "b", 2.0), ("q1", "a", 9.0)], ["q1", "q2", "q3"])
    assert rows(read) == [("bm25", "q1", "b", 1, 2.0), ("bm25", "q1", "a", 2, 9.0), ("bm25", "q3", "a", 1, 2.0)]
    assert read.frame.columns == ["arm", "query_id", "chunk_id", "rank", "score"]
    assert counts(read) == {"queries_not_in_set": 1, "queries_missing": 1}
    assert "'q2'" in str(read.notices[1])


def test_an_arm_that_did_not_run_is_refused_unless_declared() -> None:
    half = matched([("q1", "a", 1.0)], ["q1", "q2"])
    assert counts(half) == {"queries_missing": 1}
    with pytest.raises(Refused, match=r"(?s)the arm bm25 did not run.*1 of 3.*'q2', 'q3'.*missing_arm"):
        matched([("q1", "a", 1.0)], ["q1", "q2", "q3"])
    assert counts(matched([("q1", "a", 1.0)], ["q1", "q2", "q3"], partial=True)) == {"queries_missing": 2}


def test_no_overlap_is_refused_with_the_nearest_ids_even_if_declared() -> None:
    with pytest.raises(Refused, match=r"Nearest: 'query-12' ~ 'query_12'"):
        matched([("query-12", "a", 1.0)], ["query_12", "other"], partial=True)
    with pytest.raises(
        Refused, match="only by leading zeros and were not matched, such as '01' here and '1' in the set"
    ):
        matched([("01", "a", 1.0)], ["1", "2"])


def test_leading_zeros_are_counted_never_matched() -> None:
    read = matched([("1", "a", 1.0), ("02", "a", 1.0), ("q07", "a", 1.0)], ["1", "2", "q7", "1"], partial=True)
    assert counts(read) == {"queries_not_in_set": 2, "leading_zeros": 2, "queries_missing": 2}
    assert read.frame["query_id"].to_list() == ["1"]


def test_a_query_whose_only_chunk_the_corpus_lacks_is_missing() -> None:
    many = [("q1", f"c{i}", 200.0 - i) for i in range(120)]
    read = matched([*many, ("q2", "elsewhere", 1.0)], ["q1", "q2"], corpus=[c for _, c, _ in many])
    assert counts(read) == {"chunks_not_in_corpus": 1, "queries_missing": 1}


def test_chunks_not_in_the_corpus_are_refused_above_one_percent() -> None:
    many = [("q", f"d{i}", float(-i)) for i in range(100)]
    read = matched(many, ["q"], [f"d{i}" for i in range(1, 100)])
    assert counts(read) == {"chunks_not_in_corpus": 1}
    assert (read.frame["rank"][0], read.frame["chunk_id"][0], read.frame.height) == (1, "d1", 99)
    with pytest.raises(
        Refused, match=r"2 of 100 results of chunks that the corpus doesn't have, such as 'd0' \(query 'q'\)"
    ):
        matched(many, ["q"], [f"d{i}" for i in range(2, 100)])


# ---- on real runs

PUBLIC: dict[str, dict[str, int]] = {
    "cacm/runs/bm25_results.res": {"rows": 5859, "tied_scores": 3565, "column_2_not_q0": 5859},
    "cacm/runs/cacm_core_1": {"rows": 5982, "tied_scores": 3316},
    "cacm/runs/cacm_core_2": {"rows": 6267, "tied_scores": 1790},
    "cacm/runs/cacm_core_3": {"rows": 6186, "tied_scores": 2198},
    "trec_eval_test/results.test": {"rows": 1500, "tied_scores": 19},
    "robust03/runs/input.MU03rob01.gz": {"rows": 100000, "tied_scores": 97500},
    "robust03/runs/input.NLPR03vb10.gz": {"rows": 1004, "tied_scores": 38},
    "robust03/runs/input.humR03dc.gz": {"rows": 10000},
    "robust03/runs/input.uic0301.gz": {"rows": 99969, "ranks_from_zero": 100},
    "trec_dl19_passage/runs/ICT-BERT2.run.gz": {"rows": 860},
    "trec_dl19_passage/runs/UNH_bm25.run.gz": {"rows": 43000, "tied_scores": 29910},
    "trec_dl19_passage/runs/bm25base_p.run.gz": {"rows": 43000, "tied_scores": 208},
    "trec_dl19_passage/runs/bm25tuned_rm3_p.run.gz": {"rows": 43000},
    "trec_dl19_passage/runs/idst_bert_p1.run.gz": {"rows": 43000, "tied_scores": 239},
    "trec_dl19_passage/runs/ms_duet_passage.run.gz": {"rows": 41042, "tied_scores": 8823},
    "trec_dl19_passage/runs/p_bert.run.gz": {"rows": 43000, "tied_scores": 285},
    "trec_dl19_passage/runs/srchvrs_ps_run2.run.gz": {"rows": 21005, "tied_scores": 104},
    "mini_peer_tests/cwl/result_file": {"rows": 30, "column_2_not_q0": 30, "crlf": 30},
    "mini_peer_tests/ir_measures/cwl.run": {"rows": 30, "column_2_not_q0": 30},
    "mini_peer_tests/ir_measures/compat.run": {"rows": 1927},
    "mini_peer_tests/trectools/r1.run": {"rows": 6},
    "mini_peer_tests/trectools/input.uic0301_top30": {"rows": 300, "ranks_from_zero": 10},
}


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
@pytest.mark.parametrize("file", PUBLIC)
def test_public_runs_against_their_index(file: str) -> None:
    """Lines, tied lines and oddities as the data's INDEX.md gives them; the ranking against plain Python's."""
    read = read_run(DATA / file, name=file, format="trec")
    assert {"rows": read.frame.height, **counts(read)} == PUBLIC[file]
    raw = (DATA / file).read_bytes()
    table = [r.split() for r in (gzip.decompress(raw) if file.endswith(".gz") else raw).decode().splitlines()]
    if len(table) > 10_000:
        return
    first = {q: i for i, q in reversed(list(enumerate(r[0] for r in table)))}
    table.sort(key=lambda r: r[2], reverse=True)
    table.sort(key=lambda r: (first[r[0]], -float(r[4])))
    assert read.frame.select("query_id", "chunk_id", "score").rows() == [(r[0], r[2], float(r[4])) for r in table]


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
def test_public_runs_that_are_refused() -> None:
    junk = DATA / "trec_eval_test" / "results.trunc"
    with pytest.raises(Refused, match=r"(?s)5 faults.*line 1: found 9 columns"):
        read_run(junk, name="results.trunc", format="trec")
    assert counts(read_run(junk, name="results.trunc", extra_columns="ignore"))["extra_columns"] == 5
    with pytest.raises(Refused, match="found 5 columns"):
        read_run(DATA / "trec_eval_test" / "prefs.rank20", name="prefs.rank20")


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
def test_padded_query_ids_of_cacm() -> None:
    """bm25_results.res writes `01`: 43 of 51 topics match, 8 differ by their zeros alone and stay apart."""
    run_frame = read_run(DATA / "cacm/runs/bm25_results.res", name="bm25", format="trec").frame
    topics = sorted({r.split()[0] for r in (DATA / "cacm/cacm.qrels").read_text().splitlines()})
    read = match_run(run_frame, arm="bm25", name="bm25", query_ids=topics, corpus_ids=None)
    assert read.frame["query_id"].n_unique() == 43
    assert counts(read)["leading_zeros"] == 8
    assert counts(read)["queries_missing"] == len(topics) - 43
