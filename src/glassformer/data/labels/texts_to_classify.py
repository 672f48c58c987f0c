"""Texts to classify, from a file or given as strings, with or without labels: read as a run's record says. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import UNLABELLED, LabelledTexts, Labels, columns_of, source_like, texts_of_rows
from glassformer.data.reading.corpus import LabelSource, Target, format_by_name, read_rows
from glassformer.data.reading.readers import given_texts, text_per_line
from glassformer.data.reading.sources import find_label_sources
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import ConfigError, DataError, UsageError


def texts_of_file(
    tokenizer: Tokenizer, path: Path | str, reading: DataConfig, *, record: Mapping[str, Any] | None = None
) -> LabelledTexts:
    """A user's file, with the labels in the run's record; training texts among them are marked as seen."""
    known = _record_of_labels(record)
    target: Target = (known or {}).get("target", "class")
    try:
        return Labels(reading, expect=known, target=target).file(path)
    except (DataError, ConfigError):  # ConfigError: an imported classifier has no training data
        if known is None or _training_files_exist(reading):
            raise
    rows = list(read_rows(source_like(LabelSource("", (), **columns_of(known["reading"]), target=target), path, reading)))
    if not rows:
        raise DataError("there are no rows in it; give at least one labelled text.", file=path, reason="no-rows")
    return texts_of_rows(str(path), rows, *_known(known))


def texts_to_ask(
    tokenizer: Tokenizer, path: Path | str, reading: DataConfig, *, record: Mapping[str, Any] | None = None
) -> LabelledTexts:
    """Reads a file of texts with or without labels: a table with the recipe's columns, or one text per line."""
    known = _record_of_labels(record) or {}
    labels: Mapping[str, str] = known.get("labels", {})
    like = LabelSource(
        "", (), **{**columns_of(vars(reading)), **columns_of(known.get("reading", {}))}, target=known.get("target", "class")
    )
    source = source_like(like, path, reading, labelled=False)
    if format_by_name(source.files[0]) == "text" and like.pair_column is None:
        if like.format == "label-text" and _begins_with_labels(source, {*labels, *labels.values()}):
            return texts_of_file(tokenizer, path, reading, record=record)
        return unlabelled_texts(
            Path(path).name,
            [text for file in source.files for text in text_per_line(file)],
            tuple(labels.values()),
            scale=_scale(known),
        )
    try:
        return texts_of_file(tokenizer, path, reading, record=record)
    except DataError as error:
        if error.reason != "no-label-column":
            raise
    rows = list(read_rows(source))
    if not rows:
        raise DataError("there are no rows in it; give at least one text.", file=path, reason="no-rows")
    return texts_of_rows(str(path), rows, *_known(known))


def texts_given(
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    pairs: str | Sequence[str] | None = None,
    record: Mapping[str, Any] | None = None,
) -> LabelledTexts:
    """Texts to classify, given as strings; ``pairs``: the second texts."""
    known = _record_of_labels(record) or {}
    reads_pairs = known.get("reading", {}).get("pair_column") is not None
    if known and reads_pairs and pairs is None:
        raise UsageError(
            "This run needs pairs of texts, but got one text: `glassformer ask RUN TEXT --pair TEXT` takes a pair, and "
            "evaluate --data FILE a table of pairs; look, evaluate --text and the page take single texts only.",
            reason="pair-missing",
        )
    if known and not reads_pairs and pairs is not None:
        raise UsageError("This run takes one text; drop --pair.", reason="pair-not-read")
    seconds = [pairs] if isinstance(pairs, str) else pairs
    names = tuple(known.get("labels", {}).values())
    return unlabelled_texts("text", [texts] if isinstance(texts, str) else texts, names, seconds, scale=_scale(known))


def unlabelled_texts(
    name: str,
    texts: Sequence[str],
    label_names: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    scale: tuple[float, float] | None = None,
) -> LabelledTexts:
    """Texts given as strings, without labels."""
    given_texts([*texts, *(pairs or ())])
    if pairs is not None and len(pairs) != len(texts):
        rule = f"There are {len(texts)} texts and {len(pairs)} second texts; give one for each."
        raise UsageError(rule, reason="pair-missing")
    ids = tuple(f"{name}:{number + 1}" for number in range(len(texts)))
    labels = np.full(len(texts), UNLABELLED if scale is None else np.nan)
    seconds = None if pairs is None else tuple(pairs)
    return LabelledTexts(name, tuple(texts), seconds, labels, ids, tuple(label_names), scale=scale)


def _begins_with_labels(source: LabelSource, labels: set[str]) -> bool:
    """Whether each line is a known label and a text, as in the training file."""
    try:
        return all(row.label in labels for row in read_rows(replace(source, labelled=True)))
    except DataError:
        return False


def _training_files_exist(reading: DataConfig) -> bool:
    try:
        find_label_sources(reading)
    except (DataError, ConfigError):
        return False
    return True


def _record_of_labels(record: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The labelled part in the record of a run's data."""
    return record if record is None or "labels" in record else record.get("parts", {}).get("labels")


def _scale(record: Mapping[str, Any]) -> tuple[float, float] | None:
    return (float(scale[0]), float(scale[1])) if (scale := record.get("scale")) else None


def _known(record: Mapping[str, Any]) -> tuple[list[str], tuple[str, ...], Target, tuple[float, float] | None]:
    """What the record of a run says about its labels: as the file spells them, as they are shown, their kind and scale."""
    labels = record.get("labels", {})
    return list(labels), tuple(labels.values()), record.get("target", "class"), _scale(record)
