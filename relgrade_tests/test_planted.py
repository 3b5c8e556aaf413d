"""P41: private text planted at random never reaches a file of a published folder, a message, or a line of a log.

How a string is looked for here is not how the leak check looks: every file is read by its own form, and every cell of
it compared.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import driving
import polars as pl
import pytest
import tiny
from command_line import at, relgrade
from conftest import FULL

from relgrade_assets.errors import Refused
from relgrade_assets.io import private_text, publication, publishing
from relgrade_assets.io.frames import read_table
from relgrade_assets.io.leaks import leak_check
from relgrade_assets.io.restating import restated
from relgrade_assets.io.study import Study
from relgrade_assets.methods.intents import row_faults
from relgrade_assets.methods.normalise import normalised
from relgrade_assets.protocol.canonical import keyed_id
from relgrade_assets.schemas import TABLES

SEED = 20261130
TRIALS = 190 if FULL else 12
WORDS = (
    *("cancel", "order", "Müller", "naïve", "Straße", "Ω-3", "ﬁnance", "ｆｕｌｌ", "e\u0301tat", "ça", "日本語"),
    *("x\u200by", "so\u00adft", "=SUM(A)", "@home", '"quoted"', "back\\slash", "\\u0041bc", "&amp;", "<b>bold</b>"),
    *("semi;colon", "com,ma", "ta\tb", "né", "İstanbul", "\U0001f600", "it's", "[x]", "{y}", "a|b", "#tag", "--flag"),
    *("שלום", "%20c"),
)


def secret(draw: random.Random) -> str:
    """Some words nobody else says, without digits, at least twelve characters when read closely."""
    letters = "".join(draw.choice("bcdfghjklmnpqrstvwxz") for _ in range(14))
    return " ".join([draw.choice(WORDS), letters, *draw.sample(WORDS, draw.randint(1, 3))])


def close(text: str) -> str:
    """As a reader takes it: compatibility forms, case, format characters and blanks set aside."""
    plain = "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if unicodedata.category(c) != "Cf")
    return re.sub(r"\s+", " ", plain)


def said(name: str, data: bytes) -> Iterator[str]:
    """Every text of a published file: its name, its bytes as text, and what its form holds."""
    yield name
    if name.endswith(".parquet"):
        yield from _cells(pl.read_parquet(io.BytesIO(data)).to_dicts())
        yield data.decode("utf-8", "replace")
        return
    text = data.decode("utf-8")
    yield text
    if name.endswith(".json"):
        yield from _cells(json.loads(text))
    elif name.endswith(".jsonl"):
        yield from _cells([json.loads(line) for line in text.splitlines()])
    elif name.endswith(".csv"):
        yield from _cells(list(csv.reader(io.StringIO(text))))


def _cells(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _cells(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _cells(inner)
    elif isinstance(value, str):
        yield value


def core(planted: str) -> str:
    """The part of a planted text that nobody else says."""
    (letters,) = re.findall(r"[bcdfghjklmnpqrstvwxz]{14}", planted)
    return letters  # type: ignore[no-any-return]


def leaks(texts: Iterator[str], planted: list[str]) -> list[str]:
    whole = "\n".join(close(t) for t in texts)
    return [p for p in planted if core(p) in whole]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A frozen study, taken for a private one."""
    made = tiny.study_of(at("frozen", tmp_path_factory.mktemp("planted")))
    made.design = made.design.model_copy(update={"private": True})
    return made


def planted_in(frame: pl.DataFrame, columns: tuple[str, ...], draw: random.Random) -> tuple[pl.DataFrame, list[str]]:
    """The frame with secrets in some cells of `columns`, and the secrets."""
    texts = []
    for column in columns:
        cells = frame[column].to_list()
        for place in draw.sample(range(len(cells)), min(3, len(cells))):
            texts.append(secret(draw))
            cells[place] = f"{cells[place] or ''} {texts[-1]}"
        frame = frame.with_columns(pl.Series(column, cells, dtype=pl.String))
    return frame, texts


def test_planted_at_random_into_every_private_column(study: Study) -> None:
    """P41: queries, intents, headers, texts, reasons and the names of files, with Unicode forms and escapes: none is
    in any file of the folder, also when it is remade, and the leak check has nothing to say.
    """
    stored = {t: read_table(study.path(t)) for t in TABLES["published_key"].inputs if t in TABLES}
    corpus, design = study.corpus, study.design
    for n in range(TRIALS):
        draw = random.Random(SEED + n)  # noqa: S311 - no secret of ours
        tables, planted = dict(stored), []
        for table, columns in (
            ("query_sample", ("query",)),
            ("intents", ("intent",)),
            ("grades", ("reason",)),
            ("audit_grades", ("reason",)),
        ):
            tables[table], texts = planted_in(stored[table], columns, draw)
            planted += texts
        study.corpus, texts = planted_in(corpus, ("header", "text"), draw)
        names = [secret(draw) for _ in range(3)]
        study.design = design.model_copy(
            update={
                "query_log": design.query_log.model_copy(update={"file": f"{names[0]}.csv"}),
                "corpus": design.corpus.model_copy(update={"path": f"{names[1]}.jsonl"}),
                "arms": [a.model_copy(update={"run": f"runs/{names[2]}.trec"}) for a in design.arms],
            }
        )
        planted += [*texts, *names]
        try:
            files = publishing.published_files(study, tables)
            private = list(private_text.private_strings(study, tables))
        finally:
            study.corpus, study.design = corpus, design
        for folder in (files, restated(files, study.log, publication.pseudonyms(study.design))):
            for name, data in folder.items():
                assert leaks(said(name, data), planted) == [], (n, name)
            assert leak_check({x: data for x, data in folder.items() if x != publishing.REPORT}, private) == [], n


def test_the_search_of_this_module_finds_what_is_there(study: Study) -> None:
    """The other way round: the same texts, where the study is not private, are in its files and are found."""
    draw = random.Random(SEED)  # noqa: S311 - no secret of ours
    stored = {t: read_table(study.path(t)) for t in TABLES["published_key"].inputs if t in TABLES}
    tables = dict(stored)
    tables["query_sample"], planted = planted_in(stored["query_sample"], ("query",), draw)
    study.design = study.design.model_copy(update={"private": False})
    try:
        files = publishing.published_files(study, tables)
    finally:
        study.design = study.design.model_copy(update={"private": True})
    for name in ("judgments.json", "pools.jsonl", "quepid_book.csv", "ltr.txt"):
        assert leaks(said(name, files[name]), planted) == planted, name
    assert leak_check(files, list(tables["query_sample"]["query"]))


def test_a_revision_or_correction_whose_words_are_private_is_refused(study: Study) -> None:
    """P41: they would stand in the event log, which every later publication holds."""
    from relgrade_assets.io.rounds import open_next_round

    length = len(study.log)
    for more in ({"cause": f"of {tiny.QUERIES[2]}"}, {"what": tiny.QUERIES[3].upper()}, {"by": tiny.QUERIES[4]}):
        with pytest.raises(Refused, match="would enter the event log") as caught:
            open_next_round(study, **{"cause": "drift", "what": "", "by": "", **more})
        assert "where is thing" not in str(caught.value).lower()
        with pytest.raises(Refused, match="would enter the event log"):
            private_text.refuse_private(study, more)
    assert len(study.log) == length


# through the whole graph


def write(top: Path, draw: random.Random) -> list[str]:
    """The tiny study, private, with secrets in every text of its files; returns them."""
    folder = tiny.write_experiment(top, design=tiny.DESIGN.replace('seed: "7"', 'seed: "7"\nprivate: true'))
    planted = [secret(draw).replace("\t", " ") for _ in tiny.QUERIES]
    queries = [f"{text} thing {n}" for n, text in enumerate(planted, start=1)]
    key = tiny.study_of(top).secret
    normal = pl.DataFrame({"q": queries}).select(normalised(pl.col("q")))["q"]
    ids = {old: keyed_id("q", key, new) for old, new in zip(tiny.QUERIES, normal, strict=True)}
    before = tiny.query_ids(top)
    with (folder / "log.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("query", "count"), *zip(queries, tiny.COUNTS, strict=True)])
    intents = [secret(draw).replace("\t", " ") for _ in queries]
    with (folder / "intents.csv").open("w", newline="", encoding="utf-8") as stream:
        rows = [
            (ids[old], new, "where", f"Where is {text} thing {n}?", "cleo", "planted words")
            for n, (old, new, text) in enumerate(zip(tiny.QUERIES, queries, intents, strict=True), start=1)
        ]
        csv.writer(stream).writerows([("query_id", "query", "form", "intent", "author", "lint_override"), *rows])
    texts = [secret(draw) for _ in range(2 * len(tiny.CHUNKS))]
    lines = [
        json.dumps({"chunk_id": c, "header": texts[2 * n], "text": f"This is {texts[2 * n + 1]}."})
        for n, c in enumerate(tiny.CHUNKS)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for run in ("old", "new"):
        path = folder / "runs" / f"{run}.trec"
        text = path.read_text("utf-8")
        for old, new in ids.items():
            text = text.replace(before[old], new)
        path.write_text(text, encoding="utf-8")
    return [*planted, *intents, *texts]


def grade(top: Path, who: str, draw: random.Random) -> list[str]:
    """`who` grades everything, with a secret in each reason; returns them."""
    from relgrade_assets.io.worksheets import sheet_of, write_sheets
    from relgrade_assets.methods.sheets import blind_rows

    study = tiny.study_of(top)
    write_sheets(study, who, top / "out" / who)
    rows, planted = [], []
    for row in blind_rows(sheet_of(study, who)):
        planted.append(secret(draw).replace("\t", " "))
        rows.append({**tiny.answer(row), "reason": f"says {planted[-1]}"})
    tiny.hand_in(top, who, rows)
    return planted


@pytest.mark.full
@pytest.mark.parametrize("trial", range(10))
def test_planted_at_random_through_the_whole_graph(
    trial: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """P41: nothing of it in the published folder, in any event or metadata of Dagster's, on the terminal, in a log, in
    the event log, or in what status, verify and a refusal say.
    """
    draw = random.Random(SEED + 1000 + trial)  # noqa: S311 - no secret of ours
    planted = write(tmp_path, draw)
    events = [driving.run(tmp_path)]
    tiny.review_all(tmp_path)
    events.append(driving.run(tmp_path))
    for who in ("ann", "bob"):
        planted += grade(tmp_path, who, draw)
    events.append(driving.run(tmp_path))
    assert events[-1].ok, events[-1].text
    spoken = [relgrade(tmp_path, *words).said for words in (("status", "tiny"), ("verify", "tiny"), ("check", "tiny"))]
    assert "verifies" in spoken[1]
    folder = tmp_path / ".relgrade" / "published" / "tiny"
    for path in folder.iterdir():
        assert leaks(said(path.name, path.read_bytes()), planted) == [], path.name
    lines = [repr(e.event_specific_data) + (e.message or "") for told in events for e in told.events]
    out, err = capfd.readouterr()
    logged = [record.getMessage() for record in caplog.records]
    assert leaks(iter([*lines, *spoken, out, err, *logged]), planted) == []
    store = tmp_path / ".relgrade" / "keys"
    for path in store.rglob("*"):
        if path.is_file():
            assert leaks(iter([path.read_text("utf-8")]), planted) == [], path
    assert len(planted) > 150


def test_a_refusal_of_private_text_does_not_repeat_it(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """P41: faults tell file and length, never the text."""
    draw = random.Random(SEED)  # noqa: S311 - no secret of ours
    stored = {t: read_table(study.path(t)) for t in TABLES["published_key"].inputs if t in TABLES}
    tables = dict(stored)
    tables["query_sample"], planted = planted_in(stored["query_sample"], ("query",), draw)
    leaky = json.dumps(tables["query_sample"]["query"].to_list()).encode()
    monkeypatch.setattr(publishing.publication, "judgments_json", lambda *a, **k: leaky)
    with pytest.raises(Refused, match=r"judgments\.json: found a private string") as caught:
        publishing.publish(study, tables)
    assert leaks(iter([str(caught.value)]), planted) == []


def test_the_lint_of_an_intent_does_not_repeat_it() -> None:
    """P16, P41: what a run says of a row is in Dagster's log; the query's id tells which row it is."""
    row = {"query_id": "q1", "query": None, "intent": "Where is tlvwrzsmtlmflt; and bcdfg?", "lint_override": ""}
    faults = row_faults(row, {"q1": "thing"})
    assert faults and "tlvwrzsmtlmflt" not in repr(faults)
