"""Studies of the same changes at several model sizes -> a verdict per size, and how each gain depends on size.

Each size has an ordinary study in its own folder; ``sizes.json`` beside them lists them. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from glassformer.evaluation.results import text_table
from glassformer.study.multi_set_study import SeveralStudies
from glassformer.study.planning.conditions import joined
from glassformer.study.planning.plan import BASE
from glassformer.study.statistics.steps_worth import StepsWorth
from glassformer.study.statistics.trends import AtSize, PowerLaw, Trend, power_law, trends_over_size


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
        base, change = study.values.trials[BASE], study.values.trials[variant]
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
