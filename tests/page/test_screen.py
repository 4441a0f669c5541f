"""`testigo status --watch`: the page's overview on a terminal of 80 columns."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from testigo.cli import run
from testigo.ledger.question import SAMPLES, asking
from testigo.page.screen import curve, frame, has_ended, line_of
from testigo.page.site import Site
from testigo.page.standing import overview


def shown(site: Site) -> list[str]:
    out = Console(file=io.StringIO(), width=80, force_terminal=False)
    out.print(frame(site)[0])
    text: str = out.file.getvalue()  # type: ignore[attr-defined]
    return text.splitlines()


def test_a_curve_keeps_its_peaks_and_its_gaps() -> None:
    assert curve([]) == ""
    assert curve([2.0, 2.0]) == "▁▁"
    assert curve([0.0, None, 7.0]) == "▁ █"
    long = [1.0] * 500 + [9.0] + [1.0] * 500
    assert curve(long, 40).count("█") == 1
    assert len(curve(long, 40)) == 40


def test_a_running_campaign_is_shown_in_80_columns_with_its_curves_findings_and_time_left(living: Any) -> None:
    living.step(40)
    living.validate(1.5)
    living.step(10)
    living.validate(1.25)
    living.find(observed="\x1b[31mthe loss is 7.25 " + "and " * 40)
    site = Site(living.workspace)
    lines = shown(site)
    text = "\n".join(lines)
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) <= 24
    assert "running" in lines[0]
    assert "update 50" in lines[1]
    assert "▸ Runs" in text
    assert "loss" in text
    assert "2 → 0.04" in text
    assert "1.5 → 1.25" in text
    assert "warn T106 spike" in text
    assert "\x1b" not in text, "a text of the campaign commands no terminal"
    assert "left: at most" in lines[-1]
    assert not has_ended(site, overview(site))
    assert "running; Training" in line_of(site, overview(site))


def test_a_question_at_a_terminal_is_shown_while_it_stands(living: Any) -> None:
    site = Site(living.workspace)
    before = site.signatures()
    with asking(living.workspace.root, SAMPLES):
        assert "waits for your confirmation of the samples" in shown(site)[1]
        assert "waits for your confirmation of the samples" in line_of(site, overview(site))
        assert site.signatures() != before, "a live page looks again"
    assert "waits" not in shown(site)[1]


def test_a_campaign_that_ended_is_shown_once_and_the_view_ends_by_itself(story: Any) -> None:
    from testigo.ledger import kinds

    with story.ledger() as ledger:
        ledger.append(kinds.DOSSIER_WRITTEN, {"sha256sums": "0" * 64})
    site = Site(story.workspace)
    lines = shown(site)
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1].startswith("ended; ")
    assert has_ended(site, overview(site))
    command = [sys.executable, "-m", "testigo", "status", str(story.workspace.root), "--watch"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 1, "in a plain log a line a minute"


def test_ctrl_c_ends_the_view_cleanly(living: Any) -> None:
    living.step(5)
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "testigo", "status", str(living.workspace.root), "--watch"], stdin=subprocess.DEVNULL,
        stdout=terminal, stderr=terminal, env={**os.environ, "COLUMNS": "80", "TERM": "xterm"}, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    seen = b""
    while b"Ctrl-C" not in seen:
        seen += os.read(reader, 4096)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            more = os.read(reader, 4096)
        except OSError:  # the terminal is closed on the other side
            break
        if not more:
            break
        seen += more
    os.close(reader)
    assert process.wait() == 0
    assert b"Traceback" not in seen
    assert seen.rstrip().endswith(b"\x1b[?25h"), "the cursor is shown again"


def test_drawing_and_one_document_exclude_each_other(living: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("status", str(living.workspace.root), "--watch", "--json")) == 2
    assert "leave one of them out" in capsys.readouterr().out
