"""nanoGPT's train.py as a whole command, with a stand-in for its folder."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.benchmark import start
from glassformer.benchmark.nanogpt_command import nanogpt_command, nanogpt_loss, nanogpt_own_command
from glassformer.benchmark.start import seconds_of
from glassformer.foundation.errors import UsageError


def test_the_command_of_nanogpt_runs(nanogpt, tmp_path) -> None:
    command, folder = nanogpt_command(nanogpt, tmp_path / "scratch", start.TINY, 3)
    assert seconds_of(command, folder)[0] >= 0.03
    with pytest.raises(UsageError, match=r"has no train\.py"):
        nanogpt_command(tmp_path, tmp_path / "scratch", start.TINY, 3)


OWN = """
import os, sys
import torch
from model import GPT, GPTConfig
values = dict(word[2:].split("=") for word in sys.argv[2:])
assert sys.argv[1] == "config/own.py"
raw_model = GPT(GPTConfig(block_size=50))
if values.get("init_from") == "resume":
    raw_model.load_state_dict(torch.load("out/ckpt.pt"))
else:
    assert values["max_iters"] == values["lr_decay_iters"] == "3"
    os.makedirs("out")
    torch.save({"weight": torch.ones(1)}, "out/ckpt.pt")
"""


def test_by_its_own_configuration_on_texts_of_ours(nanogpt, tmp_path) -> None:
    """The stand-in's loss is its weight times the mean of the ids, so the whole validation text shows."""
    (nanogpt / "train.py").write_text(OWN)
    model = nanogpt / "model.py"
    forward = "    def forward(self, ids, targets):\n        return None, self.weight * targets.float().mean()\n"
    model.write_text(model.read_text() + "\n" + forward)
    (nanogpt / "config").mkdir()
    (nanogpt / "config" / "own.py").write_text("")
    validation = np.random.default_rng(0).integers(0, 9, 333).astype(np.uint16)
    texts = (bytes(200), validation.tobytes(), 9)
    command, folder = nanogpt_own_command(nanogpt, tmp_path / "scratch", "config/own.py", texts, 3)
    assert "--eval_interval=3" in command  # it saves nothing between its evaluations
    assert not any("eval_interval" in word for word in nanogpt_own_command(nanogpt, folder, "config/own.py", texts, 500)[0])
    command, folder = nanogpt_own_command(nanogpt, tmp_path / "scratch", "config/own.py", texts, 3)
    seconds_of(command, folder)
    assert nanogpt_loss(folder, "config/own.py") == pytest.approx(validation[1:].mean(), rel=1e-4)
    with pytest.raises(UsageError, match=r"has no config/other\.py"):
        nanogpt_own_command(nanogpt, tmp_path / "scratch", "config/other.py", texts, 3)
