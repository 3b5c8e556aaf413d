"""P26: several people grade after a logged calibration and share a tenth of the queries, or say that they don't."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import desk_study
import polars as pl
import pytest
import tiny
from command_line import expect, nothing_changes
from starlette.testclient import TestClient
from tiny import study_of

from relgrade_assets.cli.run import run
from relgrade_assets.desk.app import make_app
from relgrade_assets.desk.sessions import Desk
from relgrade_assets.errors import Refused
from relgrade_assets.io import calibration, events, grading_run, own_work, rounds
from relgrade_assets.io.checklist import items
from relgrade_assets.io.events import check_chain
from relgrade_assets.io.freezing import freeze
from relgrade_assets.io.own_work import NotNow
from relgrade_assets.io.progress import steps
from relgrade_assets.io.publication import pseudonyms
from relgrade_assets.io.worksheets import write_sheets
from relgrade_assets.methods.calibration import FAR, NEAR, QUERIES, draft
from relgrade_assets.methods.key import Key
from relgrade_assets.protocol.coherence import shared_by_people
from relgrade_assets.protocol.design import Grader

DECLARED = "  - {code: no_calibration, reason: they are made up for tests}\n"
FOLDER = Path("data") / "experiments" / tiny.NAME
SAMPLED = 9


def design() -> str:
    """Two people and an agent, no calibration declared away; three queries of the log are not sampled."""
    text = (
        desk_study.design(graders=("ann", "dan", desk_study.AGENT))
        .replace(DECLARED, "")
        .replace("target: 4", "target: 3")
    )
    assert "no_calibration" not in text
    return text.replace("audit: {at_least: 12}", "audit: {at_least: 10}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sheets are made, and nobody was calibrated."""
    top = tmp_path_factory.mktemp("calibration")
    tiny.write_experiment(top, design=design())
    tiny.settings(top)
    assert run(tiny.home_of(top), tiny.NAME, tables=["queries", "query_sample"]).ok
    tiny.review_all(top)
    tables = ["intents", "runs", "contributions", "pools", "audit_selection", "audit_sample", "sheets", "audit_sheets"]
    assert run(tiny.home_of(top), tiny.NAME, tables=tables).ok
    return top


@pytest.fixture
def top(made: Path, tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(made, tmp_path / "s")
    tiny.settings(tmp_path / "s")
    return tmp_path / "s"


def inside(top: Path) -> Path:
    return top / FOLDER / "calibration"


def with_intents(top: Path) -> None:
    path = inside(top) / calibration.ITEMS
    pl.read_csv(path, infer_schema=False).with_columns(intent=pl.lit("Where is it written?")).write_csv(path)


def fill(top: Path, who: str, grades: Sequence[int | str], *, reason: str = "it says where") -> None:
    """`who` grades the items, in the order of their pairs."""
    path = calibration.sheet_path(inside(top), who)
    rows = pl.read_csv(path, infer_schema=False).sort("query_id", "doc_id")
    given = pl.Series("grade", [str(grades[i % len(grades)]) for i in range(rows.height)])
    rows.with_columns(given, notes=pl.lit(f"{reason}, says {who}")).write_csv(path)


def calibrated(top: Path, *, discussed: str = "helps means names the module") -> str:
    """Everything from the first call to the log; what the last one said."""
    expect(3, top, "calibrate", tiny.NAME)
    with_intents(top)
    expect(3, top, "calibrate", tiny.NAME)
    fill(top, "ann", [2, 1, 0])
    fill(top, "dan", [2, 1, 0, 0])
    return expect(0, top, "calibrate", tiny.NAME, "--discussed", discussed).out


def logged(top: Path) -> list[events.Event]:
    return [e for e in study_of(top).log if e.kind == "calibrated"]


def test_p26_the_way_from_items_to_the_log(top: Path) -> None:
    """Items outside the sample, a sheet each, agreement shown before anything is logged, then the log."""
    said = expect(3, top, "calibrate", tiny.NAME).out
    assert "15 items of queries outside the sample" in said
    sampled = set(study_of(top).load("query_sample")["query"])
    drafted = pl.read_csv(inside(top) / calibration.ITEMS, infer_schema=False)
    assert len(sampled) == SAMPLED and set(drafted["query"]) == set(tiny.QUERIES) - sampled
    assert "0 of 15 intents" in expect(3, top, "calibrate", tiny.NAME).said
    with_intents(top)
    said = expect(3, top, "calibrate", tiny.NAME).out
    assert "sheet-ann.csv" in said and "sheet-dan.csv" in said
    sheets = {who: pl.read_csv(calibration.sheet_path(inside(top), who), infer_schema=False) for who in ("ann", "dan")}
    assert sheets["ann"]["doc_id"].to_list() != sheets["dan"]["doc_id"].to_list(), "each in an order of its own"
    assert set(sheets["ann"]["rater_id"]) == {"ann"}
    assert (inside(top) / "rubric.md").read_text() == study_of(top).rubric
    assert "0 of 15 by ann" in expect(3, top, "calibrate", tiny.NAME).said
    fill(top, "ann", [2, 1, 0])
    assert "0 of 15 by dan" in expect(3, top, "calibrate", tiny.NAME).said
    fill(top, "dan", [2, 1, "later"])
    assert "10 of 15 by dan" in expect(3, top, "calibrate", tiny.NAME).said
    fill(top, "dan", [2, 1, 0, 0])
    said = expect(3, top, "calibrate", tiny.NAME).out
    assert "ann~dan" in said and "weighted kappa" in said and "They differ on" in said
    assert "  ann: 2, it says where, says ann" in said, "both reasons are there to talk over"
    assert logged(top) == []
    said = expect(0, top, "calibrate", tiny.NAME, "--discussed", "helps means names the module").out
    assert "Logged for ann, dan" in said
    ann, dan = logged(top)
    assert [ann.body["by"], dan.body["by"]] == ["ann", "dan"]
    assert ann.body["pairs"] == 15 and ann.body["queries"] == 3
    assert {row["statistic"] for row in ann.body["agreement"]} >= {"weighted_kappa", "binary_kappa"}  # type: ignore[attr-defined]
    again = expect(0, top, "calibrate", tiny.NAME, "--discussed", "helps means names the module").out
    assert "Logged" in again and len(logged(top)) == 2, "told again it changes nothing"
    assert check_chain(study_of(top).log) == []


def test_p26_nobody_grades_before(top: Path) -> None:
    """No sheet leaves, no answer is taken, by file, at the desk, by a model's run; afterwards all of them are."""
    study = study_of(top)
    for who in ("ann", "dan", "bob"):
        with pytest.raises(Refused, match="begin after a calibration") as refused:
            write_sheets(study, who, top / "out" / who)
        assert len(refused.value.faults) == 2 and "relgrade calibrate tiny" in str(refused.value)
    assert not (top / "out").exists()
    with pytest.raises(NotNow) as not_now:
        own_work.hand_out(study, "ann")
    assert not_now.value.code == "uncalibrated"
    with pytest.raises(Refused, match="begin after a calibration"):
        rounds.open_first_round(study)
    with pytest.raises(grading_run.CantStart, match="begin after a calibration"):
        grading_run.grade(study, desk_study.AGENT)
    (waits,) = grading_run.grade_all(study, study.design.key_graders)
    assert "begin after a calibration" in waits, "the graph waits; it does not fail"
    desk = Desk(tiny.home_of(top), url="http://127.0.0.1")
    client = TestClient(make_app(desk), base_url="http://127.0.0.1")
    client.get(desk_study.link(desk, "ann"))
    page = client.get("/e/tiny/grade")
    assert page.status_code == 409 and "tried the rubric together" in page.text
    assert "calibrate ann, dan before they grade: relgrade calibrate tiny" in expect(3, top, "status", tiny.NAME).out
    calibrated(top)
    assert client.get("/e/tiny/grade").status_code == 200
    assert tiny.grade_all(top, "ann", at_most=3) == 3
    kinds = [e.kind for e in study_of(top).log]
    assert kinds.index("calibrated") < kinds.index("opened")


def test_p26_a_changed_rubric_takes_another_calibration(top: Path) -> None:
    """The rubric is locked with it: no answer is taken under another."""
    calibrated(top)
    with (top / FOLDER / "rubric.md").open("a") as rubric:
        rubric.write("A neighbouring question is 0.\n")
    with pytest.raises(Refused, match=r"one under another rubric(.|\n)*declare 'no_calibration'"):
        rounds.open_first_round(study_of(top))
    expect(0, top, "calibrate", tiny.NAME, "--discussed", "neighbours are 0")
    assert len(logged(top)) == 4
    rounds.open_first_round(study_of(top))
    with (top / FOLDER / "rubric.md").open("a") as rubric:
        rubric.write("Headers are 0.\n")
    with pytest.raises(Refused, match="one under another rubric") as refused:
        rounds.open_first_round(study_of(top))
    assert "no_calibration" not in str(refused.value), "the design of an open round stands"


def test_p26_each_person_has_one_of_their_own(top: Path) -> None:
    """Somebody who joins later was not there."""
    calibrated(top)
    path = top / FOLDER / "experiment.yaml"
    path.write_text(path.read_text().replace("name: dan", "name: eve"))
    assert calibration.uncalibrated(study_of(top)) == ["eve"]


def test_p26_the_freeze_proves_it_again(top: Path) -> None:
    """Also where answers came past every door: nothing reaches the store or the log."""
    study = study_of(top)
    key = Key(pl.DataFrame(), (), (), pl.DataFrame(), 0.0)
    with pytest.raises(Refused, match="begin after a calibration"):
        freeze(study, key, pl.DataFrame())
    assert [e.kind for e in study.log if e.kind == "frozen"] == []


def test_p26_declared_it_passes_and_is_said(top: Path) -> None:
    """P3: under deviations, with a reason; the checklist says declared, and open or done where it is not."""
    p26 = "those who grade were calibrated together first"

    def stands() -> str:
        study = study_of(top)
        return {i.text: i.state for i in items(study, steps(study))}[p26]

    assert stands() == "open"
    path = top / FOLDER / "experiment.yaml"
    before = path.read_text()
    path.write_text(before.replace("deviations:\n", "deviations:\n" + DECLARED))
    assert calibration.uncalibrated(study_of(top)) == [] and stands() == "declared"
    path.write_text(before)
    calibrated(top)
    assert stands() == "done"


def test_p26_one_person_or_models_alone_need_none(tmp_path: Path) -> None:
    """And a design of theirs says nothing of it."""
    tiny.write_experiment(tmp_path)
    tiny.settings(tmp_path)
    assert calibration.people(study_of(tmp_path).design) == [] == calibration.uncalibrated(study_of(tmp_path))
    assert "needs no calibration" in expect(2, tmp_path, "calibrate", tiny.NAME).said


def test_p26_items_are_checked_all_at_once(top: Path) -> None:
    """A sampled query would be seen twice; every fault is told, and nothing is written."""
    sampled = str(study_of(top).load("query_sample")["query"][0])
    inside(top).mkdir()
    lines = [
        "query,intent,chunk_id",
        f"{sampled.upper()},Where?,c01",
        "how to sing,,c02",
        "how to sing,How?,c99",
        "how to sing,How?,c99",
    ]
    (inside(top) / calibration.ITEMS).write_text("\n".join(lines) + "\n")
    with nothing_changes(top):
        said = expect(2, top, "calibrate", tiny.NAME).said
    for fault in (
        "line 2: found a query of the sample",
        "line 3: found no intent",
        "line 4: found the chunk 'c99'",
        "line 5: found an item that stands twice",
        "found 4 items of 2 queries; expected 10 at least, of 3 queries",
    ):
        assert fault in said, said


def test_p26_a_sampled_query_is_known_however_it_was_typed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: the sample keeps the commonest raw form, which need not be the normalised one."""
    study = study_of(top)
    sample = study.load("query_sample")
    inside(top).mkdir()
    (inside(top) / calibration.ITEMS).write_text(f"query,intent,chunk_id\n{sample['query'][0]},Where?,c01\n")
    shouted = sample.with_columns(pl.col("query").str.to_uppercase())
    monkeypatch.setattr(study, "load", {"query_sample": shouted}.__getitem__)
    with pytest.raises(Refused, match="found a query of the sample"):
        calibration.read_items(study, inside(top))


def test_p26_items_are_enough_and_each_stands_once(top: Path) -> None:
    """Ten items, and three queries, each by itself; the same query in other letters is the same."""
    inside(top).mkdir()

    def found(rows: list[tuple[str, str]]) -> list[str]:
        lines = "".join(f"{query},Where?,{chunk}\n" for query, chunk in rows)
        (inside(top) / calibration.ITEMS).write_text("query,intent,chunk_id\n" + lines)
        with pytest.raises(Refused) as refused:
            calibration.read_items(study_of(top), inside(top))
        return [fault.found for fault in refused.value.faults]

    asked = ["how to sing", "how to dance", "how to paint"]
    assert found([(q, c) for q in asked[:2] for c in tiny.CHUNKS[:6]]) == ["12 items of 2 queries"]
    assert found([(q, c) for q in asked for c in tiny.CHUNKS[:3]]) == ["9 items of 3 queries"]
    rows = [(q, c) for q in asked for c in tiny.CHUNKS[:4]]
    assert found([*rows, ("How to  SING", rows[0][1])]) == ["an item that stands twice"] * 2
    path = inside(top) / calibration.ITEMS
    marked = [f"'=x,Where?,{c}\n" if q == asked[0] else f"{q},Where?,{c}\n" for q, c in rows]
    path.write_text("query,intent,chunk_id\n" + "".join(marked))
    assert set(calibration.read_items(study_of(top), inside(top))["query"]) == {"=x", *asked[1:]}, "a formula's mark"


def test_p26_sheets_are_checked_all_at_once(top: Path) -> None:
    """Off the scale, without a reason, of other items: told by sheet and line, and nothing is logged."""
    expect(3, top, "calibrate", tiny.NAME)
    with_intents(top)
    expect(3, top, "calibrate", tiny.NAME)
    fill(top, "ann", [2, 7])
    fill(top, "dan", [1], reason="a word " * 16)
    said = expect(2, top, "calibrate", tiny.NAME, "--discussed", "much").said
    assert "sheet-ann.csv" in said and "sheet-dan.csv" in said, said
    assert "--discussed" in expect(2, top, "calibrate", tiny.NAME, "--discussed", " ").said
    fill(top, "ann", [2, 1])
    fill(top, "dan", [2, 1])
    path = calibration.sheet_path(inside(top), "ann")
    before = path.read_text()
    pl.read_csv(path, infer_schema=False).with_columns(notes=pl.lit("")).write_csv(path)
    assert "sheet-ann.csv, line 2" in expect(2, top, "calibrate", tiny.NAME).said, "without a reason"
    path.write_text(before)
    path = calibration.sheet_path(inside(top), "dan")
    path.write_text(path.read_text().replace(",c", ",d", 1))
    assert "rows that are not items" in expect(2, top, "calibrate", tiny.NAME).said
    assert logged(top) == []


def test_p26_what_is_published_of_it_names_nobody(top: Path) -> None:
    """P41, P42: people by pseudonym, no item, and the chain holds; a private study's has no word of the discussion."""
    calibrated(top, discussed="dan was stricter")
    study = study_of(top)
    data = events.as_jsonl(study.log, pseudonyms(study.design))
    published = [e for e in events.from_jsonl(data) if e.kind == "calibrated"]
    assert [e.body["by"] for e in published] == ["grader-1", "grader-2"]
    assert check_chain(events.from_jsonl(data)) == []
    assert b'"ann"' not in data and b"thing" not in data
    rows = json.loads(json.dumps(published[0].body["agreement"]))
    assert {row["graders"] for row in rows} == {"grader-1~grader-2"}
    answers = calibration.read_answers(study, inside(top), calibration.read_items(study, inside(top)))
    study.design = study.design.model_copy(update={"private": True})
    table = calibration.agreement(study, answers)
    calibration.log_calibration(study, answers, table, discussed="where is thing 4")
    assert logged(top)[-1].body["discussed"] == ""


def test_p26_drafted_items_are_outside_the_sample_and_the_same_each_time() -> None:
    """By hash from the seed; chunks that hold the query's words, and others."""
    queries = pl.DataFrame({"query_id": [f"q{n}" for n in range(40)], "query": [f"sort item{n}" for n in range(40)]})
    sample = queries.head(20)
    corpus = pl.DataFrame(
        {
            "chunk_id": [f"c{n}" for n in range(60)],
            "header": ["About"] * 60,
            "text": [f"Sort item{n}" if n < 40 else "nothing" for n in range(60)],
        }
    )
    found = draft(queries, sample, corpus, seed="7")
    assert found.equals(draft(queries.reverse(), sample.reverse(), corpus.reverse(), seed="7"))
    assert found["query"].n_unique() == QUERIES and found.height == QUERIES * (NEAR + FAR)
    assert not set(found["query"]) & set(sample["query"])
    assert not found.equals(draft(queries, sample, corpus, seed="8"))
    for (query,), rows in found.group_by("query"):
        assert f"c{tiny.number(str(query))}" in rows["chunk_id"].to_list(), "the chunk with both words"
        assert rows["chunk_id"].n_unique() == NEAR + FAR
    far = {tuple(sorted(rows["chunk_id"][NEAR:])) for _, rows in found.group_by("query", maintain_order=True)}
    assert len(far) == QUERIES, "each query has others of its own"
    assert draft(queries, queries, corpus, seed="7").is_empty()


HUMAN, MODEL = "human", "model"


@pytest.mark.parametrize(
    ("takes", "share"),
    [
        ([(HUMAN, "all"), (HUMAN, "all")], Fraction(1)),
        ([(HUMAN, 0.6), (HUMAN, 0.6)], Fraction(1, 5)),
        ([(HUMAN, 0.5), (HUMAN, 0.5)], Fraction(0)),
        ([(HUMAN, "all"), (HUMAN, 0.1)], Fraction(1, 10)),
        ([(HUMAN, 0.55), (HUMAN, 0.5)], Fraction(1, 20)),
        ([(HUMAN, 0.4), (HUMAN, 0.4), (HUMAN, 0.4)], Fraction(1, 5)),
        ([(HUMAN, 0.5), (MODEL, 0.5), (HUMAN, 0.5)], Fraction(1, 2)),
        ([(HUMAN, 0.5), (MODEL, "all"), (HUMAN, 0.5)], Fraction(0)),
        ([(HUMAN, "all"), (MODEL, "all")], None),
        ([(MODEL, "all"), (MODEL, "all")], None),
    ],
)
def test_p26_what_people_share_against_the_arcs_by_hand(
    takes: list[tuple[str, str | float]], share: Fraction | None
) -> None:
    graders = [
        Grader.model_validate({"name": f"g{i}", "family": "f", "kind": kind, "takes": t})
        for i, (kind, t) in enumerate(takes)
    ]
    assert shared_by_people(graders) == share


def test_p26_too_little_shared_is_refused_undeclared(tmp_path: Path) -> None:
    """P3: with its key and how much; declared it passes."""
    text = design().replace("kind: human}\n  - ", "kind: human, takes: 0.5}\n  - ")
    text = text.replace(
        "{name: dan, family: people-a, kind: human}", "{name: dan, family: people-a, kind: human, takes: 0.5}"
    )
    tiny.write_experiment(tmp_path, design=text)
    said = expect(2, tmp_path, "check", tiny.NAME).said
    assert "people share 0% of the queries, under 10%" in said and "declare 'little_overlap'" in said
    more = "  - {code: little_overlap, reason: nobody has the time}\n"
    tiny.write_experiment(tmp_path, design=text.replace("deviations:\n", "deviations:\n" + more))
    assert study_of(tmp_path).design.declared("little_overlap")
