"""The results of a model on one data set, by unit and as metrics, beside those of its baselines. Imports no torch.

``Outcomes``: what the ``evaluate`` of an objective or a baseline returns. ``Evaluation``: a model's metrics beside those of the
baselines, as JSON, as a table, as HTML and as a file of a run. ``Evaluator`` computes evaluations. A unit is what intervals are
computed over and what a study pairs: a document, a question, a labelled text.
"""

from __future__ import annotations

import errno
import html
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, final

import numpy as np

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.interval_estimates import AUTOCORRELATED_UNITS, ratio
from glassformer.foundation.errors import RunError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json_object, write_atomically, write_json
from glassformer.foundation.metrics import Metric
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.runs.directory import RunDirectory

if TYPE_CHECKING:
    import torch

Figures = dict[str, Estimate]


@dataclass(frozen=True)
class Units:
    """One metric by unit: its value over the whole set is ``sum(sums) / sum(weights)``."""

    sums: np.ndarray
    weights: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """The metric of each unit; 0 where its weight is 0."""
        values = np.zeros(len(self.sums))
        np.divide(self.sums, self.weights, out=values, where=self.weights > 0)
        return values

    @property
    def value(self) -> float:
        """The metric over the whole set; NaN if all weights are 0."""
        total = float(self.weights.sum())
        return float(self.values @ self.weights) / total if total > 0.0 else math.nan

    def to_dict(self) -> dict[str, Any]:
        return {"sums": self.sums.tolist(), "weights": self.weights.tolist()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``."""
        sums, weights = (np.asarray(document[key], dtype=np.float64) for key in ("sums", "weights"))
        if sums.shape != weights.shape or sums.ndim != 1:
            raise RunError(f"there are {sums.shape} sums for {weights.shape} weights of units.", reason="units-shape")
        return cls(sums, weights)


@dataclass(frozen=True)
class Outcomes:
    """``units``: by judged metric. ``figures``: all metrics, in order. ``scope``: the data in a few words.

    ``details``: plain values for the evaluation file and the pages (a curve, a confusion matrix). ``ids``: identify the units
    where their order does not. ``fingerprint``: a checksum of questions and answers. ``raw``: for the objective itself. The
    last two are not written.
    """

    units: Mapping[str, Units]
    figures: Mapping[str, Estimate]
    unit: str
    scope: str
    ids: Sequence[str] | None = None
    fingerprint: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    raw: Any = None

    @classmethod
    def of_units(cls, units: Mapping[str, Units], *, unit: str, scope: str | None = None) -> Self:
        """For metrics that are weighted means, each with its interval over units."""
        figures = {name: ratio(one.sums, one.weights, blocks=unit in AUTOCORRELATED_UNITS) for name, one in units.items()}
        count = max((len(one.sums) for one in units.values()), default=0)
        return cls(units=units, figures=figures, unit=unit, scope=f"{count:,} {unit}s" if scope is None else scope)


Share = Callable[[Iterator[Any], Callable[[Any], Any]], Iterator[Any]]
"""Batches and what to compute of each -> the results in order."""


def in_this_process(batches: Iterator[Any], compute: Callable[[Any], Any]) -> Iterator[Any]:
    return map(compute, batches)


@dataclass(frozen=True)
class EvaluationTools:
    """``keep_going`` raises after a stop request; ``progress`` is called with the amount done since the last call. ``shared``
    spreads batches over the processes of a run: ``shared(batches, compute)`` gives ``compute(batch)`` (arrays, or a tuple of
    them) for each batch, in order. ``keep_going`` is called where the batches are made, so that all processes call it."""

    tokenizer: Tokenizer
    context: int
    batch_size: int = 32
    device: torch.device | None = None
    keep_going: Callable[[], None] = lambda: None
    shared: Share = in_this_process
    progress: Callable[[int], None] = lambda done: None


class Baseline(ABC):
    """A simple model, fitted on the training data and saved in the run as arrays."""

    trivial: ClassVar[bool] = True
    """Whether a model that is not better than this has learned nothing."""

    @abstractmethod
    def evaluate(self, items: Any, tools: EvaluationTools) -> Outcomes:
        """Like the objective's ``evaluate`` for a network."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The fitted state, for ``from_arrays``; empty if nothing was fitted."""
        return {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of ``arrays``."""
        return cls()


@final
@dataclass(frozen=True)
class Evaluation:
    """The metrics of one model on one data set.

    ``name``: the split, the file or the text itself. ``described``: descriptions of the metrics, so that a table needs no
    objective. ``trivial``: the baselines that a model must beat to have learned anything. ``tainted``: why no figure here
    can be trusted (a leak), or None. ``units``: by judged metric, the sums per unit, for paired comparisons; in the file of a
    run, not in the output of a command.
    """

    name: str
    metrics: Figures
    baselines: dict[str, Figures] = field(default_factory=dict)
    step: int | None = None
    scope: str = ""
    unit: str = "document"
    described: tuple[Metric, ...] = ()
    trivial: tuple[str, ...] = ()
    tainted: str | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, Units] | None = field(default=None, repr=False, compare=False)
    groups: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    """By unit, what it belongs to (``data.group``); in the file of a run only."""
    outcomes: Outcomes | None = field(default=None, repr=False, compare=False)

    def __getattr__(self, name: str) -> float | None:
        """``evaluation.loss``: the value of a metric; its interval is in ``evaluation.metrics["loss"]``."""
        metrics = self.__dict__.get("metrics", {})
        if name not in metrics:
            raise AttributeError(f"There is no {name!r}; the metrics are {', '.join(metrics)}.")
        return metrics[name].value

    @classmethod
    def of(
        cls,
        name: str,
        outcomes: Outcomes,
        baselines: Mapping[str, Outcomes],
        *,
        metrics: Sequence[Metric],
        trivial: Sequence[str] = (),
        step: int | None = None,
        tainted: str | None = None,
        notes: Sequence[str] = (),
    ) -> Self:
        """The metrics of a model beside those of the baselines; the first notes say which baselines it does not beat.

        The model is compared with trivial and other baselines separately, so that a strong baseline (one that may read the
        text, say) cannot hide that it does not beat a trivial one.
        """
        judged = [metric for metric in metrics if metric.name in outcomes.units]
        # Each baseline is compared by the first judged metric that it has, too: one that copies its source has no loss.
        groups: dict[tuple[bool, Metric], dict[str, Outcomes]] = {}
        for low in (True, False):
            for baseline, one in baselines.items():
                shared = next((metric for metric in judged if metric.name in one.units), None)
                if shared is not None and (baseline in trivial) == low:
                    groups.setdefault((low, shared), {})[baseline] = one
        compared = [not_better_than_baseline(outcomes, group, metric) for (_, metric), group in groups.items()]
        return cls(
            name=name,
            metrics=dict(outcomes.figures),
            baselines={baseline: dict(theirs.figures) for baseline, theirs in baselines.items()},
            step=step,
            scope=outcomes.scope,
            unit=outcomes.unit,
            described=tuple(metrics),
            trivial=tuple(trivial),
            tainted=tainted,
            notes=(*(sentence for sentence in compared if sentence), *outcomes.notes, *notes),
            details=outcomes.details,
            units=outcomes.units,
            outcomes=outcomes,
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: metrics, baselines, tainted, and a description of the data."""
        document: dict[str, Any] = {
            "name": self.name,
            "step": self.step,
            "metrics": {name: estimate.to_dict() for name, estimate in self.metrics.items()},
            "baselines": {
                baseline: {name: estimate.to_dict() for name, estimate in figures.items()}
                for baseline, figures in self.baselines.items()
            },
            "tainted": self.tainted is not None,
            "notes": list(self.notes),
            "scope": self.scope,
            "unit": self.unit,
            "described": [metric.to_dict() for metric in self.described],
            "trivial": list(self.trivial),
            **self.details,
        }
        if self.tainted is not None:
            document["taint"] = self.tainted
        return document

    def to_file_dict(self) -> dict[str, Any]:
        """``to_dict`` with the sums by unit: the content of a run's evaluation file."""
        groups = {} if self.groups is None else {"groups": list(self.groups)}
        return {**self.to_dict(), "units": {name: one.to_dict() for name, one in (self.units or {}).items()}, **groups}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict`` and ``to_file_dict``."""

        def figures(values: Mapping[str, Any]) -> Figures:
            return {name: Estimate.from_dict(value) for name, value in values.items()}

        units = {name: Units.from_dict(one) for name, one in document.get("units", {}).items()}
        return cls(
            name=document["name"],
            metrics=figures(document["metrics"]),
            baselines={name: figures(values) for name, values in document["baselines"].items()},
            step=document["step"],
            scope=document["scope"],
            unit=document["unit"],
            described=tuple(Metric.from_dict(values) for values in document["described"]),
            trivial=tuple(document["trivial"]),
            tainted=document["taint"] if document["tainted"] else None,
            notes=tuple(document["notes"]),
            details={key: value for key, value in document.items() if key not in _NOT_DETAILS},
            units=units or None,
            groups=tuple(document["groups"]) if "groups" in document else None,
        )

    @classmethod
    def read(cls, file: Path) -> Self:
        """The evaluation in a file of a run; refuses a file of another schema."""
        document = read_json_object(file)
        if document.get("schema") != RunDirectory.SCHEMA:
            raise RunError(
                f"{file} has schema {document.get('schema')!r}, but this version reads {RunDirectory.SCHEMA}; delete it and "
                "evaluate the run again.",
                reason="evaluation-schema",
            )
        return cls.from_dict(document)

    def metric(self, name: str) -> Metric | None:
        """The description of a metric."""
        return next((metric for metric in self.described if metric.name == name), None)

    def header(self) -> list[str]:
        """The names of the columns of ``cells``."""
        return ["metric", "model", *self.baselines, "what it is"]

    def cells(self) -> list[list[str | Estimate | None]]:
        """One row per metric: name, the model's value with its interval, each baseline's value, description."""
        rows: list[list[str | Estimate | None]] = []
        for name, estimate in self.metrics.items():
            metric = self.metric(name)
            values = [figures[name].value if name in figures else None for figures in self.baselines.values()]
            beside = [None if value is None else Estimate(value) for value in values]
            rows.append([name, None if estimate.value is None else estimate, *beside, "" if metric is None else metric.about])
        return rows

    def rows(self, *, full: bool = False) -> list[list[str]]:
        """The header and the cells as text; with the column of descriptions only when ``full``."""
        rows = [self.header(), *(["-" if cell is None else str(cell) for cell in row] for row in self.cells())]
        return rows if full else [row[:-1] for row in rows]

    def reasons(self) -> list[str]:
        """Why metrics of the model are undefined, one sentence each."""
        return [f"{name} is not defined: {figure.reason}." for name, figure in self.metrics.items() if figure.reason]

    def about(self) -> str:
        """Split, step and scope in one line."""
        at = "" if self.step is None else f" at step {self.step:,}"
        intervals = "; in brackets 95 % intervals" if any(estimate.n > 1 for estimate in self.metrics.values()) else ""
        return f"{self.name}{at}: {self.scope}{intervals}"

    def __repr__(self) -> str:
        judged = [name for name in self.metrics if (metric := self.metric(name)) is not None and metric.judged]
        shown = "".join(f", {name} {self.metrics[name]}" for name in judged or self.metrics)
        return f"Evaluation({self.name!r}{shown}{', tainted' if self.tainted else ''})"

    def __str__(self) -> str:
        banner = [f"TAINTED: {self.tainted}"] if self.tainted else []
        return "\n".join([*banner, self.about(), text_table(self.rows()), *self.reasons(), *self.notes])

    def _repr_html_(self) -> str:
        banner = f"<p><strong>Tainted:</strong> {html.escape(self.tainted)}</p>" if self.tainted else ""
        header, *body = self.rows(full=True)
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in (*self.reasons(), *self.notes))
        return (
            f"{banner}<p>{html.escape(self.about())}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{notes}"
        )


_NOT_DETAILS = {field.name for field in fields(Evaluation)} | {"taint", "schema"}
"""Keys of the JSON form that are not ``details``."""


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as aligned text: header first, first column left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        return "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])

    header, *body = rows
    return "\n".join([line(header), "  ".join("-" * width for width in widths), *(line(row) for row in body)])


def not_better_than_baseline(model: Outcomes, baselines: Mapping[str, Outcomes], metric: Metric) -> str | None:
    """A sentence when the model is not significantly better than the best baseline, else None.

    The comparison is paired by unit, so that the difficulty of a document cancels.
    """
    own, word = model.figures[metric.name], metric.name
    figures = {name: theirs.figures[metric.name].value for name, theirs in baselines.items() if metric.name in theirs.units}
    known = {name: value for name, value in figures.items() if value is not None}
    if not known:
        return None
    sign = 1.0 if metric.lower_is_better else -1.0
    best = min(known, key=lambda name: sign * known[name])
    if own.value is None:
        return f"The model gives no {word} ({own.reason}); the {best} baseline gives {known[best]:.4f} {metric.unit}."
    theirs, ours = baselines[best].units[metric.name], model.units[metric.name]
    gain = ratio(sign * (theirs.sums - ours.sums), ours.weights, blocks=model.unit in AUTOCORRELATED_UNITS)
    assert gain.value is not None
    beside = f"{word} {own.value:.4f} against {known[best]:.4f}"
    what = "texts" if model.unit in ("document", *AUTOCORRELATED_UNITS) else "items"
    if gain.value <= 0:
        return f"The model is not better than the {best} baseline on these {what} ({beside})."
    if gain.low is None or gain.high is None:
        return None  # one short text: no interval
    if gain.low <= 0:
        return (
            f"The model is not clearly better than the {best} baseline on these {what} ({beside}; "
            f"the gain of {gain.value:.4f} {metric.unit} may be anything from {gain.low:.4f} to {gain.high:.4f})."
        )
    return None


class _Objective(Protocol):
    """What an evaluation needs of an objective (``objectives.base.ObjectiveConfig``)."""

    @property
    def metrics(self) -> Sequence[Metric]: ...

    def evaluate(self, network: Any, items: Any, tools: EvaluationTools) -> Outcomes: ...

    def predict(self, network: Any, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]: ...


@final
@dataclass(frozen=True)
class Evaluator:
    """Evaluates one network; the baselines are fitted once for any number of sets."""

    objective: _Objective
    network: Any
    untrained: Any
    """The network before training, or None."""
    baselines: Mapping[str, Baseline]
    tools: EvaluationTools
    step: int | None = None
    tainted: str | None = None
    parent: Any = None
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
        lines = ["\t".join(header), *("\t".join(_tsv_cell(row[key]) for key in header) for row in rows)]
        write_atomically(file, "\n".join(lines) + "\n")


def _progress_callback(watch: Watcher, items: Any) -> Callable[[int], None]:
    """A progress callback; the total counts all items twice, for the network and the untrained one."""
    done, total = 0, 2 * max(1, len(getattr(items, "tokens", items)) - 1)

    def progress(more: int) -> None:
        nonlocal done
        done += more
        watch.progress("evaluating", min(done, total), total)

    return progress


def _tsv_cell(value: Any) -> str:
    """A value as one cell, with tabs and line breaks escaped."""
    if isinstance(value, float):
        return f"{value:.6f}"
    text = str(value).replace("\\", "\\\\")
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def saved_evaluation(run: RunDirectory, split: str, step: int) -> Evaluation | None:
    """The evaluation of a checkpoint that is saved in its run, or None."""
    file = run.evaluation_file(split, step)
    return Evaluation.read(file) if file.is_file() else None


def save_evaluation(run: RunDirectory, split: str, result: Evaluation) -> Evaluation:
    """Writes the evaluation with its sums by unit, and returns it as read back; in a read-only run, unchanged."""
    assert result.step is not None
    try:
        write_json(run.evaluation_file(split, result.step), {"schema": RunDirectory.SCHEMA, **result.to_file_dict()})
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return result
    return saved_evaluation(run, split, result.step) or result
