"""Finished trials kept by what made them -> no trial is trained twice, whichever study asks for it.

A trial is a function of its recipe with its seed, the data, the plugins, the parent's weights, the code and the machine: the
same of all that gives the same bits, so a kept one stands for a new one. Kept in the cache folder under ``trials/``; files
are copied (large ones linked), and their sums are checked when they are taken. It can be emptied at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from glassformer.data.cache import cache_folder, kept_folder
from glassformer.foundation.build import code_sha256
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import GlassformerError, RunError
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.plugins import plugin_sums
from glassformer.runs.directory import RunDirectory
from glassformer.study.plan import compared

AREA = "trials"
MANIFEST = "kept.json"
SCHEMA = 1
COPIED = 50_000_000  # bytes up to which a file is copied
MACHINE = ("glassformer", "python", "torch", "device_name", "precision", "threads", "cpu")
"""What two trials must share, beside the code, to give the same bits."""


def machine_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {key: environment.get(key) for key in MACHINE}


@dataclass(frozen=True)
class Origin:
    """What makes a trial, its seed apart: two origins that are equal give the same run for the same seed."""

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
        """None where a parent cannot be told by its weights, so that nothing kept could stand for it."""
        parent = parent_sum(recipe.get("init_from"))
        if parent is None or not machine:
            return None
        return cls(compared(recipe), data, tuple(plugin_sums(plugins)), parent, fingerprint([code_sha256(), dict(machine)]))

    @property
    def group(self) -> str:
        return fingerprint([self.recipe, self.data, list(self.plugins), self.parent, self.machine])[:40]


def parent_sum(init_from: Any) -> str | None:
    """A sum of the weights that a run starts from, empty without any; None where they cannot be told."""
    if init_from is None:
        return ""
    run = RunDirectory(Path(str(init_from)))
    if not run.exists() or not run.steps():
        return None
    return fingerprint(_sums(run.checkpoint(run.steps()[-1])))


def _sums(folder: Path) -> dict[str, str]:
    """sha256 by file, locks and drafts left out."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): _sha256(path) for path in files if path.name != MANIFEST}


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@final
class TrialStore:
    """The kept trials of this user on this machine."""

    @property
    def root(self) -> Path:
        return cache_folder() / AREA

    def place(self, origin: Origin, seed: int) -> Path:
        return self.root / f"{origin.group}-{seed}"

    def seeds(self, origin: Origin) -> list[int]:
        """Of which seeds a trial of this origin is kept."""
        found = (path.name.rpartition("-")[2] for path in self.root.glob(f"{origin.group}-*") if (path / MANIFEST).is_file())
        return sorted(int(seed) for seed in found if seed.isdigit())

    def keep(self, origin: Origin, seed: int, folder: Path, *, checked: bool = False) -> None:
        """Keeps a trial that is done. Without room, or on a system that refuses, nothing is kept: no study needs it.

        ``checked``: the trained model went through the checks, too, and passed.
        """

        def make(draft: Path) -> None:
            _linked(folder, draft)
            facts = {"schema": SCHEMA, "files": _sums(draft), "seed": seed, "group": origin.group, "checked": checked}
            write_json(draft / MANIFEST, facts)

        manifest = self.place(origin, seed) / MANIFEST
        try:
            kept_folder(AREA, self.place(origin, seed).name, make, whole=lambda place: (place / MANIFEST).is_file())
            if checked and not (known := read_json(manifest)).get(
                "checked"
            ):  # kept before by a study that checked another seed
                write_json(manifest, {**known, "checked": True})
        except (OSError, GlassformerError):
            return

    def holds(self, origin: Origin, seed: int) -> bool:
        return (self.place(origin, seed) / MANIFEST).is_file()

    def checked(self, origin: Origin) -> bool:
        """Whether the trained model of some seed of this origin is known to have passed the checks."""
        return any(self._manifest(origin, seed).get("checked") is True for seed in self.seeds(origin))

    def _manifest(self, origin: Origin, seed: int) -> dict[str, Any]:
        try:
            return dict(read_json(self.place(origin, seed) / MANIFEST))
        except (RunError, TypeError, ValueError):
            return {}

    def drop(self, origin: Origin) -> int:
        """Removes all trials of an origin, because its model was found to leak; how many that were."""
        seeds = self.seeds(origin)
        for seed in seeds:
            shutil.rmtree(self.place(origin, seed), ignore_errors=True)
        return len(seeds)

    def take(self, origin: Origin, seed: int, folder: Path) -> bool:
        """Puts a kept trial into a study's folder; False where none is kept. One with wrong sums raises, and is removed."""
        place = self.place(origin, seed)
        if not self.holds(origin, seed) or folder.exists():
            return False
        wanted = self._manifest(origin, seed).get("files")
        if not wanted or _sums(place) != wanted:
            shutil.rmtree(place, ignore_errors=True)
            raise RunError(f"The kept trial {place} is damaged and was removed.")
        draft = folder.with_name(f".{folder.name}.taken")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        _linked(place, draft)
        os.rename(draft, folder)
        return True

    def entries(self) -> list[dict[str, Any]]:
        """One plain row per kept trial: where it is, its seed, its size."""
        rows = []
        for manifest in sorted(self.root.glob(f"*/{MANIFEST}")):
            files = [path for path in manifest.parent.rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in files)
            rows.append({"folder": str(manifest.parent), "seed": int(manifest.parent.name.rpartition("-")[2]), "bytes": size})
        return rows

    def empty(self) -> int:
        """Removes everything kept; how many trials that were. Studies keep their own copies."""
        count = len(self.entries())
        shutil.rmtree(self.root, ignore_errors=True)
        return count


def _linked(source: Path, target: Path) -> None:
    """Copies of the files of a finished run; large ones are linked where the file system can. Finished files are only replaced
    whole, never written into by us; what others do to them, the sums tell."""
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
