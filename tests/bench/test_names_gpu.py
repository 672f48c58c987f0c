"""The very recipe of the GPU figure, at tiny size on made-up files of the same names: settings, seeds, predictions, speed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from glassformer.foundation.files import read_json
from glassformer.knowledge.worlds import WorldConfig

TINY = [
    *("--set", "model.width=16", "--set", "model.layers=1", "--set", "model.heads=2", "--set", "training.steps=4"),
    *("--set", "training.batch_size=8", "--set", "evaluation.every=2", "--set", "checkpoint.every=4"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Files as those of ``names``, about made-up people."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    world, names = WorldConfig(people=60).files(), tmp_path / "data" / "names"
    names.mkdir(parents=True)
    (names / "wiki.txt").write_text(world.text.read_text() + "?W\n")
    for group, name in (("train", "train.tsv"), ("validation", "dev.tsv")):
        (names / name).write_bytes(world.questions(group).read_bytes())
    lines = world.questions("test").read_text().splitlines()
    (names / "test_inputs.tsv").write_text("".join(line.split("\t")[0] + "\n" for line in lines))
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.mark.slow
def test_settings_seeds_and_answers_go_through(bench: ModuleType, folder: Path) -> None:
    tried = bench.main(["try", "--only", "recipe", "--only", "title", "--out", str(folder / "try.json"), *TINY])
    assert set(tried) == {"recipe", "title"}
    assert read_json(folder / "try.json")["settings"]["title"]["metrics"]["exact_match"]["n"] == 8  # a tenth of 81
    out, runs = folder / "seeds.json", folder / "runs"
    found = bench.main(["seeds", "whole", "--seeds", "0", "3", "--out", str(out), "--runs", str(runs), *TINY])
    assert set(read_json(out)["seeds"]) == {"0", "3"}
    assert found["seeds"][3]["dev"]["n"] == 15
    assert len((folder / "predictions-whole-0.txt").read_text().splitlines()) == 6
    speed = bench.main(["answer", str(runs / "whole-0"), "--out", str(folder / "answer.json")])
    assert (speed["questions"], speed["differ"]) == (6, 0)


def test_every_setting_is_a_recipe(bench: ModuleType) -> None:
    from glassformer.recipe import load_recipe

    fingerprints = {load_recipe(bench.RECIPE, changes).fingerprint for changes in bench.SETTINGS.values()}
    assert len(fingerprints) == len(bench.SETTINGS)
