"""Other tools' exports, read a second time in plain Python from docs/reference/formats.md: oracles for fuzzing. Nothing
of relgrade is imported; JSON and CSV are naive_readers.py's.
"""

from __future__ import annotations

from typing import Any

from naive_readers import FLAGS, Naive, Object, csv_table, document, filled, halved, id_of, list_of, unmarked


def quepid_book(data: bytes) -> Naive:
    """query, docid and a column a judge: (line, judge, query, chunk, rating, reason), judge after judge."""
    table = csv_table(data)
    if isinstance(table, Naive):
        return table
    names, lines, bad = table
    judges = [n for n in names if n not in ("query", "docid", "explanation")]
    shown = [unmarked(n, " ") for n in judges]
    if not {"query", "docid"} <= set(names) or not judges or not all(n.strip() for n in shown):
        return Naive(whole="columns")
    if len(set(shown)) < len(shown):
        return Naive(whole="two judges of one name")
    out = Naive(bad=bad)
    for judge, who in zip(judges, shown, strict=True):
        for n, cells in lines:
            row = dict(zip(names, cells, strict=True))
            chunk = unmarked(row["docid"], " ")
            reason = unmarked(row.get("explanation", "").strip(), " ") if len(judges) == 1 else ""
            if not row["query"].strip() or not chunk.strip():
                out.bad.add(n)
            out.rows.append((n, who, row["query"], chunk, row[judge].strip() or None, reason or None))
    return out if lines or bad else Naive(whole="no row")


def spreadsheet(data: bytes) -> Naive:
    """(line, grader, query id, query, chunk, rating, reason, unrateable, later)."""
    table = csv_table(data)
    if isinstance(table, Naive):
        return table
    names, lines, bad = table
    if not {"doc_id", "grade"} <= set(names) or not {"query_id", "query_text"} & set(names):
        return Naive(whole="columns")
    out = Naive(bad=bad)
    for n, cells in lines:
        row = {k: unmarked(v, "'") for k, v in zip(names, cells, strict=True)}
        query_id, query, chunk, grade, rater, notes = (
            row.get(c, "") for c in ("query_id", "query_text", "doc_id", "grade", "rater_id", "notes")
        )
        word = grade.strip().lower()
        if not chunk.strip() or not (query_id.strip() or query.strip()):
            out.bad.add(n)
        rating = None if word in ("unrateable", "later") else grade.strip() or None
        kept = [text if text.strip() else None for text in (query_id, query, notes)]
        out.rows.append(
            (n, rater.strip() or None, *kept[:2], chunk, rating, kept[2], word == "unrateable", word == "later")
        )
    return out if lines or bad else Naive(whole="no row")


def opensearch(data: bytes) -> Naive:
    """(query, chunk, rating) of judgmentRatings."""
    found = document(data)
    out = Naive()
    try:
        assert isinstance(found, Object)
        for entry in list_of(found.get("judgmentRatings")):
            query = entry.get("query")
            assert filled(query)
            for rating in list_of(entry.get("ratings")):
                chunk, value = rating.get("docId"), rating.get("rating")
                assert id_of(chunk) is not None and (value is None or type(value) is str)
                out.rows.append((str(query), str(chunk), (value or "").strip() or None))
    except (AssertionError, AttributeError):
        return Naive(whole="shape")
    return out if out.rows and not any(halved(t) for r in out.rows for t in r if t) else Naive(whole="rows")


def label_studio(data: bytes) -> Naive:
    """(grader, query id, chunk, rating, reason, flags) of every annotation that was not skipped."""
    tasks = document(data)
    out = Naive()
    try:
        assert isinstance(tasks, list) and not isinstance(tasks, Object)
        for task in tasks:
            about = task.get("data")
            ids = [about.get(k) for k in ("query_id", "chunk_id")]
            assert all(id_of(i) is not None for i in ids)
            given = task.get("annotations", [])
            for annotation in list_of(given):
                if annotation.get("was_cancelled") is True:
                    continue
                who = annotation.get("completed_by")
                who = (who.get("email") or who.get("id")) if isinstance(who, Object) else who
                named = str(who) if isinstance(who, str) and who else None
                rating, reason, flags = _results(annotation.get("result"))
                out.rows.append((named, *map(str, ids), rating, reason, *flags))
    except (AssertionError, AttributeError):
        return Naive(whole="shape")
    texts = [t for r in out.rows for t in r if isinstance(t, str)]
    return out if out.rows and not any(halved(t) for t in texts) else Naive(whole="rows")


def _results(results: Any) -> tuple[str | None, str | None, list[bool]]:
    assert isinstance(results, list) and not isinstance(results, Object)
    found: dict[str, Any] = {}
    for part in results:
        control = part.get("from_name") if isinstance(part, Object) else None
        if control not in ("grade", "reason", "flags"):
            continue
        value = part.get("value")
        assert isinstance(value, Object) and control not in found
        if control == "grade":
            chosen = value.get("choices")
            plain = isinstance(chosen, list) and not isinstance(chosen, Object) and len(chosen) == 1
            one = chosen[0] if plain else value.get("rating", value.get("number"))
            assert isinstance(one, str) and one
            found[control] = str(one)
            continue
        many = value.get("text" if control == "reason" else "choices")
        many = [many] if isinstance(many, str) else many
        assert isinstance(many, list) and not isinstance(many, Object) and all(isinstance(m, str) for m in many)
        assert set(many) <= set(FLAGS) if control == "flags" else len(many) == 1
        found[control] = many if control == "flags" else many[0]
    return found.get("grade"), found.get("reason"), [f in found.get("flags", []) for f in FLAGS]
