"""bench/beside.py: every program does the whole job, and whole commands with stand-ins for them."""

from __future__ import annotations

import sys

import pytest
import torch
from tests.refusals import refused

from glassformer.benchmark import measure, speed
from glassformer.benchmark.speed import OURS, WITHOUT_CACHE, GenerationJob, Sizes, TrainingJob
from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.runtime import Runtime
from glassformer.model.accounting import parts_of

SIZES = Sizes(width=12, layers=1, heads=3, context=16, vocabulary=7)
RUNTIME = Runtime(device=torch.device("cpu"), precision="float32", threads=1)
JOB = GenerationJob(SIZES, RUNTIME, 2, 5, 6)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(measure, "MATRIX_SIZE", {"cpu": 32})
    monkeypatch.setattr(measure, "MEMORY_BYTES", {"cpu": 4096})
    monkeypatch.setattr(speed, "TOKENS", 100)


def test_transformers_gpt2_has_our_parameters(bench):
    pytest.importorskip("transformers")
    model = bench.transformers_model(Sizes(width=12, layers=2, heads=3, context=10, vocabulary=7, dropout=0.1))
    sizes = Sizes(width=12, layers=2, heads=3, context=10, vocabulary=7)
    assert sum(p.numel() for p in model.parameters()) == sum(part.parameters for part in parts_of(sizes.config(), 7))
    assert model.config.attn_pdrop == 0.1


@pytest.mark.slow
def test_training_beside_both(bench, nanogpt):
    pytest.importorskip("transformers")
    document = bench.train_beside(TrainingJob(SIZES, RUNTIME, 2, 2), rounds=2, folder=nanogpt)
    assert list(document["tokens_per_second"]) == [OURS, bench.TRANSFORMERS, bench.NANOGPT]
    assert list(document["share_of_matrix_rate"]) == [OURS, bench.TRANSFORMERS, bench.NANOGPT]
    assert "| nanoGPT |" in bench.markdown(document)


def test_generation_beside_both(bench, nanogpt):
    pytest.importorskip("transformers")
    document = bench.generate_beside(JOB, rounds=2, folder=nanogpt)
    assert list(document["tokens_per_second"]) == [OURS, WITHOUT_CACHE, bench.TRANSFORMERS, bench.NANOGPT]
    assert "first_job" not in document


def test_transformers_is_left_out_beyond_its_context(bench):
    document = bench.generate_beside(GenerationJob(SIZES, RUNTIME, 1, 10, 9), rounds=1, without_cache=False)
    assert list(document["tokens_per_second"]) == [OURS]
    assert "beyond its context of 16" in document["skipped"][0]


@pytest.mark.parametrize("name", ["glassformer", "glassformer, no KV cache", "transformers GPT-2", "nanoGPT"])
def test_writes_as_many_tokens_as_the_job_says(bench, nanogpt, name):
    if name == bench.TRANSFORMERS:
        pytest.importorskip("transformers")
    assert bench.program_for(name, JOB, nanogpt)() == 12


def test_others_run_without_our_deterministic_mode(bench, nanogpt):
    (nanogpt / "model.py").write_text(
        (nanogpt / "model.py").read_text(encoding="utf-8")
        + "\n    def generate(self, idx, new, temperature=1.0):\n"
        + "        self.config.modes.append(torch.get_deterministic_debug_mode())\n"
        + "        return idx\nGPTConfig.modes = []\n",
        encoding="utf-8",
    )
    torch.set_deterministic_debug_mode("error")
    try:
        bench.program_for(bench.NANOGPT, JOB, nanogpt)()
        assert sys.modules["nanogpt_model"].GPTConfig.modes == [0]
        assert torch.get_deterministic_debug_mode() == 2
    finally:
        torch.set_deterministic_debug_mode("default")


@pytest.mark.slow
def test_first_jobs_come_first_in_processes_of_their_own(bench, nanogpt, monkeypatch):
    order = []
    first_job_rate, program_for = bench.first_job_rate, bench.program_for
    monkeypatch.setattr(bench, "first_job_rate", lambda *job: order.append("first") or first_job_rate(*job))
    monkeypatch.setattr(bench, "program_for", lambda *job: order.append("made") or program_for(*job))
    document = bench.generate_beside(JOB, rounds=1, without_cache=False, transformers=False, first_job=True, folder=nanogpt)
    assert order == ["first", "first", "made"]
    first = document["first_job"]
    assert list(first["tokens_per_second"]) == [OURS, bench.NANOGPT]
    ours, nano = (first["tokens_per_second"][name]["value"] for name in (OURS, bench.NANOGPT))
    assert first["times_as_fast_as"][bench.NANOGPT]["value"] == pytest.approx(ours / nano)


def test_what_stopped_the_process_is_repeated(bench, nanogpt):
    (nanogpt / "model.py").write_text("raise RuntimeError('no model today')", encoding="utf-8")
    with refused(UsageError, "first-job-failed", "no model today"):
        bench.first_job_rate(bench.NANOGPT, JOB, nanogpt)


def test_first_jobs_have_columns_of_their_own(bench, monkeypatch):
    figure = {"value": 10.0, "low": 8.0, "high": 12.0, "n": 2}
    compared = {"tokens_per_second": {"glassformer": figure, "nanoGPT": figure}, "times_as_fast_as": {"nanoGPT": figure}}
    first = {
        "tokens_per_second": {"glassformer": figure | {"value": 9.0}, "nanoGPT": figure},
        "times_as_fast_as": {"nanoGPT": figure},
    }
    monkeypatch.setattr(bench, "heading", lambda document: "on a machine")
    lines = bench.markdown({"benchmark": "generate", **compared, "first_job": first}).splitlines()
    assert lines[0] == "on a machine"
    assert lines[2].endswith("| we are times as fast | first job of a process, tokens/s | we are times as fast |")
    assert lines[4] == "| glassformer | 10 (8 to 12) |  | 9 (8 to 12) |  |"
    assert lines[5] == "| nanoGPT |" + " 10 (8 to 12) |" * 4
    assert "first job" not in bench.markdown({"benchmark": "generate", **compared})


def test_seconds_of_the_wall_and_of_the_processor_differ(bench, tmp_path) -> None:
    wall, processor = bench.seconds_of([sys.executable, "-c", "import time; time.sleep(0.4)"], tmp_path)
    assert wall >= 0.4
    assert 0.0 <= processor < wall  # os.times counts hundredths of a second
    _, busy = bench.seconds_of([sys.executable, "-c", "import time\nwhile time.process_time() < 0.4: pass"], tmp_path)
    assert busy > 0.3  # not 0.4: the difference of two such counts is rounded


def test_a_command_that_fails_is_a_sentence(bench, tmp_path) -> None:
    with refused(GlassformerError, "command-failed", "no such luck"):
        bench.seconds_of([sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path)


def test_start_gives_ratios_in_one_run(bench, monkeypatch, nanogpt) -> None:
    took = {"import torch": (1.0, 0.5), "train": (3.0, 1.0), "train.py": (8.0, 6.0)}

    def stand_in(command, folder, *, cache=None):
        return next(seconds for word, seconds in took.items() if word in command)

    monkeypatch.setattr(bench, "seconds_of", stand_in)
    document = bench.benchmark_start(bench.Work(20), rounds=3, peer=bench.Peer(nanogpt))
    assert document["ratio"][bench.COLD] == {"value": 3.0, "low": 3.0, "high": 3.0, "n": 3}
    assert document["cpu_ratio"][bench.NANOGPT]["value"] == 12.0
    assert document["times_as_long_as"] == bench.IMPORT_TORCH
    assert "| nanoGPT | 8 (8 to 8) | 8 (8 to 8) | 6 (6 to 6) | 12 (12 to 12) |" in bench.markdown(document)


def test_a_study_stands_beside_its_runs_one_by_one(bench, monkeypatch) -> None:
    monkeypatch.setattr(bench, "seconds_of", lambda command, *_, **__: (6.0, 5.0) if "compare" in command else (2.0, 1.0))
    document = bench.benchmark_study(bench.Work(5), vary="model.positions=none", seeds=4, rounds=1)
    assert document["seconds"][bench.ONE_BY_ONE]["value"] == 16.0  # 2 variants by 4 seeds
    assert document["ratio"][bench.STUDY]["value"] == 1.0
    assert document["cpu_ratio"][bench.ONE_BY_ONE]["value"] == 1.6


def test_a_recipe_is_trained_as_it_stands(bench, monkeypatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(bench, "seconds_of", lambda command, *_, **__: commands.append(command) or (1.0, 1.0))
    monkeypatch.setattr(bench, "_loss", lambda run: 1.25)
    document = bench.benchmark_start(bench.Work(30, "gpt-nano-words", ("training.lr=0.1",)), rounds=1)
    words = commands[1][commands[1].index("train") + 1 :]
    assert words[:5] == ["gpt-nano-words", "--set", "training.steps=30", "--set", "training.lr=0.1"]
    assert not any(key in word for key in bench.TINY for word in words)
    assert document["validation_loss"] == {bench.WARM: [1.25]}
    assert "| 1.2500 |" in bench.markdown(document)


def test_a_run_whose_objective_has_no_loss_has_none_in_the_table(bench, tmp_path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 3, "validation_exact_match": 0.5}\n')
    assert bench._loss(tmp_path) is None
    (tmp_path / "metrics.jsonl").write_text('{"step": 3, "validation_loss": 2.5}\n{"step": 4, "validation_loss": 1.5}\n')
    assert bench._loss(tmp_path) == 1.5


def test_the_tiny_command_of_nanogpt_runs(bench, nanogpt, tmp_path) -> None:
    wall, _ = bench.Peer(nanogpt).train(bench.Work(3), tmp_path / "scratch")
    assert wall >= 0.03


def test_the_demo_by_hand(bench, nanogpt, monkeypatch, capsys) -> None:
    monkeypatch.setattr(bench.nanogpt, "recipe_texts", lambda recipe, changes: (b"", b"", 7))
    monkeypatch.setattr(
        bench, "seconds_of", lambda command, *_, **variables: (3.0, 2.0) if "train.py" in command else (2.0, 1.0)
    )
    bench.demo(nanogpt, rounds=2)
    printed = capsys.readouterr().out
    assert "| nanoGPT | 3 (3 to 3) | 1.5 (1.5 to 1.5) | 2 (2 to 2) | 2 (2 to 2) |" in printed
    assert "nanoGPT: 40 runs take 80 seconds" in printed
    assert "glassformer: 32 runs take 32 seconds" in printed
