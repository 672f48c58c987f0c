"""Settings that no part of ours can follow are named, with what they may be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.refusals import refused

from glassformer.foundation.errors import DataError
from glassformer.pretrained.importing import read_pretrained
from glassformer.pretrained.translation_rules import Rule, Settings, to_ours, to_theirs

WRONG = [
    (
        "gpt2",
        {"model_type": "pegasus"},
        "model_type='pegasus' is a kind of model that cannot become ours; gpt2, llama, .*mistral, .*bert",
    ),
    ("gpt2", {"model_type": None}, "model_type=None is a kind of model"),
    ("gpt2", {"architectures": ["GPT2ForSequenceClassification"]}, "names a class that cannot become ours; GPT2LMHeadModel"),
    ("gpt2", {"activation_function": "swish"}, "activation_function='swish' is an activation we do not have"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True is not supported"),
    ("gpt2", {"n_head": 5}, r"config\.json: the settings do not fit our model: .*model\.heads=5 does not divide"),
    ("gpt2", {"n_layer": "two"}, "n_layer='two' must be a whole number from 1 on"),
    ("gpt2", {"vocab_size": 299}, "vocab_size=299 is less than the 300 ids of the folder's tokenizer"),
    ("gpt2", {"vocab_size": 301}, r"the tensor wte\.weight has shape \[300, 24\]; config\.json asks for \[301, 24\]"),
    ("gpt2", {"n_inner": 50}, r"the tensor h\.0\.mlp\.c_fc\.weight has shape \[24, 96\]; config\.json asks for \[24, 50\]"),
    ("gpt2", {"n_layer": 3}, r"the tensor h\.2\.ln_1\.weight is missing"),
    ("gpt2", {"n_layer": 1}, r"the tensor h\.1\.attn\.c_attn\.bias has no place"),
    ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "rope_parameters=.* stretches or cuts the rotation"),
    ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling=.* stretches or cuts the rotation"),
    ("llama", {"head_dim": 8}, r"q_proj.weight has shape \[24, 24\]; config.json asks for \[48, 24\]"),
    ("llama", {"hidden_act": "gelu"}, "hidden_act='gelu' is not supported"),
    ("llama", {"mlp_bias": True}, "a bias of attention.output"),
    ("llama", {"num_key_value_heads": 4}, "kv_heads=4 must divide model.heads=6"),
    ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key' is not supported"),
    ("bert", {"is_decoder": True}, "is_decoder=True is not supported"),
]


@pytest.mark.parametrize(("name", "change", "sentence"), WRONG, ids=lambda value: str(value)[:40])
def test_a_folder_that_does_not_fit_says_which_setting_or_tensor(
    name: str, change: dict[str, Any], sentence: str, folder_of: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folder_of(name), tmp_path / "model"))
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, **change}))
    with pytest.raises(DataError, match=sentence):
        read_pretrained(folder)


def test_a_second_copy_must_be_a_copy(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder_of("gpt2"), tmp_path / "model"))
    tensors = load_file(folder / "model.safetensors")
    table = tensors["transformer.wte.weight"]
    save_file({**tensors, "lm_head.weight": table.clone()}, folder / "model.safetensors")
    read_pretrained(folder)
    save_file({**tensors, "lm_head.weight": table + 1}, folder / "model.safetensors")
    with refused(DataError, "copy-differs", "lm_head.weight", "wte.weight"):
        read_pretrained(folder)


def test_a_tensor_without_a_place(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder_of("bert"), tmp_path / "model"))
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "classifier.weight": torch.zeros(2, 24)}, folder / "model.safetensors")
    with refused(DataError, "tensor-without-place", "classifier.weight"):
        read_pretrained(folder)


@pytest.mark.parametrize(
    ("ask", "value"),
    [("whole", True), ("whole", 0), ("whole", 2.5), ("number", "1"), ("number", True), ("flag", 1)],
)
def test_settings_of_the_wrong_type(ask: str, value: Any) -> None:
    with refused(DataError, "bad-setting", str(value)):
        getattr(Settings({"x": value}, "config.json"), ask)("x", 1)


RULES = [
    Rule("embedding.weight", ("table",), (3,)),
    Rule("qkv.weight", ("q.weight", "k.weight"), (4, 1)),
    Rule("qkv.bias", ("q.bias", "k.bias"), (4, 1)),
    Rule("map.weight", ("conv.weight",), (5,), transposed=True),
    Rule("map.bias", ("conv.bias",), (5,)),
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
    with refused(DataError, "tensor-not-zero", "conv.bias"):
        to_ours(theirs(), RULES, shapes)
    assert "map.bias" not in to_ours({**theirs(), "conv.bias": torch.zeros(5)}, RULES, shapes)


def test_a_missing_and_a_misshapen_tensor_are_named() -> None:
    given = theirs()
    given.pop("k.bias")
    with refused(DataError, "tensor-missing", "k.bias"):
        to_ours(given, RULES, expected())
    given = {**theirs(), "conv.weight": torch.zeros(5, 2)}
    with refused(DataError, "tensor-shape", "conv.weight", "config.json"):
        to_ours(given, RULES, expected())
