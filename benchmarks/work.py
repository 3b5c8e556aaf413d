"""One piece of work in a process of its own: `work.py WHAT QRELS RUN...`, from files to per-query scores.

Prints one JSON line: seconds of wall and CPU after imports (and after ranx' compiling), and means that show that all
did the same. run.py starts it, with relgrade's Python or the peers', and reads peak memory from the kernel.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

MEASURES = ["nDCG@10", "Recall@100", "RR@10", "AP", "P@10", "bpref", "Judged@10"]
Means = dict[str, float]


def relgrade(qrels: str, runs: list[str]) -> Callable[[], Means]:
    """The readers and measures of `relgrade score`, strict, duplicates looked for."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from relgrade_assets.io.readers.keys import read_judgments
    from relgrade_assets.io.scoring import read_hits
    from relgrade_assets.methods import measures

    def work() -> Means:
        key = read_judgments(Path(qrels), name=qrels)
        table = measures.score(read_hits(runs, key).hits, key.grades, MEASURES, relevant_from=1, gain="linear")
        means = {}
        for name in ("nDCG@10", "AP"):
            values = table.filter((table["measure"] == name) & (table["arm"] == table["arm"][0]))["value"]
            means[name] = values.fill_null(0.0).mean()
        return means

    return work


def warm(qrels: str, runs: list[str]) -> Callable[[], Means]:
    """`relgrade score` as the command does it, but not the first time in its process."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from relgrade_assets.cli.score import score

    def work() -> Means:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            score(qrels, runs)
        return {}

    for _ in range(3):
        work()
    return work


def pytrec_eval(qrels: str, runs: list[str]) -> Callable[[], Means]:
    """pytrec_eval-terrier with its own readers; RR@10 and Judged@10 are not its."""
    import pytrec_eval as peer

    def work() -> Means:
        means: Means = {}
        with Path(qrels).open() as file:
            judged = peer.parse_qrel(file)
        for path in runs:
            with Path(path).open() as file:
                run = peer.parse_run(file)
            asked = {"ndcg_cut.10", "recall.100", "recip_rank", "map", "P.10", "bpref"}
            scored = peer.RelevanceEvaluator(judged, asked).evaluate(run)
            first = {"nDCG@10": "ndcg_cut_10", "AP": "map"}
            means = means or {n: sum(q[k] for q in scored.values()) / len(judged) for n, k in first.items()}
        return means

    return work


def ir_measures(qrels: str, runs: list[str]) -> Callable[[], Means]:
    """ir_measures with its own readers."""
    import ir_measures as peer

    asked = [peer.parse_measure(n.replace("Recall", "R").replace("bpref", "Bpref")) for n in MEASURES]

    def work() -> Means:
        means: Means = {}
        judged = list(peer.read_trec_qrels(qrels))
        for path in runs:
            scored: dict[str, list[float]] = {}
            for metric in peer.iter_calc(asked, judged, peer.read_trec_run(path)):
                scored.setdefault(str(metric.measure), []).append(metric.value)
            queries = len({q.query_id for q in judged})
            means = means or {n: sum(scored[n]) / queries for n in ("nDCG@10", "AP")}
        return means

    return work


def ranx(qrels: str, runs: list[str]) -> Callable[[], Means]:
    """ranx with its own readers, compiled before the clock starts."""
    import warnings

    warnings.simplefilter("ignore")
    import ranx as peer

    asked = ["ndcg@10", "recall@100", "mrr@10", "map", "precision@10", "bpref"]
    small = {"q": {"a": 1, "b": 2}}
    peer.evaluate(peer.Qrels(small), peer.Run({"q": {"a": 1.0, "c": 2.0}}), asked)

    def work() -> Means:
        means: Means = {}
        judged = peer.Qrels.from_file(qrels, kind="trec")
        for path in runs:
            scored = peer.evaluate(judged, peer.Run.from_file(path, kind="trec"), asked, make_comparable=True)
            means = means or {"nDCG@10": float(scored["ndcg@10"]), "AP": float(scored["map"])}
        return means

    return work


def main() -> None:
    """Run what the first word says."""
    what, qrels, *runs = sys.argv[1:]
    works = {"relgrade": relgrade, "warm": warm, "pytrec_eval": pytrec_eval, "ir_measures": ir_measures, "ranx": ranx}
    work = works[what](qrels, runs)
    wall, cpu = time.perf_counter(), time.process_time()
    means = work()
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "means": means}))


if __name__ == "__main__":
    main()
