"""A checkout of nanoGPT -> how long the runs of ``glassformer demo`` take there one after another, beside one trial of ours.

    python bench/by_hand.py /path/to/nanoGPT [--runs 2] [--out by-hand.json]

Both train the demo's baseline (2 layers, 4 heads, width 64, context 64, batch 16, 600 steps) on the same characters, in turn,
each in a process of its own with one thread. Seconds on the clock and CPU seconds are printed with the load of the machine; on
a busy machine only the CPU seconds mean something. What the whole demo takes on two cores is not measured here: time
``glassformer demo``.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.assembly import prepare_data
from glassformer.recipe import load_recipe

STEPS, BATCH, CONTEXT = 600, 16, 64
SETTINGS = {"model.width": 64, "model.layers": 2, "model.context": CONTEXT, "training.steps": STEPS, "evaluation.every": 200}
SEEDS = 8
TRAINED, BY_HAND = 4, 5
"""The baseline and the changes that are trained: the one that cheats is caught by a check here, and trained by hand."""


def prepare(checkout: Path) -> int:
    """Writes the demo's characters as nanoGPT reads them; gives the size of the vocabulary."""
    data = prepare_data(load_recipe("docstrings-char", SETTINGS))
    folder = checkout / "data" / "docstrings"
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "train"), ("validation", "val")):
        np.asarray(data.part("text").split(split).tokens, dtype=np.uint16).tofile(folder / f"{name}.bin")
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": data.tokenizer.size}))
    return int(data.tokenizer.size)


def timed(command: list[str], where: Path) -> dict[str, float]:
    """Seconds on the clock and of the processor for one process with one thread."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=where, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - start, "cpu_seconds": cpu, "load": os.getloadavg()[0]}


def nanogpt(seed: int) -> list[str]:
    settings = {
        "dataset": "docstrings",
        "device": "cpu",
        "compile": False,
        "dtype": "float32",
        "eval_interval": 200,
        "eval_iters": 20,
        "log_interval": 100,
        "block_size": CONTEXT,
        "batch_size": BATCH,
        "gradient_accumulation_steps": 1,
        "n_layer": 2,
        "n_head": 4,
        "n_embd": 64,
        "dropout": 0.0,
        "max_iters": STEPS,
        "lr_decay_iters": STEPS,
        "learning_rate": 2e-3,
        "warmup_iters": 50,
        "out_dir": f"out-{seed}",
    }
    return [sys.executable, "train.py", *(f"--{key}={value}" for key, value in settings.items())]


def ours(folder: str, seed: int) -> list[str]:
    flags = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    more = ["--seed", str(seed), "--out", f"{folder}/run-{seed}", "--quiet", "--set", "training.device=cpu"]
    return [sys.executable, "-m", "glassformer", "train", "docstrings-char", *flags, *more]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {"vocabulary": prepare(asked.checkout), "nanogpt": [], "glassformer": []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(asked.runs):
            found["nanogpt"].append(timed(nanogpt(seed), asked.checkout))
            found["glassformer"].append(timed(ours(folder, seed), asked.checkout))
    for name, runs in (("nanogpt", BY_HAND * SEEDS), ("glassformer", TRAINED * SEEDS)):
        cpu = float(np.mean([one["cpu_seconds"] for one in found[name]]))
        found[f"{name}_whole"] = {"runs": runs, "cpu_seconds": runs * cpu}
        loads = ", ".join(
            f"{one['cpu_seconds']:.1f} s CPU ({one['seconds']:.0f} s, load {one['load']:.0f})" for one in found[name]
        )
        print(f"{name}: {loads}; {runs} runs: {runs * cpu:.0f} CPU seconds")
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
