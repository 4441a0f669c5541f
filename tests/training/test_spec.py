"""A run is what its spec says, and nothing else goes on in its folder."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testigo.errors import ModelError, ResumeRefused, WorkspaceError
from testigo.training import worker
from testigo.training.spec import RunSpec

if TYPE_CHECKING:
    from tiny import Tiny


def test_a_spec_comes_back_as_it_was(tiny: Tiny, tmp_path: Path) -> None:
    spec = tiny.spec(rows=("r01", "r02"))
    assert RunSpec.read(spec.write(tmp_path / "run")) == spec
    assert spec.settings().canonical() == tiny.campaign().canonical()


@pytest.mark.parametrize(
    "changes",
    [
        {"training.microbatch": 4},
        {"training.learning_rate": 0.02},
        {"training.updates": 7},
        {"model.precision": "bf16"},
    ],
)
def test_a_changed_run_is_refused_in_the_folder_of_another(
    tiny: Tiny, tmp_path: Path, changes: dict[str, Any]
) -> None:  # C34
    first = tiny.spec()
    first.write(tmp_path)
    with pytest.raises(ResumeRefused, match="new variant"):
        tiny.spec(changes).write(tmp_path)
    with pytest.raises(ResumeRefused):
        tiny.spec(seed=1).write(tmp_path)
    assert RunSpec.read(tmp_path / "spec.json") == first
    first.write(tmp_path)


@pytest.mark.parametrize("key", ["microbatch", "learning_rate", "accumulation", "updates"])
def test_a_spec_that_was_edited_is_refused_before_anything_is_loaded(
    tiny: Tiny, tmp_path: Path, key: str
) -> None:  # C34
    path = tiny.spec().write(tmp_path)
    values = json.loads(path.read_text())
    values["campaign"]["training"][key] = 1
    path.write_text(json.dumps(values))
    with pytest.raises(ResumeRefused, match="specs are not edited"):
        worker.run(path, stop=threading.Event())
    assert not (tmp_path / "steps.jsonl").exists()


def test_another_seed_or_base_in_the_spec_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    for number, changed in enumerate((replace(tiny.spec(), seed=5), replace(tiny.spec(), base_digest="0" * 64))):
        path = changed.write(tmp_path / str(number))
        with pytest.raises((ResumeRefused, ModelError)):
            worker.run(path, stop=threading.Event())


def test_a_spec_that_is_none_is_an_error_in_words(tmp_path: Path) -> None:
    for text in ("{", "{}", "[]"):
        (tmp_path / "spec.json").write_text(text)
        with pytest.raises(WorkspaceError, match=r"a run's spec\.json"):
            RunSpec.read(tmp_path / "spec.json")
    with pytest.raises(WorkspaceError):
        RunSpec.read(tmp_path / "nowhere.json")


def test_the_same_settings_have_the_same_name_wherever_they_lie(tiny: Tiny) -> None:
    spec = tiny.spec()
    assert spec.run_id == tiny.spec().run_id
    assert spec.run_id != tiny.spec(seed=1).run_id
    assert str(tiny.folder) not in spec.run_id
    assert asdict(spec)["campaign"]["campaign"] == "tiny"
