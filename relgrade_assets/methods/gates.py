"""Gates: whether an agreement is enough, as data (P28, P29).

Statistics are agreement.py's. No exception stops a key here: a verdict is a row, and `standing` reads rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from relgrade_assets.errors import Fault
from relgrade_assets.methods.agreement import KEY_AUDITOR
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.protocol.design import Gates

KAPPAS = ("weighted_kappa", "binary_kappa")
SHARES = ("disagreement", "two_step")
VERDICTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "round": pl.Int64,
    "gate": pl.String,
    "threshold": pl.Float64,
    "value": pl.Float64,
    "verdict": pl.String,
    "why": pl.String,
    "grades_digest": pl.String,
    "audit_grades_digest": pl.String,
    "gates_digest": pl.String,
    "protocol_digest": pl.String,
}
"""Columns of schemas.Verdicts."""


def gates_of(*, binary_scale: bool) -> tuple[str, ...]:
    """The gates that a key needs (P28): on a binary scale only binary kappa and disagreement."""
    return ("binary_kappa", "disagreement") if binary_scale else (*KAPPAS, *SHARES)


def digest_of(gates: Gates, *, binary_scale: bool) -> str:
    """Digest of the thresholds, of what they judge on, and of which of them apply."""
    return digest(["gates", gates.model_dump(mode="json"), list(gates_of(binary_scale=binary_scale))])


def verdict(gate: str, threshold: float, value: float | None, undefined: str = "") -> tuple[str, str]:
    """`passed`, `failed` or `undefined`, and why. Kappas pass at the threshold or above, shares at it or below.

    An undefined value is not a pass; `undefined` says why it is so (P28).
    """
    if value is None:
        return "undefined", undefined or "undefined, which is not a pass"
    kappa = gate in KAPPAS
    passed = value >= threshold if kappa else value <= threshold
    sign = (">=" if passed else "<") if kappa else ("<=" if passed else ">")
    return ("passed" if passed else "failed"), f"{value:.6g} {sign} {threshold:g}"


def worst_end_of(gate: str) -> str:
    """The end of its interval that a gate may ask (P28): `low` of a kappa, `high` of a share."""
    return "low" if gate in KAPPAS else "high"


def judge(
    agreement: pl.DataFrame,
    *,
    gates: Gates,
    binary_scale: bool,
    round: int,
    grades_digest: str,
    audit_grades_digest: str,
    gates_digest: str,
    protocol_digest: str,
    reused_sample: bool = False,
) -> pl.DataFrame:
    """P28, P29: one row a gate, as schemas.Verdicts, with the digests of what was judged.

    Reads the rows of `key~auditor` over all strata. `judge_on: worst_end` takes the lower end of a kappa's interval
    and the upper end of a share's; without an interval that is undefined, hence no pass. `reused_sample` is said in
    every `why` (P26).
    """
    rows: list[tuple[object, ...]] = []
    for gate in gates_of(binary_scale=binary_scale):
        threshold: float = getattr(gates, gate)
        value, basis, missing = _judged_value(agreement, gate, gates.judge_on == "worst_end")
        outcome, why = verdict(gate, threshold, value, missing)
        why = "; ".join(
            [why, *([basis] if value is not None and basis else []), *(["reused sample"] if reused_sample else [])]
        )
        rows.append(
            (
                round,
                gate,
                threshold,
                value,
                outcome,
                why,
                grades_digest,
                audit_grades_digest,
                gates_digest,
                protocol_digest,
            )
        )
    return pl.DataFrame(rows, schema=VERDICTS, orient="row").sort("gate")


def _judged_value(agreement: pl.DataFrame, gate: str, worst_end: bool) -> tuple[float | None, str, str]:
    """The value to judge, what it is, and why there is none."""
    found = agreement.filter(
        (pl.col("statistic") == gate) & (pl.col("comparison") == KEY_AUDITOR) & (pl.col("scope") == "all")
    )
    if found.height != 1:
        return None, "", f"the agreement has {found.height} rows for {gate} of {KEY_AUDITOR} over all strata, not one"
    row = found.row(0, named=True)
    if row["value"] is None:
        return None, "", row["note"] or "undefined, and the agreement does not say why"
    if not worst_end:
        return row["value"], "", ""
    end = worst_end_of(gate)
    name = f"the {'lower' if end == 'low' else 'upper'} end of the 95% interval"
    return row[end], name, f"there is no {name} to judge on: {row['note']}"


def standing(
    verdicts: pl.DataFrame,
    *,
    grades_digest: str,
    audit_grades_digest: str,
    gates_digest: str,
    protocol_digest: str,
    expected_gates: Sequence[str],
) -> list[Fault]:
    """P29: empty where every expected gate has one passed verdict on exactly these digests; else every fault.

    The asset check and the freeze both ask this one function, so that the key materialised alone is held to the same.
    """
    faults: list[Fault] = []
    current = {
        "grades_digest": (grades_digest, "the grades that are present"),
        "audit_grades_digest": (audit_grades_digest, "the audit grades that are present"),
        "gates_digest": (gates_digest, "the design's gates"),
        "protocol_digest": (protocol_digest, "the protocol in force"),
    }
    for gate in expected_gates:
        found = verdicts.filter(pl.col("gate") == gate).to_dicts()
        if len(found) != 1:
            faults.append(Fault(f"gate {gate}", f"{len(found)} verdicts" if found else "no verdict", "one", _AGAIN))
            continue
        row = found[0]
        for column, (value, what) in current.items():
            if row[column] != value:
                faults.append(Fault(f"gate {gate}", f"{column} {row[column]}", f"{value} ({what})", _AGAIN))
        if row["verdict"] != "passed":
            faults.append(Fault(f"gate {gate}", f"{row['verdict']}: {row['why']}", "passed", _REVISE))
        elif verdict(gate, row["threshold"], row["value"])[0] != "passed":
            faults.append(
                Fault(f"gate {gate}", f"passed with {row['value']}", f"a value that meets {row['threshold']:g}", _AGAIN)
            )
    other = sorted(set(verdicts["gate"].to_list()) - set(expected_gates))
    return faults + [Fault(f"gate {gate}", "a verdict", "none: the scale has no such gate", _AGAIN) for gate in other]


_AGAIN = "Materialise agreement and verdicts again."
_REVISE = "See disagreements, then open the next round with relgrade revise."
