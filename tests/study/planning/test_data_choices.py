"""Choices of data that no seed repeats are named before the first run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.data.config import DataConfig
from glassformer.study.planning.variant_data import _data_choice_notes


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"set": "boolq"}, None),
        ({"set": "boolq", "group": "title"}, None),
        ({"set": "boolq", "group": "question"}, "data.group=question stands instead of title"),
        ({"set": "sst2", "few": 8}, "one draw of data.few=8"),
    ],
)
def test_notes(data, named):
    recipe: Any = SimpleNamespace(data=DataConfig.parse(data))
    notes = _data_choice_notes(recipe)
    assert (notes == []) if named is None else (len(notes) == 1 and named in notes[0])
