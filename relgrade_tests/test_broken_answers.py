"""Broken answers and reviews (P16-P20, P25, P35), and what is asked too early or too late: refused in words; the good
rows of a file are taken, the bad ones kept as refused, and nothing else changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
from broken import (
    Broken,
    Spoil,
    both,
    design,
    refused_in_words,
    swap,
)
from command_line import answers, at, expect, fill_in, ledger_rows, relgrade


def answered(change: Callable[[list[str]], list[str]]) -> Spoil:
    """Change the lines of ann's answers."""

    def spoil(top: Path) -> None:
        lines = (top / "ann.jsonl").read_text("utf-8").splitlines()
        (top / "ann.jsonl").write_text("".join(text + "\n" for text in change(lines)), encoding="utf-8")

    return spoil


def row(n: int, **values: object) -> Spoil:
    """Change keys of ann's n-th answer."""

    def change(lines: list[str]) -> list[str]:
        lines[n - 1] = json.dumps({**json.loads(lines[n - 1]), **values})
        return lines

    return answered(change)


def raw(n: int, change: Callable[[str], str]) -> Spoil:
    return answered(lambda lines: [change(t) if i == n - 1 else t for i, t in enumerate(lines)])


def qrels(text: str) -> Spoil:
    return both(
        design("deviations:\n", "deviations:\n  - {code: imported_without_reasons, reason: graded by another tool}\n"),
        lambda top: relgrade(top, "run", "tiny"),
        lambda top: relgrade(top, "sheets", "tiny", "--grader", "ann", "--out", top / "ann"),
        lambda top: (top / "ann.qrels").write_text(text),
    )


COLLECT = ("collect", "tiny", "--grader", "ann", "{top}/ann.jsonl")
QRELS = ("collect", "tiny", "--grader", "ann", "--format", "qrels", "{top}/ann.qrels")


def answer(
    name: str,
    spoil: Spoil,
    *says: str,
    stage: str = "issued",
    command: tuple[str, ...] = COLLECT,
    kept: int = 0,
    taken: int | None = None,
) -> Broken:
    taken = taken if taken is not None else 96 - kept if kept else 0
    return Broken(name, spoil, says, command, stage=stage, taken=taken, kept=kept)


ANSWERS = [
    answer(
        "grade 7",
        row(2, grade=7),
        "95 new",
        "1 refused",
        "ann.jsonl, line 2, grade: found the number 7",
        "a whole number from 0 to 2",
        "kept there as refused",
        kept=1,
    ),
    answer("grade as text", row(3, grade="2"), "line 3, grade", "a whole number from 0 to 2", kept=1),
    answer("half a grade", row(3, grade=1.5), "line 3, grade: found the number 1.5", kept=1),
    answer("no grade", row(3, grade=None), "line 3, grade: found null", "unrateable or judge_later", kept=1),
    answer("grade NaN", raw(3, lambda t: re.sub(r'"grade": \d', '"grade": NaN', t)), "line 3", kept=1),
    answer(
        "no reason and grade 7",
        row(4, grade=7, reason=""),
        "1 refused",
        "line 4, grade",
        "line 4, reason: found no reason",
        kept=1,
    ),
    answer("long reason", row(4, reason="word " * 16), "line 4, reason: found 16 words; expected at most 15", kept=1),
    answer("prose", raw(5, lambda t: "I would give this passage a 2."), "line 5", "expected", "JSON", kept=1),
    answer("half a row", raw(96, lambda t: t[: len(t) // 2]), "ann.jsonl, line 96", "JSON", kept=1),
    answer(
        "keys in another order",
        raw(5, lambda t: json.dumps(dict(reversed(json.loads(t).items())))),
        "line 5",
        "query_id, chunk_id, reason, grade in that order",
        kept=1,
    ),
    answer("a key too many", row(5, score=0.5), "line 5", "the keys", "score", kept=1),
    answer(
        "a pair with two answers",
        answered(lambda ls: [*ls, json.dumps({**json.loads(ls[0]), "grade": (json.loads(ls[0])["grade"] + 1) % 3})]),
        "2 refused",
        "different answers on lines 1, 97",
        "Keep the one that holds",
        kept=2,
        taken=95,
    ),
    answer(
        "a pair that wasn't asked",
        row(6, chunk_id="c99"),
        "line 6: found the pair",
        "c99",
        "a pair on ann's sheet of round 1",
        kept=1,
    ),
    answer("an id with control characters", row(6, chunk_id="c\x1b[31m99"), "line 6", "c\\x1b[31m99", kept=1),
    answer(
        "many bad rows",
        answered(lambda ls: [t.replace('"grade"', '"grad"') for t in ls]),
        "96 refused",
        "line 1:",
        "line 20:",
        "... and 76 more",
        kept=96,
    ),
    answer("0 bytes of answers", lambda top: (top / "ann.jsonl").write_bytes(b""), "ann.jsonl", "0 bytes"),
    answer("binary answers", lambda top: (top / "ann.jsonl").write_bytes(bytes(range(256))), "a NUL byte"),
    answer("no such file", lambda top: (top / "ann.jsonl").unlink(), "no such file", "expected a file"),
    answer(
        "qrels undeclared",
        lambda top: (top / "ann.qrels").write_text("q 0 c 1\n"),
        "imported_without_reasons",
        "with a reason",
        command=QRELS,
    ),
    answer(
        "qrels with two grades for a pair",
        qrels("q 0 c 1\nq 0 d 1\nq 0 c 2\n"),
        "ann.qrels, line 3, grade",
        "which has 1 on line 1",
        "one grade a pair",
        stage="reviewed",
        command=QRELS,
    ),
    answer(
        "unknown grader",
        lambda top: None,
        "tiny has no grader 'anne'",
        "one of: ann, bob",
        command=("collect", "tiny", "--grader", "anne", "{top}/ann.jsonl"),
    ),
    answer(
        "sheet never written out",
        lambda top: (top / "ann.jsonl").write_text("{}\n"),
        "The sheet of ann was never written out",
        "`relgrade sheets tiny --grader ann`",
        stage="asked",
    ),
    answer(
        "no sheet yet",
        lambda top: (top / "ann.jsonl").write_text("{}\n"),
        "The table sheets of tiny can't be used",
        "no such table yet",
        "`relgrade run tiny`",
        stage="sampled",
    ),
    answer(
        "rubric changed after the sheet",
        swap("rubric.md", "1 helps", "1 helps a lot"),
        "The table sheets of tiny can't be used",
        "expected",
        "`relgrade run tiny`",
    ),
    answer(
        "after the freeze",
        row(2, grade=2, reason="changed my mind"),
        "Round 1 of tiny is frozen and takes no answers",
        "`relgrade revise`",
        "by ann",
        "unchanged",
        stage="frozen",
    ),
    answer(
        "rubric changed after grading",
        swap("rubric.md", "1 helps", "1 helps a lot"),
        "The protocol of tiny was changed after round 1 had its first grade",
        "experiment.yaml or the rubric",
        "under which round 1 was opened",
        "`relgrade revise tiny",
        stage="graded",
    ),
]

EDITED = "rubric changed after grading"
PROTOCOL = [
    Broken(
        EDITED + ", checked",
        swap("rubric.md", "1 helps", "1 helps a lot"),
        ("after round 1 had its first grade", "Put it back, or open the next round"),
        stage="graded",
    ),
    Broken(
        EDITED + ", sheets",
        swap("rubric.md", "1 helps", "1 helps a lot"),
        ("after round 1 had its first grade", "`relgrade revise tiny"),
        ("sheets", "tiny", "--grader", "ann"),
        stage="graded",
    ),
    Broken(
        EDITED + ", status",
        swap("rubric.md", "1 helps", "1 helps a lot"),
        ("refused", "after round 1 had its first grade"),
        ("status", "tiny"),
        1,
        "graded",
    ),
    Broken(
        EDITED + ", run",
        swap("rubric.md", "1 helps", "1 helps a lot"),
        ("The protocol of tiny was changed", "`relgrade revise tiny"),
        ("run", "tiny"),
        stage="graded",
    ),
    Broken(
        "nothing to revise",
        lambda top: None,
        ("has no grade yet", "no revision is needed"),
        ("revise", "tiny", "--cause", "drift"),
        stage="issued",
    ),
    Broken(
        "revision without a cause",
        lambda top: None,
        ("--cause: found nothing", "what went wrong"),
        ("revise", "tiny", "--cause", " "),
        stage="graded",
    ),
]


def reviewed(change: Callable[[str], str]) -> Spoil:
    def spoil(top: Path) -> None:
        assert relgrade(top, "review", "tiny", "--write", top / "review.csv").code == 0
        fill_in(top / "review.csv")
        (top / "review.csv").write_text(change((top / "review.csv").read_text("utf-8")), "utf-8")

    return spoil


REVIEW = ("review", "tiny", "{top}/review.csv")
REVIEWS = [
    Broken(
        "another wording",
        reviewed(lambda t: t.replace("Where is thing 3 written?", "Where is thing 3 kept?")),
        (
            "11 new",
            "1 refused",
            "a review of another wording",
            "the intent as it stands now",
            "Write the review sheet again",
        ),
        REVIEW,
        stage="sampled",
        taken=11,
    ),
    Broken(
        "unknown verdict",
        reviewed(lambda t: t.replace(",ok,", ",fine,", 2)),
        ("2 faults", "review.csv, line 2, verdict: found the verdict 'fine'", "ok or change"),
        REVIEW,
        stage="sampled",
    ),
    Broken(
        "review of a stranger",
        reviewed(lambda t: t + "q9,x,where,Where?,ok,\n"),
        ("review.csv, query q9", "a sampled query"),
        REVIEW,
        stage="sampled",
        taken=12,
    ),
    Broken(
        "reviews without a column",
        reviewed(lambda t: t.replace("verdict", "judgement")),
        ("review.csv, line 1", "a column 'verdict'"),
        REVIEW,
        stage="sampled",
    ),
    Broken(
        "not the auditor",
        reviewed(lambda t: t),
        ("--reviewer: found 'ann'", "expected 'bob'"),
        (*REVIEW, "--reviewer", "ann"),
        stage="sampled",
    ),
    Broken(
        "after the audit sheet",
        lambda top: (top / "review.csv").write_text((top / "review.csv").read_text().replace(",ok,", ",change,", 1)),
        ("bob has been given audit sheets of round 1", "same_reviewer_after_round"),
        REVIEW,
        stage="issued",
    ),
    Broken(
        "no review sheet",
        lambda top: None,
        ("nowhere.csv", "no such file"),
        ("review", "tiny", "nowhere.csv"),
        stage="sampled",
    ),
    Broken(
        "a sheet over a filled-in one",
        reviewed(lambda t: t),
        ("review.csv is there already", "Take its reviews first"),
        ("review", "tiny", "--write", "{top}/review.csv"),
        stage="sampled",
    ),
    Broken(
        "neither file nor --write",
        lambda top: None,
        ("a filled-in sheet, or --write FILE",),
        ("review", "tiny"),
        stage="sampled",
    ),
    Broken(
        "a sheet over somebody's folder",
        lambda top: None,
        ("not the folder of a sheet", "found .relgrade, ann, ann.jsonl and", "with a sheet alone"),
        ("sheets", "tiny", "--grader", "ann", "--out", "{top}"),
        stage="issued",
    ),
    Broken(
        "a spot-check without types",
        lambda top: None,
        ("tiny has no types to check", "type or both"),
        ("spot-check", "tiny"),
        stage="sampled",
    ),
]


ALL = [*ANSWERS, *PROTOCOL, *REVIEWS]


@pytest.mark.parametrize("broken", ALL, ids=repr)
def test_a_broken_experiment_is_refused_in_words(broken: Broken, tmp_path: Path) -> None:
    refused_in_words(broken, tmp_path / "top")


def test_answers_with_a_byte_order_mark_are_taken_and_it_is_said(tmp_path: Path) -> None:
    top = at("issued", tmp_path / "top")
    text = (top / "ann.jsonl").read_bytes()
    (top / "ann.jsonl").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
    ran = relgrade(top, "collect", "tiny", "--grader", "ann", top / "ann.jsonl")
    assert ran.code == 0 and "96 new, 0 changed, 0 already there, 0 refused" in ran.out
    assert "byte-order mark was taken off (1)" in ran.out and "lines ended in CR LF (96)" in ran.out


def test_p23_a_refused_row_is_kept_as_it_was_given(tmp_path: Path) -> None:
    top = at("issued", tmp_path / "top")
    both(row(6, chunk_id="c99"), raw(7, lambda t: "I would give it a 2."))(top)
    assert relgrade(top, "collect", "tiny", "--grader", "ann", top / "ann.jsonl").code == 2
    kept = {r[5]: (r[6], r[7]) for r in ledger_rows(top)["refusals"]}
    assert set(kept) == {6, 7}
    assert json.loads(kept[6][0])["chunk_id"] == "c99" and "a pair on ann's sheet" in kept[6][1]
    assert kept[7][0] == "I would give it a 2." and "JSON" in kept[7][1]


def test_one_bad_file_among_several_does_not_stop_the_others(tmp_path: Path) -> None:
    top = at("issued", tmp_path / "top")
    whole = (top / "ann.jsonl").read_text("utf-8").splitlines(keepends=True)
    (top / "a.jsonl").write_text("".join(whole[:50]), encoding="utf-8")
    (top / "b.jsonl").write_bytes(b"\x00")
    (top / "c.jsonl").write_text("".join(whole[50:]), encoding="utf-8")
    ran = relgrade(top, "collect", "tiny", "--grader", "ann", *(top / f"{n}.jsonl" for n in "abc"))
    assert ran.code == 2 and "50 new" in ran.out and "46 new" in ran.out and "a NUL byte" in ran.err
    assert len(ledger_rows(top)["answers"]) == 96


def test_p28_a_failed_gate_exits_with_1_and_says_it_once(tmp_path: Path) -> None:
    top = at("issued", tmp_path / "top", dagster=True)
    for who, by in (("ann", tiny.truth), ("bob", lambda q, c: 2 - tiny.truth(q, c))):
        answers(top / who / "sheet.jsonl", top / f"{who}.jsonl", by)
        expect(0, top, "collect", "tiny", "--grader", who, top / f"{who}.jsonl")
    ran = relgrade(top, "run", "tiny")
    assert ran.code == 1
    for gate in ("weighted_kappa", "binary_kappa", "disagreement", "two_step"):
        assert ran.said.count(f"gate {gate}: found failed") == 1, ran.said
    assert not (top / ".relgrade" / "keys").exists()
    assert "published" not in ran.out
    by_hand = relgrade(top, "run", "tiny", "--job", "publish")
    assert by_hand.code == 1 and "The key of tiny can't be frozen: 4 faults" in by_hand.err
    told = relgrade(top, "status", "tiny")
    assert told.code == 1 and re.search(r"refused +frozen_key +gate weighted_kappa", told.out)
