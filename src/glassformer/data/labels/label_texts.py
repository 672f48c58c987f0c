"""Unlabelled texts to classify, given as strings or in a file; single texts or pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.labels.label_sources import LabelSource, read_rows
from glassformer.data.labels.labelled_texts import (
    COLUMNS,
    UNLABELLED,
    LabelledTexts,
    of_labels,
    source_like,
    texts_of_file,
    texts_of_rows,
)
from glassformer.data.reading.corpus import format_by_name
from glassformer.data.reading.readers import EMPTY_LINE, lines, to_text
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import DataError, UsageError


def texts_to_ask(
    tokenizer: Tokenizer, path: Path | str, reading: DataConfig, *, record: Mapping[str, Any] | None = None
) -> LabelledTexts:
    """Reads a file of texts with or without labels: a table with the recipe's columns, or one text per line."""
    known = of_labels(record) or {}
    names = tuple(known.get("labels", {}).values())
    like = LabelSource("", (), **{key: known.get("reading", {}).get(key, getattr(reading, key)) for key in COLUMNS})
    source = source_like(like, path, reading, labelled=False)
    if format_by_name(source.files[0]) == "text" and like.pair_column is None:
        if like.format == "label-text" and _begins_with_labels(source, {*known.get("labels", {}), *names}):
            return texts_of_file(tokenizer, path, reading, record=record)
        return labelled_texts(Path(path).name, _lines(source.files), names)
    try:
        return texts_of_file(tokenizer, path, reading, record=record)
    except DataError as error:
        if "data.label_column" not in str(error):
            raise
    rows = list(read_rows(source))
    if not rows:
        raise DataError("there are no rows in it; give at least one text.", file=path)
    return texts_of_rows(str(path), rows, list(known.get("labels", {})), names)


def _lines(files: Sequence[Path]) -> list[str]:
    """One text per line. Raises on an empty line in between, since answers are written line by line."""
    found: list[str] = []
    for file in files:
        empty: int | None = None
        for number, line in lines(file):
            text = to_text(line, file, number).strip()
            if text and empty is not None:
                raise DataError(EMPTY_LINE, file=file, line=empty)
            if text:
                found.append(text)
            elif empty is None:
                empty = number
    return found


def _begins_with_labels(source: LabelSource, labels: set[str]) -> bool:
    """Whether each line is a known label and a text, as in the training file."""
    try:
        return all(row.label in labels for row in read_rows(replace(source, labelled=True)))
    except DataError:
        return False


def texts_given(
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    pairs: Sequence[str] | None = None,
    record: Mapping[str, Any] | None = None,
) -> LabelledTexts:
    """Texts to ask about."""
    known = of_labels(record) or {}
    names = tuple(known.get("labels", {}).values())
    reads_pairs = known.get("reading", {}).get("pair_column") is not None
    if known and reads_pairs != (pairs is not None):
        raise UsageError(
            "This run reads pairs of texts, and one text is given: `glassformer ask RUN TEXT --pair TEXT` reads two, and "
            "evaluate --data FILE a table of pairs; look, evaluate --text and the page read single texts only."
            if reads_pairs
            else "This run reads one text; leave --pair out."
        )
    seconds = [pairs] if isinstance(pairs, str) else pairs
    return labelled_texts("text", [texts] if isinstance(texts, str) else texts, names, seconds)


def labelled_texts(
    name: str, texts: Sequence[str], label_names: Sequence[str], pairs: Sequence[str] | None = None
) -> LabelledTexts:
    """Texts given as strings, without labels."""
    if odd := [text for text in (*texts, *(pairs or ())) if not isinstance(text, str)]:
        raise UsageError(f"A text to label is text, and {odd[0]!r} is {type(odd[0]).__name__}; give texts.")
    if pairs is not None and len(pairs) != len(texts):
        raise UsageError(f"There are {len(texts)} texts and {len(pairs)} second texts; give one for each.")
    if not texts or not all(text.strip() for text in (*texts, *(pairs or ()))):
        raise DataError("The text is empty; give at least one word.")
    ids = tuple(f"{name}:{number + 1}" for number in range(len(texts)))
    labels = np.full(len(texts), UNLABELLED)
    return LabelledTexts(name, tuple(texts), None if pairs is None else tuple(pairs), labels, ids, tuple(label_names))
