"""The documents of ``bench train`` and ``bench generate`` on a model of a few numbers, and the FLOPs of the shares."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused
from torch.utils.flop_counter import FlopCounterMode

from glassformer.benchmark import measure, speed
from glassformer.benchmark.speed import (
    OURS,
    WITHOUT_CACHE,
    GenerationJob,
    Sizes,
    TrainingJob,
    benchmark_generation,
    benchmark_training,
    generation_program,
    step_flops,
)
from glassformer.foundation.errors import UsageError
from glassformer.foundation.runtime import Runtime
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

SIZES = Sizes(width=12, layers=2, heads=3, context=16, vocabulary=7)
RUNTIME = Runtime(device=torch.device("cpu"), precision="float32", threads=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(measure, "MATRIX_SIZE", {"cpu": 32, "cuda": 32})
    monkeypatch.setattr(measure, "MEMORY_BYTES", {"cpu": 4096})
    monkeypatch.setattr(speed, "TOKENS", 100)


def test_training_rates_ratios_and_shares_are_all_there():
    document = benchmark_training(TrainingJob(SIZES, RUNTIME, 2, 2), rounds=2, others={"other": lambda: 5.0})
    assert list(document["tokens_per_second"]) == [OURS, "other"]
    assert list(document["times_as_fast_as"]) == ["other"]
    assert list(document["share_of_matrix_rate"]) == [OURS, "other"]
    assert all(figure["n"] == 2 and 0 < figure["low"] <= figure["high"] for figure in document["tokens_per_second"].values())


def test_the_flops_of_a_step_are_those_of_torchs_counter():
    model = build_model(ModelConfig(width=12, layers=2, heads=3, context=16, mixer={"kind": "dot", "fused": False}), 7, seed=0)
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(5, 16, dtype=torch.long)).sum().backward()
    assert step_flops(SIZES, 5) == counter.get_total_flops()


def test_beside_the_processor(monkeypatch):
    alone = benchmark_training(TrainingJob(SIZES, RUNTIME, 2, 1), rounds=1, beside_cpu=True)
    assert "no ratio of GPU to CPU" in alone["skipped"][0]
    assert list(alone["tokens_per_second"]) == [OURS]
    asked = []

    def program_on(job, watch):
        asked.append((job.runtime.device.type, job.runtime.precision))
        return lambda: 16.0 if job.runtime.device.type == "cpu" else 32.0

    monkeypatch.setattr(speed, "training_program", program_on)  # no GPU is needed to see which programs are measured
    monkeypatch.setattr(speed, "timed", lambda program, device: lambda: program())
    monkeypatch.setattr(speed, "matrix_program", lambda device, precision: lambda: 1.0)
    monkeypatch.setattr(speed, "describe", lambda runtime: {"device": runtime.device.type})
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 5)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 12)
    gpu = Runtime(device=torch.device("cuda"), precision="bf16", threads=1)
    document = benchmark_training(TrainingJob(SIZES, gpu, 2, 1), rounds=2, beside_cpu=True)
    assert asked == [("cuda", "bf16"), ("cpu", "float32")]
    assert document["times_as_fast_as"][speed.ON_CPU]["value"] == 2.0
    assert document["peak_bytes"] == {OURS: 7}  # of ours alone


def test_generation_rates_ratios_and_machine_are_all_there():
    document = benchmark_generation(GenerationJob(SIZES, RUNTIME, 2, 5, 6), rounds=3, others={"other": lambda: 12.0})
    assert list(document["tokens_per_second"]) == [OURS, WITHOUT_CACHE, "other"]
    assert list(document["times_as_fast_as"]) == [WITHOUT_CACHE, "other"]
    assert all(figure["n"] == 3 and 0 < figure["low"] <= figure["high"] for figure in document["tokens_per_second"].values())
    assert document["machine"]["matrix_flops"]["n"] == document["machine"]["memory_bytes"]["n"] == 3
    assert document["settings"] == {**vars(SIZES), "rows": 2, "prompt": 5, "new": 6}


@pytest.mark.parametrize("use_cache", [True, False])
def test_writes_as_many_tokens_as_the_job_says(use_cache):
    assert generation_program(GenerationJob(SIZES, RUNTIME, 2, 5, 6), use_cache=use_cache)() == 12


def test_every_program_has_two_jobs_before_it_is_measured(monkeypatch):
    jobs = []
    monkeypatch.setattr(speed, "generation_program", lambda job: lambda: jobs.append("job") or 1.0)
    benchmark_generation(GenerationJob(SIZES, RUNTIME, 1, 5, 6), rounds=3, without_cache=False)
    assert len(jobs) == 2 + 3


def test_a_prompt_longer_than_the_context_is_refused():
    with refused(UsageError, "bad-prompt", "--prompt 17"):
        benchmark_generation(GenerationJob(SIZES, RUNTIME, 1, 17, 1), rounds=1)
