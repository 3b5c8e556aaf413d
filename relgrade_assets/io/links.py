"""Links by which people enter the desk (P24): signed, expiring, revocable; who may hold which role in which study.

A link keeps nothing on the server but the key that signs and, for each person of an experiment, which generation of
links still holds. Cookies and pages are the desk's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.atomic import locked, write_bytes
from relgrade_assets.io.home import Home
from relgrade_assets.protocol.canonical import canonical_json
from relgrade_assets.protocol.design import NAME, Design

Role = Literal["grader", "auditor", "owner"]
ROLES: tuple[Role, ...] = ("grader", "auditor", "owner")
DAYS_AT_MOST = 90
DAY_SECONDS = 86_400
TOKEN_AT_MOST = 600
_LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Pass:
    """What a link opens: one experiment, for one person in one role, until a time (seconds of the epoch)."""

    experiment: str
    person: str
    role: Role
    expires: int
    generation: int


class Links:
    """The links of one home. Makes the signing key (mode 600) when the first link is signed or asked about."""

    def __init__(self, home: Home) -> None:
        """Read or make the key."""
        self._folder = home.state / "desk"
        self._key = _key(self._folder)

    def issue(self, experiment: str, person: str, role: Role, *, at: datetime, days: int) -> str:
        """A new link's token. Raises Refused for a number of days outside 1 to 90."""
        if not 1 <= days <= DAYS_AT_MOST:
            raise Refused("A link holds for a few days", [Fault("--days", str(days), f"1 to {DAYS_AT_MOST}")])
        until = int((at + timedelta(days=days)).timestamp())
        body = [experiment, person, role, until, self._generation(experiment, person)]
        payload = canonical_json(body)
        return f"{_text(payload)}.{_text(self._mac(b'link', payload))}"

    def open(self, token: str, *, at: datetime) -> Pass | None:
        """What a token opens now; None where it is forged, expired or revoked, without saying which."""
        if len(token) > TOKEN_AT_MOST:
            return None
        payload, _, signature = token.partition(".")
        try:
            body, given = _bytes(payload), _bytes(signature)
        except ValueError:
            return None
        if not hmac.compare_digest(given, self._mac(b"link", body)):
            return None
        experiment, person, role, until, generation = json.loads(body)
        found = Pass(experiment, person, role, until, generation)
        left = until - at.timestamp()
        # One that ends later than any that could be issued now was issued while the clock was wrong.
        if not 0 < left <= (DAYS_AT_MOST + 1) * DAY_SECONDS or generation != self._generation(experiment, person):
            return None
        return found

    def revoke(self, experiment: str, person: str) -> None:
        """End every link that this person has to this experiment; sessions opened by them end too."""
        with locked(self._folder / "links.lock", wait_seconds=_LOCK_SECONDS):
            known = self._generations()
            name = f"{experiment}/{person}"
            known[name] = known.get(name, 0) + 1
            write_bytes(self._folder / "generations.json", json.dumps(known, indent=1, sort_keys=True).encode())

    def bound_to(self, token: str, purpose: str) -> str:
        """A secret that only this server can make from a token, such as a page's CSRF token."""
        return self._mac(purpose.encode(), token.encode()).hex()[:40]

    def _mac(self, purpose: bytes, message: bytes) -> bytes:
        return hmac.new(self._key, purpose + b"\0" + message, hashlib.sha256).digest()

    def _generation(self, experiment: str, person: str) -> int:
        return self._generations().get(f"{experiment}/{person}", 0)

    def _generations(self) -> dict[str, int]:
        path = self._folder / "generations.json"
        try:
            return {str(name): int(n) for name, n in json.loads(path.read_bytes()).items()}
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError) as error:
            raise Refused(
                "The list of revoked links can't be read, so no link is honoured",
                [Fault("desk/generations.json in the state folder", "something else", "JSON of names and numbers")],
            ) from error


def role_of(design: Design, person: str, role: Role | None) -> Role:
    """The role in which a person enters; the design's where `role` is None. Raises Refused where the design says
    otherwise: graders and auditor are people it names, and the owner is none of them (P30).
    """
    if not NAME.fullmatch(person):
        raise Refused("A person has a short name", [Fault("--person", repr(person), "small letters, digits, - and _")])
    held: Role = "owner"
    kind = "human"
    for grader in design.graders:
        if grader.name == person:
            held, kind = "grader", grader.kind
    if design.auditor.name == person:
        held, kind = "auditor", design.auditor.kind
    if kind != "human":
        raise Refused("The desk is for people", [Fault("--person", f"{person}, of kind {kind}", "kind: human")])
    if role is None and held == "owner":
        there = ", ".join([*design.key_graders, design.auditor.name])
        raise Refused(
            f"{design.name} has no grader {person!r}",
            [Fault("--person", repr(person), f"one of: {there}", "The study's owner needs --role owner.")],
        )
    if role is not None and role != held:
        expected = f"--role {held}" if held != "owner" else "--role owner, or somebody whom the design names"
        raise Refused(f"{person} can't enter as {role}", [Fault("--role", role, expected)])
    return held


def _key(folder: Path) -> bytes:
    path = folder / "key"
    with locked(folder / "links.lock", wait_seconds=_LOCK_SECONDS):
        if not path.is_file():
            write_bytes(path, secrets.token_hex(32).encode())
            path.chmod(0o600)
    return path.read_bytes()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
