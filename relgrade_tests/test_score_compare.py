"""`relgrade score --compare` (P39): against scipy on what it prints per query, every form of output, refusals."""

from __future__ import annotations

import io
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats
from test_score import score

from relgrade_assets.methods.arm_tests import PAIRED

QUERIES, CHUNKS = 14, 6
MEASURES = "nDCG@5,RR,P@2,RBP"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Qrels and three runs over 14 queries; nothing is relevant for the last, and run c leaves the first out."""
    folder = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(3)
    grades = {(q, c): int(rng.integers(0, 3)) for q in range(QUERIES) for c in range(CHUNKS)}
    grades |= {(QUERIES - 1, c): 0 for c in range(CHUNKS)}
    (folder / "qrels").write_text("".join(f"q{q:02} 0 d{c} {g}\n" for (q, c), g in grades.items()))
    for arm, noise in (("a", 0.4), ("b", 1.5), ("c", 4.0)):
        lines = []
        for q in range(1 if arm == "c" else 0, QUERIES):
            scores = sorted(((grades[q, c] + rng.normal(0, noise), c) for c in range(CHUNKS)), reverse=True)
            lines += [f"q{q:02} Q0 d{c} {rank} {s:.6f} {arm}\n" for rank, (s, c) in enumerate(scores, start=1)]
        (folder / f"{arm}.run").write_text("".join(lines))
    return [str(folder / name) for name in ("qrels", "a.run", "b.run", "c.run")]


@pytest.fixture(scope="module")
def each(files: list[str]) -> dict[tuple[str, str], dict[str, float | None]]:
    """{(measure, arm): value by query}, as --per-query prints them."""
    code, out, err = score(*files, "-m", MEASURES, "--per-query", "--format", "json")
    assert code == 0, err
    held: dict[tuple[str, str], dict[str, float | None]] = {}
    for row in json.loads(out)["per_query"]:
        held.setdefault((row["measure"], row["arm"]), {})[row["query_id"]] = row["value"]
    return held


def differences(each: dict, measure: str, arm: str, other: str) -> dict[str, float]:
    one, two = each[measure, arm], each[measure, other]
    return {q: one[q] - two[q] for q in sorted(one) if one[q] is not None and two[q] is not None}


def document(files: list[str], *options: object) -> dict:
    code, out, err = score(*files, "-m", MEASURES, "--compare", "--format", "json", *options)
    assert code == 0, err
    return json.loads(out)


def test_p39_comparisons_against_scipy_and_the_printed_values(files: list[str], each: dict) -> None:
    """Every number of every pair from the values that --per-query prints: exact p by scipy.stats.permutation_test,
    an interval that holds scipy's t, Holm within a measure, wins, ties, losses, queries that moved most.
    """
    rows = document(files)["comparisons"]
    assert [(r["measure"], r["arm"], r["other"]) for r in rows] == [
        (m, *pair) for m in sorted(MEASURES.split(",")) for pair in combinations("abc", 2)
    ]
    for row in rows:
        apart = differences(each, row["measure"], row["arm"], row["other"])
        x = np.array(list(apart.values()))
        assert row["n"] == len(x) == (QUERIES if row["measure"] in ("P@2", "RBP") else QUERIES - 1)
        assert (row["wins"], row["ties"], row["losses"]) == ((x > 0).sum(), (x == 0).sum(), (x < 0).sum())
        assert row["difference"] == pytest.approx(x.mean(), abs=1e-12)
        peer = stats.permutation_test(
            (x,), lambda v, axis: v.sum(axis=axis), permutation_type="samples", n_resamples=np.inf, vectorized=True
        )
        assert row["p"] == pytest.approx(float(peer.pvalue), abs=1e-12) and row["test"].startswith("exact")
        t = stats.ttest_1samp(x, 0).confidence_interval(0.95)
        assert row["low"] <= t.low + 1e-12 and row["high"] >= t.high - 1e-12
        assert row["high"] - row["low"] < 1.5 * (t.high - t.low)
        most = sorted(apart, key=lambda q: (-abs(apart[q]), q))[:5]
        assert row["moved"] == [q for q in most if apart[q]]
        assert row["moved_by"] == [apart[q] for q in row["moved"]]
    for measure in MEASURES.split(","):
        mine = [r for r in rows if r["measure"] == measure]
        ordered = sorted(r["p"] for r in mine)
        assert min(r["p_holm"] for r in mine) == pytest.approx(min(1.0, 3 * ordered[0]))
        assert max(r["p_holm"] for r in mine) >= ordered[-1]


def test_a_run_without_a_query_loses_there(files: list[str], each: dict) -> None:
    """A query that run c leaves out counts 0 for c, and is no gap in the pairs."""
    assert each["nDCG@5", "c"]["q00"] == 0.0
    row = next(r for r in document(files)["comparisons"] if (r["measure"], r["arm"], r["other"]) == ("RR", "a", "c"))
    assert row["n"] == QUERIES - 1 and "q00" in row["moved"]


def test_csv_parquet_and_table_hold_what_json_holds(files: list[str], tmp_path: Path) -> None:
    told = document(files)
    assert told["seed"] == "score" and len(told["means"]) == 12
    code, out, _ = score(*files, "-m", MEASURES, "--compare", "--format", "csv", "--out", tmp_path / "c.parquet")
    assert code == 0
    frame = pl.read_parquet(tmp_path / "c.parquet")
    assert dict(frame.schema) == PAIRED and frame.to_dicts() == told["comparisons"]
    plain = [name for name in PAIRED if name not in ("moved", "moved_by")]
    read = pl.read_csv(io.BytesIO(out.encode()), schema_overrides={n: PAIRED[n] for n in plain})
    assert read.select(plain).equals(frame.select(plain))
    assert [json.loads(cell) for cell in read["moved"]] == frame["moved"].to_list()
    assert [json.loads(cell) for cell in read["moved_by"]] == frame["moved_by"].to_list()
    code, out, _ = score(*files, "-m", MEASURES, "--compare")
    means, _, pairs = out.partition("\n\n")
    assert code == 0 and len(means.splitlines()) == 13 and len(pairs.splitlines()) == 13
    heads = pairs.splitlines()[0].split()
    assert (
        heads[:8] == ["measure", "arm", "other", "n", "difference", "low", "high", "p"] and "equivalence" not in heads
    )
    first = told["comparisons"][0]
    assert pairs.splitlines()[1].split()[:5] == [
        *(first[c] for c in ("measure", "arm", "other")),
        str(first["n"]),
        f"{first['difference']:.4f}",
    ]


def test_margins_and_seed_are_used(files: list[str]) -> None:
    """A verdict where a margin was declared, from the whole interval; the seed moves an interval's ends."""
    wide = document(files, "--margin", "nDCG@5=0.9", "--margin", "RBP=.001")["comparisons"]
    verdicts: dict[str, set[str | None]] = {r["measure"]: set() for r in wide}
    for row in wide:
        verdicts[row["measure"]].add(row["equivalence"])
    assert verdicts["nDCG@5"] == {"equivalent"} and verdicts["RR"] == {None}
    assert document(files, "--margin", "nDCG@5=0.9,RBP=.001")["comparisons"] == wide
    assert verdicts["RBP"] <= {"beyond", "not_shown"} and {r["margin"] for r in wide} == {0.9, 0.001, None}
    ends = [[(r["low"], r["high"]) for r in document(files, *o)["comparisons"]] for o in ([], [], ["--seed", "other"])]
    assert ends[0] == ends[1] != ends[2]
    code, out, _ = score(*files, "-m", MEASURES, "--compare", "--margin", "nDCG@5=0.9")
    assert code == 0 and "equivalence" in out and "equivalent" in out


def test_a_p_value_is_never_printed_as_nought(tmp_path: Path) -> None:
    queries = range(30)
    (tmp_path / "q").write_text("".join(f"q{i} 0 a 1\nq{i} 0 b 0\n" for i in queries))
    (tmp_path / "good").write_text("".join(f"q{i} Q0 a 1 2 t\nq{i} Q0 b 2 1 t\n" for i in queries))
    (tmp_path / "bad").write_text("".join(f"q{i} Q0 b 1 2 t\nq{i} Q0 a 2 {1 - i / 100} t\n" for i in queries))
    code, out, _ = score(tmp_path / "q", tmp_path / "bad", tmp_path / "good", "-m", "RR", "--compare")
    assert code == 0 and "<0.0001" in out and " 0.0000 " not in out
    assert "-0.5000" in out and "same value" not in out  # the ends of an interval without spread are absent
    assert out.splitlines()[-1].split()[5:7] == ["-", "-"]


@pytest.mark.parametrize(
    ("runs", "options", "says"),
    [
        (1, ["--compare"], "--compare: found one run; expected two runs or more"),
        (2, ["--margin", "RR=0.1"], "--margin: found given; expected --compare beside it"),
        (2, ["--seed", "x"], "--seed: found given"),
        (2, ["--compare", "--per-query"], "--compare without them"),
        (1, ["--compare", "--like", "trec_eval"], "--compare without them"),
        (2, ["--compare", "--margin", "AP=0.1"], "found the measure 'AP'; expected one of nDCG@5, RR, P@2, RBP"),
        (2, ["--compare", "--margin", "RR=0"], "expected a number above 0, at most 1"),
        (2, ["--compare", "--margin", "RR=1.5"], "expected a number above 0, at most 1"),
        (2, ["--compare", "--margin", "RR=nan"], "expected a number above 0, at most 1"),
        (2, ["--compare", "--margin", "0.1"], "found the measure ''"),
        (2, ["--compare", "--margin", "RR=0.1", "--margin", "RR=0.2"], "a second margin"),
    ],
)
def test_refused_with_exit_code_2_and_nothing_printed(
    files: list[str], runs: int, options: list[str], says: str
) -> None:
    code, out, err = score(*files[: runs + 1], "-m", MEASURES, *options)
    assert (code, out) == (2, "") and says in err and "Traceback" not in err, err
    assert err.startswith("The runs can't be compared so")  # before anything is read: no notice of a file


def test_options_that_clash_are_told_together(files: list[str]) -> None:
    code, _, err = score(*files[:2], "--compare", "--margin", "x=2", "--margin", "RR@10=7")
    assert code == 2 and "3 faults" in err
