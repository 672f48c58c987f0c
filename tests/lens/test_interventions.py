"""Ablation and patching: exactly what they say, for the length of the ``with``, and not a bit longer."""

from __future__ import annotations

import pytest
import torch

from glassformer.foundation.errors import UsageError
from glassformer.lens.capture import capture
from glassformer.lens.interventions import ablated, patched
from glassformer.lens.places import Places

ROWS = [torch.tensor([5, 6, 7, 8, 9]), torch.tensor([200, 3, 77]), torch.tensor([1, 2, 3, 4, 5, 6, 7])]
NAME = "blocks.1.attention.heads"


def heads(places: Places, row: int) -> torch.Tensor:
    return capture(places, ROWS[row][None], [NAME]).values[NAME][0]


@pytest.mark.parametrize("how", ["zero", "mean", "resample"])
def test_bit_identical_afterwards_and_the_right_value_meanwhile(how: str, network_of) -> None:
    places = Places(network_of())
    before, own = capture(places, ROWS[0][None]).scores, [heads(places, row) for row in range(3)]
    with ablated(places, layer=1, head=2, how=how, rows=ROWS, row=0):
        inside, scores = heads(places, 0), capture(places, ROWS[0][None]).scores
    wanted = {
        "zero": torch.zeros(5, 4),
        "mean": torch.cat([value[2] for value in own]).mean(dim=0).expand(5, 4),
        "resample": own[1][2][[0, 1, 2, 0, 1]],
    }[how]
    torch.testing.assert_close(inside[2], wanted)
    assert torch.equal(inside[:2], own[0][:2])
    assert not torch.equal(scores, before)
    assert torch.equal(capture(places, ROWS[0][None]).scores, before)


def test_zero_is_the_network_without_the_rows_of_its_output(network_of) -> None:
    places = Places(network_of())
    with ablated(places, layer=1, head=2):
        found = capture(places, ROWS[0][None]).scores
    with torch.no_grad():
        places.network.blocks[1].attention.output.weight[:, 8:12] = 0
        torch.testing.assert_close(places.network(ROWS[0][None]), found, rtol=1e-4, atol=1e-4)


def test_a_patch_of_everything_is_the_other_text(network_of) -> None:
    places = Places(network_of(positions="none"))
    first, second = torch.tensor([[5, 6, 7]]), torch.tensor([[9, 2, 1]])
    other = capture(places, first, ["blocks.0.before"])
    before = capture(places, second).scores
    with patched(places, "blocks.0.before", other.values["blocks.0.before"]):
        assert torch.equal(capture(places, second).scores, other.scores)
    assert torch.equal(capture(places, second).scores, before)


def test_a_patch_of_one_head_and_position(network_of) -> None:
    places = Places(network_of())
    first, second = torch.tensor([[5, 6, 7]]), torch.tensor([[9, 2, 1]])
    value = capture(places, first, [NAME]).values[NAME]
    own = capture(places, second, [NAME]).values[NAME]
    with patched(places, NAME, value, positions=[1], head=0):
        inside = capture(places, second, [NAME]).values[NAME]
    assert torch.equal(inside[:, 0, 1], value[:, 0, 1])
    assert torch.equal(inside[:, 1:], own[:, 1:])
    assert torch.equal(inside[:, 0, [0, 2]], own[:, 0, [0, 2]])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"layer": 2, "head": 0}, "layer=2 cannot be used: this network has the layers 0 to 1; give one of them."),
        ({"layer": 0, "head": -1}, "head=-1 cannot be used: each layer has the heads 0 to 2; give one of them."),
        ({"layer": 0, "head": 0, "how": "none"}, "how='none' cannot be used: choose zero, mean, resample."),
        ({"layer": 0, "head": 0, "how": "mean"}, "needs 1 text at least"),
        ({"layer": 0, "head": 0, "how": "resample", "rows": ROWS[:1]}, "needs 2 texts at least"),
    ],
)
def test_refused(settings, sentence: str, network_of) -> None:
    with pytest.raises(UsageError, match=sentence), ablated(Places(network_of()), **settings):
        pass


def test_texts_of_different_length_are_refused(network_of) -> None:
    places = Places(network_of())
    value = capture(places, torch.tensor([[5, 6, 7]]), ["embedded"]).values["embedded"]
    with pytest.raises(UsageError, match="do not have the same length"), patched(places, "embedded", value):
        capture(places, torch.tensor([[5, 6]]))
