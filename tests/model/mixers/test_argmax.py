"""Argmax attention: the worked case, and gradients that do not reach queries and keys."""

from __future__ import annotations

import torch

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.argmax import Argmax, ArgmaxConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=6, heads=2, layers=1, context=5, vocabulary=7)

KEYS = torch.tensor([[0.0, 1, 2], [1, 1, 2], [-1, 1, -2], [0, -1, -2]])
VALUES = torch.tensor([[3.0, 2, -4], [3, -2, 4], [3, 2, 0], [3, 2, 0]])
QUERY = torch.tensor([-2.0, 1, 1])


def built(*, straight_through: bool = False) -> Argmax:
    mixer = ArgmaxConfig(straight_through=straight_through).build(DIMS)
    generator = torch.Generator().manual_seed(0)
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return mixer


def test_worked_case_scores_three_one_one_minus_three() -> None:
    scores = (QUERY @ KEYS.T)[None, None, None]
    assert scores.flatten().tolist() == [3.0, 1.0, 1.0, -3.0]
    output = built().mix(scores, VALUES[None, None], None)
    assert output.flatten().tolist() == [3.0, 2.0, -4.0]


def test_of_equals_the_earliest_and_never_a_hidden_one() -> None:
    scores = torch.tensor([5.0, 1.0, 1.0, 0.0])[None, None, None]
    visible = torch.tensor([False, True, True, True])[None, None, None]
    assert built().mix(scores, VALUES[None, None], visible).flatten().tolist() == [3.0, -2.0, 4.0]
    nothing = torch.zeros(1, 1, 1, 4, dtype=torch.bool)
    assert built().mix(scores, VALUES[None, None], nothing).flatten().tolist() == [0.0, 0.0, 0.0]


def gradient_of(mixer: Argmax) -> torch.Tensor:
    x_BTD = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(1))
    mixer(x_BTD, AttentionContext(causal=True), Positions(), None).square().sum().backward()
    assert mixer.qkv.weight.grad is not None
    return mixer.qkv.weight.grad


def test_no_gradient_reaches_queries_and_keys() -> None:
    gradient = gradient_of(built())
    assert gradient[:12].abs().max() == 0.0
    assert gradient[12:].abs().max() > 0.0


def test_straight_through_gives_the_same_output_and_a_gradient() -> None:
    hard, through = built(), built(straight_through=True)
    x_BTD = torch.randn(3, 4, 6)
    outputs = [mixer(x_BTD, AttentionContext(causal=True), Positions(), None) for mixer in (hard, through)]
    torch.testing.assert_close(outputs[0], outputs[1])
    gradient = gradient_of(through)
    assert gradient[:6].abs().max() > 0.0
    assert gradient[6:12].abs().max() > 0.0
