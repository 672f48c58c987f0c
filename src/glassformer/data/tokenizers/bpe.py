"""Byte-pair encoding as a recipe's tokenizer: trained by ``bpe_training``, encoded by the ``tokenizers`` library.

Its file is a plain Hugging Face tokenizer.json, and the other way round a tokenizer.json with our rules (GPT-2's, for
one) is read as this kind. ``pairs`` is the readable encoding; tests hold the library's ids equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from glassformer.data.tokenizers.base import TOKENIZERS, Progress, TokenizerConfig
from glassformer.data.tokenizers.bpe_training import MAX_VOCAB, BytePairs, train
from glassformer.data.tokenizers.huggingface import FastTokenizer
from glassformer.data.tokenizers.pretokenization import BYTE_SIGNS, LEVELS, ByteLevel, CharLevel, Level, chunks, count_words
from glassformer.foundation.errors import DataError

UNKNOWN = "<unk>"
_CACHED_CHARACTERS = 1 << 21  # some tens of MB


@final
class BPETokenizer(FastTokenizer):
    """Text to ids by merges. At byte level nothing is unknown, and every text comes back exactly."""

    kind = "bpe"

    def __init__(self, pairs: BytePairs, document: Mapping[str, Any] | None = None) -> None:
        super().__init__(to_document(pairs) if document is None else document)
        if self.library.get_vocab(with_added_tokens=True) != pairs.ids:
            raise DataError(
                "The ids of the added tokens contradict the vocabulary; the file is damaged: train or fetch it again.",
                reason="contradicting-ids",
            )
        self.pairs = pairs
        self._bytes = [pairs.bytes_of(token_id) for token_id in range(len(pairs.tokens))]
        self._known: dict[str, list[int]] = {}
        self._known_characters = 0

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Each distinct chunk is encoded by the library once and cached; most of a text is repeated."""
        if any(name in text for name in self.pairs.special for text in texts):  # it may hold white space, and so cross chunks
            return self.encode_by_library(texts)
        chunked = [chunks(text) for text in texts]
        if self._known_characters > _CACHED_CHARACTERS:
            self._known, self._known_characters = {}, 0
        known = self._known  # a local name: another thread may replace the cache meanwhile
        new = list(set(chain.from_iterable(chunked)) - known.keys())
        known.update(zip(new, self.encode_by_library(new)))
        self._known_characters += sum(map(len, new))
        return [list(chain.from_iterable(map(known.__getitem__, pieces))) for pieces in chunked]

    def decode(self, ids: Sequence[int]) -> str:
        """Bytes that are no character (a sample cut in the middle of one) become the replacement sign."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes that were encoded; at char level with single spaces between words."""
        self.check_ids(ids)
        return self.pairs.level.join([self._bytes[token_id] for token_id in ids])

    def token_text(self, token_id: int) -> str:
        self.check_ids([token_id])
        return show_bytes(self._bytes[token_id])

    def byte_lengths(self) -> np.ndarray:
        lengths = np.array([len(data) for data in self._bytes], np.float64)
        lengths[list(self.special.values())] = 0
        if self.unknown_id is not None:
            lengths[self.unknown_id] = np.nan
        return lengths

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> BPETokenizer:
        pairs = from_document(settings["document"])
        if pairs is None:
            raise DataError(
                "The settings of a bpe tokenizer need a 'document' with the rules of a bpe tokenizer.", reason="bad-settings"
            )
        return cls(pairs, settings["document"])


def show_bytes(data: bytes) -> str:
    """Text as it is, and each byte that is no printable character as ``<0xE2>``."""

    def shown(sign: str) -> str:
        return sign if sign.isprintable() else "".join(f"<0x{byte:02X}>" for byte in sign.encode("utf-8", "surrogateescape"))

    return "".join(map(shown, data.decode("utf-8", "surrogateescape")))


@TOKENIZERS.variant("bpe")
class BPETokenizerConfig(TokenizerConfig):
    """Byte-pair encoding: frequent pairs merged into tokens, learned from the training text."""

    vocab: int = Field(default=8192, ge=1, le=MAX_VOCAB)
    level: Literal["byte", "char"] = "byte"
    min_count: int = Field(default=2, ge=1)
    special: list[str] = Field(default=["<|endoftext|>"])

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if len(set(self.special)) < len(self.special) or any(not token or token.isspace() for token in self.special):
            raise ValueError(f"special={self.special} must be different names that are not blank.")
        least = len(BYTE_SIGNS) + len(self.special)
        if self.level == ByteLevel.name and self.vocab < least:
            raise ValueError(
                f"vocab={self.vocab} is smaller than the base alphabet: 256 bytes and {len(self.special)} special tokens; "
                f"use vocab {least} or more."
            )
        return self

    def train(
        self,
        texts: Callable[[], Iterable[str]],
        progress: Progress | None = None,
        merged: Callable[[int, int], None] | None = None,
    ) -> BPETokenizer:
        """``merged`` gets (tokens so far, vocab) while the merges are learned."""
        level = LEVELS[self.level]
        unknown = None if level.complete else UNKNOWN
        special = self.special if unknown is None else [unknown, *(name for name in self.special if name != unknown)]
        words = count_words(texts(), level, progress)
        pairs = train(
            words, level, vocab=self.vocab, min_count=self.min_count, special=special, unknown=unknown, progress=merged
        )
        return BPETokenizer(pairs)


def to_document(pairs: BytePairs) -> dict[str, Any]:
    """The tokenizer.json that makes Hugging Face's loaders encode as ``pairs.encode`` does."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": pairs.ids[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False}
            | {"normalized": False, "special": True}
            for token in pairs.special
        ],
        "normalizer": None,
        "post_processor": None,
        **_LEVEL_PARTS[pairs.level.name],
        "model": {
            **_MODEL,
            "unk_token": pairs.unknown,
            "end_of_word_suffix": pairs.level.end,
            "vocab": dict(pairs.ids),
            "merges": [[pairs.tokens[left], pairs.tokens[right]] for left, right, _ in pairs.merges],
        },
    }


def from_document(document: Mapping[str, Any]) -> BytePairs | None:
    """The merges of a tokenizer.json with our rules; None when it has others, or is no tokenizer.json at all."""
    try:
        level = _level_of(document)
        return None if level is None else _read_pairs(document, level)
    except (AttributeError, KeyError, TypeError, ValueError):  # something is not of the type or form that our files have
        return None


def _level_of(document: Mapping[str, Any]) -> Level | None:
    model, splitter = document["model"], document["pre_tokenizer"]
    strange = ("continuing_subword_prefix", "byte_fallback", "fuse_unk", "ignore_merges")
    if document.get("normalizer") or model.get("type", "BPE") != "BPE" or any(model.get(key) for key in strange):
        return None
    suffix = model.get("end_of_word_suffix") or None  # some files say "" for none
    gpt2 = {"add_prefix_space": True, "use_regex": True} | splitter
    if splitter["type"] == "ByteLevel" and not gpt2["add_prefix_space"] and gpt2["use_regex"] and suffix is None:
        return LEVELS[ByteLevel.name]
    return LEVELS[CharLevel.name] if splitter["type"] == "WhitespaceSplit" and suffix == CharLevel.end else None


def _read_pairs(document: Mapping[str, Any], level: Level) -> BytePairs | None:
    model, added = document["model"], document.get("added_tokens") or []
    ids = dict(model["vocab"]) | {token["content"]: token["id"] for token in added}
    tokens = sorted(ids, key=ids.__getitem__)
    special = tuple(token["content"] for token in added)
    plain = not any(token.get(key) for token in added for key in ("single_word", "lstrip", "rstrip"))
    one_pass = len({bool(token.get("normalized")) for token in added}) <= 1
    gapless = [ids[token] for token in tokens] == list(range(len(tokens)))
    if not (plain and one_pass and gapless) or (level.complete and not ids.keys() >= set(level.alphabet(()))):
        return None
    for token in ids.keys() - set(special):
        level.bytes_of(token)  # raises when the token is spelled with signs that stand for no byte
    merges = []
    for merge in model["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge  # some files write "a b"
        merges.append((ids[left], ids[right], ids[left + right]))
    return BytePairs(level, tuple(tokens), tuple(merges), special, model.get("unk_token"))


_MODEL = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None} | {
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}
_BYTE_PART = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_LEVEL_PARTS: Mapping[str, dict[str, Any]] = {
    ByteLevel.name: {"pre_tokenizer": _BYTE_PART, "decoder": _BYTE_PART},
    CharLevel.name: {"pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "BPEDecoder", "suffix": CharLevel.end}},
}
