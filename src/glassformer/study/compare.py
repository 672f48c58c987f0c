"""``compare``: a recipe and its changes, a plan, or a study that was begun -> verdicts. The one door to studies.

Finds the folder and the place to run; ``finding`` finds the plan, and the conductor does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.registry import variants_of
from glassformer.foundation.runtime import choose_device
from glassformer.recipe import Recipe, Source
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.confirm import confirmation
from glassformer.study.planning.plan import Resolve, StudyPlan
from glassformer.study.planning.plan_source import find_plan
from glassformer.study.running.executors.base import Executor, InlineExecutor
from glassformer.study.running.executors.local import PER_GPU, LocalExecutor, cores
from glassformer.study.running.study_runner import StudyRunner
from glassformer.study.running.trial_store import TrialStore
from glassformer.study.study import Study

On = Literal["local", "ray", "inline"]
Baseline = Literal["auto", "paired", "bank"]


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
    tune: Mapping[str, Any] | None = None,
    budget_hours: float | None = None,
    allow_leaks: bool | None = None,
    out: Path | str | None = None,
    on: On = "local",
    jobs: int | None = None,
    address: str | None = None,
    gpu_share: float | None = None,
    plugins: Sequence[Path | str] = (),
    store: bool = True,
    confirm: Path | str | None = None,
    baseline: Baseline = "auto",
    watch: Watcher = SILENT,
) -> Study:
    """Runs a study and returns it with a verdict for each change. The same call continues a study that was stopped.

    ``source``: a recipe, with its changes in ``vary`` (``{"model.positions": ["alibi"]}``); or a plan (a file, a built-in
    name, an object); or the folder of a study, to continue it. None means what the plan says, or the default: 8 seeds, the
    loss, a margin of .01. ``on``: ``local`` (worker processes), ``ray`` (a cluster at ``address``), ``inline`` (this process).
    ``store``: reuse trials of earlier studies and keep new ones. ``baseline``: ``paired`` compares seed by seed, ``bank``
    with earlier runs of the baseline, ``auto`` chooses. ``confirm``: a study whose winner is tested once more, with new seeds
    on the test split.
    """
    load_plugins(plugins)
    given = _given(
        {"seeds": seeds, "first_seed": first_seed, "looks": looks, "max_seeds": max_seeds, "metric": metric, "margin": margin}
        | {"planned_effect": planned_effect, "match": match, "tune": tune, "budget_hours": budget_hours}
        | {"allow_leaks": allow_leaks}
    )
    if confirm is not None:
        _refuse_beside_confirm(recipe=source is not None or bool(vary), settings=bool(given or set or out is not None))
    source, out, baseline = _study_asked_for(source, confirm, out, baseline)
    plan, resolve, notes = find_plan(source, vary, cross=cross, set=set or {}, **given)
    on, more = _where(on)
    directory = StudyDirectory(Path(out)) if out is not None else _folder(source, plan, resolve)
    place = _place(on, directory, jobs=jobs, address=address, gpu_share=gpu_share, plan=plan, resolve=resolve)
    kept = TrialStore() if store and on != "ray" else None
    with _begun(directory, plan, resolve, [*notes, *more], watch) as plan:
        named = out is not None
        return StudyRunner(
            plan, directory, resolve, place, plugins=plugins, watch=watch, named=named, store=kept, baseline=baseline
        ).run()


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of a plan's settings; what is None is as the plan says."""
    plain = {key: list(value) if key == "looks" and value is not None else value for key, value in flags.items()}
    plain["tune"] = None if plain["tune"] is None else dict(plain["tune"])
    return {key: value for key, value in plain.items() if value is not None}


def _study_asked_for(
    source: Source | StudyPlan | None, confirm: Path | str | None, out: Path | str | None, baseline: Baseline
) -> tuple[Source | StudyPlan, Path | str | None, Baseline]:
    """The recipe or plan, the folder and the kind of baseline: as given, or those of a confirmation."""
    if confirm is None:
        if source is None:
            raise UsageError("Nothing to compare; give a recipe with --vary, a plan, or --confirm STUDY.")
        return source, out, baseline
    plan, folder = confirmation(Study.load(confirm))
    return plan, folder, "paired"


@contextmanager
def _begun(
    directory: StudyDirectory, plan: StudyPlan, resolve: Resolve, notes: Sequence[str], watch: Watcher
) -> Iterator[StudyPlan]:
    """The plan as the folder holds it, which is this process's alone; a study that fails at its beginning leaves nothing."""
    with directory.alone():
        begins = not directory.exists()
        plan, more = directory.begin(plan, resolve)
        for note in (*notes, *more):
            watch.say(note)
        watch.say(f"Study: {directory.root}. {plan.foresight()}")
        try:
            yield plan
        except GlassformerError:
            if begins:
                directory.forget_beginning()
            raise


def _refuse_beside_confirm(*, recipe: bool, settings: bool) -> None:
    if recipe:
        raise UsageError("--confirm names the study; a recipe, a plan or --vary beside it has no meaning.")
    if settings:
        raise UsageError(
            "--confirm takes everything from the study that it confirms (seeds, margin, metric, folder), so that nothing "
            "is chosen after it was seen; give it without other settings."
        )


def _folder(source: Source | StudyPlan, plan: StudyPlan, resolve: Resolve) -> StudyDirectory:
    """The study's own folder, or studies/NAME: the first that is unused, or that holds this very plan."""
    if isinstance(source, str | Path) and StudyDirectory(Path(source)).exists():
        return StudyDirectory(Path(source))
    name = Path(source).stem if isinstance(source, str | Path) else "study"
    for number in range(1, 10_000):
        directory = StudyDirectory(Path("studies") / (name if number == 1 else f"{name}-{number}"))
        if not directory.root.exists() or directory.continues(plan, resolve):
            return directory
    raise UsageError("studies/ holds ten thousand studies of this name; name a folder with --out.")


# -- where it runs -------------------------------------------------------------------------------------------------------


def _where(on: On) -> tuple[On, list[str]]:
    """The place to run, and a note where it is another one: a class of a notebook is known to its process alone."""
    here = variants_of("__main__") if on == "local" else []
    if not here:
        return on, []
    return "inline", [
        f"{', '.join(here)}: defined in this notebook or program, and known to this process alone, so the trials run in it, "
        "one after the other. To run several at once, put the class into a file and give plugins=[file]."
    ]


def _place(
    on: str,
    directory: StudyDirectory,
    *,
    jobs: int | None,
    address: str | None,
    gpu_share: float | None,
    plan: StudyPlan,
    resolve: Resolve,
) -> Callable[[], Executor]:
    """What opens the executor once there is work for it."""
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs} must be 1 or more.")
    if on != "ray" and (address is not None or gpu_share is not None):
        raise UsageError("--address and --gpu-share belong to --on ray.")
    if on == "inline":
        return _inline
    if on == "local":
        return lambda: _local(directory, jobs, plan, resolve)
    if on == "ray":
        return lambda: _ray(address, jobs, gpu_share, Recipe.parse(resolve(plan.set)))
    raise UsageError(f"--on {on} is not a place to run; use local, ray or inline.")


def _inline() -> Executor:
    from glassformer.study.running.work import perform

    return InlineExecutor(perform)


def _local(directory: StudyDirectory, jobs: int | None, plan: StudyPlan, resolve: Resolve) -> Executor:
    """One process per core; with GPUs, as many as share them well."""
    trials = max(len(plan.variants) * max(plan.all_looks), len(plan.tuning_trials()))
    gpus = _gpus(Recipe.parse(resolve(plan.set)).training.device)
    usual = cores() if not gpus else min(cores(), PER_GPU * len(gpus))
    return LocalExecutor(min(jobs or usual, trials), logs=directory.logs, gpus=gpus, gpu_bytes=_free_bytes(gpus))


def _gpus(device: str) -> list[str]:
    """The GPUs to share out, as CUDA names them; none when the recipe wants the CPU, or one certain GPU."""
    if device not in ("auto", "cuda") or choose_device("auto").type != "cuda":
        return []
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]


def _free_bytes(gpus: Sequence[str]) -> int:
    """Of the GPU that has least."""
    import torch

    return min((torch.cuda.mem_get_info(number)[0] for number in range(len(gpus))), default=0)


def _ray(address: str | None, jobs: int | None, gpu_share: float | None, recipe: Recipe) -> Executor:
    from glassformer.study.running.executors.ray import RayExecutor

    share = 0.0 if recipe.training.device == "cpu" else gpu_share
    return RayExecutor(address=address, jobs=jobs, gpu_share=share)
