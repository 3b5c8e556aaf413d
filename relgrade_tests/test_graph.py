"""A study through the whole graph: what waits, what is told, what stays, and the same bytes from the same inputs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
import tiny
from driving import (
    AFTER_THE_GATES,
    BEFORE_THE_GATES,
    MADE,
    Told,
    backfill,
    copy,
    files_of,
    nothing_frozen,
    rewrite,
    run,
)
from tiny import grade_all, number, review_all, study_of, truth

from relgrade_assets.assets.sources import ABSENT, observations
from relgrade_assets.definitions import ASSETS
from relgrade_assets.errors import Refused
from relgrade_assets.io.frames import content_digest
from relgrade_assets.io.returns import collect
from relgrade_assets.io.worksheets import sheet_of, write_sheets
from relgrade_assets.methods import pooling
from relgrade_assets.methods.sheets import blind_rows
from relgrade_assets.resources.tables import misfits
from relgrade_assets.schemas import SOURCES, TABLES

ARMS = ("zebrafinch", "quokka")
DESIGN = tiny.DESIGN.replace("name: old", f"name: {ARMS[0]}").replace("name: new", f"name: {ARMS[1]}")


@dataclass(frozen=True)
class Walk:
    """A study from nothing to its publication: what each run told, and the folder as it was then."""

    told: dict[str, Told]
    at: dict[str, Path]


def published(top: Path, *, name: str = tiny.NAME) -> Path:
    return study_of(top, name=name).home.published / name


def manifest(top: Path, *, name: str = tiny.NAME) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((published(top, name=name) / "manifest.json").read_text())
    return content


def asked(top: Path, design: str, *, name: str = tiny.NAME) -> Path:
    """A study whose intents are reviewed and whose sheets are made."""
    tiny.write_experiment(top, design=design, name=name)
    assert run(top, "queries", "query_sample", name=name).ok
    review_all(top, name=name)
    told = run(top, *BEFORE_THE_GATES, name=name)
    assert told.ok and set(told.waiting) == {"grades", "audit_grades"}
    return top


def graded(top: Path, *graders: str, by: tiny.Truth = truth, auditor: tiny.Truth | None = None) -> Told:
    """Grades handed in, and everything after them."""
    for who in graders or ("ann",):
        grade_all(top, who, by=by)
    grade_all(top, "bob", by=auditor or by)
    run(top, of="regrade")
    return run(top, of="publish")


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    told: dict[str, Told] = {}
    at: dict[str, Path] = {}
    top = tmp_path_factory.mktemp("walk")
    tiny.write_experiment(top, design=DESIGN)
    told["started"] = run(top)
    review_all(top)
    told["reviewed"] = run(top)
    at["asked"] = copy(top, tmp_path_factory.mktemp("asked"))
    grade_all(top, "ann", at_most=40)
    told["half"] = run(top)
    grade_all(top, "ann")
    grade_all(top, "bob")
    told["published"] = run(top)
    at["published"] = top
    return Walk(told, at)


# waiting


def test_waiting_is_not_red_and_tells_counts(walk: Walk) -> None:
    """P2, P17, P19: what people still owe is said with counts; nothing fails, and what comes after is skipped."""
    expected = {
        "started": {"intents": r"0 of 12 intents ready to lock: 12 unreviewed \(q.*and 4 more\)"},
        "reviewed": {
            "grades": "0 of 96 pairs graded by ann",
            "audit_grades": "0 of 80 pairs graded by bob",
        },
        "half": {
            "grades": "40 of 96 pairs graded by ann",
            "audit_grades": "0 of 80 pairs graded by bob",
        },
        "published": {},
    }
    for stage, waits in expected.items():
        told = walk.told[stage]
        assert told.ok and not told.refused and not told.failed_checks, told.text
        assert set(told.waiting) == set(waits)
        assert all(re.fullmatch(pattern, told.waiting[table]) for table, pattern in waits.items()), told.waiting
    assert set(walk.told["half"].skipped) >= {"agreement", "verdicts", *AFTER_THE_GATES}
    assert set(walk.told["published"].made) == set(MADE)


def test_waiting_is_observed_with_numbers_to_plot(walk: Walk) -> None:
    seen = [e.asset_observation_data.asset_observation for e in walk.told["half"].events if e.is_asset_observation]
    of_grades = next(o for o in seen if o.asset_key == dg.AssetKey("grades"))
    assert of_grades.partition == tiny.NAME
    assert {k: v.value for k, v in of_grades.metadata.items() if k != "waiting"} == {
        "done": 40,
        "of": 96,
        "percent": 41.7,
    }


@pytest.mark.parametrize(
    ("file", "table"),
    [
        ("log.csv", "queries"),
        ("corpus.jsonl", "runs"),
        ("runs/new.trec", "runs"),
        ("intents.csv", "intents"),
        ("rubric.md", "queries"),
    ],
)
def test_a_named_file_that_is_not_there_yet_is_waited_for(file: str, table: str, tmp_path: Path) -> None:
    """P2: waiting, not a fault."""
    tiny.write_experiment(tmp_path, without=(file,))
    told = run(tmp_path)
    assert told.ok, told.text
    assert file in told.waiting[table]
    assert table not in told.made


# the same again


def test_an_identical_second_run_changes_no_byte(walk: Walk, tmp_path: Path) -> None:
    """P33: same key, same published bytes, no new event."""
    top = copy(walk.at["published"], tmp_path / "top")
    before, log = files_of(published(top)), study_of(top).log
    told = run(top)
    assert told.ok and set(told.made) == set(MADE)
    assert files_of(published(top)) == before
    assert study_of(top).log == log
    assert set(before) >= {"key.jsonl", "qrels.txt", "judgments.json", "pools.jsonl", "manifest.json", "events.jsonl"}


def test_the_published_key_is_canonical_by_hand(walk: Walk) -> None:
    """P33: sorted by query id then chunk id, keys in order, no blanks; its sha256 is the key's name everywhere."""
    data = (published(walk.at["published"]) / "key.jsonl").read_bytes()
    rows = [json.loads(line) for line in data.splitlines()]
    texts = {i: q for q, i in tiny.query_ids().items()}
    by_hand = sorted(
        (i, c, truth(q, c)) for i, q in texts.items() for c in study_of(walk.at["published"]).load("pools").filter(
            pl.col("query_id") == i)["chunk_id"]
    )  # fmt: skip
    assert [(r["query_id"], r["chunk_id"], r["grade"]) for r in rows] == by_hand
    expected = "".join(f'{{"query_id":"{q}","chunk_id":"{c}","grade":{g}}}\n' for q, c, g in by_hand)
    assert data == expected.encode()
    sha = hashlib.sha256(data).hexdigest()
    assert manifest(walk.at["published"])["key"]["key_sha256"] == sha
    frozen = [e.body["key_digest"] for e in study_of(walk.at["published"]).log if e.kind == "frozen"]
    assert frozen == [sha]


def test_the_same_study_elsewhere_gives_the_same_bytes(walk: Walk, tmp_path: Path) -> None:
    """P10, P33: another folder and other runs on the way. Files that hold the event log's head may differ by the order
    in which the two locks were taken.
    """
    top = asked(tmp_path, DESIGN)
    assert graded(top).ok
    here, there = files_of(published(top)), files_of(published(walk.at["published"]))
    both = ((published(top), here), (published(walk.at["published"]), there))
    told = [(f / "croissant.json").read_text().replace(digests["events.jsonl"], "") for f, digests in both]
    assert told[0] == told[1]  # it has the log's digest
    del here["croissant.json"], there["croissant.json"]
    differing = {name for name in here.keys() | there.keys() if here.get(name) != there.get(name)}
    assert differing <= {"events.jsonl", "manifest.json", "status.json", "SHA256SUMS"}
    assert manifest(top)["key"] == manifest(walk.at["published"])["key"]


def test_two_experiments_do_not_mix(walk: Walk, tmp_path: Path) -> None:
    """The same query ids and graders in one top folder, materialised turn by turn: each has its own key."""

    def doubled(query: str, chunk: str) -> int:
        return 2 if truth(query, chunk) else 0

    top = asked(copy(walk.at["published"], tmp_path / "top"), DESIGN, name="second")
    first = files_of(published(top))
    for who in ("ann", "bob"):
        grade_all(top, who, by=doubled, name="second")
    told = backfill(top, *MADE, names=["second", tiny.NAME])
    assert all(t.ok for t in told.values())
    assert files_of(published(top)) == first
    grades = [set(study_of(top, name=n).load("frozen_key")["grade"]) for n in (tiny.NAME, "second")]
    assert grades == [{0, 1, 2}, {0, 2}]
    assert manifest(top, name="second")["key"]["experiment"] == "second"


def test_every_table_has_an_explicit_data_version(walk: Walk) -> None:
    """graph.md: Dagster's own data versions are wrong here; each is the digest of the content."""
    study = study_of(walk.at["published"])
    versions = {}
    for event in walk.told["published"].events:
        if event.is_step_materialization:
            made = event.step_materialization_data.materialization
            versions[made.asset_key.to_user_string()] = (made.tags or {})["dagster/data_version"]
    assert versions == {table: content_digest(study.load(table)) for table in MADE}
    assert versions == {table: study.digest_of(table) for table in MADE}


# what is stored


def test_a_table_that_does_not_fit_its_schema_is_not_written(
    walk: Walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = copy(walk.at["asked"], tmp_path / "top")
    before = study_of(top).path("contributions").read_bytes()
    honest = pooling.contributions
    monkeypatch.setattr(
        pooling, "contributions", lambda runs, depth: honest(runs, depth).with_columns(rank=pl.col("rank") - 1)
    )
    told = run(top, "contributions", "pools")
    assert not told.ok and not told.made
    assert told.failed_checks == {"contributions: schema": "24 values of contributions don't fit its schema."}
    assert "Nothing was written" in told.refused["contributions"]
    assert study_of(top).path("contributions").read_bytes() == before


def test_a_frame_is_held_against_its_schema_once_and_another_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the asset and then by the store; an equal frame is another, and one that doesn't fit never counts as held."""
    asked: list[str] = []
    model = TABLES["revisions"].model
    honest = model.validate
    monkeypatch.setattr(model, "validate", lambda frame, **more: asked.append("") or honest(frame, **more))
    frame = model.empty()
    for given, so_far in ((frame, 1), (frame, 1), (frame.clone(), 2), (frame, 3)):
        assert misfits("revisions", given) is None and len(asked) == so_far
    wrong = frame.drop(frame.columns[0])
    assert misfits("revisions", wrong) is not None and misfits("revisions", wrong) is not None and len(asked) == 5


def test_recheck_runs_every_check_and_makes_nothing(walk: Walk, tmp_path: Path) -> None:
    top = copy(walk.at["published"], tmp_path / "top")
    told = run(top, of="recheck")
    answered = [e for e in told.events if e.event_type_value == "ASSET_CHECK_EVALUATION"]
    assert told.ok and not told.failed_checks
    assert len(answered) == len(MADE) + 6
    assert told.made == ("revisions",)  # lends the job its partitions
    rewrite(top, "pools", lambda t: t.with_columns(chunk_digest=pl.lit(None, pl.String)))
    study_of(top).path("spot_check").write_bytes(b"")
    told = run(top, of="recheck")
    assert told.failed_checks["pools: schema"] == "96 values of pools don't fit its schema."
    assert "spot_check.parquet can't be read" in told.failed_checks["spot_check: schema"]


def test_events_stand_in_the_order_that_the_protocol_asks_for(walk: Walk) -> None:
    """P16, P26, P34: locks before the first grade, the freeze before the first reading."""
    kinds = [e.kind for e in study_of(walk.at["published"]).log]
    assert kinds == ["audit_locked", "intents_locked", "opened", "frozen", "first_reading"]
    locked = study_of(walk.at["published"]).log[0]
    assert locked.body["digest"] == content_digest(study_of(walk.at["published"]).load("audit_sample"))


def test_after_the_freeze_the_ledger_takes_nothing(walk: Walk, tmp_path: Path) -> None:
    """P35."""
    top = copy(walk.at["published"], tmp_path / "top")
    with pytest.raises(Refused, match="Round 1 of tiny is frozen and takes no answers"):
        grade_all(top, "ann", by=lambda query, chunk: 2)
    assert grade_all(top, "ann") == 96  # the same answers again change nothing


# what is observed


def test_sources_are_observed_with_their_digests(walk: Walk, tmp_path: Path) -> None:
    """P2: by the sensor, before a run, and as assets."""
    top = copy(walk.at["asked"], tmp_path / "top")
    study = study_of(top)
    before = {o.asset_key.to_user_string(): o.tags["dagster/data_version"] for o in observations(study)}
    assert list(before) == list(SOURCES)
    assert before.pop("spot_check_file") == ABSENT
    assert all(re.fullmatch("[0-9a-f]{64}", version) for version in before.values())
    (study.folder / "runs" / "new.trec").unlink()
    (study.folder / "corpus.jsonl").write_text("", encoding="utf-8")
    now = {o.asset_key.to_user_string(): o.tags["dagster/data_version"] for o in observations(study_of(top))}
    assert {name for name, version in before.items() if now[name] != version} == {"run_files", "corpus"}
    assert now["run_files"] == ABSENT
    told, seen = run(top, *SOURCES), {}
    assert told.ok, told.text
    for event in told.events:
        if event.is_asset_observation:
            observed = event.asset_observation_data.asset_observation
            version = observed.tags["dagster/data_version"]
            seen[observed.asset_key.to_user_string()] = (observed.partition, version)
    assert seen == {name: (tiny.NAME, version) for name, version in now.items()}


# what the UI says


def words(value: object) -> Iterator[str]:
    """Every text in a value, pictures read."""
    if isinstance(value, dg.TableMetadataValue):
        yield from words([record.data for record in value.records])
    elif isinstance(value, dg.TableColumnLineage):
        for column, made_from in value.deps_by_column.items():
            yield from (column, *(f"{d.asset_key.to_user_string()}.{d.column_name}" for d in made_from))
    elif isinstance(value, dg.MetadataValue):
        yield from words(value.value)
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from (*words(k), *words(v))
    elif isinstance(value, list | tuple | set | frozenset):
        for v in value:
            yield from words(v)
    elif isinstance(value, str):
        yield value
        for picture in re.findall(r"base64,([A-Za-z0-9+/=]+)", value):
            yield base64.b64decode(picture).decode()
    elif value is not None:
        yield repr(value)


def said_of(told: Told) -> dict[str, str]:
    """By asset, all that its materialisation, observation and checks say in the UI."""
    said: dict[str, list[str]] = {}
    for event in told.events:
        data: Any = event.event_specific_data
        match event.event_type_value:
            case "ASSET_MATERIALIZATION":
                of, value = (
                    data.materialization.asset_key,
                    (data.materialization.metadata, data.materialization.description),
                )
            case "ASSET_OBSERVATION":
                of, value = (
                    data.asset_observation.asset_key,
                    (data.asset_observation.metadata, data.asset_observation.description),
                )
            case "ASSET_CHECK_EVALUATION":
                of, value = data.asset_key, (data.metadata, data.description)
            case "STEP_FAILURE":
                of, value = dg.AssetKey(str(event.step_key)), told.refused.get(str(event.step_key), "")
            case _:
                continue
        said.setdefault(of.to_user_string(), []).extend(words(value))
    return {asset: "\n".join(texts) for asset, texts in said.items()}


def private_texts(top: Path) -> list[str]:
    study = study_of(top)
    reasons = study.ledger.answers(study.name, study.round, ["ann", "bob"])["reason"].drop_nulls().to_list()
    return [
        *tiny.QUERIES,
        *study.load("intents")["intent"],
        *study.corpus["text"],
        *study.corpus["header"],
        *reasons,
    ]


def test_nothing_private_and_nothing_that_unblinds_is_shown(walk: Walk) -> None:
    """P13, P18: no query, intent, chunk or reason in any asset's metadata, and no arm where a grader might look."""
    private = private_texts(walk.at["published"])
    assert len(set(private)) > 90
    for stage, told in walk.told.items():
        for asset, text in said_of(told).items():
            assert not [p for p in private if p in text], (stage, asset)
    shown = said_of(walk.told["published"])
    assert set(shown) == set(MADE)
    blind = ("pools", "intents", "sheets", "grades", "audit_sample", "audit_sheets", "audit_grades", "disagreements")
    for asset in blind:
        assert not [arm for arm in (*ARMS, "lexical", "dense") if arm in shown[asset]], asset
    assert ARMS[0] in shown["runs"]  # the test can see an arm where one is shown
    for asset in ASSETS:
        for key, description in asset.descriptions_by_key.items():
            assert description and not [p for p in (*private, *ARMS) if p in description], key


def test_a_refusal_shows_nothing_private(walk: Walk, tmp_path: Path) -> None:
    """P41: faults name rows by id, never by their text."""
    top = copy(walk.at["asked"], tmp_path / "top")
    grade_all(top, "ann")
    grade_all(top, "bob", by=lambda query, chunk: 2 - truth(query, chunk))
    told = run(top)
    assert not told.ok
    private = private_texts(top)
    assert not [(asset, p) for asset, text in said_of(told).items() for p in private if p in text]


# private studies

PRIVATE = DESIGN.replace('seed: "7"', 'seed: "7"\nprivate: true')


@pytest.fixture(scope="module")
def private_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = asked(tmp_path_factory.mktemp("private"), PRIVATE)
    assert graded(top).ok
    return top


def test_a_private_study_publishes_nothing_private(private_study: Path) -> None:
    """P7, P41: no query, intent, chunk text, reason, person or secret in any published file, read and unpacked."""
    from relgrade_assets.io.report.page import plotly

    study = study_of(private_study)
    planted = [*private_texts(private_study), study.secret, "ann", "bob", "cleo"]
    for path in sorted(published(private_study).iterdir()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data = pl.read_parquet(path).write_json().encode()
        text = data.decode().replace(plotly(), "")  # no study's, and a name as short as these may stand in it
        found = [p for p in planted if re.search(rf"(?<![A-Za-z]){re.escape(p)}(?![A-Za-z])", text)]
        assert not found, (path.name, found)
    assert "seed" not in manifest(private_study)["key"]


def test_a_private_study_keys_its_query_ids_with_a_secret(private_study: Path) -> None:
    """P7: the ids can't be guessed back with the seed, which is in the design."""
    study = study_of(private_study)
    ids = set(study.load("query_sample")["query_id"])
    assert ids == set(tiny.query_ids(private_study).values())
    assert not ids & set(tiny.query_ids().values())
    assert not [
        p
        for p in (private_study / ".relgrade" / "tables").rglob("*")
        if p.is_file() and study.secret.encode() in p.read_bytes()
    ]


def test_a_leak_stops_the_publication_and_the_old_one_stands(
    private_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P41."""
    from relgrade_assets.io import publication

    top = copy(private_study, tmp_path / "top")
    before = files_of(published(top))
    monkeypatch.setattr(publication, "judgments_json", lambda *a, **k: json.dumps(tiny.QUERIES[3].upper()).encode())
    told = run(top, "published_key")
    assert not told.ok and not told.made
    assert "Private text would leave with the publication" in told.text
    assert "judgments.json: found a private string of 16 characters" in told.text
    assert tiny.QUERIES[3] not in told.text.lower()
    assert files_of(published(top)) == before


# rounds

ROUNDS = DESIGN.replace(
    "deviations:\n",
    "audit: {at_least: 3, share: 0.25}\ndeviations:\n  - {code: small_audit, reason: to leave queries for round 2}\n",
)


def careless(query: str, chunk: str) -> int:
    return 0 if number(chunk) % 3 else 2


@dataclass(frozen=True)
class Rounds:
    top: Path
    first: dict[str, str]
    refused: str
    waiting: Told
    told: Told


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """A first round that fails; the rubric is changed and the round revised; a second round that passes."""
    from relgrade_assets.io.rounds import open_next_round

    top = asked(tmp_path_factory.mktemp("rounds"), ROUNDS)
    grade_all(top, "ann")
    grade_all(top, "bob", by=careless)
    assert not run(top).ok
    folder = study_of(top).path("grades", 1).parent
    first = files_of(folder)
    rubric = study_of(top).folder / "rubric.md"
    rubric.write_text(rubric.read_text() + "\nA neighbouring thing is 1.\n")
    refused = run(top).text
    open_next_round(study_of(top), cause="boundary", what="neighbouring things", by="dora")
    waiting = run(top)
    grade_all(top, "ann")
    grade_all(top, "bob")
    return Rounds(top, first, refused, waiting, run(top))


def test_a_failed_gate_is_logged_and_is_not_graded_away(rounds: Rounds, tmp_path: Path) -> None:
    """P30: the log holds the gates that failed, and the round takes no answer that would change that."""
    failed = [e for e in study_of(rounds.top).log if e.kind == "gate_failed"]
    assert [e.round for e in failed] == [1]
    assert {"weighted_kappa", "disagreement"} <= {g["gate"] for g in failed[0].body["gates"]}
    top = asked(tmp_path / "top", DESIGN)
    grade_all(top, "ann")
    grade_all(top, "bob", by=careless)
    assert not run(top).ok
    with pytest.raises(Refused, match="Round 1 of tiny was judged and failed a gate and takes no answers"):
        grade_all(top, "bob")
    assert not run(top).ok
    assert not study_of(top).keys.exists("tiny", 1)


def test_a_failed_round_is_never_overwritten(rounds: Rounds) -> None:
    """P4, P30: round 1's tables are the same to the byte after round 2; it has no key."""
    assert rounds.told.ok, rounds.told.text
    assert files_of(study_of(rounds.top).path("grades", 1).parent) == rounds.first
    assert nothing_frozen(rounds.top, round_=1) is False  # the folder is there: round 2 was published
    assert not study_of(rounds.top).keys.exists(tiny.NAME, 1)
    assert study_of(rounds.top).keys.exists(tiny.NAME, 2)
    assert manifest(rounds.top)["key"]["round"] == 2


def test_a_changed_protocol_needs_revise(rounds: Rounds) -> None:
    """P2: refused with both digests until the round is revised; then it is the protocol of the next round."""
    assert re.search(r"protocol [0-9a-f]{12}; expected [0-9a-f]{12}, under which round 1 was opened", rounds.refused), (
        rounds.refused
    )
    study = study_of(rounds.top)
    opened = [e.body["protocol_digest"] for e in study.log if e.kind == "opened"]
    assert opened[0] != opened[1] == study.protocol == manifest(rounds.top)["key"]["protocol_sha256"]


def test_a_new_round_has_fresh_orders_and_asks_for_every_grade_again(rounds: Rounds) -> None:
    """P4, P14: nothing of round 1 is taken over, and every query's order is new."""
    assert rounds.waiting.ok
    assert "0 of 96 pairs graded by ann" in rounds.waiting.waiting["grades"]
    study = study_of(rounds.top)
    one, two = (pl.read_parquet(study.path("sheets", n)).sort("query_id", "position") for n in (1, 2))
    orders = [dict(t.group_by("query_id", maintain_order=True).agg("chunk_id").iter_rows()) for t in (one, two)]
    assert {q: sorted(c) for q, c in orders[0].items()} == {q: sorted(c) for q, c in orders[1].items()}
    assert sum(orders[0][q] == orders[1][q] for q in orders[0]) == 0
    assert set(study.load("grades")["round"]) == {2}


def test_a_new_round_draws_a_fresh_audit_sample(rounds: Rounds) -> None:
    """P26: none of the queries that were audited before, while others are left."""
    study = study_of(rounds.top)
    one, two = (set(pl.read_parquet(study.path("audit_sample", n))["query_id"]) for n in (1, 2))
    assert len(one) == len(two) == 3
    assert not one & two
    assert not study.load("verdicts")["why"].str.contains("reused sample").any()


def test_an_audit_sample_that_must_be_reused_is_declared_and_said_so(walk: Walk, tmp_path: Path) -> None:
    """P3, P26: ten of twelve queries were audited, so that a second sample can't be fresh."""
    from relgrade_assets.io.rounds import open_next_round

    top = copy(walk.at["asked"], tmp_path / "top")
    grade_all(top, "ann", at_most=1)
    path = study_of(top).folder / "experiment.yaml"
    declared = path.read_text()
    path.write_text("".join(line for line in declared.splitlines(keepends=True) if "reused_audit" not in line))
    open_next_round(study_of(top), cause="boundary", what="", by="dora")
    told = run(top, *BEFORE_THE_GATES)
    assert "8 of 10 queries that an earlier round's auditor was given" in told.refused["audit_sample"]
    assert not study_of(top).path("sheets").exists() and not study_of(top).path("audit_sheets").exists()
    path.write_text(declared)
    open_next_round(study_of(top), cause="boundary", what="declared", by="dora")
    assert run(top, *BEFORE_THE_GATES).refused == {}
    assert graded(top).ok
    assert study_of(top).load("verdicts")["why"].str.contains("reused sample").all()
    assert all("reused sample" in v["why"] for v in manifest(top)["key"]["verdicts"])


def test_revisions_list_every_round_with_its_cause(rounds: Rounds) -> None:
    """P30."""
    rows = study_of(rounds.top).load("revisions").select("round", "cause", "what", "by").rows()
    assert rows == [(1, "first grading", "", ""), (2, "boundary", "neighbouring things", "dora")]


def test_disagreements_of_a_failed_round_have_both_reasons(rounds: Rounds) -> None:
    """P30: each pair on which they differ, both reasons, a likely cause."""
    table = pl.read_parquet(study_of(rounds.top).path("disagreements", 1))
    assert table.height
    assert (table["grade"] != table["audit_grade"]).all()
    assert table["reason"].null_count() == 0
    assert set(table["likely_cause"]) <= {"intent", "boundary", "drift"}


# several graders

ANN = "  - {name: ann, family: people-a, kind: human}\n"
TWO = DESIGN.replace(
    ANN, ANN.replace("human", "human, takes: TAKES") + ANN.replace("ann", "cat").replace("human", "human, takes: 0.5")
)
TWO += "".join(f"  - {{code: {c}, reason: they are made up for tests}}\n" for c in ("no_calibration", "little_overlap"))


def another_in_anns_name(top: Path) -> None:
    """P25: the auditor's file without its token, half of which is on ann's sheet: refused whole, and said whose."""
    study = study_of(top)
    for who in ("ann", "bob"):
        write_sheets(study, who, top / "out" / who)
    rows = [tiny.answer(row) for row in blind_rows(sheet_of(study, "bob"))]
    file = top / "given.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(Refused, match=r"all are on bob's; .* Collect it as bob's"):
        collect(study, "ann", file, name="given.jsonl")
    assert not study.ledger.answers(study.name, study.round, ["ann"]).height
    own = [row for row in rows if row["query_id"] in set(sheet_of(study, "ann")["query_id"])]
    stray = next(row for row in rows if row not in own)
    file.write_text("".join(json.dumps(row) + "\n" for row in [*own, stray]), encoding="utf-8")
    taken = collect(study, "ann", file, name="given.jsonl")
    assert (taken.new, len(taken.refused)) == (len(own), 1)


def test_two_graders_share_the_queries(tmp_path: Path) -> None:
    """P30: shares that sum to 1 leave no query out and none to two."""
    top = asked(tmp_path, TWO.replace("TAKES", "0.5"))
    another_in_anns_name(top)
    told = graded(top, "ann", "cat")
    assert told.ok, told.text
    takes = study_of(top).load("grades").group_by("query_id").agg(pl.col("grader").unique()).sort("query_id")
    assert takes["grader"].list.len().to_list() == [1] * 12
    assert takes["grader"].list.first().value_counts().sort("grader").rows() == [("ann", 6), ("cat", 6)]
    assert set(study_of(top).load("agreement")["comparison"]) == {"key~auditor"}
    assert [g["takes"] for g in manifest(top)["key"]["graders"]] == [0.5, 0.5]


@pytest.mark.parametrize(("combine", "strict_counts"), [("first_listed", False), ("median_low", True)])
def test_overlapping_graders_are_combined_as_declared(combine: str, strict_counts: bool, tmp_path: Path) -> None:
    """P30: cat is stricter by one step on one pair in twelve; the auditor agrees with whom the rule follows."""
    design = TWO.replace("TAKES", "all").replace("auditor:", f"combine: {combine}\nauditor:")
    top = asked(tmp_path, design)

    def strict(query: str, chunk: str) -> int:
        return (
            max(truth(query, chunk) - 1, 0) if number(query) % 2 and truth(query, chunk) == 2 else truth(query, chunk)
        )

    grade_all(top, "ann")
    grade_all(top, "cat", by=strict)
    grade_all(top, "bob")
    run(top, of="regrade")
    told = run(top, of="publish")
    assert told.ok, told.text
    study = study_of(top)
    of_cat = set(study.load("grades").filter(pl.col("grader") == "cat")["query_id"])
    assert len(of_cat) == 6
    queries = {i: q for q, i in tiny.query_ids().items()}
    expected = [
        (strict if strict_counts and q in of_cat else truth)(queries[q], c)
        for q, c in study.load("frozen_key").select("query_id", "chunk_id").iter_rows()
    ]
    assert study.load("frozen_key")["grade"].to_list() == expected
    assert (
        expected != [truth(queries[q], c) for q, c in study.load("pools").select("query_id", "chunk_id").iter_rows()]
    ) == strict_counts
    assert set(study.load("agreement")["comparison"]) == {"key~auditor", "ann~cat"}
    names = set(pl.read_parquet(published(top) / "agreement.parquet")["comparison"])
    assert names == {"key~auditor", "grader-1~grader-2"}


# scales, and what can't be graded


def test_a_binary_scale_has_two_gates(tmp_path: Path) -> None:
    """P5, P28: binary kappa and disagreement alone."""
    top = asked(tmp_path, DESIGN.replace("scale: 0-2", "scale: binary"))
    told = graded(top, by=lambda query, chunk: min(truth(query, chunk), 1))
    assert told.ok, told.text
    study = study_of(top)
    assert study.load("verdicts")["gate"].to_list() == ["binary_kappa", "disagreement"]
    assert set(study.load("frozen_key")["grade"]) == {0, 1}


def unrateable(*pairs: tuple[int, int]) -> tiny.Truth:
    """Thing n with chunk m can't be rated; the rest is as it is."""
    return lambda query, chunk: None if (number(query), number(chunk)) in pairs else truth(query, chunk)


@pytest.mark.parametrize(
    ("pairs", "declared", "frozen"),
    [(((1, 6),), False, True), (((1, 6), (2, 7), (3, 8)), False, False), (((1, 6), (2, 7), (3, 8)), True, True)],
    ids=["one_of_96", "three_of_96", "three_of_96_declared"],
)
def test_unrateable_pairs_are_no_grades(
    pairs: tuple[tuple[int, int], ...], declared: bool, frozen: bool, walk: Walk, tmp_path: Path
) -> None:
    """P19: beside the key and -1 in qrels; over 2% of the pool only where that is declared."""
    more = "  - {code: unrateable_share, reason: the corpus is broken there}\n" if declared else ""
    top = asked(tmp_path, DESIGN + more) if declared else copy(walk.at["asked"], tmp_path / "top")
    told = graded(top, by=unrateable(*pairs), auditor=truth)
    if not frozen:
        assert "3 pairs unrateable, 3.1% of the pool; expected at most 2%" in told.text
        assert nothing_frozen(top)
        return
    assert told.ok, told.text
    ids = tiny.query_ids()
    rows = sorted((ids[f"where is thing {q}"], f"c{c:02}") for q, c in pairs)
    key = study_of(top).load("frozen_key")
    assert key.height == 96 - len(pairs)
    qrels = (published(top) / "qrels.txt").read_text().splitlines()
    assert [line for line in qrels if line.endswith(" -1")] == [f"{q} 0 {c} -1" for q, c in rows]
    sidecar = [json.loads(line) for line in (published(top) / "unrateable.jsonl").read_text().splitlines()]
    assert [(r["query_id"], r["chunk_id"]) for r in sidecar] == rows
    assert manifest(top)["key"]["unrateable"] == len(pairs)
    assert ("unrateable_share" in [d["code"] for d in manifest(top)["key"]["deviations"]]) == declared


def without(*things: int) -> tiny.Truth:
    """Nothing answers the queries about these things."""
    return lambda query, chunk: 0 if number(query) in things else truth(query, chunk)


def test_queries_with_nothing_relevant_are_dropped_and_listed(walk: Walk, tmp_path: Path) -> None:
    """P32."""
    top = copy(walk.at["asked"], tmp_path / "top")
    told = graded(top, by=without(3, 10))
    assert told.ok, told.text
    ids = tiny.query_ids()
    dropped = sorted(ids[f"where is thing {n}"] for n in (3, 10))
    study = study_of(top)
    assert not set(dropped) & {*study.load("frozen_key")["query_id"], *study.load("query_measures")["query_id"]}
    assert manifest(top)["key"]["dropped_queries"] == dropped
    assert manifest(top)["key"]["emptied_strata"] == []
    assert study.load("query_measures")["query_id"].n_unique() == 10
    headline = study.load("arm_measures").filter((pl.col("scope") == "headline") & (pl.col("measure") == "nDCG@10"))
    assert headline["value"].null_count() == 0 and set(headline["n"]) == {10}


def test_an_emptied_stratum_blocks_the_headline_and_is_named(walk: Walk, tmp_path: Path) -> None:
    """P32: no weighted headline; plain means stand; the command line still has something to say."""
    from relgrade_assets.cli.results import arm_table

    study = study_of(walk.at["asked"])
    torso = study.load("query_sample").filter(pl.col("stratum") == "torso")
    top = copy(walk.at["asked"], tmp_path / "top")
    told = graded(top, by=without(*(number(q) for q in torso["query"])))
    assert told.ok, told.text
    study = study_of(top)
    assert manifest(top)["key"]["emptied_strata"] == ["torso"]
    arms = study.load("arm_measures")
    headline = arms.filter(pl.col("scope") == "headline")
    assert headline["value"].null_count() == headline.height == 2 * len(study.design.measures)
    assert headline["interval"].str.contains("no graded query in stratum torso").all()
    assert arms.filter(pl.col("scope") == "plain")["value"].null_count() == 0
    assert "  -  " in arm_table(study)


# grades from elsewhere

IMPORT = DESIGN.replace("kind: human}\nauditor", "kind: import}\nauditor")


@pytest.mark.parametrize("declared", [False, True])
def test_imported_qrels_without_reasons_are_a_declared_deviation(declared: bool, tmp_path: Path) -> None:
    """P3, P19, P25: refused undeclared; declared they make a key, and the manifest says so."""
    from relgrade_assets.io.returns import collect
    from relgrade_assets.io.worksheets import write_sheets

    more = "  - {code: imported_without_reasons, reason: the labels came without}\n" if declared else ""
    top = asked(tmp_path, IMPORT + more)
    study = study_of(top)
    write_sheets(study, "ann", top / "out")
    texts = {i: q for q, i in tiny.query_ids().items()}
    qrels = top / "ann.qrels"
    pairs = study.load("pools").select("query_id", "chunk_id").rows()
    qrels.write_text("".join(f"{q} 0 {c} {truth(texts[q], c)}\n" for q, c in pairs))
    if not declared:
        with pytest.raises(Refused, match="A qrels file holds no reasons"):
            collect(study, "ann", qrels, name="ann.qrels", form="qrels")
        assert "0 of 96 pairs graded by ann" in run(top, "grades").text
        return
    assert collect(study, "ann", qrels, name="ann.qrels", form="qrels").new == 96
    grade_all(top, "bob")
    run(top, of="regrade")
    told = run(top, of="publish")
    assert told.ok, told.text
    assert "imported_without_reasons" in [d["code"] for d in manifest(top)["key"]["deviations"]]
    assert study_of(top).load("grades")["reason"].null_count() == 96
