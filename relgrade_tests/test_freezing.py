"""What a freeze seals of the ledger, and what is logged of readings (P33-P35), on a study without tables. The whole
way is test_key's and test_voiding's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tiny
from test_standing import chain
from tiny import AT, NAME, study_of

from relgrade_assets.errors import Refused
from relgrade_assets.io import correcting, freezing
from relgrade_assets.io.correcting import correct
from relgrade_assets.io.events import Event
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.study import Study
from relgrade_assets.io.voiding import RECORDED, altered, examine, records


@pytest.fixture
def study(tmp_path: Path) -> Study:
    tiny.write_experiment(tmp_path)
    return study_of(tmp_path)


def answer(study: Study, chunk: str, *, name: str = NAME, round: int = 1) -> None:
    row = {"query_id": "q", "chunk_id": chunk, "reason": "r", "grade": 1, "unrateable": False, "judge_later": False,
           "corpus_cleanup": False, "row_digest": "d"}  # fmt: skip
    study.ledger.record_answers(name, round, "ann", pl.DataFrame([row]), source="f", at=AT)


def review(study: Study, query: str) -> None:
    row = pl.DataFrame([{"query_id": query, "row_digest": "d", "verdict": "ok", "note": ""}])
    study.ledger.record_reviews(NAME, "bob", row, at=AT)


def freeze(study: Study, **changes: Any) -> Event:
    """A freeze of round 1 that sealed what the ledger holds now."""
    body = {"records": study.ledger.read(lambda c: records(c, NAME, 1)), **changes}
    return chain(("frozen", {"round": 1, "key_digest": "k", **body}))[0]


def test_a_freeze_seals_its_own_rounds_rows_and_no_others(study: Study) -> None:
    """P35: answers of that experiment and round; to the other tables rows may be added, and none is changed."""
    for chunk in ("a", "b"):
        answer(study, chunk)
        review(study, chunk)
    study.ledger.record_refusals(NAME, 1, "ann", [(1, "x", "y")], source="f", at=AT)
    frozen = freeze(study)
    sealed: Any = frozen.body["records"]
    assert {name: sealed[name]["rows"] for name in RECORDED} == {
        "answers": 2, "refusals": 1, "reviews": 2, "issued": 0, "prompts": 0, "attempts": 0,
    }  # fmt: skip
    answer(study, "c", round=2)
    answer(study, "c", name="other")
    review(study, "c")
    study.ledger.record_refusals(NAME, 1, "ann", [(2, "x", "y")], source="f", at=AT)
    assert altered(study, frozen) == []
    answer(study, "c")
    assert [f.where for f in altered(study, frozen)] == ["the ledger, answers"], "the round is closed to answers"
    assert altered(study, frozen, "reviews") == []


def test_each_table_is_held_against_its_seal(study: Study) -> None:
    """P35: also where the log's own line was spoilt; a freeze that sealed nothing says nothing."""
    answer(study, "a")
    for name in RECORDED:
        sealed: Any = freeze(study).body["records"]
        for spoilt in ({**sealed[name], "sha256": "0" * 64}, {**sealed[name], "rows": 9}, "x"):
            frozen = freeze(study, records={**sealed, name: spoilt})
            assert [f.where for f in altered(study, frozen)] == [f"the ledger, {name}"]
    for records_ in (None, {}, "x"):
        assert altered(study, freeze(study, records=records_)) == []


def rounds_of(study: Study, *steps: tuple[str, int]) -> Study:
    """The study with these events, each of a round; a freeze sealed answers that are not there."""
    more: dict[str, dict[str, Any]] = {
        "opened": {"cause": "", "what": "", "by": "", "protocol_digest": "p"},
        "frozen": {"key_digest": "k", "records": {"answers": {"rows": 9, "sha256": "0" * 64}}},
        "first_reading": {"key_digest": "k"},
        "voided": {"key_digest": "k", "why": "x"},
    }
    for kind, number in steps:
        study.happened(kind, {"round": number, **more[kind]})
    return study_of(study.home.top)


@pytest.mark.parametrize(
    ("second", "voided"),
    [
        ([("frozen", 2)], [1]),
        ([("frozen", 2), ("first_reading", 2)], [1, 2]),
        ([("frozen", 2), ("first_reading", 2), ("voided", 2)], [2, 1]),
    ],
)
def test_each_round_is_voided_for_its_own_reading(
    study: Study, second: list[tuple[str, int]], voided: list[int]
) -> None:
    """P35: once, where its own measures were read, whatever another round's log says."""
    first = [("opened", 1), ("frozen", 1), ("first_reading", 1), ("opened", 2)]
    study = rounds_of(study, *first, *second)
    for _ in range(2):
        examine(study)
    assert [e.round for e in study.log if e.kind == "voided"] == voided


def test_what_was_not_read_is_not_corrected(study: Study, tmp_path: Path) -> None:
    """P35: no key yet, or one of the present round whose measures nobody read."""
    said = {"no frozen key": [("opened", 1)], "a key whose measures were not read": [("frozen", 1)]}
    for words, steps in said.items():
        study = rounds_of(study, *steps)
        with pytest.raises(Refused, match=f"nothing to correct(.|\\n)*found {words}"):
            correct(study, tmp_path / "none.jsonl", name="none.jsonl", why="x", by="")
    study = rounds_of(study, ("first_reading", 1), ("opened", 2), ("frozen", 2))
    with pytest.raises(Refused, match="found a key whose measures were not read"):
        correct(study, tmp_path / "none.jsonl", name="none.jsonl", why="x", by="")


def test_a_correction_looks_for_changed_grades_and_private_words_first(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P35, P41: what its event would hold is looked through before anything is made."""
    asked = []

    def looked(study: Study, texts: dict[str, str]) -> None:
        asked.append(texts)
        raise Refused("private")

    monkeypatch.setattr(correcting, "refuse_private", looked)
    study = rounds_of(study, ("frozen", 1), ("first_reading", 1))
    with pytest.raises(Refused, match="private"):
        correct(study, tmp_path / "none.jsonl", name="none.jsonl", why="so", by="dora")
    assert asked == [{"--why": "so", "--by": "dora"}]
    assert [e.kind for e in study.log] == ["frozen", "first_reading", "voided"]


def test_a_corrected_grade_takes_the_place_of_the_combined_one() -> None:
    """P35: that pair's alone; what could not be rated can be after the fact."""
    schema = {"query_id": pl.String, "chunk_id": pl.String}
    rows = [("q", "a", 1, False), ("q", "b", None, True), ("q", "c", None, True), ("q", "d", 0, False)]
    combined = pl.DataFrame(rows, schema={**schema, "grade": pl.Int64, "unrateable": pl.Boolean}, orient="row")
    given = pl.DataFrame([("q", "a", 2), ("q", "b", 0)], schema={**schema, "is": pl.Int64}, orient="row")
    assert correcting._with(given, combined).sort("chunk_id").rows() == [
        ("q", "a", 2, False), ("q", "b", 0, False), ("q", "c", None, True), ("q", "d", 0, False),
    ]  # fmt: skip


def test_a_reading_is_logged_where_the_numbers_are_others_than_the_last(study: Study) -> None:
    """P34: the first as such, later ones as read again; the same again is nothing new. Rounds are apart."""
    one, two = (pl.DataFrame({"value": [x]}) for x in (0.1, 0.2))
    for frame in (one, one, two, two, one):
        freezing.first_reading(study, "k", frame)
    study.happened("opened", {"round": 1, "cause": "", "what": "", "by": "", "protocol_digest": "p"})
    study.happened("opened", {"round": 2, "cause": "", "what": "", "by": "", "protocol_digest": "p"})
    freezing.first_reading(study_of(study.home.top), "k2", one)
    found = [(e.round, e.kind, e.body["measures_digest"]) for e in study.log if e.kind != "opened"]
    a, b = content_digest(one), content_digest(two)
    assert found == [
        (1, "first_reading", a), (1, "read_again", b), (1, "read_again", a), (2, "first_reading", a),
    ]  # fmt: skip


def test_a_freeze_that_was_cut_short_is_finished_with_what_it_logged(study: Study) -> None:
    """P33: or refused, naming every file that would be another."""
    logged = {"key.json": "a" * 64, "key.jsonl": "b" * 64}
    freezing._require_as_logged(study, logged, logged)
    for made, odd in (
        ({**logged, "key.json": "c" * 64}, ["key.json"]),
        ({"key.jsonl": "c" * 64}, ["key.json", "key.jsonl"]),
        ({**logged, "more": "c" * 64}, ["more"]),
    ):
        with pytest.raises(Refused, match="was made from something else") as refused:
            freezing._require_as_logged(study, made, logged)
        assert [f.where for f in refused.value.faults] == odd
