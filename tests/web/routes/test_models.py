"""Generating, asking and tokens: what the command line prints, piece by piece."""

from __future__ import annotations

import json

from glassformer import experiment
from glassformer.data.tokenizers.bpe import BPETokenizer
from glassformer.data.tokenizers.bpe_training import train
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.data.tokenizers.pretokenization import LEVELS
from glassformer.run import load
from glassformer.web.routes.models import LONGEST_WORD, MOST_SYMBOLS


def test_text_comes_in_pieces_with_what_stood_beside(page, trained_folder) -> None:
    wanted = {"run": "run", "prompt": "the", "max_new_tokens": 9, "temperature": 0.7, "seed": 5}
    *pieces, last = [json.loads(line) for line in page.post("/api/generate", json=wanted).text.splitlines()]
    (sample,) = load(trained_folder / "run").generate("the", max_new_tokens=9, temperature=0.7, seed=5)
    assert last["sample"] == sample.to_dict()
    assert "".join(piece["piece"] for piece in pieces) == sample.text
    assert len(last["tokens"]) == sample.tokens == 9
    for one in last["tokens"]:
        chances = [other["probability"] for other in one["alternatives"]]
        assert chances == sorted(chances, reverse=True)
        assert 0 < one["probability"] <= chances[0] <= 1


def test_wrong_words_are_sentences(page) -> None:
    assert "max_new_tokens" in page.post("/api/generate", json={"run": "run", "max_new_tokens": 10**9}).json()["error"]
    assert "temprature" in page.post("/api/generate", json={"run": "run", "temprature": 1.0}).json()["error"]
    last = page.post("/api/generate", json={"run": "run", "temperature": -1.0}).text.splitlines()[-1]
    assert "temperature" in json.loads(last)["error"]
    assert page.post("/api/generate", json={"run": "gone"}).status_code == 404


def test_a_run_that_answers_nothing_says_so(page) -> None:
    answer = page.post("/api/ask", json={"run": "run", "questions": ["Where?"]})
    assert answer.status_code in (400, 409)
    assert answer.json()["error"].endswith(".")


def test_beams_are_bounded(page) -> None:
    for beams in (0, 10**7):
        answer = page.post("/api/ask", json={"run": "run", "questions": ["Where?"], "beams": beams})
        assert (answer.status_code, answer.json()["error"]) == (400, f"beams={beams} cannot be used here: give 1 to 100.")


def test_tokens(page, trained_folder) -> None:
    found = page.get("/api/tokens", params={"run": "run", "text": "the cat"}).json()
    tokenizer = load_tokenizer(trained_folder / "run" / "tokenizer.json")
    assert [one["id"] for one in found["tokens"]] == tokenizer.encode("the cat")
    assert found["words"][0]["symbols"] == list("the cat")
    assert page.get("/api/tokens", params={"run": "run", "text": "a" * 30_000}).status_code in (400, 431)


def test_a_word_that_is_too_long_is_not_followed(client, folder) -> None:
    tokenizer = BPETokenizer(train({"ab": 5, "abc": 4}, LEVELS["byte"], vocab=259, special=["</s>"]))
    tokenizer.save(folder / "one" / "tokenizer.json")
    text = "ab" * (LONGEST_WORD // 2 + 1) + " abc" * MOST_SYMBOLS
    found = client.get("/api/tokens", params={"run": "one", "text": text}).json()
    assert [one["id"] for one in found["tokens"]] == tokenizer.encode(text)
    steps = [word["steps"] for word in found["words"]]
    assert (steps[0], len(steps[1]), steps[-1]) == (None, 2, None)
    assert sum(len(word["symbols"]) for word in found["words"] if word["steps"] is not None) <= MOST_SYMBOLS


def test_abilities(page) -> None:
    found = page.get("/api/run/abilities", params={"run": "run"}).json()
    assert (found["generates"], found["answers"], found["checkpoints"], found["heads"]) == (True, False, [5, 6], 2)


def test_translation(page, trained_folder) -> None:
    recipe = {
        "data": {"set": {"kind": "rewriting", "task": "copy", "pairs": 40, "held_out": 4, "length": 3}},
        "tokenizer": {"kind": "word", "marks": False, "min_count": 1},
        "model": {"kind": "encoder-decoder", "width": 16, "layers": 1, "heads": 2, "context": 16},
        "objective": "translate",
        "training": {"steps": 1, "batch_size": 4},
    }
    run = experiment.train(recipe, out=trained_folder / "copies")
    found = page.post("/api/translate", json={"run": "copies", "texts": ["a b", "c"], "beams": 2}).json()["translations"]
    assert found == [one.to_dict() for one in run.translate(["a b", "c"], beams=2)]
    assert page.get("/api/run/abilities", params={"run": "copies"}).json()["translates"]
    view = page.post("/api/look", json={"run": "copies", "text": "a b"}).json()["view"]
    assert view["keys"] == ["a", "b", "<end>"]
    assert page.post("/api/translate", json={"run": "run", "texts": ["a"]}).status_code in (400, 409)
