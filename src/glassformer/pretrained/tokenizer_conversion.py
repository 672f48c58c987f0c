"""Our tokenizers -> a tokenizer.json with the same ids for Hugging Face's loaders; and a folder's files -> ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.data.pairs.pair_batches import END as PAIR_END
from glassformer.data.pairs.pair_batches import START as PAIR_START
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.data.tokenizers.char import UNKNOWN_TEXT, CharTokenizer
from glassformer.data.tokenizers.files import MAX_BYTES, load_tokenizer
from glassformer.data.tokenizers.huggingface import FastTokenizer, HuggingFaceTokenizer
from glassformer.data.tokenizers.pretokenization import BYTE_SIGNS
from glassformer.data.tokenizers.special_tokens import MarkedTokenizer
from glassformer.data.tokenizers.treebank import hugging_face_cuts
from glassformer.data.tokenizers.word import PAD, START, STOP, UNK, WordTokenizer
from glassformer.foundation.errors import ConfigError, DataError, RunError
from glassformer.foundation.files import read_json, read_text

TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, "vocab.json", "merges.txt", "vocab.txt")
"""The files of a folder's tokenizer."""
ROLES = {
    "bos_token": ("<s>", "<bos>", "<|startoftext|>", "<|begin_of_text|>", START),
    "eos_token": ("<|endoftext|>", "</s>", "<eos>", "<|end_of_text|>", STOP),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]",),
    "sep_token": ("[SEP]",),
    "mask_token": ("[MASK]", "<mask>"),
    "pad_token": ("[PAD]", "<pad>", "<|pad|>"),
}
"""Hugging Face's names for the roles of special tokens."""


def tokenizer_in(folder: Path) -> Tokenizer:
    """The tokenizer of a model's folder: its tokenizer.json, or the older files of GPT-2 and BERT."""
    if (folder / TOKENIZER).is_file():
        return load_tokenizer(folder / TOKENIZER)
    try:
        if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
            return _of_merges(folder)
        if (folder / "vocab.txt").is_file():
            return _of_pieces(folder)
    except (RunError, OSError, ValueError) as error:
        raise DataError(
            f"the files of the tokenizer cannot be read ({error}).", file=folder, reason="tokenizer-unreadable"
        ) from error
    raise DataError(
        f"there is no readable tokenizer: no {TOKENIZER}, no vocab.json with merges.txt, no vocab.txt.",
        file=folder,
        reason="no-tokenizer",
    )


def _of_merges(folder: Path) -> Tokenizer:
    from glassformer.data.tokenizers.bpe import BPETokenizer, from_document

    vocabulary = read_json(folder / "vocab.json", most=MAX_BYTES)
    lines = read_text(folder / "merges.txt", most=MAX_BYTES).split("\n")
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    signs = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = [name for name in ("<|endoftext|>",) if name in vocabulary]
    document = _document({"type": "BPE", "vocab": vocabulary, "merges": merges}, special, vocabulary)
    document |= {"pre_tokenizer": signs, "decoder": signs}
    pairs = from_document(document)
    return HuggingFaceTokenizer(document) if pairs is None else BPETokenizer(pairs, document)


def _of_pieces(folder: Path) -> Tokenizer:
    pieces = read_text(folder / "vocab.txt", most=MAX_BYTES).splitlines()
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    settings = read_json(folder / TOKENIZER_CONFIG, most=MAX_BYTES) if (folder / TOKENIZER_CONFIG).is_file() else {}
    lower = bool(settings.get("do_lower_case", True))
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    special = [name for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if name in vocabulary]
    document = _document({**model, "vocab": vocabulary}, special, vocabulary)
    document |= {
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
        | {"lowercase": lower},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    }
    if {"[CLS]", "[SEP]"} <= vocabulary.keys():
        pair = [["[SEP]", vocabulary["[SEP]"]], ["[CLS]", vocabulary["[CLS]"]]]
        document["post_processor"] = {"type": "BertProcessing", "sep": pair[0], "cls": pair[1]}
    return HuggingFaceTokenizer(document)


def document_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer.json with the ids of ``tokenizer.encode``."""
    if isinstance(tokenizer, MarkedTokenizer):
        return _marked_document(tokenizer)
    if isinstance(tokenizer, FastTokenizer):
        return dict(tokenizer.document)
    if isinstance(tokenizer, ByteTokenizer):
        return _bytes_document()
    if isinstance(tokenizer, CharTokenizer):
        return _characters_document(tokenizer)
    if isinstance(tokenizer, WordTokenizer):
        return _words_document(tokenizer)
    raise ConfigError(
        f"tokenizer={tokenizer.kind} has no Hugging Face format; export a run with another tokenizer.",
        reason="tokenizer-not-exported",
    )


def config_of(tokenizer: Tokenizer, document: dict[str, Any], context: int) -> dict[str, Any]:
    """The tokenizer_config.json beside it: which special token has which role."""
    special = [token["content"] for token in document.get("added_tokens") or [] if token.get("special")]
    roles = {role: name for role, names in ROLES.items() for name in names if name in special}
    if PAIR_START in tokenizer.marks:
        roles |= {"bos_token": PAIR_START, "eos_token": PAIR_END}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        **roles,
    }


def _bytes_document() -> dict[str, Any]:
    signs = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    vocabulary = {sign: byte for byte, sign in enumerate(BYTE_SIGNS)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    return _document(model, [], vocabulary) | {"pre_tokenizer": signs, "decoder": signs}


def _characters_document(tokenizer: CharTokenizer) -> dict[str, Any]:
    """A word-level model of characters; the unknown token is the character shown for it, unless that is known."""
    characters = tokenizer.settings()["characters"]
    unknown = UNKNOWN_TEXT if UNKNOWN_TEXT not in characters else UNK
    vocabulary = {unknown: 0} | {character: number for number, character in enumerate(characters, start=1)}
    single = _split(r"[\s\S]", "Isolated")
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": unknown}
    return _document(model, [], vocabulary) | {"pre_tokenizer": single, "decoder": {"type": "Fuse"}}


def _words_document(tokenizer: WordTokenizer) -> dict[str, Any]:
    """Words by the same splitting rules. Lowercasing comes before splitting there and after it here."""
    settings = tokenizer.settings()
    special = [PAD, UNK, START, STOP] if settings["marks"] else [PAD, UNK]
    vocabulary = {word: number for number, word in enumerate([*special, *settings["words"]])}
    cuts = [_split(r"[\s\x1c-\x1f]+", "Removed"), *(_split(cut, "Isolated") for cut in hugging_face_cuts())]
    document = _document({"type": "WordLevel", "vocab": vocabulary, "unk_token": UNK}, special, vocabulary)
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": cuts}
    if settings["lowercase"]:
        document["normalizer"] = {"type": "Lowercase"}
    if settings["marks"]:  # a prompt starts like a document
        start = {START: {"id": START, "ids": [tokenizer.start_id], "tokens": [START]}}
        document["post_processor"] = _template(before=START, special=start)
    return document


def _template(*, before: str | None = None, after: str | None = None, special: dict[str, Any]) -> dict[str, Any]:
    """The post-processor that puts a special token before every text, or after it."""
    first, last = ([{"SpecialToken": {"id": name, "type_id": 0}}] if name else [] for name in (before, after))
    texts = [{"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB")]
    single, pair = [*first, texts[0], *last], [*first, *texts, *last]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


def _marked_document(tokenizer: MarkedTokenizer) -> dict[str, Any]:
    """The inner tokenizer's document, with the marks as special tokens; there, text that spells a mark becomes it."""
    inner = document_of(tokenizer.inner)
    marks = _document({}, tokenizer.marks, {mark: tokenizer.mark_id(mark) for mark in tokenizer.marks})["added_tokens"]
    taken = [token["content"] for token in inner.get("added_tokens") or [] if token["content"] in tokenizer.marks]
    if taken:
        raise ConfigError(
            f"The mark {taken[0]} is a token of the text's own tokenizer, too, and a tokenizer.json can hold it once; train "
            "with a tokenizer that does not have it.",
            reason="mark-taken",
        )
    document = {**inner, "added_tokens": [*(inner.get("added_tokens") or []), *marks]}
    if PAIR_START in tokenizer.marks:  # a source is read with its end
        ids = {"id": PAIR_END, "ids": [tokenizer.mark_id(PAIR_END)], "tokens": [PAIR_END]}
        document["post_processor"] = _template(after=PAIR_END, special={PAIR_END: ids})
    return document


def _split(pattern: str, behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _document(model: dict[str, Any], special: Sequence[str], ids: dict[str, int]) -> dict[str, Any]:
    """A tokenizer.json with nothing but a model and special tokens."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[name], "content": name, **plain} for name in special],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
