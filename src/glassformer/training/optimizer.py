"""What an optimizer is here: groups of weights, what is remembered of each, a step. Torch's own are, and so are lighter ones.

To make a ``torch.optim.Optimizer``, to step it or to clear its gradients imports torch's compiler, a second and more of
every process, also when nothing is compiled. ``FunctionalOptimizer`` does without: its variants call torch's functions
(``torch.optim.adamw.adamw``), so that every bit is the one torch's class would give.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Optimizer(Protocol):
    """What training asks of an optimizer. A user's variant may as well give a ``torch.optim.Optimizer``."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...

    @property
    def state(self) -> MutableMapping[Tensor, Any]: ...

    @property
    def defaults(self) -> Mapping[str, Any]: ...

    def step(self) -> object: ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...


class FunctionalOptimizer(ABC):
    """An optimizer around a function. ``settings`` hold for every group that does not say otherwise."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], **settings: Any) -> None:
        self.defaults: dict[str, Any] = settings
        self.param_groups: list[dict[str, Any]] = [{**settings, **group} for group in groups]
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)

    @torch.no_grad()
    def step(self) -> None:
        """Changes the weights that have a gradient; the others, and what is remembered of them, stay as they are."""
        for group in self.param_groups:
            weights: list[Tensor] = [weight for weight in group["params"] if weight.grad is not None]
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            if weights:
                self.change(group, weights, gradients)

    @abstractmethod
    def change(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        """One step for those weights of a group that have a gradient."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        weights: Iterable[nn.Parameter] = (weight for group in self.param_groups for weight in group["params"])
        for weight in weights:
            if set_to_none:
                weight.grad = None
            elif weight.grad is not None:
                weight.grad.detach_().zero_()
