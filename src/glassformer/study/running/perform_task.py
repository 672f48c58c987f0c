"""A task of a study -> its answer, in any process: inspect a variant, run one trial, or time steps. All are plain values.

A trial finds its folder as a killed process left it, resumes from the last checkpoint, and ends with an evaluation beside the
weights. One thread, so that the numbers do not depend on how many run at once.
"""

from __future__ import annotations

import gc
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from glassformer.assembly import batches_of, prepare_data, starting_network, training_step
from glassformer.benchmark.measure import Program, measure, ratio, timed
from glassformer.checking.gate import check_start, require_network
from glassformer.checks.check_report import CheckReport
from glassformer.experiment import train
from glassformer.foundation.errors import (
    CheckFailed,
    ConfigError,
    DataError,
    DiskFull,
    Diverged,
    GlassformerError,
    Interrupted,
    MissingDependency,
    RunError,
    RunInUse,
    UsageError,
)
from glassformer.foundation.locks import locked
from glassformer.foundation.plugins import fault_in_plugin, load_plugins, replaced_functions
from glassformer.foundation.progress import SILENT
from glassformer.foundation.runtime import Runtime, choose_runtime, environment, is_cuda_fault
from glassformer.objectives.base import OBJECTIVES
from glassformer.recipe import Recipe
from glassformer.recipe_cost import plan_with
from glassformer.run import Run, load
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory, trial_lock
from glassformer.study.planning.plan import VALIDATION_SPLIT
from glassformer.study.planning.variant_costs import counted
from glassformer.study.running.executors.base import Task
from glassformer.study.running.executors.local import NEEDS_GPU
from glassformer.study.running.judged_evaluation import judge_run
from glassformer.study.running.parents import provide_parent
from glassformer.study.running.trial_facts import record_facts
from glassformer.study.running.trial_results import only_differs
from glassformer.study.running.trial_store import machine_of
from glassformer.study.trial_record import record_of
from glassformer.training.step_acceleration import fastest_form

# These are the same for every trial, or need the user: the study stops with them. Anything else is a failed trial.
STOPS_THE_STUDY = (ConfigError, UsageError, DataError, MissingDependency, DiskFull)


def perform(task: Task, *, own_process: bool = False) -> dict[str, Any]:
    """Does one task. Errors that a user can cause are not raised: the answer says how the task ended.

    ``own_process``: nothing but tasks runs in this process, so no other code can have changed a part, and checks that passed
    before are reused.
    """
    begun = time.perf_counter()
    if own_process and os.environ.get(NEEDS_GPU) and not torch.cuda.is_available():
        raise SystemExit("This process was given a GPU and does not see it.")
    kinds = {"inspect": _inspect, "trial": _trial, "speed": _speed}
    try:
        compiles = task.kind != "inspect" or not own_process  # an inspection leaves what the last trial has compiled
        with _process_settings(task.values), _compiled_for(task.program if own_process else "") if compiles else nullcontext():
            recheck = task.values.get("recheck", False) or not own_process
            answer = kinds[task.kind]({**task.values, "recheck": recheck})
    except Diverged as error:
        answer = {"status": "diverged", "reason": str(error)}
    except CheckFailed as error:
        answer = {"status": "leak", "reason": str(error), "before_training": False}
    except Interrupted as error:
        answer = {"status": "stopped", "reason": str(error), "signal": error.signal_number}
    except KeyboardInterrupt:
        answer = {"status": "stopped", "reason": "Stopped.", "signal": 2}
    except STOPS_THE_STUDY as error:
        everywhere = isinstance(error, DiskFull | MissingDependency)
        answer = {"status": "refused", "reason": str(error), "exit_code": error.exit_code, "everywhere": everywhere}
        answer["code"] = error.reason
    except Exception as error:
        if own_process and is_cuda_fault(error):
            raise SystemExit(f"{type(error).__name__}: {error}") from error  # nothing works on the GPU in this process any more
        named = fault_in_plugin(error) or f"{type(error).__name__}: {error}"
        named = str(error) if isinstance(error, GlassformerError) else named
        answer = {"status": "failed", "reason": named}
    return {**answer, "seconds": time.perf_counter() - begun}


@contextmanager
def _process_settings(values: dict[str, Any]) -> Iterator[None]:
    """One thread, the driver's folder and its plugins; afterwards everything is restored, and nothing left in memory."""
    threads, folder, cwd = torch.get_num_threads(), os.getcwd(), values["cwd"]
    if values.get("travels") and not Path(cwd).is_dir():  # a node with disks of its own
        cwd = tempfile.gettempdir()
    if not Path(cwd).is_dir():
        raise ConfigError(
            f"{cwd} is not visible from {platform.node()}; start the study in a folder that all nodes share.",
            reason="folder-not-shared",
        )
    try:
        os.chdir(cwd)
        torch.set_num_threads(1)
        load_plugins(values["plugins"])
        yield
    finally:
        torch.set_num_threads(threads)
        os.chdir(folder)
        if torch.cuda.is_available():  # on a CPU Python frees memory in its own time
            gc.collect()
            torch.cuda.empty_cache()  # other processes wait for this memory


_compiled: list[str] = []
"""The program of the last trial, whose compiled code is in memory."""


@contextmanager
def _compiled_for(program: str) -> Iterator[None]:
    """Keeps what torch compiles in memory for the next trial of the same program, and for no other one.

    A trial must have the bits of one in a fresh process. torch keeps a few shapes of a function only, after which it silently
    runs uncompiled; trials of one program have the same shapes. Other programs find kernels in torch's cache on disk.
    """
    if _compiled and _compiled != [program]:
        _forget_compiled()
    try:
        yield
    finally:
        if program:
            _compiled[:] = [program]
        else:
            _forget_compiled()


def _forget_compiled() -> None:
    _compiled.clear()
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


def _inspect(values: dict[str, Any]) -> dict[str, Any]:
    """Cost and checks of one variant, before anything is trained."""
    recipe = Recipe.parse(values["recipe"])
    data = prepare_data(recipe)
    cost = plan_with(recipe, data)
    runtime = choose_runtime(device=recipe.training.device, precision=recipe.training.precision, threads=1)
    judge = values.get("judge")
    laws = recipe.objective.laws | (frozenset() if judge is None else OBJECTIVES.parse(dict(judge)).laws)
    report = check_start(recipe, data, runtime, laws=laws, remember=not values["recheck"])
    found = counted(recipe, data, values.get("split", VALIDATION_SPLIT), cost)
    _require_own_code()
    return {
        "status": "finished",
        "check": report.to_dict(),
        "device": runtime.device.type,
        "machine": machine_of(environment(runtime)),
        **found,
    }


TIMED_STEPS = {"cuda": 50}
"""Steps of a round: some 0.1 s of the atlas's runs; elsewhere ten."""


def _speed(values: dict[str, Any]) -> dict[str, Any]:
    """Training steps of a variant and of its baseline in turns -> tokens per second of the first over the second, by round.
    Processes that share a machine prepare together and are timed one by one, by the lock of a file."""
    runtime = choose_runtime(device="auto", precision="auto", threads=1)
    programs = {name: _steps_to_time(values[name], runtime) for name in ("recipe", "baseline")}
    for program in programs.values():
        program()  # compiles, captures, warms up
    with locked(Path(values["lock"]), wait=True):
        rates = measure({name: timed(one, runtime.device) for name, one in programs.items()}, rounds=values["rounds"])
    return {"status": "finished", "speed": ratio(rates, "recipe", "baseline")}


def _steps_to_time(values: dict[str, Any], runtime: Runtime) -> Program:
    recipe = Recipe.parse(values)
    data = prepare_data(recipe)
    network = starting_network(recipe, data)[0].to(runtime.device)
    batches = network.training_batches(batches_of(recipe, data), recipe.seed).on(runtime.device)
    step = fastest_form(training_step(recipe, network, runtime), recipe.training.steps or 1, lambda: batches.batch(0))
    number, tokens = TIMED_STEPS.get(runtime.device.type, 10), recipe.training.batch_size * recipe.model.context

    def program() -> float:
        for at in range(number):
            step(batches.batch(at), at, 1e-3)
        return float(number * tokens)

    return program


def _trial(values: dict[str, Any]) -> dict[str, Any]:
    """Runs one trial in the study's folder; on a node that does not see it, in one of the node, and answers with a record."""
    if not values.get("travels") or StudyDirectory(Path(values["study"])).is_of_driver(values["travels"]):
        return _trial_here(values)
    place = Path(tempfile.gettempdir()) / f"glassformer-{values['travels']}"
    own = {"study": str(place), "folder": str(place / Path(values["folder"]).relative_to(values["study"]))}
    place.mkdir(parents=True, exist_ok=True)
    try:
        answer = _trial_here({**values, **own})
    except Diverged as error:
        return {"status": "diverged", "reason": str(error), "record": record_of(RunDirectory(Path(own["folder"])))}
    answer = {**answer, "record": record_of(RunDirectory(Path(own["folder"])))} if answer["status"] == "finished" else answer
    shutil.rmtree(own["folder"], ignore_errors=True)
    return answer


def _trial_here(values: dict[str, Any]) -> dict[str, Any]:
    folder = Path(values["folder"])
    if not Path(values["study"]).is_dir():
        raise ConfigError(
            f"{values['study']} is not visible from {platform.node()}; give --out a folder that all nodes share.",
            reason="folder-not-shared",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A process whose driver was killed may still be ending its step: wait for it rather than write beside it.
    with locked(trial_lock(folder), wait=True):
        try:
            trained, notes = _trained(values, RunDirectory(folder))
        except CheckFailed as error:  # the step, compiled or captured, is checked before the first one
            return {"status": "leak", "reason": str(error), "before_training": True, "only_differs": error.only_differs}
        # What is judged is the checkpoint and the plugins' code: nothing that this code remembers of the training.
        load_plugins(values["plugins"], again=True)
        run = load(trained.directory.root)
        try:
            # A tensor's class may bring functions of its own, but it is not judged by them.
            with torch._C.DisableTorchFunctionSubclass():
                _judge(run, values)
        except ValueError as error:
            if "JSON" not in str(error):
                raise
            reason = "a figure of its evaluation is not a finite number"
            run.directory.write_state("diverged", step=run.directory.steps()[-1], reason=reason)
            raise Diverged(reason) from error
    _require_own_code()
    before = {"before_training": run.tainted is not None, "only_differs": only_differs(run.directory)}
    return {"status": "finished", "notes": notes, **before}


def _judge(run: Run, values: dict[str, Any]) -> None:
    """Evaluates a trained run, by its own objective and by the one that judges all variants.

    What may refuse it comes before its evaluation, by which a trial counts as finished: a kill in between skips nothing. The
    untrained network takes as long as the trained one and is the weakest of the trivial baselines, so it is measured for the
    first seed alone, unless there are no others.
    """
    split, whole = values["split"], values["check_trained"]
    judge = run.recipe.objective if values.get("judge") is None else OBJECTIVES.parse(dict(values["judge"]))
    if whole and values.get("judge") is not None:  # what its own objective permits, the judge's may not
        require_network(run.model_at("last"), laws=judge.laws, allow_leaks=values["allow_leaks"])
    record_facts(run, judge, split, whole=whole and not values["allow_leaks"])
    checked, untrained = _checked(values, trained=True), whole or not judge.baselines
    run.evaluation(split, allow_leaks=values["allow_leaks"], checked=checked, untrained=untrained)
    if values.get("judge") is not None:
        judge_run(run, judge, split, untrained=untrained)


def _require_own_code() -> None:
    """Raises where a plugin has replaced a function that figures are made of: no figure of this process can be trusted."""
    if replaced := replaced_functions():
        raise ConfigError(
            f"{replaced[0]}; figures made by changed code cannot be compared. Give the plugin a part of its own instead.",
            reason="replaced-code",
        )


def _trained(values: dict[str, Any], directory: RunDirectory) -> tuple[Run, list[str]]:
    """The trained run, and notes for the user: a folder that cannot be resumed is set aside, and the trial begins again."""
    directory.clear_unfinished()
    begun = directory.root.exists() and any(directory.root.iterdir())
    try:
        return resume_or_train(values, directory), []
    except (RunError, ConfigError, DataError) as error:
        if not begun or isinstance(error, DiskFull | RunInUse):
            raise
        place = StudyDirectory(Path(values["study"])).set_aside(directory.root)
        return resume_or_train(values, directory), [f"{error} The trial is run again; the old files are in {place}."]


def resume_or_train(values: dict[str, Any], directory: RunDirectory) -> Run:
    if directory.exists() and directory.read_state()["status"] == "finished":
        return load(directory.root)
    recipe = Recipe.parse(values["recipe"])
    if values["store"]:
        provide_parent(recipe, directory, allow_leaks=values["allow_leaks"])
    several = values.get("processes", 1) > 1  # which this one starts; they check the model themselves
    try:
        return train(
            recipe,
            out=directory.root,
            resume="or begin",
            threads=1,
            allow_leaks=values["allow_leaks"],
            checked=None if several else _checked(values, trained=False),
            recheck=values["recheck"] or not several,
            planned_flops=values["planned_flops"],
            measure=True,
            processes=values["processes"] if several else None,
            plugins=values["plugins"] if several else (),
            watch=SILENT,
        )
    except GlassformerError as error:  # of several processes it is a sentence only, so the state says if the run diverged
        if several and directory.exists() and directory.read_state()["status"] == "diverged":
            raise Diverged(str(error)) from error
        raise


def _checked(values: dict[str, Any], *, trained: bool) -> CheckReport | None:
    """The variant's report, if it passed: every seed has the same architecture. None where the model must be checked.

    A part can hide a leak behind weights that begin at zero, so the first seed's model is checked again after training.
    """
    if values["check"] is None or (trained and values["check_trained"]):
        return None
    return CheckReport.from_dict(values["check"])
