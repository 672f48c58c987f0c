"""Texts to classify: given as strings or in files, with and without labels, single or in pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import UNLABELLED, Labels
from glassformer.data.labels.texts_to_classify import texts_given, texts_to_ask, unlabelled_texts
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.foundation.errors import DataError, UsageError


def test_texts_to_ask_about() -> None:
    texts = unlabelled_texts("asked", ["a film"], ["bad", "good"])
    assert texts.labels.tolist() == [UNLABELLED]
    with refused(DataError, "empty-text"):
        unlabelled_texts("asked", [" "], ["bad", "good"])


def test_a_run_of_pairs_says_what_takes_a_pair(tmp_path: Path) -> None:
    """Looks, single texts of an evaluation and the page give one text; what is said must be there to do."""
    (tmp_path / "p.tsv").write_text("label\ttext\tother\n" + "good\ta\tb\nbad\tc\td\n" * 9, encoding="utf-8")
    record = Labels(DataConfig(path=str(tmp_path / "p.tsv"), pair_column="other")).record
    tokenizer = TOKENIZERS.parse("char").train(lambda: ["abcd"])
    assert texts_given(tokenizer, "a", pairs=["b"], record=record).pairs == ("b",)
    with refused(UsageError, "pair-missing", "--pair", "--data"):
        texts_given(tokenizer, "a", record=record)
    with refused(UsageError, "pair-not-read", "--pair"):
        texts_given(tokenizer, "a", pairs=["b"], record={**record, "reading": {"pair_column": None}})


def test_texts_and_their_pairs_given_in_python(tmp_path: Path) -> None:
    record = {"labels": {"a": "a", "b": "b"}, "reading": {"pair_column": "second"}}
    tokenizer = TOKENIZERS.parse("byte").train(lambda: iter(["a"]))
    one = texts_given(tokenizer, "first", pairs="second", record=record)
    assert (one.texts, one.pairs) == (("first",), ("second",))
    with refused(UsageError, "pair-missing", "2", "1"):
        texts_given(tokenizer, ["first", "other"], pairs=["second"], record=record)
    with refused(UsageError, "not-text", "5"):
        texts_given(tokenizer, [5], pairs=["second"], record=record)  # type: ignore[list-item]


def test_a_file_to_ask_about_is_read_with_its_labels_where_every_line_has_one(tmp_path: Path) -> None:
    train = "".join(f"{['bad', 'good', 'so'][n % 3]} text number {n}\n" for n in range(23))
    (tmp_path / "train.txt").write_text(train, encoding="utf-8")
    data = DataConfig(path=str(tmp_path / "train.txt"), format="label-text")
    record = Labels(data).record
    tokenizer = TOKENIZERS.parse("byte").train(lambda: iter(["a"]))
    asked = tmp_path / "asked.txt"
    asked.write_text("good text\nso what\n", encoding="utf-8")
    found = texts_to_ask(tokenizer, asked, data, record=record)
    assert (found.texts, found.answers) == (("text", "what"), ["good", "so"])
    asked.write_text("good text\nno label\n", encoding="utf-8")
    plain = texts_to_ask(tokenizer, asked, data, record=record)
    assert (plain.texts, plain.answers) == (("good text", "no label"), None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.jsonl", '{"text": "a", "pair": "b"}\n'),
        ("q.jsonl", '{"question": "a", "passage": "b"}\n'),
        ("q.csv", "question,passage,label\na,b,good\n"),
        ("q.csv", "text,pair,label\na,b,good\n"),
        ("q.tsv", "question\tpassage\na\tb\n"),
    ],
)
def test_pairs_to_ask_about_in_a_file_of_another_kind(tmp_path: Path, name: str, text: str) -> None:
    train = tmp_path / "p.tsv"
    train.write_text("label\tquestion\tpassage\n" + "good\ta\tb\nbad\tc\td\n" * 9, encoding="utf-8")
    data = DataConfig(path=str(train), text_column="question", pair_column="passage")
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = texts_to_ask(TOKENIZERS.parse("byte").train(lambda: iter(["a"])), tmp_path / name, data, record=Labels(data).record)
    assert (found.texts, found.pairs) == (("a",), ("b",))


def test_an_empty_line_between_texts_is_refused_since_answers_are_matched_by_line(tmp_path: Path) -> None:
    record = {"labels": {"a": "a", "b": "b"}, "reading": {"pair_column": None}}
    tokenizer = TOKENIZERS.parse("byte").train(lambda: iter(["a"]))
    asked, data = tmp_path / "asked.txt", DataConfig(path="unread.csv")
    asked.write_text("first\nsecond\n\n", encoding="utf-8")  # at the end nothing is moved
    assert texts_to_ask(tokenizer, asked, data, record=record).texts == ("first", "second")
    for text, line in (("first\n\nsecond\n", 2), ("\nfirst\n", 1)):
        asked.write_text(text, encoding="utf-8")
        with refused(DataError, "empty-line", str(line)):
            texts_to_ask(tokenizer, asked, data, record=record)
