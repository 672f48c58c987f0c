"""Several tokens ahead: the own loss by hand; padding adds nothing; scores are the tied head's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from glassformer.model.attention_context import OwnLosses
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES = {"width": 12, "heads": 3, "layers": 1, "context": 7, "head": {"kind": "ahead", "tokens": 3, "weight": 0.5}}


def test_the_loss_by_hand_and_the_scores_of_the_tied_head() -> None:
    model = build_model(ModelConfig.parse(SIZES), 11, seed=1)
    tied = build_model(ModelConfig.parse({**SIZES, "head": "tied"}), 11, seed=1)
    ids = torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(1))
    assert torch.equal(model(ids), tied(ids))
    model.collect(own := OwnLosses())
    features = model.features(ids)
    expected = 0.0
    for row in range(2):
        for distance, further in zip((2, 3), model.head.further):
            for at in range(6 - distance):
                vector = features[row, at] + further.weight @ features[row, at]
                expected += 0.25 * F.cross_entropy(model.embedding.weight @ vector, ids[row, at + distance]).item()
    assert own.sums.keys() == {"ahead"}
    assert own.sums["ahead"].item() == pytest.approx(expected, rel=1e-5)


def test_padding_is_no_target() -> None:
    model = build_model(ModelConfig.parse(SIZES), 11, seed=1)
    ids = torch.randint(11, (1, 6), generator=torch.Generator().manual_seed(1))
    hidden = torch.tensor([[False, False, False, False, True, True]])
    found = []
    for given, mask in ((ids, hidden), (ids[:, :4], None)):
        model.collect(own := OwnLosses())
        model.features(given, key_padding_mask_BS=mask)
        found.append(own.sums["ahead"].item())
    assert found[0] == pytest.approx(found[1], rel=1e-5)
