"""Documentation against the program: links, commands as they run, made pages, options, rules and their tests."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).resolve().parents[1]
DOCS = TOP / "docs"
PAGES = [TOP / "README.md", TOP / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(\S*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RULES = [f"P{n}" for n in range(1, 47)]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its info (`run`, `exit=3`, `file=NAME`) and its text."""

    language: str
    info: dict[str, str]
    text: str


def blocks(page: Path) -> list[Block]:
    found = []
    for language, info, text in FENCE.findall(page.read_text("utf-8")):
        parts = [part.partition("=") for part in info.split()]
        found.append(Block(language, {key: value for key, _, value in parts}, text))
    return found


def build() -> ModuleType:
    if str(DOCS) not in sys.path:
        sys.path.append(str(DOCS))
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named(page: Path) -> str:
    return page.relative_to(TOP).as_posix()


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """Anchors as GitHub makes them from headings, and those written out."""
    text = prose(page)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", head).strip().lower()).replace(" ", "-") for head in heads}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


# links


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_between_pages_resolve(page: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors(to)):
            dead.append(target)
    assert not dead, dead


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [TOP / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", prose(page)):
            to = (page.parent / target).resolve()
            if to.is_file():
                todo.append(to)
            elif to.is_dir():
                todo += to.glob("*.md")
    lost = [named(page) for page in PAGES if page not in seen]
    assert not lost, lost


# what is made from the program


def test_made_pages_are_current_against_the_program() -> None:
    stale = build().stale()
    assert not stale, f"run `python docs/build.py`: {stale}"


def test_a_changed_page_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = build()
    monkeypatch.setattr(module, "DOCS", tmp_path)
    assert module.main([]) == 0 and module.stale() == []
    (tmp_path / "graph.svg").write_text("<svg/>")
    assert module.stale() == ["graph.svg"]
    assert module.main(["--check"]) == 1


def test_picture_of_the_graph_shows_every_table_and_source() -> None:
    from xml.etree import ElementTree

    from relgrade_assets.schemas import GROUPS, SOURCES, TABLES

    root = ElementTree.fromstring((DOCS / "graph.svg").read_text("utf-8"))  # noqa: S314 - our own file
    shown = " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))
    words = set(re.findall(r"\w+", shown))
    assert {*TABLES, *SOURCES, *GROUPS} - {"sources"} - words - {"design"} == set()


def test_demo_output_goes_between_its_markers() -> None:
    module = build()
    readme = (TOP / "README.md").read_text("utf-8")
    assert len(module.DEMO.findall(readme)) == 1
    filled = module.with_demo(readme, "\x1b[1mnDCG@10\x1b[0m  \n  bm25  0.7\\1\n\n")
    assert "```text\nnDCG@10\n  bm25  0.7\\1\n```\n<!-- demo:end -->" in filled
    assert module.with_demo(filled, "x") == module.with_demo(readme, "x")


def test_tables_page_names_every_table_and_column() -> None:
    from relgrade_assets.schemas import SOURCES, TABLES

    text = (DOCS / "reference" / "tables.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(TABLES) == [name for name in sections if name in TABLES]
    for name, spec in TABLES.items():
        assert re.findall(r"^\| `(\w+)` \|", sections[name], re.MULTILINE) == list(spec.model.to_schema().columns)
    for page in PAGES:
        for found in re.findall(r"\btables?/([a-z_]+)\.parquet", page.read_text("utf-8")):
            assert found in {*TABLES, *SOURCES}, (named(page), found)


# the protocol


def protocol_rows() -> dict[str, tuple[str, list[str]]]:
    """Rule -> how far it is done, and the tests that its row names."""
    text = (DOCS / "protocol.md").read_text("utf-8")
    rows = re.findall(r"^\| \[?(P\d+)\]?(?:\(#p\d+\))? \| (done|partly|not yet) \|([^|]*)\|", text, re.MULTILINE)
    return {rule: (state, re.findall(r"`(test_\w+)`", tests)) for rule, state, tests in rows}


def test_protocol_page_has_every_rule_once() -> None:
    text = (DOCS / "protocol.md").read_text("utf-8")
    assert list(protocol_rows()) == RULES
    assert re.findall(r'^<a id="p(\d+)"></a>', text, re.MULTILINE) == [rule[1:] for rule in RULES]


@pytest.mark.parametrize("rule", RULES)
def test_rule_names_tests_that_name_the_rule(rule: str) -> None:
    state, tests = protocol_rows()[rule]
    assert tests or state == "not yet", f"{rule} is {state} and names no test"
    for test in tests:
        path = TOP / "relgrade_tests" / f"{test}.py"
        assert path.is_file(), f"{rule}: no {test}"
        assert re.search(rf"\b{rule}\b", path.read_text("utf-8")), f"{test} does not name {rule}"


def test_deviations_on_the_page_against_the_code() -> None:
    from relgrade_assets.protocol.deviations import MEANING

    text = (DOCS / "protocol.md").read_text("utf-8")
    section = text.partition("## Deviations")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(MEANING)
    for code, meaning in MEANING.items():
        row = re.search(rf"^\| `{code}` \| ([^|]*) \|", section, re.MULTILINE)
        assert row and set(re.findall(r"P\d+", meaning)) <= set(re.findall(r"P\d+", row[1])), code


def test_checklists_on_the_page_against_the_program() -> None:
    """P46: the page's checklists are those that `relgrade status` shows; the walk below sees one of them done."""
    source = (TOP / "relgrade_assets" / "io" / "checklist.py").read_text("utf-8")
    said = re.findall(r'\(\s*"(P\d+)",\s*f?"([^"]+)"', source)
    assert len(said) > 15
    text = " ".join((DOCS / "protocol.md").read_text("utf-8").split())
    for rule, line in said:
        assert f"{rule} {re.sub(' *[(][^()]*{[^}]*}[^()]*[)]', '', line)}" in text, (rule, line)


# the command line


def options() -> dict[str, set[str]]:
    """Each command's options; those of every command under the empty name."""
    return {
        name: {option for p in command.params for option in (*p.opts, *p.secondary_opts) if option.startswith("-")}
        for name, command in build().commands().items()
    }


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_and_option_named_exists(page: Path) -> None:
    known = options()
    text = page.read_text("utf-8")
    not_yet = set(re.findall(r"`relgrade ([a-z-]+)[^`]*`[^.\n]*(?:not there yet|not yet)", text))
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(page))
    lines = [line[2:] for block in blocks(page) for line in block.text.splitlines() if line.startswith("$ ")]
    for said in [*spans, *lines]:
        for call in re.findall(r"(?:^|[;&|(] ?|\.venv/bin/)relgrade ([^;&|)]+)", said):
            words = shlex.split(call.replace("...", ""), comments=True)
            name = next((w for w in words if not w.startswith("-")), "")
            if not name.islower() or name in not_yet:
                continue
            assert name in known, f"`relgrade {name}`"
            given = {w.partition("=")[0] for w in words if re.match(r"--[a-z]", w)}
            assert given <= known[name] | known[""] | {"--help"}, f"relgrade {name}: {given - known[name]}"


def test_every_make_target_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"(?:`|^\$ )make ([a-z][a-z-]+)", page.read_text("utf-8"), re.MULTILINE):
            assert target in targets, (named(page), target)


def test_exit_codes_on_the_page_against_the_program() -> None:
    from relgrade_assets.cli import app

    text = (DOCS / "reference" / "cli.md").read_text("utf-8")
    codes = re.findall(r"^\| (\d) \|", text.partition("## Exit codes")[2].partition("\n## ")[0], re.MULTILINE)
    assert [int(c) for c in codes] == [app.OK, app.NOT_PASSED, app.BAD_INPUT, app.WAITING]


# other facts


def test_published_files_on_the_page_against_the_program() -> None:
    source = (TOP / "relgrade_assets" / "io" / "publishing.py").read_text("utf-8")
    files = set(re.findall(r'^        "([a-z_]+\.(?:jsonl|json|txt|parquet|html|csv))": ', source, re.MULTILINE))
    assert len(files) > 8
    formats = (DOCS / "reference" / "formats.md").read_text("utf-8").partition("## What comes out")[2]
    readme = (TOP / "README.md").read_text("utf-8")
    for name in files:
        assert f"`{name}`" in formats and f"`{name}`" in readme, name


def test_measures_on_the_page_against_the_program() -> None:
    from relgrade_assets.methods.measure_names import SPELLED, parse

    text = (DOCS / "reference" / "measures.md").read_text("utf-8")
    for name in SPELLED:
        assert f"`{name}`" in text, name
    families = "nDCG|R|Recall|RR|P|AP|Judged|Success|RBP|ERR"
    for name in re.findall(rf"`((?:{families})(?:\((?:rel|gain|max)=\w+\))?@\d+)`", text):
        parse(name)


def test_every_test_named_exists() -> None:
    for page in PAGES:
        for test in re.findall(r"`(test_\w+)`|relgrade_tests/(test_\w+)", page.read_text("utf-8")):
            assert (TOP / "relgrade_tests" / f"{test[0] or test[1]}.py").is_file(), (named(page), test)


def test_demo_design_keys_shown_in_how_tos_are_keys() -> None:
    import yaml

    from relgrade_assets.protocol.design import Design

    for page in PAGES:
        for block in blocks(page):
            if block.language == "yaml" and "file" not in block.info:
                given = yaml.safe_load(block.text)
                assert set(given) <= set(Design.model_fields), (named(page), given)


MACHINE = re.compile(r"(?<![\w.])/(?:home|root|tmp|Users|work|private|var/folders)/|\b\d+\.\d+\.\d+\.\d+\b")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_machine_path_or_host(page: Path) -> None:
    found = [m[0] for m in MACHINE.finditer(page.read_text("utf-8")) if not m[0].startswith("127.0.0.1")]
    assert not found


# the walk, as it stands on the page


def say(expected: list[str], out: list[str], err: list[str]) -> str:
    """Why the output is not the one shown; `...` stands for any lines. Empty where it is."""
    at, loose = 0, False
    whole = [line.rstrip() for line in (*out, *err)]
    for line in expected:
        if line == "...":
            loose = True
            continue
        while loose and at < len(whole) and whole[at] != line:
            at += 1
        if at >= len(whole) or whole[at] != line:
            return f"shown {line!r}, found {whole[at : at + 3]!r} in\n" + "\n".join(whole)
        at, loose = at + 1, False
    return f"not shown: {whole[at : len(out)]!r}" if not loose and at < len(out) else ""


def test_output_is_compared_line_by_line() -> None:
    assert say(["a", "b"], ["a", "b"], ["noise"]) == ""
    assert say(["a", "..."], ["a", "b"], []) == "" and say(["...", "b"], ["a", "b"], []) == ""
    assert say(["a"], ["a", "b"], []) and say(["b"], ["a", "b"], []) and say(["...", "c"], ["a"], [])


def relgrade(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a command, in this process: Dagster is imported once for a whole walk."""
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    from relgrade_assets.cli.main import main

    out, err, code = StringIO(), StringIO(), 0
    sys.argv = ["relgrade", *arguments]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def shell(command: str, folder: Path) -> tuple[int, str, str]:
    """The same of any other command."""
    python = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", command)
    done = subprocess.run(["sh", "-c", python], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def walk(page: Path, folder: Path) -> int:
    """Run a page's blocks in order, in `folder`; how many commands there were."""
    n = 0
    for block in blocks(page):
        if "file" in block.info:
            path = folder / block.info["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif "run" in block.info:
            steps = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
            for i, step in enumerate(steps, start=1):
                command, *expected = step.splitlines()
                ours = command.startswith("relgrade ")
                code, out, err = relgrade(shlex.split(command)[1:]) if ours else shell(command, folder)
                due = int(block.info.get("exit", 0)) if i == len(steps) else 0
                why = f"exit code {code}" if code != due else say(expected, out.splitlines(), err.splitlines())
                assert not why and "Traceback" not in err, f"{named(page)}: $ {command}\n{why}\n{out}{err}"
                n += 1
    return n


def test_tutorial_and_what_goes_on_from_it_run_as_they_stand(tmp_path: Path) -> None:
    """Every command and file, in a folder and a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOP), str(Path(__file__).parent)])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import test_docs; test_docs.walks()"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) >= 20


WALKS = (
    "tutorial.md",
    "how-to/use-the-key-elsewhere.md",
    "how-to/change-intent-or-rubric.md",
    "how-to/score-runs.md",
    "how-to/use-from-python.md",
)
"""Pages whose `console run` blocks are run one after another in one folder."""


def walks() -> None:
    """Run in a process of its own, where it stands."""
    print(sum(walk(DOCS / page, Path.cwd()) for page in WALKS))
