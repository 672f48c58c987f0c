"""Programs that generate: ours with and without a KV cache, transformers' GPT-2 with its cache, nanoGPT; all doing one job.

All draw at temperature 1 from models of the same sizes with fresh weights, each in the mode it has when run by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.benchmark.peers import Sizes, nanogpt_model, transformers_model
from glassformer.benchmark.timing import Program
from glassformer.foundation.runtime import Runtime
from glassformer.generation.generate import generate
from glassformer.model.kernels import read_triton_ahead
from glassformer.model.transformer import build_model

OURS, WITHOUT, TRANSFORMERS, NANOGPT = "glassformer", "glassformer, no KV cache", "transformers GPT-2", "nanoGPT"


@dataclass(frozen=True)
class Job:
    """What is generated: ``rows`` sequences at once, ``new`` tokens after prompts of ``prompt`` tokens."""

    sizes: Sizes
    rows: int
    prompt: int
    new: int
    nanogpt: Path | None = None

    def prompts(self, runtime: Runtime) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.randint(self.sizes.vocabulary, (self.rows, self.prompt), generator=generator).to(runtime.device)


def program_for(name: str, job: Job, runtime: Runtime) -> Program:
    """The program of that name, its model on the device."""
    makers: dict[str, Callable[[Job, Runtime], Program]] = {
        OURS: lambda job, runtime: _ours(job, runtime, use_cache=True),
        WITHOUT: lambda job, runtime: _ours(job, runtime, use_cache=False),
        TRANSFORMERS: _transformers,
        NANOGPT: _nanogpt,
    }
    return makers[name](job, runtime)


def _ours(job: Job, runtime: Runtime, *, use_cache: bool) -> Program:
    read_triton_ahead(runtime.device, runtime.precision)  # as a run does when it loads its model to generate
    model = build_model(job.sizes.ours(), job.sizes.vocabulary, seed=0).to(runtime.device, _dtype(runtime)).eval()
    prompts = job.prompts(runtime).tolist()

    def program() -> float:
        texts = generate(model, prompts, max_new_tokens=job.new, use_cache=use_cache, batch_size=job.rows)
        return float(sum(len(text.ids) for text in texts))

    return program


def _transformers(job: Job, runtime: Runtime) -> Program:
    model, ids_BT = transformers_model(job.sizes).to(runtime.device, _dtype(runtime)).eval(), job.prompts(runtime)

    def program() -> float:
        with torch.inference_mode(), _as_torch_starts():
            written_BT = model.generate(
                ids_BT,
                attention_mask=torch.ones_like(ids_BT),
                max_new_tokens=job.new,
                do_sample=True,
                top_k=0,
                use_cache=True,
                pad_token_id=0,
            )
        return float(written_BT.numel() - ids_BT.numel())

    return program


def _nanogpt(job: Job, runtime: Runtime) -> Program:
    """As its sample.py runs it: float32 weights, on a GPU products in bf16."""
    assert job.nanogpt is not None
    model: Any = nanogpt_model(job.nanogpt, job.sizes).to(runtime.device).eval()
    ids_BT = job.prompts(runtime)

    def program() -> float:
        with torch.no_grad(), runtime.autocast(), _as_torch_starts():
            written_BT = model.generate(ids_BT, job.new, temperature=1.0)
        return float(written_BT.numel() - ids_BT.numel())

    return program


def _dtype(runtime: Runtime) -> torch.dtype:
    return torch.bfloat16 if runtime.precision == "bf16" else torch.float32


@contextmanager
def _as_torch_starts() -> Iterator[None]:
    """Without our deterministic mode, which may keep others from their fastest kernels."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("default")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
