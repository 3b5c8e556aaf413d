# ruff: noqa: S603 - argv lists that this file makes, never a shell
"""Times `relgrade score` against its peers on one machine and prints the table of ratios and memory.

    .venv/bin/python benchmarks/run.py --size M10 --rounds 5
    TREC_EVAL=path/to/trec_eval .venv/bin/python benchmarks/run.py --size M --rounds 5 --write

Every round runs each piece of work once, one after the other (interleaved); the table has medians. Peers come from
requirements.txt, in an environment that is made on first use. `--check` compares the means alone, without peers.
Data and the environment stay in benchmarks/.work, which git leaves alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from data import SIZES, make

HERE = Path(__file__).resolve().parent
WORK = HERE / ".work"
RESULT = HERE.parent / "docs" / "benchmarks.md"
TRIVIAL = "import polars"


@dataclass
class Piece:
    """One piece of work: its command, and what each round took."""

    name: str
    command: list[str]
    inner: bool = True
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    means: dict[str, float] = field(default_factory=dict)

    def once(self) -> None:
        """Run it; wall and CPU of the work (after imports) where it says so, else of the process; peak MB."""
        env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody compiles a program's modules each time it starts
        began = time.perf_counter()
        process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
        out = process.stdout.read() if process.stdout else b""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{self.name} ended with {process.returncode}: {' '.join(self.command)}")
        wall, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime
        if self.inner:
            said = json.loads(out)
            wall, cpu, self.means = said["wall"], said["cpu"], said["means"]
        self.wall.append(wall)
        self.cpu.append(cpu)
        self.memory.append(used.ru_maxrss / 1024)


def peers() -> str:
    """The Python of the peers' environment, made where it is not there."""
    python = WORK / "peers" / "bin" / "python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(WORK / "peers")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-r", str(HERE / "requirements.txt")], check=True)
    return str(python)


def pieces(size: str, with_peers: bool) -> list[Piece]:
    """What is run at a size. trec_eval and the floor only where they can be."""
    folder = WORK / size
    make(folder, size, 4)
    work, qrels, run = str(HERE / "work.py"), str(folder / "qrels"), str(folder / "arm0.run")
    parquet = folder / "arm0.parquet"
    if not parquet.is_file():
        import polars as pl

        names = ["query_id", "q0", "chunk_id", "rank", "score", "tag"]
        texts = {"query_id": pl.String, "chunk_id": pl.String}
        frame = pl.read_csv(
            run,
            separator=" ",
            has_header=False,
            new_columns=names,
            schema_overrides=[
                pl.String,
                pl.String,
                pl.String,
                pl.Int64,
                pl.Float64,
                pl.String,
            ],
        )
        frame.select(*texts, "rank", "score").write_parquet(parquet)
    ours = [sys.executable, work, "relgrade", qrels]
    four = [str(folder / f"arm{a}.run") for a in range(4)]
    found = [
        Piece("relgrade, 1 arm", [*ours, run]),
        Piece("relgrade, 4 arms", [*ours, *four]),
        Piece("relgrade, 1 arm, Parquet", [*ours, str(parquet)]),
        Piece("relgrade, 1 arm, shuffled", [*ours, str(folder / "shuffled.run")]),
    ]
    if not with_peers:
        return found
    python = peers()
    found += [Piece(f"{p}, 1 arm", [python, work, p, qrels, run]) for p in ("pytrec_eval", "ir_measures", "ranx")]
    if os.environ.get("TREC_EVAL"):
        asked = [w for m in ("ndcg_cut.10", "recall.100", "recip_rank", "map", "P.10", "bpref") for w in ("-m", m)]
        found.append(Piece("trec_eval, 1 arm", [os.environ["TREC_EVAL"], "-q", *asked, qrels, run], inner=False))
    compiler = shutil.which("cc")
    if compiler:
        floor = WORK / "floor"
        subprocess.run([compiler, "-O3", "-o", str(floor), str(HERE / "floor.c")], check=True)
        found.append(Piece("floor in C, 1 arm", [str(floor), run], inner=False))
    make(WORK / "small", "small", 4)
    small = [str(WORK / "small" / name) for name in ("qrels", *(f"arm{a}.run" for a in range(4)))]
    whole = [sys.executable, "-m", "relgrade_assets.cli.main", "score", *small]
    found.append(Piece("relgrade score, 4 small arms, whole process", whole, inner=False))
    found.append(Piece("import polars, whole process", [sys.executable, "-c", TRIVIAL], inner=False))
    return found


def table(found: list[Piece]) -> list[str]:
    """Medians as rows; ratios against relgrade's one arm."""
    base = statistics.median(found[0].wall)
    lines = ["| work | wall, s | CPU, s | peak, MB | wall, times relgrade's 1 arm |", "| --- | --- | --- | --- | --- |"]
    for piece in found:
        wall, cpu, memory = (statistics.median(x) for x in (piece.wall, piece.cpu, piece.memory))
        lines.append(f"| {piece.name} | {wall:.3f} | {cpu:.3f} | {memory:.0f} | {wall / base:.1f} |")
    if not any(p.name.startswith("trec_eval") for p in found):
        lines.append("| trec_eval, 1 arm | not measured | | | |")
    return lines


def machine() -> str:
    """Processor, cores, system and versions; no names of hosts."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        named = [x.partition(":")[2].strip() for x in info.read_text().splitlines() if x.startswith("model name")]
        model = named[0] if named else model
    versions = ", ".join(f"{name} {version(name)}" for name in ("polars", "numpy"))
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {versions}"


def main() -> None:
    """Run the rounds and print the table; with --write also into docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="M10")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="relgrade alone, once: the means of all ways are equal")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    given = parser.parse_args()
    found = pieces(given.size, not given.check)
    before = os.getloadavg()[0]
    for _ in range(1 if given.check else given.rounds):
        for piece in found:
            piece.once()
    first = found[0].means
    wrong = [p.name for p in found if p.means and any(abs(p.means[k] - first[k]) > 1e-6 for k in first)]
    if wrong:
        raise SystemExit(f"Other means than relgrade's: {', '.join(wrong)}")
    queries, depth = SIZES[given.size]
    load = f"load average {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    lines = [
        f"{given.size}: {queries} queries x {depth} results an arm.",
        f"Medians of {len(found[0].wall)} interleaved rounds.",
        f"{machine()}; {load}.",
        "All means of nDCG@10 and AP are equal to 1e-6.",
        "",
        *table(found),
    ]
    print("\n".join(lines))
    if given.write:
        begin, end = "<!-- benchmark:begin -->\n", "<!-- benchmark:end -->"
        head, _, rest = RESULT.read_text("utf-8").partition(begin)
        RESULT.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
