"""Byte-pair encoding: a case on paper, the slow reference, and the tokenizers library as a judge of every list of merges."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from glassformer.data.tokenizers.bpe_training import BytePairs, Step, train
from glassformer.data.tokenizers.pretokenization import LEVELS, Level, count_words
from glassformer.foundation.errors import ConfigError, DataError

BYTE, CHAR = LEVELS["byte"], LEVELS["char"]
# Few letters and long words: ties, overlaps (aaaa) and merges of merges in every example.
CROWDED = st.lists(
    st.text("aab", min_size=1, max_size=12) | st.text("abcdefg", min_size=1, max_size=7), min_size=1, max_size=25
)


def spelled_merges(pairs: BytePairs) -> list[list[str]]:
    return [[pairs.tokens[left], pairs.tokens[right]] for left, right, _ in pairs.merges]


def merges_of_library(texts: list[str], level: Level, *, vocab: int, min_count: int = 1, special: list[str]) -> list[list[str]]:
    """What the library's trainer learns. At char level the marked letters are given to it as special tokens: it would number
    them in the order of a hash, and so break ties differently in every process."""
    judge = Tokenizer(models.BPE())
    judge.pre_tokenizer = {"byte": pre_tokenizers.ByteLevel(add_prefix_space=False), "char": pre_tokenizers.WhitespaceSplit()}[
        level.name
    ]
    base = [*special, *level.alphabet(count_words(texts, level))]
    suffix = {} if level.end is None else {"end_of_word_suffix": level.end}
    trainer = trainers.BpeTrainer(vocab_size=vocab, min_frequency=min_count, special_tokens=base, show_progress=False, **suffix)
    judge.train_from_iterator(texts, trainer)
    return json.loads(judge.to_str())["model"]["merges"]


def test_the_textbook_case_by_hand() -> None:
    """low 5, lower 2, newest 6, widest 3. Ids: d e i l n o r s t w, then r</w> t</w> w</w>, so e comes before l before n."""
    pairs = train({"low": 5, "lower": 2, "newest": 6, "widest": 3}, CHAR, vocab=21)
    assert pairs.tokens[:13] == (*"deilnorstw", "r</w>", "t</w>", "w</w>")
    assert spelled_merges(pairs) == [
        ["e", "s"],  # 9, as is s + t</w>; e is lower
        ["es", "t</w>"],  # 9
        ["l", "o"],  # 7
        ["e", "w"],  # 6, as are n + e and w + est</w>
        ["n", "ew"],  # 6
        ["new", "est</w>"],  # 6
        ["lo", "w</w>"],  # 5
        ["d", "est</w>"],  # 3, as are i + d and w + i
    ]


def test_ids_are_special_tokens_then_the_alphabet_then_merges() -> None:
    pairs = train({" the": 3, "a": 1}, BYTE, vocab=260, special=["<a>", "<b>"])
    assert pairs.tokens[:3] == ("<a>", "<b>", "!")
    assert pairs.ids["Ġ"] == 2 + sorted(BYTE.alphabet(())).index("Ġ")
    assert [merged for _, _, merged in pairs.merges] == [258, 259]


@pytest.mark.parametrize(("word", "expected"), [("aaa", ["aa", "a"]), ("aaaa", ["aa", "aa"]), ("aaaaa", ["aa", "aa", "a"])])
def test_overlapping_pairs_are_merged_from_the_left(word: str, expected: list[str]) -> None:
    pairs = train({word: 1}, BYTE, vocab=257)
    assert [pairs.tokens[token] for token in pairs.encode(word)] == expected


@pytest.mark.parametrize("level", [BYTE, CHAR], ids=["byte", "char"])
@given(words=CROWDED, more=st.integers(1, 40), min_count=st.integers(1, 3))
@settings(deadline=None)
def test_merges_are_those_of_the_library(level: Level, words: list[str], more: int, min_count: int) -> None:
    texts = [" ".join(words), " ".join(words[::2])]
    counted = count_words(texts, level)
    vocab = 1 + len(level.alphabet(counted)) + more
    ours = train(counted, level, vocab=vocab, min_count=min_count, special=["<s>"])
    assert spelled_merges(ours) == merges_of_library(texts, level, vocab=vocab, min_count=min_count, special=["<s>"])


def test_a_merge_that_spells_a_token_there_is_gets_its_id() -> None:
    texts = ["abc", "abc", "abc", "ab"]
    pairs = train(Counter(texts), BYTE, vocab=258, special=["ab"])
    assert [merged for _, _, merged in pairs.merges] == [0, 257]
    assert spelled_merges(pairs) == merges_of_library(texts, BYTE, vocab=258, special=["ab"])


def test_a_symbol_may_be_a_special_token() -> None:
    pairs = train({"ab": 2}, BYTE, vocab=257, special=["a"])
    assert (pairs.tokens[0], len(set(pairs.tokens))) == ("a", 257)
    assert spelled_merges(pairs) == merges_of_library(["ab", "ab"], BYTE, vocab=257, special=["a"]) == [["a", "b"]]


def merges_by_definition(words: dict[str, int], vocab: int) -> list[list[str]]:
    """Counts every pair anew before each merge."""
    ids = {sign: number for number, sign in enumerate(BYTE.alphabet(()))}
    split = {word: BYTE.symbols(word) for word in words}
    merges = []
    while len(ids) < vocab:
        total = Counter[tuple[str, str]]()
        for word, tokens in split.items():
            for pair in pairwise(tokens):
                total[pair] += words[word]
        if not total:
            break
        left, right = min(total, key=lambda pair: (-total[pair], ids[pair[0]], ids[pair[1]]))
        merges.append([left, right])
        ids.setdefault(left + right, len(ids))
        for tokens in split.values():
            place = 0
            while place < len(tokens) - 1:
                if (tokens[place], tokens[place + 1]) == (left, right):
                    tokens[place : place + 2] = [left + right]
                place += 1
    return merges


@given(words=st.dictionaries(st.text("aab", min_size=1, max_size=12), st.integers(1, 9), min_size=1, max_size=12))
@settings(deadline=None)
def test_counts_kept_up_to_date_are_counts_made_anew(words: dict[str, int]) -> None:
    assert spelled_merges(train(words, BYTE, vocab=290)) == merges_by_definition(words, 290)


@given(words=CROWDED, text=st.text("abcdefg \n", max_size=40))
@settings(deadline=None)
def test_encoding_is_replaying_the_merges(words: list[str], text: str) -> None:
    pairs = train(Counter(words), BYTE, vocab=300)
    for word in BYTE.words(text):
        spelled = pairs.spell(word)
        merged = pairs.merge(spelled)
        assert merged == pairs.replay(spelled)
        steps = pairs.steps(spelled)
        assert (tuple(map(ord, merged)) if not steps else steps[-1].word) == tuple(map(ord, merged))
        assert [step.rank for step in steps] == sorted(step.rank for step in steps)


def test_steps_of_a_word_by_hand() -> None:
    pairs = train({"abab": 2, "abc": 1}, BYTE, vocab=258)  # a+b 5 times, then ab+ab twice
    a, b, ab, abab = pairs.ids["a"], pairs.ids["b"], 256, 257
    assert pairs.steps(pairs.spell("abab")) == [Step(0, 0, (ab, a, b)), Step(0, 1, (ab, ab)), Step(1, 0, (abab,))]


def test_special_tokens_in_a_text_are_found_longest_first() -> None:
    pairs = train({"ab": 2}, BYTE, vocab=259, special=["<s>", "<s>x"])
    assert pairs.encode("<s>xab<s>") == [1, 258, 0]


def test_unknown_characters_become_the_unknown_token() -> None:
    pairs = train({"ab": 2}, CHAR, vocab=5, special=["<unk>"], unknown="<unk>")
    assert [pairs.tokens[token] for token in pairs.encode("ab aΩ b")] == ["ab</w>", "a", "<unk>", "b</w>"]


@pytest.mark.parametrize("words", [{}, {"a": 0}])
def test_an_empty_corpus_is_a_sentence(words: dict[str, int]) -> None:
    with refused(DataError, "nothing-to-learn"):
        train(words, BYTE, vocab=300)


def test_a_vocabulary_below_the_alphabet_is_a_sentence_with_the_remedy() -> None:
    with refused(ConfigError, "vocab-too-small", "256", "1", "257"):
        train({"a": 1}, BYTE, vocab=256, special=["<s>"])
    with refused(ConfigError, "vocab-too-small", "3", "4"):
        train({"abc": 1}, CHAR, vocab=3)


def test_training_ends_when_no_pair_occurs_often_enough() -> None:
    pairs = train({"ab": 3, "cd": 1}, BYTE, vocab=1000, min_count=2)
    assert spelled_merges(pairs) == [["a", "b"]]


def test_progress_ends_at_the_vocabulary() -> None:
    told: list[tuple[int, int]] = []
    train(
        {f"{a}{b}": 2 for a in "abcdefghijklm" for b in "nopqrstuvwxyz"},
        BYTE,
        vocab=400,
        progress=lambda *now: told.append(now),
    )
    assert told == [(356, 400), (400, 400)]


@pytest.mark.slow
@pytest.mark.realdata
def test_merges_of_wikitext_are_those_of_the_library(real_data: Path) -> None:
    lines = (real_data / "wikitext-2" / "train.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    ours = train(count_words(lines, BYTE), BYTE, vocab=8192)
    assert len(ours.merges) == 7936
    assert spelled_merges(ours) == merges_of_library(lines, BYTE, vocab=8192, special=[])
