"""P7 and P8's tiers: from log rows to distinct queries, on a log small enough to count by hand."""

import gzip
import hashlib
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_by_hand import design_of

from relgrade_assets.errors import Refused
from relgrade_assets.methods.normalise import normalised
from relgrade_assets.methods.queries import distinct, summary, with_tiers
from relgrade_assets.methods.sampling import draw, set_size, shares_close
from relgrade_assets.methods.strata import assign
from relgrade_assets.schemas import TABLES

BERLIN = Path(__file__).parents[2] / "shared/data/query_log_berlin/berlin_dataportal_searchterms_2020-10-09.json.gz"
LOG = {
    "row": pl.Int64,
    "query": pl.String,
    "query_id": pl.String,
    "count": pl.Int64,
    "timestamp": pl.Datetime("us", "UTC"),
    "results": pl.Int64,
    "clicks": pl.Int64,
    "type": pl.String,
}


def log(*rows: dict) -> pl.DataFrame:
    """A log frame; absent columns are null, count is 1, rows are numbered from 1."""
    full = [{**dict.fromkeys(LOG), "row": i, "count": 1, **r} for i, r in enumerate(rows, start=1)]
    return pl.DataFrame(full, schema=LOG)


def one(text: str) -> str:
    return pl.DataFrame({"t": [text]}).select(normalised(pl.col("t"))).item()


def at(month: int, day: int, hour: int = 12) -> datetime:
    return datetime(2024, month, day, hour, tzinfo=UTC)


# ------------------------------------------------------------------ normalising (P7)
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("  LOR\t\n  Plan ", "lor plan"),
        ("\ufb01le", "file"),
        ("Foo\u2122", "footm"),
        ("\uff21\uff22\u3000\uff41b", "ab ab"),
        ("Stra\u00dfe", "stra\u00dfe"),
        ("NEUKO\u0308LLN", "neuk\u00f6lln"),
        ("\u2126", "\u03c9"),
        ("\u00a0a\u00a0\u00a0b\u2003", "a b"),
    ],
)
def test_p7_normalised_by_hand(raw: str, expected: str) -> None:
    assert one(raw) == expected


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_p7_normalising_twice_changes_nothing_law(text: str) -> None:
    once = one(text)
    assert one(once) == once
    assert once == once.strip(" ") and "  " not in once


def test_p7_every_character_idempotent() -> None:
    """P7: over all of Unicode, alone and before a combining accent."""
    chars = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    frame = pl.DataFrame({"c": chars + [c + "\u0301" for c in chars]}).select(a=normalised(pl.col("c")))
    assert frame.filter(normalised(pl.col("a")) != pl.col("a")).is_empty()


# ------------------------------------------------------------------ distinct queries (P7)
def test_p7_counts_rows_and_commonest_form_by_hand() -> None:
    rows = log(
        {"query": "LOR", "count": 3},
        {"query": "lor", "count": 2},
        {"query": " lor ", "count": 2},
        {"query": "Mitte", "count": 1},
        {"query": "lor", "count": 1},
    )
    got = distinct(rows, secret="s", window_days=90).sort("count", descending=True)  # noqa: S106
    assert got["query"].to_list() == ["LOR", "Mitte"]  # LOR 3 and lor 3: the smaller by code point
    assert got["raw_rows"].to_list() == [[1, 2, 3, 5], [4]]
    assert got["count"].to_list() == [8, 1]
    assert got["traffic_share"].to_list() == [8 / 9, 1 / 9]
    assert got["results"].to_list() == got["clicks"].to_list() == [None, None]


def test_p7_query_id_against_hmac_of_the_standard_library() -> None:
    got = distinct(log({"query": " Straße "}), secret="key", window_days=90)  # noqa: S106
    expected = hmac.new(b"key", "straße".encode(), hashlib.sha256).hexdigest()[:12]
    assert got["query_id"].to_list() == ["q" + expected]


def test_p7_query_id_stays_as_the_log_grows() -> None:
    small = distinct(log({"query": "a"}, {"query": "b"}), secret="s", window_days=90)  # noqa: S106
    large = distinct(log({"query": "c"}, {"query": "B"}, {"query": "a"}), secret="s", window_days=90)  # noqa: S106
    assert set(small["query_id"]) < set(large["query_id"])


def test_p7_the_logs_own_ids_are_kept_as_text() -> None:
    got = distinct(log({"query": "a", "query_id": "007"}, {"query": "A", "query_id": "007"}), secret="s", window_days=9)  # noqa: S106
    assert got["query_id"].to_list() == ["007"]


def test_p7_window_is_days_back_from_the_last_day() -> None:
    rows = log(
        {"query": "last", "timestamp": at(3, 31, 1)},
        {"query": "in", "timestamp": at(3, 30, 0)},
        {"query": "out", "timestamp": at(3, 29, 23)},
    )
    assert sorted(distinct(rows, secret="s", window_days=2)["query"]) == ["in", "last"]  # noqa: S106
    assert distinct(rows, secret="s", window_days=2)["traffic_share"].sum() == 1  # noqa: S106


def test_p7_results_and_clicks_by_hand() -> None:
    rows = log(
        {"query": "a", "count": 4, "results": 0, "clicks": 0},
        {"query": "A", "count": 3, "results": 12, "clicks": 2},
        {"query": "b", "count": 1},
    )
    got = distinct(rows, secret="s", window_days=90).sort("count")  # noqa: S106
    assert got["results"].to_list() == [None, 3]  # absence is no zero
    assert got["clicks"].to_list() == [None, 2]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [{"query": "a"}, {"query": " \u3000 "}, {"query": None}],
            ["rows without a usable query: 2 faults", "row 2", "row 3"],
        ),
        ([{"query": "a", "count": 0}], ["usable count", "found 0"]),
        (
            [{"query": "a", "query_id": "1"}, {"query": "b", "query_id": "1"}, {"query": "c", "query_id": "2"}],
            ["'1'", "'a', 'b'", "1 fault"],
        ),
        (
            [{"query": "a", "query_id": "1"}, {"query": "A", "query_id": "2"}],
            ["several query ids", "'1', '2'", "rows 1, 2"],
        ),
        ([{"query": "a", "query_id": "1"}, {"query": "b"}], ["usable query_id", "row 2"]),
        (
            [{"query": "a", "type": "how"}, {"query": "A", "type": "why"}, {"query": "b", "type": "how"}],
            ["several types", "'how', 'why'"],
        ),
        ([{"query": "a", "timestamp": at(1, 1)}, {"query": "b"}], ["usable timestamp", "row 2"]),
        ([], ["holds no row"]),
    ],
)
def test_p7_refusals_name_every_culprit(rows: list[dict], said: list[str]) -> None:
    with pytest.raises(Refused) as caught:
        distinct(log(*rows), secret="s", window_days=90)  # noqa: S106
    for text in said:
        assert text in str(caught.value)


def test_p7_two_queries_under_one_keyed_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relgrade_assets.methods.queries.keyed_id", lambda *_: "q0")
    with pytest.raises(Refused, match="another seed or secret"):
        distinct(log({"query": "a"}, {"query": "b"}), secret="s", window_days=90)  # noqa: S106


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.permutations(["a", "A", "b", " B", "c", "a", "C", "c"]))
def test_p7_order_of_the_log_changes_only_row_numbers_law(texts: list[str]) -> None:
    got = distinct(log(*({"query": t} for t in texts)), secret="s", window_days=90)  # noqa: S106
    base = distinct(log(*({"query": t} for t in sorted(texts))), secret="s", window_days=90)  # noqa: S106
    assert got.drop("raw_rows").equals(base.drop("raw_rows"))
    assert sorted(r for rows in got["raw_rows"] for r in rows) == list(range(1, 9))


# ------------------------------------------------------------------ tiers (P8) and the summary (P7)
def counted(*counts: int) -> pl.DataFrame:
    names = [f"n{i:03}" for i in range(len(counts))]
    return pl.DataFrame({"normalised": names, "count": list(counts)})


def tiers(frame: pl.DataFrame, traffic: float = 0.8, at_most: int = 500, torso: int = 5000) -> list[str]:
    got = with_tiers(frame, head_traffic=traffic, head_at_most=at_most, torso_to_rank=torso)
    return got["tier"].to_list()


def test_p8_head_is_the_fewest_that_carry_the_traffic() -> None:
    assert tiers(counted(10, 70, 10, 5, 5), torso=4) == [
        "head",
        "head",
        "torso",
        "torso",
        "tail",
    ]  # 70 + 10 is exactly 80%
    assert tiers(counted(69, 10, 10, 11), torso=3) == ["head", "torso", "tail", "head"]
    assert tiers(counted(1, 1, 1, 1, 1, 1, 1, 1, 1, 1), traffic=0.7, torso=8) == ["head"] * 7 + ["torso"] + ["tail"] * 2


def test_p8_head_holds_no_more_than_it_may() -> None:
    assert tiers(counted(50, 40, 5, 5), at_most=1, torso=2) == ["head", "torso", "tail", "tail"]


def test_p8_ties_in_count_go_by_normalised_text_whatever_the_order() -> None:
    frame = pl.DataFrame({"normalised": ["b", "a", "c"], "count": [1, 1, 1]})
    assert tiers(frame, traffic=0.3, torso=2) == ["torso", "head", "tail"]


def test_p7_summary_by_hand() -> None:
    got = summary(counted(*([2] * 200 + [1] * 100)))
    assert (got.searches, got.distinct, got.top_share) == (500, 300, 0.8)
    assert str(got) == "500 searches, 300 distinct queries; the top 200 carry 80.0% of traffic"


# ------------------------------------------------------------------ a real log
@pytest.mark.skipif(not BERLIN.exists(), reason="the Berlin log is not beside the checkout")
def test_p7_p8_p9_p10_real_log_twice_to_the_same_bytes() -> None:
    """P7-P10 on daten.berlin.de: 20 months, 33,835 impressions as the publisher states, sampled by tiers."""
    tier_design = design_of(targets={"head": 80, "torso": 150, "tail": 80})
    months = json.loads(gzip.decompress(BERLIN.read_bytes()))["stats"]["months"]
    rows = [
        {
            "query": term,
            "count": facts["impressions"],
            "timestamp": datetime.fromisoformat(f"{month}-01T00:00:00+00:00"),
        }
        for month, held in months.items()
        for term, facts in held["terms"].items()
    ]
    frame = log(*rows)

    def sampled(source: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        found = distinct(source, secret=tier_design.seed, window_days=3650)
        cut = with_tiers(found, head_traffic=0.8, head_at_most=500, torso_to_rank=5000)
        table = assign(cut, tier_design, None)
        return table, draw(table, tier_design)

    table, sample = sampled(frame)
    again, sample_again = sampled(frame.sample(fraction=1, shuffle=True, seed=3))
    assert table.drop("raw_rows").equals(again.drop("raw_rows"))
    assert sample.write_ndjson() == sample_again.write_ndjson()
    TABLES["queries"].model.validate(table, lazy=True)
    TABLES["query_sample"].model.validate(sample, lazy=True)
    assert table["count"].sum() == 33_835
    assert shares_close(sample, tier_design).passed and shares_close(table, tier_design).passed
    assert set_size(sample, tier_design).passed and sample.height == 80 + 150 + 80
    assert sorted(r for held in table["raw_rows"] for r in held) == list(range(1, len(rows) + 1))
    assert 9000 < table.height < 11009  # case and blanks merge some of the 11,009 strings
