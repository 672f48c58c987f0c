"""Copies of heads equal torch's, whatever the layouts."""

from __future__ import annotations

import pytest

PROGRAM = """
from glassformer.generation.cuda.kernels.copy_heads import copy_heads
generator = torch.Generator().manual_seed(0)
batch, heads, length, width = SHAPE
packed = torch.randn(batch, length, 3 * heads * width, generator=generator).to(device, torch.bfloat16)
into = torch.zeros(batch + 2, heads, length + 5, width, device=device, dtype=torch.bfloat16)
for part in packed.chunk(3, dim=-1):
    new = part.unflatten(-1, (heads, width)).transpose(1, 2)
    expected = into.clone()
    expected[1 : batch + 1, :, :length] = new
    copy_heads(into[1 : batch + 1, :, :length], new)
    assert torch.equal(into, expected)
assert into.any()
"""


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 2, 65, 20), (2, 3, 130, 64)], ids=str)
def test_equals_torchs_copy(run_with_kernels, shape) -> None:
    assert run_with_kernels(PROGRAM.replace("SHAPE", str(shape))) == ""
