"""What this machine can run side by side: cores this process may use, and shares of its GPUs. Imports no torch."""

from __future__ import annotations

import os
from pathlib import Path

PER_GPU = 6  # with four, one in four is loading, compiling or saving at any time, and the GPU waits (LAB.md)
PROCESS_BYTES = 600 << 20  # what one process of torch takes on a GPU before its first tensor
SLACK = 1.5  # workspaces and fragments, beside what a plan counts


def cores(limit_file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores this process may use: the machine's, less what affinity or a container's limit takes away."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, _quota(limit_file) or count))


def _quota(limit_file: Path) -> int | None:
    """The cores a container was given, or None without such a limit."""
    try:
        quota, period = limit_file.read_text().split()
        return max(1, round(int(quota) / int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        return None


def per_gpu(needed_bytes: int, free_bytes: int, most: int = PER_GPU) -> int:
    """How many trials share one GPU: as many as fit into its free memory, ``most`` at most, one at least."""
    return max(1, min(most, int(free_bytes // (SLACK * needed_bytes + PROCESS_BYTES))))
