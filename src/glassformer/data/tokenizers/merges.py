"""GPT-2's own file of merges (vocab.bpe, or merges.txt) -> the byte-pair tokenizer it describes.

A first line ``#version: ...``, then one merge a line, the two parts with a space between. Ids follow from it: the 256 bytes in
GPT-2's order, the merges in theirs, then ``<|endoftext|>``. A vocabulary beside the file (encoder.json, or vocab.json) may
give the same tokens other ids.
"""

from __future__ import annotations

import json
from pathlib import Path

from glassformer.data.tokenizers.bpe import BPETokenizer
from glassformer.data.tokenizers.bpe_training import BytePairs
from glassformer.data.tokenizers.pretokenization import LEVELS, ByteLevel
from glassformer.foundation.errors import DataError

NAMES = ("vocab.bpe", "merges.txt")
VOCABULARIES = ("encoder.json", "vocab.json")
FIRST_LINE = "#version"
STOP = "<|endoftext|>"
MAX_BYTES = 64 << 20  # GPT-2's has half a MiB


def is_merges(file: Path) -> bool:
    """Whether the file says that it holds merges."""
    try:
        with file.open("rb") as stream:
            return stream.read(len(FIRST_LINE)) == FIRST_LINE.encode()
    except OSError:
        return False


def load_merges(file: Path) -> BPETokenizer:
    """The tokenizer of a file of merges; a line that is no merge is named."""
    level = LEVELS[ByteLevel.name]
    pairs = _read_pairs(file)
    beside = next((place for name in VOCABULARIES if (place := file.with_name(name)).is_file()), None)
    tokens = [*level.alphabet(()), *(left + right for left, right in pairs), STOP]
    if beside is not None:
        tokens = _in_order(tokens, beside)
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    merges = tuple((ids[left], ids[right], ids[left + right]) for left, right in pairs)
    return BPETokenizer(BytePairs(level, tuple(tokens), merges, (STOP,)))


def _read_pairs(file: Path) -> list[tuple[str, str]]:
    """The merges as pairs of tokens, each of which the lines before have made."""
    if file.stat().st_size > MAX_BYTES:
        raise DataError(f"is larger than {MAX_BYTES >> 20} MiB; this is no file of merges.", file=file)
    try:
        lines = file.read_text(encoding="utf-8").split("\n")  # other line ends may be part of a token
    except UnicodeDecodeError:
        raise DataError("is not UTF-8; it is damaged: fetch it again.", file=file) from None
    known, pairs = set(LEVELS[ByteLevel.name].alphabet(())), []
    for number, line in enumerate(lines, start=1):
        if not line or (number == 1 and line.startswith(FIRST_LINE)):
            continue
        left, _, right = line.partition(" ")
        if left not in known or right not in known or left + right in known:
            raise DataError(
                f"line {number}, {line!r}, is no merge of two tokens that the lines before have made; fetch the file again.",
                file=file,
            )
        known.add(left + right)
        pairs.append((left, right))
    return pairs


def _in_order(tokens: list[str], beside: Path) -> list[str]:
    """The tokens in the order of a vocabulary file, which must hold exactly these."""
    try:
        ids = json.loads(beside.read_text(encoding="utf-8"))
        listed = sorted(ids, key=ids.__getitem__)
        whole = sorted(listed) == sorted(tokens) and [ids[token] for token in listed] == list(range(len(tokens)))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"is no vocabulary ({error}); fetch it again, or take it away.", file=beside) from None
    if not whole:
        raise DataError(
            f"does not hold the {len(tokens)} tokens of the merges beside it, numbered from 0; take the one of these merges.",
            file=beside,
        )
    return listed
