"""The benchmark's own work at a tiny size: every way through the readers gives the same means. No times are judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]


def test_every_way_gives_the_same_means_at_a_tiny_size() -> None:
    command = [sys.executable, "benchmarks/run.py", "--size", "tiny", "--check"]
    ran = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rows = [line for line in ran.stdout.splitlines() if line.startswith("| relgrade, ")]
    assert len(rows) == 4 and "not measured" in ran.stdout


def test_peers_are_pinned() -> None:
    lines = (TOP / "benchmarks" / "requirements.txt").read_text("utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert len(wanted) >= 4 and all("==" in line for line in wanted)


def test_a_studys_work_gives_the_peers_values_at_a_tiny_size() -> None:
    """Pooling, kappa, alpha, kappa's interval, sign flips: ours against plain Python and the peers that tests have."""
    ran = subprocess.run(
        [sys.executable, "benchmarks/study.py", "--check"], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
