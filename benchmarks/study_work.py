# ruff: noqa: S603 - argv lists that this file makes, never a shell
"""One piece of a study's work in a process of its own: `study_work.py WHAT PEER SIZE FOLDER`.

Prints one JSON line: seconds of wall and CPU after imports and after the data is made, scaled to the whole work where a
peer does a part of it (short work is done up to six times: the median without the first), peak MB of the process, and a
value that shows that all did the same. study.py starts it, with relgrade's Python
or the peers'.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Work = tuple[Callable[[], float], float]
"""What is timed, and by how much a peer's part is smaller than the whole."""

DEPTH = 20
PAIRS = {"full": 1_000_000, "tiny": 2_000}
INTERVAL = {"full": (10_000, 250, 2_000), "tiny": (500, 20, 2_000)}
"""Pairs, queries, resamples."""
FLIPS = {"full": (42, 1_000, 100_000), "tiny": (3, 40, 2_000)}
"""Comparisons, queries, draws."""
LABELS = [0, 1, 2, 3]


def _here() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def _grades(n: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(7)
    a = draw.choice(4, n, p=[0.6, 0.2, 0.15, 0.05])
    return a, np.where(draw.random(n) < 0.8, a, draw.choice(4, n, p=[0.6, 0.2, 0.15, 0.05]))


def _differences(comparisons: int, queries: int) -> Any:
    draw = np.random.default_rng(11)
    return draw.normal(0.01, 0.2, (comparisons, queries)) * (draw.random((comparisons, queries)) < 0.7)


def pooling(peer: str, size: str, folder: Path) -> Work:
    """From runs to contributions and pools: ours from the graph's table, `relgrade-trec` and the peers from TREC."""
    runs = [folder / f"arm{a}.run" for a in range(4)]
    if peer == "relgrade":
        _here()
        import polars as pl

        from relgrade_assets.methods import pooling as ours

        def work() -> float:
            kept = ours.contributions(pl.scan_parquet(folder / "runs.parquet"), DEPTH)
            return float(ours.pooled(kept).height + kept.height)

        return work, 1.0
    if peer == "relgrade-trec":
        _here()
        import polars as pl

        from relgrade_assets.io.readers.runs import read_run
        from relgrade_assets.methods import pooling as ours

        def strictly() -> float:
            kept = [
                ours.contributions(read_run(run, name=run.name).frame.with_columns(arm=pl.lit(run.stem)), DEPTH)
                for run in runs
            ]
            whole = pl.concat(kept).sort("query_id", "chunk_id", "arm")
            return float(ours.pooled(whole).height + whole.height)

        return strictly, 1.0
    if peer == "python":

        def plainly() -> float:
            contributions: list[tuple[str, str, str, int, float]] = []
            pools: dict[str, set[str]] = {}
            for run in runs:
                results: dict[str, list[tuple[float, str]]] = {}
                with run.open() as file:
                    for line in file:
                        query, _, chunk, _, score, _ = line.split()
                        results.setdefault(query, []).append((float(score), chunk))
                for query, found in results.items():
                    found.sort(reverse=True)
                    pool = pools.setdefault(query, set())
                    for rank, (score_, chunk) in enumerate(found[:DEPTH], start=1):
                        contributions.append((query, chunk, run.stem, rank, score_))
                        pool.add(chunk)
            contributions.sort()
            return float(sum(map(len, pools.values())) + len(contributions))

        return plainly, 1.0
    from trectools import TrecPoolMaker, TrecRun

    def trectools() -> float:
        pool = TrecPoolMaker().make_pool([TrecRun(str(run)) for run in runs], strategy="topX", topX=DEPTH)
        queries = {line.split()[0] for line in runs[0].open()}
        return float(sum(len(v) for v in pool.pool.values()) + 4 * DEPTH * len(queries))

    return trectools, 1.0


def kappa(peer: str, size: str, folder: Path) -> Work:
    """Quadratic kappa of two columns of grades."""
    a, b = _grades(PAIRS[size])
    if peer == "relgrade":
        _here()
        import polars as pl

        from relgrade_assets.methods import agreement

        frame = pl.DataFrame({"a": a, "b": b})

        def work() -> float:
            counts = agreement.pair_counts(frame["a"], frame["b"], LABELS)
            return float(agreement.weighted_kappa(counts).value or 0)

        return work, 1.0
    from sklearn.metrics import cohen_kappa_score

    return lambda: float(cohen_kappa_score(a, b, labels=LABELS, weights="quadratic")), 1.0


def alpha(peer: str, size: str, folder: Path) -> Work:
    """Ordinal alpha of the same."""
    a, b = _grades(PAIRS[size])
    if peer == "relgrade":
        _here()
        import polars as pl

        from relgrade_assets.methods import agreement
        from relgrade_assets.methods.alpha import alpha_of_counts

        frame = pl.DataFrame({"a": a, "b": b})

        def work() -> float:
            return float(alpha_of_counts(agreement.pair_counts(frame["a"], frame["b"], LABELS), LABELS) or 0)

        return work, 1.0
    import krippendorff

    both = np.stack([a, b]).astype(float)
    return lambda: float(krippendorff.alpha(both, level_of_measurement="ordinal", value_domain=LABELS)), 1.0


def interval(peer: str, size: str, folder: Path) -> Work:
    """Percentiles of quadratic kappa over resamples of whole queries; the peer does a tenth of the resamples."""
    pairs, queries, resamples = INTERVAL[size]
    a, b = _grades(pairs)
    query = np.arange(pairs) * queries // pairs
    if peer == "relgrade":
        _here()
        import polars as pl

        from relgrade_assets.methods import agreement
        from relgrade_assets.methods.resampling import generator

        frame = pl.DataFrame({"query_id": pl.Series(query).cast(pl.String).str.zfill(6), "a": a, "b": b})
        weights = agreement._squares(len(LABELS))

        def work() -> float:
            _, tables = agreement.query_tables(frame, LABELS)
            drawn = agreement.resampled(
                tables, lambda t: agreement._kappas(t, weights), generator("benchmark", "7"), resamples
            )
            return float(np.quantile(drawn, 0.025))

        return work, 1.0
    from sklearn.metrics import cohen_kappa_score

    rows = [np.flatnonzero(query == q) for q in range(queries)]

    def loop() -> float:
        draw = np.random.default_rng(3)
        found = []
        for _ in range(resamples // 10):
            chosen = np.concatenate([rows[q] for q in draw.integers(0, queries, queries)])
            found.append(cohen_kappa_score(a[chosen], b[chosen], labels=LABELS, weights="quadratic"))
        return float(np.quantile(found, 0.025))

    return loop, 10.0


def flips(peer: str, size: str, folder: Path) -> Work:
    """The paired randomisation test of every comparison; the peer does one of them with all its draws."""
    comparisons, queries, draws = FLIPS[size]
    differences = _differences(comparisons, queries)
    if peer == "relgrade":
        _here()
        from relgrade_assets.methods.sign_flips import sign_flips

        columns = differences.tolist()
        return lambda: sign_flips(columns, seed="7", draws=draws)[0].p, 1.0
    from scipy.stats import permutation_test

    def test() -> float:
        found = permutation_test(
            (differences[0],),
            lambda x, axis: x.mean(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=draws,
            batch=1_000,
            rng=np.random.default_rng(3),
        )
        return float(found.pvalue)

    return test, float(comparisons)


def graph(peer: str, size: str, folder: Path) -> Work:
    """The demo's replay, after imports and with its corpus: reviews, sheets, answers, and its runs of the graph."""
    _here()
    import os
    import shutil
    import subprocess

    import dagster as dg
    import typer

    import relgrade_assets.definitions  # noqa: F401 - imported before the clock starts
    from relgrade_assets.cli.replay import DEMO, _replay
    from relgrade_assets.cli.run import write_settings
    from relgrade_assets.io.home import find_home
    from relgrade_assets.schemas import QuerySample

    top = Path(__file__).resolve().parents[1]
    home = folder.resolve() / "demo"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(top / "data" / "experiments" / DEMO, home / "data" / "experiments" / DEMO)
    os.environ.update({"DAGSTER_HOME": str(home), "RELGRADE_HOME": str(home)})
    folder = home / "data" / "experiments" / DEMO
    subprocess.run([sys.executable, str(folder / "build" / "corpus.py"), str(folder / "corpus.jsonl")], check=True)
    write_settings(find_home(home))
    # What Dagster's storage and pandera's checks import when first used is imported before the clock starts too.
    with dg.DagsterInstance.get():
        QuerySample.validate(QuerySample.empty())

    def work() -> float:
        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(typer.Exit):
            _replay(find_home(home), DEMO)
        return float((home / ".relgrade" / "published" / DEMO / "key.jsonl").stat().st_size)

    return work, 1.0


ONCE = ("pooling", "graph")
"""Work that is done once: it reads files, or leaves them."""
WORKS = {w.__name__: w for w in (pooling, kappa, alpha, interval, flips, graph)}


def main() -> None:
    """Run what the words say."""
    what, peer, size, folder = sys.argv[1:]
    work, times = WORKS[what](peer, size, Path(folder))
    walls, cpus, value = [], [], 0.0
    while not cpus or (sum(cpus) < 1.0 and len(cpus) < 6 and what not in ONCE):
        wall, cpu = time.perf_counter(), time.process_time()
        value = work()
        walls.append((time.perf_counter() - wall) * times)
        cpus.append((time.process_time() - cpu) * times)
    wall, cpu = (statistics.median(x[1:] or x) for x in (walls, cpus))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "value": value, "peak": peak}))


if __name__ == "__main__":
    main()
