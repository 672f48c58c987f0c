"""The machine: what is chosen is said; what is missing is a sentence; nothing is tried in the user's own process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation import runtime
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.process_rank import Place
from glassformer.foundation.runtime import (
    Runtime,
    bf16_works,
    choose_device,
    choose_device_of,
    choose_precision,
    choose_runtime,
    environment,
    seed_torch,
)

CPU = torch.device("cpu")


def test_bf16_on_a_cpu_is_tried_in_a_child_process(monkeypatch) -> None:
    """The real probe: whatever this machine can do, this process lives on, and the answer is bf16 or a sentence."""
    started: list[list[str]] = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda words, **options: started.append(words) or run(words, **options))
    bf16_works.cache_clear()
    precision, notes = choose_precision("bf16", CPU)
    assert len(started) == 1
    assert started[0][0] == sys.executable
    assert (precision, len(notes)) == (("bf16", 0) if bf16_works("cpu") else ("float32", 1))
    choose_precision("bf16", CPU)
    assert len(started) == 1  # asked once


@pytest.mark.parametrize("killer", ["os.kill(os.getpid(), signal.SIGILL)", "raise RuntimeError('no bf16')"])
def test_an_illegal_instruction_kills_only_the_child(monkeypatch, killer: str) -> None:
    run = subprocess.run
    program = f"import os, signal\n{killer}\n"
    monkeypatch.setattr(subprocess, "run", lambda words, **options: run([words[0], words[1], program], **options))
    bf16_works.cache_clear()
    try:
        precision, notes = choose_precision("bf16", CPU)
    finally:
        bf16_works.cache_clear()
    assert precision == "float32"
    assert notes == ["bf16 was asked for, but bf16 products do not work on this cpu (tried in a child process): using float32."]


def test_a_probe_that_hangs_counts_as_no(monkeypatch) -> None:
    def hang(words: list[str], **options: object) -> None:
        raise subprocess.TimeoutExpired(words, 120)

    monkeypatch.setattr(subprocess, "run", hang)
    bf16_works.cache_clear()
    try:
        assert choose_precision("bf16", CPU)[0] == "float32"
    finally:
        bf16_works.cache_clear()


@pytest.mark.parametrize("name", ["auto", "float32"])
def test_a_cpu_is_float32_without_trying(monkeypatch, name: str) -> None:
    monkeypatch.setattr(runtime, "bf16_works", lambda kind: pytest.fail("nobody asked"))
    assert choose_precision(name, CPU) == ("float32", [])


@pytest.mark.parametrize("name", ["tpu", "cuda:99x", "cpu:x", "", "gpu", "meta"])
def test_a_device_that_is_not_there(name: str) -> None:
    with refused(ConfigError, "no-such-device", "cpu"):
        choose_device(name)


def test_a_gpu_number_that_is_not_there(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert choose_device("auto") == torch.device("cuda")
    with refused(ConfigError, "no-such-device", "training.device=cuda:2"):
        choose_device("cuda:2")


def test_each_of_several_processes_takes_a_gpu_of_its_own(monkeypatch) -> None:
    """More of them than GPUs share them. One GPU for all by name, and Apple's, are refused."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = [choose_device_of(Place(4 + local, 8, local, 4), "auto") for local in range(4)]
    assert found == [torch.device("cuda", number) for number in (0, 1, 0, 1)]
    with refused(ConfigError, "one-gpu-for-all", "training.device=cuda:1"):
        choose_device_of(Place(0, 2, 0, 2), "cuda:1")
    monkeypatch.setattr(runtime, "choose_device", lambda name: torch.device("mps"))
    with refused(ConfigError, "no-processes-on-mps"):
        choose_device_of(Place(0, 2, 0, 2), "auto")


def test_devices_that_are_there() -> None:
    assert choose_device("cpu") == CPU
    assert choose_device("auto").type in ("cpu", "cuda", "mps")


def test_choosing_applies_threads_and_determinism() -> None:
    before = torch.get_num_threads()
    try:
        chosen = choose_runtime(device="cpu", precision="float32", threads=2)
        assert chosen == Runtime(device=CPU, precision="float32", threads=2)
        assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_num_threads(before)


def test_autocast_changes_products_only_when_asked() -> None:
    weight = torch.ones(3, 3)
    with Runtime(CPU, "float32", 1).autocast():
        assert (weight @ weight).dtype == torch.float32
    with Runtime(CPU, "bf16", 1).autocast():
        assert torch.is_autocast_enabled("cpu")  # no product: this machine may lack the instruction


def test_everything_is_recorded() -> None:
    chosen = Runtime(CPU, "float32", 3, notes=("a sentence",))
    record = environment(chosen)
    assert json.loads(json.dumps(record)) == record
    assert record["torch"] == torch.__version__
    assert (record["device"], record["precision"], record["threads"]) == ("cpu", "float32", 3)
    assert record["notes"] == ["a sentence"]
    assert {"glassformer", "python", "platform", "cpu", "cores", "deterministic", "plugins", "device_name"} <= set(record)


def test_a_seed_sets_the_generator() -> None:
    seed_torch(5)
    first = torch.rand(4)
    seed_torch(5)
    assert torch.equal(first, torch.rand(4))
    seed_torch(6)
    assert not torch.equal(first, torch.rand(4))
