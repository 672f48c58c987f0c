"""Training steps and generation of two source trees, in turns on one machine: their ratio, and whether the bits agree.

    git archive COMMIT src | tar x -C ../before
    python bench/two_trees.py ../before/src src [--seconds 75] [--device cuda] [--tiny]

Each tree has a process of its own. Both prepare at the same time (kernels, compiling, capturing), then take turns, the first
one in a round by turns too, until the seconds are over. The sizes are those of shakespeare-char; the forms of the step are the
plain one, captured as a CUDA graph, and compiled and captured; generation goes by its fast path and by plain steps. On a CPU
the plain forms alone. Bits: sha256 of the weights after as many steps, and of the tokens.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TREES = ("before", "now")


def programs(device: str, *, tiny: bool) -> dict[str, tuple[Callable[[], float], Callable[[], str]]]:
    """In the process of one tree: what is timed (it returns its tokens), and the checksum of what it has made."""
    import torch

    from glassformer.benchmark.speed import GenerationJob, Sizes, TrainingJob
    from glassformer.foundation.runtime import be_deterministic, choose_runtime
    from glassformer.generation import generate as front_door
    from glassformer.model.transformer import build_model
    from glassformer.objectives.next_token import NextTokenConfig
    from glassformer.training.config import TrainingConfig
    from glassformer.training.optimizer_set import OptimizerSet
    from glassformer.training.step import TrainingLoss, TrainStep
    from glassformer.training.step_acceleration import StepForm, accelerate

    sizes = Sizes(width=32, layers=2, heads=2, context=32) if tiny else Sizes(dropout=0.2, bias=False)
    runtime, on_cuda = choose_runtime(device=device), device == "cuda"
    be_deterministic()

    def training(form: StepForm, steps: int) -> tuple[Callable[[], float], Callable[[], str]]:
        job = TrainingJob(sizes, runtime, 4 if tiny else 64, 4 if tiny else steps)
        config = TrainingConfig(steps=job.steps, batch_size=job.batch)
        model = build_model(sizes.config(), sizes.vocabulary, seed=0).to(runtime.device)
        loss = TrainingLoss(model, NextTokenConfig(), runtime)
        step = accelerate(TrainStep(loss, OptimizerSet(config, model), config, runtime, 0), form)
        batches = job.batches()

        def run() -> float:
            for number in range(job.steps):
                step(batches.batch(number).to(runtime.device), number, 1.0)
            return job.work

        def checksum() -> str:
            weights = [one.detach().float().cpu().numpy().tobytes() for one in model.state_dict().values()]
            return hashlib.sha256(b"".join(weights)).hexdigest()

        return run, checksum

    def generating(new: int, times: int, *, graphs: bool) -> tuple[Callable[[], float], Callable[[], str]]:
        job = GenerationJob(sizes, runtime, 8 if tiny else 256, 1, 20 if tiny else new)
        dtype = torch.bfloat16 if runtime.precision == "bf16" else torch.float32
        model = build_model(sizes.config(), sizes.vocabulary, seed=0).to(runtime.device, dtype).eval()
        prompts, made, captures = job.prompts().tolist(), list[Any](), front_door.can_capture

        def run() -> float:
            front_door.can_capture = captures if graphs else lambda model: False
            for _ in range(times):
                made[:] = front_door.generate(model, prompts, max_new_tokens=job.new, batch_size=job.rows)
            front_door.can_capture = captures
            return float(times * sum(len(one.ids) for one in made))

        return run, lambda: hashlib.sha256(json.dumps([list(one.ids) for one in made]).encode()).hexdigest()

    found = {"step, plain": training(StepForm(compiled=False, captured=False), 40)}
    if on_cuda:
        found["step, captured"] = training(StepForm(compiled=False, captured=True), 400)
        found["step, compiled and captured"] = training(StepForm(compiled=True, captured=True), 400)
        found["generation, graphs"] = generating(500, 8, graphs=True)
    return {**found, "generation, plain steps": generating(60, 1, graphs=False)}


def serve(device: str, *, tiny: bool) -> None:
    """The process of one tree: a line with a name in, a line with tokens per second and a checksum out."""
    import torch

    import glassformer

    made = programs(device, tiny=tiny)
    for run, _ in made.values():
        run()  # loads kernels, compiles, captures
        run()
    say = {"programs": list(made), "tree": str(Path(glassformer.__file__).parents[1]), "torch": torch.__version__}
    print(json.dumps(say), flush=True)
    for line in sys.stdin:
        run, checksum = made[line.strip()]
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        work = run()
        if device == "cuda":
            torch.cuda.synchronize()
        print(json.dumps([work / (time.perf_counter() - began), checksum()]), flush=True)


class Tree:
    """A process with one tree's package."""

    def __init__(self, source: Path, device: str, *, tiny: bool) -> None:
        command = [sys.executable, __file__, "--serve", "--device", device, *(["--tiny"] if tiny else [])]
        environment = {**os.environ, "PYTHONPATH": f"{source.resolve()}:{os.environ.get('PYTHONPATH', '')}"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        self.source = source.resolve()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the process of {self.source} ended")
        return json.loads(line)

    def prepared(self) -> list[str]:
        found = self.hear()
        if Path(found["tree"]) != self.source:
            sys.exit(f"{self.source} was asked for, {found['tree']} was imported")
        names: list[str] = found["programs"]
        return names

    def measure(self, name: str) -> tuple[float, str]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        rate, checksum = self.hear()
        return rate, checksum


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("now", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=75.0, help="no round begins that would not end within them")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a tiny model: whether this script works")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.device, tiny=given.tiny)
        return 0
    began, rounds, longest = time.monotonic(), 0, 0.0
    trees = {name: Tree(source, given.device, tiny=given.tiny) for name, source in zip(TREES, (given.before, given.now))}
    names = [tree.prepared() for tree in trees.values()][-1]
    print(f"prepared in {time.monotonic() - began:.0f} s", flush=True)
    rates: dict[str, dict[str, list[float]]] = {name: {tree: [] for tree in TREES} for name in names}
    sums: dict[str, dict[str, str]] = {name: {} for name in names}
    while rounds == 0 or time.monotonic() - began + longest < given.seconds:
        started = time.monotonic()
        for name in names:
            for tree in TREES if rounds % 2 == 0 else TREES[::-1]:
                rate, sums[name][tree] = trees[tree].measure(name)
                rates[name][tree].append(rate)
        rounds, longest = rounds + 1, max(longest, time.monotonic() - started)
        print(json.dumps({name: [round(rates[name][tree][-1]) for tree in TREES] for name in names}), flush=True)
    for served in trees.values():
        served.process.kill()
    print("| tokens/s, median | before | now | now / before | over the rounds | bits |\n|---|---:|---:|---:|---|---|")
    for name in names:
        before, now = (rates[name][tree] for tree in TREES)
        ratios = sorted(mine / theirs for mine, theirs in zip(now, before))
        middle = [sorted(values)[len(values) // 2] for values in (before, now, ratios)]
        bits = "equal" if len(set(sums[name].values())) == 1 else "DIFFERENT"
        print(
            f"| {name} | {middle[0]:,.0f} | {middle[1]:,.0f} | {middle[2]:.3f} | {ratios[0]:.3f} to {ratios[-1]:.3f} | {bits} |"
        )
    print(f"{rounds} rounds, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
