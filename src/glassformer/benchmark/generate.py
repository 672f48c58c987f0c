"""Generation speed: ours with and without memory, transformers' GPT-2 with its cache, nanoGPT; tokens/s and ratios.

All write the same number of tokens after prompts of the same length, drawn at temperature 1 from models of the same
sizes with fresh weights, in turns within one process.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.benchmark.machine import describe, measure_machine
from glassformer.benchmark.peers import Sizes, nanogpt_model, transformers_model
from glassformer.benchmark.timing import Program, measure, ratio, spread, timed
from glassformer.foundation.errors import MissingDependency, UsageError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime
from glassformer.model.generate import generate
from glassformer.model.transformer import Transformer, build_model

OURS, WITHOUT = "glassformer", "glassformer, no memory"


def benchmark_generation(
    sizes: Sizes,
    runtime: Runtime,
    *,
    rows: int,
    prompt: int,
    new: int,
    rounds: int,
    without_memory: bool = True,
    transformers: bool = True,
    nanogpt: Path | None = None,
    watch: Watcher = SILENT,
) -> dict[str, Any]:
    """The document of ``glassformer bench generate``: the machine, tokens/s of each program, and our ratio to each."""
    if prompt < 1 or prompt > sizes.context:
        raise UsageError(f"--prompt {prompt} must be between 1 and the context of {sizes.context}.")
    dtype = torch.bfloat16 if runtime.precision == "bf16" else torch.float32
    ids_BT = torch.randint(sizes.vocabulary, (rows, prompt), generator=torch.Generator().manual_seed(0)).to(runtime.device)
    programs = _programs(sizes, runtime, ids_BT, new, dtype, without_memory=without_memory)
    skipped = []
    if transformers and prompt + new > sizes.context:
        skipped.append(f"transformers GPT-2 is left out: it cannot write beyond its context of {sizes.context}.")
    elif transformers:
        try:
            programs["transformers GPT-2"] = _transformers(sizes, runtime, ids_BT, new, dtype)
        except MissingDependency as error:
            skipped.append(str(error))
    if nanogpt is not None:
        programs["nanoGPT"] = _nanogpt(nanogpt, sizes, runtime, ids_BT, new)
    programs[OURS]()  # the first call of a process pays for loading kernels
    meters = {name: timed(program, runtime.device) for name, program in programs.items()}
    of_machine = measure_machine(runtime, dtype, rounds=rounds)
    rates = measure(meters, rounds=rounds, watch=watch)
    return {
        "benchmark": "generate",
        "machine": {**describe(runtime), **{name: spread(values) for name, values in of_machine.items()}},
        "settings": {**vars(sizes), "rows": rows, "prompt": prompt, "new": new},
        "tokens_per_second": {name: spread(values) for name, values in rates.items()},
        "times_as_fast_as": {name: ratio(rates, OURS, name) for name in rates if name != OURS},
        "skipped": skipped,
    }


def _programs(
    sizes: Sizes, runtime: Runtime, ids_BT: Tensor, new: int, dtype: torch.dtype, *, without_memory: bool
) -> dict[str, Program]:
    model = build_model(sizes.ours(), sizes.vocabulary, seed=0).to(runtime.device, dtype)
    programs = {OURS: _ours(model, ids_BT.tolist(), new, use_memory=True)}
    if without_memory:
        programs[WITHOUT] = _ours(copy.deepcopy(model), ids_BT.tolist(), new, use_memory=False)
    return programs


def _ours(model: Transformer, prompts: list[list[int]], new: int, *, use_memory: bool) -> Program:
    def program() -> float:
        texts = generate(model, prompts, max_new_tokens=new, use_memory=use_memory, batch_size=len(prompts))
        return float(sum(len(text.ids) for text in texts))

    return program


def _transformers(sizes: Sizes, runtime: Runtime, ids_BT: Tensor, new: int, dtype: torch.dtype) -> Program:
    model = transformers_model(sizes).to(runtime.device, dtype).eval()

    def program() -> float:
        with torch.inference_mode():
            written_BT = model.generate(
                ids_BT,
                attention_mask=torch.ones_like(ids_BT),
                max_new_tokens=new,
                do_sample=True,
                top_k=0,
                use_cache=True,
                pad_token_id=0,
            )
        return float(written_BT.numel() - ids_BT.numel())

    return program


def _nanogpt(folder: Path, sizes: Sizes, runtime: Runtime, ids_BT: Tensor, new: int) -> Program:
    """As its sample.py runs it: float32 weights, on a GPU products in bf16."""
    model: Any = nanogpt_model(folder, sizes).to(runtime.device).eval()

    def program() -> float:
        with torch.no_grad(), runtime.autocast():
            written_BT = model.generate(ids_BT, new, temperature=1.0)
        return float(written_BT.numel() - ids_BT.numel())

    return program
