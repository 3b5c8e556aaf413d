"""Serving the desk with uvicorn on one address, without access log: its lines would hold tokens."""

from __future__ import annotations

import ipaddress
import logging
from urllib.parse import urlsplit

import uvicorn

from relgrade_assets.desk.app import make_app
from relgrade_assets.desk.sessions import Desk
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.home import DESK_PORT, Home

PORT = DESK_PORT


def require_safe(host: str, url: str) -> None:
    """P24: off this machine only behind TLS. Raises Refused where people would reach the desk in the clear."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise Refused("The desk's address can't be used", [Fault("--url", repr(url), "https://host, and no path")])
    if parts.scheme == "http" and not (loopback(host) and loopback(parts.hostname)):
        mend = "Put a server that speaks TLS before it, and give its address: --url https://..."
        raise Refused(
            "Grades and links would cross the network in the clear",
            [Fault("--url and --host", f"{url} on {host}", "https, or this machine alone", mend)],
        )


def loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(home: Home, *, host: str, port: int, url: str) -> None:
    """Serve until stopped."""
    require_safe(host, url)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("relgrade.desk").setLevel(logging.INFO)
    app = make_app(Desk(home, url=url))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
    )
    uvicorn.Server(config).run()
