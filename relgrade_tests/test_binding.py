"""Whose a file of answers is (P25): the token that a sheet's answers carry back, and rows that are another grader's."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import desk_study
import polars as pl
import pytest
import tiny
from command_line import expect, relgrade
from hypothesis import given
from hypothesis import strategies as st
from tiny import study_of

from relgrade_assets.desk.offline import page
from relgrade_assets.errors import Refused
from relgrade_assets.io import rounds
from relgrade_assets.io.binding import HEX_DIGITS, all_answers, token
from relgrade_assets.io.returns import collect
from relgrade_assets.io.worksheets import sheet_of, write_sheets
from relgrade_assets.methods.likeness import likenesses
from relgrade_assets.methods.sheets import blind_rows

SCHEMA = {
    "query_id": pl.String, "chunk_id": pl.String, "reason": pl.String, "grade": pl.Int64,
    "unrateable": pl.Boolean, "judge_later": pl.Boolean,
}  # fmt: skip


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return desk_study.copy("sheets", tmp_path / "s")


def written(top: Path, who: str, **more: object) -> Path:
    write_sheets(study_of(top), who, top / "out" / who, **more)  # type: ignore[arg-type]
    return top / "out" / who


def filled(top: Path, who: str, *, hand: str, head: bool = True, into: str | None = None) -> Path:
    """A file of `who`'s answers below the token of their sheet."""
    folder = written(top, who)
    first = (folder / "answers.jsonl").read_text("utf-8") if head else ""
    rows = [tiny.answer(row, hand=f"{hand}: ") for row in blind_rows(sheet_of(study_of(top), who))]
    path = top / (into or f"{who}.jsonl")
    path.write_text(first + "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def taken(top: Path, who: str) -> int:
    study = study_of(top)
    return study.ledger.answers(study.name, study.round, [who]).height


def refused(top: Path, who: str, path: Path, **more: object) -> str:
    study = study_of(top)
    before = all_answers(study), len(study.log)
    with pytest.raises(Refused) as why:
        collect(study, who, path, name=path.name, **more)  # type: ignore[arg-type]
    assert all_answers(study).equals(before[0]) and len(study.log) == before[1], "nothing was taken"
    assert study.ledger.refusals("tiny", study.round, who).is_empty()
    return why.value.message()


# ------------------------------------------------------------------ the token


def test_p25_a_file_given_for_another_grader_is_refused_by_name_before_any_row(top: Path) -> None:
    """The hole: one file collected twice made an audit without a difference."""
    path = filled(top, "ann", hand="ann")
    written(top, "bob")
    written(top, "dan")
    assert collect(study_of(top), "ann", path, name=path.name).new == 96
    for other in ("bob", "dan"):
        said = refused(top, other, path)
        assert "found the token of ann's sheet, round 1; expected the token of" in said
        assert f"{other}'s present sheet, round 1. Collect it with --grader ann." in said
        assert "No row of it was taken." in said and taken(top, other) == 0
    assert "ann's sheet, round 1" in expect(2, top, "collect", "tiny", path, "--grader", "bob").err


def test_p25_a_file_of_an_earlier_round_or_of_no_sheet_is_refused(top: Path) -> None:
    path = filled(top, "ann", hand="ann")
    assert collect(study_of(top), "ann", path, name=path.name).new == 96
    rounds.open_next_round(study_of(top), cause="an intent", what="", by="")
    tiny.review_all(top)
    desk_study._made(top)
    written(top, "ann")
    said = refused(top, "ann", path)
    assert "the token of ann's sheet, round 1; expected the token of ann's present sheet, round 2" in said
    assert "That round is over." in said
    path.write_text('{"sheet":"0123456789abcdef"}\n' + path.read_text("utf-8").split("\n", 1)[1], encoding="utf-8")
    assert "'0123456789abcdef', which no sheet of this study has" in refused(top, "ann", path)


def test_p25_a_file_of_an_earlier_making_of_the_sheet_is_refused(top: Path) -> None:
    path = filled(top, "ann", hand="ann")
    intents = top / "data" / "experiments" / "tiny" / "intents.csv"
    intents.write_text(intents.read_text("utf-8").replace("Where is thing 3 written?", "Where does thing 3 stand?"))
    tiny.review_all(top)
    desk_study._made(top)
    written(top, "ann")
    assert "the token of an earlier making of ann's sheet" in refused(top, "ann", path)


def test_p25_files_put_together_are_refused_for_each_strange_token(top: Path) -> None:
    """Parts of one sheet may be put together, each with its first line."""
    ann, dan = filled(top, "ann", hand="ann"), filled(top, "dan", hand="dan")
    lines = ann.read_text("utf-8").splitlines(keepends=True)
    both = top / "both.jsonl"
    both.write_text("".join(lines[:40]) + dan.read_text("utf-8"), encoding="utf-8")
    assert "the token of dan's sheet" in refused(top, "ann", both)
    assert "the token of ann's sheet" in refused(top, "dan", both)
    both.write_text("".join([*lines[:40], lines[0], *lines[40:]]), encoding="utf-8")
    assert collect(study_of(top), "ann", both, name="both.jsonl").new == 96


@pytest.mark.parametrize("tool", ["spreadsheet", "label-studio"])
def test_p25_the_forms_of_other_tools_that_have_a_place_for_the_token_carry_it(top: Path, tool: str) -> None:
    """Whatever stands in the spreadsheet's rater_id, and whoever annotated."""
    folder = written(top, "ann", tool=tool)
    written(top, "dan")
    if tool == "spreadsheet":
        table = list(csv.DictReader(io.StringIO((folder / "sheet.csv").read_text("utf-8"), newline="")))
        for n, row in enumerate(table):
            row |= {"grade": "0", "notes": f"ann's {n}", "rater_id": "dan"}
        path = top / "back.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    else:
        tasks = json.loads((folder / "label-studio.json").read_text("utf-8"))
        for n, task in enumerate(tasks):
            said = [("grade", {"choices": ["0"]}), ("reason", {"text": [f"ann's {n}"]})]
            task["annotations"] = [{"completed_by": 1, "result": [{"from_name": f, "value": v} for f, v in said]}]
        path = top / "back.json"
        path.write_text(json.dumps(tasks), encoding="utf-8")
    assert "the token of ann's sheet" in refused(top, "dan", path, form=tool)
    assert collect(study_of(top), "ann", path, name=path.name, form=tool).new == 96  # type: ignore[arg-type]


def test_p13_a_token_says_nothing_and_is_not_to_be_guessed(top: Path, tmp_path: Path) -> None:
    """Hex of one length, of each sheet its own, the same when it is written again; another secret gives others, and the
    secret is neither the seed nor readable by others.
    """
    study = study_of(top)
    found = {}
    for who in ("ann", "dan", "bob"):
        (line,) = (written(top, who) / "answers.jsonl").read_text("utf-8").splitlines()
        found[who] = json.loads(line)["sheet"]
        assert set(found[who]) <= set("0123456789abcdef") and len(found[who]) == HEX_DIGITS
        assert json.loads((written(top, who) / "answers.jsonl").read_text("utf-8"))["sheet"] == found[who]
        assert found[who] in page(study_of(top), who).decode(), "the page that works without a server hands it back"
    assert len(set(found.values())) == 3
    assert token(study, 2, "ann", "d") != token(study, 1, "ann", "d") != token(study, 1, "ann", "e")
    other = study_of(desk_study.copy("sheets", tmp_path / "other"))
    assert token(study, 1, "ann", "d") != token(other, 1, "ann", "d"), "the seed is the same, the secret is not"
    secret = study.home.state / "secrets" / "tiny.sheets"
    assert secret.stat().st_mode & 0o077 == 0 and secret.read_text() != study.design.seed


# ------------------------------------------------------------------ rows without a token


def test_p25_rows_without_a_token_that_are_another_graders_are_refused_and_said_whose(top: Path) -> None:
    """P19 rows alone; in whole, in parts, and with grades changed here and there."""
    ann = filled(top, "ann", hand="ann", head=False)
    written(top, "bob")
    assert collect(study_of(top), "ann", ann, name=ann.name).new == 96
    said = refused(top, "bob", ann)
    assert "found 96 of 96 rows as ann answered them, " in said and " reasons word for word; expected bob's own" in said
    assert "--alike-because WHY takes it, on record" in said
    rows = [json.loads(line) for line in ann.read_text("utf-8").splitlines()]
    for row in rows[::7]:
        row["grade"] = (row["grade"] + 1) % 3
    changed = top / "changed.jsonl"
    changed.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    assert "rows as ann answered them" in refused(top, "bob", changed)
    parts = top / "part.jsonl"
    kept = 0
    for start in range(0, 96, 4):
        parts.write_text("".join(json.dumps(r) + "\n" for r in rows[start : start + 4]), encoding="utf-8")
        try:
            kept += collect(study_of(top), "bob", parts, name="part.jsonl").new
        except Refused as why:
            assert "rows as ann answered them" in why.message()
    assert kept < 20, "a copy handed in by the handful doesn't come far"


def test_p25_a_copy_below_ones_own_token_is_still_a_copy(top: Path) -> None:
    ann = filled(top, "ann", hand="ann")
    assert collect(study_of(top), "ann", ann, name=ann.name).new == 96
    bob = filled(top, "bob", hand="ann")
    assert "rows as ann answered them" in refused(top, "bob", bob)
    bob = filled(top, "bob", hand="bob")
    assert collect(study_of(top), "bob", bob, name=bob.name).new == 96


def test_p25_a_copy_taken_with_a_reason_is_on_record_under_pseudonyms(top: Path) -> None:
    ann = filled(top, "ann", hand="both at one table", head=False)
    written(top, "bob")
    assert collect(study_of(top), "ann", ann, name=ann.name).new == 96
    line = ("collect", "tiny", ann, "--grader", "bob", "--alike-because")
    assert "why, in words" in expect(2, top, *line, " ").err and taken(top, "bob") == 0
    assert "96 new" in expect(0, top, *line, "they worked it out together").out
    (event,) = [e for e in study_of(top).log if e.kind == "alike_taken"]
    assert event.body["why"] == "they worked it out together"
    assert (event.body["grader"], event.body["other"], event.body["pairs"]) == ("auditor-1", "grader-1", 96)
    assert "bob" not in json.dumps(dict(event.body)) and "ann" not in json.dumps(dict(event.body))
    told = relgrade(top, "status", "tiny").out
    assert "answers like another's were taken: they worked it out together" in told


def test_p25_answers_of_the_round_before_are_no_regrade(top: Path) -> None:
    """P30: without a token too, and by the same grader."""
    ann = filled(top, "ann", hand="ann", head=False)
    assert collect(study_of(top), "ann", ann, name=ann.name).new == 96
    rounds.open_next_round(study_of(top), cause="a boundary rule", what="", by="")
    tiny.review_all(top)
    desk_study._made(top)
    written(top, "ann")
    assert "rows as ann in round 1 answered them" in refused(top, "ann", ann)
    assert collect(study_of(top), "ann", filled(top, "ann", hand="again"), name="ann.jsonl").new == 96
    assert collect(study_of(top), "ann", filled(top, "ann", hand="again"), name="ann.jsonl").same == 96


# ------------------------------------------------------------------ likeness by hand


def answers(reasons: Sequence[str | None], grades: Sequence[int | None], **flags: bool) -> pl.DataFrame:
    given = {"unrateable": False, "judge_later": False, **flags}
    rows = [("q", f"c{n}", r, g, *given.values()) for n, (r, g) in enumerate(zip(reasons, grades, strict=True))]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def of(frame: pl.DataFrame, grader: str = "ann", round: int = 1) -> pl.DataFrame:
    return frame.with_columns(grader=pl.lit(grader), round=pl.lit(round, pl.Int64))


def test_likeness_of_reasons_by_hand() -> None:
    """Two of ten word for word is a fifth and stands; three are too many. Blanks around a reason make it no other."""
    grades = [0] * 10
    ann = answers([f"ann {n}" for n in range(10)], grades)
    for shared, alike in ((2, False), (3, True)):
        bob = answers([f" ann {n} " if n < shared else f"bob {n}" for n in range(10)], grades)
        found = likenesses(bob, of(ann))
        told = [("ann", 10, 10, shared)] if alike else []
        assert [(f.grader, f.pairs, f.reasons, f.verbatim) for f in found] == told
    four = answers([f"ann {n}" for n in range(4)], grades[:4])
    assert likenesses(four, of(four)) == [], "four reasons are too few to tell"
    five = answers([f"ann {n}" for n in range(5)], grades[:5])
    assert len(likenesses(five, of(five))) == 1
    assert likenesses(answers([f"ann {n}" for n in range(10)], grades, judge_later=True), of(ann)) == []


def test_likeness_stock_phrases_tell_nobody() -> None:
    """`about something else` for every 0 is what two honest people may write; equal to the last row it is not."""
    reasons = ["about something else"] * 15 + [f"ann {n}" for n in range(10)]
    ann = answers(reasons, [0] * 15 + [2] * 10)
    bob = answers([*reasons[:15], *(f"bob {n}" for n in range(10))], [0] * 15 + [2] * 10)
    assert likenesses(bob, of(ann)) == []
    stock = answers(["no"] * 15 + ["yes"] * 10, [0] * 15 + [2] * 10)
    (found,) = likenesses(stock, of(stock))
    assert (found.pairs, found.alike, found.reasons) == (25, 25, 0)
    one_off = answers(["no"] * 15 + ["yes"] * 10, [0] * 15 + [1] + [2] * 9)
    assert likenesses(one_off, of(stock)) == []


def test_likeness_without_reasons_is_every_row_the_same() -> None:
    """TREC qrels and ratings: 20 pairs at least, and not all of one grade."""
    grades = [0, 1, 2, None] * 5
    ann = answers([None] * 20, grades).with_columns(unrateable=pl.col("grade").is_null())
    (found,) = likenesses(ann, of(ann))
    assert (found.pairs, found.alike, found.reasons, found.verbatim) == (20, 20, 0, 0)
    assert likenesses(ann.head(19), of(ann)) == []
    assert likenesses(answers([None] * 30, [0] * 30), of(answers([None] * 30, [0] * 30))) == []
    off = answers([None] * 20, [1, *grades[1:]]).with_columns(unrateable=pl.col("grade").is_null())
    assert likenesses(off, of(ann)) == []


def test_likeness_names_every_grader_and_round() -> None:
    ann = answers([f"ann {n}" for n in range(10)], [0] * 10)
    both = pl.concat([of(ann, "eve", 2), of(ann, "ann", 1), of(ann, "bea", 2)])
    assert [(f.round, f.grader) for f in likenesses(ann, both)] == [(1, "ann"), (2, "bea"), (2, "eve")]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), min_size=1, max_size=40))
def test_likeness_is_symmetric_law(rows: list[tuple[str, int]]) -> None:
    one = answers([r for r, _ in rows], [g for _, g in rows])
    other = answers([f"{r}{n % 5}" for n, (r, _) in enumerate(rows)], [g for _, g in rows])
    there, back = likenesses(one, of(other)), likenesses(other, of(one))
    assert [(f.pairs, f.alike, f.reasons, f.verbatim) for f in there] == [
        (f.pairs, f.alike, f.reasons, f.verbatim) for f in back
    ]


# ------------------------------------------------------------------ what was filled in is not written over


@pytest.mark.parametrize("file", ["answers.jsonl", "sheet.csv", "quepid.csv"])
def test_p23_a_folder_with_answers_in_it_is_not_written_over(top: Path, file: str) -> None:
    tool = {"sheet.csv": "spreadsheet", "quepid.csv": "quepid"}.get(file)
    folder = written(top, "ann", tool=tool)
    assert written(top, "ann", tool=tool) == folder, "an empty one is"
    path = folder / file
    if file == "answers.jsonl":
        path.write_text(path.read_text("utf-8") + '{"query_id": "q"}\n', encoding="utf-8")
    else:
        table = list(csv.reader(io.StringIO(path.read_text("utf-8"), newline="")))
        table[5][table[0].index("grade" if tool == "spreadsheet" else "rating")] = "2"
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows(table)
    before = path.read_bytes()
    with pytest.raises(Refused, match="holds answers, so no sheet was written over them"):
        written(top, "ann", tool=tool)
    assert path.read_bytes() == before
