"""The world as files: groups apart, everything in its place, the same bytes twice, refused settings."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.config import DataConfig
from glassformer.data.reading.named_sets import find_set
from glassformer.foundation.errors import ConfigError
from glassformer.knowledge.worlds import (
    BIRTHS,
    GROUPS,
    OTHERS,
    PEOPLES,
    Register,
    WorldConfig,
    distinct,
    lines_about,
    questions_about,
)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def lines(file):
    return file.read_text(encoding="utf-8").splitlines()


def test_some_are_in_both_some_in_the_text_some_nowhere():
    config = WorldConfig(people=120)
    world = config.files()
    people = list(world.people())
    sizes = {group: sum(person["group"] == group for person in people) for group in GROUPS}
    assert sizes == {"train": 54, "validation": 30, "test": 12, "nowhere": 24}
    text = world.text.read_text(encoding="utf-8")
    for person in people:
        assert (person["name"] in text) == (person["group"] != "nowhere")
    asked = {group: [line.split("\t") for line in lines(world.questions(group))] for group in GROUPS}
    assert len(asked["train"]) == 3 * 54
    for group in GROUPS[1:]:
        assert [answer for _, answer in asked[group]] == [p["place"] for p in people if p["group"] == group]
    training = "\n".join(lines(world.questions("train")))
    assert not any(person["name"] in training for person in people if person["group"] != "train")
    assert len(lines(world.text)) == (120 - 24) * 5


def test_the_same_settings_give_the_same_bytes_and_other_ones_others(tmp_path, monkeypatch):
    first = {file.name: file.read_bytes() for file in WorldConfig(people=60).files().folder.iterdir()}
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "another"))
    again = {file.name: file.read_bytes() for file in WorldConfig(people=60).files().folder.iterdir()}
    assert first == again
    assert WorldConfig(people=60, sound=0.0).files().text.read_bytes() != first["text.txt"]


def test_a_recipe_names_it_by_its_kind():
    data = DataConfig.parse({"set": {"kind": "world", "people": 40}})
    assert data.set == WorldConfig(people=40)
    assert DataConfig.parse(data.to_dict()) == data
    parts = find_set(data.set)
    assert parts.questions is not None
    assert parts.questions.nowhere is not None
    assert parts.train.document == "line"
    nobody = find_set(WorldConfig(people=40, nowhere=0.0, test=0.0))
    assert nobody.questions.nowhere is None
    assert nobody.questions.tests == {}


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"kind": "wrld"}, "Did you mean 'world'"),
        ({"people": 40}, "a mapping with 'kind'"),
        ({"kind": "world", "persons": 40}, "no key 'data.set.persons'"),
        ({"kind": "world", "people": 3}, "data.set.people=3"),
        ({"kind": "world", "sound": 1.5}, "data.set.sound=1.5"),
        ({"kind": "world", "held_out": 0.8, "nowhere": 0.2}, "leave nobody to train on"),
    ],
)
def test_wrong_settings_are_a_sentence(settings, rule):
    with pytest.raises(ConfigError, match=rule):
        DataConfig.parse({"set": settings}, at="data")


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


PEOPLE = list(Register(size=300, regions=3, places=4, sound=0.0, seed=1).people())


def test_each_wording_tells_name_and_place_and_none_is_used_twice():
    for person in PEOPLE:
        *births, other = lines_about(person, births=4)
        assert len(births) == 4
        assert len({line.replace(person.name, "") for line in births}) == 4
        assert all(person.name in line and person.place in line and line.endswith(".") for line in births)
        assert person.name in other
        assert person.home in other


def test_all_wordings_are_used():
    told = {line for person in PEOPLE for line in lines_about(person, births=3)}
    for wording in (*BIRTHS, *OTHERS):
        beginning, _, rest = wording.partition("{")
        pieces = [piece.partition("}")[2] for piece in rest.split("{")]
        assert any(line.startswith(beginning) and all(piece in line for piece in pieces) for line in told), wording
    assert all(len(lines_about(person, births=99)) == len(BIRTHS) + 1 for person in PEOPLE[:3])


def test_questions_ask_about_the_person_in_different_wordings():
    asked = questions_about("Ann Lee")
    assert asked[0] == "Where was Ann Lee born?"
    assert len(set(asked)) == 3
