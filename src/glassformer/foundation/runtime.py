"""The machine a run happens on: device, precision, threads, determinism; chosen, shown to the user and recorded.

An instruction the machine lacks never kills the user's process: precisions other than float32 are tried in a child
process first. Importing this module imports torch.
"""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Literal

# Deterministic matrix products on CUDA need a fixed workspace, and the variable is read when CUDA starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.foundation.files import training_code_sha256
from glassformer.foundation.plugins import loaded_plugins
from glassformer.foundation.process_rank import Place

Precision = Literal["float32", "bf16"]


@dataclass(frozen=True)
class Runtime:
    """What was chosen. ``notes`` are sentences for the user: what `auto` chose, what could not be had."""

    device: torch.device
    precision: Precision
    threads: int
    notes: tuple[str, ...] = field(default=())

    def autocast(self) -> AbstractContextManager[Any]:
        """The context forward passes run in: bf16 products with float32 weights, or nothing."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def to_dict(self) -> dict[str, Any]:
        return {
            "device": str(self.device),
            "device_name": device_name(self.device),
            "precision": self.precision,
            "threads": self.threads,
            "notes": list(self.notes),
        }


def choose_runtime(
    *, device: str = "auto", precision: str = "auto", threads: int | None = None, place: Place | None = None
) -> Runtime:
    """Chooses and applies a runtime (threads, determinism). ``place``: of several processes, each takes a GPU of its own."""
    chosen = choose_device(device) if place is None else choose_device_of(place, device)
    if threads is not None:
        torch.set_num_threads(threads)
    if chosen.type == "cuda" and chosen.index is not None:
        torch.cuda.set_device(chosen)  # streams, graphs and kernels of ours work on the current device
    kind, notes = choose_precision(precision, chosen)
    be_deterministic()
    return Runtime(device=chosen, precision=kind, threads=torch.get_num_threads(), notes=tuple(notes))


def choose_device(name: str) -> torch.device:
    """``auto``: the GPU if there is one (CUDA, then Apple's), otherwise the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    available = ["cpu"] + ["cuda"] * (gpus > 0) + [f"cuda:{number}" for number in range(gpus)]
    available += ["mps"] * torch.backends.mps.is_available()
    if name not in available:
        raise ConfigError(
            f"training.device={name} is not on this machine; it has: {', '.join(available)} (or use auto).",
            reason="no-such-device",
        )
    return torch.device(name)


def choose_device_of(place: Place, name: str) -> torch.device:
    """The device of one of several processes: the GPU of its number on this machine; more processes than GPUs share them."""
    if name.startswith("cuda:"):
        raise ConfigError(
            f"training.device={name} is one GPU, but {place.world} processes need one each; use cuda or auto.",
            reason="one-gpu-for-all",
        )
    chosen = choose_device(name)
    if chosen.type == "mps":
        raise ConfigError(
            f"training.device={name} is Apple's GPU, which {place.world} processes cannot share; use one process, or "
            "training.device=cpu.",
            reason="no-processes-on-mps",
        )
    return torch.device("cuda", place.local_rank % torch.cuda.device_count()) if chosen.type == "cuda" else chosen


def choose_precision(name: str, device: torch.device) -> tuple[Precision, list[str]]:
    """``auto``: bf16 on CUDA GPUs that have it, float32 elsewhere. bf16 that does not work becomes float32, with a sentence."""
    if name == "float32":
        return "float32", []
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16", ["precision auto: bf16 products with float32 weights."] if name == "auto" else []
        return "float32", [] if name == "auto" else ["bf16 was asked for, but this GPU has no bf16: using float32."]
    if name == "auto":
        return "float32", []
    if bf16_works(device.type):
        return "bf16", []
    return "float32", [
        f"bf16 was asked for, but bf16 products do not work on this {device.type} (tried in a child process): using float32."
    ]


@functools.cache
def bf16_works(device_type: str) -> bool:
    """Whether bf16 matrix products run here: a child process tries, so that an illegal instruction kills only it."""
    program = (
        "import torch\n"
        f"a = torch.randn(129, 65, device={device_type!r}, requires_grad=True)\n"
        f"with torch.autocast({device_type!r}, dtype=torch.bfloat16):\n"
        "    b = a @ a.T\n"
        "b.float().sum().backward()\n"
    )
    try:
        attempt = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):  # no child, or one that hangs: nothing that worked was seen
        return False
    return attempt.returncode == 0


def be_deterministic() -> None:
    """The same inputs give the same bits on the same build, device and number of threads."""
    # Not "warn": with it, torch's attention kernels take their faster, non-deterministic backward pass. And not
    # use_deterministic_algorithms: it imports torch's compiler, which takes seconds; whoever compiles tells it himself.
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # costs time and changes no result of ours
    torch.backends.cudnn.benchmark = False


def seed_torch(seed: int) -> None:
    """Sets every generator of torch; called with a derived seed before each step."""
    kind = _kind_of_device()
    if kind not in ("cpu", "cuda"):
        torch.manual_seed(seed)
        return
    # torch.manual_seed would note the call, with a whole traceback, for every kind of device that is not there: 1.3 ms a step
    torch.default_generator.manual_seed(seed)
    if kind == "cuda":
        torch.cuda.manual_seed_all(seed)


@functools.cache
def _kind_of_device() -> str:
    return choose_device("auto").type


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the machine had no room; on a CPU torch says so in words only."""
    words = ("can't allocate memory", "not enough memory", "Storage size calculation overflowed")
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(word in str(error) for word in words)


def is_cuda_fault(error: BaseException) -> bool:
    """Whether a kernel failed (an assertion on the device, an illegal address): the process cannot use its GPU after that."""
    return isinstance(error, RuntimeError) and "CUDA error" in str(error) and not is_out_of_memory(error)


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name() if device.type == "cpu" else str(device)


def environment(runtime: Runtime) -> dict[str, Any]:
    """Everything about this machine and process that may change a bit of the result."""
    return {
        "glassformer": version(),
        "code_sha256": training_code_sha256(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "plugins": loaded_plugins(),
        **runtime.to_dict(),
    }


def version() -> str:
    try:
        return metadata.version("glassformer")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"


def cpu_name() -> str:
    """The processor, as its maker calls it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            return next(
                (line.partition(":")[2].strip() for line in stream if line.startswith("model name")), platform.machine()
            )
    except OSError:
        return platform.processor() or platform.machine()


def generation_precision(precision: str, say: Callable[[str], None]) -> tuple[torch.device, str]:
    """The device and the precision a model generates in; says so where the device lacks the requested precision."""
    if precision not in ("float32", "bf16"):
        raise UsageError(f"precision={precision!r} cannot be used: choose float32 or bf16.", reason="unknown-precision")
    device = choose_device("auto")
    kind, remarks = choose_precision(precision, device)
    for remark in remarks:
        say(remark)
    return device, kind
