"""Kernels written in Triton, for bf16 on CUDA: each stands beside torch's own operation and is held equal to it by tests.

``usable`` says where. A module here imports Triton, which only builds of torch for CUDA bring, so it is imported by name
when ``AVAILABLE``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import torch
from torch import Tensor

AVAILABLE = (
    torch.version.cuda is not None
    and importlib.util.find_spec("triton") is not None
    and any(shutil.which(compiler) for compiler in (os.environ.get("CC", "gcc"), "gcc", "clang"))  # Triton builds its launcher
)


def read_triton_ahead(device: torch.device, precision: str) -> Thread | None:
    """For whoever is going to load a model that will use the kernels there: before its first kernel Triton reads through all
    files of its own, a third of a second that a thread can spend in the meantime."""
    if not AVAILABLE or device.type != "cuda" or precision != "bf16":
        return None
    thread = Thread(target=_read_triton, daemon=True)
    thread.start()
    return thread


def _read_triton() -> None:
    with suppress(ImportError, AttributeError):  # not a public name: where a version lacks it, its first kernel waits
        from triton.runtime.cache import triton_key

        triton_key()


def usable(x: Tensor) -> bool:
    """Whether ``x`` is what the kernels are for."""
    return AVAILABLE and x.is_cuda and x.dtype == torch.bfloat16


LAUNCHED = True
"""Whether a kernel is launched, or only what it writes is allocated."""


@contextmanager
def not_launched() -> Iterator[None]:
    """Inside, kernels allocate and compute nothing: they read memory, and tensors that are only traced have none."""
    global LAUNCHED
    LAUNCHED = False
    try:
        yield
    finally:
        LAUNCHED = True
