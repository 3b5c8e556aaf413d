"""The desk's server under kill -9 while twenty people save grades: what was acknowledged is in the ledger, once
(P23, P24).

The kills come after a random number of acknowledged grades. They hit the serving process itself, which a process that
has the code loaded forks off, so that it is back at once. On PostgreSQL every connection is cut as well. Clients resend
what was not acknowledged, as the page does.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import desk_study
import postgres
import pytest
import tiny

from relgrade_assets.desk.sessions import Desk
from relgrade_assets.io import own_work

TOP = Path(__file__).resolve().parents[1]
PEOPLE = tuple(f"p{n:02}" for n in range(20))
SERVER = """
import os, sys
from pathlib import Path
from relgrade_assets.desk.serve import serve
from relgrade_assets.io.home import find_home
home = find_home(Path(sys.argv[1]))
for _ in sys.stdin:
    child = os.fork()
    if not child:
        serve(home, host="127.0.0.1", port=int(sys.argv[2]), url="http://127.0.0.1")
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
"""


@dataclass
class Client:
    """One person who saves grades one after another, each sent until it is acknowledged."""

    person: str
    token: str
    csrf: str
    rows: list[dict[str, object]]
    port: int
    said: dict[tuple[str, str], int] = field(default_factory=dict)
    again: int = 0
    sent: int = 0
    wrong: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        drawn = random.Random(self.person)  # noqa: S311
        n = 0
        while not self.stop.is_set():
            row = self.rows[n % len(self.rows)]
            grade = drawn.randrange(3)
            pair = (str(row["query_id"]), str(row["chunk_id"]))
            p19 = {"query_id": pair[0], "chunk_id": pair[1], "reason": f"{self.person} {n}", "grade": grade}
            body = json.dumps({"row": p19, "row_digest": row["row_digest"], "key": f"{self.person}-{n}"}).encode()
            if not self._send(body):
                return
            self.said[pair] = grade
            n += 1
            self.sent = n

    def _send(self, body: bytes) -> bool:
        """Until it is acknowledged; False where it was asked to stop before."""
        headers = {
            "Content-Type": "application/json",
            "X-Relgrade-CSRF": self.csrf,
            "Cookie": f"desk-tiny={self.token}",
        }
        url = f"http://127.0.0.1:{self.port}/e/tiny/answer"
        while True:
            try:
                asked = urllib.request.Request(url, data=body, headers=headers, method="POST")
                with urllib.request.urlopen(asked, timeout=20) as answer:  # noqa: S310
                    answer.read()
                    return True
            except urllib.error.HTTPError as error:
                if error.code not in (429, 500, 503):
                    self.wrong.append(f"{error.code} {error.read()!r}")
                    return False
            except (OSError, http.client.HTTPException):
                self.again += 1
            if self.stop.wait(0.05):
                return False


class Server:
    """A desk that can be killed and started again."""

    def __init__(self, top: Path, port: int) -> None:
        env = {**os.environ, "PYTHONPATH": str(TOP), "RELGRADE_LEDGER": tiny.home_of(top).ledger_url}
        words = [sys.executable, "-W", "ignore", "-c", SERVER, str(top), str(port)]
        self.port = port
        self.parent = subprocess.Popen(
            words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.start()

    def start(self) -> None:
        """Fork the serving process off, and wait until it answers."""
        assert self.parent.stdin and self.parent.stdout
        self.parent.stdin.write(b"\n")
        self.parent.stdin.flush()
        self.pid = int(self.parent.stdout.readline())
        end = time.monotonic() + 300
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("the desk did not start")

    def kill(self) -> None:
        """kill -9 of the serving process."""
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """The last kill, and the process that forks."""
        with suppress(ProcessLookupError):
            self.kill()
        assert self.parent.stdin and self.parent.stdout
        self.parent.stdin.close()
        self.parent.wait(30)
        self.parent.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.full)])
def test_an_acknowledged_grade_is_never_lost_nor_doubled(
    kills: int, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """P23, under 20 simultaneous clients; a client whose answer was not acknowledged sends it again."""
    ledger = postgres.fresh(request.getfixturevalue("postgres_url")) if database == "postgresql" else None
    top = desk_study.copy("sheets", tmp_path, graders=PEOPLE, ledger=ledger)
    desk = Desk(tiny.home_of(top), url="http://127.0.0.1")
    study = tiny.study_of(top)
    port = free_port()
    clients = []
    for person in PEOPLE:
        sheet = own_work.hand_out(study, person)
        rows = sheet.rows.select("query_id", "chunk_id", "row_digest").to_dicts()
        token = desk_study.link(desk, person).removeprefix("/in/")
        clients.append(Client(person, token, desk.links.bound_to(token, "csrf"), rows, port))
    server = Server(top, port)
    threads = [threading.Thread(target=c.run) for c in clients]
    for thread in threads:
        thread.start()
    drawn = random.Random(kills)  # noqa: S311
    cuts = 0
    try:
        for _ in range(kills):
            due, end = sum(c.sent for c in clients) + drawn.randrange(30), time.monotonic() + 60
            while sum(c.sent for c in clients) < due and time.monotonic() < end:
                time.sleep(0.005)
            time.sleep(drawn.uniform(0, 0.3))
            if ledger is not None:
                cuts += postgres.cut(ledger)
                time.sleep(drawn.uniform(0, 0.5))
            server.kill()
            server.start()
        time.sleep(1.0)
        for client in clients:
            client.stop.set()
        for thread in threads:
            thread.join(60)
    finally:
        server.end()
    assert [c.wrong for c in clients if c.wrong] == []
    written = study.ledger.read(
        lambda c: c.exec_driver_sql(
            "SELECT grader, query_id, chunk_id, grade, reason, source FROM answers ORDER BY grader, id"
        ).fetchall()
    )
    sources = [(r[0], r[5]) for r in written]
    assert len(sources) == len(set(sources)), "an attempt is written once"
    kept = study.ledger.answers("tiny", 1, list(PEOPLE))
    acknowledged = 0
    for client in clients:
        own = {(r["query_id"], r["chunk_id"]): r for r in kept.to_dicts() if r["grader"] == client.person}
        order = [r for r in written if r[0] == client.person]
        # At most the last answer may be in the ledger without having been acknowledged.
        numbers = [int(r[4].split()[1]) for r in order]
        assert numbers == list(range(len(numbers))), "every answer, in the order given, once"
        acknowledged += len(client.said)
        unsure = (order[-1][1], order[-1][2])
        for pair, grade in client.said.items():
            assert pair == unsure or own[pair]["grade"] == grade
        assert set(own) >= set(client.said)
    assert acknowledged >= len(PEOPLE) and sum(c.again for c in clients) > 0, "the kills were felt"
    print(
        f"{database}: {kills} kills, {cuts} connections cut, {len(clients)} clients, {len(written)} answers in the "
        f"ledger, {sum(c.again for c in clients)} sent again, none lost, none doubled"
    )
