"""Weights between networks and checkpoints: each tensor once, what does not fit, heads that are new, adapters."""

from __future__ import annotations

from typing import Any

import torch
from tests.refusals import refused
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model
from glassformer.runs.weights import load_weights, saved_tensors, take_weights

SIZES = {"width": 12, "heads": 3, "layers": 1, "context": 7}


def make(vocabulary: int = 11, *, seed: int = 0, outputs: int | None = None, **changes: Any) -> Transformer:
    return build_model(ModelConfig.parse({**SIZES, **changes}), vocabulary, outputs=outputs, seed=seed)


def copies(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in saved_tensors(network).items()}


def test_weights_that_do_not_fit_are_a_sentence() -> None:
    config = ModelConfig.parse({"width": 12, "heads": 3, "layers": 1, "context": 7})
    model, other = build_model(config, 11, seed=0), build_model(config, 13, seed=0)
    with refused(ConfigError, "weights-do-not-fit", "step 7", "embedding.weight"):
        load_weights(model, saved_tensors(other), "step 7")
    with refused(ConfigError, "weights-do-not-fit"):
        load_weights(model, {}, "step 7")


def test_tied_weights_are_kept_once() -> None:
    names = set(saved_tensors(build_model(ModelConfig.parse({"width": 12, "heads": 3, "layers": 1, "context": 7}), 11, seed=0)))
    assert "embedding.weight" in names
    assert not [name for name in names if name.startswith("head")]


class Counter(nn.Module):
    """One weight that is trained, one that is not, one buffer that is kept and one that is made again."""

    def __init__(self) -> None:
        super().__init__()
        self.trained, self.frozen = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3), requires_grad=False)
        self.register_buffer("kept", torch.zeros(4))
        self.register_buffer("table", torch.zeros(5), persistent=False)
        self.register_buffer("base_digest", torch.tensor([171, 205, 7], dtype=torch.uint8))


def test_what_a_checkpoint_keeps() -> None:
    network = Counter()
    assert set(saved_tensors(network)) == {"trained", "frozen", "kept", "base_digest"}
    network.base_sha256 = "abcd07"  # frozen weights are found elsewhere
    assert set(saved_tensors(network)) == {"trained", "base_digest"}


def test_an_adapter_of_other_pretrained_weights_is_refused() -> None:
    network, other = Counter(), Counter()
    network.base_sha256 = other.base_sha256 = "abcd07"
    other.base_digest[1] = 6
    with refused(ConfigError, "other-pretrained-weights", "step 5", "ab0607", "abcd07"):
        load_weights(network, copies(other), "step 5")


def test_loaded_weights_are_the_saved_ones_and_stay_parameters() -> None:
    network, saved = make(seed=1), copies(make(seed=2))
    load_weights(network, saved, "step 7")
    own = saved_tensors(network)
    assert all(torch.equal(own[name], saved[name]) for name in saved)
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in network.parameters())
    saved["embedding.weight"].zero_()
    assert network.embedding.weight.abs().sum() > 0  # a copy, not the same memory


def test_nothing_is_loaded_where_something_does_not_fit() -> None:
    network, saved = make(seed=1), copies(make(seed=2))
    before = copies(network)
    saved["unheard_of"] = torch.zeros(2)
    with refused(ConfigError, "weights-do-not-fit", "unheard_of"):
        load_weights(network, saved, "step 7")
    assert all(torch.equal(tensor, before[name]) for name, tensor in saved_tensors(network).items())


class TestTaking:
    def test_a_parent_that_fits_is_taken_whole(self) -> None:
        network, parent = make(head="untied", seed=1), make(head="untied", seed=2)
        assert take_weights(network, copies(parent), "runs/a") == "Starting from the weights of runs/a."
        assert all(torch.equal(tensor, saved_tensors(parent)[name]) for name, tensor in saved_tensors(network).items())

    def test_a_head_with_other_outputs_is_new(self) -> None:
        network, parent = make(head="untied", outputs=5, seed=1), make(head="untied", seed=2)
        before, theirs = copies(network), copies(parent)
        sentence = take_weights(network, theirs, "runs/a")
        assert sentence.endswith("runs/a; the head is newly initialised, since its outputs differ.")
        for name, tensor in saved_tensors(network).items():
            assert torch.equal(tensor, (before if name.startswith("head.") else theirs)[name]), name
        assert any(name.startswith("head.") for name in before)

    def test_a_tied_head_has_nothing_of_its_own(self) -> None:
        network = make(head="untied", outputs=5, seed=1)
        assert "the head is newly initialised" in take_weights(network, copies(make(seed=2)), "runs/a")

    def test_another_body_is_refused_with_the_remedy(self) -> None:
        network = make(seed=1)
        before = copies(network)
        with refused(ConfigError, "weights-of-parent-do-not-fit", "runs/a"):
            take_weights(network, copies(make(layers=2, seed=2)), "runs/a")
        assert all(torch.equal(tensor, before[name]) for name, tensor in saved_tensors(network).items())
