"""``glassformer train``: a recipe -> a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glassformer.cli.console import SETTINGS, out, print_json, print_table, say, watching
from glassformer.cli.options import AllowLeaks, Json, Log, Plugin, RecipeArgument, Set, changes_of
from glassformer.foundation.errors import UsageError
from glassformer.foundation.plugins import plugin_flags
from glassformer.foundation.process_rank import Place, place_of

if TYPE_CHECKING:
    from glassformer.run import Run


def command(
    recipe: RecipeArgument,
    set_: Set = None,
    out_: Annotated[Path | None, Option("--out", metavar="RUN", help="Default: runs/NAME, or NAME-2 if that exists.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on from the last checkpoint (more: --set training.steps=N).")] = False,
    seed: Annotated[int | None, Option(help="Use this seed instead of the recipe's.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print parameters, FLOPs, memory and time; train nothing.")] = False,
    samples: Annotated[int, Option(metavar="N", min=0, help="Generate and show N tokens at every evaluation.")] = 0,
    note: Annotated[str | None, Option(metavar="TEXT", help="Store a remark in the run; `glassformer runs` shows it.")] = None,
    processes: Annotated[str | None, Option(metavar="N|auto", help="Train on N processes; auto: one per GPU or core.")] = None,
    nodes: Annotated[int | None, Option(metavar="M", min=1, help="With --dry-run: machines that N processes are on.")] = None,
    gpu: Annotated[str | None, Option(metavar="KIND", help="With --dry-run: for this GPU (a100, h100, h200, ...).")] = None,
    log: Log = None,
    plugin: Plugin = None,
    allow_leaks: AllowLeaks = False,
    recheck: Annotated[
        bool, Option("--recheck", help="Check again even if this architecture and build passed before.")
    ] = False,
    timing: Annotated[bool, Option("--timing", help="Print how long each phase took.")] = False,
    json: Json = False,
) -> None:
    """Train a model from a recipe, or from your own text.

    For your own file a small recipe is chosen: a language model, or for a table with labels (--set
    data.label_column=NAME) a classifier. With --resume, RECIPE may be a run's folder.
    """
    changes = changes_of(set_)
    if dry_run:
        _print_cost(recipe, changes, seed, plugin or [], json, processes, nodes, gpu)
        return
    if nodes is not None or gpu is not None:
        raise UsageError(
            "--nodes and --gpu plan a run and need --dry-run; several machines are started with torchrun (docs/scale.md).",
            reason="plan-without-dry-run",
        )
    place = place_of()
    if processes is not None and _launched(processes, place):
        return
    with watching() as watch:
        from glassformer.experiment import train
        from glassformer.foundation.stopwatch import Stopwatch

        clock = Stopwatch(from_process_start=True)
        run = train(
            recipe,
            set=changes,
            out=out_,
            resume=resume,
            seed=seed,
            plugins=plugin or (),
            allow_leaks=allow_leaks,
            samples=samples,
            note=note,
            recheck=recheck,
            clock=clock,
            callbacks=log or (),
            watch=watch,
        )
    if place is not None and place.rank:
        return
    if timing:  # on standard error: it is no part of the result
        spent = run.directory.timings()[-1]
        for name, seconds in spent["seconds"].items():
            say(f"{name:<12} {seconds:8.2f} s  {spent['cpu'][name]:8.2f} s of CPU time")
        say(f"{'all':<12} {spent['whole']['seconds']:8.2f} s  {spent['whole']['cpu']:8.2f} s of CPU time")
    if json:
        print_json({**run.summary(), "diagnosis": [one.to_dict() for one in run.diagnosis()]})
    else:
        _print_result(run)


def _launched(processes: str, place: Place | None) -> bool:
    """Starts this same command in several processes and waits for them; False where this is one of them, or the only one."""
    from glassformer.training.parallel.launch import launch, number_of_processes

    number = number_of_processes(processes)
    if place is not None:
        if number != place.world:
            raise UsageError(
                f"--processes {processes} is given, but torchrun started {place.world} processes; drop --processes.",
                reason="processes-twice",
            )
        return False
    if number == 1:
        return False
    launch(SETTINGS.words, number)
    return True


def _print_result(run: Run) -> None:
    """Where the run is, its last validation figure beside the best baseline, and what one may do with it."""
    from glassformer.runs.overview import best_baseline

    summary = run.summary()
    metric = run.recipe.objective.metric(summary["metric"])
    value = summary[metric.recorded]
    out().print(f"Run: {run.folder}")
    if value is not None:
        beside = best_baseline(run.directory.read_state().get("baselines"), metric)
        than = f" The best baseline, {beside['name']}, has {beside['value']:.4f}." if beside else ""
        mark = f" TAINTED: {run.tainted}" if run.tainted else ""
        out().print(f"Validation {metric.name} {value:.4f} {metric.unit} at step {summary['step']}.{than}{mark}")
    for finding in run.diagnosis():
        out().print(f"{'Warning' if finding.tone == 'warning' else 'Note'} [{finding.code}]: {finding}")
    words = shlex.quote(str(run.folder)) + plugin_flags()
    say(f"Next: glassformer evaluate {words}   glassformer {_way_to_talk(run, words)}   glassformer report {words}")


def _way_to_talk(run: Any, words: str) -> str:
    """The verb by which this run says something: an answer or a label, a text, or what it is inside."""
    argument = "QUESTION" if run.recipe.objective.ask_reads == "questions" else "TEXT"
    if run.recipe.objective.ask_reads == "pairs":
        return f"translate {words} {argument}"
    if run.recipe.objective.answers_questions:
        return f"ask {words} {argument}"
    return f"generate {words}" if run.recipe.model.causal else f"look {words} TEXT"


def _print_cost(
    recipe: str,
    changes: dict[str, Any],
    seed: int | None,
    plugins: list[Path],
    json: bool,
    processes: str | None,
    nodes: int | None,
    gpu: str | None,
) -> None:
    with watching() as watch:
        from glassformer.recipe import is_run
        from glassformer.recipe_cost import plan as plan_of
        from glassformer.recipe_cost import scale_rows

        if is_run(recipe):
            say(f"{recipe} is a run; this is the cost of training its recipe.")
        scaled = processes is not None or nodes is not None or gpu is not None
        plan = plan_of(recipe, set=changes, seed=seed, plugins=plugins, timed=not scaled, watch=watch)
    plans = []
    if scaled:
        from glassformer.training.parallel.launch import number_of_processes
        from glassformer.training.parallel.scale_estimate import LAUNCHED_IN

        plans = plan.on(number_of_processes(processes or "auto"), nodes=nodes or 1, gpu=gpu or "h100")
    if json:
        print_json(plan.to_dict() | ({"processes": [one.to_dict() for one in plans]} if plans else {}))
        return
    header, *rows = plan.parts()
    print_table("Cost by part", header, rows)
    print_table("The run", ["", ""], [[name, value] for name, value in plan.facts()])
    if plans:
        one, of_nodes = plans[0], f" on {plans[0].nodes} nodes" if plans[0].nodes > 1 else ""
        title = f"On {one.processes} processes{of_nodes}, {one.gpu} (calculated, not measured)"
        print_table(title, ["", *(each.form for each in plans)], scale_rows(plans, plan.cost.parameters, plan.step_tokens))
        if one.compute_seconds[1] < LAUNCHED_IN:
            say(
                "A step this small is limited by launching its kernels, which this plan leaves out: expect milliseconds a step."
            )
    decays, others = len(plan.decay["decays"]), len(plan.decay["does not decay"])
    out().print(f"Weight decay acts on {decays} of {decays + others} tensors; --json names them.")
