"""A running `dagster dev` for tests, on a top folder and a port of the test's own, and what it says over GraphQL."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import ScheduleInstigatorData

LOADED = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"
RUNS = """{ runsOrError(limit: 100) { ... on Runs { results {
  runId jobName status tags { key value } assetMaterializations { assetKey { path } } } } } }"""


@contextmanager
def serving(top: Path) -> Iterator[str]:
    """The address of `dagster dev` on `top`, whose settings are there; its output goes to dev.log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "DAGSTER_HOME": str(top), "RELGRADE_HOME": str(top)}
    command = [str(Path(sys.executable).with_name("dagster")), "dev", "-h", "127.0.0.1", "-p", str(port)]
    log = (top / "dev.log").open("w")
    server = subprocess.Popen(
        command, cwd=top, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        _loads(f"http://127.0.0.1:{port}", server, top / "dev.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        log.close()


def ask(address: str, question: str) -> dict[str, Any]:
    """The answer to a GraphQL question."""
    with requests.Session() as session:
        answered = session.post(f"{address}/graphql", json={"query": question}, timeout=30).json()
    found: dict[str, Any] = answered["data"]
    return found


def runs(address: str) -> list[dict[str, Any]]:
    """Every run, oldest first: runId, jobName, status, tags as a dictionary, and `made`, the assets it materialised."""
    found = ask(address, RUNS)["runsOrError"]["results"]
    return [
        {
            **run,
            "tags": {tag["key"]: tag["value"] for tag in run["tags"]},
            "made": {made["assetKey"]["path"][0] for made in run.pop("assetMaterializations")},
        }
        for run in reversed(found)
    ]


def was_off_since(top: Path, then: datetime) -> None:
    """As if the server on `top`, which is stopped, had been so since `then`: its schedules were last looked at then."""
    with chdir(top), DagsterInstance.from_config(str(top)) as instance:  # settings name their folders from the top
        states = list(instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE))
        assert states
        for state in states:
            data = ScheduleInstigatorData(state.instigator_data.cron_schedule, then.timestamp())  # type: ignore[union-attr]
            instance.update_instigator_state(state.with_data(data))


def _loads(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the web server answers and has loaded the definitions."""
    for _ in range(360):
        if server.poll() is not None:
            pytest.fail(f"dagster dev ended: {log.read_text()[-2000:]}")
        try:
            if ask(address, LOADED)["repositoriesOrError"].get("nodes"):
                return
        except (requests.RequestException, ValueError, KeyError):
            pass
        time.sleep(0.5)
    pytest.fail(f"dagster dev did not load the definitions: {log.read_text()[-2000:]}")
