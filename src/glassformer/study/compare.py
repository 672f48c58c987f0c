"""``compare``: a recipe and its changes, a plan, or a study that was begun -> verdicts.

The arguments become a ``PlannedStudy`` (``study/planning/planned_study.py``); ``run_study`` runs it where ``Execution`` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import Watcher, usual_watcher
from glassformer.foundation.registry import variants_of
from glassformer.recipe import Recipe, Source
from glassformer.runs.callbacks import Callback, callbacks_of
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.planned_study import PlannedStudy, plan_studies, rate_of_sizes
from glassformer.study.running.execution import Baseline, Execution, On, inline_executor, make_executor
from glassformer.study.running.study_runner import StudyRunner
from glassformer.study.several_studies import SetStudy, SizeStudy
from glassformer.study.study import Study


def compare(
    source: Source | StudyPlan | None,
    vary: Mapping[str, Sequence[Any]] | Sequence[str] | None = None,
    *,
    cross: bool = False,
    set: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    first_seed: int | None = None,
    looks: Sequence[int] | None = None,
    max_seeds: int | None = None,
    metric: str | None = None,
    margin: float | None = None,
    planned_effect: float | None = None,
    match: str | None = None,
    equal: Sequence[str] | None = None,
    tune: Mapping[str, Any] | None = None,
    budget_hours: float | None = None,
    allow_leaks: bool | None = None,
    out: Path | str | None = None,
    on: On = "local",
    jobs: int | None = None,
    address: str | None = None,
    gpus_per_trial: float | None = None,
    processes: int | None = None,
    partition: str | None = None,
    hours_per_trial: float = 4.0,
    minutes: float | None = None,
    plugins: Sequence[Path | str] = (),
    store: bool = True,
    confirm: Path | str | None = None,
    baseline: Baseline = "paired",
    callbacks: Sequence[Callback | str] = (),
    watch: Watcher | None = None,
) -> Study:
    """Runs a study and returns it as a ``Study`` with a verdict for each change. The same call continues a stopped study.

    ``source``: a recipe, with its changes in ``vary`` (``{"model.positions": ["alibi"]}``); or a plan (a file, a built-in
    name, an object); or the folder of a study, to continue it. ``cross``: every combination of the values, not single changes.
    ``set``: keys that are set in every variant. ``out``: default studies/NAME.

    None means what the plan says, or the default: 8 ``seeds`` from ``first_seed`` 0, the objective's first ``metric``, a
    ``margin`` (the smallest difference that matters) of .01 for a loss. ``looks`` or ``max_seeds``: interim analyses, so that a
    clear change needs fewer seeds. ``planned_effect``: the difference you expect, for the number of seeds it needs. ``match``:
    adapt the feed-forwards to equal parameters or flops; ``equal``: refuse changes that differ in these. ``tune``: a grid
    searched for each variant first (``{"training.lr": [1e-3, 3e-3]}``). ``budget_hours``: of training, over all trials.
    ``allow_leaks``: also train what fails a check, tainted.

    ``on``: ``local`` (``jobs`` worker processes), ``ray`` (a cluster at ``address``), ``slurm`` (jobs of at most
    ``hours_per_trial`` in ``partition``), ``inline`` (this process). ``minutes``: of the clock; then no trial is started.
    ``processes`` and ``gpus_per_trial``: of one trial. ``store``: reuse trials of earlier studies and store new ones.
    ``baseline``: ``paired`` compares seed by seed, ``bank`` with 32 or more stored runs of the baseline. ``confirm``: a study
    whose winner is tested once more, with new seeds on the test split. ``plugins``: files with variants of your own.
    ``callbacks``: objects of your class that extends ``Callback``, or names of loggers (tensorboard, wandb, csv); they hear of
    every finished trial, in this process. ``watch`` gets sentences and progress; by default they are printed to standard error.

    ```python
    small = {"training.steps": 4, "model.layers": 1, "model.width": 16, "model.context": 16}
    study = gf.compare("docstrings-char", {"model.norm": ["rms"]}, set=small, seeds=2, on="inline", out="studies/example")
    print(study)
    ```
    """
    load_plugins(plugins)
    how = Execution(
        on=on,
        jobs=jobs,
        address=address,
        gpus_per_trial=gpus_per_trial,
        processes_per_trial=processes,
        partition=partition,
        hours_per_trial=hours_per_trial,
        minutes=minutes,
        store=store,
        baseline=baseline,
        plugins=plugins,
        callbacks=callbacks,
        watch=usual_watcher() if watch is None else watch,
    )
    settings = {
        "seeds": seeds,
        "first_seed": first_seed,
        "looks": None if looks is None else list(looks),
        "max_seeds": max_seeds,
        "metric": metric,
        "margin": margin,
        "planned_effect": planned_effect,
        "match": match,
        "equal": None if equal is None else list(equal),
        "tune": None if tune is None else dict(tune),
        "budget_hours": budget_hours,
        "allow_leaks": allow_leaks,
    }
    planned, *more = plan_studies(
        source, vary, confirm=confirm, cross=cross, set=set, settings=settings, out=out, pieces=how.processes
    )
    if more:
        raise UsageError(
            f"{source} has several bases or sizes, so it makes several studies; run it with `glassformer compare`.",
            reason="several-bases",
        )
    return run_study(planned, how)


def run_study(planned: PlannedStudy, how: Execution) -> Study:
    """Begins or continues the study in its folder, which is this process's alone for the time."""
    directory, resolve, watch = planned.directory, planned.resolve, how.watch
    notebook_classes = variants_of("__main__") if how.on == "local" else []
    inline = how.on == "inline" or bool(notebook_classes)
    callbacks = callbacks_of(how.callbacks)
    with directory.alone():
        begins = not directory.exists()
        plan, notes = directory.begin(planned.plan, resolve)
        if notebook_classes:
            notes.insert(
                0,
                f"{', '.join(notebook_classes)}: defined in this notebook or program, and known to this process alone, so the "
                "trials run in it, one after the other. To run several at once, put the class into a file and give "
                "plugins=[file].",
            )
        for note in (*planned.notes, *notes):
            watch.say(note)
        watch.say(f"Study: {directory.root}. {plan.power_sentence()}")
        try:
            recipe = Recipe.parse(resolve(plan.set))
            executor = inline_executor if inline else lambda: make_executor(how, plan, recipe, directory)
            study = StudyRunner(plan, directory, resolve, executor, replace(how, callbacks=callbacks)).run()
        except GlassformerError:
            if begins:  # a study that fails at its beginning leaves nothing
                directory.forget_beginning()
            raise
    for one in callbacks:
        one.on_study(study)
    return study


def run_sets(planned: Sequence[PlannedStudy], how: Execution) -> SetStudy:
    """The same changes on several sets: a study on each, in a folder of its own, and verdicts over all of them."""
    folder = planned[0].directory.root.parent
    SetStudy.begin(folder, [one.directory.root.name for one in planned])
    found = SetStudy(folder, {one.directory.root.name: run_study(one, how.at_its_turn()) for one in planned})
    found.write()
    return found


def run_sizes(planned: Sequence[PlannedStudy], how: Execution) -> SizeStudy:
    """The same changes at several sizes: a study at each, in a folder of its own, and the trend of each gain."""
    folder, names, rate = planned[0].directory.root.parent, [str(one.size) for one in planned], rate_of_sizes(planned)
    SizeStudy.begin(folder, names, rate=rate)
    found = SizeStudy(folder, {name: run_study(one, how.at_its_turn()) for name, one in zip(names, planned)}, rate)
    found.write()
    return found


def run_planned(planned: Sequence[PlannedStudy], how: Execution) -> list[Study | SetStudy | SizeStudy]:
    """Whatever ``plan_studies`` gave: one study, sets, sizes, or sizes on each of several sets."""
    if len(planned) == 1:
        return [run_study(planned[0], how)]
    if planned[0].size is None:
        return [run_sets(planned, how)]
    by_set: dict[Path, list[PlannedStudy]] = {}
    for one in planned:
        by_set.setdefault(one.directory.root.parent, []).append(one)
    for own in by_set.values():
        rate_of_sizes(own)  # refuses before the first run
    return [run_sizes(own, how) for own in by_set.values()]
