"""Whole runs on a GPU: the CPU's losses, the same bits when resumed, texts equal to the reference, a real lack of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.gpu.conftest import DEVICE

import glassformer as gf
from glassformer.checking.verify_resume import verify_resume
from glassformer.generation.generate import generate

STEPS = 60
"""Above 30, from where on a step is captured."""
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "modern": {
        "positions": "rotary",
        "norm": "rms",
        "mixer": {"kind": "dot", "qk": "rms", "kv_heads": 1},
        "feedforward": "swiglu",
    },
    "recurrent": {"mixer": ["mamba2", "dot"], "layers": 2},
    "experts": {"feedforward": "experts", "stack": {"kind": "shared", "blocks": 1}, "layers": 2},
}


@pytest.fixture
def recipe(tiny: dict[str, Any]) -> dict[str, Any]:
    """The tiny recipe where ``auto`` finds the GPU, without micro-batches."""
    tiny["training"] |= {"device": DEVICE, "steps": STEPS, "accumulate": 1, "batch_size": 8, "log_every": 5}
    tiny["evaluation"]["every"] = tiny["checkpoint"]["every"] = 20
    return tiny


def losses(run: gf.Run) -> list[float]:
    return [record["loss"] for record in run.records() if "loss" in record]


@pytest.mark.parametrize("name", MODELS)
def test_training_has_the_losses_of_the_cpu(name: str, recipe: dict[str, Any], tmp_path: Path) -> None:
    recipe["model"] |= {"dropout": 0.0, **MODELS[name]}
    runs = []
    for number, where in enumerate((DEVICE, "cpu")):
        recipe["training"]["device"] = where
        runs.append(gf.train(recipe, out=tmp_path / str(number)))
    here, there = runs
    assert here.directory.read_environment()["step_form"]["captured"] is (DEVICE == "cuda")
    assert losses(here) == pytest.approx(losses(there), rel=1e-3)
    assert here.evaluate().metrics["loss"].value == pytest.approx(there.evaluate().metrics["loss"].value, rel=1e-3)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_a_run_is_killed_and_resumed_to_the_same_bits(
    name: str, precision: str, recipe: dict[str, Any], tmp_path: Path
) -> None:
    """With dropout, captured, killed between its checkpoints."""
    recipe["model"] |= MODELS[name]
    recipe["training"]["precision"] = precision
    assert verify_resume(recipe, kills=1, folder=tmp_path / "proof").same


@pytest.mark.parametrize("name", MODELS)
def test_many_prompts_at_once_have_the_texts_of_the_reference(name: str, recipe: dict[str, Any], tmp_path: Path) -> None:
    recipe["model"] |= MODELS[name]
    run = gf.train(recipe, out=tmp_path / "run")
    model = run.model.to(DEVICE)
    prompts = [[1, 2, 3], [4], [5, 6]]
    for sampling in ({"temperature": 0.0}, {"temperature": 0.9, "top_k": 5}):
        together, alone = (
            [one.ids for one in generate(model, prompts, max_new_tokens=20, use_cache=cached, **sampling)]
            for cached in (True, False)
        )
        assert together == alone


LITTLE_MEMORY = """
import sys, torch, glassformer as gf
torch.cuda.set_per_process_memory_fraction(float(sys.argv[3]))
run = gf.train(sys.argv[1], out=sys.argv[2])
print(run.records()[-1]["loss"])
"""


@pytest.mark.skipif(DEVICE != "cuda", reason="needs the memory of a GPU")
def test_a_real_lack_of_memory_halves_the_micro_batch(recipe: dict[str, Any], tmp_path: Path) -> None:
    recipe["model"] |= {"width": 256, "heads": 4, "layers": 4, "context": 512, "dropout": 0.0}
    recipe["data"] = {"set": "docstrings"}
    recipe["training"] |= {"steps": 3, "batch_size": 256, "out_of_memory": "halve", "log_every": 1}
    file = tmp_path / "recipe.yaml"
    share = (1 << 30) / torch.cuda.get_device_properties(0).total_memory
    found = {}
    for name, fraction in (("whole", 1.0), ("little", 3 * share)):
        file.write_text(json.dumps(recipe), encoding="utf-8")
        command = [sys.executable, "-c", LITTLE_MEMORY, str(file), str(tmp_path / name), str(fraction)]
        answer = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr[-2000:]
        assert ("Out of memory: continuing" in answer.stderr) is (name == "little")
        found[name] = float(answer.stdout)
    assert found["little"] == pytest.approx(found["whole"], rel=1e-3)
