"""A seed and an index -> a made-up person: name, birth place, year, work. Computed, identical on every machine.

Names are spelled by made-up peoples, one for each region; ``sound`` is the probability that a person has a name of the
people of the region they were born in, beyond chance. Everybody's name is different. Knows no wording and writes no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from glassformer.foundation.seeds import derive_seed

BLOCK = 4096  # people generated at a time

WORKS = (
    *("baker", "carpenter", "doctor", "farmer", "gardener", "judge", "lawyer", "mason"),
    *("painter", "poet", "printer", "sailor", "singer", "smith", "teacher", "weaver"),
)


@dataclass(frozen=True)
class Sound:
    """How a people spells: two syllables of a consonant and a vowel each, and an ending; all different by construction."""

    consonants: str
    vowels: str
    given: tuple[str, ...]
    family: tuple[str, ...]
    place: tuple[str, ...]

    def spell(self, number: int, endings: tuple[str, ...]) -> str:
        letters = []
        for alphabet in (self.consonants, self.vowels, self.consonants, self.vowels):
            number, letter = divmod(number, len(alphabet))
            letters.append(alphabet[letter])
        return ("".join(letters) + endings[number % len(endings)]).capitalize()

    def spellings(self, endings: tuple[str, ...]) -> int:
        """How many different names there are."""
        return (len(self.consonants) * len(self.vowels)) ** 2 * len(endings)


PEOPLES = (
    Sound("ktmrns", "aiou", ("ko", "mi", "ra", "to"), ("moru", "yusi", "shi", "kavo", "nube", "zuru"), ("suka", "himo")),
    Sound("bdglvz", "aeio", ("lda", "nna", "rt", "lf"), ("rsel", "ndol", "lgun", "rgat", "nstod", "lmir"), ("rvek", "lonn")),
    Sound("pcmltr", "aeou", ("lla", "nzu", "rio", "ssa"), ("reto", "nila", "lucu", "scano", "nduro", "velo"), ("ggia", "nzo")),
    Sound("hjknwb", "aeiu", ("sh", "id", "eem", "oud"), ("zudeh", "khun", "widi", "shor", "thur", "bikh"), ("bod", "stun")),
    Sound("gdrfmb", "aiou", ("ch", "gh", "nn", "rc"), ("dwun", "lloch", "rrgen", "ntyr", "thwin", "ghlen"), ("glun", "rrew")),
    Sound("szvpkd", "aeiu", ("sluv", "mor", "nku", "tko"), ("wsko", "cuk", "nki", "rske", "vuch", "dzok"), ("grud", "brid")),
    Sound("ytnxqc", "aeio", ("tl", "xa", "ni", "ca"), ("huitl", "collo", "pun", "tzen", "ceatl", "mulca"), ("tetlun", "tipoc")),
    Sound("wfvdhl", "aeou", ("lf", "rek", "trod", "burt"), ("mun", "biur", "stoin", "borg", "hef", "brund"), ("berg", "firt")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody of the register. ``people`` is the number of the people whose names sound like theirs."""

    number: int
    name: str
    people: int
    region: int
    place: str
    home: str
    year: int
    work: str
    draw: int  # 64 random bits for the wording


@final
class Register:
    """``size`` people in ``regions`` regions of ``places`` places each. The first place of a region is its largest."""

    def __init__(self, *, size: int, regions: int, places: int, sound: float, seed: int) -> None:
        self.size, self.regions, self.sound, self.seed = size, regions, sound, seed
        self.given = _between(8, round(2 * size**0.5), min(one.spellings(one.given) for one in PEOPLES))
        self.family = _between(16, size, min(one.spellings(one.family) for one in PEOPLES))
        self.places = tuple(tuple(self._spelled(region, "place", places)) for region in range(regions))
        weights = 1.0 / np.arange(1, places + 1)
        self._place_steps = np.cumsum(weights / weights.sum())

    @property
    def region_of(self) -> dict[str, int]:
        return {place: region for region, places in enumerate(self.places) for place in places}

    def people(self, first: int = 0, last: int | None = None) -> Iterator[Person]:
        """The people with the numbers ``first`` to ``last``, a block at a time."""
        last = self.size if last is None else last
        given = [self._spelled(people, "given", self.given) for people in range(self.regions)]
        family = [self._spelled(people, "family", self.family) for people in range(self.regions)]
        for begin in range(first, last, BLOCK):
            numbers = np.arange(begin, min(begin + BLOCK, last), dtype=np.uint64)
            facts = self._facts(numbers)
            for number, people, region, place, at_home, home, year, work, draw, name in zip(numbers.tolist(), *facts):
                called = f"{given[people][name % self.given]} {family[people][name // self.given]}"
                born, lives = self.places[region][place], self.places[at_home][home]
                yield Person(number, called, people, region, born, lives, 1800 + year, WORKS[work], draw)

    def _facts(self, numbers: np.ndarray) -> list[list[int]]:
        def below(many: int, purpose: str) -> np.ndarray:
            return (self._uniform(numbers, purpose) * many).astype(np.int64)

        region = below(self.regions, "region")
        as_sounds = self._uniform(numbers, "sounds") < self.sound
        people = np.where(as_sounds, region, below(self.regions, "people"))
        place = np.searchsorted(self._place_steps, self._uniform(numbers, "place"), side="right")
        at_home, home = below(self.regions, "at home"), below(len(self.places[0]), "home")
        names = distinct(numbers, self.given * self.family, derive_seed(self.seed, "names"))
        draw = _hashed(numbers, derive_seed(self.seed, "telling"))
        columns = [people, region, np.minimum(place, len(self.places[0]) - 1), at_home, home, below(150, "year")]
        return [column.tolist() for column in (*columns, below(len(WORKS), "work"), draw, names)]

    def _uniform(self, numbers: np.ndarray, purpose: str) -> np.ndarray:
        return (_hashed(numbers, derive_seed(self.seed, purpose)) >> np.uint64(11)) * 2.0**-53

    def _spelled(self, people: int, what: str, many: int) -> list[str]:
        """The first ``many`` names of a kind among all that a people can spell."""
        sound = PEOPLES[people]
        endings: tuple[str, ...] = getattr(sound, what)
        key = derive_seed(self.seed, what, people)
        numbers = distinct(np.arange(many, dtype=np.uint64), sound.spellings(endings), key)
        return [sound.spell(number, endings) for number in numbers.tolist()]


def distinct(numbers: np.ndarray, size: int, key: int) -> np.ndarray:
    """Each number below ``size`` -> another one below ``size``, no two the same: a Feistel network that walks until it fits."""
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask, bits = np.uint64((1 << half) - 1), np.uint64(half)
    result = numbers.astype(np.uint64)
    walking = np.ones(len(result), dtype=bool)
    while walking.any():
        left, right = result[walking] >> bits, result[walking] & mask
        for turn in range(6):
            left, right = right, left ^ (_hashed(right, derive_seed(key, "turn", turn)) & mask)
        result[walking] = (left << bits) | right
        walking = result >= np.uint64(size)
    return result.astype(np.int64)


def _hashed(numbers: np.ndarray, key: int) -> np.ndarray:
    """64 bits for each number (the finaliser of splitmix64; Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))
