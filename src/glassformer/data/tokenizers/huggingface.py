"""Tokenizers from a Hugging Face tokenizer.json, encoded by the ``tokenizers`` library.

Takes the file's document (plain JSON values) and keeps it, so that it is saved unchanged. Truncation, padding and dropout of
merges are disabled: a text has one list of ids. Reads no file: ``files`` does.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
import tokenizers

from glassformer.data.tokenizers.base import Tokenizer, in_batches, joined_ids, utf8
from glassformer.foundation.errors import DataError, is_panic
from glassformer.foundation.files import write_json

T = TypeVar("T")
FIXED_SECONDS, CHARACTERS_PER_SECOND = 30.0, 20_000
"""The time that the library has for a text; usual files encode a million characters in a second."""
MAX_SIZE = 1 << 24
"""A larger id is taken as damage: a model would need a row of weights for each id below it."""

ROLES: Mapping[str, tuple[str, ...]] = {
    "start": ("<s>", "<bos>", "[CLS]", "<|startoftext|>", "<|begin_of_text|>"),
    "stop": ("<|endoftext|>", "</s>", "<eos>", "[SEP]", "<|end_of_text|>"),
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "mask": ("[MASK]", "<mask>"),
}
"""A special token's role is its name: files do not say it in any other way."""


def answer_in_time(call: Callable[[], T], characters: int) -> T:
    """What the library answers; its errors and panics are sentences, and so is a text that takes it longer than any should.

    A pattern in a foreign file can take exponential time. The library cannot be stopped, so its thread is left behind.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(call())
        except BaseException as error:
            errors.append(error)

    seconds = FIXED_SECONDS + characters / CHARACTERS_PER_SECOND
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    if not errors:
        raise DataError(
            f"This tokenizer has not encoded {characters:,} characters in {seconds:.0f} s; its file is damaged or malicious.",
            reason="tokenizer-too-slow",
        )
    if isinstance(errors[0], TypeError):
        raise errors[0]
    raise DataError(  # the library has no class of its own for errors
        f"This tokenizer cannot encode the text ({errors[0]}); its file is damaged or incomplete.", reason="cannot-encode"
    ) from errors[0]


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
            encode = partial(self.library.encode_batch_fast, list(texts), add_special_tokens=False)
            return [encoding.ids for encoding in answer_in_time(encode, sum(map(len, texts)))]
        except TypeError:
            for text in texts:
                utf8(text)
            raise

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
        return str(answer_in_time(partial(self.library.decode, list(ids), skip_special_tokens=False), len(ids)))

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
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise DataError(
            f"This is not a tokenizer.json that can be used ({error}).", reason="unusable-tokenizer-json"
        ) from error
    if getattr(library.model, "dropout", None):
        library.model.dropout = None
    return library
