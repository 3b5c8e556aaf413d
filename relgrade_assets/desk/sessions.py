"""Who is asking: cookies that hold a link's token, what may be asked in which role, and how often.

A session is a link that was opened; it keeps nothing on the server, so that a restart ends nobody's work. Whoever may
not see a page is told that there is none.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from relgrade_assets.errors import NotThere, Refused
from relgrade_assets.io.home import Home
from relgrade_assets.io.links import Links, Pass, Role, role_of
from relgrade_assets.io.study import Clock, Study, open_study, utc_now
from relgrade_assets.protocol.design import NAME

CSRF_HEADER = "x-relgrade-csrf"
ASKED_A_SECOND, ASKED_AT_ONCE = 20.0, 120
TRIED_A_SECOND, TRIED_AT_ONCE = 0.2, 10
"""How often one session may ask, and one address may try links that open nothing."""
_BUCKETS_AT_MOST = 10_000


class NoSuchPage(Exception):
    """There is nothing here for whoever asks."""


class TooMany(Exception):
    """Asked too often; try again in a second."""


class Forged(Exception):
    """A change that was not asked for by a page of ours."""


@dataclass(frozen=True, slots=True)
class Session:
    """An opened link, and the secret that its pages send back with every change."""

    held: Pass
    csrf: str
    token_digest: str


class Buckets:
    """A token bucket a name: `rate` a second, `burst` at once."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, name: str) -> bool:
        """Whether one more is allowed now; it then counts."""
        with self._lock:
            now = self._clock()
            left, then = self._left.pop(name, (float(self._burst), now))
            left = min(float(self._burst), left + (now - then) * self._rate)
            if len(self._left) >= _BUCKETS_AT_MOST:
                self._left.pop(next(iter(self._left)))
            self._left[name] = (left - 1 if left >= 1 else left, now)
            return left >= 1


class Desk:
    """What every request needs: the home, the links, the address under which people reach the desk, and the clock."""

    def __init__(self, home: Home, *, url: str, clock: Clock = utc_now) -> None:
        self.home = home
        self.url = url.rstrip("/")
        self.clock = clock
        self.links = Links(home)
        self.secure = urlsplit(url).scheme == "https"
        self._asked = Buckets(ASKED_A_SECOND, ASKED_AT_ONCE)
        self._tried = Buckets(TRIED_A_SECOND, TRIED_AT_ONCE)

    def enter(self, token: str, address: str) -> Session:
        """The session that a link opens. Raises NoSuchPage where it opens nothing, TooMany where tried often."""
        found = self._session(token)
        if found is None:
            if not self._tried.take(address):
                raise TooMany
            raise NoSuchPage
        return found

    def sessions(self, request: Request) -> list[Session]:
        """Every session whose cookie came, by experiment."""
        names = sorted(n for n in request.cookies if n.startswith(self._cookie("")))
        found = [self._session(request.cookies[n], n.removeprefix(self._cookie(""))) for n in names[:20]]
        return [s for s in found if s is not None]

    def session(self, request: Request, experiment: str, roles: Collection[Role]) -> Session:
        """The session for an experiment in one of `roles`. Raises NoSuchPage for anybody else."""
        if not NAME.fullmatch(experiment):
            raise NoSuchPage
        found = self._session(request.cookies.get(self._cookie(experiment), ""), experiment)
        if found is None or found.held.role not in roles:
            raise NoSuchPage
        if not self._asked.take(found.token_digest):
            raise TooMany
        return found

    def require_own_page(self, request: Request, session: Session) -> None:
        """A change comes from a page of ours: its secret, our origin, JSON. Raises Forged."""
        given = request.headers.get(CSRF_HEADER, "")
        origin = request.headers.get("origin")
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        ours = origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
        if not hmac.compare_digest(given.encode(), session.csrf.encode()) or not ours or kind != "application/json":
            raise Forged

    def give_cookie(self, response: Response, session: Session, token: str) -> None:
        """Let the browser hold the session until the link ends."""
        response.set_cookie(
            self._cookie(session.held.experiment),
            token,
            max_age=max(0, session.held.expires - int(self.clock().timestamp())),
            path="/",
            secure=self.secure,
            httponly=True,
            samesite="strict",
        )

    def study(self, session: Session) -> Study:
        """The study as it stands now. Raises as `open_study` does."""
        return open_study(self.home, session.held.experiment, clock=self.clock)

    def _cookie(self, experiment: str) -> str:
        return f"{'__Host-' if self.secure else ''}desk-{experiment}"

    def _session(self, token: str, experiment: str | None = None) -> Session | None:
        held = self.links.open(token, at=self.clock()) if token else None
        if held is None or experiment not in (None, held.experiment):
            return None
        try:
            design = open_study(self.home, held.experiment, clock=self.clock).design
            role_of(design, held.person, held.role)
        except (Refused, NotThere):
            return None
        return Session(held, self.links.bound_to(token, "csrf"), hashlib.sha256(token.encode()).hexdigest()[:12])
