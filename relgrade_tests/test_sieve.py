"""The fast reader of runs against the one that explains: equal hits and notices, or the slower one is taken."""

from __future__ import annotations

import gzip
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import pytrec_eval
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relgrade_assets.errors import Refused
from relgrade_assets.io.readers import sieve
from relgrade_assets.io.readers.runs import read_run
from relgrade_assets.io.readers.sieve import WINDOW, sift_run
from relgrade_assets.methods.hits import Hits, judged_hits
from relgrade_assets.methods.id_words import Ids
from relgrade_assets.methods.kept_rows import column_ids, hits_of, judged_of
from relgrade_assets.methods.measures import score

DATA = Path(__file__).parents[2] / "shared" / "data"
FULL = bool(os.environ.get("RELGRADE_FULL"))
QUERIES = ["q1", "q2", "q3", "07", "7"]
CHUNKS = [f"c{i}" for i in range(9)] + [
    "c#d",
    "Q0",
    "1",
    "01",
    "longer-than-twelve-bytes-1",
    "longer-than-twelve-bytes-2",
]
SCORES = ["3", "2.5", "1e0", "1.0", "-0.0", "0", "0.1", "0.10000000000000001", "+0.5", ".25", "5.", "-3"]
ODD = [
    *["nan", "inf", "-inf", "", "1,5", "1e999", "0x10", "1_0", "a", "é", "#c", "c\x7f", "c\t", "\r", "c\x00", "NULL"],
    *[" ", "\n", "\n\n", "\ufeff", "Q0 ", "x y", '"c', "'", "1.5", "99999999999999999999", "+1", "\x85", "-"],
]


def qrels_of(pairs: list[tuple[str, str, int]]) -> pl.DataFrame:
    schema = {"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64}
    return pl.DataFrame(pairs, schema=schema, orient="row")


QRELS = qrels_of(
    [(q, c, (i + j) % 4 - 1) for i, q in enumerate(QUERIES) for j, c in enumerate(CHUNKS) if (i * j) % 3 != 2]
)
IDS = sorted(set(QRELS["query_id"]))


def same(mine: Hits, theirs: Hits) -> bool:
    return all(np.array_equal(getattr(mine, k), getattr(theirs, k)) for k in ("cell", "rank", "grade", "retrieved"))


def agree(path: Path, qrels: pl.DataFrame = QRELS) -> bool:
    """Whether the fast reader took the file; what it says is then what the slower one says, notices included."""
    try:
        fast = sift_run(path, name=path.name, judged=judged_of(qrels))
    except Refused as refused:
        with pytest.raises(Refused) as same_words:
            read_run(path, name=path.name)
        assert str(same_words.value) == str(refused)
        return False
    if fast is None:
        return False
    slow = read_run(path, name=path.name)
    ids = qrels["query_id"].unique().to_list()
    want = judged_hits(slow.frame.with_columns(arm=pl.lit("a")), qrels, ["a"], ids)
    assert same(hits_of({"a": fast[0]}, ids), want)
    assert sorted(map(str, fast[1])) == sorted(map(str, slow.notices))
    lengths = dict(slow.frame.group_by("query_id").len().iter_rows())
    assert dict(fast[0].lengths.iter_rows()) == lengths and fast[0].rows == slow.frame.height
    return True


def clean_lines(rng: random.Random, *, ranked: bool = True) -> list[list[str]]:
    lines = []
    for query in rng.sample(QUERIES, rng.randint(1, 5)):
        chunks = rng.sample(CHUNKS, rng.randint(1, 12))
        scores = sorted((rng.choice(SCORES) for _ in chunks), key=float, reverse=True)
        base = rng.choice([0, 1, 1, 1])
        tag = rng.choice(["Q0", "Q0", "0"])
        lines += [[query, tag, c, str(i + base), s, "t"] for i, (c, s) in enumerate(zip(chunks, scores, strict=True))]
    return lines


@settings(
    derandomize=True,
    max_examples=2500 if FULL else 250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32), odd=st.integers(0, 3), shuffled=st.booleans(), end=st.booleans(), gz=st.booleans())
def test_every_file_against_the_reader_that_explains(tmp_path: Path, seed, odd, shuffled, end, gz) -> None:
    rng = random.Random(seed)  # noqa: S311
    lines = clean_lines(rng)
    if shuffled:
        rng.shuffle(lines)
    if odd == 1:  # one cell is odd
        line = rng.choice(lines)
        line[rng.randrange(6)] = rng.choice(ODD)
    blank = rng.choice("  \t")
    text = "\n".join(blank.join(line) for line in lines) + "\n" * end
    if odd == 2:  # one place in the file is odd
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(ODD) + text[at + rng.randrange(2) :]
    if odd == 3 and len(lines) > 1:  # a line again, or a query's lines in two blocks
        lines.insert(rng.randrange(len(lines)), list(rng.choice(lines)))
        text = "\n".join(blank.join(line) for line in lines) + "\n" * end
    path = tmp_path / ("a.run.gz" if gz else "a.run")
    path.write_bytes(gzip.compress(text.encode()) if gz else text.encode())
    try:
        taken = agree(path, QRELS.sample(fraction=1, shuffle=True, seed=seed) if seed % 2 else QRELS)
    except Refused as refused:  # a file that the slower one refuses must not be taken
        raise AssertionError(text) from refused
    scores = {float(line[4]) for line in lines} if odd == 0 else set()
    if odd == 0 and not shuffled and (len(lines) == 1 or len(scores) > 1):
        assert taken, text


@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), odd=st.booleans(), shuffled=st.booleans(), ranked=st.booleans())
def test_parquet_against_the_reader_that_explains(tmp_path: Path, seed, odd, shuffled, ranked) -> None:
    rng = random.Random(seed)  # noqa: S311
    lines = clean_lines(rng)
    if odd:
        rng.choice(lines)[rng.choice([0, 2])] = rng.choice(["", " ", "é", "#a", "a b", "c\n", "c1"])
    if shuffled:
        rng.shuffle(lines)
    frame = pl.DataFrame({"query_id": [x[0] for x in lines], "chunk_id": [x[2] for x in lines]}).with_columns(
        score=pl.Series([float(x[4]) for x in lines]),
        **({"rank": pl.Series([int(x[3]) for x in lines])} if ranked else {}),
    )
    frame.write_parquet(tmp_path / "a.parquet")
    try:
        agree(tmp_path / "a.parquet")
    except Refused as refused:
        raise AssertionError(lines) from refused


@pytest.mark.parametrize("first", [-1, 0, 1])
def test_ranks_of_parquet_begin_where_they_begin(tmp_path: Path, first: int) -> None:
    frame = pl.DataFrame({"query_id": ["q1", "q1"], "chunk_id": ["c1", "c2"], "score": [2.0, 1.0]})
    frame.with_columns(rank=pl.Series([first, first + 1])).write_parquet(tmp_path / "a.parquet")
    assert agree(tmp_path / "a.parquet") == (first >= 0)


@pytest.mark.parametrize("batch", [1, 40, 10**6])
def test_parquet_in_batches_that_end_inside_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(sieve, "BATCH", batch)
    queries = [f"q{i}" for i in range(30) for _ in range(1 + 29 * i % 67)]
    frame = pl.DataFrame({"query_id": queries}).with_columns(
        chunk_id=pl.format("c{}", pl.int_range(pl.len()).over("query_id")),
        score=-pl.int_range(pl.len()).cast(pl.Float64).over("query_id"),
    )
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=50)
    slices = list(sieve._parquet(tmp_path / "a.parquet"))
    assert (len(slices) > 3) == (batch < frame.height)
    made = [part for part in (make() for make in slices) if part is not None]
    whole = [set(rows.queries.text().tolist()) for rows, _ in made]
    assert len(made) == len(slices) and sum(map(len, whole)) == 30
    assert agree(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "text",
    [
        "q1 Q0 c1 1 2 t\nq1 Q0 c1 2 1 t\n",
        "q1 Q0 c1 1 2 t\nq1 Q0 c2 2 1 t\nq2 Q0 c1 1 2 t\nq1 Q0 c1 3 0 t\n",
        "q1 Q0 c1 1 2 t x\nq1 Q0 c2 2 1\n",
        "q1  c1 1 2 t\n",
        "q1 Q0 c1 1 2 t\n\nq1 Q0 c2 2 1 t\n",
        "q1\tQ0\tc1 1\t2\tt\n",
        "q1 Q0 c1 1 2 t\r\nq1 Q0 c2 2 1 t\r\n",
        "# a comment\nq1 Q0 c1 1 2 t\n",
        "q1 Q0 c1 1 2 t\n#q2 Q0 c1 1 2 t\n",
        "q1 Q0 c1 1 inf t\nq1 Q0 c2 2 1 t\n",
        "q1 Q0 c1 1 nan t\nq1 Q0 c2 2 1 t\n",
        "q1 Q0 c1 1 1e999 t\nq1 Q0 c2 2 1 t\n",
        "q1 Q0 c1 2 2 t\nq1 Q0 c2 1 1 t\n",
        "q1 Q0 c1 1 1 t\nq1 Q0 c2 2 1 t\n",
        "",
        "\n",
    ],
)
def test_what_is_odd_is_left_to_the_reader_that_explains(tmp_path: Path, text: str) -> None:
    """Duplicates, also over a query's two blocks; seven and five columns that even out; blanks, tabs, comments; ..."""
    path = tmp_path / "a.run"
    path.write_text(text)
    assert sift_run(path, name="a.run", judged=judged_of(QRELS)) is None


def ids_of(*names: str) -> Ids:
    ids = column_ids(pl.Series(names))
    assert ids is not None
    return ids


def test_two_pairs_of_one_hash_are_told_apart() -> None:
    """The hash only finds candidates; ids decide. Where judged pairs share one, the slower reader takes the run."""
    judged = judged_of(qrels_of([("q1", "c1", 1), ("q1", "c2", 1), ("q2", "c1", 1)]))
    assert judged is not None
    queries, chunks = ids_of("q1", "q1", "q2"), ids_of("c2", "c3", "c1")
    forged = np.array([judged.hashes[1], judged.hashes[0], judged.hashes[2]])
    found = judged.find(forged, queries, chunks, ids_of("q1", "q2"))
    assert found is not None and found[0].tolist() == [0, 2] and found[1].tolist() == [1, 2]
    alike = replace(judged, hashes=np.full(3, 7, dtype=np.uint64))
    assert alike.find(forged, queries, chunks, ids_of("q1", "q2")) is None


def test_a_second_column_that_only_begins_with_q0_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q1 Q0 c1 1 2 t\nq1 Q0x c2 2 1 t\nq1 Q c3 3 0 t\n")
    assert agree(tmp_path / "a.run")


def test_queries_whose_ranks_begin_at_0_anywhere_are_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    for ranks, queries in (((1, 0, 0, 1, 2, 3), 2), ((0, 1, 0, 0, 0, 1), 3), ((1, 2, 0, 0, 0, 0), 2)):
        rows = [f"q{1 + i // 2} Q0 c{i % 2} {rank} {5 if i < 2 else 2} t\n" for i, rank in enumerate(ranks)]
        path.write_text("".join(rows))
        assert agree(path)
        found = sift_run(path, name="a.run", judged=judged_of(QRELS))
        assert found is not None and found[0].from_zero == queries


def test_a_file_of_many_windows_and_a_line_over_each_edge(tmp_path: Path) -> None:
    lines = [f"q{q} Q0 chunk-{q}-{i} {i + 1} {1000 - i // 3} tag" for q in range(60) for i in range(900)]
    text = "\n".join(lines) + "\n"
    assert len(text) > 1.5 * WINDOW
    path = tmp_path / "a.run"
    path.write_text(text)
    qrels = qrels_of([(f"q{q}", f"chunk-{q}-{i}", i % 3) for q in range(60) for i in range(0, 900, 7)])
    assert agree(path, qrels)
    path.write_text(text + "q0 Q0 chunk-0-7x 901 1 tag\nq0 Q0 chunk-0-0x 902 0 tag\n")
    assert agree(path, pl.concat([qrels, qrels_of([("q0", "chunk-0-7x", 2)])]))
    path.write_text(text[: WINDOW - 3] + "#" + text[WINDOW - 2 :])
    agree(path, qrels)
    random.Random(1).shuffle(lines)  # noqa: S311
    path.write_text("\n".join(lines) + "\n")
    assert agree(path, qrels)


@pytest.mark.skipif(not DATA.is_dir(), reason="the public data is not here")
def test_real_runs_against_pytrec_eval_and_the_reader_that_explains(tmp_path: Path) -> None:
    """Every run of TREC DL 2019 and Robust 2003: taken by the fast reader, equal to pytrec_eval-terrier 0.5.x."""
    taken = 0
    for folder, file in (("trec_dl19_passage", "qrels.dl19-passage.txt"), ("robust03", None)):
        if file is None:
            continue
        rows = [line.split() for line in (DATA / folder / file).read_text().splitlines()]
        qrels = qrels_of([(q, c, int(g)) for q, _, c, g in rows])
        judged: dict[str, dict[str, int]] = {}
        for q, _, c, g in rows:
            judged.setdefault(q, {})[c] = int(g)
        for path in sorted((DATA / folder / "runs").iterdir())[:4]:
            if not agree(path, qrels):
                continue
            taken += 1
            run: dict[str, dict[str, float]] = {}
            for q, _, c, _, s, _ in (line.split() for line in gzip.decompress(path.read_bytes()).decode().splitlines()):
                run.setdefault(q, {})[c] = float(s)
            theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "map", "bpref"}).evaluate(run)
            fast = sift_run(path, name=path.name, judged=judged_of(qrels))
            assert fast is not None
            hits = hits_of({"a": fast[0]}, list(judged))
            table = score(hits, qrels, ["nDCG@10", "AP", "bpref"], relevant_from=1, gain="linear")
            keys = {"nDCG@10": "ndcg_cut_10", "AP": "map", "bpref": "bpref"}
            for query, measure, value in table.select("query_id", "measure", "value").iter_rows():
                assert value == pytest.approx(theirs[query][keys[measure]], abs=1e-12)
    assert taken >= 3
