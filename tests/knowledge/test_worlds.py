"""The world as files: groups apart, everything in its place, the same bytes twice, refused settings."""

from __future__ import annotations

import pytest

from glassformer.data.config import DataConfig
from glassformer.data.reading.named_sets import find_set
from glassformer.foundation.errors import ConfigError
from glassformer.knowledge.worlds import GROUPS, WorldConfig


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
