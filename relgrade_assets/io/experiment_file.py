"""Reading `experiment.yaml`: every fault of it at once, each with its line and key (P1, P3).

YAML is loaded safe, keys may stand once, and what the model says of a value is turned into words here.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.protocol.design import Design
from relgrade_assets.protocol.deviations import MEANING

_AT_MOST_BYTES = 1_000_000

Lines = dict[tuple[str, ...], int]


def read_design(path: Path, *, name: str, folder_name: str) -> Design:
    """The checked design in the file at `path`, called `name` in messages.

    Raises Refused with every fault: unreadable YAML, unknown or repeated keys, wrong types, values out of range,
    shares that do not sum to 1,
    undeclared deviations, a name that is not the folder's.
    """
    text = _text(path, name)
    value, lines = _parse(text, name)
    faults = _repeated(text, name)
    try:
        design = Design.model_validate(value)
    except ValidationError as error:
        faults += _told(error, lines, name)
        faults += _between_sound_parts(value, error, lines, name)
        raise Refused(f"{name} is no experiment that relgrade can run", faults) from None
    if design.name != folder_name:
        faults.append(
            Fault(
                _at(name, lines, ("name",)),
                repr(design.name),
                f"the folder's name {folder_name!r}",
                "Rename one of the two.",
            )
        )
    if faults:
        raise Refused(f"{name} is no experiment that relgrade can run", faults)
    return design


def _text(path: Path, name: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refused(f"{name} can't be read", [Fault(name, error.strerror or "an error", "a readable file")]) from None
    if len(data) > _AT_MOST_BYTES:
        raise Refused(f"{name} can't be read", [Fault(name, f"{len(data):,} bytes", f"at most {_AT_MOST_BYTES:,}")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Refused(
            f"{name} can't be read",
            [Fault(f"{name}, line {line}", f"the byte 0x{data[error.start]:02x}", "UTF-8 text")],
        ) from None
    if not text.strip():
        raise Refused(
            f"{name} is empty",
            [Fault(name, "no text", "the design of an experiment", "`relgrade init NAME` makes one.")],
        )
    return text


def _parse(text: str, name: str) -> tuple[dict[str, Any], Lines]:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}, line {mark.line + 1}" if mark else name
        raise Refused(
            f"{name} is not YAML", [Fault(where, getattr(error, "problem", None) or "unreadable text", "YAML")]
        ) from None
    except (ValueError, RecursionError):
        raise Refused(f"{name} is not YAML", [Fault(name, "a value that YAML can't hold", "YAML")]) from None
    if not isinstance(value, dict) or node is None:
        raise Refused(f"{name} is no experiment", [Fault(name, f"a {type(value).__name__}", "keys and values")])
    lines: Lines = {}
    _walk(node, (), lines)
    return value, lines


def _walk(node: yaml.Node, at: tuple[str, ...], lines: Lines) -> None:
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            lines[(*at, str(key.value))] = key.start_mark.line + 1
            _walk(child, (*at, str(key.value)), lines)
    elif isinstance(node, yaml.SequenceNode):
        for i, child in enumerate(node.value):
            _walk(child, (*at, str(i)), lines)


def _repeated(text: str, name: str) -> list[Fault]:
    faults: list[Fault] = []

    def look(node: yaml.Node) -> None:
        if isinstance(node, yaml.MappingNode):
            first: dict[str, int] = {}
            for key, child in node.value:
                line = key.start_mark.line + 1
                if key.value in first:
                    faults.append(
                        Fault(
                            f"{name}, line {line}, key {key.value}",
                            "a key that already stands",
                            f"it once (line {first[key.value]})",
                            "Remove one.",
                        )
                    )
                first.setdefault(key.value, line)
                look(child)
        elif isinstance(node, yaml.SequenceNode):
            for child in node.value:
                look(child)

    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is not None:
        look(node)
    return faults


def _told(error: ValidationError, lines: Lines, name: str) -> list[Fault]:
    raw = [dict(e) for e in error.errors()]
    return [fault for one in raw if not _echo(one) for fault in _faults(one, lines, name)]


def _echo(raw: dict[str, Any]) -> bool:
    """A list that pydantic calls too short only because its items have faults of their own."""
    return raw["type"] == "too_short" and bool(raw["input"])


def _between_sound_parts(value: dict[str, Any], error: ValidationError, lines: Lines, name: str) -> list[Fault]:
    """Faults that two sound parts make together, though other parts have faults of their own (P1: all at once)."""
    bad = {str(e["loc"][0]) for e in error.errors() if e["loc"]}
    if not bad:
        return []
    filled = {k: v for k, v in value.items() if k not in bad} | {k: v for k, v in _SOUND.items() if k in bad}
    try:
        Design.model_validate(filled)
    except ValidationError as second:
        found = [fault for raw in second.errors() for fault in _faults(dict(raw), lines, name)]
        return [f for f in found if f.where.rpartition("key ")[2].split(".")[0] not in bad]
    return []


_SOUND: dict[str, Any] = {
    "relgrade": 1,
    "name": "x",
    "title": "x",
    "seed": "x",
    "scale": "0-2",
    "query_log": {"file": "x", "columns": {"type": "type"}},
    "strata": {"parts": [{"name": "all", "target": 1, "tiers": ["head", "torso", "tail"]}]},
    "corpus": {"path": "x"},
    "arms": [{"name": "x1", "family": "x1", "run": "x"}, {"name": "x2", "family": "x2", "run": "x"}],
    "intents": {"file": "x"},
    "graders": [{"name": "x3", "family": "x3"}],
    "auditor": {"name": "x4", "family": "x4"},
    "deviations": [{"code": code, "reason": "stands in for a faulty part"} for code in MEANING],
}
"""A sound value for each part, put in place of a faulty one while the others are compared."""


def _faults(raw: dict[str, Any], lines: Lines, name: str) -> list[Fault]:
    loc = tuple(str(x) for x in raw["loc"] if not (isinstance(x, str) and ("[" in x or x == "constrained-float")))
    where = _at(name, lines, loc)
    message: str = raw["msg"].removeprefix("Value error, ")
    if raw["type"] == "value_error":
        pairs = [line.rpartition("\t")[::2] for line in message.split("\n")]
        return [Fault(_at(name, lines, (*loc, *(key.split(".") if key else ()))), text) for key, text in pairs]
    if raw["type"] == "extra_forbidden":
        near = get_close_matches(loc[-1], _keys_at(loc[:-1]), n=1)
        return [
            Fault(
                where,
                "a key that relgrade does not know",
                "only known keys",
                f"Did you mean {near[0]!r}?" if near else "",
            )
        ]
    if raw["type"] == "missing":
        return [Fault(where, "no such key", "it to be there", f"Add {loc[-1]!r}.")]
    return [Fault(where, _shown(raw["input"]), message[0].lower() + message[1:])]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _at(name: str, lines: Lines, loc: tuple[str, ...]) -> str:
    line = next((lines[loc[:n]] for n in range(len(loc), -1, -1) if loc[:n] in lines), 1)
    return f"{name}, line {line}, key {'.'.join(loc)}" if loc else f"{name}, line {line}"


def _keys_at(loc: tuple[str, ...]) -> list[str]:
    """Keys that the model knows at a place."""
    model: Any = Design
    for part in loc:
        if part.isdigit():
            continue
        field = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        if field is None:
            return []
        model = next((a for a in _leaves(field.annotation) if isinstance(a, type) and issubclass(a, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)


def _leaves(annotation: Any) -> list[Any]:
    args = getattr(annotation, "__args__", ())
    return [leaf for a in args for leaf in _leaves(a)] if args else [annotation]
