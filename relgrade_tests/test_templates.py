"""What `relgrade init` copies: a design that validates as it is and says every default truly, four rubrics with all
that P6 asks for, Dagster's settings, and the JSON Schema for editors."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from relgrade_assets.errors import Refused
from relgrade_assets.io.experiment_file import read_design
from relgrade_assets.protocol.design import FORMS, Design
from relgrade_assets.protocol.scale import NAMED
from relgrade_assets.protocol.schema_file import schema_text

PACKAGE = resources.files("relgrade_assets")
TEMPLATE = (PACKAGE / "templates" / "experiment.yaml").read_text(encoding="utf-8")
SCHEMA_FILE = (PACKAGE / "protocol" / "experiment.schema.json").read_text(encoding="utf-8")
SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE)
TOP = Path(__file__).parent.parent
RUBRICS = ("code", "docs", "shop", "support")


def rubric(name: str) -> str:
    return (PACKAGE / "templates" / "rubrics" / f"{name}.md").read_text(encoding="utf-8")


def read(folder: Path, text: str, name: str = "study") -> Design:
    file = folder / "experiment.yaml"
    file.write_text(text.replace("NAME", name), encoding="utf-8")
    return read_design(file, name="experiment.yaml", folder_name=name)


# -- experiment.yaml --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["study", "a", "7", "007", "no", "null", "true", "1e3", "2026-11-01", "0x1f", "x" * 63]
)
def test_template_validates_as_it_is_under_any_good_name(tmp_path: Path, name: str) -> None:
    """P1: also under names that YAML would take for something else than text."""
    design = read(tmp_path, TEMPLATE, name)
    assert design.name == name
    assert design.title.startswith(f"{name}: ")
    assert "NAME" not in TEMPLATE.replace("NAME", name)


@pytest.mark.parametrize("which", RUBRICS)
def test_template_has_a_protocol_digest_with_every_rubric(tmp_path: Path, which: str) -> None:
    """P2: the four are four protocols."""
    design = read(tmp_path, TEMPLATE)
    others = {design.protocol_digest(rubric(w)) for w in RUBRICS if w != which}
    assert len(others) == 3
    assert design.protocol_digest(rubric(which)) not in others


def test_template_begins_as_the_first_steps_say(tmp_path: Path) -> None:
    design = read(tmp_path, TEMPLATE)
    assert (design.query_log.file, design.corpus.path, design.intents.file) == (
        "log.csv",
        "corpus.jsonl",
        "intents.csv",
    )
    assert [a.run for a in design.arms] == ["runs/baseline.trec", "runs/candidate.trec"]
    assert [(p.name, p.tiers) for p in design.strata.parts] == [(t, (t,)) for t in ("head", "torso", "tail")]
    assert all(
        lo <= p.target <= hi
        for p, (lo, hi) in zip(design.strata.parts, ((50, 100), (100, 200), (50, 100)), strict=True)
    )
    assert (design.depth, design.scale, len(design.graders), design.deviations) == (20, NAMED["0-2"], 1, ())


KEY = re.compile(r"^(?P<indent> *)# (?P<inner>  )?(?P<key>[a-z_]+):(?P<rest>( .*)?)$")


def uncommented(text: str, known: set[str]) -> tuple[str, set[str]]:
    """The text with every commented key that the design knows put into force, and the keys so found."""
    lines, keys = [], set()
    for line in text.splitlines():
        match = KEY.match(line)
        if match and match["key"] in known:
            keys.add(match["key"])
            lines.append(f"{match['indent']}{match['inner'] or ''}{match['key']}:{match['rest']}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n", keys


def properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every key that the schema knows, as `Part.key`."""
    parts = {"Design": schema, **schema["$defs"]}
    return {f"{part}.{key}": value for part, held in parts.items() for key, value in held.get("properties", {}).items()}


def test_commented_keys_state_the_defaults(tmp_path: Path) -> None:
    """Put into force, they change nothing: the canonical form stays what it was (P2)."""
    known = {key.partition(".")[2] for key in properties(SCHEMA)}
    whole, keys = uncommented(TEMPLATE, known)
    assert len(keys) > 30
    assert read(tmp_path, whole).canonical() == read(tmp_path, TEMPLATE).canonical()


def test_template_shows_every_key_there_is() -> None:
    shown = set(re.findall(r"(?:^|[\s#{,(])([a-z_]+):", TEMPLATE))
    missing = {key for key in properties(SCHEMA) if key.partition(".")[2] not in shown}
    assert missing == set()


def test_template_names_only_rules_and_commands_that_there_are() -> None:
    assert {int(n) for n in re.findall(r"\bP(\d+)\b", TEMPLATE)} <= set(range(1, 47))
    from typer.main import get_command

    from relgrade_assets.cli.app import app

    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"`relgrade ([a-z-]+)", TEMPLATE)) <= commands


def test_a_deviation_as_the_template_shows_it(tmp_path: Path) -> None:
    """P3: the example at the end, put into force, is a list that validates."""
    head, _, tail = TEMPLATE.partition("# deviations: []\n")
    example = tail.replace("#   -", "  -").replace("#     ", "    ")
    assert read(tmp_path, f"{head}deviations:\n{example}").declared("one_arm")


# -- the JSON Schema --------------------------------------------------------------------------------------------------


def test_schema_file_is_what_the_model_gives() -> None:
    """Where this fails, run what `schema_file.py` says at its top."""
    assert schema_text() == SCHEMA_FILE


def test_schema_is_a_schema_and_describes_every_key() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert {key for key, value in properties(SCHEMA).items() if not value.get("description")} == set()


def test_template_names_the_schema_beside_it() -> None:
    """`init` puts the schema into the experiment's folder, so that an installed user's editor finds it too."""
    assert TEMPLATE.splitlines()[0] == "# yaml-language-server: $schema=experiment.schema.json"


@pytest.mark.parametrize("file", ["template", "demo"])
def test_schema_accepts_what_the_model_accepts(file: str) -> None:
    demo = TOP / "data" / "experiments" / "networkx" / "experiment.yaml"
    if file == "demo" and not demo.is_file():
        pytest.skip("the demo experiment is not in this checkout")
    text = TEMPLATE if file == "template" else demo.read_text(encoding="utf-8")
    jsonschema.validate(yaml.safe_load(text.replace("NAME", "study")), SCHEMA)


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("scale", "0-3", "0-4"),
        ("scale", "binary", 2),
        ("scale", {"grades": [{"grade": g, "label": "l", "cue": "c"} for g in (0, 1)]}, {"grades": []}),
        ("seed", 7, [7]),
        ("depth", 10, "10"),
        ("private", True, "yes"),
        ("relgrade", 1, 2),
        ("gates", {"binary_kappa": 0.9}, {"binary_kappa": 1.1}),
        ("measures", ["AP"], "AP"),
        ("combine", "median_low", "median"),
    ],
)
def test_schema_and_model_agree(tmp_path: Path, key: str, good: object, bad: object) -> None:
    whole = yaml.safe_load(TEMPLATE.replace("NAME", "study"))
    whole["headline"] = "AP"
    for value, passes in ((good, True), (bad, False)):
        data = {**whole, key: value}
        assert jsonschema.Draft202012Validator(SCHEMA).is_valid(data) is passes, value
        text = json.dumps(data)
        if passes:
            assert read(tmp_path, text)
        else:
            with pytest.raises(Refused, match=key):
                read(tmp_path, text)


def test_schema_refuses_unknown_keys_everywhere() -> None:
    parts = [SCHEMA, *(d for d in SCHEMA["$defs"].values() if "properties" in d)]
    assert all(part["additionalProperties"] is False for part in parts)


# -- rubrics ----------------------------------------------------------------------------------------------------------

BOUNDARIES = (
    "Right name, wrong behaviour",
    "Neighbouring question",
    "Header or table of contents alone",
    "Duplicates",
    "Answer split over passages",
    "Enclosing name not shown",
    "Implementation, test, doc",
    "Outdated",
)
DOMAIN = {
    "code": ("Interface and implementation", "Errors"),
    "docs": ("Versions", "Translations"),
    "shop": ("Variants", "Out of stock", "Accessories"),
    "support": ("Workarounds", "Personal data"),
}


def section(text: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}.*?\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    assert found, title
    return found[1]


@pytest.mark.parametrize("name", RUBRICS)
def test_rubric_settles_what_p6_lists(name: str) -> None:
    """P6: task, forms, boundary rules, what can't be judged, the reason; and what to change for other scales."""
    text = rubric(name)
    assert "against other chunks" in section(text, "Task")
    boundaries = section(text, "Boundary rules")
    for rule in (*BOUNDARIES, *DOMAIN[name]):
        assert re.search(rf"^- \*\*{re.escape(rule)}", boundaries, re.M), rule
    outdated = re.search(r"- \*\*Outdated\*\*(.*?)\n- ", boundaries, re.S)
    assert outdated and "is 0" in " ".join(outdated[1].split()) and "`corpus_cleanup`" in outdated[1]
    for form in FORMS:
        assert re.search(rf"\*\*{form}\b", text), form
    assert "`unrateable`" in section(text, "What can't be judged")
    assert "`judge_later`" in section(text, "What can't be judged")
    assert "At most 15 words" in section(text, "The reason")
    head = text.partition("\n## ")[0]
    assert head.splitlines()[2].startswith("Scale 0-2:") and "For 0-3:" in head and "For binary:" in head


@pytest.mark.parametrize("name", RUBRICS)
def test_rubric_has_examples_of_every_grade(name: str) -> None:
    """P6: two or three a grade (P5: the labels are the scale's own)."""
    rows = re.findall(r"^\| ([0-9]) \| .+ \| .+ \| .+ \|$", section(rubric(name), "Grades with examples"), re.M)
    assert {grade: rows.count(grade) for grade in ("2", "1", "0")} == {"2": 3, "1": 3, "0": 3}
    assert [m.replace("\u2019", "'") for m in re.findall(r"\*\*\d ([a-z' ]+)\*\*", rubric(name).splitlines()[2])] == [
        g.label for g in reversed(NAMED["0-2"].grades)
    ]


def test_support_tells_open_from_resolved() -> None:
    assert "### Open against resolved tickets" in rubric("support")


@pytest.mark.parametrize("name", RUBRICS)
def test_rubric_is_general(name: str) -> None:
    assert not re.search(r"networkx|\bgraph\b|TODO|\t| $", rubric(name), re.I | re.M)


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dagster.yaml", "workspace.yaml"])
def test_settings_are_those_of_the_checkout(name: str) -> None:
    if not (TOP / name).is_file():
        pytest.skip(f"{name} is not in this checkout")
    template = (PACKAGE / "templates" / name).read_text(encoding="utf-8")
    assert yaml.safe_load(template) == yaml.safe_load((TOP / name).read_text(encoding="utf-8"))


def test_workspace_loads_the_installed_module() -> None:
    workspace = yaml.safe_load((PACKAGE / "templates" / "workspace.yaml").read_text(encoding="utf-8"))
    assert [entry["python_module"]["module_name"] for entry in workspace["load_from"]] == [
        "relgrade_assets.definitions"
    ]


def test_templates_go_into_the_wheel() -> None:
    """Bites where a template's ending is missing from pyproject.toml's package data."""
    import tomllib

    globs = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    endings = {g.rpartition("*")[2] for g in globs["relgrade_assets"]}
    with resources.as_file(PACKAGE / "templates") as folder:
        assert {p.suffix for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts} <= endings
