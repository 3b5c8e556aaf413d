"""How a table's columns read, in the Dagster UI and in the docs: what each is, and the rules its values keep. What the
columns are is schemas.py's.
"""

from __future__ import annotations

import re
from typing import Any

_PLAIN = {
    "query_id": "The query.",
    "chunk_id": "The chunk.",
    "query": "Its text.",
    "stratum": "The stratum it falls into.",
    "tier": "head, torso or tail, by traffic.",
    "type": "The type of query.",
    "by": "What gave the type; in `revisions`, who decided.",
    "type_by_person": "What a person says the type is; null until filled in.",
    "round": "The round it belongs to.",
    "form": "How the query asks.",
    "intent": "The one line that says what the query asks.",
    "author": "Who wrote it.",
    "arm": "The arm.",
    "rank": "Place in the arm's ranking, from 1.",
    "score": "The arm's score; higher is better.",
    "grader": "Who graded.",
    "header": "What stands above the text.",
    "text": "The text that is graded.",
    "chosen_for": "Few arms found its pool, or it was drawn at random.",
    "reason": "What the chunk says about the intent, in at most 15 words.",
    "grade": "The grade, on the design's scale.",
    "unrateable": "True where it can't be graded.",
    "corpus_cleanup": "True where the grader says the chunk should be mended or taken out.",
    "position": "Place in the grader's order within the query.",
    "statistic": "Which statistic; confusion and exact_by_grade have a row a cell.",
    "value": "The value.",
    "low": "Lower end of the 95% interval; null where there is none.",
    "high": "Upper end of the 95% interval; null where there is none.",
    "queries": "Queries that it comes from.",
    "note": "How to read the row, or why it is undefined.",
    "audit_grade": "The auditor's grade.",
    "audit_reason": "The auditor's reason.",
    "likely_cause": "Where to begin reading; it decides nothing.",
    "gate": "Which gate.",
    "threshold": "What the design asks for.",
    "verdict": "Whether it is met.",
    "why": "The comparison, or why there is none.",
    "grades_digest": "Digest of the grades that were judged.",
    "audit_grades_digest": "Digest of the auditor's grades that were judged.",
    "gates_digest": "Digest of the thresholds.",
    "protocol_digest": "Digest of design and rubric.",
    "cause": "What went wrong, or what changed.",
    "evidence": "What was found.",
    "what": "What was changed.",
    "measure": "The measure's name.",
    "judged": "Share of what the measure looked at that has a grade.",
    "estimand": "What the value is a mean over.",
    "file": "Name of the file.",
    "bytes": "Its size.",
    "sha256": "Its digest.",
}
"""Columns whose name says enough for the schema, and not for a page."""


def described(column: Any) -> str:
    """What a column of a pandera schema is, as Markdown: its own description, or its name's."""
    return str(column.description or _PLAIN[str(column.name)])


def plainly(text: str) -> str:
    """Markdown without its links, for where they would lead nowhere."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def rules_of(column: Any, *, quote: str = "") -> list[str]:
    """The rules of a column's values, in words: allowed values between `quote`s, bounds as `>= 0`."""
    said = []
    for check in column.checks:
        found = check.statistics
        if "allowed_values" in found:
            said.append(" or ".join(f"{quote}{v}{quote}" for v in found["allowed_values"]))
        elif "min_value" in found and check.error and "str_length" in str(check.error):
            said.append("not empty")
        else:
            sign = "<=" if "max_value" in found else ">" if "greater_than(" in str(check.error) else ">="
            said.append(f"{sign} {next(v for v in found.values() if v is not None):g}")
    return said
