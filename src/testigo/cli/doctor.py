"""`testigo doctor`."""

from __future__ import annotations

import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from testigo.cli.output import JsonFlag, ending, print_json, show, show_table

_GIB = 1 << 30
_LEAST_DISK_BYTES = 5 * _GIB
"""A small base, its checkpoints and a dossier; what a campaign really needs is checked before it starts."""


def doctor(as_json: JsonFlag = False) -> None:
    """Say what this machine can do: versions, torch's build, devices, memory, disk, and which precisions make sense.

    Example: testigo doctor
    """
    libraries = _libraries()
    torch = _torch()
    memory = _memory()
    disk = shutil.disk_usage(Path.cwd())
    problems = [f"{name}: {found['problem']}" for name, found in libraries.items() if found["problem"]]
    problems += [torch["problem"]] if torch["problem"] else []
    notes = [*_meaning(torch), *([] if disk.free >= _LEAST_DISK_BYTES else [_little_disk(disk.free)])]
    document = {
        "ok": not problems,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: found["version"] for name, found in libraries.items()},
        "torch": {key: torch[key] for key in ("version", "build", "threads")},
        "devices": torch["devices"],
        "precision": torch["precision"],
        "memory": memory,
        "disk": {"folder": str(Path.cwd()), "free_bytes": disk.free, "total_bytes": disk.total},
        "problems": problems,
        "meaning": notes,
    }
    if as_json:
        print_json(document)
    else:
        _show(document)
    ending(
        checked="libraries, devices, memory and disk of this machine",
        not_checked="whether a campaign fits; `testigo pilot` measures it",
        next_command="testigo new FOLDER",
    )
    if problems:
        raise typer.Exit(1)


def _libraries() -> dict[str, dict[str, str | None]]:
    """Each library that Testigo needs: the version found, and what is wrong with it."""
    from packaging.requirements import InvalidRequirement, Requirement

    found: dict[str, dict[str, str | None]] = {}
    for line in metadata.requires("testigo") or []:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version: str | None = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            found[requirement.name] = {"version": None, "problem": f"not installed; pip install '{requirement}'"}
            continue
        fits = requirement.specifier.contains(version or "", prereleases=True)
        problem = None if fits else f"{version} is not {requirement.specifier}; pip install '{requirement}'"
        found[requirement.name] = {"version": version, "problem": problem}
    return found


def _torch() -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "version": None,
        "build": None,
        "threads": None,
        "devices": [],
        "precision": {},
        "problem": None,
    }
    try:
        import torch
    except Exception as error:  # a build that does not fit the machine fails in many ways
        return {**nothing, "problem": f"torch does not import: {type(error).__name__}: {error}"}
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    if getattr(torch.version, "hip", None):
        build = f"ROCm {torch.version.hip}"
    devices: list[dict[str, Any]] = []
    has_bf16 = _cpu_has_bf16()
    if torch.cuda.is_available():
        has_bf16 = torch.cuda.is_bf16_supported()
        for number in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(number)
            free_bytes, total_bytes = torch.cuda.mem_get_info(number)
            devices.append(
                {
                    "device": f"cuda:{number}",
                    "name": properties.name,
                    "free_bytes": free_bytes,
                    "total_bytes": total_bytes,
                }
            )
    on_gpu = bool(devices)
    precision = {
        "fp32": "yes",
        "bf16": "yes" if has_bf16 else "slow: no support in hardware",
        "fp16": "yes, with loss scaling" if on_gpu else "no: for GPUs only",
    }
    return {
        **nothing,
        "version": torch.__version__,
        "build": build,
        "threads": torch.get_num_threads(),
        "devices": devices,
        "precision": precision,
    }


def _cpu_has_bf16() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(flag in flags for flag in ("avx512_bf16", "amx_bf16", " bf16"))


def _memory() -> dict[str, int]:
    import psutil

    memory = psutil.virtual_memory()
    return {"available_bytes": memory.available, "total_bytes": memory.total, "cores": psutil.cpu_count() or 1}


def _meaning(torch: dict[str, Any]) -> list[str]:
    if torch["version"] is None:
        return []
    if n_devices := len(torch["devices"]):
        return [f"{n_devices} GPU(s): a run uses the first; this version trains in one process."]
    notes = ["No GPU is used: models of some 100 million weights train here in minutes to hours, larger ones in days."]
    if shutil.which("nvidia-smi") and torch["build"] == "CPU only":
        notes.append("There is an NVIDIA driver, but this torch is built for the CPU: install a CUDA build of torch.")
    if torch["precision"]["bf16"] != "yes":
        notes.append("Use precision: fp32 here; without hardware support bf16 is tens of times slower.")
    return notes


def _little_disk(free_bytes: int) -> str:
    return f"Only {free_bytes / _GIB:.1f} GiB of disk are free here: checkpoints may not fit."


def _show(document: dict[str, Any]) -> None:
    show(f"python {document['python']} ({sys.executable}), {document['platform']}")
    torch = document["torch"]
    show(f"torch {torch['version']}, {torch['build']}, {torch['threads']} threads")
    memory, disk = document["memory"], document["disk"]
    show(
        f"memory {memory['available_bytes'] / _GIB:.1f} of {memory['total_bytes'] / _GIB:.1f} GiB available, "
        f"{memory['cores']} cores; disk {disk['free_bytes'] / _GIB:.1f} GiB free in {disk['folder']}"
    )
    for device in document["devices"]:
        free, total = device["free_bytes"] / _GIB, device["total_bytes"] / _GIB
        show(f"{device['device']} {device['name']}, {free:.1f} of {total:.1f} GiB free")
    show("precision " + "; ".join(f"{name}: {words}" for name, words in document["precision"].items()))
    show_table(("library", "version"), [(name, version or "-") for name, version in document["libraries"].items()])
    for note in document["meaning"]:
        show(note)
    for problem in document["problems"]:
        show(problem, style="bold red")
