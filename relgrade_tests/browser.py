"""Headless Chromium by Selenium, for tests of pages: starting it, and what axe-core has against a page."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

SIZE = (1280, 900)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


def why_not() -> str:
    """The reason why no browser can be started here, or the empty string."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not on PATH" if missing else ""


@contextmanager
def chromium_at(size: tuple[int, int] = SIZE) -> Iterator[webdriver.Chrome]:
    """Chromium with a page of exactly `size` CSS pixels and a new profile; `get_log("browser")` has its console."""
    width, height = size
    with tempfile.TemporaryDirectory(prefix="relgrade-chromium-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            # A window can't be narrower than about 500 pixels; a page can.
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            )
            driver.set_page_load_timeout(60)
            yield driver
        finally:
            driver.quit()


def violations(page: webdriver.Chrome) -> list[str]:
    """What axe-core has against the page: WCAG 2.0 to 2.2, A and AA, and its best practices."""
    found = importlib.util.find_spec("selenium_axe_python")
    assert found and found.submodule_search_locations
    source = Path(found.submodule_search_locations[0]) / "axe-core" / "axe.min.js"
    # By the debugger, not a script element: the page's policy forbids what isn't its own.
    page.execute_cdp_cmd("Runtime.evaluate", {"expression": source.read_text("utf-8")})
    page.set_script_timeout(60)
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    done = page.execute_async_script(
        "const end = arguments[1]; axe.run(document, {runOnly: {type: 'tag', values: arguments[0]}})"
        ".then((r) => end(r), (e) => end({violations: [{id: String(e), nodes: []}], passes: []}));",
        tags,
    )
    assert len(done["passes"]) > 5 or done["violations"], "axe ran"
    return [f"{v['id']}: {n['html'][:160]}" for v in done["violations"] for n in v["nodes"] or [{"html": ""}]]
