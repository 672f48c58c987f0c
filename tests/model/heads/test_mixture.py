"""A mixture of softmaxes: probabilities by the formula, of a rank that one softmax has not."""

from __future__ import annotations

import torch

from glassformer.model.dims import Dims
from glassformer.model.embedding_lookup import Embedding
from glassformer.model.heads.mixture import MixtureConfig

D, V, K = 3, 11, 2


def test_probabilities_by_the_formula() -> None:
    torch.manual_seed(3)
    embedding = Embedding(V, D)
    head = MixtureConfig(parts=K).build(Dims(width=D, heads=1, layers=1, context=5, vocabulary=V), embedding).double()
    x_BTD = torch.randn(2, 5, D, dtype=torch.float64)
    table_VD = embedding.double().weight
    prior_BTK = head.prior(x_BTD).softmax(-1)
    expected = torch.zeros(2, 5, V, dtype=torch.float64)
    for part in range(K):
        rows = slice(part * D, (part + 1) * D)
        vector = torch.tanh(x_BTD @ head.vectors.weight[rows].T + head.vectors.bias[rows])
        expected = expected + prior_BTK[..., part : part + 1] * (vector @ table_VD.T).softmax(-1)
    torch.testing.assert_close(head(x_BTD).exp(), expected)
    torch.testing.assert_close(head(x_BTD).exp().sum(-1), torch.ones(2, 5, dtype=torch.float64))


def test_the_rank_exceeds_the_width() -> None:
    """Log probabilities of one softmax lie in width + 1 dimensions."""
    torch.manual_seed(4)
    embedding, dims = Embedding(V, D), Dims(width=D, heads=1, layers=1, context=5, vocabulary=V)
    head = MixtureConfig(parts=K).build(dims, embedding).double()
    x_BTD = 3 * torch.randn(1, 40, D, dtype=torch.float64)
    single = (x_BTD @ embedding.double().weight.T).log_softmax(-1)
    assert torch.linalg.matrix_rank(single[0], rtol=1e-8) <= D + 1 < torch.linalg.matrix_rank(head(x_BTD)[0], rtol=1e-8)
