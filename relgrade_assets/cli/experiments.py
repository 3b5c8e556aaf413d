"""Commands about an experiment itself: make one, check it, see how far it is, export its queries."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from relgrade_assets.cli.app import BAD_INPUT, NOT_PASSED, WAITING, Name, app, home, say, stop, warn
from relgrade_assets.cli.run import require_tables, write_settings
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import checking, checklist, history, progress, worksheets
from relgrade_assets.io.atomic import create_folder, write_bytes
from relgrade_assets.io.next_steps import next_steps
from relgrade_assets.io.standing import banners
from relgrade_assets.io.study import open_study
from relgrade_assets.io.voiding import examine
from relgrade_assets.protocol.design import NAME


class Rubric(StrEnum):
    """The rubrics that ship."""

    code = "code"
    docs = "docs"
    shop = "shop"
    support = "support"


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new experiment.")],
    rubric: Annotated[Rubric, typer.Option("--rubric", help="Which default rubric to begin with.")] = Rubric.docs,
) -> None:
    """Make a new experiment: a commented experiment.yaml that validates, a rubric, and the schema that editors read."""
    top = home()
    if not NAME.fullmatch(name):
        raise Refused(
            f"{name!r} can't be the name of an experiment",
            [Fault("NAME", repr(name), "small letters, digits, - and _, at most 63, beginning with a letter or digit")],
        )
    base = resources.files("relgrade_assets") / "templates"
    files = {"experiment.yaml": _named((base / "experiment.yaml").read_text("utf-8"), name).encode()}
    files["rubric.md"] = (base / "rubrics" / f"{rubric.value}.md").read_bytes()
    schema = resources.files("relgrade_assets") / "protocol" / "experiment.schema.json"
    files["experiment.schema.json"] = schema.read_bytes()
    folder = top.experiments / name
    if not create_folder(folder, files):
        raise Refused(
            f"There is an experiment {name!r} already",
            [Fault(f"data/experiments/{name}", "something", "nothing", "Take another name, or move it away.")],
        )
    write_settings(top)
    say(f"data/experiments/{name}/experiment.yaml and rubric.md are made.")
    say(f"Next: put in the files that experiment.yaml names, then `relgrade check {name}`.")


def _named(template: str, name: str) -> str:
    """The template with the experiment's name in it; a comment beside it stays in its column."""
    beside = r'(?m)^(\w+: "NAME[^"\n]*") +(?=#)'
    padded = re.sub(beside, lambda f: f"{f[1].replace('NAME', name):<{len(f[0]) - 1}} ", template)
    return padded.replace("NAME", name)


@app.command()
def check(name: Name) -> None:
    """List every fault of an experiment and its files at once, and what is waited for; change nothing."""
    report = checking.check(home(), name)
    for refused in report.refused:
        warn(refused.message())
    for waiting in report.waiting:
        say(f"waiting: {waiting}")
    for notice in report.notices:
        say(f"note: {notice}")
    if report.refused:
        stop(BAD_INPUT)
    if report.waiting:
        say(f"{name} is sound so far.")
        stop(WAITING)
    say(f"{name} is sound.")


@app.command("export-queries")
def export_queries(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; standard output where not given.")] = None,
) -> None:
    """Give the sampled queries to whoever runs the arms: JSON Lines of query_id and query."""
    data = worksheets.export_queries(require_tables(home(), name, "query_sample"))
    if out is None:
        typer.echo(data.decode(), nl=False)
    else:
        write_bytes(out, data)
        say(f"{data.count(bytes([10]))} queries: {out}")


@app.command()
def status(name: Name, as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show what is ready, waiting and refused, the protocol's checklists as they stand (P46), and what to do next, by
    whom.
    """
    study = open_study(home(), name)
    standing = examine(study)
    steps = progress.steps(study)
    items = checklist.items(study, steps)
    due = next_steps(study, steps)
    if as_json:
        rows = [{"table": s.table, "state": s.state, "text": s.text} for s in steps]
        checks = [{"when": i.when, "rule": i.rule, "text": i.text, "state": i.state} for i in items]
        say(
            json.dumps(
                {
                    "experiment": name,
                    "round": study.round,
                    "standing": standing.record() if standing else None,
                    "next": [{"who": n.who, "what": n.what, "command": n.command} for n in due],
                    "tables": rows,
                    "checklist": checks,
                    "rounds": history.side_by_side(study).to_dicts(),
                },
                ensure_ascii=False,
            )
        )
    else:
        say(f"{name}, round {study.round}: {study.design.title}")
        for banner in banners(study.log):
            say(banner)
        _lines([(s.state, s.table, s.text) for s in steps], say)
        for line in history.lines(history.side_by_side(study)):
            say(line)
        for when in dict.fromkeys(i.when for i in items):
            say(f"\n{when}")
            _lines([(i.state, i.rule, i.text) for i in items if i.when == when], say)
        say("\nNext")
        for one in due:
            say(f"  {one}")
    states = {s.state for s in steps}
    if "refused" in states or (standing is not None and not standing.decides):
        stop(NOT_PASSED)
    if "waiting" in states:
        stop(WAITING)


def _lines(rows: list[tuple[str, str, str]], tell: Callable[[str], None]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    for state, what, text in rows:
        first, *more = text.splitlines() or [""]
        tell(f"  {state:<{widths[0]}}  {what:<{widths[1]}}  {first}".rstrip())
        for line in more:
            tell(f"  {'':<{widths[0]}}  {'':<{widths[1]}}  {line}".rstrip())
