"""Tokenizers from a Hugging Face tokenizer.json, encoded by the ``tokenizers`` library.

Takes the file's document (plain JSON values) and keeps it, so that it is saved unchanged. Truncation, padding and dropout of
merges are disabled: a text has one list of ids. Reads no file: ``files`` does.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import tokenizers

from glassformer.data.tokenizers.base import Tokenizer, in_batches, joined_ids, utf8
from glassformer.foundation.errors import DataError
from glassformer.foundation.files import write_json

MAX_SIZE = 1 << 24
"""A larger id is taken as damage: a model would need a row of weights for each id below it."""

ROLES: Mapping[str, tuple[str, ...]] = {
    "start": ("<s>", "<bos>", "[CLS]", "<|startoftext|>", "<|begin_of_text|>"),
    "stop": ("<|endoftext|>", "</s>", "<eos>", "[SEP]", "<|end_of_text|>"),
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "mask": ("[MASK]", "<mask>"),
}
"""A special token's role is its name: files do not say it in any other way."""


class FastTokenizer(Tokenizer, ABC):
    """Base of all tokenizer.json kinds: the library's encoding, and the roles of special tokens by name."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = dict(document)
        self.library = _build(self.document)
        added = self.library.get_added_tokens_decoder()
        self.special = {token.content: token_id for token_id, token in added.items() if token.special}
        vocabulary = self.library.get_vocab(with_added_tokens=True)
        self._size = max(vocabulary.values(), default=-1) + 1
        if not 0 < self._size <= MAX_SIZE:
            raise DataError(
                f"The vocabulary has the ids 0 to {self._size - 1}; at least one and at most {MAX_SIZE} can be used.",
                reason="bad-vocabulary-size",
            )
        self.start_id, self.stop_id, self.pad_id, self.mask_id = (self._role(role) for role in ROLES)
        model = self.document["model"]  # WordPiece and BPE name the unknown token, Unigram numbers it
        self.unknown_id = vocabulary.get(model.get("unk_token"), model.get("unk_id"))

    def _role(self, role: str) -> int | None:
        return next((self.special[name] for name in ROLES[role] if name in self.special), None)

    @property
    def size(self) -> int:
        return self._size

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without marks; all at once, so the caller says how much that is."""

    def encode(self, text: str) -> list[int]:
        return self.encode_all([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return joined_ids(ids for batch in in_batches(texts) for ids in self.encode_all(batch))

    def encode_by_library(self, texts: Sequence[str]) -> list[list[int]]:
        """What ``tokenizers`` gives for each text."""
        try:
            return [encoding.ids for encoding in self.library.encode_batch_fast(list(texts), add_special_tokens=False)]
        except TypeError:
            for text in texts:
                utf8(text)
            raise
        except Exception as error:  # the library has no class of its own for errors
            raise DataError(
                f"This tokenizer cannot encode the text ({error}); its file is damaged or incomplete.", reason="cannot-encode"
            ) from error

    def settings(self) -> dict[str, Any]:
        return {"document": self.document}

    def save(self, file: Path) -> None:
        """A plain tokenizer.json: Hugging Face's loaders read it."""
        write_json(file, self.document)


@final
class HuggingFaceTokenizer(FastTokenizer):
    """Any tokenizer.json whose inside we do not know: WordPiece, Unigram, byte-pair encodings with other rules than ours."""

    kind = "huggingface"

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return self.encode_by_library(texts)

    def decode(self, ids: Sequence[int]) -> str:
        self.check_ids(ids)
        return str(self.library.decode(list(ids), skip_special_tokens=False))

    def token_text(self, token_id: int) -> str:
        self.check_ids([token_id])
        return self.library.id_to_token(token_id) or f"<{token_id}>"

    def byte_lengths(self) -> np.ndarray:
        """Known where tokens are spelled in bytes. Others may fold case, drop accents or add spaces: NaN but for marks."""
        lengths = np.full(self.size, np.nan)
        if _spelled_in_bytes(self.document):
            vocabulary = self.library.get_vocab(with_added_tokens=False)
            lengths[list(vocabulary.values())] = [len(token) for token in vocabulary]  # one sign for each byte
            for token_id, token in self.library.get_added_tokens_decoder().items():
                lengths[token_id] = len(token.content.encode())
        lengths[list(self.special.values())] = 0
        if self.unknown_id is not None:
            lengths[self.unknown_id] = np.nan
        return lengths

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> HuggingFaceTokenizer:
        return cls(settings["document"])


def _spelled_in_bytes(document: Mapping[str, Any]) -> bool:
    """Whether a text's tokens, joined, are its very bytes: as in GPT-2, Llama 3 and Qwen, whatever their merges."""
    decoder, splitter = document.get("decoder") or {}, document.get("pre_tokenizer") or {}
    splitters = splitter.get("pretokenizers", [splitter])
    alters = any(part.get("add_prefix_space") or part.get("behavior") == "Removed" for part in splitters)
    return decoder.get("type") == "ByteLevel" and document.get("normalizer") is None and not alters


def _build(document: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """The library's tokenizer, made to encode every text whole and always alike."""
    try:
        library = tokenizers.Tokenizer.from_str(json.dumps({**document, "truncation": None, "padding": None}))
    except Exception as error:
        raise DataError(
            f"This is not a tokenizer.json that can be used ({error}).", reason="unusable-tokenizer-json"
        ) from error
    if getattr(library.model, "dropout", None):
        library.model.dropout = None
    return library
