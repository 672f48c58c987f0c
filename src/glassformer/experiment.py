"""The only wiring of a training run: recipe -> data -> network -> trainer -> run, in the order of the arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.assembly import (
    Parent,
    batches_of,
    chosen_metric,
    number_of_steps,
    prepare_data,
    restored_network,
    starting_network,
    tokenizer_for,
    tools_for,
)
from glassformer.checks.report import CheckReport
from glassformer.data.batches import BatchesByStep
from glassformer.data.parts import PreparedData
from glassformer.foundation.config import diff
from glassformer.foundation.errors import ConfigError, DiskFull, Diverged, Interrupted, OutOfMemory, RunError
from glassformer.foundation.metrics import VALIDATION
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime, choose_runtime, environment, is_out_of_memory
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.gate import pass_the_checks, taint_of
from glassformer.model.network import Network
from glassformer.recipe import Recipe, Source, is_run, load_recipe, parent_recipe
from glassformer.remembered import check_key
from glassformer.run import Run
from glassformer.runs.baselines import save_baselines
from glassformer.runs.checkpoint import Checkpoint, discard_after, newest_good, prune, save_checkpoint
from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog
from glassformer.runs.weights import saved_tensors
from glassformer.training.fast import hasten
from glassformer.training.loss import TrainingLoss
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.signals import StopRequested, StopSignal
from glassformer.training.step import TrainStep
from glassformer.training.trainer import Surroundings, Trainer, TrainingState

MAY_CHANGE_ON_RESUME = (
    "about",
    "result",
    "training.steps",
    "training.epochs",
    "training.log_every",
    "training.accumulate",
    "training.out_of_memory",
    "evaluation.",
    "checkpoint.",
)
"""Keys that may differ when a run goes on: how long, how often it looks and saves, in how many pieces a batch is held."""


def train(
    source: Source,
    *,
    set: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    seed: int | None = None,
    plugins: Sequence[Path | str] = (),
    allow_leaks: bool = False,
    checked: CheckReport | None = None,
    threads: int | None = None,
    recheck: bool = True,
    clock: Stopwatch | None = None,
    watch: Watcher = SILENT,
) -> Run:
    """Trains a recipe and gives the run. ``set`` changes dotted keys; ``resume`` goes on from the last checkpoint.

    A model that breaks a law (sees the future, other rows, padding) is not trained, unless ``allow_leaks``: then every
    figure of the run is marked as tainted. ``checked``: what a check of the very same architecture found, so that a study
    tests it once and not in every trial. ``recheck=False`` takes a check of the same architecture and build that passed before;
    not the default here, since code of yours in this process may have changed a part. ``clock`` is told where the seconds go.
    """
    clock = clock or Stopwatch()
    load_plugins(plugins)
    recipe = load_recipe(source, {**(set or {}), **({} if seed is None else {"seed": seed})})
    folder = RunDirectory(Path(out) if out is not None else default_folder(source, resume=resume))
    beginning = _beginning(folder, recipe, resume=resume, watch=watch)
    with StopSignal() as stop, _ending_recorded(folder, stop), _timed(folder, clock):
        runtime = choose_runtime(
            device=recipe.training.device, precision=recipe.training.precision, threads=threads or _threads_before(folder)
        )
        parent = None if beginning is not None else _parent(recipe, folder, plugins, allow_leaks, threads, watch)
        with clock.phase("data"):
            data = _prepared(recipe, folder, stop, watch)
        network = _network(recipe, data, beginning, parent, watch).to(runtime.device)
        laws = recipe.objective.laws
        fresh = not recheck and beginning is None and parent is None
        with clock.phase("checks"):
            key = _check_key(recipe, data, runtime) if fresh and checked is None else None
            report = checked or pass_the_checks(
                network, laws=laws, allow_leaks=allow_leaks, runtime=runtime, key=key, watch=watch
            )
        optimizers = OptimizerSet.of(recipe.training, network)
        if beginning is not None:
            optimizers.load(beginning.optimizer)
        batches = batches_of(recipe, data)
        steps = number_of_steps(recipe, batches)
        _rewind(folder, 0 if beginning is None else beginning.step)
        _write_down(folder, recipe, data, runtime, optimizers, report, steps, parent)
        for note in (*runtime.notes, *data.notes, *getattr(batches, "notes", ())):
            watch.say(note)
        log, metric = MetricsLog(folder.metrics_file), chosen_metric(recipe)
        loss = TrainingLoss(network, recipe.objective, runtime, smoothing=recipe.training.label_smoothing)
        step = TrainStep(loss, optimizers, recipe.training, runtime, recipe.seed)
        with clock.phase("compile"):
            fast_step = hasten(step, recipe.training, steps, watch, clock)
        trainer = Trainer(
            fast_step,
            batches.on(runtime.device),
            steps=steps,
            training=recipe.training,
            evaluation=recipe.evaluation,
            checkpoint=recipe.checkpoint,
            around=Surroundings(
                evaluate=(lambda: _validation(network, data, recipe, stop, watch)) if "validation" in data.names else None,
                record=_recorder(log, recipe, batches, watch, tainted=report.broken),
                save=lambda state: _save(folder, recipe, network, optimizers, state, log),
                recorded=lambda step: next((r for r in log.read() if r["step"] == step and metric.recorded in r), None),
                metric=metric,
                watch=watch,
                clock=clock,
            ),
            stop=stop,
        )
        state = trainer.run(_state(beginning))
        with clock.phase("baselines"):
            save_baselines(folder, recipe.objective.fit_baselines(data))
        folder.write_state("finished", step=state.step, steps=steps, best_step=state.best_step)
    return Run(folder)


@contextmanager
def _ending_recorded(folder: RunDirectory, stop: StopSignal) -> Iterator[None]:
    """However the run ends, the folder says so."""
    try:
        yield
    except StopRequested:
        assert stop.number is not None
        raise Interrupted("Stopped before the first step; nothing was lost.", signal_number=stop.number) from None
    except Interrupted:
        _note_ending(folder, "stopped")
        raise
    except Diverged as error:
        _note_ending(folder, "diverged", reason=str(error))
        raise
    except KeyboardInterrupt:
        _note_ending(folder, "stopped")
        raise
    except Exception as error:
        _note_ending(folder, "failed", reason=str(error))
        if is_out_of_memory(error):
            raise OutOfMemory(
                f"Out of memory ({str(error).splitlines()[0]}). Make model.width, model.layers, model.context, "
                "training.batch_size or evaluation.batch_size smaller; `train --dry-run` shows what a recipe needs."
            ) from error
        raise


@contextmanager
def _timed(folder: RunDirectory, clock: Stopwatch) -> Iterator[None]:
    """However the run ends, its records say where the seconds of this process went."""
    try:
        yield
    finally:
        if folder.read_state().get("pid") == os.getpid():
            with suppress(DiskFull):
                folder.add_timing(clock.plain())


def _check_key(recipe: Recipe, data: PreparedData, runtime: Runtime) -> str | None:
    outputs, laws = recipe.objective.outputs(data), recipe.objective.laws
    return check_key(recipe.model, vocabulary=data.tokenizer.size, outputs=outputs, laws=laws, runtime=runtime)


def _note_ending(folder: RunDirectory, status: str, **facts: Any) -> None:
    """Only of a run that this process began or went on with; a refused one stands as it stood."""
    state = folder.read_state()
    if state.get("status") == "running" and state.get("pid") == os.getpid():
        steps = folder.steps()
        with suppress(DiskFull):  # what made the run end is said; a full disk cannot take more
            folder.write_state(status, step=steps[-1] if steps else 0, **facts)


def _beginning(folder: RunDirectory, recipe: Recipe, *, resume: bool, watch: Watcher) -> Checkpoint | None:
    """The checkpoint a resumed run goes on from; None at a fresh start. Refuses a used folder and a changed recipe."""
    if resume:
        folder.clear_unfinished()
    if not resume or not folder.exists():
        folder.refuse_if_used(resume=resume)
        return None
    before = Recipe.parse(folder.read_recipe()).plain()  # a key added by a later version means its default
    changed = [
        f"{key}: {before!r} -> {after!r}"
        for key, (before, after) in diff(before, recipe.plain()).items()
        if not key.startswith(MAY_CHANGE_ON_RESUME)
    ]
    if changed:
        raise ConfigError(
            f"{folder.root} cannot go on with another recipe ({'; '.join(changed[:3])}). Only how long it trains, how often it "
            "evaluates and what it keeps may change; start a new run for anything else."
        )
    checkpoint = newest_good(folder, watch.say)
    if checkpoint is None:
        watch.say(f"{folder.root} has no whole checkpoint: starting from the first step.")
    else:
        watch.say(f"Going on from step {checkpoint.step}.")
    return checkpoint


def _rewind(folder: RunDirectory, step: int) -> None:
    """Forgets what an earlier process did beyond ``step``: it is done again. Nothing is touched before all is known to fit."""
    discard_after(folder, step)
    MetricsLog(folder.metrics_file).cut_after(step)


def _threads_before(folder: RunDirectory) -> int | None:
    """Another number of threads gives other bits, so a resumed run takes the number it began with."""
    return int(folder.read_environment()["threads"]) if folder.environment_file.exists() else None


def _parent(
    recipe: Recipe,
    folder: RunDirectory,
    plugins: Sequence[Path | str],
    allow_leaks: bool,
    threads: int | None,
    watch: Watcher,
) -> Parent | None:
    """The run this one starts from. A recipe is trained first, in RUN/parent, and goes on where it was stopped."""
    if recipe.init_from is None:
        return None
    if is_run(recipe.init_from):
        return Parent.read(recipe.init_from)
    directory = RunDirectory(folder.parent)
    if not directory.exists() or directory.read_state()["status"] != "finished":
        watch.say(f"Training the parent first: {recipe.init_from}, in {directory.root}.")
        wanted = parent_recipe(recipe)
        train(wanted, out=directory.root, resume=True, plugins=plugins, allow_leaks=allow_leaks, threads=threads, watch=watch)
    return Parent.read(directory.root)


def _prepared(recipe: Recipe, folder: RunDirectory, stop: StopSignal, watch: Watcher) -> PreparedData:
    """The data in tokens, by the run's own tokenizer when it has one (resumed, or started from another run)."""

    def progress(what: str, done: int, total: int | None) -> None:
        stop.check()
        if total:
            watch.progress(what, done, total)

    before = folder.read_environment().get("data") if folder.environment_file.exists() else None  # other text is refused
    return prepare_data(recipe, tokenizer_for(recipe, folder), progress=progress, expect=before)


def _network(
    recipe: Recipe, data: PreparedData, beginning: Checkpoint | None, parent: Parent | None, watch: Watcher
) -> Network:
    """The network a run starts with: of the checkpoint it goes on from, with its parent's weights, or fresh."""
    if beginning is not None:
        outputs = recipe.objective.outputs(data)
        return restored_network(recipe, beginning, vocabulary=data.tokenizer.size, outputs=outputs)
    network, sentence = starting_network(recipe, data, parent)
    if sentence:
        watch.say(sentence)
    return network


def _write_down(
    folder: RunDirectory,
    recipe: Recipe,
    data: PreparedData,
    runtime: Runtime,
    optimizers: OptimizerSet,
    report: CheckReport,
    steps: int,
    parent: Parent | None,
) -> None:
    """What a run is, before its first step."""
    folder.root.mkdir(parents=True, exist_ok=True)
    if not folder.tokenizer_file.exists():
        data.tokenizer.save(folder.tokenizer_file)
    if not folder.environment_file.exists():
        facts: dict[str, Any] = {
            "recipe_fingerprint": recipe.fingerprint,
            "data": data.record,
            "weight_decay": optimizers.decay_list(),
        }
        facts |= {
            "metric": chosen_metric(recipe).plain(),
            "outputs": recipe.objective.outputs(data),
            "ancestry": [] if parent is None else parent.ancestry(),
        }
        checks = {"checks": report.plain(), "tainted": taint_of(report)}
        folder.write_environment({**environment(runtime), **facts, **checks})
    folder.write_recipe(recipe.plain())  # last: a folder with a recipe is a run
    folder.write_state("running", step=0, steps=steps)


def _recorder(
    log: MetricsLog, recipe: Recipe, batches: BatchesByStep, watch: Watcher, *, tainted: bool
) -> Callable[[dict[str, Any]], None]:
    """Records go to the log; after an evaluation the objective says what they give cause to say."""

    def record(values: dict[str, Any]) -> None:
        log.append({**values, "tainted": True} if tainted else values)
        if any(name.startswith(VALIDATION) for name in values):
            remark = recipe.objective.remark(log.read(), batches.steps_per_epoch)
            if remark is not None:
                watch.say(remark)

    return record


def _validation(network: Network, data: PreparedData, recipe: Recipe, stop: StopSignal, watch: Watcher) -> dict[str, float]:
    """The objective's judged metrics on the validation split, by their names in records."""
    rows = recipe.evaluation.batch_size or max(8, recipe.training.batch_size)
    tools = tools_for(recipe, data.tokenizer, batch_size=rows, keep_going=stop.check)
    found = recipe.objective.validation_metrics(network, data.split("validation"), tools)
    watch.say("validation " + ", ".join(f"{name} {value:.4f}" for name, value in found.items()))
    return {VALIDATION + name: value for name, value in found.items()}


def _save(
    folder: RunDirectory, recipe: Recipe, network: Network, optimizers: OptimizerSet, state: TrainingState, log: MetricsLog
) -> None:
    log.sync()
    save_checkpoint(folder, Checkpoint(state.step, saved_tensors(network), optimizers.tensors(), state.plain()))
    best = {state.best_step} if recipe.checkpoint.best and state.best_step is not None else set[int]()
    prune(folder, keep=recipe.checkpoint.keep, also=best)


def _state(beginning: Checkpoint | None) -> TrainingState:
    return TrainingState() if beginning is None else TrainingState.from_plain(beginning.step, beginning.state)


def default_folder(source: Source, *, resume: bool) -> Path:
    """runs/NAME, runs/NAME-2, ...: the first unused one, or, to resume, the last used one."""
    name = Path(source).stem if isinstance(source, str | Path) else "run"
    used: Path | None = None
    for number in range(1, 10_000):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not folder.exists():
            return used if resume and used is not None else folder
        used = folder
    raise RunError("runs/ holds ten thousand runs of this recipe; name a folder with --out.")
