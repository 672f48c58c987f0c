"""Looking inside from the page: the maps of the lens, a byte each; a head taken out, and nothing left of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from glassformer.data.tokenizers.byte import ByteTokenizer

pytest.importorskip("glassformer.lens.look", reason="this version has no lens")


def test_the_maps_are_those_of_the_lens(page, trained_folder) -> None:
    from glassformer.lens.page import table, view
    from glassformer.run import load

    found = page.post("/api/look", json={"run": "run", "text": "the cat sat", "hide": [2]}).json()
    seen = load(trained_folder / "run").look("the cat sat", hide=[2])
    assert found["view"] == {**view(seen), "maps": None, "table": None}  # what pages that are sent draw, too
    maps = page.get("/api/look/maps", params={"look": found["look"]}).content
    shown = (np.frombuffer(maps, np.uint8).reshape(seen.attention.shape) / 255) ** 2
    np.testing.assert_allclose(shown, seen.attention, atol=0.004)
    assert not shown[..., 2].any()
    assert sum(one["probability"] for one in found["next"]) <= 1 + 1e-9
    assert page.get("/api/look/heads", params={"look": found["look"]}).json()["table"] == table(seen)


def test_a_head_taken_out_moves_the_next_token_and_is_put_back(page) -> None:
    wanted = {"run": "run", "text": "the cat sat"}
    before = page.post("/api/look", json=wanted).json()
    without = page.post("/api/look", json={**wanted, "without": [[0, 1]]}).json()
    assert without["before"] == before["next"]
    assert [one["id"] for one in without["next"]][: len(before["next"])] == [one["id"] for one in before["next"]]
    assert without["next"] != before["next"]
    assert page.post("/api/look", json=wanted).json()["next"] == before["next"]


def test_what_is_not_there_is_a_sentence(page) -> None:
    assert (
        "must be a layer and a head"
        in page.post("/api/look", json={"run": "run", "text": "a", "without": [[-1, 0]]}).json()["error"]
    )
    assert "empty" in page.post("/api/look", json={"run": "run", "text": ""}).json()["error"]
    for path in ("maps", "heads"):
        assert page.get(f"/api/look/{path}", params={"look": "gone"}).status_code == 404
    look = page.post("/api/look", json={"run": "run", "text": "the cat"}).json()["look"]
    for kind, other, sentence in [
        ("magic", "", "is not a readout"),
        ("patching", "", "another text"),
        ("patching", "a", "equally many"),
    ]:
        answer = page.post("/api/look/readout", json={"look": look, "kind": kind, "other": other})
        assert sentence in answer.json()["error"]


def test_a_head_that_the_other_run_does_not_have_is_left_alone(page) -> None:
    wanted = {"run": "run", "text": "the cat sat"}
    found = page.post("/api/look", json={**wanted, "without": [[7, 0]]}).json()
    assert found["before"] == found["next"]


def readout(page, kind: str, other: str = "", checkpoint: str = "last") -> dict[str, object]:
    look = page.post("/api/look", json={"run": "run", "text": "the cat sat", "checkpoint": checkpoint}).json()["look"]
    return page.post("/api/look/readout", json={"look": look, "kind": kind, "other": other}).json()


@pytest.mark.parametrize(("kind", "other", "said"), [("effects", "a mat", "this text and 1 more"), ("rollout", "", "residual")])
def test_readouts_are_figures_with_words(page, kind, other, said) -> None:
    block, *_ = readout(page, kind, other)["blocks"]
    assert block["picture"].startswith("data:image/svg+xml")
    assert said in block["caption"]


def test_patching_from_a_text_that_ends_otherwise(page) -> None:
    answers = [readout(page, "patching", f"the cat sa{letter}", "untrained") for letter in "hen aot"]
    drawn = [answer["blocks"][0] for answer in answers if "blocks" in answer]
    assert drawn, "no letter makes this model say another one"
    assert "comes next" in drawn[0]["caption"]
    assert all("nothing to restore" in answer["error"] for answer in answers if "blocks" not in answer)


def test_the_first_text_fits_the_context(page) -> None:
    """Look begins with the run's own validation text, and the model takes it."""
    text = page.get("/api/look/text", params={"run": "run"}).json()["text"]
    assert text.strip()
    answer = page.post("/api/look", json={"run": "run", "text": text})
    assert answer.status_code == 200


@pytest.mark.parametrize("kind", ["texts", "questions", "sources"])
def test_the_first_text_is_one_of_the_runs_own(kind) -> None:
    """Of pairs and questions, too: a sentence about a cat has hardly a token that such a run knows."""
    from glassformer.generation.texts import beginning

    items = SimpleNamespace(**{kind: ("71999 is odd", "5")})
    assert beginning(items, ByteTokenizer(), 20) == "71999 is odd"
    assert beginning(items, ByteTokenizer(), 10) == "71999 is"
    assert beginning(SimpleNamespace(ids=()), ByteTokenizer(), 10) == ""


@pytest.mark.parametrize(("text", "most", "short"), [("the cat sat", 9, "the cat"), ("hippopotamus", 7, "hippo"), ("a", 1, "")])
def test_shortened_by_words_and_then_by_characters(text, most, short) -> None:
    from glassformer.generation.texts import shortened

    assert shortened(text, ByteTokenizer(), most) == short


def test_a_walk_of_one_token(page) -> None:
    found = page.post("/api/walk", json={"run": "run", "text": "the cat", "position": 2}).json()
    assert found["position"] == 2
    assert found["steps"][-1]["kind"] == "outputs"
    assert "position" in page.post("/api/walk", json={"run": "run", "text": "the", "position": 99}).json()["error"]
    assert page.post("/api/walk", json={"run": "run", "text": "the", "position": "x"}).status_code == 400
