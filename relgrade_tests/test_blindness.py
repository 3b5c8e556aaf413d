"""What a grader sees and can't see (P13, P14, P16, P18): columns followed from the runs to the files that leave."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import math
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import tiny
from driving import command, copy, run
from tiny import number, review_all, study_of

from relgrade_assets.io import worksheets
from relgrade_assets.io.worksheets import sheet_of, write_review_sheet, write_sheets
from relgrade_assets.methods import audit_sample as audit
from relgrade_assets.methods import pooling, sheets
from relgrade_assets.schemas import TABLES, AuditSample, AuditSheets, Pools, Sheets

ARMS = ("zebrafinch", "quokka")
DESIGN = tiny.DESIGN.replace("name: old", f"name: {ARMS[0]}").replace("name: new", f"name: {ARMS[1]}")
SEEN = ["query_id", "chunk_id", "query", "intent", "header", "text"]
KNOWS_ARMS = re.compile(
    rf"{'|'.join(ARMS)}|lexical|dense|\barms?\b|\branks?\b|\bscores?\b|few_arms|stratum|strata|contribution|\.trec"
)
LEAVES = ("intents", "sheets", "audit_sheets", "grades", "audit_grades")
"""Tables that a grader, the auditor or an author of intents meets."""


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose sheets are made; its arms have names that can't be missed."""
    top = tmp_path_factory.mktemp("blind")
    tiny.write_experiment(top, design=DESIGN)
    assert run(top, "queries", "query_sample").ok
    review_all(top)
    on_the_way = (*list(TABLES)[: list(TABLES).index("sheets") + 1], "audit_sheets")
    assert set(run(top, *on_the_way).made) == set(on_the_way)
    return top


# tables


def test_two_tables_lead_from_the_runs_to_any_sheet(top: Path) -> None:
    """P13: exactly these columns; the models are strict, and so are the tables as they are stored."""
    assert list(Pools.to_schema().columns) == ["query_id", "chunk_id", "chunk_digest"]
    assert list(AuditSample.to_schema().columns) == ["query_id"]
    assert Pools.to_schema().strict and AuditSample.to_schema().strict
    study = study_of(top)
    assert study.load("pools").schema == {"query_id": pl.String, "chunk_id": pl.String, "chunk_digest": pl.String}
    assert study.load("audit_sample").schema == {"query_id": pl.String}


def reached(start: str, *, cut: tuple[str, ...] = ()) -> set[str]:
    """Every table that something of `start` can flow into, where nothing flows on through the tables in `cut`."""
    known = {start}
    for table, spec in TABLES.items():  # in graph order
        if set(spec.inputs) & (known - set(cut)):
            known.add(table)
    return known


def test_columns_flow_from_runs_to_graders_through_those_two_alone() -> None:
    """P13: with pools and audit_sample cut, nothing of the runs reaches anything a grader meets; uncut it would."""
    assert not reached("run_files", cut=("pools", "audit_sample")) & set(LEAVES)
    assert reached("run_files", cut=("pools",)) >= {"sheets", "audit_sheets"}
    assert reached("run_files", cut=("audit_sample",)) >= {"sheets", "audit_sheets"}
    for table, more in (("sheets", {"carried"}), ("audit_sheets", set())):  # carried: graders' own answers, P44
        assert set(TABLES[table].inputs) <= more | {
            *("design", "rubric", "query_sample", "pools", "intents", "corpus", "audit_sample")
        }


def test_no_path_leads_from_pools_to_intents() -> None:
    """P16: an intent is written before its pool is opened."""
    for start in ("run_files", "contributions", "pools", "answers", "audit_answers"):
        assert "intents" not in reached(start, cut=())
    assert set(TABLES["intents"].inputs) == {"design", "query_sample", "intent_file", "reviews"}


def test_a_sheet_row_holds_what_a_grader_sees_and_its_place() -> None:
    """P18: besides the six columns only round, grader, position and the digest of what is seen."""
    for model in (Sheets, AuditSheets):
        assert set(model.to_schema().columns) - set(SEEN) == {"round", "grader", "position", "row_digest"}
    assert list(sheets.BLIND) == SEEN


def test_sheets_know_of_the_audit_sample_that_it_is_locked_and_nothing_more(top: Path, tmp_path: Path) -> None:
    """P26: who is audited changes no byte of a grader's sheet."""
    before = study_of(top).load("sheets")
    other = copy(top, tmp_path / "top")
    design = study_of(other).folder / "experiment.yaml"
    more = "audit: {at_least: 3, share: 0.25}\ndeviations:\n  - {code: small_audit, reason: to see what changes}\n"
    design.write_text(design.read_text().replace("deviations:\n", more))
    again = ("queries", "query_sample", "intents", "runs", "contributions", "pools", "audit_selection", "audit_sample")
    assert run(other, *again, "sheets").ok
    assert study_of(other).load("audit_sample").height == 3
    assert study_of(other).load("sheets").equals(before)


def test_the_code_that_writes_sheets_loads_no_other_table() -> None:
    """P13: what leaves for people is read from these tables; names are read off the code."""
    loaded = set()
    for node in ast.walk(ast.parse(inspect.getsource(worksheets))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
            named = node.args[0]
            loaded.add(named.value if isinstance(named, ast.Constant) else ast.unparse(named))
    assert loaded == {"query_sample", "spot_check", "sheet_table(study, grader)"}
    source = inspect.getsource(worksheets)
    assert not re.search(r"\b(contributions|audit_selection|runs|pools)\b[\"']", source)


# files


@pytest.mark.parametrize("grader", ["ann", "bob"])
def test_sheet_files_hold_six_keys_and_nothing_of_arms(grader: str, top: Path, tmp_path: Path) -> None:
    """P13, P18: names and bytes of every file; the auditor's look like anybody's."""
    folder = tmp_path / grader
    write_sheets(study_of(top), grader, folder)
    ids = set(study_of(top).load("audit_sample" if grader == "bob" else "query_sample")["query_id"])
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    whole_files = {"sheet.jsonl", "rubric.md", "answers.jsonl"}
    assert whole_files <= names
    assert all(re.fullmatch(r"queries/(q[0-9a-f]{12})/\d\d\.jsonl", n) for n in names - whole_files)
    (head,) = (folder / "answers.jsonl").read_text().splitlines()
    assert re.fullmatch(r'\{"sheet": "[0-9a-f]{32}"\}', head)
    assert {n.split("/")[1] for n in names if "/" in n} == ids
    for path in sorted(set(folder.rglob("*.jsonl")) - {folder / "answers.jsonl"}):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert all(list(row) == SEEN for row in rows)
        assert path.name == "sheet.jsonl" or len(rows) <= worksheets.AT_ONCE
    for path in folder.rglob("*"):
        assert not KNOWS_ARMS.search(path.name)
        assert path.is_dir() or not KNOWS_ARMS.search(path.read_text()), path
    whole = [json.loads(line) for line in (folder / "sheet.jsonl").read_text().splitlines()]
    parts = [
        json.loads(line)
        for query in sorted(ids)
        for path in sorted((folder / "queries" / query).iterdir())
        for line in path.read_text().splitlines()
    ]
    assert parts == whole == sheets.blind_rows(sheet_of(study_of(top), grader))


def test_the_review_sheet_shows_intents_and_nothing_else(top: Path, tmp_path: Path) -> None:
    """P17: before the audit, the auditor sees query, form, intent."""
    path = tmp_path / "review.csv"
    write_review_sheet(study_of(top), path)
    text = path.read_text()
    assert text.splitlines()[0] == "query_id,query,form,intent,verdict,note"
    assert not KNOWS_ARMS.search(text)
    assert not re.search(r"Chunk \d|This is thing", text)


@pytest.mark.parametrize("grader", ["ann", "bob"])
def test_what_the_command_prints_unblinds_nobody(
    grader: str, top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P13: `relgrade sheets` and `relgrade collect`, good and bad rows; on the screen and in Dagster's lines."""
    settings = tmp_path / "settings"
    code, said = command(
        top, monkeypatch, settings, "sheets", tiny.NAME, "--grader", grader, "--out", str(tmp_path / "s")
    )
    assert code == 0, said
    rows = [json.loads(line) for line in (tmp_path / "s" / "sheet.jsonl").read_text().splitlines()]
    answers = [{**tiny.answer(row), "grade": 7} for row in rows[:2]]
    answers.append({**tiny.answer(rows[2]), "chunk_id": "c30"})
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(a) + "\n" for a in answers))
    code, collected = command(
        top, monkeypatch, settings, "collect", tiny.NAME, str(tmp_path / "answers.jsonl"), "--grader", grader
    )
    assert code == 2 and "3 refused" in collected, collected
    for text in (said, collected):
        assert not KNOWS_ARMS.search(text.replace(str(tmp_path), "")), text


# order


def pooled(queries: int = 12, arms: int = 2, depth: int = 5) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Contributions of arms that overlap in part, their pools, and the corpus."""
    rows = [
        (f"q{q:02}", f"c{(q + arm + rank * (1 + arm)) % 30:02}", f"arm{arm}", rank, 10.0 - rank)
        for q in range(queries)
        for arm in range(arms)
        for rank in range(1, depth + 1)
    ]
    schema = ["query_id", "chunk_id", "arm", "rank", "score"]
    found = pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("rank").cast(pl.Int64))
    corpus = pl.DataFrame({"chunk_id": ["c00", *tiny.CHUNKS]}).with_columns(header=pl.lit("h"), text=pl.col("chunk_id"))
    return found, pooling.pools(found, corpus), corpus


def sheet(
    pools: pl.DataFrame, corpus: pl.DataFrame, *, seed: str, round_: int = 1, grader: str = "ann"
) -> pl.DataFrame:
    ids = pools["query_id"].unique().sort()
    sample = pl.DataFrame({"query_id": ids, "query": ids})
    intents = sample.select("query_id", round=pl.lit(round_, pl.Int64), intent=pl.col("query"))
    return sheets.build(
        pools, intents, sample, corpus,
        graders=[grader], takes={grader: frozenset(ids)}, seed=seed, round=round_, rubric="r",
    )  # fmt: skip


def test_order_on_a_sheet_has_nothing_to_do_with_rank_or_arms() -> None:
    """P14: over 200 seeds, place against best rank and against the number of arms that found the chunk: the mean
    correlation is within four standard errors of none.
    """
    found, pools, corpus = pooled()
    facts = found.group_by("query_id", "chunk_id").agg(best=pl.col("rank").min(), arms=pl.len())
    assert facts["arms"].n_unique() > 1
    each: dict[str, list[float]] = {"best": [], "arms": []}
    for seed in range(200):
        rows = sheet(pools, corpus, seed=str(seed)).join(facts, on=["query_id", "chunk_id"])
        for fact, found_so_far in each.items():
            place, value = (
                rows.select(pl.col(c).cast(pl.Float64) - pl.col(c).mean().over("query_id")).to_series()
                for c in ("position", fact)
            )
            found_so_far.append((place * value).sum() / math.sqrt((place * place).sum() * (value * value).sum()))
    for fact, correlations in each.items():
        mean = math.fsum(correlations) / len(correlations)
        spread = math.sqrt(math.fsum((x - mean) ** 2 for x in correlations) / (len(correlations) - 1))
        assert abs(mean) < 4 * spread / math.sqrt(len(correlations)), fact
        assert spread > 0.02, fact


def test_order_is_uncorrelated_with_rank_over_200_queries() -> None:
    """P14: one seed, as in a study: place against best rank, against the arm's own rank and against the number of arms,
    query by query, for grader and auditor; each mean within four standard errors of none.
    """
    found, pools, corpus = pooled(queries=200, arms=3, depth=10)
    first = found.filter(pl.col("arm") == "arm0").select("query_id", "chunk_id", first="rank")
    facts = found.group_by("query_id", "chunk_id").agg(best=pl.col("rank").min(), arms=pl.len())
    facts = facts.join(first, on=["query_id", "chunk_id"], how="left")
    for who in ("ann", "bob"):
        rows = sheet(pools, corpus, seed="7", grader=who).join(facts, on=["query_id", "chunk_id"])
        assert rows["query_id"].n_unique() == 200
        for fact in ("best", "arms", "first"):
            each = rows.group_by("query_id").agg(r=pl.corr("position", fact, method="spearman"))["r"]
            known = each.filter(each.is_finite())
            assert len(known) > 150 and known.std() > 0.1, fact  # type: ignore[operator]
            assert abs(known.mean()) < 4 * known.std() / math.sqrt(len(known)), (who, fact)  # type: ignore[arg-type,operator]


def test_every_chunk_is_first_equally_often_against_theory() -> None:
    """P14: first places of one query's chunks over 400 seeds; chi-square within four sigma of its mean."""
    _, pools, corpus = pooled(queries=1)
    firsts = Counter(
        sheet(pools, corpus, seed=str(seed)).filter(pl.col("position") == 1)["chunk_id"].item() for seed in range(400)
    )
    n = pools.height
    chi = sum((firsts[c] - 400 / n) ** 2 / (400 / n) for c in pools["chunk_id"])
    assert abs(chi - (n - 1)) < 4 * math.sqrt(2 * (n - 1))


def test_order_is_rebuilt_from_the_seed_by_hand(top: Path) -> None:
    """P14: chunks by sha256 of the canonical JSON of [purpose, seed, round, grader, query, chunk]."""
    for grader in ("ann", "bob"):
        rows = sheet_of(study_of(top), grader)
        for (query,), part in rows.group_by("query_id", maintain_order=True):
            chunks = part.sort("position")["chunk_id"].to_list()
            keys = {c: json.dumps(["order", "7", "1", grader, query, c], separators=(",", ":")) for c in chunks}
            assert chunks == sorted(chunks, key=lambda c: hashlib.sha256(keys[c].encode()).hexdigest())


def test_orders_differ_between_graders_rounds_and_queries() -> None:
    _, pools, corpus = pooled()
    one = sheet(pools, corpus, seed="7")
    for other in (sheet(pools, corpus, seed="7", grader="cat"), sheet(pools, corpus, seed="7", round_=2)):
        assert one["position"].n_unique() == other["position"].n_unique()
        assert (
            one.sort("query_id", "position")["chunk_id"].to_list()
            != other.sort("query_id", "position")["chunk_id"].to_list()
        )


# the audit sample


def test_only_ids_cross_from_the_selection_and_they_are_sorted(top: Path) -> None:
    """P13, P26: their order says nothing of why they were chosen."""
    study = study_of(top)
    ids = study.load("audit_sample")["query_id"]
    assert ids.to_list() == sorted(ids.to_list()) == sorted(study.load("audit_selection")["query_id"])
    assert audit.ids(study.load("audit_selection")).columns == ["query_id"]


def test_the_tiny_study_would_show_a_leak(top: Path) -> None:
    """The words that are looked for above are there to be found in the tables that hold them."""
    study = study_of(top)
    assert set(study.load("contributions")["arm"]) == set(ARMS)
    assert KNOWS_ARMS.search(study.load("contributions").write_csv())
    assert KNOWS_ARMS.search(study.load("audit_selection").write_csv())
    assert {number(c) for c in study.load("pools")["chunk_id"]} <= set(range(1, 31))
