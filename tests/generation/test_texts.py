"""Prompts as text: how they begin, where texts end, pieces as they come, each text from a seed of its own."""

from __future__ import annotations

import pytest

from glassformer.data.tokenizers.char import CharTokenizerConfig
from glassformer.data.tokenizers.word import WordTokenizer, WordTokenizerConfig
from glassformer.generation.texts import generate_texts, prompt_ids

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
