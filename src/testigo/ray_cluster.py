"""The one way to a Ray cluster, and the one list of variables that keep libraries from reporting their use."""

from __future__ import annotations

import logging
import os
from typing import Any, Final

from testigo.errors import MissingExtra, TestigoError

SILENT: Final = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DAFT_ANALYTICS_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GRADIO_ANALYTICS_ENABLED": "False",
}
"""Set before a library is imported: nothing leaves the machine."""


def connect(kind: type[TestigoError], *, needed_for: str, otherwise: str) -> Any:
    """Ray, joined to the cluster that `RAY_ADDRESS` names, to one that runs here, or to one that is started.

    Parameters
    ----------
    kind
        The error to raise.
    needed_for
        What Ray does for whoever asks, for the error when it is not installed.
    otherwise
        The setting that does without it.

    Raises
    ------
    TestigoError
        Of the kind asked for, when no cluster can be reached.
    """
    os.environ.update(SILENT)
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray", needed_for) from None
    if not ray.is_initialized():
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise kind(
                expected="a Ray cluster that can be reached",
                found=str(error)[:200] or type(error).__name__,
                where=f"RAY_ADDRESS={os.environ.get('RAY_ADDRESS', '(not set)')}",
                action=f"start the cluster or correct RAY_ADDRESS, or set `{otherwise}`",
            ) from error
    return ray
