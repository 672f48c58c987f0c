"""A run with huge or damaged files: the page says so of this run, and shows the others."""

from __future__ import annotations

import os

import pytest


@pytest.mark.parametrize("name", ["recipe.yaml", "environment.json", "state.json", "metrics.jsonl"])
@pytest.mark.parametrize("content", [None, '{"a": 1}\n', '{"schema": 1}\n', "[]\n"])
def test_one_bad_file_is_no_fault_and_hides_no_other_run(client, folder, name, content) -> None:
    file = folder / "two" / name
    if content is None:
        os.truncate(file, 8 << 30)
    else:
        file.write_text(content)
    rows = {row["name"]: row["status"] for row in client.get("/api/folder").json()["runs"]}
    assert rows["one"] == "finished"
    assert "two" in rows
    for path in ("/api/run", "/api/run/curves", "/api/run/abilities", "/api/run/cost", "/api/run/sample"):
        answer = client.get(path, params={"run": "two"})
        assert answer.status_code < 500, (path, answer.text)


def test_damaged_lines_are_told_on_the_page(client, folder) -> None:
    with (folder / "one" / "metrics.jsonl").open("a") as stream:
        stream.write('{"a": 1}\n')
    health = client.get("/api/run", params={"run": "one"}).json()["health"]
    assert any("metrics.jsonl: 1 of its lines" in one["text"] for one in health)
