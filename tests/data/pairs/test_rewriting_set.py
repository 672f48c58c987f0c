"""The generated pairs: values worked out by hand, disjoint splits, the same files for the same settings."""

from __future__ import annotations

import datetime

import pytest
from tests.refusals import refused

from glassformer.data.config import DataConfig
from glassformer.data.pairs.rewriting_set import MONTHS, number_in_words
from glassformer.data.pairs.text_pairs import PairsPart
from glassformer.foundation.errors import ConfigError

NUMBERS = {
    0: "zero",
    7: "seven",
    13: "thirteen",
    20: "twenty",
    105: "one hundred five",
    342: "three hundred forty two",
    4217: "four thousand two hundred seventeen",
    1_000_000: "one million",
    90_001_010: "ninety million one thousand ten",
}


@pytest.mark.parametrize(("number", "words"), NUMBERS.items())
def test_numbers_in_words(number: int, words: str) -> None:
    assert number_in_words(number) == words


@pytest.mark.parametrize("task", ["numbers", "dates", "reverse", "sort", "copy"])
def test_every_task_follows_its_rule_and_no_source_is_in_two_splits(task: str) -> None:
    part = PairsPart(DataConfig.parse({"set": {"kind": "rewriting", "task": task, "pairs": 60, "held_out": 20, "length": 5}}))
    splits = {name: part.split(name) for name in ("train", "validation", "test")}
    assert [len(split) for split in splits.values()] == [60, 20, 20]
    sources = [source for split in splits.values() for source in split.sources]
    assert len(set(sources)) == len(sources)
    for split in splits.values():
        for source, target in zip(split.sources, split.targets or ()):
            assert target == expected(task, source)


def expected(task: str, source: str) -> str:
    if task == "numbers":
        return number_in_words(int(source))
    if task == "dates":
        return date_of(source).isoformat()
    letters = source.split()
    return " ".join({"reverse": letters[::-1], "sort": sorted(letters), "copy": letters}[task])


def date_of(text: str) -> datetime.date:
    if "." in text:
        day, month, year = text.split(".")
        return datetime.date(int(year), int(month), int(day))
    words = text.replace(",", "").split()
    name, day = (words[1], words[0]) if words[0].isdigit() else (words[0], words[1])
    month = next(number for number, known in enumerate(MONTHS, 1) if known.startswith(name))
    return datetime.date(int(words[2]), month, int(day))


def test_more_pairs_than_there_are_is_refused() -> None:
    settings = {"kind": "rewriting", "pairs": 500, "held_out": 10, "length": 2}
    with refused(ConfigError, "too-few-different-pairs"):
        PairsPart(DataConfig.parse({"set": settings}))
