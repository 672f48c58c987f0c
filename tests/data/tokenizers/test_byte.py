"""Bytes: ids are byte values, every text comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.tokenizers.byte import ByteTokenizer, ByteTokenizerConfig
from glassformer.foundation.errors import DataError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def test_on_paper() -> None:
    tokenizer = ByteTokenizerConfig().train(lambda: pytest.fail("bytes need no text"))
    assert tokenizer.size == 256
    assert tokenizer.encode("Aé\n") == [65, 0xC3, 0xA9, 10]
    assert [tokenizer.token_text(token) for token in (65, 10, 0xC3, 32)] == ["A", "<0x0A>", "<0xC3>", " "]
    np.testing.assert_array_equal(tokenizer.byte_lengths(), np.ones(256))


@given(TEXTS)
def test_every_text_comes_back(text: str) -> None:
    assert ByteTokenizer().decode(ByteTokenizer().encode(text)) == text


@given(st.lists(TEXTS, max_size=5))
def test_many_at_once_is_the_same(texts: list[str]) -> None:
    ids, counts = ByteTokenizer().encode_batch(texts)
    assert ids.tolist() == [token for text in texts for token in ByteTokenizer().encode(text)]
    assert counts.tolist() == [len(text.encode()) for text in texts]


def test_half_a_character_is_shown_as_such() -> None:
    assert ByteTokenizer().decode([65, 0xC3]) == "A\ufffd"


def test_what_has_no_bytes_is_refused() -> None:
    with refused(DataError, "half-a-character"):
        ByteTokenizer().encode("a\ud800")


def test_ids_out_of_range_are_refused() -> None:
    with refused(DataError, "id-out-of-range", "256", "0", "255"):
        ByteTokenizer().decode([256])
