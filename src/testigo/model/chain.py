"""The chain from device to library that a campaign stands on, and what each link means for it.

It holds as its weakest link does: a driver without a matching build of torch is a slow CPU run, a precision without
hardware support a run of days.
"""

from __future__ import annotations

import contextlib
import math
import platform
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import torch
from packaging.requirements import InvalidRequirement, Requirement

from testigo.campaign import Campaign, planned_runs
from testigo.errors import CampaignError, MissingExtra, TestigoError
from testigo.model.base import base_of
from testigo.model.code import own_bits
from testigo.model.device import device, driver_version, n_accelerators, synchronise
from testigo.model.quantised import require

GIB = 1 << 30
SIDE = 1024
"""Of the matrices that are multiplied to compare number formats: large enough for the kernels that models use."""
LEAST_SPEED = 0.4
"""Below this share of the speed of fp32 a format is emulated, and costs more than its smaller size can give back."""
LEAST_DISK_BYTES = 5 * GIB
"""A small base, its checkpoints and a dossier; what a campaign really needs is checked before it starts (X109)."""


@dataclass(frozen=True)
class Link:
    """One link: what was found, what it means, and what is wrong with it (nothing, when it is sound)."""

    name: str
    found: str
    means: str = ""
    problem: str = ""

    def to_json(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


def chain(campaign: Campaign | None = None, folder: Path = Path()) -> tuple[Link, ...]:
    """Every link of this machine from the device to the disk, the campaign's own needs held against them."""
    return (
        _python(),
        *_devices(),
        _driver(),
        _build(),
        *_precisions(campaign),
        _attention(campaign),
        _quantisation(campaign),
        *_base(campaign),
        *_libraries(),
        *_extras(campaign),
        _memory(),
        _disk(folder),
    )


def precisions() -> dict[str, str]:
    """What each number format of a campaign is here: `yes`, with its measured speed, or why not.

    A flag of the processor says little: what counts is how fast a product of matrices is.
    """
    bf16, fp16 = speed_against_fp32(torch.bfloat16), speed_against_fp32(torch.float16)
    on_device = device().type != "cpu"
    return {
        "fp32": "yes",
        "bf16": _in_words(bf16),
        "fp16": f"{_in_words(fp16)}, with loss scaling" if on_device else "no: for GPUs only",
    }


def speed_against_fp32(dtype: torch.dtype) -> float | None:
    """How many times as fast as fp32 a matrix product is: the best of five each, alternating. None where it fails."""
    seconds: dict[torch.dtype, float] = {}
    try:
        for own in (torch.float32, dtype) * 5:
            matrix = torch.ones(SIDE, SIDE, dtype=own, device=device())
            synchronise()
            began = time.perf_counter()
            matrix @ matrix
            synchronise()
            seconds[own] = min(time.perf_counter() - began, seconds.get(own, math.inf))
    except RuntimeError:
        return None
    return seconds[torch.float32] / seconds[dtype]


def _in_words(speed: float | None) -> str:
    if speed is None:
        return "no: the device cannot multiply it"
    return f"{'yes' if speed >= LEAST_SPEED else 'slow'}, {speed:.2g} × the speed of fp32"


def _python() -> Link:
    return Link("python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")


def _devices() -> Iterator[Link]:
    n_devices = n_accelerators()
    if not n_devices:
        means = "100 million weights train in minutes to hours, more in days"
        yield Link("device", f"CPU, {torch.backends.cpu.get_cpu_capability()}", means)
    for number in range(n_devices):
        free, total, name = _of_device(number)
        means = "a run uses this one" if number == 0 else "for variants side by side, or several processes"
        yield Link(f"device {number}", f"{name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free", means)


def _of_device(number: int) -> tuple[int, int, str]:
    """Free and total memory [bytes] and name of an accelerator."""
    free, total = torch.accelerator.get_memory_info(number)
    name = torch.cuda.get_device_name(number) if device().type == "cuda" else device().type
    return int(free), int(total), name


def _driver() -> Link:
    found, tool = driver_version(), next((name for name in ("nvidia-smi", "rocm-smi") if shutil.which(name)), None)
    if found and device().type == "cpu":
        means = "a GPU driver that this torch does not use: install a build of torch for it"
        return Link("driver", found, means, problem="" if torch.version.cuda or torch.version.hip else means)
    if tool and not found:
        return Link("driver", f"{tool} is installed, no driver answers", "the GPU is not usable: mend the driver")
    return Link("driver", found or "none", "" if found else "no GPU driver on this machine")


def _build() -> Link:
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    if torch.version.hip:
        build = f"ROCm {torch.version.hip}"
    means = "" if device().type != "cpu" or build == "CPU only" else "built for a GPU, and finds none"
    return Link("torch", f"{torch.__version__}, {build}, {torch.get_num_threads()} threads", means)


def _precisions(campaign: Campaign | None) -> Iterator[Link]:
    declared = campaign.model.precision if campaign else None
    found = precisions()
    for name, words in found.items():
        bad = name == declared and words.startswith(("no", "slow"))
        means = "declared by the campaign" if name == declared else ""
        problem = f"the campaign declares precision: {name}, which is {words}" if bad else ""
        yield Link(f"precision {name}", words, means, problem)


def _attention(campaign: Campaign | None) -> Link:
    kernels = ["math"]
    if device().type == "cuda":
        kernels += ["flash"] if torch.backends.cuda.is_flash_attention_available() else []
        kernels += ["memory-efficient"] if torch.backends.cuda.mem_efficient_sdp_enabled() else []
    elif device().type == "cpu":
        kernels += ["flash"]
    kernels += ["flash_attn package"] if find_spec("flash_attn") else []
    packed = campaign is None or campaign.encoding.layout == "packed"
    means = "what packs with their mask may use" if packed else ""
    return Link("attention kernels", ", ".join(kernels), means)


def _quantisation(campaign: Campaign | None) -> Link:
    found = [f"{name} {version(name)}" for name in ("bitsandbytes", "torchao", "gguf") if find_spec(name)]
    bits = "bases in 4 and 8 bits; " if find_spec("bitsandbytes") else "bases in 4 and 8 bits need testigo[quantised]; "
    means = bits + ("GGUF bases are read and dequantised" if find_spec("gguf") else "GGUF bases need testigo[gguf]")
    problem = ""
    with contextlib.suppress(CampaignError):  # of variants: the file itself was read
        declared = {planned.campaign.model.quantise for planned in planned_runs(campaign)} if campaign else set()
        try:
            require(next(filter(None, declared), None))
        except MissingExtra as error:
            problem = f"model.quantise needs {error.problems[0].expected}: {error.problems[0].action}"
    return Link("quantisation", ", ".join(found) or "none", means, problem)


def _base(campaign: Campaign | None) -> Iterator[Link]:
    """A base on this disk; one from the hub is looked for when the campaign is checked."""
    if campaign is None or campaign.model.base.startswith("hub:"):
        return
    try:
        files = base_of(campaign)
    except TestigoError as error:
        yield Link("base", "-", campaign.model.base, error.problems[0].found)
        return
    needs_gguf = files.gguf is not None and not find_spec("gguf")
    problem = "it is a GGUF file: pip install 'testigo[gguf]'" if needs_gguf else ""
    if files.gguf is None and (own := own_bits(files.folder)):
        problem = f"its weights are quantised already, by {own}: name the base from which they were made"
    yield Link("base", f"{campaign.model.base}, weights {files.identity.weights_sha256[:12]}…", "", problem)


def _libraries() -> Iterator[Link]:
    for requirement in _requirements():
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        yield _library(requirement)


def _extras(campaign: Campaign | None) -> Iterator[Link]:
    """The optional libraries that the campaign's trackers need."""
    wanted = set(campaign.track.declared if campaign else ())
    for requirement in _requirements():
        extras = [name for name in wanted if requirement.marker and requirement.marker.evaluate({"extra": name})]
        if extras and not requirement.marker.evaluate({"extra": ""}):  # type: ignore[union-attr]
            yield _library(requirement, means=f"for track: [{extras[0]}]")


def _requirements() -> Iterator[Requirement]:
    for line in requires("testigo") or []:
        with contextlib.suppress(InvalidRequirement):
            yield Requirement(line)


def _library(requirement: Requirement, means: str = "") -> Link:
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return Link(requirement.name, "-", means, problem=f"not installed; pip install '{requirement}'")
    fits = requirement.specifier.contains(found, prereleases=True)
    problem = "" if fits else f"{found} is not {requirement.specifier}; pip install '{requirement}'"
    return Link(requirement.name, found, means, problem)


def _memory() -> Link:
    memory = psutil.virtual_memory()
    found = f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB available, {psutil.cpu_count() or 1} cores"
    return Link("memory", found, "`testigo size` tells what a campaign needs")


def _disk(folder: Path) -> Link:
    free = shutil.disk_usage(folder).free
    means = "" if free >= LEAST_DISK_BYTES else "little: checkpoints may not fit"
    return Link("disk", f"{free / GIB:.1f} GiB free in {folder.resolve()}", means)


def measured_bytes(folder: Path = Path()) -> dict[str, Any]:
    """Memory, disk and devices in bytes, for machines."""
    memory, disk = psutil.virtual_memory(), shutil.disk_usage(folder)
    n_devices = n_accelerators()
    devices = [dict(zip(("free_bytes", "total_bytes", "name"), _of_device(n), strict=True)) for n in range(n_devices)]
    return {
        "memory": {"available_bytes": memory.available, "total_bytes": memory.total},
        "disk": {"folder": str(folder.resolve()), "free_bytes": disk.free, "total_bytes": disk.total},
        "devices": devices,
    }
