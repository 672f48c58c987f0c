"""Equal sizes: the inner width that comes nearest, by hand and by search; what cannot be matched."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.recipe import Recipe, load_recipe
from glassformer.study.planning.size_matching import KEY, match, size_of

V = 11
MODEL = {"width": 12, "layers": 2, "heads": 3, "context": 7, "feedforward": {"kind": "relu", "inner": 20}}


def recipe(**changes) -> Recipe:
    values = {"data": {"set": "docstrings"}, "model": MODEL, "training": {"steps": 5, "batch_size": 5}}
    return load_recipe(values, {key.replace("__", "."): value for key, value in changes.items()})


def test_nothing_to_do_when_sizes_are_equal():
    base = recipe()
    wanted = size_of(base.model, V, "parameters", 5)
    found = match("shift", recipe(model__merge="shift"), V, "parameters", wanted)
    assert found == ({}, [])


def test_positions_by_hand():
    """Without the 7 x 12 learned positions, 84 numbers are free; one more inner unit takes 25 in each of 2 layers."""
    wanted = size_of(recipe().model, V, "parameters", 5)
    found = match("none", recipe(model__positions="none"), V, "parameters", wanted)
    assert found[0] == {KEY: 22}  # 2 * 50 = 100 is nearer to 84 than 50
    assert "22" in found[1][0]
    assert f"{wanted + 16:,} parameters against the baseline's {wanted:,}" in found[1][0]
    assert "(+" in found[1][0]


@pytest.mark.parametrize("what", ["parameters", "flops"])
@pytest.mark.parametrize("change", [{"model__mixer": "synthesizer"}, {"model__width": 24}, {"model__feedforward": "gated"}])
def test_no_other_inner_width_comes_nearer(what, change):
    wanted = size_of(recipe(model__feedforward__inner=500).model, V, what, 5)
    variant = recipe(**change)
    found = match("variant", variant, V, what, wanted)

    def distance(inner: int) -> int:
        return abs(size_of(load_recipe(variant, {KEY: inner}).model, V, what, 5) - wanted)

    inner = found[0][KEY]
    assert distance(inner) <= min(distance(inner - 1), distance(inner + 1))


def test_what_is_too_large_whatever_its_feedforward_is_refused():
    wanted = size_of(recipe().model, V, "parameters", 5)
    with refused(ConfigError, "too-large-to-match"):
        match("wide", recipe(model__width=96), V, "parameters", wanted)


@pytest.mark.parametrize("what", ["parameters", "flops"])
def test_no_width_takes_a_machine_down(what):
    """A change that would need a feed-forward of a million units is refused, and nothing is allocated for it."""
    wanted = size_of(recipe(model__width=384).model, V, what, 5)
    with refused(ConfigError, "too-small-to-match"):
        match("narrow", recipe(), V, what, wanted)


def test_a_model_without_layers_has_nothing_to_adapt():
    with refused(ConfigError, "no-layers-to-match"):
        match("bare", recipe(model__layers=0), V, "parameters", 10_000)


def test_a_feedforward_without_inner_width_is_refused():
    from glassformer.model.slots import FEEDFORWARDS, FeedforwardConfig

    if "test_no_inner" not in FEEDFORWARDS.names():

        @FEEDFORWARDS.variant("test_no_inner")
        class NoInner(FeedforwardConfig):
            """Does nothing, and has no inner width."""

            def flops(self, dims, batch, length):
                return 0

            def build(self, dims):
                return torch.nn.Identity()

    try:
        with refused(ConfigError, "no-width-to-match", "'test_no_inner' of odd"):
            match("odd", recipe(model__feedforward="test_no_inner"), V, "parameters", 10_000)
    finally:
        del FEEDFORWARDS._variants["test_no_inner"]
