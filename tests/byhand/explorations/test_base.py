"""The family test: every exploration runs with other sizes, gives JSON, a paragraph and a picture, and obeys its seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.byhand.explorations.base import all_explorations, explore, find, orthonormal_rows, unit_rows, within
from glassformer.foundation.errors import ConfigError, UnknownName

NAMES = [entry.name for entry in all_explorations()]
SMALL = {
    "argmax": {"example": "random", "n": 5, "d": 3, "steps": 7, "wanted": 2},
    "averaging": {"n": 5, "d": 7, "beta": 3},
    "copying": {"n": 5, "d": 3, "beta": 4},
    "heads": {"n": 5, "d": 7, "draws": 50},
    "outer-products": {"d": 5, "beta": 1.5},
    "scaling": {"n": 5, "largest": 9, "draws": 11},
    "superposition": {"d": 7, "m": 3, "n": 5, "draws": 11},
}


@pytest.mark.parametrize("name", NAMES)
class TestEveryExploration:
    def test_runs_with_other_sizes_and_shows_itself(self, name):
        result = explore(name, **SMALL[name])
        assert {**result.settings, **SMALL[name]} == result.settings
        document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert document["exploration"] == name
        assert document["question"].endswith("?")
        assert len(result.text) > 300
        assert result.text in document["text"]
        assert "<svg" in result._repr_html_()

    def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(self, name):
        first, again, other = (explore(name, **SMALL[name], seed=seed).numbers for seed in (3, 3, 4))
        assert first == again
        assert first != other

    def test_every_setting_is_in_the_result(self, name):
        assert set(explore(name, **SMALL[name]).settings) == set(find(name).settings)

    def test_unknown_and_unfitting_settings_are_refused(self, name):
        with refused(UnknownName, "unknown-name", "seed"):
            explore(name, sedd=1)
        with refused(ConfigError, "wrong-type", "seed='x'"):
            explore(name, seed="x")
        with refused(ConfigError, "wrong-type", "seed=1.5"):
            explore(name, seed=1.5)
        with refused(ConfigError, "out-of-range"):
            explore(name, **({"d": 0} if "d" in find(name).settings else {"n": 0}))

    def test_has_a_page_in_the_docs(self, name):
        page = Path(__file__).parents[3] / "docs" / "byhand" / f"{name}.md"
        text = page.read_text(encoding="utf-8")
        for heading in ("## Question", "## Predict first", "## Run", "## Picture", "## Why"):
            assert heading in text
        assert f"glassformer byhand {name}" in text
        assert f"({name}.md)" in (page.parent / "index.md").read_text(encoding="utf-8")


def test_unknown_exploration_offers_the_nearest():
    with refused(UnknownName, "unknown-name", "copying"):
        explore("coping")


def test_random_rows():
    rng = np.random.default_rng(0)
    rows = orthonormal_rows(rng, 3, 7)
    np.testing.assert_allclose(rows @ rows.T, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(unit_rows(rng, 5, 2), axis=1), 1, atol=1e-14)


def test_within():
    within("n", 3, 3, 5)
    with refused(ConfigError, "out-of-range", "n=6", "3 and 5", "there are five"):
        within("n", 6, 3, 5, "there are five")
