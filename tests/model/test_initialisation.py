"""How weights start: keys by slot, layer, role and number; an attribute's name changes nothing."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from glassformer.model.blocks.pre import PreConfig
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.initialisation import initial_weights, initialise, keyed, start
from glassformer.model.inits.normal import NormalConfig
from glassformer.model.slots import BLOCKS, FEEDFORWARDS, Block, BlockConfig, FeedforwardConfig, LayerParts
from glassformer.model.transformer import build_model

SIZES: dict[str, Any] = {"width": 12, "heads": 3, "layers": 2, "context": 7}


def starts(**choices: Any) -> dict[str, tuple[str, str]]:
    """key -> (path, role) of a tiny model."""
    model = build_model(ModelConfig.parse({**SIZES, **choices}), 11, seed=1)
    names = {module: name for name, module in model.named_modules()}
    return {one.key: (names[one.module], one.role) for one in initial_weights(model)}


@pytest.mark.parametrize("choices", [{}, {"head": "masked", "causal": False, "segments": 2}, {"positions": "t5"}])
@pytest.mark.parametrize("mixer", ["dot", "grouped", "argmax", "average", "synthesizer", "synthesizer_random"])
def test_shipped_parts_are_keyed_by_their_path(mixer: str, choices: dict[str, Any]) -> None:
    """So the weights of every run that exists start as they did."""
    if mixer in ("argmax", "average") and choices.get("positions") == "t5":
        choices = {}
    found = starts(mixer=mixer, **choices)
    assert {key: path for key, (path, _) in found.items()} == {key: key for key in found}
    residual = {key for key, (_, role) in found.items() if role == "residual"}
    assert residual == {f"blocks.{layer}.{part}" for layer in (0, 1) for part in ("attention.output", "feedforward.down")}


class Renamed(nn.Module):
    """Two layers and a table, under whatever names."""

    def __init__(self, width: int, first: str, second: str, third: str) -> None:
        super().__init__()
        self.names = first, second, third
        self.add_module(first, nn.Sequential(nn.Linear(width, 5), nn.Linear(5, 5)))
        self.add_module(second, nn.Embedding(3, 5))
        self.add_module(third, start(nn.Linear(5, width), writes_residual=True))

    def forward(self, x_BTD: Tensor) -> Tensor:
        first, second, third = (getattr(self, name) for name in self.names)
        return third(first(x_BTD) + second.weight.sum(0))


def test_renaming_every_attribute_of_a_plugin_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for slot in (FEEDFORWARDS, BLOCKS):
        monkeypatch.setattr(slot, "_variants", {name: slot.get(name) for name in slot.names()})
    scores = []
    for names in (("up", "table", "down"), ("down", "output", "qkv")):

        @FEEDFORWARDS.variant("own")
        class OwnConfig(FeedforwardConfig):
            """Own."""

            attributes: ClassVar[tuple[str, str, str]] = names

            def build(self, dims: Dims) -> nn.Module:
                return Renamed(dims.width, *self.attributes)

        @BLOCKS.variant("own")
        class OwnBlockConfig(BlockConfig):
            """Own."""

            renamed: ClassVar[bool] = names[0] == "down"

            def build(self, dims: Dims, make: LayerParts) -> Block:
                block = PreConfig().build(dims, make)
                if self.renamed:  # the block's attributes too
                    block.attn, block.ffn = block.attention, block.feedforward
                    del block._modules["attention"], block._modules["feedforward"]
                    block.__dict__.update(attention=block.attn, feedforward=block.ffn)
                return block

        config = ModelConfig.parse({**SIZES, "feedforward": "own", "block": "own"})
        scores.append(build_model(config, 11, seed=4).eval()(torch.arange(5).unsqueeze(0)))
    assert torch.equal(*scores)


def test_keys_count_by_role_within_a_part() -> None:
    found = [(one.key, one.role) for one in initial_weights(keyed(Renamed(12, "a", "b", "c"), "blocks.3.feedforward"))]
    assert found == [
        ("blocks.3.feedforward/linear.0", "linear"),
        ("blocks.3.feedforward/linear.1", "linear"),
        ("blocks.3.feedforward/embedding.0", "embedding"),
        ("blocks.3.feedforward/residual.0", "residual"),
    ]


def test_what_writes_into_the_residual_stream_starts_smaller() -> None:
    part = keyed(Renamed(4000, "a", "b", "c"), "part")
    dims = Dims(width=1, heads=1, layers=8, context=1, vocabulary=1)
    initialise(part, 1, lambda weights: NormalConfig().std_of(weights, dims))
    assert math.isclose(float(part.c.weight.detach().std()), 0.02 / 4, rel_tol=0.03)
    assert math.isclose(float(part.a[0].weight.detach().std()), 0.02, rel_tol=0.03)
    assert not part.c.bias.any()


def test_a_shared_module_draws_once() -> None:
    shared = nn.Linear(3, 3)
    assert len(list(initial_weights(nn.ModuleList([shared, nn.Sequential(shared)])))) == 1
