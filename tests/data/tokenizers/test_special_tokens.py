"""Special tokens after all ids: for every kind, saved and loaded, never made from text."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.data.tokenizers.special_tokens import MarkedTokenizer
from glassformer.foundation.errors import DataError

TEXT = "the lower the river, the slower the rower <mask>\n"
KINDS = sorted(set(TOKENIZERS.names()) - {"file", "two"})


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    def test_marks_come_after_all_ids_and_text_is_encoded_as_before(self, kind, tmp_path):
        plain = TOKENIZERS.parse(kind).train(lambda: [TEXT] * 4)
        marked = plain.with_marks(["<mask>", "<end>"])
        assert marked.size == plain.size + 2
        assert [marked.mark_id("<mask>"), marked.mark_id("<end>")] == [plain.size, plain.size + 1]
        assert marked.encode(TEXT) == plain.encode(TEXT)  # a text that spells a mark does not make one
        for one, other in zip(marked.encode_batch([TEXT, "river"]), plain.encode_batch([TEXT, "river"])):
            np.testing.assert_array_equal(one, other)
        assert marked.encode_document(TEXT) == plain.encode_document(TEXT)
        assert (marked.start_id, marked.stop_id, marked.unknown_id) == (plain.start_id, plain.stop_id, plain.unknown_id)
        assert len(marked.byte_lengths()) == marked.size
        assert marked.byte_lengths()[-2:].tolist() == [0, 0]

    def test_it_comes_back_from_its_file(self, kind, tmp_path):
        marked = TOKENIZERS.parse(kind).train(lambda: [TEXT] * 4).with_marks(["<mask>", "<end>"])
        marked.save(tmp_path / "tokenizer.json")
        again = load_tokenizer(tmp_path)
        assert (again.size, again.settings(), again.marks) == (marked.size, marked.settings(), ("<mask>", "<end>"))
        ids = [*marked.encode("the river"), marked.mark_id("<mask>"), *marked.encode("lower")]
        assert again.decode(ids) == marked.decode(ids)
        assert "<mask>" in again.decode(ids)


def test_marks_it_has_already_keep_their_ids():
    plain = TOKENIZERS.parse("char").train(lambda: ["abc"])
    assert plain.with_marks([]) is plain
    marked = plain.with_marks(["<a>", "<b>"])
    assert marked.with_marks(["<b>"]) is marked
    more = marked.with_marks(["<b>", "<c>"])
    assert isinstance(more, MarkedTokenizer)
    assert more.marks == ("<a>", "<b>", "<c>")
    assert more.mark_id("<b>") == marked.mark_id("<b>")
    assert more.decode([1, more.mark_id("<c>"), 2]) == "a<c>b"


def test_marks_that_are_ids_of_the_text_itself(tmp_path):
    """As of a published model: nothing is added, and what is added later comes after all ids."""
    plain = TOKENIZERS.parse("char").train(lambda: ["abc"])
    own = MarkedTokenizer(plain, (), own_marks={"<start>": 2, "<end>": 1}, prefix=[3])
    assert own.size == plain.size
    assert (own.mark_id("<start>"), own.mark_id("<end>"), own.prefix) == (2, 1, (3,))
    assert own.with_marks(["<end>"]) is own
    more = own.with_marks(["<end>", "<mask>"])
    assert (more.mark_id("<end>"), more.mark_id("<mask>"), more.prefix) == (1, plain.size, (3,))
    more.save(tmp_path / "tok.json")
    again = load_tokenizer(tmp_path / "tok.json")
    assert (again.own_marks, again.marks, again.prefix) == (own.own_marks, ("<mask>",), (3,))
    with refused(DataError, "id-out-of-range"):
        MarkedTokenizer.from_settings({**own.settings(), "prefix": [99]})


def test_what_cannot_be_is_a_sentence(tmp_path):
    plain = TOKENIZERS.parse("char").train(lambda: ["abc"])
    with refused(DataError, "no-mark", "'<mask>'"):
        plain.mark_id("<mask>")
    with refused(DataError, "bad-marks"):
        MarkedTokenizer(plain, ["<a>", "<a>"])
    file = tmp_path / "tok.json"
    for settings, rule in (
        ({"kind": "char", "settings": {"characters": "ab"}}, "need 'marks'"),
        ({"marks": ["x"]}, "cannot be made"),
    ):
        file.write_text(json.dumps({"glassformer_tokenizer": "marked", "schema": 1, "settings": settings}))
        with refused(DataError, "bad-settings", rule):
            load_tokenizer(file)
