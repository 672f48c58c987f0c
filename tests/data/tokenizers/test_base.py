"""The interface's own parts: marks around documents, batches without them, the slot and its kinds."""

from __future__ import annotations

import numpy as np
from tests.refusals import refused

from glassformer.data.tokenizers.base import TOKENIZERS, Tokenizer
from glassformer.data.tokenizers.char import CharTokenizer
from glassformer.data.tokenizers.word import WordTokenizer
from glassformer.foundation.errors import UnknownName


def test_a_batch_is_the_documents_without_their_marks() -> None:
    tokenizer = WordTokenizer(["a", "b"])
    plain = Tokenizer.encode_batch(tokenizer, ["a b", "", "b"])  # the slow way that every kind has
    fast = tokenizer.encode_batch(["a b", "", "b"])
    for slow_part, fast_part in zip(plain, fast):
        np.testing.assert_array_equal(slow_part, fast_part)
    empty, counts = Tokenizer.encode_batch(tokenizer, [])
    assert (len(empty), len(counts)) == (0, 0)


def test_documents_have_marks_where_the_kind_has_them() -> None:
    assert [WordTokenizer(["a"]).encode_document(text) for text in ("a", "")] == [[2, 4, 3], [2, 3]]
    assert CharTokenizer("ab").encode_document("ab") == [1, 2]


def test_the_slot_knows_the_kinds() -> None:
    assert {"byte", "char", "word"} <= set(TOKENIZERS.names())
    with refused(UnknownName, "unknown-name", "'char'"):
        TOKENIZERS.parse("chars")
