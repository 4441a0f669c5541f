"""Samples are confirmed once for an encoding: by a person with a name, or by nobody, and the ledger says which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.conductor import Lines, samples
from testigo.conductor.grounds import Grounds
from testigo.conductor.opening import opened
from testigo.ledger import kinds

if TYPE_CHECKING:
    from tiny import Tiny


@contextmanager
def grounds_of(tiny: Tiny, folder: Path, **changes: Any) -> Iterator[Grounds]:
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    with opened(tiny.campaign(dotted), folder, Lines()) as grounds:
        yield grounds


def test_who_confirmed_what_is_in_the_ledger(tiny: Tiny, tmp_path: Path) -> None:
    with grounds_of(tiny, tmp_path / "ws") as grounds:
        assert samples.standing(grounds) is None
        assert samples.in_words(grounds) == "not yet"
        shown = samples.to_confirm(samples.material(grounds))
        assert {row.category for row in shown} == {"office", "shop"}
        samples.record(grounds, how="run", by="Ada L.", shown=shown)
        samples.record(grounds, how="run", by="Ada L.", shown=shown)
        (event,) = grounds.ledger.events(kind=kinds.SAMPLES_CONFIRMED)
        assert event.body["looked"] is True
        assert event.body["by"] == "Ada L."
        assert event.body["rows"] == [row.id for row in shown]
        assert len(event.body["shown"]) == 64
        assert samples.in_words(grounds) == "by Ada L."


def test_a_changed_encoding_asks_again_and_another_change_does_not(tiny: Tiny, tmp_path: Path) -> None:
    with grounds_of(tiny, tmp_path / "ws") as grounds:
        samples.record(grounds, how="--yes")
        assert samples.in_words(grounds) == "nobody looked: --yes answered"
    with grounds_of(tiny, tmp_path / "ws", training__learning_rate=2e-3) as grounds:
        assert samples.standing(grounds) is not None
    for change in ({"task__system": "Say it."}, {"encoding__layout": "padded"}, {"evaluation__max_new_tokens": 9}):
        with grounds_of(tiny, tmp_path / "ws", **change) as grounds:
            assert samples.standing(grounds) is None


def test_who_looks_after_nobody_did_is_added_beside_it(tiny: Tiny, tmp_path: Path) -> None:
    with grounds_of(tiny, tmp_path / "ws") as grounds:
        samples.record(grounds, how="no terminal")
        assert "no terminal" in samples.in_words(grounds)
        samples.record(grounds, how="show", by="Ben", shown=samples.to_confirm(samples.material(grounds)))
        assert [event.body["looked"] for event in grounds.ledger.events(kind=kinds.SAMPLES_CONFIRMED)] == [False, True]
        assert samples.in_words(grounds) == "by Ben"


def test_an_answer_of_an_older_version_still_holds(tiny: Tiny, tmp_path: Path) -> None:
    with grounds_of(tiny, tmp_path / "ws") as grounds:
        grounds.ledger.append(kinds.SAMPLES_CONFIRMED, {"corpus": grounds.corpus.fingerprint, "looked": True})
        assert samples.in_words(grounds) == "by a person"
