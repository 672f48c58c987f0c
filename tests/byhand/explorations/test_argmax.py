from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.byhand.explorations.argmax import (
    KINDS,
    argmax,
    argmax_pattern,
    descend,
    example_tensors,
    gradients,
    largest_change,
    output_with,
    straight_through_pattern,
    tempered,
)
from glassformer.foundation.errors import ConfigError
from glassformer.model.attention import attention_pattern


@pytest.fixture
def worked():
    return example_tensors("worked", 0, 0, 0)


def test_the_worked_example():
    """By hand: scores 3, 1, 1, -3 and output (3, 2, -4)."""
    numbers = argmax().numbers
    assert numbers["scores"] == [3, 1, 1, -3]
    assert numbers["output"] == [3, 2, -4]


def test_argmax_gives_query_and_keys_no_gradient_and_the_others_do(worked):
    target = worked[2][2]
    table = {name: gradients(pattern, *worked, target) for name, pattern in KINDS.items()}
    assert table["argmax"]["query"] == 0
    assert table["argmax"]["keys"] == 0
    assert table["argmax"]["values"] == pytest.approx(4), "output - target = (0, 0, -4), all on one value"
    for name in ("softmax", "straight-through"):
        assert table[name]["query"] > 1
        assert table[name]["keys"] > 1


def test_without_autograd_the_output_does_not_move_either(worked):
    assert largest_change(*worked) == 0
    _, keys, values = worked
    assert largest_change(torch.tensor([-0.999, 1.0, 1.0], dtype=torch.float64), keys, values, step=0.1) == 0
    near_a_tie = torch.tensor([0.01, 1.0, 1.0], dtype=torch.float64)  # keys 1 and 2 differ only in the first entry
    assert largest_change(near_a_tie, keys, values, step=0.1) > 1


def test_straight_through_is_argmax_forward_and_softmax_backward():
    scores = torch.tensor([0.3, 1.2, -0.5], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(straight_through_pattern(scores), argmax_pattern(scores), rtol=0, atol=0)
    wish = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    (ours,) = torch.autograd.grad((straight_through_pattern(scores) * wish).sum(), scores)
    (soft,) = torch.autograd.grad((attention_pattern(scores) * wish).sum(), scores)
    torch.testing.assert_close(ours, soft)
    assert ours.abs().max() > 0.1


def test_temperature_goes_from_argmax_to_the_mean(worked):
    _, _, values = worked
    torch.testing.assert_close(output_with(tempered(0.01), *worked), values[0])
    torch.testing.assert_close(output_with(tempered(1e6), *worked), values.mean(dim=0), rtol=1e-4, atol=1e-4)
    numbers = argmax().numbers
    assert numbers["query_gradient_by_temperature"][0] < 1e-30, "near the argmax the gradient is gone"
    assert max(numbers["query_gradient_by_temperature"]) > 1


def test_only_those_with_a_gradient_learn(worked):
    losses = argmax().numbers["losses"]
    assert set(losses["argmax"]) == {8.0}
    assert losses["softmax"][-1] < 0.01
    assert losses["straight-through"][0] == 8.0
    assert losses["straight-through"][-1] == 0.0
    assert len(descend(attention_pattern, *worked, worked[2][1], 5, 0.1)) == 6


def test_the_wanted_value_must_exist():
    with refused(ConfigError, "out-of-range", "wanted=5"):
        argmax(wanted=5)
    with refused(ConfigError, "unknown-name", "random, worked"):
        argmax(example="wroked")
