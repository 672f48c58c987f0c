"""Configs: sentences that name field, value, rule and nearest key; dotted changes; differences; fingerprints."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError, model_validator

from glassformer.foundation.config import Config, diff, fingerprint, flatten, override, parse_assignment, value_at
from glassformer.foundation.errors import ConfigError


class Inner(Config):
    width: int = Field(default=8, ge=1)
    bend: Literal["relu", "gelu"] = "gelu"


class Outer(Config):
    lr: float = Field(gt=0)
    inner: Inner = Inner()
    compile: Literal["auto"] | bool = "auto"
    name: str | None = None

    @model_validator(mode="after")
    def _rule(self) -> Outer:
        if self.inner.width == 13:
            raise ValueError("inner.width=13 brings bad luck; use 12.")
        return self


def refused(values: object, at: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        Outer.parse(values, at=at)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_good_values_are_read_and_given_back() -> None:
    config = Outer.parse({"lr": 1, "inner": {"width": 5}})
    assert (config.lr, config.inner.width, config.inner.bend) == (1.0, 5, "gelu")
    assert Outer.parse(config.to_dict()) == config
    with pytest.raises(ValidationError):
        config.lr = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"lr": 1.0, "iner": {}}, "There is no key 'iner'. Did you mean 'inner'? Known here: compile, inner, lr, name."),
        ({"lr": 1.0, "inner": {"widht": 3}}, "There is no key 'inner.widht'. Did you mean 'width'? Known here: bend, width."),
        ({"lr": 1.0, "zzz": 1}, "There is no key 'zzz'. Known here: compile, inner, lr, name."),
        ({}, "lr is missing; give it a value."),
        ({"lr": "fast"}, "lr='fast' is not accepted: input should be a valid number."),
        ({"lr": -1.0}, "lr=-1.0 is not accepted: input should be greater than 0."),
        ({"lr": float("nan")}, "lr=nan is not accepted"),
        ({"lr": float("inf")}, "lr=inf is not accepted"),
        ({"lr": 1.0, "inner": {"width": 8.0}}, "inner.width=8.0 is not accepted: input should be a valid integer."),
        ({"lr": 1.0, "inner": {"width": True}}, "inner.width=True is not accepted: input should be a valid integer."),
        ({"lr": 1.0, "inner": {"bend": "tanh"}}, "inner.bend='tanh' is not accepted: input should be 'relu' or 'gelu'."),
        ({"lr": 1.0, "inner": {"width": 13}}, "inner.width=13 brings bad luck; use 12."),
        ({"lr": 1.0, "inner": 3}, "inner=3 is not accepted"),
        ({"lr": 1.0, "compile": "yes"}, "compile='yes' is not accepted: input should be 'auto', or a valid boolean."),
        ([1, 2], "Outer must be a mapping of keys to values, not [1, 2]."),
        (None, "Outer must be a mapping of keys to values, not None."),
    ],
)
def test_mistakes_are_sentences(values: object, sentence: str) -> None:
    assert refused(values).startswith(sentence)


def test_the_place_in_the_recipe_is_named() -> None:
    assert refused({"lr": 1.0, "inner": {"width": 0}}, at="training").startswith("training.inner.width=0 is not accepted")
    assert refused(3, at="training").startswith("training must be a mapping")


def test_a_huge_value_does_not_fill_the_screen() -> None:
    assert len(refused({"lr": "x" * 100_000})) < 400


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("model.width=64", "model.width", 64),
        ("a = 5e-4", "a", 5e-4),
        ("data.path=a=b.txt", "data.path", "a=b.txt"),
        ("model.positions=none", "model.positions", "none"),
        ("x=[1, 2]", "x", [1, 2]),
        ("x=", "x", None),
        ("data.path=-", "data.path", "-"),
    ],
)
def test_assignments(text: str, key: str, value: object) -> None:
    assert parse_assignment(text) == (key, value)


@pytest.mark.parametrize("text", ["model.width", "=3", " = 3", ""])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form key=value"):
        parse_assignment(text)


def test_a_bad_value_names_its_key() -> None:
    with pytest.raises(ConfigError, match=r"the value of model\.width, line 1"):
        parse_assignment("model.width=[1")


def test_overrides_by_hand() -> None:
    values = {"model": {"width": 8, "mixer": "dot"}, "seed": 1}
    changes = {"model.width": 16, "model.mixer.fused": False, "training.lr": 0.1, "seed": 2}
    assert override(values, changes) == {
        "model": {"width": 16, "mixer": {"kind": "dot", "fused": False}},
        "seed": 2,
        "training": {"lr": 0.1},
    }
    assert values == {"model": {"width": 8, "mixer": "dot"}, "seed": 1}  # untouched


def test_a_change_inside_something_without_parts() -> None:
    with pytest.raises(ConfigError, match=r"'seed\.a' cannot be set: seed is 3, which has no parts"):
        override({"seed": 3}, {"seed.a": 1})
    with pytest.raises(ConfigError, match="is not a dotted key"):
        override({}, {"model..width": 1})


KEYS = st.text("abcdef", min_size=1, max_size=3)
TREES = st.recursive(
    st.integers() | st.text(max_size=3), lambda t: st.dictionaries(KEYS, t, min_size=1, max_size=3), max_leaves=6
)


@given(st.dictionaries(KEYS, TREES, max_size=3))
def test_flat_keys_rebuild_the_tree(values: dict[str, object]) -> None:
    assert override({}, flatten(values)) == values


@given(st.dictionaries(KEYS, TREES, max_size=3), st.dictionaries(KEYS, TREES, max_size=3))
def test_differences(old: dict[str, object], new: dict[str, object]) -> None:
    assert diff(old, old) == {}
    assert {key: pair[::-1] for key, pair in diff(new, old).items()} == diff(old, new)
    assert (diff(old, new) == {}) == (flatten(old) == flatten(new))


def test_a_difference_by_hand() -> None:
    old, new = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "e": None}
    assert diff(old, new) == {"a.c": (2, 5), "d": (3, None)}


def test_fingerprints_do_not_depend_on_order() -> None:
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 1.5})
    assert fingerprint([1, 2]) != fingerprint([2, 1])
    with pytest.raises(ValueError, match="not JSON compliant"):
        fingerprint({"a": float("nan")})


def test_the_value_at_a_dotted_key() -> None:
    values = {"a": {"b": {"c": 1}, "none": None}, "d": 2}
    assert value_at(values, "a.b.c") == 1
    assert value_at(values, "a.b") == {"c": 1}
    assert value_at(values, "a.none", default=7) is None  # it is there
    assert (value_at(values, "a.x"), value_at(values, "d.x", default=7)) == (None, 7)


def test_what_is_hashed_in_pieces_is_the_whole() -> None:
    texts = [f"text {number} é" for number in range(8)]
    for values in (texts, tuple(texts), [texts, None, ["a", 1.5]], [[texts, 2], {"b": texts, "a": 1}], [], {"x": texts}, "one"):
        whole = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert fingerprint(values) == hashlib.sha256(whole.encode()).hexdigest()
