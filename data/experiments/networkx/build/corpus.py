"""Cut the source code of the installed NetworkX 3.4.2 into the demo's corpus; queries and arms are not here.

    python build/corpus.py corpus.jsonl

One chunk a function, a method, a class (its docstring, attributes and method signatures, without the
methods' bodies) and a module docstring; nested functions stay inside the function that holds them.
Test code (folders named `tests`, and conftest.py) is left out. Constructs longer than LIMIT characters are
split at the best borders near TARGET. Text is taken by source lines, so the bytes are the same on every
Python version; their sha256 is pinned in corpus.sha256 beside this folder. networkx itself is never imported.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

PACKAGE, VERSION = "networkx", "3.4.2"
MEND = f"run: python -m pip install {PACKAGE}=={VERSION}"
PIN = Path(__file__).resolve().parent.parent / "corpus.sha256"
TARGET, LIMIT = 1800, 2400  # characters of a part: the wanted size where splitting is needed, and the most
BORDER_COST = {"section": 0, "blank": 15, "statement": 60, "line": 400}  # how unwelcome a cut is there

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Defined: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Line(NamedTuple):
    """One source line, and what a cut just before it would be (a key of BORDER_COST)."""

    text: str
    border: str


class Piece(NamedTuple):
    """One construct before splitting: its id, the readable name of its scope, its lines."""

    chunk_id: str
    scope: str
    lines: list[Line]


def main(arguments: list[str]) -> int:
    """Write the corpus to the one path in `arguments`; return the exit status."""
    if len(arguments) != 1:
        return fail("usage: python build/corpus.py OUT.jsonl")
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return fail(f"{PACKAGE} is not installed; {MEND}")
    try:
        found = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return fail(f"{PACKAGE} has no metadata, so its version is unknown; {MEND}")
    if found != VERSION:
        return fail(f"{PACKAGE} {found} is installed, the corpus is made of {VERSION}; {MEND}")

    records = list(corpus(Path(spec.origin).parent))
    data = "".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n" for r in records).encode()
    digest = hashlib.sha256(data).hexdigest()
    try:
        pinned = PIN.read_text(encoding="ascii").split()[0]
    except (OSError, IndexError):
        return fail(f"{PIN.name} is missing or empty, so sha256 {digest} can't be checked; nothing written")
    if digest != pinned:
        return fail(f"the corpus has sha256 {digest}, but {PIN.name} pins {pinned}; nothing written")
    write_atomically(Path(arguments[0]), data)
    print(f"{len(records)} chunks, sha256 {digest}")
    return 0


def fail(message: str) -> int:
    """Say in one line what went wrong; the exit status of a failure."""
    print(f"corpus.py: {message}", file=sys.stderr)
    return 1


def write_atomically(path: Path, data: bytes) -> None:
    """Write through a temporary file in the same folder, so that `path` is never half a corpus."""
    handle, name = tempfile.mkstemp(dir=path.resolve().parent, prefix=path.name + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def corpus(root: Path) -> Iterator[dict[str, str]]:
    """All chunks of the package, in the order of file paths and of lines within a file."""
    paths = [p.relative_to(root) for p in root.rglob("*.py") if p.name != "conftest.py"]
    for path in sorted((p for p in paths if "tests" not in p.parts), key=Path.as_posix):
        source = (root / path).read_text(encoding="utf-8")
        family = ".".join(path.parts[:-1][:2]) or "top"
        taken: dict[str, int] = {}
        for piece in pieces(path, source):
            taken[piece.chunk_id] = taken.get(piece.chunk_id, 0) + 1
            twin = f"~{taken[piece.chunk_id]}" if taken[piece.chunk_id] > 1 else ""
            parts = split(piece.lines)
            for number, text in enumerate(parts, start=1):
                part_id = f"#{number}" if number > 1 else ""
                part_name = f" - part {number} of {len(parts)}" if len(parts) > 1 else ""
                yield {
                    "chunk_id": piece.chunk_id + twin + part_id,
                    "header": f"{PACKAGE}/{path.as_posix()} - {piece.scope}{part_name}",
                    "text": text,
                    "family": family,
                }


def pieces(path: Path, source: str) -> Iterator[Piece]:
    """The constructs of one file: its module docstring first, then definitions in source order."""
    tree = ast.parse(source)
    lines = bordered_lines(source, tree)
    names = [part for part in path.with_suffix("").parts if part != "__init__"]
    module = ".".join(["nx", *names])
    if docstring := docstring_of(tree):
        yield Piece(module, "module docstring", lines[docstring.lineno - 1 : docstring.end_lineno])
    for node in definitions(tree.body):
        yield from definition_pieces(node, lines, f"{module}:", [])


def definition_pieces(node: ast.stmt, lines: list[Line], prefix: str, classes: list[str]) -> Iterator[Piece]:
    """A function's piece; or a class's piece and those of all that is defined in it."""
    if isinstance(node, Function):
        kind = f"class {'.'.join(classes)}, method" if classes else "function"
        scope = f"{kind} {node.name}({parameters(node.args)})"
        yield Piece(prefix + node.name, scope, lines[first_line(node) - 1 : node.end_lineno])
    elif isinstance(node, ast.ClassDef):
        path = [*classes, node.name]
        yield Piece(prefix + node.name, f"class {'.'.join(path)}", class_lines(node, lines))
        for child in definitions(node.body):
            yield from definition_pieces(child, lines, f"{prefix}{node.name}.", path)


def definitions(body: list[ast.stmt]) -> Iterator[Defined]:
    """Functions and classes of a body, also those inside if, try, with and loops, in source order."""
    for node in body:
        if isinstance(node, Definition):
            yield node
        else:
            yield from definitions([n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)])
            for handler in getattr(node, "handlers", []):
                yield from definitions(handler.body)


def parameters(arguments: ast.arguments) -> str:
    """Names of the parameters, as a person would write them, without defaults and annotations."""
    names = [a.arg for a in arguments.posonlyargs]
    names += ["/"] if names else []
    names += [a.arg for a in arguments.args]
    if arguments.vararg:
        names.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        names.append("*")
    names += [a.arg for a in arguments.kwonlyargs]
    names += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(names)


def first_line(node: ast.stmt) -> int:
    """Number of the line where a statement begins, its decorators included."""
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(d.lineno for d in decorators)])


def class_lines(node: ast.ClassDef, lines: list[Line]) -> list[Line]:
    """The lines of a class without the bodies of what is defined in it: signatures stay."""
    hidden: set[int] = set()
    for child in definitions(node.body):
        signature_end = max(child.lineno, child.body[0].lineno - 1)
        hidden.update(range(signature_end + 1, (child.end_lineno or child.lineno) + 1))
    first, last = first_line(node), node.end_lineno or node.lineno
    return [lines[number - 1] for number in range(first, last + 1) if number not in hidden]


def docstring_of(node: ast.AST) -> ast.Expr | None:
    """The docstring statement of a module, class or function; None for other nodes."""
    if not isinstance(node, (ast.Module, *Definition)) or not node.body:
        return None
    first = node.body[0]
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return None
    return first if isinstance(first.value.value, str) else None


def bordered_lines(source: str, tree: ast.Module) -> list[Line]:
    """The file's lines, each with the kind of border in front of it."""
    texts = source.split("\n")
    statements = {first_line(n) for n in ast.walk(tree) if isinstance(n, ast.stmt)}
    after_docstring = {(d.end_lineno or 0) + 1 for n in ast.walk(tree) if (d := docstring_of(n))}
    result = []
    for number, text in enumerate(texts, start=1):
        follows_blank = number > 1 and not texts[number - 2].strip()
        underline = texts[number].strip() if number < len(texts) else ""
        underlined = len(underline) > 2 and set(underline) <= set("-=")
        if number in after_docstring or (follows_blank and underlined):
            border = "section"
        elif follows_blank:
            border = "blank"
        else:
            border = "statement" if number in statements else "line"
        result.append(Line(text, border))
    return result


def split(lines: list[Line]) -> list[str]:
    """The text in one part, or in the cheapest sequence of parts of at most LIMIT characters each.

    A part costs its squared distance from TARGET and the price of the border it begins at (integers
    only); the cheapest sequence is found by dynamic programming from the last line backwards.
    """
    lines = outdented(lines)
    whole = text_of(lines)
    if len(whole) <= LIMIT:
        return [whole]
    count = len(lines)
    best: list[tuple[int, int]] = [(0, 0)] * (count + 1)  # for each first line: cost from there on, next cut
    for start in range(count - 1, -1, -1):
        options: list[tuple[int, int]] = []
        size = 0
        for stop in range(start + 1, count + 1):
            size += len(lines[stop - 1].text) + 1
            if size > LIMIT + 1 and options:
                break
            price = BORDER_COST[lines[stop].border] if stop < count else 0
            options.append((((size - TARGET) // 60) ** 2 + price + best[stop][0], stop))
        best[start] = min(options)
    parts, start = [], 0
    while start < count:
        stop = best[start][1]
        parts.append(text_of(lines[start:stop]))
        start = stop
    return [part for part in parts if part]


def outdented(lines: list[Line]) -> list[Line]:
    """The lines without the first line's indentation, and without blanks at their ends."""
    indent = lines[0].text[: len(lines[0].text) - len(lines[0].text.lstrip())]
    return [Line(line.text.removeprefix(indent).rstrip(), line.border) for line in lines]


def text_of(lines: list[Line]) -> str:
    """Lines as one text, without blank lines at either end."""
    return "\n".join(line.text for line in lines).strip("\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
