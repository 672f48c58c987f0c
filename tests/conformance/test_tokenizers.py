"""Every kind of tokenizer through one suite: whoever adds a kind adds no test here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.data.reading.readers import cut_between_words
from glassformer.data.tokenizers.base import TOKENIZERS, Tokenizer
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.foundation.errors import DataError

TEXTS = [
    "It was a bright cold day, and the clocks weren't striking.\n",
    "Twelve bright clocks: 12 clocks, 1,200 days!\n\nThe cold day was bright.",
    "Zwölf Uhren, 戦場 and \U0001f600.\r\n",
] * 4


def kinds() -> list[str]:
    """The kinds that can be made from text alone (``file`` needs a file)."""
    found = []
    for name in TOKENIZERS.names():
        needed = [key for key, field in TOKENIZERS.get(name).model_fields.items() if field.is_required() and key != "vocab"]
        if not needed:
            found.append(name)
    return found


@pytest.fixture(params=kinds())
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    config = TOKENIZERS.get(request.param)
    needs_size = "vocab" in config.model_fields and config.model_fields["vocab"].is_required()
    return TOKENIZERS.parse({"kind": request.param, **({"vocab": 300} if needs_size else {})}).train(lambda: TEXTS)


def test_ids_are_in_range(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        assert all(0 <= token < tokenizer.size for token in tokenizer.encode_document(text))
    marks = (tokenizer.start_id, tokenizer.stop_id, tokenizer.unknown_id, tokenizer.pad_id)
    assert all(mark is None or 0 <= mark < tokenizer.size for mark in marks)


def test_training_is_a_function_of_the_texts(tokenizer: Tokenizer) -> None:
    config = TOKENIZERS.get(tokenizer.kind)
    needs_size = "vocab" in config.model_fields and config.model_fields["vocab"].is_required()
    again = TOKENIZERS.parse({"kind": tokenizer.kind, **({"vocab": 300} if needs_size else {})}).train(lambda: iter(TEXTS))
    assert again.settings() == tokenizer.settings()


def test_a_saved_one_encodes_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tok.json")
    loaded = load_tokenizer(tmp_path / "tok.json")
    assert loaded.size == tokenizer.size
    assert [loaded.encode_document(text) for text in TEXTS] == [tokenizer.encode_document(text) for text in TEXTS]


def test_a_batch_is_one_after_another(tokenizer: Tokenizer) -> None:
    ids, counts = tokenizer.encode_batch([*TEXTS, ""])
    one_by_one = [tokenizer.encode(text) for text in [*TEXTS, ""]]
    assert ids.tolist() == [token for encoded in one_by_one for token in encoded]
    assert counts.tolist() == [len(encoded) for encoded in one_by_one]


def test_documents_are_texts_with_marks(tokenizer: Tokenizer) -> None:
    before = [] if tokenizer.start_id is None else [tokenizer.start_id]
    after = [] if tokenizer.stop_id is None else [tokenizer.stop_id]
    for text in TEXTS:
        assert tokenizer.encode_document(text) == [*before, *tokenizer.encode(text), *after]


def test_a_long_text_may_come_in_pieces(tokenizer: Tokenizer) -> None:
    """A file larger than memory is read in pieces, cut where ``readers`` cuts: the ids must not depend on it."""
    text = "".join(TEXTS)
    whole = tokenizer.encode(text)
    for end in range(20, len(text), 7):
        cut = cut_between_words(text[:end])
        if cut < end:
            assert tokenizer.encode(text[:cut]) + tokenizer.encode(text[cut:]) == whole


def test_unknown_text_is_no_crash(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("ᚠᛇᚻ \x00 \u200b")
    assert tokenizer.decode(ids) is not None


def test_bytes_add_up_where_nothing_is_lost(tokenizer: Tokenizer) -> None:
    lengths = tokenizer.byte_lengths()
    assert lengths.shape == (tokenizer.size,)
    assert lengths.dtype == np.float64
    for text in TEXTS:
        ids = tokenizer.encode(text)
        if tokenizer.decode(ids) == text and tokenizer.kind != "word":
            assert lengths[ids].sum() == len(text.encode())


def test_an_id_out_of_range_is_a_sentence(tokenizer: Tokenizer) -> None:
    for wrong in (tokenizer.size, -1):
        with refused(DataError, "id-out-of-range"):
            tokenizer.decode([wrong])
        with refused(DataError, "id-out-of-range"):
            tokenizer.token_text(wrong)
