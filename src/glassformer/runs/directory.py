"""The files of one run; the only module that knows their names. Imports no torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, final

from glassformer.foundation.errors import ConfigError, RunError, RunInUse
from glassformer.foundation.files import (
    append_json_line,
    files_like,
    is_draft,
    is_linked,
    open_file,
    read_json_lines,
    read_json_object,
    read_text,
    write_atomically,
    write_json,
)
from glassformer.foundation.locks import is_held, locked
from glassformer.foundation.yaml_text import dump_yaml, read_yaml

MOST_BYTES = 8 << 20
"""Bytes of a file about a run: its state, environment, timing or notes."""


@final
@dataclass(unsafe_hash=True)
class RunDirectory:
    """One run's folder."""

    root: Path
    SCHEMA: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.recipe_file = self.root / "recipe.yaml"
        self.environment_file = self.root / "environment.json"
        self.metrics_file = self.root / "metrics.jsonl"
        self.state_file = self.root / "state.json"
        self.tokenizer_file = self.root / "tokenizer.json"
        self.report_file = self.root / "report.html"
        self.timing_file = self.root / "timing.json"
        self.notes_file = self.root / "notes.jsonl"
        self.baselines_file = self.root / "baselines.npz"
        self.prediction_file = self.root / "prediction.npz"  # a classifier's temperature, thresholds and training vectors
        self.openings_file = self.root / "test-openings.jsonl"
        self.checkpoints = self.root / "checkpoints"
        self.evaluations = self.root / "evaluations"
        self.parent = self.root / "parent"  # the run that this one starts from, if ``init_from`` is a recipe
        self.lock_file = self.root / ".lock"  # held by the process that trains; removed when it ends, unless it is killed

    def evaluation_file(self, split: str, step: int) -> Path:
        return self.evaluations / f"{split.replace(':', '-')}-step-{step}.json"

    @contextmanager
    def lock(self, *, made: bool = False) -> Iterator[None]:
        """Locks the folder for training; raises if another process holds the lock. Leaves no empty folder behind, if it is new
        or the caller has ``made`` it."""
        made = made or not self.root.exists()
        self.root.mkdir(parents=True, exist_ok=True)
        with locked(self.lock_file, wait=False) as mine:
            if not mine:
                raise RunInUse(self._in_use_by(), reason="run-in-use")
            # on a full disk the lock still holds
            with suppress(OSError), open_file(self.lock_file, os.O_WRONLY | os.O_TRUNC) as stream:
                stream.write(f"{os.getpid()} {platform.node()}".encode())
            try:
                yield
            finally:
                self.lock_file.unlink(missing_ok=True)
                if made and not any(self.root.iterdir()):
                    self.root.rmdir()

    def holder(self) -> tuple[int | None, str]:
        """The process that last took the lock, and its host; ``in_use`` says whether it still holds it."""
        try:
            pid, _, node = read_text(self.lock_file, most=1000).partition(" ")
        except (OSError, UnicodeDecodeError, RunError):
            return None, ""
        return (int(pid), node) if pid.isdecimal() else (None, node)

    def in_use(self) -> bool:
        """Whether a process is training in the folder, on this machine or on another one that shares the disk.

        Without file locks: whether the process in the lock file is alive on this machine; on another it is assumed to be.
        """
        held = is_held(self.lock_file)
        if held is None:
            pid, node = self.holder()
            held = self.lock_file.is_file() and (node != platform.node() or _is_there(pid))
        return held

    def _in_use_by(self) -> str:
        pid, node = self.holder()
        who = "another process" if pid is None else f"process {pid} on {node}"
        stop = "stop it" if pid is None or node != platform.node() else f"stop it with `kill {pid}` (it saves first)"
        return f"{self.root} is being trained by {who}. Wait for it, {stop}, or choose another folder with --out."

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step}"

    def steps(self) -> list[int]:
        """The steps with a checkpoint folder, ascending."""
        names = (path.name.removeprefix("step-") for path in files_like(self.checkpoints, "step-*") if path.is_dir())
        return sorted(int(name) for name in names if name.isdigit())

    def snapshot(self, step: int) -> Path:
        """One snapshot of the film: weights only."""
        return self.root / "film" / f"step-{step}.safetensors"

    def snapshot_manifest(self, step: int) -> Path:
        """The sha256 of a snapshot."""
        return self.root / "film" / f"step-{step}.json"

    def film(self) -> list[int]:
        """The steps of the film's snapshots, ascending."""
        names = (path.stem.removeprefix("step-") for path in files_like(self.root / "film", "step-*.safetensors"))
        return sorted(int(name) for name in names if name.isdigit())

    def exists(self) -> bool:
        return self.recipe_file.is_file()

    def require(self) -> None:
        """Raises if this is not a run."""
        if not self.exists():
            if self.root.is_file():
                raise RunError(
                    f"{self.root} is a file, not the folder of a run. To train on it: glassformer train {self.root}.",
                    reason="file-instead-of-run",
                )
            hint = "it does not exist" if not self.root.exists() else f"it has no {self.recipe_file.name}"
            raise RunError(
                f"{self.root} is not a run: {hint}. `glassformer runs` lists the runs of a folder.", reason="not-a-run"
            )

    def refuse_if_used(self, *, resume: bool = False) -> None:
        """Raises unless the folder is empty or new; for a resumed run it may hold a parent."""
        allowed = {self.lock_file, *([self.parent] if resume else [])}
        if self.root.exists() and (not self.root.is_dir() or set(self.root.iterdir()) - allowed):
            raise RunError(
                f"{self.root} is not empty. Continue its run with --resume, or choose another folder with --out. "
                "In Python: resume=True, or another out.",
                reason="folder-not-empty",
            )

    def clear_unfinished(self) -> None:
        """Removes the files of a run killed before it wrote its recipe; keeps everything else, a parent too."""
        if self.exists() or not self.root.is_dir():
            return
        before_the_recipe = {self.tokenizer_file.name, self.environment_file.name}
        found = [file for file in self.root.iterdir() if file not in (self.parent, self.lock_file)]
        if all(file.is_file() and (file.name in before_the_recipe or is_draft(file)) for file in found):
            for file in found:
                file.unlink()

    def write_recipe(self, recipe: dict[str, Any]) -> None:
        write_atomically(self.recipe_file, dump_yaml({"schema": self.SCHEMA, **recipe}))

    def read_recipe(self) -> dict[str, Any]:
        """The resolved recipe, as plain values."""
        self.require()
        try:
            values = read_yaml(self.recipe_file)
        except (UnicodeDecodeError, ConfigError) as error:
            raise RunError(
                f"{self.recipe_file} was edited or damaged after it was written ({error}).", reason="damaged-recipe"
            ) from error
        schema = values.pop("schema", None) if isinstance(values, dict) else None
        if schema != self.SCHEMA:
            raise RunError(
                f"{self.recipe_file} has schema {schema!r}; this version reads schema {self.SCHEMA}.", reason="other-schema"
            )
        return dict(values)

    def write_environment(self, environment: dict[str, Any]) -> None:
        write_json(self.environment_file, {"schema": self.SCHEMA, **environment})

    def read_environment(self, *needed: str) -> dict[str, Any]:
        """What the run was made with. ``needed``: keys without which the file is damaged."""
        document = read_json_object(self.environment_file, "schema", *needed, most=MOST_BYTES)
        return _checked(document, ENVIRONMENT, self.environment_file)

    def files_after(self, step: int) -> list[Path]:
        """The evaluations and snapshots of later steps."""
        files = [*files_like(self.evaluations, "*-step-*.json"), *files_like(self.root / "film", "step-*")]
        steps = ((file, file.stem.rpartition("step-")[2]) for file in files)
        return [file for file, number in steps if number.isdigit() and int(number) > step]

    @property
    def begun_in(self) -> Path:
        """The folder that relative paths in its recipe refer to."""
        return Path(self.read_environment().get("folder", "."))

    @property
    def eos_token_ids(self) -> list[int]:
        """The end-of-text ids of an imported model; empty: only its tokenizer's."""
        environment = self.read_environment() if self.environment_file.is_file() else {}
        return list(environment.get("imported", {}).get("eos_token_ids", []))

    def record_opening(self, **facts: Any) -> None:
        """Records that the test split was evaluated, since repeated use makes it less than held-out."""
        facts = {"schema": self.SCHEMA, "opened": datetime.now(UTC).isoformat(timespec="seconds"), **facts}
        append_json_line(self.openings_file, facts)

    def openings(self) -> list[dict[str, Any]]:
        """Every time the test split was opened."""
        return list(read_json_lines(self.openings_file, most=MOST_BYTES))

    def add_timing(self, seconds: dict[str, Any]) -> None:
        """Appends the time breakdown of one process; a resumed run has one for each start."""
        write_json(self.timing_file, {"schema": self.SCHEMA, "starts": [*self.timings(), seconds]})

    def timings(self) -> list[dict[str, Any]]:
        """Time breakdowns by process, oldest first; empty in imported runs."""
        if not self.timing_file.is_file():
            return []
        document = read_json_object(self.timing_file, "starts", most=MOST_BYTES)
        return list(_checked(document, {"starts": list}, self.timing_file)["starts"])

    def add_note(self, text: str) -> None:
        """Adds a user's note, with its time."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        append_json_line(self.notes_file, {"schema": self.SCHEMA, "at": at, "note": text})

    def notes(self) -> list[str]:
        return [str(line["note"]) for line in read_json_lines(self.notes_file, most=MOST_BYTES) if "note" in line]

    def write_state(self, status: str, **facts: Any) -> None:
        """Writes the status: running, finished, stopped, diverged or failed."""
        write_json(self.state_file, {"schema": self.SCHEMA, "status": status, "pid": os.getpid(), **facts})

    def read_state(self) -> dict[str, Any]:
        if not self.state_file.is_file():
            return {"status": "unknown"}
        return _checked(read_json_object(self.state_file, "status", most=MOST_BYTES), STATE, self.state_file)


ENVIRONMENT = {
    "threads": int,
    "outputs": int,
    "folder": str,
    "data": dict,
    "metric": dict,
    "checks": dict,
    "ancestry": list,
    "plugins": list,
    "imported": dict,
    "tainted": str,
}
STATE = {"status": str, "step": int, "steps": int, "best_step": int, "reason": str}
"""Types of what is read from these files, where it is there and not null."""


def _checked(document: dict[str, Any], types: dict[str, type], file: Path) -> dict[str, Any]:
    for key, kind in types.items():
        if not isinstance(document.get(key), kind | None):
            raise RunError(
                f"{file}: {key} is {str(document[key])[:100]!r}, not {kind.__name__}; it was changed or damaged after it was "
                "written.",
                reason="damaged-document",
            )
    return document


def _is_there(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


DEEPEST = 2
"""Depth of the search for runs, so that a large folder is listed quickly."""
OF_STUDIES = {"trials": 2, "tuning": 3}
"""Subfolders of a study with runs, and their depth: trials/VARIANT/seed-N, tuning/VARIANT/point-N/seed-N."""


def find_runs(folder: Path) -> list[RunDirectory]:
    """The runs in a folder, up to two levels down, with trials of studies and parents of runs; or the folder itself.

    Hidden folders are skipped.
    """
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder.", reason="not-a-folder")
    return list(_runs_below(folder, DEEPEST))


def _runs_below(folder: Path, levels: int) -> Iterator[RunDirectory]:
    run = RunDirectory(folder)
    if run.exists():
        yield run
        if run.parent.is_dir() and not is_linked(run.parent):  # nothing else in a run's folder is a run
            yield from _runs_below(run.parent, levels)
        return
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError:  # deleted meanwhile, or not readable
        return
    for name in names:
        if is_linked(folder / name):
            continue
        deeper = OF_STUDIES.get(name, levels - 1)
        if deeper >= 0:
            yield from _runs_below(folder / name, deeper)
