"""YAML, bounded: what a recipe needs reads as expected; what is hostile or mistaken is one sentence, soon."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Callable
from types import ModuleType

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.foundation import yaml_text
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.yaml_text import MAX_BYTES, MAX_DEPTH, dump_yaml, parse_yaml
from glassformer.recipe import built_in_recipes

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-4", 0.0005),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-2.", -2.0),
        ("12", 12),
        ("1_000", 1000),
        ("none", "none"),
        ("null", None),
        ("", None),
        ("true", True),
        ("2024-01-01", "2024-01-01"),
        ("[0.9, 0.99]", [0.9, 0.99]),
        ("{kind: adamw, eps: 1e-8}", {"kind": "adamw", "eps": 1e-8}),
        ("a:\n  b: c d\n", {"a": {"b": "c d"}}),
    ],
)
def test_by_hand(text: str, value: object) -> None:
    read = parse_yaml(text)
    assert read == value
    assert type(read) is type(value)


@given(PLAIN)
@example("0E0")  # text that looks like a number
@example({"a\x85b": "c\u2028d"})  # rare line breaks
def test_what_is_written_is_read_back(value: object) -> None:
    assert parse_yaml(dump_yaml(value)) == value


def test_the_same_list_twice_is_written_out() -> None:
    twice = [1, 2]
    assert parse_yaml(dump_yaml({"a": twice, "b": twice})) == {"a": [1, 2], "b": [1, 2]}


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


MISTAKES = {
    "a: &x [1]\nb: *x\n": ("yaml-alias", "line 2"),
    "a: &x\n  b: *x\n": ("yaml-alias", "line 2"),  # refers to itself
    "&x [*x]": ("yaml-alias", "line 1"),
    nested(MAX_DEPTH + 1): ("yaml-too-deep", "32 levels"),
    nested(200_000): ("yaml-too-deep", "32 levels"),
    "a: 1\nb: 2\na: 3\n": ("key-twice", "line 3", "'a'"),
    "a: {b: 1, b: 2}": ("key-twice", "'b'"),
    "1: x": ("key-not-text", "the key 1"),
    "? [a]\n: b\n": ("key-not-text",),
    "a: !!python/object/apply:os.system [echo]": ("yaml-tag",),
    "a: !!binary aGVsbG8=": ("yaml-tag",),
    "a: !!set {b}": ("yaml-tag",),
    "a: ! b": ("yaml-tag",),
    "<<: {a: 1}": ("invalid-yaml",),
    "a: b: c": ("invalid-yaml", "line 1"),
    "a: [1, 2": ("invalid-yaml",),
    "a: 1\n---\nb: 2\n": ("invalid-yaml",),
    "a: \0": ("invalid-yaml",),
    "a: " + "9" * 5000: ("invalid-yaml",),
    "x" * (MAX_BYTES + 1): ("yaml-too-large", "1 MiB"),
}


@pytest.mark.parametrize(("text", "reason"), MISTAKES.items())
def test_hostile_or_mistaken_text_is_one_sentence(text: str, reason: tuple[str, ...]) -> None:
    begun = time.process_time()
    with refused(ConfigError, reason[0], "my recipe", *reason[1:]) as caught:
        parse_yaml(text, "my recipe")
    assert "\n" not in str(caught.value)
    assert time.process_time() - begun < 60  # of the processor, which other work does not add to


def test_the_deepest_that_is_allowed() -> None:
    value = parse_yaml(nested(MAX_DEPTH))
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


@given(st.text(max_size=60))
def test_any_text_is_a_value_or_a_sentence(text: str) -> None:
    said = ""
    with contextlib.suppress(ConfigError):
        parse_yaml(text)
        said = "a value"
    if not said:
        with pytest.raises(ConfigError, match=r"\.$"):
            parse_yaml(text)


def without_libyaml() -> ModuleType:
    """The module as it is where PyYAML was built without libyaml."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(yaml, "CSafeLoader", raising=False)
        spec = importlib.util.spec_from_file_location("yaml_text_without_libyaml", yaml_text.__file__)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@pytest.mark.parametrize(
    "text", [*MISTAKES, "a: 5e-4\nb: [1, .inf]\nc: null", "- 2024-01-01", "'a b': ' 1'", "a: 0x1F", "", "~"]
)
def test_both_parsers_read_and_refuse_the_same(text: str) -> None:
    def outcome(parse: Callable[[str, str], object]) -> object:
        try:
            return repr(parse(text, "x"))
        except ConfigError as error:
            return error.reason

    assert outcome(without_libyaml().parse_yaml) == outcome(parse_yaml)


def test_both_parsers_read_our_recipes() -> None:
    other = without_libyaml()
    for file in built_in_recipes().values():
        text = file.read_text(encoding="utf-8")
        assert other.parse_yaml(text) == parse_yaml(text)
