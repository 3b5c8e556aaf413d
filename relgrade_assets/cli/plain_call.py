"""Calls a command without the command line's library where the words are plain, since that takes long to load.

The command's own declaration is read, so there is one list of options: annotations that name typer's Argument and
Option, evaluated here with a stand-in. Help, mistakes and anything unusual give None: the library then says what it
says everywhere.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class _Declared:
    """An argument (no flags) or option as declared."""

    flags: tuple[str, ...]
    min: int | None


class _Typer:
    """What stands in for typer's module."""

    @staticmethod
    def Argument(**about: Any) -> _Declared:
        return _Declared((), None)

    @staticmethod
    def Option(*flags: str, **about: Any) -> _Declared:
        return _Declared(flags, about.get("min"))


def plain_arguments(command: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """The command's keyword arguments from `words`, or None where only the library can tell."""
    flags: dict[str, tuple[str, Any]] = {}
    positional: list[tuple[str, Any]] = []
    infos: dict[str, _Declared] = {}
    for name, hint in get_type_hints(command, localns={"typer": _Typer}, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        kind, info = get_args(hint)[:2]
        if info.flags:
            infos[name] = info
            flags |= {flag: (name, kind) for flag in info.flags}
        else:
            positional.append((name, kind))
    given: dict[str, Any] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "-" or not word.startswith("-"):
            rest.append(word)
            continue
        flag, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if flag not in flags:
            return None
        name, kind = flags[flag]
        if kind is bool:
            if equals:
                return None
            given[name] = True
            continue
        if not equals:
            if not left or left[0].startswith("-"):
                return None
            value = left.pop(0)
        found = _value(kind, value, infos[name])
        if found is None:
            return None
        if isinstance(found, list):
            given[name] = [*given.get(name, []), *found]
        elif name in given:
            return None
        else:
            given[name] = found
    if len(rest) < len(positional) or not positional:
        return None
    for name, kind in positional:
        many = get_origin(kind) is list
        given[name] = rest if many else rest.pop(0)
        rest = [] if many else rest
    return None if rest else given


def _value(kind: Any, text: str, info: _Declared) -> Any:
    """The text as the option's kind; None where it isn't one."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is list:
        return [text]
    if kind is int:
        number = int(text) if text.isascii() and text.isdecimal() else None
        return None if number is None or (info.min is not None and number < info.min) else number
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((member for member in kind if member.value == text), None)
    return Path(text) if kind is Path else text if kind is str else None
