"""Makes the pages of docs/ that are read off the program: the picture of the graph and three pages of reference.

    .venv/bin/python docs/build.py             write them
    .venv/bin/python docs/build.py --check     say which are stale, and exit with 1 if any is
    .venv/bin/python docs/build.py --demo LOG  put what `make demo` printed, kept in the file LOG, into README.md

Every other page is written by hand; relgrade_tests/test_docs.py holds all of them to the program.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from graph_picture import graph_svg

DOCS = Path(__file__).resolve().parent
README = DOCS.parent / "README.md"
DEMO = re.compile(r"(<!-- demo:begin -->\n).*?(<!-- demo:end -->)", re.DOTALL)
MADE = "<!-- Made by docs/build.py; edit what it is made from instead. -->\n"

# docs/reference/experiment.md


def experiment_page() -> str:
    """Every key of experiment.yaml, from the design's JSON Schema."""
    from relgrade_assets.protocol.coherence import GATE_DEFAULTS, KAPPA_FLOOR
    from relgrade_assets.protocol.design import Design
    from relgrade_assets.protocol.scale import NAMED

    schema = Design.model_json_schema()
    parts = schema["$defs"]
    out = [
        "# experiment.yaml, key by key\n",
        MADE,
        "One file a study, in `data/experiments/NAME/`. `relgrade init NAME` writes one with comments;",
        "`relgrade check NAME` lists every fault at once, with its line. Unknown keys, keys given twice, anchors and",
        "aliases are refused. No number is taken from text (`'20'`), and no whole number from `20.0`. A key without",
        "a default must be given. Rule ids such as P7 are explained in [the protocol](../protocol.md).\n",
        "Once a round has a grade, this file and the rubric stand: see",
        "[changing an intent or the rubric](../how-to/change-intent-or-rubric.md).\n",
        "## Top level\n",
        *_keys(schema, parts),
    ]
    for path, name in _sections(schema, parts, ""):
        part = parts[name]
        out += [f"\n## {path}\n", part.get("description", "").strip() + "\n", *_keys(part, parts)]
    out += ["\n## The named scales\n", "| scale | grade | label | cue |", "| --- | --- | --- | --- |"]
    for named, scale in NAMED.items():
        out += [f"| `{named}` | {g.grade} | {g.label} | {g.cue} |" for g in scale.grades]
    out += [
        "\nFor all three the lowest relevant grade is 1 and the gain is 2^g - 1. Which fits when is told in",
        "[the protocol](../protocol.md#p5).\n",
        "## What two keys make together\n",
        "Checked beside each key's own rule, before any work:\n",
        "- Names of arms are all different; so are the names of graders and auditor, and the codes of deviations.",
        "- `headline` is one of `measures`; each measure stands once.",
        "- The strata are a partition: every tier, or every type, falls into exactly one of `strata.parts`.",
        "- Shares are given for all strata or for none, and sum to 1 within 1e-9.",
        "- Strata by type from the log's column need `query_log.columns.type`; from the classifier, `strata.labelled`.",
        f"- A kappa gate under {KAPPA_FLOOR:g} is refused. Under its default ("
        + ", ".join(f"{k} {v:g}" for k, v in GATE_DEFAULTS.items())
        + ") it must be declared as `gate_lowered`; so must a share above its default.",
        "- Families of graders, of the auditor and of the arms are pairwise different, or `shared_families` is",
        "  declared.",
        "- Other departures that the file shows must be declared: see [deviations](../protocol.md#deviations).",
        "- Every path stays inside the experiment's folder, also through symbolic links.\n",
    ]
    return "\n".join(out)


def _keys(part: dict[str, Any], parts: dict[str, Any]) -> list[str]:
    rows = ["| key | type | default | what it says |", "| --- | --- | --- | --- |"]
    for key, value in part["properties"].items():
        needed = key in part.get("required", ())
        given = value.get("default")
        default = "needed" if needed else "as below" if isinstance(given, dict) else f"`{_yaml(given)}`"
        if "default" not in value and not needed:
            default = ""
        rows.append(f"| `{key}` | {_type(value, parts)} | {default} | {_cell(value.get('description', ''))} |")
    return rows


def _yaml(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _type(value: dict[str, Any], parts: dict[str, Any]) -> str:
    if "$ref" in value:
        return "keys, see below"
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return " or ".join(f"`{v}`" for v in value["enum"])
    if "anyOf" in value:
        return " or ".join(_type(v, parts) for v in value["anyOf"])
    kind = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "`true` or `false`",
        "null": "`null`",
        "array": "list",
        "object": "keys and values",
    }[value["type"]]
    if value["type"] == "array":
        inner = value["items"]
        return "list of keys, see below" if "$ref" in inner else f"list of {_type(inner, parts)}"
    bounds = [
        f"{sign} {value[key]:g}"
        for key, sign in (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))
        if key in value
    ]
    return f"{kind} {', '.join(bounds)}" if bounds else kind


def _anchor(ref: str) -> str:
    return ref.rsplit("/", 1)[-1]


def _sections(part: dict[str, Any], parts: dict[str, Any], at: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in part["properties"].items():
        options = [value, value.get("items", {}), *value.get("anyOf", [])]
        for option in options:
            if "$ref" in option:
                name = _anchor(option["$ref"])
                path = f"{at}{key}" + (", each" if option is value.get("items") else "")
                found += [(path, name), *_sections(parts[name], parts, f"{at}{key}.")]
    return found


# docs/reference/tables.md


def tables_page() -> str:
    """Every table of the graph, from schemas.TABLES."""
    from relgrade_assets.assets.columns import described, rules_of
    from relgrade_assets.schemas import SOURCES, TABLES

    out = [
        "# The tables\n",
        MADE,
        "Every table of the graph, in the order in which a study makes them. A table holds exactly these columns, in",
        "this order, of these types; anything else is refused before it is written. Tables are Parquet files under",
        "`.relgrade/tables/NAME/`, those of a round under `.relgrade/tables/NAME/rounds/N/`.\n",
        "![The asset graph](../graph.svg)\n",
        "Each file also says which protocol it was made under, and the digest of each of its inputs. A table of",
        "another protocol, or of other inputs than those present, is refused by name (P2). The *key* of a table is",
        "the columns that no two rows share.\n",
        "## What is read, not made\n",
        "| source | what it is |",
        "| --- | --- |",
        *[f"| `{name}` | {_cell(text)} |" for name, text in SOURCES.items()],
    ]
    for name, spec in TABLES.items():
        schema = spec.model.to_schema()
        each = ", one a round" if spec.per_round else ""
        out += [
            f"\n## {name}\n",
            " ".join((spec.model.__doc__ or "").split()) + "\n",
            f"Group {spec.group}{each}. Made from {', '.join(f'`{i}`' for i in spec.inputs)}.",
            f"Key: {', '.join(f'`{c}`' for c in schema.unique or [])}.\n",
            "| column | type | null | rule | what it is |",
            "| --- | --- | --- | --- | --- |",
        ]
        for column in schema.columns.values():
            said = described(column)
            null = "may be" if column.nullable else ""
            rules = ", ".join(rules_of(column, quote="`"))
            out.append(f"| `{column.name}` | {column.dtype} | {null} | {rules} | {_cell(said)} |")
    return "\n".join([*out, ""])


# docs/reference/cli.md


def commands() -> dict[str, Any]:
    """The command line itself under "", and each command that is shown, by name."""
    import typer

    from relgrade_assets.cli.app import app

    top: Any = typer.main.get_command(app)
    context = top.make_context("relgrade", [], resilient_parsing=True)
    each = {name: top.get_command(context, name) for name in top.list_commands(context)}
    return {"": top, **{name: command for name, command in each.items() if not command.hidden}}


def cli_page() -> str:
    """Every command with its options, from the Typer app, and what the exit codes mean."""
    from relgrade_assets.cli import app as frame

    found = commands()
    codes = [
        (frame.OK, "all done"),
        (frame.NOT_PASSED, "a gate, a check or a table was refused"),
        (frame.BAD_INPUT, "bad input, or a command used wrongly; the message says what was left as it was"),
        (frame.WAITING, "people or files are still waited for: no error"),
    ]
    out = [
        "# The command line\n",
        MADE,
        "`relgrade COMMAND --help` says the same. After `make demo` or `make test` it is `.venv/bin/relgrade`.",
        "NAME is always the name of an experiment, which is a folder under `data/experiments`.\n",
        "## Exit codes\n",
        "| code | means |",
        "| --- | --- |",
        *[f"| {code} | {text} |" for code, text in codes],
        "\nMessages for people go to standard output, refusals to standard error. A refusal lists all faults of its",
        "kind (20 are written out, the rest are counted), each with where it stands, what was found, what was expected",
        "and how to mend it.\n",
        "## For every command\n",
        *_parameters([p for p in found.pop("").params if p.name != "help"]),
        "\n| variable | what it sets |",
        "| --- | --- |",
        "| `RELGRADE_HOME` | the top folder, as `--home` does |",
        "| `RELGRADE_STATE` | the folder of tables, keys and the ledger; `.relgrade` in the top folder where not set |",
        "| `RELGRADE_LEDGER` | the ledger's database URL; an SQLite file in the state folder where not set |",
        "| `RELGRADE_DESK` | the desk's address for links to its pages; `http://127.0.0.1:8765` where not set |",
        "| `DAGSTER_HOME` | where Dagster finds its `dagster.yaml`; the top folder where not set |",
    ]
    for name, sub in found.items():
        arguments = [p for p in sub.params if not p.opts[0].startswith("-")]
        usage = " ".join(
            _metavar(p) + ("..." if p.nargs == -1 else "") if p.required else f"[{_metavar(p)}]" for p in arguments
        )
        out += [f"\n## relgrade {name}\n", f"`relgrade {name} [OPTIONS] {usage}".rstrip() + "`\n"]
        out += [" ".join((sub.help or "").split()) + "\n"]
        out += _parameters([p for p in sub.params if p.name != "help" and not p.hidden])
    return "\n".join([*out, ""])


def _metavar(parameter: Any) -> str:
    return str(parameter.name).upper()


def _parameters(parameters: list[Any]) -> list[str]:
    if not parameters:
        return ["No options."]
    rows = ["| option | value | default | what it does |", "| --- | --- | --- | --- |"]
    for p in parameters:
        option = p.opts[0].startswith("-")
        given = f"`{p.opts[0]}`" if option else f"`{_metavar(p)}`"
        default = "needed" if p.required else "" if p.default in (None, False) else f"`{_value(p.default)}`"
        rows.append(f"| {given} | {_values(p)} | {default} | {_cell(p.help or '')} |")
    return rows


def _values(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(f"`{v.value}`" for v in kind)
    if kind is bool:
        return ""
    return "path" if "Path" in str(kind) else "number" if kind is int else "text"


def _value(value: object) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# what is written


PAGES: dict[str, Callable[[], str]] = {
    "graph.svg": graph_svg,
    "reference/experiment.md": experiment_page,
    "reference/tables.md": tables_page,
    "reference/cli.md": cli_page,
}
"""Every page that is made, under docs/."""


def stale() -> list[str]:
    """The pages that are not what the program says now."""
    return [name for name, make in PAGES.items() if _on_disk(DOCS / name) != make()]


def _on_disk(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def with_demo(readme: str, printed: str) -> str:
    """README.md with what the demo printed between its markers; colours and machine paths never get there."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", printed).strip()
    block = "\n".join(["```text", *(line.rstrip() for line in plain.splitlines()), "```", ""])
    return DEMO.sub(lambda found: found[1] + block + found[2], readme)


def main(arguments: list[str]) -> int:
    """Write, check, or take the demo's output into README.md."""
    if arguments[:1] == ["--demo"] and len(arguments) == 2:
        printed = Path(arguments[1]).read_text(encoding="utf-8")
        README.write_text(with_demo(README.read_text(encoding="utf-8"), printed), encoding="utf-8")
        return 0
    if arguments == ["--check"]:
        names = stale()
        print("\n".join(f"stale: docs/{name}" for name in names) or "Every page is current.")
        return 1 if names else 0
    if arguments:
        print(__doc__)
        return 2
    for name, make in PAGES.items():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(), encoding="utf-8")
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
