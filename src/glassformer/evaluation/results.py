"""``Evaluation``: the metrics of a model beside those of the baselines, as JSON, as a text table, as HTML.

Holds numbers only and can be read back from its JSON, so pages and studies need no model. Imports no torch.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

from glassformer.evaluation.language_metrics import language_units
from glassformer.evaluation.outcomes import Outcomes, Units
from glassformer.evaluation.statistics import AUTOCORRELATED_UNITS, ratio
from glassformer.evaluation.units import DocumentLosses
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric

Figures = dict[str, Estimate]
Cell = str | Estimate | None


@dataclass(frozen=True)
class PositionCurve:
    """The mean loss at each position of the window, its standard error over windows, and how many windows reached it."""

    mean: tuple[float, ...]
    standard_error: tuple[float, ...]
    n: tuple[int, ...]


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
    outcomes: Outcomes | None = field(default=None, repr=False, compare=False)

    def __getattr__(self, name: str) -> float | None:
        """``evaluation.loss``: the value of a metric; its interval is in ``evaluation.metrics["loss"]``."""
        metrics = self.__dict__.get("metrics", {})
        if name not in metrics:
            raise AttributeError(f"There is no {name!r}; the metrics are {', '.join(metrics)}.")
        value: float | None = metrics[name].value
        return value

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
        judged = next((metric for metric in metrics if metric.name in outcomes.units), None)
        groups = [{name: one for name, one in baselines.items() if (name in trivial) == low} for low in (True, False)]
        compared = [] if judged is None else [not_better_than_baseline(outcomes, group, judged) for group in groups]
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
        return {**self.to_dict(), "units": {name: one.to_dict() for name, one in (self.units or {}).items()}}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict`` and ``to_file_dict``."""
        units = {name: Units.from_dict(one) for name, one in document.get("units", {}).items()}
        if "losses" in document:  # a file of an older version
            units = language_units(DocumentLosses.from_arrays(document["losses"]))
        return cls(
            name=document["name"],
            metrics=_figures(document["metrics"]),
            baselines={name: _figures(figures) for name, figures in document.get("baselines", {}).items()},
            step=document.get("step"),
            scope=document.get("scope") or _old_scope(document),
            unit=document.get("unit", "document"),
            described=tuple(Metric.from_dict(values) for values in document.get("described", ())),
            trivial=tuple(document.get("trivial", OLD_TRIVIAL)),
            tainted=(document.get("taint") or "not said") if document.get("tainted") else None,
            notes=tuple(document.get("notes", ())),
            details={key: value for key, value in document.items() if key not in OWN_KEYS},
            units=units or None,
        )

    @property
    def positions(self) -> PositionCurve | None:
        """Mean loss by position in the window; None if the objective does not compute it."""
        curve = self.details.get("loss_by_position")
        return curve and PositionCurve(_floats(curve["mean"]), _floats(curve["standard_error"]), tuple(curve["n"]))

    def metric(self, name: str) -> Metric | None:
        """The description of a metric."""
        return next((metric for metric in self.described if metric.name == name), None)

    def header(self) -> list[str]:
        """The names of the columns of ``cells``."""
        return ["metric", "model", *self.baselines, "what it is"]

    def cells(self) -> list[list[Cell]]:
        """One row per metric: name, the model's value with its interval, each baseline's value, description."""
        return [
            [
                name,
                None if estimate.value is None else estimate,
                *(_without_interval(figures.get(name)) for figures in self.baselines.values()),
                metric.about if (metric := self.metric(name)) else "",
            ]
            for name, estimate in self.metrics.items()
        ]

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
        intervals = "; in brackets 95 % intervals" if self._units() > 1 else ""
        return f"{self.name}{at}: {self.scope}{intervals}"

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

    def _units(self) -> int:
        return max((estimate.n for estimate in self.metrics.values()), default=0)


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as aligned text: header first, first column left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        return "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])

    header, *body = rows
    return "\n".join([line(header), "  ".join("-" * width for width in widths), *(line(row) for row in body)])


def _without_interval(estimate: Estimate | None) -> Estimate | None:
    """The value alone; None if there is none."""
    return None if estimate is None or estimate.value is None else Estimate(estimate.value)


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
    beside, what = (
        f"{word} {own.value:.4f} against {known[best]:.4f}",
        "texts" if model.unit in ("document", *AUTOCORRELATED_UNITS) else "items",
    )
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


OWN_KEYS = frozenset(
    [
        "name",
        "step",
        "metrics",
        "baselines",
        "tainted",
        "taint",
        "notes",
        "scope",
        "unit",
        "described",
        "trivial",
        "units",
        "losses",
        "schema",
    ]
)
"""Keys of the JSON form that are not ``details``."""

OLD_TRIVIAL = ("uniform", "unigram", "untrained")
"""The trivial baselines in files of older versions, which do not name them."""


def _old_scope(document: Mapping[str, Any]) -> str:
    """The scope for files of older versions, which have none."""
    return f"{document.get('tokens', 0):,} predicted tokens in {document.get('documents', 0):,} documents"


def _figures(document: Mapping[str, Any]) -> Figures:
    return {name: Estimate.from_dict(value) for name, value in document.items()}


def _floats(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(float("nan") if value is None else value for value in values)
