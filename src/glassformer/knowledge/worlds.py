"""The synthetic world: settings -> a register of made-up people as files: text, questions, ground truth.

Some people are in the text and in the training questions, some only in the text (held-out questions), some nowhere (to
measure hallucination). Everything is a function of the settings, identical on every machine; the files are cached.

Names are spelled by made-up peoples, one for each region; ``sound`` is the probability that a person has a name of the
people of the region they were born in, beyond chance. Everybody's name is different. Only the birth place is asked for: some
wordings tell it before the name, some beside other places, one line not at all.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from pydantic import Field, model_validator

from glassformer.data.config import GENERATED_SETS, GeneratedSetConfig
from glassformer.data.disk_cache import cached_folder
from glassformer.data.reading.corpus import Source
from glassformer.data.reading.named_sets import DataSources, QuestionFiles
from glassformer.foundation.config import fingerprint
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.seeds import derive_seed, mixed_bits

MADE_BY = 1  # incremented when the same settings give other files
GROUPS = ("train", "validation", "test", "nowhere")
TRUTH = ("name", "group", "people", "region", "place", "home", "year", "work")
BLOCK = 4096  # people generated at a time
WORKS = (
    *("baker", "carpenter", "doctor", "farmer", "gardener", "judge", "lawyer", "mason"),
    *("painter", "poet", "printer", "sailor", "singer", "smith", "teacher", "weaver"),
)
BIRTHS = (
    "{name} was born in {place} in {year}.",
    "{name} was born in {year} in {place}.",
    "{name}, born in {place}, worked as a {work}.",
    "{name} is a {work} who was born in {place}.",
    "Born in {place} in {year}, {name} became a {work}.",
    "{name} came into the world in {place}.",
    "The birth place of {name} is {place}.",
    "The {work} {name} was born in {place}.",
    "{name} ({year}, {place}) was a {work}.",
    "{place} is where {name} was born.",
    "It was in {place} that {name} was born in {year}.",
    "{name} left {place}, the place of birth, and lived in {home}.",
)
OTHERS = (
    "{name} worked as a {work} in {home}.",
    "{name} lived in {home} and was known as a {work}.",
    "In {home}, {name} found work as a {work}.",
)
QUESTIONS = (
    "Where was {name} born?",
    "What is the birth place of {name}?",
    "In which place was {name} born?",
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


@GENERATED_SETS.variant("world")
class WorldConfig(GeneratedSetConfig):
    """A synthetic register of people in many wordings; ``sound`` sets how well a name's sound reveals its region."""

    people: int = Field(default=500, ge=20, le=2_000_000)
    sound: float = Field(default=0.5, ge=0, le=1)
    seed: int = Field(default=0, ge=0)
    regions: int = Field(default=5, ge=2, le=len(PEOPLES))
    places: int = Field(default=6, ge=1, le=100)
    """Places in each region; the first is the largest (shares as 1, 1/2, 1/3, ...)."""
    wordings: int = Field(default=4, ge=1, le=len(BIRTHS))
    """Lines that tell each person's birth, all worded differently; one more line tells something else."""
    held_out: float = Field(default=0.25, gt=0, lt=1)
    """The share of people who are only in the text and are asked about in validation."""
    test: float = Field(default=0.1, ge=0, lt=1)
    """The same for the test questions."""
    nowhere: float = Field(default=0.2, ge=0, lt=1)
    """The share of people who are neither in the text nor in any training question."""

    @model_validator(mode="after")
    def _leaves_somebody(self) -> Self:
        if self.held_out + self.test + self.nowhere >= 1:
            raise ValueError(
                f"held_out={self.held_out}, test={self.test} and nowhere={self.nowhere} leave nobody to train on; their sum "
                "must be below 1."
            )
        return self

    @property
    def name(self) -> str:
        """Its name in a run's record."""
        return f"world of {self.people} people, sound {self.sound:g}, seed {self.seed}"

    def register(self) -> Register:
        return Register(size=self.people, regions=self.regions, places=self.places, sound=self.sound, seed=self.seed)

    def group(self, number: int) -> str:
        """People are drawn independently of their numbers, so the groups are ranges of numbers."""
        counts = [round(share * self.people) for share in (self.held_out, self.test, self.nowhere)]
        before = self.people - sum(counts)
        for name, count in zip(GROUPS, (before, *counts)):
            if number < count:
                return name
            number -= count
        return GROUPS[-1]

    def files(self) -> World:
        """The files, made on the first call."""
        key = f"world-{fingerprint([MADE_BY, self.to_dict()])[:24]}"
        return World(cached_folder("sets", key, lambda draft: _write(self, World(draft))))

    def find(self) -> DataSources:
        world = self.files()
        questions = tuple(Source(self.name, (world.questions("train"),), text_column=column) for column in (1, 2))
        test, nowhere = world.questions("test"), world.questions("nowhere")
        return DataSources(
            train=Source(self.name, (world.text,), document="line"),
            vocabulary=questions,  # characters that only questions have, such as the question mark
            questions=QuestionFiles(
                train=world.questions("train"),
                validation=world.questions("validation"),
                tests={"test": test} if test.stat().st_size else {},
                nowhere=nowhere if nowhere.stat().st_size else None,
                truth=world.folder,
            ),
        )


@final
class World:
    """The files of one world; the only class that knows their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = folder / "text.txt"
        self.truth = folder / "truth.tsv"
        self.facts = folder / "world.json"

    def questions(self, group: str) -> Path:
        return self.folder / f"{group}.tsv"

    def places(self) -> list[list[str]]:
        """The places of each region."""
        return [list(places) for places in read_json(self.facts)["places"]]

    def people(self) -> Iterator[dict[str, str]]:
        """All people with their ground truth, in order."""
        with self.truth.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t")


def _write(config: WorldConfig, world: World) -> None:
    register = config.register()
    with ExitStack() as open_files:

        def begin(file: Path) -> Any:
            return open_files.enter_context(file.open("w", encoding="utf-8", newline="\n"))

        text, truth = begin(world.text), begin(world.truth)
        asked = {group: begin(world.questions(group)) for group in GROUPS}
        truth.write("\t".join(TRUTH) + "\n")
        for person in register.people():
            group = config.group(person.number)
            known = (person.people, person.region, person.place, person.home, person.year, person.work)
            truth.write("\t".join(map(str, (person.name, group, *known))) + "\n")
            if group != "nowhere":
                text.writelines(f"{line}\n" for line in lines_about(person, config.wordings))
            wordings = questions_about(person.name)
            for question in wordings if group == "train" else wordings[:1]:
                asked[group].write(f"{question}\t{person.place}\n")
    write_json(world.facts, {"made_by": MADE_BY, "settings": config.to_dict(), "places": register.places})


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
        self.given = min(max(8, round(2 * size**0.5)), *(one.spellings(one.given) for one in PEOPLES))
        self.family = min(max(16, size), *(one.spellings(one.family) for one in PEOPLES))
        self.places = tuple(tuple(self._spelled(region, "place", places)) for region in range(regions))
        weights = 1.0 / np.arange(1, places + 1)
        self._place_steps = np.cumsum(weights / weights.sum())

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
    """64 bits for each number."""
    with np.errstate(over="ignore"):
        return mixed_bits((numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key))


def lines_about(person: Person, births: int) -> list[str]:
    """``births`` different wordings of the birth, in a random order, and one line about something else."""
    facts = {"name": person.name, "place": person.place, "home": person.home, "year": person.year, "work": person.work}
    draw, wordings = person.draw, list(BIRTHS)
    chosen = []
    for _ in range(min(births, len(wordings))):
        draw, at = divmod(draw, len(wordings))
        chosen.append(wordings.pop(at))
    draw, at = divmod(draw, len(OTHERS))
    return [wording.format(**facts) for wording in (*chosen, OTHERS[at])]


def questions_about(name: str) -> list[str]:
    return [question.format(name=name) for question in QUESTIONS]
