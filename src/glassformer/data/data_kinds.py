"""Kinds of data by name ("text", "labels", "pairs", ...): how each is prepared, or read from a user's file or texts.

An objective names the kinds it reads; each is prepared once, and its items have stable ids. A kind is added with
``register_data_kind``: here, in one of the modules of ``ELSEWHERE``, or in a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any, Protocol, final

from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import KINDS, load_labels
from glassformer.data.labels.texts_to_classify import texts_given, texts_of_file, texts_to_ask
from glassformer.data.pairs.text_pairs import load_pairs, pairs_of_file, sources_of_file, sources_of_texts
from glassformer.data.prepare import ProgressCallback, prepare, tokens_of_file, tokens_of_text
from glassformer.data.reading.sources import at_places
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.registry import import_all

ELSEWHERE = ("glassformer.knowledge.questions",)
"""Modules above this package that register kinds; imported by name when a kind is looked up. None imports torch."""


class DataPart(Protocol):
    """The prepared data of one kind."""

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
class DataKind:
    """The functions of one kind of data.

    ``load(data, tokenizer, *, marks, progress, expect)`` prepares a recipe's data. The others read items outside any split:
    ``of_file(tokenizer, path, data, *, record)`` and ``of_texts(tokenizer, texts, *, record)``, where ``record`` is that of a
    run's data, or None. A kind that can be asked also takes ``pairs`` in ``of_texts``, the second texts of pairs, and may have
    ``to_ask``, which reads a file as ``of_file`` does, but without labels.
    """

    load: Callable[..., DataPart]
    of_file: Callable[..., Any]
    of_texts: Callable[..., Any]
    to_ask: Callable[..., Any] | None = None


_kinds: dict[str, DataKind] = {}


def register_data_kind(name: str, kind: DataKind) -> None:
    """Adds a kind of data. A name that is taken is refused, unless by the same function: an edited plugin is loaded again."""
    taken = _kinds.get(name)
    if taken is not None and _origin(taken) != _origin(kind):
        raise ConfigError(
            f"There already is a kind of data {name!r} (of {taken.load.__module__}); choose another name.", reason="name-taken"
        )
    _kinds[name] = kind


def _origin(kind: DataKind) -> tuple[str, str]:
    return kind.load.__module__, kind.load.__qualname__


register_data_kind("text", DataKind(load=prepare, of_file=tokens_of_file, of_texts=tokens_of_text))
for _name, _target in KINDS.items():
    _load = update_wrapper(partial(load_labels, target=_target), load_labels)  # with its name, which tells kinds apart
    register_data_kind(_name, DataKind(load=_load, of_file=texts_of_file, of_texts=texts_given, to_ask=texts_to_ask))
register_data_kind("pairs", DataKind(load=load_pairs, of_file=pairs_of_file, of_texts=sources_of_texts, to_ask=sources_of_file))


def data_kinds() -> dict[str, DataKind]:
    """Every kind by name, those of loaded plugins included."""
    import_all(ELSEWHERE)
    return dict(_kinds)


def data_kind(name: str) -> DataKind:
    """The kind of data called ``name``."""
    known = data_kinds()
    if name not in known:
        raise UnknownName("kinds of data", name, known, else_try="Your own is loaded with --plugin FILE.py.")
    return known[name]


@final
class PreparedData:
    """The parts an objective reads, and the tokenizer they share. ``judged_on``: the part whose splits are evaluated."""

    def __init__(self, parts: Mapping[str, DataPart], judged_on: str) -> None:
        self.parts, self.judged_on = dict(parts), judged_on
        self.tokenizer = next(iter(self.parts.values())).tokenizer

    def part(self, name: str) -> Any:
        """One part; raises if it was not prepared."""
        if name not in self.parts:
            raise ConfigError(f"These data have no {name}; they have: {', '.join(self.parts)}.", reason="part-not-prepared")
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
    data = at_places(data, (expect or {}).get("places", {}))  # of every part: a later one's own record has no place of the text
    parts: dict[str, DataPart] = {}
    for name in reads:
        before = expect if not parts else ((expect or {}).get("parts") or {}).get(name)
        parts[name] = data_kind(name).load(data, tokenizer, marks=marks, progress=progress, expect=before)
        tokenizer = parts[name].tokenizer
    return PreparedData(parts, judged_on)
