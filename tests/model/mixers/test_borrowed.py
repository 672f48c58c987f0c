"""Borrowed keys: equal to attention with the lender's weights; what is refused; half a cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES: dict[str, Any] = {"width": 12, "heads": 3, "layers": 2, "context": 9, "positions": "rotary"}


@pytest.mark.parametrize("lender", [{}, {"window": 2}, {"kv_heads": 1}], ids=str)
def test_it_attends_to_what_the_lender_attends_to(lender: dict[str, Any]) -> None:
    """Where the second layer reads the same vectors as the first and has its queries, both mix the same."""
    model = build_model(ModelConfig.parse({**SIZES, "mixer": [{"kind": "dot", **lender}, "borrowed"]}), 11, seed=1).double()
    first, second = (block.attention.mixer for block in model.blocks)
    with torch.no_grad():
        second.to_query.weight.copy_(first.qkv.weight[:12])
        second.to_query.bias.copy_(first.qkv.bias[:12])
        model.blocks[0].attention.output.weight.zero_()  # the first layer adds nothing
        model.blocks[0].attention.output.bias.zero_()
        model.blocks[0].feedforward.down.weight.zero_()
        model.blocks[0].feedforward.down.bias.zero_()
    seen: list[torch.Tensor] = []
    for mixer in (first, second):
        mixer.register_forward_hook(lambda module, inputs, output: seen.append(output))
    model.eval()(torch.randint(11, (2, 7), generator=torch.Generator().manual_seed(1)))
    torch.testing.assert_close(seen[0], seen[1])


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"mixer": "borrowed"}, "layer 0"),
        ({"mixer": ["borrowed", "dot"]}, "layer 0"),
        ({"mixer": ["average", "borrowed"], "positions": "none"}, "layer 1"),
        ({"mixer": ["dot", "borrowed"], "positions": ["rotary", "none"]}, "layer 1"),
        ({"mixer": ["dot", {"kind": "borrowed", "qk": "rms"}]}, "learned: false"),
        ({"mixer": ["dot", "borrowed"], "stack": "value_residual"}, "borrowed"),
    ],
)
def test_what_cannot_be_borrowed(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig.parse({**SIZES, **choices})
    assert words in str(error.value)


def test_the_nearest_lender_lends() -> None:
    config = ModelConfig.parse({**SIZES, "layers": 4, "mixer": ["dot", "borrowed"]})
    model = build_model(config, 11, seed=1).eval()
    ids = torch.randint(11, (1, 5), generator=torch.Generator().manual_seed(1))
    before = model(ids)
    with torch.no_grad():
        model.blocks[2].attention.mixer.qkv.weight[12:] += 1.0  # keys and values of layer 2
    assert not torch.allclose(model(ids), before)
    assert model.new_cache().layers[1].rewinds
