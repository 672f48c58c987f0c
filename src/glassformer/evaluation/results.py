"""One evaluation as an object: named figures beside those of the baselines, as JSON, as a text table, as HTML.

Holds numbers only and can be read back from its JSON, so pages and studies need no model. Imports no torch.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np

from glassformer.evaluation.baselines import not_better_than_trivial
from glassformer.evaluation.documents import DocumentLosses, PositionLosses
from glassformer.evaluation.metrics import LANGUAGE_METRICS, language_metrics
from glassformer.foundation.estimate import Estimate

Figures = dict[str, Estimate]
Cell = str | Estimate | None


@dataclass(frozen=True)
class PositionCurve:
    """The mean loss at each position of the window, its standard error over windows, and how many windows reached it."""

    mean: tuple[float, ...]
    standard_error: tuple[float, ...]
    n: tuple[int, ...]

    @classmethod
    def of(cls, positions: PositionLosses) -> Self:
        """Positions that no window reached are left out."""
        reached = positions.n > 0
        mean, error, n = positions.mean[reached], positions.standard_error[reached], positions.n[reached]
        return cls(tuple(mean.tolist()), tuple(error.tolist()), tuple(n.tolist()))


@final
@dataclass(frozen=True)
class Evaluation:
    """What one model gave on one text.

    ``name``: the split, the file or the text itself. ``tainted``: why no figure here may be trusted (a leak), or None.
    ``losses``: the sums per document behind the figures, for paired comparisons; not part of the JSON.
    """

    name: str
    metrics: Figures
    baselines: dict[str, Figures] = field(default_factory=dict)
    step: int | None = None
    tokens: int = 0
    documents: int = 0
    unit: str = "document"
    tainted: str | None = None
    notes: tuple[str, ...] = ()
    positions: PositionCurve | None = None
    losses: DocumentLosses | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_language(
        cls,
        name: str,
        losses: DocumentLosses,
        baselines: Mapping[str, DocumentLosses],
        *,
        step: int | None = None,
        positions: PositionLosses | None = None,
        tainted: str | None = None,
        notes: Sequence[str] = (),
    ) -> Self:
        """The figures of a language model; the notes begin with what must be known to read them."""
        sentences = [not_better_than_trivial(losses, baselines), _about_unknown(losses)]
        return cls(
            name=name,
            metrics=language_metrics(losses),
            baselines={baseline: language_metrics(its_losses) for baseline, its_losses in baselines.items()},
            step=step,
            tokens=int(losses.tokens.sum()),
            documents=losses.documents,
            unit=losses.unit,
            tainted=tainted,
            notes=(*filter(None, sentences), *notes),
            positions=None if positions is None else PositionCurve.of(positions),
            losses=losses,
        )

    def plain(self) -> dict[str, Any]:
        """The JSON of the contract: metrics, baselines, tainted, and what they were measured on."""
        document: dict[str, Any] = {
            "name": self.name,
            "step": self.step,
            "metrics": {name: estimate.plain() for name, estimate in self.metrics.items()},
            "baselines": {
                baseline: {name: estimate.plain() for name, estimate in figures.items()}
                for baseline, figures in self.baselines.items()
            },
            "tainted": self.tainted is not None,
            "notes": list(self.notes),
            "tokens": self.tokens,
            "documents": self.documents,
            "unit": self.unit,
        }
        if self.tainted is not None:
            document["taint"] = self.tainted
        if self.positions is not None:
            document["loss_by_position"] = {
                "mean": _numbers(self.positions.mean),
                "standard_error": _numbers(self.positions.standard_error),
                "n": list(self.positions.n),
            }
        return document

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> Self:
        """The evaluation that ``plain`` described, without the losses per document."""
        curve = document.get("loss_by_position")
        return cls(
            name=document["name"],
            metrics=_figures(document["metrics"]),
            baselines={name: _figures(figures) for name, figures in document.get("baselines", {}).items()},
            step=document.get("step"),
            tokens=document.get("tokens", 0),
            documents=document.get("documents", 0),
            unit=document.get("unit", "document"),
            tainted=(document.get("taint") or "not said") if document.get("tainted") else None,
            notes=tuple(document.get("notes", ())),
            positions=curve and PositionCurve(_floats(curve["mean"]), _floats(curve["standard_error"]), tuple(curve["n"])),
        )

    def header(self) -> list[str]:
        """The names of the columns of ``cells``."""
        return ["figure", "model", *self.baselines, "what it is"]

    def cells(self) -> list[list[Cell]]:
        """One row per figure: its name, the model's with its interval, each baseline's without, what it is."""
        return [
            [
                name,
                None if estimate.value is None else estimate,
                *(_bare(figures.get(name)) for figures in self.baselines.values()),
                LANGUAGE_METRICS.get(name, ""),
            ]
            for name, estimate in self.metrics.items()
        ]

    def rows(self, *, full: bool = False) -> list[list[str]]:
        """The header and the cells as text; what each figure is only when ``full``: a terminal has no room for it."""
        rows = [self.header(), *(["-" if cell is None else str(cell) for cell in row] for row in self.cells())]
        return rows if full else [row[:-1] for row in rows]

    def reasons(self) -> list[str]:
        """Why a figure of the model is not defined, one sentence each."""
        return [f"{name} is not defined: {figure.reason}." for name, figure in self.metrics.items() if figure.reason]

    def about(self) -> str:
        """What was measured, in one line."""
        units = f"{self.documents:,} documents"
        if self.unit == "block":
            units = "1 document" if self._units() < 2 else f"1 document, in {self._units()} blocks"
        at = "" if self.step is None else f" at step {self.step:,}"
        intervals = "; intervals hold 95 %" if self._units() > 1 else ""
        return f"{self.name}{at}: {self.tokens:,} predicted tokens in {units}{intervals}"

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
    """Rows of equal length as aligned text; the first is the header; the first column is left-aligned, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        return "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])

    header, *body = rows
    return "\n".join([line(header), "  ".join("-" * width for width in widths), *(line(row) for row in body)])


def _bare(estimate: Estimate | None) -> Estimate | None:
    """The value without its interval; None when there is none."""
    return None if estimate is None or estimate.value is None else Estimate(estimate.value)


def _about_unknown(losses: DocumentLosses) -> str | None:
    unknown, tokens = int(losses.unknown.sum()), int(losses.tokens.sum())
    if not unknown:
        return None
    return (
        f"{unknown / tokens:.1%} of the predicted tokens are UNK, which is easier to guess than the word it hides: "
        "compare perplexities only with models of the same vocabulary."
    )


def _figures(document: Mapping[str, Any]) -> Figures:
    return {name: Estimate.from_plain(value) for name, value in document.items()}


def _numbers(values: Sequence[float]) -> list[float | None]:
    """What JSON can hold: None for what is not a finite number."""
    return [value if np.isfinite(value) else None for value in values]


def _floats(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(float("nan") if value is None else value for value in values)
