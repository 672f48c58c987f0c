"""Heads by hand: pooled vectors, what transformers has, and how many numbers each trains."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.pretrained.heads import LabelHead, TwoLayerHead, build_head, first_of_all, head_parameters


def test_a_prompts_vectors_are_not_pooled() -> None:
    head = LabelHead(2, 3, pool="mean", dropout=0.0, virtual=1)
    x = torch.tensor([[[9.0, 9.0], [1.0, 2.0], [3.0, 4.0], [7.0, 7.0]]])
    padding = torch.tensor([[False, False, True]])
    assert head.pooled(x, padding).tolist() == [[2.0, 3.0]]


def test_the_first_vector_that_is_not_padding() -> None:
    x = torch.tensor([[[9.0], [1.0], [3.0]]])
    assert first_of_all(x, torch.tensor([[True, False, False]])).tolist() == [[1.0]]
    assert first_of_all(x, torch.tensor([[True, False]])).tolist() == [[9.0]]  # a prompt's own, never padding


@pytest.mark.parametrize(
    ("pool", "kind", "numbers"),
    [("mean", "bert", 14), ("own", "bert", 14), ("own", "roberta", 56), ("own", "distilbert", 56), ("own", "electra", 56)],
)
def test_counts(pool: str, kind: str, numbers: int) -> None:
    head = build_head(pool, kind, torch.nn.Identity(), width=6, outputs=2, dropout=0.0, virtual=0)  # type: ignore[arg-type]
    assert head_parameters(pool, kind, 6, 2) == numbers  # type: ignore[arg-type]
    assert sum(parameter.numel() for parameter in head.parameters()) == numbers
    assert isinstance(head, TwoLayerHead) == (kind != "bert")


def test_an_own_head_that_is_not_known() -> None:
    with refused(ConfigError, "no-own-head", "model.pool"):
        build_head("own", "albert", None, width=6, outputs=2, dropout=0.0, virtual=0)
