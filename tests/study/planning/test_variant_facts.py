"""The book of variants: kept, read back, refused when plugins or data are others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, RunError
from glassformer.study.planning.variant_facts import Facts, VariantBook, differences

FACTS = Facts(
    recipe="r",
    data="d",
    documents="x",
    parameters=7,
    step_flops=11,
    steps=13,
    matched={"a": 1},
    tuned={"b": 2},
    notes=("said",),
)
PLUGIN = {"file": "mine.py", "sha256": "ab"}


def test_written_and_read_back(tmp_path: Path) -> None:
    file = tmp_path / "variants.json"
    assert VariantBook.read(file) == VariantBook({})
    book = VariantBook({"base": FACTS}, (PLUGIN,))
    book.write(file)
    assert VariantBook.read(file) == book


def test_what_follows_from_the_facts() -> None:
    assert FACTS.flops == 143
    assert FACTS.adapted == {"a": 1, "b": 2}


@pytest.mark.parametrize("content", ["{}", '{"schema": 1, "plugins": [], "variants": {"base": {"odd": 1}}}', "[]", "{"])
def test_a_damaged_book_is_a_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "variants.json"
    file.write_text(content)
    with pytest.raises(RunError, match="damaged"):
        VariantBook.read(file)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "variants.json"
    file.write_text('{"schema": 8, "plugins": [], "variants": {}}')
    with refused(RunError, "other-schema", "8"):
        VariantBook.read(file)


def test_plugins_may_not_change_on_the_way() -> None:
    book = VariantBook({"base": FACTS}, (PLUGIN,))
    book.require_same_plugins([{"file": "elsewhere/mine.py", "sha256": "ab"}], Path("f"))
    for now in ([], [{"file": "mine.py", "sha256": "cd"}], [PLUGIN, {"file": "more.py", "sha256": "ef"}]):
        with refused(ConfigError, "plugins-changed"):
            book.require_same_plugins(now, Path("f"))
    VariantBook({}).require_same_plugins([PLUGIN], Path("f"))  # a study that begins
    helped = {**PLUGIN, "imports": {"helper.py": "12"}}
    VariantBook({"base": FACTS}, (helped,)).require_same_plugins([helped], Path("f"))
    with refused(ConfigError, "plugins-changed"):
        VariantBook({"base": FACTS}, (helped,)).require_same_plugins([{**PLUGIN, "imports": {"helper.py": "34"}}], Path("f"))


def test_data_may_not_change_on_the_way() -> None:
    book = VariantBook({"base": FACTS})
    book.require_same_data("base", FACTS, Path("f"))
    book.require_same_data("new", replace(FACTS, data="other"), Path("f"))
    with refused(ConfigError, "data-changed", "'base'"):
        book.require_same_data("base", replace(FACTS, data="other"), Path("f"))


def test_the_run_it_starts_from_may_not_change_on_the_way() -> None:
    book = VariantBook({"base": replace(FACTS, parent="weights")})
    book.require_same_data("base", replace(FACTS, parent="weights"), Path("f"))
    with refused(ConfigError, "parent-changed", "'base'"):
        book.require_same_data("base", replace(FACTS, parent="other"), Path("f"))
    VariantBook({"base": FACTS}).require_same_data("base", replace(FACTS, parent="other"), Path("f"))  # of an older version


@pytest.mark.parametrize("law", ["causality", "batch", "state", "padding", "cache"])
def test_every_law_of_a_model_has_its_words(law: str) -> None:
    """The laws that a check of a fresh model can find broken."""
    told = replace(FACTS, leak="x", check={"findings": [{"law": law, "where": "merge"}]}).cheats
    assert told.endswith("its predictions (at merge)")


def test_a_leak_of_a_trained_model_is_told_from_one_of_a_fresh_one() -> None:
    finding = {"law": "causality", "where": "merge"}
    assert replace(FACTS, leak="x", check={"findings": []}).leak_kind == "trained"
    assert replace(FACTS, leak="x", check={"findings": [finding]}).leak_kind == "untrained"
    assert replace(FACTS, check={"findings": []}).leak_kind == ""
    assert replace(FACTS, leak="x", check={"findings": []}, leaks_in_step=True).leak_kind == "in step"
    assert replace(FACTS, leak="x", check={"findings": [], "cannot_tell": {"cache": "y"}}).leak_kind == "unjudged"


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["model.norm"], []),
        (["model.norm", "model.block"], []),
        (["model.dropout"], []),
        (["training.optimizer", "training.lr"], []),
        (["tokenizer", "data.vocabulary"], []),
        (["data.path", "data.validation"], []),
        (["model.norm", "training.steps"], []),  # counted as tokens
        (["model.norm", "model.dropout"], ["model.dropout=0 instead of 0.2"]),
        (["model.norm", "training.clip", "data.path", "tokenizer"], ["data.path", "tokenizer", "training.clip"]),
        (["objective", "data.label_column", "training.lr"], ["training.lr"]),
        (["model.dropout", "training.lr"], ["training.lr"]),
    ],
)
def test_settings_beside_the_change_are_said(sets: list[str], said: list[str]) -> None:
    base, own = (replace(FACTS, settings={"model.dropout": dropout}) for dropout in (0.2, 0.0))
    assert [one.text for one in differences(base, own, sets)] == [f"its own {key}" for key in said]


def test_dropout_that_was_forgotten_is_said() -> None:
    base, own = (replace(FACTS, chances=count) for count in (7, 3))
    assert [one.text for one in differences(base, own, ["model.block"])] == ["dropout in 3 places instead of 7"]
    for sets in (["model.dropout"], ["model.layers"], ["objective"]):
        assert differences(base, own, sets) == []
    assert differences(base, replace(own, chances=None), ["model.block"]) == []


def test_what_parents_have_read_is_said() -> None:
    base, own = (replace(FACTS, read_by_parents=share) for share in (0.1, 0.75))
    assert [one.what for one in differences(base, own, ["init_from"])] == ["judged text"]
    assert differences(own, own, ["model.norm"]) == []
