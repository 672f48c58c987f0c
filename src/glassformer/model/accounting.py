"""What a model costs, from its config and the vocabulary, before anything is built: parameters, FLOPs, bytes.

Parameters are counted on the model, built without its numbers; FLOPs come from each part's own formula, activations from
tracing a training step on fake tensors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from glassformer.model.config import LayerChoices, ModelConfig, entries
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.initialisation import part_key
from glassformer.model.losses import summed_cross_entropy
from glassformer.model.slots import PartConfig
from glassformer.model.tap import Tap
from glassformer.model.transformer import Transformer

Parts = Sequence[tuple[Dims, PartConfig]]
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


SLOTS = {
    "": "block",
    "attention": "output projection",
    "attention.mixer": "mixer",
    "attention.merge": "merge",
    "cross": "cross output projection",
    "cross.mixer": "cross",
    "embedding_norm": "norm",
    "final_norm": "norm",
    "segments": "embedding",
}
"""Parts whose keys (model/initialisation.py) without layer and number are not the name of their slot."""


def parameters_by_slot(model: Transformer, counted: set[nn.Parameter]) -> Counter[str]:
    """Each parameter belongs to the nearest part around it. ``counted``: those that are shared and were counted before."""
    numbers: Counter[str] = Counter()

    def visit(module: nn.Module, slot: str) -> None:
        if (key := part_key(module)) is not None:
            place = re.sub(r"^blocks\.\d+\.?|/\d+", "", key)
            inside_mixer = place.startswith("attention.mixer.")  # a part of attention is the mixer's
            slot = "mixer" if inside_mixer else SLOTS.get(place, place)
        for parameter in module.parameters(recurse=False):
            if parameter not in counted:
                counted.add(parameter)
                numbers[slot] += parameter.numel()
        for child in module.children():
            visit(child, slot)

    visit(model, "")
    return numbers


def parts_of(
    config: ModelConfig, vocabulary: int, *, outputs: int | None = None, batch: int = 1, length: int | None = None
) -> tuple[PartCost, ...]:
    """Parameters and FLOPs by part, before anything is computed."""
    return parts_in(config.shapes(vocabulary, outputs=outputs), set(), batch=batch, length=length or config.context)


def parts_in(model: Transformer, counted: set[nn.Parameter], *, batch: int, length: int) -> tuple[PartCost, ...]:
    """Parameters as they are counted in the model, which needs no numbers; FLOPs from the formulas of its config."""
    config, dims, numbers = model.config, model.dims, parameters_by_slot(model, counted)
    # The blocks have parameters, the layers that apply them have FLOPs.
    blocks = [(replace(dims, layer=block), config.of_layer(block)) for block in range(config.num_blocks)]
    layers = [blocks[block] for block in config.order]

    def part(slot: str, made: Parts, applied: Parts | None = None) -> PartCost:
        kinds = ", ".join(dict.fromkeys(choice.kind for _, choice in made))
        run = made if applied is None else applied
        return PartCost(
            f"{slot} ({kinds})" if kinds else slot,
            len(made),
            numbers[slot],
            sum(choice.flops(at, batch, length) for at, choice in run),
            sum(choice.backward_flops(at, batch, length) for at, choice in run),
        )

    def in_layers(slot: str, choose: Callable[[LayerChoices], Sequence[PartConfig]]) -> PartCost:
        made, applied = ([(at, each) for at, one in place for each in choose(one)] for place in (blocks, layers))
        return part(slot, made, applied)

    def projection(slot: str) -> PartCost:
        flops = len(layers) * matmul_flops(batch * length, dims.attention_width, dims.width)
        return PartCost(slot, len(blocks), numbers[slot], flops, 2 * flops)

    cross, last, chosen = model.cross if "cross" in numbers else None, config.last_layer, entries(config.positions)
    embedding = part("embedding", [(dims, config.embedding)])
    norms = [config.of_layer(0).norm] * config.embedding_norm + [last.norm] * last.block.norm_at_end
    of_blocks = [(at, one.norm) for at, one in blocks for _ in range(one.block.num_norms + (cross is not None))]
    return (
        replace(embedding, name="embedding") if config.embedding.kind == "plain" else embedding,
        part("positions", [(dims, choice) for number, choice in enumerate(chosen) if choice not in chosen[:number]]),
        in_layers("mixer", lambda one: [one.mixer]),
        in_layers("merge", lambda one: [one.merge]),
        projection("output projection"),
        *([] if cross is None else [in_layers("cross", lambda one: [cross]), projection("cross output projection")]),
        in_layers("feedforward", lambda one: [one.feedforward] * one.block.feedforwards),
        in_layers("block", lambda one: [one.block]),
        part("norm", [(dims, norm) for norm in norms] + of_blocks),
        part("stack", [(dims, config.stack)]),
        part("head", [(dims, config.head)]),
    )


def cost_of(config: ModelConfig, vocabulary: int, *, outputs: int | None = None, batch: int) -> Cost:
    """Everything, for training in float32 on rows that fill the context; without the state of the optimizer. Activations: a
    training step is traced on fake tensors, and nothing computed."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # private, but what torch's own memory planning uses

    parts = parts_of(config, vocabulary, outputs=outputs, batch=batch)
    size = 4 * sum(part.parameters for part in parts)
    with FakeTensorMode():
        model = Transformer(config, vocabulary, outputs).train()
        activations = saved_bytes(model, torch.zeros(batch, config.context, dtype=torch.long))
    return Cost(parts, batch, config.context, weight_bytes=size, gradient_bytes=size, activation_bytes=activations)


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
