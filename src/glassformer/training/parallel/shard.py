"""``training.parallel: fsdp``: a copy of the network whose weights, gradients and optimizer are cut over the processes.

torch's FSDP2 (``fully_shard``) gathers the weights of a block when it runs and scatters the sums of its gradients; they are
added in the tree of ``tree.py``. Whatever looks at the network (evaluations, checkpoints, samples) gets the whole one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError
from glassformer.model.network import Network
from glassformer.training.parallel.group import Group, gloo_muted

if TYPE_CHECKING:
    from glassformer.training.config import TrainingConfig


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor of which every process holds a part (all of them call it); any other as it is."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def cut_like(tensor: Tensor, model: Tensor) -> Tensor:
    """This process's part of a whole tensor, cut as ``model`` is; the tensor itself where that is not cut."""
    if not hasattr(model, "full_tensor"):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(model, DTensor)
    # every process has the whole tensor already, so nothing is sent
    return distribute_tensor(tensor, model.device_mesh, model.placements, src_data_rank=None)


def squared_by_row(tensor: Tensor) -> Tensor:
    """Sums of squares of each row, whole: added in one order afterwards, so that the cut does not show."""
    local: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    squares = local.flatten(1).square().sum(1) if local.ndim > 1 else local.square()
    if not hasattr(tensor, "full_tensor"):
        return squares
    from torch.distributed.tensor import DTensor

    assert isinstance(tensor, DTensor)
    shape = torch.Size([tensor.shape[0]])
    return DTensor.from_local(squares, tensor.device_mesh, tensor.placements, shape=shape, stride=(1,)).full_tensor()


@final
class Shards:
    """The cut copy of a network, and what a step needs to train it."""

    def __init__(self, network: Network, group: Group) -> None:
        self.plain, self.network, self.group = network, copy.deepcopy(network), group
        self._loss: Any = None

    def cut(self, loss: nn.Module, blocks: Sequence[nn.Module], device: torch.device) -> None:
        """Cuts ``loss``, the module that holds the copy, block by block."""
        import torch.distributed as dist
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import FSDPModule, fully_shard
        from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

        ours = self.group

        class Tree(ReduceScatter):
            """The sum over all processes, added in pairs; each keeps its part."""

            def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
                return torch.empty(*size, dtype=dtype, device=device)

            def __call__(
                self, output_tensor: Tensor, input_tensor: Tensor, group: Any, op: Any, async_op: bool = False
            ) -> None:
                output_tensor.copy_(ours.scatter_sum(input_tensor.view(ours.place.world, -1)))

        class Weights(AllGather):
            """torch's own, in a place where the group can see that a process waits for the others."""

            def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
                return torch.empty(*size, dtype=dtype, device=device)

            def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: Any, async_op: bool = False) -> Any:
                return ours.gather_weights(output_tensor, input_tensor, group, async_op)

        with gloo_muted():
            pg = dist.new_group(backend="nccl" if device.type == "cuda" else "gloo")
        mesh = DeviceMesh.from_group(pg, device.type)
        for block in blocks:
            fully_shard(block, mesh=mesh)
        self._loss = fully_shard(loss, mesh=mesh)
        for module in loss.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)  # losses are divided by the targets of the whole batch already
                module.set_force_sum_reduction_for_comms(True)
                module.set_custom_reduce_scatter(Tree())
                module.set_custom_all_gather(Weights())

    def sum_gradients(self, now: bool) -> None:
        """Whether the next backward pass sends its gradients; until then they add up in this process."""
        self._loss.set_requires_gradient_sync(now)

    @torch.no_grad()
    def gather(self) -> None:
        """Copies the weights of all processes into the plain network of each."""
        cut = dict(self.network.named_parameters())
        for name, weight in self.plain.named_parameters():
            weight.copy_(whole(cut[name].detach()))
        buffers = dict(self.network.named_buffers())
        for name, buffer in self.plain.named_buffers():
            buffer.copy_(buffers[name])


def refuse_if_not_cut(network: nn.Module, training: TrainingConfig, device: torch.device, group: Group) -> None:
    """Says what ``fsdp`` does not do, before anything is cut."""
    from glassformer.model.transformer import Transformer

    why = None
    if not isinstance(network, Transformer):
        why = "model.kind is not a Transformer built of our own blocks"
    elif len(set(network.order)) != len(network.order):
        why = "model.stack uses a block more than once"
    elif any(weight.ndim == 0 for weight in network.parameters()):
        why = "a weight of the model is a single number"
    elif any(not weight.requires_grad for weight in network.parameters()):
        why = "some weights of the model are not trained"
    elif training.after_step.kind != "none":
        why = "changes of the weights after the step are for whole weights"
    elif training.cuda_graph is True or training.compile is True:
        why = "a step that gathers weights is neither compiled nor captured"
    elif device.type == "cuda" and group.place.local_world > torch.cuda.device_count():
        why = f"{group.place.local_world} processes share {torch.cuda.device_count()} GPU, and each needs its own"
    if why is not None:
        raise ConfigError(
            f"training.parallel=fsdp cannot be used, because {why}; use training.parallel=ddp.", reason="cannot-be-cut"
        )


def chosen_form(training: TrainingConfig, network: nn.Module, optimizer_bytes: int, device: torch.device) -> str:
    """``ddp`` or ``fsdp``. ``auto``: ddp where weights, gradients and optimizer leave a fifth of the GPU for the batch."""
    if training.parallel != "auto":
        return training.parallel
    if device.type != "cuda":
        return "ddp"
    weights = sum(weight.numel() * weight.element_size() for weight in network.parameters())
    return "ddp" if 4 * weights + optimizer_bytes <= 0.8 * torch.cuda.get_device_properties(device).total_memory else "fsdp"
