"""A user's text or table -> the plain values of a small recipe for it, and a sentence that says what was chosen.

A table (csv, tsv, jsonl, parquet) with a column of labels gets a classifier, anything else a character model. Sizes follow
the length of the file, so that the run ends in a minute or two on a laptop and learns something. Reads nothing but the
file's size and the names of a table's columns. A start, not an answer: the run's recipe.yaml holds all of it, to be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.reading.corpus import format_by_name
from glassformer.data.reading.tables import DEFAULTS, column_names, named
from glassformer.foundation.config import override, value_at
from glassformer.foundation.errors import DataError

ENDINGS = (".txt", ".text", ".md", ".rst", ".tex", ".log", ".gz", ".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""What is taken for a text or a table. Anything else that is given as a recipe is read as one."""

OF_TEXTS = ("labels", "multilabel", "regression")
"""Objectives about whole texts, which a table with labels can train."""
TUNING_RATES = {"full": 1e-4, "lora": 1e-3, "contrastive": 5e-5}
FROZEN_RATE = 1e-2
"""Learning rates that suit a pretrained encoder, by ``model.tuning`` (docs/labels.md); the last where the encoder is frozen."""


@dataclass(frozen=True)
class _Size:
    """Model sizes for texts of up to ``bytes``."""

    bytes: float
    width: int
    layers: int
    context: int
    steps: int


_SIZES = (
    _Size(20_000, width=48, layers=2, context=32, steps=400),
    _Size(300_000, width=64, layers=2, context=64, steps=800),
    _Size(float("inf"), width=128, layers=4, context=128, steps=1000),
)
_LABEL_SIZES = (
    _Size(300_000, width=64, layers=1, context=64, steps=300),
    _Size(float("inf"), width=64, layers=2, context=64, steps=1000),
)


def is_text(source: object) -> bool:
    """Whether this names a text file or a table rather than a recipe."""
    return isinstance(source, str | Path) and Path(source).suffix.lower() in ENDINGS and Path(source).is_file()


def recipe_for(file: str | Path, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a recipe; ``about`` says what was chosen. ``changes`` (applied later) may name a table's columns."""
    place, settings = Path(file), override({}, changes or {})
    try:
        length = place.stat().st_size * (4 if place.suffix == ".gz" else 1)  # gzipped text has about a quarter of its size
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}); check the path.", file=place, reason="unreadable") from error
    label = _label_column(place, settings)
    if label is not None:
        return _classifier(place, length, label, settings)
    size = _size(length, _SIZES)
    about = (
        f"A character model of {place.name}: {size.layers} layers of width {size.width}, context {size.context}, "
        f"{_duration(settings, size)}, chosen by the length of the text."
    )
    model = {"width": size.width, "layers": size.layers, "heads": 4, "context": size.context}
    return {"about": about, "data": {"path": str(place)}, "tokenizer": "char", "model": model, **_training(size.steps, 2e-3)}


def _size(length: int, sizes: tuple[_Size, ...]) -> _Size:
    return next(size for size in sizes if length <= size.bytes)


def _duration(settings: Mapping[str, Any], size: _Size) -> str:
    """As it is set, else by the size of the file."""
    epochs = value_at(settings, "training.epochs")
    return f"{epochs} epochs" if epochs else f"{value_at(settings, 'training.steps', size.steps)} steps"


def _training(steps: int, lr: float) -> dict[str, Any]:
    schedule = {"kind": "cosine", "warmup": 50, "final": 0.05}
    every = {"every": steps // 4}
    return {
        "training": {"steps": steps, "batch_size": 16, "lr": lr, "schedule": schedule},
        "evaluation": dict(every),
        "checkpoint": dict(every),
    }


def _label_column(place: Path, settings: Mapping[str, Any]) -> Any:
    """The column of labels that is named, or called ``label``; None for plain text and where another objective is set.
    Refuses a table without a column of texts."""
    kind = value_at(settings, "data.format") or format_by_name(place)
    if kind == "text":
        return None
    text, label = (value_at(settings, f"data.{key}") for key in ("text_column", "label_column"))
    numbered = isinstance(text, int) or isinstance(label, int)  # then there is no header
    known = [] if numbered else column_names(place, kind)
    if known and text is None and named(DEFAULTS["text_column"], known) not in known:
        raise DataError(
            f"the columns are {', '.join(known[:20])}, and none is called {DEFAULTS['text_column']!r}; name the text column "
            "with --set data.text_column=NAME and, to train a classifier, the labels with --set data.label_column=NAME.",
            file=place,
            reason="no-text-column",
        )
    if label is None and named(DEFAULTS["label_column"], known) in known:
        label = DEFAULTS["label_column"]
    return label if _objective(settings) in OF_TEXTS else None


def _objective(settings: Mapping[str, Any]) -> Any:
    """The objective that is set, or the one that the columns of labels ask for."""
    several = isinstance(value_at(settings, "data.label_column"), list) or value_at(settings, "data.label_separator")
    default = "multilabel" if several else "labels"
    return value_at(settings, "objective.kind") or value_at(settings, "objective", default)


def _classifier(place: Path, length: int, label: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    size = _size(length, _LABEL_SIZES)
    data = {"path": str(place), "split": {"validation": 0.2}}  # of few texts a tenth would be too few to measure anything
    objective = _objective(settings)
    common = {"data": data, "objective": objective}
    of = f"of {place.name} ({objective}: {', '.join(label) if isinstance(label, list) else label})"
    if value_at(settings, "model.kind") == "pretrained" or value_at(settings, "model.folder") is not None:
        tuning = value_at(settings, "model.tuning.kind") or value_at(settings, "model.tuning", "full")
        rate = TUNING_RATES.get(str(tuning), FROZEN_RATE)
        about = (
            f"A classifier {of}: a pretrained encoder, tuning {tuning}, learning rate "
            f"{value_at(settings, 'training.lr', rate):g}, {_duration(settings, size)}."
        )
        model: dict[str, Any] = {"kind": "pretrained", "context": 96}
        return {"about": about, **common, "model": model, **_training(size.steps, rate)}
    about = (
        f"A classifier {of}: words, {size.layers} layer{'s' * (size.layers > 1)} of width {size.width}, context "
        f"{size.context}, {_duration(settings, size)}, chosen by the length of the file."
    )
    head = {"kind": "classifier", "pool": "mean", "hidden": [size.width]}
    model = {"width": size.width, "layers": size.layers, "heads": 4, "context": size.context, "dropout": 0.3}
    tokenizer = {"kind": "word", "lowercase": True, "marks": False}
    model |= {"causal": False, "head": head}
    return {"about": about, **common, "tokenizer": tokenizer, "model": model, **_training(size.steps, 2e-3)}
