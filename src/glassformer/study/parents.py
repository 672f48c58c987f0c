"""A trial that starts from a recipe -> its parent in its folder, trained once for all trials that start from the same one.

Points of a grid, and variants that differ only in how they go on, share a parent seed by seed. It is kept among the trials
(``study/store.py``) under a name of its own: a parent has not been evaluated as a trial is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from glassformer.assembly import prepare_data
from glassformer.experiment import train
from glassformer.foundation.errors import RunError
from glassformer.foundation.locks import locked
from glassformer.foundation.plugins import loaded_plugins
from glassformer.foundation.progress import SILENT
from glassformer.foundation.runtime import choose_runtime, environment
from glassformer.recipe import Recipe, is_run, parent_recipe
from glassformer.runs.directory import RunDirectory
from glassformer.study.store import Origin, TrialStore, machine_of


def provide_parent(
    recipe: Recipe, directory: RunDirectory, *, plugins: Sequence[Path | str] = (), allow_leaks: bool = False
) -> None:
    """Takes the parent of a recipe into RUN/parent, or trains it there and keeps it; others that want it wait meanwhile.

    Nothing to do where the parent is a run already, or was begun in this folder (it goes on there).
    """
    if recipe.init_from is None or is_run(recipe.init_from) or directory.parent.exists():
        return
    wanted = parent_recipe(recipe)
    origin, store = _origin(wanted), TrialStore()
    if origin is None:
        return
    place = store.place(origin, wanted.seed)
    place.parent.mkdir(parents=True, exist_ok=True)
    # not the lock of the store itself, which is taken when the parent is kept
    with locked(place.with_name(f".training-{place.name}"), wait=True):
        with suppress(RunError):  # a damaged one was removed
            if store.take(origin, wanted.seed, directory.parent):
                return
        run = train(
            wanted,
            out=directory.parent,
            resume="or begin",
            plugins=plugins,
            threads=1,
            allow_leaks=allow_leaks,
            watch=SILENT,
        )
        if run.tainted is None:
            store.keep(origin, wanted.seed, directory.parent)


def _origin(wanted: Recipe) -> Origin | None:
    """What makes the parent, told apart from a trial of the same recipe. None where it starts from a recipe itself."""
    runtime = choose_runtime(device=wanted.training.device, precision=wanted.training.precision, threads=1)
    origin = Origin.of(
        wanted.to_dict(),
        data=str(prepare_data(wanted).record["sha256"]),
        plugins=loaded_plugins(),
        machine=machine_of(environment(runtime)),
    )
    return None if origin is None else replace(origin, recipe=f"parent {origin.recipe}")
