"""The store of trials: what makes two trials the same, taking, damage, emptying."""

from __future__ import annotations

import pytest

from glassformer.foundation.errors import RunError
from glassformer.study.running.trial_store import MACHINE, Origin, TrialStore, code_sha256, machine_of

MADE_ON = dict.fromkeys(MACHINE, "x")
SMALL = {"data": {"set": "docstrings"}, "model": {"width": 8}, "training": {"steps": 4}}
RECIPE = {**SMALL, "seed": 3, "about": "words"}


def origin(recipe=RECIPE, data="d", plugins=(), machine=MADE_ON) -> Origin:
    found = Origin.of(recipe, data=data, plugins=plugins, machine=machine)
    assert found is not None
    return found


@pytest.fixture
def store(tmp_path, monkeypatch) -> TrialStore:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return TrialStore()


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    (folder / "checkpoints" / "step-4").mkdir(parents=True)
    (folder / "recipe.yaml").write_text("a: 1\n")
    (folder / "checkpoints" / "step-4" / "weights").write_bytes(bytes(range(64)))
    (folder / ".lock").write_text("")
    return folder


def test_only_what_changes_a_bit_makes_another_origin():
    same = origin({**SMALL, "seed": 9, "about": "other words"})
    assert same.group == origin().group
    others = [
        origin({**SMALL, "model": {"width": 16}}),
        origin(data="e"),
        origin(plugins=[{"file": "p.py", "sha256": "1"}]),
        origin(plugins=[{"file": "p.py", "sha256": "1", "imports": {"helper.py": "2"}}]),
        origin(machine={**MADE_ON, "torch": "9"}),
    ]
    assert len({origin().group, *(one.group for one in others)}) == 6


def test_nothing_stands_for_a_parent_that_is_not_a_run_here_or_for_an_unknown_machine():
    assert Origin.of({**RECIPE, "init_from": "nowhere"}, data="d", plugins=(), machine=MADE_ON) is None
    assert Origin.of(RECIPE, data="d", plugins=(), machine={}) is None


def test_the_code_is_part_of_it_and_machines_are_told_by_what_matters():
    assert len(code_sha256()) == 64
    assert machine_of({"torch": "9", "cores": 2}) == {**dict.fromkeys(MACHINE), "torch": "9"}


def test_a_kept_run_comes_back_whole(store, run, tmp_path):
    store.save(origin(), 3, run)
    assert store.seeds(origin()) == [3]
    assert store.copy_to(origin(), 3, tmp_path / "there" / "seed-3")
    there = tmp_path / "there" / "seed-3"
    assert (there / "checkpoints" / "step-4" / "weights").read_bytes() == bytes(range(64))
    assert sorted(path.name for path in there.iterdir()) == ["checkpoints", "recipe.yaml"]
    assert not store.copy_to(origin(), 3, there)  # what is there is not replaced
    assert not store.copy_to(origin(), 4, tmp_path / "there" / "seed-4")
    (run / "recipe.yaml").write_text("b: 2\n")  # the run's own copy is its own
    assert store.copy_to(origin(), 3, tmp_path / "again")


def test_it_remembers_which_trained_models_were_checked_and_drops_what_leaks(store, run):
    other = origin(data="e")
    store.save(origin(), 3, run)
    store.save(other, 3, run, checked=True)
    assert not store.checked(origin())
    assert store.checked(other)
    store.save(origin(), 4, run)
    store.save(origin(), 3, run, checked=True)  # trained once more, and checked this time
    assert store.checked(origin())
    assert store.evict(origin()) == 2
    assert store.seeds(origin()) == []
    assert store.contains(other, 3)


def test_a_damaged_one_is_removed_with_a_sentence(store, run, tmp_path):
    store.save(origin(), 3, run)
    (store.path(origin(), 3) / "recipe.yaml").write_text("a: 2\n")
    with pytest.raises(RunError, match="is damaged and was removed"):
        store.copy_to(origin(), 3, tmp_path / "there")
    assert store.seeds(origin()) == []


def test_it_is_listed_and_emptied(store, run):
    assert store.entries() == []
    store.save(origin(), 3, run)
    store.save(origin(), 5, run)
    assert [row["seed"] for row in store.entries()] == [3, 5]
    assert store.entries()[0]["bytes"] > 64
    assert store.empty() == 2
    assert store.entries() == []
