"""``glassformer compare``: a recipe and changes, or a plan -> a verdict per change."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from glassformer.cli.console import out, print_json, print_result, say
from glassformer.cli.live_table import watching_a_study
from glassformer.cli.options import Json, Log, Plugin, Set, changes_of, numbers_in
from glassformer.foundation.errors import UsageError
from glassformer.foundation.plugins import load_plugins, plugin_flags
from glassformer.study.running.executors.local import PER_GPU

if TYPE_CHECKING:
    from glassformer.study.planning.planned_study import PlannedStudy  # imported late when it runs: it imports torch
    from glassformer.study.running.execution import Execution


def command(
    recipe: Annotated[
        str | None,
        Argument(metavar="RECIPE|PLAN|STUDY", help="A recipe (with --vary), a plan (file or name), or a study to continue."),
    ] = None,
    vary: Annotated[list[str] | None, Option(metavar="KEY=A,B", help="Values compared with the recipe's. Repeatable.")] = None,
    cross: Annotated[bool, Option("--cross", help="Test all combinations of several --vary, not single changes.")] = False,
    seeds: Annotated[int | None, Option(metavar="N", help="Runs per variant; default 8, at least 6 for a verdict.")] = None,
    first_seed: Annotated[int | None, Option(metavar="N", min=0, help="First seed, for a second study with new seeds.")] = None,
    looks: Annotated[str | None, Option(metavar="N,N", help="Interim analyses at so many seeds; stop when decided.")] = None,
    max_seeds: Annotated[int | None, Option(metavar="N", help="Plan interim analyses up to N seeds.")] = None,
    metric: Annotated[str | None, Option(help="Metric to judge by: loss, or bits_per_byte if tokenizers differ.")] = None,
    margin: Annotated[float | None, Option(help="Smallest difference that matters to you; default 0.01 (loss).")] = None,
    effect: Annotated[float | None, Option(help="Difference you expect, for the printed number of seeds it needs.")] = None,
    match: Annotated[
        Literal["parameters", "flops"] | None,
        Option(help="Adjust each variant's feed-forward width so that all have equal parameters or FLOPs."),
    ] = None,
    equal: Annotated[list[str] | None, Option(help="Refuse differing parameters, flops, tokens or time. Repeatable.")] = None,
    tune: Annotated[
        list[str] | None,
        Option(metavar="KEY=A,B", help="Grid search for each variant before the study, e.g. training.lr=1e-3,3e-3."),
    ] = None,
    tune_tries: Annotated[int | None, Option(metavar="N", min=2, help="Draw N random points of --tune (ranges, too).")] = None,
    tune_seeds: Annotated[int, Option(min=1, help="Seeds used for --tune only.")] = 4,
    budget_hours: Annotated[float | None, Option(help="Limit on compute hours, summed over all runs.")] = None,
    on: Annotated[
        Literal["local", "ray", "slurm", "inline"],
        Option(help="local: worker processes; ray: a Ray cluster; slurm: jobs; inline: one by one in this process."),
    ] = "local",
    address: Annotated[str | None, Option(metavar="A", help="Address of a running Ray cluster, or auto.")] = None,
    gpus_per_trial: Annotated[float | None, Option(metavar="N", help="GPUs of a run; with --on ray a fraction, too.")] = None,
    processes: Annotated[int | None, Option(metavar="N", help="Processes of each run; default one per GPU of it.")] = None,
    partition: Annotated[str | None, Option(help="With --on slurm: where the jobs go.")] = None,
    time_: Annotated[float, Option("--time", metavar="HOURS", help="With --on slurm: the limit of one run.")] = 4.0,
    minutes: Annotated[float | None, Option(metavar="N", help="Stop by the clock, between runs; call again to go on.")] = None,
    jobs: Annotated[int | None, Option(metavar="N", min=1, help=f"Parallel runs; default 1 a core, {PER_GPU} a GPU.")] = None,
    out_: Annotated[Path | None, Option("--out", metavar="STUDY", help="Folder for the study; default studies/NAME.")] = None,
    set_: Set = None,
    allow_leaks: Annotated[bool, Option("--allow-leaks", help="Also train what fails a check, marked tainted.")] = False,
    log: Log = None,
    plugin: Plugin = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Train nothing; print its time and what difference it can find.")
    ] = False,
    gpu: Annotated[str | None, Option(metavar="KIND", help="--dry-run for a100, h100, h200, b200, l40s or rtx4090.")] = None,
    picture: Annotated[Path | None, Option(metavar="FILE", help="With --dry-run: draw cost by seeds, sizes, changes.")] = None,
    baseline: Annotated[
        Literal["paired", "bank"],
        Option(help="paired: compare seed by seed; bank: compare with 32 or more stored baseline runs."),
    ] = "paired",
    store: Annotated[
        bool,
        Option("--store/--no-store", help="Reuse finished trials and passed checks of earlier studies, and store new ones."),
    ] = True,
    confirm: Annotated[Path | None, Option(metavar="STUDY", help="Test its winner on new seeds and the test split.")] = None,
    also: Annotated[list[str] | None, Option(metavar="RECIPE", help="Same changes on this recipe, too. Repeatable.")] = None,
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
        "looks": None if looks is None else numbers_in(looks, "--looks", "6,8,12,16"),
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
        from glassformer.study.compare import run_planned
        from glassformer.study.planning.planned_study import plan_studies
        from glassformer.study.running.execution import Execution

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
        out().print(str(study))
        folder = shlex.quote(str(study.folder)) + plugin_flags()
        out().print(f"\nReport: {page.resolve()}")
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
    print_result(found.to_dict(), found, json=json)


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
