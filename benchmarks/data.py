"""Makes the data of the benchmarks: qrels and runs as large as MS MARCO's, from one seed. Standard library and numpy.

M is 6,980 queries x 1,000 results an arm (7.0 M rows) with about 40 judged a query; others are parts of it, 10M ten.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

SIZES = {
    "10M": (69_800, 1000),
    "M": (6980, 1000),
    "M10": (698, 1000),
    "M100": (70, 1000),
    "small": (200, 100),
    "tiny": (20, 50),
}
"""Queries and results a query."""
CHUNKS = 8_841_823
JUDGED = 40


def make(folder: Path, size: str, arms: int, *, shuffled: bool = True) -> None:
    """`qrels`, `arm0.run` ... and, `shuffled`, a shuffled copy of the first arm; kept where they are there already."""
    queries, depth = SIZES[size]
    names = [f"arm{a}.run" for a in range(arms)]
    if all((folder / name).is_file() for name in [*names, "qrels", *["shuffled.run"] * shuffled]):
        return
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(20)
    judged = [np.unique(draw.integers(0, CHUNKS, JUDGED)) for _ in range(queries)]
    with (folder / "qrels").open("w") as file:
        for query, chunks in enumerate(judged):
            grades = draw.choice(4, len(chunks), p=[0.6, 0.2, 0.15, 0.05])
            file.writelines(f"{1_000_000 + query} 0 {c} {g}\n" for c, g in zip(chunks, grades, strict=True))
    for arm, name in enumerate(names):
        with (folder / name).open("w") as file:
            for query, pooled in enumerate(judged):
                chunks = draw.integers(0, CHUNKS, depth)
                found = pooled[draw.random(len(pooled)) < 0.8][: depth // 2]
                chunks[draw.choice(min(depth, 300), len(found), replace=False)] = found
                distinct = list(dict.fromkeys(chunks.tolist()))
                scores = np.sort(np.round(draw.normal(20, 5, len(distinct)), 4))[::-1].tolist()
                file.writelines(
                    f"{1_000_000 + query} Q0 {c} {i} {s:.4f} arm{arm}\n"
                    for i, (c, s) in enumerate(zip(distinct, scores, strict=True), start=1)
                )
    if not shuffled:
        return
    lines = (folder / "arm0.run").read_text().splitlines(keepends=True)
    random.Random(20).shuffle(lines)  # noqa: S311 - data, not secrets
    (folder / "shuffled.run").write_text("".join(lines))
