"""After the freeze the files that a round was made from belong to the next one (P33, P35): said with the way on, and
the old round's tables and key stay. What to do next is said at every stage (P46).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import driving
import pytest
from command_line import FOLDER, at, content, expect, relgrade

ROUND = Path(".relgrade") / "tables" / "tiny" / "rounds" / "1"


def kept(top: Path) -> dict[str, str]:
    """The frozen round's tables, the key and what is published, by digest."""
    return {
        f"{part}/{name}": digest
        for part in (ROUND, ".relgrade/keys", ".relgrade/published")
        for name, digest in content(top / part).items()
    }


def standing(files: dict[str, str]) -> dict[str, str]:
    """Of `kept`, what no event changes: all but the files that say how the key stands, and the list of those."""
    apart = {*driving.RESTATED, "SHA256SUMS"}
    published = {n for n in files if n.startswith(".relgrade/published") and Path(n).name in apart}
    return {n: d for n, d in files.items() if n not in published and not n.endswith(".status.json")}


def intents(top: Path) -> None:
    path = top / FOLDER / "intents.csv"
    path.write_text(path.read_text("utf-8").replace("Where is thing 3 written?", "Where does thing 3 stand?"))


def log(top: Path) -> None:
    path = top / FOLDER / "log.csv"
    path.write_text(path.read_text("utf-8").replace("thing 1,60", "thing 1,61"))


@pytest.mark.parametrize(
    ("change", "named", "file"), [(intents, "intent_file", "intents.csv"), (log, "query_sample", "log.csv")]
)
def test_p35_a_file_changed_after_the_freeze_is_refused_with_the_way_on_and_nothing_is_made_over(
    change: object, named: str, file: str, tmp_path: Path
) -> None:
    top = at("frozen", tmp_path, dagster=True)
    before = kept(top)
    change(top)  # type: ignore[operator]
    ran = relgrade(top, "run", "tiny")
    assert ran.code == 2 and "Round 1 of tiny is frozen, and what it was made from was changed since" in ran.err
    assert re.search(rf"{named}: found [0-9a-f]{{12}} \({file} changed since the round was opened\)", ran.err), ran.err
    assert "from which round 1 was frozen" in ran.err
    assert "`relgrade revise tiny --cause ...`" in ran.err and "Materialise it again" not in ran.said, ran.said
    assert "tables of round 1 are as they were" in ran.err and kept(top) == before
    told = expect(1, top, "status", "tiny").out
    way = "relgrade refresh tiny, or relgrade revise tiny --cause ..."
    assert f"owner: put the changed files back, or open the next round with them: {way}\n" in told
    assert kept(top) == before
    expect(0, top, "revise", "tiny", "--cause", "an intent")
    assert relgrade(top, "run", "tiny").code == 3 and standing(kept(top)) == standing(before)
    assert (top / ".relgrade/tables/tiny/rounds/2").is_dir()


def test_p35_status_sends_to_the_next_round_at_once_where_the_corpus_changed(tmp_path: Path) -> None:
    """P2, P46: not to a run that is refused; and what was published stays published (P41)."""
    top = at("frozen", tmp_path)
    path = top / FOLDER / "corpus.jsonl"
    path.write_text(path.read_text("utf-8").replace("This is thing 3.", "This was thing 3."), encoding="utf-8")
    told = relgrade(top, "status", "tiny").out
    ways = "`relgrade refresh tiny` carries the grades that still hold, `relgrade revise tiny --cause ...` grades all"
    said = f"corpus.jsonl changed since round 1 was opened, which is frozen: {ways} anew"
    assert re.search(rf"outdated +runs +{re.escape(said)}\n", told), told
    assert "relgrade run" not in told and re.search(r"done +P41 ", told), told
    assert told.endswith("with them: relgrade refresh tiny, or relgrade revise tiny --cause ...\n")


def test_p33_other_bytes_that_say_the_same_are_no_change(tmp_path: Path) -> None:
    """A quoted cell in the intents: the round's table comes out as it is stored."""
    top = at("frozen", tmp_path, dagster=True)
    before = kept(top)
    path = top / FOLDER / "intents.csv"
    path.write_text(path.read_text("utf-8").replace("Where is thing 3 written?", '"Where is thing 3 written?"'))
    expect(0, top, "run", "tiny")
    after = standing(kept(top))
    assert all("/keys/" not in n or after[n] == digest for n, digest in standing(before).items())


NEXT = {
    "fresh": ["owner: make what can be made now: relgrade run tiny"],
    "sampled": ["bob: review the intents (0 of 12 intents ready to lock: 12 unreviewed ("],
    "reviewed": ["owner: make what can be made now: relgrade run tiny"],
    "asked": [
        "ann: 0 of 96 pairs graded by ann: relgrade desk-link tiny --person ann, or relgrade sheets tiny --grader ann",
        "bob: 0 of 80 pairs graded by bob: relgrade desk-link tiny --person bob, or relgrade sheets tiny --grader bob",
    ],
    "graded": ["owner: make what can be made now: relgrade run tiny"],
    "frozen": ["nobody: nothing is owed; the key is published: .relgrade/published/tiny"],
}


@pytest.mark.parametrize("stage", NEXT)
def test_p46_status_says_what_to_do_next_by_whom_and_how(stage: str, tmp_path: Path) -> None:
    top = at(stage, tmp_path)
    told = relgrade(top, "status", "tiny").out.partition("\nNext\n")[2].splitlines()
    assert len(told) == len(NEXT[stage]), told
    assert all(line.strip().startswith(said) for line, said in zip(told, NEXT[stage], strict=True)), told
    found = json.loads(relgrade(top, "status", "tiny", "--json").out)["next"]
    assert [set(n) for n in found] == [{"who", "what", "command"}] * len(told)


def test_p46_a_study_without_intents_is_told_to_write_them(tmp_path: Path) -> None:
    """P16: a review of what is not there could only wait."""
    top = at("sampled", tmp_path)
    (top / FOLDER / "intents.csv").unlink()
    step = "write intents.csv, a line query_id,form,intent,author for each sampled query: relgrade export-queries tiny"
    assert relgrade(top, "status", "tiny").out.endswith(f"\nNext\n  owner: {step}\n")
    ran = expect(3, top, "run", "tiny").out
    assert f"    next: owner: {step}\n" in ran and "relgrade review" not in ran, ran


def test_p16_every_fault_of_the_intents_is_told_at_once(tmp_path: Path) -> None:
    """A form that is none, an empty intent, a lint's finding and another query's text, by one command."""
    top = at("sampled", tmp_path)
    path = top / FOLDER / "intents.csv"
    lines = path.read_text("utf-8").splitlines()
    lines[1] = lines[1].replace(",where,", ",whither,")
    lines[2] = lines[2].replace(lines[2].split(",")[3], " ")
    lines[3] = lines[3].replace("Where is thing 3 written?", "Where is thing 3 written or read?")
    lines[4] = lines[4].replace("where is thing 4,", "where is thing 5,")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for command, code in (("check", 2), ("run", 2)):
        said = expect(code, top, command, "tiny").err
        assert "intents.csv, line 2, form: found the form 'whither'" in said, said
        assert "intents.csv, line 3, intent: found nothing" in said
        assert "intents.csv, line 4, intent: found the word 'or' offers an alternative" in said, said
        assert "intents.csv, line 5, query: found another text; expected the sampled query's" in said
        assert "thing 3" not in said and "thing 5" not in said
