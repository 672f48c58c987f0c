"""One list of rules for both ways: stacked, transposed, and zeros for what we do without."""

from __future__ import annotations

import pytest
import torch

from glassformer.foundation.errors import DataError
from glassformer.pretrained.tensors import Rule, linear, to_ours, to_theirs

RULES = [
    Rule("embedding.weight", ("table",), (3,)),
    *linear("qkv", ("q", "k"), (4, 1)),
    *linear("map", "conv", 5, transposed=True),
]


def theirs() -> dict[str, torch.Tensor]:
    names = {"table": (3, 2), "q.weight": (4, 2), "k.weight": (1, 2), "q.bias": (4,), "k.bias": (1,)}
    names |= {"conv.weight": (2, 5), "conv.bias": (5,)}
    return {name: torch.arange(float(torch.Size(shape).numel())).reshape(shape) + 7 for name, shape in names.items()}


def expected() -> dict[str, torch.Size]:
    shapes = {"embedding.weight": (3, 2), "qkv.weight": (5, 2), "qkv.bias": (5,), "map.weight": (5, 2), "map.bias": (5,)}
    return {name: torch.Size(shape) for name, shape in shapes.items()}


def test_there_and_back() -> None:
    ours = to_ours(theirs(), RULES, expected())
    assert torch.equal(ours["qkv.weight"], torch.cat([theirs()["q.weight"], theirs()["k.weight"]]))
    assert torch.equal(ours["map.weight"], theirs()["conv.weight"].T)
    back = to_theirs(ours, RULES)
    assert back.keys() == theirs().keys()
    assert all(torch.equal(tensor, back[name]) for name, tensor in theirs().items())


def test_what_we_do_without_is_zero_there() -> None:
    ours = to_ours(theirs(), RULES, expected())
    ours.pop("qkv.bias")
    back = to_theirs(ours, RULES)
    assert torch.equal(back["q.bias"], torch.zeros(4))
    assert torch.equal(back["k.bias"], torch.zeros(1))


def test_no_two_tensors_share_memory() -> None:
    """safetensors refuses to write them."""
    back = to_theirs(to_ours(theirs(), RULES, expected()), RULES)
    assert len({tensor.data_ptr() for tensor in back.values()}) == len(back)


def test_what_we_have_no_place_for_must_be_zero() -> None:
    shapes = {name: shape for name, shape in expected().items() if name != "map.bias"}
    with pytest.raises(DataError, match=r"the tensor conv\.bias is not zero, and no part of ours has a place for it"):
        to_ours(theirs(), RULES, shapes)
    assert "map.bias" not in to_ours({**theirs(), "conv.bias": torch.zeros(5)}, RULES, shapes)


def test_a_missing_and_a_misshapen_tensor_are_named() -> None:
    given = theirs()
    given.pop("k.bias")
    with pytest.raises(DataError, match=r"the tensor k\.bias is missing"):
        to_ours(given, RULES, expected())
    given = {**theirs(), "conv.weight": torch.zeros(5, 2)}
    with pytest.raises(DataError, match=r"the tensor conv\.weight has shape \[5, 2\]; config\.json asks for \[2, 5\]"):
        to_ours(given, RULES, expected())
