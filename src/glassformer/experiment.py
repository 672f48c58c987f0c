"""``train``: a recipe becomes a finished run. One function tells it from top to bottom; its helpers follow in order."""

from __future__ import annotations

import itertools
import math
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from glassformer.assembly import (
    Parent,
    batches_of,
    chosen_metric,
    fitted_baselines,
    number_of_steps,
    prepare_data,
    restored_network,
    saved_baselines,
    starting_network,
    tokenizer_for,
    tools_for,
    training_step,
)
from glassformer.checking.gate import require_network, require_processes, require_step, start_key, step_key, taint_of
from glassformer.checks.check_report import CheckReport
from glassformer.data.batches import Batch
from glassformer.data.data_kinds import PreparedData
from glassformer.data.disk_cache import cached_value
from glassformer.data.overlap import share_in_train
from glassformer.foundation.config import diff, fingerprint
from glassformer.foundation.errors import (
    ConfigError,
    DamagedCheckpoint,
    DiskFull,
    Diverged,
    GlassformerError,
    Interrupted,
    OtherProcessFailed,
    OutOfMemory,
    RunError,
    UsageError,
    did_you_mean,
)
from glassformer.foundation.files import code_sha256
from glassformer.foundation.metrics import COLLAPSED_TO, SOURCE_GAIN, TRAIN, VALIDATION
from glassformer.foundation.plugins import changed_plugins, fault_in_plugin, load_plugins, loaded_plugins, plugin_checksums
from glassformer.foundation.process_rank import place_of
from glassformer.foundation.progress import SILENT, Watcher, usual_watcher
from glassformer.foundation.registry import unrecorded_parts
from glassformer.foundation.runtime import Runtime, choose_runtime, environment, is_out_of_memory
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.generation.texts import generate_texts
from glassformer.model.network import Network, evaluating
from glassformer.recipe import Recipe, Source, is_run, load_recipe, parent_recipe
from glassformer.run import Run
from glassformer.runs.baselines_file import save_baselines
from glassformer.runs.callbacks import Callback, Training, callbacks_of, following
from glassformer.runs.checkpoint import (
    Checkpoint,
    CheckpointWriter,
    discard_after,
    film_steps,
    load_checkpoint,
    newest_good,
    save_snapshot,
)
from glassformer.runs.directory import RunDirectory, find_runs
from glassformer.runs.records import MetricsLog
from glassformer.runs.weights import saved_tensors, sum_of_bits
from glassformer.training.parallel.group import ALONE, Alone, Group, Processes, ending_together, is_lost, join
from glassformer.training.parallel.launch import WITH_PARENT, number_of_processes
from glassformer.training.parallel.shard import whole
from glassformer.training.signals import StopRequested, StopSignal
from glassformer.training.step import TrainStep
from glassformer.training.step_acceleration import fastest_form, form_of
from glassformer.training.trainer import Callbacks, Trainer, TrainingState

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAY_CHANGE_ON_RESUME = (
    "about",
    "result",
    "data.path",  # the text itself must be the same: its sha256 is compared
    "data.validation",
    "data.test",
    "training.steps",
    "training.epochs",
    "training.log_every",
    "training.accumulate",
    "training.out_of_memory",
    "training.parallel",
    "evaluation.",
    "checkpoint.",
)
"""Keys that may differ when a run goes on: how long, how often it looks and saves, the number of micro-batches."""
FOLDER_APPEARS = 20.0
"""Seconds until a folder made on one machine is seen on another that shares the disk."""
SAMPLE_LOGGED, LOOK_LOGGED = 100, 32
"""Tokens of the text sample, and of the text with its attention maps, that a logger writes at every evaluation."""


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
    measure: bool = False,
    clock: Stopwatch | None = None,
    samples: int = 0,
    note: str | None = None,
    callbacks: Sequence[Callback | str] = (),
    watch: Watcher | None = None,
    processes: int | Literal["auto"] | Processes | None = None,
) -> Run:
    """Trains a recipe and returns its ``Run``. ``set`` changes recipe keys: ``{"model.width": 64}``; ``seed`` is one of them.

    ``source``: a recipe (built-in name, file, mapping), a text file (a small recipe is chosen and printed), or with ``resume``
    a run's folder. ``out``: default runs/NAME. ``resume``: continue from the last checkpoint; ``"or begin"`` starts where there
    is none. ``plugins``: files with variants of your own. ``callbacks``: objects of your class that extends ``Callback``, or
    names of loggers (tensorboard, wandb, csv). ``samples``: tokens to generate at every evaluation. ``note``: a sentence of
    yours, kept with the run. ``threads``: of torch. ``processes``: trains on so many processes of this machine (docs/scale.md);
    by default this one alone, or those that torchrun started. ``watch`` gets sentences and progress; by default they are
    printed to standard error. ``clock`` measures where the seconds go.

    A model that fails a check (sees later tokens, other rows, padding) is not trained; ``allow_leaks`` trains it, every figure
    marked tainted. With ``recheck`` false an earlier check of the same architecture and build is accepted; ``checked`` is the
    report of one. For studies: ``planned_flops`` of the whole study, so that compiling can pay; ``measure`` counts memory and
    FLOPs of a few steps while they are taken.

    ```python
    small = {"training.steps": 4, "model.layers": 1, "model.width": 16, "model.context": 16}
    run = gf.train("docstrings-char", set=small, out="runs/example")
    print(run)
    ```
    """
    clock = clock or Stopwatch()
    watch = usual_watcher() if watch is None else watch
    if isinstance(processes, int | str):
        number = number_of_processes(processes)
        if number > 1 and place_of() is None:
            own = [type(one).__name__ for one in (*callbacks, checked) if not isinstance(one, str | None)]
            if own:
                raise UsageError(
                    f"{own[0]} lives in this process, but processes={number} train elsewhere; drop it, and read the run when "
                    "it is done. Loggers by name (tensorboard, wandb, csv) work.",
                    reason="callback-in-processes",
                )
            load_plugins(plugins)
            changes = {**(set or {}), **({} if seed is None else {"seed": seed})}
            callbacks_of(callbacks)
            options = {"--processes": number, "--samples": samples or None, "--note": note}
            flags = {"--allow-leaks": allow_leaks, "--recheck": recheck}
            logs = [one for one in callbacks if isinstance(one, str)]
            return _train_in_children(source, changes, out, bool(resume), plugins, options, flags, logs, threads, watch)
    group = processes if isinstance(processes, Alone | Group) else join()
    watch = watch if group.leads else SILENT
    followers = callbacks_of(callbacks) if group.leads else []

    # The recipe, and the folder that the run goes to.
    with ending_together(group):
        load_plugins(plugins)
        place = group.once(lambda: folder_of(source, out, resume=bool(resume), watch=watch), pack=str, unpack=Path)
        recipe = load_recipe(source, {**(set or {}), **({} if seed is None else {"seed": seed})}, watch=watch)
        new = out is None and not resume

        def make_folder() -> Path:
            if resume is True and not place.exists():
                _refuse_to_resume_nothing(RunDirectory(place))
            made = place
            while new:  # several commands may have found the same name unused: each gets the folder that it makes
                try:
                    made.mkdir(parents=True)
                    break
                except FileExistsError:
                    if not made.exists():
                        raise
                    made = folder_of(source, out, resume=False, watch=watch)
            return made

        folder = RunDirectory(group.once(make_folder, pack=str, unpack=Path))

    lock = folder.lock(made=new) if group.leads else nullcontext()
    with ending_together(group), lock, StopSignal() as stop, _ending_recorded(folder, stop, clock, group):
        # Where the weights come from: the checkpoint of a resumed run, a parent, or the seed.
        _require_folder_seen(folder, group)
        recipe = group.once(
            lambda: _with_pieces(recipe, folder, group.place.world, resume=bool(resume)),
            pack=lambda one: one.training.pieces,
            unpack=lambda pieces: _in_pieces(recipe, pieces),
        )
        checkpoint = group.once(
            lambda: _checkpoint_to_resume(folder, recipe, resume=resume, watch=watch),
            pack=lambda one: None if one is None else one.step,
            unpack=lambda step: None if step is None else load_checkpoint(folder.checkpoint(step)),
        )
        parent = _parent(recipe, folder, plugins, allow_leaks, threads, watch, group) if checkpoint is None else None
        from_seed = checkpoint is None and parent is None
        recorded = group.once(  # of a resumed run
            lambda: folder.read_environment("data", "threads") if folder.environment_file.exists() else {}
        )

        # The machine. Another number of threads gives other bits, so a resumed run takes the number it began with.
        runtime = choose_runtime(
            device=recipe.training.device,
            precision=recipe.training.precision,
            threads=threads or recorded.get("threads") or _threads_for_pieces(recipe),
            place=group.place if group.place.world > 1 else None,
        )
        backend = group.connect(runtime.device) if isinstance(group, Group) else None

        # The data in tokens, by the run's own tokenizer if it has one. A resumed run refuses another text.
        def progress(what: str, done: int, total: int | None) -> None:
            stop.check()
            if total:
                watch.progress(what, done, total)

        with stop.at_once(), clock.phase("data"):
            tokenizer = tokenizer_for(recipe, folder)
            data = prepare_data(recipe, tokenizer, progress=progress, expect=recorded.get("data"))

        # The network, and the laws that the objective demands, tested on this very network.
        outputs, laws = recipe.objective.outputs(data), recipe.objective.laws
        if checkpoint is not None:
            network = restored_network(recipe, checkpoint, vocabulary=data.tokenizer.size, outputs=outputs)
        else:
            network, remark = starting_network(recipe, data, parent)
            if remark:
                watch.say(remark)
        network = network.to(runtime.device)
        with clock.phase("checks"):
            key = start_key(recipe, data, runtime) if from_seed and not recheck else None
            report = checked or group.once(
                lambda: require_network(network, laws=laws, runtime=runtime, key=key, allow_leaks=allow_leaks, watch=watch),
                pack=CheckReport.to_dict,
                unpack=CheckReport.from_dict,
            )

        # The step, in the fastest form that this machine and the length of the run (or of its study) allow; also tested.
        batches = network.training_batches(batches_of(recipe, data), recipe.seed)
        steps = number_of_steps(recipe, batches)
        if checkpoint is not None and checkpoint.step > steps:
            raise ConfigError(
                f"{folder.root} has already trained {checkpoint.step} steps, more than training.steps={steps}; give that many "
                "or more, or start a new run.",
                reason="fewer-steps-than-taken",
            )
        plain_step = training_step(recipe, network, runtime, group)
        optimizers, shards = plain_step.optimizers, plain_step.shards
        if checkpoint is not None:
            optimizers.load(checkpoint.optimizer)
        batches_on_device = batches.on(runtime.device)

        def first_batch() -> Batch:
            return batches_on_device.batch(0)

        with clock.phase("compile"):
            step = fastest_form(
                plain_step,
                steps,
                first_batch,
                before=recorded.get("step_form"),
                planned_flops=planned_flops,
                watch=watch,
                clock=clock,
            )
        with clock.phase("checks"):
            key = step_key(recipe, data, step) if from_seed and (checked is not None or not recheck) else None
            report = group.once(
                lambda: require_step(
                    report,
                    step,
                    first_batch,
                    laws=laws,
                    vocabulary=data.tokenizer.size,
                    key=key,
                    allow_leaks=allow_leaks,
                    watch=watch,
                ),
                pack=CheckReport.to_dict,
                unpack=CheckReport.from_dict,
            )
            last_good = 0 if checkpoint is None else checkpoint.step
            if group.place.world > 1 and last_good < steps:
                group.require_same(_facts_of(recipe, data, runtime, saved_tensors(network)))
                report = report.joined(require_processes(step, batches_on_device.batch(last_good), last_good, watch))

        # Everything fits. What an earlier process did beyond the checkpoint is removed; it is done again.
        log, metric = MetricsLog(folder.metrics_file), chosen_metric(recipe)

        if group.leads:
            discard_after(folder, last_good)
            for file in folder.files_after(last_good):
                file.unlink()
            log.cut_after(last_good, watch.say)

            # What the run is, written before its first step.
            if not folder.tokenizer_file.exists():
                data.tokenizer.save(folder.tokenizer_file)
            shared_by = list(recorded.get("processes", []))
            if backend is not None:
                shared_by.append(_shared_by(group, backend, plain_step, last_good))
            if not recorded:
                facts = {
                    **environment(runtime),
                    "recipe_fingerprint": recipe.fingerprint,
                    "data": data.record,
                    "folder": os.getcwd(),  # what relative paths of the recipe are relative to
                    "weight_decay": optimizers.decay_list(),
                    "metric": metric.to_dict(),
                    "outputs": outputs,
                    "num_outputs": network.dims.num_outputs,
                    "steps_per_epoch": batches.steps_per_epoch,
                    "overlap": _share_trained_on(data),
                    "ancestry": [] if parent is None else parent.ancestry(),
                    "step_form": form_of(step)._asdict(),
                    "checks": report.to_dict(),
                    "tainted": taint_of(report),
                    "pretrained": network.pretrained_source(),
                }
                folder.write_environment(facts | ({"processes": shared_by} if shared_by else {}))
            else:  # a resumed run may choose its best checkpoint by another metric, and its text may have moved
                places = {**recorded["data"].get("places", {}), **data.record.get("places", {})}
                renewed = {**recorded, "metric": metric.to_dict(), "data": {**recorded["data"], "places": places}}
                renewed |= {"processes": shared_by} if shared_by else {}
                if renewed != recorded:
                    folder.write_environment(renewed)
            folder.write_recipe(recipe.to_dict())  # last: a folder with a recipe is a run
            folder.write_state("running", step=0, steps=steps)
            if note is not None:
                folder.add_note(note)
        if checkpoint is not None and checkpoint.step >= steps:
            watch.say(f"All {steps} steps are done. To train longer, add --set training.steps=N.")
        for remark in (*runtime.notes, *data.notes, *getattr(batches, "notes", ())):
            watch.say(remark)

        # The loop. What it calls: records, checkpoints, evaluations.
        remarks: list[str] = []

        def say_once(sentence: str) -> None:
            if sentence not in remarks:
                remarks.append(sentence)
                watch.say(sentence)

        def record(values: dict[str, Any]) -> None:
            """Logs a record; after an evaluation, the objective says once what the records give cause to say."""
            if not group.leads:
                return
            values = {**values, "tainted": True} if taint_of(report) else values
            log.append(values)
            evaluated = any(name.startswith(VALIDATION) for name in values)
            for one in followers:
                if "loss" in values:
                    one.on_step(dict(values))
                elif evaluated:
                    one.on_evaluation(dict(values))
            if evaluated:
                remark = recipe.objective.remark(log.read(say_once), batches.steps_per_epoch)
                if remark is not None:
                    say_once(remark)

        gathered: dict[str, Tensor] | None = None

        def gather() -> None:
            """Where the network is cut over the processes, ``network`` becomes what they trained. Rank 0 may then look at it
            alone (samples, maps), so the averages are gathered here too."""
            nonlocal gathered
            if shards is not None:
                shards.gather()
                gathered = optimizers.averaged()

        def evaluate() -> dict[str, float]:
            gather()
            with optimizers.evaluating(network, gathered):
                return _validation(network, data, recipe, stop, group)

        def film(at: int) -> None:
            gather()
            with optimizers.evaluating(network, gathered):
                group.once(lambda: save_snapshot(folder, at, saved_tensors(network)))

        def on_save(written: Path) -> None:
            for one in followers:
                one.on_save(written)

        checkpoints = CheckpointWriter(folder, keep=recipe.checkpoint.keep, written=on_save)

        def save(state: TrainingState) -> None:
            gather()
            with optimizers.evaluating(network, gathered) as trained:
                tensors, memory = saved_tensors(network), {name: whole(one) for name, one in optimizers.tensors().items()}
                memory |= trained
                if group.place.world > 1:  # a device that miscalculates is named instead of saved
                    group.require_same({f"weights after step {state.step}": sum_of_bits({**tensors, **memory})})

                def write() -> None:
                    log.sync()
                    best = state.best_step if recipe.checkpoint.best else None
                    checkpoints.write(Checkpoint(state.step, tensors, memory, state.to_dict()), best=best)

                group.once(write)

        def sample(length: int) -> str | None:
            with optimizers.evaluating(network, gathered):
                return _sample(network, data, recipe, length)

        def maps() -> Figure | None:
            with optimizers.evaluating(network, gathered):
                return _attention_maps(this_run, network)

        def say_sample() -> None:
            text = sample(samples)
            if text is not None:
                watch.say(f"    {text}".replace("\n", " "))

        this_run = Run(folder)
        live = Training(
            this_run,
            last_good,
            steps,
            network,
            sample=lambda: sample(SAMPLE_LOGGED),
            attention=maps,
        )
        trainer = Trainer(
            step,
            batches_on_device,
            steps=steps,
            evaluation=recipe.evaluation,
            checkpoint=recipe.checkpoint,
            stop=stop,
            film_steps=film_steps(recipe.checkpoint.film, steps) if recipe.checkpoint.film else (),
            measure=measure,
            callbacks=Callbacks(
                evaluate=evaluate if recipe.evaluation.while_training and "validation" in data.names else None,
                record=record,
                save=save,
                evaluated=lambda at: group.once(lambda: say_sample()),
                recorded=lambda at: group.once(
                    lambda: next((r for r in log.read(say_once) if r["step"] == at and metric.recorded in r), None)
                ),
                film=film,
                metric=metric,
                watch=watch,
                clock=clock,
            ),
        )
        with following(followers, live), checkpoints:
            state = trainer.run(
                TrainingState() if checkpoint is None else TrainingState.from_dict(checkpoint.step, checkpoint.state)
            )

        # What a finished run leaves behind.
        def finish() -> None:
            with clock.phase("baselines"):
                save_baselines(folder, fitted_baselines(recipe.objective, data))
                beside = _baseline_values(folder, recipe, data, stop)
            folder.write_state("finished", step=state.step, steps=steps, best_step=state.best_step, baselines=beside)

        group.once(finish)
    if isinstance(group, Group) and group is not processes:  # a parent's training is followed by its child's
        group.leave()
    return Run(folder)


def _train_in_children(
    source: Source,
    changes: Mapping[str, Any],
    out: Path | str | None,
    resume: bool,
    plugins: Sequence[Path | str],
    options: Mapping[str, Any],
    flags: Mapping[str, bool],
    logs: Sequence[str],
    threads: int | None,
    watch: Watcher,
) -> Run:
    """The same training by ``glassformer train --processes N`` in a child; its sentences are handed on."""
    folder = folder_of(source, out, resume=resume, watch=watch)
    recipe = load_recipe(source, changes, watch=watch)
    if unknown := unrecorded_parts(recipe):
        raise UsageError(
            f"{unknown[0]} is defined in this notebook or script, which other processes do not have; put it into a file and "
            "give that as a plugin, or train with one process.",
            reason="class-of-a-notebook",
        )
    with tempfile.TemporaryDirectory(prefix="glassformer-") as place:
        file = Path(place) / "recipe.yaml"
        file.write_text(dump_yaml(recipe.to_dict()), encoding="utf-8")
        words = ["train", str(file), "--out", str(folder), *(["--resume"] if resume and folder.exists() else [])]
        words += [word for name, value in options.items() if value is not None for word in (name, str(value))]
        words += [name for name, value in flags.items() if value]
        words += [word for plugin in plugins for word in ("--plugin", str(plugin))]
        words += [word for name in logs for word in ("--log", name)]
        environ = {**os.environ, **({} if threads is None else {"OMP_NUM_THREADS": str(threads)}), WITH_PARENT: "1"}
        command = [sys.executable, "-m", "glassformer", *words]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        said: list[str] = []
        with StopSignal() as stop, subprocess.Popen(command, env=environ, text=True, start_new_session=True, **pipes) as child:
            assert child.stderr is not None
            assert child.stdin is not None
            reader = threading.Thread(target=lambda: said.extend(line.strip() for line in child.stderr or ()), daemon=True)
            reader.start()
            told = 0
            while reader.is_alive():
                reader.join(0.2)
                if stop.requested and not child.stdin.closed:
                    child.stdin.close()  # it saves and ends
                for line in said[told:]:
                    watch.say(line)
                    told += 1
    if stop.number is not None and child.returncode:
        raise Interrupted("Stopped; the last step is saved.", signal_number=stop.number)
    if child.returncode:
        last = next((line.removeprefix("Error: ") for line in reversed(said) if line.startswith("Error: ")), "no reason given")
        raise GlassformerError(last, reason="processes-failed")
    return Run(RunDirectory(folder))


def folder_of(source: Source, out: Path | str | None, *, resume: bool, watch: Watcher = SILENT) -> Path:
    """The run's folder: ``out``, or the run to resume, or runs/NAME, runs/NAME-2, ...: the first unused one, or, to resume,
    the last used one."""
    run = _run_of(source)
    if resume and run is not None:
        if out is not None and Path(out).resolve() != run.resolve():
            raise UsageError(
                f"{source} is the run to resume, but --out names another folder ({out}); drop --out.", reason="out-and-resume"
            )
        return run
    if run is not None and Path(str(source)).is_dir():
        raise UsageError(
            f"{source} is the folder of a run. To continue it, add --resume. To train its recipe again: glassformer train "
            f"{RunDirectory(run).recipe_file} --out NEW.",
            reason="source-is-a-run",
        )
    if out is not None:
        return Path(out)
    name = (run.resolve() if run is not None else Path(source)).stem if isinstance(source, str | Path) else "run"
    folder = first = Path("runs") / name
    numbers = itertools.count(2)
    while folder.exists():
        used, folder = folder, Path("runs") / f"{name}-{next(numbers)}"
    if resume and folder != first:
        folder = used
    if folder == first:
        return folder
    if resume:
        watch.say(f"The newest run of this recipe is {folder}.")
    else:
        watch.say(f"{first} exists, so this run goes to {folder}. To continue the old one: glassformer train {first} --resume.")
    return folder


def _run_of(source: Source) -> Path | None:
    """The run whose folder, or whose own recipe.yaml, ``source`` is."""
    if not isinstance(source, str | Path):
        return None
    place = Path(source)
    if RunDirectory(place).exists():
        return place
    inside = RunDirectory(place.parent)
    return inside.root if place == inside.recipe_file and inside.exists() and inside.state_file.exists() else None


def _refuse_to_resume_nothing(folder: RunDirectory) -> None:
    """A mistyped folder must not begin a run from zero."""
    beside = [run.root.name for run in find_runs(folder.root.parent)] if folder.root.parent.is_dir() else []
    raise RunError(
        f"{folder.root} does not exist, so there is nothing to resume.{did_you_mean(folder.root.name, beside)} "
        "Without --resume a new run begins there.",
        reason="nothing-to-resume",
    )


def _require_folder_seen(folder: RunDirectory, processes: Processes) -> None:
    """Refuses processes on a machine that does not see the run's folder: they could not read its checkpoints."""
    processes.once(lambda: None)  # rank 0 has made and locked it
    until = time.monotonic() + FOLDER_APPEARS
    while not folder.lock_file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    seen = folder.lock_file.exists()
    if processes.largest(int(not seen)) and seen:
        raise OtherProcessFailed("Another machine does not see the folder of this run.", code=RunError.exit_code)
    if not seen:
        raise RunError(
            f"{folder.root} is not seen on {platform.node()}, where process {processes.place.rank} runs; choose a folder that "
            "all machines share with --out.",
            reason="folder-not-shared",
        )


def _with_pieces(recipe: Recipe, folder: RunDirectory, world: int, *, resume: bool) -> Recipe:
    """The recipe with the number of pieces that its batches are cut into: its own, or that of the run that goes on, or as many
    as processes."""
    pieces = recipe.training.pieces
    begun = next((run for run in (folder, RunDirectory(folder.parent)) if resume and run.exists()), None)
    if pieces is None and begun is not None:
        pieces = begun.read_recipe()["training"].get("pieces")
    elif pieces is None and world > 1:
        pieces = world
    if world > 1 and (pieces is None or pieces % world):
        if begun is not None:
            cut = "whole batches" if pieces is None else f"training.pieces={pieces}"
            rule = f"{begun.root} was begun with {cut}, so {world} processes cannot share them"
            most = 1 if pieces is None else pieces
        else:
            rule, most = f"{world} processes cannot share training.pieces={pieces} evenly", pieces or 1
        raise ConfigError(
            f"{rule}; use {' or '.join(str(1 << n) for n in range(most.bit_length()))} with --processes.",
            reason="processes-do-not-divide-pieces",
        )
    return _in_pieces(recipe, pieces)


def _in_pieces(recipe: Recipe, pieces: int | None) -> Recipe:
    if pieces is not None and recipe.training.out_of_memory == "halve":
        raise ConfigError(
            "training.out_of_memory=halve does not go with training.pieces or several processes: other micro-batches would be "
            "other bits. Set training.accumulate instead.",
            reason="halve-with-pieces",
        )
    if pieces == recipe.training.pieces:
        return recipe
    training = type(recipe.training).parse({**dict(recipe.training), "pieces": pieces})
    return recipe.model_copy(update={"training": training})


def _threads_for_pieces(recipe: Recipe) -> int | None:
    """One, where batches are cut into pieces, unless the user says otherwise: another number of threads gives other bits, and
    the processes of a machine share its cores."""
    return 1 if recipe.training.pieces is not None and "OMP_NUM_THREADS" not in os.environ else None


def _facts_of(recipe: Recipe, data: PreparedData, runtime: Runtime, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """What must be equal in all processes of a run."""
    machine = environment(runtime)
    same = ("glassformer", "python", "torch", "precision", "threads", "device_name", "plugins")
    data_sums = {key: value for key, value in data.record.items() if key != "places"}
    return {
        "recipe": recipe.fingerprint,
        "code": code_sha256(),
        "data": fingerprint(data_sums),
        **{name: machine[name] for name in same},
        "weights": sum_of_bits(weights),
    }


def _shared_by(group: Processes, backend: str, step: TrainStep, first: int) -> dict[str, Any]:
    form = "ddp" if step.shards is None else "fsdp"
    return {"from_step": first, "processes": group.place.world, "nodes": group.place.nodes, "form": form, "backend": backend}


@contextmanager
def _ending_recorded(folder: RunDirectory, stop: StopSignal, clock: Stopwatch, processes: Processes = ALONE) -> Iterator[None]:
    """However the run ends, its folder says so, and says where the seconds of this process went once it took a step.

    Only of a run that this process began or resumed: the folder of a refused one stays as it was.
    """

    def ended(status: str, **facts: Any) -> None:
        state = folder.read_state() if processes.leads else {}
        if state.get("status") == "running" and state.get("pid") == os.getpid():
            with suppress(DiskFull):  # the error that ended the run is raised; a full disk cannot take more
                folder.write_state(status, step=max(folder.steps(), default=0), **facts)

    try:
        yield
    except StopRequested:
        assert stop.number is not None
        raise Interrupted("Stopped before the first step; nothing was lost.", signal_number=stop.number) from None
    except (Interrupted, KeyboardInterrupt):
        ended("stopped")
        raise
    except Diverged as error:
        ended("diverged", reason=str(error))
        raise
    except Exception as error:
        ended(
            "failed", reason="Another process of this run was lost." if is_lost(error) else fault_in_plugin(error) or str(error)
        )
        if is_out_of_memory(error):
            raise OutOfMemory(
                f"Out of memory ({str(error).splitlines()[0]}). Make model.width, model.layers, model.context, "
                "training.batch_size or evaluation.batch_size smaller; `train --dry-run` shows what a recipe needs.",
                reason="out-of-memory",
            ) from error
        raise
    finally:
        timing = clock.to_dict()
        if processes.leads and {"first step", "steps"} & timing["seconds"].keys():
            with suppress(DiskFull):
                folder.add_timing(timing)


def _same_file(before: Any, after: Any, folder: RunDirectory) -> bool:
    """Whether a path as the run's recipe has it and a path as it is given here lead to the same file."""
    if not isinstance(before, str) or not isinstance(after, str) or not Path(after).exists():
        return False
    return (folder.begun_in / before).resolve() == Path(after).resolve()


def _checkpoint_to_resume(
    folder: RunDirectory, recipe: Recipe, *, resume: bool | Literal["or begin"], watch: Watcher
) -> Checkpoint | None:
    """The newest whole checkpoint of a run to resume; None at a fresh start. Refuses a used folder and another recipe, and to
    start over because every checkpoint is damaged, unless ``resume`` says so."""
    if resume:
        folder.clear_unfinished()
    if not resume or not folder.exists():
        folder.refuse_if_used(resume=bool(resume))
        return None
    changed = [
        f"{key}: {before!r} -> {after!r}"
        for key, (before, after) in diff(Recipe.parse(folder.read_recipe()).to_dict(), recipe.to_dict()).items()
        if not key.startswith(MAY_CHANGE_ON_RESUME) and not _same_file(before, after, folder)
    ]
    if changed:
        raise ConfigError(
            f"{folder.root} cannot resume with another recipe ({'; '.join(changed[:3])}). Only how long it trains, how often "
            "it evaluates and what it keeps may change; start a new run for anything else. To continue it as it was: "
            f"glassformer train {folder.root} --resume.",
            reason="another-recipe",
        )
    other = changed_plugins(folder.read_environment().get("plugins", []))
    if other:
        raise ConfigError(
            f"{folder.root} was trained with another {' and '.join(other)} (its sha256 is recorded); put the file back as it "
            "was, or start a new run with --out.",
            reason="another-plugin",
        )
    checkpoint = newest_good(folder, watch.say)
    if checkpoint is None and folder.steps() and resume != "or begin":
        raise DamagedCheckpoint(
            f"Every checkpoint of {folder.root} is damaged, so nothing is left to continue. Copy one back; or, to train "
            f"it again from the first step, remove {folder.checkpoints} and give --resume again.",
            reason="all-checkpoints-damaged",
        )
    if checkpoint is None:
        watch.say(f"{folder.root} has no complete checkpoint: starting from the first step.")
    else:
        watch.say(f"Resuming from step {checkpoint.step}.")
    return checkpoint


def _parent(
    recipe: Recipe,
    folder: RunDirectory,
    plugins: Sequence[Path | str],
    allow_leaks: bool,
    threads: int | None,
    watch: Watcher,
    processes: Processes,
) -> Parent | None:
    """The run this one starts from. A recipe is trained first, in RUN/parent, and goes on where it was stopped."""
    if recipe.init_from is None:
        return None
    if is_run(recipe.init_from):
        return Parent.read(recipe.init_from, watch.say)
    parent = RunDirectory(folder.parent)
    if processes.once(lambda: not parent.exists() or parent.read_state()["status"] != "finished"):
        watch.say(f"Training the parent first: {recipe.init_from}, in {parent.root}.")
        first = parent_recipe(recipe)
        train(  # in the pieces of its child, so that both have the same bits on any number of processes
            first if first.training.pieces is not None else _in_pieces(first, recipe.training.pieces),
            out=parent.root,
            resume="or begin",
            plugins=plugins,
            allow_leaks=allow_leaks,
            threads=threads,
            watch=watch,
            processes=processes,
        )
    return Parent.read(parent.root, watch.say)


def _validation(
    network: Network, data: PreparedData, recipe: Recipe, stop: StopSignal, processes: Processes
) -> dict[str, float]:
    """The objective's judged metrics on the validation split, by their names in records."""
    rows = recipe.evaluation.batch_size or max(8, recipe.training.batch_size)

    def keep_going() -> None:
        """Between batches; all processes leave an evaluation at the same one."""
        stop.share(processes.largest(stop.number or 0))
        stop.check()

    alone = processes.place.world == 1
    tools = tools_for(
        recipe, data.tokenizer, batch_size=rows, keep_going=stop.check if alone else keep_going, shared=processes.shared
    )
    with evaluating(network):  # whatever an objective does itself: its figures are those of an evaluation, without dropout
        items = data.split("validation")
        found = recipe.objective.validation_metrics(network, items, tools)
        chosen = chosen_metric(recipe).name
        if chosen not in found:  # a metric that the cheap form leaves out, but that evaluation.by asks for
            value = recipe.objective.evaluate(network, data.split("validation"), tools).figures[chosen].value
            found = {**found, chosen: math.nan if value is None else value}
        sample = recipe.objective.training_sample(data.split("train"), recipe.objective.num_units(items, tools))
        trained = {} if sample is None else recipe.objective.validation_metrics(network, sample, tools)
    shown = {TRAIN + name: one for name, one in trained.items() if name not in (COLLAPSED_TO, SOURCE_GAIN)}
    return {VALIDATION + name: value for name, value in found.items()} | shown


def _share_trained_on(data: PreparedData) -> float | None:
    """The share of the validation split that stands in the training split too."""
    if "validation" not in data.names:
        return None
    about = {key: value for key, value in data.record.items() if key != "places"}
    key = [about, plugin_checksums(loaded_plugins())]
    return cached_value("overlaps", key, lambda: share_in_train(data.split("train"), data.split("validation")))


def _baseline_values(folder: RunDirectory, recipe: Recipe, data: PreparedData, stop: StopSignal) -> dict[str, float]:
    """The judged metric of each baseline on the validation split: a run's list and its diagnosis are read without torch."""
    if "validation" not in data.names:
        return {}
    tools, name = tools_for(recipe, data.tokenizer, keep_going=stop.check), chosen_metric(recipe).name
    fitted = saved_baselines(folder, recipe.objective, lambda: data)
    found = {one: baseline.evaluate(data.split("validation"), tools).figures.get(name) for one, baseline in fitted.items()}
    return {one: figure.value for one, figure in found.items() if figure is not None and figure.value is not None}


def _sample(network: Network, data: PreparedData, recipe: Recipe, tokens: int) -> str | None:
    """A few words of the model as it stands; changes nothing about the training. None of a model that writes no text."""
    if not tokens or "causality" not in recipe.objective.laws or recipe.objective.reads_source:
        return None
    training = network.training
    with torch.random.fork_rng(devices=[]):
        text = generate_texts(network.eval(), data.tokenizer, [""], seed=0, max_new_tokens=tokens, temperature=0.8)[0]
    network.train(training)
    return text.prompt + text.text


def _attention_maps(run: Run, network: Network) -> Figure | None:
    """All heads of the network in training, on the first validation text; None where it has no attention to show."""
    text = run.opening_text(LOOK_LOGGED)
    if text is None or getattr(network, "reads_source", False):
        return None
    look = run.look(text, model=network)
    return None if look.no_attention else look.figure()
