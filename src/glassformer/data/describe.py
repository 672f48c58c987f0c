"""Statistics of a corpus as plain values: sizes, document lengths, duplicates, first documents."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.prepare import PreparedText, ProgressCallback, prepare, reading_of
from glassformer.data.reading.corpus import Document, Source, layout_notes, read, read_rows
from glassformer.data.reading.named_sets import SETS, LabelSources
from glassformer.data.reading.sources import find_sources
from glassformer.data.token_files import TokenSplit
from glassformer.data.tokenizers.base import TokenizerConfig

QUANTILES = {"smallest": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "largest": 1.0}
_EXCERPT = 120  # characters


def list_sets() -> list[dict[str, Any]]:
    """Every named set: its description, and whether its files are available."""
    return [{"name": known.name, "about": known.about, "here": known.is_here()} for known in SETS.values()]


def first_documents(data: DataConfig, *, count: int = 5, characters: int = 1000) -> dict[str, Any]:
    """The first documents as they are read, each cut at ``characters``. Reads no further than it has to."""
    parts = find_sources(data)
    shown = []
    for document in islice(_whole(parts.train, characters), count):
        text = document.text[:characters]
        shown.append({"source": document.source, "line": document.line, "text": text, "cut": len(text) < len(document.text)})
    labels = _labels(parts.labelled, parts.train, last=max((one["line"] for one in shown), default=0))
    shown = [{**one, "label": labels[one["line"]]} if one["line"] in labels else one for one in shown]
    held_out = {"validation": parts.validation, **{f"test:{name}": source for name, source in parts.tests.items()}}
    return {
        "source": parts.train.name,
        "files": [str(file) for file in parts.train.files],
        "reading": reading_of(parts.train),
        "own_files": {name: [str(file) for file in source.files] for name, source in held_out.items() if source},
        "documents": shown,
        "notes": [*parts.notes, *layout_notes(parts.train)],
    }


def _labels(labelled: LabelSources | None, text: Source, *, last: int) -> dict[int, str]:
    """By line, the names of the labels (the labels themselves where they have none) of a set whose text is labelled."""
    if labelled is None or labelled.train.files != text.files or len(text.files) > 1:
        return {}
    rows = takewhile(lambda row: row.line <= last, read_rows(labelled.train))
    return {row.line: labelled.names.get(row.label, row.label) for row in rows if row.label is not None}


def _whole(source: Source, characters: int) -> Any:
    """Documents, not pieces of them; what comes after the first ``characters`` of one is left out."""
    document: Document | None = None
    for piece in read(source):
        if document is not None and piece.continues:
            if len(document.text) <= characters:
                document = Document(document.text + piece.text, document.source, document.line)
            continue
        if document is not None:
            yield document
        document = piece
        if len(piece.text) > characters and len(source.files) == 1 and source.document == "file":
            break  # no need to read the rest of a large file
    if document is not None:
        yield document


def measure(
    data: DataConfig, tokenizer: TokenizerConfig, *, test: bool = False, progress: ProgressCallback | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(facts as plain values, document lengths in tokens by split). The test split is opened only when asked for."""
    prepared = prepare(data, tokenizer, progress=progress)
    names = [name for name in prepared.names if test or name != "test"]
    splits = {name: prepared.split(name) for name in names}
    facts = prepared.record
    facts["notes"] = [*facts["notes"], *layout_notes(prepared.sources.train)]
    facts["splits"] = {name: {**split.to_dict(), **_details(split, prepared)} for name, split in splits.items()}
    facts["unopened"] = [name for name in prepared.names if name not in splits]
    return facts, {name: lengths_of(split) for name, split in splits.items()}


def lengths_of(split: TokenSplit) -> np.ndarray:
    """int64: the tokens of each document."""
    return np.diff(split.starts, append=split.num_tokens)


def _details(split: TokenSplit, prepared: PreparedText) -> dict[str, Any]:
    lengths = lengths_of(split)
    at = np.quantile(lengths, list(QUANTILES.values()), method="inverted_cdf").tolist()
    return {
        "tokens_per_document": {"mean": float(lengths.mean()), **dict(zip(QUANTILES, at))},
        "bytes_per_token": split.num_bytes / split.num_tokens,
        "repeats": [
            {"at": split.where(later), "as": split.where(first), "text": _excerpt(split, later, prepared)}
            for later, first in split.repeats.examples
        ],
    }


def _excerpt(split: TokenSplit, number: int, prepared: PreparedText) -> str:
    text = prepared.tokenizer.decode(split.document(number)[:_EXCERPT].tolist()).strip()
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"
