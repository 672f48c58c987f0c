"""What a run would need on several GPUs: memory of each process, bytes sent in a step, the time as a range. Imports no torch.

Calculated, not measured: parameters are counted as torch cuts them, communication is not overlapped (ours is not), and the time
is a range around the share of the peak rate that was measured at the nearest size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.foundation.errors import BadArgument, UnknownName
from glassformer.training.parallel.tree import is_power_of_two


class Gpu(NamedTuple):
    """Dense bf16 FLOPs a second, bytes of memory, bytes a second in one direction to a GPU of the same node and of another."""

    flops: float
    memory: float
    in_node: float
    between_nodes: float


GPUS = {
    "a100": Gpu(312e12, 80e9, 300e9, 25e9),
    "h100": Gpu(989e12, 80e9, 450e9, 50e9),
    "h200": Gpu(989e12, 141e9, 450e9, 50e9),
    "b200": Gpu(2250e12, 180e9, 900e9, 50e9),
    "l40s": Gpu(362e12, 48e9, 32e9, 25e9),
    "rtx4090": Gpu(165e12, 24e9, 32e9, 12.5e9),
}
"""From NVIDIA's data sheets: SXM forms with NVLink for the first four, PCIe 4.0 for the others. Between nodes a card of 400
Gbit/s for each GPU (200 for the A100 and L40S, 100 for the RTX 4090) is assumed; clusters differ."""

REACHED = ((10.7e6, 0.24), (124e6, 0.46), (8e9, 0.36))
"""(parameters, share of the peak rate that training reached): ours on one H200 (docs/performance.md); Llama 3.1 8B by
torchtitan on H100s, 33 to 39 %."""
MORE_OR_LESS = 0.3
"""How far the time may be off, as a share of the rate: compilers, kernels and shapes differ more than runs do."""
OF_BANDWIDTH = 0.8
"""The share of a link's rate that collectives reach."""
LAUNCHED_IN = 5e-3
"""Seconds under which the plan of a step says little: launching its kernels, which is left out here, takes about as long."""
TOKENS_PER_PARAMETER = 20
"""Of a compute-optimal run (Hoffmann et al. 2022)."""


@dataclass(frozen=True)
class ScalePlan:
    """One form of a run on several GPUs."""

    form: str
    processes: int
    nodes: int
    gpu: str
    memory: dict[str, int]
    """Bytes in each process, by part."""
    bytes_in_node: float
    bytes_between_nodes: float
    """Sent by each process in one step."""
    compute_seconds: tuple[float, float]
    """Of one step: at best, at worst."""
    communication_seconds: float
    steps: int

    @property
    def fits(self) -> bool:
        return sum(self.memory.values()) <= GPUS[self.gpu].memory

    @property
    def seconds(self) -> tuple[float, float]:
        """Of the whole run."""
        low, high = (self.steps * (one + self.communication_seconds) for one in self.compute_seconds)
        return low, high

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "memory_bytes": sum(self.memory.values()), "fits": self.fits, "seconds": self.seconds}


def largest_share(shapes: Sequence[Sequence[int]], processes: int) -> int:
    """Numbers that one process holds of weights that are cut by their first axis, as torch's FSDP2 cuts them: its first process
    has the most."""
    return sum(math.ceil(shape[0] / processes) * math.prod(shape[1:]) if len(shape) else 1 for shape in shapes)


def reached(parameters: int) -> float:
    """The share of the peak rate at the nearest size that was measured."""
    return min(REACHED, key=lambda one: abs(math.log(one[0] / max(parameters, 1))))[1]


def scale_plans(
    shapes: Sequence[Sequence[int]],
    *,
    largest_block: int,
    optimizer_bytes: int,
    activation_bytes: int,
    step_flops: float,
    steps: int,
    processes: int,
    nodes: int,
    gpu: str,
    pieces: int | None = None,
) -> list[ScalePlan]:
    """``ddp`` and ``fsdp`` side by side. ``activation_bytes``: of one micro-batch of a piece; ``largest_block``: parameters."""
    if gpu not in GPUS:
        raise UnknownName("--gpu", gpu, GPUS)
    if not is_power_of_two(nodes) or processes % nodes:
        raise BadArgument("nodes", nodes, f"give a power of two that divides --processes {processes}", reason="bad-nodes")
    kind, each, pieces = GPUS[gpu], processes // nodes, max(pieces or processes, processes)
    numbers = sum(math.prod(shape) for shape in shapes)
    rate = kind.flops * reached(numbers) * processes
    compute = (step_flops / (rate * (1 + MORE_OR_LESS)), step_flops / (rate * (1 - MORE_OR_LESS)))
    # Recursive halving: neighbours of one node exchange halves, quarters, ...; what is left goes between nodes. Then back.
    inside, outside = 2 * 4.0 * numbers * (1 - 1 / each), 2 * 4.0 * numbers * (1 / each - 1 / processes)
    share = largest_share(shapes, processes)
    flats = 1 + int(math.log2(pieces // processes))
    memories = {
        "ddp": {
            "weights": 4 * numbers,
            "gradients": 4 * numbers,
            "sums of gradients": 4 * numbers * flats,
            "optimizer": optimizer_bytes,
        },
        "fsdp": {
            "weights": 4 * share,
            "gradients": 4 * share,
            "optimizer": math.ceil(optimizer_bytes * share / max(numbers, 1)),
            "two blocks gathered": 2 * 8 * largest_block,
            "whole weights, for evaluations": 4 * numbers,
        },
    }
    plans = []
    for form, memory in memories.items():
        times = 1.0 if form == "ddp" else 1.5  # weights are gathered twice, gradients scattered once
        seconds = times * (inside / kind.in_node + outside / kind.between_nodes) / OF_BANDWIDTH
        whole = {**memory, "activations": activation_bytes}
        plans.append(ScalePlan(form, processes, nodes, gpu, whole, times * inside, times * outside, compute, seconds, steps))
    return plans
