"""Ablation and patching: exactly what they say, for the length of the ``with``, and not a bit longer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import UsageError
from glassformer.lens.capture import Places, capture
from glassformer.lens.interventions import HeadEffects, ablated, head_effects, patched, patching_effects

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
    ("settings", "reason", "named"),
    [
        ({"layer": 2, "head": 0}, "bad-layer", "0 to 1"),
        ({"layer": 0, "head": -1}, "bad-head", "0 to 2"),
        ({"layer": 0, "head": 0, "how": "none"}, "unknown-ablation", "zero, mean, resample"),
        ({"layer": 0, "head": 0, "how": "mean"}, "too-few-texts", "at least 1 text"),
        ({"layer": 0, "head": 0, "how": "resample", "rows": ROWS[:1]}, "too-few-texts", "at least 2 text"),
    ],
)
def test_refused(settings, reason: str, named: str, network_of) -> None:
    with refused(UsageError, reason, named), ablated(Places(network_of()), **settings):
        pass


def test_texts_of_different_length_are_refused(network_of) -> None:
    places = Places(network_of())
    value = capture(places, torch.tensor([[5, 6, 7]]), ["embedded"]).values["embedded"]
    with refused(UsageError, "different-lengths"), patched(places, "embedded", value):
        capture(places, torch.tensor([[5, 6]]))


REPEATED = [torch.tensor([*part, *part, part[0]]) for part in ([3, 7, 1, 9], [2, 5, 8, 4], [6, 1, 10, 0])]


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_the_planted_head_is_missed_most(how: str, planted) -> None:
    found = head_effects(Places(planted), REPEATED, how=how)
    assert found.by_text.shape == (2, 3, 3)
    one = found.of(1, 2)
    assert one.value is not None
    assert one.low is not None
    assert one.low > 0.2
    assert one.n == 3
    assert found.of(1, 0).value == pytest.approx(0, abs=1e-6)
    assert np.unravel_index(found.by_text.mean(axis=-1).argmax(), (2, 3)) in [(0, 1), (1, 2)]
    assert found.unit == "nats per token more"


def test_an_interval_by_hand() -> None:
    one = HeadEffects("zero", "nats", np.array([[[1.0, 2.0, 3.0]]])).of(0, 0)
    half = 4.302652729911275 / np.sqrt(3)
    assert (one.value, one.n) == (2.0, 3)
    np.testing.assert_allclose([one.low, one.high], [2 - half, 2 + half], rtol=1e-6)
    assert HeadEffects("zero", "nats", np.array([[[1.0]]])).of(0, 0).low is None


def test_an_encoder_by_divergence(network_of) -> None:
    found = head_effects(Places(network_of(causal=False)), [torch.tensor([5, 6, 7]), torch.tensor([8])], how="resample")
    assert found.unit == "nats of divergence"
    assert (found.by_text >= 0).all()
    assert found.by_text.max() > 0


def test_patching_comes_back_where_the_texts_differ(network_of) -> None:
    places = Places(network_of())
    first, second = torch.tensor([5, 6, 7, 8]), torch.tensor([5, 9, 7, 8])
    found = patching_effects(places, first, second, target=3, other=4)
    assert found.shape == (3, 4)
    np.testing.assert_allclose(found[0], [0, 1, 0, 0], atol=1e-5)  # the embeddings differ in one place
    np.testing.assert_allclose(found[-1], [0, 0, 0, 1], atol=1e-5)  # only the last position is read in the end


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_hidden_positions_stay_hidden(look_of, how: str) -> None:
    look = look_of(hide=[3])
    found = look.effects(how=how).by_text[..., 0]
    for layer, head in np.ndindex(found.shape):
        with look.without(layer, head, how=how):
            rise = np.nanmean(look.again().losses) - np.nanmean(look.losses)
        np.testing.assert_allclose(found[layer, head], rise, atol=1e-5)
    assert not np.allclose(found, look_of().effects(how=how).by_text[..., 0])
    assert look.effects([look.ids, look.ids[:2]], how=how).by_text.shape == (*found.shape, 2)  # one has no position 3


def test_hidden_positions_stay_hidden_in_patching(look_of) -> None:
    look, other = look_of(hide=[3]), look_of(b"seven end", hide=[3])
    top, bottom = (one.scores[-1, 3] - one.scores[-1, 4] for one in (other, look))
    found = look.patching(other, target=3, instead=4)
    with look.patched(other, look.places.streams[1], positions=[7]):
        again = look.again().scores[-1]
    np.testing.assert_allclose(found[1, 7], (again[3] - again[4] - bottom) / (top - bottom), rtol=1e-4)


def test_effects_refused(network_of) -> None:
    places = Places(network_of())
    with refused(UsageError, "no-text"):
        head_effects(places, [])
    with refused(UsageError, "too-few-texts"):
        head_effects(places, [torch.tensor([1, 2])], how="resample")
    with refused(UsageError, "text-too-short"):
        head_effects(places, [torch.tensor([1])])
    with refused(UsageError, "different-lengths", "2 and 3 tokens"):
        patching_effects(places, torch.tensor([1, 2]), torch.tensor([1, 2, 3]), target=0, other=1)
    with refused(UsageError, "same-difference"):
        patching_effects(places, torch.tensor([1, 2]), torch.tensor([1, 2]), target=0, other=1)
