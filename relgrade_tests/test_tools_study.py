"""Other tools' files through a whole study (P25, P31, P41, P42): sheets out, answers in, and the key handed on."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import jsonschema
import polars as pl
import pytest
import tiny
from driving import BEFORE_THE_GATES, copy, run
from tiny import review_all, study_of, truth
from typer.testing import CliRunner

from relgrade_assets.cli.app import app
from relgrade_assets.errors import Refused
from relgrade_assets.io.checking import check
from relgrade_assets.io.checklist import items
from relgrade_assets.io.progress import steps
from relgrade_assets.io.publication import manifest_schema
from relgrade_assets.io.publishing import published_file
from relgrade_assets.io.readers.intents import read_reviews
from relgrade_assets.io.returns import collect
from relgrade_assets.io.worksheets import filled_in, sheet_of, write_review_sheet, write_sheets, write_spot_check
from relgrade_assets.methods.key import canonical_bytes
from relgrade_assets.protocol.canonical import digest_bytes

PUBLICATION = """\
publication:
  license: CC-BY-4.0
  rank_eval: {index: chunks, query: {match: {text: "{{query}}"}}}
"""
LABELS = "  - {code: imported_without_reasons, reason: the labels came without}\n"


def asked(top: Path, design: str = tiny.DESIGN) -> Path:
    """A study whose sheets are made."""
    tiny.write_experiment(top, design=design)
    run(top, "queries", "query_sample")
    review_all(top)
    run(top, *BEFORE_THE_GATES)
    return top


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asked(tmp_path_factory.mktemp("ready"), tiny.DESIGN + PUBLICATION)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asked(tmp_path_factory.mktemp("labelled"), tiny.DESIGN + LABELS)


def filled_csv(path: Path, *, grade: str, by: tiny.Truth = truth, notes: str = "notes") -> None:
    """A sheet's CSV as a person gives it back: read by a plain reader, filled in, written by a plain writer."""
    table = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    header, rows = table[0], table[1:]
    query = header.index("query_text" if "query_text" in header else "query")
    chunk = header.index("doc_id" if "doc_id" in header else "docid")
    for row in rows:
        row[header.index(grade)] = str(by(row[query], row[chunk]))
        if notes in header:
            row[header.index(notes)] = f"about {row[chunk]}"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def truth_of(top: Path, who: str) -> pl.DataFrame:
    sheet = sheet_of(study_of(top), who)
    graded = [(q, c, truth(t, c)) for q, c, t in sheet.select("query_id", "chunk_id", "query").rows()]
    return pl.DataFrame(graded, schema=["query_id", "chunk_id", "grade"], orient="row").sort("query_id", "chunk_id")


def test_a_study_is_graded_in_a_spreadsheet_and_in_label_studio(ready: Path, tmp_path: Path) -> None:
    """P25, P31: the answers of both are the grades; the checks on graders are a table before the freeze."""
    top = copy(ready, tmp_path / "s")
    study = study_of(top)
    write_sheets(study, "ann", top / "ann", tool="spreadsheet")
    filled_csv(top / "ann" / "sheet.csv", grade="grade")
    taken = collect(study, "ann", top / "ann" / "sheet.csv", name="sheet.csv", form="spreadsheet")
    assert (taken.new, taken.rows_refused, taken.passed_over) == (96, 0, 0)
    write_sheets(study, "bob", top / "bob", tool="label-studio")
    tasks = json.loads((top / "bob" / "label-studio.json").read_text("utf-8"))
    for task in tasks:
        grade = truth(task["data"]["query"], task["data"]["chunk_id"])
        result = [{"from_name": "grade", "value": {"choices": [str(grade)]}}]
        if grade:
            result.append({"from_name": "reason", "value": {"text": ["it is about it"]}})  # type: ignore[dict-item]
        task["annotations"] = [{"completed_by": 3, "was_cancelled": False, "result": result}]
    (top / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    assert collect(study, "bob", top / "export.json", name="export.json", form="label-studio").new == len(tasks)
    told = run(top)
    assert told.ok and not told.waiting, told.text
    grades = study_of(top).load("grades").select("query_id", "chunk_id", "grade").sort("query_id", "chunk_id")
    assert grades.equals(truth_of(top, "ann"))
    checks = study_of(top).load("grader_checks")
    assert set(checks["grader"]) == {"ann"} and checks.filter(pl.col("check") == "position_slope")["n"].item() == 96


def test_quepid_ratings_are_matched_by_text_and_need_the_declared_deviation(
    ready: Path, labelled: Path, tmp_path: Path
) -> None:
    """P3, P19, P25: a judgment list of a whole case; what isn't on the sheet is passed over and counted."""
    for top, declared in ((copy(ready, tmp_path / "r"), False), (copy(labelled, tmp_path / "l"), True)):
        study = study_of(top)
        write_sheets(study, "ann", top / "ann", tool="quepid")
        path = top / "ann" / "quepid.csv"
        filled_csv(path, grade="rating")
        path.write_text(path.read_text("utf-8").replace("where is", "Where  IS") + "another,x,1\n", encoding="utf-8")
        if not declared:
            with pytest.raises(Refused, match="holds no reasons"):
                collect(study, "ann", path, name="quepid.csv", form="quepid-ratings")
            continue
        taken = collect(study, "ann", path, name="quepid.csv", form="quepid-ratings")
        assert (taken.new, taken.passed_over, taken.rows_refused) == (96, 1, 0)
        assert "1 of pairs that are not on the sheet passed over" in str(taken)
        again = collect(study, "ann", path, name="quepid.csv", form="quepid-ratings")
        assert (again.new, again.same) == (0, 96)


def test_bad_rows_of_a_tool_are_refused_one_by_one_and_kept(ready: Path, tmp_path: Path) -> None:
    """P20, P25: with line and text in the ledger; the good rows are taken."""
    top = copy(ready, tmp_path / "s")
    study = study_of(top)
    write_sheets(study, "ann", top / "ann", tool="spreadsheet")
    path = top / "ann" / "sheet.csv"
    filled_csv(path, grade="grade", by=lambda q, c: 7 if c == "c03" else truth(q, c))
    bad = path.read_text("utf-8").count(",7,")
    taken = collect(study, "ann", path, name="sheet.csv", form="spreadsheet")
    assert bad and (taken.new, taken.rows_refused) == (96 - bad, bad)
    kept = study.ledger.refusals(study.name, 1, "ann")
    assert kept.height == bad and kept["raw"].str.contains('"chunk_id": "c03"').all()
    assert kept["reason"].str.contains("found the grade '7', expected a whole number from 0 to 2").all()


def test_a_tools_sheet_holds_what_the_blind_sheet_holds_and_nothing_else(ready: Path, tmp_path: Path) -> None:
    """P13, P18: the same rows in the same order in every form; no arm, rank or score."""
    study = study_of(copy(ready, tmp_path / "s"))
    for tool in ("spreadsheet", "label-studio", "quepid"):
        write_sheets(study, "ann", tmp_path / tool, tool=tool)  # type: ignore[arg-type]
    plain = [json.loads(line) for line in (tmp_path / "quepid" / "sheet.jsonl").read_text("utf-8").splitlines()]
    tasks = json.loads((tmp_path / "label-studio" / "label-studio.json").read_text("utf-8"))
    head = json.loads((tmp_path / "quepid" / "answers.jsonl").read_text("utf-8"))
    assert [t["data"] for t in tasks] == [{**row, **head} for row in plain] and list(head) == ["sheet"]
    sheet = list(csv.DictReader(io.StringIO((tmp_path / "spreadsheet" / "sheet.csv").read_text("utf-8"), newline="")))
    assert [(r["query_id"], r["doc_id"], r["intent"], r["text"]) for r in sheet] == [
        (r["query_id"], r["chunk_id"], r["intent"], r["text"]) for r in plain
    ]
    assert {(r["grade"], r["notes"], r["rater_id"], r["sheet"]) for r in sheet} == {("", "", "ann", head["sheet"])}
    quepid = list(csv.DictReader(io.StringIO((tmp_path / "quepid" / "quepid.csv").read_text("utf-8"), newline="")))
    assert [(r["query"], r["docid"], r["rating"]) for r in quepid] == [(r["query"], r["chunk_id"], "") for r in plain]


@pytest.fixture(scope="module")
def published(ready: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = copy(ready, tmp_path_factory.mktemp("published"))
    for who in ("ann", "bob"):
        tiny.grade_all(top, who)
    told = run(top)
    assert told.ok and not told.waiting, told.text
    return top


def test_the_published_key_is_handed_on_by_the_command_and_reads_back_as_the_key(
    published: Path, labelled: Path, tmp_path: Path
) -> None:
    """P41, P42: every form by the command line; collected again by another study, it is the key."""
    key = study_of(published).load("frozen_key").sort("query_id", "chunk_id")
    for form, more in (
        ("opensearch", ["--map", "0=0", "--map", "1=1", "--map", "2=2"]),
        ("quepid-ratings", []),
        ("quepid-book", ["--judge", "grader-1"]),
        ("ltr", []),
    ):
        out = tmp_path / form
        done = CliRunner().invoke(
            app, ["--home", str(published), "export", "tiny", "--format", form, "--out", str(out)]
        )
        assert done.exit_code == 0, done.output
        assert "ann" not in out.read_text("utf-8") and "bob" not in out.read_text("utf-8")
        other = copy(labelled, tmp_path / f"{form}-study")
        write_sheets(study_of(other), "ann", other / "ann")
        done = CliRunner().invoke(
            app,
            ["--home", str(other), "collect", "tiny", str(out), "--grader", "ann", "--format", form, *more],
        )
        assert done.exit_code == 0, done.output
        study = study_of(other)
        got = study.ledger.answers(study.name, 1, ["ann"]).select("query_id", "chunk_id", "grade")
        assert got.sort("query_id", "chunk_id").equals(key.select("query_id", "chunk_id", "grade"))


def decoded(path: Path) -> str:
    if path.suffix == ".parquet":
        return pl.read_parquet(path).write_json()
    return path.read_text("utf-8")


APART = ("croissant.json", "manifest.json", "status.json", "SHA256SUMS")
"""Files that list others, or say how the key stands: the croissant file describes none of them."""


def test_the_published_folder_as_a_whole(published: Path) -> None:
    """P42: no name of a person in any file; what croissant.json and manifest.json say of the files is so; P45: the
    manifest names the habits that the key shows, and so do check and status.
    """
    study = study_of(published)
    folder = study.home.published / "tiny"
    for path in folder.iterdir():
        assert not re.search(r"(?<![\w-])(ann|bob|cleo)(?![\w-])", decoded(path)), path.name
    croissant = json.loads((folder / "croissant.json").read_text("utf-8"))
    listed = {f["name"]: f["sha256"] for f in croissant["distribution"]}
    there = {p.name: digest_bytes(p.read_bytes()) for p in folder.iterdir()}
    assert listed == {n: d for n, d in there.items() if n not in APART}
    assert croissant["license"] == "CC-BY-4.0" and croissant["datePublished"] == "2026-03-01"
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    jsonschema.validate(manifest, manifest_schema())
    assert {n: f["sha256"] for n, f in manifest["files"].items()} == {
        **listed,
        "croissant.json": there["croissant.json"],
    }
    assert [h["code"] for h in manifest["habits"]] == ["no_overlap"]
    assert {n.code for n in check(study.home, "tiny").notices} >= {"no_overlap", "coarse"}
    stands = {i.text: i.state for i in items(study, steps(study)) if i.rule == "P45"}
    assert sorted(stands.values()) == ["done", "done", "done", "note", "note"]
    key = pl.read_parquet(folder / "key.parquet")
    assert canonical_bytes(key) == (folder / "key.jsonl").read_bytes()
    body = json.loads((folder / "rank_eval.json").read_text("utf-8"))
    assert {(r["id"], d["_id"], d["rating"]) for r in body["requests"] for d in r["ratings"]} == set(key.rows())


def test_what_is_said_of_a_publication_may_change_after_the_freeze(published: Path, tmp_path: Path) -> None:
    """P2, P42: published again under the same key; a form that the design asks for no more is not handed on."""
    top = copy(published, tmp_path / "s")
    path = top / "data" / "experiments" / "tiny" / "experiment.yaml"
    path.write_text(path.read_text("utf-8").replace(PUBLICATION, "publication: {license: ODbL-1.0}\n"), "utf-8")
    before = (study_of(top).home.published / "tiny" / "key.jsonl").read_bytes()
    told = run(top, "published_key")
    assert told.ok and not told.waiting, told.text
    folder = study_of(top).home.published / "tiny"
    assert (folder / "key.jsonl").read_bytes() == before and not (folder / "rank_eval.json").exists()
    assert '"ODbL-1.0"' in (folder / "croissant.json").read_text("utf-8")
    with pytest.raises(Refused, match=r"no key publication\.rank_eval"):
        published_file(study_of(top), "rank-eval")


def test_a_changed_published_file_is_not_handed_on(published: Path, tmp_path: Path) -> None:
    top = copy(published, tmp_path / "s")
    study = study_of(top)
    path = study.home.published / "tiny" / "ltr.txt"
    assert published_file(study, "ltr") == path.read_bytes()
    path.write_bytes(path.read_bytes() + b"0\tqid:1\t# c30\n")
    with pytest.raises(Refused, match="not the file that was published"):
        published_file(study_of(top), "ltr")


def test_a_private_study_publishes_no_form_that_needs_the_queries_text(tmp_path: Path) -> None:
    """P41: and the command says why."""
    top = asked(tmp_path, tiny.DESIGN + PUBLICATION + "private: true\n")
    for who in ("ann", "bob"):
        tiny.grade_all(top, who)
    told = run(top)
    assert told.ok and not told.waiting, told.text
    study = study_of(top)
    names = {p.name for p in (study.home.published / "tiny").iterdir()}
    with_text = {"opensearch_judgments.json", "quepid_ratings.csv", "quepid_book.csv", "rank_eval.json"}
    assert {"ltr.txt", "croissant.json", "measures.csv"} <= names and not with_text & names
    for form in ("opensearch", "rank-eval"):
        with pytest.raises(Refused, match="private, so that no text of a query leaves"):
            published_file(study, form)
    assert b"# qid:1: q" in published_file(study, "ltr") and b"thing" not in published_file(study, "ltr")


FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1 degree", "@sum", "'=quoted", "plain"]


def test_review_and_spot_check_sheets_run_nothing_and_read_back_to_the_same_bytes(tmp_path: Path) -> None:
    """P8, P17, P42: queries and intents that begin like a formula."""
    top = tmp_path
    folder = tiny.write_experiment(top, design=tiny.DESIGN)
    run(top, "queries", "query_sample")
    ids = list(tiny.query_ids().values())
    intents = (folder / "intents.csv").read_text("utf-8").splitlines()
    for i, text in enumerate(FORMULAS, 1):
        cells = intents[i].split(",")
        cells[3] = text
        intents[i] = ",".join(cells)
    (folder / "intents.csv").write_text("\n".join(intents) + "\n", encoding="utf-8")
    path = top / "review.csv"
    write_review_sheet(study_of(top), path)
    table = list(csv.reader(io.StringIO(path.read_text("utf-8"), newline="")))
    assert not [cell for row in table for cell in row if cell[:1] in ("=", "+", "-", "@")]
    for row in table[1:]:
        row[4] = "ok"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(table)
    read = dict(read_reviews(path, name="review.csv").frame.select("query_id", "intent").iter_rows())
    assert [read[i] for i in ids[: len(FORMULAS)]] == FORMULAS
    spot = pl.DataFrame(
        [(i, q, "head", "where", "rule", None) for i, q in zip(FORMULAS, FORMULAS, strict=True)],
        schema={"query_id": pl.String, "query": pl.String, "stratum": pl.String, "type": pl.String, "by": pl.String,
                "type_by_person": pl.String},
        orient="row",
    )  # fmt: skip
    study = study_of(top)
    study.load = lambda table: spot  # type: ignore[method-assign]
    written = write_spot_check(study)
    cells = [cell for row in csv.reader(io.StringIO(written.read_text("utf-8"), newline="")) for cell in row]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@")]
    back = filled_in(study)
    assert back is not None and back["query_id"].to_list() == FORMULAS
