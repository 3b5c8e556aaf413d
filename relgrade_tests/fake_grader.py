"""A command that grades like a model, good and bad, for tests: reads a prompt, prints rows. Standard library only, and
nothing of relgrade: its reading of the prompt is the oracle of the template's.

    fake_grader.py [--journal FILE] [--bad SHARE] [--seed TEXT] [--delay AT_MOST] [--sleep SECONDS] [--always KIND]

More options come from the variable FAKE_GRADER, so that the command itself can stay as it is. Each reply is noted in
the journal before it is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
from typing import Any

KINDS = ("crash", "hang", "half", "prose", "repeat", "invent", "seven", "silent")
HEX = re.compile(r"begin\nwith ([0-9a-f]{32}), and every line")


def read_prompt(prompt: str) -> dict[str, Any]:
    """What a prompt asks: nonce, rubric, query_id, query, intent, and passages of chunk_id and body."""
    found = HEX.search(prompt)
    if not found:
        raise ValueError("no nonce")
    nonce = found[1]
    lines = prompt.split("\n")
    marks = [n for n, line in enumerate(lines) if line.startswith(nonce)]
    said = [lines[n].removeprefix(nonce + " ") for n in marks]
    if said[:2] != ["RUBRIC BEGINS", "RUBRIC ENDS"] or len(marks) % 2:
        raise ValueError("no rubric, or a fence that is not closed")
    asked: dict[str, Any] = {"nonce": nonce, "rubric": "\n".join(lines[marks[0] + 1 : marks[1]])}
    for line in lines[marks[1] + 1 : marks[2]]:
        key, _, value = line.partition(": ")
        if key:
            asked[key] = json.loads(value)
    passages = []
    count = (len(marks) - 2) // 2
    for place in range(1, count + 1):
        first, last = marks[2 * place], marks[2 * place + 1]
        begins = re.fullmatch(rf"PASSAGE {place} OF {count} BEGINS, chunk_id: (.*)", said[2 * place])
        if begins is None or said[2 * place + 1] != f"PASSAGE {place} OF {count} ENDS":
            raise ValueError(f"passage {place} is fenced otherwise")
        body = lines[first + 1 : last]
        if any(not line.startswith("| ") for line in body):
            raise ValueError(f"passage {place} leaves its fence")
        text = "\n".join(line[2:] for line in body)
        passages.append({"chunk_id": json.loads(begins[1]), "body": text})
    asked["passages"] = passages
    return asked


def grade(query: str, chunk_id: str) -> int:
    """What the fake thinks: thing n is in chunk n (2), and mentioned in the chunk after it (1)."""
    numbers = ["".join(c for c in text if c.isdigit()) or "0" for text in (query, chunk_id)]
    return {0: 2, 1: 1}.get(int(numbers[1]) - int(numbers[0]), 0)


def rows(asked: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "query_id": asked["query_id"],
            "chunk_id": p["chunk_id"],
            "reason": "chunk says so",
            "grade": grade(asked["query"], p["chunk_id"]),
        }
        for p in asked["passages"]
    ]


def journal(path: str, entry: dict[str, Any]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, json.dumps(entry).encode() + b"\n")
    os.close(handle)


def main() -> int:
    parser = argparse.ArgumentParser()
    for name, kind in (
        ("journal", str),
        ("bad", float),
        ("seed", str),
        ("delay", float),
        ("sleep", float),
        ("always", str),
    ):
        parser.add_argument(f"--{name}", type=kind)
    given = parser.parse_args([*sys.argv[1:], *os.environ.get("FAKE_GRADER", "").split()])
    asked = read_prompt(sys.stdin.read())
    dice = random.Random(f"{given.seed}:{asked['nonce']}:{time.time_ns() if given.seed else 0}")  # noqa: S311
    time.sleep(dice.random() * (given.delay or 0) + (given.sleep or 0))
    kind = given.always or (dice.choice(KINDS) if dice.random() < (given.bad or 0) else "good")
    answer = rows(asked)
    lines = [json.dumps(row) for row in answer]
    if given.journal:
        journal(given.journal, {"kind": kind, "nonce": asked["nonce"], "rows": answer if kind == "good" else []})
    match kind:
        case "crash":
            return 3
        case "hang":
            time.sleep(30)
        case "half":
            lines[-1] = lines[-1][: len(lines[-1]) // 2]
        case "prose":
            lines.insert(0, "Here are my grades:")
        case "repeat":
            lines.append(lines[0])
        case "invent":
            lines.append(json.dumps({**answer[0], "chunk_id": "made-up"}))
        case "seven":
            lines[0] = json.dumps({**answer[0], "grade": 7})
        case "silent":
            lines = []
    sys.stdout.write("\n".join(lines) + "\n" * bool(lines))
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
