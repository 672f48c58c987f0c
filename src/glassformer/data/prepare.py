"""A data config and a tokenizer -> token arrays of the splits, made once and kept.

The whole way from files to tokens, in bounded memory: survey, split, learn the tokenizer on the training part, encode.
The test part is encoded only when it is asked for. Says what it found in sentences (``notes``) and as a record for the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

from glassformer.data.cache import kept_folder
from glassformer.data.config import DataConfig
from glassformer.data.corpus import Document, Source, read
from glassformer.data.sources import find_parts, fingerprint_of
from glassformer.data.splits import Assignment, survey
from glassformer.data.token_files import TokenSplit, is_whole, open_split, split_writers
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import DataError

Report = Callable[[str, int, int | None], None]
"""Called with what is being done, the bytes done, and the bytes in all (None when not known)."""

SCHEMA = 1


def prepare(data: DataConfig, tokenizer: TokenizerConfig | Tokenizer, *, progress: Report | None = None) -> Prepared:
    """The splits of ``data`` in tokens. Training and validation are ready when this returns."""
    report = progress or _silent
    parts = find_parts(data)
    sha256 = fingerprint_of(parts.train)
    split = data.split.model_copy(
        update={
            "validation": 0.0 if parts.validation else data.split.validation,
            "test": 0.0 if parts.tests else data.split.test,
        }
    )
    assignment = Assignment(survey(_reported(read(parts.train), "reading", report)), split)
    if isinstance(tokenizer, TokenizerConfig):
        tokenizer = tokenizer.train(
            lambda: (text.text for part, text in assignment.route(read(parts.train)) if part == "train")
        )
    prepared = Prepared(data, tokenizer, parts.train, sha256, assignment, report)
    prepared.notes.extend(parts.notes)
    prepared.split("train")
    return prepared


@final
class Prepared:
    """Tokens by split, the tokenizer that made them, and what is to be said about them."""

    def __init__(
        self, data: DataConfig, tokenizer: Tokenizer, source: Source, sha256: str, assignment: Assignment, report: Report
    ) -> None:
        self.data, self.tokenizer = data, tokenizer
        self.notes: list[str] = []
        self._source, self._sha256, self._assignment, self._report = source, sha256, assignment, report
        self._splits: dict[str, TokenSplit] = {}

    @property
    def names(self) -> list[str]:
        """The splits there are."""
        return self._assignment.parts

    def split(self, name: str) -> TokenSplit:
        """One split; the test split is encoded on the first call."""
        if name not in self.names:
            raise DataError(
                f"There is no {name} split; there are: {', '.join(self.names)}. Set data.{name} or data.split.{name}."
            )
        if name not in self._splits:
            group = ("test",) if name == "test" else tuple(part for part in self.names if part != "test")
            folder = self._kept(group)
            for part in group:
                self._splits[part] = open_split(part, folder / part)
        return self._splits[name]

    @property
    def record(self) -> dict[str, Any]:
        """What a run writes down about its data: plain JSON values."""
        return {
            "source": self._source.name,
            "sha256": self._sha256,
            "split": {"by": self._assignment.by, **self.data.split.plain()},
            "splits": {name: split.plain() for name, split in self._splits.items()},
            "notes": list(self.notes),
        }

    def _kept(self, group: tuple[str, ...]) -> Path:
        key = fingerprint(
            {
                "schema": SCHEMA,
                "sha256": self._sha256,
                "reading": [self._source.document, self._source.format, self._source.text_column, self._source.skip_bad_lines],
                "split": self.data.split.plain(),
                "parts": group,
                "tokenizer": [self.tokenizer.kind, self.tokenizer.settings()],
            }
        )

        def make(draft: Path) -> None:
            for part in group:
                (draft / part).mkdir()
            with split_writers({part: draft / part for part in group}, self.tokenizer) as writers:
                documents = _reported(read(self._source), "encoding", self._report)
                for part, document in self._assignment.route(documents):
                    if part in writers:
                        writers[part].add(document)

        return kept_folder("tokens", key, make, whole=lambda folder: all(is_whole(folder / part) for part in group))


def _silent(what: str, done: int, total: int | None) -> None:
    pass


def _reported(documents: Iterator[Document], what: str, report: Report) -> Iterator[Document]:
    done = 0
    for document in documents:
        done += len(document.text)
        yield document
    report(what, done, None)
