"""One run on several processes through the real command line: the same bits, stopped together, refused together."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.encoders import WORDS, make_folder
from tests.refusals import refused

import glassformer as gf
from glassformer.foundation.errors import ConfigError, GlassformerError, UsageError
from glassformer.foundation.process_rank import Place
from glassformer.model.network import MODELS
from glassformer.runs.checkpoint import checkpoint_checksums
from glassformer.runs.directory import RunDirectory
from glassformer.training.config import TrainingConfig
from glassformer.training.parallel.launch import number_of_processes
from glassformer.training.parallel.shard import chosen_form, refuse_if_not_cut

pytestmark = pytest.mark.timeout(300)  # each starts several processes and trains twice; on a GPU that many share, minutes

STEPS = 12
PATIENCE = "15" if torch.cuda.is_available() else "4"
"""Seconds. A process that makes its CUDA context beside many others gives no sign of life for some of them."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A text of two languages of letters, so that it can be classified too; everything that could show is on."""
    place, chance = tmp_path_factory.mktemp("processes"), random.Random(0)
    words = ["".join(chance.choices("abcdefgh ", k=chance.randint(20, 60))) for _ in range(120)]
    text = place / "text.txt"
    text.write_text("\n".join(words) + "\n", encoding="utf-8")
    return {
        "data": {"path": str(text), "document": "line"},
        "tokenizer": {"kind": "char"},
        "model": {"width": 12, "layers": 2, "heads": 3, "context": 10, "dropout": 0.1},
        "training": {"steps": STEPS, "batch_size": 16, "accumulate": 2, "lr": 0.003, "pieces": 4, "optimizer": "muon"},
        "evaluation": {"every": 4, "batch_size": 3},
        "checkpoint": {"every": 5, "best": True},
    }


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(recipe, tmp_path) -> Start:
    """``start(N, OUT, *words, **changes)``: the command, as a user types it."""

    def begin(processes: int, out: Path, *words: str, plugin: str = "", **changes: Any) -> subprocess.Popen[str]:
        if plugin:
            (tmp_path / "plugin.py").write_text(plugin, encoding="utf-8")
            words = (*words, "--plugin", str(tmp_path / "plugin.py"))
        file = tmp_path / "recipe.json"
        file.write_text(json.dumps(recipe), encoding="utf-8")
        sets = [word for key, value in changes.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        command = [sys.executable, "-m", "glassformer", "train", str(file.rename(file.with_suffix(".yaml"))), "--out", str(out)]
        command += ["--processes", str(processes), "--quiet", *sets, *words]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "GLASSFORMER_PROCESS_TIMEOUT": "60",
            "GLASSFORMER_PROCESS_PATIENCE": PATIENCE,
        }
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
        )

    return begin


def checksums(run: Path) -> dict[str, str]:
    directory = RunDirectory(run)
    return checkpoint_checksums(directory, directory.steps()[-1])


def figures(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "tokens_per_second")} for line in lines]


@pytest.fixture(scope="module")
def alone(recipe, tmp_path_factory) -> Path:
    """The run of one process that all others must equal."""
    run = gf.train(recipe, out=tmp_path_factory.mktemp("alone") / "run", threads=1)
    return run.folder


def test_two_processes_give_the_bits_of_one(start, alone, tmp_path) -> None:
    """Weights, optimizer, every loss and validation figure, the best checkpoint; the law was judged and is recorded."""
    run = tmp_path / "run"
    child = start(2, run)
    out, err = child.communicate(timeout=300)
    assert (child.returncode, err) == (0, "")
    assert out.startswith(f"Run: {run}")
    assert checksums(run) == checksums(alone)
    assert figures(run) == figures(alone)
    environment = RunDirectory(run).read_environment()
    assert environment["checks"]["judged"]["processes"] == "passed"
    assert [one["processes"] for one in environment["processes"]] == [2]
    assert RunDirectory(run).read_state()["best_step"] == RunDirectory(alone).read_state()["best_step"]


def begun(child: subprocess.Popen[str], run: Path, step: int) -> None:
    until = time.monotonic() + 240
    while child.poll() is None and time.monotonic() < until:
        file = run / "metrics.jsonl"
        if file.exists() and file.read_text(encoding="utf-8").count("\n") >= step:
            return
        time.sleep(0.01)
    pytest.fail(f"it ended before step {step}: {child.communicate()[1]}")


def worker(child: subprocess.Popen[str], rank: int) -> int:
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text(encoding="utf-8").split()
    for pid in map(int, children):
        if f"RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return pid
    pytest.fail(f"process {rank} is not there")


LONG = {
    "training.steps": 2000,
    "training.schedule": {"kind": "constant", "warmup": 0},
    "evaluation.every": 1000,
    "checkpoint.every": 20,
    "checkpoint.best": False,
}
UNCAPTURED = {"training.cuda_graph": False}
"""On a GPU a replayed step runs no Python, so no plugin's; and a run of 25 steps would not be captured like one of 2,000."""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "how",
    [
        "SIGTERM to the launcher",
        pytest.param("SIGKILL to a process", marks=pytest.mark.slow),
        pytest.param("SIGSTOP to a process", marks=pytest.mark.slow),
        pytest.param("an endless loop", marks=pytest.mark.slow),
    ],
)
def test_a_broken_run_goes_on_alone_in_the_same_bits(start, recipe, tmp_path, how: str) -> None:
    run = tmp_path / "run"
    child = start(2, run, plugin=at_step(30, ENDLESS) if how == "an endless loop" else "", **LONG, **UNCAPTURED)
    begun(child, run, 30)
    if how.startswith("SIGTERM"):
        child.send_signal(signal.SIGTERM)
    elif how.startswith("SIG"):
        os.kill(worker(child, 1), signal.SIGKILL if how.startswith("SIGKILL") else signal.SIGSTOP)
    _, err = child.communicate(timeout=50)  # less than the 60 s after which a collective gives up
    if how.startswith("SIGTERM"):
        assert child.returncode == 143
        assert "is saved; go on with --resume" in err
        assert RunDirectory(run).read_state()["status"] == "stopped"
    else:
        assert child.returncode == 1
        assert ("was killed by SIGKILL" in err) == how.startswith("SIG")
        assert ("Process 1 of 2 gave no sign of life" in err) == how.startswith("SIGSTOP")
        assert ("Process 1 of 2 has kept the others waiting" in err and "plugin.py, line" in err) == (how == "an endless loop")
    assert err.count("Error: ") == 1
    reached = RunDirectory(run).steps()[-1]
    settings = {**LONG, **UNCAPTURED, "training.steps": reached + 5}
    if how == "an endless loop":
        return  # the plugin belongs to the run, and would meet itself again
    gf.train(recipe, set=settings, out=run, resume=True)  # threads and pieces are those the run began with
    unbroken = gf.train(recipe, set=settings, out=tmp_path / "unbroken", threads=1)
    assert checksums(run) == checksums(unbroken.folder)


ENDLESS = """
while True:
    pass
"""
FAULTS = {
    "nan": ("flat = flat * float('nan')", 4, "diverged"),
    "no memory": ("raise MemoryError('DefaultCPUAllocator: not enough memory')", 1, "failed"),
    "a defect": ("raise KeyError('nothing')", 1, "failed"),
    "a collective of one process": ("self.processes.largest(1)", 1, None),
}


def at_step(number: int, fault: str) -> str:
    """A plugin that does something in process 1 alone, when it has the gradients of a step."""
    return f"""
from glassformer.training.step import TrainStep

summed = TrainStep.summed

def broken(self, batch):
    flat = summed(self, batch)
    if self._number == {number} and self.processes.place.rank == 1:
        {fault.strip().replace(chr(10), chr(10) + "        ")}
    return flat

TrainStep.summed = broken
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_in_one_process_ends_all_with_its_code(start, tmp_path, fault: str) -> None:
    """In seconds, and one sentence says why; the checkpoint before it is whole."""
    what, code, status = FAULTS[fault]
    run = tmp_path / "run"
    child = start(2, run, plugin=at_step(30, what), **LONG, **UNCAPTURED)
    begun(child, run, 30)
    began = time.monotonic()
    _, err = child.communicate(timeout=50)
    assert child.returncode == code
    assert [line.startswith("Error: ") for line in err.splitlines()] == [True]
    assert time.monotonic() - began < 20
    assert status is None or RunDirectory(run).read_state()["status"] == status
    assert RunDirectory(run).steps() == [20]


SEED_BY_STEP = """
from glassformer.foundation.runtime import seed_torch
from glassformer.training.step import TrainStep

def seed_piece(self, piece):
    if piece == self.processes.share(self.pieces)[0]:
        seed_torch(self._number)

TrainStep.seed_piece = seed_piece
"""


IN_RANK_ORDER = """
import torch
import torch.distributed as dist
from glassformer.training.parallel.group import Group

def sum_of_ranks(self, flat):
    found = [torch.empty_like(flat) for _ in range(self.place.world)]
    dist.all_gather(found, flat)
    total = found[0]
    for one in found[1:]:
        total = total + one
    return total

Group.sum = sum_of_ranks
"""
OTHER_CODE = """
import os
import glassformer.experiment

if os.environ.get("RANK") == "1":
    glassformer.experiment.code_sha256 = lambda: "of another version"
"""


@pytest.mark.parametrize(
    ("plugin", "processes", "code", "begins"),
    [
        (SEED_BY_STEP, 2, 3, "processes: "),  # rank 1 would draw the numbers of rank 0
        pytest.param(IN_RANK_ORDER, 4, 3, "processes: ", marks=pytest.mark.slow),  # ((a+b)+c)+d is not (a+b)+(c+d)
        pytest.param(OTHER_CODE, 2, 2, "The processes of this run differ in their code", marks=pytest.mark.slow),
    ],
    ids=["seed by step alone", "sum in rank order", "other code"],
)
def test_processes_that_differ_are_refused(start, tmp_path, plugin: str, processes: int, code: int, begins: str) -> None:
    """Before the first step, by one process; nothing is written."""
    child = start(processes, tmp_path / "run", plugin=plugin)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (code, "")
    assert err.count(f"Error: {begins}") == err.count("Error: ") == 1
    assert not (tmp_path / "run").exists()


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in figures(run) if "loss" in line]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="fsdp needs a GPU for each process")
def test_a_cut_model_is_trained_to_rounding(start, alone, recipe, tmp_path) -> None:
    """fsdp: another order of sums, so other bits than one process; its checkpoint is a whole one, with which one goes on."""
    run = tmp_path / "run"
    child = start(2, run, **{"training.parallel": "fsdp"})
    _, err = child.communicate(timeout=300)
    assert (child.returncode, err) == (0, "")
    assert losses(run) == pytest.approx(losses(alone), rel=1e-5)
    assert RunDirectory(run).read_environment()["processes"][0]["form"] == "fsdp"
    more = gf.train(recipe, set={"training.steps": STEPS + 3}, out=run, resume=True)
    assert len(losses(more.folder)) == STEPS + 3


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"training.average": "ema"}, {"training.optimizer": "schedule_free"}], ids=str)
def test_averaged_weights_of_a_cut_model(start, recipe, tmp_path, changes) -> None:
    """Rank 0 samples from them alone, so they are gathered before; a checkpoint holds both, and one process goes on."""
    run = tmp_path / "run"
    child = start(2, run, "--samples", "5", **{"training.parallel": "fsdp", **changes})
    assert (child.communicate(timeout=120)[1], child.returncode) == ("", 0)
    one = gf.train(recipe, set=changes, out=tmp_path / "one", threads=1)
    assert [line["validation_loss"] for line in figures(run) if "validation_loss" in line] == pytest.approx(
        [line["validation_loss"] for line in figures(one.folder) if "validation_loss" in line], rel=1e-5
    )
    for folder in (run, one.folder):
        gf.train(recipe, set={**changes, "training.steps": STEPS + 3}, out=folder, resume=True)
    assert losses(run) == pytest.approx(losses(one.folder), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_cut_run_repeats_and_resumes_in_the_same_bits(start, tmp_path, optimizer: str) -> None:
    changes = {"training.parallel": "fsdp", "training.optimizer": optimizer}
    for name in ("one", "again"):
        child = start(2, tmp_path / name, **changes)
        assert (child.communicate(timeout=300)[1], child.returncode) == ("", 0)
    long = {**LONG, **changes}
    child = start(2, tmp_path / "broken", **long)
    begun(child, tmp_path / "broken", 30)
    os.kill(worker(child, 0), signal.SIGKILL)
    child.communicate(timeout=60)
    reached = RunDirectory(tmp_path / "broken").steps()[-1]
    long["training.steps"] = reached + 5
    for name, words in (("broken", ["--resume"]), ("unbroken", [])):
        child = start(2, tmp_path / name, *words, **long)
        assert (child.communicate(timeout=300)[1], child.returncode) == ("", 0)
    assert checksums(tmp_path / "one") == checksums(tmp_path / "again")
    assert checksums(tmp_path / "broken") == checksums(tmp_path / "unbroken")


def test_what_cannot_be_cut_is_refused(tmp_path, monkeypatch) -> None:
    group: Any = SimpleNamespace(place=Place(0, 2, 0, 2))
    sizes = {"width": 8, "heads": 2, "layers": 2, "context": 4}
    cpu, plain = torch.device("cpu"), TrainingConfig.parse({"steps": 1})

    def built(kind: str = "transformer", **changes: Any) -> Any:
        return MODELS.parse({"kind": kind, **sizes, **changes}).build(5, seed=0)

    network, twice, single, frozen = built(), built(), built(), built()
    for average in ({}, {"average": "ema"}, {"optimizer": "schedule_free"}):
        refuse_if_not_cut(network, TrainingConfig.parse({"steps": 1, **average}), cpu, group)
    assert chosen_form(plain, network, 0, cpu) == "ddp"
    assert chosen_form(TrainingConfig.parse({"steps": 1, "parallel": "fsdp"}), network, 0, cpu) == "fsdp"
    twice.order = [0, 0]
    single.one = torch.nn.Parameter(torch.ones(()))
    next(frozen.parameters()).requires_grad_(False)
    encoder = {"kind": "pretrained", "folder": str(make_folder(tmp_path / "encoder")), "context": 12}
    cases = [(one, plain, cpu) for one in (twice, single, frozen, built("encoder-decoder"))]
    cases.append((MODELS.parse(encoder).build(WORDS, outputs=2, seed=0), plain, cpu))
    for more in ({"after_step": "normalised"}, {"compile": True}, {"cuda_graph": True}):
        cases.append((network, TrainingConfig.parse({"steps": 1, **more}), cpu))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    cases.append((network, plain, torch.device("cuda")))  # two processes, one GPU
    for model, training, device in cases:
        with refused(ConfigError, "cannot-be-cut"):
            refuse_if_not_cut(model, training, device, group)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [4, 8])
def test_more_processes(start, alone, tmp_path, processes: int) -> None:
    """Eight pieces for eight: the law of one process is computed again."""
    changes = {"training.pieces": 8} if processes == 8 else {}
    run = tmp_path / "run"
    child = start(processes, run, **changes)
    _, err = child.communicate(timeout=600)
    assert (child.returncode, err) == (0, "")
    if processes == 8:
        expected = start(1, tmp_path / "one", **changes)
        expected.communicate(timeout=600)
        alone = tmp_path / "one"
    assert checksums(run) == checksums(alone)
    assert figures(run) == figures(alone)


LETTERS = [*"abcd", *(f"w{n}" for n in range(4, 20))]  # words of the tiny encoder too
WORLD = {"data.set": {"kind": "world", "people": 40, "sound": 0.5, "seed": 0}}
OBJECTIVES = {
    "masked": ("docstrings-char", {"objective": "masked", "model.causal": False}),
    "spans": ("world-pretrain", WORLD),
    "answers, after a parent": ("world-finetune", WORLD),
    "mixture": ("world-mixed", WORLD),
    "labels": ("table", {}),
    "encoder, full": ("table", {"model.kind": "pretrained", "model.tuning": "full"}),
    "encoder, LoRA": ("table", {"model.kind": "pretrained", "model.tuning": "lora"}),
    "translate": ("numbers-in-words", {"evaluation.by": "bleu"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_gives_the_same_bits_on_1_2_and_4(tmp_path, objective: str, optimizer: str) -> None:
    """Next-token is above. Weights, optimizer and all figures, evaluated at the end; a parent is trained by all of them too."""
    source, changes = OBJECTIVES[objective]
    if source == "table":
        source, chance = str(tmp_path / "table.csv"), random.Random(1)
        rows = [
            f"{' '.join(chance.choices(LETTERS, k=chance.randint(3, 9)))},{chance.choice(['yes', 'no'])}" for _ in range(90)
        ]
        Path(source).write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
        changes = {"data.label_column": "label", "data.text_column": "text", **changes}
    small = {"model.width": 16, "model.layers": 2, "model.heads": 2, "model.dropout": 0.1, "training.steps": 4}
    if "model.kind" in changes:
        small = {"model.folder": str(make_folder(tmp_path / "encoder")), "model.context": 12, "training.steps": 4}
    small |= {"training.batch_size": 16, "training.pieces": 4, "training.optimizer": optimizer, "evaluation.every": 4}
    found = []
    for number in (1, 2, 4):
        out = tmp_path / str(number)
        sets = [word for key, value in {**changes, **small}.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        command = [sys.executable, "-m", "glassformer", "train", source, "--out", str(out), "--quiet", *sets]
        done = subprocess.run(
            [*command, "--processes", str(number)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        found.append((checksums(out), figures(out)))
    assert found[0] == found[1] == found[2]


def test_numbers_of_processes() -> None:
    assert number_of_processes("4") == 4
    assert number_of_processes("auto") in (1, 2, 4, 8, 16, 32, 64, 128, 256)
    for given, reason in (("3", "processes-no-power-of-two"), ("0", "bad-processes"), ("many", "bad-processes")):
        with pytest.raises(UsageError) as refused:
            number_of_processes(given)
        assert refused.value.reason == reason


def test_python_starts_processes_too(recipe, alone, tmp_path) -> None:
    run = gf.train(recipe, out=tmp_path / "run", processes=2, threads=1, callbacks=["csv"])
    assert checksums(run.folder) == checksums(alone)
    assert (run.folder / "metrics.csv").is_file()


@pytest.mark.slow
def test_what_its_processes_refuse_is_raised_in_python(recipe, alone) -> None:
    with pytest.raises(GlassformerError, match="not empty"):
        gf.train(recipe, out=alone, processes=2, threads=1)


def test_pieces_that_processes_cannot_share_are_refused(recipe, alone, tmp_path) -> None:
    from glassformer.experiment import _in_pieces, _with_pieces
    from glassformer.recipe import load_recipe

    folder, whole = RunDirectory(tmp_path / "none"), load_recipe(recipe, {"training.pieces": None})
    assert _with_pieces(whole, folder, 1, resume=False).training.pieces is None
    assert _with_pieces(whole, folder, 8, resume=False).training.pieces == 8
    assert _with_pieces(whole, RunDirectory(alone), 2, resume=True).training.pieces == 4  # a run keeps its pieces
    for changes, place, world, reason in (
        ({"training.pieces": 2}, folder, 4, "processes-do-not-divide-pieces"),
        ({}, RunDirectory(alone), 8, "processes-do-not-divide-pieces"),
    ):
        with pytest.raises(ConfigError) as refused:
            _with_pieces(load_recipe(recipe, changes), place, world, resume=place is not folder)
        assert refused.value.reason == reason
    with pytest.raises(ConfigError) as refused:
        _in_pieces(load_recipe(recipe, {"training.out_of_memory": "halve"}), 4)
    assert refused.value.reason == "halve-with-pieces"
