"""Small networks to look into, and one with an induction head made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.lens.look import Look
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model

LAYERS, HEADS, WIDTH, CONTEXT, TEXT = 2, 3, 12, 17, b"seven and"
KINDS: dict[str, dict[str, Any]] = {"decoder": {}, "encoder": {"causal": False}}


@pytest.fixture
def network_of() -> Callable[..., Transformer]:
    """Settings -> a network loud enough that everything in it matters."""

    def make(**settings: Any) -> Transformer:
        config = ModelConfig.parse({"width": WIDTH, "heads": HEADS, "layers": LAYERS, "context": CONTEXT, **settings})
        model = build_model(config, 256, seed=2).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(6.0)
        return model

    return make


@pytest.fixture
def look_of(network_of) -> Callable[..., Look]:
    def make(ids=tuple(TEXT), *, hide=(), **settings: Any) -> Look:
        return Look(network_of(**settings), ByteTokenizer(), list(ids), hide=hide, name="loud")

    return make


@pytest.fixture
def planted() -> Transformer:
    """Eleven tokens, two layers of three heads: 0.1 looks one back, and 1.2 is an induction head. All others look everywhere.

    A vector has three stretches of eleven: the token, the token before it (written by 0.1), nothing.
    """
    tokens, heads = 11, 3
    width = tokens * heads
    settings = {"width": width, "heads": heads, "layers": 2, "context": 26, "norm": "none", "positions": "t5", "bias": False}
    model = build_model(ModelConfig.parse(settings), tokens, seed=1).eval()
    one = torch.eye(tokens)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[:, :tokens] = one
        model.positions.table.weight[1, 1] = 30.0  # bucket 1 is the distance 1, for head 1
        before, inducing = (block.attention for block in model.blocks)
        before.mixer.qkv.weight[2 * width + tokens : 2 * width + 2 * tokens, :tokens] = one  # values of head 1: the token
        before.output.weight[tokens : 2 * tokens, tokens : 2 * tokens] = one
        at = 2 * tokens
        inducing.mixer.qkv.weight[at : at + tokens, :tokens] = 30 * one  # queries of head 2: this token
        inducing.mixer.qkv.weight[width + at : width + at + tokens, tokens : 2 * tokens] = 3 * one  # keys: the one before
        inducing.mixer.qkv.weight[2 * width + at : 2 * width + at + tokens, :tokens] = one
        inducing.output.weight[:tokens, at : at + tokens] = 5 * one
    return model
