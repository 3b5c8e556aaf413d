"""Fixtures that many test modules share, and what a test may skip for. No data and no oracles here."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

TOP = Path(__file__).resolve().parents[1]
FULL = os.environ.get("RELGRADE_FULL") == "1"

settings.register_profile("same-every-time", derandomize=True, deadline=None, database=None)
settings.load_profile("same-every-time")


def pytest_configure() -> None:
    """A suite that is started in the background ignores Ctrl-C, and what it starts would too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not FULL:
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="a full count: make test-full"))


@pytest.fixture(autouse=True)
def _no_home_of_mine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the state of the person who runs it."""
    for name in ("RELGRADE_HOME", "RELGRADE_STATE", "RELGRADE_LEDGER", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def chromium(request: pytest.FixtureRequest) -> Iterator[Chrome]:
    """Headless Chromium; another size by `@pytest.mark.parametrize("chromium", [(390, 844)], indirect=True)`."""
    import browser

    if reason := browser.why_not():
        if FULL:
            pytest.fail(f"make test-full needs a browser: {reason}")
        pytest.skip(reason)
    with browser.chromium_at(getattr(request, "param", browser.SIZE)) as driver:
        yield driver


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server that this session has to itself; make a schema or database per test."""
    import postgres

    if reason := postgres.why_not():
        if FULL:
            pytest.fail(f"make test-full needs PostgreSQL: {reason}")
        pytest.skip(reason)
    with postgres.server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty ledger's URL, on both databases (P23)."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state' / 'ledger.db'}"
    import postgres

    return postgres.fresh(request.getfixturevalue("postgres_url"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real collections that lies beside the checkout; the test is skipped where it doesn't."""
    folder = TOP.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside the checkout")
    return folder
