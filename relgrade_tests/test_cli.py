"""The command line from `init` to a published key, as people type it: what each command says, how it exits, and that
`status` tells how far a study is.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import polars as pl
import pytest
import tiny
from command_line import FOLDER, answers, at, content, expect, fill_in, ledger_rows, nothing_changes, relgrade

from relgrade_assets.cli.app import COMMANDS
from relgrade_assets.cli.main import main
from relgrade_assets.protocol.design import Design

TOP = Path(__file__).resolve().parents[1]
HEAVY = ("dagster", "pandera", "sqlalchemy", "alembic", "polars", "relgrade_assets.schemas")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_is_readable(command: str, tmp_path: Path) -> None:
    ran = expect(0, tmp_path, command, "--help")
    first, *rest = ran.out.splitlines()
    assert re.match(rf"Usage: relgrade {command}( |$)", first) and ran.err == ""
    assert re.search(r"^  [A-Z].*", "\n".join(rest[:3]), re.M)
    assert [line for line in rest if len(line) > 80 and "|" not in line] == []
    assert not re.search(r"<class|Annotated|None\]|[{ ]name\b", first), ran.out
    assert rest[-1].startswith("  --help ")


def test_help_lists_every_command_in_one_line(tmp_path: Path) -> None:
    ran = expect(0, tmp_path, "--help")
    for command, (_, text) in COMMANDS.items():
        assert re.search(rf"^  {command} +{re.escape(text)}$", ran.out, re.M)
        assert text.endswith(".") and len(text) <= 62
    assert "3 people or files are waited" in ran.out
    assert expect(2, tmp_path).said.startswith("Usage: relgrade [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chekc", "tiny"), "No such command 'chekc'. Did you mean 'check'?"),
        (("statsu", "tiny"), "No such command 'statsu'. Did you mean 'status'?"),
        (("check",), "Missing argument 'NAME'"),
        (("run", "tiny", "--jobb", "publish"), "No such option: --jobb"),
        (
            ("run", "tiny", "--job", "freeze"),
            "'freeze' is not one of 'everything', 'regrade', 'recheck', 'repool', 'publish'",
        ),
        (("collect", "tiny", "a.jsonl"), "Missing option '--grader'"),
        (("revise", "tiny"), "Missing option '--cause'"),
        (("init", "new", "--rubric", "poetry"), "'poetry' is not one of 'code', 'docs', 'shop', 'support'"),
        (("--home", "nowhere", "check", "tiny"), "'nowhere' does not exist"),
        (("--home", __file__, "check", "tiny"), "is a file"),
    ],
)
def test_what_can_not_be_meant_is_a_usage_error_in_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    ran = expect(2, tmp_path, *words)
    assert ran.out == "" and said in ran.err
    assert ran.err.splitlines()[0].startswith("Usage: relgrade") and len(ran.err.splitlines()) <= 5


def test_version_is_told(tmp_path: Path) -> None:
    assert re.fullmatch(r"relgrade \d+\.\d+\.\d+\n", expect(0, tmp_path, "--version").out)


def test_help_and_version_import_nothing_heavy() -> None:
    code = (
        "import sys\nfrom relgrade_assets.cli.main import main\n"
        "for words in (['--help'], ['--version'], ['chekc']):\n"
        "    sys.argv = ['relgrade', *words]\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_jobs_offered_are_the_graphs() -> None:
    from relgrade_assets.automation.jobs import JOBS
    from relgrade_assets.cli.graph import Job

    assert [j.name for j in JOBS] == [j.value for j in Job]


@pytest.mark.parametrize("rubric", ["code", "docs", "shop", "support"])
def test_init_makes_an_experiment_that_validates(rubric: str, tmp_path: Path) -> None:
    ran = expect(0, tmp_path, "init", "fresh-one", "--rubric", rubric)
    folder = tmp_path / "data" / "experiments" / "fresh-one"
    assert {p.name for p in folder.iterdir()} == {"experiment.yaml", "rubric.md", "experiment.schema.json"}
    assert (tmp_path / "dagster.yaml").read_bytes() == (TOP / "dagster.yaml").read_bytes()
    assert (tmp_path / "workspace.yaml").is_file() and "relgrade check fresh-one" in ran.out
    with nothing_changes(tmp_path):
        checked = expect(3, tmp_path, "check", "fresh-one")
        told = expect(3, tmp_path, "status", "fresh-one")
    assert checked.err == "" and "is not there yet" in checked.out and "fresh-one is sound so far" in checked.out
    assert "title is still the template's" in checked.out and "the template's paragraph" in checked.out
    assert re.search(r"waiting +queries", told.out)


@pytest.mark.parametrize("name", ["k", "kitchen", "x" * 63])
def test_comments_of_a_new_experiment_stand_in_their_column(name: str, tmp_path: Path) -> None:
    expect(0, tmp_path, "init", name)
    lines = (tmp_path / "data" / "experiments" / name / "experiment.yaml").read_text("utf-8").splitlines()
    (version, of_name, seed) = (next(x for x in lines if x.startswith(key)) for key in ("relgrade:", "name:", "seed:"))
    assert of_name.split(" #")[0].rstrip() == f'name: "{name}"' and seed.startswith(f'seed: "{name}-1" ')
    columns = {line.index(" # ") for line in (version, of_name, seed)}
    assert len(columns) == 1 or len(name) > 20


def test_check_says_faults_before_what_is_waited_for_and_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: what must be mended stands first, also where both streams go to one terminal."""
    tiny.write_experiment(tmp_path, without=("intents.csv",))
    log, corpus = (tmp_path / FOLDER / name for name in ("log.csv", "corpus.jsonl"))
    log.write_bytes(log.read_bytes().replace(b"\n", b"\r\n"))
    corpus.write_text(corpus.read_text("utf-8") + "{\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["relgrade", "--home", str(tmp_path), "check", "tiny"])
    both = io.StringIO()
    with redirect_stdout(both), redirect_stderr(both), pytest.raises(SystemExit, match="2"):
        main()
    said = both.getvalue()
    assert said.startswith("corpus.jsonl ") and said.count("waiting: ") == 1, said
    assert said.index("corpus.jsonl, line 31") < said.index("waiting: ") < said.index("note: "), said


def test_queries_are_exported_to_a_file_or_to_standard_output(tmp_path: Path) -> None:
    top = at("sampled", tmp_path)
    out = expect(0, top, "export-queries", "tiny").out
    rows = [json.loads(line) for line in out.splitlines()]
    assert [list(r) for r in rows] == [["query_id", "query"]] * 12
    assert {r["query"]: r["query_id"] for r in rows} == tiny.query_ids(top)
    assert "12 queries" in expect(0, top, "export-queries", "tiny", "--out", tmp_path / "q.jsonl").out
    assert (tmp_path / "q.jsonl").read_text("utf-8") == out


def on_a_terminal(top: Path, watch: Callable[[bytes, Callable[[], None]], None]) -> tuple[int, str, bytes]:
    """`relgrade run tiny` whose standard error is a terminal: exit code, what it printed, what the terminal showed.
    `watch` is given what was shown so far and a way to press Ctrl-C.
    """
    terminal, end = os.openpty()
    ran = subprocess.Popen(
        [sys.executable, "-m", "relgrade_assets.cli.main", "run", "tiny"],
        cwd=top,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdout=subprocess.PIPE,
        stderr=end,
        text=True,
    )
    os.close(end)
    seen = b""
    try:
        while piece := os.read(terminal, 65536):
            seen += piece
            watch(seen, lambda: ran.send_signal(signal.SIGINT))
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    out, _ = ran.communicate()
    return ran.returncode, out, seen


def test_a_run_can_be_stopped_and_goes_on(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    pressed: list[int] = []

    def at_the_pools(seen: bytes, press: Callable[[], None]) -> None:
        if b"contributions ..." in seen and not pressed:
            pressed.append(1)
            press()

    code, out, seen = on_a_terminal(top, at_the_pools)
    assert code == 130 and out == "" and b"Interrupted. What was made before stands; run it again." in seen
    assert b"Traceback" not in seen
    made = {p.stem for p in (top / ".relgrade" / "tables" / "tiny").rglob("*.parquet")}
    assert "query_sample" in made and "pools" not in made
    expect(3, top, "run", "tiny")


def test_a_run_says_what_waits_and_what_to_do_next(tmp_path: Path) -> None:
    """From a fresh study through a terminal's standard error: the steps at work and nothing else."""
    code, out, seen = on_a_terminal(at("fresh", tmp_path), lambda seen, stop: None)
    assert code == 3
    head, *rest = out.splitlines()
    assert re.fullmatch(r"tiny: \d+ tables made\.", head)
    assert rest[0].startswith("  intents waits: 0 of 12 intents ready to lock: 12 unreviewed (q1a8ebb32de79, ")
    assert rest[1].startswith("    next: bob: review the intents (0 of 12 intents ready to lock: 12 unreviewed (")
    assert rest[1].endswith("): relgrade review tiny --write review.csv, fill it in, relgrade review tiny review.csv")
    lines = [re.sub(r"\x1b\[K", "", text).strip() for text in seen.decode().split("\r") if text.strip("\r\n \x1b[K")]
    assert {"queries ...", "query_sample ...", "pools ..."} <= set(lines)
    assert [text for text in lines if not re.fullmatch(r"\w+ \.\.\.", text)] == []
    assert seen.endswith(b"\r\x1b[K")


def test_reviews_are_written_out_and_taken_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = at("sampled", tmp_path / "top")
    (top / ".relgrade" / "tables" / "tiny" / "query_sample.parquet").unlink()  # so that the graph runs in between
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ran = expect(0, top, "review", "tiny", "--write", "sheet.csv")
    assert "12 intents to review" in ran.out and "relgrade review tiny sheet.csv" in ran.out
    sheet = pl.read_csv("sheet.csv", infer_schema=False)
    assert sheet.columns == ["query_id", "query", "form", "intent", "verdict", "note"] and sheet.height == 12
    assert "0 new" in expect(0, top, "review", "tiny", "sheet.csv").out
    fill_in(Path("sheet.csv"))
    assert "12 new, 0 changed, 0 already there, 0 refused" in expect(0, top, "review", "tiny", "sheet.csv").out
    assert "0 new, 0 changed, 12 already there" in expect(0, top, "review", "tiny", "sheet.csv").out
    assert Path.cwd() == tmp_path / "elsewhere" and "DAGSTER_HOME" not in os.environ


def test_what_people_owe_is_waited_for_not_refused(tmp_path: Path) -> None:
    top = at("sampled", tmp_path)
    ran = expect(3, top, "sheets", "tiny", "--grader", "ann")
    assert ran.err.startswith("Waiting: sheets of tiny can't be made yet, since intents waits: 0 of 12 intents")
    assert not (top / FOLDER / "sheets").exists()


def test_sheets_are_blind_and_in_parts_of_five(tmp_path: Path) -> None:
    top = at("asked", tmp_path)
    ran = expect(0, top, "sheets", "tiny", "--grader", "ann")
    folder = top / FOLDER / "sheets" / "ann"
    assert ran.out.strip() == "96 pairs for ann, round 1: data/experiments/tiny/sheets/ann"
    rows = [json.loads(line) for line in (folder / "sheet.jsonl").read_text("utf-8").splitlines()]
    assert [list(r) for r in rows] == [["query_id", "chunk_id", "query", "intent", "header", "text"]] * 96
    parts = sorted((folder / "queries").rglob("*.jsonl"))
    sizes = [len(p.read_text("utf-8").splitlines()) for p in parts]
    assert sum(sizes) == 96 and max(sizes) == 5
    assert (folder / "rubric.md").read_text("utf-8") == (top / FOLDER / "rubric.md").read_text("utf-8")
    with nothing_changes(top):
        expect(0, top, "sheets", "tiny", "--grader", "ann")


def test_answers_are_collected_once_and_changes_are_told(tmp_path: Path) -> None:
    top = at("issued", tmp_path)
    whole = (top / "ann.jsonl").read_text("utf-8").splitlines(keepends=True)
    (top / "some.jsonl").write_text("".join(whole[:10]), encoding="utf-8")
    for given, said in (
        ("some.jsonl", "10 new, 0 changed, 0 already there"),
        ("ann.jsonl", "86 new, 0 changed, 10 already there"),
        ("ann.jsonl", "0 new, 0 changed, 96 already there"),
    ):
        assert said in expect(0, top, "collect", "tiny", "--grader", "ann", top / given).out
    answers(top / "ann" / "sheet.jsonl", top / "ann.jsonl", lambda q, c: 2 if tiny.truth(q, c) else 0)
    changed = sum(
        tiny.truth(r["query"], r["chunk_id"]) == 1 for r in map(json.loads, _lines(top / "ann" / "sheet.jsonl"))
    )
    ran = expect(0, top, "collect", "tiny", "--grader", "ann", top / "ann.jsonl")
    assert f"0 new, {changed} changed, {96 - changed} already there, 0 refused" in ran.out and changed
    told = expect(3, top, "status", "tiny")
    assert re.search(r"waiting +audit_grades +0 of 80 pairs graded by bob", told.out)


def test_status_tells_each_stage(tmp_path: Path) -> None:
    """P46: the checklists are live; P45's habits stand where they are met."""
    expected = {
        "fresh": (0, {"queries": "open", "frozen_key": "open"}),
        "sampled": (3, {"queries": "ready", "intents": "waiting", "pools": "ready", "sheets": "open"}),
        "reviewed": (0, {"intents": "open", "sheets": "open"}),
        "asked": (3, {"intents": "ready", "sheets": "ready", "grades": "waiting", "audit_grades": "waiting"}),
        "issued": (3, {"grades": "waiting"}),
        "graded": (0, {"grades": "open", "frozen_key": "open"}),
        "frozen": (0, {"grades": "ready", "frozen_key": "ready", "published_key": "ready"}),
    }
    done = []
    for stage, (code, states) in expected.items():
        top = at(stage, tmp_path / stage)
        with nothing_changes(top):
            ran = expect(code, top, "status", "tiny", "--json")
            text = expect(code, top, "status", "tiny").out
        told = json.loads(ran.out)
        assert (told["experiment"], told["round"]) == ("tiny", 1)
        found = {row["table"]: row["state"] for row in told["tables"]}
        assert {t: found[t] for t in states} == states, stage
        assert set(found.values()) <= {"ready", "outdated", "waiting", "refused", "open"}
        assert set(found.values()) == {"ready"} or stage != "frozen"
        for row in told["tables"]:
            assert re.search(rf"^  {row['state']} +{row['table']}\b", text, re.M)
        items = told["checklist"]
        assert {i["state"] for i in items} <= {"done", "open", "declared", "note"}
        assert all(i["text"] in text and re.fullmatch(r"P\d+", i["rule"]) for i in items)
        assert [i["when"] for i in items] == sorted(
            (i["when"] for i in items),
            key=["Before grading", "While grading and after", "What this key can't tell"].index,
        )
        assert next(i["state"] for i in items if "pool is deep" in i["text"]) == "declared"
        assert {"queries that nobody typed", "latency and cost"} <= {i["text"] for i in items}
        done.append(sum(i["state"] == "done" for i in items))
    assert done == sorted(done) and done[0] < 6 and done[-1] > 14


def test_a_run_of_a_graded_study_publishes_and_prints_the_arms(tmp_path: Path) -> None:
    top = at("graded", tmp_path)
    ran = expect(0, top, "run", "tiny")
    assert ran.err == ""
    table = ran.out[ran.out.index("nDCG@10, weighted by traffic (per searches), 95% interval") :]
    rows = re.findall(r"^  (old|new) +(\d\.\d{3})  \[\d\.\d{3}, \d\.\d{3}\] +\d\.\d{3} +\d+\.\d% +12$", table, re.M)
    assert len(rows) == 2 and float(rows[0][1]) >= float(rows[1][1])
    key = (top / ".relgrade" / "published" / "tiny" / "key.jsonl").read_bytes()
    assert f"sha256 {hashlib.sha256(key).hexdigest()}" in table
    assert re.search(r"^  binary_kappa +1\.000  \[1\.000, 1\.000\] +gate 0\.8$", table, re.M)
    assert "Published: .relgrade/published/tiny" in table and "12 queries, round 1" in table
    published = content(top / ".relgrade" / "published")
    expect(0, top, "run", "tiny", "--job", "recheck")
    assert content(top / ".relgrade" / "published") == published


def test_a_revision_opens_the_next_round(tmp_path: Path) -> None:
    """P4, P30: a new round with its cause; sheets are fresh, and the old round's key stands."""
    top = at("frozen", tmp_path)
    status = Path("tiny") / "round-1.status.json"
    key = content(top / ".relgrade" / "keys", without=(status.as_posix(),))
    ran = expect(0, top, "revise", "tiny", "--cause", "boundary rule", "--what", "headers alone are 0", "--by", "cleo")
    assert "Round 2 of tiny is open." in ran.out
    told = json.loads(relgrade(top, "status", "tiny", "--json").out)
    assert told["round"] == 2
    states = {row["table"]: row["state"] for row in told["tables"]}
    assert states["queries"] == "ready" and states["intents"] == states["grades"] == states["frozen_key"] == "open"
    assert expect(0, top, "sheets", "tiny", "--grader", "ann", "--out", top / "second").out.startswith(
        "96 pairs for ann, round 2"
    )
    first, second = _lines(top / "ann" / "sheet.jsonl"), _lines(top / "second" / "sheet.jsonl")
    assert sorted(first) == sorted(second) and first != second
    assert content(top / ".relgrade" / "keys", without=(status.as_posix(),)) == key
    assert json.loads((top / ".relgrade" / "keys" / status).read_bytes())["status"] == "superseded"
    revisions = pl.read_parquet(top / ".relgrade" / "tables" / "tiny" / "revisions.parquet")
    assert revisions.select("round", "cause", "what", "by").rows()[-1] in (
        (1, "first grading", "", ""),
        (2, "boundary rule", "headers alone are 0", "cleo"),
    )


CLASSIFIED = """\
strata:
  by: type
  type_from: classifier
  labelled: labelled.csv
  parts:
    - {name: errors, target: 2, types: [error]}
    - {name: rest, target: 8, types: [navigational, where]}
"""


def test_p8_the_spot_check_goes_out_and_comes_back(tmp_path: Path) -> None:
    top = at("fresh", tmp_path)
    folder = top / FOLDER
    text = (folder / "experiment.yaml").read_text("utf-8")
    head, rest = text.split("strata:\n")
    (folder / "experiment.yaml").write_text(head + CLASSIFIED + rest[rest.index("corpus:") :], encoding="utf-8")
    with (folder / "log.csv").open("a", encoding="utf-8") as log:
        log.write("ERR_CONNECTION_RESET on save,3\nTypeError: x is None,2\n")
    labelled = "".join(f"where is it {n},where\nthe page of {n},navigational\n" for n in range(8))
    (folder / "labelled.csv").write_text(f"query,type\n{labelled}", encoding="utf-8")
    ran = expect(0, top, "spot-check", "tiny")
    assert "Fill in type_by_person, then `relgrade run tiny`: data/experiments/tiny/spot-check.csv" in ran.out
    sheet = pl.read_csv(folder / "spot-check.csv", infer_schema=False)
    assert sheet.columns == ["query_id", "query", "type", "type_by_person"] and sheet.height == 14
    assert "spot-check.csv is there already" in expect(2, top, "spot-check", "tiny").err
    right = sheet.with_columns(type_by_person=pl.col("type"))
    wrong = pl.when(pl.col("query").str.starts_with("ERR")).then(pl.lit("where")).otherwise(pl.col("type"))
    right.with_columns(type_by_person=wrong).write_csv(folder / "spot-check.csv")
    expect(3, top, "run", "tiny")
    stored = pl.read_parquet(top / ".relgrade" / "tables" / "tiny" / "spot_check.parquet")
    assert stored["type_by_person"].null_count() == 0
    assert stored.filter(pl.col("type") != pl.col("type_by_person")).height == 1


def record(top: Path) -> None:
    """Make of a study whose sheets are out a recorded one: its review and answers, at times of its own."""
    from relgrade_assets.io.worksheets import sheet_digest

    made = at("issued", top / "made")
    study = tiny.study_of(made)
    folder = top / FOLDER
    tiny.write_experiment(top)
    (folder / "recorded").mkdir()
    for name in ("review.csv", "ann.jsonl", "bob.jsonl"):
        (folder / "recorded" / name).write_bytes((made / name).read_bytes())
    steps = [
        "- {do: run, at: 2026-03-01T08:00:00Z}",
        "- {do: review, at: '2026-03-02T09:00:00+01:00', file: recorded/review.csv}",
    ]
    steps.append("- {do: run, at: 2026-03-02T09:00:00Z}")
    for who, hour in (("ann", 10), ("bob", 11)):
        digest = sheet_digest(study, who)
        steps.append(f"- {{do: sheets, at: 2026-03-02T{hour}:00:00Z, grader: {who}, sheet: {digest}}}")
    for who, hour in (("ann", 12), ("bob", 13)):
        steps.append(f"- {{do: collect, at: 2026-03-02T{hour}:00:00Z, grader: {who}, file: recorded/{who}.jsonl}}")
    steps.append("- {do: run, at: 2026-03-03T08:00:00Z}")
    (folder / "recorded.yaml").write_text("\n".join(steps) + "\n", encoding="utf-8")


def test_a_replay_gives_the_same_bytes_anywhere_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Same inputs, same times, same bytes; killed after the review it goes on; a second replay changes nothing."""
    record(tmp_path / "one")
    record(tmp_path / "two")
    ran = expect(0, tmp_path / "one", "replay", "tiny")
    assert ran.err == "" and "recorded/review.csv: 12 new" in ran.out and "96 pairs on the sheet of ann" in ran.out
    assert "nDCG@10, weighted by traffic" in ran.out and "sha256 " in ran.out

    recorded = tmp_path / "two" / FOLDER / "recorded.yaml"
    whole = recorded.read_text("utf-8")
    recorded.write_text("\n".join(whole.splitlines()[:5]) + "\n", encoding="utf-8")
    assert relgrade(tmp_path / "two", "replay", "tiny").code == 3
    recorded.write_text(whole, encoding="utf-8")
    assert (
        "recorded/review.csv: 0 new, 0 changed, 12 already there" in expect(0, tmp_path / "two", "replay", "tiny").out
    )

    published = [content(tmp_path / n / ".relgrade" / "published") for n in ("one", "two")]
    assert published[0] == published[1] and len(published[0]) > 10
    events = [ledger_rows(tmp_path / n)["events"] for n in ("one", "two")]
    assert events[0] == events[1]
    assert {row[2] for row in events[0]} <= {
        f"2026-03-0{day}T{hour:02}:00:00.000000Z" for day in (1, 2, 3) for hour in (8, 9, 10, 11, 12, 13)
    }
    answered = {row[-1] for row in ledger_rows(tmp_path / "one")["answers"]}
    assert answered == {"2026-03-02T12:00:00.000000Z", "2026-03-02T13:00:00.000000Z"}

    with nothing_changes(tmp_path / "one"):
        again = expect(0, tmp_path / "one", "replay", "tiny")
    assert "All that was recorded of tiny is there already" in again.out
    assert again.out.split("\n\n")[1:] == ran.out.split("\n\n")[1:]  # the arms, the hash and where they are


def test_the_design_that_ships_is_the_one_that_the_model_reads(tmp_path: Path) -> None:
    expect(0, tmp_path, "init", "one")
    schema = json.loads((tmp_path / "data" / "experiments" / "one" / "experiment.schema.json").read_text("utf-8"))
    assert set(schema["properties"]) >= set(Design.model_fields)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()
