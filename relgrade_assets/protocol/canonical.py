"""Canonical bytes and digests (P2, P10, P33): the one way this project turns values into hashes.

Standard library only. Anything that must be equal on every machine and Python version is hashed through here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable


def canonical_json(value: object) -> bytes:
    """UTF-8 JSON with sorted keys, no blanks and nothing escaped that need not be. Floats as Python's shortest repr;
    NaN refused.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: object) -> str:
    """Hex sha256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """Hex sha256 of raw bytes."""
    return hashlib.sha256(data).hexdigest()


def hash_key(purpose: str, seed: str, *parts: str) -> str:
    """P10's hash key: hex sha256 of the canonical JSON array of strings [purpose, seed, ...]; compare as hex text."""
    return digest([purpose, seed, *parts])


def keyed_id(prefix: str, secret: str, text: str) -> str:
    """P7's query id: `prefix` and 12 hex digits of HMAC-sha256(secret, text)."""
    return prefix + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()[:12]


def combined(digests: Iterable[tuple[str, str]]) -> str:
    """One digest of named digests, whatever order they come in."""
    return digest({name: value for name, value in digests})
