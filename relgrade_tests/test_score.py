"""`relgrade score` (P34, P37): trec_eval's published outputs, every form of input and output, refusals, exit codes."""

from __future__ import annotations

import functools
import gzip
import inspect
import io
import json
import math
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import ir_measures
import polars as pl
import pytest
import zstandard

from relgrade_assets.cli.main import main

TOP = Path(__file__).resolve().parents[1]
DATA = TOP.parent / "shared" / "data"
TE = DATA / "trec_eval_test"
real = pytest.mark.skipif(not TE.is_dir(), reason="the public data is not here")
QRELS = "q1 0 a 2\nq1 0 b 1\nq1 0 c 0\nq2 0 a 1\nq3 0 x 0\n"
RUN = "q1 Q0 c 1 3.0 t\nq1 Q0 a 2 2.0 t\nq2 Q0 z 1 1.5 t\nq2 Q0 a 2 1.0 t\n"


def score(*arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors, in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    before, sys.argv = sys.argv, ["relgrade", "score", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "one.run").write_text(RUN)
    return tmp_path / "qrels", tmp_path / "one.run"


def published(file: str) -> dict[tuple[str, str], str]:
    lines = [line.split("\t") for line in (TE / file).read_text().splitlines()]
    return {(m.strip(), q): v for m, q, v in lines}


# trec_eval's own lines


@real
@pytest.mark.parametrize(
    ("file", "options", "qrels", "run"),
    [
        ("out.test", [], "qrels.test", "results.test"),
        ("out.test.a", ["-m", "all_trec"], "qrels.test", "results.test"),
        ("out.test.aq", ["-m", "all_trec", "-q"], "qrels.test", "results.test"),
        ("out.test.aqc", ["-m", "all_trec", "-q", "-c"], "qrels.test", "results.trunc"),
        ("out.test.aqcM", ["-m", "all_trec", "-q", "-c", "-M100"], "qrels.test", "results.trunc"),
        ("out.test.aql", ["-m", "all_trec", "-q", "-l2"], "qrels.rel_level", "results.test"),
        ("out.comment.test", [], "qrels.test.with-comments", "results.test"),
    ],
)
def test_lines_against_trec_eval_published_outputs(file: str, options: list[str], qrels: str, run: str) -> None:
    """Every line we print stands in trec_eval's own expected output, in its order, to the byte; what is missing there
    is none of ours."""
    code, out, err = score(TE / qrels, TE / run, "--like", "trec_eval", *options)
    assert code == 0, err
    mine, theirs = out.splitlines(), (TE / file).read_text().splitlines()
    if file == "out.comment.test":
        pytest.skip("its run is not in the data")
    there = iter(theirs)
    assert all(line in there for line in mine), [line for line in mine if line not in theirs][:5]
    have = r"(num_(q|ret|rel|rel_ret)|map|Rprec|bpref|recip_rank|infAP|ndcg|(P|recall|ndcg_cut|map_cut|success)_\d+)\s"
    assert mine == [line for line in theirs if re.match(have, line)]
    if run == "results.trunc":
        assert "more than six columns" in err


@real
@pytest.mark.parametrize("collection", ["trec_dl19_passage", "robust03", "cacm", "trec_eval_test"])
def test_lines_against_every_published_mean(collection: str) -> None:
    """expected.json: what trec_eval 9.0.4 printed for each run, plain, -c and -l2."""
    about = json.loads((DATA / "expected.json").read_text())["collections"][collection]
    asked = "all_trec,P.5,10,20,100,ndcg_cut.5,10,20,100,recall.100,1000,success.1,5,10"
    checked = 0
    for run in about["runs"].values():
        if not isinstance(run, dict) or not (DATA / collection / run.get("file", "none")).is_file():
            continue
        for said, options in (("-l1", []), ("-c -l1", ["-c"]), ("-l2", ["-l2"])):
            due = run.get(f"trec_eval 9.0.4 {said}")
            if not due:
                continue
            files = (DATA / collection / about["qrels"], DATA / collection / run["file"])
            code, out, err = score(*files, "--like", "trec_eval", "-m", asked, *options)
            assert code == 0, err
            got = {m.strip(): float(v) for m, _, v in (line.split("\t") for line in out.splitlines())}
            for measure, value in due.items():
                if measure != "gm_map":
                    assert got[measure] == pytest.approx(value, abs=1e-9), (run["file"], said, measure)
                    checked += 1
    assert checked >= 20


def test_measures_by_trec_eval_names(files: tuple[Path, Path]) -> None:
    code, out, _ = score(*files, "--like", "trec_eval", "-m", "P.2,1", "-m", "ndcg_cut_10", "-m", "nDCG@5,map")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        *["num_q", "num_ret", "num_rel", "num_rel_ret"],
        *["map", "P_1", "P_2", "ndcg_cut_5", "ndcg_cut_10"],
    ]
    code, _, err = score(*files, "--like", "trec_eval", "-m", "gm_map,RBP")
    assert code == 2 and "'gm_map'" in err and "'RBP'" in err


# numbers and forms


def test_means_over_all_and_over_queries_with_something_relevant(files: tuple[Path, Path]) -> None:
    code, out, err = score(*files, "--measures", "AP,P@1,Judged@10", "--format", "json")
    assert code == 0 and "queries without a result" in err
    document = json.loads(out)
    rows = {row["measure"]: row for row in document["means"]}
    assert rows["AP"]["all"] == pytest.approx((0.25 + 0.5 + 0) / 3, abs=1e-15) and rows["AP"]["queries"] == 3
    assert rows["AP"]["with_relevant"] == pytest.approx(0.375) and rows["AP"]["queries_with_relevant"] == 2
    assert rows["P@1"]["all"] == 0.0 and rows["Judged@10"]["all"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert document["gain"] == "exponential" and [n["code"] for n in document["notices"]] == [
        "queries_missing",
        "unjudged",
    ]


def test_gain_threshold_and_cut_are_used(files: tuple[Path, Path]) -> None:
    def one(*options: str) -> float:
        code, out, err = score(*files, "--format", "json", "-q", *options)
        assert code == 0, err
        return next(r["value"] for r in json.loads(out)["per_query"] if r["query_id"] == "q1")

    assert one("-m", "nDCG@10") == pytest.approx((3 / math.log2(3)) / (3 + 1 / math.log2(3)))
    assert one("-m", "nDCG@10", "--gain", "linear") == pytest.approx((2 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert one("-m", "AP", "--relevant-from", "2") == 0.5 and one("-m", "AP") == 0.25
    assert one("-m", "AP", "--depth", "1") == 0.0
    assert one("-m", "ERR", "--top-grade", "4") == pytest.approx(3 / 16 / 2)


def test_every_form_of_runs_and_judgments_gives_one_answer(tmp_path: Path, files: tuple[Path, Path]) -> None:
    rows = [line.split() for line in RUN.splitlines()]
    frame = pl.DataFrame({"query_id": [r[0] for r in rows], "chunk_id": [r[2] for r in rows]}).with_columns(
        rank=pl.Series([int(r[3]) for r in rows]), score=pl.Series([float(r[4]) for r in rows])
    )
    frame.write_parquet(tmp_path / "two.parquet")
    frame.write_csv(tmp_path / "three.csv")
    frame.write_ndjson(tmp_path / "four.jsonl")
    (tmp_path / "five.run.gz").write_bytes(gzip.compress(RUN.encode()))
    (tmp_path / "six.run.zst").write_bytes(zstandard.compress(RUN.encode()))
    (tmp_path / "seven.run").write_text(RUN.replace(" ", "  "))
    (tmp_path / "eight.run").write_text("".join(reversed(RUN.splitlines(keepends=True))))
    runs = [tmp_path / f for f in ("one.run", "two.parquet", "three.csv", "four.jsonl", "five.run.gz", "six.run.zst")]
    runs += [tmp_path / "seven.run", tmp_path / "eight.run"]
    pairs = [line.split() for line in QRELS.splitlines()]
    tsv = "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{c}\t{g}\n" for q, _, c, g in pairs)
    (tmp_path / "beir.tsv").write_text(tsv)
    lines = [
        {"query_id": q, "chunk_id": c, "grade": int(g)} for q, _, c, g in sorted(pairs, key=lambda r: (r[0], r[2]))
    ]
    (tmp_path / "key.jsonl").write_text("".join(json.dumps(x, separators=(",", ":")) + "\n" for x in lines))
    seen = set()
    for qrels in (files[0], tmp_path / "beir.tsv", tmp_path / "key.jsonl", tmp_path):
        code, out, err = score(qrels, *runs, "--format", "json", "-q", "-m", "nDCG@10,AP,bpref,Judged@10")
        assert code == 0, err
        arms: dict[str, list[object]] = {}
        for row in json.loads(out)["per_query"]:
            arms.setdefault(row.pop("arm"), []).append(row)
        assert sorted(arms) == ["eight", "five", "four", "one", "seven", "six", "three", "two"]
        seen |= {json.dumps(rows) for rows in arms.values()}
    assert len(seen) == 1


def test_csv_table_and_parquet_hold_the_same(tmp_path: Path, files: tuple[Path, Path]) -> None:
    code, out, _ = score(*files, "--format", "csv", "--out", tmp_path / "means.parquet")
    assert code == 0
    means = pl.read_parquet(tmp_path / "means.parquet")
    assert pl.read_csv(out.encode(), schema=means.schema).equals(means)
    code, out, _ = score(*files, "--per-query", "--out", tmp_path / "each.parquet")
    each = pl.read_parquet(tmp_path / "each.parquet")
    assert each.columns == ["arm", "query_id", "measure", "value", "judged", "retrieved"] and each.height == 21
    assert out.splitlines()[0].split()[:2] == ["arm", "query"] and len(out.splitlines()) == 22


def test_means_against_ir_measures(files: tuple[Path, Path]) -> None:
    names = ["AP", "P@5", "Rprec", "Success@1", "R@100"]
    theirs = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(n) for n in names],
        ir_measures.read_trec_qrels(str(files[0])),
        ir_measures.read_trec_run(str(files[1])),
    )
    _, out, _ = score(*files, "--format", "json", "-m", ",".join(names))
    mine = {row["measure"]: row["all"] for row in json.loads(out)["means"]}
    assert mine == pytest.approx({str(m): v for m, v in theirs.items()}, abs=1e-12)


# refusals


def test_p34_unfrozen_grades_are_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    grades = tmp_path / "grades.jsonl"
    grades.write_text('{"query_id":"q1","chunk_id":"a","grade":2,"reason":"says so","grader":"a"}\n')
    experiment = tmp_path / "experiment"
    experiment.mkdir()
    (experiment / "experiment.yaml").write_text("name: x\n")
    unsorted = tmp_path / "unsorted.jsonl"
    unsorted.write_text('{"query_id":"q2","chunk_id":"a","grade":1}\n{"query_id":"q1","chunk_id":"a","grade":2}\n')
    for judged in (grades, experiment, unsorted):
        code, out, err = score(judged, files[1])
        assert (code, out) == (2, "") and "Only a frozen key is scored (P34)" in err, judged


def test_a_key_that_was_altered_after_the_freeze_is_refused_and_a_void_one_says_so(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    import hashlib

    key = b'{"query_id":"q1","chunk_id":"a","grade":2}\n'
    (tmp_path / "key.jsonl").write_bytes(key)
    sums = {"files": {"key.jsonl": {"sha256": hashlib.sha256(key).hexdigest()}}}
    (tmp_path / "manifest.json").write_text(json.dumps(sums))
    (tmp_path / "status.json").write_text(json.dumps({"status": "void", "why": "a grade was changed"}))
    code, _, err = score(tmp_path, files[1])
    assert code == 0 and "the key is void: a grade was changed" in err
    (tmp_path / "key.jsonl").write_bytes(key.replace(b"2}", b"1}"))
    code, out, err = score(tmp_path, files[1])
    assert (code, out) == (2, "") and "was altered after the freeze" in err


@pytest.mark.parametrize(
    ("run", "options", "says"),
    [
        ("q1 Q0 a 1 2.0\n", [], "line 1: found 5 columns"),
        ("q1 Q0 a 1 2.0 t x\n", [], "found 7 columns"),
        ("q1 Q0 a 1 nan t\n", [], "line 1, column 5 (score): found 'nan'"),
        ("q1 Q0 a 1 2.0 t\nq1 Q0 a 2 1.0 t\nq2 Q0 b 1 3 t\n", [], "'a' again for query 'q1'"),
        ("q1 Q0 a 1 1.0 t\nq1 Q0 b 2 2.0 t\n", [], "scores that get worse the better the rank"),
        ("q1 Q0 a 1 1.0 t\nq2 Q0 b 1 1.0 t\n", [], "the same score, 1, on every line"),
        ("7 Q0 a 1 1.0 t\n7 Q0 b 2 0.0 t\n", [], "answers none of the set's 3 queries"),
        ("q1 Q0 a 1 1.0 t\nq1 Q0 b 2 0.0 t\n", [], "the arm one did not run"),
        ("", [], "0 bytes"),
        (RUN, ["-m", "map"], "The nearest is AP"),
        (RUN, ["-c"], "--like trec_eval"),
        (RUN, ["--grade=2=1"], "no mapping"),
        (RUN, ["--group", "b"], "no 'b'"),
    ],
)
def test_refused_with_exit_code_2_and_nothing_printed(
    files: tuple[Path, Path], run: str, options: list[str], says: str
) -> None:
    files[1].write_text(run)
    code, out, err = score(*files, *options)
    assert (code, out) == (2, "") and says in err and "Traceback" not in err, err


def test_missing_files_and_the_same_run_twice(tmp_path: Path, files: tuple[Path, Path]) -> None:
    for arguments in ((tmp_path / "none", files[1]), (files[0], tmp_path / "none.run")):
        code, out, err = score(*arguments)
        assert (code, out) == (2, "") and "is not there" in err
    code, _, err = score(files[0], files[1], files[1])
    assert code == 2 and "given again" in err


def test_judges_are_kept_apart_and_negatives_are_mapped(tmp_path: Path, files: tuple[Path, Path]) -> None:
    two = tmp_path / "two.qrels"
    two.write_text("q1 ann a 2\nq1 bob a 0\nq2 ann a 1\nq2 bob b -2\n")
    code, _, err = score(two, files[1], "--grade=-2=-1")
    assert code == 2 and "several judges graded (column 2: ann, bob)" in err
    code, out, err = score(two, files[1], "--grade=-2=-1", "--group", "ann", "--format", "json", "-m", "RR")
    assert code == 0 and json.loads(out)["means"][0]["all"] == 0.5, err


def test_what_was_judged_is_told_of_the_queries_that_a_run_answers(files: tuple[Path, Path]) -> None:
    """A run that answers little is no better judged for it: q1's two of two, q2's one of two, nothing of q3."""
    table = json.loads(score(*files, "-m", "AP,P@1", "--format", "json", "--partial")[1])
    assert {row["judged"] for row in table["means"]} == {(1 + 0.5) / 2, (1 + 0) / 2}
    files[1].write_text("q2 Q0 z 1 1.5 t\nq2 Q0 a 2 1.0 t\n")
    table = json.loads(score(*files, "-m", "AP,P@1", "--format", "json", "--partial")[1])
    assert {row["measure"]: row["judged"] for row in table["means"]} == {"AP": 0.5, "P@1": 0.0}


@pytest.mark.parametrize("form", ["", "again"])
def test_a_run_none_of_whose_chunks_is_judged_says_so(files: tuple[Path, Path], form: str) -> None:
    """By the fast reader, and by the other: here of two blanks in a row."""
    files[1].write_text(RUN.upper().replace("Q1", "q1").replace("Q2", "q2").replace(" C ", "  C " if form else " C "))
    code, _, err = score(*files, "-m", "AP", "--partial")
    assert code == 0 and "none of its 4 results stands in the judgments" in err and "'a', 'b', 'c'" in err
    files[1].write_text(RUN)
    assert "stands in the judgments" not in score(*files, "-m", "AP", "--partial")[2]


def test_judgments_as_parquet_are_refused_with_the_file_to_give(tmp_path: Path, files: tuple[Path, Path]) -> None:
    pl.DataFrame({"query_id": ["q1"], "chunk_id": ["a"], "grade": [1]}).write_parquet(tmp_path / "key.parquet")
    code, _, err = score(tmp_path / "key.parquet", files[1])
    assert code == 2 and "found Parquet; expected TREC qrels" in err and "give key.jsonl" in err
    (tmp_path / "key.jsonl").write_text("")
    assert "key.jsonl beside it has the same rows" in score(tmp_path / "key.parquet", files[1])[2]


def test_partial_runs_are_taken_when_declared(files: tuple[Path, Path]) -> None:
    files[1].write_text("q1 Q0 a 1 1.0 t\nq1 Q0 b 2 0.0 t\n")
    code, _, err = score(*files, "--partial")
    assert code == 0 and "queries without a result, which score 0: 'q2', 'q3'" in err


# start-up


def test_plain_words_are_read_as_the_library_reads_them() -> None:
    from typer.main import get_group

    from relgrade_assets.cli import score as module
    from relgrade_assets.cli import score_command  # noqa: F401 - declares it
    from relgrade_assets.cli.app import app
    from relgrade_assets.cli.plain_call import plain_arguments

    lines = [
        "q r",
        "q r s -m AP,P@5 -m nDCG@10 --per-query",
        "q -q -c --like trec_eval -l2 -M 100 r --gain=linear --grade=-2=-1 --out x.parquet --format json --partial",
        "q r --relevant-from 3 --top-grade 4 --group 0 --depth 7 --complete",
    ]
    seen: list[dict[str, object]] = []
    (command,) = [c for c in app.registered_commands if c.callback is module.score]
    kept, command.callback = command.callback, None
    try:

        @functools.wraps(module.score)
        def catch(**given: object) -> None:
            seen.append(given)

        command.callback = catch
        for line in lines:
            found = get_group(app).commands["score"]
            found.main(line.split(), standalone_mode=False)
    finally:
        command.callback = kept
    defaults = {n: p.default for n, p in inspect.signature(module.score).parameters.items()}
    for line, library in zip(lines, seen, strict=True):
        plain = plain_arguments(module.score, line.split())
        assert plain is not None and {**defaults, **plain} == {k: v or defaults.get(k) for k, v in library.items()}, (
            line
        )
    for line in ("q", "q r --help", "q r --no-such", "q r -l 0", "q r --gain log", "q r -m", "q r -l x", "q r -qc"):
        assert plain_arguments(module.score, line.split()) is None, line


def test_starts_without_the_heavy_packages(files: tuple[Path, Path]) -> None:
    code = (
        "import sys\nfrom relgrade_assets.cli.main import main\n"
        f"sys.argv = ['relgrade', 'score', {str(files[0])!r}, {str(files[1])!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('dagster', 'pandera', 'pydantic', 'sqlalchemy', 'relgrade_assets.schemas', 'scipy', 'typer')\n"
        "print([m for m in (*heavy, 'numpy.ma') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and ran.stdout.splitlines()[-1] == "[]", ran.stdout + ran.stderr
