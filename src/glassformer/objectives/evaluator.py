"""A network and the items of a split -> its ``Evaluation`` beside every baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.evaluation.outcomes import Outcomes
from glassformer.evaluation.results import Evaluation
from glassformer.evaluation.tools import Baseline, EvaluationTools
from glassformer.foundation.files import write_atomically
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.model.network import Network
from glassformer.objectives.base import ObjectiveConfig


@dataclass(frozen=True)
class Evaluator:
    """Evaluates one network; the baselines are fitted once for any number of sets."""

    objective: ObjectiveConfig
    network: Network
    untrained: Network | None
    baselines: Mapping[str, Baseline]
    tools: EvaluationTools
    step: int | None = None
    tainted: str | None = None
    parent: Network | None = None
    """The network this one started from, if its head has the same size: shows the effect of fine-tuning."""

    def measure(self, name: str, items: Any, *, notes: Sequence[str] = (), watch: Watcher = SILENT) -> Evaluation:
        """The metrics on one set: of the network, the baselines and the untrained network."""
        tools = replace(self.tools, progress=_progress_callback(watch, items))
        outcomes = self.objective.evaluate(self.network, items, tools)
        beside: dict[str, Outcomes] = {name: one.evaluate(items, tools) for name, one in self.baselines.items()}
        trivial = [name for name, one in self.baselines.items() if one.trivial]
        if self.untrained is not None:
            beside["untrained"] = self.objective.evaluate(self.untrained, items, tools)
            trivial.append("untrained")
        if self.parent is not None:
            beside["parent"] = self.objective.evaluate(self.parent, items, tools)
        return Evaluation.of(
            name,
            outcomes,
            beside,
            metrics=self.objective.metrics,
            trivial=trivial,
            step=self.step,
            tainted=self.tainted,
            notes=notes,
        )

    def write_predictions(self, file: Path, *sets: Any) -> None:
        """Writes the prediction for each item as a tab-separated line, with a header and, for several sets, the set's name."""
        found = [self.objective.predict(self.network, items, self.tools) for items in sets]
        numbered = [{"text": number, **row} for number, rows in enumerate(found, start=1) for row in rows]
        rows = found[0] if len(sets) == 1 else numbered
        header = list(rows[0]) if rows else []
        lines = ["\t".join(header), *("\t".join(_cell(row[key]) for key in header) for row in rows)]
        write_atomically(file, "\n".join(lines) + "\n")


def _progress_callback(watch: Watcher, items: Any) -> Any:
    """A progress callback; the total counts all items twice, for the network and the untrained one."""
    done, total = 0, 2 * max(1, len(getattr(items, "tokens", items)) - 1)

    def progress(more: int) -> None:
        nonlocal done
        done += more
        watch.progress("evaluating", min(done, total), total)

    return progress


def _cell(value: Any) -> str:
    """A value as one cell, with tabs and line breaks escaped."""
    if isinstance(value, float):
        return f"{value:.6f}"
    text = str(value).replace("\\", "\\\\")
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
