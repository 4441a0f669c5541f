"""Single steps of the campaign on a ledger, without its processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testigo.errors import GateFailed, ModelError
from testigo.ledger import kinds
from testigo.training.start import Work, to_end

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.conductor.grounds import Grounds


class Heard:
    """A reporter that keeps what it hears."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.steps: list[tuple[str, int, int]] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        self.steps.append((step, done, of))

    def ended(self, step: str) -> None:
        pass


@pytest.fixture
def grounds(tiny: Tiny, tmp_path: Path) -> Iterator[Grounds]:
    from testigo.conductor.opening import opened

    with opened(tiny.campaign(), tmp_path / "w", Heard()) as made:
        yield made


def test_an_event_is_written_when_it_says_something_new(grounds: Grounds) -> None:
    for said in ("a", "a", "b", "a"):
        grounds.record(kinds.NOTE, {"text": said})
    assert [event.body["text"] for event in grounds.ledger.events(kinds.NOTE)] == ["a", "b", "a"]


def test_events_about_different_things_do_not_hide_each_other(grounds: Grounds) -> None:
    for split, sha256 in (("validation", "1"), ("test", "2"), ("validation", "1"), ("test", "3")):
        grounds.record(kinds.COMPARED, {"split": split, "sha256": sha256}, about=("split",))
    assert [event.body["sha256"] for event in grounds.ledger.events(kinds.COMPARED)] == ["1", "2", "3"]


def test_rows_that_a_killed_process_left_half_written_do_not_stay(tiny: Tiny, grounds: Grounds) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    for suffix in ("new", "old"):
        left = grounds.workspace.root / "corpus" / f".{tiny.corpus.fingerprint}.{process.pid}.{suffix}"
        (left / "sealed").mkdir(parents=True)
        (left / "sealed" / "test.parquet").write_text("rows")
    assert grounds.corpus.folder.is_dir()
    assert list((grounds.workspace.root / "corpus").iterdir()) == [grounds.corpus.folder]


def test_a_run_is_recorded_before_it_starts_and_its_refusal_with_its_cause(
    grounds: Grounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testigo.campaign import planned_runs
    from testigo.conductor import train
    from testigo.training import start

    def refused(*arguments: Any, on_start: Any, **options: Any) -> None:
        assert [run.state for run in grounds.ledger.runs()] == ["planned"]
        on_start(pid=1, host=None)
        raise ModelError(expected="the base", found="another base", where="there", action="restore it")

    monkeypatch.setattr(start, "train", refused)
    with pytest.raises(ModelError):
        to_end(train.train(grounds, planned_runs(grounds.campaign)[0]))
    (run,) = grounds.ledger.runs()
    assert (run.state, run.cause) == ("interrupted", "another base")


def test_a_run_that_never_started_stays_planned(grounds: Grounds, monkeypatch: pytest.MonkeyPatch) -> None:
    from testigo.campaign import planned_runs
    from testigo.conductor import train
    from testigo.training import start

    def no_process(*arguments: Any, **options: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(start, "train", no_process)
    with pytest.raises(OSError, match="allocate"):
        to_end(train.train(grounds, planned_runs(grounds.campaign)[0]))
    assert [run.state for run in grounds.ledger.runs()] == ["planned"]


@pytest.mark.parametrize("state", ["completed", "stopped-early", "diverged", "out-of-memory"])
def test_a_run_that_ended_is_never_trained_again(grounds: Grounds, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    from testigo.campaign import planned_runs
    from testigo.conductor import train
    from testigo.training import start

    def ended(*arguments: Any, on_start: Any, **options: Any) -> Work[dict[str, Any]]:
        on_start(pid=1, host=None)
        yield
        return {"state": state, "cause": "so it was", "updates": 6, "seconds": 1.0}

    monkeypatch.setattr(start, "train", ended)
    to_end(train.train(grounds, planned_runs(grounds.campaign)[0]))
    (run,) = grounds.ledger.runs()
    assert (run.state, run.updates, run.attempts) == (state, 6, 1)
    to_end(train.train(grounds, planned_runs(grounds.campaign)[0]))
    assert grounds.ledger.runs() == (run,)


def test_a_run_that_an_amendment_took_out_of_the_plan_does_not_keep_the_campaign_open(
    tiny: Tiny, tmp_path: Path
) -> None:
    from testigo.conductor.opening import opened
    from testigo.ledger import campaign_state

    def state(grounds: Grounds) -> str:
        return campaign_state({run.id: run.state for run in grounds.ledger.runs()}, grounds.ledger.events())

    with opened(tiny.campaign(), tmp_path / "w", Heard()) as grounds:
        grounds.register()
        old = _plan(grounds)
        grounds.ledger.start_run(old)
        grounds.ledger.end_run(old, state="interrupted")
        assert state(grounds) == "interrupted"
    with opened(tiny.campaign({"training.learning_rate": 1e-3}), tmp_path / "w", Heard()) as grounds:
        assert grounds.register("it was too fast") == "amended"
        new = _plan(grounds)
        grounds.ledger.start_run(new)
        grounds.ledger.end_run(new, state="completed")
        grounds.record(kinds.COMPARED, {})
        assert [run.state for run in grounds.ledger.runs()] == ["interrupted", "completed"]
        assert state(grounds) == "completed"


def _plan(grounds: Grounds) -> str:
    from testigo.campaign import planned_runs

    planned = planned_runs(grounds.campaign)[0]
    run = grounds.spec(planned).run_id
    grounds.ledger.plan_run(run, variant="control", seed=0, defines=grounds.definition(planned))
    return run


def test_without_a_control_that_ended_well_nothing_is_compared_and_it_is_said(grounds: Grounds) -> None:
    from testigo.conductor import judge

    assert judge.compare_runs(grounds) is None
    assert "there is nothing to compare" in grounds.reporter.said[-1]  # type: ignore[attr-defined]


def test_what_the_data_gate_stops_is_recorded_before_any_compute(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testigo.conductor import look
    from testigo.conductor.opening import opened
    from testigo.ledger import campaign_state

    settings = tiny.campaign({"rules": {"E103": {"minimum": 0.99}}})
    with opened(settings, tmp_path / "w", Heard()) as grounds:
        look.look(grounds)  # a warning stops nothing
        rule = grounds.campaign.folder / "strict.py"
        rule.write_text(STRICT)
    settings = tiny.campaign({"rules": ["strict.py"]})
    with opened(settings, tmp_path / "w", Heard()) as grounds:
        with pytest.raises(GateFailed, match="X902"):
            look.look(grounds)
        assert campaign_state({}, grounds.ledger.events()) == "gate-failed"


STRICT = '''
from testigo.gates.data import DataEvidence
from testigo.rules import Finding, Passed, found, rule


@rule("X902", "never-good-enough", "stop", phase="data")
def never(evidence: DataEvidence) -> Finding | Passed:
    """Nothing is good enough.

    Why it matters: it does not.

    What to do: nothing.

    Source: this test.
    """
    return found("it is what it is")
'''


def test_the_last_words_of_a_worker_are_heard(tmp_path: Path) -> None:
    from testigo.training import start
    from testigo.training.launchers import local

    heard, folder = Heard(), tmp_path
    finding = {"severity": "stop", "code": "T101", "name": "non-finite", "observed": "nan"}

    def worker(*arguments: Any, **options: Any) -> Iterator[None]:
        yield  # the only look while it goes; what follows is written between it and the end
        _append(folder / "steps.jsonl", {"update": 1, "loss": 2.0, "seconds": 0.1})
        _append(folder / "findings.jsonl", finding)
        (folder / "result.json").write_text(json.dumps({"state": "diverged"}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "start", worker)
        start.to_end(start.train(folder / "spec.json", n_updates=1, reporter=heard, on_start=lambda pid, host: None))
    assert heard.steps == [(f"train {folder.name}", 0, 0), (f"train {folder.name}", 1, 1)]
    assert heard.said == ["  stop T101 non-finite: nan"]


def test_each_line_of_a_growing_file_is_read_once_and_half_a_line_waits(tmp_path: Path) -> None:
    from testigo.training.start import Tail

    path = tmp_path / "steps.jsonl"
    _append(path, {"update": 0})
    tail = Tail(path)
    assert list(tail.new()) == []
    with path.open("a") as file:
        file.write('{"update": 1}\n{"upd')
    assert list(tail.new()) == [{"update": 1}]
    assert list(tail.new()) == []
    with path.open("a") as file:
        file.write('ate": 2}\n')
    assert list(tail.new()) == [{"update": 2}]
    path.write_text('{"update": 1}\n')  # a resume cut it
    assert list(tail.new()) == []
    _append(path, {"update": 2})
    assert list(tail.new()) == [{"update": 2}]


def test_a_file_that_is_not_there_yet_has_no_lines(tmp_path: Path) -> None:
    from testigo.training.start import Tail

    tail = Tail(tmp_path / "steps.jsonl")
    assert list(tail.new()) == []
    _append(tmp_path / "steps.jsonl", {"update": 1})
    assert list(tail.new()) == [{"update": 1}]


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_a_worker_that_the_system_ended_for_want_of_memory_is_an_end_and_the_campaign_goes_on(
    grounds: Grounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testigo.campaign import planned_runs
    from testigo.conductor import train
    from testigo.training import start
    from testigo.training.launchers import local

    def killed(spec: Path, *, on_start: Any, **options: Any) -> Work[dict[str, Any]]:
        on_start(pid=1, host=None)
        _append(spec.parent / "steps.jsonl", {"update": 1, "loss": 2.0, "seconds": 0.5})
        yield
        raise local.WorkerDied(-9, spec.parent / "log.txt", for_memory=True)

    monkeypatch.setattr(start, "train", killed)
    to_end(train.train(grounds, planned_runs(grounds.campaign)[0]))
    (run,) = grounds.ledger.runs()
    assert (run.state, run.updates, run.seconds) == ("out-of-memory", 1, 0.5)
    assert "SIGKILL: the system's memory had run out" in run.cause


def test_jobs_side_by_side_each_have_a_place_and_one_that_raises_ends_the_others() -> None:
    from testigo.training.start import side_by_side

    told: list[str] = []

    def job(name: str, steps: int) -> Callable[[int], Work[None]]:
        def work(place: int) -> Work[None]:
            told.append(f"{name} at {place}")
            try:
                for _ in range(steps):
                    yield
                if name == "bad":
                    raise ValueError(name)
            finally:
                told.append(f"{name} ended")

        return work

    side_by_side([job("a", 3), job("b", 1), job("c", 1)], at_once=2)
    assert told == ["a at 0", "b at 1", "b ended", "c at 1", "a ended", "c ended"]
    told.clear()
    with pytest.raises(ValueError, match="bad"):
        side_by_side([job("long", 99), job("bad", 1), job("never", 1)], at_once=2)
    assert told == ["long at 0", "bad at 1", "bad ended", "long ended"]


@pytest.mark.parametrize(
    ("n_devices", "processes", "parallel", "at_once", "devices"),
    [
        (0, 1, "auto", 1, [None]),
        (0, 2, 3, 3, [None, None, None]),
        (1, 1, "auto", 1, [None]),
        (4, 1, "auto", 4, [[0], [1], [2], [3]]),
        (4, 2, "auto", 2, [[0, 1], [2, 3]]),
        (4, 4, "auto", 1, [None]),
        (2, 1, 3, 3, [[0], [1], [0]]),
    ],
)
def test_runs_side_by_side_share_the_devices_out(
    grounds: Grounds, monkeypatch: pytest.MonkeyPatch, n_devices: int, processes: int, parallel: Any, at_once: int,
    devices: list[Any],
) -> None:  # fmt: skip
    from testigo.conductor import train

    monkeypatch.setattr(train, "_n_accelerators", lambda: n_devices)
    machine = grounds.campaign.machine.model_copy(update={"processes": processes, "parallel": parallel})
    grounds.campaign = grounds.campaign.model_copy(update={"machine": machine})
    assert train.at_once(grounds) == at_once
    places = [train.placement_at(place, grounds) for place in range(at_once)]
    assert [None if place.devices is None else list(place.devices) for place in places] == devices
    assert {place.processes for place in places} == {processes}


def test_more_processes_than_devices_are_refused_before_anything_starts(
    grounds: Grounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testigo.conductor import train
    from testigo.errors import WorkspaceError

    monkeypatch.setattr(train, "_n_accelerators", lambda: 2)
    machine = grounds.campaign.machine.model_copy(update={"processes": 4})
    grounds.campaign = grounds.campaign.model_copy(update={"machine": machine})
    with pytest.raises(WorkspaceError, match="a device for each of 4 processes"):
        train.placement_at(0, grounds)
