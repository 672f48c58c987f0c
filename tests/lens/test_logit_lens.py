"""The logit lens ends in the network's output; losses by token are those of the reference implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from glassformer.lens.logit_lens import token_losses


@pytest.mark.parametrize("block", ["pre", "post"])
def test_the_last_layer_says_what_the_network_says(block: str, look_of) -> None:
    look = look_of(block=block)
    lens = look.logit_lens
    assert lens.names == ("embedded", "blocks.0.after", "blocks.1.after")
    np.testing.assert_array_equal(lens.scores[-1].numpy(), look.scores)
    with torch.no_grad():
        torch.testing.assert_close(lens.scores[-1], look.network(torch.tensor([look.ids]))[0], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(lens.scores[0], lens.scores[-1])


def test_the_likeliest_first(look_of) -> None:
    ids, shares = look_of().logit_lens.top(4)
    assert ids.shape == shares.shape == (3, 9, 4)
    assert (np.diff(shares, axis=-1) <= 0).all()


def test_labels_by_layer(network_of) -> None:
    from glassformer.data.tokenizers.byte import ByteTokenizer
    from glassformer.lens.look import Look
    from glassformer.model.config import ModelConfig
    from glassformer.model.transformer import build_model

    config = ModelConfig.parse({"width": 12, "heads": 3, "context": 9, "causal": False, "head": "classifier"})
    look = Look(build_model(config, 256, outputs=5, seed=1).eval(), ByteTokenizer(), [3, 4, 5], hide=[1])
    assert look.logit_lens.scores.shape == (config.layers + 1, 1, 5)
    np.testing.assert_array_equal(look.logit_lens.scores[-1, 0].numpy(), look.scores)
    assert look.losses is None


def test_losses_by_hand() -> None:
    scores = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [1 / 3] * 3]))
    found = token_losses(scores, torch.tensor([2, 1, 2]))
    assert math.isnan(found[0])
    np.testing.assert_allclose(found[1:], [math.log(4), -math.log(0.8)], rtol=1e-6)
