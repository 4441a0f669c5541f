"""The anchor beside the ledger: how many events there were, and the last one's digest.

A chain alone cannot show that its last events were cut off. So each append writes the head of the chain into a small
file, atomically and only after the event is safe. A file behind the chain is a crash between the two and does no harm;
a file ahead of the chain means that events are gone.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from testigo.ledger.event import GENESIS


@dataclass(frozen=True)
class Head:
    """The last event of a chain: its number, which is the count of events, and its digest."""

    events: int = 0
    digest: str = GENESIS


def head_path(ledger: Path) -> Path:
    """`ledger.head` for `ledger.sqlite`."""
    return ledger.with_suffix(".head")


def write_head(path: Path, head: Head) -> None:
    """Write the anchor aside, flush it to the disk, and rename it. The caller holds the ledger's write lock."""
    aside = path.with_name(path.name + ".tmp")
    with aside.open("w", encoding="utf-8") as file:
        json.dump(asdict(head), file, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def begin(path: Path, head: Head) -> None:
    """The first anchor of a machine; one that is there stays."""
    with _alone(path):
        if not path.exists():
            write_head(path, head)


def advance(path: Path, head: Head) -> None:
    """Move an anchor forward; a slower writer never sets it back.

    One that vanished is not made anew: `verify` must go on saying that it vanished.
    """
    with _alone(path):
        known = read_head(path)
        if known is not None and known.events < head.events:
            write_head(path, head)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # the folder, so that no further file is needed for it
        yield
    finally:
        os.close(folder)


def read_head(path: Path) -> Head | None:
    """The anchor, or None when there is no file. Raises ValueError when the file is not an anchor."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    value = json.loads(text)
    if not isinstance(value, dict) or set(value) != {"events", "digest"}:
        raise ValueError("not an anchor")
    events, digest = value["events"], value["digest"]
    if not isinstance(events, int) or not isinstance(digest, str):
        raise ValueError("not an anchor")
    return Head(events, digest)


@dataclass(frozen=True)
class Recalled:
    """What the anchor's file said when it was read: a head, nothing, or something that cannot be read."""

    path: Path | None
    head: Head | None
    readable: bool = True


def recall(path: Path | None) -> Recalled:
    """Read the anchor, where there is one to read. Read it before the chain: the chain may only have grown since."""
    if path is None:
        return Recalled(None, None)
    try:
        return Recalled(path, read_head(path))
    except (ValueError, OSError):
        return Recalled(path, None, readable=False)


def anchor_fault(recalled: Recalled, chain: Head, digest_at: str | None) -> str:
    """What the anchor says against the chain, or nothing.

    Parameters
    ----------
    recalled
        What the anchor's file said.
    chain
        The chain's own last event.
    digest_at
        The digest of the chain's event whose number the anchor names, None when there is no such event.
    """
    if recalled.path is None:
        return ""
    head, name = recalled.head, recalled.path.name
    if not recalled.readable:
        return f"{name} cannot be read: whether the last events were removed cannot be known"
    if head is None:
        return f"{name} is missing: whether the last events were removed cannot be known"
    if head.events > chain.events:
        gone = (
            f"event {head.events} is"
            if head.events == chain.events + 1
            else f"events {chain.events + 1} to {head.events} are"
        )
        return f"{gone} missing at the end: {name} counts {head.events} events, the ledger has {chain.events}"
    if head.events and head.digest != digest_at:
        return f"event {head.events} is not the one that {name} remembers: the chain was written anew"
    return ""
