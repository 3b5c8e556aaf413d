"""P36: what a published folder says is computed again, part by part, on one small enough to do by hand. Whole folders
are test_tampering's.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from sklearn.metrics import cohen_kappa_score
from test_standing import FROZEN, OPENED, READ, VOID, chain

from relgrade_assets.io import events, publication
from relgrade_assets.io.croissant import NAME
from relgrade_assets.io.events import Event
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.standing import standing_of
from relgrade_assets.io.verifying_content import check
from relgrade_assets.methods.agreement import KEY_AUDITOR
from relgrade_assets.protocol.canonical import digest_bytes

PAIR = {"query_id": pl.String, "chunk_id": pl.String}
Manifest = dict[str, Any]
Files = dict[str, bytes]


def pairs(*rows: tuple[str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={**PAIR, "grade": pl.Int64}, orient="row")


KEY = pairs(("q1", "a", 2), ("q1", "b", 0), ("q2", "a", 0), ("q2", "c", 1))
UNRATEABLE = pl.DataFrame([("q2", "d")], schema=PAIR, orient="row")
SCALE = {"grades": [{"grade": g} for g in (0, 1, 2)], "relevant_from": 1}
PEOPLE: Manifest = {"graders": [{"pseudonym": "grader-1"}, {"pseudonym": "grader-2"}], "combine": "first_listed"}


def parquet(frame: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.write_parquet(stream)
    return stream.getvalue()


def found(files: Files, about: Manifest, log: list[Event] | None = None, /, **more: Any) -> list[str]:
    """What is found wrong, as `file: words`; every part that these files allow was computed again."""
    said = check(files, {"key": about, "private": True, **more}, log)
    assert said.recomputed, said.left_out
    return [f"{fault.where}: {fault.found}" for fault in said.faults]


def keyed(key: pl.DataFrame = KEY) -> tuple[Files, Manifest]:
    """Key and sidecar, and what a manifest says of them."""
    files = {"key.jsonl": publication.key_jsonl(key), "unrateable.jsonl": publication.unrateable_jsonl(UNRATEABLE)}
    counts = {str(g): n for g, n in key.group_by("grade").len().iter_rows()}
    about = {"key_sha256": digest_bytes(files["key.jsonl"]), "pairs": key.height, "queries": 2, "grades": counts}
    return files, {**about, "scale": SCALE, "unrateable": 1, "dropped_queries": ["q9"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key_sha256": "0" * 64}, "sha256 "),
        ({"pairs": 5}, "pairs 4"),
        ({"queries": 3}, "queries 2"),
        ({"grades": {"0": 2, "2": 2}}, "grades {"),
        ({"unrateable": 0}, "unrateable 1"),
        ({"scale": {"grades": [{"grade": 0}, {"grade": 1}]}}, "grades off the scale [2]"),
        ({"dropped_queries": ["q1"]}, "dropped queries ['q1']"),
    ],
)
def test_the_key_against_what_the_manifest_says(change: Manifest, words: str) -> None:
    """P33: its digest, its counts, its scale and what was dropped, each by itself."""
    files, about = keyed()
    assert found(files, about) == []
    (said,) = found(files, {**about, **change})
    assert said.startswith(f"key.jsonl: {words}")


def test_the_keys_form_and_its_pairs() -> None:
    """P33: sorted, each pair once, and key.parquet the same rows; the sidecar in its form."""
    files, about = keyed()
    mixed = b"".join(reversed(files["key.jsonl"].splitlines(keepends=True)))
    said = found({**files, "key.jsonl": mixed}, {**about, "key_sha256": digest_bytes(mixed)})
    assert said == ["key.jsonl: another form"]
    assert found(*keyed(pl.concat([KEY, KEY[:1]]))) == ["key.jsonl: pairs twice 1"]
    assert found({**files, "key.parquet": parquet(KEY)}, about) == []
    other = KEY.with_columns(grade=pl.col("grade").reverse())
    assert found({**files, "key.parquet": parquet(other)}, about) == ["key.parquet: other rows"]
    wide = files["unrateable.jsonl"].replace(b",", b", ")
    assert found({**files, "unrateable.jsonl": wide}, about) == ["unrateable.jsonl: another form"]


def logged(
    *steps: tuple[str, Manifest], key: str = "k", name: str = "demo", length: int = 0, files: Files | None = None
) -> list[str]:
    """What is found of a log of these steps, whose head (of the first `length`) and standing the manifest has."""
    log = chain(*steps)
    head, length = events.head_of(log[:length] if length else log)
    about = {"round": 1, "key_sha256": key, "experiment": name}
    standing = standing_of(log, 1, key)
    status = publication.status_of(standing) if standing else {"status": "valid"}
    content = {"events": {"head": head, "length": length}, "status": status}
    return found({"events.jsonl": events.as_jsonl(log), **(files or {})}, about, log, **content)


def test_the_log_against_manifest_and_measures() -> None:
    """P34, P36: a freeze of this key, then a reading; of this experiment, as long as the manifest says."""
    assert logged(OPENED, FROZEN, READ) == []
    assert logged(OPENED, FROZEN, READ, length=2) == ["events.jsonl: 3 events"]
    assert logged(OPENED, FROZEN, READ, name="other") == ["events.jsonl: events of another experiment"]
    assert logged(OPENED, FROZEN) == ["events.jsonl: no reading of measures"]
    early = "measures read before the freeze"
    assert logged(OPENED, READ, FROZEN) == [f"events.jsonl, event 2: {early}"]
    assert logged(OPENED, READ) == ["events.jsonl: no freeze of this key", f"events.jsonl, event 2: {early}"]
    assert logged(OPENED, FROZEN, READ, key="x")[0] == "events.jsonl: no freeze of this key"
    second = ("frozen", {"round": 2, "key_digest": "k"})
    assert logged(OPENED, second, READ)[0] == "events.jsonl: no freeze of this key", "the freeze of another round"
    frame = pl.DataFrame({"value": [0.5]})
    files, right = {"query_measures.parquet": parquet(frame)}, content_digest(frame)

    def read(kind: str, digest: str) -> tuple[str, Manifest]:
        return kind, {"round": 1, "key_digest": "k", "measures_digest": digest}

    assert logged(OPENED, FROZEN, read("first_reading", "x"), read("read_again", right), files=files) == []
    (said,) = logged(OPENED, FROZEN, read("first_reading", right), read("read_again", "x"), files=files)
    assert said == f"query_measures.parquet: content digest {right}"


def test_the_logs_form_and_the_status_in_the_manifest() -> None:
    """P35, P36: canonical lines; how the key stands is what the log says, not what the manifest would like."""
    log = chain(OPENED, FROZEN, READ, VOID)
    head, length = events.head_of(log)
    about = {"round": 1, "key_sha256": "k", "experiment": "demo"}
    standing = standing_of(log, 1)
    assert standing is not None
    content: Manifest = {"events": {"head": head, "length": length}, "status": publication.status_of(standing)}
    lines = events.as_jsonl(log)
    assert found({"events.jsonl": lines}, about, log, **content) == []
    assert found({"events.jsonl": lines.replace(b",", b", ")}, about, log, **content) == ["events.jsonl: another form"]
    spoilt = [replace(log[0], at="x"), *log[1:]]
    (said,) = found({"events.jsonl": events.as_jsonl(spoilt)}, about, spoilt, **content)
    assert said.startswith("events.jsonl, event 1: content of hash ")
    content["status"] = {**content["status"], "status": "valid"}
    assert found({"events.jsonl": lines}, about, log, **content) == ["manifest.json: status valid"]
    left_out = check({"events.jsonl": lines}, {"key": about, **content}, None).left_out
    assert "the event log's chain (without a sound events.jsonl)" in left_out, "where its lines are none"


GIVEN = [0, 0, 1, 2, 2, 1]
AUDITED = [0, 0, 1, 2, 1, 2]
BOTH = [int(g > 0) for g in GIVEN], [int(g > 0) for g in AUDITED]
STATISTICS = {
    "weighted_kappa": cohen_kappa_score(GIVEN, AUDITED, labels=[0, 1, 2], weights="quadratic"),
    "binary_kappa": cohen_kappa_score(*BOTH),
    "disagreement": 2 / 6,
    "two_step": 0.0,
}


def agreement(values: dict[str, float] = STATISTICS, *, n: int = 6) -> pl.DataFrame:
    """The table's rows of key and auditor, among rows of another comparison, of a stratum and of one grade."""
    rows = []
    for name, value in values.items():
        low, high = max(value - 0.1, -1), min(value + 0.1, 1)
        rows.append((name, KEY_AUDITOR, "all", None, value, low, high, n))
        others = (("grader-1~grader-2", "all", None), (KEY_AUDITOR, "head", None), (KEY_AUDITOR, "all", 1))
        rows += [(name, *other, 0.99, 0.98, 1.0, 1) for other in others]
    columns = {"statistic": pl.String, "comparison": pl.String, "scope": pl.String, "grade": pl.Int64}
    return pl.DataFrame(
        rows, schema={**columns, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.Int64},
        orient="row",
    )  # fmt: skip


def judged(**changes: Any) -> Manifest:
    """Verdicts of the four gates at thresholds that the values pass, and a scale of three grades."""
    thresholds = {"weighted_kappa": 0.6, "binary_kappa": 0.8, "disagreement": 0.5, "two_step": 0.02}
    verdicts = [
        {"gate": g, "threshold": t, "value": STATISTICS[g], **changes.get(g, {})} for g, t in thresholds.items()
    ]
    return {"scale": SCALE, "verdicts": verdicts}


def test_verdicts_against_the_agreement() -> None:
    """P28: one of each gate, of the value that the table has or the worse end of its interval, and passed by it."""
    files = {"agreement.parquet": parquet(agreement())}
    kappa, share = STATISTICS["weighted_kappa"], STATISTICS["disagreement"]
    assert kappa - 0.1 > 0.6 and found(files, judged()) == []
    assert found(files, judged(weighted_kappa={"value": kappa - 0.1}, disagreement={"value": share + 0.1})) == []
    for gate, value in (("weighted_kappa", kappa + 0.1), ("disagreement", share - 0.1), ("binary_kappa", 0.99)):
        assert found(files, judged(**{gate: {"value": value}})) == [f"agreement.parquet: {gate} {STATISTICS[gate]}"]
    for gate, threshold in (("weighted_kappa", 0.9), ("disagreement", 0.1)):
        (said,) = found(files, judged(**{gate: {"threshold": threshold}}))
        assert said.startswith(f"manifest.json: {gate} ") and said.endswith(" passed")
    about = judged()
    assert found(files, {**about, "verdicts": about["verdicts"][:3]})[0].startswith("manifest.json: verdicts of ")
    two = {"scale": {"grades": [{"grade": 0}, {"grade": 1}]}, "verdicts": about["verdicts"][1:3]}
    assert found(files, two) == [], "on a binary scale two gates"
    assert found(files, {**about, "scale": two["scale"]})[0].startswith("manifest.json: verdicts of ")


def by_grader(*rows: tuple[str, str, str, int]) -> bytes:
    """qrels_by_grader.txt of (query, grader, chunk, grade)."""
    return "".join(f"{q} {who} {c} {g}\n" for q, who, c, g in sorted(rows, key=lambda r: (r[0], r[2], r[1]))).encode()


def audited(given: list[int] = GIVEN, audit: list[int] = AUDITED) -> bytes:
    return by_grader(
        *(("q1", "grader-1", f"c{i}", g) for i, g in enumerate(given)),
        *(("q1", "auditor-1", f"c{i}", g) for i, g in enumerate(audit)),
    )


@pytest.mark.parametrize("name", sorted(STATISTICS))
def test_agreement_against_scikit_learn(name: str) -> None:
    """P27, P36: from the grades of key and auditor; a value that differs is named, one of other pairs is left out."""
    about = {**PEOPLE, **judged(), "auditor": {"pseudonym": "auditor-1"}}
    files = {"agreement.parquet": parquet(agreement()), "qrels_by_grader.txt": audited()}
    assert found(files, about) == []
    other = {**STATISTICS, name: STATISTICS[name] - 0.001}
    said = found({**files, "agreement.parquet": parquet(agreement(other))}, about)
    assert [f"agreement.parquet: {name} {other[name]}"] * 2 == said, "by the grades, and by the verdict"
    some = check({**files, "agreement.parquet": parquet(agreement(n=9))}, {"key": about, "private": True}, None)
    assert "agreement from grades" not in some.recomputed and not some.faults
    assert any(x.startswith("agreement from grades (audited queries without") for x in some.left_out)


@pytest.mark.parametrize(("combine", "grade"), [("first_listed", 2), ("median_low", 1)])
def test_the_key_against_graders_grades(combine: str, grade: int) -> None:
    """P30: combined as the manifest says, the auditor's apart; nobody else's are among them."""
    about = {**PEOPLE, "combine": combine, "auditor": {"pseudonym": "auditor-1"}}
    rows = [("q1", "grader-1", "a", 2), ("q1", "grader-2", "a", 1), ("q1", "auditor-1", "a", 0),
            ("q1", "grader-1", "b", -1)]  # fmt: skip
    files = {"qrels_by_grader.txt": by_grader(*rows), "key.jsonl": publication.key_jsonl(pairs(("q1", "a", grade)))}
    assert found(files, about) == []
    other = {**files, "key.jsonl": publication.key_jsonl(pairs(("q1", "a", 0)))}
    assert found(other, about) == ["qrels_by_grader.txt: 1 grades that don't combine to the key's"]
    more = {**files, "key.jsonl": publication.key_jsonl(pairs(("q1", "a", grade), ("q1", "z", 0)))}
    assert len(found(more, about)) == 1, "a pair that nobody graded"
    strange = {**files, "qrels_by_grader.txt": by_grader(*rows, ("q2", "eve", "a", 1))}
    assert found(strange, about) == ["qrels_by_grader.txt: grades by eve"]


def test_pools_name_the_manifests_arms_alone() -> None:
    """P12, P36."""
    files, about = keyed()
    sample = pl.DataFrame({"query_id": ["q1", "q2"], "query": ["x", "y"], "stratum": ["head", "tail"]})
    arms = pl.DataFrame({"query_id": ["q1", "q2", "q2"], "arm": ["old", "old", "new"]})
    files["pools.jsonl"] = publication.pools_jsonl(KEY, UNRATEABLE, sample, arms, depth=5, private=True)
    about = {**about, "depth": 5, "arms": [{"name": "old"}, {"name": "new"}]}
    assert found(files, about) == []
    assert found(files, {**about, "arms": [{"name": "old"}]}) == ["pools.jsonl: the arms new"]
    assert found(files, {**about, "depth": 9})[0].startswith("pools.jsonl: sha256 ")


VALUES = [("old", "q1", "RR", 1.0), ("old", "q2", "RR", 0.5), ("old", "q1", "AP", None), ("old", "q2", "AP", None)]
MEANS = [("old", "RR", "plain", 0.75, 2), ("old", "AP", "plain", None, 0), ("old", "RR", "headline", 0.6, 2)]


def means(values: list[Any] = VALUES, rows: list[Any] = MEANS, csv: list[Any] | None = None) -> list[str]:
    each = pl.DataFrame(
        values,
        schema={"arm": pl.String, "query_id": pl.String, "measure": pl.String, "value": pl.Float64},
        orient="row",
    )
    schema = {"arm": pl.String, "measure": pl.String, "scope": pl.String, "value": pl.Float64, "n": pl.Int64}
    arms, told = (pl.DataFrame(r, schema=schema, orient="row") for r in (rows, csv or rows))
    files = {"query_measures.parquet": parquet(each), "measures.parquet": parquet(arms)}
    files |= {"measures.csv": publication.measures_csv(told), "key.jsonl": publication.key_jsonl(KEY)}
    return found(files, {"arms": [{"name": "old"}]})


def test_plain_means_against_per_query_measures() -> None:
    """P38, P36: value and count of each, over the key's queries, undefined ones apart; the same in CSV."""
    assert means() == []
    first, second, third = MEANS
    for row, said in (
        (("old", "RR", "plain", 0.7, 2), "measures.parquet: RR of old 0.7"),
        (("old", "RR", "plain", 0.75, 3), "measures.parquet: RR of old 0.75"),
        (("old", "RR", "plain", None, 2), "measures.parquet: RR of old None"),
    ):
        assert means(rows=[row, second, third]) == [said]
    assert means(rows=[first, ("old", "AP", "plain", 0.5, 0), third]) == ["measures.parquet: AP of old 0.5"]
    (said,) = means(csv=[first, second, ("old", "RR", "headline", 0.9, 2)])
    assert said.startswith("measures.csv: sha256 ")
    doubled = [*VALUES, ("old", "q1", "RR", 0.75)]
    assert means(doubled, [("old", "RR", "plain", 0.75, 3), second, third]) == [
        "query_measures.parquet: queries missing or twice"
    ]
    strange = [(arm, q.replace("q2", "q3"), m, v) for arm, q, m, v in VALUES]
    assert means(strange) == ["query_measures.parquet: other queries or arms"]
    renamed = [("new", *row[1:]) for row in VALUES]
    assert means(renamed, [("new", *row[1:]) for row in MEANS]) == ["query_measures.parquet: other queries or arms"]


def test_digests_in_croissant_json_are_the_manifests() -> None:
    """P42, P36."""
    listed = {"a": {"sha256": "1"}, "b": {"sha256": "2"}}
    for name, sha in (("a", "1"), ("a", "2"), ("c", "1")):
        data = json.dumps({"distribution": [{"name": name, "sha256": sha}]}).encode()
        faults = found({NAME: data}, {}, files=listed)
        assert faults == ([] if (name, sha) == ("a", "1") else [f"{NAME}: sha256 {sha} of {name}"])
