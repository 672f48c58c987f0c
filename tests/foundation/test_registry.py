"""Slots: found by themselves, listed, suggested; a name taken twice is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from pydantic import Field
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.registry import Slot, VariantConfig


@pytest.fixture
def slot(tmp_path, monkeypatch) -> Iterator[Slot[VariantConfig]]:
    """A slot whose package has two files, each with one variant."""
    package = tmp_path / "spoons_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, title in (("wood", "Wooden"), ("tin", "Made of tin")):
        (package / f"{name}.py").write_text(
            "from pydantic import Field\n"
            "from glassformer.foundation.registry import Slot, VariantConfig\n"
            f"@Slot.every['kitchen.spoon'].variant({name!r})\n"
            f'class {name.title()}(VariantConfig):\n    """{title} spoon.\n\n    More."""\n'
            "    length: int = Field(default=20, ge=1)\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Slot("kitchen.spoon", "what to stir with", "spoons_of_a_test")
    del Slot.every["kitchen.spoon"]
    for name in [name for name in sys.modules if name.startswith("spoons_of_a_test")]:
        del sys.modules[name]


def test_files_are_found_when_first_asked_for(slot) -> None:
    assert "spoons_of_a_test.wood" not in sys.modules
    assert slot.names() == ["tin", "wood"]
    assert slot.get("tin").one_line() == "Made of tin spoon."
    assert Slot.every["kitchen.spoon"] is slot


def test_a_place_may_be_one_module(slot) -> None:
    one = Slot("kitchen.spoon", "what to stir with", "spoons_of_a_test.wood")
    assert one.names() == ["wood"]
    assert "spoons_of_a_test.tin" not in sys.modules


def test_a_name_a_mapping_a_config(slot) -> None:
    by_name = slot.parse("wood")
    assert (by_name.kind, by_name.length) == ("wood", 20)
    assert slot.parse({"kind": "wood", "length": 20}) == by_name
    assert slot.parse(by_name) is by_name
    assert by_name.to_dict() == {"kind": "wood", "length": 20}
    assert slot.parse(slot.parse({"kind": "tin", "length": 7}).to_dict()).length == 7


def test_settings_alone_are_of_the_variant_that_is_left_unsaid(slot) -> None:
    @slot.variant("silver")
    class Silver(VariantConfig):
        """Silver spoon."""

        kind_is_written = False
        length: int = 20

    assert slot.parse({"length": 7}) == Silver(length=7)
    assert slot.parse(Silver(length=7).to_dict()) == Silver(length=7)

    @slot.variant("own")
    class Own(Silver):
        """A plugin's, derived from it: another kind, which takes over no recipe."""

    assert slot.parse({"length": 7}) == Silver(length=7)
    assert Own().to_dict() == {"kind": "own", "length": 20}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("wod", "kitchen.spoon has no 'wod'. Did you mean 'wood'? Known: tin, wood."),
        ({"kind": "silver"}, "kitchen.spoon has no 'silver'. Known: tin, wood. Your own is loaded with --plugin FILE.py."),
        ({"kind": "wood", "lenght": 3}, "There is no key 'kitchen.spoon.lenght'. Did you mean 'length'? Known here: length."),
        ({"kind": "wood", "length": 0}, "kitchen.spoon.length=0 is not accepted"),
        ({"length": 3}, "kitchen.spoon={'length': 3} must be a name or a mapping with 'kind'; known: tin, wood."),
        (3, "kitchen.spoon=3 must be a name or a mapping with 'kind'"),
        (None, "kitchen.spoon has no 'none'"),
    ],
)
def test_mistakes_are_sentences(slot, value: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        slot.parse(value)
    assert str(caught.value).startswith(sentence)


def test_unknown_names_keep_what_was_known(slot) -> None:
    with pytest.raises(UnknownName) as caught:
        slot.get("silver")
    assert (caught.value.name, caught.value.known) == ("silver", ["tin", "wood"])


def test_a_name_taken_twice_is_refused(slot) -> None:
    taken = slot.get("wood")
    with refused(ConfigError, "variant-name-taken", "kitchen.spoon", "'wood'"):

        @slot.variant("wood")
        class Other(VariantConfig):
            """Another."""

    assert slot.get("wood") is taken


def test_the_same_class_again_is_not_a_clash(slot) -> None:
    """A module that is imported again (a plugin given twice) registers the same class."""
    slot.variant("wood")(slot.get("wood"))
    assert slot.names() == ["tin", "wood"]


def test_a_variant_without_a_docstring_is_refused(slot) -> None:
    with refused(ConfigError, "variant-without-docstring"):

        @slot.variant("plain")
        class Plain(VariantConfig):
            length: int = Field(default=1)

    assert "plain" not in slot.names()


class Bent(VariantConfig):
    """Its field would be written over the variant's name."""

    kind: str = "wood"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "made", "reason"),
    [
        (lambda config: config, Bent, "variant-without-name"),  # the decorator without a call
        ("bent", lambda length: length, "variant-without-config"),
        ("bent", int, "variant-without-config"),
        ("bent", Bent, "field-called-kind"),
    ],
)
def test_a_variant_needs_a_name_and_a_config(slot, name, made, reason) -> None:
    with refused(ConfigError, reason):
        slot.variant(name)(made)
    assert slot.names() == ["tin", "wood"]


def test_every_slot_of_the_project_names_its_variants() -> None:
    from glassformer.recipe import list_variants

    variants = list_variants()  # reading a slot's files may define further slots
    expected = {"tokenizer", "objective", "training.optimizer", "training.schedule"}
    expected |= {f"model.{part}" for part in ("mixer", "positions", "merge", "norm", "feedforward", "block", "head")}
    assert expected <= set(Slot.every)
    assert {one["slot"] for one in variants} == set(Slot.every)
    for one in variants:
        assert Slot.every[one["slot"]].get(one["name"]).kind == one["name"]
        assert one["about"].endswith((".", "?", "!")), one
