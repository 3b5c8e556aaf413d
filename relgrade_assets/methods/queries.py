"""From the log's rows to one row a distinct query, with its traffic (P7) and its tier (P8).

The window, counting, query ids and tiers belong here. Types and strata are `strata.py`'s; reading the log is a
reader's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from math import ceil

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods.normalise import normalised
from relgrade_assets.protocol.canonical import keyed_id

TOP = 200
"""P7: the queries whose part of the traffic is reported."""


@dataclass(frozen=True, slots=True)
class LogSummary:
    """P7's report on the log's window: searches, distinct queries, and the part of all searches that the top 200 carry
    (0 to 1)."""

    searches: int
    distinct: int
    top: int
    top_share: float

    def __str__(self) -> str:
        """One line for people."""
        head = f"the top {self.top} carry {self.top_share:.1%} of traffic"
        return f"{self.searches} searches, {self.distinct} distinct queries; {head}"


def distinct(log: pl.DataFrame, *, secret: str, window_days: int) -> pl.DataFrame:
    """P7: one row a distinct query of the window, sorted by query id.

    `log` has row, query, query_id, count, timestamp (UTC), results, clicks, type; one row a search or a query. The
    window is the `window_days` days that end with the log's last day, where it has times. `secret` keys the ids of a
    log without its own.
    Returns query_id, query (commonest raw form; of equals the smallest by code point), normalised, raw_rows, count,
    traffic_share, type, results (searches with at least one result) and clicks, both null where never logged.

    Raises Refused: no rows, rows without a query or with a count under 1, times or ids in some rows only, one id for
    two queries, two ids or two types for one query.
    """
    rows = _windowed(_checked(log.with_columns(normalised=normalised(pl.col("query")))), window_days)
    raw = rows.group_by("normalised", "query").agg(pl.col("count").sum())
    commonest = raw.sort("normalised", "count", "query", descending=[False, True, False]).unique(
        "normalised", keep="first", maintain_order=True
    )
    logged = pl.col("results").is_not_null()
    counted = rows.group_by("normalised").agg(
        raw_rows=pl.col("row").cast(pl.Int64).sort(),
        count=pl.col("count").sum().cast(pl.Int64),
        type=pl.col("type").drop_nulls().unique().sort(),
        own=pl.col("query_id").drop_nulls().unique().sort(),
        results=pl.when(logged.any()).then(pl.col("count").filter(pl.col("results") > 0).sum()).cast(pl.Int64),
        clicks=pl.when(pl.col("clicks").is_not_null().any()).then(pl.col("clicks").sum()).cast(pl.Int64),
    )
    frame = counted.join(commonest.select("normalised", "query"), on="normalised", how="left", validate="1:1").sort(
        "normalised"
    )
    _refuse_conflicts(frame)
    ids = _ids(frame, secret)
    return (
        frame.with_columns(
            query_id=pl.Series(ids, dtype=pl.String),
            type=pl.col("type").list.first(),
            traffic_share=pl.col("count") / pl.col("count").sum(),
        )
        .select("query_id", "query", "normalised", "raw_rows", "count", "traffic_share", "type", "results", "clicks")
        .sort("query_id")
    )


def with_tiers(frame: pl.DataFrame, *, head_traffic: float, head_at_most: int, torso_to_rank: int) -> pl.DataFrame:
    """P8: `frame` with `tier`, its rows in the order they came in.

    Rank is by count, of equals by normalised text. Head: the fewest that carry `head_traffic` of all searches, at most
    `head_at_most`; torso: the rest to `torso_to_rank`; tail: all others.
    """
    ranked = (
        frame.select("normalised", "count")
        .sort("count", "normalised", descending=[True, False])
        .with_row_index("rank", offset=1)
    )
    enough = ceil(Fraction(str(head_traffic)) * int(frame["count"].sum()))
    before = pl.col("count").cum_sum() - pl.col("count")
    tiers = ranked.select(
        "normalised",
        tier=pl.when((before < enough) & (pl.col("rank") <= head_at_most))
        .then(pl.lit("head"))
        .when(pl.col("rank") <= torso_to_rank)
        .then(pl.lit("torso"))
        .otherwise(pl.lit("tail")),
    )
    return frame.join(tiers, on="normalised", how="left", validate="1:1", maintain_order="left")


def zero_shares(queries: pl.DataFrame) -> tuple[float | None, float | None]:
    """P43: of the searches whose results were logged, the share without any; of those whose clicks were, the share that
    queries without a single click make up. None where nothing was logged. `queries` is schemas.Queries.
    """

    def share(column: str, none: pl.Expr) -> float | None:
        logged = queries.filter(pl.col(column).is_not_null())
        searches = int(logged["count"].sum())
        return float(logged.select(none.sum()).item()) / searches if searches else None

    without = pl.col("count") - pl.min_horizontal("count", "results")
    return share("results", without), share("clicks", pl.when(pl.col("clicks") == 0).then("count").otherwise(0))


def summary(frame: pl.DataFrame) -> LogSummary:
    """P7: what is said of the log; `frame` has a row a distinct query with its `count`."""
    searches = int(frame["count"].sum())
    top = int(frame["count"].top_k(min(TOP, frame.height)).sum())
    return LogSummary(searches=searches, distinct=frame.height, top=TOP, top_share=top / searches if searches else 0.0)


def _checked(rows: pl.DataFrame) -> pl.DataFrame:
    if rows.is_empty():
        raise Refused("The query log holds no row", [Fault("query_log", "no rows", "at least one search")])
    _refuse_rows(
        rows,
        pl.col("normalised").is_null() | (pl.col("normalised") == ""),
        "query",
        "a query with at least one character that is no blank",
    )
    _refuse_rows(rows, pl.col("count").is_null() | (pl.col("count") < 1), "count", "a whole number from 1 up")
    for column in ("timestamp", "query_id"):
        if rows[column].is_not_null().any():
            _refuse_rows(rows, pl.col(column).is_null(), column, f"a {column} in every row, or in none")
    return rows


def _refuse_rows(rows: pl.DataFrame, bad: pl.Expr, column: str, expected: str) -> None:
    wrong = rows.filter(bad).sort("row").select("row", column)
    if wrong.height:
        faults = [
            Fault(f"query_log row {row}, {column}", _shown(value), expected, "Mend the row or take it out.")
            for row, value in wrong.head(50).rows()
        ]
        raise Refused(f"The query log has rows without a usable {column}", faults, total=wrong.height)


def _windowed(rows: pl.DataFrame, days: int) -> pl.DataFrame:
    if rows["timestamp"].is_null().all():
        return rows
    day = pl.col("timestamp").dt.date()
    last = rows.select(day.max()).item()
    return rows.filter(day > last - timedelta(days=days))


def _refuse_conflicts(frame: pl.DataFrame) -> None:
    for column, word in (("type", "types"), ("own", "query ids")):
        wrong = frame.filter(pl.col(column).list.len() > 1)
        if wrong.height:
            faults = [
                Fault(
                    f"query {query!r}, rows {_few(found)}",
                    f"the {word} {', '.join(map(repr, values))}",
                    "one",
                    f"Spellings of one query are one query; give it one of the {word}.",
                )
                for query, found, values in wrong.select("normalised", "raw_rows", column).rows()
            ]
            raise Refused(f"One query of the log has several {word}", faults)


def _ids(frame: pl.DataFrame, secret: str) -> list[str]:
    """The log's own ids or P7's keyed ones; one id for two queries is refused."""
    own = frame["own"].list.first().to_list()
    keyed = own[0] is None
    ids = [keyed_id("q", secret, text) for text in frame["normalised"]] if keyed else own
    held: dict[str, list[str]] = {}
    for query_id, text in zip(ids, frame["normalised"], strict=True):
        held.setdefault(query_id, []).append(text)
    mend = (
        "Two queries hash to one id; another seed or secret parts them."
        if keyed
        else "Give each query its own id, or name no query_id column."
    )
    faults = [
        Fault(f"query id {i!r}", f"the queries {', '.join(map(repr, texts))}", "one query", mend)
        for i, texts in held.items()
        if len(texts) > 1
    ]
    if faults:
        raise Refused("One query id stands for several queries", faults)
    return [str(i) for i in ids]


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)


def _few(rows: Iterable[int]) -> str:
    listed = [str(r) for r in rows]
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
