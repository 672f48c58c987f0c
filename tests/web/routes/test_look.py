"""Looking inside from the page: the maps of the lens, a byte each; a head taken out, and nothing left of it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("glassformer.lens.look", reason="this version has no lens")


def test_the_maps_are_those_of_the_lens(page, trained_folder) -> None:
    from glassformer.run import load

    found = page.post("/api/look", json={"run": "run", "text": "the cat sat"}).json()
    seen = load(trained_folder / "run").look("the cat sat")
    assert found["shape"] == list(seen.attention.shape)
    assert found["tokens"] == seen.queries
    maps = page.get("/api/look/maps", params={"maps": found["maps"]}).content
    shown = np.frombuffer(maps, np.uint8).reshape(found["shape"]) / 255
    np.testing.assert_allclose(shown, seen.attention, atol=0.5 / 255 + 1e-9)
    assert sum(one["probability"] for one in found["next"]) <= 1 + 1e-9


def test_a_head_taken_out_moves_the_next_token_and_is_put_back(page) -> None:
    wanted = {"run": "run", "text": "the cat sat"}
    before = page.post("/api/look", json=wanted).json()
    without = page.post("/api/look", json={**wanted, "without": [[0, 1]]}).json()
    assert without["before"] == before["next"]
    assert [one["id"] for one in without["next"]][: len(before["next"])] == [one["id"] for one in before["next"]]
    assert without["next"] != before["next"]
    assert page.post("/api/look", json=wanted).json()["next"] == before["next"]


def test_what_is_not_there_is_a_sentence(page) -> None:
    assert "no layer 7" in page.post("/api/look", json={"run": "run", "text": "a", "without": [[7, 0]]}).json()["error"]
    assert "empty" in page.post("/api/look", json={"run": "run", "text": ""}).json()["error"]
    assert page.get("/api/look/maps", params={"maps": "gone"}).status_code == 404
