"""A nanoGPT checkout -> a scratch copy that trains on our tokens: its commands, its training rate, its model, its loss.

Helper of bench/beside.py. The folder is the one named on the command line; its code runs, and never code found elsewhere.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from glassformer.benchmark.speed import Sizes, TrainingJob
from glassformer.foundation.errors import GlassformerError, UsageError

FILES = ("train.py", "model.py", "configurator.py")
ITS_SEED = "torch.manual_seed(1337"
DATASET = "bench"
"""The name of our data in its ``data`` folder."""
Texts = tuple[bytes, bytes, int]
"""Training and validation tokens as numbers of 16 bits, and the size of the vocabulary."""
SETTLING = 10
"""Iterations before the clock starts: compiling, and kernels being chosen."""
EVALUATES_EVERY = 250
"""Steps between evaluations in its configuration of shakespeare_char."""
TRAIN_AND_PRINT_PEAK = """
import atexit, runpy, torch
atexit.register(lambda: print("peak bytes:", torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0))
runpy.run_path("train.py", run_name="__main__")
"""
LOSS_OF_ALL = """
import runpy, numpy, torch
model = runpy.run_path("train.py", run_name="__main__")["raw_model"].eval()
device, context, total = next(model.parameters()).device, model.config.block_size, 0.0
ids = torch.from_numpy(numpy.fromfile("data/bench/val.bin", dtype=numpy.uint16).astype(numpy.int64)).to(device)
with torch.no_grad():
    for start in range(0, len(ids) - 1, context):
        row = ids[start : start + context + 1]
        total += float(model(row[None, :-1], row[None, 1:].contiguous())[1]) * (len(row) - 1)
print(total / (len(ids) - 1))
"""
"""Its train.py resumes its checkpoint for one step of rate zero; then nats per token over the whole validation text, in
windows of the context, as our evaluations measure it."""


def file_of(folder: Path, name: str) -> Path:
    file = folder / name
    if not file.is_file():
        raise UsageError(
            f"--nanogpt {folder} has no {name}; give the folder of a nanoGPT checkout.", reason="not-a-nanogpt-folder"
        )
    return file


def prepare(folder: Path, scratch: Path, texts: Texts, *more: str, seed: int = 0) -> None:
    """Makes ``scratch`` anew: the files that training needs, ``more`` of the folder's files, and the texts as its data.
    ``seed``: added to the one that its train.py names, which has no option for it."""
    files = {name: file_of(folder, name) for name in (*FILES, *more)}
    shutil.rmtree(scratch, ignore_errors=True)
    for name, file in files.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, scratch / name)
    if seed:
        text = (scratch / "train.py").read_text(encoding="utf-8")
        if ITS_SEED not in text:
            raise UsageError(f"{folder}/train.py does not say {ITS_SEED}; its seed cannot be changed.", reason="no-seed")
        (scratch / "train.py").write_text(text.replace(ITS_SEED, f"{ITS_SEED} + {seed}"), encoding="utf-8")
    training, validation, vocabulary = texts
    data = scratch / "data" / DATASET
    data.mkdir(parents=True)
    (data / "train.bin").write_bytes(training)
    (data / "val.bin").write_bytes(validation)
    (data / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": vocabulary}))  # its format; we never read one


def random_texts(vocabulary: int, tokens: int = 100_000) -> Texts:
    draw = random.Random(0)
    text = array("H", (draw.randrange(vocabulary) for _ in range(tokens))).tobytes()
    return text, text, vocabulary


def recipe_texts(recipe: str, changes: Mapping[str, Any]) -> Texts:
    """The training and validation text of a recipe in its own tokens."""
    from glassformer.assembly import prepare_data
    from glassformer.recipe import load_recipe

    data = prepare_data(load_recipe(recipe, changes))
    if data.tokenizer.size > 1 << 16:
        raise UsageError(f"nanoGPT stores tokens in 16 bits; {recipe} has {data.tokenizer.size:,} of them.")
    training, validation = (np.asarray(data.split(name).tokens).astype(np.uint16).tobytes() for name in ("train", "validation"))
    return training, validation, int(data.tokenizer.size)


def options(values: Mapping[str, object], *config: str) -> list[str]:
    """The words of its command line: a configuration file, our data, the values; a value goes before the machine's."""
    on_gpu = shutil.which("nvidia-smi") is not None
    on_gpu_values: dict[str, object] = {"device": "cuda", "dtype": "bfloat16", "compile": True}
    on_cpu_values: dict[str, object] = {"device": "cpu", "dtype": "float32", "compile": False, "eval_iters": 20}
    every = {"dataset": DATASET, "out_dir": "out", **(on_gpu_values if on_gpu else on_cpu_values), **values}
    return [*config, *(f"--{name}={value}" for name, value in every.items())]


def train_command(values: Mapping[str, object], *config: str) -> list[str]:
    return [sys.executable, "-u", "train.py", *options(values, *config)]


def own_config_command(config: str, steps: int) -> list[str]:
    """By its own configuration file; its schedule ends with its steps, and it evaluates (so saves) at its last step."""
    values = {"max_iters": steps, "lr_decay_iters": steps}
    return train_command(values | ({"eval_interval": steps} if steps % EVALUATES_EVERY else {}), config)


def validation_loss(scratch: Path, config: str) -> float:
    """Of the checkpoint that training left in ``scratch``, on the whole validation text."""
    still = {"init_from": "resume", "max_iters": 0, "learning_rate": 0.0, "decay_lr": False, "eval_iters": 1, "compile": False}
    command = [sys.executable, "-c", LOSS_OF_ALL, *options(still, config)]
    answer = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise GlassformerError(f"nanoGPT's checkpoint could not be evaluated: {answer.stderr.strip().rpartition(chr(10))[2]}")
    return float(answer.stdout.split()[-1])


class Trained(NamedTuple):
    rate: float
    """Tokens per second."""
    peak_bytes: int
    """Of the GPU's memory, as torch counts it; 0 without one."""


def train(folder: Path, job: TrainingJob) -> Trained:
    """The rate of its own train.py over the job's steps, after the first ones, and the memory it took."""
    sizes, device, tokens = job.sizes, job.runtime.device.type, job.tokens().tobytes()
    values = {
        "n_layer": sizes.layers,
        "n_head": sizes.heads,
        "n_embd": sizes.width,
        "block_size": sizes.context,
        "dropout": float(sizes.dropout),
        "bias": sizes.bias,
        "batch_size": job.batch,
        "gradient_accumulation_steps": 1,
        "max_iters": SETTLING + job.steps,
        "eval_interval": 10**9,
        "eval_iters": 1,
        "log_interval": 1 if device == "cpu" else SETTLING,
        "device": device,
        "dtype": "float32" if device == "cpu" else "bfloat16",
        "compile": device == "cuda",
    }
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "nanogpt"
        prepare(folder, copy, (tokens, tokens, sizes.vocabulary))
        times, lines = _watch([sys.executable, "-u", "-c", TRAIN_AND_PRINT_PEAK, *options(values)], copy)
    first, last = SETTLING, SETTLING + job.steps
    if first not in times or last not in times:
        raise GlassformerError(f"nanoGPT's train.py did not reach iteration {last}; its last words: {' / '.join(lines[-4:-1])}")
    peak = next((int(line.split()[-1]) for line in reversed(lines) if line.startswith("peak bytes:")), 0)
    return Trained(job.work / (times[last] - times[first]), peak)


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


def build(folder: Path, sizes: Sizes) -> nn.Module:
    """Its ``GPT`` with fresh weights."""
    spec = importlib.util.spec_from_file_location("nanogpt_model", file_of(folder, "model.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["nanogpt_model"] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):  # it prints its size
        config = module.GPTConfig(
            block_size=sizes.context,
            vocab_size=sizes.vocabulary,
            n_layer=sizes.layers,
            n_head=sizes.heads,
            n_embd=sizes.width,
            dropout=sizes.dropout,
            bias=sizes.bias,
        )
        model: nn.Module = module.GPT(config)
    return model
