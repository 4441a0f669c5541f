"""Damaged files at every door: each is taken, or refused in four parts. No traceback, and no hang.

A seeded share here; `make fuzz N=20000` tries N inputs over all doors, with other ones for each SEED.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import whole
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning
from mutations import damaged, wrong_json, wrong_lines

from testigo.campaign import load
from testigo.corpus import build
from testigo.errors import CampaignError, DataError, ModelError, TestigoError
from testigo.tasks import task_for

if TYPE_CHECKING:
    from tiny import Tiny
    from whole import Finished

SHARES = {
    "campaign": 0.25, "rows-jsonl": 0.12, "rows-csv": 0.08, "rows-parquet": 0.12, "trainer-state": 0.06,
    "steps-csv": 0.06, "steps-jsonl": 0.06, "event-files": 0.06, "checkpoint": 0.07, "dossier": 0.02, "ledger": 0.06,
    "base": 0.04,
}  # fmt: skip
N_INPUTS = int(os.environ.get("TESTIGO_FUZZ_N", "300"))
SEED = os.environ.get("TESTIGO_FUZZ_SEED")
HANGS_AFTER_SECONDS = 60


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    """A test that waits longer than any honest file takes is told where it waits."""

    def hangs(*_: object) -> None:
        raise AssertionError(f"no end after {HANGS_AFTER_SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def knock(door: str, inputs: st.SearchStrategy[Any], enter: Callable[[Any], None]) -> None:
    """Bring a door's share of damaged inputs to it."""

    @settings(
        max_examples=math.ceil(SHARES[door] * N_INPUTS), database=None, deadline=None, derandomize=SEED is None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(inputs)
    def brought(damaged_input: Any) -> None:
        with no_hang():
            enter(damaged_input)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)  # that a failing input is long
        (seed(int(SEED))(brought) if SEED else brought)()


def refused_in_four_parts(error: TestigoError) -> None:
    for problem in error.problems:
        assert all((problem.expected, problem.found, problem.where, problem.action)), problem


def told(*command: str) -> None:
    """A command answers with one JSON document and no traceback."""
    answer = whole.testigo(*command, "--json")
    assert answer.code in (0, 1, 2), answer.err
    assert "Traceback" not in answer.err
    json.loads(answer.out)


def test_campaign_files(tiny: Tiny, tmp_path: Path) -> None:
    tiny.campaign()
    for name in ("campaign.yaml", "orders.jsonl"):
        shutil.copy(tiny.folder / name, tmp_path / name)
    (tmp_path / "llama").symlink_to(tiny.folder / "llama")
    path = tmp_path / "campaign.yaml"
    sound = path.read_bytes()

    def enter(content: bytes) -> None:
        path.write_bytes(content)
        try:
            load(path)
        except CampaignError as error:
            refused_in_four_parts(error)

    as_json = json.loads(json.dumps(tiny.campaign().to_json()))
    knock("campaign", damaged(sound) | wrong_json(as_json), enter)


def rows_entered(tiny: Tiny, folder: Path, ending: str) -> Callable[[bytes], None]:
    """Rows are read, cleaned, checked, split and written."""
    shutil.copy(tiny.folder / "orders.jsonl", folder / f"orders{ending}")
    (folder / "llama").symlink_to(tiny.folder / "llama")
    tiny.campaign({"data.source": "orders.jsonl"})
    text = (tiny.folder / "campaign.yaml").read_text()
    (folder / "campaign.yaml").write_text(text.replace("orders.jsonl", f"orders{ending}"))
    campaign = load(folder / "campaign.yaml")
    task = task_for(campaign)

    def enter(content: bytes) -> None:
        (folder / f"orders{ending}").write_bytes(content)
        shutil.rmtree(folder / "corpus", ignore_errors=True)
        try:
            build(campaign, lambda _: folder / "corpus", lambda row: task.problems(row.fields))
        except DataError as error:
            refused_in_four_parts(error)

    return enter


def test_rows_in_json_lines(tiny: Tiny, tmp_path: Path) -> None:
    import tiny as support

    knock("rows-jsonl", wrong_lines(support.rows(30)), rows_entered(tiny, tmp_path, ".jsonl"))


def test_rows_in_csv(tiny: Tiny, tmp_path: Path) -> None:
    import tiny as support

    knock("rows-csv", damaged(as_csv(support.rows(30))), rows_entered(tiny, tmp_path, ".csv"))


def test_rows_in_parquet(tiny: Tiny, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import tiny as support

    def written(table: pa.Table, **options: Any) -> bytes:
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        return sink.getvalue()

    table = pa.Table.from_pylist(support.rows(30))
    nested = table.append_column("more", pa.array([[{"a": k, "b": None}] for k in range(30)]))
    files = [written(table), written(table, compression="none", use_dictionary=False), written(nested)]
    enter = rows_entered(tiny, tmp_path, ".parquet")
    knock("rows-parquet", st.one_of(*map(damaged, files)), enter)


def as_csv(lines: list[dict[str, Any]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue().encode()


STEPS: list[dict[str, Any]] = [
    {"step": 10 * k, "loss": 3 / k, "learning_rate": 1e-4, "grad_norm": 1.0 + k % 3, "epoch": k / 9, "wall_time": k}
    for k in range(1, 30)
]  # fmt: skip
OWN_STEPS = [
    {"update": k, "loss": 3 / k, "learning_rate": 1e-4, "gradient_norm": 1.0, "supervised_tokens": 40, "tokens": 80,
     "seconds": 0.5, "rows": ["a", "b"], "row_losses": {"a": 1.0, "b": 2.0}, "skipped": False, "epoch": k / 9}
    for k in range(1, 20)
] + [{"update": 20, "validation_loss": 1.0, "validation_tokens": 100, "seconds": 1.0}]  # fmt: skip


def steps_entered(path: Path) -> Callable[[bytes], None]:
    path.parent.mkdir(exist_ok=True)

    def enter(content: bytes) -> None:
        path.write_bytes(content)
        told("diagnose", str(path))

    return enter


def test_states_of_a_trainer(tmp_path: Path) -> None:
    evaluations = [
        {"step": 100, "eval_loss": 1.0},
        {"step": 290, "eval_loss": 0.9},
        {"step": 290, "train_runtime": 9.0},
    ]
    state = {"global_step": 290, "max_steps": 290, "log_history": [*STEPS, *evaluations]}
    knock("trainer-state", wrong_json(state), steps_entered(tmp_path / "trainer_state.json"))


def test_steps_in_csv(tmp_path: Path) -> None:
    knock("steps-csv", damaged(as_csv(STEPS)), steps_entered(tmp_path / "steps.csv"))


def test_steps_in_json_lines(tmp_path: Path) -> None:
    knock("steps-jsonl", wrong_lines(STEPS) | wrong_lines(OWN_STEPS), steps_entered(tmp_path / "steps.jsonl"))


def test_event_files_of_tensorboard(tmp_path: Path) -> None:
    from tensorboard.summary import Writer

    writer = Writer(str(tmp_path / "tensorboard"))
    for step in STEPS:
        writer.add_scalar("train/loss", step["loss"], step["step"])
    writer.close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    knock("event-files", damaged(path.read_bytes()), steps_entered(path))


def test_checkpoints(tiny: Tiny, tmp_path: Path) -> None:
    from testigo.disk import file_sha256
    from testigo.training.soundness import newest_sound

    session = tiny.session(tmp_path)
    session.step(1)
    session.save()
    (folder,) = session.checkpoints.iterdir()
    sound = {path.name: path.read_bytes() for path in folder.iterdir()}
    header = {name: content[: 8 + int.from_bytes(content[:8], "little")] for name, content in sound.items()}
    inputs = st.one_of(
        *(wrong_json(json.loads(sound[name])).map(lambda c, n=name: (n, c)) for name in ("state.json", "sums.json")),
        *(
            damaged(header[name]).map(lambda c, n=name: (n, c + sound[n][len(header[n]) :]))
            for name in ("weights.safetensors", "optimizer.safetensors")
        ),
    )

    def enter(damaged_file: tuple[str, bytes]) -> None:
        name, content = damaged_file
        for known, whole_content in sound.items():
            (folder / known).write_bytes(whole_content)
        (folder / name).write_bytes(content)
        if name != "sums.json":  # damaged before it was summed, or by somebody who sums too
            sums = {known: file_sha256(folder / known) for known in sound if known != "sums.json"}
            (folder / "sums.json").write_text(json.dumps(sums))
        found, passed_over = newest_sound(session.checkpoints)
        assert found is not None or passed_over[0].why
        try:
            session.resume(2)
        except TestigoError as error:
            refused_in_four_parts(error)
        aside = session.checkpoints / f"{folder.name}.passed-over"
        if aside.exists():
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)

    knock("checkpoint", inputs, enter)


def test_dossiers(finished: Finished, tmp_path: Path) -> None:
    folder = tmp_path / "dossier"
    shutil.copytree(finished.shared / "afterwards" / "tiny.testigo" / "dossier", folder)
    sound = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    documents = [name for name in sound if name.endswith((".json", ".jsonl")) or name == "SHA256SUMS"]

    def of(name: str) -> st.SearchStrategy[tuple[str, bytes]]:
        made = damaged(sound[name])
        if name.endswith(".json"):
            made |= wrong_json(json.loads(sound[name]))
        return made.map(lambda content: (name, content))

    def enter(damaged_file: tuple[str, bytes]) -> None:
        name, content = damaged_file
        (folder / name).write_bytes(content)
        told("verify", str(folder), "--no-control")
        (folder / name).write_bytes(sound[name])

    knock("dossier", st.one_of(of("dossier.json"), *map(of, documents)), enter)


def test_exported_ledgers(finished: Finished, tmp_path: Path) -> None:
    sound = (finished.shared / "events.jsonl").read_bytes()
    lines = [json.loads(line) for line in sound.splitlines()]
    path = tmp_path / "events.jsonl"

    def enter(content: bytes) -> None:
        path.write_bytes(content)
        told("ledger", "verify", str(path))

    knock("ledger", damaged(sound) | wrong_lines(lines), enter)


def test_configurations_and_tokenizers_of_a_base(tiny: Tiny, tmp_path: Path) -> None:
    from testigo.model.base import locate
    from testigo.model.load import load_config, load_tokenizer

    folder = tmp_path / "llama"
    shutil.copytree(tiny.folder / "llama", folder)
    names = ("config.json", "tokenizer_config.json", "tokenizer.json")
    sound = {name: (folder / name).read_bytes() for name in names}

    def enter(damaged_file: tuple[str, bytes]) -> None:
        name, content = damaged_file
        (folder / name).write_bytes(content)
        try:
            base = locate("path:llama", relative_to=tmp_path)
            load_config(base)
            load_tokenizer(base)
        except ModelError as error:
            refused_in_four_parts(error)
        finally:
            (folder / name).write_bytes(sound[name])

    knock("base", st.one_of(*(wrong_json(json.loads(c)).map(lambda b, n=n: (n, b)) for n, c in sound.items())), enter)
