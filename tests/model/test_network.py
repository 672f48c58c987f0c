"""What a network is: vectors, then a head; and the slot ``model``, whose variants build one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from glassformer.checks.check import check_model
from glassformer.checks.subject import LARGE_VOCABULARY, our_subject
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.network import MODELS, Network, NetworkConfig


class Bag(Network):
    """The vectors of tokens and nothing else."""

    def __init__(self, vocabulary: int, *, looks_ahead: bool = False) -> None:
        super().__init__()
        self.dims = Dims(width=6, heads=1, layers=0, context=9, vocabulary=vocabulary)
        self.table, self.head, self.looks_ahead = nn.Embedding(vocabulary, 6), nn.Linear(6, vocabulary), looks_ahead

    def features(
        self, ids_BT: Tensor, *, key_padding_mask_BS: Tensor | None = None, dropout_seed: Tensor | None = None
    ) -> Tensor:
        vectors_BTD = self.table(ids_BT)
        return vectors_BTD + vectors_BTD.roll(-1, dims=1) if self.looks_ahead else vectors_BTD

    def forward(self, ids_BT: Tensor, key_padding_mask_BS: Tensor | None = None) -> Tensor:
        return self.head(self.features(ids_BT, key_padding_mask_BS=key_padding_mask_BS))


def test_a_network_without_features_is_none() -> None:
    class Headless(Network):
        pass

    with pytest.raises(TypeError, match="features"):
        Headless()


def test_the_transformer_is_features_and_then_its_head() -> None:
    network = ModelConfig.parse({"width": 12, "heads": 3, "layers": 1, "context": 7}).build(11, seed=1).eval()
    assert isinstance(network, Network)
    ids_BT = torch.randint(11, (2, 5), generator=torch.Generator().manual_seed(0))
    vectors_BTD = network.features(ids_BT)
    assert vectors_BTD.shape == (2, 5, 12)
    torch.testing.assert_close(network.head(vectors_BTD), network(ids_BT))


def test_another_network_is_checked_by_the_same_laws() -> None:
    torch.manual_seed(0)
    assert check_model(Bag(7)).passed
    report = check_model(Bag(7, looks_ahead=True))
    assert [finding.law for finding in report.findings] == ["causality"]


def test_a_network_of_many_tokens_needs_no_part_called_embedding() -> None:
    assert our_subject(Bag(LARGE_VOCABULARY)).inside.looked_up == 7 * LARGE_VOCABULARY  # the head: 6 weights and a bias each


def test_a_config_says_what_it_cannot() -> None:
    bare = NetworkConfig(context=7, causal=True)
    assert bare.tokenizer() is None  # the recipe's
    with pytest.raises(NotImplementedError):
        bare.build(11, seed=1)
    with pytest.raises(NotImplementedError):
        bare.cost(11, batch=3)


def test_the_slot_finds_its_variants_by_itself() -> None:
    assert {"transformer", "pretrained"} <= set(MODELS.names())
    assert all(issubclass(MODELS.get(name), NetworkConfig) for name in MODELS.names())
