"""Tokenizer files: the tokenizer that a file holds, whatever its kind, and the recipe key ``tokenizer: {file: ...}``.

A file of ours has the key ``glassformer_tokenizer``; one of Hugging Face's has ``model``; GPT-2's own merges (vocab.bpe, or
merges.txt) are no JSON and begin with ``#version``. Never runs code from a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import Field

from glassformer.data.tokenizers.base import TOKENIZERS, Progress, Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.bpe import BPETokenizer, from_document
from glassformer.data.tokenizers.bpe_training import BytePairs
from glassformer.data.tokenizers.huggingface import HuggingFaceTokenizer
from glassformer.data.tokenizers.pretokenization import LEVELS, ByteLevel
from glassformer.foundation.errors import DataError, RunError, did_you_mean
from glassformer.foundation.files import open_file, read_json, read_text

FOLDER_FILE = "tokenizer.json"
MERGES_FILES = ("vocab.bpe", "merges.txt")
VOCABULARY_FILES = ("encoder.json", "vocab.json")
MERGES_FIRST_LINE = "#version"
GPT2_STOP = "<|endoftext|>"
MAX_BYTES = 256 << 20  # the largest vocabularies in use take some tens of MiB


@TOKENIZERS.variant("file")
class FileTokenizerConfig(TokenizerConfig):
    """A tokenizer from a file: a Hugging Face tokenizer.json (BERT's, ...), GPT-2's own vocab.bpe, or one of ours."""

    learns = False
    file: str = Field(min_length=1)

    def train(self, texts: Callable[[], Iterable[str]], progress: Progress | None = None) -> Tokenizer:
        """Nothing is learned: the texts are not read."""
        return load_tokenizer(Path(self.file).expanduser())


def load_tokenizer(file: Path | str) -> Tokenizer:
    """The tokenizer of a file, or of the ``tokenizer.json`` in a folder (a run's, or a model's of Hugging Face; GPT-2's merges
    where there is none).

    Raises for a damaged or foreign file, naming the fault.
    """
    file = Path(file)
    if file.is_dir():
        names = (FOLDER_FILE, *MERGES_FILES)
        file = next((file / name for name in names if (file / name).is_file()), file / FOLDER_FILE)
    if _is_merges(file):
        return _load_merges(file)
    document = _read(file)
    if "glassformer_tokenizer" in document:
        return _ours(document, file)
    if isinstance(document.get("model"), dict):
        try:
            pairs = from_document(document)
            return HuggingFaceTokenizer(document) if pairs is None else BPETokenizer(pairs, document)
        except DataError as error:
            raise DataError(str(error), file=file, reason=error.reason) from None
    raise DataError(
        "is JSON but not a tokenizer; it needs 'glassformer_tokenizer' (ours) or 'model' (Hugging Face's tokenizer.json); "
        "make one with `glassformer tokenizer train`.",
        file=file,
        reason="no-tokenizer",
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_text(file, most=MAX_BYTES))
    except RunError as error:
        raise DataError(f"it is not a tokenizer: {error}", file=file, reason=error.reason) from None
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror}); give the path of a tokenizer's JSON file.", file=file, reason="unreadable"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"is not valid JSON ({error}); it is damaged or not a tokenizer: train or fetch it again.",
            file=file,
            reason="not-json",
        ) from None
    if not isinstance(document, dict):
        raise DataError("is JSON but not an object, so it is not a tokenizer.", file=file, reason="not-an-object")
    return document


def _ours(document: dict[str, Any], file: Path) -> Tokenizer:
    kind, settings = str(document["glassformer_tokenizer"]), document.get("settings")
    if document.get("schema") != 1:
        raise DataError(
            f"has schema {document.get('schema')!r}; this version of glassformer reads schema 1.",
            file=file,
            reason="other-schema",
        )
    if not isinstance(settings, dict):
        raise DataError("has no settings, so it is damaged; train it again.", file=file, reason="no-settings")
    try:
        return tokenizer_of(kind, settings)
    except DataError as error:
        raise DataError(str(error), file=file, reason=error.reason) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        rule = f"has settings that a {kind} tokenizer cannot be made from ({error!r}); it is damaged."
        raise DataError(rule, file=file, reason="bad-settings") from None


def tokenizer_of(kind: str, settings: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a kind from what its ``settings()`` gave."""
    TOKENIZERS.names()  # imports every file of the package
    known = Tokenizer.by_kind
    if kind not in known:
        names = ", ".join(sorted(known))
        raise DataError(
            f"holds a tokenizer of kind {kind!r}.{did_you_mean(kind, known)} Known: {names}.", reason="unknown-kind"
        )
    return known[kind].from_settings(settings)


def _is_merges(file: Path) -> bool:
    """Whether the file says that it holds merges."""
    try:
        with open_file(file) as stream:
            return stream.read(len(MERGES_FIRST_LINE)) == MERGES_FIRST_LINE.encode()
    except (OSError, RunError):
        return False


def _load_merges(file: Path) -> BPETokenizer:
    """The tokenizer of GPT-2's file of merges: a first line ``#version: ...``, then one merge a line, two parts and a space.

    Ids follow from it: the 256 bytes in GPT-2's order, the merges in theirs, then ``<|endoftext|>``. A vocabulary beside the
    file (encoder.json, or vocab.json) may give the same tokens other ids.
    """
    level = LEVELS[ByteLevel.name]
    pairs = _merges_of(file)
    beside = next((place for name in VOCABULARY_FILES if (place := file.with_name(name)).is_file()), None)
    tokens = [*level.alphabet(()), *(left + right for left, right in pairs), GPT2_STOP]
    if beside is not None:
        tokens = _in_order(tokens, beside)
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    merges = tuple((ids[left], ids[right], ids[left + right]) for left, right in pairs)
    return BPETokenizer(BytePairs(level, tuple(tokens), merges, (GPT2_STOP,)))


def _merges_of(file: Path) -> list[tuple[str, str]]:
    """The merges as pairs of tokens, each of which the lines before have made."""
    try:
        lines = read_text(file, most=MAX_BYTES).split("\n")  # other line ends may be part of a token
    except RunError as error:
        raise DataError(f"it is not a file of merges: {error}", file=file, reason=error.reason) from None
    except UnicodeDecodeError:
        raise DataError("is not UTF-8; it is damaged: fetch it again.", file=file, reason="not-utf8") from None
    known, pairs = set(LEVELS[ByteLevel.name].alphabet(())), []
    for number, line in enumerate(lines, start=1):
        if not line or (number == 1 and line.startswith(MERGES_FIRST_LINE)):
            continue
        left, _, right = line.partition(" ")
        if left not in known or right not in known or left + right in known:
            raise DataError(
                f"line {number}, {line!r}, does not merge two tokens made by earlier lines; fetch the file again.",
                file=file,
                reason="bad-merge",
            )
        known.add(left + right)
        pairs.append((left, right))
    return pairs


def _in_order(tokens: list[str], beside: Path) -> list[str]:
    """The tokens in the order of a vocabulary file, which must hold exactly these."""
    try:
        ids = read_json(beside, most=MAX_BYTES)
        listed = sorted(ids, key=ids.__getitem__)
        whole = sorted(listed) == sorted(tokens) and [ids[token] for token in listed] == list(range(len(tokens)))
    except (RunError, OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"is not a vocabulary ({error}); fetch it again, or remove it.", file=beside, reason="no-vocabulary"
        ) from None
    if not whole:
        raise DataError(
            f"does not hold the {len(tokens)} tokens of the merges beside it, numbered from 0; use their own vocabulary.",
            file=beside,
            reason="other-vocabulary",
        )
    return listed
