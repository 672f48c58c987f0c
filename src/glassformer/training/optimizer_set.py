"""One or several optimizers as one: stepped together, scheduled together, saved by parameter name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import DamagedCheckpoint, UsageError
from glassformer.model.network import Network
from glassformer.training.config import TrainingConfig
from glassformer.training.parallel.shard import cut_like, whole
from glassformer.training.slots import FunctionalOptimizer, Optimizer

FROM_ZERO = frozenset({"Adam", "AdamW", "RAdam", "RMSprop", "Adamax", "Adadelta"})
"""Optimizers of torch whose memory begins with zeros (NAdam, ASGD and Rprop begin with other numbers); ours all do."""
TRAINED = "trained"
"""The key of the weights that training goes on from, in a checkpoint whose weights are an average of them."""


def _split_by_rate(optimizer: Optimizer, factors: Mapping[nn.Parameter, float]) -> None:
    """Splits the groups so that each parameter learns at its group's rate times its factor."""
    groups = []
    for group in optimizer.param_groups:
        for factor in dict.fromkeys(factors[parameter] for parameter in group["params"]):
            chosen = [parameter for parameter in group["params"] if factors[parameter] == factor]
            groups.append({**group, "params": chosen, "lr": group["lr"] * factor})
    optimizer.param_groups[:] = groups


@final
class OptimizerSet:
    """What the optimizers of a recipe's training section do as a whole."""

    def __init__(self, training: TrainingConfig, model: nn.Module) -> None:
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise UsageError(
                "There is nothing to train: no weight of the model has requires_grad=True.", reason="nothing-to-train"
            )
        self.optimizers = training.optimizer.build(self.parameters, lr=training.lr, weight_decay=training.weight_decay)
        factors: dict[str, float] = model.lr_factors() if isinstance(model, Network) else {}
        if factors:
            for optimizer in self.optimizers:
                _split_by_rate(optimizer, {parameter: factors.get(name, 1.0) for name, parameter in self.parameters.items()})
        made = (one.build(model, self.parameters) for one in (training.after_step, training.average))
        self.after = [one for one in made if one is not None]
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in self.parameters.items()}
        self._base_rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    def set_lr_multiplier(self, lr_multiplier: float) -> None:
        """Every group's rate is its own base rate times ``lr_multiplier``."""
        for optimizer, rates in zip(self.optimizers, self._base_rates):
            for group, rate in zip(optimizer.param_groups, rates):
                if isinstance(group["lr"], Tensor):  # a captured graph reads the rate from this very tensor
                    group["lr"].fill_(rate * lr_multiplier)
                else:
                    group["lr"] = rate * lr_multiplier

    @property
    def capturable(self) -> bool:
        """Whether a step can be captured as a CUDA graph: every optimizer counts its steps on the device, and what it remembers
        begins with zeros (a capture tries some steps and puts that back)."""
        return all(
            "capturable" in optimizer.defaults
            and (
                isinstance(optimizer, FunctionalOptimizer)
                or (type(optimizer).__module__.startswith("torch.optim.") and type(optimizer).__name__ in FROM_ZERO)
            )
            for optimizer in self.optimizers
        )

    def make_capturable(self) -> Callable[[], None]:
        """Moves what changes between steps (the rate, the count) onto the device, where a captured step reads it.

        Returns an undo function. On the device the rate is rounded to float32; if the capture fails, undo it, so that the
        plain step gives exactly its usual result.
        """
        groups_before = [
            [{key: value for key, value in group.items() if key in ("lr", "capturable")} for group in optimizer.param_groups]
            for optimizer in self.optimizers
        ]
        state_before = [{weight: dict(memory) for weight, memory in one.state.items()} for one in self.optimizers]
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["capturable"] = True
                group["lr"] = torch.tensor(float(group["lr"]), device=group["params"][0].device)
            for parameter, state in optimizer.state.items():
                if "step" in state:
                    state["step"] = state["step"].to(parameter.device)

        def undo() -> None:
            for optimizer, groups, state in zip(self.optimizers, groups_before, state_before):
                for group, settings in zip(optimizer.param_groups, groups):
                    group.update(settings)
                optimizer.state.clear()
                optimizer.state.update(state)

        return undo

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()
        for then in self.after:
            then()

    def averaged(self) -> dict[str, Tensor]:
        """The weights that are evaluated and saved, by name, where they are not those that are trained. Of a network cut over
        processes, all of them must call it."""
        return {
            self._names[weight]: whole(mean)
            for source in (*self.optimizers, *self.after)
            if hasattr(source, "averaged")
            for weight, mean in source.averaged().items()
        }

    @contextmanager
    def evaluating(self, network: nn.Module, averaged: Mapping[str, Tensor] | None = None) -> Iterator[dict[str, Tensor]]:
        """Inside, ``network`` has the weights that are evaluated and saved. Gives those that are trained, where they differ, by
        the name under which a checkpoint stores them; afterwards they are back. ``averaged``: what ``averaged`` gave before."""
        averaged = self.averaged() if averaged is None else averaged
        weights = {name: weight for name, weight in network.named_parameters() if name in averaged}
        trained = {name: weight.detach().clone() for name, weight in weights.items()}
        _copy(weights, averaged)
        try:
            yield {f"{name}/{TRAINED}": weight for name, weight in trained.items()}
        finally:
            _copy(weights, trained)

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """What the optimizers and what follows them remember, as ``parameter/key`` -> tensor."""
        found: dict[str, Tensor] = {}
        remembering: list[Any] = [*self.optimizers, *self.after]
        for one in remembering:
            for parameter, state in one.state.items():
                for key, value in state.items():
                    if isinstance(value, Tensor):
                        found[f"{self._names[parameter]}/{key}"] = value
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Puts back what ``tensors`` gave, on each parameter's device (step counts stay where torch keeps them)."""
        owner = {
            parameter: optimizer
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        remembering: list[Any] = [*self.optimizers, *self.after]
        for one in remembering:
            one.state.clear()
        for name, tensor in tensors.items():
            parameter_name, _, key = name.rpartition("/")
            parameter = self.parameters.get(parameter_name)
            if parameter is None:
                raise DamagedCheckpoint(
                    f"The optimizer state names {parameter_name!r}, which this model does not have.", reason="unknown-parameter"
                )
            if key == TRAINED:  # the checkpoint's own weights are those of an evaluation
                _copy({name: parameter}, {name: cut_like(tensor.to(parameter.device), parameter)})
                continue
            optimizer = owner[parameter]
            on_device = key != "step" or any(group.get("fused") or group.get("capturable") for group in optimizer.param_groups)
            tensor = tensor.to(parameter.device if on_device else "cpu").clone()
            remembers = next((one for one in self.after if key in one.keys), optimizer)
            remembers.state[parameter][key] = cut_like(tensor, parameter) if tensor.ndim else tensor

    def decay_list(self) -> dict[str, list[str]]:
        """Which parameters decay and which do not, by name."""
        lists: dict[str, list[str]] = {"decays": [], "does not decay": []}
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                names = lists["decays" if group.get("weight_decay", 0) else "does not decay"]
                names.extend(self._names[parameter] for parameter in group["params"])
        return lists


@torch.no_grad()
def _copy(to: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    for name, tensor in to.items():
        tensor.copy_(source[name])


def optimizer_bytes(training: TrainingConfig, model: nn.Module) -> int:
    """Bytes that the optimizer and what follows it keep, in float32, from the shapes alone."""
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    keeping = training.optimizer, training.after_step, training.average
    return 4 * sum(one.numbers_per_parameter(name, parameter) for one in keeping for name, parameter in trained)
