"""A data config -> labelled texts by split, with the set of labels, class balance, and notes.

Labels are those of the training file; another one elsewhere raises with its file and line. The validation share is drawn
by ``data.split.seed`` alone, so every training seed sees the same split; ``data.split.stratify`` draws it label by label. Does
not tokenize and imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from glassformer.data.config import DataConfig, FormatKind
from glassformer.data.disk_cache import cached_folder
from glassformer.data.labels.label_rows import rows_of
from glassformer.data.labels.label_sources import LabelParts, LabelSource, Row, read_rows
from glassformer.data.prepare import plugins_of
from glassformer.data.reading.corpus import Skipped, Source, format_by_name, read
from glassformer.data.reading.sources import at_places, find_labelled, find_parts, fingerprint_of, places_of, source_at
from glassformer.data.reading.splits import PARTS, draw_parts, draw_parts_by_class
from glassformer.data.reading.tables import cells
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError, DataError, GlassformerError, UnknownName

UNLABELLED = -1
COLUMNS = ("format", "text_column", "pair_column", "label_column")


@dataclass(frozen=True)
class LabelledTexts:
    """Texts (and their pairs) with label indices; ``label_names`` has their names.

    ``ids`` identify a text by file name and line.
    """

    name: str
    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None
    labels: np.ndarray  # int64, UNLABELLED where the file has none
    ids: tuple[str, ...]
    label_names: tuple[str, ...]
    seen: np.ndarray | None = None  # bool: the text also occurs in the training texts; None: not known

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def counts(self) -> np.ndarray:
        """How many texts each label has."""
        return np.bincount(self.labels[self.labels >= 0], minlength=len(self.label_names))

    @property
    def answers(self) -> list[str] | None:
        """The name of each text's label; None where a text has none."""
        return None if (self.labels < 0).any() else [self.label_names[label] for label in self.labels]

    @property
    def fingerprint(self) -> str:
        """A checksum of the texts and their labels, since ``ids`` do not distinguish two files of one name."""
        named = ["" if label < 0 else self.label_names[label] for label in self.labels]
        return fingerprint([self.texts, self.pairs, named])

    def balance(self) -> str:
        """``2,092 texts: Obama 43.1 %, W. Bush 30.0 %, ...``."""
        counts = self.counts
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
        return LabelledTexts(self.name, texts, pairs, self.labels[at], ids, self.label_names, seen)


@final
class Labels:
    """The labelled texts of a recipe's data. Training and validation are read immediately, tests on request."""

    tokenizer: Tokenizer
    """Set by ``load_labels``: reading labels needs none."""

    def __init__(self, data: DataConfig, *, expect: Mapping[str, Any] | None = None) -> None:
        before = (expect or {}).get("fingerprints", {})
        self._data = at_places(data, (expect or {}).get("places", {}))
        self._parts = find_labelled(self._data)
        validation = {"validation": self._parts.validation} if self._parts.validation else {}
        several = len(self._parts.tests) > 1 or self._data.set is not None
        self._tests = {f"test:{name}" if several else "test": source for name, source in self._parts.tests.items()}
        files = {"train": self._parts.train, **validation, **self._tests}
        self._fingerprints = {name: fingerprint_of(source) for name, source in files.items()}
        for name, sha256 in self._fingerprints.items():
            if before and name in before and sha256 != before[name]:
                raise DataError(
                    f"the labelled {name} texts are not what they were when the run began: their sha256 is {sha256[:12]}, and "
                    f"it was {before[name][:12]}. Give back the old file, or start a new run.",
                    file=self._parts.train.name,
                )
        for split, own in (("validation", self._parts.validation), ("test", self._parts.tests)):
            if before and any(name.startswith(split) for name in before) != bool(own):
                raise DataError(
                    f"the run began {'without' if own else 'with'} {split} texts of their own: that would divide the labelled "
                    f"texts in another way. {f'Leave data.{split} out' if own else 'Name them again'}, or start a new run.",
                    file=self._parts.train.name,
                )
        self._skipped = Skipped()
        self._splits = self._train_and_validation()

    def _train_and_validation(self) -> dict[str, LabelledTexts]:
        rows = self._rows(self._parts.train)
        self._values = _known_labels(rows, self._parts.train.name)
        self.label_names = tuple(self._parts.names.get(value, value) for value in self._values)
        shares = self._data.split.model_copy(
            update={
                "validation": 0.0 if self._parts.validation else self._data.split.validation,
                "test": 0.0 if self._parts.tests else self._data.split.test,
            }
        )
        if len(rows) < 2 + bool(shares.test):
            raise DataError(f"there are {len(rows)} labelled texts; give at least {2 + bool(shares.test)}.", file=rows[0].file)
        drawn = draw_parts(len(rows), shares)
        if shares.stratify:
            drawn = draw_parts_by_class([str(row.label) for row in rows], shares)
        splits = {}
        for number, part in enumerate(PARTS):
            chosen = [row for row, at in zip(rows, drawn) if at == number]
            if chosen:
                splits[part] = self._texts(part, chosen)
        if self._parts.validation:
            splits["validation"] = self._read("validation", self._parts.validation)
        if np.count_nonzero(splits["train"].counts) < 2:
            raise DataError(
                f"all texts to train on have the label {self._values[int(splits['train'].labels[0])]!r}; one class only is "
                "nothing to learn. Give texts of at least two labels, or another data.split.seed.",
                file=self._parts.train.name,
            )
        return splits

    def _rows(self, source: LabelSource) -> Sequence[Row]:
        """The rows of a source; bad lines are added to ``_skipped``."""
        rows, skipped = rows_of(source)
        self._skipped.count += skipped.count
        self._skipped.examples += skipped.examples[: max(0, 5 - len(self._skipped.examples))]
        return rows

    def _read(self, name: str, source: LabelSource) -> LabelledTexts:
        rows = self._rows(source)
        if not rows:
            raise DataError("there are no rows in it; give at least one labelled text.", file=source.name)
        return self._texts(name, rows)

    def _texts(self, name: str, rows: Sequence[Row]) -> LabelledTexts:
        texts = texts_of_rows(name, rows, self._values, self.label_names)
        if name == "train":
            self._trained_on = {texts.text_of(index) for index in range(len(texts))}
            return texts
        seen = [texts.text_of(index) in self._trained_on for index in range(len(texts))]
        return replace(texts, seen=np.array(seen))

    @property
    def names(self) -> list[str]:
        """The splits there are: train, and validation and test where they exist."""
        there = {*self._splits, *(["test"] if self._tests else [])}
        return [name for name in ("train", "validation", "test") if name in there]

    @property
    def tests(self) -> list[str]:
        """``test:NAME`` for each test file of a set; ``split("test")`` is all of them, one after another."""
        return [name for name in self._tests if name != "test"]

    def split(self, name: str) -> LabelledTexts:
        """One split; a test is read on the first call. ``test`` is all tests together where there are several."""
        if name == "test" and name not in self._tests and self._tests:
            return joined(name, [self.split(test) for test in self._tests])
        if name in self._splits:
            return self._splits[name]
        if name in self._tests:
            self._splits[name] = self._read(name, self._tests[name])
            return self._splits[name]
        if name not in ("validation", "test"):
            raise UnknownName("--split", name, [*self.names, *self.tests])
        there = ", ".join([*self.names, *self.tests])
        raise DataError(
            f"There is no {name} split; there are: {there}. Hold one out with data.split.{name}, or give a file as data.{name}."
        )

    def training_texts(self) -> Iterator[str]:
        """The training texts of a tokenizer: the labelled ones, and the plain text of a set that has one."""
        train = self._splits["train"]
        yield from train.texts
        yield from train.pairs or ()
        if (beside := self._beside) is not None:
            yield from (document.text for document in read(beside))

    @property
    def learned_from(self) -> str:
        """A checksum of ``training_texts``."""
        beside = self._beside
        return fingerprint(["labels", self._splits["train"].fingerprint, None if beside is None else fingerprint_of(beside)])

    @property
    def _beside(self) -> Source | None:
        beside = None if self._data.set is None else find_parts(self._data).train
        return None if beside is None or beside.files == self._parts.train.files else beside

    def file(self, path: str | Path, *, labelled: bool = True) -> LabelledTexts:
        """A user's file, read like the recipe's data: with the same columns, and labels that are known."""
        return self._read(str(path), source_like(self._parts.train, path, self._data, labelled=labelled))

    @property
    def notes(self) -> list[str]:
        """Notes: class balance of every open split, duplicates, skipped lines."""
        found = [f"{name}: {split.balance()}." for name, split in self._splits.items()]
        for name, count in zip(self.label_names, self._splits["train"].counts):
            if not count:
                found.append(
                    f"No text to train on has the label {name}: all of them are held out, so it cannot be learned; give more "
                    "such texts, or another data.split.seed."
                )
        if not self._parts.validation and "validation" in self._splits:
            found += [
                f"No validation text has the label {name}; data.split.stratify=true holds out a share of each label."
                for name, count in zip(self.label_names, self._splits["validation"].counts)
                if not count and not self._data.split.stratify
            ]
        for name, split in self._splits.items():
            again = 0 if split.seen is None else int(split.seen.sum())
            if again:
                found.append(
                    f"{again} of the {len(split)} {name} texts ({again / len(split):.0%}) occur word for word in the training "
                    "texts: what is right there may be memory; the figures of unseen texts say what holds for new ones."
                )
        if self._skipped.count:
            found.append(f"{self._skipped.count} bad lines were left out, the first: {self._skipped.examples[0]}")
        return found

    @property
    def record(self) -> dict[str, Any]:
        """The record in a run: sha256 by file, the labels, how the rows were read."""
        return {
            "schema": 1,
            "source": self._parts.train.name,
            "places": places_of(self._data),
            "sha256": self._fingerprints["train"],
            "fingerprints": self._fingerprints,
            "reading": self._parts.train.reading,
            "labels": dict(zip(self._values, self.label_names)),
            "splits": {name: {"texts": len(split), "counts": split.counts.tolist()} for name, split in self._splits.items()},
            "skipped_lines": self._skipped.count,
            "notes": self.notes,
        }


def load_labels(
    data: DataConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    *,
    marks: Sequence[str] = (),
    progress: Any = None,
    expect: Mapping[str, Any] | None = None,
) -> Labels:
    """The labelled texts with a tokenizer: an existing one, or one trained on the training texts."""
    part = Labels(data, expect=expect)
    if isinstance(tokenizer, TokenizerConfig):
        tokenizer = _learned(tokenizer, part)
    part.tokenizer = tokenizer.with_marks(marks)
    return part


def _learned(config: TokenizerConfig, part: Labels) -> Tokenizer:
    """The tokenizer trained on the training texts, cached if possible."""

    def make(draft: Path) -> None:
        config.train(part.training_texts).save(draft / "tokenizer.json")

    if config.learns:
        key = fingerprint([part.learned_from, config.to_dict(), config.revision, *plugins_of(config)])
        with suppress(GlassformerError, OSError):  # what the texts give no tokenizer for is said below
            return load_tokenizer(cached_folder("tokenizers", key, make) / "tokenizer.json")
    return config.train(part.training_texts)


def texts_of_file(
    tokenizer: Tokenizer, path: Path | str, reading: DataConfig, *, record: Mapping[str, Any] | None = None
) -> LabelledTexts:
    """A user's file, with the labels in the run's record; training texts among them are marked as seen."""
    known = of_labels(record)
    try:
        return Labels(reading, expect=known).file(path)
    except DataError:
        if known is None or find_or_none(reading) is not None:
            raise
    like = LabelSource("", (), **{key: known["reading"][key] for key in COLUMNS})
    rows = list(read_rows(source_like(like, path, reading)))
    if not rows:
        raise DataError("there are no rows in it; give at least one labelled text.", file=path)
    return texts_of_rows(str(path), rows, list(known["labels"]), list(known["labels"].values()))


def find_or_none(reading: DataConfig) -> LabelParts | None:
    """The labelled files of a recipe, or None if they are missing."""
    try:
        return find_labelled(reading)
    except (DataError, ConfigError):
        return None


def of_labels(record: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The labelled part in the record of a run's data."""
    if record is None or "labels" in record:
        return record
    return (record.get("parts") or {}).get("labels")


def source_like(like: LabelSource, path: str | Path, reading: DataConfig, *, labelled: bool = True) -> LabelSource:
    """Files at ``path`` with the columns of ``like``, or with default column names in another format."""
    files = source_at(str(path), reading).files
    columns = {key: getattr(like, key) for key in COLUMNS}
    kind = format_by_name(files[0])
    known = like.format or (format_by_name(like.files[0]) if like.files else None)
    if kind not in ("text", known) and not _has_columns(files[0], kind, like):
        columns = {
            "format": kind,
            "text_column": None,
            "pair_column": "pair" if like.pair_column else None,
            "label_column": None,
        }
    return LabelSource(str(path), files, **columns, labelled=labelled, skip_bad_lines=reading.bad_lines == "skip")


def _has_columns(file: Path, kind: FormatKind, like: LabelSource) -> bool:
    """Whether a file has the columns of ``like``."""
    wanted = {key: getattr(like, key) for key in ("text_column", "pair_column") if key == "text_column" or getattr(like, key)}
    try:
        return not any(isinstance(column, int) for column in wanted.values()) and any(True for _ in cells(file, kind, wanted))
    except DataError:
        return False


def texts_of_rows(name: str, rows: Sequence[Row], values: Sequence[str], names: Sequence[str]) -> LabelledTexts:
    """Rows with label indices; a label may be spelled as in the training file or by its name."""
    numbers = {**{shown: number for number, shown in enumerate(names)}, **{value: at for at, value in enumerate(values)}}
    labels = np.full(len(rows), UNLABELLED)
    for index, row in enumerate(rows):
        if row.label is not None and row.label not in numbers:
            raise DataError(
                f"the label {row.label!r} does not occur in the training texts, whose labels are {', '.join(values)}; mend it "
                "or remove the row.",
                file=row.file,
                line=row.line,
            )
        if row.label is not None:
            labels[index] = numbers[row.label]
    pairs = None if rows[0].pair is None else tuple(row.pair or "" for row in rows)
    ids = tuple(f"{row.file.name}:{row.line}" for row in rows)
    return LabelledTexts(name, tuple(row.text for row in rows), pairs, labels, ids, tuple(names))


def joined(name: str, parts: Iterable[LabelledTexts]) -> LabelledTexts:
    """Several splits one after another."""
    all_of = list(parts)
    pairs = None if all_of[0].pairs is None else tuple(pair for part in all_of for pair in part.pairs or ())
    texts = tuple(text for part in all_of for text in part.texts)
    ids = tuple(text_id for part in all_of for text_id in part.ids)
    flags = [part.seen for part in all_of if part.seen is not None]
    seen = np.concatenate(flags) if len(flags) == len(all_of) else None
    labels = np.concatenate([part.labels for part in all_of])
    return LabelledTexts(name, texts, pairs, labels, ids, all_of[0].label_names, seen)


def _known_labels(rows: Sequence[Row], name: str) -> list[str]:
    """The labels of the training file in order: numbers by size, else words by the alphabet."""
    if not rows:
        raise DataError("there are no rows in it; give labelled texts.", file=name)
    found = {row.label for row in rows if row.label is not None}
    if len(found) == 1:
        raise DataError(
            f"all {len(rows)} rows have the label {next(iter(found))!r}; one class only is nothing to learn. Give texts of at "
            "least two labels, or another data.label_column.",
            file=name,
        )
    if len(found) > max(2, len(rows) // 2):
        raise DataError(
            f"there are {len(found)} different labels in {len(rows)} rows; is data.label_column the column of labels?",
            file=name,
        )
    return sorted(found, key=_order)


def _order(label: str) -> tuple[bool, int, str]:
    try:
        return False, int(label), label
    except ValueError:
        return True, 0, label
