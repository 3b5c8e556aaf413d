"""The desk in real Chromium (P24): by keyboard alone, undo, later, resumed, two at once, a phone, the dark, without a
network, the sheet as a file; and axe-core finds nothing on any page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import browser
import desk_study
import polars as pl
import pytest
import tiny
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from steering import STEERING

from relgrade_assets.desk.sessions import Desk
from relgrade_assets.io import intent_rows, own_work, owner_work
from relgrade_assets.io.links import Role
from relgrade_assets.io.returns import collect
from relgrade_assets.io.worksheets import write_sheets

PHONE = (390, 844)


@dataclass
class At:
    """A desk that is served, and its home."""

    address: str
    desk: Desk
    top: Path

    def kept(self, who: str = "ann") -> pl.DataFrame:
        """The person's answers in the ledger."""
        return tiny.study_of(self.top).ledger.answers("tiny", 1, [who])

    def enter(self, page: Chrome, person: str, role: Role = "grader", path: str = "") -> None:
        """Open a link, then a page."""
        page.get(self.address + desk_study.link(self.desk, person, role))
        page.find_element(By.LINK_TEXT, "Begin").click()
        if path:
            page.get(self.address + path)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[At]:
    top = desk_study.copy("sheets", tmp_path)
    with desk_study.served(top) as (address, desk):
        yield At(address, desk, top)


def until(true: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.03)


def ready(page: Chrome) -> None:
    until(lambda: page.execute_script("return document.documentElement.dataset.ready"), "the first passage is shown")


def press(page: Chrome, *keys: str) -> None:
    ActionChains(page).send_keys(*keys).perform()


def text(page: Chrome, id: str) -> str:
    return str(page.execute_script("return document.getElementById(arguments[0]).textContent", id))


def grade(page: Chrome, value: str, reason: str = "says where it is") -> None:
    """One passage by keys: grade, reason, Enter; and the next one is there."""
    before = text(page, "where")
    press(page, value, reason, Keys.ENTER)
    until(lambda: text(page, "where") != before, "the next passage")


def errors(page: Chrome) -> list[str]:
    return [e["message"] for e in page.get_log("browser") if "favicon" not in e["message"]]


def offline(page: Chrome, off: bool) -> None:
    page.execute_cdp_cmd("Network.enable", {})
    shape = {"offline": off, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.execute_cdp_cmd("Network.emulateNetworkConditions", shape)


def light_or_dark(page: Chrome, dark: bool) -> None:
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def test_forty_passages_by_keyboard_alone(chromium: Chrome, at: At) -> None:
    """From the link to the fortieth answer without a pointer; nothing moves; the next passage within 100 ms."""
    chromium.get(at.address + desk_study.link(at.desk, "ann"))
    press(chromium, Keys.TAB, Keys.TAB, Keys.ENTER)
    until(lambda: chromium.title == "My work", "my work")
    for _ in range(6):
        press(chromium, Keys.TAB)
        if chromium.switch_to.active_element.text == "Begin":
            break
    press(chromium, Keys.ENTER)
    ready(chromium)
    places = """return ['bar', 'reason', 'save', 'passage', 'rubric-box'].map((id) => {
        const r = document.getElementById(id).getBoundingClientRect(); return [r.x, r.y, r.width, r.height].join()})"""
    before = chromium.execute_script(places)
    chromium.execute_script("""
        window.took = [];
        const pressed = (e) => { if (e.key === 'Enter') window.pressed = performance.now(); };
        document.addEventListener('keydown', pressed, true);
        new MutationObserver(() => {
            if (window.pressed) window.took.push(performance.now() - window.pressed);
            window.pressed = 0;
        }).observe(document.getElementById('where'), {childList: true, characterData: true, subtree: true});
    """)
    for n in range(40):
        grade(chromium, "012"[n % 3], f"reason number {n}")
        assert chromium.execute_script(places) == before
    until(lambda: at.kept().height == 40, "all are in the ledger")
    took = chromium.execute_script("return window.took")
    assert len(took) == 40 and sorted(took)[-1] < 100, took
    sheet = json.loads(json.dumps(at.kept().sort("answered_at").select("grade", "reason").rows()))
    assert sheet == [[n % 3, f"reason number {n}"] for n in range(40)]
    assert errors(chromium) == []


def test_undo_later_unrateable_cleanup_and_going_on_after_closing(chromium: Chrome, at: At) -> None:
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    first, chunk = text(chromium, "where"), text(chromium, "chunk")
    grade(chromium, "2", "it is here")
    press(chromium, "u")
    until(lambda: text(chromium, "where") == first, "the passage is back")
    assert chromium.find_element(By.ID, "reason").get_attribute("value") == "it is here"
    until(lambda: at.kept()["judge_later"].to_list() == [True], "taken back in the ledger")
    press(chromium, "1")
    until(lambda: text(chromium, "where") != first, "graded again")
    until(lambda: at.kept()["grade"].to_list() == [1], "the changed mind is kept")
    press(chromium, "l")
    grade(chromium, "x", "another language")
    press(chromium, "c")
    grade(chromium, "0", "broken chunk")
    until(lambda: at.kept().height == 4, "four answers")
    found = at.kept()
    assert found.filter(pl.col("chunk_id") == chunk)["grade"].to_list().count(1) >= 1
    assert [found[c].sum() for c in ("judge_later", "unrateable", "corpus_cleanup")] == [1, 1, 1]
    said = text(chromium, "said")
    assert "3 of 96 done, 1 for later" in said
    here = text(chromium, "where")
    chromium.get("about:blank")
    chromium.get(at.address + "/e/tiny/grade")
    ready(chromium)
    assert text(chromium, "where") == here, "it goes on where it stopped"
    press(chromium, "k", "k", "k")
    until(lambda: text(chromium, "where") != here, "one looks back")
    assert errors(chromium) == []


def test_what_is_no_answer_is_said_beside_it(chromium: Chrome, at: At) -> None:
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    here = text(chromium, "where")
    press(chromium, Keys.ENTER)
    assert text(chromium, "said") == "Choose a grade first."
    press(chromium, "7")
    assert "scale ends at 2" in text(chromium, "said")
    press(chromium, "1", Keys.ENTER)
    assert "Say in a few words" in text(chromium, "said")
    press(chromium, "a word " * 9, Keys.ENTER)
    assert "at most 15 words" in text(chromium, "said") and text(chromium, "words") == "18 of 15 words"
    press(chromium, Keys.ESCAPE, "u")
    assert "nothing to undo" in text(chromium, "said")
    chromium.find_element(By.ID, "keys").click()
    press(chromium, "2", "l", "x")
    assert text(chromium, "where") == here, "single keys can be turned off"
    assert at.kept().is_empty()


def test_a_network_that_drops_loses_nothing_and_sends_once(chromium: Chrome, at: At) -> None:
    """P23: answers given without a network wait, are shown as waiting, and arrive once."""
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    grade(chromium, "2", "before")
    until(lambda: at.kept().height == 1, "one is kept")
    offline(chromium, True)
    for n in range(12):
        grade(chromium, "1", f"offline {n}")
    until(lambda: text(chromium, "queue").startswith("12 answers wait for the network"), "it is said")
    assert at.kept().height == 1
    press(chromium, "u")
    until(lambda: text(chromium, "queue").startswith("13 answers wait"), "undo waits too")
    offline(chromium, False)
    chromium.execute_script("dispatchEvent(new Event('online'))")
    until(lambda: text(chromium, "queue") == "", "all are sent")
    found = at.kept()
    assert (found.height, found["judge_later"].sum()) == (13, 1)
    rows = tiny.study_of(at.top).ledger.read(lambda c: c.exec_driver_sql("SELECT source FROM answers").fetchall())
    assert len(rows) == 14 == len(set(rows)), "each once"


def desk_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The desk takes no answer from now on, until what this gives is called."""
    taking = own_work.take

    def away(*args: object) -> None:
        raise own_work.NotNow("busy")

    monkeypatch.setattr(own_work, "take", away)
    return lambda: monkeypatch.setattr(own_work, "take", taking)


def test_what_waits_outlives_the_page_and_is_sent_once(
    chromium: Chrome, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P23, P24: while the desk can take nothing, answers wait in the browser's storage; the page is closed, and opened
    again when the desk is back. Nothing depends on when a request is cut: the server itself refuses.
    """
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    back = desk_away(monkeypatch)
    said = [f"waits {n}" for n in range(3)]
    for reason in said:
        grade(chromium, "0", reason)
    until(lambda: text(chromium, "queue").startswith("3 answers wait"), "it is said")
    chromium.get("about:blank")
    assert at.kept().is_empty()
    back()
    chromium.get(at.address + "/e/tiny/grade")
    ready(chromium)
    until(lambda: sorted(at.kept()["reason"]) == said, "all that waited")
    until(lambda: text(chromium, "queue") == "", "and nothing waits any more")
    assert "3 of 96 done" in text(chromium, "said"), "what waited counted as done before it was sent"
    chromium.refresh()
    ready(chromium)
    rows = tiny.study_of(at.top).ledger.read(lambda c: c.exec_driver_sql("SELECT source FROM answers").fetchall())
    assert len(rows) == 3 == len(set(rows)), "each once"
    left = "return Object.keys(localStorage).filter((k) => k.includes(':pending:'))"
    assert chromium.execute_script(left) == [], "what was sent is not kept to be sent again"


def test_what_waits_is_sent_in_order_though_the_clock_was_set_back(
    chromium: Chrome, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P23: an answer and its correction wait; the machine's clock goes back between them, and the page is opened
    again: the correction is the last to arrive.
    """
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    back = desk_away(monkeypatch)
    first = text(chromium, "where")
    grade(chromium, "0", "says where it is")
    chromium.execute_script("const now = Date.now; Date.now = () => now() - 86400000")
    press(chromium, "u")
    until(lambda: text(chromium, "where") == first, "the first passage again")
    press(chromium, "2")
    until(lambda: text(chromium, "where") != first, "graded again")
    chromium.get("about:blank")
    back()
    chromium.get(at.address + "/e/tiny/grade")
    ready(chromium)
    until(lambda: text(chromium, "queue") == "" and not at.kept().is_empty(), "nothing waits any more")
    assert at.kept()["grade"].to_list() == [2], "the changed mind arrives last"


def test_a_link_that_ends_is_said_and_keeps_what_waits(chromium: Chrome, at: At) -> None:
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    at.desk.links.revoke("tiny", "ann")
    grade(chromium, "2", "too late")
    until(lambda: "Your link has ended" in text(chromium, "queue"), "it is said")
    assert "1 answer waits in this browser" in text(chromium, "queue")
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    until(lambda: at.kept()["reason"].to_list() == ["too late"], "a new link sends it")


def test_two_graders_at_once(chromium: Chrome, at: At) -> None:
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    with browser.chromium_at() as second:
        at.enter(second, "dan", path="/e/tiny/grade")
        ready(second)
        for n in range(6):
            grade(chromium, "2", f"ann {n}")
            grade(second, "0", f"dan {n}")
        until(lambda: at.kept("ann").height == 6 and at.kept("dan").height == 6, "both are kept")
    assert set(at.kept("ann")["grade"]) == {2} and set(at.kept("dan")["grade"]) == {0}


@pytest.mark.parametrize("chromium", [PHONE], indirect=True)
def test_on_a_phone_everything_fits_and_works(chromium: Chrome, at: At) -> None:
    at.enter(chromium, "ann")
    for path in ("/", "/e/tiny/grade"):
        chromium.get(at.address + path)
        wide = chromium.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE[0], path
    ready(chromium)
    for element in chromium.find_elements(By.CSS_SELECTOR, "#bar button, #bar .face, #bar input[type=text]"):
        box = element.rect
        assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE[0] and box["height"] >= 24, element.text
        assert box["y"] + box["height"] <= PHONE[1], element.text
    assert chromium.find_element(By.ID, "passage").rect["height"] > 150
    chromium.find_elements(By.CSS_SELECTOR, ".grade input")[1].click()
    chromium.find_element(By.ID, "reason").send_keys("by touch")
    chromium.find_element(By.ID, "save").click()
    until(lambda: at.kept()["reason"].to_list() == ["by touch"], "kept")


def test_dark_where_the_system_is_dark(chromium: Chrome, at: At) -> None:
    at.enter(chromium, "ann")
    shade = "return getComputedStyle(document.body).backgroundColor"
    light_or_dark(chromium, False)
    assert chromium.execute_script(shade) == "rgb(255, 255, 255)"
    light_or_dark(chromium, True)
    assert chromium.execute_script(shade) == "rgb(20, 23, 26)"


@pytest.mark.parametrize("chromium", [browser.SIZE, PHONE], indirect=True, ids=["wide", "phone"])
def test_axe_finds_nothing_on_any_page(chromium: Chrome, tmp_path: Path) -> None:
    """WCAG 2.2 AA as far as a program can tell, in light and dark, wide and narrow."""
    top = desk_study.copy("verdicts", tmp_path)
    (top / "data/experiments/tiny/spot-check.csv").write_text(
        "query_id,query,type,type_by_person\nq1,where,lookup,\nq2,why,error,lookup\n"
    )
    found: list[str] = []
    with desk_study.served(top) as (address, desk):
        at = At(address, desk, top)
        seen: list[tuple[str, Role, list[str]]] = [
            ("ann", "grader", ["/", "/e/tiny/grade", "/nothing", desk_study.link(desk, "ann")]),
            ("bob", "auditor", ["/", "/e/tiny/grade", "/e/tiny/review"]),
            (
                desk_study.OWNER,
                "owner",
                ["/", "/e/tiny/intents", "/e/tiny/disagreements", "/e/tiny/spot-check"],
            ),
        ]
        for person, role, paths in seen:
            at.enter(chromium, person, role)
            for path in paths:
                chromium.get(address + path)
                if path.endswith("/grade"):
                    ready(chromium)
                wide = chromium.execute_script("return document.documentElement.scrollWidth - innerWidth")
                found += [f"{person} {path} is {wide} pixels too wide"] if wide > 0 else []
                for dark in (False, True):
                    light_or_dark(chromium, dark)
                    found += [
                        f"{person} {path} {'dark' if dark else 'light'} {v}" for v in browser.violations(chromium)
                    ]
        study = tiny.study_of(top)
        (top / "data/experiments/tiny/runs/old.trec").unlink()
        at.enter(chromium, "ann", "grader", "/e/tiny/grade")
        found += [f"problem {v}" for v in browser.violations(chromium)]
        assert study.name == "tiny"
    assert found == []


def many(rows: list[dict[str, Any]], of: int, done: str, value: object) -> list[dict[str, Any]]:
    """The first row `of` times, all done but the last two of the second page."""
    found = [{**rows[0], "query_id": f"q{i:05}", "query": f"query {i}", done: value} for i in range(of)]
    return [{**r, done: None} if i in (98, 99) else r for i, r in enumerate(found)]


@pytest.mark.parametrize(
    ("path", "person", "role", "where", "done"),
    [
        ("review", "bob", "auditor", (intent_rows, "rows"), ("verdict", "ok")),
        ("intents", desk_study.OWNER, "owner", (intent_rows, "rows"), ("intent", "Where is it?")),
        ("disagreements", desk_study.OWNER, "owner", (owner_work, "disagreements"), ("cause", "slip")),
    ],
)
def test_four_thousand_rows_open_at_once_and_by_keyboard(
    path: str,
    person: str,
    role: Role,
    where: tuple[Any, str],
    done: tuple[str, str],
    chromium: Chrome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A browser took minutes for as many forms on one page. From the link to the first open row, by Tab and Enter."""
    top = desk_study.copy("verdicts", tmp_path)
    module, function = where
    before = getattr(module, function)
    monkeypatch.setattr(module, function, lambda study: many(before(study), 4_000, *done))
    with desk_study.served(top) as (address, desk):
        at = At(address, desk, top)
        at.enter(chromium, person, role, f"/e/tiny/{path}")
        assert "3998 of 4000 done" in chromium.find_element(By.ID, "count").text
        assert len(chromium.find_elements(By.CSS_SELECTOR, "form.row")) == 50
        for _ in range(4):
            press(chromium, Keys.TAB)
            if chromium.switch_to.active_element.get_attribute("id") == "to-open":
                break
        press(chromium, Keys.ENTER)
        until(lambda: "open" in chromium.current_url, "the page of the first open row", 60)
        row = "return document.activeElement.closest('form')?.querySelector('bdi').textContent"
        until(lambda: chromium.execute_script(row) == "query 98", "its first control has the focus", 60)
        assert len(chromium.find_elements(By.CSS_SELECTOR, "form.row")) == 50
        chromium.execute_script('window.fetch = async () => new Response(\'{"saved": true, "text": "Kept."}\')')
        if path == "intents":
            chromium.execute_script("document.activeElement.closest('form').intent.focus()")
            press(chromium, "Where is it?", Keys.ENTER)
        else:
            press(chromium, Keys.SPACE, Keys.ENTER)
        until(lambda: "3999 of 4000 done" in chromium.find_element(By.ID, "count").text, "it counts", 60)
        until(lambda: chromium.execute_script(row) == "query 99", "the next row", 60)
        assert browser.violations(chromium) == []
        assert errors(chromium) == []


def test_axe_would_find_something(chromium: Chrome) -> None:
    """The check above can fail."""
    chromium.get("data:text/html,<img src=x><p style='color:%23ccc'>pale</p><input>")
    assert {v.partition(":")[0] for v in browser.violations(chromium)} >= {"image-alt", "label", "color-contrast"}


def test_the_sheet_as_a_file_without_a_server(chromium: Chrome, at: At, tmp_path: Path) -> None:
    """P24, P25: graded by keyboard from a file, kept over closing, and its rows are taken."""
    from relgrade_assets.desk.offline import page

    study = tiny.study_of(at.top)
    write_sheets(study, "ann", tmp_path / "given", page=page(study, "ann"))
    file = (tmp_path / "given" / "sheet.html").as_uri()
    chromium.get(file)
    ready(chromium)
    for n in range(5):
        grade(chromium, "012"[n % 3], f"from a file {n}")
    press(chromium, "l", "c")
    grade(chromium, "2", "mend it")
    press(chromium, "u")
    until(lambda: "5 of 96 done, 1 for later" in text(chromium, "said"), "undone")
    press(chromium, "2")
    until(lambda: "6 of 96 done" in text(chromium, "said"), "graded again")
    chromium.get("about:blank")
    chromium.get(file)
    ready(chromium)
    assert "6 of 96 done, 1 for later" in text(chromium, "said")
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    chromium.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    chromium.find_element(By.ID, "export").click()
    until(lambda: list(downloads.glob("*.jsonl")), "the file")
    rows: list[dict[str, Any]] = [
        json.loads(x) for x in (downloads / "tiny-ann-round-1.jsonl").read_text().splitlines()
    ]
    head = json.loads((tmp_path / "given" / "answers.jsonl").read_text())
    assert rows[0] == head and list(head) == ["sheet"], "it says whose sheet it is"
    assert [list(r)[:4] for r in rows[1:]] == [["query_id", "chunk_id", "reason", "grade"]] * 6
    taken = collect(study, "ann", downloads / "tiny-ann-round-1.jsonl", name="tiny-ann-round-1.jsonl")
    assert (taken.new, taken.rows_refused) == (6, 0)
    assert browser.violations(chromium) == [] and errors(chromium) == []


def test_the_sheet_as_a_file_shows_what_steers_as_text(
    chromium: Chrome, at: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P22: the thirty passages in the file, one after another by key: each is shown, none runs, widens or adds a
    thing.
    """
    from relgrade_assets.desk.offline import page

    study = tiny.study_of(at.top)
    sheet = own_work.own_sheet(study, "ann")
    hostile = sheet.rows.head(30).with_columns(text=pl.Series(STEERING), header=pl.Series([s[:300] for s in STEERING]))
    monkeypatch.setattr(own_work, "own_sheet", lambda *_: replace(sheet, rows=hostile))
    (tmp_path / "sheet.html").write_bytes(page(study, "ann"))
    chromium.get((tmp_path / "sheet.html").as_uri())
    ready(chromium)
    for number, passage in enumerate(STEERING):
        assert f"{number + 1} of 30" in text(chromium, "where")
        assert text(chromium, "text").strip() or not passage.strip(), number
        assert not chromium.find_elements(By.CSS_SELECTOR, "#text script, #text img, #text form, #text input"), number
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= browser.SIZE[0], number
        grade(chromium, "1") if number < 29 else press(chromium, "1", "says so", Keys.ENTER)
    until(lambda: "30 of 30 done" in text(chromium, "said"), "all are graded")
    assert errors(chromium) == []


def test_hostile_passages_run_nothing_and_are_shown_as_text(chromium: Chrome, at: At) -> None:
    """What would turn, hide or run is shown by its number or as it stands."""
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    hostile = "# Head <img src=x onerror=window.hit=1>\n\n```\n</pre><script>window.hit=1</script>\n```\n\n"
    hostile += "\u202eevil \x01 | a |\n|---|\n"
    render = "relgradeText.render(document.getElementById('text'), arguments[0], false)"
    chromium.execute_script(render, hostile)
    assert not chromium.find_elements(By.CSS_SELECTOR, "#text img, #text script")
    assert chromium.execute_script("return window.hit === undefined")
    shown = text(chromium, "text")
    for number, passage in enumerate(STEERING):
        chromium.execute_script(render, passage)
        assert text(chromium, "text").strip() or not passage.strip(), number
        assert not chromium.find_elements(By.CSS_SELECTOR, "#text script, #text img, #text form, #text input"), number
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= browser.SIZE[0], number
    assert len(STEERING) == 30
    assert "<img src=x" in shown and "</pre><script>" in shown and "U+202E" in shown and "U+0001" in shown
    for sample, tag in (
        ("def f(x):\n    return x\n", "pre"),
        ('def sort(G):\n    """Sorts the nodes.\n\n    Parameters\n    ----------\n    G : graph\n    """\n', "pre"),
        ("We define a class of graphs: those that import nothing. Return to sender.", ".plain-text"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |\n", "table"),
        ("- one\n- two\n", "ul"),
        ("Plain words, on one line.", ".plain-text"),
        ("x" * 200_000, ".plain-text"),
    ):
        chromium.execute_script(render, sample)
        assert chromium.find_elements(By.CSS_SELECTOR, f"#text {tag}"), sample[:40]
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= browser.SIZE[0]


@pytest.mark.parametrize("chromium", [PHONE], indirect=True)
def test_on_a_phone_what_went_wrong_can_be_read_whole(chromium: Chrome, at: At) -> None:
    """It takes the lines that it needs, and stays on the screen."""
    at.enter(chromium, "ann", path="/e/tiny/grade")
    ready(chromium)
    at.desk.links.revoke("tiny", "ann")
    grade(chromium, "2", "too late")
    until(lambda: "1 answer waits in this browser" in text(chromium, "queue"), "it is said")
    whole = "const q = document.getElementById('queue'); return [q.scrollHeight - q.clientHeight, q.offsetHeight]"
    cut, high = chromium.execute_script(whole)
    assert cut <= 1 and high > 30, "more than a line, and no line is cut off"
    assert chromium.execute_script("return document.getElementById('queue').getBoundingClientRect().bottom") <= PHONE[1]
