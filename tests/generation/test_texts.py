"""Prompts as text: how they begin, where texts end, pieces as they come, each text from a seed of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.tokenizers.char import CharTokenizerConfig
from glassformer.data.tokenizers.word import WordTokenizer, WordTokenizerConfig
from glassformer.foundation.errors import UsageError
from glassformer.generation.texts import HELD_BACK, StopStrings, StreamedText, generate_texts, prompt_ids

LETTERS = "abcdefghij\n"


@pytest.fixture(scope="module")
def tokenizer():
    return CharTokenizerConfig().train(lambda: iter([LETTERS]))


@pytest.fixture(scope="module")
def network(loud_model, tokenizer):
    return loud_model(tokenizer.size + 3, width=24, heads=3, context=16)  # more rows than tokens, as published models have


def test_an_empty_prompt_begins_like_a_document(tokenizer) -> None:
    assert prompt_ids(tokenizer, "") == tokenizer.encode("\n")
    assert prompt_ids(tokenizer, "cab") == tokenizer.encode("cab")
    words = WordTokenizerConfig(marks=True).train(lambda: iter(["a cat sat", "a cat ran"]))
    assert words.start_id is not None
    assert prompt_ids(words, "") == [words.start_id]
    assert prompt_ids(words, "a cat") == [words.start_id, *words.encode("a cat")]


def test_ids_without_a_token_are_counted_and_not_written(network, tokenizer) -> None:
    samples = generate_texts(network, tokenizer, ["a", "bc"] * 4, seed=3, max_new_tokens=30)
    assert all(sample.tokens == 30 and len(sample.text) <= 30 for sample in samples)
    assert any(len(sample.text) < 30 for sample in samples)  # 3 of 15 rows stand for nothing
    assert set("".join(sample.text for sample in samples)) <= {*LETTERS, "�"}  # and the unknown character


def test_the_same_seed_gives_the_same_texts_and_each_prompt_its_own(network, tokenizer) -> None:
    first, again, other = (generate_texts(network, tokenizer, ["ab", "ab"], seed=seed, max_new_tokens=20) for seed in (3, 3, 4))
    assert first == again
    assert first[0].text != first[1].text  # another row, another seed
    assert first[0].text != other[0].text


def test_pieces_are_the_text(network, tokenizer) -> None:
    pieces: list[str] = []
    (sample,) = generate_texts(network, tokenizer, ["ab"], seed=3, max_new_tokens=20, on_text=pieces.append)
    assert "".join(pieces) == sample.text
    assert len(pieces) > 1


def test_pieces_of_words_are_the_text(loud_model) -> None:
    """Whether a ' opens a quotation is known when another one comes."""
    words, pieces = WordTokenizer(["the", "'", "cat"], marks=False), list[str]()
    network = loud_model(words.size, width=12, heads=2, context=16, seed=4)
    how = {"seed": 1, "max_new_tokens": 30, "temperature": 99.0}
    (sample,) = generate_texts(network, words, ["the"], on_text=pieces.append, exact_pieces=True, **how)
    assert sample.text.count("'") > 2
    assert "".join(pieces) == sample.text
    assert generate_texts(network, words, ["the"], on_text=lambda piece: None, **how) == [sample]


def test_a_stop_string_ends_the_text_and_is_not_part_of_it(network, tokenizer) -> None:
    (whole,) = generate_texts(network, tokenizer, ["ab"], seed=3, max_new_tokens=20)
    stop = whole.text[7:9]
    pieces: list[str] = []
    (cut,) = generate_texts(network, tokenizer, ["ab"], seed=3, max_new_tokens=20, stop=[stop], on_text=pieces.append)
    assert cut.text == whole.text[: whole.text.index(stop)] == "".join(pieces)
    assert cut.tokens < whole.tokens
    assert cut.ended != whole.ended
    assert cut.to_dict() == {"prompt": "ab", "text": cut.text, "tokens": cut.tokens, "ended": cut.ended}


def decode_bytes(ids: Sequence[int]) -> str:
    return bytes(ids).decode("utf-8", errors="replace")


def first_stop(stop: StopStrings, text: str) -> int | None:
    """After how many bytes of ``text`` the stop is seen, when they come one by one."""
    ids = list(text.encode())
    return next((count for count in range(1, len(ids) + 1) if stop(0, ids[:count])), None)


@pytest.mark.parametrize(
    ("strings", "text", "after"),
    [
        (["\n\n"], "one\n\ntwo", 5),
        (["END", "two"], "one two END", 7),
        (["é"], "caf" * 20 + "é!", 62),  # two bytes, seen when both are there
        (["is a long stop string"], "x" * 100 + "this is a long stop string, y", 126),
        (["absent"], "nothing here", None),
        ([], "nothing to stop at", None),
    ],
)
def test_stops_with_the_last_byte_of_the_string(strings, text, after):
    assert first_stop(StopStrings(decode_bytes, strings), text) == after


def test_looks_only_at_the_end():
    lengths = []

    def decode(ids: Sequence[int]) -> str:
        lengths.append(len(ids))
        return decode_bytes(ids)

    StopStrings(decode, ["abc"])(0, list(b"x" * 1000))
    assert lengths == [11]


def test_cuts_before_the_first_string():
    stop = StopStrings(decode_bytes, ["two", "one"])
    assert stop.cut("zero one two") == "zero "
    assert stop.cut("zero") == "zero"


def test_an_empty_string_is_refused():
    with refused(UsageError, "bad-stop"):
        StopStrings(decode_bytes, ["a", ""])


def decode(ids) -> str:
    """Ids are bytes."""
    return bytes(ids).decode("utf-8", errors="replace")


def pieces_of(text: str, stop: tuple[str, ...] = ()) -> list[str]:
    pieces: list[str] = []
    stream = StreamedText(decode, pieces.append, StopStrings(decode, stop))
    ending, ids = StopStrings(decode, stop), []
    for byte in text.encode():
        ids.append(byte)
        stream(0, byte)
        if ending(0, ids):
            break
    stream.finish()
    return pieces


def test_by_hand() -> None:
    assert pieces_of("abc") == ["a", "b", "c"]
    assert pieces_of("aé€b") == ["a", "é", "€", "b"]  # of two and three bytes: never half a character


def test_what_may_become_a_stop_string_is_held_back() -> None:
    assert pieces_of("a<enb", ("<end>",)) == ["a", "<enb"]
    assert pieces_of("a<end>never", ("<end>",)) == ["a"]
    assert pieces_of("a<en", ("<end>",)) == ["a", "<en"]  # handed on when nothing follows


def test_what_later_ids_may_change_is_held_back() -> None:
    tokenizer, pieces = WordTokenizer(["the", "'", "cat", "said"]), list[str]()
    stream = StreamedText(tokenizer.decode, pieces.append, StopStrings(tokenizer.decode, []), tokenizer.stable_length)
    for token_id in tokenizer.encode("the ' cat ' said"):
        stream(0, token_id)
    stream.finish()
    assert pieces == ["the", " 'cat'", " said"]


TEXTS = {
    "the boys ' cat": "the boys' cat",  # no quotation, however long one waits
    "the ' cat ' said": "the 'cat' said",
    f"the ' {'cat ' * 20}' said": f"the '{'cat ' * 19}cat' said",  # the one that closes comes late
    f"the ' . {'cat ' * 20}' said": f"the '. {'cat ' * 19}cat' said",  # with a space more than without it
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("given", "text"), TEXTS.items())
def test_what_later_ids_may_change_waits_for_a_few_of_them(given: str, text: str, exact: bool) -> None:
    """Beyond that it is handed on; of the text only spaces may then be elsewhere."""
    words = WordTokenizer(["the", "'", "cat", "said", "boys", "."])
    pieces, waiting = list[str](), 0
    stream = StreamedText(words.decode, pieces.append, StopStrings(words.decode, []), words.stable_length, exact=exact)
    for number, token_id in enumerate(words.encode(given), start=1):
        stream(0, token_id)
        waiting = max(waiting, number - len(words.encode("".join(pieces))))
    stream.finish()
    assert words.decode(words.encode(given)) == text
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    if exact:
        assert "".join(pieces) == text
    else:
        assert waiting <= HELD_BACK


def test_several_stop_strings() -> None:
    assert "".join(pieces_of("one\n\ntwo###", ("###", "\n\n"))) == "one"
    assert "".join(pieces_of("aab", ("ab",))) == "a"


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=3), max_size=2))
def test_together_the_pieces_are_the_text_cut_at_the_first_string(text: str, stop: list[str]) -> None:
    whole = "".join(pieces_of(text, tuple(stop)))
    cut = StopStrings(decode, stop).cut(text)
    assert text.startswith(whole)
    assert whole == cut
