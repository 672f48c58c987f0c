"""The generated set ``people``: the register of a made-up world as text alone, without questions, so that lines are held out.

A held-out line (``data.split``) is about somebody whom lines of the training text tell of in other words.
"""

from __future__ import annotations

from typing import final

from pydantic import Field

from glassformer.data.config import GENERATED_SETS, GeneratedSetConfig
from glassformer.data.reading.corpus import Source
from glassformer.data.reading.named_sets import DataSources
from glassformer.knowledge.worlds import WorldConfig


@GENERATED_SETS.variant("people")
@final
class PeopleConfig(GeneratedSetConfig):
    """The text of a world of made-up people alone, five lines about each; a held-out line follows in part from the others."""

    people: int = Field(default=2_000, ge=20, le=2_000_000)
    seed: int = Field(default=0, ge=0)

    def find(self) -> DataSources:
        world = WorldConfig(people=self.people, seed=self.seed, nowhere=0.0)
        return DataSources(Source(world.name, (world.files().text,), document="line"))
