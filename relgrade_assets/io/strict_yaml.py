"""YAML read strictly: plain data with the line of every key, nothing guessed and nothing that grows.

What is text and what a number follows YAML 1.2 and JSON, as editors read it: `no`, `1:30`, `010` and `2026-11-01` are
text. Aliases, tags beyond the plain ones and nesting beyond reason are refused. What the keys mean does not
belong here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

from relgrade_assets.errors import Fault, Refused

DEEPEST = 32
"""Levels of nesting; the deepest file that relgrade reads has six."""

_YAML_ORG = "tag:yaml.org,2002:"
_PLAIN = ("str", "int", "float", "bool", "null", "map", "seq")

Lines = dict[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class Mapping:
    """A file's keys and values, the line (from 1) of every key and list item by its path, and keys that stand twice."""

    value: dict[Any, Any]
    lines: Lines
    repeated: tuple[Fault, ...]


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(
                None, None, "an alias (*) of a value elsewhere; write the value out where it is used", mark
            )
        if self.depth >= DEEPEST:
            raise ComposerError(None, None, f"values nested more than {DEEPEST} deep", mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag.removeprefix(_YAML_ORG) not in _PLAIN:
            raise ConstructorError(None, None, f"the tag {node.tag!r}", node.start_mark)
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            # A tag such as !!int over text that is none; a whole number of thousands of digits.
            raise ConstructorError(
                None, None, "a value that can't be what its tag or form says", node.start_mark
            ) from None


for _tag, _form, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
):
    _Loader.add_implicit_resolver(f"{_YAML_ORG}{_tag}", re.compile(rf"^(?:{_form})$"), list(_first))


def read_mapping(text: str, name: str) -> Mapping:
    """The keys and values of a text, called `name` in messages. Raises Refused where it is no YAML, or no mapping."""
    node, value = _document(text, name)
    if not isinstance(value, dict) or node is None:
        raise Refused(f"{name} is no experiment", [_of_kind(node, value, name, "keys and values, as in `name: ...`")])
    lines, repeated = _lines(node, name)
    return Mapping(value, lines, repeated)


def read_list(text: str, name: str) -> tuple[list[Any], Lines]:
    """The items of a text that is a list, and the line of each key and item. Raises Refused where it is no YAML, no
    list, or a key stands twice.
    """
    node, value = _document(text, name)
    if not isinstance(value, list) or node is None:
        raise Refused(f"{name} is no list", [_of_kind(node, value, name, "a list, as in `- ...`")])
    lines, repeated = _lines(node, name)
    if repeated:
        raise Refused(f"{name} can't be used", repeated)
    return value, lines


def _document(text: str, name: str) -> tuple[yaml.Node | None, Any]:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        raise Refused(f"{name} is not YAML that relgrade reads", [_fault(error, text, name)]) from None


def _of_kind(node: yaml.Node | None, value: object, name: str, expected: str) -> Fault:
    kinds = {list: "a list", dict: "keys and values", type(None): "nothing but comments"}
    where = name if node is None else f"{name}, line {node.start_mark.line + 1}"
    return Fault(where, f"{kinds.get(type(value), 'a single value')} at the top", expected)


def _lines(node: yaml.Node, name: str) -> tuple[Lines, tuple[Fault, ...]]:
    lines: Lines = {}
    repeated: list[Fault] = []
    _walk(node, (), name, lines, repeated)
    return lines, tuple(repeated)


def _fault(error: yaml.YAMLError, text: str, name: str) -> Fault:
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Fault(
            f"{name}, line {line}",
            f"the character U+{ord(text[error.position]):04X}",
            "text without control characters",
        )
    mark = getattr(error, "problem_mark", None)
    where = f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name
    problem = str(getattr(error, "problem", None) or "unreadable text")
    problem = problem.removeprefix("but ").removeprefix("found ")
    if "'\\t'" in problem:
        return Fault(where, "a tab", "spaces", "YAML is indented with spaces only.")
    if problem.startswith("the tag "):
        return Fault(where, problem, "plain values", "Remove the tag.")
    if problem.startswith("another document"):
        problem = "a second document (---)"
    return Fault(where, problem, "plain YAML" if isinstance(error, ComposerError | ConstructorError) else "YAML")


def _walk(node: yaml.Node, at: tuple[str, ...], name: str, lines: Lines, repeated: list[Fault]) -> None:
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, child in node.value:
            here, line = (*at, str(key.value)), key.start_mark.line + 1
            if key.value in first:
                found, expected = "a key that already stands", f"it once (line {first[key.value]})"
                repeated.append(Fault(f"{name}, line {line}, key {'.'.join(here)}", found, expected, "Remove one."))
            first.setdefault(key.value, line)
            lines[here] = line
            _walk(child, here, name, lines, repeated)
    elif isinstance(node, yaml.SequenceNode):
        for i, child in enumerate(node.value):
            _walk(child, (*at, str(i)), name, lines, repeated)
