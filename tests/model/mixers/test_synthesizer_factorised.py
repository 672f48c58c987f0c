"""The factorised synthesizer: scores of low rank, from two thin tables."""

from __future__ import annotations

import pytest
import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.synthesizer_factorised import SynthesizerFactorisedConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=6, heads=2, layers=1, context=7, vocabulary=7)


def test_scores_are_the_product_of_the_tables_and_of_their_rank() -> None:
    mixer = SynthesizerFactorisedConfig(rank=3).build(DIMS).double()
    mixer.init_weights(torch.Generator().manual_seed(0))
    seen = []
    mixer.scores.register_forward_hook(lambda tap, inputs, output: seen.append(output))
    mixer(torch.randn(4, 5, 6, dtype=torch.float64), AttentionContext(causal=True), Positions(), None)
    expected = torch.einsum("htr,hsr->hts", mixer.queries_HTR[:, :5], mixer.keys_HSR[:, :5])
    torch.testing.assert_close(seen[0], expected.unsqueeze(0))
    assert torch.linalg.matrix_rank(seen[0]).tolist() == [[3, 3]]


def test_products_start_with_variance_one() -> None:
    mixer = SynthesizerFactorisedConfig(rank=8).build(Dims(width=6, heads=3, layers=1, context=200, vocabulary=7))
    mixer.init_weights(torch.Generator().manual_seed(0))
    scores = mixer.queries_HTR @ mixer.keys_HSR.transpose(-1, -2)
    assert float(scores.detach().std()) == pytest.approx(1.0, abs=0.1)
