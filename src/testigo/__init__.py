"""Testigo: fine-tuning campaigns that can be trusted.

::

    import testigo

    report = testigo.pilot(trainer)             # a transformers.Trainer or trl.SFTTrainer, as you built it
    report.raise_if_stopped()
    trainer.add_callback(testigo.Watch())       # the diagnoses, live
    campaign = testigo.load("campaign.yaml")
    result = testigo.run(campaign)
    campaign.runs                               # tables and charts, for notebooks: docs/notebook.md

Nothing heavy is imported before it is used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"
__all__ = ["Watch", "__version__", "compare", "load", "pilot", "run", "runs", "verify"]

_HOME_OF = {
    "Watch": ("attach", "Watch"),
    "compare": ("judgement", "compare"),
    "load": ("campaign", "load"),
    "run": ("conductor", "run"),
    "runs": ("campaign.records", "runs"),
    "verify": ("dossier", "verify_dossier"),
}


class _CallableRoom(ModuleType):
    """`testigo.pilot` is a room of the house, and what the user calls."""

    def __call__(self, trainer: Any, **options: Any) -> Any:
        """See `testigo.attach.pilot`."""
        return import_module("testigo.attach").pilot(trainer, **options)


class _Testigo(ModuleType):
    """The package: names of the Python API are imported when they are asked for."""

    @property
    def pilot(self) -> Any:
        """The pilot on a Trainer, and the room of that name."""
        room = import_module("testigo.pilot")
        room.__class__ = _CallableRoom
        return room

    @pilot.setter
    def pilot(self, room: ModuleType) -> None:
        """The import system binds the room here; it is looked up again each time."""


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        room, own_name = _HOME_OF[name]
        return getattr(import_module(f"testigo.{room}"), own_name)
    raise AttributeError(f"module 'testigo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Testigo
