"""A warm process that forks children which run the command line: real processes to kill, without waiting for imports.

Reads one JSON request per line: ``{"warm": [words]}`` runs them here, so that no child does for the first time what torch
prepares but once; ``{"start": [words], "mishaps": [...], "log": file}`` answers ``{"pid": n}``;
``{"wait": pid}`` answers ``{"code": exit code, or minus the signal}``. Mishaps are faults put into the child, by name.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from glassformer import experiment
from glassformer.checks.check_report import CheckReport
from glassformer.cli.main import run
from glassformer.objectives import next_token
from glassformer.training import step as step_module
from glassformer.training.step import TrainStep

_take_step = TrainStep.__call__
_document_losses = next_token.document_losses


LONGEST = 600.0
"""Seconds after which a forgotten child goes on."""


def before_step(number: int, act: Callable[[TrainStep], None]) -> None:
    """From now on ``act`` happens just before step ``number``."""

    def call(self: TrainStep, batch: Any, step: int, lr_multiplier: float) -> Any:
        if step == number:
            act(self)
        return _take_step(self, batch, step, lr_multiplier)

    TrainStep.__call__ = call  # type: ignore[method-assign]


def linger(marker: str, check: Callable[[], None] = lambda: None) -> None:
    """Says by a file, again and again, that the place is reached, and stays there until there is a file ``MARKER-go``."""
    end = time.monotonic() + LONGEST
    while not Path(f"{marker}-go").exists() and time.monotonic() < end:
        Path(marker).touch()
        check()
        time.sleep(0.01)


def slow_step(number: int, marker: str) -> None:
    before_step(number, lambda step: linger(marker))


def slow_evaluation(marker: str) -> None:
    def slow(*arguments: Any, keep_going: Callable[[], None], **options: Any) -> Any:
        linger(marker, check=keep_going)
        return _document_losses(*arguments, keep_going=keep_going, **options)

    next_token.document_losses = slow  # type: ignore[assignment]


def no_reseeding() -> None:
    """One source of randomness is neither saved nor derived: dropout draws from wherever the process happens to be."""
    step_module.seed_torch = lambda seed: None


def not_a_number(step: int) -> None:
    before_step(step, lambda self: self.loss_module.network.embedding.weight.data.fill_(float("nan")))


def small_files(most_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def no_network() -> None:
    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        raise AssertionError(f"a connection was asked for: {arguments}")

    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.getaddrinfo = refuse  # type: ignore[assignment]


def meet(folder: str, count: int) -> None:
    """Works in ``folder``, and goes on from its choice of a name for the run once ``count`` processes have come as far."""
    os.chdir(folder)
    load = experiment.load_recipe

    def wait(*arguments: Any, **options: Any) -> Any:
        Path(f"met-{os.getpid()}").touch()
        end = time.monotonic() + LONGEST
        while len(list(Path().glob("met-*"))) < count and time.monotonic() < end:
            time.sleep(0.01)
        return load(*arguments, **options)

    experiment.load_recipe = wait


MISHAPS = {act.__name__: act for act in (slow_step, slow_evaluation, no_reseeding, not_a_number, small_files, no_network, meet)}


def child(words: list[str], mishaps: list[list[Any]], log: str) -> NoReturn:
    """Never returns into the parent's loop."""
    code = 99
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        for name, *arguments in mishaps:
            MISHAPS[name](*arguments)
        code = run(words)
    finally:
        sys.stdout.flush()
        os._exit(code)


def main() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` has it ignored, and the children would inherit that
    os.fsync = lambda descriptor: None  # a kill is no power cut: what was written stays written
    passed = CheckReport(subject="a tiny model")  # the laws take longer than a tiny run, and have tests of their own
    experiment.require_network = lambda model, **options: passed
    for line in sys.stdin:
        request = json.loads(line)
        if "warm" in request:
            with contextlib.redirect_stdout(sys.stderr):
                answer = {"code": run(request["warm"])}
            gc.freeze()  # what is there stays: children need not look at it again
        elif "start" in request:
            pid = os.fork()
            if pid == 0:
                child(request["start"], request["mishaps"], request["log"])
            answer = {"pid": pid}
        else:
            _, status = os.waitpid(request["wait"], 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
