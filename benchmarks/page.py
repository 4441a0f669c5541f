"""How fast the live page answers for a workspace of 1,000 runs and 10 million step rows, and how large it is.

    python benchmarks/page.py [FOLDER]

The workspace is made once, with its rows in twenty files that the runs share by hard links: each run reads as its own.
Times are of a real server on loopback, from the request's first byte to the answer's last; `first` is the first request
after the server began to listen, `again` the median of nine more. What is asked of it: the first page within 200 ms and
300 KB with all that it loads, the comparison of twenty runs within 500 ms once its files were read.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from testigo.campaign import Workspace, load
from testigo.campaign.registration import register
from testigo.campaign.starting import new_campaign

N_RUNS, N_UPDATES, N_FILES = 1000, 10_000, 20
AGAIN = 9


def make(folder: Path) -> Path:
    """The workspace of a campaign with a thousand seeds: all runs but one have ended. It goes on where it was."""
    root = folder / "many.testigo"
    if (folder / "made").exists():
        return root
    file = folder / "campaign" / "campaign.yaml"
    file = file if file.exists() else new_campaign(folder / "campaign")
    text = re.sub(r"(?m)^seeds:.*$", f"seeds: {list(range(N_RUNS))}", file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8")
    campaign = load(file)
    workspace = Workspace(root).create(campaign)
    sources = [_steps(folder / f"steps-{n}.jsonl", seed=n) for n in range(N_FILES)]
    with workspace.open_ledger(create=True) as ledger:
        register(campaign, ledger)
        known = {run.id: run.state for run in ledger.runs()}
        for n in range(len(known) - 1 if known else 0, N_RUNS):
            name = f"control-s{n}-{n:010x}"
            if known.get(name) == "running":  # where it was interrupted
                ledger.end_run(name, state="completed", updates=N_UPDATES, seconds=5000.0)
            if name in known:
                continue
            ledger.plan_run(name, variant="control", seed=n, defines={})
            ledger.start_run(name, pid=os.getpid())
            _folder(workspace.run(name), sources[n % N_FILES])
            if n < N_RUNS - 1:
                ledger.end_run(name, state="completed", updates=N_UPDATES, seconds=5000.0)
    (folder / "made").touch()
    return root


def _folder(folder: Path, steps: Path) -> None:
    folder.mkdir(parents=True)
    os.link(steps, folder / "steps.jsonl")
    (folder / "result.json").write_text(json.dumps({"best_validation_loss": 0.5, "state": "completed"}))


def _steps(path: Path, *, seed: int) -> Path:
    if path.exists():
        return path
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for n in range(1, N_UPDATES + 1):
            loss = 2.5 * math.exp(-n / 3000) + 0.3 + draw.random() / 10
            line = {"update": n, "loss": loss, "learning_rate": 1e-4, "gradient_norm": 1 + draw.random(),
                    "supervised_tokens": 900, "tokens": 2100, "examples": 8, "seconds": 0.5,
                    "resident_bytes": 3 << 30, "rows": [f"row-{draw.randrange(5000)}" for _ in range(8)]}  # fmt: skip
            file.write(json.dumps(line) + "\n")
            if n % 200 == 0:
                file.write(json.dumps({"update": n, "validation_loss": loss + 0.05, "seconds": 4.0}) + "\n")
    return path


class Server:
    """The page as a process of its own."""

    def __init__(self, workspace: Path) -> None:
        command = [sys.executable, "-m", "testigo.page", str(workspace), "--port", "0", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["address"].split("/")[2]

    def get(self, path: str) -> tuple[float, bytes]:
        """Milliseconds and body."""
        connection = http.client.HTTPConnection(self.address, timeout=120)
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        milliseconds = 1e3 * (time.perf_counter() - began)
        assert answer.status == 200, (path, answer.status)
        connection.close()
        return milliseconds, body

    def told(self, name: str, path: str) -> bytes:
        """Ask once and some times more, and say how long it took."""
        first, body = self.get(path)
        again = statistics.median(self.get(path)[0] for _ in range(AGAIN))
        print(f"{name:<44} first {first:8.0f} ms   again {again:8.0f} ms   {len(body) / 1e3:8.1f} KB")
        return body


def main(folder: Path) -> None:
    """Make the workspace and measure."""
    began = time.perf_counter()
    root = make(folder)
    print(f"{N_RUNS:,} runs, {N_RUNS * N_UPDATES:,} step rows, made in {time.perf_counter() - began:.0f} s")
    server = Server(root)
    try:
        body = server.told("the first page", "/").decode()
        assets = re.findall(r'(?:href|src)="(/assets/[^"]+)"', body)
        whole = len(body) + sum(len(server.get(path)[1]) for path in assets)
        print(f"{'with style sheets, script and icon':<44} {whole / 1e3:.0f} KB")
        server.told("the runs, by state", "/runs?sort=state")
        server.told("the runs, by best validation", "/runs?sort=validation&down=1")
        runs = "&".join(f"run=control-s{n}-{n:010x}" for n in range(20))
        server.told("comparison of twenty runs", f"/compare?{runs}")
        server.told("  one of its pictures, as the script asks", f"/curves?what=loss&{runs}")
        server.told("  over tokens, smoothed", f"/curves?what=loss&axis=tokens&smooth=0.9&{runs}")
        server.told("one run", f"/runs/control-s0-{0:010x}")
        server.told("the ledger", "/ledger")
    finally:
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as aside:
            main(Path(aside))
