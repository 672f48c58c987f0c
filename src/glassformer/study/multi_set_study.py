"""Studies of the same changes on several data sets -> one object with the overall verdicts; what several sizes share with it.

Each set has an ordinary study in its own folder; ``sets.json`` beside them lists them. Imports no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Self, final

from glassformer.foundation.errors import RunError
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.metrics import Metric
from glassformer.study.statistics.meta_analysis import Overall, over_sets
from glassformer.study.study import Study


@dataclass(frozen=True)
class SeveralStudies(ABC):
    """The same changes in several studies, each in its own folder, by the folder's name; ``FILE`` beside them lists them."""

    folder: Path
    studies: Mapping[str, Study]
    FILE: ClassVar[str]
    SCHEMA: ClassVar[int] = 1

    @classmethod
    def exists(cls, folder: Path | str) -> bool:
        return (Path(folder) / cls.FILE).is_file()

    @classmethod
    def begin(cls, folder: Path, names: list[str], **settings: str) -> None:
        """Writes the list of studies before the first run; raises if the folder holds another list."""
        file = folder / cls.FILE
        if not file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            write_json(file, {"schema": cls.SCHEMA, "names": names, **settings})
        elif (before := cls._listed(folder)["names"]) != names:
            raise RunError(
                f"{folder} holds the {file.stem} {', '.join(before)}, not {', '.join(names)}; name another folder with --out.",
                reason="other-sets",
            )

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """The studies of a folder, finished or not."""
        folder, listed = Path(folder), cls._listed(Path(folder))
        settings = {field.name: listed.get(field.name, "") for field in fields(cls)[2:]}
        return cls(folder, {name: Study.load(folder / name) for name in listed["names"]}, **settings)

    @classmethod
    def _listed(cls, folder: Path) -> dict[str, Any]:
        file = folder / cls.FILE
        document = read_json(file)
        try:
            if document["schema"] != cls.SCHEMA:
                raise RunError(
                    f"{file} has schema {document['schema']!r}; this version reads {cls.SCHEMA}.", reason="other-schema"
                )
            return {**document, "names": [str(name) for name in document["names"]]}
        except (KeyError, TypeError) as error:
            raise RunError(
                f"{file} is damaged ({error}); remove it, and run the same compare command to write it again.", reason="damaged"
            ) from error

    @property
    def first(self) -> Study:
        return next(iter(self.studies.values()))

    @property
    def metric(self) -> Metric:
        return self.first.metric

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...

    def write(self) -> None:
        """Writes the results to ``FILE``."""
        write_json(self.folder / self.FILE, {"schema": self.SCHEMA, "names": list(self.studies), **self.to_dict()})

    def report(self, out: Path | str | None = None) -> Path:
        """Writes the self-contained page (and, in the common folder, Markdown with figures); returns its path."""
        from glassformer.study.reporting.study_report import write_report

        return write_report(self, out)


@final
@dataclass(frozen=True, repr=False)
class SetStudy(SeveralStudies):
    """The same changes on several sets: a study on each, by the set's name, and the verdicts over all."""

    FILE = "sets.json"

    @cached_property
    def verdicts(self) -> list[Overall]:
        """One per change, over all sets."""
        single = {name: study.verdicts for name, study in self.studies.items()}
        names = [one.variant for one in self.first.verdicts]
        earlier = {name: [study.earlier[name] for study in self.studies.values() if name in study.earlier] for name in names}
        texts = {name: study.text for name, study in self.studies.items()}
        return over_sets(single, self.metric, self.first.plan.same_within, self.first.plan.alpha, earlier, texts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdicts": [one.to_dict() for one in self.verdicts],
            "study": str(self.folder),
            "metric": self.metric.name,
            "margin": self.first.plan.same_within,
            "sets": {name: study.to_dict() for name, study in self.studies.items()},
        }

    def __str__(self) -> str:
        overall = ["Over all sets", *(f"[{one.verdict}] {one.sentence}" for one in self.verdicts)]
        return "\n\n".join(["\n".join(overall), *(f"{name}\n{study}" for name, study in self.studies.items())])

    def _repr_html_(self) -> str:
        overall = "".join(f"<li><b>{escape(one.verdict)}</b> {escape(one.sentence)}</li>" for one in self.verdicts)
        each = "".join(f"<h4>{escape(name)}</h4>{study._repr_html_()}" for name, study in self.studies.items())
        return f"<h4>Over all sets</h4><ul>{overall}</ul>{each}"

    def __repr__(self) -> str:
        words = ", ".join(f"{one.variant}: {one.verdict}" for one in self.verdicts)
        return f"SetStudy({str(self.folder)!r}, {words})"
