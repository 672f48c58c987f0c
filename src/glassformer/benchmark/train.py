"""Training speed: ours, transformers' GPT-2 class, nanoGPT's own train.py; tokens/s, ratios, memory, share of the matrix rate.

All take steps of the same batch over the same tokens with models of the same sizes, in turns. The share is the FLOPs of
the matrix products of a step (forward and backward pass of the reference implementation, the whole square of the scores
counted) by the rate of plain matrix products measured in the same round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.benchmark.machine import describe, matrix_program
from glassformer.benchmark.nanogpt_train import train_nanogpt
from glassformer.benchmark.peers import Sizes, transformers_model
from glassformer.benchmark.timing import Program, measure, ratio, spread, timed
from glassformer.data.batches import WindowBatches
from glassformer.foundation.errors import MissingDependency
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime
from glassformer.model.accounting import parts_of
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.config import TrainingConfig
from glassformer.training.fast import StepForm, accelerate
from glassformer.training.loss import TrainingLoss
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.step import TrainStep

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
    dtype = torch.bfloat16 if runtime.precision == "bf16" else torch.float32
    programs, skipped = {OURS: _ours(sizes, runtime, tokens_N, batch, steps, watch)}, []
    if transformers:
        try:
            programs["transformers GPT-2"] = _transformers(sizes, runtime, tokens_N, batch, steps)
        except MissingDependency as error:
            skipped.append(str(error))
    on_gpu = runtime.device.type != "cpu"
    devices = dict.fromkeys(programs, runtime.device)
    if beside_cpu and on_gpu:
        devices[ON_CPU] = torch.device("cpu")
        programs[ON_CPU] = _ours(sizes, Runtime(devices[ON_CPU], "float32", runtime.threads), tokens_N, batch, steps, watch)
    elif beside_cpu:
        skipped.append("There is no GPU here (or --device says cpu), so there is no ratio of GPU to CPU.")
    peaks: dict[str, int] = {}
    for name, program in programs.items():
        program()  # compiling, and kernels being chosen
        if devices[name].type == "cuda" and not peaks:  # ours comes first, with the GPU to itself
            peaks[name] = torch.cuda.max_memory_allocated(devices[name])
    meters = {name: timed(program, devices[name]) for name, program in programs.items()}
    meters[MATRIX] = timed(matrix_program(runtime.device, dtype), runtime.device)
    meters[MATRIX]()
    if nanogpt is not None:
        on_cuda = runtime.device.type == "cuda"

        def nanogpt_rate() -> float:
            trained = train_nanogpt(
                nanogpt, sizes, tokens_N, batch=batch, steps=steps, device=runtime.device.type, compiled=on_cuda
            )
            peaks.update({NANOGPT: trained.peak_bytes} if trained.peak_bytes else {})
            return trained.rate

        meters[NANOGPT] = nanogpt_rate
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
