"""Published forms (P42) through the readers of the tools that take them: ir_measures, pytrec_eval, scikit-learn here;
ranx and mlcroissant in the peers' environment of benchmarks/, in the full size. Whole studies are in test_tools_study.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ir_measures
import jsonschema
import numpy as np
import polars as pl
import pytest
import pytrec_eval
from sklearn.datasets import load_svmlight_file

from relgrade_assets.io import publication, tool_exports
from relgrade_assets.io.cells import unmarked
from relgrade_assets.io.croissant import CONTEXT, FORMATS, croissant_json
from relgrade_assets.io.rank_eval import metric, rank_eval_json
from relgrade_assets.methods.measure_names import parse
from relgrade_assets.protocol.canonical import digest_bytes
from relgrade_assets.protocol.publication import Publication, RankEval
from relgrade_assets.protocol.scale import NAMED

TOP = Path(__file__).resolve().parents[1]
KEY = pl.DataFrame(
    [("007", "1e3", 2), ("007", "a:b", 0), ("q2", "007", 1), ("q2", "nx:é", 0), ("q2", "=c", 2)],
    schema={"query_id": pl.String, "chunk_id": pl.String, "grade": pl.Int64},
    orient="row",
)
QUERIES = pl.DataFrame(
    [("007", 'say "hi" \\ {{query}}'), ("q2", "=SUM(A1)")], schema=["query_id", "query"], orient="row"
)
UNRATEABLE = pl.DataFrame([("q2", "zz")], schema=["query_id", "chunk_id"], orient="row")
GRADES = {(q, c): g for q, c, g in KEY.iter_rows()}
ASKED = RankEval(index="chunks", query={"bool": {"must": [{"match": {"text": {"query": "{{query}}"}}}], "boost": 1}})
MEASURES = pl.DataFrame(
    [("bm25", "nDCG@10", "plain", 1 / 3, -0.1, None, "=cmd", 30), ("e5", "RR", "head", 1e-17, 0.0, 1.0, "t", 2)],
    schema=["arm", "measure", "scope", "value", "low", "high", "interval", "n"],
    orient="row",
)


def parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()


FILES = {
    "qrels.txt": publication.qrels_bytes(KEY, UNRATEABLE),
    "key.jsonl": publication.key_jsonl(KEY),
    "key.parquet": parquet(KEY),
    "measures.parquet": parquet(MEASURES),
    "measures.csv": publication.measures_csv(MEASURES),
    "ltr.txt": tool_exports.ltr_text(KEY, QUERIES, private=False),
}
ABOUT = Publication.model_validate(
    {
        "license": "https://creativecommons.org/licenses/by/4.0/",
        "url": "https://example.org/key",
        "creators": ["Search team"],
        "cite_as": "Search team, 2026",
    }
)


def croissant(about: Publication = ABOUT) -> bytes:
    return croissant_json(
        FILES, about, name="demo", title="Demo", round=2, key_digest="ab", frozen="2026-03-01T00:00:00Z"
    )


def test_qrels_against_ir_measures_and_pytrec_eval() -> None:
    """P42: every id as text; unrateable is -1 and counts nowhere."""
    text = FILES["qrels.txt"].decode()
    expected = {**GRADES, ("q2", "zz"): -1}
    assert {(q.query_id, q.doc_id): q.relevance for q in ir_measures.read_trec_qrels(text)} == expected
    read = pytrec_eval.parse_qrel(io.StringIO(text))
    assert {(q, c): g for q, each in read.items() for c, g in each.items()} == expected
    run = {"q2": {"=c": 2.0, "zz": 1.0, "007": 0.5}}
    assert pytrec_eval.RelevanceEvaluator(read, {"map"}).evaluate(run)["q2"]["map"] == pytest.approx((1 + 2 / 3) / 2)


def test_qrels_by_grader_against_pytrec_eval_one_grader_at_a_time() -> None:
    """P42: column 2 is the pseudonym; the rows of one grader are qrels of their own."""
    given = (("x", 1), ("y", 0))
    grades = pl.concat([KEY.with_columns(grader=pl.lit(who), grade=pl.col("grade") * n) for who, n in given])
    lines = publication.qrels_by_grader_bytes(grades, {"x": "grader-1", "y": "auditor-1"}).decode().splitlines(True)
    mine = "".join(line for line in lines if line.split()[1] == "grader-1")
    assert pytrec_eval.parse_qrel(io.StringIO(mine)) == pytrec_eval.parse_qrel(
        io.StringIO("".join(f"{q} 0 {c} {g}\n" for (q, c), g in GRADES.items()))
    )
    assert {line.split()[1] for line in lines} == {"grader-1", "auditor-1"}


def test_learning_to_rank_against_scikit_learn() -> None:
    """P42: grades and query numbers, as load_svmlight_file reads them; features are for the tool to add."""
    data = tool_exports.ltr_text(KEY, QUERIES, private=False)
    features, grades, numbers = load_svmlight_file(io.BytesIO(data), n_features=1, query_id=True)
    rows = KEY.sort("query_id", "chunk_id")
    assert features.shape == (5, 1)
    assert grades.tolist() == rows["grade"].to_list()
    assert numbers.tolist() == rows["query_id"].rank("dense").to_list()
    assert b"\t" not in data and data.splitlines()[-1].split(b" ")[1:3] == [b"qid:2", b"#"]
    with_features = data.replace(b" # ", b" 1:0.5 2:7 # ")
    assert load_svmlight_file(io.BytesIO(with_features))[0].toarray().tolist() == np.tile([0.5, 7.0], (5, 1)).tolist()


RATED = {
    "type": "object",
    "additionalProperties": False,
    "required": ["_id", "_index", "rating"],
    "properties": {"_id": {"type": "string"}, "_index": {"type": "string"}, "rating": {"type": "integer"}},
}
CUT = {"k": {"type": "integer", "minimum": 1}}
RELEVANT = {**CUT, "relevant_rating_threshold": {"type": "integer"}}
METRICS: dict[str, dict[str, Any]] = {
    "precision": {**RELEVANT, "ignore_unlabeled": {"type": "boolean"}},
    "recall": RELEVANT,
    "mean_reciprocal_rank": RELEVANT,
    "dcg": {**CUT, "normalize": {"type": "boolean"}},
    "expected_reciprocal_rank": {**CUT, "maximum_relevance": {"type": "integer"}},
}
REQUEST = {
    "type": "object",
    "additionalProperties": False,
    "required": ["requests", "metric"],
    "properties": {
        "requests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["id", "request", "ratings"],
                "properties": {
                    "id": {"type": "string"},
                    "request": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["query"],
                        "properties": {"query": {"type": "object", "minProperties": 1, "maxProperties": 1}},
                    },
                    "ratings": {"type": "array", "items": RATED, "uniqueItems": True},
                },
            },
        },
        "metric": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": {
                name: {"type": "object", "additionalProperties": False, "properties": inner}
                for name, inner in METRICS.items()
            },
        },
    },
}
"""The body of _rank_eval as elastic/elasticsearch-specification has it (specification/_global/rank_eval/types.ts)."""


def test_rank_eval_against_the_engines_request() -> None:
    """P42: index and query from the design, the text wherever {{query}} stood and taken as text alone."""
    body = json.loads(rank_eval_json(KEY, QUERIES, ASKED, headline="nDCG@10", scale=NAMED["0-2"]))
    jsonschema.validate(body, REQUEST)
    first, second = body["requests"]
    assert first["request"]["query"] == {
        "bool": {"must": [{"match": {"text": {"query": 'say "hi" \\ {{query}}'}}}], "boost": 1}
    }
    assert {(r["id"], d["_id"]): d["rating"] for r in body["requests"] for d in r["ratings"]} == GRADES
    assert {d["_index"] for d in second["ratings"]} == {"chunks"}
    assert body["metric"] == {"dcg": {"k": 10, "normalize": True}}


@pytest.mark.parametrize(
    ("headline", "expected"),
    [
        ("nDCG(gain=linear)@5", {"dcg": {"k": 5, "normalize": True}}),
        ("AP", {"dcg": {"k": 10, "normalize": True}}),
        ("P(rel=2)@3", {"precision": {"k": 3, "relevant_rating_threshold": 2}}),
        ("Recall@100", {"recall": {"k": 100, "relevant_rating_threshold": 1}}),
        ("RR", {"mean_reciprocal_rank": {"k": 10, "relevant_rating_threshold": 1}}),
        ("ERR@20", {"expected_reciprocal_rank": {"k": 20, "maximum_relevance": 2}}),
    ],
)
def test_the_headline_as_the_engines_metric(headline: str, expected: dict[str, Any]) -> None:
    """P42."""
    body = {"requests": [], "metric": metric(parse(headline), NAMED["0-2"])}
    jsonschema.validate(body, REQUEST)
    assert body["metric"] == expected


def test_measures_as_csv_are_those_of_the_parquet() -> None:
    """P42: to the last digit; a formula is marked, a negative number is a number."""
    text = FILES["measures.csv"].decode()
    read = pl.read_csv(io.BytesIO(FILES["measures.csv"]), schema=MEASURES.schema)
    assert read.with_columns(pl.col("interval").map_elements(unmarked, return_dtype=pl.String)).equals(MEASURES)
    assert "'=cmd" in text and ",-0.1," in text and "\r" not in text
    assert list(csv.reader(io.StringIO(text)))[1][3] == repr(1 / 3)


MUST = (
    "@context",
    "@type",
    "name",
    "description",
    "conformsTo",
    "license",
    "url",
    "creator",
    "datePublished",
)


def faults(document: dict[str, Any]) -> list[str]:
    """What Croissant 1.0 asks of a file, and mlcroissant refuses or warns of."""
    said = [f"no {name}" for name in MUST if name not in document]
    said += [f"@context without {name}" for name in set(CONTEXT) - set(document.get("@context", {}))]
    objects = {f["@id"]: f for f in document["distribution"]}
    if len(objects) != len(document["distribution"]):
        said.append("an @id twice")
    for name, file in objects.items():
        asked = {"@type", "@id", "name", "contentUrl", "contentSize", "encodingFormat", "sha256"}
        said += [f"{name} without {key}" for key in asked - set(file)]
        said += [f"{name} leads out"] if "/" in file["contentUrl"] else []
    for record in document["recordSet"]:
        for field in record["field"]:
            source = field["source"]
            if field["@id"] != f"{record['@id']}/{field['name']}" or source["fileObject"]["@id"] not in objects:
                said.append(f"{field['@id']} without its source")
            if field["dataType"] not in ("sc:Text", "sc:Integer", "sc:Float"):
                said.append(f"{field['@id']} of an unknown type")
    return said


def test_croissant_against_its_rules() -> None:
    """P42: every file with size and digest; a column that a record set names is in its file."""
    document = json.loads(croissant())
    assert faults(document) == []
    assert {f["@id"]: (f["sha256"], f["contentSize"]) for f in document["distribution"]} == {
        name: (digest_bytes(data), f"{len(data)} B") for name, data in FILES.items()
    }
    for record in document["recordSet"]:
        file = record["field"][0]["source"]["fileObject"]["@id"]
        columns = pl.read_parquet(io.BytesIO(FILES[file])).columns
        assert {f["source"]["extract"]["column"] for f in record["field"]} <= set(columns)
    said = tuple(document[name] for name in ("version", "datePublished", "identifier"))
    assert said == ("2.0.0", "2026-03-01", "sha256:ab")
    assert croissant() == croissant()


def test_croissant_says_nothing_that_the_design_does_not() -> None:
    """P42: no licence is made up, no maker named."""
    document = json.loads(croissant(Publication()))
    assert set(faults(document)) == {"no license", "no url", "no creator"}
    assert set(FORMATS) >= {name.rpartition(".")[2] for name in FILES}


READ = """
import json, logging, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import ranx, mlcroissant
folder = Path(sys.argv[1])
qrels = ranx.Qrels.from_file(str(folder / "qrels.txt"), kind="trec").to_dict()
said = []
keep = type("Keep", (logging.Handler,), {"emit": lambda self, record: said.append(record.getMessage())})
logging.getLogger("absl").addHandler(keep())
dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
text = lambda v: v.decode() if isinstance(v, bytes) else v
records = {
    name: [{k.partition("/")[2]: text(v) for k, v in row.items()} for row in dataset.records(name)]
    for name in ("key", "measures")
}
print(json.dumps({"qrels": {q: {c: int(g) for c, g in e.items()} for q, e in qrels.items()},
    "records": records, "said": said, "issues": dataset.metadata.ctx.issues.report()}, default=float))
"""


@pytest.mark.full
def test_qrels_and_croissant_against_ranx_and_mlcroissant(tmp_path: Path) -> None:
    """P42: in the peers' environment, which is made on first use."""
    sys.path.insert(0, str(TOP / "benchmarks"))
    from run import peers  # type: ignore[import-not-found]

    for name, data in {**FILES, "croissant.json": croissant()}.items():
        (tmp_path / name).write_bytes(data)
    ran = subprocess.run([peers(), "-c", READ, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    read = json.loads(ran.stdout.splitlines()[-1])
    expected: dict[str, dict[str, int]] = {}
    for (query, chunk), grade in {**GRADES, ("q2", "zz"): -1}.items():
        expected.setdefault(query, {})[chunk] = grade
    assert read["qrels"] == expected
    assert read["issues"] == "" and not [line for line in read["said"] if "WARNING" in line.upper()]
    assert {(r["query_id"], r["chunk_id"]): r["grade"] for r in read["records"]["key"]} == GRADES
    assert [r["value"] for r in read["records"]["measures"]] == MEASURES["value"].to_list()
