"""The studies as a Dagster resource: assets ask it for the experiment of their partition. Configuration only; the
work is io/'s.
"""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from relgrade_assets.errors import Refused
from relgrade_assets.io.home import Home, find_home
from relgrade_assets.io.study import Clock, Study, open_study, utc_now


class Studies(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens studies under one home."""

    top: str = ""
    """The top folder; found from the environment or the current folder where empty."""
    at: str = ""
    """A time in ISO 8601 that stamps what is recorded, where a recorded study is replayed; the present time where
    empty.
    """

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
