"""The turn of an experiment as a Dagster resource: taken by the first table that a run makes, held until the run ends
(under an executor of many processes, until the step's process does).
"""

from collections.abc import Callable
from contextlib import ExitStack

import dagster as dg
from pydantic import PrivateAttr

from relgrade_assets.errors import Refused
from relgrade_assets.io.home import Home
from relgrade_assets.io.turns import WAIT_SECONDS, turn
from relgrade_assets.resources.studies import failure


class Turns(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One run at a time makes an experiment's tables."""

    wait_seconds: float = WAIT_SECONDS
    """How long a run waits for the one before it."""
    _held: ExitStack = PrivateAttr(default_factory=ExitStack)
    _taken: bool = PrivateAttr(default=False)
    _lost: Refused | None = PrivateAttr(default=None)

    def take(self, home: Home, name: str, run: str, tell: Callable[[str], None]) -> None:
        """Hold the turn from here to the end of the run. A Dagster failure that says who holds it where it isn't free
        in time; every later step is then told at once.
        """
        if self._lost is None and not self._taken:
            try:
                self._held.enter_context(turn(home, name, run=run, wait_seconds=self.wait_seconds, tell=tell))
                self._taken = True
            except Refused as refused:
                self._lost = refused
        if self._lost is not None:
            raise failure(self._lost)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Give the turn back."""
        self._held.close()
