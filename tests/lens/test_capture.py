"""Looking and changing leave no trace: the same bits, modes, hooks and random numbers afterwards."""

from __future__ import annotations

import pytest
import torch

from glassformer.lens.capture import capture, changed
from glassformer.lens.places import Places
from glassformer.model.slots import MIXERS

from .conftest import KINDS, TEXT

IDS = torch.tensor([list(TEXT)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mixer", MIXERS.names())
def test_the_same_bits_afterwards(mixer: str, kind: str, network_of) -> None:
    network = network_of(mixer=mixer, dropout=0.1, **KINDS[kind])
    with torch.no_grad():
        before = network(IDS)
    network.train()
    network.blocks[0].eval()
    modes = [part.training for part in network.modules()]
    places, random = Places(network), torch.get_rng_state()
    found = capture(places, IDS, list(places.by_name))
    with changed(places, {"blocks.0.middle": lambda x_BTD: x_BTD * 0}):
        other = capture(places, IDS).scores
    assert modes == [part.training for part in network.modules()]
    assert torch.equal(random, torch.get_rng_state())
    assert not any(part._forward_hooks for part in network.modules())
    with torch.no_grad():
        assert torch.equal(network.eval()(IDS), before)
    torch.testing.assert_close(found.scores, before, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(other, before)


def test_hooks_are_removed_when_something_breaks(network_of) -> None:
    places = Places(network_of())

    def break_it(value):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"), changed(places, {"embedded": break_it}):
        capture(places, IDS)
    assert not any(part._forward_hooks for part in places.network.modules())


def test_a_change_is_seen_by_what_looks_later(network_of) -> None:
    places = Places(network_of())
    with changed(places, {"embedded": torch.zeros_like}):
        assert not capture(places, IDS, ["blocks.0.before"]).values["blocks.0.before"].any()


def test_the_same_pattern_for_all_rows_is_there_for_each(network_of) -> None:
    places = Places(network_of(mixer="synthesizer_random"))
    name = places.patterns[0]
    assert name is not None
    assert capture(places, IDS.repeat(4, 1), [name]).values[name].shape[0] == 4
