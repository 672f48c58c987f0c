"""Studies of the same changes on several data sets, or at several model sizes -> verdicts over all, or trends over size.

Each set and each size has an ordinary study in its own folder; ``sets.json`` or ``sizes.json`` beside them lists them. Imports
no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from glassformer.evaluation.results import text_table
from glassformer.foundation.errors import RunError
from glassformer.foundation.files import read_versioned, write_json
from glassformer.foundation.metrics import Metric
from glassformer.study.directory import StudyDirectory, is_plain
from glassformer.study.planning.conditions import joined
from glassformer.study.planning.plan import BASE
from glassformer.study.statistics.meta_analysis import Overall, over_sets
from glassformer.study.statistics.steps_worth import StepsWorth
from glassformer.study.statistics.trends import AtSize, PowerLaw, Trend, power_law, trends_over_size
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
        elif (before := cls.listed(folder)["names"]) != names:
            raise RunError(
                f"{folder} holds the {file.stem} {', '.join(before)}, not {', '.join(names)}; name another folder with --out.",
                reason="other-sets",
            )

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """The studies of a folder, finished or not."""
        folder, listed = Path(folder), cls.listed(Path(folder))
        return cls(folder, {name: Study.load(folder / name) for name in listed.pop("names")}, **listed)

    @classmethod
    def listed(cls, folder: Path) -> dict[str, Any]:
        """What ``begin`` wrote: the names, and the settings by their keys."""
        return read_versioned(
            folder / cls.FILE, cls.SCHEMA, cls.parse_list, "remove it, and run the same compare command to write it again"
        )

    @classmethod
    def parse_list(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        """The same of a document that may have more; a ValueError where a name is not that of a folder beside ``FILE``."""
        names = [str(name) for name in document["names"]]
        wrong = [name for name in names if not is_plain(name) or name == cls.FILE]
        if wrong or not names:
            raise ValueError(f"{wrong[0]!r} is no folder beside it" if wrong else "it names no study")
        return {"names": names, **{one.name: str(document.get(one.name, "")) for one in fields(cls)[2:]}}

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
        from glassformer.pages.html import fragment
        from glassformer.study.reporting.study_report import each_in_short, overall

        return fragment([*overall(self), *each_in_short(self)])

    def __repr__(self) -> str:
        words = ", ".join(f"{one.variant}: {one.verdict}" for one in self.verdicts)
        return f"SetStudy({str(self.folder)!r}, {words})"


@final
@dataclass(frozen=True, repr=False)
class SizeStudy(SeveralStudies):
    """The same changes at several sizes: a study at each, by the size's name, smallest first in the plan's order.

    ``rate``: how the learning rate of each size was chosen, in words.
    """

    rate: str
    FILE = "sizes.json"

    @property
    def parameters(self) -> dict[str, int]:
        """Of the baseline at each size; 0 before it was inspected."""
        return {
            name: study.book.variants[BASE].parameters if BASE in study.book.variants else 0
            for name, study in self.studies.items()
        }

    @cached_property
    def trends(self) -> list[Trend]:
        """One per change; p corrected over the changes."""
        values = self.first.values
        changes = {one.variant: [self._at(name, one.variant) for name in self.studies] for one in self.first.verdicts}
        return trends_over_size(
            changes,
            self.metric,
            self.first.plan.same_within,
            weights=values.weights,
            blocks=values.blocks,
            groups=values.groups,
            alpha=self.first.plan.alpha,
        )

    def _at(self, size: str, variant: str) -> AtSize:
        study = self.studies[size]
        base, change = (study.values.variants[name].trials for name in (BASE, variant))
        verdict, seeds, problem = study.verdict(variant), min(base.seeds, change.seeds), ""
        if verdict.verdict == "invalid":
            problem = f"it is invalid ({verdict.reason})"
        elif not np.array_equal(study.values.weights, self.first.values.weights):
            problem = "it was evaluated on other documents"
        elif study.plan.design != "paired":
            problem = "it was not compared by pairs"
        tuning = base.tuning_variance + change.tuning_variance
        return AtSize(self.parameters[size], change.values[:seeds] - base.values[:seeds], tuning, problem)

    @cached_property
    def laws(self) -> list[PowerLaw]:
        """From five sizes on, the power law of each variant's loss."""
        if not self.metric.lower_is_better:
            return []
        values = {name: [study.seed_values(name) for study in self.studies.values()] for name in self.first.plan.variants}
        return [power_law(name, list(self.parameters.values()), own) for name, own in values.items() if min(map(len, own)) > 1]

    @property
    def worth(self) -> dict[str, list[StepsWorth]]:
        """By size, what each change is worth in steps of the baseline."""
        return {name: study.worth for name, study in self.studies.items()}

    def rows(self) -> list[list[str]]:
        """The table: change, size, parameters, verdict, difference, worth in steps."""
        worth = {(size, one.variant): one.short for size, own in self.worth.items() for one in own}
        rows = []
        for trend in self.trends:
            for size, study in self.studies.items():
                one, more = study.verdict(trend.variant), worth.get((size, trend.variant), "")
                found = "" if one.difference.value is None else str(one.difference)
                word = ", with ".join(
                    [one.verdict, *([joined([each.text for each in one.conditions])] if one.conditions else [])]
                )
                rows.append([trend.variant, size, f"{self.parameters[size]:,}", word, found, more])
        return rows

    def header(self) -> list[str]:
        return ["change", "size", "parameters", "verdict", f"difference of {self.metric.name}", "worth in steps"]

    def law_sentences(self) -> list[str]:
        """A sentence per variant, or one why there is no power law."""
        if not self.laws:
            return []
        if all(law.exponent.value is None for law in self.laws):
            return [f"No power law: {self.laws[0].exponent.reason}."]
        known = [law for law in self.laws if law.exponent.value is not None]
        return [
            f"{law.variant}: {self.metric.name} = {law.floor:.3g} + {law.scale:.3g} N^-a, a = {law.exponent} (N: parameters; "
            f"interval over seeds on this text){'' if law.fits else '; but this law does not fit these sizes'}."
            for law in known
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "trends": [one.to_dict() for one in self.trends],
            "study": str(self.folder),
            "metric": self.metric.name,
            "margin": self.first.plan.same_within,
            "rate": self.rate,
            "parameters": self.parameters,
            "power_laws": [one.to_dict() for one in self.laws],
            "worth": {name: [one.to_dict() for one in own] for name, own in self.worth.items()},
            "sizes": {name: study.to_dict() for name, study in self.studies.items()},
        }

    def __str__(self) -> str:
        trends = [f"[{one.word}] {one.sentence}" for one in self.trends]
        table = text_table([self.header(), *self.rows()])
        return "\n".join([table, "", *trends, *self.law_sentences(), f"Learning rate: {self.rate}."])

    def __repr__(self) -> str:
        return f"SizeStudy({str(self.folder)!r}, {', '.join(f'{one.variant}: {one.word}' for one in self.trends)})"


KINDS: tuple[type[SizeStudy] | type[SetStudy], ...] = (SizeStudy, SetStudy)


def several_in(folder: Path) -> type[SizeStudy] | type[SetStudy] | None:
    """Which list of studies a folder has; None where it has none."""
    return next((kind for kind in KINDS if kind.exists(folder)), None)


def study_in(folder: Path) -> Study | SetStudy | SizeStudy | None:
    """Whatever study a folder holds; None where it holds none."""
    if (kind := several_in(folder)) is not None:
        return kind.load(folder)
    return Study.load(folder) if StudyDirectory(folder).exists() else None
