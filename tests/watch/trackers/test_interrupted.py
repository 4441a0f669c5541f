"""Each tracker's real client writes, is killed, goes on, and is read back by that client's own reader."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import played
import pytest
import tiny

from testigo.training.journal import Journal
from testigo.training.launchers.local import environment

CHECKPOINT, KILLED, LAST = 13, 22, 30
UPDATES = list(range(1, LAST + 1))
VALIDATIONS = list(range(5, LAST + 1, 5))
SECRET = "SECRET-SIGN-7"


@dataclass(frozen=True)
class Played:
    """What a run left at its trackers."""

    folder: Path
    told: dict[str, dict[str, Any]]

    @property
    def id(self) -> str:
        return str(json.loads((self.folder / "trackers.json").read_text(encoding="utf-8"))["id"])


def tiny_campaign(place: Path, track: Any) -> None:
    """A campaign file with its rows, of which no model is loaded."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "llama").mkdir()
    (place / "llama" / "config.json").write_text("{}", encoding="utf-8")
    (place / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tiny.rows()), encoding="utf-8")
    tiny.Tiny(place).campaign({"track": track, "task.system": played.PROMPT_SIGN})


def player(place: Path, folder: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that follows a run from its first to its last update, then ends or waits."""
    variables = {"WANDB_API_KEY": SECRET * 4, "HF_TOKEN": SECRET, "TRACKIO_DIR": str(place / "trackio")}
    return subprocess.Popen(
        [sys.executable, played.__file__, str(place / "campaign.yaml"), str(place / folder), *arguments],
        env={**environment(), **variables}, cwd=place, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def played_through(place: Path, track: Any, *, killed: bool = True) -> Played:
    """A run that is killed after update 22, goes on from its checkpoint at 13, and ends at 30; or that just ends."""
    tiny_campaign(place, track)
    folder = place / "run"
    first = player(place, "run", "1", str(KILLED), "wait") if killed else None
    if first is not None:
        assert first.stdout is not None
        while (words := first.stdout.readline()) and words.strip() != "played":
            pass
        time.sleep(2.0)  # so that trackers have heard what the resumed run will do again
        os.killpg(first.pid, signal.SIGKILL)
        _, errors = first.communicate()
        assert words, errors
        Journal(folder).cut_after(CHECKPOINT, attempt=2)
    again = player(place, "run", str(CHECKPOINT + 1 if killed else 1), str(LAST), "end")
    out, errors = again.communicate(timeout=400)
    return Played(folder, json.loads(out.splitlines()[-1] if out else errors))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Played:
    track = ["tensorboard", {"wandb": {"mode": "offline"}}, {"mlflow": {"uri": "sqlite:///mlflow.db"}}, "trackio"]
    return played_through(tmp_path_factory.mktemp("local"), track)


def test_every_tracker_heard_every_line(local: Played) -> None:  # C38
    n = len(UPDATES) + len(VALIDATIONS)
    assert local.told == {
        name: {"lines": n, "dropped": 0, "error": ""} for name in ("tensorboard", "wandb", "mlflow", "trackio")
    }


def test_tensorboard_reads_one_run_with_each_update_once(local: Played) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = (local.folder / "tensorboard").iterdir()
    read = EventAccumulator(str(events), size_guidance={"tensors": 0, "scalars": 0})
    read.Reload()
    assert [point.step for point in read.Scalars("train/loss")] == UPDATES
    assert [point.step for point in read.Scalars("validation/loss")] == VALIDATIONS
    assert [round(point.value, 5) for point in read.Scalars("train/loss")] == [round(3.0 / k, 5) for k in UPDATES]
    assert [point.step for point in read.Tensors("findings/T104")] == VALIDATIONS
    assert {"_hparams_/experiment", "_hparams_/session_start_info", "_hparams_/session_end_info"} <= set(
        read.summary_metadata
    )
    assert read.Images("curves")[0].width > 300


def test_wandb_reads_one_run_with_each_update_once(local: Played) -> None:
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    (file,) = local.folder.glob("wandb/offline-run-*/*.wandb")
    store = DataStore()
    store.open_for_scan(str(file))
    ids, seen, configured = [], [], {}
    while (raw := store.scan_data()) is not None:
        record = Record()
        record.ParseFromString(raw)
        if record.WhichOneof("record_type") == "run":
            ids.append(record.run.run_id)
            configured |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if record.WhichOneof("record_type") == "history":
            values = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            seen.append((json.loads(values["_step"]), "train/loss" in values, "validation/loss" in values))
    store.close()
    assert ids == [local.id]
    assert seen == [(k, True, k in VALIDATIONS) for k in UPDATES]
    assert configured["training.learning_rate"] == 0.01


def test_mlflow_reads_one_run_with_each_update_once_from_sqlite(local: Played) -> None:
    _read_mlflow(f"sqlite:///{local.folder.parent}/mlflow.db", local)


_MLFLOW = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
(experiment,) = client.search_experiments(filter_string="name = 'tiny'")
(run,) = client.search_runs([experiment.experiment_id])
points = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
history = {name: [point.step for point in own] for name, own in points.items()}
files = [file.path for file in client.list_artifacts(run.info.run_id)]
print("READ" + json.dumps([run.info.status, run.data.tags, run.data.params, history, files]))
"""


def _read_mlflow(address: str, found: Played) -> None:
    status, tags, params, history, files = read_by(_MLFLOW, address)
    assert status == "FINISHED"
    assert tags["testigo.run"] == found.id
    assert tags["findings.T104"] == "warn T104 spike at update 30"
    assert params["training.learning_rate"] == "0.01"
    assert sorted(history["train/loss"]) == sorted(history["train/seconds"]) == UPDATES
    assert sorted(history["validation/loss"]) == VALIDATIONS
    assert files == ["curves.png"]


def read_by(client: str, *arguments: str, **variables: str) -> Any:
    """What a tracker's own client reads, in a process of its own."""
    out = subprocess.run(
        [sys.executable, "-c", client, *arguments], env={**environment(), **variables}, text=True,
        stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    return json.loads(out.partition("READ")[2])


_TRACKIO = """
import json, trackio
from trackio.sqlite_storage import SQLiteStorage
(run,) = trackio.Api().runs("tiny")
print("READ" + json.dumps([run.config, SQLiteStorage.get_logs("tiny", run.name, run_id=run.id)]))
"""


def test_trackio_reads_one_run_with_each_update_once(local: Played) -> None:
    config, lines = read_by(_TRACKIO, TRACKIO_DIR=str(local.folder.parent / "trackio"))
    assert config["training.learning_rate"] == 0.01
    assert [line["step"] for line in lines if "train/loss" in line] == UPDATES
    assert [line["step"] for line in lines if "validation/loss" in line] == VALIDATIONS


def test_no_tracker_gets_a_secret_or_the_contents_of_rows(local: Played) -> None:
    places = [local.folder / "tensorboard", local.folder / "wandb", local.folder.parent / "trackio"]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    files += [*local.folder.parent.glob("ml*.db*"), *local.folder.parent.glob("mlartifacts/**/*.*")]
    assert len(files) > 6
    for path in files:
        content = path.read_bytes()
        for sign in (SECRET, played.PROMPT_SIGN, played.OUTPUT_SIGN, played.ROW_SIGN):
            assert sign.encode() not in content, (sign, path)


def test_declared_rows_are_tables_and_the_system_prompt_a_setting(tmp_path: Path) -> None:
    track = {"mlflow": {"uri": "sqlite:///own.db", "rows": True}, "tensorboard": {"rows": True}}
    found = played_through(tmp_path / "rows", track, killed=False)
    (table,) = (found.folder.parent / "mlartifacts").glob("*/artifacts/outputs/000030.json")
    assert json.loads(table.read_text(encoding="utf-8"))["data"] == [[played.ROW_SIGN, played.OUTPUT_SIGN, "x"]]
    (events,) = (found.folder / "tensorboard").iterdir()
    content = events.read_bytes()
    assert all(sign.encode() in content for sign in (played.PROMPT_SIGN, played.OUTPUT_SIGN, played.ROW_SIGN))


def test_two_runs_that_begin_at_once_are_two_runs_of_one_experiment_in_a_new_file(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/new.db"
    tiny_campaign(tmp_path, [{"mlflow": {"uri": address}}])
    both = [player(tmp_path, folder, "1", "5", "end") for folder in ("one", "other")]
    told = [json.loads(process.communicate(timeout=400)[0].splitlines()[-1])["mlflow"] for process in both]
    assert told == [{"lines": 6, "dropped": 0, "error": ""}] * 2
    known = [
        json.loads((tmp_path / name / "trackers.json").read_text(encoding="utf-8"))["id"] for name in ("one", "other")
    ]
    with closing(sqlite3.connect(tmp_path / "new.db")) as store:
        ids = store.execute("SELECT value FROM tags WHERE key = 'testigo.run'").fetchall()
        experiments = store.execute("SELECT DISTINCT experiment_id FROM runs").fetchall()
        updates = store.execute("SELECT step, count(*) FROM metrics WHERE key = 'train/loss' GROUP BY step").fetchall()
    assert sorted(id for (id,) in ids) == sorted(known)
    assert len(experiments) == 1
    assert updates == [(update, 2) for update in range(1, 6)]


_RACE = """
import json, sys, threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from testigo.watch.trackers.mlflow import Mlflow
from testigo.watch.trackers.tracker import TrackedRun
together = threading.Barrier(4)
def begin(n):
    options = {"uri": sys.argv[1], "experiment": "raced"}
    run = TrackedRun(f"id-{n}", f"name-{n}", "raced", Path(sys.argv[2]), Path(sys.argv[2]), options=options)
    together.wait()
    return Mlflow(run)._client.get_experiment_by_name("raced").experiment_id
with ThreadPoolExecutor(4) as pool:
    print("READ" + json.dumps(list(pool.map(begin, range(4)))))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A real MLflow server on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    store = f"sqlite:///{tmp_path / 'server.db'}"
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--artifacts-destination",
         str(tmp_path / "artifacts"), "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--workers", "1"],
        env={**environment(), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not _is_up(f"{address}/health"):
            assert process.poll() is None, "the server ended"
            time.sleep(0.3)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def _is_up(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_mlflow_reads_one_run_with_each_update_once_from_a_server(server: str, tmp_path: Path) -> None:
    found = played_through(tmp_path / "served", [{"mlflow": {"uri": server}}])
    assert found.told["mlflow"]["error"] == ""
    _read_mlflow(server, found)
    assert len(set(read_by(_RACE, server, str(tmp_path)))) == 1  # four that begin at once make one experiment
