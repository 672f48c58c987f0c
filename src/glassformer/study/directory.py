"""The files of one study: its plan, which is fixed before the first run, and the trials' folders.

The only module that knows these names. Imports no torch.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, final

from glassformer.foundation.config import diff, fingerprint
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.files import read_json, read_text, sha256_of_file, write_atomically, write_json
from glassformer.foundation.locks import locked
from glassformer.foundation.yaml_text import dump_yaml, read_yaml
from glassformer.study.history.ledger import SCHEMA, Earlier
from glassformer.study.planning.plan import Area, Resolve, StudyPlan, Trial, recipe_fingerprint

REUSED = ".taken"
"""Marks a trial that was copied from the store, not trained here."""


@final
@dataclass(frozen=True)
class StudyDirectory:
    """One study's folder."""

    root: Path
    SCHEMA: ClassVar[int] = 1

    @property
    def plan_file(self) -> Path:
        return self.root / "plan.yaml"

    @property
    def variants_file(self) -> Path:
        """Facts about each variant before training: cost, checks, settings from matching and tuning."""
        return self.root / "variants.json"

    @property
    def results_file(self) -> Path:
        return self.root / "results.json"

    @property
    def values_file(self) -> Path:
        """The metric by seed and document, from which the verdicts are computed."""
        return self.root / "values.json"

    @property
    def earlier_file(self) -> Path:
        """Earlier studies of the same changes on the same text, copied from the ledger when this one began."""
        return self.root / "earlier.json"

    @property
    def report_file(self) -> Path:
        return self.root / "report.html"

    @property
    def markdown_file(self) -> Path:
        return self.root / "report.md"

    @property
    def figures(self) -> Path:
        """The figures of the Markdown report."""
        return self.root / "figures"

    @property
    def nodes_file(self) -> Path:
        return self.root / ".nodes"

    def store_plugins(self, plugins: Iterable[Mapping[str, Any]]) -> None:
        """Copies plugins and what they import to ``plugins/``, with the commit of their folder and of this package."""
        place, rows = self.root / "plugins", []
        for plugin in plugins:
            for file, digest in ((str(plugin["file"]), plugin["sha256"]), *plugin.get("imports", {}).items()):
                stored = place / f"{digest[:8]}-{Path(file).name}"
                if not stored.is_file() and Path(file).is_file() and sha256_of_file(Path(file)) == digest:
                    place.mkdir(exist_ok=True)
                    shutil.copyfile(file, stored)
                name = stored.name if stored.is_file() else None  # a file that is gone, or changed, by now
                rows.append({"file": file, "sha256": digest, "stored": name, "commit": commit_of(Path(file).parent)})
        if rows:
            place.mkdir(exist_ok=True)
            document = {"schema": self.SCHEMA, "glassformer": commit_of(Path(__file__).parent), "files": rows}
            write_json(self.root / "plugins" / "files.json", document)

    @property
    def logs(self) -> Path:
        """Standard error of the worker processes."""
        return self.root / "logs"

    def read_earlier(self) -> dict[str, Earlier]:
        """Earlier studies by change; empty before the study is entered in the ledger."""
        if not self.earlier_file.is_file():
            return {}
        try:
            document = read_json(self.earlier_file)
            if document["schema"] != SCHEMA:  # by the rules before: it is judged again as a first study of its questions
                return {}
            return {name: Earlier.from_dict(one) for name, one in document["changes"].items()}
        except (KeyError, TypeError) as error:
            raise RunError(
                f"{self.earlier_file} is damaged ({error}). It counts how often each change was tried; restore it.",
                reason="damaged",
            ) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the study; raises if another process holds the lock."""
        made, above, lock = not self.root.exists(), not self.root.parent.exists(), self.root / ".lock"
        self.root.mkdir(parents=True, exist_ok=True)
        with locked(lock, wait=False) as mine:
            if not mine:
                raise RunError(
                    f"{self.root} is in use by another process; wait for it, or choose another --out.",
                    reason="study-in-use",
                )
            try:
                yield
            finally:
                if made and list(self.root.iterdir()) == [lock]:  # the study was refused: leave no empty folder
                    lock.unlink()
                    self.root.rmdir()
                    if above:
                        with suppress(OSError):  # another study began in it meanwhile
                            self.root.parent.rmdir()

    def mark_for_nodes(self) -> str:
        """A number in the folder by which a node of a cluster can tell whether it sees this disk."""
        if not self.nodes_file.is_file():
            write_atomically(self.nodes_file, secrets.token_hex(8))
        return read_text(self.nodes_file, most=64)

    def is_of_driver(self, mark: str) -> bool:
        """Whether this folder is the driver's own: a node may have another one of that name."""
        return self.nodes_file.is_file() and read_text(self.nodes_file, most=64) == mark

    def set_aside(self, folder: Path) -> Path:
        """Moves a damaged trial to ``damaged/``, so that it can be run again and still be inspected."""
        name = "-".join(folder.relative_to(self.root).parts)
        places = (self.root / "damaged" / (name if number == 1 else f"{name}-{number}") for number in count(1))
        place = next(place for place in places if not place.exists())
        place.parent.mkdir(exist_ok=True)
        os.rename(folder, place)
        return place

    def trial(self, trial: Trial) -> Path:
        """The run folder of one trial."""
        return self.root / trial.area / trial.folder

    def exists(self) -> bool:
        return self.plan_file.is_file()

    def begin(self, plan: StudyPlan, resolve: Resolve) -> tuple[StudyPlan, list[str]]:
        """Writes the plan, or continues the one on disk. Returns the plan to follow, and notes to print.

        Changes that the plan on disk does not have are added and marked exploratory. Any other difference, in the plan or in
        its resolved recipes, raises: the rules of a study must not change on the way.
        """
        recipes = _recipes(plan, resolve)
        if not self.exists():
            self._write(plan, recipes)
            return plan, []
        old, old_recipes = self._read()
        plan, notes = _continued(old, plan, self.plan_file)
        for name, before in old_recipes.items():
            if recipe_fingerprint(resolve(old.settings(name))) != before:
                raise ConfigError(
                    f"{self.plan_file}: the recipe of {name!r} changed since the study began; "
                    "undo the change of the recipe, or begin a new study with another --out.",
                    reason="recipe-changed",
                )
        if plan != old:
            self._write(plan, {**recipes, **old_recipes})
        return plan, notes

    def has_trials(self, area: Area = "trials") -> bool:
        """Whether there are trials of the comparison, or of tuning."""
        return (self.root / area).exists()

    def begun(self) -> bool:
        """Whether a trial was started: from then on the plan is fixed."""
        return self.has_trials() or self.has_trials("tuning")

    def write_design(self, plan: StudyPlan) -> None:
        """Writes the plan again once its design is chosen, before the first trial."""
        assert not self.begun()
        self._write(plan, self._read()[1])

    def forget_beginning(self) -> None:
        """Deletes a plan without any trial, so that a corrected one can use the same folder."""
        if not self.begun():
            for file in (self.plan_file, self.variants_file, self.earlier_file):
                file.unlink(missing_ok=True)
            shutil.rmtree(self.root / "plugins", ignore_errors=True)

    def continues(self, plan: StudyPlan, resolve: Resolve) -> bool:
        """Whether this folder holds the same plan, so that it can be resumed."""
        try:
            old, recipes = self._read()
            return _continued(old, plan, self.plan_file)[0].changes == old.changes and recipes == _recipes(old, resolve)
        except (RunError, ConfigError):
            return False

    def plan(self) -> StudyPlan:
        """The plan on disk, for reading."""
        return self._read()[0]

    def recipes(self) -> dict[str, str]:
        """The fingerprint of each variant's recipe, as the plan on disk has it."""
        return self._read()[1]

    def _write(self, plan: StudyPlan, recipes: Mapping[str, str]) -> None:
        document = {
            "schema": self.SCHEMA,
            "fingerprint": fingerprint(plan.non_defaults()),
            "recipes": dict(recipes),
            "plan": plan.to_dict(),
        }
        write_atomically(self.plan_file, dump_yaml(document))

    def _read(self) -> tuple[StudyPlan, dict[str, str]]:
        file = self.plan_file
        try:
            document = read_yaml(file)
        except FileNotFoundError:
            raise RunError(f"{self.root} is not a study: it has no {file.name}.", reason="not-a-study") from None
        except UnicodeDecodeError as error:
            raise RunError(
                f"{file} is not UTF-8 text ({error}); it was damaged after it was written.", reason="not-utf-8"
            ) from error
        return parse_begun(document, file)


def parse_begun(document: Any, file: Path) -> tuple[StudyPlan, dict[str, str]]:
    """The plan and the recipes' fingerprints of a study that has begun, from what stands in its plan.yaml."""
    if not isinstance(document, dict) or not {"schema", "fingerprint", "recipes", "plan"} <= set(document):
        raise RunError(
            f"{file} is not the plan of a study that has begun; to begin one, use `compare PLAN.yaml`.",
            reason="not-a-begun-plan",
        )
    if document["schema"] != StudyDirectory.SCHEMA:
        raise RunError(
            f"{file} has schema {document['schema']!r}; this version reads {StudyDirectory.SCHEMA}.", reason="other-schema"
        )
    plan = StudyPlan.parse(document["plan"], at=f"{file.name}: plan")
    if fingerprint(plan.non_defaults()) != document["fingerprint"]:
        raise ConfigError(
            f"{file} was changed after the study began, which would make its verdicts worthless; restore it, "
            "or begin a new study with another --out.",
            reason="plan-edited",
        )
    return plan, dict(document["recipes"])


def is_plain(name: str) -> bool:
    """Whether a name from elsewhere is that of a file or folder, and leads nowhere; a ValueError where it is no name at all."""
    return name != ".." and Path(name).name == name and b"\0" not in os.fsencode(name) and 0 < len(os.fsencode(name)) < 256


def commit_of(folder: Path) -> str | None:
    """The commit that a folder is at, with a plus where files were changed since; None outside of a repository."""
    try:
        found = [
            subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=True).stdout
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return found[0].strip() + ("+" if found[1].strip() else "")


def trial_lock(folder: Path) -> Path:
    """The lock file of the trial in ``folder``."""
    return folder.parent / f".{folder.name}.lock"


def _recipes(plan: StudyPlan, resolve: Resolve) -> dict[str, str]:
    """A fingerprint of each variant's resolved recipe."""
    return {name: recipe_fingerprint(resolve(plan.settings(name))) for name in plan.variants}


def _continued(old: StudyPlan, new: StudyPlan, file: Path) -> tuple[StudyPlan, list[str]]:
    """The old plan with the new one's additional changes as exploratory ones; raises if anything else differs."""
    before = {change.name: {**change.set, **change.tune} for change in old.changes}
    now = {change.name: {**change.set, **change.tune} for change in new.changes}
    lost = [change.name for change in old.planned if change.name not in now]
    if lost:
        raise ConfigError(
            f"{file}: the study began with {', '.join(lost)}; a planned change cannot be removed, so put it back.",
            reason="planned-change-missing",
        )
    for name in now.keys() & before.keys():
        if now[name] != before[name]:
            raise ConfigError(
                f"{file}: {name} set {before[name]} when the study began and sets {now[name]} now.", reason="change-redefined"
            )
    differences = diff(_fixed_settings(old), _fixed_settings(new))
    if differences:
        key, (was, is_now) = next(iter(differences.items()))
        raise ConfigError(
            f"{file}: {key} was {was!r} when the study began and is {is_now!r} now; "
            "keep it, or begin a new study with another --out.",
            reason="plan-setting-changed",
        )
    added = [change.model_copy(update={"exploratory": True}) for change in new.changes if change.name not in before]
    notes = [f"{change.name} was not in the plan: it is shown as exploratory." for change in added]
    # The budget does not affect the decision rule, so it may change.
    return old.model_copy(update={"changes": [*old.changes, *added], "budget_hours": new.budget_hours}), notes


MAY_CHANGE = ("changes", "about", "base", "budget_hours", "measured", "design", "bank")
"""Keys that do not have to match when a study is resumed. The design was chosen when it began, and stays."""


def _fixed_settings(plan: StudyPlan) -> dict[str, Any]:
    """The settings that are fixed once a study has begun. Changes are compared by name, the base by its resolved recipe."""
    return {key: value for key, value in plan.to_dict().items() if key not in MAY_CHANGE}
