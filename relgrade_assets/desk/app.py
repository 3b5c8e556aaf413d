"""The web application: routes, what every answer carries, and what becomes of errors.

No passage, query, reason or token reaches a log: a line has method, route, status, time and a digest of the session.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relgrade_assets.desk import answers, forms, pages, results
from relgrade_assets.desk.sessions import Desk, Forged, NoSuchPage, TooMany
from relgrade_assets.io.own_work import NotNow

log = logging.getLogger("relgrade.desk")
BODY_AT_MOST = 64 * 1024
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
STATIC = {
    "desk.css": "text/css",
    "icon.svg": "image/svg+xml",
    "text.js": "text/javascript",
    "grade.js": "text/javascript",
    "forms.js": "text/javascript",
}
Work = Callable[[Desk, Request, bytes], Response]


def make_app(desk: Desk) -> Starlette:
    """The application for one desk."""
    hosts = {urlsplit(desk.url).hostname or "", *(h.strip("[]") for h in LOOPBACK)}
    routes = [
        _route("/", pages.work, desk),
        _route("/in/{token}", pages.enter, desk),
        _route("/static/{name}", _static, desk),
        _route("/e/{experiment}/grade", pages.grade, desk),
        _route("/e/{experiment}/rows", answers.rows, desk),
        _route("/e/{experiment}/marks", answers.marks, desk),
        _route("/e/{experiment}/answer", answers.answer, desk, post=True),
        _route("/e/{experiment}/review", pages.review, desk),
        _route("/e/{experiment}/review/row", forms.review, desk, post=True),
        _route("/e/{experiment}/intents", pages.intents, desk),
        _route("/e/{experiment}/intents/row", forms.intent, desk, post=True),
        _route("/e/{experiment}/disagreements", pages.disagreements, desk),
        _route("/e/{experiment}/disagreements/row", forms.cause, desk, post=True),
        _route("/e/{experiment}/report", results.report, desk),
        _route("/e/{experiment}/trace", results.trace, desk),
        _route("/e/{experiment}/spot-check", pages.spot_check, desk),
        _route("/e/{experiment}/spot-check/row", forms.spot, desk, post=True),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={404: _not_found, 405: _not_found},
        middleware=[
            Middleware(_Guard, desk=desk),
            Middleware(TrustedHostMiddleware, allowed_hosts=sorted(h for h in hosts if h), www_redirect=False),
        ],
    )


def _route(path: str, work: Work, desk: Desk, *, post: bool = False) -> Route:
    async def endpoint(request: Request) -> Response:
        request.scope["relgrade_route"] = path
        body = await _body(request) if post else b""
        if body is None:
            return JSONResponse({"code": "too_long", "text": "That is too long.", "faults": []}, 413)
        return await run_in_threadpool(_answered, work, desk, request, body, post)

    return Route(path, endpoint, methods=["POST"] if post else ["GET"])


async def _body(request: Request) -> bytes | None:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_AT_MOST:
            return None
    return body


def _answered(work: Work, desk: Desk, request: Request, body: bytes, post: bool) -> Response:
    """What `work` answers, or what its refusal comes to."""
    try:
        return work(desk, request, body)
    except NoSuchPage:
        return pages.not_found()
    except TooMany:
        return _said(429, "too_many", "That was asked too often. Wait a moment.", headers={"Retry-After": "2"})
    except Forged:
        return _said(403, "forged", "This did not come from a page of the desk. Reload the page.")
    except NotNow as not_now:
        status = 503 if not_now.code == "busy" else 409
        if post or request.url.path.endswith(("/rows", "/marks")):
            return _said(status, not_now.code, not_now.text, not_now.faults)
        return pages.problem(desk, request, not_now.on_page, status)


def _said(
    status: int, code: str, text: str, faults: tuple[str, ...] = (), headers: dict[str, str] | None = None
) -> Response:
    return JSONResponse({"code": code, "text": text, "faults": list(faults)}, status, headers=headers)


async def _not_found(request: Request, error: Exception) -> Response:
    return pages.not_found()


def _static(desk: Desk, request: Request, body: bytes) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise NoSuchPage
    return Response(asset(name), media_type=STATIC[name], headers={"Cache-Control": "no-cache"})


@cache
def asset(name: str) -> bytes:
    """A file of `static/`."""
    return (resources.files("relgrade_assets.desk") / "static" / name).read_bytes()


class _Guard:
    """Outermost: the headers of every answer, one log line a request, and errors that say nothing of their data."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app = app
        self._headers = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
        if desk.secure:
            self._headers.append((b"strict-transport-security", b"max-age=31536000"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {k.lower() for k, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in self._headers if h[0] not in given)]
            await send(message)

        try:
            await _quietly(self._app, scope, receive, guarded)
        finally:
            who = scope.get("relgrade_session", "-")
            took = (time.monotonic() - began) * 1000
            log.info("%s %s %d %.0f ms %s", scope["method"], scope.get("relgrade_route", "-"), status, took, who)


async def _quietly(app: Callable[..., Awaitable[None]], scope: Scope, receive: Receive, send: Send) -> None:
    started = False

    async def seen(message: Message) -> None:
        nonlocal started
        started = True
        await send(message)

    try:
        await app(scope, receive, seen)
    except Exception as error:  # its message may hold a passage, so only its kind and place are told
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = " < ".join(f"{f.filename.rpartition('/')[2]}:{f.lineno} {f.name}" for f in reversed(frames))
        log.error("%s at %s", type(error).__name__, places)
        if not started:
            answer = _said(500, "error", "Something went wrong here. Nothing of yours is lost; try again.")
            await answer(scope, receive, send)
