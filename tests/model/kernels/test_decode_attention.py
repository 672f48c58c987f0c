"""Attention of one token over a memory equals the definition, for rows of every length and memories of any stride."""

from __future__ import annotations

PROGRAM = """
from glassformer.model.attention import attend
from glassformer.model.kernels.decode_attention import decode_attention
rows, heads, capacity, width = 5, 3, 150, 20
generator = torch.Generator().manual_seed(0)
def drawn(*shape):
    return torch.randn(*shape, generator=generator).to(device)
for dtype, tolerance in [(torch.float32, 1e-5)] + [(torch.bfloat16, 2e-2)] * (device == "cuda"):
    q = drawn(rows, 1, heads * width).to(dtype).unflatten(-1, (heads, width)).transpose(1, 2)
    buffers = [drawn(rows + 2, heads, capacity, width).to(dtype) for _ in range(2)]
    k, v = (buffer[:rows, :, :140] for buffer in buffers)
    at = torch.tensor([[0], [1], [63], [64], [145]], device=device)
    z = decode_attention(q, k, v, at, 0.3)
    visible = torch.arange(140, device=device) <= at[:, None, :, None]
    expected = attend(q.float(), k.float(), v.float(), visible, scale=0.3)
    assert z.shape == (rows, heads, 1, width)
    assert z.dtype == dtype
    assert z.transpose(1, 2).flatten(-2).is_contiguous()
    assert_close(z.float(), expected, rtol=tolerance, atol=tolerance)
"""


def test_equals_the_definition(run_with_kernels) -> None:
    assert run_with_kernels(PROGRAM) == ""
