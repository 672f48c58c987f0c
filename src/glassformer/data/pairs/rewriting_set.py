"""The generated set ``rewriting``: settings -> pairs of texts whose rule is known, as files. Needs no data.

Numbers in digits -> in words, dates in several forms -> one form, letters reversed, sorted or copied. No source occurs twice,
so what is right on validation and test is not memory. Everything is a function of the settings, identical on every machine.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Literal, final

import numpy as np
from pydantic import Field

from glassformer.data.config import GENERATED_SETS, GeneratedSetConfig
from glassformer.data.disk_cache import cached_folder
from glassformer.data.reading.corpus import PairSource, Source
from glassformer.data.reading.named_sets import DataSources, PairSources
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.files import write_atomically
from glassformer.foundation.seeds import derive_seed

MADE_BY = 2  # incremented when the same settings give other files
Task = Literal["numbers", "dates", "reverse", "sort", "copy"]
Draw = Callable[[np.random.Generator], tuple[str, str]]
TRIES = 20
"""Draws per pair that is wanted before the settings are refused as having too few different sources."""

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
THOUSANDS = ("", "thousand", "million", "billion", "trillion")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIRST_DAY, LAST_DAY = datetime.date(1800, 1, 1).toordinal(), datetime.date(2199, 12, 31).toordinal()


@GENERATED_SETS.variant("rewriting")
@final
class RewritingConfig(GeneratedSetConfig):
    """Pairs of texts by a rule: numbers or dates in another form, letters reversed, sorted or copied."""

    task: Task = "numbers"
    pairs: int = Field(default=20_000, ge=10, le=5_000_000)
    """Training pairs."""
    held_out: int = Field(default=1_000, ge=1, le=100_000)
    """Pairs of validation, and as many of the test."""
    length: int = Field(default=6, ge=1, le=15)
    """The most digits of a number, or letters of a row; dates have none."""
    seed: int = Field(default=0, ge=0)

    def find(self) -> DataSources:
        key = fingerprint([MADE_BY, self.to_dict()])
        folder = cached_folder("sets", f"rewriting-{key[:40]}", self._write)

        def source(split: str) -> PairSource:
            return PairSource(f"rewriting ({self.task})", (folder / f"{split}.tsv",), format="tsv")

        def text(split: str) -> Source:
            return Source(f"rewriting ({self.task})", (folder / f"{split}.tsv",), format="tsv", text_column="target")

        return DataSources(
            train=text("train"),
            validation=text("validation"),
            tests={"test": text("test")},
            pairs=PairSources(source("train"), source("validation"), {"test": source("test")}),
        )

    def _write(self, folder: Path) -> None:
        sizes = {"test": self.held_out, "validation": self.held_out, "train": self.pairs}
        generator = np.random.Generator(np.random.PCG64(derive_seed(self.seed, "rewriting", self.task)))
        found: dict[str, str] = {}
        wanted, draw = sum(sizes.values()), _DRAWS[self.task](self.length)
        for _ in range(TRIES * wanted):
            source, target = draw(generator)
            found.setdefault(source, target)
            if len(found) == wanted:
                break
        else:
            raise ConfigError(
                f"data.set: {wanted:,} different pairs are wanted, but task={self.task} with length={self.length} gives about "
                f"{len(found):,}; lower pairs or held_out, or raise length.",
                reason="too-few-different-pairs",
            )
        drawn = list(found.items())  # short sources are drawn early, because there are few: the splits share them
        pairs = iter([drawn[at] for at in generator.permutation(len(drawn))])
        for split, size in sizes.items():
            rows = [f"{source}\t{target}\n" for _, (source, target) in zip(range(size), pairs)]
            write_atomically(folder / f"{split}.tsv", "source\ttarget\n" + "".join(rows))


def number_in_words(number: int) -> str:
    """4217 -> four thousand two hundred seventeen."""
    if number == 0:
        return ONES[0]
    words: list[str] = []
    for power in reversed(range(len(THOUSANDS))):
        part = number // 1000**power % 1000
        if not part:
            continue
        if part >= 100:
            words += [ONES[part // 100], "hundred"]
        if part % 100 >= 20:
            words += [TENS[part % 100 // 10], *([ONES[part % 10]] if part % 10 else [])]
        elif part % 100:
            words.append(ONES[part % 100])
        if power:
            words.append(THOUSANDS[power])
    return " ".join(words)


def _numbers(length: int) -> Draw:
    def draw(generator: np.random.Generator) -> tuple[str, str]:
        digits = int(generator.integers(1, length + 1))
        number = int(generator.integers(10 ** (digits - 1) if digits > 1 else 0, 10**digits))
        return str(number), number_in_words(number)

    return draw


def _dates(length: int) -> Draw:
    def draw(generator: np.random.Generator) -> tuple[str, str]:
        day = datetime.date.fromordinal(int(generator.integers(FIRST_DAY, LAST_DAY + 1)))
        month = MONTHS[day.month - 1]
        forms = (
            f"{day.day} {month} {day.year}",
            f"{month} {day.day}, {day.year}",
            f"{day.day}.{day.month}.{day.year}",
            f"{month[:3]} {day.day} {day.year}",
        )
        return forms[int(generator.integers(len(forms)))], day.isoformat()

    return draw


def _letters(length: int, rule: Callable[[list[str]], list[str]]) -> Draw:
    def draw(generator: np.random.Generator) -> tuple[str, str]:
        letters = [LETTERS[at] for at in generator.integers(0, len(LETTERS), int(generator.integers(1, length + 1)))]
        return " ".join(letters), " ".join(rule(letters))

    return draw


_DRAWS: dict[str, Callable[[int], Draw]] = {
    "numbers": _numbers,
    "dates": _dates,
    "reverse": lambda length: _letters(length, lambda letters: letters[::-1]),
    "sort": lambda length: _letters(length, sorted),
    "copy": lambda length: _letters(length, list),
}
