"""The one place that talks to an accelerator: which one, its memory counters, its synchronisation.

Everything goes through `torch.accelerator`, so CUDA and ROCm are one case, and a CPU is the other.
"""

from __future__ import annotations

import contextlib
import platform
import re
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
import torch

LIBRARIES = ("torch", "transformers", "peft", "bitsandbytes", "safetensors", "tokenizers", "numpy", "testigo")


@dataclass(frozen=True)
class Memory:
    """Allocated and reserved are one device's and never added; resident is the process's own [bytes]."""

    allocated_bytes: int | None
    reserved_bytes: int | None
    resident_bytes: int

    def to_json(self) -> dict[str, int | None]:
        """Plain values."""
        return asdict(self)


def device() -> torch.device:
    """The current accelerator, or the CPU."""
    current = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return current or torch.device("cpu")


def n_accelerators() -> int:
    """How many devices there are beside the CPU."""
    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0


def synchronise() -> None:
    """Wait until the device has done all that was asked, so that clocks and counters speak of finished work."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def free_cache() -> None:
    """Give memory that the allocator keeps for later back to the device."""
    if torch.accelerator.is_available():
        synchronise()
        torch.accelerator.empty_cache()


def memory_now() -> Memory:
    """The level at this moment."""
    resident = psutil.Process().memory_info().rss
    if not torch.accelerator.is_available():
        return Memory(None, None, resident)
    return Memory(torch.accelerator.memory_allocated(), torch.accelerator.memory_reserved(), resident)


def reset_peak() -> None:
    """Start a new measurement of the peak. On Linux the resident peak restarts too (`/proc/self/clear_refs`)."""
    if torch.accelerator.is_available():
        torch.accelerator.reset_peak_memory_stats()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def memory_peak() -> Memory:
    """The absolute peak since `reset_peak`, after synchronisation."""
    synchronise()
    if not torch.accelerator.is_available():
        return Memory(None, None, _resident_peak_bytes())
    return Memory(
        torch.accelerator.max_memory_allocated(), torch.accelerator.max_memory_reserved(), _resident_peak_bytes()
    )


def _resident_peak_bytes() -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: on an accelerator, in Python, or on the CPU, where torch raises a plain RuntimeError."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
    )


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Leave the global random state of CPU and accelerator as it was found."""
    kinds = [device().type] if torch.accelerator.is_available() else []
    with torch.random.fork_rng(
        devices=range(torch.accelerator.device_count()) if kinds else [], device_type=(kinds or ["cuda"])[0]
    ):
        yield


def versions() -> dict[str, str]:
    """The versions really in use."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def driver_version() -> str:
    """The GPU driver that the kernel has loaded, "" where there is none."""
    with contextlib.suppress(OSError):
        found = re.search(r"Kernel Module\D+([\d.]+)", Path("/proc/driver/nvidia/version").read_text())
        return f"NVIDIA {found.group(1)}" if found else ""
    with contextlib.suppress(OSError):
        return f"amdgpu {Path('/sys/module/amdgpu/version').read_text().strip()}"
    return ""


def platform_description() -> dict[str, str | int]:
    """What a pilot's verdict belongs to: another one asks for a new pilot."""
    where = device()
    described: dict[str, str | int] = {
        "system": f"{platform.system()} {platform.machine()}",
        "device": where.type,
        "devices": n_accelerators(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda or "",
        "rocm": torch.version.hip or "",
        "driver": driver_version(),
    }
    if where.type == "cuda":
        properties = torch.cuda.get_device_properties(where)
        described |= {"gpu": properties.name, "gpu_bytes": properties.total_memory}
    return described | versions()
