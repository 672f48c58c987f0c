"""The synthetic world: settings -> a register of made-up people as files: text, questions, ground truth.

Some people are in the text and in the training questions, some only in the text (held-out questions), some nowhere (to
measure hallucination). Everything is a function of the settings; the files are cached.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, final

from pydantic import Field, model_validator

from glassformer.data.config import GENERATED_SETS, GeneratedSetConfig
from glassformer.data.disk_cache import cached_folder
from glassformer.data.reading.corpus import Source
from glassformer.data.reading.named_sets import DataSources, QuestionFiles
from glassformer.foundation.config import fingerprint
from glassformer.foundation.files import read_json, write_json
from glassformer.knowledge.worlds_people import PEOPLES, Person, Register
from glassformer.knowledge.worlds_wording import BIRTHS, lines_about, questions_about

MADE_BY = 1  # incremented when the same settings give other files
GROUPS = ("train", "validation", "test", "nowhere")
TRUTH = ("name", "group", "people", "region", "place", "home", "year", "work")


@GENERATED_SETS.variant("world")
class WorldConfig(GeneratedSetConfig):
    """A made-up register of people, told in many wordings; names sound like their region to the degree ``sound``."""

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
            truth.write("\t".join(map(str, _truth(person, group))) + "\n")
            if group != "nowhere":
                text.writelines(f"{line}\n" for line in lines_about(person, config.wordings))
            wordings = questions_about(person.name)
            for question in wordings if group == "train" else wordings[:1]:
                asked[group].write(f"{question}\t{person.place}\n")
    write_json(world.facts, {"made_by": MADE_BY, "settings": config.to_dict(), "places": register.places})


def _truth(person: Person, group: str) -> tuple[Any, ...]:
    return person.name, group, person.people, person.region, person.place, person.home, person.year, person.work
