"""The Dagster UI in a real browser: the graph by groups, a waiting asset, a failed gate, and materialising by clicks.

One `dagster dev` for the module, on a folder of its own with the tiny study in it. Screenshots go to the folder that
RELGRADE_SCREENSHOTS names, else they are thrown away.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
import tiny
from dagster_dev import serving
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions as seen
from selenium.webdriver.support.ui import WebDriverWait

WAIT = 180


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ui")
    tiny.write_experiment(folder)
    tiny.settings(folder)
    return folder


@pytest.fixture(scope="module")
def url(top: Path) -> Iterator[str]:
    if reason := browser.why_not():
        pytest.skip(reason)
    with serving(top) as address:
        yield address


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Chrome]:
    with browser.chromium_at((1600, 1000)) as driver:
        yield driver


def shot(page: Chrome, name: str) -> None:
    folder = os.environ.get("RELGRADE_SCREENSHOTS")
    if folder:
        page.save_screenshot(str(Path(folder) / f"{name}.png"))


def text_of(page: Chrome) -> str:
    return page.find_element(By.TAG_NAME, "body").text


def wait_for_text(page: Chrome, *texts: str, seconds: float = WAIT) -> None:
    WebDriverWait(page, seconds).until(lambda p: all(t in text_of(p) for t in texts))


def click(page: Chrome, xpath: str, seconds: float = WAIT) -> None:
    WebDriverWait(page, seconds).until(seen.element_to_be_clickable((By.XPATH, xpath))).click()


def test_graph_shows_every_group(page: Chrome, url: str) -> None:
    page.get(f"{url}/asset-groups")
    wait_for_text(page, "queries", "pooling", "grading", "audit", "key", "measures", "publication")
    time.sleep(2)
    shot(page, "graph-groups")


def test_materialise_by_clicks_then_waiting_is_told(page: Chrome, url: str, top: Path) -> None:
    """From the web page alone: choose job and partition, launch; the run succeeds and says what it waits for."""
    page.get(f"{url}/jobs")
    wait_for_text(page, "everything", "recheck")
    click(page, "//a[contains(@href, '/jobs/everything')]")
    click(page, "//button[contains(., 'Materialize all')]")
    click(page, "//*[text()='Select a partition or create one']")
    shot(page, "materialise-partitions")
    click(page, f"//span[normalize-space(text())='{tiny.NAME}']")
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    shot(page, "materialise-dialog")
    click(page, "//button[contains(., 'Launch 1 run')]")
    deadline = time.time() + 180
    study = tiny.study_of(top)
    while not study.path("audit_sample").is_file() and time.time() < deadline:
        time.sleep(1)
    assert study.path("audit_sample").is_file(), (top / "dev.log").read_text()[-3000:]
    page.get(f"{url}/runs")
    wait_for_text(page, "Success")
    shot(page, "runs")
    assert "Failure" not in text_of(page)
    page.get(f"{url}/assets/intents?view=events&partition=tiny")
    wait_for_text(page, "waits")
    shot(page, "waiting-asset")
    assert "0 of 12" in text_of(page)


def test_failed_gate_is_readable(page: Chrome, url: str, top: Path) -> None:
    """A failed gate is red, and says which gate, by how much."""
    from relgrade_assets.cli.run import run

    tiny.review_all(top)
    run(tiny.home_of(top), tiny.NAME)
    tiny.grade_all(top, "ann")
    tiny.grade_all(top, "bob", by=lambda query, chunk: 2 - tiny.truth(query, chunk))
    outcome = run(tiny.home_of(top), tiny.NAME)
    assert not outcome.ok
    page.get(f"{url}/assets/verdicts?view=checks&checkDetail=agreement_gate")
    wait_for_text(page, "agreement_gate", "weighted_kappa")
    time.sleep(1)
    shot(page, "failed-gate")
    page.get(f"{url}/assets/verdicts?view=partitions&partition=tiny")
    wait_for_text(page, "verdicts")
    time.sleep(1)
    shot(page, "verdicts-asset")
    page.get(f"{url}/asset-groups")
    time.sleep(3)
    shot(page, "graph-after-failed-gate")
