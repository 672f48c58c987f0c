"""Names from a browser -> folders of runs and studies inside one folder, and nowhere else. Imports no torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import final

from glassformer.foundation.errors import RunError, UsageError
from glassformer.foundation.files import follow_no_links_below
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory

NEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,3}")
LONGEST_NAME = 1000


class NotFound(RunError):
    """There is no such run or study in the folder."""


@final
class ServedFolder:
    """The folder that is served. Nothing outside it is accessible: files in it are opened by ``open_file``, through no link."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        follow_no_links_below(self.root)

    def run(self, name: str) -> RunDirectory:
        """The run called ``name`` as the list calls it."""
        found = RunDirectory(self._inside(name))
        if not found.exists():
            raise NotFound(f"There is no run {name!r} here; it may have been moved or deleted.")
        return found

    def study(self, name: str) -> StudyDirectory:
        found = StudyDirectory(self._inside(name))
        if not found.exists():
            raise NotFound(f"There is no study {name!r} here; it may have been moved or deleted.")
        return found

    def study_of(self, run: RunDirectory) -> StudyDirectory | None:
        """The study that a run is a trial of."""
        for folder in run.root.parents:
            if not folder.is_relative_to(self.root):
                return None
            if StudyDirectory(folder).exists():
                return StudyDirectory(folder)
        return None

    def studies(self) -> list[StudyDirectory]:
        """The studies in the folder, one level down, or two, or the folder itself; runs are not searched."""
        return list(self._studies_below(self.root, 2))

    def _studies_below(self, folder: Path, levels: int) -> Iterator[StudyDirectory]:
        if StudyDirectory(folder).exists():
            yield StudyDirectory(folder)
        elif levels and not RunDirectory(folder).exists():
            try:
                with os.scandir(folder) as entries:
                    names = sorted(
                        one.name for one in entries if not one.name.startswith(".") and one.is_dir(follow_symlinks=False)
                    )
            except OSError:
                return
            for name in names:
                yield from self._studies_below(folder / name, levels - 1)

    def name_of(self, folder: Path) -> str:
        """A folder's name on the page: its path relative to the root; the root has its own name."""
        return str(folder.relative_to(self.root)) if folder != self.root else self.root.name

    def holds(self, folder: Path) -> bool:
        """Whether a folder is inside the root, and not through a symbolic link."""
        if not folder.is_relative_to(self.root) or ".." in folder.parts:
            return False
        below = [folder, *folder.parents][: len(folder.parts) - len(self.root.parts)]
        return not any(one.is_symlink() for one in below)

    def new(self, name: str, *, is_file: bool = False) -> Path:
        """A folder for a new run or study; or the place of a file, which may be there already."""
        if NEW_NAME.fullmatch(name) is None:
            raise UsageError(f"name={name!r} cannot be used: letters, digits, dots, dashes and underscores, as in my-run.")
        folder = self.root / name
        if not self.holds(folder):
            raise UsageError(f"name={name!r} leads out of the folder.", reason="outside-folder")
        for one in (folder, *folder.parents[: len(PurePosixPath(name).parts) - 1]):
            if one.is_file() and not (is_file and one == folder):
                raise UsageError(
                    f"name={name!r} cannot be used: {self.name_of(one)!r} is a file; choose another name.",
                    reason="name-is-a-file",
                )
        return folder

    def _inside(self, name: str) -> Path:
        path = PurePosixPath(name)
        plain = 0 < len(name) <= LONGEST_NAME and "\x00" not in name and "\\" not in name
        if not plain or path.is_absolute() or ".." in path.parts or str(path) != name:
            raise NotFound("There is nothing of that name here.")
        folder = self.root if name == self.root.name and not (self.root / name).is_dir() else self.root / path
        if not self.holds(folder):
            raise NotFound("There is nothing of that name here.")
        return folder
