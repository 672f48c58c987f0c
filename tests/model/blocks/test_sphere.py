"""The sphere: vectors of length one after every part, and a step by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model


def test_every_vector_has_length_one_and_moves_by_its_step() -> None:
    sizes = {"width": 12, "heads": 3, "layers": 1, "context": 7, "norm": "rms", "block": {"kind": "sphere", "initial": 0.25}}
    model = build_model(ModelConfig.parse(sizes), 11, seed=1).eval()
    block, seen = model.blocks[0], {}
    for name in ("before", "middle", "after", "attention"):
        getattr(block, name).register_forward_hook(lambda module, given, made, name=name: seen.update({name: made}))
    model(torch.randint(11, (2, 5), generator=torch.Generator().manual_seed(1)))
    for name in ("middle", "after"):
        assert torch.allclose(seen[name].norm(dim=-1), torch.ones(2, 5), atol=1e-6)
    x = F.normalize(seen["before"], dim=-1)
    expected = F.normalize(0.75 * x + 0.25 * F.normalize(seen["attention"], dim=-1), dim=-1)
    torch.testing.assert_close(seen["middle"], expected)
