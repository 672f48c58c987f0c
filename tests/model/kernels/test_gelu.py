"""GELU by our kernels equals torch's, value and gradient."""

from __future__ import annotations

PROGRAM = """
from glassformer.model.kernels.gelu import gelu
values = torch.cat([torch.linspace(-9, 9, 4999), torch.tensor([0.0])]).view(8, 625).to(device)
upstream = torch.randn(values.shape, generator=torch.Generator().manual_seed(0)).to(device)
for dtype, tolerance in [(torch.float32, 1e-6)] + [(torch.bfloat16, 1e-2)] * (device == "cuda"):
    ours, theirs = (values.to(dtype).clone().requires_grad_() for _ in range(2))
    y, expected = gelu(ours), F.gelu(theirs)
    assert y.dtype == dtype
    assert_close(y, expected, rtol=tolerance, atol=tolerance)
    y.backward(upstream.to(dtype))
    expected.backward(upstream.to(dtype))
    assert_close(ours.grad, theirs.grad, rtol=tolerance, atol=2 * tolerance)
assert gelu(torch.zeros(3, 5, device=device)).tolist() == [[0.0] * 5] * 3
strided = torch.randn(6, 10, device=device).T
assert_close(gelu(strided), F.gelu(strided), rtol=1e-5, atol=1e-6)
"""


def test_equals_torch(run_with_kernels) -> None:
    assert run_with_kernels(PROGRAM) == ""
