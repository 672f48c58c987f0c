"""Kernels that follow one another closely, as those of a step do: how they are launched so that none waits in vain.

Where the GPU can (Hopper and later), a kernel is set up while the one before still runs, and waits for its results itself
(CUDA's programmatic dependent launch). And all wish the same division of a processor's own memory between shared memory and
first-level cache: otherwise each kernel takes what its neighbours left, and whether attention has room for the keys and
values that are on their way to it is a matter of what ran before (LAB.md).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch

SHARED_PERCENT = 40
"""Of a processor's own memory, for sharing; the rest is cache, through which keys and values come. On an H200 35 to 50 were
the same; a kernel that needs more (the products onto the stream of many rows, by a little) is given more."""
PREFERRED_SHARED_MEMORY_CARVEOUT = 9
"""CUDA's number for this attribute of a function."""


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Launches a kernel of Triton's as a link of a chain; it takes ``CHAINED``."""
    compiled = kernel[grid](*arguments, **options, **link())
    function = getattr(compiled, "function", None)  # not a public name; Triton's interpreter has nothing of the kind
    if link()["CHAINED"] and isinstance(function, int):
        divide_memory(function)


@cache
def link() -> dict[str, bool]:
    """What the launch of a link is told."""
    able = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
    return {"CHAINED": True, "launch_pdl": True} if able else {"CHAINED": False}


@cache
def divide_memory(function: int) -> bool:
    """Tells the driver, once for each function, how to divide the memory; whether it took it. It is a wish and changes no
    result, so where it cannot be said all works as well, only slower."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    answer: int = driver.cuFuncSetAttribute(ctypes.c_void_p(function), PREFERRED_SHARED_MEMORY_CARVEOUT, SHARED_PERCENT)
    return answer == 0
