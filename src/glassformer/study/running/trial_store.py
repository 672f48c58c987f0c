"""The trial store: a cache of finished trials, so that no study trains the same trial twice.

The key is everything a trial depends on: recipe, seed, data, plugins, parent weights, code and machine; equal keys give
bit-identical runs. Entries are in the cache folder under ``trials/``; files are copied (large ones hard-linked), and their
sha256 checksums are verified on reuse. It can be emptied at any time. ``StudyStore`` is one study's access to it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import GlassformerError, RunError
from glassformer.foundation.files import read_json, sha256_of_file, training_code_sha256, write_json
from glassformer.foundation.plugins import loaded_plugins, plugin_checksums
from glassformer.foundation.progress import Watcher
from glassformer.foundation.registry import unrecorded_parts
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import REUSED, StudyDirectory
from glassformer.study.planning.plan import BASE, FIRST_TUNING_SEED, StudyPlan, Trial, recipe_fingerprint
from glassformer.study.planning.variant_facts import Facts
from glassformer.study.running.trial_results import TrialResult, read_trial
from glassformer.study.statistics.evidence import Problem

AREA = "trials"
MANIFEST = "kept.json"
SCHEMA = 1
COPIED = 50_000_000  # bytes up to which a file is copied, not hard-linked
MACHINE = ("python", "torch", "device_name", "precision", "threads", "cpu")
"""Fields of the environment that two trials must share, besides the code, to be bit-identical."""


def machine_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    """On a GPU the processor beside it has no part in the numbers."""
    on_gpu = str(environment.get("device", "")).startswith("cuda")
    return {key: environment.get(key) for key in MACHINE if not (on_gpu and key == "cpu")}


def trial_key(
    recipe: Mapping[str, Any],
    *,
    data: str,
    plugins: Sequence[Mapping[str, Any]],
    machine: Mapping[str, Any],
    parent: bool = False,
) -> str | None:
    """The cache key of a trial without its seed: equal keys give the same run for the same seed.

    None where the machine or the weights of its parent are not known yet. ``parent``: the run is a parent of trials, which is
    not evaluated like a trial of the same recipe, so it has a key of its own.
    """
    weights = parent_checksum(recipe.get("init_from"))
    if weights is None or not machine:
        return None
    own = f"{'parent ' if parent else ''}{recipe_fingerprint(recipe)}"
    build = fingerprint([training_code_sha256(), dict(machine)])
    return fingerprint([own, data, plugin_checksums(plugins), weights, build])[:40]


def data_checksum(record: Mapping[str, Any]) -> str:
    """Of every file that a run reads, from the record of its data: training text, and what is judged and asked, since a stored
    trial holds figures of both."""
    asked = {
        name: {file: one["sha256"] for file, one in part.get("files", {}).items()}
        for name, part in record.get("parts", {}).items()
    }
    return fingerprint([record.get("fingerprints", record["sha256"]), asked])


def parent_checksum(init_from: Any) -> str | None:
    """A checksum of the weights that a run starts from; empty without a parent, None if they cannot be read."""
    if init_from is None:
        return ""
    run = RunDirectory(Path(str(init_from)))
    if not run.exists() or not run.steps():
        return None
    return fingerprint(_checksums(run.checkpoint(run.steps()[-1])))


def _checksums(folder: Path) -> dict[str, str]:
    """sha256 by file, without hidden files (locks, drafts)."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): sha256_of_file(path) for path in files if path.name != MANIFEST}


@final
class TrialStore:
    """The stored trials of this user on this machine."""

    @property
    def root(self) -> Path:
        return cache_folder() / AREA

    def path(self, key: str, seed: int) -> Path:
        return self.root / f"{key}-{seed}"

    def seeds(self, key: str) -> list[int]:
        """The seeds with a stored trial of this key."""
        found = (path.name.rpartition("-")[2] for path in self.root.glob(f"{key}-*") if (path / MANIFEST).is_file())
        return sorted(int(seed) for seed in found if seed.isdigit())

    def save(self, key: str, seed: int, folder: Path, *, checked: bool = False) -> None:
        """Stores a finished trial. On a full disk or without permission nothing is stored: it is only a cache.

        ``checked``: the trained model passed the checks, too.
        """

        def make(draft: Path) -> None:
            _copy_or_link(folder, draft)
            facts = {"schema": SCHEMA, "files": _checksums(draft), "seed": seed, "group": key, "checked": checked}
            write_json(draft / MANIFEST, facts)

        manifest = self.path(key, seed) / MANIFEST
        try:
            cached_folder(AREA, self.path(key, seed).name, make, whole=lambda place: (place / MANIFEST).is_file())
            known = read_json(manifest) if checked else {}
            if checked and not known.get("checked"):  # stored before by a study that checked another seed
                write_json(manifest, {**known, "checked": True})
        except (OSError, GlassformerError):
            return

    def contains(self, key: str, seed: int) -> bool:
        return (self.path(key, seed) / MANIFEST).is_file()

    def checked(self, key: str) -> bool:
        """Whether the trained model of some seed of this key passed the checks."""
        return any(self._manifest(key, seed).get("checked") is True for seed in self.seeds(key))

    def _manifest(self, key: str, seed: int) -> dict[str, Any]:
        try:
            return dict(read_json(self.path(key, seed) / MANIFEST))
        except (RunError, TypeError, ValueError):
            return {}

    def evict(self, key: str) -> int:
        """Removes all trials of a key, because its model leaks; returns their number."""
        seeds = self.seeds(key)
        for seed in seeds:
            shutil.rmtree(self.path(key, seed), ignore_errors=True)
        return len(seeds)

    def copy_to(self, key: str, seed: int, folder: Path) -> bool:
        """Copies a stored trial to ``folder``; False if there is none. One with wrong checksums is removed, and raises."""
        place = self.path(key, seed)
        if not self.contains(key, seed) or folder.exists():
            return False
        checksums = self._manifest(key, seed).get("files")
        if not checksums or _checksums(place) != checksums:
            shutil.rmtree(place, ignore_errors=True)
            raise RunError(f"The cached trial {place} was damaged and has been removed.", reason="damaged-stored-trial")
        draft = folder.with_name(f".{folder.name}.taken")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        _copy_or_link(place, draft)
        os.rename(draft, folder)
        return True

    def entries(self) -> list[dict[str, Any]]:
        """One row per stored trial: its folder, seed and size."""
        rows = []
        for manifest in sorted(self.root.glob(f"*/{MANIFEST}")):
            files = [path for path in manifest.parent.rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in files)
            rows.append({"folder": str(manifest.parent), "seed": int(manifest.parent.name.rpartition("-")[2]), "bytes": size})
        return rows

    def empty(self) -> int:
        """Removes all stored trials and returns their number. Studies have their own copies."""
        count = len(self.entries())
        shutil.rmtree(self.root, ignore_errors=True)
        return count


@final
class StudyStore:
    """The trial store as one study uses it: reuses stored trials, saves its own, reads stored baseline runs.

    A check of one trained model holds for all its seeds: trials of a leaking variant are never stored, and the seed that a
    study checks after training is reused only if some seed of it passed that check.
    """

    def __init__(
        self,
        store: TrialStore,
        plan: StudyPlan,
        directory: StudyDirectory,
        facts: Mapping[str, Facts],
        recipe_of: Callable[[Trial], Mapping[str, Any]],
        watch: Watcher,
    ) -> None:
        self.store, self.plan, self.directory, self.facts = store, plan, directory, facts
        self.recipe_of, self.watch = recipe_of, watch
        self._unstorable: set[str] = set()

    def key(self, variant: str, recipe: Mapping[str, Any]) -> str | None:
        """The cache key of a variant's trials; None where code outside a plugin makes it unknowable."""
        from glassformer.recipe import Recipe  # imports torch, which reading a study does not need

        facts, parsed = self.facts[variant], Recipe.parse(dict(recipe))
        unknown = unrecorded_parts(parsed)
        if unknown:
            if variant not in self._unstorable:
                self._unstorable.add(variant)
                self.watch.say(
                    f"{', '.join(unknown)}: a class of this notebook or program, whose code has no checksum, so trials of "
                    f"{variant} are neither stored nor reused. Code in a plugin file has one."
                )
            return None
        weights = parsed.model.check_cache_inputs()  # of a pretrained encoder: its folder may hold others than it did
        machine = {**facts.machine, "pretrained": dict(weights)} if facts.machine and weights else facts.machine
        return trial_key(recipe, data=facts.data, plugins=loaded_plugins(), machine=machine)

    def baseline_runs(self, recipe: Mapping[str, Any]) -> dict[int, TrialResult]:
        """By seed the stored runs of the baseline, without those of tuning; one that cannot be read counts as pending."""
        key, found = self.key(BASE, recipe), {}
        for seed in () if key is None else self.store.seeds(key):
            if seed < FIRST_TUNING_SEED:
                found[seed] = TrialResult(trial := Trial(BASE, seed, {}, ""), "pending")
                with suppress(RunError):
                    found[seed] = read_trial(self.store.path(str(key), seed), trial, self.plan.judged, self.plan.split)
        return found

    def reuse(self, trials: Sequence[Trial]) -> list[Trial]:
        """Copies stored trials into this study's folder; returns those of ``trials`` that were found."""
        reused = []
        for trial in trials:
            key = self.key(trial.variant, self.recipe_of(trial))
            if key is not None and self.plan.checks_trained(trial) and not self.store.checked(key):
                continue
            try:
                if key is not None and self.store.copy_to(key, trial.seed, self.directory.trial(trial)):
                    (self.directory.trial(trial) / REUSED).touch()
                    reused.append(trial)
            except RunError as error:
                self.watch.say(f"{error} {trial.label} is trained.")
        if reused:
            self.watch.say(
                f"{len(reused)} of {len(trials)} trials are reused from earlier studies: the same recipe, seed, data, code and "
                f"machine, verified by checksum (cached in {self.store.root}; `glassformer runs --store` lists them)."
            )
        return reused

    def save(self, trial: Trial, result: TrialResult) -> None:
        """Saves a finished trial for later studies, if its record confirms the plugins and the machine."""
        if result.problem is Problem.LEAK or self.facts[trial.variant].leak is not None:
            return
        key, folder = self.key(trial.variant, self.recipe_of(trial)), self.directory.trial(trial)
        environment = RunDirectory(folder).read_environment()
        same_plugins = plugin_checksums(environment.get("plugins", ())) == plugin_checksums(loaded_plugins())
        if key is not None and same_plugins and machine_of(environment) == self.facts[trial.variant].machine:
            checked = self.plan.checks_trained(trial) and result.status == "finished"
            self.store.save(key, trial.seed, folder, checked=checked)

    def evict(self, trials: Sequence[Trial]) -> None:
        """Removes a variant's trials from the store, tuning included, because a trained model of it leaks."""
        for trial in trials:
            key = self.key(trial.variant, self.recipe_of(trial))
            if key is not None:
                self.store.evict(key)

    def contains(self, trial: Trial) -> bool:
        """Whether a trial would be reused rather than trained."""
        key = self.key(trial.variant, self.recipe_of(trial))
        return key is not None and self.store.contains(key, trial.seed)


def _copy_or_link(source: Path, target: Path) -> None:
    """Copies the files of a finished run; large ones are hard-linked where the file system allows it.

    We never write into a finished file, and the checksums detect if someone else did.
    """
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        if file.name == MANIFEST or file.name.startswith("."):
            continue
        there = target / file.relative_to(source)
        there.parent.mkdir(parents=True, exist_ok=True)
        if file.stat().st_size > COPIED:
            try:
                os.link(file, there)
                continue
            except OSError:
                pass
        shutil.copy2(file, there)
