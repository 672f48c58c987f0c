"""The document of ``bench train`` on a model of a few numbers, and the FLOPs of its shares."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.benchmark import machine, train
from glassformer.benchmark.peers import Sizes
from glassformer.benchmark.train import OURS, benchmark_training, step_flops
from glassformer.foundation.runtime import Runtime
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES = Sizes(width=12, layers=2, heads=3, context=8, vocabulary=7)
RUNTIME = Runtime(device=torch.device("cpu"), precision="float32", threads=1)


def test_rates_ratios_and_shares_are_all_there(nanogpt, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr(machine, "MATRIX_SIZE", {"cpu": 32})
    monkeypatch.setattr(train, "TOKENS", 100)
    document = benchmark_training(SIZES, RUNTIME, batch=2, steps=2, rounds=2, nanogpt=nanogpt)
    names = [OURS, "transformers GPT-2", "nanoGPT"]
    assert list(document["tokens_per_second"]) == names
    assert list(document["times_as_fast_as"]) == names[1:]
    assert list(document["share_of_matrix_rate"]) == names
    assert all(figure["n"] == 2 and 0 < figure["low"] <= figure["high"] for figure in document["tokens_per_second"].values())


def test_the_flops_of_a_step_are_those_of_torchs_counter():
    model = build_model(ModelConfig(width=12, layers=2, heads=3, context=8, mixer={"kind": "dot", "fused": False}), 7, seed=0)
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(5, 8, dtype=torch.long)).sum().backward()
    assert step_flops(SIZES, 5) == counter.get_total_flops()


def test_beside_the_processor(monkeypatch):
    monkeypatch.setattr(machine, "MATRIX_SIZE", {"cpu": 32, "cuda": 32, "meta": 32})
    monkeypatch.setattr(train, "TOKENS", 100)
    alone = benchmark_training(SIZES, RUNTIME, batch=2, steps=1, rounds=1, transformers=False, beside_cpu=True)
    assert "no ratio of GPU to CPU" in alone["skipped"][0]
    assert list(alone["tokens_per_second"]) == [OURS]
    asked = []

    def program_on(sizes, runtime, *rest):
        asked.append((runtime.device.type, runtime.precision))
        return lambda: 16.0 if runtime.device.type == "cpu" else 32.0

    monkeypatch.setattr(train, "_ours", program_on)  # no GPU is needed to see which programs are measured
    monkeypatch.setattr(train, "timed", lambda program, device: lambda: program())
    monkeypatch.setattr(train, "matrix_program", lambda device, dtype: lambda: 1.0)
    monkeypatch.setattr(train, "describe", lambda runtime: {"device": runtime.device.type})
    gpu = Runtime(device=torch.device("cuda"), precision="bf16", threads=1)
    document = benchmark_training(SIZES, gpu, batch=2, steps=1, rounds=2, transformers=False, beside_cpu=True)
    assert asked == [("cuda", "bf16"), ("cpu", "float32")]
    assert document["times_as_fast_as"][train.ON_CPU]["value"] == 2.0
