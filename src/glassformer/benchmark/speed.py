"""Speed of training and generation in tokens/s, as ratios and as a share of the machine's rate of matrix products.

The share is the FLOPs of the matrix products of a step (forward and backward pass of the reference implementation, the whole
square of the scores counted) by the rate of plain matrix products measured in the same round. ``others`` are programs that
do the same job, measured in turns with ours (``bench/beside.py`` of the repository).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.benchmark.measure import (
    Meter,
    Program,
    compared,
    describe,
    dtype_of,
    matrix_program,
    measure,
    memory_program,
    spread,
    timed,
)
from glassformer.data.batches import DeviceBatches, WindowBatches
from glassformer.foundation.errors import UsageError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime
from glassformer.generation.generate import generate
from glassformer.model.accounting import parts_of
from glassformer.model.config import ModelConfig
from glassformer.model.kernels import read_triton_ahead
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.step import TrainingLoss, TrainStep
from glassformer.training.step_acceleration import StepForm, accelerate

OURS, ON_CPU, WITHOUT_CACHE = "glassformer", "glassformer on the CPU", "glassformer, no KV cache"
TOKENS = 1 << 20
WARM_UP_JOBS = 2
"""Generation jobs of every program before the first that is measured: the second still prepares kernels."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The model: a GPT-2 with learned positions, norm before, GELU, tied head."""

    width: int = 384
    layers: int = 6
    heads: int = 6
    context: int = 256
    vocabulary: int = 65
    dropout: float = 0.0
    bias: bool = True
    """Biases in linear maps and norms."""

    def config(self) -> ModelConfig:
        return ModelConfig.model_validate(
            {name: getattr(self, name) for name in ("width", "layers", "heads", "context", "dropout", "bias")}
        )


@dataclass(frozen=True)
class TrainingJob:
    """``steps`` training steps of ``batch`` rows over random tokens."""

    sizes: Sizes
    runtime: Runtime
    batch: int
    steps: int

    def tokens(self) -> np.ndarray:
        return np.random.default_rng(0).integers(self.sizes.vocabulary, size=TOKENS).astype(np.uint16)

    def batches(self) -> WindowBatches | DeviceBatches:
        batches = WindowBatches(self.tokens(), context=self.sizes.context, batch_size=self.batch, seed=0)
        return batches.on(self.runtime.device)

    @property
    def work(self) -> float:
        """Tokens in all steps."""
        return float(self.steps * self.batch * self.sizes.context)


@dataclass(frozen=True)
class GenerationJob:
    """``rows`` sequences at once, ``new`` tokens after prompts of ``prompt`` tokens, drawn at temperature 1."""

    sizes: Sizes
    runtime: Runtime
    rows: int
    prompt: int
    new: int

    def prompts(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        ids_BT = torch.randint(self.sizes.vocabulary, (self.rows, self.prompt), generator=generator)
        return ids_BT.to(self.runtime.device)


def benchmark_training(
    job: TrainingJob,
    *,
    rounds: int,
    beside_cpu: bool = False,
    others: Mapping[str, Meter] | None = None,
    watch: Watcher = SILENT,
) -> dict[str, Any]:
    """The document of ``glassformer bench train``: tokens/s, ratios, shares of the matrix rate, peak memory of ours on CUDA.

    ``beside_cpu``: the same steps on this machine's processor, in float32, in the same rounds.
    """
    sizes, runtime, device = job.sizes, job.runtime, job.runtime.device
    on_cuda, peaks, skipped = device.type == "cuda", dict[str, int](), list[str]()
    before = torch.cuda.memory_allocated(device) if on_cuda else 0
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(device)  # other programs may have run in this process
    ours = training_program(job, watch)
    ours()  # compiles, and chooses kernels
    if on_cuda:
        peaks[OURS] = torch.cuda.max_memory_allocated(device) - before
    meters = {OURS: timed(ours, device), **(others or {})}
    if beside_cpu and device.type == "cpu":
        skipped.append("There is no GPU here (or --device says cpu), so there is no ratio of GPU to CPU.")
    elif beside_cpu:
        cpu = Runtime(torch.device("cpu"), "float32", runtime.threads)
        on_processor = training_program(TrainingJob(sizes, cpu, job.batch, job.steps), watch)
        on_processor()
        meters[ON_CPU] = timed(on_processor, cpu.device)
    matrix_meter = timed(matrix_program(device, runtime.precision), device)
    matrix_meter()
    rates = measure({**meters, "matrix products": matrix_meter}, rounds=rounds, watch=watch)
    matrix = rates.pop("matrix products")
    flops_per_token = step_flops(sizes, job.batch) / (job.batch * sizes.context)
    return {
        "benchmark": "train",
        "machine": {**describe(runtime), "matrix_flops": spread(matrix)},
        "settings": {**vars(sizes), "batch": job.batch, "steps": job.steps},
        **compared(rates, OURS),
        "share_of_matrix_rate": {
            name: spread([flops_per_token * rate / peak for rate, peak in zip(values, matrix)])
            for name, values in rates.items()
        },
        "peak_bytes": peaks,
        "skipped": skipped,
    }


def step_flops(sizes: Sizes, batch: int) -> int:
    """FLOPs of the matrix products of one training step."""
    return sum(part.forward_flops + part.backward_flops for part in parts_of(sizes.config(), sizes.vocabulary, batch=batch))


def training_program(job: TrainingJob, watch: Watcher = SILENT) -> Program:
    """Our training steps, compiled and captured on CUDA as in a long run."""
    sizes, runtime = job.sizes, job.runtime
    config, on_cuda = TrainingConfig(steps=job.steps, batch_size=job.batch), runtime.device.type == "cuda"
    model = build_model(sizes.config(), sizes.vocabulary, seed=0).to(runtime.device)
    loss = TrainingLoss(model, NextTokenConfig(), runtime)
    plain = TrainStep(loss, OptimizerSet(config, model), config, runtime, 0)
    step = accelerate(plain, StepForm(compiled=on_cuda, captured=on_cuda), watch)
    batches = job.batches()

    def program() -> float:
        for number in range(job.steps):
            step(batches.batch(number).to(runtime.device), number, 1.0)
        return job.work

    return program


def benchmark_generation(
    job: GenerationJob,
    *,
    rounds: int,
    without_cache: bool = True,
    others: Mapping[str, Program] | None = None,
    watch: Watcher = SILENT,
) -> dict[str, Any]:
    """The document of ``glassformer bench generate``: the machine, tokens/s of each program, and our ratio to each."""
    sizes, runtime, device = job.sizes, job.runtime, job.runtime.device
    if job.prompt < 1 or job.prompt > sizes.context:
        raise UsageError(f"--prompt {job.prompt} must be between 1 and the context of {sizes.context}.", reason="bad-prompt")
    programs = {OURS: generation_program(job)}
    if without_cache:
        programs[WITHOUT_CACHE] = generation_program(job, use_cache=False)
    programs |= others or {}
    for _ in range(WARM_UP_JOBS):
        for program in programs.values():
            program()
    machine = {
        "matrix_flops": timed(matrix_program(device, runtime.precision), device),
        "memory_bytes": timed(memory_program(device), device),
    }
    measure(machine, rounds=1)  # loads kernels and touches the memory
    machine_rates = measure(machine, rounds=rounds)
    rates = measure({name: timed(program, device) for name, program in programs.items()}, rounds=rounds, watch=watch)
    return {
        "benchmark": "generate",
        "machine": {**describe(runtime), **{name: spread(values) for name, values in machine_rates.items()}},
        "settings": {**vars(sizes), "rows": job.rows, "prompt": job.prompt, "new": job.new},
        **compared(rates, OURS),
        "skipped": [],
    }


def generation_program(job: GenerationJob, *, use_cache: bool = True) -> Program:
    """Our generation with fresh weights."""
    device, precision = job.runtime.device, job.runtime.precision
    read_triton_ahead(device, precision)  # as a run does when it loads its model to generate
    model = build_model(job.sizes.config(), job.sizes.vocabulary, seed=0).to(device, dtype_of(precision)).eval()
    prompts = job.prompts().tolist()

    def program() -> float:
        texts = generate(model, prompts, max_new_tokens=job.new, use_cache=use_cache, batch_size=job.rows)
        return float(sum(len(text.ids) for text in texts))

    return program
