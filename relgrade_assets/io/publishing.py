"""Publishing: gather the frozen key, measures and verdicts into one folder, look for private text, and swap the
folder in whole (P41, P42).
"""

from __future__ import annotations

import io
import json
from typing import TypedDict

import polars as pl

from relgrade_assets import __version__
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import events, publication, tool_exports
from relgrade_assets.io.atomic import replace_folder
from relgrade_assets.io.croissant import NAME, croissant_json
from relgrade_assets.io.freezing import require_frozen
from relgrade_assets.io.leaks import leak_check
from relgrade_assets.io.private_text import private_strings
from relgrade_assets.io.rank_eval import rank_eval_json
from relgrade_assets.io.report.store import stored_report
from relgrade_assets.io.restating import restate
from relgrade_assets.io.study import Study
from relgrade_assets.methods import habits
from relgrade_assets.methods.carry_over import pairs_by_round
from relgrade_assets.protocol.canonical import digest_bytes
from relgrade_assets.protocol.publication import Publication

REPORT = "report.html"


class _Exceptions(TypedDict):
    carried: dict[int, int]
    regraded: int | None


def publish(study: Study, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Write the published folder of a study's present round. Returns the PublishedKey table.

    Refused where the key is not the frozen one, or where private text would leave; the folder that was there then
    stands.
    """
    files = published_files(study, tables)
    if study.design.private:
        checked = {name: data for name, data in files.items() if name != REPORT}  # the report was, when it was made
        faults = leak_check(checked, sorted(set(private_strings(study, tables))))
        if faults:
            raise Refused(
                "Private text would leave with the publication",
                faults,
                untouched="Nothing was published; what was there stands.",
            )
    replace_folder(study.home.published / study.name, files)
    if events.head(study.ledger, study.name) != events.head_of(events.from_jsonl(files["events.jsonl"])):
        restate(study)  # a void or another round came in meanwhile: the folder says so (P35)
    rows = [(name, len(data), digest_bytes(data)) for name, data in sorted(files.items())]
    return pl.DataFrame(rows, schema={"file": pl.String, "bytes": pl.Int64, "sha256": pl.String}, orient="row")


def published_files(study: Study, tables: dict[str, pl.DataFrame]) -> dict[str, bytes]:
    """Every published file as bytes, the manifest and the status included."""
    d = study.design
    key, sample = tables["frozen_key"], tables["query_sample"]
    sha = require_frozen(study, key)
    stored = study.keys.load(study.name, study.round, key_digest=sha)
    unrateable = _pairs(stored["unrateable.jsonl"])
    by_grader = pl.concat([tables["grades"], tables["audit_grades"]]).join(key, on="query_id", how="semi")
    log = study.log
    names = publication.pseudonyms(d)
    about = d.publication or Publication()
    files = {
        "key.jsonl": stored["key.jsonl"],
        "key.parquet": _parquet(key.select("query_id", "chunk_id", "grade").sort("query_id", "chunk_id")),
        "unrateable.jsonl": stored["unrateable.jsonl"],
        "qrels.txt": publication.qrels_bytes(key, unrateable),
        "qrels_by_grader.txt": publication.qrels_by_grader_bytes(by_grader, names),
        "judgments.json": publication.judgments_json(key, sample, private=d.private),
        "pools.jsonl": publication.pools_jsonl(
            key, unrateable, sample, tables["contributions"], depth=d.depth, private=d.private
        ),
        "measures.parquet": _parquet(tables["arm_measures"]),
        "measures.csv": publication.measures_csv(tables["arm_measures"]),
        "query_measures.parquet": _parquet(tables["query_measures"]),
        "arm_comparisons.parquet": _parquet(tables["arm_comparisons"]),
        "agreement.parquet": _parquet(_pseudonymous(tables["agreement"], names)),
        "events.jsonl": events.as_jsonl(log, names),
        REPORT: stored_report(study, "public"),
        **tool_exports.exports(
            key,
            by_grader,
            sample,
            names,
            name=study.name,
            description=f"relgrade, round {study.round}, key {sha}",
            private=d.private,
        ),
    }
    if about.rank_eval and not d.private:
        body = rank_eval_json(key, sample, about.rank_eval, headline=d.headline, scale=d.scale)
        files[tool_exports.FILES["rank-eval"]] = body
    frozen = next(e.at for e in log if e.kind == "frozen" and e.round == study.round)
    files[NAME] = croissant_json(
        files, about, name=study.name, title=d.title, round=study.round, key_digest=sha, frozen=frozen
    )
    identity = json.loads(stored["key.json"])
    plain = tables["arm_measures"].filter(pl.col("scope") == "plain")
    spoiling = [*habits.of_study(d, sample), *habits.of_scores(plain)]
    content = publication.manifest(
        identity,
        files,
        log,
        version=__version__,
        private=d.private,
        habits=spoiling,
        sources=events.opened_on(log, study.round),
        **_exceptions(study, tables["grades"]),
    )
    return publication.sealed(files, publication.manifest_bytes(content), log)


def _exceptions(study: Study, grades: pl.DataFrame) -> _Exceptions:
    """P4's two exceptions, counted: pairs carried over, by the round they come from; of a limited regrade, pairs that
    were given anew (P30, P44).
    """
    counts = pairs_by_round(grades)
    anew = counts.pop(study.round, 0)
    opened = events.opening(study.log, study.round)
    limited = opened is not None and opened.body.get("carry") == "limited"
    return {"carried": counts, "regraded": anew if limited else None}


def published_file(study: Study, form: str) -> bytes:
    """A published file in another tool's form, proved to be the one that was published (P42).

    Refused where it is not published yet or was changed since, and of a private study where the form needs the
    queries' text (P41).
    """
    if study.design.private and form in tool_exports.NEEDS_TEXT:
        fault = Fault(f"--format {form}", "a form that knows queries by their text", "qrels.txt or ltr, which don't")
        raise Refused(f"{study.name} is private, so that no text of a query leaves (P41)", [fault])
    name = tool_exports.FILES[form]
    if form == "rank-eval" and (study.design.publication is None or study.design.publication.rank_eval is None):
        mend = f"Add it and run `relgrade run {study.name}` again: it changes no number."
        fault = Fault("experiment.yaml", "no key publication.rank_eval", "the index and the query to ask", mend)
        raise Refused(f"{name} can't be handed on", [fault])
    sha = dict(study.load("published_key").select("file", "sha256").iter_rows()).get(name)
    path = study.home.published / study.name / name
    data = path.read_bytes() if path.is_file() else b""
    if sha is None or digest_bytes(data) != sha:
        found = "not the file that was published" if data else "no such file"
        raise Refused(
            f"{name} can't be handed on",
            [Fault(name, found, "the published file", f"`relgrade run {study.name}` publishes again.")],
        )
    return data


def _pseudonymous(agreement: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    """Comparisons of graders under their pseudonyms."""

    def renamed(comparison: str) -> str:
        return "~".join(names.get(part, part) for part in comparison.split("~"))

    return agreement.with_columns(pl.col("comparison").map_elements(renamed, return_dtype=pl.String))


def _pairs(lines: bytes) -> pl.DataFrame:
    schema = {"query_id": pl.String, "chunk_id": pl.String}
    return pl.read_ndjson(lines, schema=schema) if lines else pl.DataFrame(schema=schema)


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()
