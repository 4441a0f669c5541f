"""MLflow: a server or a SQLite file. A run that goes on is found by its id; points that it has are not sent again."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testigo.watch.trackers.tracker import TrackedRun

_TAG = "testigo.run"
_SQLITE = "sqlite:///"
_LONGEST = 500
"""The length that every store of MLflow takes for a parameter or a tag."""
_PARAMETERS_AT_ONCE = 100


def address_of(run: TrackedRun) -> str:
    """The store: the campaign's, else MLFLOW_TRACKING_URI, else a file; files are relative to the campaign's folder."""
    declared = run.options["uri"] or os.environ.get("MLFLOW_TRACKING_URI") or f"{_SQLITE}mlflow.db"
    if declared.startswith(_SQLITE):
        return _SQLITE + str((run.home / declared.removeprefix(_SQLITE)).resolve())
    return str(declared)


class Mlflow:
    """Metrics with their update as step, parameters, tags for findings, files as artifacts."""

    def __init__(self, run: TrackedRun) -> None:
        from mlflow import MlflowClient

        address = address_of(run)
        self._client = MlflowClient(address)
        experiment = self._experiment(run.options["experiment"] or run.campaign, address)
        known = self._client.search_runs([experiment], filter_string=f"tags.`{_TAG}` = '{run.id}'")
        tags = {_TAG: run.id, "variant": str(run.settings.get("variant", ""))}
        found = known[0] if known else self._client.create_run(experiment, tags=tags, run_name=run.name)
        self._id = found.info.run_id
        self._client.update_run(self._id, status="RUNNING")
        self._has = {name: self._updates_of(name) for name in ("train/loss", "validation/loss")} if known else {}
        self._parameters(run.settings, set(found.data.params))

    def values(self, update: int, values: Mapping[str, float]) -> None:
        """All of a line in one request, so that a kill leaves all of it or nothing."""
        from mlflow.entities import Metric

        kind = next((name for name in ("train/loss", "validation/loss") if name in values), "")
        if update in self._has.get(kind, ()):
            return
        now = int(time.time() * 1000)
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, update) for name, value in values.items()])

    def text(self, update: int, name: str, text: str) -> None:
        """A tag."""
        self._client.set_tag(self._id, name.replace("/", "."), text[:_LONGEST])

    def table(self, update: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table as MLflow's own form of it, one file an update."""
        table = {"columns": list(columns), "data": [list(row) for row in rows]}
        self._client.log_dict(self._id, table, f"{name}/{update:06d}.json")

    def picture(self, update: int, name: str, png: bytes) -> None:
        """An artifact."""
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.png"
            path.write_bytes(png)
            self._client.log_artifact(self._id, str(path))

    def files(self, name: str, folder: Path) -> None:
        """Artifacts in a folder of that name."""
        self._client.log_artifacts(self._id, str(folder), name)

    def end(self, *, well: bool) -> None:
        """The run's end."""
        self._client.set_terminated(self._id, status="FINISHED" if well else "FAILED")

    def _experiment(self, name: str, address: str) -> str:
        from mlflow.exceptions import MlflowException

        known = self._client.get_experiment_by_name(name)
        if known is not None:
            return str(known.experiment_id)
        beside = None
        if address.startswith(_SQLITE):
            beside = Path(address.removeprefix(_SQLITE)).with_name("mlartifacts").as_uri()
        try:
            return str(self._client.create_experiment(name, artifact_location=beside))
        except MlflowException:  # a run that began at the same time made it
            known = self._client.get_experiment_by_name(name)
            if known is None:
                raise
            return str(known.experiment_id)

    def _updates_of(self, name: str) -> set[int]:
        return {point.step for point in self._client.get_metric_history(self._id, name)}

    def _parameters(self, settings: Mapping[str, Any], known: set[str]) -> None:
        from mlflow.entities import Param

        new = [Param(key, str(value)[:_LONGEST]) for key, value in settings.items() if key not in known]
        for start in range(0, len(new), _PARAMETERS_AT_ONCE):
            self._client.log_batch(self._id, params=new[start : start + _PARAMETERS_AT_ONCE])


@contextmanager
def _alone(address: str) -> Iterator[None]:
    """Runs that begin side by side would make the tables of a new file twice, which fails for one of them."""
    if not address.startswith(_SQLITE):
        yield
        return
    path = Path(address.removeprefix(_SQLITE))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def open_tracker(run: TrackedRun) -> Mlflow:
    """Go on with the run of the same id, or begin it."""
    with _alone(address_of(run)):
        return Mlflow(run)
