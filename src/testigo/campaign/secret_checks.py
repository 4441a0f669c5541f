"""Passwords and tokens in a campaign file: it is copied into specs, ledger and dossier, so none may be in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from testigo.campaign.document import Place
from testigo.campaign.fault import Fault
from testigo.redaction import secret_in


def secret_faults(data: Any) -> Iterator[Fault]:
    """Each text of the file that holds a secret; the words of the task may speak of whatever they like."""
    for place, text in _texts(data, ()):
        secret = secret_in(text)
        if secret is not None and place[:1] != ("task",):
            yield Fault(
                place,
                "no password and no token: the file is copied into the workspace and the dossier",
                secret,
                "take it out, change it where it was made, and leave it to the environment: HF_TOKEN, PGPASSWORD",
            )


def _texts(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key, (*place, key))
            yield from _texts(item, (*place, key))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _texts(item, (*place, n))
