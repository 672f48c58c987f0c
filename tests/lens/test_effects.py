"""Effects: the head that does the work is the one that is missed, with an interval over texts; patching finds its way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.foundation.errors import UsageError
from glassformer.lens.effects import HeadEffects, head_effects, patching_effects
from glassformer.lens.places import Places

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


def test_refused(network_of) -> None:
    places = Places(network_of())
    with pytest.raises(UsageError, match="There is no text"):
        head_effects(places, [])
    with pytest.raises(UsageError, match="two texts at least"):
        head_effects(places, [torch.tensor([1, 2])], how="resample")
    with pytest.raises(UsageError, match="one token has no loss"):
        head_effects(places, [torch.tensor([1])])
    with pytest.raises(UsageError, match="The texts have 2 and 3 tokens"):
        patching_effects(places, torch.tensor([1, 2]), torch.tensor([1, 2, 3]), target=0, other=1)
    with pytest.raises(UsageError, match="nothing to bring back"):
        patching_effects(places, torch.tensor([1, 2]), torch.tensor([1, 2]), target=0, other=1)
