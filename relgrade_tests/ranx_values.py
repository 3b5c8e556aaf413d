"""Makes ranx_values.json: cases, and what ranx makes of them. Run in an environment with ranx (benchmarks/ has one),
not in ours: `python relgrade_tests/ranx_values.py`.
"""

import json
import random
from importlib.metadata import version
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")
MEASURES = {
    "nDCG(gain=linear)@5": "ndcg@5", "nDCG(gain=linear)": "ndcg", "nDCG@5": "ndcg_burges@5", "nDCG": "ndcg_burges",
    "Recall@5": "recall@5", "RR": "mrr", "RR@3": "mrr@3", "P@5": "precision@5", "AP": "map", "AP@5": "map@5",
    "Success@3": "hit_rate@3", "Rprec": "r-precision", "bpref": "bpref", "RBP(p=0.8)": "rbp.80",
    "RBP(p=0.95)": "rbp.95",
}  # fmt: skip
"""Our names (gain exponential) and ranx's."""


def cases() -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Qrels and a run of 60 queries: grades 0 to 3, unjudged chunks, short and long rankings, no ties, always something
    relevant.
    """
    rng = random.Random(20)  # noqa: S311 - no secret
    qrels, run = {}, {}
    for q in range(60):
        pooled = rng.sample(range(30), rng.randint(2, 14))
        grades = {f"d{c:02}": rng.choice([0, 0, 1, 2, 3]) for c in pooled}
        grades[f"d{pooled[0]:02}"] = rng.randint(1, 3)
        found = rng.sample(range(30), rng.randint(1, 25))
        scores = rng.sample(range(1, 1000), len(found))
        qrels[f"q{q:02}"] = grades
        run[f"q{q:02}"] = {f"d{c:02}": s / 8 for c, s in zip(found, scores, strict=True)}
    return qrels, run


TIED: tuple[dict[str, int], dict[str, float]] = ({"a": 1, "b": 0}, {"a": 1.0, "b": 1.0})
"""A query with a tie: the higher chunk id stands first here and in trec_eval."""


def main() -> None:
    """Ask ranx, and write the file."""
    from ranx import Qrels, Run, evaluate  # type: ignore[import-not-found]

    qrels, run = cases()
    qrels |= {"tied": TIED[0]}
    run |= {"tied": TIED[1]}
    found = Run(run)
    evaluate(Qrels(qrels), found, list(MEASURES.values()))
    values = {ours: {q: found.scores[theirs][q] for q in qrels} for ours, theirs in MEASURES.items()}
    FILE.write_text(json.dumps({"ranx": version("ranx"), "values": values}, indent=1) + "\n")


if __name__ == "__main__":
    main()
