"""Places: names, axes, and which of them are patterns, heads and streams."""

from __future__ import annotations

import pytest
import torch

from glassformer.foundation.errors import UnknownName
from glassformer.lens.capture import capture
from glassformer.lens.places import Places
from glassformer.model.slots import MIXERS

from .conftest import HEADS, LAYERS, TEXT, WIDTH


def test_by_layer(network_of) -> None:
    places = Places(network_of())
    assert places.patterns == ["blocks.0.attention.mixer.pattern", "blocks.1.attention.mixer.pattern"]
    assert places.outputs == ["blocks.0.attention.heads", "blocks.1.attention.heads"]
    assert places.streams == ["embedded", "blocks.0.after", "blocks.1.after"]


def test_every_place_has_the_axes_that_it_says(network_of) -> None:
    sizes = {"batch": 1, "head": HEADS, "query": len(TEXT), "key": len(TEXT), "position": len(TEXT)}
    for mixer in MIXERS.names():
        places = Places(network_of(mixer=mixer))
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
    with pytest.raises(UnknownName, match=r"Did you mean 'blocks\.0\.after'"):
        Places(network_of())["blocks.0.afer"]
