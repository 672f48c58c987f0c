"""A nanoGPT folder and sizes -> the command that trains it on random tokens, in a scratch copy. Imports no torch."""

from __future__ import annotations

import pickle
import random
import shutil
import sys
from array import array
from collections.abc import Mapping
from pathlib import Path

from glassformer.foundation.errors import UsageError

FILES = ("train.py", "model.py", "configurator.py")
VOCABULARY, TOKENS = 7, 100_000


def nanogpt_command(folder: Path, scratch: Path, sizes: Mapping[str, int], steps: int) -> tuple[list[str], Path]:
    """The command and the folder it runs in; one evaluation at the end, as ours."""
    for name in FILES:
        if not (folder / name).is_file():
            raise UsageError(f"--nanogpt {folder} has no {name}; give the folder of a nanoGPT checkout.")
    shutil.rmtree(scratch, ignore_errors=True)
    data = scratch / "data" / "bench"
    data.mkdir(parents=True)
    for name in FILES:
        shutil.copy(folder / name, scratch)
    draw = random.Random(0)
    tokens = array("H", (draw.randrange(VOCABULARY) for _ in range(TOKENS))).tobytes()
    for name in ("train.bin", "val.bin"):
        (data / name).write_bytes(tokens)
    (data / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": VOCABULARY}))  # its format; we never read one
    values = {
        "dataset": "bench",
        "out_dir": "out",
        "n_layer": sizes["model.layers"],
        "n_head": sizes["model.heads"],
        "n_embd": sizes["model.width"],
        "block_size": sizes["model.context"],
        "batch_size": sizes["training.batch_size"],
        "gradient_accumulation_steps": 1,
        "max_iters": steps,
        "eval_interval": steps,
        "log_interval": max(1, steps),
        **_on_this_machine(steps),
    }
    return [sys.executable, "-u", "train.py", *(f"--{name}={value}" for name, value in values.items())], scratch


def _on_this_machine(steps: int) -> dict[str, object]:
    """As its own instructions say: on a GPU its defaults, on a processor float32, not compiled, fewer evaluations."""
    if shutil.which("nvidia-smi"):
        return {"device": "cuda", "dtype": "bfloat16", "compile": True}
    return {"device": "cpu", "dtype": "float32", "compile": False, "eval_iters": 20}
