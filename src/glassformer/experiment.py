"""The only wiring: recipe -> data -> model -> trainer -> run, in the order of the arrow; and the Run a user holds."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.checks.report import CheckReport
from glassformer.data.objectives.base import BatchesByStep
from glassformer.data.prepare import Prepared, prepare
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.evaluation.language import document_losses
from glassformer.foundation.config import diff
from glassformer.foundation.errors import ConfigError, DiskFull, Diverged, Interrupted, OutOfMemory, RunError
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime, choose_runtime, environment, is_out_of_memory
from glassformer.gate import pass_the_checks, taint_of
from glassformer.model.transformer import Transformer, build_model
from glassformer.recipe import Recipe, Source, load_recipe
from glassformer.run import Run, evaluated_text, load, load_weights, model_tensors, untrained_model
from glassformer.runs.checkpoint import Checkpoint, discard_after, newest_good, prune, save_checkpoint
from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog
from glassformer.training.fast import hasten
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
    watch: Watcher = SILENT,
) -> Run:
    """Trains a recipe and gives the run. ``set`` changes dotted keys; ``resume`` goes on from the last checkpoint.

    A model that breaks a law (sees the future, other rows, padding) is not trained, unless ``allow_leaks``: then every
    figure of the run is marked as tainted. ``checked``: what a check of the very same architecture found, so that a study
    tests it once and not in every trial.
    """
    load_plugins(plugins)
    recipe = load_recipe(source, {**(set or {}), **({} if seed is None else {"seed": seed})})
    folder = RunDirectory(Path(out) if out is not None else default_folder(source, resume=resume))
    beginning = _beginning(folder, recipe, resume=resume, watch=watch)
    with StopSignal() as stop, _ending_recorded(folder, stop):
        runtime = choose_runtime(
            device=recipe.training.device, precision=recipe.training.precision, threads=threads or _threads_before(folder)
        )
        data = _prepared(recipe, folder, stop, watch)
        model = fresh_or_saved_model(recipe, data, beginning).to(runtime.device)
        report = checked or pass_the_checks(model, allow_leaks=allow_leaks, runtime=runtime, watch=watch)
        optimizers = OptimizerSet.of(recipe.training, model)
        if beginning is not None:
            optimizers.load(beginning.optimizer)
        batches = batches_of(recipe, data)
        steps = number_of_steps(recipe, batches)
        _rewind(folder, 0 if beginning is None else beginning.step)
        _write_down(folder, recipe, data, runtime, optimizers, report, steps)
        for note in (*runtime.notes, *data.notes):
            watch.say(note)
        log = MetricsLog(folder.metrics_file)
        trainer = Trainer(
            hasten(TrainStep(model, optimizers, recipe.training, runtime, recipe.seed), recipe.training, steps, watch),
            batches.on(runtime.device),
            steps=steps,
            training=recipe.training,
            evaluation=recipe.evaluation,
            checkpoint=recipe.checkpoint,
            around=Surroundings(
                evaluate=(lambda: _validation(model, data, recipe, stop, watch)) if "validation" in data.names else None,
                record=log.append if report.passed else lambda record: log.append({**record, "tainted": True}),
                save=lambda state: _save(folder, recipe, model, optimizers, state, log),
                recorded=lambda step: next((r for r in log.read() if r["step"] == step and "validation_loss" in r), None),
                watch=watch,
            ),
            stop=stop,
        )
        state = trainer.run(_state(beginning))
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
        folder.refuse_if_used()
        return None
    changed = [
        f"{key}: {before!r} -> {after!r}"
        for key, (before, after) in diff(folder.read_recipe(), recipe.plain()).items()
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


def _prepared(recipe: Recipe, folder: RunDirectory, stop: StopSignal, watch: Watcher) -> Prepared:
    """The data in tokens, by the run's own tokenizer when it has one (resumed, or started from another run)."""

    def progress(what: str, done: int, total: int | None) -> None:
        stop.check()
        if total:
            watch.progress(what, done, total)

    before = folder.read_environment().get("data") if folder.environment_file.exists() else None  # other text is refused
    return prepare(recipe.data, tokenizer_to_use(recipe, folder), progress=progress, expect=before)


def tokenizer_to_use(recipe: Recipe, folder: RunDirectory | None) -> Tokenizer | TokenizerConfig:
    """The one the run began with, that of the run it starts from, or one still to be made from the training text."""
    if folder is not None and folder.tokenizer_file.exists():
        return load_tokenizer(folder.tokenizer_file)
    return recipe.tokenizer if recipe.init_from is None else load(recipe.init_from).tokenizer


def fresh_or_saved_model(recipe: Recipe, data: Prepared, beginning: Checkpoint | None) -> Transformer:
    """The model a run starts with: new, of the checkpoint it goes on from, or of the run it is based on."""
    if beginning is None and recipe.init_from is None:
        return untrained_model(recipe, data)
    model = build_model(recipe.model, data.tokenizer.size, seed=recipe.seed)
    if beginning is not None:
        load_weights(model, beginning.model, f"step {beginning.step}")
    elif recipe.init_from is not None:
        load_weights(model, load(recipe.init_from).checkpoint("last").model, recipe.init_from)
    return model


def batches_of(recipe: Recipe, data: Prepared) -> BatchesByStep:
    """The training batches a recipe asks for."""
    return recipe.objective.batches(
        data.split("train").tokens, context=recipe.model.context, batch_size=recipe.training.batch_size, seed=recipe.seed
    )


def number_of_steps(recipe: Recipe, batches: BatchesByStep) -> int:
    if recipe.training.steps is not None:
        return recipe.training.steps
    assert recipe.training.epochs is not None
    return max(1, math.ceil(recipe.training.epochs * batches.steps_per_epoch))


def _write_down(
    folder: RunDirectory,
    recipe: Recipe,
    data: Prepared,
    runtime: Runtime,
    optimizers: OptimizerSet,
    report: CheckReport,
    steps: int,
) -> None:
    """What a run is, before its first step."""
    folder.root.mkdir(parents=True, exist_ok=True)
    if not folder.tokenizer_file.exists():
        data.tokenizer.save(folder.tokenizer_file)
    if not folder.environment_file.exists():
        facts = {"recipe_fingerprint": recipe.fingerprint, "data": data.record, "weight_decay": optimizers.decay_list()}
        checks = {"checks": report.plain(), "tainted": taint_of(report)}
        folder.write_environment({**environment(runtime), **facts, **checks})
    folder.write_recipe(recipe.plain())  # last: a folder with a recipe is a run
    folder.write_state("running", step=0, steps=steps)


def _validation(model: Transformer, data: Prepared, recipe: Recipe, stop: StopSignal, watch: Watcher) -> dict[str, float]:
    text = evaluated_text(data.split("validation"), data.tokenizer)
    losses, _ = document_losses(
        model,
        text,
        context=recipe.model.context,
        by_position=False,
        batch_size=recipe.evaluation.batch_size or max(8, recipe.training.batch_size),
        keep_going=stop.check,
    )
    loss = float(losses.nats.sum() / max(1, losses.tokens.sum()))
    watch.say(f"validation loss {loss:.4f}")
    return {"validation_loss": loss}


def _save(
    folder: RunDirectory, recipe: Recipe, model: Transformer, optimizers: OptimizerSet, state: TrainingState, log: MetricsLog
) -> None:
    log.sync()
    save_checkpoint(folder, Checkpoint(state.step, model_tensors(model), optimizers.tensors(), state.plain()))
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
