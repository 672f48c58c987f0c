"""By hand: attention on paper, as problems to solve and questions to explore.

``attend_by_hand`` calculates, ``solve`` and ``replace_key`` answer what given keys can do, ``explore`` runs a named
exploration. Loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.byhand.calculator import attend_by_hand as attend_by_hand
    from glassformer.byhand.explorations.base import explore as explore
    from glassformer.byhand.key_replacement import replace_key as replace_key
    from glassformer.byhand.solver import solve as solve

_HOMES = {"attend_by_hand": "calculator", "solve": "solver", "replace_key": "key_replacement", "explore": "explorations.base"}
__all__ = ["attend_by_hand", "explore", "replace_key", "solve"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
