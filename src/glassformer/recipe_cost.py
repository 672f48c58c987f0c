"""What a recipe would cost, by part, before anything is trained: ``train --dry-run``."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import torch

from glassformer.assembly import batches_of, build_network, number_of_steps, prepare_data, training_step
from glassformer.data.data_kinds import PreparedData
from glassformer.evaluation.results import text_table
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher, duration
from glassformer.foundation.runtime import choose_runtime
from glassformer.model import kernels
from glassformer.model.accounting import Cost, in_megabytes
from glassformer.recipe import Recipe, Source, is_run, load_recipe, parent_recipe
from glassformer.training.optimizer_set import OptimizerSet, optimizer_bytes
from glassformer.training.parallel.scale_estimate import TOKENS_PER_PARAMETER, ScalePlan, scale_plans
from glassformer.training.peak_memory import peak_bytes, to_fake
from glassformer.training.step_acceleration import choose_form

TIMED_STEPS = 3
BATCHES_SEEN = 32
"""Texts differ in length: the largest of so many batches tells the memory."""
MOST_BYTES_TIMED, MOST_FLOPS_TIMED = 4 << 30, 3e11
"""Beyond this a few real steps would take too long on a laptop, and the estimate comes from matrix products."""


@dataclass(frozen=True)
class Plan:
    """What a recipe would cost: known before anything is trained."""

    recipe: Recipe
    cost: Cost
    steps: int
    optimizer_bytes: int
    train_tokens: int
    vocabulary: int
    decay: dict[str, list[str]]
    parent: Plan | None = None
    """What is trained before it, where ``init_from`` names a recipe."""
    step_seconds: float | None = None
    """Measured here and now: of real steps, or (``at_least``) of matrix products alone where a step would take too long."""
    at_least: bool = False
    shapes: tuple[tuple[int, ...], ...] = ()
    """Of every weight that is trained."""
    largest_block: int = 0
    """Parameters of the largest part that is repeated."""
    peak_bytes: int | None = None
    """The most that is stored at once in a step, in the precision and on the device of the run; None: not known."""

    def on(self, processes: int, *, nodes: int = 1, gpu: str = "h100") -> list[ScalePlan]:
        """The same run on several GPUs, replicated and cut."""
        pieces = self.recipe.training.pieces or processes
        return scale_plans(
            self.shapes,
            largest_block=self.largest_block,
            optimizer_bytes=self.optimizer_bytes,
            activation_bytes=math.ceil(self.cost.activation_bytes / max(pieces, processes)),
            step_flops=float(self.cost.step_flops * self.recipe.training.accumulate),
            steps=self.steps,
            processes=processes,
            nodes=nodes,
            gpu=gpu,
            pieces=pieces,
        )

    @property
    def seconds(self) -> float | None:
        """Of the whole run, its parent not counted; None where nothing was measured."""
        return None if self.step_seconds is None else self.steps * self.step_seconds

    @property
    def trained_parameters(self) -> int:
        """The numbers that training moves: all, or what a way of tuning leaves free."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def flops(self) -> int:
        """Of the whole run, its parent's included."""
        own = self.steps * self.cost.step_flops * self.recipe.training.accumulate
        return own + (0 if self.parent is None else self.parent.flops)

    @property
    def step_tokens(self) -> int:
        return self.recipe.training.batch_size * self.recipe.model.context

    @property
    def total_bytes(self) -> int:
        return self.cost.weight_bytes + self.cost.gradient_bytes + self.optimizer_bytes + self.cost.activation_bytes

    def facts(self) -> list[tuple[str, str]]:
        """The figures of one step and of the whole run, for people."""
        tokens, head = (
            self.steps * self.step_tokens,
            next((one.name for one in self.cost.parts if one.name.startswith("head")), ""),
        )
        some_frozen = self.trained_parameters != self.cost.parameters
        facts = [
            ("steps", f"{self.steps:,}"),
            ("tokens per step", f"{self.step_tokens:,}"),
            ("tokens in all", f"{tokens:,}{f' ({tokens / self.train_tokens:.2f} epochs)' if self.train_tokens else ''}"),
            ("vocabulary", f"{self.vocabulary:,}"),
            ("parameters without the head", f"{sum(part.parameters for part in self.cost.parts if part.name != head):,}"),
            *([("parameters that are trained", f"{self.trained_parameters:,}")] if some_frozen else []),
            ("FLOPs per step, forward and backward", f"{self.cost.step_flops * self.recipe.training.accumulate:,}"),
            ("weights", in_megabytes(self.cost.weight_bytes)),
            ("gradients", in_megabytes(self.cost.gradient_bytes)),
            ("optimizer state", in_megabytes(self.optimizer_bytes)),
            ("activations of one micro-batch at full context", in_megabytes(self.cost.activation_bytes)),
            ("memory at the peak of a step", in_megabytes(self.total_bytes if self.peak_bytes is None else self.peak_bytes)),
        ]
        if self.seconds is not None and self.step_seconds is not None:
            about = "at least" if self.at_least else "about"
            how = "matrix products timed here" if self.at_least else "steps timed here, evaluations not counted"
            facts.append(("time", f"{about} {duration(self.seconds)} ({1000 * self.step_seconds:,.0f} ms a step; {how})"))
        if self.parent is not None:
            facts.append(("trained before it", f"{self.recipe.init_from}: {self.parent.steps:,} steps"))
            facts.append(("FLOPs of both runs", f"{self.flops:,}"))
        return facts

    def parts(self) -> list[list[str]]:
        """A row for each part of the model, under a header, and one for all of it."""
        rows = [[one.name, f"{one.copies}", f"{one.parameters:,}", f"{one.forward_flops:,}"] for one in self.cost.parts]
        whole = ["all", "", f"{self.cost.parameters:,}", f"{self.cost.forward_flops:,}"]
        return [["part", "copies", "parameters", "FLOPs forward, one step"], *rows, whole]

    def __str__(self) -> str:
        return "\n".join([text_table(self.parts()), "", *(f"{name}: {value}" for name, value in self.facts())])

    def __repr__(self) -> str:
        return f"Plan({self.cost.parameters:,} parameters, {self.steps:,} steps, {self.flops:.3g} FLOPs)"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as ``train --dry-run --json`` prints it."""
        return {
            "recipe": self.recipe.to_dict(),
            "steps": self.steps,
            "vocabulary": self.vocabulary,
            "train_tokens": self.train_tokens,
            **self.cost.to_dict(),
            "trained_parameters": self.trained_parameters,
            "step_flops": self.cost.step_flops * self.recipe.training.accumulate,
            "optimizer_bytes": self.optimizer_bytes,
            "total_bytes": self.total_bytes,
            "peak_bytes": self.peak_bytes,
            "weight_decay": self.decay,
            "flops": self.flops,
            "seconds": self.seconds,
            "step_seconds": self.step_seconds,
            "at_least": self.at_least,
            "parent": None if self.parent is None else self.parent.to_dict(),
        }


def scale_rows(plans: Sequence[ScalePlan], parameters: int, step_tokens: int) -> list[tuple[str, ...]]:
    """The plans as rows for people: a name, then a column for each form."""
    parts = dict.fromkeys(part for one in plans for part in one.memory)
    rows: list[tuple[str, ...]] = [
        (f"{part}, each process", *(in_megabytes(one.memory[part]) if part in one.memory else "-" for one in plans))
        for part in parts
    ]
    optimal = TOKENS_PER_PARAMETER * parameters

    def seconds(pair: tuple[float, float]) -> str:
        return f"{duration(pair[0])} to {duration(pair[1])}"

    return [
        *rows,
        (
            "memory, each process",
            *(in_megabytes(sum(one.memory.values())) + ("" if one.fits else ", DOES NOT FIT") for one in plans),
        ),
        ("sent in a step, inside a node", *(in_megabytes(round(one.bytes_in_node)) for one in plans)),
        ("sent in a step, between nodes", *(in_megabytes(round(one.bytes_between_nodes)) for one in plans)),
        (
            "computing, ms a step",
            *(f"{1e3 * one.compute_seconds[0]:.3g} to {1e3 * one.compute_seconds[1]:.3g}" for one in plans),
        ),
        ("communicating, ms a step", *(f"{1e3 * one.communication_seconds:.3g}" for one in plans)),
        ("time of the run", *(seconds(one.seconds) for one in plans)),
        (
            f"time of a compute-optimal run ({optimal:,} tokens)",
            *(seconds(tuple(t / one.steps * max(1, optimal // step_tokens) for t in one.seconds)) for one in plans),  # type: ignore[arg-type]
        ),
    ]


def plan(
    source: Source,
    *,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    plugins: Sequence[Path | str] = (),
    timed: bool = False,
    watch: Watcher = SILENT,
) -> Plan:
    """What a recipe costs, part by part, as a ``Plan``: parameters, FLOPs, memory. Reads the data and trains nothing.

    ``source``, ``set``, ``seed``, ``plugins`` and ``watch``: as in ``train``. ``timed``: also how long a step takes on this
    machine, from a few steps whose result is thrown away.

    ```python
    plan = gf.plan("docstrings-char", set={"model.layers": 2})
    print(plan.cost.parameters, plan.flops, plan.total_bytes)
    print(plan)
    ```
    """
    load_plugins(plugins)
    recipe = load_recipe(source, {**(set or {}), **({} if seed is None else {"seed": seed})}, watch=watch)
    data = prepare_data(recipe)
    found = replace(plan_with(recipe, data), peak_bytes=peak_memory(recipe, data))
    return with_time(found, data) if timed else found


def peak_memory(recipe: Recipe, data: PreparedData) -> int | None:
    """Bytes at the peak of a training step on the device it would run on; None where the step cannot run on fake tensors (it
    reads a number of a tensor, for example, or a plugin's tensor that is no parameter and no buffer)."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    runtime = choose_runtime(device=recipe.training.device, precision=recipe.training.precision)
    network, mode = recipe.model.shapes(data.tokenizer.size, outputs=recipe.objective.outputs(data)), FakeTensorMode()
    to_fake(network, mode, runtime.device)
    batches = batches_of(recipe, data)
    largest = max((batches.batch(number) for number in range(BATCHES_SEEN)), key=lambda batch: batch.numel)
    try:
        with torch.random.fork_rng(), kernels.not_launched(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what torch loads to trace; what the step itself warns of, training says
            with mode:  # some optimizers make their state at once
                step = training_step(recipe, network, runtime)  # type: ignore[arg-type]
            form, _ = choose_form(step, number_of_steps(recipe, batches), None, 0.0, SILENT)
            return peak_bytes(step, largest, mode, captured=form.captured)
    except (RuntimeError, NotImplementedError, AssertionError, TypeError):
        return None


def with_time(plan: Plan, data: PreparedData) -> Plan:
    """The plan with the seconds of a step."""
    recipe = plan.recipe
    flops = plan.cost.step_flops * recipe.training.accumulate
    runtime = choose_runtime(device=recipe.training.device, precision=recipe.training.precision)
    if plan.total_bytes > MOST_BYTES_TIMED or flops > MOST_FLOPS_TIMED:
        return replace(plan, step_seconds=flops / matmul_rate(runtime.device), at_least=True)
    step = training_step(recipe, build_network(recipe, data).to(runtime.device), runtime)
    batches, taken = batches_of(recipe, data), list[float]()
    for number in range(TIMED_STEPS + 1):
        start = time.perf_counter()
        float(step(batches.batch(number).to(runtime.device), number, 1.0).loss)
        taken.append(time.perf_counter() - start)
    return replace(plan, step_seconds=statistics.median(taken[1:]))  # the first one warms up


def matmul_rate(device: torch.device, size: int = 1024) -> float:
    """Floating-point operations per second of a square matrix product here: more than any training step reaches."""
    a, b = torch.ones(size, size, device=device), torch.ones(size, size, device=device)
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        float((a @ b)[0, 0])
        best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best


def plan_with(recipe: Recipe, data: PreparedData) -> Plan:
    """The cost of a recipe whose data are ready, and of a parent that is trained first."""
    outputs = recipe.objective.outputs(data)
    model = recipe.model.shapes(data.tokenizer.size, outputs=outputs)
    micro_batch = recipe.training.batch_size // recipe.training.accumulate
    parent = None
    if recipe.init_from is not None and not is_run(recipe.init_from):
        trained_first = parent_recipe(recipe)
        parent = plan_with(trained_first, prepare_data(trained_first))
    return Plan(
        recipe=recipe,
        cost=recipe.model.cost(data.tokenizer.size, outputs=outputs, batch=micro_batch),
        steps=number_of_steps(recipe, batches_of(recipe, data)),
        optimizer_bytes=optimizer_bytes(recipe.training, model),
        train_tokens=data.part("text").split("train").num_tokens if "text" in data.parts else 0,
        vocabulary=data.tokenizer.size,
        decay=OptimizerSet(recipe.training, model).decay_list(),
        parent=parent,
        shapes=tuple(tuple(one.shape) for one in model.parameters() if one.requires_grad),
        largest_block=max((sum(p.numel() for p in block.parameters()) for block in getattr(model, "blocks", ())), default=0),
    )
