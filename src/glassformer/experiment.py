"""The only wiring of a training run: recipe -> data -> network -> trainer -> run, in the order of the arrow."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from glassformer.assembly import (
    Parent,
    batches_of,
    chosen_metric,
    fitted_baselines,
    number_of_steps,
    prepare_data,
    restored_network,
    starting_network,
    tokenizer_for,
    tools_for,
)
from glassformer.checking.fast_paths import require_path_checks
from glassformer.checking.remembered_checks import check_key
from glassformer.checking.require_checks import require_checks, taint_of
from glassformer.checks.check_report import CheckReport
from glassformer.data.batches import BatchesByStep
from glassformer.data.data_kinds import PreparedData
from glassformer.evaluation.language import evaluating
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import VALIDATION
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import Watcher, usual_watcher
from glassformer.foundation.registry import unrecorded_parts
from glassformer.foundation.runtime import Runtime, choose_runtime, environment
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.generation.texts import generate_texts
from glassformer.lifecycle import (
    beginning_of,
    ending_recorded,
    folder_of,
    refuse_nothing_to_resume,
    rewind,
    tell_nothing_left,
    threads_before,
    timed,
)
from glassformer.model.network import Network
from glassformer.recipe import Recipe, Source, is_run, load_recipe, parent_recipe
from glassformer.run import Run
from glassformer.runs.baselines import save_baselines
from glassformer.runs.checkpoint import Checkpoint, prune, save_checkpoint
from glassformer.runs.directory import RunDirectory
from glassformer.runs.film import film_steps, save_snapshot
from glassformer.runs.records import MetricsLog, RecordForwarder
from glassformer.runs.weights import saved_tensors
from glassformer.training.fast import begin, form_of
from glassformer.training.graphed import GraphedStep
from glassformer.training.loss import TrainingLoss
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.signals import StopSignal
from glassformer.training.step import TrainStep
from glassformer.training.trainer import Callbacks, Step, Trainer, TrainingState

PATHS_DEPEND_ON = ("batch_size", "accumulate", "label_smoothing", "optimizer")
"""Settings of training with which a compiled or captured step is another one."""


def train(
    source: Source,
    *,
    set: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    resume: bool | Literal["or begin"] = False,
    seed: int | None = None,
    plugins: Sequence[Path | str] = (),
    allow_leaks: bool = False,
    checked: CheckReport | None = None,
    threads: int | None = None,
    recheck: bool = True,
    planned_flops: float = 0.0,
    clock: Stopwatch | None = None,
    samples: int = 0,
    note: str | None = None,
    on_step: Callable[[dict[str, Any]], None] | None = None,
    on_evaluation: Callable[[dict[str, Any]], None] | None = None,
    on_save: Callable[[Path], None] | None = None,
    watch: Watcher | None = None,
) -> Run:
    """Trains a recipe and returns the run. ``set`` changes recipe keys: ``{"model.width": 64}``.

    ``source``: a recipe (built-in name, file, mapping), a text file (a small recipe is chosen and printed), or with ``resume``
    a run's folder. ``out``: default runs/NAME. ``resume``: continue from the last checkpoint; ``"or begin"`` starts where there
    is none. ``on_step`` and ``on_evaluation`` get each record as it is logged, ``on_save`` each checkpoint's folder.
    ``samples``: tokens to generate at every evaluation. A model that fails a check (sees later tokens, other rows, padding) is
    not trained; ``allow_leaks`` trains it, every figure marked tainted. ``recheck=False`` accepts an earlier check of the same
    architecture and build, ``checked`` is the report of one. ``planned_flops``: of the whole study, so that compiling can pay.
    """
    clock = clock or Stopwatch()
    watch = usual_watcher() if watch is None else watch
    load_plugins(plugins)
    folder = RunDirectory(folder_of(source, out, resume=bool(resume), watch=watch))
    recipe = load_recipe(source, {**(set or {}), **({} if seed is None else {"seed": seed})}, watch=watch)
    if resume is True:
        refuse_nothing_to_resume(folder)
    with folder.lock(), StopSignal() as stop, ending_recorded(folder, stop), timed(folder, clock):
        asked = TrainRequest(recipe, folder, plugins, threads, allow_leaks, checked, recheck, planned_flops, clock, watch, stop)
        work, report = _assembled(asked, beginning_of(folder, recipe, resume=bool(resume), watch=watch))
        step, report = _checked_step(asked, work, report)
        rewind(folder, 0 if work.beginning is None else work.beginning.step)
        _write_down(work, step, report)
        _remark(work, note, watch)
        keep = RecordForwarder(work.log.append, bool(report.broken), on_step, on_evaluation, on_save)
        state = _trainer(work, step, _callbacks(work, keep, samples, stop, clock, watch), stop).run(_state(work.beginning))
        _finish(work, state, clock)
    return Run(folder)


@dataclass(frozen=True)
class TrainRequest:
    """One call of ``train``: the recipe and its folder, what was asked beside it, who watches and what may stop it."""

    recipe: Recipe
    folder: RunDirectory
    plugins: Sequence[Path | str]
    threads: int | None
    allow_leaks: bool
    checked: CheckReport | None
    recheck: bool
    planned_flops: float
    clock: Stopwatch
    watch: Watcher
    stop: StopSignal


@dataclass(frozen=True)
class _Assembled:
    """All the parts of a run, before its first step."""

    recipe: Recipe
    folder: RunDirectory
    data: PreparedData
    runtime: Runtime
    network: Network
    optimizers: OptimizerSet
    batches: BatchesByStep
    beginning: Checkpoint | None
    """What it goes on from."""
    parent: Parent | None
    """The run whose weights it starts with."""

    @property
    def fresh(self) -> bool:
        """Its weights are those that the recipe's seed gives, so a check of the recipe's network is one of this network."""
        return self.beginning is None and self.parent is None

    @property
    def steps(self) -> int:
        return number_of_steps(self.recipe, self.batches)

    @cached_property
    def on_device(self) -> BatchesByStep:
        """The batches, made where the network is."""
        return self.batches.on(self.runtime.device)

    @property
    def log(self) -> MetricsLog:
        return MetricsLog(self.folder.metrics_file)


def _assembled(asked: TrainRequest, beginning: Checkpoint | None) -> tuple[_Assembled, CheckReport]:
    """Parent, machine, data, network, optimizers and batches; and what the checks found about the network."""
    recipe, folder, clock, watch = asked.recipe, asked.folder, asked.clock, asked.watch
    parent = None if beginning is not None else _parent(asked)
    threads, wanted = asked.threads or threads_before(folder), recipe.training  # after the parent, whose threads may be others
    runtime = choose_runtime(device=wanted.device, precision=wanted.precision, threads=threads)
    with asked.stop.at_once(), clock.phase("data"):
        data = _prepared(recipe, folder, asked.stop, watch)
    network = _network(recipe, data, beginning, parent, watch).to(runtime.device)
    remembered = not asked.recheck and beginning is None and parent is None
    key = recipe_check_key(recipe, data, runtime) if remembered else None
    with clock.phase("checks"):
        report = asked.checked or _checked(recipe, network, key, runtime, asked.allow_leaks, watch)
    optimizers = _optimizers(recipe, network, beginning)
    batches = batches_of(recipe, data)
    return _Assembled(recipe, folder, data, runtime, network, optimizers, batches, beginning, parent), report


def _checked_step(asked: TrainRequest, work: _Assembled, report: CheckReport) -> tuple[TrainStep | GraphedStep, CheckReport]:
    """The training step as it will run, and the report on the network with what was found about that step."""
    _refuse_fewer_steps(work)
    step = _step(asked, work)
    with asked.clock.phase("checks"):
        known = (asked.checked is not None or not asked.recheck) and work.fresh
        return step, _paths_checked(work, step, report, known, asked.allow_leaks, asked.watch)


def _finish(work: _Assembled, state: TrainingState, clock: Stopwatch) -> None:
    """What a run leaves behind after its last step."""
    with clock.phase("baselines"):
        save_baselines(work.folder, fitted_baselines(work.recipe.objective, work.data))
    work.folder.write_state("finished", step=state.step, steps=work.steps, best_step=state.best_step)


def _trainer(work: _Assembled, step: Step, callbacks: Callbacks, stop: StopSignal) -> Trainer:
    recipe, film = work.recipe, work.recipe.checkpoint.film
    return Trainer(
        step,
        work.on_device,
        steps=work.steps,
        training=recipe.training,
        evaluation=recipe.evaluation,
        checkpoint=recipe.checkpoint,
        callbacks=callbacks,
        stop=stop,
        film_steps=film_steps(film, work.steps) if film else (),
    )


def _callbacks(
    work: _Assembled, keep: RecordForwarder, samples: int, stop: StopSignal, clock: Stopwatch, watch: Watcher
) -> Callbacks:
    """What the trainer calls: evaluation, records, checkpoints, the film, progress."""
    recipe, data, network, log, metric = work.recipe, work.data, work.network, work.log, chosen_metric(work.recipe)
    return Callbacks(
        evaluate=(lambda: _validation(network, data, recipe, stop)) if "validation" in data.names else None,
        record=_recorder(keep, log, recipe, work.batches, watch),
        save=lambda state: keep.saved(_save(work, state)),
        evaluated=lambda step: _say_sample(network, data, recipe, samples, watch),
        recorded=lambda step: next((r for r in log.read() if r["step"] == step and metric.recorded in r), None),
        film=lambda step: save_snapshot(work.folder, step, saved_tensors(network)),
        metric=metric,
        watch=watch,
        clock=clock,
    )


def _step(asked: TrainRequest, work: _Assembled) -> TrainStep | GraphedStep:
    """The training step, in the fastest form that this machine and the length of the run (or of its study) allow."""
    training, clock = work.recipe.training, asked.clock
    loss = TrainingLoss(work.network, work.recipe.objective, work.runtime, smoothing=training.label_smoothing)
    with clock.phase("compile"):
        step = TrainStep(loss, work.optimizers, training, work.runtime, work.recipe.seed)
        begun = work.folder.read_environment().get("step_form") if work.folder.environment_file.exists() else None
        more: dict[str, Any] = {"watch": asked.watch, "clock": clock, "before": begun, "planned_flops": asked.planned_flops}
        return begin(step, work.steps, lambda: work.on_device.batch(0), **more)


def _refuse_fewer_steps(work: _Assembled) -> None:
    beginning = work.beginning
    if beginning is not None and beginning.step > work.steps:
        raise ConfigError(
            f"{work.folder.root} has taken {beginning.step} steps, more than training.steps={work.steps}; give that many "
            "or more, or start a new run."
        )


def _checked(
    recipe: Recipe, network: Network, key: str | None, runtime: Runtime, allow_leaks: bool, watch: Watcher
) -> CheckReport:
    """The laws that the objective demands, on the very network that is to be trained."""
    laws = recipe.objective.laws
    return require_checks(network, laws=laws, allow_leaks=allow_leaks, key=key, runtime=runtime, watch=watch)


def _paths_checked(
    work: _Assembled, step: TrainStep | GraphedStep, report: CheckReport, known: bool, allow_leaks: bool, watch: Watcher
) -> CheckReport:
    """The report on the model with what was found about its step as it will run. ``known``: take a check that passed before."""
    recipe, data, training = work.recipe, work.data, work.recipe.training.to_dict()
    settings = {name: training[name] for name in PATHS_DEPEND_ON} | form_of(step)._asdict()
    paths = {"training": settings, "objective": recipe.objective.to_dict()}
    return require_path_checks(
        report,
        step,
        lambda: work.on_device.batch(0),
        laws=recipe.objective.laws,
        vocabulary=data.tokenizer.size,
        allow_leaks=allow_leaks,
        key=recipe_check_key(recipe, data, step.runtime, paths) if known else None,
        watch=watch,
    )


def recipe_check_key(
    recipe: Recipe, data: PreparedData, runtime: Runtime, paths: Mapping[str, Any] | None = None
) -> str | None:
    """The name under which the check of a recipe's network is remembered. None where it must run: with plugins, and where a
    part is a class of a notebook or script, which may have been edited since without any sum that would tell."""
    if unrecorded_parts(recipe):
        return None
    outputs, laws = recipe.objective.outputs(data), recipe.objective.laws
    return check_key(recipe.model, vocabulary=data.tokenizer.size, outputs=outputs, laws=laws, runtime=runtime, paths=paths)


def _parent(asked: TrainRequest) -> Parent | None:
    """The run this one starts from. A recipe is trained first, in RUN/parent, and goes on where it was stopped."""
    recipe, watch = asked.recipe, asked.watch
    if recipe.init_from is None:
        return None
    if is_run(recipe.init_from):
        return Parent.read(recipe.init_from, watch.say)
    directory = RunDirectory(asked.folder.parent)
    if not directory.exists() or directory.read_state()["status"] != "finished":
        watch.say(f"Training the parent first: {recipe.init_from}, in {directory.root}.")
        train(
            parent_recipe(recipe),
            out=directory.root,
            resume="or begin",
            plugins=asked.plugins,
            allow_leaks=asked.allow_leaks,
            threads=asked.threads,
            watch=watch,
        )
    return Parent.read(directory.root, watch.say)


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


def _optimizers(recipe: Recipe, network: Network, beginning: Checkpoint | None) -> OptimizerSet:
    optimizers = OptimizerSet.of(recipe.training, network)
    if beginning is not None:
        optimizers.load(beginning.optimizer)
    return optimizers


def _remark(work: _Assembled, note: str | None, watch: Watcher) -> None:
    """The user's own note goes into the run; what the machine and the data give cause to say is said."""
    if note is not None:
        work.folder.add_note(note)
    tell_nothing_left(work.beginning, work.steps, watch)
    for remark in (*work.runtime.notes, *work.data.notes, *getattr(work.batches, "notes", ())):
        watch.say(remark)


def _write_down(work: _Assembled, step: TrainStep | GraphedStep, report: CheckReport) -> None:
    """What a run is, before its first step."""
    folder, recipe, data = work.folder, work.recipe, work.data
    folder.root.mkdir(parents=True, exist_ok=True)
    if not folder.tokenizer_file.exists():
        data.tokenizer.save(folder.tokenizer_file)
    if not folder.environment_file.exists():
        facts: dict[str, Any] = {
            "recipe_fingerprint": recipe.fingerprint,
            "data": data.record,
            "folder": os.getcwd(),  # what relative paths of the recipe are relative to
            "weight_decay": work.optimizers.decay_list(),
        }
        facts |= {
            "metric": chosen_metric(recipe).to_dict(),
            "outputs": recipe.objective.outputs(data),
            "ancestry": [] if work.parent is None else work.parent.ancestry(),
            "step_form": form_of(step)._asdict(),
        }
        checks = {"checks": report.to_dict(), "tainted": taint_of(report), "pretrained": work.network.pretrained_source()}
        folder.write_environment({**environment(work.runtime), **facts, **checks})
    else:
        _renew_environment(work)
    folder.write_recipe(recipe.to_dict())  # last: a folder with a recipe is a run
    folder.write_state("running", step=0, steps=work.steps)


def _renew_environment(work: _Assembled) -> None:
    """What may change when a run goes on: the metric that chooses its best checkpoint, and where its text lies."""
    before, metric = work.folder.read_environment(), chosen_metric(work.recipe).to_dict()
    data = before.get("data") or {}
    places = {**data.get("places", {}), **work.data.record.get("places", {})}
    now = {**before, "metric": metric, "data": {**data, "places": places}}
    if now != before:
        work.folder.write_environment(now)


def _recorder(
    keep: RecordForwarder, log: MetricsLog, recipe: Recipe, batches: BatchesByStep, watch: Watcher
) -> Callable[[dict[str, Any]], None]:
    """Records go to the log; after an evaluation the objective says, once, what they give cause to say."""
    said: set[str] = set()

    def record(values: dict[str, Any]) -> None:
        keep.record(values)
        if any(name.startswith(VALIDATION) for name in values):
            remark = recipe.objective.remark(log.read(), batches.steps_per_epoch)
            if remark is not None and remark not in said:
                said.add(remark)
                watch.say(remark)

    return record


def _validation(network: Network, data: PreparedData, recipe: Recipe, stop: StopSignal) -> dict[str, float]:
    """The objective's judged metrics on the validation split, by their names in records."""
    rows = recipe.evaluation.batch_size or max(8, recipe.training.batch_size)
    tools = tools_for(recipe, data.tokenizer, batch_size=rows, keep_going=stop.check)
    with evaluating(network):  # whatever an objective does itself: its figures are those of an evaluation, without dropout
        found = recipe.objective.validation_metrics(network, data.split("validation"), tools)
        chosen = chosen_metric(recipe).name
        if chosen not in found:  # a metric that the cheap form leaves out, but that evaluation.by asks for
            value = recipe.objective.evaluate(network, data.split("validation"), tools).figures[chosen].value
            found = {**found, chosen: math.nan if value is None else value}
    return {VALIDATION + name: value for name, value in found.items()}


def _say_sample(network: Network, data: PreparedData, recipe: Recipe, tokens: int, watch: Watcher) -> None:
    """A few words of the model as it stands, for whoever watches; changes nothing about the training."""
    if not tokens or "causality" not in recipe.objective.laws:
        return
    training = network.training
    with torch.random.fork_rng(devices=[]):
        text = generate_texts(network.eval(), data.tokenizer, [""], seed=0, max_new_tokens=tokens, temperature=0.8)[0]
    network.train(training)
    watch.say(f"    {text.prompt}{text.text}".replace("\n", " "))


def _save(work: _Assembled, state: TrainingState) -> Path:
    work.log.sync()
    tensors, kept = saved_tensors(work.network), work.recipe.checkpoint
    place = save_checkpoint(work.folder, Checkpoint(state.step, tensors, work.optimizers.tensors(), state.to_dict()))
    best = {state.best_step} if kept.best and state.best_step is not None else set[int]()
    prune(work.folder, keep=kept.keep, also=best)
    return place


def _state(beginning: Checkpoint | None) -> TrainingState:
    return TrainingState() if beginning is None else TrainingState.from_dict(beginning.step, beginning.state)
