"""How fast a person grades, and how long the rest will take (P24). Nothing of what they answered comes in here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

PAUSE_SECONDS = 300
"""Answers further apart than this have a break between them, which is no part of the pace."""
ENOUGH = 5
"""Gaps before a pace is told."""


def seconds_each(answered: Sequence[datetime], *, last: int = 100) -> float | None:
    """Median seconds between one answer and the next, over the `last` gaps without a pause; None where there are fewer
    than ENOUGH.
    """
    ordered = sorted(answered)
    gaps = [(b - a).total_seconds() for a, b in pairwise(ordered)]
    steady = [g for g in gaps if g <= PAUSE_SECONDS][-last:]
    return median(steady) if len(steady) >= ENOUGH else None


def in_words(seconds: float) -> str:
    """A duration as people say it: `under a minute`, `12 min`, `3 h 20 min`."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "under a minute"
    hours, rest = divmod(minutes, 60)
    return f"{rest} min" if not hours else f"{hours} h" if not rest else f"{hours} h {rest} min"
