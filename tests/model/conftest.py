"""For tests of the model: a generator, models that say something, and kernels beside torch (on a GPU or interpreted)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer, build_model

WITHOUT_TRITON = "needs the package triton (which torch for CUDA brings; on a CPU its interpreter runs the kernels)"


@pytest.fixture
def run_with_kernels():
    """Runs a program in a process of its own, since Triton decides at import whether it interprets; gives its complaint."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip(WITHOUT_TRITON)

    def run(program: str, *, interpreted: bool = True) -> str:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        surroundings = os.environ | ({"TRITON_INTERPRET": "1"} if device == "cpu" and interpreted else {})
        start = f"import torch, torch.nn.functional as F\nfrom torch.testing import assert_close\ndevice = {device!r}\n"
        outcome = subprocess.run(
            [sys.executable, "-c", start + program], env=surroundings, capture_output=True, text=True, timeout=300, check=False
        )
        return (outcome.stderr or f"exit code {outcome.returncode}") if outcome.returncode else ""  # a crash says nothing

    return run


@pytest.fixture(scope="session")
def loud_model():
    """Makes models whose weights are large enough that the next token depends on what stands before it."""

    def make(vocabulary: int, *, seed: int = 1, times: float = 8.0, **config) -> Transformer:
        model = build_model(ModelConfig(layers=2, **config), vocabulary, seed=seed).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(times)
        return model.requires_grad_(False)

    return make


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(1234)
