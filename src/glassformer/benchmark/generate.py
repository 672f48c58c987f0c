"""Generation speed: ours with and without a KV cache, transformers' GPT-2 with its cache, nanoGPT; tokens/s and ratios.

All do the same job (benchmark/generators.py) in turns within one process, after a first job each; what the first job of a
process takes is measured in processes of their own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from glassformer.benchmark.first_job import first_job_rate
from glassformer.benchmark.generators import NANOGPT, OURS, TRANSFORMERS, WITHOUT, Job, program_for
from glassformer.benchmark.machine import describe, measure_machine
from glassformer.benchmark.peers import need_transformers
from glassformer.benchmark.timing import measure, ratio, spread, timed
from glassformer.foundation.errors import MissingDependency, UsageError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime

WARM_UP_JOBS = 2
"""Jobs of every program before the first that is measured: what a program makes ready, it has made ready in its second."""


def benchmark_generation(
    job: Job,
    runtime: Runtime,
    *,
    rounds: int,
    without_cache: bool = True,
    transformers: bool = True,
    first_job: bool = False,
    watch: Watcher = SILENT,
) -> dict[str, Any]:
    """The document of ``glassformer bench generate``: the machine, tokens/s of each program, and our ratio to each."""
    sizes = job.sizes
    if job.prompt < 1 or job.prompt > sizes.context:
        raise UsageError(f"--prompt {job.prompt} must be between 1 and the context of {sizes.context}.")
    names, skipped = _compete(job, without_cache=without_cache, transformers=transformers)
    first = {}
    if first_job:  # before there is anything else on the device
        first = measure({name: partial(first_job_rate, name, job, runtime) for name in names}, rounds=rounds, watch=watch)
    programs = {name: program_for(name, job, runtime) for name in names}
    for _ in range(WARM_UP_JOBS):
        for program in programs.values():
            program()
    meters = {name: timed(program, runtime.device) for name, program in programs.items()}
    of_machine = measure_machine(runtime, torch.bfloat16 if runtime.precision == "bf16" else torch.float32, rounds=rounds)
    rates = measure(meters, rounds=rounds, watch=watch)
    document: dict[str, Any] = {
        "benchmark": "generate",
        "machine": {**describe(runtime), **{name: spread(values) for name, values in of_machine.items()}},
        "settings": {**vars(sizes), "rows": job.rows, "prompt": job.prompt, "new": job.new},
        **_compared(rates),
        "skipped": skipped,
    }
    return document | ({"first_job": _compared(first)} if first else {})


def _compete(job: Job, *, without_cache: bool, transformers: bool) -> tuple[list[str], list[str]]:
    """The names of the programs that are compared, and a sentence for each that cannot be."""
    names, skipped = [OURS], []
    if without_cache:
        names.append(WITHOUT)
    if transformers and job.prompt + job.new > job.sizes.context:
        skipped.append(f"transformers GPT-2 is left out: it cannot write beyond its context of {job.sizes.context}.")
    elif transformers:
        try:
            need_transformers()
            names.append(TRANSFORMERS)
        except MissingDependency as error:
            skipped.append(str(error))
    if job.nanogpt is not None:
        names.append(NANOGPT)
    return names, skipped


def _compared(rates: dict[str, list[float]]) -> dict[str, Any]:
    return {
        "tokens_per_second": {name: spread(values) for name, values in rates.items()},
        "times_as_fast_as": {name: ratio(rates, OURS, name) for name in rates if name != OURS},
    }
