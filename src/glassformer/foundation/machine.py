"""How much of this machine a process may use: cores, memory, GPUs. Imports no torch, which would take seconds to say."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def cores(limit_file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores this process may use: the machine's, less what affinity or a container's limit takes away."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or "max": no limit
        quota, period = limit_file.read_text().split()
        count = min(count, round(int(quota) / int(period)))
    return max(1, count)


def memory_bytes() -> int:
    """The memory of this machine, or more than any model takes where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows, and some containers
        return 1 << 62


def gpus(devices: Path = Path("/dev")) -> list[str]:
    """The GPUs a process started here may use: CUDA_VISIBLE_DEVICES, or those of the machine."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [one for one in visible.split(",") if one.strip() not in ("", "-1")]
    return sorted(one.name.removeprefix("nvidia") for one in devices.glob("nvidia[0-9]*"))
