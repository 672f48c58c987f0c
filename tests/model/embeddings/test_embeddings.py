"""Embeddings by hand: scale, factors, n-grams; with a cache and beside tied heads."""

from __future__ import annotations

import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.attention_context import AttentionContext
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.embeddings.factorised import FactorisedConfig
from glassformer.model.embeddings.ngrams import NgramsConfig
from glassformer.model.embeddings.plain import PlainConfig
from glassformer.model.transformer import build_model

DIMS = Dims(width=4, heads=2, layers=1, context=5, vocabulary=7)
IDS = torch.tensor([[3, 1, 3, 1]])


def test_a_scale_multiplies_the_vectors_and_not_the_head() -> None:
    embedding = PlainConfig(scale="sqrt").build(DIMS)
    torch.testing.assert_close(embedding(IDS), 2 * embedding.weight[IDS])
    assert type(PlainConfig().build(DIMS)).__name__ == "Embedding"  # the form that fast paths know
    config = {"width": 12, "heads": 3, "layers": 1, "context": 7, "embedding": {"kind": "plain", "scale": 5.0}}
    model = build_model(ModelConfig.parse(config), 11, seed=1)
    assert model.head.weight is model.embedding.weight


def test_factors_multiply() -> None:
    embedding = FactorisedConfig(rank=2).build(DIMS)
    torch.testing.assert_close(embedding(IDS), (embedding.weight @ embedding.widen.weight.T)[IDS])
    for head in ("tied", "tied-frequency", "masked", "mixture"):
        with refused(ConfigError, "bad-value", "model.embedding=factorised"):
            ModelConfig.parse({"width": 12, "heads": 3, "embedding": {"kind": "factorised", "rank": 3}, "head": head})


def test_equal_pairs_have_equal_rows() -> None:
    embedding = NgramsConfig(rows=101).build(DIMS)
    with torch.no_grad():
        embedding.weight.zero_()
        embedding.ngrams.weight.copy_(torch.arange(101.0)[:, None].expand(-1, 4))
    rows = embedding.embed(IDS, AttentionContext(causal=True), None)[0, :, 0].tolist()
    # 3 after nothing, (3, 1), (1, 3), (3, 1): id + 36313 * (id before + 1), modulo the rows
    assert rows == [3 % 101, (1 + 36313 * 4) % 101, (3 + 36313 * 2) % 101, (1 + 36313 * 4) % 101]
    assert rows[1] != rows[2]
