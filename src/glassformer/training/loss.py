"""A network and what is asked of it as one module whose forward pass is the loss: what is compiled, captured and trained."""

from __future__ import annotations

from typing import Protocol, final

from torch import Tensor, nn

from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime
from glassformer.model.network import Network


class LossFunction(Protocol):
    """What the trainer asks of an objective."""

    def count(self, batch: Batch) -> Tensor: ...

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor: ...


@final
class TrainingLoss(nn.Module):
    """``forward`` gives the summed loss of a micro-batch in the runtime's precision."""

    def __init__(self, network: Network, objective: LossFunction, runtime: Runtime, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.network, self.objective, self.runtime, self.smoothing = network, objective, runtime, smoothing

    def forward(self, tensors: dict[str, Tensor], dropout_seed: Tensor | None = None) -> Tensor:
        with self.runtime.autocast():
            return self.objective.loss(self.network, Batch(**tensors), dropout_seed=dropout_seed, smoothing=self.smoothing)

    def count(self, batch: Batch) -> Tensor:
        """Targets of the whole batch, one at least: what the sums of its micro-batches are divided by."""
        return self.objective.count(batch).clamp(min=1)
