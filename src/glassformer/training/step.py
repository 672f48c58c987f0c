"""One training step: a batch in, changed weights out, with the loss and the gradient norm.

The result depends on the weights, the optimizer's state, the batch and (seed, step) alone. Cutting the batch into micro-batches
saves memory: sums of losses are divided by the number of targets of the whole batch, so the gradient is the same up to
rounding. With dropout each micro-batch draws masks of its own, and the gradient is another sample.

With ``pieces`` the batch is cut into that many pieces, which several processes may share. Each is computed whole by one
process, with random numbers from (seed, step, piece), and the gradients of pieces are added in a fixed tree: the bits depend on
the number of pieces, never on the number of processes (docs/scale.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, Self, final

import torch
from torch import Tensor, nn

from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime, seed_torch
from glassformer.foundation.seeds import derive_seed
from glassformer.model.attention_context import OwnLosses
from glassformer.model.network import Network
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.parallel.group import ALONE, Processes
from glassformer.training.parallel.shard import Shards, squared_by_row
from glassformer.training.parallel.tree import PairwiseSum


class LossFunction(Protocol):
    """What a training step needs of an objective."""

    def count(self, batch: Batch) -> Tensor: ...

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor: ...


@final
class TrainingLoss(nn.Module):
    """A network and its objective as one module, which is compiled, captured and trained: ``forward`` gives the summed loss of
    a micro-batch in the runtime's precision; with losses of the network's own parts (``own_losses``) a vector, theirs after
    the objective's."""

    def __init__(self, network: Network, objective: LossFunction, runtime: Runtime, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.network, self.objective, self.runtime, self.smoothing = network, objective, runtime, smoothing

    def forward(self, tensors: dict[str, Tensor], dropout_seed: Tensor | None = None) -> Tensor:
        collected = OwnLosses() if self.own_losses else None
        with self.runtime.autocast():
            if collected is not None:
                self.network.collect(collected)
            loss = self.objective.loss(self.network, Batch(**tensors), dropout_seed=dropout_seed, smoothing=self.smoothing)
        if collected is None:
            return loss
        self.network.collect(None)
        own = (collected.sums.get(name, torch.zeros_like(loss)) for name in self.own_losses)
        return torch.stack([loss, *(each.to(loss.dtype) for each in own)])

    @property
    def own_losses(self) -> tuple[str, ...]:
        """The names of the losses of the network's parts."""
        return self.network.own_losses

    def count(self, batch: Batch) -> Tensor:
        """Targets of the whole batch, one at least: what the sums of its micro-batches are divided by. Own losses are sums over
        all positions, so theirs is the number of those."""
        targets = self.objective.count(batch).clamp(min=1)
        own = len(self.own_losses)
        return torch.cat([targets.reshape(1), targets.new_full((own,), batch.numel)]) if own else targets


class StepOutcome(NamedTuple):
    """On the device, so that nothing waits for it."""

    loss: Tensor
    grad_norm: Tensor
    """Before clipping."""
    own: Tensor | None = None
    """The weighted losses of the network's own parts, in the order of ``TrainingLoss.own_losses``; ``loss`` is without them."""

    @classmethod
    def of(cls, losses: Tensor, grad_norm: Tensor) -> Self:
        """From the mean losses of a step: one number, or the objective's and those of the parts."""
        return cls(losses, grad_norm) if losses.ndim == 0 else cls(losses[0], grad_norm, losses[1:])

    def clone(self) -> StepOutcome:
        return StepOutcome(self.loss.clone(), self.grad_norm.clone(), None if self.own is None else self.own.clone())


@final
class TrainStep:
    """A network with its loss, its optimizers and the rules of one step."""

    def __init__(
        self,
        loss: TrainingLoss,
        optimizers: OptimizerSet,
        config: TrainingConfig,
        runtime: Runtime,
        seed: int,
        processes: Processes = ALONE,
        shards: Shards | None = None,
    ) -> None:
        self.loss_module, self.optimizers, self.config, self.runtime, self.seed = loss, optimizers, config, runtime, seed
        self.processes, self.pieces, self.accumulate = processes, config.pieces, config.accumulate
        self.shards = shards
        """What trains a network that is cut over the processes; None: every process holds the whole."""
        self._modules = list(loss.modules())
        self.compiled = False
        """Whether ``compute_loss`` is the compiled form of ``loss_module``; it then gets a seed for its dropout masks."""
        self.compute_loss: Callable[[dict[str, Tensor], Tensor | None], Tensor] = loss
        self._number = 0  # of the step that was prepared
        self._without_gradient = False  # whether a weight had none in the last piece

    @property
    def uncaptured(self) -> TrainStep:
        """This step, which no CUDA graph replays; a ``GraphedStep`` gives the step that was captured."""
        return self

    def __call__(self, batch: Batch, step: int, lr_multiplier: float) -> StepOutcome:
        """Takes step ``step`` with the learning rate times ``lr_multiplier``."""
        self.prepare(step, lr_multiplier)
        return self.update(batch)

    def prepare(self, step: int, lr_multiplier: float) -> None:
        """Sets what depends on the step's number: every generator (of a piece: ``seed_piece``), and the rate."""
        if not all(module.training for module in self._modules):  # setting it takes longer than some steps
            self.loss_module.train()
        self._number = step
        if self.pieces is None:
            seed_torch(derive_seed(self.seed, "step", step))
        self.optimizers.set_lr_multiplier(lr_multiplier)

    def seed_piece(self, piece: int) -> None:
        """Sets every generator to what the step and the piece demand, whichever process computes it."""
        seed_torch(derive_seed(self.seed, "step", self._number, "piece", piece))

    def update(self, batch: Batch) -> StepOutcome:
        """Gradients, their sum over all processes, new weights: the same operations at every step."""
        return self.apply(self.gradients(batch))

    def watched(self, batch: Batch, step: int, lr_multiplier: float) -> tuple[StepOutcome, bool]:
        """The same as a call, and whether the weights changed before the optimizer changed them: by the network or its loss."""
        self.prepare(step, lr_multiplier)
        before, loss = self._weights(), self.gradients(batch)
        moved = self._weights() != before
        return self.apply(loss), moved

    def _weights(self) -> list[float]:
        """The norm of every trained tensor."""
        return [float(weight.detach().norm()) for weight in self.optimizers.parameters.values()]

    def gradients(self, batch: Batch) -> Tensor:
        """Leaves the gradient of the mean loss over the whole batch in ``grad``; returns that loss."""
        if self.pieces is None:
            return self._backward(batch, self.loss_module.count(batch))
        if self.shards is not None:
            return self._gradients_of_shards(batch, self.shards)
        return self.take(self.processes.sum(self.summed(batch)))

    def _gradients_of_shards(self, batch: Batch, shards: Shards) -> Tensor:
        """The same for a cut network: gradients of this process's pieces add up one after another, their sums are scattered."""
        targets, pieces, own = self.loss_module.count(batch), self.cut(batch), self.processes.share(self.pieces or 1)
        losses = torch.zeros(targets.numel(), device=targets.device)
        for piece in own:
            self.seed_piece(piece)
            shards.sum_gradients(piece == own[-1])
            losses = losses + self._backward(pieces[piece], targets)
        losses = self.processes.sum(losses)
        return losses if self.loss_module.own_losses else losses[0]

    def summed(self, batch: Batch) -> Tensor:
        """Gradients and loss of the pieces of this process, added in pairs; flat, as ``flat_gradients`` lays them out."""
        targets, pieces, total = self.loss_module.count(batch), self.cut(batch), PairwiseSum()
        for piece in self.processes.share(len(pieces)):
            self.seed_piece(piece)
            total.add(self.flat_gradients(pieces[piece], targets))
        return total.total

    def cut(self, batch: Batch) -> list[Batch]:
        """The pieces of a batch."""
        assert self.pieces is not None
        return batch.split(batch.rows // self.pieces)

    def flat_gradients(self, piece: Batch, targets: Tensor) -> Tensor:
        """One piece's share of the gradient of every weight, end to end; then its share of the loss; then for each weight
        whether it has a gradient, 1 or 0."""
        loss, weights = self._backward(piece, targets), self.optimizers.parameters.values()
        parts = [weight.new_zeros(weight.numel()) if weight.grad is None else weight.grad.flatten() for weight in weights]
        self._without_gradient = any(weight.grad is None for weight in weights)
        present = [0.0 if weight.grad is None else 1.0 for weight in weights] if self._without_gradient else None
        flags = parts[0].new_ones(len(parts)) if present is None else torch.tensor(present, device=loss.device)
        self.optimizers.zero_grad()
        return torch.cat([*parts, loss.reshape(-1), flags])

    def take(self, flat: Tensor) -> Tensor:
        """Makes the sum of all pieces the gradient of the weights; returns the loss. A weight that no piece needed has none."""
        weights, at = list(self.optimizers.parameters.values()), 0
        present = flat[-len(weights) :].tolist() if self._without_gradient else [1.0] * len(weights)  # reading waits for a GPU
        for weight, found in zip(weights, present):
            weight.grad = flat[at : at + weight.numel()].view_as(weight) if found else None
            at += weight.numel()
        losses = flat[at : len(flat) - len(weights)].clone()
        return losses if self.loss_module.own_losses else losses[0]

    def apply(self, loss: Tensor) -> StepOutcome:
        """Clips the gradient and changes the weights by it."""
        grad_norm = self._norm()
        if self.config.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.optimizers.parameters.values(), self.config.clip, grad_norm)
        self.optimizers.step()
        self.optimizers.zero_grad()
        return StepOutcome.of(loss, grad_norm)

    def measure(self, batch: Batch, step: int = 0) -> StepOutcome:
        """The loss and the gradient norm that this step would give, with nothing changed and without other processes; for
        checks."""
        self.prepare(step, 0.0)
        self.optimizers.zero_grad()
        with self.by_itself():
            outcome = StepOutcome.of(self.gradients(batch), self._norm())
        self.optimizers.zero_grad()
        return outcome

    @contextmanager
    def by_itself(self) -> Iterator[None]:
        """Inside, this process computes all pieces."""
        before, self.processes = self.processes, ALONE
        try:
            yield
        finally:
            self.processes = before

    def _backward(self, batch: Batch, targets: Tensor) -> Tensor:
        """Gradients of the summed loss over ``targets``, one micro-batch after another; returns that loss."""
        total = torch.zeros(targets.shape, device=targets.device)
        for micro_batch in batch.split(batch.rows // self.accumulate):
            # the seed of its dropout masks in a compiled step, drawn from what ``prepare`` seeded
            dropout_seed = torch.randint(1 << 31, (), device=self.runtime.device) if self.compiled else None
            loss = self.compute_loss(micro_batch.tensors, dropout_seed) / targets
            loss.sum().backward()
            total = total + loss.detach()
        return total

    def _norm(self) -> Tensor:
        parameters = self.optimizers.parameters.values()
        if self.shards is not None:
            return torch.cat([squared_by_row(one.grad) for one in parameters if one.grad is not None]).sum().sqrt()
        return torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
