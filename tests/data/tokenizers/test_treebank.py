"""Cutting text in Treebank manner, case by case, and putting it together again."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.tokenizers.treebank import cut_run, running_text, words_of

CASES = {
    "They don't.": "They do n't .",
    "It's John's, isn't it?": "It 's John 's , is n't it ?",
    "I'm sure we'll see they've gone; he'd know you're late.": "I 'm sure we 'll see they 've gone ; he 'd know you 're late .",
    "DON’T shouldn't've": "DO N’T should n't 've",
    "cannot gonna Gotta 'tis": "can not gon na Got ta 't is",
    "the nations' flags": "the nations ' flags",
    '"Good," he said (twice).': '" Good , " he said ( twice ) .',
    "“Good”": "“ Good ”",
    "Mr. Smith vs. Dr. Who, etc.": "Mr. Smith vs. Dr. Who , etc.",
    "the U.S. Army, e.g. at 5 p.m.": "the U.S. Army , e.g. at 5 p.m.",
    "J. R. R. Tolkien is older than I.": "J. R. R. Tolkien is older than I .",
    "$79.50 or 1,000 at 10:30, 50%!": "$ 79.50 or 1,000 at 10:30 , 50 % !",
    "a 4-year-old's well-known F-16 in 1939-45": "a 4-year-old 's well-known F-16 in 1939-45",
    "-5 and +3 and .5": "-5 and +3 and .5",
    "lives--and so... well…": "lives -- and so ... well …",
    "word,word a/b": "word , word a/b",
    "O'Brien's rock'n'roll": "O'Brien 's rock'n'roll",
    "AT&T #1 50€": "AT & T # 1 50 €",
    "role @-@ playing <unk> 4 @,@ 000 ( 1 @.@ 5 )": "role @-@ playing <unk> 4 @,@ 000 ( 1 @.@ 5 )",
    "May 'n 's n't": "May ' n 's n't",
    "戦場のヴァルキュリア3": "戦場のヴァルキュリア3",
    "naïve café": "naïve café",
}


@pytest.mark.parametrize("text", CASES)
def test_is_cut_as_on_paper(text: str) -> None:
    assert " ".join(words_of(text)) == CASES[text]


@pytest.mark.parametrize(
    "text",
    [
        "They don't, and I'm sure it isn't John's.",
        '"Good," he said (twice), "very good!"',
        "the nations' flags",
        "'So it is,' she said.",
        "He's gonna pay $5 [at most], 50% off.",
        "“Good” and then...",
        "¿Qué? ¡No!",
    ],
)
def test_running_text_is_what_it_was(text: str) -> None:
    assert running_text(words_of(text)) == text


@given(st.text(max_size=60))
def test_only_white_space_is_lost(text: str) -> None:
    assert "".join(words_of(text)) == "".join(text.split())


@given(st.text(st.sampled_from("ab.'’,-1 \n\"UI"), max_size=40))
def test_no_word_is_empty(text: str) -> None:
    for word in words_of(text):
        assert word
        assert "".join(cut_run(word)) == word


@given(st.text(st.sampled_from("ab.'’,-1 \n\"UI"), max_size=40), st.text(st.sampled_from("ab.'’,-1 \n\"UI"), max_size=40))
def test_a_text_may_be_cut_at_any_space(left: str, right: str) -> None:
    assert words_of(left + " " + right) == words_of(left) + words_of(right)


@pytest.mark.parametrize("run", ["a.", "1,", "'", "A.-", "1-a", "n't", "'s", "--1", "U.S.", "@-@", "A.)"])
def test_hostile_runs_take_no_longer_per_character(run: str) -> None:
    begin = time.process_time()
    cut_run(run * 40_000)
    assert time.process_time() - begin < 60  # of the processor; work that grows with the square would take minutes
