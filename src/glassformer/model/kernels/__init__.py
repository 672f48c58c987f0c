"""Kernels written in Triton, for bf16 on CUDA: each stands beside torch's own operation and is held equal to it by tests.

``usable`` says where. A module here imports Triton, which only builds of torch for CUDA bring, so it is imported by name
when ``AVAILABLE``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil

import torch
from torch import Tensor

AVAILABLE = (
    torch.version.cuda is not None
    and importlib.util.find_spec("triton") is not None
    and any(shutil.which(compiler) for compiler in (os.environ.get("CC", "gcc"), "gcc", "clang"))  # Triton builds its launcher
)


def usable(x: Tensor) -> bool:
    """Whether ``x`` is what the kernels are for."""
    return AVAILABLE and x.is_cuda and x.dtype == torch.bfloat16
