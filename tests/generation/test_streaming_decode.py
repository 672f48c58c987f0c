"""Text in pieces: every piece certain, all pieces together the text; half characters and stop strings held back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.tokenizers.word import WordTokenizer
from glassformer.generation.stop_strings import StopStrings
from glassformer.generation.streaming_decode import HELD, PiecesOfText


def decode(ids) -> str:
    """Ids are bytes."""
    return bytes(ids).decode("utf-8", errors="replace")


def pieces_of(text: str, stop: tuple[str, ...] = ()) -> list[str]:
    pieces: list[str] = []
    stream = PiecesOfText(decode, pieces.append, StopStrings(decode, stop))
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
    stream = PiecesOfText(tokenizer.decode, pieces.append, StopStrings(tokenizer.decode, []), tokenizer.settled)
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
    stream = PiecesOfText(words.decode, pieces.append, StopStrings(words.decode, []), words.settled, exact=exact)
    for number, token_id in enumerate(words.encode(given), start=1):
        stream(0, token_id)
        waiting = max(waiting, number - len(words.encode("".join(pieces))))
    stream.finish()
    assert words.decode(words.encode(given)) == text
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    if exact:
        assert "".join(pieces) == text
    else:
        assert waiting <= HELD


def test_several_stop_strings() -> None:
    assert "".join(pieces_of("one\n\ntwo###", ("###", "\n\n"))) == "one"
    assert "".join(pieces_of("aab", ("ab",))) == "a"


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=3), max_size=2))
def test_together_the_pieces_are_the_text_cut_at_the_first_string(text: str, stop: list[str]) -> None:
    whole = "".join(pieces_of(text, tuple(stop)))
    cut = StopStrings(decode, stop).cut(text)
    assert text.startswith(whole)
    assert whole == cut
