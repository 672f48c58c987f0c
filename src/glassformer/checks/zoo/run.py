"""Checks a tiny model of each class, each in its own process with a time limit.

A crash, a timeout or a failed build is an entry with a reason, never an exception. The limit is CPU time, so that a busy
machine changes no entry. Every entry also says whether the check left the model unchanged: bit-identical logits, same dtype,
same tensors, same mode.
"""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.check import check_model
from glassformer.checks.check_report import short_error
from glassformer.checks.zoo.build import CONTEXT, tiny_model

LIMIT_SECONDS = 60.0
"""CPU seconds for building a class and checking it."""
PATIENCE = 20.0
"""The limit on wall-clock time as a multiple of the CPU limit, for processes that hang and for busy machines."""
ON_THE_WALL = "on the wall"


@dataclass
class _Job:
    name: str
    process: Any
    answers: Connection
    started: float


def run_zoo(
    names: Sequence[str],
    *,
    workers: int = 1,
    limit: float = LIMIT_SECONDS,
    say: Callable[[str], None] = lambda line: None,
    known: Mapping[str, dict[str, Any]] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda entry: None,
) -> list[dict[str, Any]]:
    """One entry for each class, in the order of the names. ``keep`` gets each as soon as it is there, ``known`` has those that
    need not be made again."""
    import transformers  # imported in the parent, so that forked children need not

    transformers.logging.set_verbosity_error()
    order, running = list(names), list[_Job]()
    entries: dict[str, dict[str, Any]] = {name: known[name] for name in order if known and name in known}
    waiting = [name for name in order if name not in entries]
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
    while waiting or running:
        while waiting and len(running) < max(1, workers):
            running.append(_start(context, waiting.pop(0), limit))
        time.sleep(0.02)
        for job in list(running):
            entry = _poll(job, limit)
            if entry is not None:
                running.remove(job)
                entries[job.name] = entry
                keep(entry)
                say(f"{len(entries)}/{len(order)} {job.name}: {in_words(entry)}")
    return [entries[name] for name in order]


def _start(context: Any, name: str, limit: float) -> _Job:
    answers, end = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(name, end, limit), daemon=True)
    process.start()
    end.close()
    return _Job(name, process, answers, time.monotonic())


def _poll(job: _Job, limit: float) -> dict[str, Any] | None:
    """The process's result; a reason if it died or timed out; None while it runs."""
    try:
        if job.answers.poll():
            entry: dict[str, Any] = job.answers.recv()
            job.process.join()
            return entry
    except EOFError:
        job.process.join()
        code = job.process.exitcode
        late = code is not None and -code in (getattr(signal, "SIGXCPU", None), signal.SIGKILL)
        reason = f"not done within {limit:.0f} s of one core" if late else f"the process ended with code {code}"
        return {"class": job.name, "built": True, "error": reason}
    if time.monotonic() - job.started <= PATIENCE * limit:
        return None
    job.process.kill()
    job.process.join()
    return {"class": job.name, "built": True, "error": f"not done within {PATIENCE * limit:.0f} s {ON_THE_WALL}"}


def _child(name: str, end: Connection, limit: float) -> None:
    with suppress(ImportError, ValueError, OSError):  # where there is no such limit, the wall is one
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (max(1, math.ceil(limit)), max(2, math.ceil(limit) + 1)))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # what models print is not part of the table
        os.dup2(nowhere.fileno(), 2)
        end.send(examine(name))


def examine(name: str) -> dict[str, Any]:
    """The entry of one class."""
    try:
        model = tiny_model(name)
    except Exception as error:  # a third-party class may raise anything
        return {"class": name, "built": False, "error": short_error(error)}
    twin = copy.deepcopy(model)
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        report = check_model(model, context=CONTEXT)
    except Exception as error:
        return {"class": name, "built": True, "error": short_error(error)}
    seconds = {"seconds": round(time.perf_counter() - wall, 2), "cpu_seconds": round(time.process_time() - cpu, 2)}
    plain = report.to_dict()
    findings = [
        {
            **{key: finding[key] for key in ("law", "where", "from_position", "to_position", "size")},
            "example": _without_tokens(finding),
        }
        for finding in plain["findings"]
    ]
    return {
        "class": name,
        "built": True,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **{key: plain[key] for key in ("passed", "judged", "cannot_tell", "not_judged", "notes")},
        "findings": findings,
        **seconds,
        "unchanged": same_model(twin, model),
    }


def _without_tokens(finding: dict[str, Any]) -> dict[str, Any]:
    """The example without its token lists."""
    return {key: value for key, value in finding["example"].items() if not isinstance(value, list) or key == "pieces"}


def same_model(first: nn.Module, second: nn.Module) -> bool:
    """Whether both have the same tensors, dtypes and modes, and bit-identical logits."""
    if [m.training for m in first.modules()] != [m.training for m in second.modules()]:
        return False
    mine, yours = (dict(_tensors(model)) for model in (first, second))
    if mine.keys() != yours.keys() or not all(_equal(mine[key], yours[key]) for key in mine):
        return False
    ids_BT = torch.arange(3, 3 + 2 * (CONTEXT // 4)).view(2, -1)
    scores = []
    for model in (first, second):
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                output = model(input_ids=ids_BT)
        except Exception:  # a model that does not run has no logits to compare
            return True
        scores.append(output.logits if hasattr(output, "logits") else output[0])
    return _equal(*scores)


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, Tensor):
                yield f"{name}.{key}", value


def _equal(first: Tensor, second: Tensor) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return bool(torch.equal(first, second) or ((first == second) | (first.isnan() & second.isnan())).all())


def in_words(entry: dict[str, Any]) -> str:
    """The verdict in a few words."""
    if "error" in entry:
        return f"{'cannot tell' if entry['built'] else 'not built'}: {entry['error']}"
    judged = entry["judged"]
    broken = [law for law, outcome in judged.items() if outcome == "broken"]
    untold = [law for law, outcome in judged.items() if outcome == "cannot tell"]
    if broken:
        return f"breaks {' and '.join(broken)}"
    return f"cannot tell {' and '.join(untold)}" if untold else "passed"
