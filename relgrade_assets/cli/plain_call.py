"""Calls a command without the command line's library where the words are plain, since running that loads pydantic.

The command's own declaration (typer's annotations) is read, so there is one list of options. Help, mistakes and
anything unusual give None: the library then says what it says everywhere.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo


def plain_arguments(command: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """The command's keyword arguments from `words`, or None where only the library can tell."""
    flags: dict[str, tuple[str, Any]] = {}
    positional: list[tuple[str, Any]] = []
    infos: dict[str, OptionInfo] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        kind, info = get_args(hint)[:2]
        if isinstance(info, ArgumentInfo):
            positional.append((name, kind))
        elif isinstance(info, OptionInfo):
            infos[name] = info
            declared = [info.default, *(info.param_decls or ())]
            flags |= {flag: (name, kind) for flag in declared if isinstance(flag, str) and flag.startswith("-")}
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


def _value(kind: Any, text: str, info: OptionInfo) -> Any:
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
