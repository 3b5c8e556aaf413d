"""`relgrade agree` and `relgrade plan` as people call them: numbers against published values, files that can't be
used, plots that fetch nothing, and no Dagster (P11, P27).
"""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from command_line import expect

from relgrade_assets.methods.planning import band, size_for, size_for_difference

TOP = Path(__file__).resolve().parents[1]


def p19(path: Path, grades: dict[str, int | None]) -> Path:
    """A file of grades in P19's form, pairs named `query chunk`."""
    rows = [
        {
            "query_id": pair.split()[0],
            "chunk_id": pair.split()[1],
            "reason": "so",
            "grade": grade,
            **({} if grade is not None else {"unrateable": True}),
        }
        for pair, grade in grades.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def trec(path: Path, grades: dict[str, int], judge: str = "0") -> Path:
    path.write_text("".join(f"{p.split()[0]} {judge} {p.split()[1]} {g}\n" for p, g in grades.items()))
    return path


PAIRS = [f"q{i % 6} c{i}" for i in range(36)]
ANN = {pair: i % 3 for i, pair in enumerate(PAIRS)}
BO = {pair: i % 3 if i % 4 else (i + 1) % 3 for i, pair in enumerate(PAIRS)}
CY = {pair: i % 3 for i, pair in enumerate(PAIRS) if i % 2}


def rows_of(out: str) -> dict[tuple[str, str], dict[str, str]]:
    return {(r["comparison"], r["statistic"]): r for r in csv.DictReader(io.StringIO(out))}


def test_p27_three_graders_of_whom_one_took_half(tmp_path: Path) -> None:
    """JSON Lines and qrels together: every pair of graders, and alpha over all three with their holes."""
    files = [
        p19(tmp_path / "ann.jsonl", ANN),
        p19(tmp_path / "bo.jsonl", BO),
        trec(tmp_path / "cy.qrels", CY),
    ]
    ran = expect(0, tmp_path, "agree", *files, "--format", "csv")
    rows = rows_of(ran.out)
    assert {c for c, _ in rows} == {"ann~bo", "ann~cy", "bo~cy", "ann~bo~cy"}
    assert rows["ann~cy", "weighted_kappa"]["value"] == "1.0" and rows["ann~cy", "weighted_kappa"]["n"] == "18"
    assert rows["ann~bo~cy", "alpha"]["n"] == "36" and "90 grades of 36 pairs" in rows["ann~bo~cy", "alpha"]["note"]
    assert "audited" not in ran.out
    shown = expect(0, tmp_path, "agree", *files).out
    assert "Grades 0 to 2, relevant from 1" in shown and "ann down, bo across" in shown
    told = json.loads(expect(0, tmp_path, "agree", *files, "--format", "json").out)
    assert told["top_grade"] == 2 and len(told["rows"]) == len(list(csv.DictReader(io.StringIO(ran.out))))


def test_unrateable_and_pooled_pairs_are_holes(tmp_path: Path) -> None:
    ann = p19(tmp_path / "ann.jsonl", {**ANN, "q0 c0": None})
    bo = trec(tmp_path / "bo.txt", {**BO, "q1 c1": -1})
    rows = rows_of(expect(0, tmp_path, "agree", ann, bo, "--format", "csv").out)
    assert rows["ann~bo", "weighted_kappa"]["n"] == "34"
    assert "2 pairs without a grade" in rows["ann~bo", "weighted_kappa"]["note"]


def test_judges_in_column_two_are_graders(tmp_path: Path) -> None:
    both = tmp_path / "book.qrels"
    lines = [f"{p.split()[0]} {judge} {p.split()[1]} {g[p]}\n" for judge, g in (("a", ANN), ("b", BO)) for p in PAIRS]
    both.write_text("".join(lines))
    out = expect(0, tmp_path, "agree", both, "--format", "csv").out
    assert {c for c, _ in rows_of(out)} == {"book:a~book:b"}


@pytest.mark.parametrize(
    ("files", "more", "said"),
    [
        (["ann.jsonl"], [], "needs two graders"),
        (["ann.jsonl", "other/ann.jsonl"], [], "can't be told apart"),
        (["ann.jsonl", "apart.qrels"], [], "no pair that two of them graded"),
        (["ann.jsonl", "bad.jsonl"], [], "bad.jsonl, line 1"),
        (["ann.jsonl", "bo.qrels"], ["--top-grade", "1"], "from 0 to 1"),
        (["ann.jsonl", "bo.qrels"], ["--relevant-from", "3"], "No grade would be relevant"),
        (["ann.jsonl", "missing.qrels"], [], "missing.qrels"),
    ],
)
def test_what_can_not_be_used_is_refused(tmp_path: Path, files: list[str], more: list[str], said: str) -> None:
    """Exit code 2, a message that names what is wrong, and no plot."""
    p19(tmp_path / "ann.jsonl", {**ANN, "q9 c9": 1})
    (tmp_path / "other").mkdir()
    p19(tmp_path / "other" / "ann.jsonl", BO)
    trec(tmp_path / "apart.qrels", {"z z": 1})
    trec(tmp_path / "bo.qrels", BO)
    (tmp_path / "bad.jsonl").write_text('{"query_id": "q"}\n')
    plot = tmp_path / "plot.html"
    ran = expect(2, tmp_path, "agree", *[tmp_path / f for f in files], *more, "--plot", plot)
    assert said in ran.said and not plot.exists()


@pytest.mark.parametrize("command", ["agree", "plan"])
def test_a_plot_is_one_file_that_fetches_nothing(tmp_path: Path, command: str) -> None:
    plot = tmp_path / "plot.html"
    words = (
        ["agree", p19(tmp_path / "ann.jsonl", ANN), p19(tmp_path / "bo.jsonl", BO)]
        if command == "agree"
        else ["plan", "--queries", "50"]
    )
    assert f"Plot: {plot}" in expect(0, tmp_path, *words, "--plot", plot).out
    page = plot.read_text(encoding="utf-8")
    assert "Plotly.newPlot" in page and not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
    expect(0, tmp_path, *words, "--plot", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == plot.read_bytes()


@pytest.mark.parametrize("module", ["agree", "plan"])
def test_neither_loads_dagster(module: str) -> None:
    code = f"import sys, relgrade_assets.cli.{module}, relgrade_assets.io.plots; print('dagster' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_p27_dl19_against_published_values(tmp_path: Path, shared_data: Path) -> None:
    """expected.json: GPT-4o's and Flan-T5's judgments of DL19 against NIST's, through the command."""
    folder = shared_data / "trec_dl19_passage"
    want = json.loads((shared_data / "expected.json").read_text())["collections"]["trec_dl19_passage"]["agreement"]
    judges = ("gpt-4o_umbrela", "flan-t5-large_4prompts")
    files = [folder / "qrels.dl19-passage.txt", *[folder / "llm_judgments" / f"{j}.qrels.gz" for j in judges]]
    rows = rows_of(expect(0, tmp_path, "agree", *files, "--format", "csv").out)
    for judge in judges:
        about = want["judges"][judge]["vs_human"]
        pair = "~".join(sorted([judge, "qrels.dl19-passage"]))
        assert float(rows[pair, "weighted_kappa"]["value"]) == pytest.approx(about["kappa_quadratic"], abs=1e-6)
        assert float(rows[pair, "binary_kappa"]["value"]) == pytest.approx(about["kappa_bin>=1"], abs=1e-6)
        assert float(rows[pair, "alpha"]["value"]) == pytest.approx(about["alpha"]["ordinal"], abs=1e-6)
        assert int(rows[pair, "alpha"]["n"]) == about["n"]


def test_p27_fira_against_published_values(tmp_path: Path, shared_data: Path) -> None:
    """expected.json: a crowd against TREC on what TREC had called relevant: kappa 0.097, for want of range."""
    folder = shared_data / "fira_dl19_docs"
    want = json.loads((shared_data / "expected.json").read_text())["collections"]["fira_dl19_docs"]["agreement"]
    about = want["fira_docs_max_vs_trec_dl19_doc"]
    files = [folder / "fira-trec19-notrec-qrels-docs-max.txt", folder / "qrels.dl19-doc.txt.gz"]
    rows = rows_of(expect(0, tmp_path, "agree", *files, "--format", "csv").out)
    got = {s: float(r["value"]) for (_, s), r in rows.items() if s in ("weighted_kappa", "binary_kappa", "alpha")}
    assert got == pytest.approx(
        {
            "weighted_kappa": about["kappa_quadratic"],
            "binary_kappa": about["kappa_bin>=1"],
            "alpha": about["alpha"]["ordinal"],
        },
        abs=1e-6,
    )


def test_p11_plan_without_an_experiment(tmp_path: Path) -> None:
    words = [
        "plan",
        "--queries",
        "160",
        "--band",
        "0.05",
        "--difference",
        "0.05",
        "--chunks",
        "1000",
        "--format",
        "json",
    ]
    told = json.loads(expect(0, tmp_path, *words).out)
    (row,) = told["rows"]
    assert row["band"] == pytest.approx(band(0.7, 160)) and row["queries_wanted"] == size_for(0.7, 0.05)
    assert told["queries_for_difference"] == size_for_difference(0.05, 0.2) and row["pairs_exhaustive"] == 160_000
    coarse = expect(0, tmp_path, "plan", "--queries", "8")
    assert "8 queries are coarse" in coarse.err and "+-" in coarse.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "neither"),
        (["tiny", "--queries", "3"], "both"),
        (["--queries", "9", "--band", "0"], "--band"),
        (["--queries", "9", "--spread", "-1", "--difference", "2"], "2 faults"),
    ],
)
def test_a_plan_of_nothing_is_refused(tmp_path: Path, words: list[str], said: str) -> None:
    assert said in expect(2, tmp_path, "plan", *words).err


def test_p11_plan_of_an_experiment_before_and_after_its_sample(tmp_path: Path) -> None:
    """Before the sample is drawn the design's targets count and no headline is promised; afterwards the table `plan`
    says the same numbers as the command.
    """
    from driving import run

    tiny.settings(tmp_path)
    tiny.write_experiment(tmp_path)
    early = expect(0, tmp_path, "plan", tiny.NAME, "--format", "csv")
    assert [r["scope"] for r in csv.DictReader(io.StringIO(early.out))] == ["head", "torso", "tail", "all"]
    assert "isn't drawn yet" in early.err
    assert "plan" in run(tmp_path, "queries", "query_sample", "plan").made
    late = expect(0, tmp_path, "plan", tiny.NAME, "--format", "csv").out
    assert late == tiny.study_of(tmp_path).load("plan").write_csv()
