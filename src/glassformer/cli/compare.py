"""``glassformer compare``: a recipe and changes, or a plan -> a verdict per change."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.console import out, print_json, say
from glassformer.cli.live_table import watching_a_study
from glassformer.cli.options import Json, Log, Plugin, Set, changes_of
from glassformer.foundation.errors import UsageError
from glassformer.foundation.plugins import load_plugins, plugin_flags
from glassformer.study.running.executors.local import PER_GPU

if TYPE_CHECKING:
    from glassformer.study.compare import Execution
    from glassformer.study.planning.planned_study import PlannedStudy  # imported late when it runs: it imports torch


def command(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE|PLAN|STUDY", help="A recipe (with --vary), a plan (file or name), or a study's folder to continue."
        ),
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(metavar="KEY=A,B", help="Values to compare with the recipe's own. Repeatable.")
    ] = None,
    cross: Annotated[
        bool, typer.Option("--cross", help="Test all combinations of several --vary, not single changes.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Runs per variant; default 8, at least 6 for a verdict.")
    ] = None,
    first_seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="First seed to use, for a second study with new seeds.")
    ] = None,
    looks: Annotated[
        str | None, typer.Option(metavar="N,N", help="Interim analyses at these numbers of seeds; stop when decided.")
    ] = None,
    max_seeds: Annotated[int | None, typer.Option(metavar="N", help="Plan interim analyses up to N seeds.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric to judge by: loss, or bits_per_byte if tokenizers differ.")] = None,
    margin: Annotated[float | None, typer.Option(help="Smallest difference that matters to you; default 0.01 (loss).")] = None,
    effect: Annotated[
        float | None, typer.Option(help="Difference you expect, for the printed number of seeds it needs.")
    ] = None,
    match: Annotated[
        Literal["parameters", "flops"] | None,
        typer.Option(help="Adjust each variant's feed-forward width so that all have equal parameters or FLOPs."),
    ] = None,
    equal: Annotated[
        list[str] | None, typer.Option(help="Refuse changes that differ in parameters, flops, tokens or time. Repeatable.")
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="Grid search for each variant before the study, e.g. training.lr=1e-3,3e-3."),
    ] = None,
    tune_tries: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="Random search instead: draw N points of --tune; values may be ranges."),
    ] = None,
    tune_seeds: Annotated[int, typer.Option(min=1, help="Seeds used for --tune only.")] = 4,
    budget_hours: Annotated[float | None, typer.Option(help="Limit on compute hours, summed over all runs.")] = None,
    on: Annotated[
        Literal["local", "ray", "slurm", "inline"],
        typer.Option(help="local: worker processes; ray: a Ray cluster; slurm: jobs; inline: one by one in this process."),
    ] = "local",
    address: Annotated[str | None, typer.Option(metavar="A", help="Address of a running Ray cluster, or auto.")] = None,
    gpus_per_trial: Annotated[
        float | None, typer.Option(metavar="N", help="GPUs of one run; with --on ray also a fraction, e.g. 0.25.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(metavar="N", help="Train each run on N processes; by default one for each of its GPUs.")
    ] = None,
    partition: Annotated[str | None, typer.Option(help="With --on slurm: where the jobs go.")] = None,
    time_: Annotated[float, typer.Option("--time", metavar="HOURS", help="With --on slurm: the limit of one run.")] = 4.0,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Stop by the clock, between runs; the same command continues.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help=f"Parallel runs; default one per core, {PER_GPU} per GPU.")
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="STUDY", help="Folder for the study; default studies/NAME.")
    ] = None,
    set_: Set = None,
    allow_leaks: Annotated[
        bool, typer.Option("--allow-leaks", help="Also train variants that fail a check; they are marked tainted.")
    ] = False,
    log: Log = None,
    plugin: Plugin = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the time it takes and the smallest difference it can find; train nothing.")
    ] = False,
    gpu: Annotated[
        str | None, typer.Option(metavar="KIND", help="With --dry-run: GPU hours on a100, h100, h200, b200, l40s or rtx4090.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --dry-run --gpu: draw how cost grows with seeds, sizes, changes.")
    ] = None,
    baseline: Annotated[
        Literal["paired", "bank"],
        typer.Option(help="paired: compare seed by seed; bank: compare with 32 or more stored baseline runs."),
    ] = "paired",
    store: Annotated[
        bool,
        typer.Option(
            "--store/--no-store", help="Reuse finished trials and passed checks of earlier studies, and store new ones."
        ),
    ] = True,
    confirm: Annotated[
        Path | None,
        typer.Option(metavar="STUDY", help="Test the winner of this study again, with new seeds, on the test split."),
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option(metavar="RECIPE", help="Test the same changes on this recipe too. Repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare changes to a recipe; get a verdict for each. All are trained with the same seeds.

    The verdict is better, worse, same, not decided or invalid. You can stop at any time; the same command continues.
    """
    if also and (confirm is not None or recipe is None or dry_run):
        raise UsageError(
            "--also adds a set to a RECIPE with --vary and cannot be combined with --confirm or --dry-run; drop one.",
            reason="also-misplaced",
        )
    settings = {
        "seeds": seeds,
        "first_seed": first_seed,
        "looks": None if looks is None else _numbers(looks),
        "max_seeds": max_seeds,
        "metric": metric,
        "margin": margin,
        "planned_effect": effect,
        "match": match,
        "equal": equal,
        "tune": _grid(tune, tune_tries, tune_seeds),
        "budget_hours": budget_hours,
        "allow_leaks": allow_leaks or None,
    }
    with watching_a_study() as watch:
        from glassformer.study.compare import Execution, run_planned
        from glassformer.study.planning.planned_study import plan_studies

        load_plugins(plugin or ())
        how = Execution(
            on=on,
            jobs=jobs,
            address=address,
            gpus_per_trial=gpus_per_trial,
            processes_per_trial=processes,
            partition=partition,
            hours_per_trial=time_,
            minutes=minutes,
            store=store,
            baseline=baseline,
            plugins=plugin or (),
            callbacks=log or (),
            watch=watch,
        )
        planned = plan_studies(
            recipe,
            vary,
            also=also or (),
            confirm=confirm,
            cross=cross,
            set=changes_of(set_),
            settings=settings,
            out=out_,
            pieces=how.processes,
        )
        if dry_run:
            _print_estimate(planned, how, gpu, picture, json)
            return
        studies = run_planned(planned, how)
        pages = [study.report() for study in studies]
    if json:
        documents = [{**study.to_dict(), "report": str(page)} for study, page in zip(studies, pages)]
        print_json(documents[0] if len(documents) == 1 else {"studies": documents})
        return
    for study, page in zip(studies, pages):
        out().print(str(study), markup=False)
        folder = shlex.quote(str(study.folder)) + plugin_flags()
        out().print(f"\nReport: {page.resolve()}", markup=False)
        say(f"To rewrite the report: glassformer report {folder}.")


def _print_estimate(planned: Sequence[PlannedStudy], how: Execution, gpu: str | None, picture: Path | None, json: bool) -> None:
    """The cost of what was planned: on this machine, or with ``gpu`` (always so on a cluster) in GPU hours."""
    from glassformer.figures.save import save_figure
    from glassformer.study.planning.dry_run import ClusterEstimate, StudyEstimate, estimate_cluster, estimate_study

    found: StudyEstimate | ClusterEstimate
    if gpu is not None or how.on in ("ray", "slurm") or len(planned) > 1 or picture is not None:
        share = how.gpus_per_trial or float(how.processes)
        found = estimate_cluster(planned, gpu or "h100", gpus_per_trial=share, processes=how.processes, jobs=how.jobs)
        if picture is not None:
            save_figure(found.figure(), picture)
    else:
        found = estimate_study(planned[0], how.jobs)
    print_json(found.to_dict()) if json else out().print(str(found), markup=False)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--looks {text!r} must be numbers of seeds, for example 6,8,12,16.", reason="bad-looks") from None


def _grid(texts: list[str] | None, tries: int | None, seeds: int) -> dict[str, Any] | None:
    """--tune options -> the plan's grid; one value of the form {low: A, high: B} is a range."""
    from glassformer.study.planning.plan import parse_vary

    if not texts:
        if tries is not None:
            raise UsageError("--tune-tries needs a grid to draw from; add --tune KEY=A,B.", reason="tries-without-tune")
        return None
    lists = parse_vary(texts)
    ranges = {key: only for key, (only, *more) in lists.items() if not more and isinstance(only, dict) and "low" in only}
    return {"grid": {**lists, **ranges}, "tries": tries, "seeds": seeds}
