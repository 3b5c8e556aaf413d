"""The studies as a Dagster resource: assets ask it for the experiment of their partition. Configuration only; the
work is io/'s.
"""

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from pydantic import PrivateAttr

from relgrade_assets.errors import Refused
from relgrade_assets.io.home import Home, find_home
from relgrade_assets.io.study import Clock, Study, open_study, utc_now
from relgrade_assets.io.turns import turn


class Studies(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens studies under one home."""

    top: str = ""
    """The top folder; found from the environment or the current folder where empty."""
    at: str = ""
    """A time in ISO 8601 that stamps what is recorded, where a recorded study is replayed; the present time where
    empty.
    """
    _turns: ExitStack = PrivateAttr(default_factory=ExitStack)
    _taken: bool = PrivateAttr(default=False)
    _lost: Refused | None = PrivateAttr(default=None)

    @property
    def home(self) -> Home:
        """The home that this resource opens studies under."""
        return find_home(Path(self.top) if self.top else None)

    @property
    def clock(self) -> Clock:
        """The clock that studies are given."""
        if not self.at:
            return utc_now
        moment = datetime.fromisoformat(self.at).astimezone(UTC)
        return lambda: moment

    def take_turn(self, name: str, run: str, tell: Callable[[str], None]) -> None:
        """Hold the turn of an experiment from here to the end of the run (of its process, where an executor has many).
        A Dagster failure that says who holds it where it isn't free in time; every later step is then told at once.
        """
        if self._lost is None and not self._taken:
            try:
                self._turns.enter_context(turn(self.home, name, run=run, tell=tell))
                self._taken = True
            except Refused as refused:
                self._lost = refused
        if self._lost is not None:
            raise failure(self._lost)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Give the turn back."""
        self._turns.close()

    def study(self, name: str) -> Study:
        """The study of an experiment, as it stands now. A design that can't be used becomes a Dagster failure that
        says why.
        """
        try:
            return open_study(self.home, name, clock=self.clock)
        except Refused as refused:
            raise failure(refused) from None


def failure(refused: Refused) -> dg.Failure:
    """A refusal as Dagster shows it: the whole message, never retried."""
    return dg.Failure(
        description=refused.message(), metadata={"faults": dg.IntMetadataValue(refused.total)}, allow_retries=False
    )
