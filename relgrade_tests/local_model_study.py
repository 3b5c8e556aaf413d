"""The demo's study with the audited queries graded by a model that runs here, and the rest by the recorded grader: for
the full test, and by hand (an hour or so; what is there already is kept):

    PYTHONPATH=.:relgrade_tests python relgrade_tests/local_model_study.py FOLDER
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import driving
import polars as pl
import yaml

from relgrade_assets.io import attempts
from relgrade_assets.io.home import Home
from relgrade_assets.io.ledger import Whose
from relgrade_assets.io.study import Study, open_study

NAME = "networkx"
WHO = "local"
DEMO = Path(__file__).resolve().parents[1] / "data" / "experiments" / NAME


@dataclass(frozen=True)
class Graded:
    """How `relgrade grade` and the run after it ended, and what was found between."""

    grading: subprocess.CompletedProcess[str]
    run: subprocess.CompletedProcess[str]
    seconds: float
    study: Study

    def text(self) -> str:
        """As docs/reliability.md states it."""
        tried = attempts.tried(self.study.ledger, Whose(NAME, self.study.round, WHO))
        spent = tried.filter(pl.col("outcome") == "accepted")["seconds"]
        gates = "; ".join(
            f"{row['gate']} {row['value']:.3f} (gate {row['threshold']:g}, {row['verdict']})"
            for row in self.study.load("verdicts").to_dicts()
        )
        spread = self.study.load("grades").filter(pl.col("query_id").is_in(audited()))["grade"].value_counts(sort=True)
        outcomes = dict(tried["outcome"].value_counts(sort=True).rows())
        return (
            f"{spent.len()} prompts accepted, attempts {outcomes}, median {spent.median():.0f} s a prompt, "
            f"{self.seconds / 60:.0f} minutes in this run; grades {dict(spread.rows())}; {gates}"
        )


def audited() -> set[str]:
    """The audited queries of the recorded study."""
    rows = (DEMO / "recorded" / "auditor-b.jsonl").read_text("utf-8").splitlines()
    return {json.loads(row)["query_id"] for row in rows}


def prepare(top: Path, **run: object) -> None:
    """Copy the demo's study with another grader, and take the recorded reviews, audit grades and the grades of the
    queries that are not audited.
    """
    folder = top / "data" / "experiments" / NAME
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("corpus.jsonl", "sheets"))
    subprocess.run([sys.executable, "build/corpus.py", "corpus.jsonl"], cwd=folder, check=True, capture_output=True)
    design = yaml.safe_load((folder / "experiment.yaml").read_text("utf-8"))
    command = {"command": "local-model", "concurrency": 2, "timeout_seconds": 3600, **run}
    design["graders"] = [{"name": WHO, "family": "gemma", "kind": "model", "run": command}]
    design["deviations"] = [d for d in design["deviations"] if d["code"] != "shared_families"]
    (folder / "experiment.yaml").write_text(yaml.safe_dump(design, sort_keys=False), encoding="utf-8")
    rest = folder / "not-audited.jsonl"
    rows = (DEMO / "recorded" / "grader-a.jsonl").read_text("utf-8").splitlines()
    rest.write_text("\n".join(r for r in rows if json.loads(r)["query_id"] not in audited()) + "\n", encoding="utf-8")
    recorded = folder / "recorded"
    for words in (
        ("run", NAME),
        ("review", NAME, str(recorded / "intent-reviews.csv")),
        ("sheets", NAME, "--grader", "auditor-b"),
        ("collect", NAME, str(recorded / "auditor-b.jsonl"), "--grader", "auditor-b"),
        ("sheets", NAME, "--grader", WHO),
        ("collect", NAME, str(rest), "--grader", WHO),
    ):
        did = driving.relgrade(top, *words)
        if did.returncode not in (0, 3):
            raise RuntimeError(f"{' '.join(words)}: {did.stdout}{did.stderr}")


def graded(top: Path) -> Graded:
    """Grade what is missing, then run the graph."""
    began = time.monotonic()
    grading = driving.relgrade(top, "grade", NAME, "--grader", WHO)
    seconds = time.monotonic() - began
    study = open_study(Home(top, top / ".relgrade", f"sqlite:///{top / '.relgrade' / 'ledger.sqlite'}"), NAME)
    return Graded(grading, driving.relgrade(top, "run", NAME), seconds, study)


if __name__ == "__main__":
    here = Path(sys.argv[1])
    if not (here / "data").exists():
        prepare(here)
    found = graded(here)
    print(found.grading.stdout, found.grading.stderr, found.run.stdout, found.run.stderr, found.text(), sep="\n")
