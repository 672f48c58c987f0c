"""The carve-out of a kernel reaches the driver of a GPU, and without a driver nothing happens."""

from __future__ import annotations

import pytest
import torch

from glassformer.generation.cuda.kernels import launch


def test_without_a_driver_nothing_happens(monkeypatch) -> None:
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(launch.ctypes, "CDLL", missing)
    launch.prefer_carveout.cache_clear()
    assert launch.prefer_carveout(12) is False
    launch.prefer_carveout.cache_clear()


ON_THE_GPU = """
import ctypes
from glassformer.generation.cuda.kernels import launch, residual
ids, table = torch.zeros(3, dtype=torch.long, device="cuda"), torch.ones(4, 48, device="cuda", dtype=torch.bfloat16)
residual.embed(residual.ResidualStream.empty(3, table), ids, table)
(compiled,) = residual._embed.device_caches[0][0].values()
value = ctypes.c_int()
wanted = launch.PREFERRED_SHARED_MEMORY_CARVEOUT
assert ctypes.CDLL("libcuda.so.1").cuFuncGetAttribute(ctypes.byref(value), wanted, ctypes.c_void_p(compiled.function)) == 0
assert value.value == (launch.SHARED_PERCENT if launch.pdl_options()["PDL"] else -1)
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_driver_has_the_carveout(run_with_kernels) -> None:
    assert run_with_kernels(ON_THE_GPU) == ""
