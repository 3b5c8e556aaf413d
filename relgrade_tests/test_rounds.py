"""Rounds that carry grades, through the graph: a refresh on changed inputs (P43, P44) and a limited regrade (P30); what
each asks graders for, what it says of where grades come from, and that the old key stands.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tiny
from driving import Told, copy, files_of, rewrite, run, standing_files
from tiny import grade_all, review_all, study_of, truth

from relgrade_assets.errors import Refused
from relgrade_assets.io import carrying, rounds
from relgrade_assets.io.frames import Label, content_digest, read_label, write_table
from relgrade_assets.io.tracing import trace_of
from relgrade_assets.io.verifying_study import check_study

DESIGN = tiny.DESIGN.replace(
    "deviations:\n",
    "audit: {at_least: 3}\ndeviations:\n  - {code: small_audit, reason: small enough to know by heart}\n",
)
PAIR = ["query_id", "chunk_id"]


def swapped(query: str, chunk: str) -> int:
    """A grader who takes 1 for 2 and 2 for 1, and knows what is not relevant."""
    return {0: 0, 1: 2, 2: 1}[truth(query, chunk)]


def old_key(top: Path) -> dict[str, str]:
    state = top / ".relgrade"
    return standing_files(state / "keys") | files_of(state / "tables" / tiny.NAME / "rounds" / "1")


def change_corpus(top: Path) -> None:
    """Chunk 4 says something else, and there is one chunk more."""
    corpus = study_of(top).folder / "corpus.jsonl"
    more = json.dumps({"chunk_id": "c31", "header": "Chunk 31", "text": "This is thing 31."})
    corpus.write_text(corpus.read_text().replace("This is thing 4.", "This is the thing 4.") + more + "\n")


def manifest(top: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((top / ".relgrade" / "published" / tiny.NAME / "manifest.json").read_text())
    return found


def asked(top: Path) -> Path:
    """The tiny study up to its sheets."""
    tiny.write_experiment(top, design=DESIGN)
    run(top, "queries", "query_sample")
    review_all(top)
    assert run(top).ok
    return top


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asked(tmp_path_factory.mktemp("graded"))


@pytest.fixture(scope="module")
def frozen(graded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = copy(graded, tmp_path_factory.mktemp("frozen"))
    grade_all(top, "ann")
    grade_all(top, "bob")
    assert run(top).ok
    return top


@dataclass(frozen=True)
class Refreshed:
    """A study whose corpus changed after the freeze: the key before, what the graph then said, and the second round."""

    top: Path
    before: dict[str, str]
    refused: Told
    waiting: Told
    told: Told


@pytest.fixture(scope="module")
def refreshed(frozen: Path, tmp_path_factory: pytest.TempPathFactory) -> Refreshed:
    top = copy(frozen, tmp_path_factory.mktemp("refreshed"))
    before = old_key(top)
    change_corpus(top)
    refused = run(top)
    assert rounds.open_refresh(study_of(top), cause="the corpus changed", by="dora", rerate=20) == 2
    waiting = run(top)
    grade_all(top, "ann")
    grade_all(top, "bob")
    return Refreshed(top, before, refused, waiting, run(top))


# a refresh


def test_a_frozen_round_is_not_made_again_from_other_inputs(refreshed: Refreshed) -> None:
    """P35, P43: refused by name, with the way on; pools are made anew, nothing of the round is."""
    assert "is frozen, and what it was made from was changed since" in refreshed.refused.text
    assert "`relgrade refresh tiny`" in refreshed.refused.text
    assert not {"sheets", "audit_selection", "grades", "frozen_key"} & set(refreshed.refused.made)


def test_the_old_key_and_its_tables_stand_to_the_byte(refreshed: Refreshed) -> None:
    """P43: nothing of round 1 was written again."""
    now = old_key(refreshed.top)
    assert refreshed.before.items() <= now.items()
    assert study_of(refreshed.top).keys.exists(tiny.NAME, 1) and study_of(refreshed.top).keys.exists(tiny.NAME, 2)


def test_only_new_pairs_and_the_overlap_are_asked_for(refreshed: Refreshed) -> None:
    """P43, P44: of 96 pairs four queries' chunk 4 reads otherwise; of the rest 20%, rounded up, are given again."""
    study = study_of(refreshed.top)
    pools, sheets = study.load("pools"), study.load("sheets")
    changed = pools.filter(pl.col("chunk_id") == "c04").height
    overlap = -(-(96 - changed) // 5)
    assert changed > 0 and sheets.height == changed + overlap
    assert refreshed.waiting.waiting["grades"] == f"0 of {changed + overlap} pairs graded by ann"
    assert sheets.filter(pl.col("chunk_id") == "c04").height == changed
    places = sheets.group_by("query_id").agg(pl.col("position").sort())
    assert all(p == list(range(1, len(p) + 1)) for p in places["position"].to_list())


def test_each_carried_grade_says_its_round_and_is_the_ledgers(refreshed: Refreshed) -> None:
    """P44: traced one by one to an answer of round 1 with the digest of the row as it reads now."""
    assert refreshed.told.ok, refreshed.told.text
    study = study_of(refreshed.top)
    grades, sheets = study.load("grades"), study.load("sheets")
    assert grades.height == 96 and set(grades["round"]) == {2}
    carried = grades.filter(pl.col("from_round") == 1)
    assert carried.height == 96 - sheets.height and carried["position"].null_count() == carried.height
    assert carried.join(sheets, on=PAIR, how="semi").is_empty()
    first = pl.read_parquet(study.path("sheets", 1)).select(*PAIR, "row_digest")
    given = study.ledger.answers(tiny.NAME, 1, ["ann"]).join(first, on=[*PAIR, "row_digest"], how="semi")
    columns = [*PAIR, "grade", "reason", "answered_at"]
    assert carried.join(given, on=columns, how="semi").height == carried.height
    assert not set(carried["chunk_id"]) & {"c04"}


def test_manifest_counts_what_was_carried_and_metadata_holds_its_digest(refreshed: Refreshed) -> None:
    """P4, P44: both of P4's exceptions are counted; the sheets' metadata has the digest of the carried rows."""
    study = study_of(refreshed.top)
    kept = study.load("grades").filter(pl.col("from_round") == 1).height
    assert manifest(refreshed.top)["exceptions"] == {"carried": {"1": kept}, "regraded": None}
    carry = carrying.carried(study, *(study.load(t) for t in ("pools", "intents", "query_sample")))
    made = [e for e in refreshed.told.events if e.event_type_value == "ASSET_MATERIALIZATION"]
    metadata = next(
        e.event_specific_data.materialization.metadata for e in made if e.asset_key and e.asset_key.path == ["sheets"]
    )
    assert metadata["carried_digest"].value == carry.digest
    assert metadata["carried"].value == f"{kept} of round 1"


def test_the_auditor_grades_carried_pairs_too(refreshed: Refreshed) -> None:
    """P30, P44: the audited pools are whole, carried grades and all."""
    study = study_of(refreshed.top)
    audit = study.load("audit_grades")
    assert set(audit["from_round"]) == {2}
    pools = study.load("pools").join(study.load("audit_sample"), on="query_id", how="semi")
    assert audit.height == pools.height
    assert study.load("grades").filter(pl.col("from_round") == 1).join(audit, on=PAIR, how="semi").height > 0


def test_drift_is_measured_on_what_was_given_again(refreshed: Refreshed) -> None:
    """P43."""
    found = study_of(refreshed.top).load("grader_checks").filter(pl.col("check").str.starts_with("regrade"))
    values = dict(found.select("check", "value").iter_rows())
    assert values["regrade_change"] == 0 and values["regrade_same"] == 1
    assert (
        found["n"].to_list() == [study_of(refreshed.top).load("sheets").filter(pl.col("chunk_id") != "c04").height] * 3
    )


def test_what_is_carried_tells_nothing_of_arms(frozen: Path, tmp_path: Path) -> None:
    """P13: with all that the arms found exchanged between them, the round's sheets are the same to the byte."""
    sheets = []
    for n, exchange in enumerate((False, True)):
        top = copy(frozen, tmp_path / str(n))
        change_corpus(top)
        if exchange:
            folder = study_of(top).folder / "runs"
            old, new = (folder / "old.trec").read_text(), (folder / "new.trec").read_text()
            (folder / "old.trec").write_text(new)
            (folder / "new.trec").write_text(old)
        rounds.open_refresh(study_of(top), cause="corpus", by="", rerate=20)
        run(top, "runs", "contributions", "pools", "intents", "audit_selection", "audit_sample", "sheets")
        sheets.append(study_of(top).load("sheets"))
    assert sheets[0].height and sheets[0].equals(sheets[1])


def test_a_second_refresh_carries_through_the_chain(refreshed: Refreshed, tmp_path: Path) -> None:
    """P44: round 3 takes each grade from the round that gave it, and a text put back takes its old grade."""
    top = copy(refreshed.top, tmp_path / "top")
    corpus = study_of(top).folder / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("This is the thing 4.", "This is thing 4."))
    assert rounds.open_refresh(study_of(top), cause="put back", by="") == 3
    run(top)
    assert study_of(top).load("sheets").is_empty()
    grade_all(top, "bob")
    assert run(top).ok
    grades = study_of(top).load("grades")
    assert set(grades["from_round"]) == {1, 2}
    assert set(grades.filter(pl.col("chunk_id") == "c04")["from_round"]) == {1}
    counts = dict(grades.group_by("from_round").len().iter_rows())
    assert manifest(top)["exceptions"] == {"carried": {str(n): c for n, c in sorted(counts.items())}, "regraded": None}


def test_a_changed_rubric_carries_nothing(frozen: Path, tmp_path: Path) -> None:
    """P44."""
    top = copy(frozen, tmp_path / "top")
    rubric = study_of(top).folder / "rubric.md"
    rubric.write_text(rubric.read_text() + "\nA neighbouring thing is 1.\n")
    assert rounds.open_refresh(study_of(top), cause="rubric", by="") == 2
    assert "0 of 96 pairs graded by ann" in run(top).waiting["grades"]


def test_a_changed_intent_is_graded_anew_and_the_rest_carries(frozen: Path, tmp_path: Path) -> None:
    """P44: and only that intent is reviewed again (P17)."""
    top = copy(frozen, tmp_path / "top")
    intents = study_of(top).folder / "intents.csv"
    intents.write_text(intents.read_text().replace("Where is thing 3 written?", "Where is the third thing written?"))
    rounds.open_refresh(study_of(top), cause="an intent", by="")
    review_all(top)
    run(top)
    sheets = study_of(top).load("sheets")
    assert set(sheets["query"]) == {"where is thing 3"} and sheets.height == 8


def test_a_rewritten_table_of_carried_grades_is_not_frozen(refreshed: Refreshed, tmp_path: Path) -> None:
    """P29, P44: a carried grade changed in the stored table, label and all, is found against the ledger."""
    top = copy(refreshed.top, tmp_path / "top")
    audited = study_of(top).load("audit_sample")["query_id"].implode()
    one = (pl.col("from_round") == 1) & ~pl.col("query_id").is_in(audited) & (pl.col("grade") == 0)
    rewrite(
        top, "grades",
        lambda f: f.with_columns(grade=pl.when(one & one.cum_sum().eq(1)).then(1).otherwise("grade").cast(pl.Int64)),
    )  # fmt: skip
    told = run(top, "agreement", "verdicts", "frozen_key")
    assert not told.ok and "the ledger's answers" in told.text


POOLED = "the chunk in the corpus is still the one that was pooled"


def traced(top: Path, query: str, chunk: str, number: int) -> tuple[dict[str, Any], dict[str, bool | None]]:
    """Links by name and what was proved, of a pair's trace."""
    found = trace_of(study_of(top), query, chunk, round=number)
    return {link.name: link for link in found.links}, {p.text: p.holds for p in found.proofs}


def test_a_trace_of_an_earlier_round_does_not_tell_of_later_pools(refreshed: Refreshed) -> None:
    """P33, P43: chunk 4 reads otherwise since round 1; its digest is of that round's sheets, and others hold still."""
    study = study_of(refreshed.top)
    pools = study.load("pools").filter(pl.col("chunk_id").is_in(["c04", "c05"]))
    pools = pools.unique("chunk_id", keep="first", maintain_order=True)
    for query, chunk, digest in pools.rows():
        links, proved = traced(refreshed.top, query, chunk, 1)
        entry = links["pool entry"]
        assert (entry.rows[0]["chunk_digest"] == digest) is (chunk != "c04") and entry.stands_in == "sheets"
        assert "sha256 of pools: " in entry.note and f", {study.digest_of('pools')[:12]} now" in entry.note
        assert proved.pop(POOLED) is (chunk != "c04") and set(proved.values()) == {True}
        assert set(traced(refreshed.top, query, chunk, 2)[1].values()) == {True}, "carried or not"


def test_every_round_is_made_again_or_said_why_not(refreshed: Refreshed) -> None:
    """P36, P43: of round 1 key and measures; that its whole pool was graded can't be seen any more."""
    found = check_study(study_of(refreshed.top))
    checks = {
        n: {x.removeprefix(f"round {n}: ") for x in found.checked if x.startswith(f"round {n}: ")} for n in (1, 2)
    }
    assert checks[1] == checks[2] - {"all of the pool graded"} and len(checks[2]) == 7
    assert found.left_out == ("round 1: all of the pool graded (the pools were made again since, from other inputs)",)
    assert found.faults == () and [str(key)[:15] for key in found.keys] == ["round 1 sha256 ", "round 2 sha256 "]


def made_again(top: Path, table: str, query: str, **inputs: str) -> None:
    """A table that rounds share as a later run leaves it: without a query, or the same rows of other inputs."""
    path = study_of(top).path(table)
    label = read_label(path)
    assert label is not None
    frame = pl.read_parquet(path).filter(pl.lit(bool(inputs)) | (pl.col("query_id") != query))
    write_table(path, frame, Label(table, None, label.protocol, {**label.inputs, **inputs}, content_digest(frame)))


@pytest.mark.parametrize(
    ("table", "unknown", "unproved"),
    [
        ("pools", {"pool entry"}, {POOLED}),
        ("contributions", {"found by"}, {"every arm that found it has it in its run at that rank"}),
        ("runs", set(), {"every arm that found it has it in its run at that rank"}),
        ("query_sample", {"sampled query", "query", "log rows"}, set()),
        ("queries", {"query", "log rows"}, set()),
    ],
)
def test_what_was_made_again_since_is_not_known_of_a_round(
    refreshed: Refreshed, tmp_path: Path, table: str, unknown: set[str], unproved: set[str]
) -> None:
    """P33: nothing is read from tables of other inputs than the round's, of the present round either; unless its own
    sheets have it.
    """
    top = copy(refreshed.top, tmp_path / "top")
    query, chunk = study_of(top).load("frozen_key").filter(pl.col("chunk_id") != "c04").row(0)[:2]
    text = study_of(top).load("query_sample").row(by_predicate=pl.col("query_id") == query, named=True)["query"]
    made_again(top, table, query, **({"query_log": "e" * 64} if table == "queries" else {}))
    for number in (1, 2):
        links, proved = traced(top, query, chunk, number)
        if table == "pools":
            assert links["pool entry"].known and links["pool entry"].stands_in == "sheets" and proved[POOLED]
            continue
        assert {n for n, link in links.items() if not link.known} == unknown
        assert not any(links[n].rows or links[n].digest for n in unknown)
        assert {text for text, holds in proved.items() if holds is None} == unproved
    assert trace_of(study_of(top), text, chunk, round=1).query_id == query


@pytest.mark.parametrize("case", ["nothing graded", "nothing changed", "failed", "twice", "void"])
def test_refresh_refuses(case: str, graded: Path, frozen: Path, tmp_path: Path) -> None:
    """P30, P35, P43."""
    top = copy(graded if case in ("nothing graded", "failed") else frozen, tmp_path / "top")
    says = {"nothing graded": "nothing of tiny to refresh", "failed": "failed, so its grades are not carried"}
    if case == "failed":
        grade_all(top, "ann")
        grade_all(top, "bob", by=swapped)
        run(top)
    if case != "nothing changed":
        change_corpus(top)
    if case == "void":
        study_of(top).happened("voided", {"round": 1, "key_digest": "d" * 64, "why": "a grade was changed"})
        says[case] = "is void, so its grades are not carried"
    if case == "twice":
        rounds.open_refresh(study_of(top), cause="corpus", by="")
    before = len(study_of(top).log)
    with pytest.raises(Refused, match=says.get(case, "Nothing changed since round")):
        rounds.open_refresh(study_of(top), cause="corpus", by="")
    assert len(study_of(top).log) == before


def test_drift_can_be_measured_though_nothing_changed(frozen: Path, tmp_path: Path) -> None:
    """P43: with a share to give again there is something to do."""
    top = copy(frozen, tmp_path / "top")
    rounds.open_refresh(study_of(top), cause="drift", by="", rerate=25)
    run(top)
    assert study_of(top).load("sheets").height == 24


def test_answers_of_the_round_before_are_an_input(graded: Path, tmp_path: Path) -> None:
    """P2, P44: a sheet that was laid out before such an answer changed is not used."""
    top = copy(graded, tmp_path / "top")
    grade_all(top, "ann", at_most=30)
    change_corpus(top)
    rounds.open_refresh(study_of(top), cause="corpus", by="")
    run(top, "runs", "contributions", "pools", "intents", "audit_selection", "audit_sample", "sheets")
    assert not study_of(top).outdated("sheets")
    study = study_of(top)
    row = (
        study.ledger.answers(tiny.NAME, 1, ["ann"]).head(1).with_columns(grade=pl.lit(1, pl.Int64), reason=pl.lit("x"))
    )
    study.ledger.record_answers(tiny.NAME, 1, "ann", row, source="late", at=tiny.AT)
    assert "carried" in str(study_of(top).outdated("sheets"))


# a limited regrade


@dataclass(frozen=True)
class Limited:
    top: Path
    told: Told


@pytest.fixture(scope="module")
def failed(graded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = copy(graded, tmp_path_factory.mktemp("failed"))
    grade_all(top, "ann")
    grade_all(top, "bob", by=swapped)
    assert not run(top).ok
    return top


@pytest.fixture(scope="module")
def limited(failed: Path, tmp_path_factory: pytest.TempPathFactory) -> Limited:
    """Weighted kappa failed on 1 against 2; the rubric is made clearer, and what was relevant is graded again."""
    top = copy(failed, tmp_path_factory.mktemp("limited"))
    rubric = study_of(top).folder / "rubric.md"
    rubric.write_text(rubric.read_text() + "\nA neighbouring thing is 1.\n")
    assert rounds.open_next_round(study_of(top), cause="1 against 2", what="rubric", by="dora", limited=True) == 2
    run(top)
    grade_all(top, "ann")
    grade_all(top, "bob")
    return Limited(top, run(top))


def test_limited_regrade_asks_for_ones_and_twos_alone(limited: Limited) -> None:
    """P30: 24 of 96 pairs; carried 0s keep their round, and the key mixes nothing else."""
    assert limited.told.ok, limited.told.text
    study = study_of(limited.top)
    sheets, grades = study.load("sheets"), study.load("grades")
    first = pl.read_parquet(study.path("grades", 1)).select(*PAIR, first="grade")
    assert sheets.height == 24 and set(sheets.join(first, on=PAIR)["first"]) == {1, 2}
    carried = grades.filter(pl.col("from_round") == 1)
    assert carried.height == 72 and set(carried["grade"]) == {0}
    assert manifest(limited.top)["exceptions"] == {"carried": {"1": 72}, "regraded": 24}


def test_limited_regrade_is_audited_with_what_it_carries(limited: Limited) -> None:
    """P30: the auditor gets whole pools of fresh queries."""
    study = study_of(limited.top)
    assert study.load("audit_grades").height == 24
    again = set(pl.read_parquet(study.path("audit_sample", 1))["query_id"]) & set(
        study.load("audit_sample")["query_id"]
    )
    assert not again


@pytest.mark.parametrize("case", ["no gate failed", "two steps", "altered", "scale"])
def test_limited_regrade_is_refused_unless_the_verdicts_allow_it(
    case: str, frozen: Path, graded: Path, failed: Path, tmp_path: Path
) -> None:
    """P30: and nothing is opened."""
    source = {"no gate failed": frozen, "two steps": graded}.get(case, failed)
    top = copy(source, tmp_path / "top")
    says = {"no gate failed": "none that failed", "two steps": "gate two_step", "altered": "another table"}
    if case == "two steps":
        grade_all(top, "ann")
        grade_all(top, "bob", by=lambda query, chunk: 2 - truth(query, chunk))
        run(top)
    if case == "altered":
        rewrite(top, "audit_grades", lambda f: f.with_columns(grade=pl.lit(1, pl.Int64)))
    if case == "scale":
        design = study_of(top).folder / "experiment.yaml"
        design.write_text(design.read_text().replace("scale: 0-2", "scale: 0-3"))
    before = len(study_of(top).log)
    with pytest.raises(Refused, match=says.get(case, "another than the round was graded on")):
        rounds.open_next_round(study_of(top), cause="1 against 2", what="", by="", limited=True)
    assert len(study_of(top).log) == before
