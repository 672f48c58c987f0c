"""The gate before every figure: a check that passed is looked up, any other runs and is cached; what did not pass raises.

Who passes it: a network before it trains or is measured (``require_network``), the training step as it will run
(``require_step``), generation in bf16 (``require_generation``). A study's worker calls ``check_start(recipe, data, runtime,
remember=...)`` for the network of a variant: it raises nothing, and the report says whether a law is broken; the worker then
hands that report to ``train(checked=...)`` and ``Run.evaluation(checked=...)``.

Only reports in which every law passed are cached, in the cache folder under ``checks/``, keyed by architecture, build and
machine; and only of networks made of our own parts, with fresh weights or with weights identified by a checksum (a pretrained
encoder's, a checkpoint's). With a plugin or a class of a notebook the checks always run. Trained weights are checked even if
fresh ones passed: zero-initialised weights can hide a leak.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.assembly import Parent, starting_network
from glassformer.checking.fast_paths import check_generation, check_step, has_fast_paths
from glassformer.checks.check import check_model
from glassformer.checks.check_report import CheckReport
from glassformer.checks.forward_passes import same_generators
from glassformer.checks.loss_laws import OTHER_PATH
from glassformer.data.batches import Batch
from glassformer.data.data_kinds import PreparedData
from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import CannotTell, CheckFailed, GlassformerError
from glassformer.foundation.files import code_sha256, read_json, write_json
from glassformer.foundation.plugins import loaded_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.registry import unrecorded_parts
from glassformer.foundation.runtime import Runtime, environment
from glassformer.model.network import Network, NetworkConfig
from glassformer.model.transformer import Transformer
from glassformer.recipe import Recipe
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.parallel.shard import Shards, whole
from glassformer.training.step import TrainingLoss, TrainStep
from glassformer.training.step_acceleration import form_of

AREA, REPORT, SCHEMA = "checks", "report.json", 1
MACHINE = (
    "glassformer",
    "python",
    "torch",
    "platform",
    "cpu",
    "cores",
    "deterministic",
    "device",
    "device_name",
    "precision",
    "threads",
)
"""What must be equal, besides the code, for a cached check to be valid."""
STEP_DEPENDS_ON = ("batch_size", "accumulate", "label_smoothing", "optimizer")
"""Settings of training with which a compiled or captured step is another one."""
NOT_JUDGED = (
    "What cannot be judged is not trained or measured. Change that part, or continue with --allow-leaks, which marks every "
    "figure as tainted."
)
LEAKS = (
    "Figures of such a model would be misleading, so none are given. Change that part, or continue with --allow-leaks, which "
    "marks every figure as tainted."
)
OTHER_NUMBERS = (
    "Such a run would not follow the recipe, so it is not started. Use the plain step with training.compile=false and "
    "training.cuda_graph=false, or continue with --allow-leaks, which marks every figure as tainted."
)


def require_network(
    network: nn.Module,
    *,
    laws: frozenset[str] = frozenset(),
    runtime: Runtime | None = None,
    key: str | None = None,
    allow_leaks: bool = False,
    watch: Watcher = SILENT,
) -> CheckReport:
    """Tests the laws on the actual network. Broken ones raise ``CheckFailed``, those that could not be judged ``CannotTell``,
    unless leaks are allowed.

    ``laws``: required by the objective, whatever the model states. ``key``: the cache key of the check; None: it always runs.
    """
    report, cached = _looked_up(key, lambda: check_model(network, laws=laws, runtime=runtime, watch=watch))
    raise_or_warn(report, "Checks", allow_leaks, watch, cached=cached)
    return report


def require_step(
    report: CheckReport,
    step: TrainStep | GraphedStep,
    batch: Callable[[], Batch],
    *,
    laws: frozenset[str],
    vocabulary: int,
    key: str | None = None,
    allow_leaks: bool = False,
    watch: Watcher = SILENT,
) -> CheckReport:
    """The report on the network, joined with what is found about its step as it will run. ``batch`` gives one of the run."""
    if not has_fast_paths(step):
        return report
    found, cached = _looked_up(key, lambda: check_step(step, batch(), laws=laws, vocabulary=vocabulary))
    if not found.judged:  # the step turned out to run as it is written
        return report
    raise_or_warn(found, "Checks of the fast paths", allow_leaks, watch, cached=cached)
    return report.joined(found)


def require_processes(step: TrainStep | GraphedStep, batch: Batch, number: int, watch: Watcher = SILENT) -> CheckReport:
    """The law "processes", on the first step of this very run: the gradient that all processes make together has the bits of
    the one that rank 0 makes alone. Every process calls it. It stands in for tests on machines that we do not have."""
    plain, started = step.uncaptured, time.perf_counter()
    batch = batch.to(step.runtime.device)
    with same_generators(step.runtime.device):
        plain.prepare(number, 0.0)
        if plain.shards is None:
            reference, together = plain, plain.processes.sum(plain.summed(batch))
        else:
            reference, together = _uncut(plain, plain.shards), _gathered_gradient(plain, batch)

        def compared() -> list[float]:
            reference.prepare(number, 0.0)
            with reference.by_itself():
                alone = reference.summed(batch)
            different = alone != together
            return [float(different.sum()), float((alone - together).abs().max()), float(alone.abs().max())]

        differing, largest, scale = plain.processes.once(compared)
    exact = plain.shards is None
    if largest > (0.0 if exact else OTHER_PATH[step.runtime.precision] * scale) or largest != largest:
        raise CheckFailed(
            f"processes: the gradient of step {number} that {plain.processes.place.world} processes make together is not "
            f"the one that process 0 makes alone: {differing:,.0f} numbers differ, the largest by {largest:.3g} (gradients are "
            f"up to {scale:.3g}). Such a run could not be repeated on another number of processes, so it is not started. Use "
            "GPUs of one kind, the same build of torch everywhere and one number of threads; or train on one process.",
            reason="processes-differ-from-one",
        )
    world, seconds = plain.processes.place.world, time.perf_counter() - started
    what = "the bits" if exact else f"the gradient, to {largest / max(scale, 1e-30):.1g} of its largest number,"
    watch.say(f"Check of {world} processes passed in {seconds:.1f} s: together they give {what} that one gives alone.")
    close = "bit for bit" if exact else f"largest difference {largest:.3g}, largest number {scale:.3g}"
    how = f"gradient of step {number} in {plain.pieces} pieces, {world} processes against one, {close}"
    return CheckReport("the processes", tested={"processes": how}, seconds=seconds)


def _uncut(step: TrainStep, shards: Shards) -> TrainStep:
    """The same step on the whole network of this process."""
    network: Any = shards.plain
    loss = TrainingLoss(network, step.loss_module.objective, step.runtime, smoothing=step.loss_module.smoothing)
    return TrainStep(loss, OptimizerSet(step.config, network), step.config, step.runtime, step.seed)


def _gathered_gradient(step: TrainStep, batch: Batch) -> torch.Tensor:
    """The gradient that a cut network has after a batch, whole, as ``TrainStep.flat_gradients`` lays it out."""
    loss, weights = step.gradients(batch), step.optimizers.parameters.values()
    parts = [torch.zeros_like(whole(one)) if one.grad is None else whole(one.grad) for one in weights]
    present = torch.tensor([0.0 if one.grad is None else float(step.pieces or 1) for one in weights], device=loss.device)
    step.optimizers.zero_grad()
    return torch.cat([*(part.flatten() for part in parts), loss.reshape(-1), present])


def require_generation(
    network: Network, model: NetworkConfig, weights: str, *, vocabulary: int, watch: Watcher = SILENT
) -> None:
    """Refuses to generate in bf16 where its scores are not those of the definition. ``weights``: their checksum."""
    if not isinstance(network, Transformer) or not network.dims.causal:
        return
    device = next(network.parameters()).device
    runtime = Runtime(device, "bf16", torch.get_num_threads())
    key = check_key(model, frozenset(), runtime, vocabulary=vocabulary, outputs=None, generation=weights)
    with same_generators(device):
        report, _ = _looked_up(key, lambda: check_generation(network, vocabulary=vocabulary))
    if report.broken:
        remedy = "Generate with --precision float32, which is the reference implementation."
        raise CheckFailed(
            f"{report.findings[0].sentence} {remedy}", reason="generation-differs", only_differs=report.only_differs
        )
    if not report.passed:
        watch.say(f"Checks of generation in bf16: {report.doubts}")


def check_start(
    recipe: Recipe, data: PreparedData, runtime: Runtime, *, remember: bool, laws: frozenset[str] | None = None
) -> CheckReport:
    """The check of the network that a recipe starts with; raises nothing. The network is built only if the check must run.

    ``remember``: take a check of the same architecture that passed before. ``laws``: instead of the objective's own.
    """
    laws = recipe.objective.laws if laws is None else laws
    parent = Parent.of(recipe, SILENT.say)

    def check() -> CheckReport:
        network, _ = starting_network(recipe, data, parent)
        return check_model(network.to(runtime.device), laws=laws, runtime=runtime)

    about = {} if laws == recipe.objective.laws else {"demanded": sorted(laws)}
    return _looked_up(start_key(recipe, data, runtime, **about) if remember and parent is None else None, check)[0]


def taint_of(report: CheckReport) -> str | None:
    """Why the figures of a model cannot be trusted, in one sentence; None when they can."""
    if report.passed:
        return None
    if not report.broken:
        return f"{' and '.join(report.cannot_tell)} of this model could not be judged; its figures may mean nothing."
    if report.only_differs:
        steps = " and ".join(dict.fromkeys(finding.where for finding in report.findings))
        return f"{steps} of this run differs from the plain one; its figures are not those of the recipe."
    laws = " and ".join(f"{finding.law} at {finding.where}" for finding in report.findings)
    return f"this model breaks {laws}; its figures mean nothing."


def raise_or_warn(report: CheckReport, what: str, allow_leaks: bool, watch: Watcher, *, cached: bool = False) -> None:
    """Says how the checks ended; raises on a broken law, and on one that could not be judged, unless leaks are allowed."""
    if cached:
        watch.say(f"{what} passed before: {report.notes[-1]} Use --recheck to run them again.")
    elif report.passed:
        watch.say(f"{what} {report.verdict} in {report.seconds:.1f} s: {', '.join(report.tested)}. {report.doubts}".rstrip())
    elif allow_leaks:
        watch.say(f"TAINTED: {taint_of(report)}")
    elif not report.broken:
        raise CannotTell(f"{what}: {report.doubts} {NOT_JUDGED}", reason="not-judged")
    else:
        sentences = " ".join(finding.sentence for finding in report.findings)
        reason, remedy = ("step-differs", OTHER_NUMBERS) if report.only_differs else ("leak", LEAKS)
        raise CheckFailed(f"{sentences} {remedy}", reason=reason, only_differs=report.only_differs)


def _looked_up(key: str | None, check: Callable[[], CheckReport]) -> tuple[CheckReport, bool]:
    """The report cached under ``key``, or that of ``check``, which is then cached; and whether it was cached before."""
    if key is not None and (known := cached_check(key)) is not None:
        return known, True
    report = check()
    if key is not None:
        cache_check(key, report)
    return report, False


def check_key(
    model: NetworkConfig, laws: frozenset[str], runtime: Runtime, *, vocabulary: int, outputs: int | None, **about: Any
) -> str | None:
    """The cache key for a check of such a network; None if it must always run. ``about``: what else the check depends on."""
    if loaded_plugins() or unrecorded_parts(model) or (pretrained := model.check_cache_inputs()) is None:
        return None
    found = environment(runtime)
    machine = {name: found[name] for name in MACHINE}
    parts = [SCHEMA, model.to_dict(), sorted(laws), vocabulary, outputs, code_sha256(), machine, pretrained, about]
    return fingerprint(parts)[:40]


def start_key(recipe: Recipe, data: PreparedData, runtime: Runtime, **about: Any) -> str | None:
    """The cache key for a check of the network that a recipe starts with; None if it must always run: with plugins, and where
    a part is a class of a notebook or script, which may have been edited since without any checksum that would tell."""
    if unrecorded_parts(recipe):
        return None
    outputs, laws = recipe.objective.outputs(data), recipe.objective.laws
    return check_key(recipe.model, laws, runtime, vocabulary=data.tokenizer.size, outputs=outputs, **about)


def step_key(recipe: Recipe, data: PreparedData, step: TrainStep | GraphedStep) -> str | None:
    """The cache key for a check of a recipe's training step in the form in which it runs."""
    training = recipe.training.to_dict()
    settings = {name: training[name] for name in STEP_DEPENDS_ON} | form_of(step)._asdict()
    return start_key(recipe, data, step.runtime, training=settings, objective=recipe.objective.to_dict())


def cached_check(key: str) -> CheckReport | None:
    """The report cached under ``key``, with a note of its date; None on a cache miss."""
    try:
        document = read_json(cache_folder() / AREA / key / REPORT)
        report = CheckReport.from_dict(document["checks"])
        note = f"Cached from a check of the same architecture, build and machine on {document['date']}."
        return replace(report, notes=(*report.notes, note)) if report.passed else None
    except (GlassformerError, OSError, ValueError, KeyError, TypeError):
        return None


def cache_check(key: str, report: CheckReport) -> None:
    """Caches a report in which every applicable law passed; ignores a cache folder that is not writable."""
    if not report.passed or not report.judged:
        return

    def make(folder: Path) -> None:
        write_json(folder / REPORT, {"date": date.today().isoformat(), "checks": report.to_dict()})

    with suppress(GlassformerError, OSError):
        cached_folder(AREA, key, make, whole=lambda _: cached_check(key) is not None)
