"""Shares of dropout: what config.json says of a head, and one share in every place that drops."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from torch import nn

from glassformer.pretrained.dropout import set_dropout, stated_dropout


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({"hidden_dropout_prob": 0.2, "classifier_dropout": None}, 0.2),
        ({"hidden_dropout_prob": 0.2, "classifier_dropout": 0.3}, 0.3),
        ({"dropout": 0.15, "seq_classif_dropout": 0.25}, 0.25),
        ({"classifier_dropout": 0.0}, 0.0),
        ({}, 0.1),
    ],
)
def test_a_head_has_the_share_that_is_stated_for_heads(settings: dict[str, float | None], share: float) -> None:
    assert stated_dropout(SimpleNamespace(**settings)) == share


def test_one_share_in_modules_numbers_and_places_left_empty() -> None:
    encoder = nn.Sequential(nn.Dropout(0.1), nn.Identity())
    encoder.attention_dropout = 0.1  # type: ignore[assignment]
    encoder.out_drop = nn.Identity()
    set_dropout(encoder, 0.4)
    assert (encoder[0].p, encoder.attention_dropout, encoder.out_drop.p) == (0.4, 0.4, 0.4)
    assert isinstance(encoder[1], nn.Identity)
