"""The frozen key as other tools take it (P42): OpenSearch's judgments, Quepid's ratings and book, LTR text. The
search engines' ranking evaluation is rank_eval.py's.

Graders appear by pseudonym. What needs a query's text is never made of a private study; that is the caller's to heed
(`NEEDS_TEXT`). Unrateable pairs are no judgments and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import polars as pl

from relgrade_assets.io.cells import BLANK, csv_bytes
from relgrade_assets.io.tool_sheets import refuse_ids

FILES: dict[str, str] = {
    "opensearch": "opensearch_judgments.json",
    "quepid-ratings": "quepid_ratings.csv",
    "quepid-book": "quepid_book.csv",
    "ltr": "ltr.txt",
    "rank-eval": "rank_eval.json",
    "qrels": "qrels.txt",
    "croissant": "croissant.json",
}
"""What is published in which form."""
NEEDS_TEXT = ("opensearch", "quepid-ratings", "quepid-book", "rank-eval")
"""Forms that know queries by their text alone: not written of private studies (P41)."""
_PAIR = ["query_id", "chunk_id"]


def exports(
    key: pl.DataFrame,
    by_grader: pl.DataFrame,
    queries: pl.DataFrame,
    names: Mapping[str, str],
    *,
    name: str,
    description: str,
    private: bool,
) -> dict[str, bytes]:
    """File name -> bytes of every form that may be written. `key`: query_id, chunk_id, grade; `by_grader` the same with
    grader, null where unrateable; `queries`: query_id, query; `names`: grader to pseudonym.

    Raises Refused for chunk ids that Quepid would not give back.
    """
    rows = key.select(*_PAIR, "grade").sort(_PAIR)
    files = {FILES["ltr"]: ltr_text(rows, queries, private=private)}
    if private:
        return files
    book = by_grader.join(rows, on=_PAIR, how="semi")
    return {
        **files,
        FILES["opensearch"]: opensearch_json(rows, queries, name=name, description=description),
        FILES["quepid-ratings"]: quepid_ratings(rows, queries),
        FILES["quepid-book"]: quepid_book(book, queries, names),
    }


def opensearch_json(key: pl.DataFrame, queries: pl.DataFrame, *, name: str, description: str) -> bytes:
    """OpenSearch's import of judgments; ratings are text there."""
    text = dict(queries.select("query_id", "query").iter_rows())
    grouped: dict[str, list[dict[str, str]]] = {}
    for query_id, chunk_id, grade in key.sort(_PAIR).select(*_PAIR, "grade").iter_rows():
        grouped.setdefault(query_id, []).append({"docId": chunk_id, "rating": str(grade)})
    content = {
        "name": name,
        "description": description,
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": [{"query": text[q], "ratings": ratings} for q, ratings in grouped.items()],
    }
    return (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode()


def quepid_ratings(key: pl.DataFrame, queries: pl.DataFrame) -> bytes:
    """Quepid's ratings of a case: query, docid, rating."""
    rows = _with_text(key, queries).select("query", "chunk_id", pl.col("grade").cast(pl.String))
    refuse_ids(rows.to_dicts(), FILES["quepid-ratings"], BLANK, ("chunk_id",))
    return csv_bytes(("query", "docid", "rating"), rows.iter_rows(), mark=BLANK)


def quepid_book(grades: pl.DataFrame, queries: pl.DataFrame, names: Mapping[str, str]) -> bytes:
    """Quepid's book: query, docid, and a column a grader by pseudonym, empty where they gave no grade.

    Who graded nothing has no column, as in Quepid's own export.
    """
    given = grades.drop_nulls("grade").with_columns(
        pl.col("grader").replace_strict(dict(names), return_dtype=pl.String)
    )
    who = [p for p in dict.fromkeys(names.values()) if p in set(given["grader"])]
    cells = {(q, c, g): str(grade) for q, c, g, grade in given.select(*_PAIR, "grader", "grade").iter_rows()}
    pairs = _with_text(given.select(_PAIR).unique().sort(_PAIR), queries)
    refuse_ids(pairs.to_dicts(), FILES["quepid-book"], BLANK, ("chunk_id",))
    rows = (
        [query, chunk_id, *(cells.get((query_id, chunk_id, g), "") for g in who)]
        for query_id, chunk_id, query in pairs.select(*_PAIR, "query").iter_rows()
    )
    return csv_bytes(["query", "docid", *who], rows, mark=BLANK)


def ltr_text(key: pl.DataFrame, queries: pl.DataFrame, *, private: bool) -> bytes:
    """Judgments for learning to rank: queries numbered in the order of their ids, the header says which is which, by
    text or, where private, by id.
    """
    ids: Sequence[str] = key["query_id"].unique().sort().to_list()
    number = {query_id: n for n, query_id in enumerate(ids, 1)}
    lined = queries.with_columns(query=pl.col("query").str.replace_all(r"[\s\p{Z}\p{Cc}]+", " ").str.strip_chars(" "))
    text = {q: q for q in ids} if private else dict(lined.select("query_id", "query").iter_rows())
    head = "".join(f"# qid:{number[q]}: {text[q]}*1\n" for q in ids)
    body = "".join(
        f"{grade} qid:{number[q]} # {chunk}\n"
        for q, chunk, grade in key.sort(_PAIR).select(*_PAIR, "grade").iter_rows()
    )
    return f"{head}\n{body}".encode()


def _with_text(rows: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    return rows.sort(_PAIR).join(
        queries.select("query_id", "query"), on="query_id", how="left", validate="m:1", maintain_order="left"
    )
