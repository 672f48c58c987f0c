"""Glassformer: change one thing in a Transformer, and know whether it mattered."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.checking.target import check as check
    from glassformer.experiment import train as train
    from glassformer.recipe import Recipe as Recipe
    from glassformer.recipe import load_recipe as load_recipe
    from glassformer.recipe_cost import plan as plan
    from glassformer.run import Run as Run
    from glassformer.run import load as load
    from glassformer.runs.callbacks import Callback as Callback
    from glassformer.study.compare import compare as compare
    from glassformer.study.study import Study as Study

# On a busy machine, threads of torch that wait by spinning take the cores from those that work: let them sleep. torch reads the
# setting when it is loaded, so it is made here, for the command and for Python alike; it changes no bit of a result.
with suppress(OSError, AttributeError):  # not every machine tells its load
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_FACE = {
    "Callback": "glassformer.runs.callbacks",
    "Recipe": "glassformer.recipe",
    "Run": "glassformer.run",
    "Study": "glassformer.study.study",
    "check": "glassformer.checking.target",
    "compare": "glassformer.study.compare",
    "load": "glassformer.run",
    "load_recipe": "glassformer.recipe",
    "plan": "glassformer.recipe_cost",
    "train": "glassformer.experiment",
}
"""Name -> module. Imported when first used, so that reading a result does not load torch."""

__all__ = ["Callback", "Recipe", "Run", "Study", "check", "compare", "load", "load_recipe", "plan", "train"]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}; it has {', '.join(__all__)}")
    import importlib

    return getattr(importlib.import_module(_FACE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
