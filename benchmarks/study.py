# ruff: noqa: S603 - argv lists that this file makes, never a shell
"""Times what a study does beside scoring against its peers: pooling, agreement, its intervals, randomisation tests, the
demo's whole graph.

    .venv/bin/python benchmarks/study.py --rounds 5 --write
    .venv/bin/python benchmarks/study.py --check

Every round runs each piece once, one after the other (interleaved), in a process of its own; the table has medians.
Peers and data are run.py's. `--check` does a tiny size once and compares the values, without peers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from run import HERE, WORK, machine, peers, put

from data import make


@dataclass
class Row:
    """A bar of the table: what is done, ours and the peer's words for study_work.py, and the ratio that is due."""

    name: str
    what: str
    peer: str
    data: str
    due: str
    ours: str = "relgrade"
    found: dict[str, list[dict[str, float]]] = field(default_factory=lambda: {"ours": [], "peer": []})


ROWS = (
    Row(
        "pooling, 4 arms, depth 20, from the table of runs, against plain Python from TREC",
        "pooling",
        "python",
        "M",
        "10",
    ),
    Row("the same against trectools from TREC", "pooling", "trectools", "M10", "50"),
    Row("pooling from TREC, read strictly, against plain Python", "pooling", "python", "M10", "", ours="relgrade-trec"),
    Row("quadratic kappa, 1 M pairs, against scikit-learn", "kappa", "scikit-learn", "M10", "30"),
    Row("ordinal alpha, 1 M pairs, against krippendorff", "alpha", "krippendorff", "M10", "50"),
    Row(
        "kappa's interval, 2,000 resamples of 10,000 pairs, against a loop over scikit-learn",
        "interval",
        "scikit-learn",
        "M10",
        "400",
    ),
    Row(
        "sign flips, 42 x 1,000 queries x 100,000 draws, against scipy.stats.permutation_test",
        "flips",
        "scipy",
        "M10",
        "200",
    ),
)


def once(python: str, what: str, peer: str, size: str, folder: Path) -> dict[str, float]:
    """One piece in a process of its own."""
    command = [python, str(HERE / "study_work.py"), what, peer, size, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{what} of {peer} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return said


def table_of_runs(folder: Path) -> None:
    """The graph's table `runs` of the four arms, kept where it is there already."""
    path = folder / "runs.parquet"
    if path.is_file():
        return
    import polars as pl

    names = {
        "query_id": pl.String,
        "q0": pl.String,
        "chunk_id": pl.String,
        "rank": pl.Int64,
        "score": pl.Float64,
        "tag": pl.String,
    }
    each = [
        pl.scan_csv(folder / f"arm{a}.run", separator=" ", has_header=False, quote_char=None, schema=names).select(
            pl.lit(f"arm{a}").alias("arm"), "query_id", "chunk_id", "rank", "score"
        )
        for a in range(4)
    ]
    pl.concat(each).sink_parquet(path, compression="zstd")


def measured(rounds: int, rows: tuple[Row, ...]) -> dict[str, list[dict[str, float]]]:
    """Run every row's pieces, interleaved; the demo's graph too."""
    for size in {row.data for row in rows if row.what == "pooling"}:
        make(WORK / size, size, 4)
        table_of_runs(WORK / size)
    python = peers()
    graph: list[dict[str, float]] = []
    for n in range(rounds):
        for row in rows:
            folder = WORK / row.data
            row.found["ours"].append(once(sys.executable, row.what, row.ours, "full", folder))
            if n == 0 or (row.data != "M" and row.peer != "trectools"):
                row.found["peer"].append(once(python, row.what, row.peer, "full", folder))
            print(f"round {n + 1}: {row.name}: {row.found['ours'][-1]} {row.found['peer'][-1]}", file=sys.stderr)
        if n == 0:
            graph.append(once(sys.executable, "graph", "relgrade", "full", WORK))
            print(f"round {n + 1}: graph: {graph[-1]}", file=sys.stderr)
    return {"graph": graph}


def middle(found: list[dict[str, float]], key: str) -> float:
    """The median of one figure."""
    return statistics.median(x[key] for x in found)


def lines(rows: tuple[Row, ...], graph: list[dict[str, float]], before: float) -> list[str]:
    """The table, with the machine and its load."""
    said = [
        f"Medians of {len(rows[0].found['ours'])} interleaved rounds; plain Python at M, trectools and the demo once.",
        "scipy does one comparison, counted 42 times; the loop 200 resamples, counted 10 times.",
        f"{machine()}; load average {before:.1f} before and {os.getloadavg()[0]:.1f} after.",
        "",
        "| work | size | ours: wall, s | CPU, s | peak, MB | peer: wall, s | CPU, s | ratio by wall | by CPU | due |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        ours, peer = row.found["ours"], row.found["peer"]
        wall, cpu = middle(ours, "wall"), middle(ours, "cpu")
        theirs = middle(peer, "wall"), middle(peer, "cpu")
        size = row.data if row.what == "pooling" else ""
        mine = f"{wall:.4g} | {cpu:.4g} | {middle(ours, 'peak'):.0f}"
        said.append(
            f"| {row.name} | {size} | {mine} | {theirs[0]:.4g} | {theirs[1]:.4g} "
            f"| {theirs[0] / wall:.1f} | {theirs[1] / cpu:.1f} | {row.due} |"
        )
    wall, cpu = middle(graph, "wall"), middle(graph, "cpu")
    mine = f"{wall:.1f} | {cpu:.1f} | {middle(graph, 'peak'):.0f}"
    said.append(f"| the demo by its command, after imports | | {mine} | | | | | 15 s |")
    return said


def check() -> None:
    """The tiny size once: ours alone, each value as the slow way has it."""
    folder = WORK / "tiny"
    make(folder, "tiny", 4)
    table_of_runs(folder)
    by = {(w, p): once(sys.executable, w, p, "tiny", folder)["value"] for w, p in TINY}
    wrong = []
    if not by["pooling", "relgrade"] == by["pooling", "relgrade-trec"] == by["pooling", "python"]:
        wrong.append("pooling")
    for what, close in (("kappa", 1e-12), ("alpha", 1e-12), ("interval", 0.05), ("flips", 0.03)):
        if abs(by[what, "relgrade"] - by[what, "peer"]) > close:
            wrong.append(f"{what} {by[what, 'relgrade']} {by[what, 'peer']}")
    if wrong:
        raise SystemExit(f"Other values than the peers': {', '.join(wrong)}")
    print("Every way gives the same values.")


TINY = (
    ("pooling", "relgrade"),
    ("pooling", "relgrade-trec"),
    ("pooling", "python"),
    *((what, peer) for what in ("kappa", "alpha", "interval", "flips") for peer in ("relgrade", "peer")),
)


def main() -> None:
    """Run the rounds and print the table; with --write also into docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="rows of this work alone, such as kappa")
    parser.add_argument("--check", action="store_true", help="a tiny size once: the values are equal")
    parser.add_argument("--write", action="store_true", help="put the result into docs/")
    given = parser.parse_args()
    if given.check:
        check()
        return
    rows = tuple(row for row in ROWS if given.only in ("", row.what))
    before = os.getloadavg()[0]
    graph = measured(given.rounds, rows)["graph"]
    text = lines(rows, graph, before)
    print("\n".join(text))
    if given.write:
        put("study", text)


if __name__ == "__main__":
    main()
