"""A nanoGPT folder -> how fast its own train.py trains, and the memory it takes, read off its output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glassformer.benchmark.nanogpt_folder import nanogpt_options, prepare_nanogpt
from glassformer.benchmark.peers import Sizes
from glassformer.foundation.errors import GlassformerError

SETTLING = 10
"""Iterations before the clock starts: compiling, and kernels being chosen."""
RUN = """
import atexit, runpy, torch
atexit.register(lambda: print("peak bytes:", torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0))
runpy.run_path("train.py", run_name="__main__")
"""
"""Its train.py as it is; at the end torch says how much memory it had handed out at most."""


class Trained(NamedTuple):
    rate: float
    """Tokens per second."""
    peak_bytes: int
    """Of the GPU's memory, as torch counts it; 0 without one."""


def train_nanogpt(
    folder: Path, sizes: Sizes, tokens_N: np.ndarray, *, batch: int, steps: int, device: str, compiled: bool
) -> Trained:
    """Its rate over ``steps`` iterations, after the first ones, and the memory it took."""
    tokens = tokens_N.astype(np.uint16).tobytes()
    settings = _settings(sizes, batch=batch, steps=steps, device=device, compiled=compiled)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "nanogpt"
        prepare_nanogpt(folder, copy, (tokens, tokens, sizes.vocabulary))
        times, lines = _watch([sys.executable, "-u", "-c", RUN, *settings], copy)
    first, last = SETTLING, SETTLING + steps
    if first not in times or last not in times:
        raise GlassformerError(f"nanoGPT's train.py did not reach iteration {last}; its last words: {' / '.join(lines[-4:-1])}")
    peak = next((int(line.split()[-1]) for line in reversed(lines) if line.startswith("peak bytes:")), 0)
    return Trained(steps * batch * sizes.context / (times[last] - times[first]), peak)


def _settings(sizes: Sizes, *, batch: int, steps: int, device: str, compiled: bool) -> list[str]:
    values = {
        "n_layer": sizes.layers,
        "n_head": sizes.heads,
        "n_embd": sizes.width,
        "block_size": sizes.context,
        "dropout": float(sizes.dropout),
        "bias": sizes.bias,
        "batch_size": batch,
        "gradient_accumulation_steps": 1,
        "max_iters": SETTLING + steps,
        "eval_interval": 10**9,
        "eval_iters": 1,
        "log_interval": 1 if device == "cpu" else SETTLING,
        "device": device,
        "dtype": "float32" if device == "cpu" else "bfloat16",
        "compile": compiled,
    }
    return nanogpt_options(values)


def _watch(command: list[str], folder: Path) -> tuple[dict[int, float], list[str]]:
    """When each iteration was reported, and the output."""
    times: dict[int, float] = {}
    lines: list[str] = []
    environment = {**os.environ, "PYTHONPATH": ""}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if found := re.match(r"iter (\d+):", line):
                times[int(found[1])] = time.perf_counter()
    return times, lines
