"""Weights of networks in checkpoints: saving, loading, and initialising a new run from a parent's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError

BASE_DIGEST = "base_digest"
"""A buffer: the sha256 of the pretrained weights that an adapter was trained on top of."""
HEAD = "head."
"""The part of a network that depends on the objective: taken from a parent only if its shape fits."""


def saved_tensors(network: nn.Module) -> dict[str, Tensor]:
    """The tensors of a network that a checkpoint stores, shared ones once.

    For an adapter on frozen pretrained weights, only the trained tensors and the sha256 of the pretrained ones.
    """
    adapter = getattr(network, "base_sha256", None) is not None
    tensors: dict[str, Tensor] = {name: p for name, p in network.named_parameters() if p.requires_grad or not adapter}
    tensors.update((name, buffer) for name, buffer in network.named_buffers() if adapter and name == BASE_DIGEST)
    if not adapter:
        persistent = network.state_dict().keys()
        tensors.update((name, buffer) for name, buffer in network.named_buffers() if name in persistent)
    return tensors


def load_weights(network: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Loads saved weights into a network; raises if names or shapes differ."""
    own = saved_tensors(network)
    wrong = _not_fitting(own, tensors)
    if BASE_DIGEST in own and BASE_DIGEST in tensors and own[BASE_DIGEST].tolist() != tensors[BASE_DIGEST].tolist():
        raise ConfigError(
            f"The weights of {origin} were trained on top of other pretrained weights: their sha256 begins with "
            f"{bytes(tensors[BASE_DIGEST].tolist()).hex()[:12]}, and that of model.folder now with "
            f"{bytes(own[BASE_DIGEST].tolist()).hex()[:12]}; restore the folder the run was trained with.",
            reason="other-pretrained-weights",
        )
    if wrong:
        raise ConfigError(
            f"The weights of {origin} do not fit this model: {', '.join(sorted(wrong)[:3])} differ in name or shape.",
            reason="weights-do-not-fit",
        )
    _copy(own, tensors, own)


def take_weights(network: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> str:
    """Initialises a network with another run's weights; returns a sentence about it.

    Everything but the head must fit; a head that does not fit keeps its fresh initialisation.
    """
    own = saved_tensors(network)
    wrong = _not_fitting(own, tensors)
    body = [name for name in wrong if not name.startswith(HEAD)]
    if body:
        raise ConfigError(
            f"The weights of {origin} do not fit this model: {', '.join(sorted(body)[:3])} differ in name or shape; "
            f"give this recipe the model settings of its parent, which {origin}/recipe.yaml holds.",
            reason="weights-of-parent-do-not-fit",
        )
    if not wrong:
        _copy(own, tensors, own)
        return f"Starting from the weights of {origin}."
    _copy(own, tensors, [name for name in own if not name.startswith(HEAD)])
    return f"Starting from the weights of {origin}; the head is newly initialised, since its outputs differ."


def sum_of_bits(tensors: Mapping[str, Tensor]) -> int:
    """One number for the bits of some tensors, quick on any device: to see whether two processes hold the same."""
    total = 0
    for place, name in enumerate(sorted(tensors)):
        flat = tensors[name].detach().reshape(-1)
        words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()]
        total += (2 * place + 1) * int(flat.contiguous().view(words).long().sum())
    return total & ((1 << 63) - 1)


def _not_fitting(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    names = {*own, *tensors}
    return [name for name in names if name not in own or name not in tensors or own[name].shape != tensors[name].shape]


def _copy(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], names: Any) -> None:
    for name in names:
        own[name].data.copy_(tensors[name])
