"""A data config and a tokenizer -> token arrays of the splits, cached on disk.

From files to tokens in bounded memory: survey, split, train the tokenizer on the training split, encode. The test split is
encoded only on request. Findings are available as sentences (``notes``) and as a record for the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.disk_cache import cached_folder, cached_value
from glassformer.data.near_duplicates import MOST_TEXTS, SHINGLE, SIMILAR, Near, near_duplicates_of
from glassformer.data.reading.corpus import Document, Skipped, Source, read
from glassformer.data.reading.named_sets import DataSources, find_set
from glassformer.data.reading.sources import (
    at_places,
    find_sources,
    fingerprint_of,
    places_of,
    size_of,
    source_at,
    stamp_of,
)
from glassformer.data.reading.splits import SPLITS, Assignment, Survey, refuse_changed, require_split, survey
from glassformer.data.token_files import (
    Duplicates,
    TokenSplit,
    duplicates_of,
    is_whole,
    open_split,
    split_of_documents,
    split_writers,
)
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.data.tokenizers.special_tokens import MarkedTokenizer
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import DataError
from glassformer.foundation.plugins import is_ours, loaded_plugins, plugin_checksums

ProgressCallback = Callable[[str, int, int | None], None]
"""Called a few times a second with the task, the characters done, and their approximate total (or None)."""

SCHEMA = 1
_REPORT_EVERY = 0.1  # seconds


def prepare(
    data: DataConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    *,
    marks: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    expect: Mapping[str, Any] | None = None,
) -> PreparedText:
    """The splits of ``data`` in tokens; training and validation are encoded when this returns.

    ``marks``: special tokens of the objective, appended to the vocabulary. ``expect``: the record of an earlier preparation (of
    a run that is resumed, maybe from another folder): files are looked up at their recorded places, and must be unchanged.
    """
    before = (expect or {}).get("fingerprints", {})
    data = at_places(data, (expect or {}).get("places", {}))
    sources = find_sources(data, input_sha256=before.get("train"))
    prepared = PreparedText(data, sources, progress or _silent)
    refuse_changed(before, prepared.fingerprints, "text", sources.train.name)
    prepared.read()
    prepared.tokenizer = (prepared.learn(tokenizer) if isinstance(tokenizer, TokenizerConfig) else tokenizer).with_marks(marks)
    for name in prepared.names:
        if name != "test":
            prepared.split(name)
    return prepared


def tokens_of_text(tokenizer: Tokenizer, texts: str | Sequence[str], *, record: Any = None) -> TokenSplit:
    """The tokens of texts, each a document of its own."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts or not all(texts):
        raise DataError("The text is empty; give at least one character.", reason="empty-text")
    return split_of_documents("text", tokenizer, (Document(text, "text", number + 1) for number, text in enumerate(texts)))


def tokens_of_file(
    tokenizer: Tokenizer, path: Path | str, reading: DataConfig | None = None, *, record: Any = None
) -> TokenSplit:
    """The tokens of all of a file (a folder, standard input), cut into documents as those of ``reading`` are."""
    reading = DataConfig(path=str(path)) if reading is None or reading.absent else reading
    source = source_at(str(path), reading)
    if reading.set is not None and reading.document is None:
        source = replace(source, document=find_set(reading.set).train.document)
    return _Job(source, fingerprint_of(source), ("file",), None, {}).splits(tokenizer, _silent)["file"]


@final
@dataclass(frozen=True)
class _Job:
    """The splits that are encoded in one pass over one source."""

    source: Source
    sha256: str
    names: tuple[str, ...]
    assignment: Assignment | None  # None: all of the source is the one split
    split: Mapping[str, Any]
    characters: int | None = None

    def key(self, tokenizer: Tokenizer) -> str:
        """The cache key of its tokens: a checksum of everything they depend on."""
        way = _reading_key(self.source)
        return fingerprint([SCHEMA, self.sha256, way, self.names, self.split, tokenizer_key(tokenizer)])

    def splits(self, tokenizer: Tokenizer, report: ProgressCallback) -> dict[str, TokenSplit]:
        key = self.key(tokenizer)

        def make(draft: Path) -> None:
            self._encode({name: draft / name for name in self.names}, tokenizer, report)

        folder = cached_folder("tokens", key, make, whole=lambda at: all(is_whole(at / name) for name in self.names))
        files = tuple(map(str, self.source.files))
        opened = {name: open_split(name, folder / name, files) for name in self.names}
        for name, split in opened.items():
            if not split.num_tokens:
                raise DataError(
                    f"it leaves no text for {name}; give more text or change data.split.",
                    file=self.source.name,
                    reason="empty-split",
                )
        return opened

    def _encode(self, folders: Mapping[str, Path], tokenizer: Tokenizer, report: ProgressCallback) -> None:
        for folder in folders.values():
            folder.mkdir()
        before = stamp_of(self.source)
        with split_writers(folders, tokenizer, tuple(map(str, self.source.files))) as writers:
            documents = reported(read(self.source), "encoding " + " and ".join(self.names), self.characters, report)
            routed = self.assignment.route(documents) if self.assignment else ((self.names[0], one) for one in documents)
            for name, document in routed:
                if name in writers:
                    writers[name].add(document)
        if stamp_of(self.source) != before:
            raise DataError(
                "changed while it was read; start again once nothing writes to it.",
                file=self.source.name,
                reason="changed-while-read",
            )


@final
class PreparedText:
    """The tokens of a text by split, their tokenizer, and notes about them. Made by ``prepare``."""

    tokenizer: Tokenizer
    survey: Survey
    skipped: Skipped
    assignment: Assignment

    def __init__(self, data: DataConfig, sources: DataSources, report: ProgressCallback) -> None:
        self.data, self.sources, self.report = data, sources, report
        validation = {"validation": sources.validation} if sources.validation else {}
        tests = {f"test:{name}" if len(sources.tests) > 1 else "test": source for name, source in sources.tests.items()}
        # ``train`` is the whole text that shares are held out of.
        files = {"train": sources.train, **validation, **tests}
        self.fingerprints = {name: fingerprint_of(source) for name, source in files.items()}
        self.sha256 = self.fingerprints["train"]
        # With questions, these are held out, not text.
        whole = sources.questions is not None
        self.shares = data.split.held_out(validation=not (sources.validation or whole), test=not (sources.tests or whole))
        self._splits: dict[str, TokenSplit] = {}
        self._overlaps: dict[str, list[str]] = {}

    def read(self) -> None:
        """Counts documents and characters (a first pass over everything, cached) and assigns them to splits."""
        source = self.sources.train

        def make() -> dict[str, Any]:
            skipped = Skipped()
            found = survey(reported(read(source, skipped), "reading", size_of(source), self.report))
            return {"survey": vars(found), "skipped": vars(skipped)}

        cached = cached_value(
            "surveys", [SCHEMA, self.sha256, _reading_key(source), [str(file) for file in source.files]], make
        )
        self.survey, self.skipped = Survey(**cached["survey"]), Skipped(**cached["skipped"])
        self.assignment = Assignment(self.survey, self.shares)

    def learn(self, config: TokenizerConfig) -> Tokenizer:
        """The tokenizer trained on the training split (and the vocabulary files), cached."""
        more = [fingerprint_of(source) for source in self.sources.vocabulary]
        way = _reading_key(self.sources.train)
        return trained_tokenizer(config, self._training_texts, self.sha256, way, self.shares.to_dict(), more)

    def _training_documents(self, what: str) -> Iterator[Document]:
        """The training part as its files have it. ``what``: how the reading is reported."""
        documents = reported(read(self.sources.train), what, self.survey.characters, self.report)
        return (document for name, document in self.assignment.route(documents) if name == "train")

    def _training_texts(self) -> Iterator[str]:
        for document in self._training_documents("learning the tokenizer"):
            yield document.text
        for source in self.sources.vocabulary:
            for document in read(source):
                yield document.text

    @property
    def names(self) -> list[str]:
        """The splits there are: train, and validation and test where they exist."""
        own = {"validation": bool(self.sources.validation), "test": bool(self.sources.tests)}
        return [name for name in SPLITS if name in self.assignment.splits or own.get(name)]

    @property
    def tests(self) -> list[str]:
        """``test:NAME`` for each test file, when there are several; ``split("test")`` is all of them, one after another."""
        return [f"test:{name}" for name in self.sources.tests] if len(self.sources.tests) > 1 else []

    def split(self, name: str) -> TokenSplit:
        """One split; a test split is encoded on the first call."""
        require_split(name, [*self.names, *self.tests])
        if name not in self._splits:
            self._splits.update(self._job(name).splits(self.tokenizer, self.report))
        return self._splits[name]

    def tokens_key(self, name: str) -> str:
        """A checksum of everything the tokens of a split depend on: files, how they are read and split, tokenizer."""
        return self._job(name).key(self.tokenizer)

    def _job(self, name: str) -> _Job:
        """The job that encodes a split. ``test:NAME`` is one of several test files."""
        own = self.sources.validation if name == "validation" else None
        if name.startswith("test") and self.sources.tests:
            chosen = list(self.sources.tests.values()) if name == "test" else [self.sources.tests[name.removeprefix("test:")]]
            own = replace(chosen[0], files=tuple(file for source in chosen for file in source.files))
        if own is not None:
            return _Job(own, fingerprint_of(own), (name,), None, {})
        names = ("test",) if name == "test" else tuple(split for split in self.assignment.splits if split != "test")
        return _Job(self.sources.train, self.sha256, names, self.assignment, self.shares.to_dict(), self.survey.characters)

    def training_text(self) -> str:
        """The training text as its files have it, with what a tokenizer may lose (capitals, rare words); a document begins on
        a line of its own."""
        parts: list[str] = []
        for document in self._training_documents("reading"):
            if parts and not document.continues and not parts[-1].endswith("\n"):
                parts.append("\n")
            parts.append(document.text)
        return "".join(parts)

    @property
    def notes(self) -> list[str]:
        """Notes about the data, as sentences. More of them once the test split is open."""
        found = [*self.sources.notes, *about_split(self.assignment, self.survey, self._splits)]
        found += self.skipped.notes
        found += about_equal_files(self.fingerprints)
        for name, split in self._splits.items():
            found += about_repeats(split)
            found += about_unknown(split)
            if name != "train" and name not in self._overlaps:
                train = self._splits["train"]
                again = duplicates_of(train.documents["copy"], split.documents["copy"])
                self._overlaps[name] = about_overlap(train, split, again, self._near(name))
        found += [sentence for sentences in self._overlaps.values() for sentence in sentences]
        found += about_dropped(self.tokenizer)
        return found

    def _near(self, name: str) -> Near:
        train, split = self._splits["train"], self._splits[name]
        key = [SCHEMA, MOST_COMPARED, self.tokens_key("train"), self.tokens_key(name)]
        pairs = cached_value("near", key, lambda: near_duplicates_of(_by_document(train), _by_document(split)).pairs)
        return Near(None if pairs is None else tuple(tuple(pair) for pair in pairs))

    @property
    def record(self) -> dict[str, Any]:
        """The record of the data in a run: plain JSON values."""
        return {
            "schema": SCHEMA,
            "source": self.sources.train.name,
            "places": places_of(self.data),
            "sha256": self.sha256,
            "fingerprints": self.fingerprints,
            "reading": reading_of(self.sources.train),
            "survey": vars(self.survey),
            "skipped_lines": self.skipped.count,
            "split": {"by": self.assignment.by, **self.shares.to_dict()},
            "tokenizer": {"kind": self.tokenizer.kind, "size": self.tokenizer.size, "sha256": tokenizer_key(self.tokenizer)},
            "splits": {name: split.to_dict() for name, split in self._splits.items()},
            "notes": self.notes,
        }


MOST_COMPARED = 3_000_000
"""Tokens of a split that is searched for near-duplicates, which takes seconds then."""


def _by_document(split: TokenSplit) -> list[np.ndarray]:
    """The tokens of each document; none where there is one document only, which has nothing to be like."""
    if split.num_documents < 2 or split.num_documents > MOST_TEXTS or split.num_tokens > MOST_COMPARED:
        return []
    return [split.document(number) for number in range(split.num_documents)]


def reading_of(source: Source) -> dict[str, Any]:
    """How a source is read, as keys of the data config."""
    return {
        "document": source.document,
        "format": source.format,
        "text_column": source.text_column,
        "bad_lines": "skip" if source.skip_bad_lines else "refuse",
    }


def trained_tokenizer(config: TokenizerConfig, texts: Callable[[], Iterator[str]], *trained_on: object) -> Tokenizer:
    """A tokenizer trained on ``texts``, cached. ``trained_on``: plain values on which the texts depend."""
    if not config.learns:
        return config.train(texts)
    key = fingerprint([SCHEMA, *trained_on, config.to_dict(), config.revision, *plugins_of(config)])
    try:
        made = cached_folder("tokenizers", key, lambda draft: config.train(texts).save(draft / "tokenizer.json"))
    except DataError as error:
        if error.reason != "cache-not-writable":
            raise
        return config.train(texts)
    return load_tokenizer(made / "tokenizer.json")


def tokenizer_key(tokenizer: Tokenizer) -> str:
    """A sha256 that is equal for tokenizers with equal encodings; computed once for each, since a vocabulary takes 0.1 s."""
    if tokenizer not in _keys:
        settings = [tokenizer.kind, tokenizer.revision, tokenizer.settings()]
        _keys[tokenizer] = fingerprint([*settings, *plugins_of(tokenizer)])
    return _keys[tokenizer]


_keys: WeakKeyDictionary[Tokenizer, str] = WeakKeyDictionary()


def plugins_of(part: object) -> list[str]:
    """The sha256 of the plugins, for a tokenizer from a plugin: its code may change while its settings do not."""
    return [] if _ours(part) else plugin_checksums(loaded_plugins())


def _ours(part: object) -> bool:
    """Whether the code of a tokenizer, or of the one that it adds marks to, is this package's."""
    return is_ours(type(part.inner if isinstance(part, MarkedTokenizer) else part))


def memory_key(tokenizer: Tokenizer, *made_of: object) -> str | None:
    """An in-memory cache key for a tokenizer's output; None for a class of a notebook, which may be edited."""
    return fingerprint([tokenizer_key(tokenizer), *made_of]) if _ours(tokenizer) else None


def _reading_key(source: Source) -> list[Any]:
    """Everything besides its bytes that determines the documents of a source, file names included."""
    return [reading_of(source), [source.format_of(file) for file in source.files]]


def _silent(what: str, done: int, total: int | None) -> None:
    pass


def reported(documents: Iterable[Document], what: str, total: int | None, report: ProgressCallback) -> Iterator[Document]:
    """The documents, reporting progress."""
    done, last = 0, 0.0
    for document in documents:
        yield document
        done += len(document.text)
        if (now := time.monotonic()) - last >= _REPORT_EVERY:
            last = now
            report(what, done, total)
    report(what, done, done)


def about_split(assignment: Assignment, found: Survey, splits: Mapping[str, TokenSplit]) -> list[str]:
    """How the text was split, and whether the shares differ much from the requested ones."""
    if assignment.by == "nothing":
        return []
    if assignment.by == "position":
        shares = ", then ".join(f"{100 * assignment.shares[part]:.3g} % for {part}" for part in assignment.splits[1:])
        what = "is one document" if found.documents == 1 else f"has only {found.documents} documents"
        return [f"The text {what}, so it is split by position: the end of it is held out ({shares})."]
    sentences = []
    for part, share in assignment.shares.items():
        if share and part in splits and found.characters:
            real = splits[part].num_characters / found.characters
            if not share / 1.5 <= real <= share * 1.5:
                sentences.append(
                    f"{part} holds {real:.1%} of the text rather than {share:.1%}, because documents are drawn whole and there "
                    f"are {found.documents:,} of them."
                )
    return sentences


def about_equal_files(fingerprints: Mapping[str, str]) -> list[str]:
    """A note, not an error: it is a way to measure memorisation."""
    names = list(fingerprints)
    return [
        f"The {second} file has the same bytes as the {first} file: figures on it measure memorisation, not generalisation."
        for number, first in enumerate(names)
        for second in names[number + 1 :]
        if fingerprints[first] == fingerprints[second]
    ]


def about_repeats(split: TokenSplit) -> list[str]:
    if not split.repeats.count:
        return []
    later, first = split.repeats.examples[0]
    return [
        f"{split.repeats.count:,} of {split.num_documents:,} documents of {split.name} repeat an earlier one, for example "
        f"{split.where(later)}, as in {split.where(first)}."
    ]


def about_overlap(train: TokenSplit, split: TokenSplit, again: Duplicates, near: Near | None = None) -> list[str]:
    """How many documents of a held-out split are in train, up to case and spacing, and how many almost are."""
    found = []
    if again.count:
        there, here = again.examples[0]
        found.append(
            f"{again.count:,} of {split.num_documents:,} documents of {split.name} ({again.count / split.num_documents:.1%}) "
            f"also occur in train, for example {split.where(there)}, as in {train.where(here)}: figures on {split.name} are "
            "too optimistic."
        )
    if near is not None and near.pairs:
        there, here, similarity = min(near.pairs, key=lambda pair: pair[2])
        found.append(
            f"{near.count:,} of {split.num_documents:,} documents of {split.name} are near-duplicates of one of train: they "
            f"share at least {SIMILAR:.0%} of their pieces of {SHINGLE} tokens, for example {split.where(there)} with "
            f"{train.where(here)} ({similarity:.0%})."
        )
    return found


def about_unknown(split: TokenSplit) -> list[str]:
    if not split.unknown_tokens:
        return []
    are = "is" if split.unknown_tokens == 1 else "are"
    return [
        f"{split.unknown_tokens:,} of {split.num_tokens:,} tokens of {split.name} {are} UNK ({split.unknown_share:.2%}): the "
        "tokenizer does not know them."
    ]


def about_dropped(tokenizer: Tokenizer) -> list[str]:
    dropped = getattr(tokenizer, "dropped", 0)
    if not dropped:
        return []
    return [f"There are so many different words that {dropped:,} of the rarest were dropped while counting."]
