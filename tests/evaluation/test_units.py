"""Sums over documents, blocks and positions: by hand, and the law that parts sum to the whole."""

from __future__ import annotations

import json

import numpy as np
import pytest

from glassformer.evaluation.units import DocumentLosses, EvaluatedText, PositionLosses, word_weights
from glassformer.foundation.errors import DataError

LENGTHS = np.array([np.nan, 1.0, 2.0, 0.0])  # id 0 is UNK, id 3 a mark


def test_by_hand() -> None:
    text = EvaluatedText(np.array([1, 2, 2, 3, 0, 1, 2]), np.array([0, 3, 3, 6]), LENGTHS, np.array([2, 2, 0, 1]), unknown_id=0)
    found = DocumentLosses.collect(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), text)
    # the predicted tokens are 2 2 | | 3 0 1 | 2: the first token of all has no loss, the second document is empty
    np.testing.assert_array_equal(found.nats, [3.0, 0.0, 28.0, 32.0])
    np.testing.assert_array_equal(found.tokens, [2, 0, 3, 1])
    np.testing.assert_array_equal(found.bytes, [4.0, 0.0, np.nan, 2.0])
    np.testing.assert_array_equal(found.words, [2.0, 2.0, 0.0, 1.0])
    np.testing.assert_array_equal(found.unknown, [0, 0, 1, 0])
    assert (found.documents, found.unit) == (3, "document")


@pytest.mark.parametrize("sizes", [[41], [1] * 41, [20, 21], [7, 1, 33]])
def test_chunks_do_not_matter_and_documents_sum_to_the_whole(sizes: list[int]) -> None:
    rng = np.random.default_rng(1)
    text = EvaluatedText(rng.integers(1, 4, 42), np.array([0, 5, 6, 17, 40]), LENGTHS, np.arange(5))
    losses = rng.random(41)
    whole = DocumentLosses.collect(losses, text)
    parts = DocumentLosses.collect(np.split(losses, np.cumsum(sizes)[:-1]), text)
    for name, array in whole.arrays().items():
        np.testing.assert_allclose(parts.arrays()[name], array, rtol=1e-13)
    assert whole.nats.sum() == pytest.approx(losses.sum(), rel=1e-13)
    assert whole.tokens.sum() == 41


@pytest.mark.parametrize(("size", "blocks"), [(2, [1]), (1400, [1399]), (1600, [999, 600]), (3400, [999, 1000, 1400])])
def test_one_document_is_cut_into_blocks(size: int, blocks: list[int]) -> None:
    text = EvaluatedText(np.ones(size, np.int64), None, LENGTHS, np.array([700]), word_weights=np.array([0.0, 0.2, 0.0, 0.0]))
    found = DocumentLosses.collect(np.full(size - 1, 0.5), text)
    np.testing.assert_array_equal(found.tokens, blocks)
    np.testing.assert_array_equal(found.nats, np.array(blocks) * 0.5)
    np.testing.assert_allclose(found.words, 700 * np.array(blocks) / (size - 1))
    assert (found.documents, found.unit) == (1, "block")


def test_words_of_an_only_document_go_where_words_begin() -> None:
    spaces = np.zeros(2000, np.int64)
    spaces[[10, 500, 1500]] = 1
    text = EvaluatedText(spaces, None, None, np.array([6]), word_weights=word_weights(["x", " "]))
    np.testing.assert_allclose(DocumentLosses.collect(np.ones(1999), text).words, [4, 2])
    without = DocumentLosses.collect(np.ones(1999), EvaluatedText(spaces, None, None, np.array([6])))
    np.testing.assert_allclose(without.words, [6, 0])


def test_bytes_that_tokens_leave_out_are_those_of_the_text() -> None:
    ids, starts = np.array([1, 2, 1, 1, 2]), np.array([0, 2])  # 1 + 2 bytes, then 1 + 1 + 2
    whole = EvaluatedText(ids, starts, LENGTHS, text_bytes=np.array([3, 4]))
    spaces_between = EvaluatedText(ids, starts, LENGTHS, text_bytes=np.array([4, 6]))
    np.testing.assert_array_equal(DocumentLosses.collect(np.ones(4), whole).bytes, [2, 4])  # the first token is not predicted
    np.testing.assert_array_equal(DocumentLosses.collect(np.ones(4), spaces_between).bytes, [4, 6])
    unknown = EvaluatedText(np.array([1, 2, 0, 1, 2]), starts, LENGTHS, text_bytes=np.array([4, 9]))
    np.testing.assert_array_equal(DocumentLosses.collect(np.ones(4), unknown).bytes, [2, np.nan])


def test_characters_of_an_only_document_go_with_its_bytes() -> None:
    ids = np.repeat([1, 2], 1000)
    ids[[500, 1500]] = 0  # UNK has no certain bytes, and the block around it still has characters
    found = DocumentLosses.collect(np.ones(1999), EvaluatedText(ids, None, LENGTHS, characters=np.array([2 * (998 + 1998)])))
    np.testing.assert_allclose(found.characters, [2 * 998, 2 * 1998])


def test_single_texts_become_documents_of_one() -> None:
    parts = [
        DocumentLosses.collect(np.ones(len(ids) - 1), EvaluatedText(ids, None, LENGTHS, np.array([3]), unknown_id=0))
        for ids in (np.ones(2500, np.int64), np.array([1, 0, 2]))
    ]
    found = DocumentLosses.of_texts(parts)
    assert (found.documents, found.unit) == (2, "document")
    np.testing.assert_array_equal(found.tokens, [2499, 2])
    np.testing.assert_array_equal(found.bytes, [2499, np.nan])
    np.testing.assert_array_equal(found.words, [3, 3])
    np.testing.assert_array_equal(found.unknown, [0, 1])


def test_word_weights_by_hand() -> None:
    np.testing.assert_array_equal(word_weights(["a", " ", "\n\n", " the", "of the", "e a b", ""]), [0, 1, 1, 1, 1, 2, 0])
    np.testing.assert_array_equal(word_weights(["do", "n't", ",", "7", "..."]), [1, 1, 0, 1, 0])


def test_empty_documents_do_not_make_two_of_one() -> None:
    text = EvaluatedText(np.ones(2500, np.int64), np.array([0, 0, 2500]))
    assert text.documents == 1
    assert EvaluatedText(np.ones(9, np.int64), np.array([0, 1])).documents == 1  # the first token of all is not predicted
    assert len(DocumentLosses.collect(np.zeros(2499), text).nats) == 2


def test_nothing_known_is_not_a_number() -> None:
    found = DocumentLosses.collect(np.ones(5), EvaluatedText(np.zeros(6, np.int64), np.array([0, 3])))
    assert np.isnan(found.bytes).all()
    assert np.isnan(found.words).all()


def test_files_and_back() -> None:
    text = EvaluatedText(np.array([1, 2, 0, 3, 1]), np.array([0, 2]), LENGTHS, None, unknown_id=0)
    found = DocumentLosses.collect(np.arange(4.0), text)
    as_json = json.loads(json.dumps({name: array.tolist() for name, array in found.arrays().items()}, allow_nan=False))
    for stored in (found.arrays(), as_json):
        again = DocumentLosses.from_arrays(stored)
        assert again.documents == 2
        for name in ("nats", "tokens", "bytes", "words", "characters", "unknown"):
            np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
            assert getattr(again, name).dtype == getattr(found, name).dtype


@pytest.mark.parametrize("count", [3, 6])
def test_losses_must_fit_the_tokens(count: int) -> None:
    with pytest.raises(DataError, match="losses"):
        DocumentLosses.collect(np.zeros(count), EvaluatedText(np.zeros(6, np.int64)))


@pytest.mark.parametrize("starts", [[], [1, 2], [0, 4, 3], [0, 7]])
def test_wrong_starts_are_refused(starts: list[int]) -> None:
    with pytest.raises(DataError, match="Document starts"):
        EvaluatedText(np.zeros(6, np.int64), np.array(starts, dtype=np.int64))


def test_wrong_word_counts_and_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="2 counts of words for 3 documents"):
        EvaluatedText(np.zeros(6, np.int64), np.array([0, 2, 4]), words=np.array([1, 1]))
    with pytest.raises(DataError, match="one long array"):
        EvaluatedText(np.zeros((2, 3), np.int64))


def test_positions_by_hand() -> None:
    positions = PositionLosses(3)
    positions.add(np.array([1.0, 5.0, 2.0, 3.0]))
    positions.add(np.array([9.0]))
    np.testing.assert_array_equal(positions.n, [2, 2, 1])
    np.testing.assert_allclose(positions.mean, [2.0, 7.0, 2.0])
    # sample standard deviations sqrt(2) and sqrt(8), over sqrt(2)
    np.testing.assert_allclose(positions.standard_error, [1.0, 2.0, np.nan])
    assert np.isnan(PositionLosses(2).mean).all()


@pytest.mark.parametrize("text", ["the cat sat on a mat", "x", "one\ntwo words\n"])
def test_nothing_that_nobody_predicted_is_counted(text: str, tmp_path) -> None:
    """With characters as tokens, perplexity by character is perplexity; words that the first token holds are left out."""
    from glassformer.data.data_kinds import data_kind
    from glassformer.data.tokenizers.base import TOKENIZERS
    from glassformer.evaluation.language_metrics import language_metrics

    tokenizer = TOKENIZERS.parse("char").train(lambda: iter([text]), lambda count: None)
    items = data_kind("text").of_texts(tokenizer, text, record=None)
    nats = np.linspace(1.0, 2.0, max(0, len(items.tokens) - 1))
    figures = language_metrics(DocumentLosses.collect(nats, EvaluatedText.of(items, tokenizer)))
    assert figures["character_perplexity"].value == pytest.approx(figures["perplexity"].value)
    if len(text) == 1:
        assert figures["character_perplexity"].value is None
