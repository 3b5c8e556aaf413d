"""Broken experiments (P1, P2, formats.md): each is refused in words that name the file, the place, what was expected
and the mend, with nothing changed on disk and no traceback; missing files are waited for. Here the design, the log, the
corpus and the intents, and what every file can suffer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
from broken import (
    FILES,
    Broken,
    both,
    by_type,
    design,
    file,
    line,
    refused_in_words,
    score,
    write,
)
from command_line import at, nothing_changes, relgrade

from relgrade_assets.io.study import open_study

DESIGNS = [
    Broken(
        "unknown key", design("depth: 5", "depht: 5"), ("experiment.yaml, line 18, key depht", "Did you mean 'depth'?")
    ),
    Broken(
        "key twice", design("depth: 5", "depth: 5\ndepth: 6"), ("line 19, key depth", "it once (line 18)", "Remove one")
    ),
    Broken("wrong type", design("depth: 5", 'depth: "5"'), ("line 18, key depth", "found '5'", "a whole number")),
    Broken(
        "wrong types, each told",
        both(design("depth: 5", 'depth: "5"'), design("scale: 0-2", "scale: 0-9"), design('seed: "7"', "seed: [7]")),
        ("3 faults", "key depth", "key scale", "key seed", "no scale is called '0-9'"),
    ),
    Broken(
        "shares don't sum to 1",
        both(
            design("target: 4, tiers: [head]", "target: 4, share: 0.5, tiers: [head]"),
            design("target: 4, tiers: [torso]", "target: 4, share: 0.3, tiers: [torso]"),
            design("target: 4, tiers: [tail]", "target: 4, share: 0.1, tiers: [tail]"),
        ),
        ("experiment.yaml, line 10, key strata.parts", "the shares sum to 0.9; they must sum to 1"),
    ),
    Broken(
        "target without a share",
        design("target: 4, tiers: [head]", "target: 4, share: 0.5, tiers: [head]"),
        ("key strata.parts.1.share", "has a target and no share", "declare all or none"),
    ),
    Broken(
        "a tier in no stratum",
        design("    - {name: tail, target: 4, tiers: [tail]}\n", ""),
        ("key strata.parts", "no stratum holds the tier 'tail'"),
    ),
    Broken(
        "unknown format of an arm",
        design("run: runs/old.trec}", "run: runs/old.trec, format: csvv}"),
        ("line 16, key arms.0.format", "'csvv'", "'trec', 'jsonl', 'csv' or 'parquet'"),
    ),
    Broken(
        "undeclared deviations",
        both(
            design("family: people-b", "family: dense"),
            design(
                "deviations:\n  - {code: shallow_depth, reason: small enough to know by heart}\n",
                "audit: {share: 0.05}\ndeviations:\n",
            ),
        ),
        ("3 faults", "declare 'shared_families'", "declare 'shallow_depth'", "declare 'small_audit'", "with a reason"),
    ),
    Broken("unknown deviation", design("code: shallow_depth", "code: shallow"), ("key deviations.0.code", "'shallow'")),
    Broken("gate below the floor", design("depth: 5", "depth: 5\ngates: {binary_kappa: 0.5}"), ("0.5 is below 0.6",)),
    Broken(
        "gate out of range", design("depth: 5", "depth: 5\ngates: {two_step: 2}"), ("key gates.two_step", "1 or less")
    ),
    Broken("path traversal", design("runs/old.trec", "../../../../etc/passwd"), ("key arms.0.run", "leads out of")),
    Broken("absolute path", design("corpus.jsonl", "/etc/passwd"), ("key corpus.path", "give one inside it")),
    Broken("no YAML", design("depth: 5", "depth: [5"), ("experiment.yaml, line", "expected YAML")),
    Broken("tab in YAML", design("  by: tier", "\tby: tier"), ("line 8", "a tab", "indented with spaces only")),
    Broken("alias", design("depth: 5", "depth: &d 5\ngates: *d"), ("an alias (*)", "plain YAML")),
    Broken("0 bytes of design", write("experiment.yaml", ""), ("experiment.yaml", "no text", "`relgrade init NAME`")),
    Broken("latin-1 design", write("experiment.yaml", b"# caf\xe9\n"), ("line 1", "the byte 0xe9", "UTF-8 text")),
    Broken("binary design", write("experiment.yaml", b"\x00\x01\x02"), ("experiment.yaml, line 1", "U+0000")),
    Broken("a list for a design", write("experiment.yaml", "- a\n"), ("a list at the top", "keys and values")),
    Broken("name of another folder", design("name: tiny", "name: tidy"), ("'tidy'", "folder's name 'tiny'", "Rename")),
    Broken(
        "design and files at once",
        both(
            design("depth: 5", "depht: 5"),
            design("run: runs/new.trec}", "run: [1]}"),
            line("runs/old.trec", 3, score("NaN")),
            line("corpus.jsonl", 2, lambda t: t.replace("c02", "c01")),
            line("log.csv", 4, lambda t: t.replace(",40", ",many")),
            line("intents.csv", 2, lambda t: t.replace(",where,", ",whence,")),
            write("rubric.md", ""),
        ),
        (
            "key depht",
            "key arms.1.run",
            "runs/old.trec, line 3",
            "corpus.jsonl, line 2",
            "log.csv, line 4",
            "intents.csv, line 2",
            "rubric.md",
        ),
    ),
    Broken(
        "a type in no stratum",
        by_type(
            "how why which", "    - {name: a, target: 2, types: [how]}\n    - {name: b, target: 2, types: [why]}\n"
        ),
        ("strata.parts", "4 queries that are 'which'", "a stratum that holds them"),
    ),
    Broken(
        "a stratum without a query",
        by_type(
            "how why", "    - {name: a, target: 2, types: [how, why]}\n    - {name: b, target: 2, types: [usage]}\n"
        ),
        ("strata.parts", "stratum 'b' without a query", "Take it out or widen it."),
    ),
]

LOGS = [
    Broken(
        "log without its column",
        write("log.csv", "quary,count\na,1\n"),
        ("line 1", "'quary'", "a column 'query'", "Nearest: 'quary'"),
    ),
    Broken(
        "counts that are none",
        write("log.csv", "query,count\na,0\nb,x\nc,-2\n"),
        ("3 faults", "line 2", "line 3", "line 4", "a whole number"),
    ),
    Broken(
        "empty query",
        write("log.csv", "query,count\n ,2\nb,3\n"),
        ("log.csv, line 2, query", "an empty query", "what was typed"),
    ),
    Broken("log of a header", write("log.csv", "query,count\n"), ("log.csv", "no row", "at least one")),
    Broken("half a row of the log", write("log.csv", "query,count\na,1\nb\n"), ("log.csv, line 3", "2")),
    Broken(
        "unknown type in the spot-check",
        both(
            by_type("how why", "    - {name: a, target: 2, types: [how]}\n    - {name: b, target: 2, types: [why]}\n"),
            write("spot-check.csv", "query_id,query,type,type_by_person\nq1,a,how,wherefore\n"),
        ),
        ("spot check, query 'q1'", "'wherefore'", "one of how, why"),
    ),
]

CORPORA = [
    Broken(
        "chunk ids twice",
        both(
            line("corpus.jsonl", 2, lambda t: t.replace("c02", "c01")),
            line("corpus.jsonl", 5, lambda t: t.replace("c05", "c04")),
        ),
        (
            "2 faults",
            "corpus.jsonl, line 2",
            "'c01' again (first at corpus.jsonl, line 1)",
            "line 5",
            "each chunk id once",
        ),
    ),
    Broken(
        "no text in a chunk",
        line("corpus.jsonl", 3, lambda t: t.replace('"text"', '"body"')),
        ("corpus.jsonl, line 3", "text"),
    ),
    Broken("a chunk of prose", line("corpus.jsonl", 3, lambda t: "This is thing 3."), ("corpus.jsonl, line 3", "JSON")),
    Broken(
        "NaN as a chunk id", line("corpus.jsonl", 3, lambda t: t.replace('"c03"', "NaN")), ("corpus.jsonl, line 3",)
    ),
]

INTENTS = [
    Broken(
        "query twice",
        line("intents.csv", 3, lambda t: f"{t}\n{t}"),
        ("intents.csv, line 4, query_id", "first on line 3", "each query once"),
    ),
    Broken(
        "unknown form",
        line("intents.csv", 2, lambda t: t.replace(",where,", ",whence,")),
        ("line 2, form", "'whence'", "one of where, how"),
    ),
    Broken(
        "alternatives",
        both(
            line("intents.csv", 2, lambda t: t.replace("written?", "written or read?")),
            line("intents.csv", 3, lambda t: t.replace("written?", "written/read?")),
        ),
        (
            "2 faults",
            "the word 'or' offers an alternative",
            "a slash between words offers an alternative",
            "lint_override",
        ),
    ),
    Broken(
        "changed query text",
        line("intents.csv", 2, lambda t: t.replace("where is", "where was")),
        ("query: found another text; expected the sampled query's", "Leave the query's text as sampled"),
    ),
    Broken(
        "nobody wrote it",
        line("intents.csv", 2, lambda t: t.replace(",cleo", ",")),
        ("intents.csv, line 2, author", "who wrote it"),
    ),
    Broken(
        "intents without a column",
        write("intents.csv", "query_id,intent\nq1,What?\n"),
        ("columns 'query_id', 'intent'", "a column 'form'", "a column 'author'"),
    ),
]

EACH_FILE = [
    broken
    for name, kind in FILES.items()
    for broken in (
        Broken(f"0 bytes of {kind}", write(name, b""), (name, "0 bytes", "content", "cut off")),
        Broken(
            f"binary {kind}",
            write(name, bytes(range(256))),
            (f"{name}, line 1, byte 1", "a NUL byte", "It is a binary file"),
        ),
        Broken(
            f"latin-1 {kind}",
            write(name, b"caf\xe9,1\n"),
            (f"{name}, line 1, byte 4", "0xE9, which is not UTF-8", "Save the file as UTF-8"),
        ),
        Broken(f"spreadsheet for a {kind}", write(name, b"PK\x03\x04\x00\x00"), (name, "a spreadsheet: export CSV")),
    )
]


ALL = [*DESIGNS, *LOGS, *CORPORA, *INTENTS, *EACH_FILE]


@pytest.mark.parametrize("broken", ALL, ids=repr)
def test_a_broken_experiment_is_refused_in_words(broken: Broken, tmp_path: Path) -> None:
    refused_in_words(broken, tmp_path / "top")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["check", "status"])
def test_p2_a_missing_file_is_waited_for(name: str, command: str, tmp_path: Path) -> None:
    top = at("fresh", tmp_path / "top")
    file(top, name).unlink()
    with nothing_changes(top):
        ran = relgrade(top, command, "tiny")
    assert ran.code == 3 and ran.err == "", ran.said
    assert f"the file {name} is not there yet" in ran.out


@pytest.mark.parametrize("name", ["rubric.md", "runs/old.trec"])
def test_p2_a_run_waits_for_a_missing_file(name: str, tmp_path: Path) -> None:
    top = at("fresh", tmp_path / "top")
    file(top, name).unlink()
    ran = relgrade(top, "run", "tiny")
    assert ran.code == 3 and ran.err == "", ran.said
    assert f"waits: the file {name} is not there yet" in ran.out
    made = {p.stem for p in (top / ".relgrade" / "tables" / "tiny").rglob("*.parquet")}
    assert ("queries" in made) == (name != "rubric.md") and "runs" not in made


def test_p2_every_missing_file_is_waited_for_at_once(tmp_path: Path) -> None:
    top = at("fresh", tmp_path / "top")
    for name in FILES:
        file(top, name).unlink()
    with nothing_changes(top):
        ran = relgrade(top, "check", "tiny")
    assert ran.code == 3 and ran.err == ""
    assert [line for line in ran.out.splitlines() if line.startswith("waiting: ")] == [
        f"waiting: the file {name} is not there yet" for name in FILES
    ]


def test_intents_that_are_missing_or_unreviewed_are_waited_for(tmp_path: Path) -> None:
    top = at("fresh", tmp_path / "top")
    rows = file(top, "intents.csv").read_text("utf-8").splitlines(keepends=True)
    gone = rows[3].split(",")[0]
    file(top, "intents.csv").write_text("".join(rows[:3] + rows[4:]), encoding="utf-8")
    ran = relgrade(top, "check", "tiny")
    assert ran.code == 3
    assert f"0 of 12 intents ready to lock: 1 missing, 11 unreviewed ({gone} missing, " in ran.out


@pytest.mark.parametrize("name", FILES)
def test_a_byte_order_mark_and_crlf_are_taken_off_and_said(name: str, tmp_path: Path) -> None:
    top = at("fresh", tmp_path / "top")
    plain = file(top, name).read_bytes()
    file(top, name).write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"))
    with nothing_changes(top):
        ran = relgrade(top, "check", "tiny")
    assert ran.code == 3 and ran.err == ""
    assert f"note: {name}: a byte-order mark was taken off (1)" in ran.out
    lines = plain.count(b"\n")
    assert f"note: {name}: lines ended in CR LF ({lines})" in ran.out


def test_p2_line_ends_of_the_rubric_are_not_the_protocol(tmp_path: Path) -> None:
    top = at("graded", tmp_path / "top")
    text = file(top, "rubric.md").read_bytes()
    file(top, "rubric.md").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
    assert relgrade(top, "check", "tiny").code == 0
    file(top, "rubric.md").write_bytes(text + b"1 more.\n")
    assert relgrade(top, "check", "tiny").code == 2


def test_a_design_changed_while_nothing_is_graded_is_fine(tmp_path: Path) -> None:
    top = at("sampled", tmp_path / "top")
    design("depth: 5", "depth: 4")(top)
    assert relgrade(top, "check", "tiny").code == 3
    assert open_study(tiny.home_of(top), tiny.NAME).design.depth == 4
