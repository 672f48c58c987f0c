"""The quadratic form of Mamba-2 is its recurrence, convolution included."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from glassformer.model.attention import split_heads
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.mamba2 import Mamba2Config
from glassformer.model.slots import Positions

DIMS = Dims(width=12, heads=3, layers=1, context=7, vocabulary=11)


def test_the_recurrence_gives_the_same(rng) -> None:
    mixer = Mamba2Config(state=5, kernel=3).build(DIMS)
    with torch.no_grad():
        mixer.init_weights(rng)
    mixer, x_BTD = mixer.double(), torch.randn(2, 6, 12, generator=rng).double()
    gate, read, step = mixer.project(x_BTD).split((12, 22, 3), dim=-1)
    kernel = mixer.kernel_KC.flip(0).T.unsqueeze(1)  # torch's convolution reads its kernel from the earliest token on
    convolved = F.silu(F.conv1d(F.pad(read.transpose(1, 2), (2, 0)), kernel, groups=22).transpose(1, 2))
    x, b, c = convolved.split((12, 5, 5), dim=-1)
    x, step = x.unflatten(-1, (3, 4)), F.softplus(step + mixer.step_bias_H)
    state, outputs = torch.zeros(2, 3, 4, 5).double(), []
    for t in range(6):
        d = step[:, t, :, None, None]
        state = torch.exp(-mixer.log_a_H.exp()[:, None, None] * d) * state + d * x[:, t, :, :, None] * b[:, t, None, None, :]
        outputs.append((state * c[:, t, None, None, :]).sum(-1) + mixer.skip_H[:, None] * x[:, t])
    y = torch.stack(outputs, dim=1).flatten(-2) * F.silu(gate)
    found = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(found, split_heads(mixer.norm(y), 3), atol=1e-9, rtol=1e-7)


def test_it_starts_as_published(rng) -> None:
    mixer = Mamba2Config().build(DIMS)
    with torch.no_grad():
        mixer.init_weights(rng)
    steps = F.softplus(mixer.step_bias_H)
    assert ((steps > 1e-3) & (steps < 1e-1)).all()
    assert ((mixer.log_a_H.exp() >= 1) & (mixer.log_a_H.exp() <= 16)).all()
