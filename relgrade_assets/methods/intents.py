"""The locked intents: one line a sampled query, linted (P16), reviewed row by row, then locked by digest (P17).

Nothing of pools comes in here. Where intents are written and reviews are kept is `io/`'s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import polars as pl

from relgrade_assets.errors import Fault, Notice, Refused, Waiting
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.protocol.design import FORMS

_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")
_PLAIN_SLASH = frozenset({"i/o", "tcp/ip", "n/a", "a/b", "ci/cd", "r/w"})
_ALTERNATIVE_IN_PARENTHESES = re.compile(
    r"\([^)]*(?:\bor\b|\be\.\s?g\.|\bfor example\b|\balternatively\b|\bmaybe\b|\bperhaps\b"
    r"|\bpossibly\b|\balso\b|/)[^)]*\)",
    re.I,
)
_LIST = re.compile(r"^\s*(?:[-*\u2022+]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s|;\s+\S|\b1\)\s.*\b2\)\s|\ba\)\s.*\bb\)\s")


@dataclass(frozen=True, slots=True)
class Locked:
    """The Intents table, locked, and what was noticed on the way."""

    frame: pl.DataFrame
    notices: tuple[Notice, ...]


def lint(intent: str) -> list[str]:
    """P16: why this is not one line with one reading; an empty list where nothing is found.

    Text in backticks or double quotes is a name, and not read. Refused: no text; a line break; the words `or`,
    `and/or`, `either`, `alternatively`; a slash between two words (paths, URLs, fractions, and terms such as I/O or
    TCP/IP apart); a second question or sentence after a `?`; a bullet, a numbering or a semicolon; parentheses that
    hold an alternative or an example. `How do I read or write GraphML files?` is refused too, though it may be one
    question: its author overrides with a reason.
    """
    found: list[str] = []
    if not intent.strip():
        return ["it is empty"]
    if len(intent.strip().splitlines()) > 1:
        found.append("it has more than one line")
    text = _QUOTED.sub("X", intent)
    if re.search(r"\bor\b", text, re.I):
        found.append("the word 'or' offers an alternative")
    for word in ("either", "alternatively"):
        if re.search(rf"\b{word}\b", text, re.I):
            found.append(f"the word {word!r} offers an alternative")
    if any(map(_alternative_by_slash, _words(text))) or re.search(r"\s/\s", text):
        found.append("a slash between words offers an alternative")
    if re.search(r"\?\s+\S", text):
        found.append("something follows the question mark: one question a line")
    if _LIST.search(text):
        found.append("it is a list")
    if _ALTERNATIVE_IN_PARENTHESES.search(text):
        found.append("the parentheses hold an alternative")
    return found


def row_digest(query: str, form: str, intent: str, author: str) -> str:
    """P16: what a review holds for; any change of the row changes it."""
    return digest([query, form, intent, author])


def lock(
    sample: pl.DataFrame,
    written: pl.DataFrame,
    reviews: pl.DataFrame,
    *,
    round: int,
    reviewers: Collection[str],
    unreviewed_ok: bool,
) -> Locked | Waiting:
    """P16, P17: the Intents table of a round, sorted by query id; or what is still owed.

    `sample` is the query sample. `written` has query_id, query (null, or as sampled), form, intent, author,
    lint_override (a reason, or null). `reviews` has query_id, row_digest, reviewer, at (UTC, ISO 8601), verdict (ok or
    change), note; each reviewer's latest on a row holds, and those of others than `reviewers` do not count. With
    `unreviewed_ok` (a declared deviation) unreviewed rows are locked without a reviewer; rows sent back are not.
    Intents of queries outside the sample are passed over and counted.

    Raises Refused with every fault of every row: two rows for a query, another query text, an unknown form, no author,
    a lint's finding without a reason.
    """
    queries: dict[str, str] = dict(sample.select("query_id", "query").sort("query_id").rows())
    ours = written.filter(pl.col("query_id").is_in(list(queries))).sort("query_id", maintain_order=True)
    ours = ours.filter(pl.col("intent").is_not_null() & (pl.col("intent").str.strip_chars() != ""))
    faults = _faults(ours, queries)
    if faults:
        raise Refused("The intents can't be locked", faults)
    rows = {r["query_id"]: r for r in ours.select("query_id", "form", "intent", "author").to_dicts()}
    digests = {i: row_digest(queries[i], r["form"], r["intent"], r["author"]) for i, r in rows.items()}
    seen = _reviews(reviews, reviewers)
    state = {i: _state(i, digests, seen) for i in queries}
    blocking = (
        ("missing", "sent back")
        if unreviewed_ok
        else ("missing", "sent back", "changed since its review", "unreviewed")
    )
    owed = [(kind, i) for kind in blocking for i in queries if state[i] == kind]
    if owed:
        counts = Counter(kind for kind, _ in owed)
        return Waiting(
            f"intents ready to lock: {', '.join(f'{n} {kind}' for kind, n in counts.items())}",
            len(queries) - len(owed),
            len(queries),
            tuple(i if len(counts) == 1 else f"{i} {kind}" for kind, i in owed),
        )
    accepted = {i: seen[i, digests[i]][-1] if state[i] == "ok" else (None, None, None) for i in queries}
    frame = pl.DataFrame(
        [(round, i, *list(rows[i].values())[1:], accepted[i][1], accepted[i][0], digests[i]) for i in queries],
        schema={
            "round": pl.Int64, "query_id": pl.String, "form": pl.String, "intent": pl.String, "author": pl.String,
            "reviewer": pl.String, "reviewed_at": pl.String, "row_digest": pl.String,
        },
        orient="row",
    )  # fmt: skip
    return Locked(frame, _notices(written, ours, queries, frame))


def intents_digest(frame: pl.DataFrame) -> str:
    """P17: the digest by which the table is locked: ids, forms, intents, authors and row digests, whatever the rows'
    order."""
    return digest(
        [list(r) for r in frame.select("query_id", "form", "intent", "author", "row_digest").sort("query_id").rows()]
    )


def row_faults(row: Mapping[str, str | None], queries: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    """P16: what is wrong with a row's text, as column, found, expected and mend: another query's text than the sampled
    one (`queries`, by id), and a lint's finding without a reason. Rows of other queries are passed over. No text is
    repeated: what is found ends in Dagster's log.
    """
    found: list[tuple[str, str, str, str]] = []
    if row["query_id"] not in queries:
        return found
    given, sampled, intent = row["query"], queries[str(row["query_id"])], row["intent"] or ""
    if given is not None and given != sampled:
        found.append(("query", "another text", "the sampled query's", "Leave the query's text as sampled."))
    if not (row["lint_override"] or "").strip():
        mend = "Keep the most plausible question, or give a reason under lint_override."
        found += [("", finding, "one line with one reading", mend) for finding in lint(intent)]
    return found


def row_check(sample: pl.DataFrame) -> Callable[[Mapping[str, str | None]], list[tuple[str, str, str, str]]]:
    """`row_faults` against the query sample (query_id, query)."""
    return partial(row_faults, queries=dict(sample.select("query_id", "query").iter_rows()))


def _faults(ours: pl.DataFrame, queries: dict[str, str]) -> list[Fault]:
    faults: list[Fault] = []
    for query_id, n in ours.group_by("query_id").agg(pl.len()).filter(pl.col("len") > 1).sort("query_id").rows():
        faults.append(Fault(f"intent of {query_id}", f"{n} rows", "one intent a query"))
    for row in ours.to_dicts():
        where = f"intent of {row['query_id']}"
        faults += [
            Fault(f"{where}, {column}" if column else where, *said) for column, *said in row_faults(row, queries)
        ]
        if row["form"] not in FORMS:
            faults.append(Fault(f"{where}, form", repr(row["form"]), f"one of {', '.join(FORMS)}"))
        if not (row["author"] or "").strip():
            faults.append(Fault(f"{where}, author", "nobody", "who wrote it"))
    return faults


def _reviews(reviews: pl.DataFrame, reviewers: Collection[str]) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
    """Each reviewer's latest (at, reviewer, verdict) by query id and row digest, oldest first."""
    latest: dict[tuple[str, str], dict[str, tuple[str, str, str]]] = {}
    for i, d, who, at, verdict in (
        reviews.select("query_id", "row_digest", "reviewer", "at", "verdict").sort("at", maintain_order=True).rows()
    ):
        if who in reviewers:
            latest.setdefault((i, d), {})[who] = (at, who, verdict)
    return {key: sorted(by.values()) for key, by in latest.items()}


def _state(query_id: str, digests: dict[str, str], seen: dict[tuple[str, str], list[tuple[str, str, str]]]) -> str:
    if query_id not in digests:
        return "missing"
    held = seen.get((query_id, digests[query_id]), [])
    if any(verdict != "ok" for _, _, verdict in held):
        return "sent back"
    if held:
        return "ok"
    return "changed since its review" if any(i == query_id for i, _ in seen) else "unreviewed"


def _notices(
    written: pl.DataFrame, ours: pl.DataFrame, queries: dict[str, str], frame: pl.DataFrame
) -> tuple[Notice, ...]:
    outside = written.filter(~pl.col("query_id").is_in(list(queries))).height
    overridden = sum(
        1 for t, reason in ours.select("intent", "lint_override").rows() if (reason or "").strip() and lint(t)
    )
    bare = frame["reviewer"].null_count()
    counted = (
        ("intents_outside_sample", outside, "intents of queries outside the sample were passed over"),
        ("lint_overridden", overridden, "intents stand against the lint, each with its author's reason"),
        ("unreviewed_intents", bare, "intents were locked without a review"),
    )
    return tuple(Notice(code, n, text) for code, n, text in counted if n)


def _words(text: str) -> list[str]:
    return [t.strip(".,:;!?()[]'") for t in text.split()]


def _alternative_by_slash(token: str) -> bool:
    return bool(re.fullmatch(r"[^\W\d_][\w-]*/[^\W\d_][\w-]*", token)) and token.lower() not in _PLAIN_SLASH
