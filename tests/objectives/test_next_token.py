"""The next token: targets are the inputs one position on, every one counts; the loss is the mean nats."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import DataError
from glassformer.model.config import ModelConfig
from glassformer.model.losses import summed_cross_entropy
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig


class Text:
    """Prepared data of one array of tokens for each split."""

    def __init__(self, tokens_N: np.ndarray, **others: np.ndarray) -> None:
        self.tokens, self.others, self.names = tokens_N, others, ["train", *others]

    def part(self, name: str) -> Text:
        assert name == "text"
        return self

    def split(self, name: str) -> Text:
        return self if name == "train" else Text(self.others[name])


def batches(tokens: np.ndarray, **more: int):
    return NextTokenConfig().batches(Text(tokens), **more)  # type: ignore[arg-type]


def test_by_hand() -> None:
    batch = batches(np.arange(4, dtype=np.uint8), context=3, batch_size=2, seed=0).batch(0)
    assert batch["ids"].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert batch["targets"].tolist() == [[1, 2, 3], [1, 2, 3]]


def test_a_validation_text_in_which_nothing_is_predicted_is_refused() -> None:
    """Its loss would be 0: perfect, and the best checkpoint."""
    tokens = np.arange(9, dtype=np.uint8)
    for few in (0, 1):
        with refused(DataError, "validation-too-short", f"{few} token"):
            NextTokenConfig().batches(Text(tokens, validation=tokens[:few]), context=3, batch_size=2, seed=0)
    NextTokenConfig().batches(Text(tokens, validation=tokens[:2], test=tokens[:1]), context=3, batch_size=2, seed=0)


def test_nothing_is_ignored_and_the_same_seed_gives_the_same_batch() -> None:
    tokens = np.random.default_rng(5).integers(0, 11, 300)
    first, again = (batches(tokens, context=7, batch_size=5, seed=3) for _ in range(2))
    first.batch(2)
    batch, same = first.batch(4), again.batch(4)
    assert (batch["targets"] >= 0).all()
    assert torch.equal(batch["ids"][:, 1:], batch["targets"][:, :-1])
    assert torch.equal(batch["ids"], same["ids"])
    assert NextTokenConfig().count(batch).item() == 35


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_that_of_the_scores(smoothing: float) -> None:
    network = build_model(ModelConfig(width=12, heads=3, layers=1, context=7), 11, seed=2)
    batch = batches(np.random.default_rng(5).integers(0, 11, 300), context=7, batch_size=5, seed=3).batch(0)
    expected = summed_cross_entropy(network(batch["ids"]), batch["targets"], smoothing=smoothing)
    torch.testing.assert_close(NextTokenConfig().loss(network, batch, dropout_seed=None, smoothing=smoothing), expected)
