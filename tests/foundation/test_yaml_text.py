"""YAML, bounded: what a recipe needs reads as expected; what is hostile or mistaken is one sentence, soon."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.yaml_text import MAX_BYTES, MAX_DEPTH, SectionReader, dump_yaml, parse_yaml

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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", "line 2: aliases"),
        ("a: &x\n  b: *x\n", "line 2: aliases"),  # refers to itself
        ("&x [*x]", "line 1: aliases"),
        (nested(MAX_DEPTH + 1), "levels of nesting"),
        (nested(200_000), "levels of nesting"),
        ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' is given twice"),
        ("a: {b: 1, b: 2}", "the key 'b' is given twice"),
        ("1: x", "the key 1 is not text"),
        ("? [a]\n: b\n", "is not text"),
        ("a: !!python/object/apply:os.system [echo]", "tags"),
        ("a: !!binary aGVsbG8=", "tags"),
        ("a: !!set {b}", "tags"),
        ("a: ! b", "tags"),
        ("<<: {a: 1}", "not valid YAML"),
        ("a: b: c", "line 1: not valid YAML"),
        ("a: [1, 2", "not valid YAML"),
        ("a: 1\n---\nb: 2\n", "not valid YAML"),
        ("a: \0", "not valid YAML"),
        ("a: " + "9" * 5000, "not valid YAML"),
        ("x" * (MAX_BYTES + 1), "larger than 1 MiB"),
    ],
)
def test_hostile_or_mistaken_text_is_one_sentence(text: str, words: str) -> None:
    begun = time.process_time()
    with pytest.raises(ConfigError, match="my recipe") as caught:
        parse_yaml(text, "my recipe")
    assert words in str(caught.value)
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


def test_the_fast_reader_reads_what_the_careful_one_reads() -> None:
    from glassformer.foundation import yaml_text
    from glassformer.recipe import built_in_recipes

    texts = [
        "a: 1",
        "a: 5e-4\nb: [1, .inf]\nc: null",
        "a:\n- x\n- {b: true}",
        "- 2024-01-01",
        "'a b': ' 1'",
        "a: 0x1F",
        "",
        "~",
    ]
    texts += [file.read_text(encoding="utf-8") for file in built_in_recipes().values()]
    plain = [text for text in texts if yaml_text._is_plain(text)]
    assert len(plain) > len(texts) // 2
    for text in plain:
        careful = yaml_text._Loader(text, "x").get_single_data()
        assert repr(yaml_text._fast_value(text)) == repr(careful) == repr(yaml_text.parse_yaml(text)), text
    deep = "\n".join(" " * level + "a:" for level in range(40))
    for text in ("a: *b", "a: &b 1", "a: !x 1", "[" * 20 + "]" * 20, "- - - 1", deep, "? a\n: b"):
        assert not yaml_text._is_plain(text), text
    with pytest.raises(ConfigError, match="given twice"):
        yaml_text._fast_value("a: 1\na: 2")


@given(
    st.lists(st.dictionaries(st.sampled_from(["model", "seed", "data"]) | st.text(max_size=4), PLAIN, max_size=3), max_size=4)
)
@example([{"about": "two\nseed: 1\nlines"}, {"about": "it's\n\nseed: 'x"}])
def test_sections_read_once_give_what_whole_documents_give(documents: list[dict[str, object]]) -> None:
    read = SectionReader()
    for document in [*documents, *documents]:
        assert read(dump_yaml(document)) == document


def test_a_section_is_read_once(monkeypatch) -> None:
    from glassformer.foundation import yaml_text

    asked: list[str] = []
    monkeypatch.setattr(yaml_text, "parse_yaml", lambda text, source="YAML": asked.append(text) or parse_yaml(text, source))
    read = SectionReader()
    assert [read(f"model:\n  width: 8\nseed: {seed}\n")["seed"] for seed in (1, 2)] == [1, 2]
    assert asked == ["model:\n  width: 8\n", "seed: 1\n", "seed: 2\n"]


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2\n", "a: [\nb: 2\n", "a: 'x\nb: y'\n", "--- \na: 1\n", "a: &x 1\nb: *x\n", "a: 1\n b: 2\n"]
)
def test_sections_refuse_what_whole_documents_refuse(text: str) -> None:
    def said(read: object) -> object:
        try:
            return read(text, "recipe")  # type: ignore[operator]
        except ConfigError as error:
            return str(error)

    assert said(SectionReader()) == said(parse_yaml)
