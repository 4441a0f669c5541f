"""All measurements of speed, one after the other, and the page that tells them: `make bench`.

    python benchmarks/performance.py [--only PART …] [--render]

Each part is a script of its own that writes `build/bench/PART.json`; `--render` writes `docs/performance.md` anew from
what lies there.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from growth import told as told_growth
from peers import ROOT, middle_and_spread

FOLDER, PAGE = ROOT / "build" / "bench", ROOT / "docs" / "performance.md"
PARTS = {
    "extraction": ("training.py", "extraction", "3"),
    "chat": ("training.py", "chat", "3"),
    "equality": ("training.py", "equality", "20"),
    "evaluation": ("evaluation.py", "100", "2"),
    "loading": ("loading.py",),
    "sizing": ("sizing.py",),
    "growth": ("growth.py",),
}
PACKAGES = ("torch", "transformers", "peft", "trl", "accelerate", "numpy")


def run(part: str) -> None:
    """One part in a process of its own; one that fails leaves the others alone."""
    script, *words = PARTS[part]
    print(f"== {part}", flush=True)
    file = str(FOLDER / f"{part}.json")
    source = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, str(ROOT / "benchmarks" / script), *words, "--json", file]
    subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": source})


def machine() -> str:
    """What the numbers were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    python = platform.python_version()
    return f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB; Python {python}, {packages}."


def figure(name: str, against: str, ratio: Any, least: str) -> str:
    seen = f"{ratio[0]:.2f} ± {ratio[1]:.2f}" if ratio else "not measured"
    return f"| {name} | {against} | {least} | {seen} |"


def figures(found: dict[str, Any]) -> list[str]:
    """A line for each figure to reach."""
    lines = ["| what | against | at least | measured |", "|---|---|---|---|"]
    for case, name, least, best_least in (
        ("extraction", "updates a second, 120 tokens of common prompt, 62 % shared", "2.5 ×", "2 ×"),
        ("chat", "updates a second, chat rows of 30 to 400 tokens", "1.4 ×", "1.05 ×"),
    ):
        peers = found.get(case, {}).get("peers", {})
        default = peers.get("trl defaults")
        kind = min(peers, key=lambda key: peers[key]["ratio"][0], default="best setting")
        best = peers.get(kind)
        lines.append(figure(name, "TRL defaults", default and default["ratio"], least))
        lines.append(figure("the same", f"{kind}, the fastest of TRL's", best and best["ratio"], best_least))
        if case == "extraction":
            share = [found[case]["peak"] / default["peak"], 0.0] if default else None
            lines.append(figure("peak resident memory of training", "TRL defaults", share, "≤ 0.5"))
    equality = found.get("equality")
    seen = f"losses {equality['loss']:.1e}, weights {equality['weights']:.1e}" if equality else "not measured"
    updates = equality["updates"] if equality else 20
    lines.append(f"| losses and weights after {updates} updates | our padded layout | 1e-4 relative | {seen} |")
    lines.append(figure("outputs for 100 rows", "batched `generate`", found.get("evaluation", {}).get("ratio"), "2 ×"))
    loading = found.get("loading", {}).get("ratio")
    lines.append(figure("start of a run that goes on at row 10 million", "a new run", loading, "≤ 1.1"))
    return lines + of_sizing(found.get("sizing"))


def of_sizing(found: dict[str, Any] | None) -> list[str]:
    """How far predictions are from what was allocated, and what a prediction takes."""
    cases, error, effort = "", "not measured", "not measured"
    if found:
        own, big = found["exactness"], found["eight_billion"]
        cases = f" ({own['cases']} cases, {own['predictions']} predictions)"
        error = ", ".join(f"{100 * own[name]:.2f} %".replace("-", "−") for name in ("median", "worst", "lowest"))
        effort = f"{big['seconds']:.0f} s ({big['cpu_seconds']:.0f} s of CPU), {big['resident_gib']:.1f} GiB"
    return [
        f"| error of `testigo size`{cases}: median, worst, lowest | what torch's CPU allocator gave out "
        f"| ≤ 3 %, ≤ 8 %, ≥ −2 % | {error} |",
        f"| sizing an 8 B Llama, LoRA, 2 × 2,048 tokens: time, peak resident memory | | ≤ 90 s, ≤ 3 GiB | {effort} |",
    ]


def cpu(found: dict[str, Any]) -> list[str]:
    """The same by CPU time."""
    head = "| case | peer | seconds, peer and ours | CPU time, peer ÷ ours | peak, peer and ours [MiB] |"
    lines = [head, "|---|---|---|---|---|"]
    for case in ("extraction", "chat"):
        own = found.get(case)
        for name, peer in (own or {}).get("peers", {}).items():
            theirs = middle_and_spread([one["seconds"] for one in peer["updates"]])[0]
            ours = middle_and_spread([one["seconds"] for one in own["ours"]])[0]
            middle, spread = peer["cpu_ratio"]
            peaks = f"{peer['peak'] / 2**20:.0f}, {own['peak'] / 2**20:.0f}"
            lines.append(f"| {case} | {name} | {theirs:.2f}, {ours:.2f} | {middle:.2f} ± {spread:.2f} | {peaks} |")
    return lines


def render() -> None:
    """The page, from the files that there are."""
    found = {part: json.loads(file.read_text()) for part in PARTS if (file := FOLDER / f"{part}.json").is_file()}
    loads = ", ".join(f"{part} {own['load']:.1f}" for part, own in found.items())
    text = (ROOT / "benchmarks" / "performance.txt").read_text(encoding="utf-8")
    parts = {
        "MACHINE": machine(),
        "LOADS": loads or "nothing was measured yet",
        "FIGURES": "\n".join(figures(found)),
        "CPU": "\n".join(cpu(found)),
        "GROWTH": "\n".join(told_growth(found["growth"])) if "growth" in found else "Not measured yet.",
    }
    for name, own in parts.items():
        text = text.replace(f"@{name}@", own)
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")


def main(words: list[str]) -> None:
    if "--render" not in words:
        for part in [word for word in words if word in PARTS] or PARTS:
            run(part)
    render()


if __name__ == "__main__":
    main(sys.argv[1:])
