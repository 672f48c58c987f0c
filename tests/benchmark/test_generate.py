"""The document of ``bench generate`` on a model of a few numbers."""

from __future__ import annotations

import sys

import pytest
import torch

from glassformer import benchmark
from glassformer.benchmark import machine
from glassformer.benchmark.generate import benchmark_generation
from glassformer.benchmark.generators import NANOGPT, OURS, TRANSFORMERS, WITHOUT, Job
from glassformer.benchmark.peers import Sizes
from glassformer.foundation.errors import UsageError
from glassformer.foundation.runtime import Runtime

SIZES = Sizes(width=12, layers=1, heads=3, context=16, vocabulary=7)
RUNTIME = Runtime(device=torch.device("cpu"), precision="float32", threads=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(machine, "MATRIX_SIZE", {"cpu": 32})
    monkeypatch.setattr(machine, "MEMORY_BYTES", {"cpu": 4096})


def test_rates_ratios_and_machine_are_all_there(nanogpt):
    pytest.importorskip("transformers")
    document = benchmark_generation(Job(SIZES, 2, 5, 6, nanogpt), RUNTIME, rounds=3)
    names = [OURS, WITHOUT, TRANSFORMERS, NANOGPT]
    assert list(document["tokens_per_second"]) == names
    assert list(document["times_as_fast_as"]) == names[1:]
    assert all(figure["n"] == 3 and 0 < figure["low"] <= figure["high"] for figure in document["tokens_per_second"].values())
    assert document["machine"]["matrix_flops"]["n"] == 3
    assert "first_job" not in document
    assert document["settings"] == {**vars(SIZES), "rows": 2, "prompt": 5, "new": 6}


def test_transformers_is_left_out_beyond_its_context():
    document = benchmark_generation(Job(SIZES, 1, 10, 9), RUNTIME, rounds=1, without_cache=False)
    assert list(document["tokens_per_second"]) == [OURS]
    assert "beyond its context of 16" in document["skipped"][0]


def test_transformers_is_left_out_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    document = benchmark_generation(Job(SIZES, 1, 5, 6), RUNTIME, rounds=1, without_cache=False)
    assert list(document["tokens_per_second"]) == [OURS]
    assert "glassformer[hf]" in document["skipped"][0]


def test_first_jobs_come_first_and_every_program_has_two_jobs_before_it_is_measured(monkeypatch):
    heard = []

    def program_for(name: str, job: Job, runtime: Runtime):
        heard.append("made")
        return lambda: heard.append("job") or 1.0

    monkeypatch.setattr(benchmark.generate, "program_for", program_for)
    monkeypatch.setattr(benchmark.generate, "first_job_rate", lambda *job: heard.append("first") or 1.0)
    benchmark_generation(Job(SIZES, 1, 5, 6), RUNTIME, rounds=3, without_cache=False, transformers=False, first_job=True)
    assert heard == ["first"] * 3 + ["made"] + ["job"] * 2 + ["job"] * 3


def test_a_prompt_longer_than_the_context_is_refused():
    with pytest.raises(UsageError, match="--prompt 17"):
        benchmark_generation(Job(SIZES, 1, 17, 1), RUNTIME, rounds=1)


def test_first_jobs_are_done_in_processes_of_their_own(nanogpt):
    document = benchmark_generation(
        Job(SIZES, 2, 5, 6, nanogpt), RUNTIME, rounds=1, without_cache=False, transformers=False, first_job=True
    )
    first = document["first_job"]
    assert list(first["tokens_per_second"]) == [OURS, NANOGPT]
    assert list(first["times_as_fast_as"]) == [NANOGPT]
    ours, nano = (first["tokens_per_second"][name]["value"] for name in (OURS, NANOGPT))
    assert first["times_as_fast_as"][NANOGPT]["value"] == pytest.approx(ours / nano)
