"""The trial store: a cache of finished trials, so that no study trains the same trial twice.

The key is everything a trial depends on: recipe, seed, data, plugins, parent weights, code and machine; equal keys give
bit-identical runs. Entries are in the cache folder under ``trials/``; files are copied (large ones hard-linked), and their
sha256 checksums are verified on reuse. It can be emptied at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import GlassformerError, RunError
from glassformer.foundation.files import code_sha256, read_json, write_json
from glassformer.foundation.plugins import plugin_checksums
from glassformer.runs.directory import RunDirectory
from glassformer.study.planning.plan import recipe_fingerprint

AREA = "trials"
MANIFEST = "kept.json"
SCHEMA = 1
COPIED = 50_000_000  # bytes up to which a file is copied, not hard-linked
MACHINE = ("glassformer", "python", "torch", "device_name", "precision", "threads", "cpu")
"""Fields of the environment that two trials must share, besides the code, to be bit-identical."""


def machine_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {key: environment.get(key) for key in MACHINE}


@dataclass(frozen=True)
class Origin:
    """The cache key of a trial without its seed: equal origins give the same run for the same seed."""

    recipe: str
    data: str
    plugins: tuple[str, ...]
    parent: str
    machine: str

    @classmethod
    def of(
        cls,
        recipe: Mapping[str, Any],
        *,
        data: str,
        plugins: Sequence[Mapping[str, Any]],
        machine: Mapping[str, Any],
    ) -> Origin | None:
        """None where the weights of the parent are not known yet, so that there is no key."""
        parent = parent_checksum(recipe.get("init_from"))
        if parent is None or not machine:
            return None
        build = fingerprint([code_sha256(), dict(machine)])
        return cls(recipe_fingerprint(recipe), data, tuple(plugin_checksums(plugins)), parent, build)

    @property
    def group(self) -> str:
        return fingerprint([self.recipe, self.data, list(self.plugins), self.parent, self.machine])[:40]


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
    return {str(path.relative_to(folder)): _sha256(path) for path in files if path.name != MANIFEST}


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@final
class TrialStore:
    """The stored trials of this user on this machine."""

    @property
    def root(self) -> Path:
        return cache_folder() / AREA

    def path(self, origin: Origin, seed: int) -> Path:
        return self.root / f"{origin.group}-{seed}"

    def seeds(self, origin: Origin) -> list[int]:
        """The seeds with a stored trial of this origin."""
        found = (path.name.rpartition("-")[2] for path in self.root.glob(f"{origin.group}-*") if (path / MANIFEST).is_file())
        return sorted(int(seed) for seed in found if seed.isdigit())

    def save(self, origin: Origin, seed: int, folder: Path, *, checked: bool = False) -> None:
        """Stores a finished trial. On a full disk or without permission nothing is stored: it is only a cache.

        ``checked``: the trained model passed the checks, too.
        """

        def make(draft: Path) -> None:
            _copy_or_link(folder, draft)
            facts = {"schema": SCHEMA, "files": _checksums(draft), "seed": seed, "group": origin.group, "checked": checked}
            write_json(draft / MANIFEST, facts)

        manifest = self.path(origin, seed) / MANIFEST
        try:
            cached_folder(AREA, self.path(origin, seed).name, make, whole=lambda place: (place / MANIFEST).is_file())
            known = read_json(manifest) if checked else {}
            if checked and not known.get("checked"):  # stored before by a study that checked another seed
                write_json(manifest, {**known, "checked": True})
        except (OSError, GlassformerError):
            return

    def contains(self, origin: Origin, seed: int) -> bool:
        return (self.path(origin, seed) / MANIFEST).is_file()

    def checked(self, origin: Origin) -> bool:
        """Whether the trained model of some seed of this origin passed the checks."""
        return any(self._manifest(origin, seed).get("checked") is True for seed in self.seeds(origin))

    def _manifest(self, origin: Origin, seed: int) -> dict[str, Any]:
        try:
            return dict(read_json(self.path(origin, seed) / MANIFEST))
        except (RunError, TypeError, ValueError):
            return {}

    def evict(self, origin: Origin) -> int:
        """Removes all trials of an origin, because its model leaks; returns their number."""
        seeds = self.seeds(origin)
        for seed in seeds:
            shutil.rmtree(self.path(origin, seed), ignore_errors=True)
        return len(seeds)

    def copy_to(self, origin: Origin, seed: int, folder: Path) -> bool:
        """Copies a stored trial to ``folder``; False if there is none. One with wrong checksums is removed, and raises."""
        place = self.path(origin, seed)
        if not self.contains(origin, seed) or folder.exists():
            return False
        wanted = self._manifest(origin, seed).get("files")
        if not wanted or _checksums(place) != wanted:
            shutil.rmtree(place, ignore_errors=True)
            raise RunError(f"The kept trial {place} is damaged and was removed.")
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


def _copy_or_link(source: Path, target: Path) -> None:
    """Copies the files of a finished run; large ones are hard-linked where the file system allows it. We never write into a
    finished file, and the checksums detect if someone else did."""
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
