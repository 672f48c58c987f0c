"""The data config: one source, columns of one kind, shares that leave something; and what a new source removes."""

from __future__ import annotations

import pytest

from glassformer.data.config import DataConfig, SplitConfig, replace_source
from glassformer.foundation.errors import ConfigError


def test_defaults_hold_out_a_tenth_and_leave_the_rest_to_the_source() -> None:
    config = DataConfig.parse({"path": "a.txt"})
    assert (config.split.validation, config.split.test, config.split.seed) == (0.1, 0.0, 0)
    assert (config.document, config.format, config.text_column) == (None, None, None)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "neither is given"),
        ({"set": "docstrings", "path": "a.txt"}, "both are given"),
        ({"path": ""}, "may not be empty"),
        ({"path": "a", "split": {"validation": 0.6, "test": 0.4}}, "leave nothing to train on"),
        ({"path": "a", "split": {"validation": -0.1}}, "data.split.validation=-0.1"),
        ({"path": "a", "split": {"validaton": 0.2}}, "Did you mean 'validation'?"),
        ({"path": "a", "document": "paragraph"}, "data.document='paragraph'"),
        ({"path": "a", "text_column": 0}, "text_column=0 must be a name, or a number counted from 1"),
        ({"path": "a", "text_column": "text", "label_column": 1}, "must all be names"),
        ({"path": "a", "text_colum": "text"}, "Did you mean 'text_column'?"),
    ],
)
def test_wrong_values_are_refused_with_a_sentence(values: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        DataConfig.parse(values, at="data")


def test_columns_may_be_named_or_numbered() -> None:
    assert DataConfig.parse({"path": "a", "text_column": "text", "label_column": "who"}).label_column == "who"
    assert DataConfig.parse({"path": "a", "text_column": 2, "label_column": 1}).text_column == 2


def test_a_new_source_removes_the_old_one_and_its_files() -> None:
    old = {"set": "speeches", "test": "obama", "split": {"seed": 3}, "vocabulary": ["more.txt"]}
    assert replace_source(old, {"path": "mine.txt"}) == {"split": {"seed": 3}}
    assert replace_source({"path": "a.txt", "document": "line"}, {"set": "docstrings"}) == {"document": "line"}


def test_other_changes_remove_nothing() -> None:
    old = {"path": "a.txt", "validation": "b.txt"}
    assert replace_source(old, {"path": "c.txt", "document": "line"}) == old
    assert replace_source(old, {"set": None}) == old


def test_the_section_is_not_changed_in_place() -> None:
    old = {"set": "speeches"}
    replace_source(old, {"path": "a"})
    assert old == {"set": "speeches"}


def test_a_split_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        SplitConfig().validation = 0.5  # type: ignore[misc]
