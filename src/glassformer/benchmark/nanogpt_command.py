"""A nanoGPT folder -> the command that trains a copy of it, and the loss it reached. Imports no torch.

Beside the tiny recipe it gets the same sizes and random tokens. Beside a recipe of a real text it runs as its users run it: by
a configuration file of its own, on the recipe's text in the recipe's characters.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from array import array
from collections.abc import Mapping
from pathlib import Path

from glassformer.benchmark.nanogpt_folder import Texts, nanogpt_options, prepare_nanogpt
from glassformer.foundation.errors import GlassformerError

VOCABULARY, TOKENS = 7, 100_000
EVALUATES_EVERY = 250
"""Steps between evaluations in its configuration of shakespeare_char."""
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
"""Its own train.py takes its checkpoint up and goes one step of rate zero further; then nats per token over all the validation
text, in windows of the context: what our evaluations give."""


def nanogpt_command(folder: Path, scratch: Path, sizes: Mapping[str, int], steps: int) -> tuple[list[str], Path]:
    """The command and the folder it runs in: sizes like ours, random tokens; one evaluation at the end, as ours."""
    draw = random.Random(0)
    tokens = array("H", (draw.randrange(VOCABULARY) for _ in range(TOKENS))).tobytes()
    prepare_nanogpt(folder, scratch, (tokens, tokens, VOCABULARY))
    values = {
        "n_layer": sizes["model.layers"],
        "n_head": sizes["model.heads"],
        "n_embd": sizes["model.width"],
        "block_size": sizes["model.context"],
        "batch_size": sizes["training.batch_size"],
        "gradient_accumulation_steps": 1,
        "max_iters": steps,
        "eval_interval": steps,
        "log_interval": max(1, steps),
    }
    return _train(values), scratch


def nanogpt_own_command(folder: Path, scratch: Path, config: str, texts: Texts, steps: int) -> tuple[list[str], Path]:
    """The same by its own configuration file, on texts of ours; its schedule ends with its steps."""
    prepare_nanogpt(folder, scratch, texts, config)
    values = {"max_iters": steps, "lr_decay_iters": steps}
    if steps % EVALUATES_EVERY:  # it saves only when it evaluates, and its last step is what is measured
        values["eval_interval"] = steps
    return _train(values, config), scratch


def nanogpt_loss(scratch: Path, config: str) -> float:
    """Of the checkpoint that the command left, on the whole validation text."""
    still = {"init_from": "resume", "max_iters": 0, "learning_rate": 0.0, "decay_lr": False, "eval_iters": 1, "compile": False}
    command = [sys.executable, "-c", LOSS_OF_ALL, *_words(still, config)]
    answer = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise GlassformerError(f"nanoGPT's checkpoint could not be evaluated: {answer.stderr.strip().rpartition(chr(10))[2]}")
    return float(answer.stdout.split()[-1])


def _train(values: Mapping[str, object], *config: str) -> list[str]:
    return [sys.executable, "-u", "train.py", *_words(values, *config)]


def _words(values: Mapping[str, object], *config: str) -> list[str]:
    """Of its command line; what is given goes before what suits this machine."""
    return [*config, *nanogpt_options({**_on_this_machine(), **values})]


def _on_this_machine() -> dict[str, object]:
    """As its own instructions say: on a GPU its defaults, on a processor float32, not compiled, fewer evaluations."""
    if shutil.which("nvidia-smi"):
        return {"device": "cuda", "dtype": "bfloat16", "compile": True}
    return {"device": "cpu", "dtype": "float32", "compile": False, "eval_iters": 20}
