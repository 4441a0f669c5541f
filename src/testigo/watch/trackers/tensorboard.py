"""TensorBoard: event files in the run's folder `tensorboard/`, written anew from the journal when a run goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testigo.watch.trackers.tracker import TrackedRun


class TensorBoard:
    """Scalars, texts, tables as Markdown, pictures, and the settings as hyperparameters."""

    def __init__(self, run: TrackedRun) -> None:
        from tensorboard.plugins.hparams import summary_v2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = run.folder / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self._writer = EventFileWriter(str(folder))
        settings = {key: _plain(value) for key, value in run.settings.items()}
        metrics = [summary_v2.Metric(tag) for tag in ("train/loss", "validation/loss")]
        hyper = [summary_v2.HParam(key) for key in settings]
        self._add(summary_v2.hparams_config_pb(hyper, metrics), 0)
        self._add(summary_v2.hparams_pb(settings, trial_id=run.name), 0)
        lines = "".join(f"| {key} | {str(value).replace('|', ' ')} |\n" for key, value in settings.items())
        self.text(0, "settings", f"| setting | value |\n|---|---|\n{lines}")

    def values(self, update: int, values: Mapping[str, float]) -> None:
        """Scalars under their names."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._add(Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]), update)

    def text(self, update: int, name: str, text: str) -> None:
        """A text, shown as Markdown."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING
        from tensorboard.plugins.text.metadata import create_summary_metadata

        tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()])
        metadata = create_summary_metadata(display_name=None, description=None)
        self._add(Summary(value=[Summary.Value(tag=name, tensor=tensor, metadata=metadata)]), update)

    def table(self, update: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table as Markdown; in a cell nothing is markup."""
        lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
        self.text(update, name, "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *lines]))

    def picture(self, update: int, name: str, png: bytes) -> None:
        """A picture."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))  # IHDR, PNG specification 11.2.2
        image = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
        self._add(Summary(value=[Summary.Value(tag=name, image=image)]), update)

    def files(self, name: str, folder: Path) -> None:
        """TensorBoard keeps no files."""

    def end(self, *, well: bool) -> None:
        """The session's end, and all of it on disk."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

        # `session_end_pb` of its own module needs TensorFlow.
        status = api_pb2.Status.Value("STATUS_SUCCESS" if well else "STATUS_FAILURE")
        ended = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time.time())
        content = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=ended))
        value = Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=content, tensor=metadata.NULL_TENSOR)
        self._add(Summary(value=[value]), 0)
        self._writer.close()

    def _add(self, summary: Any, update: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=update, summary=summary))
        self._writer.flush()


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _cell(text: str) -> str:
    for sign in ("\\", "|", "<", "*", "_", "`", "[", "#"):
        text = text.replace(sign, "\\" + sign if sign != "<" else "&lt;")
    return text.replace("\n", " ↵ ")


def open_tracker(run: TrackedRun) -> TensorBoard:
    """Begin the run's event file anew: the journal has every line once."""
    return TensorBoard(run)
