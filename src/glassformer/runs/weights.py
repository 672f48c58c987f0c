"""Weights between networks and checkpoints: what is saved, what is put back, what a new run takes from an old one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError

BASE_DIGEST = "base_digest"
"""A buffer: the sha256 of the pretrained weights that an adapter was trained on top of."""
HEAD = "head."
"""The part of a network that depends on what it is asked: taken from a parent only where it fits."""


def saved_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Everything a checkpoint keeps of a network, each tensor once.

    A network whose frozen weights are found elsewhere (``base_sha256``) keeps only what is trained, and which weights those
    were.
    """
    adapter = getattr(network, "base_sha256", None) is not None
    kept: dict[str, Tensor] = {name: p for name, p in network.named_parameters() if p.requires_grad or not adapter}
    kept.update((name, buffer) for name, buffer in network.named_buffers() if adapter and name == BASE_DIGEST)
    if not adapter:
        persistent = network.state_dict().keys()
        kept.update((name, buffer) for name, buffer in network.named_buffers() if name in persistent)
    return kept


def load_weights(network: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Puts saved weights into a network; anything that does not fit is a sentence."""
    own = saved_tensors(network)
    wrong = _not_fitting(own, tensors)
    if BASE_DIGEST in own and BASE_DIGEST in tensors and own[BASE_DIGEST].tolist() != tensors[BASE_DIGEST].tolist():
        raise ConfigError(
            f"The weights of {origin} were trained on top of other pretrained weights: their sha256 begins with "
            f"{bytes(tensors[BASE_DIGEST].tolist()).hex()[:12]}, and that of model.folder now with "
            f"{bytes(own[BASE_DIGEST].tolist()).hex()[:12]}; give back the folder the run began with."
        )
    if wrong:
        raise ConfigError(
            f"The weights of {origin} do not fit this model: {', '.join(sorted(wrong)[:3])} differ in name or shape."
        )
    _copy(own, tensors, own)


def take_weights(network: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> str:
    """Starts a network from another run's weights; gives the sentence to say.

    Everything but the head must fit; the head is taken where it fits and is otherwise left as it was initialised.
    """
    own = saved_tensors(network)
    wrong = _not_fitting(own, tensors)
    body = [name for name in wrong if not name.startswith(HEAD)]
    if body:
        raise ConfigError(
            f"The weights of {origin} do not fit this model: {', '.join(sorted(body)[:3])} differ in name or shape; "
            f"give this recipe the model settings of its parent, which {origin}/recipe.yaml holds."
        )
    if not wrong:
        _copy(own, tensors, own)
        return f"Starting from the weights of {origin}."
    _copy(own, tensors, [name for name in own if not name.startswith(HEAD)])
    return f"Starting from the weights of {origin}; the head is new, since it gives other outputs."


def _not_fitting(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    names = {*own, *tensors}
    return [name for name in names if name not in own or name not in tensors or own[name].shape != tensors[name].shape]


def _copy(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], names: Any) -> None:
    for name in names:
        own[name].data.copy_(tensors[name])
