"""The parts of prepared data (text, questions, labels) by name: how each is prepared, or read from a user's file or texts.

An objective names the parts it reads; a part is prepared once, and its items have stable ids. A new kind of
part is one entry in ``KINDS`` and one module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from glassformer.data.config import DataConfig
from glassformer.data.labels.label_texts import texts_given, texts_to_ask
from glassformer.data.labels.labelled_texts import load_labels, texts_of_file
from glassformer.data.prepare import ProgressCallback, prepare, tokens_of_file, tokens_of_text
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.knowledge.questions import prepare_questions, questions_of_file, questions_of_texts


class Part(Protocol):
    """One prepared part."""

    tokenizer: Tokenizer

    @property
    def names(self) -> Sequence[str]:
        """The splits there are."""

    def split(self, name: str) -> Any:
        """The items of one split."""

    @property
    def notes(self) -> list[str]:
        """Sentences for a person."""

    @property
    def record(self) -> dict[str, Any]:
        """The part's record in a run: files, fingerprints, sizes; plain values."""


@dataclass(frozen=True)
class PartKind:
    """``load``: (data, tokenizer, marks, progress, expect) -> part. The others read items outside any split.

    ``of_file``: (tokenizer, path, data config), ``of_texts``: (tokenizer, texts); both are told the ``record`` of the run's
    data, where there is a run.
    """

    load: Callable[..., Part]
    of_file: Callable[..., Any]
    of_texts: Callable[..., Any]
    to_ask: Callable[..., Any] | None = None
    """Reads a file of items without labels; None: ``of_file`` reads those, too."""


KINDS: dict[str, PartKind] = {
    "text": PartKind(load=prepare, of_file=tokens_of_file, of_texts=tokens_of_text),
    "labels": PartKind(load=load_labels, of_file=texts_of_file, of_texts=texts_given, to_ask=texts_to_ask),
    "questions": PartKind(load=prepare_questions, of_file=questions_of_file, of_texts=questions_of_texts),
}


def part_kind(name: str) -> PartKind:
    """The kind of part called ``name``."""
    if name not in KINDS:
        raise UnknownName("part of the data", name, KINDS)
    return KINDS[name]


@final
class PreparedData:
    """The parts an objective reads, and the tokenizer they share. ``judged_on``: the part whose splits are evaluated."""

    def __init__(self, parts: Mapping[str, Part], judged_on: str) -> None:
        self.parts, self.judged_on = dict(parts), judged_on
        self.tokenizer = next(iter(self.parts.values())).tokenizer

    def part(self, name: str) -> Any:
        """One part; raises if it was not prepared."""
        if name not in self.parts:
            raise ConfigError(f"These data have no {name}; they have: {', '.join(self.parts)}.")
        return self.parts[name]

    @property
    def names(self) -> list[str]:
        """The splits that can be evaluated."""
        return list(self.parts[self.judged_on].names)

    def split(self, name: str) -> Any:
        """The items of one split of the judged part."""
        return self.parts[self.judged_on].split(name)

    @property
    def notes(self) -> list[str]:
        return [note for part in self.parts.values() for note in part.notes]

    @property
    def record(self) -> dict[str, Any]:
        """The record of the first part; those of further ones under ``parts``."""
        (_, first), *others = self.parts.items()
        return {**first.record, **({"parts": {name: part.record for name, part in others}} if others else {})}


def prepare_parts(
    data: DataConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    *,
    reads: Sequence[str],
    judged_on: str,
    marks: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    expect: Mapping[str, Any] | None = None,
) -> PreparedData:
    """Prepares the parts in order; the first one's tokenizer serves all. ``expect``: the record of an earlier preparation."""
    parts: dict[str, Part] = {}
    for name in reads:
        before = expect if not parts else ((expect or {}).get("parts") or {}).get(name)
        parts[name] = part_kind(name).load(data, tokenizer, marks=marks, progress=progress, expect=before)
        tokenizer = parts[name].tokenizer
    return PreparedData(parts, judged_on)
