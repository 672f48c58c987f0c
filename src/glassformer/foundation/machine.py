"""How much of this machine a process may use: cores, memory, GPUs. Imports no torch, which would take seconds to say."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path


def cores(limit_file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores this process may use: the machine's, less what affinity or a container's limit takes away."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or "max": no limit
        quota, period = limit_file.read_text().split()
        count = min(count, round(int(quota) / int(period)))
    return max(1, count)


def give_large_blocks_back(size: int = 1 << 20) -> bool:
    """From now on this process gives every freed block of at least ``size`` bytes back to the system; for servers.

    glibc otherwise raises that limit to 32 MB as a process runs, and tensors of ever other shapes leave holes in its heap. The
    memory then creeps up for thousands of requests though no more of it is used. False where there is no glibc, or where the
    environment has its own rule.
    """
    if "MALLOC_MMAP_THRESHOLD_" in os.environ or "mmap_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    if platform.libc_ver()[0] != "glibc":
        return False
    mmap_threshold = -3  # M_MMAP_THRESHOLD of malloc.h
    return bool(ctypes.CDLL(None).mallopt(mmap_threshold, size))


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


def about() -> str:
    """What a bug report needs in its first lines: versions, commit, device."""
    lines = [
        f"glassformer {_installed('glassformer')}{_commit()}",
        f"Python {platform.python_version()}",
        f"torch {_installed('torch')}",
    ]
    lines.append(f"{platform.system()} {platform.machine()}, {cores()} cores")
    return "\n".join([*lines, *(_gpu_names() if gpus() else ["no GPU"])])


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of a source tree, and whether it was changed since; nothing for an installed package."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"]
        return f" (commit {subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()})"
    return ""


def _gpu_names() -> list[str]:
    """By the driver's own program: torch would take seconds."""
    if shutil.which("nvidia-smi"):
        with suppress(OSError, subprocess.SubprocessError):
            listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=20).stdout
            return [line.partition(" (UUID")[0] for line in listed.splitlines()]
    return [f"GPU {number}" for number in gpus()]
