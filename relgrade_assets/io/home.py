"""Where things lie: the top folder, the experiments, the state, and the database URL. No reading of content."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.protocol.design import NAME

STATE = "RELGRADE_STATE"
LEDGER = "RELGRADE_LEDGER"
HOME = "RELGRADE_HOME"
DESK = "RELGRADE_DESK"
DESK_PORT = 8765
DESK_URL = f"http://127.0.0.1:{DESK_PORT}"


@dataclass(frozen=True, slots=True)
class Home:
    """The top folder and what follows from it."""

    top: Path
    state: Path
    ledger_url: str
    desk_url: str = DESK_URL
    """Where the owner reaches the desk: what links to its pages begin with."""

    @property
    def experiments(self) -> Path:
        """The folder of experiments."""
        return self.top / "data" / "experiments"

    @property
    def published(self) -> Path:
        """Where published keys go."""
        return self.state / "published"

    def names(self) -> list[str]:
        """Every experiment: a folder with a good name and an experiment.yaml."""
        if not self.experiments.is_dir():
            return []
        return sorted(
            p.name for p in self.experiments.iterdir() if NAME.fullmatch(p.name) and (p / "experiment.yaml").is_file()
        )

    def folder(self, name: str) -> Path:
        """The folder of an experiment. Refused where the name is no name (it never becomes a path unchecked) or there
        is no such folder.
        """
        if not NAME.fullmatch(name):
            raise Refused(
                f"{name!r} can't be the name of an experiment",
                [Fault("name", repr(name), "small letters, digits, - and _, at most 63")],
            )
        folder = self.experiments / name
        if not (folder / "experiment.yaml").is_file():
            there = ", ".join(self.names()) or "none"
            raise Refused(
                f"There is no experiment {name!r}",
                [
                    Fault(
                        f"data/experiments/{name}",
                        "no experiment.yaml",
                        f"one of: {there}",
                        f"`relgrade init {name}` makes it.",
                    )
                ],
            )
        return folder


def find_home(top: Path | None = None) -> Home:
    """The home under `top`, or RELGRADE_HOME, or the nearest folder upwards that holds data/experiments, or here."""
    if top is None:
        top = Path(os.environ[HOME]) if os.environ.get(HOME) else _upwards(Path.cwd())
    top = top.resolve()
    state = Path(os.environ.get(STATE) or top / ".relgrade").resolve()
    ledger = os.environ.get(LEDGER) or f"sqlite:///{state / 'ledger.sqlite'}"
    return Home(top, state, ledger, (os.environ.get(DESK) or DESK_URL).rstrip("/"))


def _upwards(here: Path) -> Path:
    for folder in (here, *here.parents):
        if (folder / "data" / "experiments").is_dir() or (folder / "workspace.yaml").is_file():
            return folder
    return here
