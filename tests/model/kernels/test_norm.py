"""Layer norm and RMS norm by our kernels equal torch's: values, and gradients of the vectors, the scale and the shift."""

from __future__ import annotations

import pytest

PROGRAM = """
from glassformer.model.kernels.norm import norm
width, centred, biased = {width}, {centred}, {biased}
generator = torch.Generator().manual_seed(0)
x, upstream = ((torch.randn(3, {rows}, width, generator=generator) * 3 + 1).to(device) for _ in range(2))
weight, bias = torch.randn(width, generator=generator).to(device), torch.randn(width, generator=generator).to(device)
for dtype, tolerance in [(torch.float32, 2e-5)] + [(torch.bfloat16, 2e-2)] * (device == "cuda"):
    results = []
    for ours in (True, False):
        parts = [part.clone().requires_grad_() for part in (x.to(dtype), weight, bias)]
        shift = parts[2] if biased else None
        if ours:
            y = norm(parts[0], parts[1], shift, 1e-3, centred=centred)
            assert y.dtype == dtype
        else:
            wide = parts[0].float()
            y = F.layer_norm(wide, (width,), parts[1], shift, 1e-3) if centred else F.rms_norm(wide, (width,), parts[1], 1e-3)
        y.float().backward(upstream)
        results.append((y.float(), parts[0].grad.float(), parts[1].grad, parts[2].grad if biased else torch.zeros(1)))
    for mine, torchs in zip(*results):
        assert_close(mine, torchs, rtol=tolerance, atol=tolerance * float(torchs.abs().max().clamp(min=1)))
"""


@pytest.mark.parametrize(
    ("width", "rows", "centred", "biased"), [(13, 7, True, True), (384, 400, True, False), (64, 11, False, False)]
)
def test_equals_torch(run_with_kernels, width: int, rows: int, centred: bool, biased: bool) -> None:
    assert run_with_kernels(PROGRAM.format(width=width, rows=rows, centred=centred, biased=biased)) == ""
