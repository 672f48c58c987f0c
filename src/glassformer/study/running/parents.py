"""Trials whose ``init_from`` is a recipe: trains the parent once, and shares it between trials through the trial store.

Points of a grid, and variants that differ only in fine-tuning, share a parent for each seed. In the store
(``study/running/trial_store.py``) it has a key of its own, since a parent is not evaluated like a trial.
"""

from __future__ import annotations

from contextlib import suppress

from glassformer.assembly import prepare_data
from glassformer.experiment import train
from glassformer.foundation.errors import RunError
from glassformer.foundation.locks import locked
from glassformer.foundation.plugins import loaded_plugins
from glassformer.foundation.progress import SILENT
from glassformer.foundation.runtime import choose_runtime, environment
from glassformer.recipe import Recipe, is_run, parent_recipe
from glassformer.runs.directory import RunDirectory
from glassformer.study.running.trial_store import TrialStore, data_checksum, machine_of, trial_key


def provide_parent(recipe: Recipe, directory: RunDirectory, *, allow_leaks: bool = False) -> None:
    """Copies the parent from the store to RUN/parent, or trains it there and stores it; other processes wait meanwhile.

    Does nothing if the parent is a run, or was already started in this folder (then it is resumed).
    """
    if recipe.init_from is None or is_run(recipe.init_from) or directory.parent.exists():
        return
    parent = parent_recipe(recipe)
    runtime = choose_runtime(device=parent.training.device, precision=parent.training.precision, threads=1)
    key = trial_key(
        parent.to_dict(),
        data=data_checksum(prepare_data(parent).record),
        plugins=loaded_plugins(),
        machine=machine_of(environment(runtime)),
        parent=True,
    )
    if key is None:  # its own parent is a recipe
        return
    store = TrialStore()
    place = store.path(key, parent.seed)
    place.parent.mkdir(parents=True, exist_ok=True)
    # not the lock of the store itself, which ``store.save`` takes
    with locked(place.with_name(f".training-{place.name}"), wait=True):
        with suppress(RunError):  # a damaged one was removed
            if store.copy_to(key, parent.seed, directory.parent):
                return
        run = train(parent, out=directory.parent, resume="or begin", threads=1, allow_leaks=allow_leaks, watch=SILENT)
        if run.tainted is None:
            store.save(key, parent.seed, directory.parent)
