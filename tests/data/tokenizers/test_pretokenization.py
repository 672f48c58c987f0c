"""Text -> words: by hand, against the tokenizers library, and chunk by chunk against the whole."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tokenizers.pre_tokenizers import ByteLevel as LibraryByteLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from glassformer.data.tokenizers.pretokenization import BYTE_SIGNS, LEVELS, ByteLevel, CharLevel, chunks, count_words
from glassformer.foundation.errors import DataError

# What splitting can stumble over: runs of spaces of many kinds, contractions, digits, marks, signs beyond the first plane.
TRICKY = st.text(
    alphabet=st.one_of(
        st.sampled_from(" \n\t\r\x1c\x1f\x85\xa0\u2003\u3000'stredvml019.,!?aéßÑ漢字🙂́"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)


def test_words_of_gpt2_by_hand() -> None:
    text = "It's 2 o'clock,  he'll\n say"
    assert ByteLevel().words(text) == ["It", "'s", " 2", " o", "'", "clock", ",", " ", " he", "'ll", "\n", " say"]


def test_words_at_char_level_by_hand() -> None:
    assert CharLevel().words(" low\t lower\n") == ["low", "lower"]
    assert CharLevel().symbols("low") == ["l", "o", "w</w>"]
    assert CharLevel().alphabet(["ba", "c"]) == ["a", "b", "c", "a</w>", "c</w>"]


def test_bytes_have_the_signs_that_gpt2_gave_them() -> None:
    assert [BYTE_SIGNS[byte] for byte in (0x20, 0x0A, 0x41, 0xAD, 0xFF)] == ["Ġ", "Ċ", "A", "Ń", "ÿ"]
    assert set(BYTE_SIGNS) == set(LibraryByteLevel.alphabet())
    assert ByteLevel().symbols(" é") == ["Ġ", "Ã", "©"]
    assert ByteLevel().bytes_of("ĠÃ©") == " é".encode()


@given(TRICKY)
def test_words_are_those_of_the_library(text: str) -> None:
    expected = LibraryByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    assert ["".join(ByteLevel().symbols(word)) for word in ByteLevel().words(text)] == [word for word, _ in expected]
    assert CharLevel().words(text) == [word for word, _ in WhitespaceSplit().pre_tokenize_str(text)]


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@given(texts=st.lists(TRICKY, max_size=4))
def test_counting_chunks_is_counting_words(level: ByteLevel | CharLevel, texts: list[str]) -> None:
    assert count_words(texts, level) == Counter(word for text in texts for word in level.words(text))


@given(TRICKY)
def test_chunks_are_the_text(text: str) -> None:
    assert "".join(chunks(text)) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
@settings(max_examples=50)
def test_symbols_of_all_words_are_the_text(text: str) -> None:
    level = ByteLevel()
    pieces = [level.bytes_of(symbol) for word in level.words(text) for symbol in level.symbols(word)]
    assert level.join(pieces) == text.encode()


def test_a_space_stands_between_words_of_characters() -> None:
    level = CharLevel()
    assert level.join([level.bytes_of(token) for token in ("lo", "w</w>", "x</w>")]) == b"low x"


def test_counting_holds_no_more_than_its_limit() -> None:
    texts = (f"often rare{number}" for number in range(100))
    counted = count_words(texts, CharLevel(), limit=10)
    assert counted["often"] == 100
    assert len(counted) <= 11


def test_progress_adds_up_to_the_bytes() -> None:
    told: list[int] = []
    count_words(["é" * 600_000, "b", " c\n"], CharLevel(), told.append)
    assert told == [1_200_000, 4]


def test_half_a_character_is_a_sentence() -> None:
    with refused(DataError, "half-a-character"):
        count_words(["ok \ud800"], ByteLevel())
