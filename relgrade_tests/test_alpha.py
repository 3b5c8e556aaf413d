"""Krippendorff's alpha and Gwet's AC2 against the krippendorff package, irrCAC, textbook tables and real graders
(P27); the law that they come from counts alone.
"""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.methods.agreement import table
from relgrade_assets.methods.alpha import LEVELS, Level, ac2, alpha, tallies

LABELS = [0, 1, 2, 3]
Grid = list[list[int | None]]


def ratings(grid: Grid, queries: list[str] | None = None) -> pl.DataFrame:
    """A row a grader and pair, from grades [pair][grader]."""
    rows = [
        (queries[u] if queries else f"q{u % 5}", f"c{u:05}", f"g{g}", grade)
        for u, row in enumerate(grid)
        for g, grade in enumerate(row)
    ]
    schema = {"query_id": pl.String, "chunk_id": pl.String, "grader": pl.String, "grade": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def peer(grid: Grid, level: Level, labels: list[int]) -> float:
    data = np.array([[np.nan if x is None else float(x) for x in row] for row in grid]).T
    return float(krippendorff.alpha(data, level_of_measurement=level, value_domain=labels))


grids = st.integers(2, 5).flatmap(
    lambda graders: st.lists(
        st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=graders, max_size=graders), min_size=1, max_size=20
    )
)


@settings(max_examples=150)
@given(grids)
def test_alpha_against_krippendorff(grid: Grid) -> None:
    """Against krippendorff 0.9.0, all three levels, with holes; None exactly where it has nothing to compare."""
    pairable = [g for row in grid if sum(x is not None for x in row) > 1 for g in row if g is not None]
    for level in LEVELS:
        value = alpha(ratings(grid), LABELS, level=level)
        if len(set(pairable)) < 2:
            assert value is None
        else:
            assert value == pytest.approx(peer(grid, level, LABELS), abs=1e-9)


@settings(max_examples=60)
@given(grids, st.randoms(use_true_random=False))
def test_laws_of_alpha_and_ac2(grid: Grid, random: Any) -> None:
    """At most 1, and 1 for equal graders where defined; who graded what, and in which order, doesn't matter."""
    shuffled = [random.sample(row, len(row)) for row in grid]
    for value, other in (
        (alpha(ratings(grid), LABELS), alpha(ratings(shuffled), LABELS)),
        (ac2(ratings(grid), LABELS), ac2(ratings(shuffled), LABELS)),
    ):
        assert value == other
        assert value is None or value <= 1 + 1e-12
    equal: Grid = [[row[0], row[0]] for row in grid if row[0] is not None]
    if len({row[0] for row in equal}) > 1:
        assert alpha(ratings(equal), LABELS) == 1
        assert ac2(ratings(equal), LABELS) == pytest.approx(1)


GWET: Grid = [
    [1, 1, None, 1],
    [2, 2, 3, 2],
    [3, 3, 3, 3],
    [3, 3, 3, 3],
    [2, 2, 2, 2],
    [1, 2, 3, 4],
    [4, 4, 4, 4],
    [1, 1, 2, 1],
    [2, 2, 2, 2],
    [None, 5, 5, 5],
    [None, None, 1, 1],
    [None, None, 3, None],
]


def test_gwets_four_raters_against_published_values() -> None:
    """Gwet's Handbook: alpha 0.743, AC1 0.775; irrCAC 0.4.4: AC2 with quadratic weights 0.9140007236."""
    grid, labels = GWET, [1, 2, 3, 4, 5]
    found = [alpha(ratings(grid), labels, level=level) for level in LEVELS]
    assert found == pytest.approx([0.743421, 0.815388, 0.849107], abs=1e-6)
    assert ac2(ratings(grid), labels, weighted=False) == pytest.approx(0.7754440681, abs=1e-9)
    assert ac2(ratings(grid), labels) == pytest.approx(0.9140007236, abs=1e-9)


def test_ac2_against_irrcac_with_holes() -> None:
    """irrCAC 0.4.4, quadratic weights, 15 pairs and four graders: 0.1281800391."""
    n = None
    grid: Grid = [
        [2, 1, n, 0], [0, 0, 0, 0], [0, 2, 1, 2], [1, 1, 2, 2], [n, 1, n, 2],
        [0, n, 2, n], [1, n, 1, 0], [n, n, 2, n], [n, 2, n, 1], [n, 0, 1, n],
        [1, 0, 0, 0], [0, 2, 1, 1], [0, 1, 2, 1], [1, 2, 2, 2], [1, 2, n, 1],
    ]  # fmt: skip
    assert ac2(ratings(grid), [0, 1, 2]) == pytest.approx(0.1281800391, abs=1e-9)


def read(path: Path, skip: int = 1) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))[skip:]


def whole(cell: str) -> int | None:
    return int(float(cell)) if cell.strip() else None


def test_textbook_tables_against_expected_values(shared_data: Path) -> None:
    """expected.json: krippendorff_wikipedia, gwet_raw_4raters and fleiss1971_diagnoses."""
    folder = shared_data / "agreement_canonical"
    want = json.loads((shared_data / "expected.json").read_text())["collections"]["agreement_canonical"]["agreement"]
    wiki = [list(x) for x in zip(*[[whole(c) for c in r[1:]] for r in read(folder / "krippendorff_wikipedia.csv")])]  # noqa: B905
    got = {level: alpha(ratings(wiki), [1, 2, 3, 4], level=level) for level in LEVELS}
    assert got == pytest.approx(want["krippendorff_wikipedia"]["computed_alpha"], abs=1e-6)
    gwet = [[whole(c) for c in row[1:]] for row in read(folder / "gwet_raw_4raters.csv")]
    assert gwet == GWET
    fleiss = [[whole(c) for c in row[1:]] for row in read(folder / "fleiss1971_diagnoses.csv")]
    assert alpha(ratings(fleiss), [1, 2, 3, 4, 5], level="nominal") == pytest.approx(
        want["fleiss1971_diagnoses"]["krippendorff_alpha"]["nominal"], abs=1e-5
    )
    artstein = [line.split("\t") for line in (folder / "artstein_poesio_example.tsv").read_text().splitlines() if line]
    labels = sorted({x[2] for x in artstein})
    frame = pl.DataFrame(
        [("q", c, g, labels.index(x)) for g, c, x in artstein],
        schema=["query_id", "chunk_id", "grader", "grade"],
        orient="row",
    )
    assert alpha(frame, list(range(len(labels))), level="nominal") == pytest.approx(
        want["artstein_poesio_example"]["nltk"]["alpha"], abs=1e-6
    )


AGENTS = ("agent_1_rating", "agent_2_rating", "agent_3_rating")


def chorus(shared_data: Path) -> pl.DataFrame:
    frame = pl.read_csv(shared_data / "chorus_quepid" / "Broad_Query_Set_individual_ratings.csv", infer_schema=False)
    long = frame.select("query", "docid", *AGENTS).unpivot(AGENTS, index=["query", "docid"])
    return long.select(
        query_id="query", chunk_id="docid", grader="variable", grade=pl.col("value").cast(pl.Int64), stratum=pl.lit("s")
    )


def test_three_people_of_chorus_against_expected_values(shared_data: Path) -> None:
    """expected.json: three people on 3,188 products, alpha 0.7695 and AC1 0.7492; irrCAC 0.4.4: AC2 0.7638987893."""
    want = json.loads((shared_data / "expected.json").read_text())["collections"]["chorus_quepid"]["agreement"]
    frame = chorus(shared_data)
    got = {level: alpha(frame, LABELS, level=level) for level in LEVELS}
    assert got == pytest.approx(want["three_agents"]["alpha"], abs=1e-6)
    ac1 = want["three_agents"]["irrCAC_gwet"]["coefficient_value"]
    assert ac2(frame, LABELS, weighted=False) == pytest.approx(ac1, abs=1e-6)
    assert ac2(frame, LABELS) == pytest.approx(0.7638987893, abs=1e-9)
    for pair, about in want["pairwise"].items():
        if "final" not in pair:
            two = frame.filter(pl.col("grader").is_in(pair.split(" vs ")))
            got = {level: alpha(two, LABELS, level=level) for level in LEVELS}
            assert got == pytest.approx(about["alpha"], abs=1e-6), pair


def test_all_judges_of_dl19_against_expected_values(shared_data: Path) -> None:
    """expected.json: every LLM judgment of TREC DL 2019 on NIST's scale, against NIST: alphas on three levels."""
    folder = shared_data / "trec_dl19_passage"
    want = json.loads((shared_data / "expected.json").read_text())["collections"]["trec_dl19_passage"]["agreement"]
    human = qrels((folder / "qrels.dl19-passage.txt").read_text())
    done = 0
    for judge, about in want["judges"].items():
        path = folder / "llm_judgments" / f"{judge}.qrels.gz"
        for key, told in about.items():
            if not key.startswith("vs_human") or not path.is_file():
                continue
            model = qrels(gzip.decompress(path.read_bytes()).decode())
            least = int(key.partition(">=")[2] or 0)
            both = [p for p in human if p in model]
            grid: Grid = [
                [int(human[p] >= least), int(model[p])] if least else [int(human[p]), int(model[p])] for p in both
            ]
            labels = list(range(max(max(g) for g in grid if g) + 1)) if grid else LABELS  # type: ignore[type-var]
            if any(x != int(x) for x in model.values()) or told.get("n") != len(both):
                continue
            got = {level: alpha(ratings(grid), labels, level=level) for level in LEVELS}
            assert got == pytest.approx(told["alpha"], abs=1e-6), (judge, key)
            done += 1
    assert done >= 11


def qrels(text: str) -> dict[tuple[str, str], float]:
    """The first grade of each pair, as expected.json has it where a file repeats one."""
    out: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        query, _, chunk, grade = line.split()
        out.setdefault((query, chunk), float(grade))
    return out


def test_undefined_and_refused_degenerate() -> None:
    assert alpha(ratings([[1, 1], [1, 1]]), LABELS) is None
    assert alpha(ratings([]), LABELS) is None
    assert ac2(ratings([[1, None], [None, 2]]), LABELS) is None
    assert ac2(ratings([[1, 1], [1, 1]]), LABELS) == 1
    with pytest.raises(Refused, match="the grade 7"):
        alpha(ratings([[1, 7]]), LABELS)
    with pytest.raises(Refused, match="2 grades"):
        alpha(pl.concat([ratings([[1, 2]])] * 2), LABELS)


def test_p27_the_agreement_table_has_alpha_of_all_graders_with_holes() -> None:
    """Three graders, of whom one took a third of the pairs: one row over all of them, a row a stratum, and AC2."""
    rng = np.random.default_rng(2)
    base = rng.integers(0, 3, 90)
    grid: Grid = [
        [int(x), int(min(x + (rng.random() < 0.2), 2)), int(x) if u % 3 == 0 else None] for u, x in enumerate(base)
    ]
    queries = [f"q{u // 9}" for u in range(90)]
    frame = ratings(grid, queries).with_columns(
        stratum=pl.when(pl.col("query_id") < "q5").then(pl.lit("head")).otherwise(pl.lit("tail"))
    )
    pairs = frame.filter(pl.col("grader") == "g0").select("query_id", "chunk_id", "stratum", "grade")
    pairs = pairs.with_columns(audit_grade="grade")
    out = table(
        {"key~auditor": pairs},
        labels=[0, 1, 2],
        relevant_from=1,
        strata=["head", "tail"],
        seed="s",
        on_random=True,
        ratings=frame,
        resamples=200,
    )
    row = out.filter(comparison="g0~g1~g2", statistic="alpha", scope="all").row(0, named=True)
    assert row["value"] == pytest.approx(peer(grid, "ordinal", [0, 1, 2]), abs=1e-12)
    assert row["low"] < row["value"] < row["high"] and row["n"] == 90 and row["queries"] == 10
    assert "Fisher-z jackknife" in row["note"] and "210 grades of 90 pairs" in row["note"]
    both = out.filter(comparison="g0~g1~g2", statistic="ac2", scope="all")["value"].item()
    assert both == pytest.approx(ac2(frame, [0, 1, 2]), abs=1e-12)
    assert set(out.filter(comparison="g0~g1~g2")["scope"]) == {"all", "head", "tail"}
    assert out.filter(comparison="key~auditor", statistic="alpha", scope="all")["value"].item() == 1.0


def test_sums_over_queries_are_whole_numbers() -> None:
    """Shares of units are kept as whole numbers of 1 / scale, so that a bootstrap adds them exactly."""
    found = tallies(ratings(GWET), [1, 2, 3, 4, 5])
    rows = found.rows()
    assert found.scale == 12 and (rows == np.rint(rows)).all()
