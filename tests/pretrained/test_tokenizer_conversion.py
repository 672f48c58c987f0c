"""Every kind of tokenizer as a tokenizer.json: the same ids for any text, in the library and in transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.tokenizers.base import TOKENIZERS, Tokenizer
from glassformer.foundation.errors import ConfigError
from glassformer.pretrained.tokenizer_conversion import config_of, document_of, tokenizer_in

TEXTS = [
    "Mr. Smith's cat can't sit; they cannot, we're gonna see. It's 10:30 in the U.S., isn't it?",
    "J. R. said: “no” -- 1,000 times... I. 'Tis so. shouldn't've <unk> a<unk>b @-@ 90's '90s x²",
    "naïve café\tdéjà\nvu 日本語 🙂 \ufffd \x1c a\u00a0b",
]
KINDS: dict[str, dict[str, Any]] = {
    "char": {"kind": "char"},
    "char-few": {"kind": "char", "vocab": 20},
    "word": {"kind": "word", "min_count": 1},
    "word-unmarked": {"kind": "word", "min_count": 2, "marks": False},
    "byte": {"kind": "byte"},
    "bpe": {"kind": "bpe", "vocab": 280},
    "bpe-char": {"kind": "bpe", "vocab": 90, "level": "char"},
}
PIECES = [
    "n't",
    "'s",
    "cannot",
    "Mr.",
    "U.S.",
    "<unk>",
    "é",
    "²",
    "½",
    "日",
    " ",
    "\n",
    ".",
    ",",
    "'",
    "’",
    "-",
    "/",
    "a",
    "I",
    "9",
]


def trained(kind: str) -> Tokenizer:
    return TOKENIZERS.parse(KINDS[kind]).train(lambda: TEXTS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_ids_and_the_same_text(kind: str) -> None:
    ours = trained(kind)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(document_of(ours)))
    for text in [*TEXTS, "", " ", "unseen Wörter ☃"]:
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert ids == ours.encode(text), text
        exact = kind not in ("word", "word-unmarked", "bpe-char")  # which lose which white space stood where
        if exact and not (kind == "char" and ours.unknown_id in ids):  # its sign is in the vocabulary
            assert theirs.decode(ids, skip_special_tokens=False) == ours.decode(ids)
    assert theirs.get_vocab_size() == ours.size


@pytest.mark.parametrize("kind", ["char", "word", "byte"])
def test_the_same_ids_for_any_text(kind: str) -> None:
    ours = trained(kind)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(document_of(ours)))

    @given(st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8", max_codepoint=0x2FFF), max_size=12).map("".join))
    def same(text: str) -> None:
        assert theirs.encode(text, add_special_tokens=False).ids == ours.encode(text)

    same()


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_them(kind: str, tmp_path: Path, transformers: Any) -> None:
    ours = trained(kind)
    document = document_of(ours)
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config_of(ours, document, 64)))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text)
    assert len(theirs) == ours.size
    assert theirs.model_max_length == 64
    assert theirs.eos_token_id == ours.stop_id
    assert tokenizer_in(tmp_path).encode(TEXTS[0]) == ours.encode(TEXTS[0])


@pytest.mark.parametrize("kind", KINDS)
def test_marks_of_an_objective_are_special_tokens_after_all_others(kind: str) -> None:
    ours = trained(kind).with_marks(["<mask>", "<end>"])
    theirs = tokenizers.Tokenizer.from_str(json.dumps(document_of(ours)))
    for text in TEXTS:
        assert theirs.encode(text, add_special_tokens=False).ids == ours.encode(text)
    assert theirs.get_vocab_size() == ours.size
    ids = [ours.mark_id("<mask>"), ours.mark_id("<end>")]
    assert [theirs.token_to_id(mark) for mark in ours.marks] == ids
    assert theirs.encode("<mask><end>", add_special_tokens=False).ids == ids  # here a text never becomes a mark


def test_a_mark_that_the_text_has_already_is_refused() -> None:
    plain = TOKENIZERS.parse({"kind": "bpe", "vocab": 280, "special": ["<answer>"]}).train(lambda: TEXTS)
    with refused(ConfigError, "mark-taken", "<answer>", "text's"):
        document_of(plain.with_marks(["<answer>"]))


def test_lowercase_words_come_first() -> None:
    ours = TOKENIZERS.parse({"kind": "word", "min_count": 1, "lowercase": True}).train(lambda: TEXTS)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(document_of(ours)))
    text = "They CANNOT see the Cat; it isn't"
    assert theirs.encode(text, add_special_tokens=False).ids == ours.encode(text)


def test_a_kind_of_a_plugin_has_no_such_form() -> None:
    class Mine(Tokenizer):
        kind = "mine"
        size = 1

        def encode(self, text: str) -> list[int]:
            return []

        decode = token_text = byte_lengths = settings = encode  # type: ignore[assignment]

        @classmethod
        def from_settings(cls, settings: dict[str, Any]) -> Mine:
            return cls()

    with refused(ConfigError, "tokenizer-not-exported", "tokenizer=mine"):
        document_of(Mine())


def test_the_older_files_of_gpt2(tmp_path: Path) -> None:
    ours = trained("bpe")
    model = document_of(ours)["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    lines = ["#version: 0.2", *(" ".join(merge) for merge in model["merges"]), ""]
    (tmp_path / "merges.txt").write_text("\n".join(lines))
    found = tokenizer_in(tmp_path)
    assert (found.kind, found.stop_id) == ("bpe", ours.stop_id)
    for text in TEXTS:
        assert found.encode(text) == ours.encode(text)


@pytest.mark.parametrize("lower", [True, False])
def test_the_older_file_of_bert(lower: bool, tmp_path: Path, transformers: Any) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "The", "cat", "##s", "sat", ".", "naive", "naïve"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower, "tokenizer_class": "BertTokenizer"}))
    found = tokenizer_in(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    text = "The cats sat. naïve!"
    assert found.encode_document(text) == theirs(text)["input_ids"]


def test_a_damaged_older_file_is_a_sentence(tmp_path: Path) -> None:
    from glassformer.foundation.errors import DataError

    (tmp_path / "vocab.json").write_text("{")
    (tmp_path / "merges.txt").write_text("")
    with refused(DataError, "tokenizer-unreadable"):
        tokenizer_in(tmp_path)
