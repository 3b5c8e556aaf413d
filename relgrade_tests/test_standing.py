"""How a key stands (P33-P35), from events worked out by hand."""

import json
from typing import Any

import pytest

from relgrade_assets.errors import Refused
from relgrade_assets.io import events
from relgrade_assets.io.events import Event
from relgrade_assets.io.standing import Standing, banners, kept_files, standing_of, status_bytes


def chain(*steps: tuple[str, dict[str, Any]]) -> list[Event]:
    """Events of these kinds and bodies, a day apart."""
    made: list[Event] = []
    for seq, (kind, body) in enumerate(steps, start=1):
        prev, at = events.head_of(made)[0], f"2026-03-{seq:02}T00:00:00.000000Z"
        made.append(Event("demo", seq, at, kind, body, prev, events.event_hash("demo", seq, at, kind, body, prev)))
    return made


OPENED = ("opened", {"round": 1, "cause": "first grading"})
FROZEN = ("frozen", {"round": 1, "key_digest": "k"})
READ = ("first_reading", {"round": 1, "key_digest": "k"})
VOID = ("voided", {"round": 1, "key_digest": "k", "why": "a grade was found changed"})
SECOND = ("opened", {"round": 2, "cause": "drift"})
FROZEN_2 = ("frozen", {"round": 2, "key_digest": "k2"})
VOID_2 = ("voided", {"round": 2, "key_digest": "k2", "why": "x"})
CORRECTED = ("corrected", {"round": 1, "key_digest": "k3"})


def found(log: list[Event], round: int = 1, key: str | None = None) -> Standing:
    standing = standing_of(log, round, key)
    assert standing is not None
    return standing


@pytest.mark.parametrize(
    ("steps", "round", "key", "status", "since"),
    [
        ([OPENED, FROZEN], 1, None, "valid", 2),
        ([OPENED, FROZEN, READ], 1, "k", "valid", 2),
        ([OPENED, FROZEN, READ, VOID], 1, None, "void", 4),
        ([OPENED, FROZEN, READ, VOID_2], 1, "k", "valid", 2),
        ([OPENED, FROZEN, READ, SECOND], 1, "k", "superseded", 4),
        ([OPENED, FROZEN, READ, SECOND, FROZEN_2], 2, None, "valid", 5),
        ([OPENED, FROZEN, READ, SECOND, VOID], 1, None, "void", 5),
        ([OPENED, FROZEN, READ, VOID, SECOND], 1, None, "void", 4),
        ([OPENED, FROZEN, READ, VOID, CORRECTED], 1, None, "void", 4),
        ([OPENED, FROZEN, READ, VOID, CORRECTED], 1, "k3", "post_hoc", 5),
        ([OPENED, FROZEN, READ, CORRECTED, SECOND], 1, "k3", "post_hoc", 4),
        ([OPENED, ("corrected", {"round": 1, "key_digest": "k"}), FROZEN], 1, "k", "valid", 3),
    ],
)
def test_standing_from_the_log(steps: list[Any], round: int, key: str | None, status: str, since: int) -> None:
    """P35: valid, superseded, void, post-hoc; another round's void doesn't touch this one, a void is for good."""
    log = chain(*steps)
    standing = found(log, round, key)
    assert (standing.status, standing.since) == (status, log[since - 1].at)
    assert standing.at == events.head_of(log)
    assert standing.decides is (status in ("valid", "superseded"))
    assert bool(standing.banner) is (status != "valid")
    assert json.loads(status_bytes(log, round=standing.round, key_digest=standing.key)) == standing.record()


def test_banners_name_round_reason_and_time() -> None:
    """P35: what is said wherever key or measures are shown."""
    log = chain(OPENED, FROZEN, READ, VOID, SECOND, CORRECTED)
    void = found(log).banner
    assert void.startswith("VOID: round 1 of demo is void since 2026-03-04T")
    assert "a grade was found changed" in void
    assert found(log, 1, "k3").banner.startswith("POST-HOC: this is a corrected key of round 1 of demo, made after")
    old = found(chain(OPENED, FROZEN, READ, SECOND))
    assert old.banner == "SUPERSEDED: round 2 was opened on 2026-03-04. This is the key of round 1 of demo."
    assert old.next_round == 2


def test_every_key_that_is_not_the_latest_and_valid_has_a_banner() -> None:
    """P33, P35: oldest round first; a valid key that is the latest needs none."""
    assert banners(chain(OPENED, FROZEN, READ)) == []
    log = chain(OPENED, FROZEN, READ, SECOND, FROZEN_2, VOID_2)
    assert [b.split(":")[0] for b in banners(log)] == ["SUPERSEDED", "VOID"]
    assert [b.split(":")[0] for b in banners(log[:-1])] == ["SUPERSEDED"]


def test_files_that_a_freeze_logged_are_those_of_its_round() -> None:
    """P33; status.json holds the manifest beside it by digest."""
    kept = [("frozen", {"round": n, "key_digest": f"k{n}", "files": {"key.jsonl": f"d{n}"}}) for n in (1, 2)]
    log = chain(OPENED, kept[0], SECOND, kept[1])
    assert [kept_files(log, n) for n in (1, 2, 3)] == [{"key.jsonl": "d1"}, {"key.jsonl": "d2"}, None]
    assert kept_files(chain(OPENED, FROZEN), 1) is None
    said = json.loads(status_bytes(log, round=2, key_digest="k2", manifest="m"))
    assert said == {**found(log, 2).record(), "manifest_sha256": "m"}


def test_a_key_that_the_log_does_not_know_has_no_standing() -> None:
    """P33."""
    log = chain(OPENED, FROZEN)
    assert standing_of(log, 2) is None
    assert standing_of(log, 1, "k9") is None
    assert standing_of(chain(OPENED, ("corrected", {"round": 1, "key_digest": "c"})), 1) is None
    with pytest.raises(Refused, match="knows no key k9"):
        status_bytes(log, round=1, key_digest="k9")
