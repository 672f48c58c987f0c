"""Made-up people: the same everywhere, all names different, and sound that goes with the region as told."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.knowledge.worlds_people import PEOPLES, Register, distinct


def register(**settings):
    return Register(**{"size": 3000, "regions": 5, "places": 6, "sound": 0.5, "seed": 7, **settings})


def test_a_person_depends_on_the_seed_and_the_number_alone():
    everybody = list(register().people())
    assert list(register().people(2000, 2003)) == everybody[2000:2003]
    assert next(register(seed=8).people()).name != everybody[0].name


def test_all_names_are_different_and_so_are_all_places():
    for size in (20, 3000, 60_000):
        people = register(size=size)
        names = {person.name for person in people.people()}
        assert len(names) == size
    places = [place for region in register().places for place in region]
    assert len(set(places)) == len(places) == 30


def test_a_million_people_have_a_million_names():
    people = register(size=1_000_000)
    assert people.given * people.family >= 2 * people.size
    numbers = np.arange(1_000_000, dtype=np.uint64)
    assert len(np.unique(distinct(numbers, people.given * people.family, 5))) == 1_000_000


@pytest.mark.parametrize("sound", [0.0, 0.5, 1.0])
def test_names_sound_like_their_region_to_the_degree_asked_for(sound):
    agree = np.mean([person.people == person.region for person in register(sound=sound, size=20_000).people()])
    assert agree == pytest.approx(sound + (1 - sound) / 5, abs=0.015)


def test_places_have_shares_that_fall():
    people = register(size=20_000)
    first = np.mean([person.place == people.places[person.region][0] for person in people.people()])
    assert first == pytest.approx(1 / sum(1 / n for n in range(1, 7)), abs=0.015)


def test_spelling_is_one_to_one_and_no_two_peoples_share_a_name():
    seen: set[str] = set()
    for sound in PEOPLES:
        for endings in (sound.given, sound.family):
            names = {sound.spell(number, endings) for number in range(sound.spellings(endings))}
            assert len(names) == sound.spellings(endings)
        families = {sound.spell(number, sound.family) for number in range(sound.spellings(sound.family))}
        assert not families & seen
        seen |= families


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 4096])
def test_distinct_is_a_permutation(size):
    assert sorted(distinct(np.arange(size, dtype=np.uint64), size, 3).tolist()) == list(range(size))
