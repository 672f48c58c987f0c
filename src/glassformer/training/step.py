"""One training step: a batch in, changed weights out, with the loss and the gradient norm.

The result depends on the weights, the optimizer's state, the batch and (seed, step) alone. Cutting the batch into micro-batches
saves memory: sums of losses are divided by the number of targets of the whole batch, so the gradient is the same up to
rounding. With dropout each micro-batch draws masks of its own, and the gradient is another sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime, seed_torch
from glassformer.foundation.seeds import derive_seed
from glassformer.training.config import TrainingConfig
from glassformer.training.loss import TrainingLoss
from glassformer.training.optimizer_set import OptimizerSet


class StepOutcome(NamedTuple):
    """On the device, so that nothing waits for it."""

    loss: Tensor
    grad_norm: Tensor
    """Before clipping."""


@final
class TrainStep:
    """A network with its loss, its optimizers and the rules of one step."""

    def __init__(
        self, loss: TrainingLoss, optimizers: OptimizerSet, config: TrainingConfig, runtime: Runtime, seed: int
    ) -> None:
        self.loss_module, self.optimizers, self.config, self.runtime, self.seed = loss, optimizers, config, runtime, seed
        self.accumulate = config.accumulate
        self.compiled = False
        """Whether ``compute_loss`` is the compiled form of ``loss_module``; it then gets a seed for its dropout masks."""
        self.compute_loss: Callable[[dict[str, Tensor], Tensor | None], Tensor] = loss

    def __call__(self, batch: Batch, step: int, lr_multiplier: float) -> StepOutcome:
        """Takes step ``step`` with the learning rate times ``lr_multiplier``."""
        self.prepare(step, lr_multiplier)
        return self.update(batch)

    def prepare(self, step: int, lr_multiplier: float) -> None:
        """Sets what depends on the step's number: every generator, and the rate."""
        self.loss_module.train()
        seed_torch(derive_seed(self.seed, "step", step))
        self.optimizers.set_lr_multiplier(lr_multiplier)

    def update(self, batch: Batch) -> StepOutcome:
        """Gradients, clipping, new weights: the same operations at every step."""
        loss = self._backward(batch, self.loss_module.count(batch))
        grad_norm = self._clip()
        self.optimizers.step()
        self.optimizers.zero_grad()
        return StepOutcome(loss, grad_norm)

    def measure(self, batch: Batch, step: int = 0) -> StepOutcome:
        """The loss and the gradient norm that this step would give, with nothing changed; for checks."""
        self.prepare(step, 0.0)
        self.optimizers.zero_grad()
        loss = self._backward(batch, self.loss_module.count(batch))
        norm = self._norm()
        self.optimizers.zero_grad()
        return StepOutcome(loss, norm)

    def _backward(self, batch: Batch, targets: Tensor) -> Tensor:
        """Gradients of the mean loss over the whole batch, one micro-batch after another; gives that loss."""
        total = torch.zeros((), device=targets.device)
        for micro_batch in batch.split(batch.rows // self.accumulate):
            loss = self.compute_loss(micro_batch.tensors, self._dropout_seed()) / targets
            loss.backward()
            total = total + loss.detach()
        return total

    def _dropout_seed(self) -> Tensor | None:
        """The seed of this micro-batch's dropout masks in a compiled step, drawn from what ``prepare`` seeded."""
        return torch.randint(1 << 31, (), device=self.runtime.device) if self.compiled else None

    def _clip(self) -> Tensor:
        norm = self._norm()
        if self.config.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.optimizers.parameters.values(), self.config.clip, norm)
        return norm

    def _norm(self) -> Tensor:
        parameters = self.optimizers.parameters.values()
        return torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
