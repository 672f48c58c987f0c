"""The generated set ``skill``: settings -> short lines of which a large part follows from the rest by one skill. Needs no data.

    recall      e4k1z0|k1e4k1z0e4z0.    letters with digits; after the mark letters of them, each followed by its digit
    hops        afqkfqka|aqqafkkf.      arrows of a ring (a to f, q to k, ...); then each letter, followed by the one two on
    copying     xqmfaz|xqmfaz.          random letters, then the same again
    arithmetic  748+580=2390            847 + 85 = 932: numbers of as many digits, the lowest first, the result with one more

Everything else in a line is drawn evenly, so its entropy is known (``Skill.nats``). The size of a line is drawn too, from half
of ``length`` to ``length``, and lengths in bytes are not all even: else lines and windows would keep step, and a learned
position would be trained at some places of a line and tested at others.
Everything is a function of the settings, identical on every machine; no line occurs twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from glassformer.data.config import GENERATED_SETS, GeneratedSetConfig
from glassformer.data.disk_cache import cached_folder
from glassformer.data.reading.corpus import Source
from glassformer.data.reading.named_sets import DataSources
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.files import write_atomically
from glassformer.foundation.seeds import derive_seed

MADE_BY = 2  # incremented when the same settings give other files
Task = Literal["recall", "hops", "copying", "arithmetic"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HOPS = 2
TRIES = 20
"""Draws per line that is wanted before the settings are refused as having too few different lines."""


@dataclass(frozen=True)
class Skill:
    """Lines of one task by size: pairs, arrows, letters or digits. ``draw``: generator, size, hops -> a line; ``nats_of``: what
    is drawn; ``bytes_of``: its bytes with the end, and those of them that the skill tells. ``length``: usual, largest."""

    draw: Callable[[np.random.Generator, int, int], str]
    nats_of: Callable[[int], float]
    bytes_of: Callable[[int], tuple[int, int]]
    length: tuple[int, int]


def _recall(generator: np.random.Generator, size: int, hops: int) -> str:
    letters = [LETTERS[at] for at in generator.permutation(len(LETTERS))[:size]]
    pairs = [f"{letter}{digit}" for letter, digit in zip(letters, generator.integers(10, size=size))]
    return f"{''.join(pairs)}|{''.join(pairs[at] for at in generator.integers(size, size=2 * size))}."


def _hops(generator: np.random.Generator, size: int, hops: int) -> str:
    ring = [LETTERS[at] for at in generator.permutation(len(LETTERS))[:size]]
    arrows = [ring[at] + ring[(at + 1) % size] for at in generator.permutation(size)]
    ends = [ring[at] + ring[(at + hops) % size] for at in generator.permutation(size)]
    return f"{''.join(arrows)}|{''.join(ends)}."


def _copying(generator: np.random.Generator, size: int, hops: int) -> str:
    text = "".join(LETTERS[at] for at in generator.integers(len(LETTERS), size=size))
    return f"{text}|{text}."


def _arithmetic(generator: np.random.Generator, size: int, hops: int) -> str:
    numbers = [int(number) for number in generator.integers(10**size, size=2)]
    first, second, result = (f"{number:0{size}}"[::-1] for number in (*numbers, sum(numbers)))
    return f"{first}+{second}={result:0<{size + 1}}"


def _arranged(size: int) -> float:
    """The logarithm of how many rows there are of so many different letters."""
    return math.lgamma(len(LETTERS) + 1) - math.lgamma(len(LETTERS) - size + 1)


_SKILLS: dict[str, Skill] = {
    "recall": Skill(
        _recall,
        lambda size: _arranged(size) + size * math.log(10) + 2 * size * math.log(size),
        lambda size: (6 * size + 3, 2 * size),
        (5, len(LETTERS)),
    ),
    "hops": Skill(
        _hops,
        lambda size: _arranged(size) + math.lgamma(size) + math.lgamma(size + 1),
        lambda size: (4 * size + 3, size),
        (6, len(LETTERS)),
    ),
    "copying": Skill(  # the end of a line follows too
        _copying, lambda size: size * math.log(len(LETTERS)), lambda size: (2 * size + 3, size + 1), (14, 1000)
    ),
    "arithmetic": Skill(_arithmetic, lambda size: 2 * size * math.log(10), lambda size: (3 * size + 4, size + 1), (5, 18)),
}


@GENERATED_SETS.variant("skill")
@final
class SkillConfig(GeneratedSetConfig):
    """Lines of which a large part follows from the rest by a skill: recall of pairs, hops, copying or sums."""

    task: Task = "recall"
    documents: int = Field(default=50_000, ge=10, le=5_000_000)
    """Lines to train on."""
    held_out: int = Field(default=1_000, ge=1, le=100_000)
    """Lines of validation, and as many of the test."""
    length: int | None = Field(default=None, ge=1)
    """The most pairs (recall), arrows (hops), letters (copying) or digits (arithmetic) of a line; by default 5, 6, 14 or 5,
    with which no line has over 33 bytes."""
    hops: int | None = Field(default=None, ge=1)
    """Arrows from a letter to the end that is asked for; by default 2. For `hops` alone."""
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        usual, largest = _SKILLS[self.task].length
        if (self.length or usual) > largest:
            raise ValueError(f"length={self.length} is above {largest}, the most that task={self.task} has.")
        if self.hops is not None and self.task != "hops":
            raise ValueError(f"hops={self.hops} belongs to task=hops, not to task={self.task}.")
        if not self.sizes:
            raise ValueError(f"hops={self.hops or HOPS} needs length={self._least} or more, not {self.length or usual}.")
        return self

    @property
    def _least(self) -> int:
        """In a ring of one letter more than the hops, the end would be the letter before the one asked."""
        return (self.hops or HOPS) + 2 if self.task == "hops" else 1

    @property
    def sizes(self) -> range:
        """Those of a line, each as often."""
        length = self.length or _SKILLS[self.task].length[0]
        return range(max(self._least, (length + 1) // 2), length + 1)

    @property
    def nats(self) -> float:
        """The entropy of a line on average: no model has less over whole lines unless it has met them."""
        return math.log(len(self.sizes)) + float(np.mean([_SKILLS[self.task].nats_of(size) for size in self.sizes]))

    @property
    def line_bytes(self) -> tuple[float, float]:
        """Of a line on average, with its end; and of them those that the skill tells."""
        whole, told = np.mean([_SKILLS[self.task].bytes_of(size) for size in self.sizes], axis=0)
        return float(whole), float(told)

    def find(self) -> DataSources:
        folder = cached_folder("sets", f"skill-{fingerprint([MADE_BY, self.to_dict()])[:40]}", self._write)

        def source(split: str) -> Source:
            return Source(f"skill ({self.task})", (folder / f"{split}.txt",), document="line")

        whole, told = self.line_bytes
        note = (
            f"A line of {self.task} has {whole:.1f} bytes on average, of which the skill tells {told / whole:.0%}; what is "
            f"drawn costs {self.nats / whole:.3f} nats per byte."
        )
        return DataSources(source("train"), source("validation"), {"test": source("test")}, notes=(note,))

    def _write(self, folder: Path) -> None:
        sizes = {"test": self.held_out, "validation": self.held_out, "train": self.documents}
        generator = np.random.Generator(np.random.PCG64(derive_seed(self.seed, "skill", self.task)))
        found, wanted, draw = dict[str, None](), sum(sizes.values()), _SKILLS[self.task].draw
        for size in generator.integers(self.sizes[0], self.sizes[-1] + 1, size=TRIES * wanted):
            found[draw(generator, int(size), self.hops or HOPS)] = None
            if len(found) == wanted:
                break
        else:
            raise ConfigError(
                f"data.set: {wanted:,} different lines are wanted, but task={self.task} with length={self.sizes[-1]} gives "
                f"about {len(found):,}; lower documents or held_out, or raise length.",
                reason="too-few-different-lines",
            )
        drawn = list(found)  # short lines are drawn early, because there are few: the splits share them
        lines = iter([drawn[at] for at in generator.permutation(len(drawn))])
        for split, size in sizes.items():
            write_atomically(folder / f"{split}.txt", "".join(f"{line}\n" for line in islice(lines, size)))
