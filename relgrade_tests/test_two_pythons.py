"""The demo on another Python: a new environment, the same key, the same bytes of every published file (P10, P33).

Tries the newest other Python (3.11 or later) that is found on PATH or under pyenv, `make test-full` every one;
without any the
test is skipped. It needs the package index.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from conftest import FULL, TOP

VERSION = "import sys; print(*sys.version_info[:2], sys.implementation.name)"


def others() -> list[tuple[tuple[int, int], str]]:
    """Other Pythons of this machine that relgrade supports, newest first: version and program."""
    names = [f"python3.{minor}" for minor in range(11, 15)]
    programs = [found for name in names if (found := shutil.which(name))]
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        programs += [str(p) for p in sorted(Path(root).glob("versions/3.1?.*/bin/python"))] if root else []
    found: dict[tuple[int, int], str] = {}
    for program in programs:
        told = subprocess.run([program, "-c", VERSION], capture_output=True, text=True, check=False)
        if told.returncode == 0 and told.stdout.split()[-1:] == ["cpython"]:
            major, minor, _ = told.stdout.split()
            found.setdefault((int(major), int(minor)), program)
    mine = sys.version_info[:2]
    return sorted((item for item in found.items() if item[0] != mine and item[0] >= (3, 11)), reverse=True)


def checkout(folder: Path) -> Path:
    """The files of the working tree that git knows, in a folder of their own."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (TOP / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, folder / name)
    return folder


def published(folder: Path) -> dict[str, str]:
    files = sorted((folder / ".relgrade" / "published").rglob("*"))
    return {p.name: sha256(p.read_bytes()).hexdigest() for p in files if p.is_file()}


def test_another_python_gives_the_same_key_and_bytes(tmp_path: Path) -> None:
    found = others()
    if not found:
        pytest.skip("no other Python from 3.11 on is found on this machine")
    # only the variables that a shell has: this test's own environment must not help
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("RELGRADE", "DAGSTER", "PYTHON", "VIRTUAL_ENV"))}
    here = checkout(tmp_path / "here")
    program = str(Path(sys.executable).with_name("relgrade"))
    ours = subprocess.run([program, "demo"], cwd=here, env=plain, capture_output=True, text=True, check=False)
    assert ours.returncode == 0, ours.stderr[-2000:]
    for version, python in found if FULL else found[:1]:
        there = checkout(tmp_path / "there" / "{}.{}".format(*version))
        made = ["make", "demo", f"PYTHON={python}"]
        theirs = subprocess.run(made, cwd=there, env=plain, capture_output=True, text=True, check=False)
        assert theirs.returncode == 0, theirs.stderr[-2000:]
        assert re.findall(r"sha256 (\w{64})$", theirs.stdout, re.M) == re.findall(
            r"sha256 (\w{64})$", ours.stdout, re.M
        )
        assert published(there) == published(here)
        assert "key.jsonl" in published(here)
