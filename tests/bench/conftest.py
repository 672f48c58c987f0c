"""The script that a test is about (of tests/bench/test_NAME.py, bench/NAME.py as a module), and a stand-in for a nanoGPT
folder: the same names and output, nothing behind them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.bench_scripts import load_script

MODEL = """
from dataclasses import dataclass
import torch

@dataclass
class GPTConfig:
    block_size: int = 1
    vocab_size: int = 1
    n_layer: int = 1
    n_head: int = 1
    n_embd: int = 1
    dropout: float = 0.0
    bias: bool = True

class GPT(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.weight = torch.nn.Parameter(torch.zeros(1))
        print("number of parameters: 1")

    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        return torch.cat([idx, torch.zeros(len(idx), max_new_tokens, dtype=torch.long)], dim=1)
"""

TRAIN = """
import pickle, sys, time
exec(open("configurator.py").read())
values = dict(word[2:].split("=") for word in sys.argv[1:])
assert pickle.load(open("data/" + values["dataset"] + "/meta.pkl", "rb"))["vocab_size"] == 7
print("tokens per iteration will be: many")
for number in range(int(values["max_iters"]) + 1):
    time.sleep(0.01)
    if number % int(values["log_interval"]) == 0:
        print(f"iter {number}: loss 1.0000, time 10.00ms, mfu 0.00%")
"""


def write_stand_in(folder: Path, train: str = TRAIN) -> Path:
    folder.mkdir()
    for name, text in {"model.py": MODEL, "train.py": train, "configurator.py": ""}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def nanogpt(tmp_path: Path) -> Path:
    return write_stand_in(tmp_path / "nanoGPT")


@pytest.fixture
def broken_nanogpt(tmp_path: Path) -> Path:
    return write_stand_in(tmp_path / "broken", train="raise SystemExit('out of memory')")


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> ModuleType:
    return load_script(request.path.stem.removeprefix("test_"))
