"""Looking and changing leave no trace: the same bits, modes, hooks and random numbers afterwards."""

from __future__ import annotations

import pytest
import torch
from tests.mixers import placed
from tests.refusals import refused

from glassformer.foundation.errors import UnknownName
from glassformer.lens.capture import Places, capture, changed
from glassformer.model.config import ModelConfig
from glassformer.model.slots import MIXERS
from glassformer.model.transformer import build_model

from .conftest import HEADS, KINDS, LAYERS, TEXT, WIDTH

IDS = torch.tensor([list(TEXT)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mixer", MIXERS.names())
def test_the_same_bits_afterwards(mixer: str, kind: str, network_of) -> None:
    network = network_of(mixer=placed(mixer), dropout=0.1, **KINDS[kind])
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


def test_by_layer(network_of) -> None:
    places = Places(network_of())
    assert places.patterns == ["blocks.0.attention.mixer.pattern", "blocks.1.attention.mixer.pattern"]
    assert places.outputs == ["blocks.0.attention.heads", "blocks.1.attention.heads"]
    assert places.streams == ["embedded", "blocks.0.after", "blocks.1.after"]


def test_every_place_has_the_axes_that_it_says(network_of) -> None:
    sizes = {"batch": 1, "head": HEADS, "query": len(TEXT), "key": len(TEXT), "position": len(TEXT)}
    for mixer in MIXERS.names():
        places = Places(network_of(mixer=placed(mixer)))
        found = capture(places, torch.tensor([list(TEXT)]), list(places.by_name)).values
        assert set(found) == set(places.by_name)
        for name, value in found.items():
            axes = places[name].axes
            assert value.dim() == len(axes), name
            for size, axis in zip(value.shape, axes):
                kv_heads = axis == "head" and mixer == "grouped" and not name.endswith(("pattern", "scores", "heads"))
                assert kv_heads or axis in ("channel", "neuron") or size == sizes[axis], (name, axis)
        assert found["blocks.0.after"].shape[-1] == WIDTH


def test_a_mixer_without_a_pattern(network_of) -> None:
    assert Places(network_of(mixer="none", positions="none")).patterns == [None] * LAYERS


def test_an_unknown_place(network_of) -> None:
    with refused(UnknownName, "unknown-name", "blocks.0.after"):
        Places(network_of())["blocks.0.afer"]


def test_layers_that_share_a_block_are_seen_one_by_one() -> None:
    config = ModelConfig.parse({"width": 12, "heads": 3, "layers": 4, "context": 9, "stack": {"kind": "shared", "blocks": 2}})
    model = build_model(config, 11, seed=1).eval()
    plain = build_model(ModelConfig.parse({"width": 12, "heads": 3, "layers": 4, "context": 9}), 11, seed=1).eval()
    plain.load_state_dict(
        {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("blocks.")}
        | {f"blocks.{n}.{name}": tensor for n in range(4) for name, tensor in model.blocks[n % 2].state_dict().items()}
    )
    shared, separate, ids_BT = Places(model), Places(plain), torch.arange(7).unsqueeze(0)
    assert shared.patterns == [f"layers.{layer}.attention.mixer.pattern" for layer in range(4)]
    found, expected = (capture(places, ids_BT, [*places.patterns, *places.streams]) for places in (shared, separate))
    for one, other in zip([*shared.patterns, *shared.streams], [*separate.patterns, *separate.streams]):
        torch.testing.assert_close(found.values[one], expected.values[other])
    with changed(shared, {"layers.2.after": torch.zeros_like}), changed(separate, {"blocks.2.after": torch.zeros_like}):
        torch.testing.assert_close(model(ids_BT), plain(ids_BT))
