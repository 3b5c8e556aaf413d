"""The line on a report that says how its key stands, and its exchange for what is so now (P33, P35)."""

from __future__ import annotations

import re

from markupsafe import Markup

from relgrade_assets.io.standing import Standing

_STANDING = re.compile(rb"<!-- standing -->.*?<!-- /standing -->", re.DOTALL)


def banner(standing: Standing | None) -> bytes:
    """The banner between its marks; nothing between them where the key is valid, or there is none."""
    said = standing.banner if standing else ""
    box = Markup('<p class="banner {}" role="alert">{}</p>').format(standing.status if standing else "", said)
    return f"<!-- standing -->{box if said else ''}<!-- /standing -->".encode()


def with_standing(page: bytes, standing: Standing | None) -> bytes:
    """A page of ours with the banner of how its key stands now."""
    return _STANDING.sub(lambda _: banner(standing), page, count=1)
