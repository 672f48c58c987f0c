"""The bpe tokenizer: the ids are the readable ones and those of Hugging Face; nothing is lost; mistakes are sentences."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.tokenizers import bpe
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.bpe import BPETokenizer, from_document, show_bytes, to_document
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.foundation.errors import ConfigError, DataError

CORPUS = (
    "the lower the river, the slower the rower rows; it's 1999 and they'll row, row, row!\n"
    "  naïve café — Größe, 漢字かな交じり文 and 🙂🙂 emoji\n\n\tdef rows(river):\n\t\treturn [row for row in river]\n"
) * 3
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text("therow lsi'\n é漢🙂<|endoftext|>", max_size=40)


def trained(**settings: object) -> BPETokenizer:
    return TOKENIZERS.parse({"kind": "bpe", "vocab": 340, **settings}).train(lambda: CORPUS.splitlines(keepends=True))


BYTE, CHAR = trained(), trained(level="char")


def random_texts(count: int) -> list[str]:
    """Strings over all of Unicode: any code point, one script, only spaces and signs, or pieces of the corpus."""
    rng = random.Random(5)
    code = {
        "any": lambda: rng.randrange(0x110000),
        "script": lambda: rng.choice((0x61, 0x3B1, 0x4E00, 0x1F600, 0x300, 0x660)) + rng.randrange(26),
        "spaces": lambda: ord(rng.choice(" \n\t\x1c\xa0\u2028\u3000.!'s9")),
        "corpus": lambda: ord(rng.choice(CORPUS)),
    }
    texts = []
    for number in range(count):
        draw = code[("any", "script", "spaces", "corpus")[number % 4]]
        codes = [draw() for _ in range(rng.randrange(30))]
        texts.append("".join(chr(point) for point in codes if not 0xD800 <= point < 0xE000))
    return texts


class TestIds:
    @given(TEXT)
    @settings(deadline=None)
    def test_library_and_readable_encoding_agree(self, text: str) -> None:
        for tokenizer in (BYTE, CHAR):
            assert tokenizer.encode(text) == tokenizer.pairs.encode(text) == tokenizer.encode_by_library([text])[0]

    def test_batches_are_single_texts_joined(self) -> None:
        texts = ["the river", "", " rows", "the <|endoftext|> row"]
        ids, counts = BYTE.encode_batch(texts)
        assert counts.tolist() == [len(BYTE.encode(text)) for text in texts]
        assert ids.tolist() == [token for text in texts for token in BYTE.encode(text)]
        assert BYTE.encode_document("the")[-1] == BYTE.stop_id

    def test_no_texts_give_no_ids(self) -> None:
        ids, counts = BYTE.encode_batch([])
        assert (ids.size, counts.size) == (0, 0)

    def test_what_is_remembered_is_bounded_and_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tokenizer = trained()
        first = tokenizer.encode("the river rows")
        monkeypatch.setattr(bpe, "_CACHED_CHARACTERS", 5)
        assert tokenizer.encode("they row") == BYTE.encode("they row")
        assert tokenizer._known.keys() == {"they", " row"}
        assert tokenizer.encode("the river rows") == first

    def test_a_special_token_may_be_a_symbol(self) -> None:
        tokenizer = trained(special=["!", "<s>"])
        assert tokenizer.encode("row!")[-1] == 0
        assert tokenizer.decode(tokenizer.encode("row, row!")) == "row, row!"

    def test_a_special_token_with_a_space_is_found(self) -> None:
        tokenizer = trained(special=["<end of text>"])
        assert tokenizer.encode("row<end of text>row")[1:-1] == [0]


@pytest.fixture(scope="module")
def hugging_face() -> type:
    return pytest.importorskip("transformers").PreTrainedTokenizerFast


class TestHuggingFaceLoader:
    @pytest.mark.parametrize("tokenizer", [BYTE, CHAR], ids=["byte", "char"])
    def test_two_thousand_random_strings(self, tokenizer: BPETokenizer, hugging_face: type, tmp_path: Path) -> None:
        tokenizer.save(tmp_path / "tokenizer.json")
        theirs = hugging_face(tokenizer_file=str(tmp_path / "tokenizer.json"))
        texts = random_texts(2_000)
        ours = load_tokenizer(tmp_path / "tokenizer.json")
        expected = theirs(texts)["input_ids"]
        assert [ours.encode(text) for text in texts] == expected
        assert [tokenizer.pairs.encode(text) for text in texts] == expected

    @pytest.mark.slow
    @pytest.mark.realdata
    def test_all_of_wikitext_validation(self, hugging_face: type, tmp_path: Path, real_data: Path) -> None:
        lines = (real_data / "wikitext-2" / "valid.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        tokenizer = TOKENIZERS.parse({"kind": "bpe", "vocab": 4096}).train(lambda: lines)
        tokenizer.save(tmp_path / "tokenizer.json")
        theirs = hugging_face(tokenizer_file=str(tmp_path / "tokenizer.json"))
        ours = load_tokenizer(tmp_path / "tokenizer.json")
        assert isinstance(ours, BPETokenizer)
        text = "".join(lines)
        expected = theirs(text)["input_ids"]
        assert ours.encode(text) == expected
        assert ours.decode(expected) == text
        by_line = theirs(lines)["input_ids"]
        assert [ours.encode(line) for line in lines] == by_line
        assert [ours.pairs.encode(line) for line in lines[::10]] == by_line[::10]


class TestNothingIsLost:
    @given(TEXT)
    @settings(deadline=None)
    def test_every_text_comes_back(self, text: str) -> None:
        assert BYTE.decode(BYTE.encode(text)) == text

    @given(TEXT.filter(lambda text: "<|endoftext|>" not in text))
    @settings(deadline=None)
    def test_byte_lengths_add_up(self, text: str) -> None:
        assert BYTE.byte_lengths()[BYTE.encode(text)].sum() == len(text.encode())

    def test_half_a_character_is_shown_as_the_replacement_sign(self) -> None:
        ids = BYTE.encode("é")
        single = [BYTE.pairs.ids[sign] for sign in "Ã©"]
        assert BYTE.decode([*ids, single[0]]) == "é\ufffd"
        assert BYTE.decode_bytes([single[0]]) == b"\xc3"

    def test_words_come_back_at_char_level_with_single_spaces(self) -> None:
        assert CHAR.decode(CHAR.encode("the  slower\nriver rows")) == "the slower river rows"
        assert CHAR.decode(CHAR.encode("the Ω")) == "the <unk>"


class TestFacts:
    def test_marks(self) -> None:
        assert (BYTE.stop_id, BYTE.start_id, BYTE.unknown_id, BYTE.pad_id) == (0, None, None, None)
        assert (CHAR.unknown_id, CHAR.stop_id) == (0, 1)
        special = trained(special=["<pad>", "</s>", "<s>", "<other>"])
        assert (special.pad_id, special.stop_id, special.start_id) == (0, 1, 2)

    def test_byte_lengths_of_marks(self) -> None:
        assert BYTE.byte_lengths()[0] == 0
        lengths = CHAR.byte_lengths()
        assert np.isnan(lengths[0])
        assert lengths[1] == 0
        assert lengths[CHAR.pairs.ids["é</w>"]] == 3  # two bytes and the space that follows a word

    def test_tokens_are_shown_to_people(self) -> None:
        assert BYTE.token_text(BYTE.encode(" the")[0]) == " the"
        assert show_bytes(b"a\xc3\xa9\xc3\n") == "aé<0xC3><0x0A>"

    def test_equal_files_make_equal_tokenizers(self, tmp_path: Path) -> None:
        BYTE.save(tmp_path / "a.json")
        again = load_tokenizer(tmp_path / "a.json")
        assert isinstance(again, BPETokenizer)
        assert again.pairs == BYTE.pairs
        assert again.settings() == BYTE.settings()
        assert BPETokenizer.from_settings(BYTE.settings()).pairs == BYTE.pairs
        again.save(tmp_path / "b.json")
        assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


class TestForeignDocuments:
    """``from_document`` takes a file for ours only when our rules give the library's ids."""

    def test_ours_and_older_spellings_are_read(self) -> None:
        document = to_document(BYTE.pairs)
        older = document | {"model": document["model"] | {"merges": [" ".join(merge) for merge in document["model"]["merges"]]}}
        older["model"] |= {"end_of_word_suffix": "", "continuing_subword_prefix": ""}  # as GPT-2's file has them
        assert from_document(older) == BYTE.pairs

    @pytest.mark.parametrize(
        "change",
        [
            {"normalizer": {"type": "NFC"}},
            {"pre_tokenizer": {"type": "Whitespace"}},
            {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}},
            {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}},
            {"pre_tokenizer": None},
            {"model": {"type": "WordPiece", "vocab": {"a": 0}}},
            {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}},
            {"model": to_document(BYTE.pairs)["model"] | {"byte_fallback": True}},
            {"model": to_document(BYTE.pairs)["model"] | {"merges": [["a", "zzz"]]}},
            {"added_tokens": [{"id": 0, "content": "<|endoftext|>", "lstrip": True}]},
            {"added_tokens": [{"id": 999, "content": "<late>"}]},
        ],
    )
    def test_other_rules_are_not_ours(self, change: dict[str, object]) -> None:
        assert from_document(to_document(BYTE.pairs) | change) is None

    def test_settings_without_a_document_of_ours_are_a_sentence(self) -> None:
        with refused(DataError, "bad-settings", "'document'"):
            BPETokenizer.from_settings({"document": {"model": {}}})


class TestMistakes:
    def test_an_id_out_of_range(self) -> None:
        with refused(DataError, "id-out-of-range", "340", "0", "339"):
            BYTE.decode([0, 340])
        with refused(DataError, "id-out-of-range", "1"):
            BYTE.decode([-1])

    @pytest.mark.parametrize("vocab", [1, 256])
    def test_a_vocabulary_below_the_alphabet(self, vocab: int) -> None:
        with pytest.raises(
            ConfigError, match=f"vocab={vocab} is smaller than the base alphabet: 256 bytes .* use vocab 257 or more"
        ):
            TOKENIZERS.parse({"kind": "bpe", "vocab": vocab})

    @pytest.mark.parametrize("special", [["<s>", "<s>"], [""], [" "]])
    def test_special_tokens_that_are_none(self, special: list[str]) -> None:
        with refused(ConfigError, "bad-value", "special="):
            TOKENIZERS.parse({"kind": "bpe", "special": special})

    def test_no_text(self) -> None:
        with refused(DataError, "nothing-to-learn"):
            TOKENIZERS.parse("bpe").train(lambda: [])

    def test_half_a_character(self) -> None:
        with refused(DataError, "half-a-character"):
            BYTE.encode("a \ud800")
