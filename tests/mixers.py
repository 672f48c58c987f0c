"""A mixer by its name, as a recipe must have it: one that borrows keys stands behind one that lends them."""

from __future__ import annotations

from typing import Any

from glassformer.model.slots import MIXERS


def placed(mixer: Any) -> Any:
    return ["dot", mixer] if isinstance(mixer, str) and MIXERS.get(mixer).borrows_keys else mixer
