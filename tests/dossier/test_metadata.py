"""RO-Crate and Croissant: read and judged by the libraries of those who wrote the formats."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlcroissant
import pytest
from rocrate.rocrate import ROCrate

from testigo.dossier import read_record, verify_dossier
from testigo.dossier.crate import crate
from testigo.dossier.croissant import croissant

# Within mlcroissant, rdflib calls its own older classes.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib", "ignore::DeprecationWarning:mlcroissant")


def test_the_crate_is_read_and_every_file_that_it_names_is_there(dossier: Path) -> None:
    found = ROCrate(str(dossier))
    files = {entity.id for entity in found.get_entities() if entity.type == "File"}
    assert files == {name for name in files if (dossier / name).is_file()}
    here = {path.relative_to(dossier).as_posix() for path in dossier.rglob("*") if path.is_file()}
    unnamed = {name for name in here - files if not name.endswith((".meta.json", "testigo.json"))}
    assert {name for name in unnamed if not name.startswith("evidence/")} == {"ro-crate-metadata.json"}
    assert "evidence/" in {entity.id for entity in found.get_entities() if entity.type == "Dataset"}
    assert found.root_dataset["license"]
    record = read_record(dossier)
    assert {action.id for action in found.root_dataset["mentions"]} == {f"#run-{run.id}" for run in record.runs}
    diverged = next(run for run in record.runs if run.state == "diverged")
    assert "FailedActionStatus" in str(found.dereference(f"#run-{diverged.id}")["actionStatus"])


def test_croissant_finds_no_fault_and_loads_the_outputs_and_the_rows(dossier: Path, told: Any) -> None:
    shutil.copy(told.campaign.path.with_name("orders.jsonl"), dossier)
    loaded = mlcroissant.Dataset(jsonld=dossier / "croissant.json")
    assert not loaded.metadata.issues.errors
    record = read_record(dossier)
    outputs = list(loaded.records("outputs-1"))
    assert len(outputs) == record.n_baseline
    assert set(outputs[0]) == {"outputs-1/row", "outputs-1/category", "outputs-1/output"}
    rows = list(loaded.records("rows-1"))
    assert record.data is not None
    assert len(rows) == record.data.sources[0].rows
    assert rows[0]["rows-1/input"].decode().startswith("We need")


def test_croissant_notices_an_output_that_was_changed(dossier: Path) -> None:
    path = dossier / read_record(dossier).predictions[0].file
    path.write_text(path.read_text(encoding="utf-8").replace("product", "produkt", 1), encoding="utf-8")
    loaded = mlcroissant.Dataset(jsonld=dossier / "croissant.json")
    with pytest.raises(mlcroissant.GenerationError, match=r"baseline/validation\.jsonl") as caught:
        list(loaded.records("outputs-1"))
    assert "hash" in str(caught.value.__cause__).lower()


def test_metadata_that_says_something_else_is_named(dossier: Path) -> None:
    for name in ("croissant.json", "ro-crate-metadata.json"):
        path = dossier / name
        path.write_text(path.read_text(encoding="utf-8").replace("orders", "others"), encoding="utf-8")
    faults = verify_dossier(dossier).faults
    for name in ("croissant.json", "ro-crate-metadata.json"):
        assert f"{name}: does not say what dossier.json says" in faults


def test_without_rows_and_runs_there_is_metadata_too(new_story: Any) -> None:
    folder = new_story().write()
    assert not mlcroissant.Dataset(jsonld=folder / "croissant.json").metadata.issues.errors
    assert ROCrate(str(folder)).root_dataset["name"] == "Dossier of the campaign orders"


def test_metadata_is_in_english_whatever_the_language(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    french = replace(record, plan=replace(record.plan, language="fr"))
    assert (crate(french), croissant(french)) == (crate(record), croissant(record))
    json.loads(crate(record))
