"""The rules of the house as programs: imports, start-up, what a tracked file may say, and pinned releases."""

from __future__ import annotations

import ast
import configparser
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).resolve().parents[1]
PACKAGE = TOP / "relgrade_assets"
HEAVY = ("dagster", "pandera", "pydantic", "sqlalchemy", "alembic", "relgrade_assets.schemas")
FAST = (
    "errors",
    "methods.measures",
    "methods.ranking",
    "methods.measure_names",
    "io.text",
    "io.readers",
    "methods.hits",
    "methods.formulas",
    "methods.kept_rows",
    "methods.id_words",
    "io.scoring",
    "cli.score",
    "cli.plain_call",
    "cli.main",
)
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "core", "misc"}
LONGEST_MODULE = 450
LONGEST_TEST_MODULE = 800  # a table of cases is read by the row
LONGER = {"relgrade_assets/schemas.py": 700}  # the whole data model on one page, a few lines a table
IMPURE = {"open", "print", "input", "now", "today", "utcnow"}
MACHINE = re.compile(r"(^|[^a-z])/(work|root)/|(^|[^a-z.])/home/[a-z]|\.pyenv/|(registry = |\"resolved\": )[\"]http")
INDEX_HOST = re.compile(r"pypi\.org|pythonhosted\.org|registry\.npmjs|deb\.debian\.org|(extra-)?index[-]url")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [TOP / name for name in listed.stdout.split("\0") if name and (TOP / name).is_file()]


def test_import_contracts_are_kept() -> None:
    ran = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--config", "setup.cfg", "--no-cache"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_layers_name_every_part_of_the_package() -> None:
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    layers = config["importlinter:contract:layers"]["layers"]
    named = {word for word in re.findall(r"\w+", layers)}
    there = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert there - {"__init__", "__main__"} == named


@pytest.mark.parametrize("module", FAST)
def test_fast_path_starts_without_the_heavy_packages(module: str) -> None:
    code = f"import sys, json, relgrade_assets.{module}\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == []


def test_methods_open_nothing_and_ask_no_clock() -> None:
    """The import contract can't see builtins, or Polars' own readers and writers."""
    found = []
    for path in sorted((PACKAGE / "methods").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in IMPURE or name.startswith(("scan_", "read_", "sink_")):
                found.append(f"{path.relative_to(TOP)}:{node.lineno} calls {name}")
    assert found == []


def test_no_module_is_named_for_nothing_or_too_long() -> None:
    found = []
    for path in tracked():
        if path.suffix != ".py":
            continue
        if BANNED_NAMES & {part.removesuffix(".py") for part in path.relative_to(TOP).parts}:
            found.append(f"{path.relative_to(TOP)}: a name that says nothing")
        lines = len(path.read_text("utf-8").splitlines())
        most = LONGEST_TEST_MODULE if path.name.startswith("test_") else LONGEST_MODULE
        most = LONGER.get(path.relative_to(TOP).as_posix(), most)
        if lines > most:
            found.append(f"{path.relative_to(TOP)}: {lines} lines, more than {most}")
    assert found == []


def test_every_module_says_what_belongs_in_it() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if tree.body and not ast.get_docstring(tree) and "migrations" not in path.parts:
            found.append(str(path.relative_to(TOP)))
    assert found == []


def test_no_tracked_file_names_a_machine_or_a_package_index() -> None:
    found = []
    for path in tracked():
        if path == Path(__file__).resolve() or b"\0" in path.read_bytes()[:8192]:
            continue
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if (hit := MACHINE.search(line) or INDEX_HOST.search(line)) is not None:
                found.append(f"{path.relative_to(TOP)}:{number}: {hit.group()!r}")
    assert found[:20] == []


def pins() -> dict[str, str]:
    given = {}
    for line in (TOP / "constraints.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            (one,) = requirement.specifier
            assert one.operator == "==" and requirement.url is None and not requirement.marker, line
            given[canonicalize_name(requirement.name)] = one.version
    return given


def test_every_installed_distribution_is_pinned() -> None:
    there = {canonicalize_name(d.metadata["Name"]): d.version for d in importlib.metadata.distributions()}
    there.pop("relgrade", None)
    given = pins()
    assert {name: version for name, version in there.items() if given.get(name) != version} == {}


def test_every_declared_requirement_is_pinned_inside_its_bounds_and_told_in_the_docs() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    given = pins()
    docs = (TOP / "docs" / "dependencies.md").read_text("utf-8")
    for text in wanted:
        requirement = Requirement(text)
        assert given[canonicalize_name(requirement.name)] in requirement.specifier, text
        assert f"| {requirement.name} |" in docs, f"docs/dependencies.md has no row for {requirement.name}"


def test_nothing_that_ships_is_strong_copyleft() -> None:
    """The run-time requirements and all they need; a test oracle (krippendorff) may be GPL, since it never ships."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    left = [Requirement(r) for r in [*project["dependencies"], *project["optional-dependencies"]["demo"]]]
    seen: set[tuple[str, frozenset[str]]] = set()
    strong = {}
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        mark = (name, frozenset(requirement.extras))
        if mark in seen:
            continue
        seen.add(mark)
        about = importlib.metadata.metadata(name)
        terms = [about.get("License-Expression") or "", (about.get("License") or "").splitlines()[:1]]
        words = " ".join(map(str, terms + [c for c in about.get_all("Classifier") or [] if c.startswith("License")]))
        if re.search(r"(?<![L])GPL|GNU (Affero )?General Public|AGPL|SSPL|BUSL", words):
            strong[name] = words
        for text in importlib.metadata.requires(name) or []:
            inner = Requirement(text)
            extras = ("", *requirement.extras)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                left.append(inner)
    assert strong == {}
    assert len(seen) > 50
