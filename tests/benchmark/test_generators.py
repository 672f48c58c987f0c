"""Every program does the whole job, each in the mode it has by itself."""

from __future__ import annotations

import pytest
import torch

from glassformer.benchmark.generators import NANOGPT, OURS, TRANSFORMERS, WITHOUT, Job, program_for
from glassformer.benchmark.peers import Sizes
from glassformer.foundation.runtime import Runtime

SIZES = Sizes(width=12, layers=1, heads=3, context=16, vocabulary=7)
RUNTIME = Runtime(device=torch.device("cpu"), precision="float32", threads=1)


@pytest.mark.parametrize("name", [OURS, WITHOUT, TRANSFORMERS, NANOGPT])
def test_writes_as_many_tokens_as_were_asked_for(nanogpt, name):
    if name == TRANSFORMERS:
        pytest.importorskip("transformers")
    assert program_for(name, Job(SIZES, 2, 5, 6, nanogpt), RUNTIME)() == 12


def test_others_run_without_our_deterministic_mode(nanogpt):
    modes = []
    job = Job(SIZES, 2, 5, 6, nanogpt)
    (nanogpt / "model.py").write_text(
        (nanogpt / "model.py").read_text(encoding="utf-8")
        + "\n    def generate(self, idx, new, temperature=1.0):\n"
        + "        self.config.modes.append(torch.get_deterministic_debug_mode())\n"
        + "        return idx\nGPTConfig.modes = []\n",
        encoding="utf-8",
    )
    torch.set_deterministic_debug_mode("error")
    try:
        program = program_for(NANOGPT, job, RUNTIME)
        program()
        import nanogpt_model

        modes = nanogpt_model.GPTConfig.modes
        assert modes == [0]
        assert torch.get_deterministic_debug_mode() == 2
    finally:
        torch.set_deterministic_debug_mode("default")
