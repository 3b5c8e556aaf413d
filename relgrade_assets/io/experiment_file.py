"""Reading `experiment.yaml`: every fault of it at once, each with its line and key (P1, P3).

What the model says of a value is turned into words here; how YAML is read is `strict_yaml.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.strict_yaml import Lines, read_mapping
from relgrade_assets.methods.measure_names import parse_all
from relgrade_assets.protocol.design import Design
from relgrade_assets.protocol.deviations import MEANING

_AT_MOST_BYTES = 200_000
_AT_MOST_TOLD = 100
_NAME_FORM = "small letters, digits, - and _, at most 63, beginning with a letter or digit"


def read_design(path: Path, *, name: str, folder_name: str) -> Design:
    """The checked design in the file at `path`, called `name` in messages.

    Raises Refused with every fault: unreadable YAML, unknown or repeated keys, wrong types, values out of range, shares
    that do not sum to 1, queries that nobody grades, undeclared deviations, measures that there are not, a name that is
    not the folder's.
    """
    return _checked(_text(path, name), name, folder_name)


@lru_cache(maxsize=64)
def _checked(text: str, name: str, folder_name: str) -> Design:
    """The design in `text`; checked once a process, since every step of a run opens its study anew."""
    read = read_mapping(text, name)
    faults = list(read.repeated)
    hidden = 0
    design = None
    try:
        design = Design.model_validate(read.value)
    except ValidationError as error:
        faults += _every_fault(read.value, error, read.lines, name)
        hidden = max(0, error.error_count() - _AT_MOST_TOLD)
    faults += _of_measures(read.value, read.lines, name) + _of_name(read.value, folder_name, read.lines, name)
    if faults or design is None:
        raise Refused(f"{name} is no experiment that relgrade can run", faults, total=len(faults) + hidden)
    return design


def read_sound_parts(path: Path, *, name: str) -> tuple[Design, frozenset[str]] | None:
    """Of a design that has faults: one that takes over every part that is sound, and the names of those parts (with
    those left at their default). For looking at the files it names although it can't be run; None where it is no YAML.
    """
    try:
        value = read_mapping(_text(path, name), name).value
    except Refused:
        return None
    held = deepcopy(_SOUND)
    own = {part for part in Design.model_fields if part not in value and part not in _SOUND}
    for part in Design.model_fields:
        given = value.get(part)
        if part == "arms" and isinstance(given, list):
            given = _sound_arms(given, held)
        if part in value and part != "deviations" and _is_sound({**held, part: given}):
            held[part] = given
            own.add(part)
    listed = value.get("deviations")
    declared = {d.get("code") for d in listed if isinstance(d, dict)} if isinstance(listed, list) else set()
    held["deviations"] = [d for d in held["deviations"] if d["code"] in declared or d["code"] not in _OF_DATA]
    return Design.model_validate(held), frozenset(own)


def _sound_arms(given: list[Any], held: dict[str, Any]) -> list[Any]:
    arms: list[Any] = []
    for arm in given:
        if _is_sound({**held, "arms": [*arms, arm]}):
            arms.append(arm)
    return arms


def _is_sound(value: dict[str, Any]) -> bool:
    try:
        Design.model_validate(value)
    except ValidationError:
        return False
    return True


def _text(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_AT_MOST_BYTES + 1)
    except OSError as error:
        raise Refused(f"{name} can't be read", [Fault(name, error.strerror or "an error", "a readable file")]) from None
    if len(data) > _AT_MOST_BYTES:
        raise Refused(f"{name} can't be read", [Fault(name, "more", f"at most {_AT_MOST_BYTES:,} bytes")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"{name}, line {error.object[: error.start].count(10) + 1}"
        found = f"the byte 0x{error.object[error.start]:02x}"
        raise Refused(f"{name} can't be read", [Fault(where, found, "UTF-8 text")]) from None
    if not text.strip():
        mend = "`relgrade init NAME` makes one."
        raise Refused(f"{name} is empty", [Fault(name, "no text", "the design of an experiment", mend)])
    return text


def _of_name(value: dict[Any, Any], folder_name: str, lines: Lines, name: str) -> list[Fault]:
    given = value.get("name")
    if not isinstance(given, str) or given == folder_name:
        return []
    return [
        Fault(_at(name, lines, ("name",)), repr(given), f"the folder's name {folder_name!r}", "Rename one of the two.")
    ]


def _of_measures(value: dict[Any, Any], lines: Lines, name: str) -> list[Fault]:
    """Measures that can't be computed (P37), each with its line."""
    given = value.get("measures")
    if not isinstance(given, list) or not all(isinstance(m, str) for m in given):
        return []
    faults = []
    for i, measure in enumerate(given[:_AT_MOST_TOLD]):
        try:
            parse_all([measure])
        except Refused as refused:
            where = _at(name, lines, ("measures", str(i)))
            faults += [Fault(where, f"{f.found}: {measure!r}", f.expected, f.mend) for f in refused.faults]
    if not faults and len(set(given)) == len(given):
        try:
            parse_all(given)
        except Refused as refused:
            where = _at(name, lines, ("measures",))
            faults = [Fault(where, f"{f.where} is {f.found}", f.expected, f.mend) for f in refused.faults]
    return faults


def _every_fault(value: dict[Any, Any], error: ValidationError, lines: Lines, name: str) -> list[Fault]:
    """What pydantic found, and what it did not look for because of that (P1: all at once).

    The faulty places are mended in a copy, a misspelt key by its right spelling and else the whole part by one that is
    sound, until the rest was compared; faults of parts replaced whole are not looked for.
    """
    faults = _told(error, lines, name)
    mended: dict[str, Any] = {k: v for k, v in deepcopy(value).items() if isinstance(k, str)}
    replaced: set[str] = set()
    while any(e["loc"] for e in error.errors(include_url=False)):
        _mend(mended, error, replaced)
        try:
            Design.model_validate(mended)
        except ValidationError as further:
            known = {(f.where, f.found) for f in faults}
            faults += [
                f
                for f in _told(further, lines, name)
                if (f.where, f.found) not in known and f.where.rpartition("key ")[2].split(".")[0] not in replaced
            ]
            error = further
        else:
            break
    return faults


def _told(error: ValidationError, lines: Lines, name: str) -> list[Fault]:
    """Each of pydantic's errors in words; two of one place (a union's) in one fault."""
    held: dict[tuple[str, str], Fault] = {}
    raws = [dict(e) for e in error.errors(include_url=False)[:_AT_MOST_TOLD]]
    renamed = {(_loc(r)[:-1], near) for r in raws if r["type"] == "extra_forbidden" and (near := _near(_loc(r)))}
    for raw in raws:
        if _echo(raw) or (raw["type"] == "missing" and (_loc(raw)[:-1], _loc(raw)[-1]) in renamed):
            continue
        for fault in _faults(raw, lines, name):
            same = held.get((fault.where, fault.found))
            if same is not None and fault.expected:
                fault = Fault(fault.where, fault.found, f"{same.expected} or {fault.expected}", same.mend or fault.mend)
            held[fault.where, fault.found] = fault
    return list(held.values())


def _echo(raw: dict[str, Any]) -> bool:
    """A list that pydantic calls too short only because its items have faults of their own."""
    return raw["type"] == "too_short" and bool(raw["input"])


def _mend(mended: dict[str, Any], error: ValidationError, replaced: set[str]) -> None:
    """Take out what `error` names, unknown keys first; `replaced` grows by the parts that were replaced whole."""
    for raw in sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden"):
        loc = raw["loc"]
        if not loc or loc[0] in replaced or (raw["type"] == "missing" and _holds(mended, loc)):
            continue
        if raw["type"] == "extra_forbidden" and _respelt(mended, loc):
            continue
        part = str(loc[0])
        replaced.add(part)
        mended.pop(part, None)
        mended.update({part: _SOUND[part]} if part in _SOUND else {})
        if part == "measures":
            mended.pop("headline", None)


def _inner(value: Any, loc: tuple[int | str, ...]) -> Any:
    for step in loc:
        if isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _holds(mended: dict[str, Any], loc: tuple[int | str, ...]) -> bool:
    parent = _inner(mended, loc[:-1])
    return isinstance(parent, dict) and loc[-1] in parent


def _respelt(mended: dict[str, Any], loc: tuple[int | str, ...]) -> bool:
    """Take an unknown key out, or put it under the nearest name that is free; False where it was not found."""
    parent = _inner(mended, loc[:-1])
    if not isinstance(parent, dict) or loc[-1] not in parent:
        return False
    held = parent.pop(loc[-1])
    near = _near(tuple(str(x) for x in loc))
    if near:
        parent.setdefault(near, held)
    return True


_SOUND: dict[str, Any] = {
    "relgrade": 1,
    "name": "x",
    "title": "x",
    "seed": "x",
    "scale": "0-2",
    "query_log": {"file": "x", "columns": {"type": "type"}},
    "strata": {"parts": [{"name": "all", "target": 1, "tiers": ["head", "torso", "tail"]}]},
    "corpus": {"path": "x"},
    "arms": [
        {"name": "sound-1", "family": "sound 1", "run": "x"},
        {"name": "sound-2", "family": "sound 2", "run": "x"},
    ],
    "intents": {"file": "x"},
    "graders": [{"name": "sound-3", "family": "sound 3"}],
    "auditor": {"name": "sound-4", "family": "sound 4"},
    "deviations": [{"code": code, "reason": "stands in for a faulty part"} for code in MEANING],
}
"""A sound value for each part, put in place of a faulty one while the others are compared."""

_OF_DATA = ("missing_arm", "unreviewed_intents", "no_calibration")
"""Departures that only data shows: they stand where the file itself declares them."""

_WORDS: Mapping[str, str] = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list, as in [a, b]",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
    "invalid_key": "text as a key",
    "literal_error": "{expected}",
    "string_pattern_mismatch": _NAME_FORM,
    "string_too_short": "at least {min_length} characters",
    "too_short": "at least {min_length} in the list",
    "too_long": "at most {max_length} in the list",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "a number below {lt}",
    "less_than_equal": "{le} or less",
}
"""What pydantic's types of error expect, in words."""


_BRANCHES = ("literal['all']", "constrained-float", "float")


def _loc(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Where an error is, without what pydantic adds to name a union's branches."""
    loc = tuple(str(x) for x in raw["loc"])
    return loc[:-1] if len(loc) > 1 and loc[-1] in _BRANCHES and raw["type"] != "extra_forbidden" else loc


def _faults(raw: Mapping[str, Any], lines: Lines, name: str) -> list[Fault]:
    loc = _loc(raw)
    where = _at(name, lines, loc)
    kind: str = raw["type"]
    message: str = raw["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        pairs = [line.rpartition("\t")[::2] for line in message.split("\n")]
        return [Fault(_at(name, lines, (*loc, *(key.split(".") if key else ()))), text) for key, text in pairs]
    if kind == "extra_forbidden":
        near = _near(loc)
        mend = f"Did you mean {near!r}?" if near else ""
        return [Fault(where, "a key that relgrade does not know", "only known keys", mend)]
    if kind == "missing":
        return [Fault(where, "no such key", "it to be there", f"Add {loc[-1]!r}.")]
    words = _WORDS.get(kind)
    limits = {k: f"{v:g}" if isinstance(v, float) else v for k, v in raw.get("ctx", {}).items()}
    expected = words.format(**limits) if words else message.removeprefix("Input should be ")
    value = raw["input"]
    quotable = kind == "string_type" and isinstance(value, bool | int | float)
    return [Fault(where, _shown(value), expected, "Put it in quotes." if quotable else "")]


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "keys and values"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _at(name: str, lines: Lines, loc: tuple[str, ...]) -> str:
    line = next((lines[loc[:n]] for n in range(len(loc), -1, -1) if loc[:n] in lines), 1)
    key = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in ".".join(loc))
    return f"{name}, line {line}, key {key}" if loc else f"{name}, line {line}"


def _near(loc: tuple[str, ...]) -> str:
    """The known key that an unknown one may stand for, or nothing."""
    return next(iter(get_close_matches(loc[-1][:80], _keys_at(loc[:-1]), n=1)), "")


def _keys_at(loc: tuple[str, ...]) -> list[str]:
    """Keys that the model knows at a place."""
    model: Any = Design
    for part in loc:
        if part.isdigit():
            continue
        field = model.model_fields.get(part)
        model = next((a for a in _leaves(field.annotation) if _is_part(a)), None) if field else None
        if model is None:
            return []
    return list(model.model_fields)


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _leaves(annotation: Any) -> list[Any]:
    args = getattr(annotation, "__args__", ())
    return [leaf for a in args for leaf in _leaves(a)] if args else [annotation]
