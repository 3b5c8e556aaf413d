"""Broken experiment.yaml files: refused with line, key and words, all faults at once, never a traceback (P1)."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io.experiment_file import read_design
from relgrade_assets.protocol.design import Design

SOUND = """\
relgrade: 1
name: study
title: A study
seed: s1
scale: 0-2
query_log: {file: log.csv}
strata:
  parts:
    - {name: head, target: 50, tiers: [head]}
    - {name: rest, target: 50, tiers: [torso, tail]}
corpus: {path: corpus.jsonl}
arms:
  - {name: a, family: fa, run: a.trec}
  - {name: b, family: fb, run: b.trec}
intents: {file: intents.csv}
graders:
  - {name: g, family: fg}
auditor: {name: h, family: fh}
"""


def read(folder: Path, data: str | bytes, folder_name: str = "study") -> Design:
    file = folder / "experiment.yaml"
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_design(file, name="experiment.yaml", folder_name=folder_name)


def refused(folder: Path, data: str | bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        read(folder, data)
    assert "Traceback" not in caught.value.message()
    assert str(folder) not in caught.value.message()
    return caught.value


def changed(old: str, new: str) -> str:
    assert SOUND.count(old) == 1, old
    return SOUND.replace(old, new)


FIRST, SECOND = "{name: head, target: 50, tiers: [head]}", "{name: rest, target: 50, tiers: [torso, tail]}"
GRADER = "  - {name: g, family: fg}\n"

BROKEN: list[tuple[str, str | bytes, list[str]]] = [
    (
        "unknown key",
        SOUND + "dept: 20\n",
        ["line 19, key dept: found a key that relgrade does not know", "Did you mean 'depth'?"],
    ),
    (
        "unknown key, nothing near",
        SOUND + "zzz: 20\n",
        ["line 19, key zzz: found a key that relgrade does not know; expected only known keys."],
    ),
    (
        "unknown inner key",
        changed("{name: rest, target: 50,", "{name: rest, tarjet: 50,"),
        ["line 10, key strata.parts.1.tarjet", "Did you mean 'target'?"],
    ),
    (
        "unknown key of a grader",
        changed(GRADER, "  - name: g\n    family: fg\n    take: all\n"),
        ["line 19, key graders.0.take", "Did you mean 'takes'?"],
    ),
    (
        "repeated key",
        SOUND + "depth: 20\ndepth: 30\n",
        ["line 20, key depth: found a key that already stands; expected it once (line 19)"],
    ),
    (
        "repeated inner key",
        changed("{name: g, family: fg}", "{name: g, family: fg, name: k}"),
        ["line 17, key graders.0.name: found a key that already stands"],
    ),
    ("missing key", changed("seed: s1\n", ""), ["line 1, key seed: found no such key", "Add 'seed'."]),
    (
        "missing inner key",
        changed("{path: corpus.jsonl}", "{format: csv}"),
        ["line 11, key corpus.path: found no such key"],
    ),
    ("text for a number", SOUND + "depth: deep\n", ["line 19, key depth: found 'deep'; expected a whole number"]),
    ("a number in quotes", SOUND + "depth: '20'\n", ["line 19, key depth: found '20'; expected a whole number"]),
    ("true for a number", SOUND + "depth: true\n", ["line 19, key depth: found true; expected a whole number"]),
    (
        "a fraction for a whole number",
        SOUND + "depth: 20.5\n",
        ["line 19, key depth: found 20.5; expected a whole number"],
    ),
    ("yes for true", SOUND + "private: yes\n", ["line 19, key private: found 'yes'; expected true or false"]),
    (
        "a number for text",
        changed("title: A study", "title: 2026"),
        ["line 3, key title: found 2026; expected text. Put it in quotes."],
    ),
    (
        "a bare false for a name",
        changed("name: head", "name: false"),
        ["line 9, key strata.parts.0.name: found false; expected text. Put it in quotes."],
    ),
    ("nothing for text", changed("title: A study", "title:"), ["line 3, key title: found nothing; expected text."]),
    ("text for a list", SOUND + "measures: nDCG@10\n", ["line 19, key measures: found 'nDCG@10'; expected a list"]),
    (
        "a list for keys",
        changed("{path: corpus.jsonl}", "[corpus.jsonl]"),
        ["line 11, key corpus: found a list; expected keys and values"],
    ),
    ("an octal-looking number", SOUND + "depth: 010\n", ["line 19, key depth: found '010'; expected a whole number"]),
    (
        "a sexagesimal-looking number",
        SOUND + "depth: 1:30\n",
        ["line 19, key depth: found '1:30'; expected a whole number"],
    ),
    ("another form of the file", changed("relgrade: 1", "relgrade: 2"), ["line 1, key relgrade: found 2; expected 1"]),
    (
        "true for the form",
        changed("relgrade: 1", "relgrade: true"),
        ["line 1, key relgrade: found true; expected a whole number"],
    ),
    (
        "a name with capitals",
        changed("name: g,", "name: Grader,"),
        ["line 17, key graders.0.name: found 'Grader'; expected small letters, digits"],
    ),
    (
        "name is not the folder's",
        changed("name: study", "name: other"),
        ["line 2, key name: found 'other'; expected the folder's name 'study'. Rename one of the two."],
    ),
    (
        "no such choice",
        changed("strata:\n", "strata:\n  by: tiers\n"),
        ["line 8, key strata.by: found 'tiers'; expected 'tier', 'type' or 'both'"],
    ),
    (
        "no such scale",
        changed("scale: 0-2", "scale: 0-5"),
        ["line 5, key scale: no scale is called '0-5'; there are 0-2, 0-3, binary"],
    ),
    (
        "a scale with a gap",
        changed("scale: 0-2", "scale: {grades: [{grade: 0, label: a, cue: a}, {grade: 2, label: b, cue: b}]}"),
        ["line 5, key scale: grades must run 0, 1, 2 ... without a gap or repeat, not [0, 2]"],
    ),
    (
        "a target of nothing",
        changed("{name: head, target: 50,", "{name: head, target: 0,"),
        ["line 9, key strata.parts.0.target: found 0; expected 1 or more"],
    ),
    (
        "a target past all tables",
        changed("{name: head, target: 50,", "{name: head, target: 99999999999999999999,"),
        ["line 9, key strata.parts.0.target", "expected 1000000000 or less"],
    ),
    (
        "shares that don't sum to 1",
        changed(FIRST, FIRST[:-1] + ", share: 0.5}").replace(SECOND, SECOND[:-1] + ", share: 0.4}"),
        ["line 8, key strata.parts: the shares sum to 0.9; they must sum to 1 within 1e-9"],
    ),
    (
        "shares of graders that leave queries to nobody",
        changed(GRADER, GRADER.replace("fg}", "fg, takes: 0.3}")),
        ["line 16, key graders: what graders take sums to 0.3 (g 0.3); it must sum to 1 or more, or one takes all"],
    ),
    (
        "a target without a share",
        changed(FIRST, FIRST[:-1] + ", share: 0.5}"),
        ["line 10, key strata.parts.1.share: stratum 'rest' has a target and no share"],
    ),
    (
        "a share above 1",
        changed(FIRST, FIRST[:-1] + ", share: 1.5}"),
        ["line 9, key strata.parts.0.share: found 1.5; expected 1 or less"],
    ),
    (
        "a share that is no number",
        changed(FIRST, FIRST[:-1] + ", share: .nan}"),
        ["line 9, key strata.parts.0.share: found nan; expected"],
    ),
    (
        "a tier in no stratum",
        changed("[torso, tail]", "[torso]"),
        ["line 8, key strata.parts: no stratum holds the tier 'tail'; strata are a partition"],
    ),
    (
        "a tier in two strata",
        changed("[torso, tail]", "[torso, tail, head]"),
        ["line 8, key strata.parts: 'head' falls into 2 strata"],
    ),
    (
        "a gate out of range",
        SOUND + "gates: {binary_kappa: 1.2}\n",
        ["line 19, key gates.binary_kappa: found 1.2; expected 1 or less"],
    ),
    (
        "a gate under the floor",
        SOUND + "gates: {binary_kappa: 0.5}\ndeviations: [{code: gate_lowered, reason: a hard task}]\n",
        ["line 19, key gates.binary_kappa: 0.5 is below 0.6, under which no key is made"],
    ),
    (
        "a share of queries that is none",
        changed(GRADER, "  - {name: g, family: fg, takes: some}\n"),
        ["line 17, key graders.0.takes: found 'some'; expected 'all' or a number"],
    ),
    (
        "a path upwards",
        changed("a.trec", "../a.trec"),
        ["line 13, key arms.0.run: the path '../a.trec' leads out of the experiment's folder"],
    ),
    (
        "a path from the root",
        changed("log.csv", "/etc/passwd"),
        ["line 6, key query_log.file: the path '/etc/passwd' leads out"],
    ),
    (
        "an address",
        changed("corpus.jsonl", "'https://example.org/c.jsonl'"),
        ["line 11, key corpus.path", "leads out of the experiment's folder"],
    ),
    (
        "an undeclared deviation",
        SOUND + "depth: 5\n",
        ["line 19, key depth: depth 5 with 2 arms", "declare 'shallow_depth' under deviations"],
    ),
    (
        "a code that is none",
        SOUND + "deviations: [{code: no_audit, reason: it costs too much}]\n",
        ["line 19, key deviations.0.code: found 'no_audit'; expected 'shared_families'"],
    ),
    (
        "a deviation without a reason",
        SOUND + "deviations: [{code: one_arm}]\n",
        ["line 19, key deviations.0.reason: found no such key"],
    ),
    (
        "a measure that is none",
        SOUND + "measures: [nDCG@10, nDCGG@10]\n",
        ["line 19, key measures.1: found no such measure: 'nDCGG@10'", "nearest is nDCG@10"],
    ),
    (
        "a headline that is no measure",
        SOUND + "headline: AP@5\n",
        ["line 19, key headline: 'AP@5' is not among measures"],
    ),
    ("a name twice", changed("name: h,", "name: g,"), ["line 16, key graders: the name 'g' stands 2 times"]),
    (
        "no arm",
        changed(
            "arms:\n  - {name: a, family: fa, run: a.trec}\n  - {name: b, family: fb, run: b.trec}\n", "arms: []\n"
        ),
        ["line 12, key arms: found a list; expected at least 1 in the list"],
    ),
    ("a number as key", SOUND + "7: x\n", ["line 19, key 7: found 7; expected text as a key"]),
    ("nothing as key", SOUND + "null: x\n", ["key None", "expected text as a key"]),
    ("a merge key", SOUND + "<<: {depth: 5}\n", ["line 19, key <<: found a key that relgrade does not know"]),
    ("a control character in a key", SOUND + '"\\e[31m": 1\n', ["line 19, key \\x1b[31m: found a key"]),
    ("a tab", changed("  parts:\n", "\tparts:\n"), ["line 8, column 1: found a tab; expected spaces"]),
    ("not YAML", changed("name: study", "name: [study"), ["is not YAML", "line 3"]),
    ("not YAML, unclosed quote", changed("title: A study", "title: 'A study"), ["is not YAML", "line"]),
    ("two documents", SOUND + "---\n" + SOUND, ["line 19", "a second document (---)"]),
    ("empty", "", ["is empty", "relgrade init"]),
    ("blank", " \n\n", ["is empty"]),
    ("comments only", "# nothing\n", ["found nothing but comments at the top; expected keys and values"]),
    ("a list at the top", "\n- a\n- b\n", ["line 2: found a list at the top; expected keys and values"]),
    ("a text at the top", "hello\n", ["line 1: found a single value at the top"]),
    ("binary", b"relgrade: 1\nname: \xff\xfe\n", ["line 2: found the byte 0xff; expected UTF-8 text"]),
    ("UTF-16", SOUND.encode("utf-16"), ["line 1: found the byte 0xff; expected UTF-8 text"]),
    ("a zero byte", changed("A study", "A\0study"), ["line 3: found the character U+0000"]),
    (
        "an alias",
        changed("family: fa", "family: &f fa").replace("family: fb", "family: *f"),
        ["line 14, column", "found an alias (*)"],
    ),
    ("an alias of itself", "a: &a [*a]\n", ["line 1, column 8: found an alias (*)"]),
    (
        "a Python object",
        changed("title: A study", "title: !!python/object/apply:os.system [ls]"),
        ["line 3, column 8: found the tag 'tag:yaml.org,2002:python/object/apply:os.system'", "Remove the tag."],
    ),
    (
        "a tag over text that it can't hold",
        SOUND + "depth: !!int x\n",
        ["line 19, column 8: found a value that can't be what its tag or form says"],
    ),
    (
        "a date that is none",
        SOUND + "depth: !!timestamp x\n",
        ["line 19, column 8: found the tag 'tag:yaml.org,2002:timestamp'"],
    ),
    (
        "bytes",
        changed("title: A study", "title: !!binary aGVsbG8="),
        ["line 3, column 8: found the tag 'tag:yaml.org,2002:binary'; expected plain values"],
    ),
    ("an unhashable key", SOUND + "? [a, b]\n: x\n", ["line 19, column 3: found unhashable key"]),
    ("a number of 5,000 digits", SOUND + f"depth: {'9' * 5000}\n", ["line 19, column 8: found a value that can't be"]),
    (
        "a number of 400 digits",
        SOUND + f"depth: {'9' * 400}\n",
        ["line 19, key depth: found 9999", "...; expected 1000 or less"],
    ),
    (
        "a window of 400 digits",
        changed("{file: log.csv}", f"{{file: log.csv, window_days: {'9' * 400}}}"),
        ["line 6, key query_log.window_days", "expected 36500 or less"],
    ),
    (
        "deep lists",
        SOUND + f"depth: {'[' * 5000}{']' * 5000}\n",
        ["line 19, column", "found values nested more than 32 deep"],
    ),
    ("deep keys", "".join(f"{' ' * i}a:\n" for i in range(200)), ["line 32", "found values nested more than 32 deep"]),
    ("too large", SOUND + "# " + "x" * 300_000, ["expected at most 200,000 bytes"]),
]


@pytest.mark.parametrize(("data", "words"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_file_is_refused_with_line_and_key(tmp_path: Path, data: str | bytes, words: list[str]) -> None:
    message = refused(tmp_path, data).message()
    for part in words:
        assert part in message, message


@pytest.mark.parametrize(
    "case",
    [
        "unknown inner key",
        "a target of nothing",
        "name is not the folder's",
        "a path upwards",
        "an undeclared deviation",
        "a name with capitals",
    ],
)
def test_one_mistake_is_one_fault(tmp_path: Path, case: str) -> None:
    """No echoes: what follows from a mistake is not told as another."""
    data = next(b[1] for b in BROKEN if b[0] == case)
    assert len(refused(tmp_path, data).faults) == 1


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """P1: a typo, a wrong type, a path, shares, a repeated key, deviations, a measure and the name, in one refusal."""
    data = (
        changed("name: study", "name: other")
        .replace(FIRST, "{name: head, tarjet: 50, tiers: [head], share: 0.5}")
        .replace(SECOND, "{name: rest, target: 50, tiers: [torso, tail], share: 0.4}")
        .replace("log.csv", "../log.csv")
        .replace("family: fh", "family: fa")
        + "depth: deep\ndepht: 3\nprivate: false\nprivate: true\naudit: {share: 0.05}\nmeasures: [nDCGG@10, nDCG@10]\n"
    )
    found = refused(tmp_path, data)
    keys = {f.where.rpartition("key ")[2] for f in found.faults}
    assert keys == {
        "name",
        "strata.parts.0.tarjet",
        "strata.parts",
        "query_log.file",
        "arms.0.family",
        "depth",
        "depht",
        "private",
        "audit",
        "measures.0",
    }, found.message()
    assert found.total == len(found.faults) == 10


def test_faults_beyond_twenty_are_counted(tmp_path: Path) -> None:
    found = refused(tmp_path, SOUND + "".join(f"zz{i}: 1\n" for i in range(3000)))
    assert "3000 faults" in found.message()
    assert "... and 2980 more." in found.message()
    assert len(found.message().splitlines()) == 23


def test_billion_laughs_is_refused_quickly(tmp_path: Path) -> None:
    """Nine levels of nine aliases would be 387 million values."""
    rows = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    start = time.perf_counter()
    found = refused(tmp_path, SOUND + "\n".join(rows) + "\n")
    assert "line 20, column" in found.message()
    assert time.perf_counter() - start < 5


def test_largest_file_is_refused_in_bounded_time(tmp_path: Path) -> None:
    start = time.perf_counter()
    refused(tmp_path, "".join(f"{i:x}x: {{a: b}}\n" for i in range(14_000))[:199_000])
    assert time.perf_counter() - start < 30


def test_missing_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "directory")):
        with pytest.raises(Refused, match=words):
            read_design(path, name="experiment.yaml", folder_name="study")


def test_byte_order_mark_line_ends_and_quotes_change_nothing(tmp_path: Path) -> None:
    """P2: the canonical form is of values, not of bytes."""
    plain = read(tmp_path, SOUND).canonical()
    assert read(tmp_path, b"\xef\xbb\xbf" + SOUND.encode()).canonical() == plain
    assert read(tmp_path, SOUND.replace("\n", "\r\n")).canonical() == plain
    assert read(tmp_path, changed("A study", '"A study"')).canonical() == plain


@pytest.mark.parametrize("seed", ["2026-11-01", "no", "1:30", "007", "1_000", "0x10", "=", "<<"])
def test_words_that_yaml_1_1_would_guess_at_stay_text(tmp_path: Path, seed: str) -> None:
    assert read(tmp_path, changed("seed: s1", f"seed: {seed}")).seed == seed


@pytest.mark.parametrize(
    ("written", "value"), [("1", 1.0), ("1.0", 1.0), ("1e0", 1.0), ("1.0e+0", 1.0), (".95", 0.95), ("95e-2", 0.95)]
)
def test_numbers_as_json_and_yaml_1_2_write_them(tmp_path: Path, written: str, value: float) -> None:
    assert read(tmp_path, SOUND + f"gates: {{binary_kappa: {written}}}\n").gates.binary_kappa == value


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    at=st.integers(0, len(SOUND)), cut=st.integers(0, 12), put=st.text("ab:-[]{}#&*!|>'\"%@`,?\t\n \\\0é0.", max_size=6)
)
def test_any_small_damage_gives_a_design_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, at: int, cut: int, put: str
) -> None:
    try:
        read(tmp_path_factory.getbasetemp(), SOUND[:at] + put + SOUND[at + cut :])
    except Refused as found:
        assert found.faults
        assert all(re.search(r"line \d+", f.where) for f in found.faults), found.message()
