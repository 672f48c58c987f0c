"""For the tests of the model: one generator; and a comparison of kernels with torch, on the GPU or by Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

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


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(1234)
