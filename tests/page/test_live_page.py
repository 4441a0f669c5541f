"""A real server on loopback, and files that grow beside it."""

from __future__ import annotations

import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from served import PATIENCE_SECONDS, served

from testigo.cli import run
from testigo.page.__main__ import main


class Stream:
    """Server-sent events, read by a thread of its own."""

    def __init__(self, host: str, port: int, topics: str) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
        self._connection.connect()
        self._socket = self._connection.sock
        self._connection.request("GET", f"/live?topics={topics}")
        self._answer = self._connection.getresponse()
        self.kind = self._answer.headers["content-type"]
        self.states: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while text := self._answer.readline():
                if text.startswith(b"data: "):
                    self.states.put(text[6:].strip().decode())
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # the test has closed it

    def next(self) -> str:
        return self.states.get(timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # closing alone would wait for the reading thread
        self._connection.close()


def get(host: str, port: int, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_growing_run_is_told_and_shown_while_it_grows(living: Any) -> None:
    with served(str(living.workspace.root)) as (host, port, process):
        living.step(3)
        topics = f"ledger+run/{living.run}"
        stream = Stream(host, port, topics)
        assert stream.kind.startswith("text/event-stream")
        state = stream.next()
        status, text = get(host, port, f"/runs/{living.run}", **{"testigo-fragment": "1"})
        assert (status, f'data-state="{state}"' in text) == (200, True)
        for _ in range(3):
            update = living.step()
            assert stream.next() != state
            state = _until_shown(host, port, living.run, f"<span>{update} / 60</span>")
            while not stream.states.empty():
                stream.next()
        living.find()
        stream.next()
        assert "T106" in get(host, port, f"/runs/{living.run}")[1]
        with living.story.ledger() as ledger:
            ledger.end_run(living.run, state="completed", updates=6, seconds=3.0)
        stream.next()
        assert "completed" in get(host, port, "/")[1]
        process.send_signal(signal.SIGINT)  # with the stream still open
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        stream.close()


def _until_shown(host: str, port: int, run: str, what: str) -> str:
    until = time.monotonic() + PATIENCE_SECONDS
    while what not in (text := get(host, port, f"/runs/{run}")[1]):
        assert time.monotonic() < until, what
        time.sleep(0.05)
    return text.split('data-state="')[1].split('"')[0]


def test_one_topic_does_not_tell_of_another(living: Any) -> None:
    living.step(1)
    with served(str(living.workspace.root)) as (host, port, _):
        ledger, run = Stream(host, port, "ledger"), Stream(host, port, f"run/{living.run}")
        ledger.next()
        run.next()
        living.step()
        run.next()
        assert ledger.states.empty()
        ledger.close()
        run.close()


def test_two_hundred_readers_are_served_at_once(living: Any) -> None:
    living.step(5)
    with served(str(living.workspace.root)) as (host, port, _):
        streams = [Stream(host, port, "runs") for _ in range(200)]
        states = {stream.next() for stream in streams}
        living.step()
        assert {stream.next() for stream in streams}.isdisjoint(states)
        assert get(host, port, "/")[0] == 200
        for stream in streams:
            stream.close()


def test_a_head_of_ten_megabytes_is_refused_by_the_server(told: Any) -> None:
    with served(str(told.workspace.root)) as (host, port, _):
        with socket.create_connection((host, port), PATIENCE_SECONDS) as raw:
            answer = b""
            with suppress(OSError):  # the server hangs up
                raw.sendall(b"GET /rows?kind=" + b"x" * 10_000_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with suppress(OSError):
                answer = raw.recv(4096)
            assert not answer or answer.split(b" ")[1] in (b"400", b"414", b"431")
        assert get(host, port, "/")[0] == 200
        assert get(host, port, "/", Host="evil.example")[0] == 421


def test_testigo_serve_becomes_the_page_and_answers_with_its_token(told: Any) -> None:
    token = "a-token-of-many-letters"
    command = ["serve", str(told.workspace.root), "--token", token]
    with served(*command, module="testigo") as (host, port, process):
        assert get(host, port, "/")[0] == 401
        assert get(host, port, "/", Authorization=f"Bearer {token}")[0] == 200
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_testigo_serve_tells_that_a_folder_is_no_workspace(told: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(told.workspace.root / "corpus"), "--json"]) == 2
    assert "no workspace.json in it" in json.loads(capsys.readouterr().out)["problems"][0]["found"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--host", "0.0.0.0"], "none"),
        (["--token", "short"], "5"),
        (["--port", "70000"], "70000"),
    ],
    ids=["open without a token", "short token", "no such port"],
)
def test_the_page_tells_a_users_error_in_four_parts(
    told: Any, arguments: list[str], found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(told.workspace.root), *arguments, "--json"]) == 2
    problem = json.loads(capsys.readouterr().out)["problems"][0]
    assert problem["found"] == found
    assert all(problem.values())
    assert main([str(told.workspace.root), *arguments]) == 2
    assert "expected: " in capsys.readouterr().err


def test_without_the_extra_the_way_to_it_is_told(told: Any, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from testigo.cli import run\n"
        f"sys.exit(run(['serve', {str(told.workspace.root)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'testigo[page]'" in done.stderr
