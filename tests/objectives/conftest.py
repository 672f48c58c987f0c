"""A small world, prepared as a recipe prepares it, and a network for it."""

from __future__ import annotations

import pytest

from glassformer.assembly import build_network, prepare_data, tools_for
from glassformer.recipe import load_recipe

WORLD = {
    "data": {"set": {"kind": "world", "people": 60}},
    "tokenizer": "char",
    "objective": "answers",
    "model": {"width": 16, "layers": 1, "heads": 2, "context": 96},
    "training": {"steps": 4, "batch_size": 8},
}


class Prepared:
    """Data, network and tools of a recipe about a small world."""

    def __init__(self, objective, **more) -> None:
        self.recipe = load_recipe({**WORLD, "objective": objective, **more})
        self.objective = self.recipe.objective
        self.data = prepare_data(self.recipe)
        self.network = build_network(self.recipe, self.data).eval()
        self.tools = tools_for(self.recipe, self.data.tokenizer)

    def batches(self, rows: int = 6, seed: int = 0, context: int = 96):
        return self.objective.batches(self.data, context=context, batch_size=rows, seed=seed)


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return Prepared
