"""The interfaces of optimizers, schedules and what follows a step, their slots, and what their variants share.

To make a ``torch.optim.Optimizer``, to step it or to clear its gradients imports torch's compiler, a second and more of
every process, also when nothing is compiled. ``FunctionalOptimizer`` does without: its variants call torch's functions
(``torch.optim.adamw.adamw``), so that every bit is the one torch's class would give.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol, final

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.foundation.registry import Slot, VariantConfig

_LAYER = re.compile(r"(?:^|\.)(?:blocks|h|(?:\w+_)?layers?)\.(\d+)\.")
"""A layer's number in a parameter's name: blocks.3. in our models; layer.3. (BERT), layers.3. or h.3. in pretrained ones."""

Share = Annotated[float, Field(ge=0, lt=1)]
"""How much of a running mean stays at each step."""


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

    def averaged(self) -> dict[Tensor, Tensor]:
        """By weight, what is evaluated and saved in its place; empty: the weights themselves."""
        return {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        weights: Iterable[nn.Parameter] = (weight for group in self.param_groups for weight in group["params"])
        for weight in weights:
            if set_to_none:
                weight.grad = None
            elif weight.grad is not None:
                weight.grad.detach_().zero_()


class AfterStep(ABC):
    """Called after every step of the optimizers. ``state`` is saved with theirs: by weight, tensors by name; each begins with
    zeros, so that a step can be captured as a CUDA graph."""

    keys: ClassVar[tuple[str, ...]] = ()
    """The names of those tensors: others than the optimizers'."""

    def __init__(self) -> None:
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    @abstractmethod
    def __call__(self) -> None:
        """Changes the weights in place, or remembers them."""

    def averaged(self) -> dict[Tensor, Tensor]:
        """By weight, what is evaluated and saved in its place; empty: the weights themselves."""
        return {}


class AfterStepConfig(VariantConfig):
    """Something done after every step; by default nothing."""

    def build(self, model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> AfterStep | None:
        """``parameters``: those that are trained, by name."""
        return None

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        """Numbers stored beside one parameter tensor."""
        return 0


class OptimizerConfig(VariantConfig):
    """A rule for changing weights. ``build`` gets the parameters by name and gives optimizers that share the work."""

    def build(self, parameters: Mapping[str, nn.Parameter], *, lr: float, weight_decay: float) -> Sequence[Optimizer]:
        raise NotImplementedError

    def numbers_per_parameter(self, name: str, parameter: nn.Parameter) -> int:
        """Numbers stored beside one parameter tensor (what the optimizer remembers), to know its memory beforehand."""
        raise NotImplementedError


class ScheduleConfig(VariantConfig):
    """The learning rate over a run, as a multiplier of ``training.lr``."""

    def lr_multiplier(self, step: int, steps: int) -> float:
        """The multiplier of step ``step`` (0, 1, ...) in a run of ``steps``."""
        raise NotImplementedError


class WarmUpConfig(ScheduleConfig):
    """A schedule that begins with a linear rise, from 1 / (warmup + 1) at step 0 to just under 1."""

    warmup: int | None = Field(default=None, ge=0)

    def lr_multiplier(self, step: int, steps: int) -> float:
        warmup = min(100, steps // 20) if self.warmup is None else self.warmup
        return (step + 1) / (warmup + 1) if step < warmup else self.after_warm_up(step, warmup, steps)

    def after_warm_up(self, step: int, warmup: int, steps: int) -> float:
        """The multiplier of a step from ``warmup`` on."""
        raise NotImplementedError


OPTIMIZERS: Slot[OptimizerConfig] = Slot("training.optimizer", "how weights are updated", "glassformer.training.optimizers")
AFTER_STEPS: Slot[AfterStepConfig] = Slot(
    "training.after_step", "what is done to the weights after every step", "glassformer.training.after_steps"
)
AVERAGES: Slot[AfterStepConfig] = Slot(
    "training.average", "which average of the weights is evaluated", "glassformer.training.averages"
)
SCHEDULES: Slot[ScheduleConfig] = Slot("training.schedule", "the learning rate over a run", "glassformer.training.schedules")


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Weight decay is for matrices; scales, shifts and biases are left alone."""
    return parameter.ndim >= 2


def layer_of(name: str) -> int | None:
    """The layer that a parameter belongs to, by its name; None: embeddings, positions, the last norm, the head."""
    found = None if name.startswith("head.") else _LAYER.search(name)  # a head may have layers of its own
    return int(found[1]) if found else None


def depth_from_top(names: Sequence[str]) -> list[int]:
    """How far under the head each parameter is: 0 what comes after the last layer, 1 the last layer, ..., L + 1 the embeddings.

    ``names`` are in the model's order. Where none names a layer, all are 0.
    """
    layers = [layer_of(name) for name in names]
    inside = [layer for layer in layers if layer is not None]
    if not inside:
        return [0] * len(names)
    first = next(place for place, layer in enumerate(layers) if layer is not None)
    top = max(inside) + 1
    below = [top + 1 if place < first else 0 for place in range(len(names))]
    return [outside if layer is None else top - layer for layer, outside in zip(layers, below)]


def decay_groups(parameters: Mapping[str, nn.Parameter], weight_decay: float) -> list[dict[str, object]]:
    """Parameter groups for torch: those that decay and those that do not."""
    chosen: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in parameters.items():
        chosen[decays(name, parameter)].append(parameter)
    groups = [{"params": chosen[True], "weight_decay": weight_decay}, {"params": chosen[False], "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


@AFTER_STEPS.variant("none")
@final
class NothingConfig(AfterStepConfig):
    """The weights as the optimizer left them."""


@AVERAGES.variant("none")
@final
class NoAverageConfig(AfterStepConfig):
    """The weights as they are trained."""
