"""Training speed: ours, transformers' GPT-2 class, nanoGPT's own train.py; tokens/s, ratios, memory, share of the matrix rate.

All take steps of the same batch over the same tokens with models of the same sizes, in turns. The share is the FLOPs of
the matrix products of a step (forward and backward pass of the reference implementation, the whole square of the scores
counted) by the rate of plain matrix products measured in the same round.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from glassformer.benchmark.machine import describe, matrix_program
from glassformer.benchmark.nanogpt_train import train_nanogpt
from glassformer.benchmark.peers import Sizes, transformers_model
from glassformer.benchmark.timing import Meter, Program, measure, ratio, spread, timed
from glassformer.data.batches import WindowBatches
from glassformer.foundation.errors import MissingDependency
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime
from glassformer.model.accounting import parts_of
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.step import TrainingLoss, TrainStep
from glassformer.training.step_form import StepForm, accelerate

OURS, MATRIX, ON_CPU, NANOGPT = "glassformer", "matrix products", "glassformer on the CPU", "nanoGPT"
TOKENS = 1 << 20


def benchmark_training(
    sizes: Sizes,
    runtime: Runtime,
    *,
    batch: int,
    steps: int,
    rounds: int,
    transformers: bool = True,
    nanogpt: Path | None = None,
    beside_cpu: bool = False,
    watch: Watcher = SILENT,
) -> dict[str, Any]:
    """The document of ``glassformer bench train``: tokens/s of each program, our ratio to each, shares of the machine.

    ``beside_cpu``: the same steps of ours on this machine's processor, in float32, in the same rounds.
    """
    tokens_N = np.random.default_rng(0).integers(sizes.vocabulary, size=TOKENS).astype(np.uint16)
    job = _Job(sizes, runtime, tokens_N, batch, steps, watch)
    programs, skipped = _programs(job, transformers=transformers, beside_cpu=beside_cpu)
    peaks = _warm_up(programs)
    meters = {name: timed(one.program, one.device) for name, one in programs.items()}
    meters[MATRIX] = _matrix_meter(runtime)
    if nanogpt is not None:
        meters[NANOGPT] = _nanogpt_meter(nanogpt, job, peaks)
    rates = measure(meters, rounds=rounds, watch=watch)
    matrix = rates.pop(MATRIX)
    per_token = step_flops(sizes, batch) / (batch * sizes.context)
    return {
        "benchmark": "train",
        "machine": {**describe(runtime), "matrix_flops": spread(matrix)},
        "settings": {**vars(sizes), "batch": batch, "steps": steps},
        "tokens_per_second": {name: spread(values) for name, values in rates.items()},
        "times_as_fast_as": {name: ratio(rates, OURS, name) for name in rates if name != OURS},
        "share_of_matrix_rate": {
            name: spread([per_token * rate / peak for rate, peak in zip(values, matrix)]) for name, values in rates.items()
        },
        "peak_bytes": peaks,
        "skipped": skipped,
    }


class _Job(NamedTuple):
    """What every program does: steps of the same batch over the same tokens."""

    sizes: Sizes
    runtime: Runtime
    tokens_N: np.ndarray
    batch: int
    steps: int
    watch: Watcher


class _Placed(NamedTuple):
    """A program of this process and the device it runs on."""

    program: Program
    device: torch.device


def _programs(job: _Job, *, transformers: bool, beside_cpu: bool) -> tuple[dict[str, _Placed], list[str]]:
    """What is measured in this process, ours first; and a sentence for each program that was asked for and cannot be."""
    sizes, runtime, tokens_N, batch, steps, watch = job
    programs, skipped = {OURS: _Placed(_ours(*job), runtime.device)}, []
    if transformers:
        try:
            programs["transformers GPT-2"] = _Placed(_transformers(sizes, runtime, tokens_N, batch, steps), runtime.device)
        except MissingDependency as error:
            skipped.append(str(error))
    if beside_cpu and runtime.device.type != "cpu":
        cpu = Runtime(torch.device("cpu"), "float32", runtime.threads)
        programs[ON_CPU] = _Placed(_ours(sizes, cpu, tokens_N, batch, steps, watch), cpu.device)
    elif beside_cpu:
        skipped.append("There is no GPU here (or --device says cpu), so there is no ratio of GPU to CPU.")
    return programs, skipped


def _warm_up(programs: Mapping[str, _Placed]) -> dict[str, int]:
    """Runs each once: compiling, and kernels being chosen. Gives the peak memory of ours, where it is on CUDA."""
    peaks: dict[str, int] = {}
    for name, (program, device) in programs.items():
        program()
        if device.type == "cuda" and not peaks:  # ours comes first, with the GPU to itself
            peaks[name] = torch.cuda.max_memory_allocated(device)
    return peaks


def _matrix_meter(runtime: Runtime) -> Meter:
    """The rate of plain matrix products, warmed up."""
    dtype = torch.bfloat16 if runtime.precision == "bf16" else torch.float32
    meter = timed(matrix_program(runtime.device, dtype), runtime.device)
    meter()
    return meter


def _nanogpt_meter(folder: Path, job: _Job, peaks: dict[str, int]) -> Meter:
    """The rate of nanoGPT's own train.py; its peak memory goes into ``peaks``."""
    device = job.runtime.device.type

    def meter() -> float:
        trained = train_nanogpt(
            folder, job.sizes, job.tokens_N, batch=job.batch, steps=job.steps, device=device, compiled=device == "cuda"
        )
        if trained.peak_bytes:
            peaks[NANOGPT] = trained.peak_bytes
        return trained.rate

    return meter


def step_flops(sizes: Sizes, batch: int) -> int:
    """FLOPs of the matrix products of one training step."""
    return sum(part.forward_flops + part.backward_flops for part in parts_of(sizes.ours(), sizes.vocabulary, batch=batch))


def _ours(sizes: Sizes, runtime: Runtime, tokens_N: np.ndarray, batch: int, steps: int, watch: Watcher) -> Program:
    config, on_cuda = TrainingConfig(steps=steps, batch_size=batch), runtime.device.type == "cuda"
    model = build_model(sizes.ours(), sizes.vocabulary, seed=0).to(runtime.device)
    loss = TrainingLoss(model, NextTokenConfig(), runtime)
    plain = TrainStep(loss, OptimizerSet.of(config, model), config, runtime, 0)
    step = accelerate(plain, StepForm(compiled=on_cuda, captured=on_cuda), watch)  # as in a long run
    batches = WindowBatches(tokens_N, context=sizes.context, batch_size=batch, seed=0).on(runtime.device)

    def program() -> float:
        for number in range(steps):
            step(batches.batch(number).to(runtime.device), number, 1.0)
        return float(steps * batch * sizes.context)

    return program


def _transformers(sizes: Sizes, runtime: Runtime, tokens_N: np.ndarray, batch: int, steps: int) -> Program:
    """A plain loop around the GPT-2 class: AdamW, clipping, the same precision."""
    model = transformers_model(sizes).to(runtime.device).train()
    on_cuda = runtime.device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=on_cuda)
    batches = WindowBatches(tokens_N, context=sizes.context, batch_size=batch, seed=0).on(runtime.device)

    def program() -> float:
        for number in range(steps):
            inputs_BT = batches.batch(number).to(runtime.device)["ids"]
            with runtime.autocast():
                loss = model(input_ids=inputs_BT, labels=inputs_BT).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return float(steps * batch * sizes.context)

    return program
