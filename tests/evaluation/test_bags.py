"""Bags of words: scikit-learn's counts and weights, and the words of a second text apart."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.evaluation.bags import Bag, words_of

TEXTS = ["The cat sat; the cat ran.", "A dog ran", "Ein Käfer sah den Hund", "x"]


def dense(bag: Bag, texts: list[str]) -> np.ndarray:
    rows = bag.rows(texts)
    table = np.zeros((len(rows), rows.num_columns))
    for row in range(len(rows)):
        at = slice(rows.starts[row], rows.starts[row + 1])
        table[row, rows.columns[at]] = rows.values[at]
    return table


def test_words_are_runs_of_two_signs_or_more() -> None:
    assert words_of("It's 42, a Käfer_x!") == ["it", "42", "käfer_x"]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_scikit_learn_makes_the_same_rows(weighted: bool, pairs: bool) -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    reach = (1, 2) if pairs else (1, 1)
    theirs = (text.TfidfVectorizer if weighted else text.CountVectorizer)(ngram_range=reach)
    expected = theirs.fit_transform(TEXTS).toarray()
    bag = Bag.fit(TEXTS, weighted=weighted, pairs=pairs)
    assert list(bag.vocabulary) == list(theirs.get_feature_names_out())
    np.testing.assert_allclose(dense(bag, TEXTS), expected, atol=1e-12)
    np.testing.assert_allclose(dense(bag, ["cat dog emu"]), theirs.transform(["cat dog emu"]).toarray(), atol=1e-12)


def test_a_word_of_the_second_text_is_another_word() -> None:
    bag = Bag.fit(["cat dog"], ["dog"], weighted=False, pairs=False)
    assert len(bag.vocabulary) == 3
    first, second = bag.rows(["dog"], ["emu"]), bag.rows(["emu"], ["dog"])
    assert first.columns.tolist() != second.columns.tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_found_while_fitting_are_those_of_the_bag(weighted: bool) -> None:
    seconds = ["one cat", "", "dog", "two cats"]
    bag, rows = Bag.with_rows(TEXTS, seconds, weighted=weighted, pairs=True)
    again = bag.rows(TEXTS, seconds)
    assert bag.vocabulary == Bag.fit(TEXTS, seconds, weighted=weighted, pairs=True).vocabulary
    for name in ("starts", "columns", "values"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(again, name))


def test_texts_without_a_word_give_empty_rows() -> None:
    bag, rows = Bag.with_rows(["x", "."], weighted=True, pairs=True)
    assert bag.vocabulary == ()
    assert rows.starts.tolist() == [0, 0, 0]
    assert rows.times(np.zeros((0, 3))).shape == (2, 3)
