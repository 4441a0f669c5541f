"""Progress in a plain log: that a step begins and ends, and a line a minute for long ones."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console
from rich.text import Text

from testigo.cli import terminal, tokens
from testigo.cli.findings import print_verdict
from testigo.cli.output import ending, folded, print_problems, show, show_as_it_is, show_part, show_table
from testigo.cli.terminal import Terminal
from testigo.errors import Problem
from testigo.rules import DOES_NOT_APPLY, Finding, NotChecked, Verdict


def test_a_short_step_tells_its_end_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal() as shown:
        for done in (0, 4, 12, 12):
            shown.progress("evaluate baseline", done, 12)
    assert capsys.readouterr().err == "evaluate baseline: 12/12 (0 s)\n"


def test_a_step_whose_length_is_not_known_yet_says_in_a_plain_log_that_it_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Terminal() as shown:
        for _ in range(3):
            shown.progress("export", 0, 0, "the model is loaded")
        shown.progress("export", 4, 4)
    assert capsys.readouterr().err.splitlines() == ["export: the model is loaded", "export: 4/4 (0 s)"]


def test_a_plain_log_has_one_line_a_minute_with_all_that_goes_on_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(0, 100_000, 20))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: float(next(clock)))
    shown = Terminal()
    assert shown.minute().endswith("after the start")
    shown.say("corpus 12: built")
    assert shown.minute() == "still going on, 40 s so far: after corpus 12: built"
    for done in range(1, 6):
        shown.progress("train a", done, 10, "loss 1.000")
    assert re.fullmatch(r"train a: 5/10, about \d+ (s|min) left, loss 1\.000", shown.minute())
    shown.progress("train a", 5, 10, "loss 1.000")
    shown.progress("train b", 0, 0, "the model is loaded")
    assert re.fullmatch(r"train a: 5/10, about .+ left; train b: \d+ s so far", shown.minute()), "one line for both"
    shown.progress("train b", 0, 0, "the model is loaded")
    assert re.fullmatch(r"train b: \d+ (s|min) so far, the model is loaded", shown.minute())


def test_a_step_that_ended_before_its_last_unit_leaves_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100_000, 20))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: float(next(clock)))
    shown = Terminal()
    for step in ("train a", "train b"):
        for done in (1, 362):
            shown.progress(step, done, 3000)
    shown.ended("train a")
    shown.say("run a: stopped (by hand)")
    assert shown.minute().startswith("train b: 362/3000")
    shown.ended("train b")
    shown.ended("never begun")
    assert re.fullmatch(r"still going on, .+ so far: after run a: stopped \(by hand\)", shown.minute())
    shown.progress("train a", 0, 3000, "the model is loaded")  # resumed
    assert shown.minute() == "train a: 0/3000, the model is loaded"


def test_the_line_comes_by_itself_while_nothing_is_told_and_ends_with_the_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "LOG_EVERY_SECONDS", 0.01)
    shown = Terminal()
    shown.progress("pilot", 2, 9, "validation")  # before the clock runs: a busy machine may be late
    with shown:
        lines = ""
        while lines.count("\n") < 3:
            lines += capsys.readouterr().err
    assert set(lines.splitlines()) == {"pilot: 2/9, validation"}


def test_two_steps_are_told_apart_and_said_words_stay(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal() as shown:
        shown.progress("train a", 3, 3)
        shown.say("run a: completed (3 updates)")
        shown.progress("train b", 3, 3)
    words = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert words == ["train a", "run a", "train b"]


class Screen(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True


def screen_of(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A terminal in the place of standard error. Taken in the test itself: before it pytest takes that place again."""
    made = Screen()
    monkeypatch.setattr(terminal.sys, "stderr", made)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_on_a_terminal_a_bar_is_drawn_while_a_step_goes_and_its_end_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    with Terminal() as shown:
        shown.progress("train control-s0-0123456789", 0, 0, "the model is loaded")
        shown.progress("train control-s0-0123456789", 200, 300, "loss 1.000, validation 2.000, 0.1 s an update")
        shown.progress("train control-s0-0123456789", 300, 300, "loss 0.900, validation 1.900")
    seen = screen.getvalue()
    assert "200/300" in seen
    assert "loss 1.000, validation 2.000" in seen
    assert "0.1 s an update" not in seen, "what there is no room for is left out whole"
    assert seen.splitlines()[-1].endswith("train control-s0-0123456789: 300/300, loss 0.900, validation 1.900 (0 s)")


def test_on_a_terminal_the_bar_of_a_step_that_ended_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    with Terminal() as shown:
        shown.progress("train a", 1, 9)
        shown.progress("train b", 1, 9)
        shown.ended("train a")
        screen.truncate(0)
        shown.progress("train b", 2, 9)
    assert "train b" in screen.getvalue()
    assert "train a" not in screen.getvalue()


def test_on_a_terminal_runs_side_by_side_have_a_bar_each(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    with Terminal() as shown:
        for done in (1, 2):
            shown.progress("train a", done, 9, "loss 1.000")
            shown.progress("train b", done + 4, 9, "loss 2.000")
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert re.search(r"train a .*2/9.*loss 1\.000\s+train b .*6/9.*loss 2\.000", last)


def test_lines_fold_at_words_on_a_terminal_and_a_path_stays_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = "/a/very/long/folder/name/that/is-longer/than/a-line/of-the/screen.txt"
    text = folded(f"the evidence is in {path} and one may look at it", Console(file=Screen(), width=40), "  ")
    assert path in text
    assert all(len(line) <= 40 for line in text.splitlines() if path not in line)
    assert folded("a b " * 50, Console(file=io.StringIO(), width=40), "  ") == "a b " * 50


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_of_a_text_steers_the_terminal(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    screen = Screen() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    attack = "a\x1b]0;title\x07\x00\u202eb"
    seen = "a\\x1b]0;title\\x07\\x00\\u202eb"
    show(attack, "bold")
    show_as_it_is(attack)
    show_part("observed: ", attack)
    show_table(("name", attack), [("one", attack), ("two", "x")])
    ending(checked=attack, next_command=attack)
    print_problems([Problem(attack, attack, f"{attack}\n{attack}", attack)], as_json=False)
    with Terminal() as shown:
        shown.say(attack)
        shown.progress(attack, 1, 2, attack)
        shown.progress(attack, 2, 2, attack)
    tokens.screen().print(Text(attack, "red"), attack)
    text = screen.getvalue()
    own = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)  # colours and the bar's own moves
    assert not set(own) & set("\x1b\x07\x00\u202e")
    assert own.count(seen) >= 14
    assert ("\x1b[1m" in text) is is_terminal, "its own colours stay"
    line = next(line for line in own.splitlines() if line.startswith("name"))
    assert line.index(seen) == next(line for line in own.splitlines() if line.startswith("one")).index(seen)


def test_names_of_rows_stay_in_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding(
        "E101", "a-rule", "stop", "check", "seen\nstop E999", "do", rows=("a\nE999 forged: stop", "b\x1b[2J")
    )
    print_verdict(Verdict((finding,)))
    out = capsys.readouterr().out
    assert "rows:     a\\x0aE999 forged: stop, b\\x1b[2J\n" in out
    assert "\n            stop E999\n" in out


def test_what_could_not_be_checked_says_why_and_what_does_not_apply_is_told_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skipped = [
        NotChecked("T108", "fewer than 13 gradient norms were measured"),
        NotChecked("T104", "fewer than 17 losses"),
        NotChecked("T115", "fewer than 17 losses"),
        NotChecked("B111", f"{DOES_NOT_APPLY}activation checkpointing is not declared"),
    ]
    print_verdict(Verdict(not_checked=tuple(skipped)))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "could not be checked: T108: fewer than 13 gradient norms were measured",
        "could not be checked: T104, T115: fewer than 17 losses",
        "do not apply: B111: activation checkpointing is not declared",
    ]


def test_results_fold_on_a_terminal_too_and_what_may_be_copied_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    show("  " + "words and more words " * 5)
    show("short   lines stay   as they are")
    show_as_it_is('{"a": "' + "b " * 40 + '"}')
    folded_lines, kept, whole, _ = re.split(r"\n(?=short|\{|$)", screen.getvalue())
    assert all(len(line) <= 40 for line in folded_lines.splitlines())
    assert all(line.startswith("    ") for line in folded_lines.splitlines()[1:])
    assert kept == "short   lines stay   as they are"
    assert whole.count("\n") == 0


def test_of_many_problems_the_first_are_printed_the_rest_is_counted_and_json_has_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problems = [Problem("a row", "none", f"rows.jsonl:{n}", "mend it") for n in range(1, 481)]
    print_problems(problems, as_json=False)
    told = capsys.readouterr().err
    assert ("rows.jsonl:20\n" in told, "rows.jsonl:21\n" in told) == (True, False)
    assert told.endswith("480 problems: 460 more are not shown; --json lists all.\n")
    print_problems(problems, as_json=True)
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 480
