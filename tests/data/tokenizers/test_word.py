"""Words: the vocabulary on paper, marks, UNK, limits, and bounded counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.tokenizers import word
from glassformer.data.tokenizers.word import WordTokenizer, WordTokenizerConfig
from glassformer.foundation.errors import DataError

TEXTS = ["The cat isn't the dog.", "The cat sat. <unk>"]


def test_words_are_in_the_order_of_their_counts() -> None:
    tokenizer = WordTokenizerConfig(min_count=1).train(lambda: TEXTS)
    assert tokenizer.settings()["words"] == [".", "The", "cat", "dog", "is", "n't", "sat", "the"]
    assert tokenizer.size == 12
    ids = (tokenizer.pad_id, tokenizer.unknown_id, tokenizer.start_id, tokenizer.stop_id)
    assert ids == (0, 1, 2, 3)
    assert tokenizer.encode("The dog isn't a cat.") == [5, 7, 8, 9, 1, 6, 4]
    assert tokenizer.encode_document("cat") == [2, 6, 3]


def test_rare_words_are_unknown_unless_told() -> None:
    assert WordTokenizerConfig().train(lambda: TEXTS).settings()["words"] == [".", "The", "cat"]
    assert WordTokenizerConfig(vocab=5).train(lambda: TEXTS).settings()["words"] == ["."]
    with refused(DataError, "nothing-to-learn"):
        WordTokenizerConfig(min_count=5).train(lambda: TEXTS)


def test_without_marks_there_are_none() -> None:
    tokenizer = WordTokenizerConfig(marks=False).train(lambda: TEXTS)
    assert (tokenizer.start_id, tokenizer.stop_id, tokenizer.size) == (None, None, 5)
    assert tokenizer.encode_document("cat .") == tokenizer.encode("cat .") == [4, 2]


def test_lower_case_joins_words_but_abbreviations_are_seen_first() -> None:
    tokenizer = WordTokenizerConfig(lowercase=True, min_count=1).train(lambda: [*TEXTS, "Mr. Dog"])
    assert "mr." in tokenizer.settings()["words"]
    assert tokenizer.encode("THE Dog") == tokenizer.encode("the dog")


def test_unk_in_the_text_is_unk_but_other_marks_are_words() -> None:
    tokenizer = WordTokenizerConfig(min_count=1).train(lambda: TEXTS)
    assert tokenizer.encode("<unk>") == [1]
    assert "<unk>" not in tokenizer.settings()["words"]
    assert tokenizer.encode("<pad> <stop>") == [1] * 6  # < pad > < stop >: a text cannot end itself


def test_decoding_gives_running_text_with_a_line_for_each_document() -> None:
    tokenizer = WordTokenizerConfig(min_count=1).train(lambda: TEXTS)
    ids = [token for text in TEXTS for token in tokenizer.encode_document(text)] + [0]
    assert tokenizer.decode(ids) == "The cat isn't the dog.\nThe cat sat. <unk>"
    assert [tokenizer.token_text(token) for token in range(5)] == ["<pad>", "<unk>", "<start>", "<stop>", "."]
    with refused(DataError, "id-out-of-range"):
        tokenizer.decode([99])


@given(st.lists(st.sampled_from(["the", "'", "cat", '"', "n't", "<stop>", "<start>", "<mask>"]), max_size=24))
def test_the_settled_beginning_of_a_text_stays_whatever_follows(words: list[str]) -> None:
    """A ' may open a quotation or belong to the word before it; which is known when another ' comes, or none for long."""
    tokenizer = WordTokenizer(["the", "'", "cat", '"', "n't"]).with_marks(["<mask>"])
    numbers = {tokenizer.token_text(number): number for number in range(tokenizer.size)}
    ids = [numbers[word] for word in words]
    whole = tokenizer.decode(ids)
    for length in range(len(ids) + 1):
        beginning = ids[: tokenizer.stable_length(ids[:length])]
        assert whole.startswith(tokenizer.decode(beginning))
        assert len(beginning) == length or "'" in words[:length]


def test_a_quotation_is_settled_when_it_is_closed_or_will_not_be() -> None:
    tokenizer = WordTokenizer(["the", "'", "cat", "said"])
    quoted = tokenizer.encode("the ' cat ' said")
    assert [tokenizer.stable_length(quoted[:length]) for length in range(6)] == [0, 1, 1, 1, 4, 5]
    alone = [*tokenizer.encode("the '"), *tokenizer.encode("cat") * 199]
    assert [tokenizer.stable_length(alone[:-1]), tokenizer.stable_length(alone)] == [1, 201]
    assert tokenizer.stable_length([*quoted[:3], tokenizer.stop_id]) == 4


def test_bytes_are_those_of_the_words_alone() -> None:
    lengths = WordTokenizer(["é", "abc"]).byte_lengths()
    np.testing.assert_array_equal(lengths, [0, np.nan, 0, 0, 2, 3])


def test_many_at_once_is_the_same() -> None:
    tokenizer = WordTokenizerConfig(min_count=1).train(lambda: TEXTS)
    ids, counts = tokenizer.encode_batch([*TEXTS, "", " "])
    assert ids.tolist() == tokenizer.encode(TEXTS[0]) + tokenizer.encode(TEXTS[1])
    assert counts.tolist() == [7, 5, 0, 0]


def test_forgetting_runs_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = WordTokenizerConfig(min_count=1).train(lambda: TEXTS)
    expected = tokenizer.encode(" ".join(TEXTS))
    monkeypatch.setattr(word, "_RUNS_CACHED", 2)
    forgetful = WordTokenizerConfig(min_count=1).train(lambda: TEXTS)
    assert forgetful.settings() == tokenizer.settings()
    assert forgetful.encode(" ".join(TEXTS)) == expected


def test_too_many_words_drop_the_rarest_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word, "_WORDS_COUNTED", 3)
    tokenizer = WordTokenizerConfig(min_count=1).train(lambda: ["a a a b b c c d e f"])
    assert tokenizer.settings()["words"] == ["a", "b", "c"]
    assert tokenizer.dropped == 3
    tokenizer = WordTokenizerConfig(min_count=1).train(lambda: ["a a b b c c d d e e e"])
    assert (tokenizer.settings()["words"], tokenizer.dropped) == (["e"], 4)


def test_what_is_no_word_gets_no_id() -> None:
    tokenizer = WordTokenizerConfig(min_count=1).train(lambda: ["x" * 101 + " y"])
    assert tokenizer.settings()["words"] == ["y"]
    assert tokenizer.encode("x" * 101) == [1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rules": 1, "words": ["a", "a"], "marks": True}, "must all be different"),
        ({"rules": 1, "words": "a"}, "a list of texts"),
        ({"rules": 0, "words": ["a"]}, "split by rules 0; this version uses 1"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        WordTokenizer.from_settings(settings)
