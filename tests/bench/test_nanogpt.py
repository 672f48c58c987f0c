"""nanoGPT from its folder, with a stand-in for it: the scratch copy, its commands, its rate, its model, its loss."""

from __future__ import annotations

import itertools
import pickle
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.refusals import refused

from glassformer.benchmark import speed
from glassformer.benchmark.speed import Sizes, TrainingJob
from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.runtime import Runtime

RUNTIME = Runtime(device=torch.device("cpu"), precision="float32", threads=1)
JOB = TrainingJob(Sizes(width=12, layers=2, heads=3, context=10, vocabulary=7), RUNTIME, batch=3, steps=20)
TEXTS = (b"\x01\x00\x02\x00", b"\x03\x00", 5)


def test_the_copy_holds_the_files_that_were_asked_for_and_the_data(bench, nanogpt, tmp_path) -> None:
    (nanogpt / "config").mkdir()
    for name in ("config/own.py", "bench.py"):
        (nanogpt / name).write_text("# mine")
    scratch = tmp_path / "scratch"
    bench.prepare(nanogpt, scratch, TEXTS, "config/own.py")
    found = {file.relative_to(scratch).as_posix(): file.read_bytes() for file in scratch.rglob("*") if file.is_file()}
    data = {f"data/bench/{name}": found.pop(f"data/bench/{name}") for name in ("train.bin", "val.bin", "meta.pkl")}
    assert (data["data/bench/train.bin"], data["data/bench/val.bin"]) == TEXTS[:2]
    assert pickle.loads(data["data/bench/meta.pkl"]) == {"vocab_size": 5}
    assert found == {
        name: (nanogpt / name).read_bytes() for name in ("train.py", "model.py", "configurator.py", "config/own.py")
    }


def test_nothing_of_an_earlier_copy_is_left(bench, nanogpt, tmp_path) -> None:
    left = tmp_path / "scratch" / "out" / "ckpt.pt"
    left.parent.mkdir(parents=True)
    left.touch()
    bench.prepare(nanogpt, tmp_path / "scratch", TEXTS)
    assert not left.exists()


def test_a_folder_without_its_files_is_refused_before_anything_is_removed(bench, tmp_path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with refused(UsageError, "not-a-nanogpt-folder", "train.py"):
        bench.prepare(tmp_path, scratch, TEXTS)
    assert scratch.exists()


def test_options_name_our_data_and_values_win_over_those_of_the_machine(bench) -> None:
    words = bench.options({"n_layer": 2, "out_dir": "there", "device": "tpu"}, "config/own.py")
    assert words[:3] == ["config/own.py", "--dataset=bench", "--out_dir=there"]
    assert {"--n_layer=2", "--device=tpu"} < set(words)


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


def test_by_its_own_configuration_on_texts_of_ours(bench, nanogpt, tmp_path) -> None:
    """The stand-in's loss is its weight times the mean of the ids, so the whole validation text shows."""
    (nanogpt / "train.py").write_text(OWN)
    model = nanogpt / "model.py"
    forward = "    def forward(self, ids, targets):\n        return None, self.weight * targets.float().mean()\n"
    model.write_text(model.read_text() + "\n" + forward)
    (nanogpt / "config").mkdir()
    (nanogpt / "config" / "own.py").write_text("")
    validation = np.random.default_rng(0).integers(0, 9, 333).astype(np.uint16)
    bench.prepare(nanogpt, tmp_path / "scratch", (bytes(200), validation.tobytes(), 9), "config/own.py")
    command = bench.own_config_command("config/own.py", 3)
    assert "--eval_interval=3" in command  # it saves nothing between its evaluations
    assert not any("eval_interval" in word for word in bench.own_config_command("config/own.py", 500))
    subprocess.run(command, cwd=tmp_path / "scratch", check=True)
    assert bench.validation_loss(tmp_path / "scratch", "config/own.py") == pytest.approx(validation[1:].mean(), rel=1e-4)
    with refused(UsageError, "not-a-nanogpt-folder", "config/other.py"):
        bench.prepare(nanogpt, tmp_path / "scratch", TEXTS, "config/other.py")


def test_its_rate_is_tokens_by_seconds_between_two_iterations(bench, nanogpt, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(speed, "TOKENS", 50)
    monkeypatch.setattr(bench, "time", SimpleNamespace(perf_counter=lambda: 0.01 * next(clock)))
    rate, peak = bench.train(nanogpt, JOB)
    assert peak == 0  # it has no GPU
    assert rate == pytest.approx(3 * 10 / 0.01)
    assert sorted(file.name for file in nanogpt.iterdir()) == ["configurator.py", "model.py", "train.py"]


def test_when_training_fails_its_last_words_are_repeated(bench, broken_nanogpt):
    with pytest.raises(GlassformerError, match="out of memory"):
        bench.train(broken_nanogpt, JOB)


def test_its_model_gets_our_sizes_and_stays_silent(bench, nanogpt, capsys):
    config = bench.build(nanogpt, Sizes(width=12, layers=2, heads=3, context=10, vocabulary=7, dropout=0.1)).config
    sizes = (config.block_size, config.vocab_size, config.n_layer, config.n_head, config.n_embd, config.dropout)
    assert sizes == (10, 7, 2, 3, 12, 0.1)
    assert capsys.readouterr().out == ""
