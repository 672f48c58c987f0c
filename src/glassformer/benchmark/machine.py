"""What this machine can do: measured rates of matrix products and of memory, to compare programs with."""

from __future__ import annotations

import os
import platform
from datetime import date
from typing import Any

import torch

from glassformer.benchmark.timing import Program, measure, timed
from glassformer.foundation.runtime import Runtime, device_name

MATRIX_SIZE = {"cpu": 1536, "cuda": 8192}
"""Large enough to run at the full rate, small enough for a fraction of a second."""
MEMORY_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
"""Much more than any cache."""
MATRIX_REPEATS = {"cpu": 4, "cuda": 20}


def measure_machine(runtime: Runtime, dtype: torch.dtype, *, rounds: int) -> dict[str, list[float]]:
    """FLOP/s of matrix products and bytes/s of memory."""
    programs = {"matrix_flops": matrix_program(runtime.device, dtype), "memory_bytes": memory_program(runtime.device)}
    meters = {name: timed(program, runtime.device) for name, program in programs.items()}
    measure(meters, rounds=1)  # loads kernels and touches the memory
    return measure(meters, rounds=rounds)


def matrix_program(device: torch.device, dtype: torch.dtype) -> Program:
    """Square matrix products; its rate is FLOP/s."""
    size, repeats = MATRIX_SIZE.get(device.type, 2048), MATRIX_REPEATS.get(device.type, 4)
    a, b = (torch.randn(size, size, device=device, dtype=torch.float32).to(dtype) for _ in range(2))
    result = torch.empty_like(a)

    def program() -> float:
        for _ in range(repeats):
            torch.mm(a, b, out=result)
        return repeats * 2.0 * size**3

    return program


def memory_program(device: torch.device) -> Program:
    """Adds up a large array; its rate is bytes read per second."""
    numbers = torch.ones(MEMORY_BYTES.get(device.type, 256 << 20) // 4, device=device)

    def program() -> float:
        numbers.sum()
        return 4.0 * numbers.numel()

    return program


def describe(runtime: Runtime) -> dict[str, Any]:
    """The machine and the versions, as they stand beside every figure."""
    return {
        "date": date.today().isoformat(),
        "device": device_name(runtime.device),
        "cores": os.cpu_count(),
        "threads": runtime.threads,
        "precision": runtime.precision,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
