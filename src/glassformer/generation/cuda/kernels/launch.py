"""How the kernels of a decoding step are launched: programmatic dependent launch, and one shared-memory carve-out for all.

With programmatic dependent launch (Hopper and later) a kernel is set up while the one before still runs, and waits for its
results itself. The carve-out is how a processor's own memory is divided between shared memory and first-level cache. Without
one for all, each kernel takes what its neighbours left, and attention has room for the keys and values on their way to it
only by chance (docs/lab).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch

SHARED_PERCENT = 40
"""The carve-out: the rest is cache, through which keys and values come. On an H200 35 to 50 were the same; a kernel that
needs more (the linear layers onto the residual stream of many rows, by a little) is given more."""
PREFERRED_SHARED_MEMORY_CARVEOUT = 9
"""CUDA's number for this attribute of a function."""


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Launches a Triton kernel that takes ``PDL``: whether it waits for the kernel before it by itself."""
    compiled = kernel[grid](*arguments, **options, **pdl_options())
    function = getattr(compiled, "function", None)  # not a public name; Triton's interpreter has nothing of the kind
    if pdl_options()["PDL"] and isinstance(function, int):
        prefer_carveout(function)


@cache
def pdl_options() -> dict[str, bool]:
    """The launch options for this GPU."""
    able = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
    return {"PDL": True, "launch_pdl": True} if able else {"PDL": False}


@cache
def prefer_carveout(function: int) -> bool:
    """Tells the driver the carve-out, once for each function; returns whether it took it. It changes speed and no result."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    answer: int = driver.cuFuncSetAttribute(ctypes.c_void_p(function), PREFERRED_SHARED_MEMORY_CARVEOUT, SHARED_PERCENT)
    return answer == 0
