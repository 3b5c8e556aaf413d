"""Commands for the desk: serving it, and the links by which people enter."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import typer

from relgrade_assets.cli.app import Name, app, home, say
from relgrade_assets.desk import serve
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.home import DESK_URL
from relgrade_assets.io.links import ROLES, Links, role_of
from relgrade_assets.io.study import open_study, utc_now

_ADDRESS = "Where people reach the desk; https unless it is this machine alone."


class AsRole(StrEnum):
    """Roles at the desk."""

    grader = "grader"
    auditor = "auditor"
    owner = "owner"


@app.command()
def desk(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on.", min=1, max=65535)] = serve.PORT,
    url: Annotated[str, typer.Option("--url", help=_ADDRESS + " This machine where not given.")] = "",
) -> None:
    """Serve the pages on which people grade, review and decide, until stopped (P24)."""
    address = url or f"http://{f'[{host}]' if ':' in host else host}:{port}"
    serve.require_safe(host, address)
    say(f"The desk is at {address}. Links: `relgrade desk-link NAME --person PERSON`. Stop it with Ctrl-C.")
    serve.serve(home(), host=host, port=port, url=address)


@app.command("desk-link")
def desk_link(
    name: Name,
    person: Annotated[str, typer.Option("--person", help="A grader of the design, the auditor, or the owner's name.")],
    role: Annotated[
        AsRole | None, typer.Option("--role", help="As the design says where not given; the owner needs it.")
    ] = None,
    days: Annotated[int, typer.Option("--days", help="How long the link holds.")] = 14,
    url: Annotated[str, typer.Option("--url", help=_ADDRESS)] = DESK_URL,
    revoke: Annotated[bool, typer.Option("--revoke", help="End every link of this person instead.")] = False,
) -> None:
    """Make a person's link to the desk, or end all links of that person."""
    study = open_study(home(), name)
    if revoke:
        Links(home()).revoke(name, person)
        say(f"Every link of {person} to {name} has ended.")
        return
    if urlsplit(url).scheme not in ("http", "https"):
        raise Refused("The desk's address can't be used", [Fault("--url", repr(url), "https://host")])
    held = role_of(study.design, person, None if role is None else ROLES[list(AsRole).index(role)])
    token = Links(home()).issue(name, person, held, at=utc_now(), days=days)
    say(f"{url.rstrip('/')}/in/{token}")
