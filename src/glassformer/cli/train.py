"""``glassformer train``: a recipe -> a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.console import out, print_json, print_table, say, watching
from glassformer.cli.options import AllowLeaks, Json, Plugin, RecipeArgument, Set, changes_of


def command(
    recipe: RecipeArgument,
    set_: Set = None,
    out_: Annotated[Path | None, typer.Option("--out", metavar="RUN", help="The run's folder (runs/NAME unless told).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint, also to more steps.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Replaces the recipe's seed.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would cost, by part; train nothing.")] = False,
    plugin: Plugin = None,
    allow_leaks: AllowLeaks = False,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Check the laws although this very architecture and build passed before.")
    ] = False,
    timing: Annotated[bool, typer.Option("--timing", help="Print where the seconds went.")] = False,
    json: Json = False,
) -> None:
    """Train a model from a recipe. The run's folder can be resumed, evaluated and talked to."""
    changes = changes_of(set_)
    if dry_run:
        with watching() as watch:
            from glassformer.planning import plan as plan_of

            plan = plan_of(recipe, set=changes, seed=seed, plugins=plugin or (), watch=watch)
        print_json(plan.plain()) if json else _print_plan(plan)
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
            recheck=recheck,
            clock=clock,
            watch=watch,
        )
    summary = run.summary()
    if timing:
        _print_timing(run.directory.timings()[-1])
    if json:
        print_json(summary)
        return
    metric = run.recipe.objective.metric(summary["metric"])
    value = summary[metric.recorded]
    out().print(f"Run: {run.folder}", markup=False)
    if value is not None:
        mark = f" TAINTED: {run.tainted}" if run.tainted else ""
        out().print(f"Validation {metric.name} {value:.4f} {metric.unit} at step {summary['step']}.{mark}", markup=False)
    talk = "generate" if run.recipe.model.causal else "ask"
    say(f"Next: glassformer evaluate {run.folder}   glassformer {talk} {run.folder}   glassformer report {run.folder}")


def _print_timing(timing: dict[str, Any]) -> None:
    """On standard error: it is no part of the result."""
    for name, seconds in timing["seconds"].items():
        say(f"{name:<12} {seconds:8.2f} s  {timing['cpu'][name]:8.2f} s of the processor")
    whole = timing["whole"]
    say(f"{'all':<12} {whole['seconds']:8.2f} s  {whole['cpu']:8.2f} s of the processor")


def _print_plan(plan: object) -> None:
    from glassformer.planning import Plan

    assert isinstance(plan, Plan)
    rows = [[part.name, str(part.copies), f"{part.parameters:,}", f"{part.forward_flops:,}"] for part in plan.cost.parts]
    rows.append(["all", "", f"{plan.cost.parameters:,}", f"{plan.cost.forward_flops:,}"])
    print_table("Cost by part", ["part", "copies", "parameters", "FLOPs forward, one step"], rows)
    facts = [[name, value] for name, value in plan.facts()]
    print_table("", ["of one training step", ""], facts)
    print_table("", ["weight decay", "parameters"], [[name, str(len(names))] for name, names in plan.decay.items()])
    for name in plan.decay["decays"]:
        out().print(f"  decays: {name}", markup=False)
