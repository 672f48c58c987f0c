"""What a model costs, from its config and the vocabulary, before anything is built: parameters, FLOPs, bytes.

Parameters and FLOPs come from each part's own formula; activations from tracing a training step on fake tensors, so any
variant is counted. All of it by part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from glassformer.model.config import LayerChoices, ModelConfig, entries
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.losses import summed_cross_entropy
from glassformer.model.slots import PartConfig
from glassformer.model.tap import Tap
from glassformer.model.transformer import Transformer

Copies = Iterable[tuple[Dims, PartConfig]]
"""Choices, each with the sizes it is built with."""


def in_megabytes(count: int) -> str:
    """``11.2 MB``: three digits are enough for a person; the JSON has bytes."""
    return f"{count / 1e6:,.3g} MB" if count < 1e9 else f"{count / 1e9:,.3g} GB"


@dataclass(frozen=True)
class PartCost:
    """The cost of one kind of part, all its copies together."""

    name: str
    copies: int
    parameters: int
    forward_flops: int
    backward_flops: int


@dataclass(frozen=True)
class Cost:
    """The cost of a model and of one training step of ``batch`` rows of ``length`` tokens."""

    parts: tuple[PartCost, ...]
    batch: int
    length: int
    weight_bytes: int
    gradient_bytes: int
    activation_bytes: int

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)

    @property
    def forward_flops(self) -> int:
        return sum(part.forward_flops for part in self.parts)

    @property
    def step_flops(self) -> int:
        return sum(part.forward_flops + part.backward_flops for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "parameters": self.parameters,
            "forward_flops": self.forward_flops,
            "step_flops": self.step_flops,
            "weight_bytes": self.weight_bytes,
            "gradient_bytes": self.gradient_bytes,
            "activation_bytes": self.activation_bytes,
            "parts": [vars(part) for part in self.parts],
        }


def parts_of(
    config: ModelConfig, vocabulary: int, *, outputs: int | None = None, batch: int = 1, length: int | None = None
) -> tuple[PartCost, ...]:
    """Parameters and FLOPs by part, from the formulas alone."""
    dims, rows, last = config.dims(vocabulary, outputs), length or config.context, config.last_layer
    output_flops = matmul_flops(batch * rows, dims.attention_width, dims.width)
    blocks = [(replace(dims, layer=block), config.of_layer(block)) for block in range(config.num_blocks)]
    layers = [blocks[block] for block in config.order]

    def part(slot: str, once: Iterable[PartConfig], copies: Copies = (), applied: Copies = ()) -> PartCost:
        """All copies of one slot's choices: ``once`` for the whole model, ``copies`` with the block they stand in. The blocks
        have parameters, the layers that apply them have FLOPs."""
        alone = [(dims, choice) for choice in once]
        made, run = [*alone, *copies], [*alone, *applied]
        kinds = ", ".join(dict.fromkeys(choice.kind for _, choice in made))
        return PartCost(
            f"{slot} ({kinds})" if kinds else slot,
            len(made),
            sum(choice.parameters(at) for at, choice in made),
            sum(choice.flops(at, batch, rows) for at, choice in run),
            sum(choice.backward_flops(at, batch, rows) for at, choice in run),
        )

    def in_layers(slot: str, choose: Callable[[LayerChoices], Sequence[PartConfig]]) -> PartCost:
        copies, applied = ([(at, each) for at, one in place for each in choose(one)] for place in (blocks, layers))
        return part(slot, (), copies, applied)

    chosen = entries(config.positions)
    distinct = [choice for number, choice in enumerate(chosen) if choice not in chosen[:number]]
    norms = [config.of_layer(0).norm] * config.embedding_norm + [last.norm] * last.block.norm_at_end
    return (
        _of_embedding(config, dims, batch, rows),
        part("positions", distinct),
        in_layers("mixer", lambda one: [one.mixer]),
        in_layers("merge", lambda one: [one.merge]),
        PartCost(
            "output projection",
            len(blocks),
            len(blocks) * dims.linear_parameters(dims.attention_width, dims.width),
            len(layers) * output_flops,
            len(layers) * 2 * output_flops,
        ),
        in_layers("feedforward", lambda one: [one.feedforward] * one.block.feedforwards),
        in_layers("block", lambda one: [one.block]),
        part(
            "norm",
            norms,
            [(at, one.norm) for at, one in blocks for _ in range(one.block.num_norms)],
            [(at, one.norm) for at, one in layers for _ in range(one.block.num_norms)],
        ),
        part("stack", [config.stack]),
        part("head", [config.head]),
    )


def _of_embedding(config: ModelConfig, dims: Dims, batch: int, rows: int) -> PartCost:
    choice = config.embedding
    return PartCost(
        "embedding" if choice.kind == "plain" else f"embedding ({choice.kind})",
        1,
        choice.parameters(dims) + config.segments * dims.width,
        choice.flops(dims, batch, rows),
        choice.backward_flops(dims, batch, rows),
    )


def cost_of(config: ModelConfig, vocabulary: int, *, outputs: int | None = None, batch: int, length: int | None = None) -> Cost:
    """Everything, for training in float32; without the state of the optimizer."""
    parts = parts_of(config, vocabulary, outputs=outputs, batch=batch, length=length)
    parameters = sum(part.parameters for part in parts)
    rows = length or config.context
    return Cost(
        parts=parts,
        batch=batch,
        length=rows,
        weight_bytes=4 * parameters,
        gradient_bytes=4 * parameters,
        activation_bytes=activation_bytes(config, vocabulary, outputs=outputs, batch=batch, length=rows),
    )


def activation_bytes(config: ModelConfig, vocabulary: int, *, outputs: int | None = None, batch: int, length: int) -> int:
    """Bytes stored for the backward pass of one micro-batch: a training step traced on fake tensors, nothing computed."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # private, but what torch's own memory planning uses

    with FakeTensorMode():
        model = Transformer(config, vocabulary, outputs).train()
        ids_BT = torch.zeros(batch, length, dtype=torch.long)
        return saved_bytes(model, ids_BT)


def saved_bytes(model: nn.Module, *inputs: Tensor) -> int:
    """Bytes that one forward pass stores for its backward pass, each storage once, weights not counted."""
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    stored: dict[int, int] = {}
    alive: list[Tensor] = []  # so that no storage is freed and its address counted for another

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            stored[storage._cdata] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        scores = model(*inputs)
        summed_cross_entropy(scores, torch.zeros(scores.shape[:-1], dtype=torch.long, device=scores.device))
    return sum(stored.values())


@contextmanager
def looked_at(model: nn.Module) -> Iterator[None]:
    """Inside the ``with`` every tap has a hook, so every mixer runs its reference implementation."""
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, Tap):
                stack.callback(module.register_forward_hook(lambda tap, inputs, output: None).remove)
        yield


@contextmanager
def by_definition(network: nn.Module) -> Iterator[None]:
    """Inside, what has a fast path runs as it is defined, in training mode, so that torch's FLOP counter sees every product;
    the random numbers of this process are put back."""
    mkldnn = torch.backends.mkldnn.enabled
    network.train()
    with torch.random.fork_rng(devices=[]), looked_at(network), sdpa_kernel(SDPBackend.MATH):
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]  # the products of its recurrent kernels are not seen
        try:
            yield
        finally:
            torch.backends.mkldnn.enabled = mkldnn
