# ruff: noqa: S603 - argv lists that this file makes, never a shell
"""Times `relgrade score` against its peers on one machine and prints the table of ratios and memory.

    .venv/bin/python benchmarks/run.py --size M --rounds 5 --write
    TREC_EVAL=path/to/trec_eval .venv/bin/python benchmarks/run.py --size M --rounds 5 --write

Every round runs each piece of work once, one after the other (interleaved); the table has medians. Peers come from
requirements.txt, in an environment that is made on first use. ir_measures and ranx run at a tenth of M, beside relgrade
at a tenth of M. `--check` compares the means alone, without peers. Data and the environment stay in benchmarks/.work,
which git leaves alone.
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
OURS = "relgrade"
RESULT = HERE.parent / "docs" / "benchmarks.md"
TRIVIAL = "import polars"
TO_PARQUET = """
import sys, polars as pl
names = ["query_id", "q0", "chunk_id", "rank", "score", "tag"]
types = dict.fromkeys(names, pl.String) | {"rank": pl.Int64, "score": pl.Float64}
run = pl.scan_csv(sys.argv[1], separator=" ", has_header=False, schema=types)
run.select("query_id", "chunk_id", "rank", "score").sink_parquet(sys.argv[2])
"""


@dataclass
class Piece:
    """One piece of work: its command, and what each round took."""

    name: str
    command: list[str]
    inner: bool = True
    against: str = ""
    due: str = ""
    also: tuple[tuple[str, str], ...] = ()
    """Other work of ours that its times are held against, and what is due there."""
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


def parquet_of(run: Path) -> Path:
    """The run beside it as Parquet, made where it is not there, in a process of its own: a child's peak is never below
    its parent's size.
    """
    parquet = run.with_suffix(".parquet")
    if not parquet.is_file():
        subprocess.run([sys.executable, "-c", TO_PARQUET, str(run), str(parquet)], check=True)
    return parquet


def pieces(size: str, with_peers: bool) -> list[Piece]:
    """What is run at a size. trec_eval and the floor only where they can be."""
    folder = WORK / size
    make(folder, size, 4)
    work, qrels, run = str(HERE / "work.py"), str(folder / "qrels"), str(folder / "arm0.run")
    parquet = parquet_of(folder / "arm0.run")
    ours = [sys.executable, work, "relgrade", qrels]
    four = [str(folder / f"arm{a}.run") for a in range(4)]
    one, trec = f"{OURS}, 1 arm", "trec_eval, 1 arm"
    found = [
        Piece(one, [*ours, run]),
        Piece(f"{OURS}, 4 arms", [*ours, *four]),
        Piece(f"{OURS}, 1 arm, Parquet", [*ours, str(parquet)]),
        Piece(f"{OURS}, 1 arm, shuffled", [*ours, str(folder / "shuffled.run")]),
    ]
    if not with_peers:
        return found
    python = peers()
    found.append(Piece("pytrec_eval, 1 arm", [python, work, "pytrec_eval", qrels, run], against=one, due=">= 6"))
    if os.environ.get("TREC_EVAL"):
        asked = [w for m in ("ndcg_cut.10", "recall.100", "recip_rank", "map", "P.10", "bpref") for w in ("-m", m)]
        command = [os.environ["TREC_EVAL"], "-q", *asked, qrels]
        also = ((f"{OURS}, 1 arm, Parquet", ">= 10"),)
        found.append(Piece(trec, [*command, run], inner=False, against=one, due=">= 6, CPU >= 4", also=also))
        listed = folder / "arms.txt"
        listed.write_text("".join(f"{arm}\n" for arm in four), encoding="utf-8")
        each = ["xargs", "-a", str(listed), "-n", "1", *command]
        base = f"{OURS}, 4 arms"
        found.append(Piece("trec_eval, 4 arms", each, inner=False, against=base, due=">= 6, CPU >= 4"))
        shuffled = [*command, str(folder / "shuffled.run")]
        base = f"{OURS}, 1 arm, shuffled"
        found.append(Piece(f"{trec}, shuffled", shuffled, inner=False, against=base, due=">= 4"))
    compiler = shutil.which("cc")
    if compiler:
        floor = WORK / "floor"
        subprocess.run([compiler, "-O3", "-o", str(floor), str(HERE / "floor.c")], check=True)
        found.append(Piece("floor in C, 1 arm", [str(floor), run], inner=False, against=one, due=">= 0.33"))
    if size == "M":
        make(WORK / "M10", "M10", 4)
        tenth = [str(WORK / "M10" / name) for name in ("qrels", "arm0.run")]
        base = f"{OURS}, 1 arm, a tenth of M"
        found.append(Piece(base, [sys.executable, work, OURS, *tenth]))
    else:
        tenth, base = [qrels, run], one
    for peer, due in (("ir_measures", ">= 18"), ("ranx", ">= 9")):
        name = f"{peer}, 1 arm{', a tenth of M' if size == 'M' else ''}"
        found.append(Piece(name, [python, work, peer, *tenth], against=base, due=due))
    make(WORK / "small", "small", 4)
    small = [str(WORK / "small" / name) for name in ("qrels", *(f"arm{a}.run" for a in range(4)))]
    whole = [sys.executable, "-m", "relgrade_assets.cli.main", "score", *small]
    polars = "import polars, whole process"
    found.append(Piece(polars, [sys.executable, "-c", TRIVIAL], inner=False))
    name = f"{OURS} score, 4 small arms, whole process"
    found.append(Piece(name, whole, inner=False, against=polars, due="0.2 s more"))
    found.append(Piece(f"{OURS} score, 4 small arms, warm", [sys.executable, work, "warm", *small], due="0.06 s"))
    return found


def table(found: list[Piece]) -> list[str]:
    """Medians as rows; each peer's against the piece of ours that did the same."""
    lines = [
        "| work | wall, s | CPU, s | peak, MB | times ours, wall | CPU | due |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    named = {piece.name: piece for piece in found}
    for piece in found:
        wall, cpu, memory = (statistics.median(x) for x in (piece.wall, piece.cpu, piece.memory))
        for name, due in ((piece.against, piece.due), *piece.also):
            base, ratios = named.get(name), ["", ""]
            if base is not None:
                ratios = [f"{wall / statistics.median(base.wall):.2f}", f"{cpu / statistics.median(base.cpu):.2f}"]
            shown = [piece.name, f"{wall:.3f}", f"{cpu:.3f}", f"{memory:.0f}"]
            if name != piece.against:
                shown = [f"the same against {name}", "", "", ""]
            lines.append(f"| {' | '.join([*shown, *ratios, due])} |")
    if not any(p.name.startswith("trec_eval") for p in found):
        lines.append("| trec_eval, 1 arm | not measured | | | | | |")
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


def _near(mine: dict[str, float], theirs: dict[str, float], name: str) -> bool:
    """Equal means; ranx breaks ties by another rule."""
    return all(abs(mine[k] - theirs[k]) <= (1e-6 if name.startswith("ranx") else 1e-9) for k in theirs)


def put(mark: str, lines: list[str]) -> None:
    """Put lines between a mark's two comments in docs/benchmarks.md."""
    begin, end = f"<!-- {mark}:begin -->\n", f"<!-- {mark}:end -->"
    head, _, rest = RESULT.read_text("utf-8").partition(begin)
    RESULT.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2], encoding="utf-8")


def main() -> None:
    """Run the rounds and print the table; with --write also into docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(set(SIZES) - {"10M"}), default="M10")
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
    wrong = [p.name for p in found if p.means and "tenth" not in p.name and not _near(p.means, first, p.name)]
    tenths = [p for p in found if "tenth" in p.name]
    wrong += [p.name for p in tenths if not _near(p.means, tenths[0].means, p.name)]
    if wrong:
        raise SystemExit(f"Other means than relgrade's: {', '.join(wrong)}")
    queries, depth = SIZES[given.size]
    load = f"load average {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    lines = [
        f"{given.size}: {queries} queries x {depth} results an arm.",
        f"Medians of {len(found[0].wall)} interleaved rounds.",
        f"{machine()}; {load}.",
        "All means of nDCG@10 and AP are equal to 1e-9 (ranx', which breaks ties otherwise, to 1e-6).",
        "",
        *table(found),
    ]
    print("\n".join(lines))
    if given.write:
        put("benchmark", lines)


if __name__ == "__main__":
    main()
