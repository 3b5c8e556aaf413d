"""`relgrade check` as a library (P1, P2, P15-P17): all at once, each file for itself, and nothing made."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
import sqlalchemy as sa
import tiny
from broken import both, design, file, line, score, swap, write
from command_line import at, content
from conftest import TOP

from relgrade_assets.errors import Refused
from relgrade_assets.io.checking import Report, check, left_of_the_template
from relgrade_assets.io.experiment_file import read_sound_parts
from relgrade_assets.io.home import Home

TEMPLATES = TOP / "relgrade_assets" / "templates"


def checked(top: Path) -> Report:
    return check(tiny.home_of(top), tiny.NAME)


def notices(report: Report) -> set[str]:
    return {n.code for n in report.notices}


def test_a_sound_experiment_owes_its_reviews_and_makes_nothing(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    before = content(top)
    report = checked(top)
    assert report.refused == []
    assert [w.what for w in report.waiting] == ["intents ready to lock: 12 unreviewed"]
    assert (report.waiting[0].done, report.waiting[0].of) == (0, 12)
    assert content(top) == before and not (top / ".relgrade").exists()


def test_reviewed_intents_owe_nothing_and_a_changed_row_owes_its_review_again(tmp_path: Path) -> None:
    top = at("reviewed", tmp_path)
    assert (checked(top).refused, checked(top).waiting) == ([], [])
    swap("intents.csv", "thing 4 written", "thing 4 kept")(top)
    assert [w.what for w in checked(top).waiting] == ["intents ready to lock: 1 changed since its review"]


def test_unreviewed_intents_may_stand_where_that_is_declared(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    design("deviations:\n", "deviations:\n  - {code: unreviewed_intents, reason: nobody else is there}\n")(top)
    report = checked(top)
    assert (report.refused, report.waiting) == ([], [])
    assert "unreviewed_intents" in notices(report)


def test_refusals_come_in_the_order_design_rubric_log_corpus_intents_runs(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    both(
        design("depth: 5", "depth: five"),
        write("rubric.md", " \n"),
        write("log.csv", "query,count\na,x\n"),
        line("corpus.jsonl", 2, lambda t: t.replace("c02", "c01")),
        line("intents.csv", 2, lambda t: t.replace(",where,", ",whence,")),
        line("runs/old.trec", 3, score("NaN")),
        line("runs/new.trec", 4, score("inf")),
    )(top)
    report = checked(top)
    places = [refused.faults[0].where for refused in report.refused]
    assert [p.split(",")[0] for p in places] == [
        "data/experiments/tiny/experiment.yaml",
        "rubric.md",
        "log.csv",
        "corpus.jsonl",
        "intents.csv",
        "runs/old.trec",
        "runs/new.trec",
    ]
    assert report.waiting == []


def test_a_faulty_part_of_the_design_hides_its_own_files_alone(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    both(
        design("corpus: {path: corpus.jsonl}", "corpus: {path: [corpus.jsonl]}"),
        design("run: runs/new.trec}", "run: runs/new.trec, format: csvv}"),
        line("corpus.jsonl", 2, lambda t: "no JSON"),
        line("runs/old.trec", 3, score("NaN")),
        line("runs/new.trec", 3, score("NaN")),
    )(top)
    report = checked(top)
    assert [refused.what for refused in report.refused] == [
        "data/experiments/tiny/experiment.yaml is no experiment that relgrade can run",
        "runs/old.trec can't be used",
    ]
    assert [w.what for w in report.waiting] == ["intents ready to lock: 12 unreviewed"]


def test_an_undeclared_departure_hides_no_file_and_the_sample_is_still_matched(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    both(
        design("  - {code: shallow_depth, reason: small enough to know by heart}\n", ""),
        lambda top: file(top, "runs/old.trec").write_text("q1 Q0 c01 1 2 t\nq1 Q0 c02 2 1 t\n"),
    )(top)
    report = checked(top)
    assert "shallow_depth" in report.refused[0].message()
    assert [r.what for r in report.refused[1:]] == ["runs/old.trec answers none of the set's 12 queries, for arm old"]
    assert report.waiting[0].of == 12


def test_strata_at_fault_leave_the_log_readable_but_draw_no_sample(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    design("tiers: [tail]", "tiers: [nail]")(top)
    report = checked(top)
    assert (len(report.refused), report.waiting) == (1, [])
    write("log.csv", "query,count\na,0\n")(top)
    report = checked(top)
    assert [r.faults[0].where.split(",")[0] for r in report.refused] == [
        "data/experiments/tiny/experiment.yaml",
        "log.csv",
    ]


def test_without_a_log_intents_and_runs_are_still_read(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    file(top, "log.csv").unlink()
    assert [str(w) for w in checked(top).waiting] == ["the file log.csv is not there yet"]
    line("runs/old.trec", 3, score("NaN"))(top)
    assert [r.what for r in checked(top).refused] == ["runs/old.trec can't be used"]


def test_runs_are_matched_with_sample_and_corpus(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    lines = file(top, "runs/old.trec").read_text("utf-8").splitlines(keepends=True)
    lines = ["stranger Q0 c01 1 1 old\n", *lines[6:]]
    file(top, "runs/old.trec").write_text("".join(lines), encoding="utf-8")
    report = checked(top)
    assert report.refused == []
    assert notices(report) == {"queries_not_in_set", "queries_missing", "coarse", "no_overlap"}
    file(top, "runs/old.trec").write_text("".join(lines[:7]), encoding="utf-8")
    assert [r.what for r in checked(top).refused] == ["runs/old.trec: the arm old did not run"]
    design("deviations:\n", "deviations:\n  - {code: missing_arm, reason: it was switched off by then}\n")(top)
    assert checked(top).refused == []


def test_short_strata_are_noticed(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    design("{name: tail, target: 4", "{name: tail, target: 9")(top)
    found = [n for n in checked(top).notices if n.code == "short_stratum"]
    assert [(n.count, n.text.split(",")[0]) for n in found] == [(5, "stratum tail has 4 queries")]


def test_p7_a_private_log_is_checked_without_drawing_its_secret(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    design('seed: "7"', 'seed: "7"\nprivate: true')(top)
    before = content(top)
    report = checked(top)
    assert (report.refused, report.waiting) == ([], [])  # ids are not drawn yet, so nothing can be matched
    assert content(top) == before
    secret = tiny.study_of(top).secret
    assert len(secret) == 64
    report = checked(top)
    assert [w.what for w in report.waiting] == ["intents ready to lock: 12 missing"]
    assert [r.what for r in report.refused] == [
        f"runs/{arm}.trec answers none of the set's 12 queries, for arm {arm}" for arm in ("old", "new")
    ]


def test_a_private_log_with_ids_of_its_own_is_matched_at_once(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    ids = tiny.query_ids(top)
    both(
        design('seed: "7"', 'seed: "7"\nprivate: true'),
        design("count: count}", "count: count, query_id: id}"),
    )(top)
    with file(top, "log.csv").open("w", newline="", encoding="utf-8") as stream:
        rows = [(q, n, ids[q]) for q, n in zip(tiny.QUERIES, tiny.COUNTS, strict=True)]
        csv.writer(stream).writerows([("query", "count", "id"), *rows])
    report = checked(top)
    assert report.refused == []
    assert [str(w)[:38] for w in report.waiting] == ["0 of 12 intents ready to lock: 12 unre"]


def test_no_experiment_is_refused_not_reported(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="There is no experiment 'tiny'"):
        check(tiny.home_of(tmp_path), "tiny")


def test_p1_sound_parts_of_a_design_keep_what_is_sound(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    both(
        design("depth: 5", "depht: 5"),
        design("name: new,", "name: old,"),
        design("auditor: {name: bob,", "auditor: {name: ann,"),
    )(top)
    found = read_sound_parts(file(top, "experiment.yaml"), name="experiment.yaml")
    assert found is not None
    parts, own = found
    assert {"query_log", "strata", "corpus", "intents", "seed", "rubric", "private"} <= own
    assert [a.run for a in parts.arms] == ["runs/old.trec"]
    assert parts.query_log.file == "log.csv" and "graders" in own and "auditor" not in own
    file(top, "experiment.yaml").write_text("- a\n- b\n", encoding="utf-8")
    assert read_sound_parts(file(top, "experiment.yaml"), name="experiment.yaml") is None


def test_p3_departures_that_only_data_shows_are_not_declared_for_the_file(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    design("depth: 5", "depht: 5")(top)
    parts, _ = read_sound_parts(file(top, "experiment.yaml"), name="x") or pytest.fail("nothing sound")
    assert parts.declared("shared_families") and not parts.declared("missing_arm")
    assert not parts.declared("unreviewed_intents")


def test_a_ledger_on_a_server_is_not_made_by_a_check(tmp_path: Path, postgres_url: str) -> None:
    top = at("fresh", tmp_path)
    admin = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql("CREATE DATABASE relgrade_check")
    admin.dispose()
    url = sa.make_url(postgres_url).set(database="relgrade_check")
    home = Home(top, top / ".relgrade", url.render_as_string(hide_password=False))
    assert check(home, "tiny").refused == []
    engine = sa.create_engine(url)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()


@pytest.mark.parametrize("rubric", sorted(p.name for p in (TEMPLATES / "rubrics").glob("*.md")))
def test_p6_what_the_template_asks_to_replace_is_named_while_it_stands(rubric: str) -> None:
    text = (TEMPLATES / "rubrics" / rubric).read_text("utf-8")
    title = re.search(r'^title: "(.*)"$', (TEMPLATES / "experiment.yaml").read_text("utf-8"), re.M)
    assert title is not None
    found = [n.code for n in left_of_the_template(title[1], text)]
    assert found == ["template_title", "template_rubric"]
    assert left_of_the_template("Two analysers", text.replace("Delete this paragraph.", "")) == []
