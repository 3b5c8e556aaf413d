"""The standing of a round's key, from the event log alone (P33, P35): valid, superseded, void or post-hoc.

`standing_of(log, round)` is the one function that says it: `standing_of(study.log, study.round).banner` is what every
place that shows a key or its measures puts before them ("" where the key is valid and the latest). Nothing is looked
up or written here: finding changed grades and remaking files is voiding.py's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from relgrade_assets.errors import Refused
from relgrade_assets.io.events import Event, head_of, voided

Status = Literal["valid", "superseded", "void", "post_hoc"]

POST_HOC = "made after measures were read, for information only; the decision stays with the frozen key"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a key stands: its status since when and why, and the round that was opened after its own (None where none
    was). `at` is the log's head and length that this was read from.
    """

    experiment: str
    round: int
    key: str
    status: Status
    since: str
    why: str
    next_round: int | None
    at: tuple[str, int]

    @property
    def decides(self) -> bool:
        """Whether a decision may rest on this key: not where its round is void, or it was made afterwards."""
        return self.status in ("valid", "superseded")

    @property
    def banner(self) -> str:
        """One line for people, to stand before the key and its measures; empty where nothing needs saying."""
        whose = f"round {self.round} of {self.experiment}"
        return {
            "valid": "",
            "superseded": f"SUPERSEDED: {self.why}. This is the key of {whose}.",
            "void": f"VOID: {whose} is void since {self.since}: {self.why}. Its numbers decide nothing (P35).",
            "post_hoc": f"POST-HOC: this is a corrected key of {whose}, {self.why} (P35).",
        }[self.status]

    def record(self) -> dict[str, object]:
        """What status.json says."""
        return {
            "experiment": self.experiment,
            "round": self.round,
            "key": self.key,
            "status": self.status,
            "since": self.since,
            "why": self.why,
            "events": {"head": self.at[0], "length": self.at[1]},
        }


def standing_of(log: Sequence[Event], round: int, key_digest: str | None = None) -> Standing | None:
    """How the key of `round` stands by the log: the frozen one, or with `key_digest` that one, which may be a
    corrected key (P35). None where the log knows no such key.

    Void outweighs superseded: a void round stays void when another is opened.
    """
    kinds = ("frozen", "corrected") if key_digest is not None else ("frozen",)
    mine = next(
        (
            e
            for kind in kinds
            for e in log
            if e.kind == kind and e.round == round and key_digest in (None, e.body["key_digest"])
        ),
        None,
    )
    if mine is None:
        return None
    void = voided(log, round)
    later = next((e for e in log if e.kind == "opened" and e.round > round), None)
    status: Status
    if mine.kind == "corrected":
        status, since, why = "post_hoc", mine.at, POST_HOC
    elif void is not None:
        status, since, why = "void", void.at, str(void.body["why"])
    elif later is not None:
        status, since, why = "superseded", later.at, f"round {later.round} was opened on {later.at[:10]}"
    else:
        status, since, why = "valid", mine.at, "frozen, and no grade was found changed"
    next_round = later.round if later else None
    return Standing(mine.experiment, round, str(mine.body["key_digest"]), status, since, why, next_round, head_of(log))


def banners(log: Sequence[Event]) -> list[str]:
    """What has to be said of every frozen key of an experiment, oldest round first: voids, and what was superseded."""
    found = [standing_of(log, n) for n in sorted({e.round for e in log if e.kind == "frozen"})]
    return [s.banner for s in found if s is not None and s.banner]


def kept_files(log: Sequence[Event], round: int) -> dict[str, str] | None:
    """Digest of each file that the store keeps of the round's key, by name, from the freeze's line of the log; None
    where it has none.
    """
    mine = next((e for e in log if e.kind == "frozen" and e.round == round), None)
    held = mine.body.get("files") if mine else None
    return {str(name): str(value) for name, value in held.items()} if isinstance(held, dict) else None


def status_bytes(log: Sequence[Event], *, round: int, key_digest: str, manifest: str | None = None) -> bytes:
    """status.json, remade from the log (P33, P35), with the sha256 of the manifest beside it where there is one.

    Raises Refused where the log knows nothing of this key.
    """
    found = standing_of(log, round, key_digest)
    if found is None:
        raise Refused(f"The event log knows no key {key_digest} in round {round}, so it has no status")
    said = found.record() | ({} if manifest is None else {"manifest_sha256": manifest})
    return (json.dumps(said, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()
