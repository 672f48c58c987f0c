"""``glassformer compare``: a recipe and changes, or a plan -> a verdict per change."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.console import out, print_json, say, watching
from glassformer.cli.live import watching_a_study
from glassformer.cli.options import Json, Plugin, Set, changes_of
from glassformer.foundation.errors import UsageError
from glassformer.foundation.plugins import plugin_flags
from glassformer.study.running.executors.local import PER_GPU

if TYPE_CHECKING:
    from glassformer.study.set_study import SetStudy  # imported late when it runs: it takes a while
    from glassformer.study.study import Study


Recipe = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE|PLAN|STUDY", help="A recipe (with --vary), a plan (file or name), or a study's folder to continue."
    ),
]
Vary = Annotated[
    list[str] | None, typer.Option("--vary", metavar="KEY=A,B", help="Values to compare with the recipe's own. Repeatable.")
]
Cross = Annotated[bool, typer.Option("--cross", help="Test all combinations of several --vary, not single changes.")]
Seeds = Annotated[
    int | None, typer.Option("--seeds", metavar="N", help="Runs per variant; default 8, at least 6 for a verdict.")
]
Looks = Annotated[
    str | None,
    typer.Option("--looks", metavar="N,N", help="Interim analyses at these numbers of seeds; stop when decided."),
]
MaxSeeds = Annotated[int | None, typer.Option("--max-seeds", metavar="N", help="Plan interim analyses up to N seeds.")]
Metric = Annotated[
    str | None, typer.Option("--metric", help="Metric to judge by: loss, or bits_per_byte if tokenizers differ.")
]
Margin = Annotated[float | None, typer.Option("--margin", help="Smallest difference that matters to you; default 0.01 (loss).")]
Effect = Annotated[float | None, typer.Option("--effect", help="Difference you expect; used to print how many seeds it takes.")]
Match = Annotated[
    Literal["parameters", "flops"] | None,
    typer.Option("--match", help="Give every variant the same parameters or FLOPs, by the feed-forward's inner width."),
]
Tune = Annotated[
    list[str] | None,
    typer.Option(
        "--tune", metavar="KEY=A,B", help="Grid search for each variant before the study, e.g. training.lr=1e-3,3e-3."
    ),
]
TuneTries = Annotated[
    int | None,
    typer.Option(
        "--tune-tries", metavar="N", min=2, help="Random search instead: draw N points of --tune; values may be ranges."
    ),
]
TuneSeeds = Annotated[int, typer.Option("--tune-seeds", min=1, help="Seeds used for --tune only.")]
BudgetHours = Annotated[float | None, typer.Option("--budget-hours", help="Most hours of computing, all runs added up.")]
On = Annotated[
    Literal["local", "ray", "inline"],
    typer.Option(
        "--on", help="local: worker processes; ray: a Ray cluster; inline: one by one in this process (for a debugger)."
    ),
]
Address = Annotated[str | None, typer.Option("--address", metavar="A", help="Address of a running Ray cluster, or auto.")]
GpuShare = Annotated[float | None, typer.Option("--gpu-share", help="With --on ray: fraction of a GPU per run.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help=f"Runs at once; default one per core, {PER_GPU} per GPU.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="STUDY", help="Folder for the study; default studies/NAME.")]
Details = Annotated[bool, typer.Option("--details", help="Also print the evidence behind each verdict.")]
Baseline = Annotated[
    Literal["auto", "paired", "bank"],
    typer.Option(
        "--baseline", help="paired: compare seed by seed; bank: with earlier runs of the baseline; auto chooses and says why."
    ),
]
Also = Annotated[
    list[str] | None, typer.Option("--also", metavar="RECIPE", help="Test the same changes on this recipe too. Repeatable.")
]
Confirm = Annotated[
    Path | None,
    typer.Option(
        "--confirm", metavar="STUDY", help="Test the winner of this study once more, with new seeds on the test split."
    ),
]
UseStore = Annotated[
    bool,
    typer.Option("--store/--no-store", help="Reuse finished trials and passed checks of earlier studies, and keep new ones."),
]
FirstSeed = Annotated[
    int | None,
    typer.Option("--first-seed", metavar="N", min=0, help="Number of the first seed, for a second study with new seeds."),
]
FORESEEN = (
    *("cross", "set", "seeds", "first_seed", "looks", "max_seeds", "metric", "margin"),
    *("planned_effect", "match", "tune", "jobs", "plugins"),
)
"""What a dry run needs to know of what was asked."""
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print how long it takes and how small a difference it can find; train nothing.")
]
AllowLeaks = Annotated[
    bool, typer.Option("--allow-leaks", help="Train variants that fail a check too; they are marked tainted.")
]


def command(
    recipe: Recipe = None,
    vary: Vary = None,
    cross: Cross = False,
    seeds: Seeds = None,
    first_seed: FirstSeed = None,
    looks: Looks = None,
    max_seeds: MaxSeeds = None,
    metric: Metric = None,
    margin: Margin = None,
    effect: Effect = None,
    match: Match = None,
    tune: Tune = None,
    tune_tries: TuneTries = None,
    tune_seeds: TuneSeeds = 4,
    budget_hours: BudgetHours = None,
    on: On = "local",
    address: Address = None,
    gpu_share: GpuShare = None,
    jobs: Jobs = None,
    out_: Out = None,
    set_: Set = None,
    allow_leaks: AllowLeaks = False,
    plugin: Plugin = None,
    dry_run: DryRun = False,
    details: Details = False,
    baseline: Baseline = "auto",
    store: UseStore = True,
    confirm: Confirm = None,
    also: Also = None,
    json: Json = False,
) -> None:
    """Compare changes of a recipe; get a verdict for each. All are trained with the same seeds.

    The verdict is better, worse, same, not decided or invalid. Stop at any moment: the same command continues.
    """
    asked: dict[str, Any] = {
        "cross": cross,
        "set": changes_of(set_),
        "seeds": seeds,
        "first_seed": first_seed,
        "looks": None if looks is None else _numbers(looks),
        "max_seeds": max_seeds,
        "metric": metric,
        "margin": margin,
        "planned_effect": effect,
        "match": match,
        "tune": _grid(tune, tune_tries, tune_seeds),
        "budget_hours": budget_hours,
        "allow_leaks": allow_leaks or None,
        "out": out_,
        "on": on,
        "jobs": jobs,
        "address": address,
        "gpu_share": gpu_share,
        "plugins": plugin or (),
        "store": store,
        "baseline": baseline,
    }
    _check_also(also, recipe, confirm, dry_run)
    if dry_run:
        _foresee(recipe, vary, asked, json)
    elif bases := _several_bases(recipe, also):
        _compare_sets(bases, vary, asked, json)
    else:
        _compare_one(recipe, vary, {**asked, "confirm": confirm}, json, details)


def _check_also(also: list[str] | None, recipe: str | None, confirm: Path | None, dry_run: bool) -> None:
    if also and (confirm is not None or recipe is None or dry_run):
        raise UsageError("--also adds a set to a RECIPE with --vary; it goes with neither --confirm nor --dry-run.")


def _several_bases(recipe: str | None, also: list[str] | None) -> list[Any]:
    """The recipes that get the same changes, where there are several: by --also, or by a plan that names them."""
    from glassformer.study.planning.plan_source import several_bases

    plans: list[Any] | None = several_bases(recipe) if recipe is not None else None
    return [*(plans or [recipe]), *(also or ())] if also or plans else []


def _compare_sets(bases: list[Any], vary: list[str] | None, asked: dict[str, Any], json: bool) -> None:
    """The same changes of several recipes."""
    with watching_a_study() as watch:
        from glassformer.study.compare_sets import compare_sets

        sets = compare_sets(bases, vary, **asked, watch=watch)
        page = sets.report()
    print_json({**sets.to_dict(), "report": str(page)}) if json else _print_sets(sets, page)


def _compare_one(recipe: str | None, vary: list[str] | None, asked: dict[str, Any], json: bool, details: bool) -> None:
    with watching_a_study() as watch:
        from glassformer.study.compare import compare

        study = compare(recipe, vary, **asked, watch=watch)
        page = study.report()
    print_json({**study.to_dict(), "report": str(page)}) if json else _print(study, page, details)


def _foresee(recipe: str | None, vary: list[str] | None, asked: dict[str, Any], json: bool) -> None:
    if recipe is None:
        raise UsageError("Nothing to compare; give a recipe with --vary, or a plan.")
    with watching():
        from glassformer.study.planning.dry_run import foresee

        found = foresee(recipe, vary, **{name: asked[name] for name in FORESEEN})
    print_json(found.to_dict()) if json else out().print(str(found), markup=False)


def _print_sets(sets: SetStudy, page: Path) -> None:
    out().print(str(sets), markup=False)
    out().print(f"\nReport: {page.resolve()}", markup=False)
    say(f"To write the page again: glassformer report {shlex.quote(str(sets.folder))}")


def _print(study: Study, page: Path, details: bool) -> None:
    out().print(str(study), markup=False)
    if details:
        out().print("\n".join(["", *study.sentences(details=True)]), markup=False)
    out().print(f"\nReport: {page.resolve()}", markup=False)
    words = shlex.quote(str(study.folder)) + plugin_flags()
    evidence = "" if details else f" For the evidence behind each verdict: glassformer compare {words} --details."
    say(f"To write the page again: glassformer report {words}.{evidence}")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--looks {text!r} must be numbers of seeds, for example 6,8,12,16.") from None


def _grid(texts: list[str] | None, tries: int | None, seeds: int) -> dict[str, Any] | None:
    """--tune options -> the plan's grid; one value of the form {low: A, high: B} is a range."""
    from glassformer.study.planning.plan import parse_vary

    if not texts:
        if tries is not None:
            raise UsageError("--tune-tries draws points of --tune, and there is none; give --tune KEY=A,B too.")
        return None
    lists = parse_vary(texts)
    ranges = {key: only for key, (only, *more) in lists.items() if not more and isinstance(only, dict) and "low" in only}
    return {"grid": {**lists, **ranges}, "tries": tries, "seeds": seeds}
