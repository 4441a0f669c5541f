"""Checkpoints: whole or not there, plausible or passed over, kept as long as they are needed."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import updates

from testigo.disk import file_sha256, read_lines
from testigo.errors import ModelError, WorkspaceError
from testigo.model.digest import weights_sha256
from testigo.training import checkpoint
from testigo.training.loop import Session
from testigo.training.soundness import newest_sound

if TYPE_CHECKING:
    from tiny import Tiny

OFTEN = {"training.checkpoint": {"every": 2, "keep": 3}, "model.adapter.dropout": 0.1}


@pytest.fixture(scope="module")
def straight(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of six updates with three checkpoints, and the digest of its weights at the end."""
    folder = tmp_path_factory.mktemp("straight")
    run = tiny.session(folder, OFTEN)
    run.run()
    return folder, weights_sha256(run.parameters)


@pytest.fixture
def copy(straight: tuple[Path, str], tmp_path: Path) -> Path:
    return Path(shutil.copytree(straight[0], tmp_path / "run"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def truncate(folder: Path) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-7])


def flip(folder: Path) -> None:
    path = folder / "optimizer.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 4
    path.write_bytes(content)


def reseal(folder: Path) -> None:
    """The checksums fit again, as when the bad values were saved as such."""
    sums = json.loads((folder / "sums.json").read_text())
    (folder / "sums.json").write_text(json.dumps({name: file_sha256(folder / name) for name in sums}))


def moment(ending: str, value: float) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "optimizer.safetensors")
        name = next(name for name in tensors if name.endswith(ending))
        tensors[name].view(-1)[0] = value
        save_file(tensors, folder / "optimizer.safetensors")
        reseal(folder)

    return spoil


def renamed(file: str, name: str) -> Callable[[Path], None]:
    """One tensor under another name, as a foreign tool or another version of a library would write it."""

    def spoil(folder: Path) -> None:
        tensors = load_file(folder / file)
        save_file({name.format(key) if k == 0 else key: t for k, (key, t) in enumerate(tensors.items())}, folder / file)
        reseal(folder)

    return spoil


def state(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Another cursor, with fitting checksums."""

    def spoil(folder: Path) -> None:
        told = json.loads((folder / "state.json").read_text())
        change(told)
        (folder / "state.json").write_text(json.dumps(told))
        reseal(folder)

    return spoil


def written(name: str, content: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(content)
        reseal(folder)

    return spoil


def folder_instead(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    (folder / "weights.safetensors").mkdir()


PICKLE = b"\x80\x05c__main__\nTrainer\n."

DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (truncate, "weights.safetensors is not what its checksum says"),
    "one bit": (flip, "optimizer.safetensors is not what its checksum says"),
    "file missing": (lambda folder: (folder / "state.json").unlink(), "state.json is missing"),
    "sums missing": (lambda folder: (folder / "sums.json").unlink(), "sums.json"),
    "sums cut": (lambda folder: (folder / "sums.json").write_text('{"weights'), "sums.json is not readable"),
    "NaN moment": (moment("/exp_avg", float("nan")), "exp_avg is not finite"),
    "negative moment": (moment("/exp_avg_sq", -1e-9), "negative where it is a square"),
    "infinite moment": (moment("/exp_avg_sq", float("inf")), "exp_avg_sq is not finite"),
    "negative count": (moment("/step", -1.0), "negative where it is a square or a count"),
    "weights missing": (lambda folder: (folder / "weights.safetensors").unlink(), "weights.safetensors is missing"),
    "optimizer missing": (
        lambda folder: (folder / "optimizer.safetensors").unlink(),
        "optimizer.safetensors is missing",
    ),
    "folder for a file": (folder_instead, "Is a directory: weights.safetensors"),
    "empty weights": (written("weights.safetensors", b""), "it is no checkpoint: SafetensorError"),
    "a pickle": (written("optimizer.safetensors", PICKLE), "it is no checkpoint: SafetensorError"),
    "a long header": (written("weights.safetensors", b"\xff" * 16), "it is no checkpoint: SafetensorError"),
    "moment renamed": (renamed("optimizer.safetensors", "module.{}"), "lacks or adds 2 of the moments"),
    "no moments": (
        lambda folder: (save_file({}, folder / "optimizer.safetensors"), reseal(folder)),
        "lacks or adds 84",
    ),
    "state is a list": (written("state.json", b"[6]"), "it is no checkpoint: TypeError"),
    "state without end": (written("state.json", b"[" * 5000), "it is no checkpoint: RecursionError"),
    "state cut": (written("state.json", b'{"update": 6, "prog'), "it is no checkpoint: JSONDecodeError"),
    "no cursor": (state(lambda told: told.pop("progress")), "it is no checkpoint: KeyError: 'progress'"),
    "half a cursor": (state(lambda told: told["progress"].pop("examples")), "other fields than a run's progress has"),
    "foreign cursor": (state(lambda told: told["progress"].update(epoch=3)), "other fields than a run's progress has"),
    "another update": (state(lambda told: told.update(update=4)), "its state is of update 4, its name of 6"),
    "another cursor": (
        state(lambda told: told["progress"].update(update=5, best_update=3)),
        "its progress is of update 5",
    ),
    "cursor of words": (state(lambda told: told["progress"].update(examples="many")), "not made of counts"),
    "best to come": (state(lambda told: told["progress"].update(best_update=9)), "a best update 9 after 6 updates"),
    "another run's": (state(lambda told: told.update(run="control-s1-0000000000")), "belongs to the run control-s1-0"),
    "a scaler": (
        state(lambda told: told.update(scaler={"scale": 1.0})),
        "the scaler of the loss has 1 fields, 0 are known",
    ),
}


@pytest.mark.parametrize(("damage", "why"), DAMAGES.values(), ids=DAMAGES)
def test_a_bad_newest_checkpoint_is_passed_over_and_said(
    tiny: Tiny, straight: tuple[Path, str], copy: Path, damage: Callable[[Path], object], why: str
) -> None:  # C36, C37
    damage(copy / "checkpoints" / "000006")
    run = tiny.session(copy, OFTEN)
    passed = run.resume(2)
    assert [bad.name for bad in passed] == ["000006"]
    assert why in passed[0].why
    assert run.progress.update == 4
    found = read_lines(copy / "findings.jsonl")[-1]
    assert (found["code"], found["severity"]) == ("R108", "warn")
    assert why in found["observed"]
    assert run.run().state == "completed"
    assert weights_sha256(run.parameters) == straight[1]
    assert [line["update"] for line in updates(copy)] == [1, 2, 3, 4, 5, 6]
    assert names(copy) == ["000003", "000004", "000006", "000006.passed-over"]


def test_a_bad_newest_checkpoint_never_drives_out_the_good_ones(tiny: Tiny, copy: Path) -> None:
    truncate(copy / "checkpoints" / "000006")
    run = tiny.session(copy, {**OFTEN, "training.checkpoint": {"every": 1, "keep": 1}}, run_id=tiny.spec(OFTEN).run_id)
    run.resume(2)
    run.stop_requested = lambda: run.progress.update == 5
    run.run()
    found, _ = newest_sound(copy / "checkpoints")
    assert found is not None
    assert found.update == 5


def test_weights_that_are_not_finite_are_never_resumed(tiny: Tiny, copy: Path) -> None:
    path = copy / "checkpoints" / "000006" / "weights.safetensors"
    tensors = load_file(path)
    next(iter(tensors.values())).view(-1)[3] = float("inf")
    save_file(tensors, path)
    reseal(path.parent)
    passed = tiny.session(copy, OFTEN).resume(2)
    assert "not finite" in passed[0].why


def test_without_any_whole_checkpoint_the_run_begins_anew(tiny: Tiny, straight: tuple[Path, str], copy: Path) -> None:
    for name in names(copy):
        truncate(copy / "checkpoints" / name)
    run = tiny.session(copy, OFTEN)
    assert len(run.resume(2)) == 3
    assert run.progress.update == 0
    run.run()
    assert weights_sha256(run.parameters) == straight[1]
    assert [line["update"] for line in read_lines(copy / "steps.attempt-2.jsonl") if "loss" in line] == list(
        range(1, 7)
    )


def test_a_checkpoint_brings_back_every_bit(tiny: Tiny, straight: tuple[Path, str]) -> None:
    run = tiny.session(straight[0] / "elsewhere", OFTEN)
    kept = checkpoint.read(straight[0] / "checkpoints" / "000006")
    checkpoint.restore(kept, run.parameters, run.optimizer)
    assert weights_sha256(run.parameters) == straight[1]
    moments = checkpoint.optimizer_tensors(run.parameters, run.optimizer)
    assert moments.keys() == kept.optimizer.keys()
    assert len(moments) == 3 * len(run.parameters)
    assert all(torch.equal(moments[name], kept.optimizer[name]) for name in moments)


def test_other_names_are_refused_and_nothing_loads_as_zeros(tiny: Tiny, straight: tuple[Path, str]) -> None:
    run = tiny.session(straight[0] / "elsewhere", {**OFTEN, "model.adapter.targets": ["q_proj"]})
    kept = checkpoint.read(straight[0] / "checkpoints" / "000006")
    with pytest.raises(ModelError, match="unexpected"):
        checkpoint.restore(kept, run.parameters, run.optimizer)
    fewer = {name: t for name, t in kept.weights.items() if name in run.parameters}
    half = checkpoint.Checkpoint(6, fewer, kept.optimizer, kept.state)
    with pytest.raises(ModelError, match=r"moments.*\n.*unexpected"):
        checkpoint.restore(half, run.parameters, run.optimizer)


def saved(run: Session, update: int) -> None:
    run.progress.update = update
    run.save()


@pytest.mark.parametrize(
    ("keep", "best", "expected"),
    [(1, 2, [2, 9]), (2, None, [8, 9]), (3, 8, [7, 8, 9]), (3, 1, [1, 7, 8, 9])],
)
def test_the_last_and_the_best_are_always_kept(
    tiny: Tiny, tmp_path: Path, keep: int, best: int | None, expected: list[int]
) -> None:
    run = tiny.session(tmp_path, {"training.checkpoint": {"every": 1, "keep": keep}})
    for update in range(1, 10):
        if update == best:
            run.progress.best_update = best
        saved(run, update)
    assert [int(name) for name in names(tmp_path)] == expected


def test_checkpoints_are_in_the_order_of_their_numbers(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"training.checkpoint": {"every": 1, "keep": 1}})
    for update in (999_999, 1_000_000):
        saved(run, update)
    found, _ = newest_sound(run.checkpoints)
    assert found is not None
    assert found.update == 1_000_000
    assert names(tmp_path) == ["1000000"]


def test_what_a_killed_save_left_is_swept_away_and_never_resumed(tiny: Tiny, copy: Path) -> None:
    left = Path(shutil.copytree(copy / "checkpoints" / "000006", copy / "checkpoints" / ".000008.4711"))
    run = tiny.session(copy, OFTEN)
    assert run.resume(2) == ()
    assert run.progress.update == 6
    run.save()
    assert not left.exists()


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """What a full disk is to a process: a write that fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("n_bytes", [16, 4096])
def test_a_full_disk_is_an_error_in_words_and_keeps_the_last_good_checkpoint(
    tiny: Tiny, straight: tuple[Path, str], copy: Path, n_bytes: int
) -> None:
    shutil.rmtree(copy / "checkpoints" / "000006")
    run = tiny.session(copy, {**OFTEN, "training.checkpoint": {"every": 2, "keep": 1}}, run_id=tiny.spec(OFTEN).run_id)
    run.resume(2)
    with files_of_at_most(n_bytes), pytest.raises(WorkspaceError, match="room and permission for a checkpoint"):
        saved(run, 6)
    assert names(copy) == ["000003", "000004"]
    again = tiny.session(copy, OFTEN)
    assert again.resume(3) == ()
    again.run()
    assert weights_sha256(again.parameters) == straight[1]


def test_a_checkpoint_that_reads_back_otherwise_is_told_and_the_former_stays(
    tiny: Tiny, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny.session(copy, {**OFTEN, "training.checkpoint": {"every": 2, "keep": 1}}, run_id=tiny.spec(OFTEN).run_id)
    run.resume(2)
    to_the_disk = checkpoint._to_the_disk

    def to_a_bad_disk(path: Path) -> None:
        to_the_disk(path)
        if path.name == "optimizer.safetensors":
            flip(path.parent)

    monkeypatch.setattr(checkpoint, "_to_the_disk", to_a_bad_disk)
    with pytest.raises(WorkspaceError, match=r"optimizer\.safetensors is not what was written"):
        saved(run, 8)
    monkeypatch.undo()
    found, passed = newest_sound(copy / "checkpoints")
    assert found is not None
    assert found.update == 6
    assert passed == (), "it never got its name"
    assert names(copy) == ["000003", "000004", "000006"]


@pytest.mark.parametrize(
    ("every", "n_updates", "expected"),
    [("auto", 40, 50), ("auto", 499, 50), ("auto", 500, 100), ("auto", 2000, 100), ("auto", 2001, 200), (7, 9999, 7)],
)
def test_checkpoints_are_due_as_often_as_a_run_is_long(every: int | str, n_updates: int, expected: int) -> None:
    assert checkpoint.due_every(every, n_updates) == expected
