"""Somebody with only a published folder, an arm's run and the documentation (P33, P37, P42): the key's name by
coreutils, and the arm's number by two programs that are not ours.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ir_measures
import polars as pl
import pytest
from command_line import at

HOW_TO = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "verify.md"
ARMS = ("old", "new")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the stranger has: the published files, and the runs as their makers keep them."""
    top = at("frozen", tmp_path_factory.mktemp("study"))
    alone = tmp_path_factory.mktemp("stranger")
    shutil.copytree(top / ".relgrade" / "published" / "tiny", alone, dirs_exist_ok=True)
    for arm in ARMS:
        shutil.copy(top / "data" / "experiments" / "tiny" / "runs" / f"{arm}.trec", alone / f"{arm}.trec")
    shutil.rmtree(top)
    return alone


def published(folder: Path, arm: str) -> float:
    """The arm's plain mean of nDCG@10, as it was published."""
    rows = pl.read_parquet(folder / "measures.parquet").filter(
        (pl.col("arm") == arm) & (pl.col("measure") == "nDCG@10") & (pl.col("scope") == "plain")
    )
    return float(rows["value"].item())


def test_the_keys_name_against_sha256sum(folder: Path) -> None:
    """P33: sha256sum prints the hash that manifest and status name; and every file is as SHA256SUMS lists it."""
    printed = subprocess.run(["sha256sum", "key.jsonl"], cwd=folder, capture_output=True, text=True, check=True).stdout
    name = json.loads((folder / "manifest.json").read_bytes())["key"]["key_sha256"]
    assert printed == f"{name}  key.jsonl\n"
    assert json.loads((folder / "status.json").read_bytes())["key"] == name
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)


@pytest.mark.parametrize("arm", ARMS)
def test_an_arms_number_against_pytrec_eval_as_the_page_says(folder: Path, arm: str) -> None:
    """P37: the script on the page, run as it stands, prints the published number."""
    (script,) = re.findall(r"```python\n(.*?)```", HOW_TO.read_text("utf-8"), re.DOTALL)
    (folder / "run.trec").write_bytes((folder / f"{arm}.trec").read_bytes())
    ran = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) == pytest.approx(published(folder, arm), abs=1e-12)


@pytest.mark.parametrize("arm", ARMS)
def test_an_arms_number_against_ir_measures(folder: Path, arm: str) -> None:
    """P37, P42: from qrels.txt and the run, by ir_measures."""
    measure = ir_measures.nDCG(gains={0: 0, 1: 1, 2: 3}) @ 10
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.txt")))
    run = list(ir_measures.read_trec_run(str(folder / f"{arm}.trec")))
    found = ir_measures.calc_aggregate([measure], qrels, run)[measure]
    assert found == pytest.approx(published(folder, arm), abs=1e-12)
