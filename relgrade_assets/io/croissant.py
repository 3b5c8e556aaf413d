"""croissant.json: what is published, as ML Croissant 1.0 metadata (P42): every file with its digest, key and measures
as record sets.

The record sets read the Parquet files, in which ids are text; a reader of JSON Lines or CSV may take the id `007` for
the number 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from relgrade_assets.protocol.canonical import digest_bytes
from relgrade_assets.protocol.publication import Publication

NAME = "croissant.json"
CONFORMS = "http://mlcommons.org/croissant/1.0"
CONTEXT: dict[str, object] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The names that Croissant 1.0 asks every file to declare."""
FORMATS = {
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "jsonl": "application/jsonlines",
    "parquet": "application/x-parquet",
    "txt": "text/plain",
}
RECORDS: dict[str, tuple[str, dict[str, str]]] = {
    "key": ("key.parquet", {"query_id": "sc:Text", "chunk_id": "sc:Text", "grade": "sc:Integer"}),
    "measures": (
        "measures.parquet",
        {"arm": "sc:Text", "measure": "sc:Text", "scope": "sc:Text", "value": "sc:Float"},
    ),
}
"""Record set -> the file that it is read from, and its columns."""


def croissant_json(
    files: Mapping[str, bytes],
    about: Publication,
    *,
    name: str,
    title: str,
    round: int,
    key_digest: str,
    frozen: str,
) -> bytes:
    """The metadata of `files` (name -> bytes). `frozen` is the time of the freeze, ISO 8601."""
    content: dict[str, object] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "description": f"{title}. Answer key of retrieval evaluation: grades of pooled chunks, frozen before anything "
        "was measured, with the measures. manifest.json says how it was made, status.json whether it still holds.",
        "conformsTo": CONFORMS,
        "datePublished": frozen[:10],
        "version": f"{round}.0.0",
        "identifier": f"sha256:{key_digest}",
        **({"license": about.license} if about.license else {}),
        **({"url": about.url} if about.url else {}),
        **({"citeAs": about.cite_as} if about.cite_as else {}),
        **({"creator": [{"@type": "sc:Organization", "name": n} for n in about.creators]} if about.creators else {}),
        "distribution": [_file(file, data) for file, data in sorted(files.items())],
        "recordSet": [_records(*record) for record in RECORDS.items() if record[1][0] in files],
    }
    return _json(content)


def with_files(data: bytes, files: Mapping[str, bytes]) -> bytes:
    """Metadata that was made, with size and digest of the files in `files` as they are now. Raises ValueError or
    KeyError where it is none.
    """
    content = json.loads(data)
    listed = content["distribution"]
    content["distribution"] = [_file(f["name"], files[f["name"]]) if f["name"] in files else f for f in listed]
    return _json(content)


def _json(content: dict[str, object]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def _file(name: str, data: bytes) -> dict[str, object]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{len(data)} B",
        "encodingFormat": FORMATS[name.rpartition(".")[2]],
        "sha256": digest_bytes(data),
    }


def _records(name: str, source: tuple[str, dict[str, str]]) -> dict[str, object]:
    file, columns = source
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{column}",
            "name": column,
            "dataType": kind,
            "source": {"fileObject": {"@id": file}, "extract": {"column": column}},
        }
        for column, kind in columns.items()
    ]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}
