"""Attention of one token over a cache equals the reference implementation for rows of every length, and extends the cache."""

from __future__ import annotations

import pytest

PROGRAM = """
from glassformer.model.attention import attend
from glassformer.generation.cuda.kernels import decode_attention as module
from glassformer.generation.cuda.kernels.decode_attention import decode_attention
module.MANY_PROGRAMS = MANY
rows, heads, capacity, width = 5, 3, 150, WIDTH
generator = torch.Generator().manual_seed(0)
def drawn(*shape):
    return torch.randn(*shape, generator=generator).to(device)
for dtype, tolerance in [(torch.bfloat16, 2e-2) if device == "cuda" else (torch.float32, 1e-5)]:
    q, k, v = drawn(rows, 3 * heads * width).to(dtype).unflatten(-1, (3, heads, width)).unbind(1)
    buffers = [drawn(rows + 2, heads, capacity, width).to(dtype) for _ in range(2)]
    keys, values = (buffer[:rows] for buffer in buffers)
    at = torch.tensor([0, 1, 64, 65, 149], device=device)
    expected_buffers = [buffer.clone() for buffer in buffers]
    for row, place in enumerate(at.tolist()):
        expected_buffers[0][row, :, place], expected_buffers[1][row, :, place] = k[row], v[row]
    z = decode_attention(q, k, v, keys, values, at, 0.3)
    for buffer, expected in zip(buffers, expected_buffers):
        assert torch.equal(buffer, expected)
    visible = torch.arange(capacity, device=device) <= at[:, None, None, None]
    expected = attend(q.float().unsqueeze(2), keys.float(), values.float(), visible, scale=0.3).squeeze(2)
    assert z.shape == (rows, heads, width)
    assert z.dtype == dtype
    assert_close(z.float(), expected, rtol=tolerance, atol=tolerance)
"""


@pytest.mark.parametrize("width", [5, 20, 64])
@pytest.mark.parametrize("many", [1, 1000], ids=["one warp each", "few programs"])
def test_equals_the_definition_and_extends_the_memory(run_with_kernels, width, many) -> None:
    assert run_with_kernels(PROGRAM.replace("MANY\n", f"{many}\n").replace("WIDTH", str(width))) == ""
