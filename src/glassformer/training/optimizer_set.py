"""One or several optimizers as one: stepped together, scheduled together, saved by parameter name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self, final

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import DamagedCheckpoint, UsageError
from glassformer.model.network import Network
from glassformer.training.config import TrainingConfig
from glassformer.training.parallel.shard import cut_like
from glassformer.training.slots import FunctionalOptimizer, Optimizer, OptimizerConfig

FROM_ZERO = frozenset({"Adam", "AdamW", "RAdam", "RMSprop", "Adamax", "Adadelta"})
"""Optimizers of torch whose memory begins with zeros (NAdam, ASGD and Rprop begin with other numbers); ours all do."""


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
    """What a config's optimizers do as a whole."""

    def __init__(self, config: OptimizerConfig, model: nn.Module, *, lr: float, weight_decay: float) -> None:
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise UsageError(
                "There is nothing to train: no weight of the model has requires_grad=True.", reason="nothing-to-train"
            )
        self.optimizers = config.build(self.parameters, lr=lr, weight_decay=weight_decay)
        factors: dict[str, float] = model.lr_factors() if isinstance(model, Network) else {}
        if factors:
            for optimizer in self.optimizers:
                _split_by_rate(optimizer, {parameter: factors.get(name, 1.0) for name, parameter in self.parameters.items()})
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in self.parameters.items()}
        self._base_rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    @classmethod
    def of(cls, training: TrainingConfig, model: nn.Module) -> Self:
        """The optimizers that a recipe's training section asks for."""
        return cls(training.optimizer, model, lr=training.lr, weight_decay=training.weight_decay)

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

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """What the optimizers remember, as ``parameter/key`` -> tensor."""
        found: dict[str, Tensor] = {}
        for optimizer in self.optimizers:
            for parameter, state in optimizer.state.items():
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
        for optimizer in self.optimizers:
            optimizer.state.clear()
        for name, tensor in tensors.items():
            parameter_name, _, key = name.rpartition("/")
            parameter = self.parameters.get(parameter_name)
            if parameter is None:
                raise DamagedCheckpoint(
                    f"The optimizer state names {parameter_name!r}, which this model does not have.", reason="unknown-parameter"
                )
            optimizer = owner[parameter]
            on_device = key != "step" or any(group.get("fused") or group.get("capturable") for group in optimizer.param_groups)
            tensor = tensor.to(parameter.device if on_device else "cpu").clone()
            optimizer.state[parameter][key] = cut_like(tensor, parameter) if tensor.ndim else tensor

    def decay_list(self) -> dict[str, list[str]]:
        """Which parameters decay and which do not, by name."""
        lists: dict[str, list[str]] = {"decays": [], "does not decay": []}
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                names = lists["decays" if group.get("weight_decay", 0) else "does not decay"]
                names.extend(self._names[parameter] for parameter in group["params"])
        return lists


def optimizer_bytes(config: OptimizerConfig, model: nn.Module) -> int:
    """Bytes the optimizer will keep, in float32, from the shapes alone."""
    trained = ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
    return 4 * sum(config.numbers_per_parameter(name, parameter) for name, parameter in trained)
