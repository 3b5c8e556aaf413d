"""Real exports of other tools (P25): each read as judgments of its graders, and their agreement against values that
peers computed (../shared/data/expected.json: scikit-learn 1.9.1, krippendorff 0.9.0). Skipped where the data is absent.
"""

from __future__ import annotations

import csv
import gzip
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from relgrade_assets.errors import Refused
from relgrade_assets.io.imports import Asked, read_tool
from relgrade_assets.io.readers.imported import Raw
from relgrade_assets.io.readers.ltr import read_ltr
from relgrade_assets.io.readers.opensearch import read_opensearch, read_rre
from relgrade_assets.io.readers.qrels import read_qrels
from relgrade_assets.io.readers.quepid import read_book, read_ratings
from relgrade_assets.methods import agreement
from relgrade_assets.methods.alpha import ac2, alpha

SCALE = [0, 1, 2, 3]
AGENTS = ("agent_1_rating", "agent_2_rating", "agent_3_rating")


def asked_of(raw: Raw) -> Asked:
    """A sheet that asks for every pair of a file, with ids of our own for its queries."""
    queries = raw.frame.select("query").unique(maintain_order=True).with_row_index("n")
    queries = queries.select(query_id=pl.format("q{}", pl.col("n")), query="query")
    pairs = raw.frame.select("query", "chunk_id").unique(maintain_order=True).join(queries, on="query", how="left")
    return Asked(queries, pairs.select("query_id", "chunk_id"))


@pytest.fixture(scope="module")
def expected(shared_data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared_data / "expected.json").read_text())["collections"]
    return found


@pytest.fixture(scope="module")
def agents(shared_data: Path) -> dict[str, pl.DataFrame]:
    """The three agents of chorus, and the adjudicated rating, each collected as a grader of one file."""
    path = shared_data / "chorus_quepid" / "Broad_Query_Set_individual_ratings.csv"
    asked = asked_of(read_book(path, name=path.name, judge=AGENTS[0]))
    found = {}
    for judge in (*AGENTS, "final_rating"):
        read, over = read_tool(
            path,
            name=path.name,
            tool="quepid-book",
            asked=asked,
            top_grade=3,
            reason_needed="none",
            judge=judge,
        )
        assert (read.good.height, over, read.bad) == (3188, 0, ())
        found[judge] = read.good.select("query_id", "chunk_id", "grade")
    return found


def test_pairwise_kappas_of_three_agents_against_sklearn(
    agents: dict[str, pl.DataFrame], expected: dict[str, Any]
) -> None:
    """P25, P27: three graders of one real file, and the final rating."""
    values = expected["chorus_quepid"]["agreement"]["pairwise"]
    assert len(values) == 6
    for a, b in combinations(agents, 2):
        both = agents[a].join(agents[b], on=["query_id", "chunk_id"], suffix="_b")
        tables = agreement.query_tables(both.select("query_id", a="grade", b="grade_b"), SCALE)[1]
        matrix = tables.sum(axis=0)
        value = values[f"{a} vs {b}"]
        assert int(matrix.sum()) == value["n"]
        assert agreement.weighted_kappa(matrix).value == pytest.approx(value["kappa_quadratic"], abs=1e-6)
        assert agreement.cohen_kappa(matrix).value == pytest.approx(value["kappa"], abs=1e-6)
        assert 1 - (agreement.disagreement(matrix).value or 0) == pytest.approx(value["percent_agreement"], abs=1e-6)
        for least in (1, 2, 3):
            two = agreement.binary(tables, SCALE, least).sum(axis=0)
            assert agreement.cohen_kappa(two).value == pytest.approx(value[f"kappa_bin>={least}"], abs=1e-6)


def test_alpha_of_three_agents_against_krippendorff(agents: dict[str, pl.DataFrame], expected: dict[str, Any]) -> None:
    """P27: and Gwet's coefficient, unweighted (AC1), against irrCAC 0.4.4."""
    values = expected["chorus_quepid"]["agreement"]["three_agents"]
    ratings = pl.concat([agents[a].with_columns(grader=pl.lit(a)) for a in AGENTS])
    for level in ("nominal", "ordinal", "interval"):
        assert alpha(ratings, SCALE, level=level) == pytest.approx(values["alpha"][level], abs=1e-6)
    assert ac2(ratings, SCALE, weighted=False) == pytest.approx(values["irrCAC_gwet"]["coefficient_value"], abs=1e-5)


def test_quepid_ratings_rated_and_unrated_against_plain_csv(shared_data: Path) -> None:
    """P25: a blank rating is none, never 0."""
    folder = shared_data / "chorus_quepid"
    for name, pairs, rated in (
        ("Broad_Query_Set_rated.csv", 3668, 3668),
        ("Broad_Query_Set_unrated.csv", 3188, 6),
        ("Chorus_Electronics_basic.csv", None, None),
    ):
        with (folder / name).open(encoding="utf-8", newline="") as stream:
            plain = list(csv.DictReader(stream))
        raw = read_ratings(folder / name, name=name)
        assert raw.frame.height == len(plain) and pairs in (None, len(plain))
        read, _ = read_tool(
            folder / name,
            name=name,
            tool="quepid-ratings",
            asked=asked_of(raw),
            top_grade=3,
            reason_needed="none",
        )
        assert read.good["grade"].to_list() == [int(r["rating"]) for r in plain if r["rating"]]
        assert rated in (None, read.good.height) and not read.bad


def test_opensearch_esci_needs_a_mapping_and_gives_every_pair(shared_data: Path) -> None:
    """P25: 150 queries, 6,678 pairs, ratings such as 100.000."""
    path = shared_data / "opensearch_esci" / "esci_us_judgments.json.gz"
    raw = read_opensearch(path, name=path.name)
    assert raw.frame.height == 6678 and raw.frame["query"].n_unique() == 150
    given: dict[str, Any] = {"name": path.name, "tool": "opensearch", "asked": asked_of(raw), "top_grade": 3}
    with pytest.raises(Refused, match="nothing says what they mean: 4 faults"):
        read_tool(path, reason_needed="none", **given)
    ratings = ["100.000=3", "10.000=2", "1.000=1", "0.000=0"]
    read, over = read_tool(path, reason_needed="none", ratings=ratings, **given)
    counts = dict(read.good.group_by("grade").len().iter_rows())
    assert (over, read.bad, counts) == (0, (), {3: 3389, 2: 1898, 1: 305, 0: 1086})
    plain = json.loads(gzip.decompress(path.read_bytes()))["judgmentRatings"]
    assert raw.frame["chunk_id"].to_list() == [r["docId"] for q in plain for r in q["ratings"]]


def test_opensearch_ratings_between_0_and_1_are_refused_without_a_mapping(shared_data: Path) -> None:
    path = shared_data / "opensearch_esci" / "ImportJudgments.json"
    asked = asked_of(read_opensearch(path, name=path.name))
    with pytest.raises(Refused, match=r"nothing says what they mean(.|\n)*'0.9'"):
        read_tool(path, name=path.name, tool="opensearch", asked=asked, top_grade=3, reason_needed="none")


def test_learning_to_rank_text_of_hello_ltr(shared_data: Path) -> None:
    """P25: tabs, weights in the header, an empty line."""
    path = shared_data / "ltr_judgments" / "hello-ltr.title_judgments.txt"
    raw = read_ltr(path, name=path.name)
    counts = dict(raw.frame.group_by("rating").len().iter_rows())
    assert raw.frame.height == 1390 and (counts["0"], counts["4"]) == (1098, 46)
    assert raw.frame.row(0, named=True)["query"] == "rambo" and [n.code for n in raw.notices] == ["blank_lines"]
    other = read_ltr(path.with_name("es-ltr.sample_judgments.txt"), name="es-ltr")
    assert other.frame.select("query", "chunk_id", "rating").row(0) == ("rambo", "7555", "4")


def test_rre_ratings_have_documents_by_grade(shared_data: Path) -> None:
    for path, rows in (("chorus_quepid/chorus_demo_rre.json", 207), ("ltr_judgments/hello-ltr.rre_ratings.json", 30)):
        raw = read_rre(shared_data / path, name=path)
        assert raw.frame.height == rows and raw.frame["query"].null_count() == 0


def test_fira_snippets_and_documents_against_trec(shared_data: Path, expected: dict[str, Any]) -> None:
    """P25, P27: two sources of judgments of the same documents, against scikit-learn; the low kappa is said, since FiRA
    judged again only what TREC had called relevant.
    """
    folder = shared_data / "fira_dl19_docs"
    value = expected["fira_dl19_docs"]["agreement"]["fira_docs_max_vs_trec_dl19_doc"]
    fira = read_qrels(folder / "fira-trec19-notrec-qrels-docs-max.txt", name="fira", top_grade=3).frame
    trec = read_qrels(folder / "qrels.dl19-doc.txt.gz", name="trec").frame
    both = fira.join(trec, on=["query_id", "chunk_id"], suffix="_b").select("query_id", a="grade", b="grade_b")
    matrix = agreement.query_tables(both, SCALE)[1].sum(axis=0)
    assert int(matrix.sum()) == value["n"] == 2003
    assert agreement.weighted_kappa(matrix).value == pytest.approx(value["kappa_quadratic"], abs=1e-6)
    assert agreement.cohen_kappa(matrix).value == pytest.approx(value["kappa"], abs=1e-6)
    snippets = read_qrels(folder / "fira-trec19-qrels-snippets.txt.gz", name="snippets", top_grade=3).frame
    best = (
        snippets.with_columns(chunk_id=pl.col("chunk_id").str.replace(r"_\d+$", ""))
        .group_by("query_id", "chunk_id")
        .agg(pl.col("grade").max())
    )
    assert snippets.height == 24198
    same = best.join(fira, on=["query_id", "chunk_id"], suffix="_max")
    assert same.height == 2003 and (same["grade"] == same["grade_max"]).all()
