"""OpenSearch's import of judgments (P25): `judgmentRatings`, queries by their text, ratings as text; and RRE's ratings
file, which search tools share.

What OpenSearch's ratings mean is nowhere in the file, so that a declared mapping is needed (`imported`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io.readers.documents import json_document
from relgrade_assets.io.readers.faults import Faults
from relgrade_assets.io.readers.imported import Raw, raw_frame, row
from relgrade_assets.io.readers.slow_records import Fractional, Whole, described


def read_opensearch(path: Path, *, name: str, inside: Path | None = None) -> Raw:
    """`{"judgmentRatings":[{"query","ratings":[{"docId","rating":"2"}]}]}`. Nobody is named as the grader.

    Raises Refused as `documents` does, and for entries of another shape, each by its path in the file.
    """
    document, notices = json_document(path, name=name, inside=inside)
    faults = Faults(name)
    rows: list[dict[str, Any]] = []
    for q, at in _entries(document, "judgmentRatings", "", faults, top=True):
        query = q.get("query")
        if not _filled(query):
            faults.add(0, described(query), "a query's text", column=f"{at}.query")
            continue
        for r, place in _entries(q, "ratings", at, faults):
            doc, rating = r.get("docId"), r.get("rating")
            if not _filled(doc) or isinstance(doc, Fractional):
                faults.add(0, described(doc), "an id", column=f"{place}.docId")
            elif rating is not None and type(rating) is not str:
                faults.add(0, described(rating), "a rating as text", column=f"{place}.rating")
            else:
                rating = (rating or "").strip() or None
                rows.append(row(len(rows) + 1, place, query=query, chunk_id=str(doc), rating=rating))
    faults.refuse()
    return Raw(raw_frame(rows, name, "queries with ratings"), notices, rating_words=True)


def read_rre(path: Path, *, name: str, inside: Path | None = None) -> Raw:
    """RRE's ratings: queries with `$query` among their placeholders and `relevant_documents` by grade, at the top or
    within topics and query groups. Documents that are not listed have no judgment.
    """
    document, notices = json_document(path, name=name, inside=inside)
    faults = Faults(name)
    rows: list[dict[str, Any]] = []
    if not isinstance(document, dict):
        raise Refused(f"{name} can't be used", [Fault(name, described(document), "RRE's ratings: an object")])
    for group, at in _groups(document, ""):
        for q, place in _entries(group, "queries", at, faults):
            placeholders = q.get("placeholders")
            query = placeholders.get("$query") if isinstance(placeholders, dict) else None
            judged = q.get("relevant_documents", group.get("relevant_documents"))
            if not _filled(query) or not isinstance(judged, dict):
                expected = "$query among the placeholders, and relevant_documents"
                faults.add(0, "a query without them", expected, column=place)
                continue
            for grade, docs in judged.items():
                listed = docs if isinstance(docs, list) else []
                if not listed or not all(_filled(d) and not isinstance(d, Fractional) for d in listed):
                    faults.add(0, f"grade {grade} with {described(docs)}", "a list of ids", column=place)
                    continue
                rows += [
                    row(len(rows) + 1 + i, f"{place}.{grade}[{i}]", query=query, chunk_id=str(d), rating=grade)
                    for i, d in enumerate(listed)
                ]
    faults.refuse()
    return Raw(raw_frame(rows, name, "queries with relevant documents"), notices)


def _groups(node: dict[str, Any], at: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Every object that has queries, in order."""
    if "queries" in node:
        yield node, at
    for key in ("topics", "query_groups"):
        inner = node.get(key)
        for i, part in enumerate(inner if isinstance(inner, list) else []):
            if isinstance(part, dict):
                yield from _groups(part, f"{at}.{key}[{i}]".lstrip("."))


def _entries(
    node: Any, key: str, at: str, faults: Faults, *, top: bool = False
) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a list, each with its path; a fault where there is no list, or something else in it."""
    path = f"{at}.{key}".lstrip(".")
    given = node.get(key) if isinstance(node, dict) else None
    if not isinstance(given, list):
        faults.add(
            0, described(node if top and not isinstance(node, dict) else given), "a list of objects", column=path
        )
        return
    for i, part in enumerate(given):
        if isinstance(part, dict):
            yield part, f"{path}[{i}]"
        else:
            faults.add(0, described(part), "an object", column=f"{path}[{i}]")


def _filled(value: Any) -> bool:
    return isinstance(value, Whole) or (isinstance(value, str) and bool(value.strip()))
