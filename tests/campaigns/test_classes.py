"""Whole campaigns before a class head, and a run of one that is killed and goes on bit for bit."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiny import Tiny

AUGMENTED = {"training.augment": {"flip": 0.5, "shift": 0.1, "rotate": 5, "brightness": 0.1}}


def test_a_campaign_of_images_goes_from_its_file_to_an_export_that_a_fresh_process_reproduces(tmp_path: Path) -> None:
    import classes
    import whole

    folder = tmp_path / "shapes"
    classes.images(folder).campaign({"model.adapter": {"method": "full"}, **AUGMENTED})
    place = whole.Place(folder)
    checked = place.testigo("check", "--json")
    assert checked.code == 0, checked.err
    ran = place.testigo("run", "--json", "--yes")
    assert ran.code == 0, ran.err
    assert "the base's head is new" in ran.err
    (meta,) = place.workspace.glob("baseline/*/predictions/validation.meta.json")
    assert json.loads(meta.read_text())["head"] == "new, as seed 0 draws it"
    (lines,) = place.workspace.glob("runs/*/predictions/validation.jsonl")
    predictions = [json.loads(line) for line in lines.read_text().splitlines()]
    assert {line["target"] for line in predictions} == set(classes.SHAPES)
    assert all(line["output"] in classes.SHAPES and line["stop"] == "class" for line in predictions)
    exported = place.workspace / "dossier" / "adapter"
    assert json.loads((exported / "testigo.json").read_text())["head"]["labels"] == list(classes.SHAPES)
    assert (exported / "preprocessor_config.json").exists()
    verified = whole.testigo("verify", str(exported.parent), "--json")
    assert verified.document["ok"], verified.document


def test_a_run_on_varied_images_that_is_killed_goes_on_bit_for_bit(images: Tiny, tmp_path: Path) -> None:  # C31
    from tiny import in_process, updates

    from testigo.model.digest import weights_sha256

    changes = {
        "training.updates": 40,
        "training.validate_every": 20,
        "training.checkpoint": {"every": 4, "keep": 2},
        "model.adapter": {"method": "lora", "rank": 4, "alpha": 8, "dropout": 0.1},
        **AUGMENTED,
    }
    straight = images.session(tmp_path / "straight", changes)
    assert straight.run().state == "completed"
    killed = images.spec(changes).write(tmp_path / "killed")
    worker = in_process("testigo.training.worker", str(killed))
    while worker.poll() is None and len(updates(killed.parent)) < 7:
        time.sleep(0.002)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    again = in_process("testigo.training.worker", str(killed))
    again.communicate()
    result = json.loads((killed.parent / "result.json").read_text())
    assert (result["state"], result["updates"]) == ("completed", 40)
    assert result["final_weights_sha256"] == weights_sha256(straight.parameters)
    for what in ("rows", "loss", "gradient_norm"):
        assert [line[what] for line in updates(straight.folder)] == [line[what] for line in updates(killed.parent)]
