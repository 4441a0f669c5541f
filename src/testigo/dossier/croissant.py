"""croissant.json: the rows and the outputs as MLCommons Croissant 1.0 describes data sets.

Croissant names each file with its digest and each field with its column, so that any of its readers can load the
outputs of this dossier, and the rows where their files lie beside it. It is drawn from the record alone.

Source: Croissant format specification 1.0, https://docs.mlcommons.org/croissant/docs/croissant-spec.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from testigo.dossier.record import PredictionFile, Record, Source

NAME = "croissant.json"
_SPECIFICATION = "http://mlcommons.org/croissant/1.0"

# The context that the specification gives in its appendix 1.
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{
        name: f"cr:{name}"
        for name in (
            "citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet",
            "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet",
            "references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField",
            "transform",
        )
    },
}  # fmt: skip
_FORMATS = {".jsonl": "application/jsonlines", ".csv": "text/csv", ".parquet": "application/x-parquet"}


def croissant(record: Record) -> str:
    """The metadata as JSON-LD text; the same record gives the same text."""
    sources = record.data.sources if record.data else ()
    rows = [source for source in sources if _suffix(source) in _FORMATS and source.sha256]
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _SPECIFICATION,
        "name": record.plan.name,
        "description": f"Rows and scored outputs of a fine-tuning campaign that asked: {record.plan.question}",
        "version": "1.0.0",
        "datePublished": record.ledger.last_time or record.ledger.first_time,
        "url": f"urn:testigo:campaign:{record.plan.identity}",
        **({"identifier": record.data.fingerprint} if record.data else {}),
        "distribution": [
            *(_file(source.file, source.sha256, _FORMATS[_suffix(source)]) for source in rows),
            *(_file(item.file, item.sha256, "application/jsonlines") for item in record.predictions),
            *(_file(one.file, one.sha256, _encoding(one.file)) for one in record.beside_files),
        ],
        "recordSet": [
            *(_rows_of(record, source, i) for i, source in enumerate(rows)),
            *(_outputs_of(record, item, i) for i, item in enumerate(record.predictions)),
        ],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _encoding(file: str) -> str:
    return "application/jsonlines" if file.endswith(".jsonl") else "application/json"


def _suffix(source: Source) -> str:
    return PurePosixPath(source.file).suffix.lower()


def _file(name: str, sha256: str, encoding: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": encoding,
        "sha256": sha256,
    }


def _rows_of(record: Record, source: Source, number: int) -> dict[str, Any]:
    """The fields that the campaign reads from a file of rows, as far as they are text in every row."""
    task, data = (record.plan.settings.get(name) or {} for name in ("task", "data"))
    named = (
        ("id", data.get("id"), "what names the row"),
        ("group", data.get("group"), "rows with one value never straddle a split"),
        ("category", task.get("category"), "results are also told per value of it"),
        ("input", task.get("input"), "what the model is given"),
        ("target", task.get("target"), "what it is to write"),
    )
    fields = [(role, str(column), what) for role, column, what in named if isinstance(column, str) and column]
    plain = [field for field in fields if field[0] not in ("input", "target") or field[0] in _texts(record.plan.task)]
    others = "; ".join(f"{column}: {what}" for role, column, what in fields if (role, column, what) not in plain)
    name = f"rows-{number + 1}"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"The rows of {source.file} as they were given, before cleaning and splitting"
        + (f"; not described as text: {others}" if others else ""),
        "field": list(_fields(name, source.file, plain)),
    }


def _texts(task: str) -> tuple[str, ...]:
    """Which of input and target are plain text; objects, messages and pictures have no type in Croissant 1.0."""
    return {"generation": ("input", "target"), "classification": ("input", "target"), "extraction": ("input",)}.get(
        task, ()
    )


def _outputs_of(record: Record, item: PredictionFile, number: int) -> dict[str, Any]:
    of = "the unadapted model" if item.of == "baseline" else f"run {item.of}"
    name = f"outputs-{number + 1}"
    fields = [
        ("row", "row", "the row's id"),
        ("category", "category", "the row's category"),
        ("output", "output", "what the model wrote"),
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"What {of} wrote for each row of the {item.split} split",
        "field": list(_fields(name, item.file, fields)),
    }


def _fields(record_set: str, file: str, named: Iterable[tuple[str, str, str]]) -> Iterable[dict[str, Any]]:
    for role, column, what in named:
        yield {
            "@type": "cr:Field",
            "@id": f"{record_set}/{role}",
            "name": role,
            "description": what,
            "dataType": "sc:Text",
            "source": {"fileObject": {"@id": file}, "extract": {"column": column}},
        }
