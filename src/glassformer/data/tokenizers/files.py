"""A tokenizer's file -> the tokenizer: one of ours, or any Hugging Face tokenizer.json.

What is read is told by the document's keys, never by the file's name. Damaged, foreign and huge files are refused with
a sentence. Nothing is downloaded and nothing in a file is run.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.data.tokenizers.base import TOKENIZERS, Tokenizer
from glassformer.data.tokenizers.bpe import BPETokenizer, from_document
from glassformer.data.tokenizers.huggingface import HuggingFaceTokenizer
from glassformer.foundation.errors import DataError, did_you_mean

MAX_BYTES = 256 << 20
"""The largest vocabularies in use (a quarter of a million tokens) take about 40 MB."""

FILE_NAME = "tokenizer.json"


def load_tokenizer(file: str | Path) -> Tokenizer:
    """The tokenizer in ``file``, or in the ``tokenizer.json`` of a folder (a run, or a model of Hugging Face's)."""
    path = Path(file)
    path = path / FILE_NAME if path.is_dir() else path
    document = _read(path)
    try:
        if "glassformer_tokenizer" in document:
            return _ours(document)
        if isinstance(document.get("model"), dict):
            pairs = from_document(document)
            return HuggingFaceTokenizer(document) if pairs is None else BPETokenizer(pairs, document)
    except DataError as error:
        raise DataError(str(error), file=path) from error
    raise DataError(
        "is JSON but no tokenizer: it has neither 'glassformer_tokenizer' nor a Hugging Face 'model'; "
        "make one with `glassformer tokenizer train`.",
        file=path,
    )


def _read(path: Path) -> dict[str, Any]:
    remedy = "make it again with `glassformer tokenizer train`, or fetch it again."
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"is larger than {MAX_BYTES >> 20} MiB, which no tokenizer is; give the tokenizer.json.", file=path)
        document = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror or error}); give a tokenizer's file or its folder.", file=path
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(f"is damaged or no tokenizer: byte {error.start} is not UTF-8; {remedy}", file=path) from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"is damaged or no tokenizer: not valid JSON ({error.msg}); {remedy}", file=path, line=error.lineno
        ) from None
    except RecursionError:
        raise DataError(f"is damaged or no tokenizer: nested too deeply; {remedy}", file=path) from None
    if not isinstance(document, dict):
        raise DataError(f"is damaged or no tokenizer: a JSON {type(document).__name__}, not an object; {remedy}", file=path)
    return document


def _ours(document: dict[str, Any]) -> Tokenizer:
    kind, settings, schema = str(document["glassformer_tokenizer"]), document.get("settings"), document.get("schema")
    if schema != 1:
        raise DataError(f"has the schema {schema!r}; this version of Glassformer reads schema 1, so update it.")
    TOKENIZERS.names()  # imports the kinds that are there
    kinds = {tokenizer.kind: tokenizer for tokenizer in _subclasses(Tokenizer) if not inspect.isabstract(tokenizer)}
    if kind not in kinds:
        near = did_you_mean(kind, kinds)
        raise DataError(
            f"holds a tokenizer of the kind {kind!r}, which is not known.{near} If it is a plugin's, load the plugin."
        )
    if not isinstance(settings, dict):
        raise DataError(f"has no settings for its tokenizer of the kind {kind!r}; it is damaged, so make it again.")
    try:
        return kinds[kind].from_settings(settings)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"has settings that a tokenizer of the kind {kind!r} cannot use ({error!r}); make it again.") from error


def _subclasses(of: Any) -> Iterator[type[Tokenizer]]:
    for tokenizer in of.__subclasses__():
        yield tokenizer
        yield from _subclasses(tokenizer)
