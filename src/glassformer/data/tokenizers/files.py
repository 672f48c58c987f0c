"""One file -> the tokenizer that was saved in it, whatever its kind.

A file of ours says ``glassformer_tokenizer``; one of Hugging Face's says ``model``; GPT-2's own merges are no JSON and say
``#version``. Never runs code from a file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glassformer.data.tokenizers.base import TOKENIZERS, Tokenizer
from glassformer.data.tokenizers.bpe import BPETokenizer, from_document
from glassformer.data.tokenizers.huggingface import HuggingFaceTokenizer
from glassformer.data.tokenizers.merges import NAMES as MERGES
from glassformer.data.tokenizers.merges import is_merges, load_merges
from glassformer.foundation.errors import DataError, did_you_mean

FOLDER_FILE = "tokenizer.json"
MAX_BYTES = 256 << 20  # the largest vocabularies in use take some tens of MiB


def load_tokenizer(file: Path | str) -> Tokenizer:
    """The tokenizer of a file, or of the ``tokenizer.json`` in a folder (a run's, or a model's of Hugging Face; GPT-2's merges
    where there is none).

    Raises for a damaged or foreign file, naming the fault.
    """
    file = Path(file)
    if file.is_dir():
        merges = next((file / name for name in MERGES if (file / name).is_file()), file / FOLDER_FILE)
        file = merges if not (file / FOLDER_FILE).is_file() else file / FOLDER_FILE
    if is_merges(file):
        return load_merges(file)
    document = _read(file)
    if "glassformer_tokenizer" in document:
        return _ours(document, file)
    if isinstance(document.get("model"), dict):
        return _hugging_face(document, file)
    raise DataError(
        "is JSON but no tokenizer: neither 'glassformer_tokenizer' (ours) nor 'model' (Hugging Face's tokenizer.json); "
        "make one with `glassformer tokenizer train`.",
        file=file,
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise DataError(f"is larger than {MAX_BYTES >> 20} MiB; this is no tokenizer.", file=file)
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}); give the path of a tokenizer's JSON file.", file=file) from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"is not valid JSON ({error}); it is damaged or no tokenizer: make it or fetch it again.", file=file
        ) from None
    if not isinstance(document, dict):
        raise DataError("is JSON but not an object; this is no tokenizer.", file=file)
    return document


def _ours(document: dict[str, Any], file: Path) -> Tokenizer:
    kind, settings = str(document["glassformer_tokenizer"]), document.get("settings")
    if document.get("schema") != 1:
        raise DataError(f"has schema {document.get('schema')!r}; this version of glassformer reads schema 1.", file=file)
    if not isinstance(settings, dict):
        raise DataError("has no settings; it is damaged.", file=file)
    try:
        return tokenizer_of(kind, settings)
    except DataError as error:
        raise DataError(str(error), file=file) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        rule = f"has settings that a {kind} tokenizer cannot be made from ({error!r}); it is damaged."
        raise DataError(rule, file=file) from None


def tokenizer_of(kind: str, settings: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a kind from what its ``settings()`` gave."""
    kinds = _tokenizers()
    if kind not in kinds:
        known = ", ".join(sorted(kinds))
        raise DataError(f"holds a tokenizer of kind {kind!r}.{did_you_mean(kind, kinds)} Known: {known}.")
    return kinds[kind].from_settings(settings)


def _tokenizers() -> dict[str, type[Tokenizer]]:
    """The tokenizer classes by kind, also those of plugins."""
    TOKENIZERS.names()  # imports every file of the package
    found: dict[str, type[Tokenizer]] = {}
    waiting: list[type[Any]] = [Tokenizer]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if "kind" in vars(kind):
                found[kind.kind] = kind
    return found


def _hugging_face(document: dict[str, Any], file: Path) -> Tokenizer:
    try:
        pairs = from_document(document)
        return HuggingFaceTokenizer(document) if pairs is None else BPETokenizer(pairs, document)
    except DataError as error:
        raise DataError(str(error), file=file) from None
