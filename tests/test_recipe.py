"""Recipes: files, names, values; dotted changes; refused when wrong, with the remedy; the built-in ones are sound."""

from __future__ import annotations

import os
from typing import ClassVar

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.registry import Slot
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.recipe import (
    Recipe,
    built_in_recipes,
    changed,
    list_recipes,
    list_variants,
    load_recipe,
    parent_recipe,
    recipe_file,
    recipe_values,
    with_files_found,
)
from glassformer.runs.directory import RunDirectory

SMALLEST = {"data": {"set": "docstrings"}, "training": {"steps": 5}}


def test_the_smallest_recipe() -> None:
    recipe = load_recipe(SMALLEST)
    assert recipe.model.mixer.kind == "dot"
    assert recipe.objective.kind == "next-token"
    assert recipe.seed == 0
    assert load_recipe(recipe.to_dict()) == recipe


@pytest.mark.parametrize("as_text", [True, False])
def test_from_a_file(tiny, tiny_file, as_text: bool) -> None:
    recipe = load_recipe(str(tiny_file) if as_text else tiny_file)
    assert recipe == load_recipe(tiny)
    assert load_recipe(recipe) == recipe


def test_what_is_written_is_read_back(tiny, tmp_path) -> None:
    recipe = load_recipe(tiny)
    (tmp_path / "again.yaml").write_text("schema: 1\n" + dump_yaml(recipe.to_dict()))  # as a run writes it
    assert load_recipe(tmp_path / "again.yaml") == recipe


def test_dotted_changes(tiny) -> None:
    recipe = load_recipe(tiny, {"model.width": 16, "model.norm": "rms", "training.optimizer.eps": 1e-6, "seed": 9})
    assert (recipe.model.width, recipe.model.norm.kind, recipe.seed) == (16, "rms", 9)
    assert recipe.training.lr == 0.01  # the rest stays


def test_a_setting_of_a_variant_that_the_recipe_leaves_to_its_default(tiny) -> None:
    assert load_recipe(tiny, {"model.feedforward.expansion": 2.0}).model.feedforward.expansion == 2.0
    assert load_recipe(tiny, {"training.schedule.final": 0.5}).training.schedule.final == 0.5


def test_one_source_replaces_the_other() -> None:
    both = {"data": {"set": "docstrings", "validation": "held-out.txt"}, "training": {"steps": 5}}
    values = changed(both, {"data.path": "mine.txt"})
    assert values["data"] == {"path": "mine.txt"}
    assert changed({"data": {"path": "a.txt"}}, {"data.set": "docstrings"})["data"] == {"set": "docstrings"}
    assert both["data"] == {"set": "docstrings", "validation": "held-out.txt"}  # untouched


def test_steps_replace_epochs_and_the_reverse() -> None:
    assert changed({"training": {"steps": 5}}, {"training.epochs": 2})["training"] == {"epochs": 2}
    assert changed({"training": {"epochs": 5}}, {"training.steps": 2})["training"] == {"steps": 2}
    with refused(ConfigError, "bad-value", "training.steps", "training.epochs"):
        load_recipe(SMALLEST, {"training.steps": 3, "training.epochs": 2})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modle.width": 8}, "There is no key 'modle'. Did you mean 'model'?"),
        ({"model.widht": 8}, "There is no key 'model.widht'. Did you mean 'width'?"),
        ({"model.width": "big"}, "model.width='big' is not accepted"),
        ({"model.width": 100, "model.heads": 8}, "model.heads=8 does not divide model.width=100"),
        ({"tokenizer": "chars"}, "tokenizer has no 'chars'. Did you mean 'char'?"),
        ({"objective": "nexttoken"}, "objective has no 'nexttoken'. Did you mean 'next-token'?"),
        ({"training.batch_size": 4, "training.accumulate": 3}, "training.accumulate=3 does not divide training.batch_size=4"),
        ({"data.splitt": 1}, "There is no key 'data.splitt'. Did you mean 'split'?"),
        ({"data.split.stratify": True}, "data.split.stratify=true has no effect on objective=next-token"),
        ({"seed": -1}, "seed=-1 is not accepted"),
        ({"checkpoint.keep": 1}, "checkpoint.keep=1 is not accepted"),
        ({"data.set": None}, "exactly one of set and path"),
        ({"training": 3}, "training=3 is not accepted"),
    ],
)
def test_mistakes_are_sentences(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe(SMALLEST, changes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_descriptions_are_no_part_of_the_fingerprint(tiny) -> None:
    first = load_recipe(tiny)
    assert load_recipe(tiny, {"about": "mine", "result": "good"}).fingerprint == first.fingerprint
    assert load_recipe(tiny, {"model.width": 16}).fingerprint != first.fingerprint
    assert load_recipe(tiny, {"seed": 4}).fingerprint != first.fingerprint
    assert load_recipe(tiny, {"model.norm": {"kind": "layer"}}).fingerprint == first.fingerprint  # the default, spelt out


def test_a_run_that_goes_on_keeps_what_it_is(tiny, tmp_path) -> None:
    """Its file is called as that of every run, so its name would say nothing."""
    run = RunDirectory(tmp_path / "mine")
    for about, then in (
        ("tiny with model.width=16.", "tiny with model.width=16, training.steps=9."),
        ("A small model with positions.", "mine with training.steps=9."),
    ):
        run.write_recipe({**tiny, "about": about})
        assert load_recipe(run.recipe_file, {"training.steps": 9}).about == then


def test_a_name_a_file_or_the_nearest(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert recipe_file("docstrings-char") == built_in_recipes()["docstrings-char"]
    with refused(UnknownName, "unknown-name", "docstrings-char"):
        recipe_file("docstring-char")
    with refused(ConfigError, "no-such-recipe-file", "'docstrings-char'"):
        recipe_file("recipes/docstrings-char.yaml")
    with refused(ConfigError, "no-such-recipe-file", "absent.yaml"):
        recipe_file("absent.yaml")
    (tmp_path / "docstrings-char").write_text("a file of that name wins")
    assert recipe_file("docstrings-char").read_text().startswith("a file")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"- 1\n- 2\n", "is not a recipe: it must be a mapping"),
        (b"", "is not a recipe"),
        (b"a: [", "not valid YAML"),
        (b"[" * 100_000, "levels of nesting"),
        (b"a: &x [*x]\n", "aliases"),
        (b"seed: 1\nseed: 2\n", "given twice"),
        (b"x" * (1 << 21), "larger than 1 MiB"),
    ],
)
def test_files_that_are_no_recipe(tmp_path, content: bytes, words: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.yaml") as caught:
        recipe_values(file)
    assert words in str(caught.value)


def test_a_gigabyte_is_not_read(tmp_path) -> None:
    file = tmp_path / "huge.yaml"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # a terabyte of zeros that takes no room
    with refused(ConfigError, "yaml-too-large"):
        recipe_values(file)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tiny_file) -> None:
    tiny_file.chmod(0)
    with refused(ConfigError, "recipe-not-readable"):
        recipe_values(tiny_file)


@pytest.mark.parametrize("name", built_in_recipes())
def test_every_built_in_recipe_is_sound(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.about, "a recipe says what it is"
    assert load_recipe(recipe.to_dict()) == recipe


def test_lists() -> None:
    rows = list_recipes()
    assert [row["name"] for row in rows] == sorted(built_in_recipes())
    variants = list_variants()
    assert {"slot": "model.mixer", "name": "dot", "about": Slot.every["model.mixer"].get("dot").one_line()} in variants
    assert all(row["about"] for row in variants)


def test_a_recipe_cannot_ask_for_code() -> None:
    for key in ("plugins", "plugin", "trust_remote_code", "model.trust_remote_code"):
        with refused(ConfigError, "unknown-key"):
            load_recipe(SMALLEST, {key: "evil.py"})
    assert "plugins" not in Recipe.model_fields


def test_a_recipe_writes_its_defaults_and_its_fingerprint_leaves_them_out(tiny) -> None:
    """The fingerprint of a begun study must not change because a later version knows more keys."""
    recipe = load_recipe(tiny)
    written, compared = recipe.to_dict(), recipe.non_defaults()
    assert set(written["model"]) == set(type(recipe.model).model_fields)
    assert written["checkpoint"]["film"] is None
    assert load_recipe(written).fingerprint == load_recipe(compared).fingerprint == recipe.fingerprint
    assert "mixer" not in compared["model"]
    assert "objective" not in compared
    assert load_recipe(tiny, {"model.mixer.fused": False}).non_defaults()["model"]["mixer"] == {"kind": "dot", "fused": False}
    assert load_recipe(tiny, {"evaluation.by": "bits_per_byte"}).non_defaults()["evaluation"]["by"] == "bits_per_byte"


def test_a_folder_of_hugging_face_as_parent_is_told_how(tmp_path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with refused(ConfigError, "init-from-huggingface"):
        load_recipe("docstrings-char", {"init_from": str(tmp_path)})


@pytest.mark.parametrize("file", [None, "notes.txt", "config.json"])
def test_a_folder_that_is_no_run_does_not_hide_the_recipe_of_its_name(tmp_path, monkeypatch, file: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "world-pretrain").mkdir()
    if file is not None:
        (tmp_path / "world-pretrain" / file).write_text("{}", encoding="utf-8")
    found = parent_recipe(load_recipe("world-finetune"))
    assert found.about == load_recipe("world-pretrain").about
    if file == "config.json":
        with refused(ConfigError, "init-from-huggingface"):
            load_recipe("world-finetune", {"init_from": "./world-pretrain"})


def test_a_recipe_that_starts_from_itself_is_told_so(tiny, tmp_path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(dump_yaml({**tiny, "init_from": str(one)}), encoding="utf-8")
    with refused(ConfigError, "init-from-cycle", "one.yaml -> one.yaml"):
        load_recipe(one)
    one.write_text(dump_yaml({**tiny, "init_from": str(two)}), encoding="utf-8")
    two.write_text(dump_yaml({**tiny, "init_from": str(one)}), encoding="utf-8")
    with refused(ConfigError, "init-from-cycle", "two.yaml -> one.yaml -> two.yaml"):
        load_recipe(one)


def test_a_parent_reads_the_world_that_the_child_is_asked_about():
    child = load_recipe("world-finetune", {"data.set": {"kind": "world", "people": 70, "sound": 1.0}})
    assert parent_recipe(child).to_dict()["data"]["set"] == child.to_dict()["data"]["set"]
    other = load_recipe("world-finetune", {"data.path": "mine.txt"})  # any other data stay the parent's own
    assert parent_recipe(other).to_dict()["data"]["set"]["sound"] == 0.5


class TestTheTokenizerOfAPretrainedEncoder:
    """A recipe says which tokenizer is really used: that of the folder."""

    FOLDER = "models/bert"
    OWN: ClassVar = {"kind": "file", "file": "models/bert/tokenizer.json"}

    def recipe(self, **more: object) -> Recipe:
        model = {"kind": "pretrained", "folder": self.FOLDER}
        return load_recipe({**SMALLEST, "objective": "labels", "model": model, **more})

    def test_is_written_down(self) -> None:
        assert self.recipe().to_dict()["tokenizer"] == self.OWN
        assert load_recipe("sst2-minilm").to_dict()["tokenizer"]["file"].endswith("all-MiniLM-L6-v2/tokenizer.json")

    def test_is_what_a_recipe_without_one_means(self) -> None:
        assert self.recipe(tokenizer=self.OWN) == self.recipe()

    def test_no_other_can_be_chosen(self) -> None:
        with pytest.raises(
            ConfigError, match=r"tokenizer=word is not the tokenizer of model.folder=models/bert.*leave tokenizer out"
        ):
            self.recipe(tokenizer={"kind": "word", "min_count": 2})


def test_an_encoders_folder_beside_the_recipe_is_found_from_anywhere(tmp_path, monkeypatch) -> None:
    """A name that is no folder here would be looked for on the hub."""
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "tokenizer.json").write_text("{}", encoding="utf-8")
    values = {"model": {"kind": "pretrained", "folder": "tiny"}, "tokenizer": {"kind": "file", "file": "tiny/tokenizer.json"}}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = with_files_found(values, tmp_path)
    assert found["model"]["folder"] == str(tmp_path / "tiny")
    assert found["tokenizer"]["file"] == str(tmp_path / "tiny" / "tokenizer.json")
    assert with_files_found({"model": {"folder": "org/name"}}, tmp_path) == {"model": {"folder": "org/name"}}
    monkeypatch.chdir(tmp_path)
    assert with_files_found(values, tmp_path / "elsewhere") == values


def test_questions_and_the_parent_beside_the_recipe_are_found_from_anywhere(tmp_path, monkeypatch) -> None:
    for name in ("text.txt", "more.txt", "questions.tsv", "parent.yaml"):
        (tmp_path / name).write_text("data: {set: docstrings}\ntraining: {steps: 1}\n", encoding="utf-8")
    (tmp_path / "docstrings-char").mkdir()  # no run: the name stays that of the built-in recipe
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    data = {"path": "text.txt", "vocabulary": ["more.txt", "none.txt"], "questions": {"train": "questions.tsv", "test": None}}
    found = with_files_found({"init_from": "parent.yaml", "data": data}, tmp_path)
    assert found == {
        "init_from": str(tmp_path / "parent.yaml"),
        "data": {
            "path": str(tmp_path / "text.txt"),
            "vocabulary": [str(tmp_path / "more.txt"), "none.txt"],
            "questions": {"train": str(tmp_path / "questions.tsv"), "test": None},
        },
    }
    assert with_files_found({"init_from": "docstrings-char"}, tmp_path) == {"init_from": "docstrings-char"}
    file = tmp_path / "child.yaml"
    file.write_text("init_from: parent.yaml\ndata: {set: docstrings}\ntraining: {steps: 1}\n", encoding="utf-8")
    assert load_recipe(file).init_from == str(tmp_path / "parent.yaml")
