"""ro-crate-metadata.json: what each file of the dossier is, as RO-Crate 1.1 describes research objects.

It is drawn from the record alone; the digests of all files are in SHA256SUMS.

Source: RO-Crate Metadata Specification 1.1, https://w3id.org/ro/crate/1.1
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from testigo.dossier import conclusion, croissant, evidence, sums
from testigo.dossier.language import speaking
from testigo.dossier.record import Record

NAME = "ro-crate-metadata.json"
_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_TESTIGO = "#testigo"
_BESIDE = {
    "twice": "Outputs of the unadapted model, asked a second time",
    "prompted": "Outputs of the unadapted model with examples in its prompt",
    "guard": "Outputs on a guard task, row by row",
    "general": "Losses of general text, passage by passage",
}


def crate(record: Record) -> str:
    """The metadata as JSON-LD text, in English; the same record gives the same text."""
    with speaking("en"):
        parts = list(_parts(record))
        graph = [
            {
                "@id": NAME,
                "@type": "CreativeWork",
                "about": {"@id": "./"},
                "conformsTo": {"@id": _SPECIFICATION},
            },
            _root(record, [str(part["@id"]) for part in parts]),
            *parts,
            {
                "@id": _TESTIGO,
                "@type": "SoftwareApplication",
                "name": "Testigo",
                "version": record.testigo_version,
                "softwareVersion": record.testigo_version,
            },
            *_actions(record, [str(part["@id"]) for part in parts]),
        ]
    return json.dumps({"@context": f"{_SPECIFICATION}/context", "@graph": graph}, ensure_ascii=False, indent=1) + "\n"


def _root(record: Record, names: list[str]) -> dict[str, Any]:
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Dossier of the campaign {record.plan.name}",
        "description": f"{record.plan.question} {conclusion.sentence(record)}",
        "datePublished": record.ledger.last_time or record.ledger.first_time,
        "license": "not stated: it is that of the rows and of the base model",
        "identifier": record.plan.identity,
        "hasPart": [{"@id": name} for name in names],
        "mentions": [{"@id": f"#run-{run.id}"} for run in record.runs],
    }


def _parts(record: Record) -> Iterable[dict[str, Any]]:
    yield _file("index.html", "The report", "text/html")
    yield _file("dossier.json", "The same facts for machines", "application/json")
    yield _file("dossier.schema.json", "JSON Schema of dossier.json", "application/schema+json")
    yield _file("MODEL_CARD.md", "Model card", "text/markdown")
    yield _file(croissant.NAME, "The rows and outputs, described in Croissant", "application/ld+json")
    if record.plan.text:
        yield _file("campaign.yaml", "The campaign file", "application/yaml")
    yield _file("events.jsonl", "The ledger, each event chained to the one before", "application/jsonlines")
    yield _file(sums.NAME, "SHA-256 of every file", "text/plain")
    if record.data or record.gates or record.runs:
        what = "What the report was drawn from: the corpus's manifest, the pilot, each run's steps and result"
        yield {"@id": f"{evidence.FOLDER}/", "@type": "Dataset", "name": what}
    for item in record.predictions:
        of = "the unadapted model" if item.of == "baseline" else f"run {item.of}"
        yield _file(item.file, f"Outputs of {of} on {item.split}, row by row", "application/jsonlines")
    for extra in record.beside_files:
        kind = "application/jsonlines" if extra.file.endswith(".jsonl") else "application/json"
        yield _file(extra.file, _BESIDE[extra.what], kind)
    for name in record.adapter.files if record.adapter else ():
        yield _file(f"adapter/{name}", "Part of the trained adapter", "application/octet-stream")


def _file(name: str, what: str, encoding: str) -> dict[str, Any]:
    return {"@id": name, "@type": "File", "name": what, "encodingFormat": encoding}


def _actions(record: Record, names: list[str]) -> Iterable[dict[str, Any]]:
    """Each run as an action: what it used, what it made, how it ended."""
    for run in record.runs:
        made = [name for name in names if name.startswith(f"predictions/runs/{run.id}/")]
        ended_well = run.state in ("completed", "stopped-early")
        yield {
            "@id": f"#run-{run.id}",
            "@type": "CreateAction",
            "name": f"{run.variant}, seed {run.seed}",
            "description": run.state + (f": {run.cause}" if run.cause else ""),
            "instrument": {"@id": _TESTIGO},
            "actionStatus": {"@id": f"http://schema.org/{'Completed' if ended_well else 'Failed'}ActionStatus"},
            **({"object": {"@id": "campaign.yaml"}} if record.plan.text else {}),
            **({"result": [{"@id": name} for name in made]} if made else {}),
        }
