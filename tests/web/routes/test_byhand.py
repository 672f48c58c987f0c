"""Attention in the plane, by hand; goals in the words of the command line; no files from a browser."""

from __future__ import annotations

import math

import pytest


def test_weights_and_outputs_by_hand(client) -> None:
    wanted = {"keys": [[1, 0], [0, 1]], "values": [[2, 0], [0, 4]], "queries": [[0, 0], [math.log(3), 0]]}
    found = client.post("/api/byhand/plane", json=wanted).json()
    first, second = found["heads"]
    assert (first["weights"], first["output"]) == ([0.5, 0.5], [1.0, 2.0])
    assert second["weights"] == pytest.approx([0.75, 0.25])
    assert second["output"] == pytest.approx([1.5, 1.0])
    assert second["argmax"] == {"weights": [1.0, 0.0], "output": [2.0, 0.0]}
    assert found["mean"]["softmax"] == pytest.approx([1.25, 1.5])


def test_goals(client) -> None:
    found = client.post("/api/byhand/solve", json={"keys": [[1, 0], [0, 1]], "goal": "select 1"}).json()
    assert found["result"]["reachable"] is False or found["result"]["attained"] is False
    assert found["text"].startswith("select 1: possible in the limit")
    assert found["picture"].startswith("data:image/svg+xml")
    assert "goals" in client.get("/api/byhand").json()


@pytest.mark.parametrize("name", ["/etc/passwd.csv", "keys.npy", "../x.csv", "keys.CSV", "keys.Npy "])
def test_no_file_is_read_for_a_browser(client, folder, name) -> None:
    answer = client.post("/api/byhand/solve", json={"keys": name, "goal": "select 1"})
    assert (answer.status_code, "reads no files" in answer.json()["error"]) == (400, True)
    assert client.post("/api/byhand/plane", json={"keys": name, "values": [[1]], "queries": [[1]]}).status_code == 400


def test_what_does_not_fit_is_a_sentence(client) -> None:
    wanted = {"keys": [[1, 0]], "values": [[1, 0], [0, 1]], "queries": [[1, 1]]}
    assert "one value for every key" in client.post("/api/byhand/plane", json=wanted).json()["error"]
