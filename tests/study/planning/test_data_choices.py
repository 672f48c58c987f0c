"""Choices of data that no seed repeats are named before the first run."""

from __future__ import annotations

import pytest

from glassformer.recipe import Recipe
from glassformer.study.planning.variant_data import _data_choice_notes

LABELS = {"objective": "classify", "tokenizer": "word", "model": {"width": 12, "layers": 1, "heads": 3, "context": 16}}


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"set": "boolq-passages"}, None),
        ({"set": "boolq-passages", "group": "title"}, None),
        ({"set": "boolq-passages", "group": "question"}, "data.group=question stands instead of title"),
        ({"set": "sst2", "few": 8}, "one draw of data.few=8"),
    ],
)
def test_notes(data, named):
    notes = _data_choice_notes(Recipe.parse({"data": data, **(LABELS if "few" in data else {"tokenizer": "char"})}))
    assert (notes == []) if named is None else (len(notes) == 1 and named in notes[0])
