"""Characters: ids in the order of code points, one id for unknown ones, lossless on known text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.tokenizers import base
from glassformer.data.tokenizers.char import CharTokenizer, CharTokenizerConfig
from glassformer.foundation.errors import DataError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)


def test_on_paper() -> None:
    tokenizer = CharTokenizerConfig().train(lambda: ["cab", "é\n"])
    assert tokenizer.size == 6
    assert tokenizer.encode("\nabcé") == [1, 2, 3, 4, 5]
    assert tokenizer.encode("xa") == [0, 2]
    assert tokenizer.decode([4, 0, 2]) == "c\ufffda"
    assert (tokenizer.token_text(0), tokenizer.token_text(1)) == ("<unk>", "\n")
    np.testing.assert_array_equal(tokenizer.byte_lengths(), [np.nan, 1, 1, 1, 1, 2])


@given(TEXTS)
def test_known_text_comes_back(text: str) -> None:
    tokenizer = CharTokenizerConfig().train(lambda: [text])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unknown_id not in tokenizer.encode(text)


@given(st.lists(TEXTS, max_size=5))
def test_many_at_once_is_the_same(texts: list[str]) -> None:
    tokenizer = CharTokenizer("abcdefg")
    ids, counts = tokenizer.encode_batch(texts)
    assert ids.tolist() == [token for text in texts for token in tokenizer.encode(text)]
    assert counts.tolist() == [len(text) for text in texts]


def test_rare_characters_may_be_unknown_from_the_start() -> None:
    texts = ["aaabbc", "d"]
    assert CharTokenizerConfig(min_count=2).train(lambda: texts).settings() == {"characters": "ab"}
    assert CharTokenizerConfig(vocab=4).train(lambda: texts).settings() == {"characters": "abc"}  # c before d: lower code point
    with refused(DataError, "nothing-to-learn"):
        CharTokenizerConfig(min_count=9).train(lambda: texts)


def test_counting_in_portions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["aab", "bc", "ccd", "😀"]
    whole = CharTokenizerConfig(min_count=2).train(lambda: texts).settings()
    monkeypatch.setattr(base, "BATCH_CHARACTERS", 2)
    assert CharTokenizerConfig(min_count=2).train(lambda: texts).settings() == whole == {"characters": "abc"}


def test_progress_is_in_bytes() -> None:
    done: list[int] = []
    CharTokenizerConfig().train(lambda: ["é", "ab"], done.append)
    assert sum(done) == 4


def test_halves_of_characters_are_unknown_and_harm_nothing() -> None:
    tokenizer = CharTokenizerConfig().train(lambda: ["a\ud800b"])
    assert tokenizer.encode("a\ud800b") == [1, 0, 2]
    assert tokenizer.decode([1, 0, 2]).encode()


@pytest.mark.parametrize("characters", ["ba", "aa", ["ab", "c"]])
def test_wrong_vocabularies_are_refused(characters: str) -> None:
    with refused(DataError, "bad-settings"):
        CharTokenizer(characters)
