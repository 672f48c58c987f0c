"""Triton's look at its own files, taken by a thread while a model is loaded."""

from __future__ import annotations

import pytest
import torch

from glassformer.model import kernels

PROGRAM = """
from glassformer.model import kernels
kernels.AVAILABLE = True
assert kernels.read_triton_ahead(torch.device("cpu"), "bf16") is None
assert kernels.read_triton_ahead(torch.device("cuda"), "float32") is None
thread = kernels.read_triton_ahead(torch.device("cuda"), "bf16")
thread.join()
from triton.runtime.cache import triton_key
assert triton_key.cache_info().misses == 1
"""


def test_triton_has_read_its_files_before_its_first_kernel(run_with_kernels) -> None:
    assert run_with_kernels(PROGRAM, interpreted=False) == ""


@pytest.mark.skipif(kernels.AVAILABLE, reason="needs a machine without kernels")
def test_without_kernels_nothing_is_read() -> None:
    assert kernels.read_triton_ahead(torch.device("cuda"), "bf16") is None
