"""Labelled texts by split, with the set of labels, class balance, and notes.

A text has one label, several labels, or a number (``Target``). Labels are those of the training file; another one elsewhere
raises with its file and line. The validation share is drawn by ``data.split.seed`` alone, so every training seed sees the same
split; ``data.split.stratify`` draws it label by label. Does not tokenize and imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from glassformer.data.config import DataConfig, FormatKind, SplitConfig
from glassformer.data.memory_cache import MemoryCache
from glassformer.data.near_duplicates import (
    SHINGLE,
    SIMILAR,
    Near,
    near_duplicates_of,
    near_duplicates_within,
    normalised,
    symbols,
    too_many,
)
from glassformer.data.prepare import trained_tokenizer
from glassformer.data.reading.column_types import column_types
from glassformer.data.reading.corpus import (
    LabelSource,
    Row,
    Skipped,
    Source,
    Target,
    format_by_name,
    layout_notes,
    read,
    read_rows,
)
from glassformer.data.reading.layouts import DELIMITERS
from glassformer.data.reading.named_sets import LabelSources
from glassformer.data.reading.sources import cached_rows, find_label_sources, find_sources, fingerprint_of, source_at
from glassformer.data.reading.splits import SplitRows, draw_splits_by_class
from glassformer.data.reading.tables import BETWEEN, DEFAULTS, cells
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import DataError
from glassformer.foundation.seeds import derive_seed

UNLABELLED = -1
KINDS: Mapping[str, Target] = {"labels": "class", "multilabel": "several", "numbers": "number"}
"""The kinds of data that are labelled texts."""
MOST_RATINGS = 10
"""Different whole numbers that are taken for a scale of ratings."""
COLUMNS = ("format", "text_column", "pair_column", "label_column", "separator")

_MISSING = {"nan", "n/a", "na", "null", "none", "<na>", "#n/a"}  # what spreadsheets and pandas write for no value

LabelRows = tuple[tuple[Row, ...], Skipped]
_rows = MemoryCache[LabelRows](4, lambda read: sum(2 * len(row.text) + 2 * len(row.pair or "") + 200 for row in read[0]))
_near = MemoryCache[Near](8, lambda near: 100 * near.count)


def rows_of(source: LabelSource) -> LabelRows:
    """The rows of a source and its skipped lines; cached in memory, since every trial of a study reads the same files."""
    return cached_rows(_rows, source, read_rows)


@dataclass(frozen=True)
class LabelledTexts:
    """Texts (and their pairs) with label indices; ``label_names`` has their names.

    ``ids`` identify a text by file name and line. ``scale``: the mean and the standard deviation of the training numbers.
    """

    name: str
    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None
    labels: np.ndarray  # int64 [N], UNLABELLED where the file has none; several: 0 and 1 [N, C]; numbers: float64 [N]
    ids: tuple[str, ...]
    label_names: tuple[str, ...]
    seen: np.ndarray | None = None  # bool: a training text is the same up to case and spacing; None: not known
    scale: tuple[float, float] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def target(self) -> Target:
        return "several" if self.labels.ndim == 2 else "number" if self.scale is not None else "class"

    @property
    def target_array(self) -> np.ndarray:
        """What a network is trained on: class indices [N]; float32 of several labels [N, C]; scaled numbers [N, 1]."""
        if self.scale is not None:
            return ((self.labels - self.scale[0]) / self.scale[1])[:, None].astype(np.float32)
        return self.labels if self.labels.ndim == 1 else self.labels.astype(np.float32)

    @property
    def unlabelled(self) -> bool:
        """Whether the label of some text is not known."""
        return bool((~np.isfinite(self.labels)).any() if self.target == "number" else (self.labels < 0).any())

    @property
    def counts(self) -> np.ndarray:
        """How many texts each label has."""
        if self.target == "class":
            return np.bincount(self.labels[self.labels >= 0], minlength=len(self.label_names))
        return (self.labels > 0).sum(axis=0) if self.target == "several" else np.array([len(self)])

    @property
    def answers(self) -> list[str] | None:
        """The name of each text's label, or of all of them with commas between, or its number; None where a text has none."""
        return None if self.unlabelled else [self.answer(index) for index in range(len(self))]

    def answer(self, index: int) -> str:
        """The label of one text in words; empty where it has none."""
        label = self.labels[index]
        if self.target == "number":
            return f"{label:.6g}" if np.isfinite(label) else ""
        chosen = np.flatnonzero(label > 0) if self.target == "several" else [label] * int(label >= 0)
        return ", ".join(self.label_names[one] for one in chosen)

    def target_in_words(self, target: Any) -> str:
        """One of ``target_array`` in words."""
        if self.scale is not None:
            return f"{float(target[0]) * self.scale[1] + self.scale[0]:.6g}"
        chosen = np.flatnonzero(target > 0) if self.target == "several" else [target]
        return ", ".join(self.label_names[int(one)] for one in chosen) or "none"

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of the texts and their labels, since ``ids`` do not distinguish two files of one name."""
        named: list[Any] = [self.answer(index) for index in range(len(self))]
        if self.target == "number" and not self.unlabelled:
            named = self.labels.tolist()
        return fingerprint([self.texts, self.pairs, named])

    def balance(self) -> str:
        """``2,092 texts: Obama 43.1 %, W. Bush 30.0 %, ...``; several labels add up to more, numbers have a range."""
        if self.target == "number":
            low, middle, high = np.quantile(self.labels, (0, 0.5, 1))
            return f"{len(self):,} texts: {self.label_names[0]} from {low:.6g} to {high:.6g}, median {middle:.6g}"
        counts = self.counts
        if self.target == "several":
            shares = ", ".join(f"{name} {count / len(self):.1%}" for name, count in zip(self.label_names, counts))
            return f"{len(self):,} texts, {counts.sum() / len(self):.2f} labels each: {shares}"
        shares = ", ".join(f"{name} {share:.1%}" for name, share in zip(self.label_names, counts / max(1, counts.sum())))
        return f"{len(self):,} texts: {shares}"

    def text_of(self, index: int) -> str:
        """One text with its pair, for display."""
        return self.texts[index] if self.pairs is None else f"{self.texts[index]} | {self.pairs[index]}"

    def __getitem__(self, chosen: Sequence[int]) -> LabelledTexts:
        at = list(chosen)
        pairs = None if self.pairs is None else tuple(self.pairs[index] for index in at)
        texts, ids = tuple(self.texts[index] for index in at), tuple(self.ids[index] for index in at)
        seen = None if self.seen is None else self.seen[at]
        return LabelledTexts(self.name, texts, pairs, self.labels[at], ids, self.label_names, seen, self.scale)


@final
class Labels(SplitRows[Row, LabelledTexts]):
    """The labelled texts of a recipe's data."""

    what: ClassVar[str] = "labelled texts"

    def __init__(self, data: DataConfig, *, expect: Mapping[str, Any] | None = None, target: Target = "class") -> None:
        self.target = target
        self.scale: tuple[float, float] | None = None
        self._trained_on = np.zeros(0, np.int64)
        super().__init__(data, expect=expect)

    def _find(self, data: DataConfig) -> LabelSources:
        return find_label_sources(data, self.target)

    def _names_tests(self, found: LabelSources) -> bool:
        return len(found.tests) > 1 or self._data.set is not None

    def _read(self, source: LabelSource) -> LabelRows:
        return rows_of(source)

    def _source_at(self, path: str | Path) -> LabelSource:
        """With the same columns as the recipe's data, and labels that are known."""
        return source_like(self._sources.train, path, self._data)

    def _drawn(self, rows: Sequence[Row], shares: SplitConfig) -> np.ndarray:
        self._values = _known_labels(rows, self._sources.train)
        self.label_names = tuple(self._sources.names.get(value, value) for value in self._values)
        if shares.stratify:
            return draw_splits_by_class([str(row.label) for row in rows], shares)
        return super()._drawn(rows, shares)

    def _items(self, name: str, rows: Sequence[Row]) -> LabelledTexts:
        rows = self._few(rows) if name == "train" else rows
        texts = texts_of_rows(name, rows, self._values, self.label_names, self.target, self.scale)
        hashes_N = np.fromiter((hash(normalised(texts.text_of(at))) for at in range(len(texts))), np.int64, len(texts))
        if name != "train":
            return replace(texts, seen=np.isin(hashes_N, self._trained_on))
        if self.target == "class" and np.count_nonzero(texts.counts) < 2:
            raise DataError(
                f"all texts to train on have the label {self._values[int(texts.labels[0])]!r}; one class only is "
                "nothing to learn. Give texts of at least two labels, or another data.split.seed.",
                file=self._sources.train.name,
                reason="one-label",
            )
        self.scale = texts.scale
        self._trained_on = hashes_N
        return texts

    def _few(self, rows: Sequence[Row]) -> Sequence[Row]:
        """``data.few`` rows of each label, in the order of the file; all rows without it."""
        few = self._data.few
        if few is None:
            return rows
        order = np.random.default_rng(derive_seed(self._data.few_seed or 0, "few")).permutation(len(rows))
        drawn: dict[str | None, list[int]] = {}
        for at in order.tolist():
            drawn.setdefault(rows[at].label, []).append(at)
        if short := {str(label): len(places) for label, places in drawn.items() if len(places) < few}:
            label, count = next(iter(sorted(short.items())))
            raise DataError(
                f"data.few={few} texts of each label are asked for, but {label!r} has {count} to train on; give fewer.",
                file=self._sources.train.name,
                reason="fewer-than-few",
            )
        return [rows[at] for at in sorted(at for places in drawn.values() for at in places[:few])]

    def training_texts(self) -> Iterator[str]:
        """The training texts of a tokenizer: the labelled ones, and the plain text of a set that has one."""
        train = self._splits["train"]
        yield from train.texts
        yield from train.pairs or ()
        if (beside := self._beside) is not None:
            yield from (document.text for document in read(beside))

    def learn(self, config: TokenizerConfig) -> Tokenizer:
        """The tokenizer trained on the training texts, cached."""
        beside = None if self._beside is None else fingerprint_of(self._beside)
        return trained_tokenizer(config, self.training_texts, "labels", self._splits["train"].fingerprint, beside)

    @property
    def _beside(self) -> Source | None:
        beside = None if self._data.set is None else find_sources(self._data).train
        return None if beside is None or beside.files == self._sources.train.files else beside

    @property
    def class_weights(self) -> np.ndarray | None:
        """``data.class_weights``: the weight of each class in the loss, 1 for the mean text; of several labels [2, C], of the
        texts without and with each label. None: all weigh the same."""
        if self._data.class_weights == "none":
            return None
        train = self._splits["train"]
        counts = np.stack([len(train) - train.counts, train.counts]) if self.target == "several" else train.counts
        classes = 2 if self.target == "several" else np.count_nonzero(counts)
        return np.asarray(len(train) / (classes * np.maximum(counts, 1)))

    def near_duplicates(self, name: str) -> Near:
        """The texts of a split that nearly are training texts; of the training texts, those that nearly are earlier ones."""
        train, split = self.split("train"), self.split(name)

        def make() -> Near:
            own, new = ([part.text_of(at) for at in range(len(part))] for part in (train, split))
            if too_many(own, () if name == "train" else new):  # before their characters take four bytes each
                return Near(None)
            if name == "train":
                return near_duplicates_within([symbols(text) for text in own])
            return near_duplicates_of([symbols(text) for text in own], [symbols(text) for text in new])

        return _near.get((train.fingerprint, split.fingerprint), make)

    @property
    def notes(self) -> list[str]:
        """Notes: class balance of every open split, duplicates, skipped lines."""
        found = [f"{name}: {split.balance()}." for name, split in self._splits.items()]
        found += [note for source in (self._sources.train, self._sources.validation) if source for note in layout_notes(source)]
        for name, count in zip(self.label_names, self._splits["train"].counts):
            if not count:  # numbers have one name and all texts
                found.append(
                    f"No text to train on has the label {name}: all of them are held out, so it cannot be learned; give more "
                    "such texts, or another data.split.seed."
                )
        if self.target == "class" and not self._sources.validation and "validation" in self._splits:
            found += [
                f"No validation text has the label {name}; data.split.stratify=true holds out a share of each label."
                for name, count in zip(self.label_names, self._splits["validation"].counts)
                if not count and not self._data.split.stratify
            ]
        for name, split in self._splits.items():
            again = 0 if split.seen is None else int(split.seen.sum())
            if again:
                found.append(
                    f"{again} of the {len(split)} {name} texts ({again / len(split):.0%}) occur in the training texts, up to "
                    "case and spacing: what is right there may be memory; the figures of unseen texts say what holds for new "
                    "ones."
                )
            near = Near() if name == "train" else self.near_duplicates(name)
            if near.pairs:
                there, here, similarity = min(near.pairs, key=lambda pair: pair[2])
                found.append(
                    f"{near.count} of the {len(split)} {name} texts are near-duplicates of a training text: they share "
                    f"at least {SIMILAR:.0%} of their pieces of {SHINGLE} characters, for example {split.ids[there]} with "
                    f"{self._splits['train'].ids[here]} ({similarity:.0%})."
                )
        if self.target != "number":
            found += [*self._doubtful_labels(), *self._swallowed_rows()]
        if self.target == "class":
            found += self._several_in_one()
        if self.target == "class" and len(self._values) > MOST_RATINGS and all(map(_is_number, self._values)):
            found.append(
                f"The {len(self._values)} labels are all numbers; objective: labels does not know their order or distance. "
                "objective=regression predicts them as numbers."
            )
        return [*found, *super().notes]

    @property
    def columns(self) -> dict[str, str]:
        """What the columns of the training file hold; empty where it has no header."""
        source = self._sources.train
        kind = source.format or format_by_name(source.files[0])
        headless = kind == "label-text" or isinstance(source.text_column, int)
        return {} if headless else column_types(source.files[0], kind)

    def _doubtful_labels(self) -> list[str]:
        """Labels that may stand for no label, and labels that may be the same."""
        missing = [name for name in self._values if name.casefold() in _MISSING]
        found = [f"The label {name!r} often stands for a missing value; remove these rows if it does." for name in missing]
        alike: dict[str, list[str]] = {}
        for name in self._values:
            alike.setdefault(" ".join(name.casefold().split()), []).append(name)
        found += [
            f"The labels {', '.join(map(repr, names))} differ only in capitals or spaces; write them alike if they are one."
            for names in alike.values()
            if len(names) > 1
        ]
        return found

    def _several_in_one(self) -> list[str]:
        """Labels that are made of others: the same parts in many combinations."""
        for sign in (";", "|", ","):
            joined = [value for value in self._values if sign in value]
            parts = {part.strip() for value in self._values for part in value.split(sign)}
            if 2 * len(joined) >= len(self._values) and len(parts) < len(self._values):
                return [
                    f"Labels such as {joined[0]!r} look like several in one cell, and are learned as one class each; "
                    f"objective=multilabel with data.label_separator={sign!r} learns each of the {len(parts)} by itself."
                ]
        return []

    def _swallowed_rows(self) -> list[str]:
        """Texts with lines that end or begin like a row of the table, as between a quote left open and the next one."""
        ends = tuple(between + label for label in self._values for between in DELIMITERS)
        begins = tuple(label + between for label in self._values for between in DELIMITERS)
        found = []
        for split in self._splits.values():
            for at, text in enumerate(split.texts):
                lines = text.split("\n")
                if any(line.endswith(ends) for line in lines[:-1]) or any(line.startswith(begins) for line in lines[1:]):
                    found.append(split.ids[at])
        if not found:
            return []
        return [f"{len(found)} texts hold what look like rows of the table, for example {found[0]}: is a quote left open?"]

    @property
    def record(self) -> dict[str, Any]:
        """With the labels, and how many texts each has."""
        return {
            **super().record,
            "labels": dict(zip(self._values, self.label_names)),
            **({} if self.target == "class" else {"target": self.target, "scale": self.scale}),
            "splits": {name: {"texts": len(split), "counts": split.counts.tolist()} for name, split in self._splits.items()},
        }


def load_labels(
    data: DataConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    *,
    marks: Sequence[str] = (),
    progress: Any = None,
    expect: Mapping[str, Any] | None = None,
    target: Target = "class",
) -> Labels:
    """The labelled texts with a tokenizer: an existing one, or one trained on the training texts."""
    part = Labels(data, expect=expect, target=target)
    part.tokenizer = (part.learn(tokenizer) if isinstance(tokenizer, TokenizerConfig) else tokenizer).with_marks(marks)
    return part


def columns_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """How rows are read, from a record or a recipe's ``data``; columns of labels as a tuple."""
    found = {key: values[key] for key in COLUMNS if values.get(key) is not None}
    if "label_separator" in values and values["label_separator"] is not None:
        found["separator"] = values["label_separator"]
    if isinstance(found.get("label_column"), list):
        found["label_column"] = tuple(found["label_column"])
    return found


def source_like(like: LabelSource, path: str | Path, reading: DataConfig, *, labelled: bool = True) -> LabelSource:
    """Files at ``path`` with the columns of ``like``, or with default column names in another format."""
    files = source_at(str(path), reading).files
    columns = columns_of(vars(like))
    kind = format_by_name(files[0])
    known = like.format or (format_by_name(like.files[0]) if like.files else None)
    if kind not in ("text", known) and not _has_columns(files[0], kind, like):
        columns = {"format": kind, "pair_column": "pair" if like.pair_column else None}
    skip = reading.bad_lines == "skip"
    return LabelSource(str(path), files, **columns, labelled=labelled, skip_bad_lines=skip, target=like.target)


def _has_columns(file: Path, kind: FormatKind, like: LabelSource) -> bool:
    """Whether a file has the named columns of ``like``."""
    needed = {"text_column": like.text_column, **({"pair_column": like.pair_column} if like.pair_column else {})}
    try:
        return not any(isinstance(column, int) for column in needed.values()) and any(True for _ in cells(file, kind, needed))
    except DataError:
        return False


def texts_of_rows(
    name: str,
    rows: Sequence[Row],
    values: Sequence[str],
    names: Sequence[str],
    target: Target = "class",
    scale: tuple[float, float] | None = None,
) -> LabelledTexts:
    """Rows with label indices; a label may be spelled as in the training file or by its name. ``scale``: None for the
    training numbers, which give it."""
    pairs = None if rows[0].pair is None else tuple(row.pair or "" for row in rows)
    ids, texts = tuple(f"{row.file.name}:{row.line}" for row in rows), tuple(row.text for row in rows)
    if target == "number":
        numbers_N = np.array([np.nan if row.label is None else _number(row) for row in rows])
        spread = float(numbers_N.std())
        scale = scale or (float(numbers_N.mean()), spread if spread > 0 else 1.0)
        return LabelledTexts(name, texts, pairs, numbers_N, ids, tuple(names), scale=scale)
    numbers = {**{shown: number for number, shown in enumerate(names)}, **{value: at for at, value in enumerate(values)}}
    labels = np.full(len(rows), UNLABELLED)
    if target == "several":
        labels = np.array([[UNLABELLED if row.label is None else 0] * len(values) for row in rows], dtype=np.int64)
    for index, row in enumerate(rows):
        found = [] if not row.label else row.label.split(BETWEEN) if target == "several" else [row.label]
        if odd := [label for label in found if label not in numbers]:
            raise DataError(
                f"the label {odd[0]!r} does not occur in the training texts, whose labels are {', '.join(values)}; "
                "correct it or remove the row.",
                file=row.file,
                line=row.line,
                reason="unknown-label",
            )
        for label in found:
            if target == "several":
                labels[index, numbers[label]] = 1
            else:
                labels[index] = numbers[label]
    return LabelledTexts(name, texts, pairs, labels, ids, tuple(names))


def _number(row: Row) -> float:
    assert row.label is not None
    if not _is_number(row.label):
        without = row.label.replace(",", "")
        remedy = (
            "It has a comma: write a point before decimals, and nothing between thousands."
            if _is_number(without)
            else "Correct it or remove the row. Ratings in words need numbers in their order (bad 1, fair 2, good 3); classes "
            "need objective=labels."
        )
        raise DataError(
            f"{row.label!r} is not a number, which objective=regression predicts. {remedy}",
            file=row.file,
            line=row.line,
            reason="not-a-number",
        )
    return float(row.label)


def _is_number(label: str) -> bool:
    try:
        return bool(np.isfinite(float(label)))
    except ValueError:
        return False


def _known_labels(rows: Sequence[Row], source: LabelSource) -> list[str]:
    """The labels of the training file in order: numbers by size, else words by the alphabet. Of numbers, the column's name."""
    if not rows:
        raise DataError("there are no rows in it; give labelled texts.", file=source.name, reason="no-rows")
    found = {row.label for row in rows if row.label is not None}
    if source.target == "several":
        return _several_labels(found, rows, source)
    if len(found) == 1:
        raise DataError(
            f"all {len(rows)} rows have the label {next(iter(found))!r}; one class only is nothing to learn. Give texts of at "
            "least two labels, or another data.label_column.",
            file=source.name,
            reason="one-label",
        )
    if source.target == "number":
        return [str(source.label_column or DEFAULTS["label_column"])]
    numbers = sum(_is_number(label) for label in found) > len(found) / 2
    cells = sum(";" in label or BETWEEN in label for label in found) > len(found) / 4
    if len(found) > max(2, len(rows) // 2) or any(BETWEEN in label for label in found):
        remedy = "give the column of labels as data.label_column."
        if numbers:
            remedy = "numbers to predict need objective=regression."
        elif cells:
            remedy = "several labels in one cell need objective=multilabel (data.label_separator, by default ;)."
        raise DataError(
            f"there are {len(found)} different labels in {len(rows)} rows, too many for objective=labels; {remedy}",
            file=source.name,
            reason="too-many-labels",
        )
    return sorted(found, key=_order)


def _several_labels(found: set[str], rows: Sequence[Row], source: LabelSource) -> list[str]:
    """Every label of texts with several; refuses cells that were not parted."""
    if isinstance(source.label_column, tuple):
        return list(source.label_column)
    if not any(BETWEEN in cell for cell in found):
        raise DataError(
            f"no cell of the labels has {source.separator!r}, so each text has one label at most; set data.label_separator to "
            "what stands between the labels, or data.label_column to a list of columns of 0 and 1, or use objective=labels.",
            file=source.name,
            reason="no-separator",
        )
    labels = {label for cell in found for label in cell.split(BETWEEN) if label}
    if len(labels) > max(2, len(rows) // 2):
        raise DataError(
            f"there are {len(labels)} different labels in {len(rows)} rows; is data.label_column the column of labels, and "
            f"data.label_separator={source.separator!r} what stands between them?",
            file=source.name,
            reason="too-many-labels",
        )
    return sorted(labels, key=_order)


def _order(label: str) -> tuple[bool, int, str]:
    try:
        return False, int(label), label
    except ValueError:
        return True, 0, label
