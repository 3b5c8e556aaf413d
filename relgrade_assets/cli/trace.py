"""`relgrade trace`: one graded pair back to the log, for whoever owns the study (P33). Printing only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from relgrade_assets.cli.app import NOT_PASSED, Name, app, home, say, stop, warn
from relgrade_assets.io.study import open_study
from relgrade_assets.io.tracing import trace_of

WIDEST = 60
"""Characters of a cell that are printed; --json has all."""


@app.command()
def trace(
    name: Name,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query's id, or its text.")],
    chunk: Annotated[str, typer.Argument(metavar="CHUNK", help="The chunk's id.")],
    round_: Annotated[
        int | None, typer.Option("--round", metavar="N", help="The round; the present one where not given.", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs, nothing shortened.")] = False,
) -> None:
    """Follow one grade of the key back: events, sheets, pool, arms, query, log. Not before the freeze: it unblinds."""
    found = trace_of(open_study(home(), name), query, chunk, round=round_)
    if as_json:
        say(json.dumps(found.plain(), ensure_ascii=False))
    else:
        say(f"{found.experiment}, round {found.round}: query {found.query_id}, chunk {found.chunk_id}")
        if found.standing:
            say(found.standing)
        for link in found.links:
            of = f" ({link.stands_in}{', sha256 ' + link.digest[:12] if link.digest else ''})"
            say(f"\n{link.name}{of}{': ' + link.note if link.note else ''}")
            for line in _table(link.rows) if link.known else ["not known"]:
                say(f"  {line}")
        say("\nproved")
        for proof in found.proofs:
            word = "NO " if proof.holds is False else proof.word
            say(f"  {word}  {proof.text}{': ' + proof.why if proof.why else ''}")
    if not all(proof.holds for proof in found.proofs):
        if not as_json:
            warn("Not everything on the way is proved; see above.")
        stop(NOT_PASSED)


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows under their names; one row alone as a line a value."""
    if not rows:
        return ["none"]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if len(rows) == 1:
        width = max(map(len, names))
        return [f"{name:<{width}}  {_cell(rows[0][name], 3 * WIDEST)}" for name in names]
    cells = [[_cell(row.get(name), WIDEST) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    lines = [names, *cells]
    return ["  ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]


def _cell(value: object, most: int) -> str:
    text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= most else text[: most - 3] + "..."
