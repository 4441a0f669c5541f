"""Nothing leaves the machine: every connection but loopback is refused and recorded while a whole campaign goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from whole import Finished

WATCHED = Path(__file__).resolve().parents[1] / "support" / "watched"
WORKERS = {
    "testigo.evaluation.worker", "testigo.pilot.worker", "testigo.training.worker", "testigo.model.control",
    "testigo.model.export_worker",
}  # fmt: skip


def told(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_a_whole_campaign_attempts_no_connection_but_loopback(finished: Finished) -> None:
    lines = told(finished.shared / "connections.jsonl")
    began = [line["command"] for line in lines if line["what"] == "began"]
    assert {word for command in began for word in command} >= WORKERS, "each worker was watched"
    assert [line for line in lines if line["what"] == "refused"] == []
    assert finished.without_route == 0, f"the kernel's count, in a network of kind {finished.network}"


def watched(folder: Path, code: str, **environment: str) -> list[dict[str, Any]]:
    """What a Python process tells that is kept from the network."""
    log = folder / "connections.jsonl"
    path = os.pathsep.join(filter(None, [str(WATCHED), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "TESTIGO_TEST_CONNECTIONS": str(log), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in told(log) if line["what"] == "refused"]


@pytest.mark.parametrize(
    "attempt",
    [
        "socket.create_connection(('192.0.2.1', 80), timeout=1)",
        "socket.getaddrinfo('example.org', 443)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        "socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
        "urllib.request.urlopen('http://192.0.2.1/', timeout=1)",
    ],
)
def test_the_watch_itself_sees_each_way_out(tmp_path: Path, attempt: str) -> None:
    code = f"import contextlib, socket, urllib.request\nwith contextlib.suppress(OSError):\n    {attempt}\n"
    assert len(watched(tmp_path, code)) == 1


def test_what_reports_use_by_default_is_silent_once_testigo_has_imported_it(tmp_path: Path) -> None:
    code = """
from testigo.corpus.engine import band_keys
assert band_keys(["a b c d e f g"] * 3, 5, 8, "local").num_rows == 3
from testigo.training.launchers.local import environment
import os
os.environ.update(environment())
import huggingface_hub.utils
huggingface_hub.utils.send_telemetry("testigo/test", library_name="testigo")
import time
time.sleep(1)  # reports are sent by threads
"""
    assert watched(tmp_path, code) == []
