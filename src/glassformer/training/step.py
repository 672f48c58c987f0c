"""One training step: a batch in, changed weights out, with the loss and the gradient's length.

The result depends on the weights, the batch and (seed, step) alone. Cutting the batch into pieces changes memory, not the
result: sums of losses are divided by the number of targets of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime, seed_torch
from glassformer.foundation.seeds import derive_seed
from glassformer.model.losses import IGNORED, chunked_cross_entropy, head_cross_entropy
from glassformer.model.transformer import Transformer
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet

LARGEST_SCORE_TABLE = {"cpu": 1 << 26, "cuda": 1 << 31}
"""Scores (tokens x vocabulary) held at once; a larger table is made in chunks."""


class StepOutcome(NamedTuple):
    """On the device, so that nothing waits for it."""

    loss: Tensor
    gradient: Tensor


@final
class TrainStep:
    """A model, its optimizers and the rules of one step."""

    def __init__(
        self, model: Transformer, optimizers: OptimizerSet, config: TrainingConfig, runtime: Runtime, seed: int
    ) -> None:
        self.model, self.optimizers, self.config, self.runtime, self.seed = model, optimizers, config, runtime, seed
        self.accumulate = config.accumulate
        self.fused = False
        """Whether ``loss_of`` was compiled: then dropout is arithmetic, a part of the kernels."""
        self.loss_of: Callable[[Tensor, Tensor, Tensor | None], Tensor] = self._summed_loss

    def __call__(self, batch: Batch, step: int, factor: float) -> StepOutcome:
        """Takes step ``step`` with the learning rate times ``factor``."""
        self.prepare(step, factor)
        return self.change(batch)

    def prepare(self, step: int, factor: float) -> None:
        """Sets what depends on the step's number: every generator, and the rate."""
        self.model.train()
        seed_torch(derive_seed(self.seed, "step", step))
        self.optimizers.set_factor(factor)

    def change(self, batch: Batch) -> StepOutcome:
        """Gradients, clipping, new weights: the same operations at every step."""
        targets = (batch.targets_BT != IGNORED).sum().clamp(min=1)
        loss = self._backward(batch, targets)
        gradient = self._clip()
        self.optimizers.step()
        self.optimizers.zero_grad()
        return StepOutcome(loss, gradient)

    def _backward(self, batch: Batch, targets: Tensor) -> Tensor:
        """Gradients of the mean loss over the whole batch, piece by piece; gives that loss."""
        total = torch.zeros((), device=targets.device)
        rows = len(batch.inputs_BT) // self.accumulate
        for inputs_BT, targets_BT in zip(batch.inputs_BT.split(rows), batch.targets_BT.split(rows)):
            loss = self.loss_of(inputs_BT, targets_BT, self._noise()) / targets
            loss.backward()
            total = total + loss.detach()
        return total

    def _noise(self) -> Tensor | None:
        """A random number for this piece of the batch, drawn from what ``prepare`` seeded."""
        return torch.randint(1 << 31, (), device=self.runtime.device) if self.fused else None

    def _summed_loss(self, inputs_BT: Tensor, targets_BT: Tensor, noise: Tensor | None) -> Tensor:
        with self.runtime.autocast():
            features_BTD, smoothing = self.model.features(inputs_BT, noise=noise), self.config.label_smoothing
            room = LARGEST_SCORE_TABLE.get(features_BTD.device.type, 1 << 26) // self.model.dims.vocabulary
            if inputs_BT.numel() > room:
                chunk = max(1, room)
                return chunked_cross_entropy(self.model.head, features_BTD, targets_BT, chunk=chunk, smoothing=smoothing)
            return head_cross_entropy(self.model.head, features_BTD, targets_BT, smoothing=smoothing)

    def _clip(self) -> Tensor:
        parameters = self.optimizers.parameters.values()
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.config.clip, norm)
        return norm
