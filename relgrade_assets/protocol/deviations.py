"""P3: departures from the protocol that a design may declare, each with the rule it departs from."""

from __future__ import annotations

from typing import Literal, get_args

DeviationCode = Literal[
    "shared_families",
    "one_arm",
    "small_audit",
    "shallow_depth",
    "authored_queries",
    "imported_without_reasons",
    "unreviewed_intents",
    "gate_lowered",
    "unrateable_share",
    "reused_audit",
    "missing_arm",
    "same_reviewer_after_round",
    "collapsed_stratum",
    "no_calibration",
    "little_overlap",
]

MEANING: dict[str, str] = {
    "shared_families": "P26: two of grader, auditor and arms come from one model family",
    "one_arm": "P12, P45: one arm alone is pooled, so nothing can be compared",
    "small_audit": "P26: the auditor grades fewer than max(10, 10%) of the queries",
    "shallow_depth": "P12: pools are under 10 deep, or under 20 with more than three arms or 100,000 chunks",
    "authored_queries": "P7: the log's queries or its traffic were written, not measured",
    "imported_without_reasons": "P19: grades came from files that hold no reasons",
    "unreviewed_intents": "P17: intents were not reviewed by the auditor",
    "gate_lowered": "P28: a gate stands below its default",
    "unrateable_share": "P19: more than 2% of the pool could not be rated",
    "reused_audit": "P26: an audit sample drawn for an earlier round was used again",
    "missing_arm": "formats.md: an arm answers fewer than half of the queries",
    "same_reviewer_after_round": "P17: a revised intent was reviewed by someone who has seen that pool",
    "collapsed_stratum": "P38: a stratum with one graded query has no variance of its own",
    "no_calibration": "P26: several people grade, and no calibration of theirs was logged before",
    "little_overlap": "P26: several people grade, and share fewer than 10% of the queries",
}
"""What each code admits, with its rule."""

assert set(MEANING) == set(get_args(DeviationCode))  # noqa: S101 - a mismatch is ours, never a user's
