"""P26, P13: which queries the auditor grades."""

import hashlib
import json
from collections import Counter

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from study_by_hand import corpus_of, runs_of, sample_of

from relgrade_assets.methods.audit_sample import Selection, few_arms_share, ids, select
from relgrade_assets.methods.pooling import contributions, pools
from relgrade_assets.schemas import TABLES


def study(
    shared: dict[str, int], strata: dict[str, str], arms: int = 2
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Queries of ten chunks each, of which `shared` are found by every arm and the others by the first alone."""
    chunks = [f"c{i}" for i in range(10)]
    names = [f"arm{i}" for i in range(arms)]
    runs = {a: {q: chunks if a == "arm0" else chunks[:n] for q, n in shared.items()} for a in names}
    found = contributions(runs_of(runs), 10)
    return found, sample_of(dict.fromkeys(shared, "x"), strata), pools(found, corpus_of(dict.fromkeys(chunks, "t")))


def chosen(
    shared: dict[str, int],
    strata: dict[str, str],
    *,
    arms: int = 2,
    share: float = 0.1,
    at_least: int = 1,
    random_too: bool = False,
    round: int = 1,
    seed: str = "s",
    used: frozenset[str] = frozenset(),
) -> Selection:
    found, sample, pooled = study(shared, strata, arms)
    return select(
        found,
        sample,
        pooled,
        share=share,
        at_least=at_least,
        random_too=random_too,
        seed=seed,
        round=round,
        arms=arms,
        used_before=used,
    )


MANY = {f"q{i:02}": 5 for i in range(60)}
THREE = {q: ("head", "torso", "tail")[i % 3] for i, q in enumerate(MANY)}


def picked(selection: Selection, why: str = "few_arms") -> list[str]:
    return selection.frame.filter(pl.col("chosen_for") == why)["query_id"].to_list()


def test_p26_size_is_the_greater_of_ten_and_a_tenth_and_capped() -> None:
    def size(n: int, share: float = 0.1, at_least: int = 10) -> int:
        some = dict(list(MANY.items())[:n])
        return chosen(some, dict.fromkeys(some, "head"), share=share, at_least=at_least).frame.height

    assert [size(60), size(7), size(60, share=0.19), size(60, share=0.2)] == [10, 7, 12, 12]
    assert size(50, share=0.14, at_least=1) == 7  # in floats 0.14 * 50 is above 7


def test_p26_those_with_the_highest_few_arms_share_in_each_stratum_by_hand() -> None:
    shared = {"a": 9, "b": 2, "c": 5, "d": 8, "e": 1, "f": 10}
    strata = {"a": "head", "b": "head", "c": "head", "d": "tail", "e": "tail", "f": "tail"}
    got = chosen(shared, strata, at_least=4)
    TABLES["audit_selection"].model.validate(got.frame, lazy=True)
    assert got.frame.rows() == [
        ("b", "head", 0.8, "few_arms"),
        ("c", "head", 0.5, "few_arms"),
        ("d", "tail", 0.2, "few_arms"),
        ("e", "tail", 0.9, "few_arms"),
    ]
    assert got.reused == 0


def test_p26_few_is_one_with_three_arms_and_two_with_four() -> None:
    runs = {"w": {"q": ["a", "b"]}, "x": {"q": ["a", "b"]}, "y": {"q": ["a", "c"]}}
    corpus = corpus_of(dict.fromkeys("abcd", "t"))
    three = contributions(runs_of(runs), 10)
    assert few_arms_share(three, pools(three, corpus), arms=3) == {"q": 1 / 3}
    four = contributions(runs_of({**runs, "z": {"q": ["a", "d"]}}), 10)
    assert few_arms_share(four, pools(four, corpus), arms=4) == {"q": 3 / 4}


def test_p26_evenly_over_strata_however_unequal_they_are() -> None:
    strata = {q: "head" if i < 50 else "tail" for i, q in enumerate(MANY)}
    got = chosen(MANY, strata, at_least=10)
    assert Counter(got.frame["stratum"]) == {"head": 5, "tail": 5}
    scarce = {q: "head" if i < 58 else "tail" for i, q in enumerate(MANY)}
    assert Counter(chosen(MANY, scarce, at_least=10).frame["stratum"]) == {"head": 8, "tail": 2}


def test_p26_ties_go_by_sha256_against_hashlib() -> None:
    got = chosen(MANY, dict.fromkeys(MANY, "head"), at_least=10, round=2)

    def key(query: str) -> str:
        return hashlib.sha256(json.dumps(["audit", "s", "2", query], separators=(",", ":")).encode()).hexdigest()

    assert picked(got) == sorted(sorted(MANY, key=key)[:10])
    assert picked(chosen(MANY, dict.fromkeys(MANY, "head"), at_least=10, seed="t", round=2)) != picked(got)


def test_p26_each_round_draws_afresh_while_unaudited_queries_last() -> None:
    used: frozenset[str] = frozenset()
    for round_ in range(1, 7):
        got = chosen(MANY, THREE, at_least=10, round=round_, used=used)
        assert got.reused == 0 and not used & set(picked(got))
        used |= set(picked(got))
    again = chosen(MANY, THREE, at_least=10, round=7, used=used)
    assert (again.reused, again.frame.height) == (10, 10)
    partly = chosen(MANY, THREE, at_least=10, round=7, used=used - {"q00", "q01", "q02"})
    assert partly.reused == 7 and {"q00", "q01", "q02"} <= set(picked(partly))


def test_p26_as_many_again_at_random() -> None:
    got = chosen(MANY, THREE, at_least=10, random_too=True)
    TABLES["audit_selection"].model.validate(got.frame, lazy=True)
    assert (len(picked(got)), len(picked(got, "random"))) == (10, 10)
    assert picked(got) == picked(chosen(MANY, THREE, at_least=10))
    some = dict(list(MANY.items())[:15])
    assert chosen(some, THREE, at_least=10, random_too=True).frame.height == 15


def test_p26_random_queries_go_by_hash_fresh_ones_first() -> None:
    shared = {q: 0 if i < 3 else 9 for i, q in enumerate(MANY)}  # the first three are the few-arms choice
    used = frozenset(list(MANY)[3:40])
    got = chosen(shared, THREE, at_least=3, share=0.01, random_too=True)
    again = chosen(shared, THREE, at_least=3, share=0.01, random_too=True, used=used)

    def first(of: list[str]) -> list[str]:
        parts = {q: json.dumps(["audit_random", "s", "1", q], separators=(",", ":")) for q in of}
        return sorted(sorted(of, key=lambda q: hashlib.sha256(parts[q].encode()).hexdigest())[:3])

    assert picked(got) == list(MANY)[:3] and picked(got, "random") == first(list(MANY)[3:])
    assert picked(again, "random") == first(list(MANY)[40:]) and again.reused == 0


def test_p13_only_query_ids_cross() -> None:
    got = chosen(MANY, THREE, at_least=10)
    sample = ids(got.frame)
    TABLES["audit_sample"].model.validate(sample, lazy=True)
    assert sample.columns == ["query_id"] and sample["query_id"].to_list() == sorted(picked(got))


def test_p26_a_query_without_a_pool_is_not_audited_degenerate() -> None:
    found, sample, pooled = study({"a": 1, "b": 2}, {"a": "head", "b": "head"})
    more = pl.concat([sample, sample_of({"c": "x"}, {"c": "head"})])
    got = select(
        found, more, pooled, share=1.0, at_least=1, random_too=False, seed="s", round=1, arms=2, used_before=frozenset()
    )
    assert picked(got) == ["a", "b"]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.dictionaries(st.sampled_from(list(MANY)), st.integers(0, 10), min_size=1, max_size=14), st.integers(1, 14))
def test_p26_laws(shared: dict[str, int], n: int) -> None:
    """P26: size, no query twice, none better left out in its stratum, and the order of rows has no say."""
    strata = {q: THREE[q] for q in shared}
    found, sample, pooled = study(shared, strata)
    more = {
        "share": 0.1,
        "at_least": n,
        "random_too": False,
        "seed": "s",
        "round": 1,
        "arms": 2,
        "used_before": frozenset(),
    }
    got = select(found, sample, pooled, **more)  # type: ignore[arg-type]
    assert got.frame.height == min(n, len(shared))
    for stratum in set(strata.values()):
        inside = [10 - shared[q] for q in picked(got) if strata[q] == stratum]
        outside = [10 - shared[q] for q in shared if strata[q] == stratum and q not in picked(got)]
        assert not inside or not outside or min(inside) >= max(outside)
    shuffled = select(found.reverse(), sample.reverse(), pooled.reverse(), **more)  # type: ignore[arg-type]
    assert shuffled.frame.equals(got.frame)
