"""New runs: refused as one types, priced, started as a process, stopped, resumed."""

from __future__ import annotations

import shutil
import time

import pytest

from glassformer.foundation.config import parse_assignment
from glassformer.recipe import built_in_recipes
from glassformer.runs.directory import RunDirectory
from glassformer.web.processes import Processes
from glassformer.web.server import make_app


def test_a_bad_recipe_is_refused_with_the_nearest_name(client) -> None:
    answer = client.post("/api/recipe/check", json={"base": "docstrings-char", "set": {"model.widht": 3}})
    assert answer.status_code == 400
    assert "Did you mean 'width'" in answer.json()["error"]
    assert "docstrings-char" in client.post("/api/recipe/check", json={"base": "docstring-char"}).json()["error"]
    assert client.post("/api/recipe/check", json={"base": "/etc/passwd"}).status_code == 400
    assert client.post("/api/recipe/check", json={"base": "run:../secret"}).status_code == 404


def test_a_run_called_like_a_recipe_is_not_taken_for_it(client, folder, make_run, monkeypatch) -> None:
    """The page proposes the recipe's name for the run, so the second run from a recipe finds the first one in its way."""
    make_run(folder / "docstrings-char", width=24)
    monkeypatch.chdir(folder)
    found = client.get("/api/recipe/schema", params={"base": "docstrings-char"}).json()
    assert found["recipe"]["model"]["layers"] == 4
    started: list[list[str]] = []
    monkeypatch.setattr(Processes, "start", lambda self, name, kind, words: started.append(words) or {})
    for more in ({}, {"vary": ["model.positions=none"]}):
        assert client.post("/api/start", json={"base": "docstrings-char", "name": "second", **more}).status_code == 200
    assert [words[1] for words in started] == [str(built_in_recipes()["docstrings-char"])] * 2


@pytest.mark.parametrize("text", ["x\U0001f600", "a\u2028b\x85\x7f\u00e9", "C:\\ud83d\\ude00", 'line\n"quoted"'])
def test_a_text_arrives_as_it_was_typed(client, monkeypatch, text) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(Processes, "start", lambda self, name, kind, words: started.append(words) or {})
    wanted = {"base": "docstrings-char", "name": "new", "set": {"about": text}}
    assert client.post("/api/start", json=wanted).status_code == 200
    assert parse_assignment(started[0][started[0].index("--set") + 1]) == ("about", text)


def test_recipes_and_schema(client) -> None:
    assert any(one["name"] == "docstrings-char" for one in client.get("/api/recipes").json()["recipes"])
    found = client.get("/api/recipe/schema", params={"base": "docstrings-char"}).json()
    assert found["recipe"]["model"]["layers"] == 4


def test_cost_of_a_run_and_of_a_study(page) -> None:
    alone = page.post("/api/recipe/cost", json={"base": "run:run"}).json()
    assert (alone["runs"], alone["plan"]["steps"]) == (1, 6)
    study = {"base": "run:run", "vary": ["model.positions=none,alibi"], "seeds": 3}
    assert page.post("/api/recipe/check", json=study).json()["changes"] == ["model.positions=none", "model.positions=alibi"]
    found = page.post("/api/recipe/cost", json=study).json()
    assert found["runs"] == 9
    assert found["flops"] > 8 * alone["flops"]


def wait_for(client, name: str, status: str) -> dict:
    end = time.monotonic() + 400
    while time.monotonic() < end:
        rows = {row["name"]: row for row in client.get("/api/folder").json()["runs"]}
        if name in rows and rows[name]["status"] == status:
            return rows[name]
        time.sleep(0.2)
    pytest.fail(f"{name} is not {status}: {client.get('/api/folder').json()['started']}")


def test_started_stopped_resumed_and_found_by_another_server(page, trained_folder) -> None:
    from starlette.testclient import TestClient

    try:
        wanted = {"base": "run:run", "name": "long", "set": {"training.steps": 100_000, "checkpoint.every": 50_000}}
        assert page.post("/api/start", json=wanted).json()["started"]["alive"]
        assert "already" in page.post("/api/start", json=wanted).json()["error"]
        wait_for(page, "long", "running")
        other = make_app(trained_folder, token="t", host="127.0.0.1", port=1, warm=False)
        again = TestClient(other, base_url="http://127.0.0.1:1", headers=dict(page.headers))
        assert again.get("/api/run", params={"run": "long"}).json()["started"]["alive"]
        assert again.post("/api/stop", json={"name": "long"}).status_code == 200
        at = wait_for(again, "long", "stopped")["step"]
        assert 0 < at < 100_000
        assert again.post("/api/resume", json={"name": "long", "steps": at + 3}).status_code == 200
        assert wait_for(again, "long", "finished")["step"] == at + 3
        assert RunDirectory(trained_folder / "long").steps()[-1] == at + 3
    finally:
        shutil.rmtree(trained_folder / "long", ignore_errors=True)
        shutil.rmtree(trained_folder / ".page", ignore_errors=True)


def test_what_cannot_be_started_or_stopped(client, folder) -> None:
    assert "not empty" in client.post("/api/start", json={"base": "docstrings-char", "name": "one"}).json()["error"]
    assert client.post("/api/start", json={"base": "docstrings-char", "name": "../up"}).status_code == 400
    assert "not running" in client.post("/api/stop", json={"name": "one"}).json()["error"]
    assert client.post("/api/stop", json={"name": "gone"}).status_code == 404
    assert "steps" in client.post("/api/resume", json={"name": "one", "steps": 0}).json()["error"]
    assert not (folder / ".page").exists()


class TestMyText:
    """A text of one's own: uploaded or named by its path, with the recipe that ``train FILE`` would choose."""

    def test_an_upload_is_saved_once_and_gets_its_recipe(self, client, folder, monkeypatch) -> None:
        text = b"the cat sat on the mat\n" * 50
        first = client.post("/api/upload", params={"name": "../my notes.txt"}, content=text).json()["path"]
        assert first == "texts/my-notes.txt"
        assert (folder / first).read_bytes() == text
        assert client.post("/api/upload", params={"name": "my notes.txt"}, content=text).json()["path"] == first
        other = client.post("/api/upload", params={"name": "my notes.txt"}, content=b"other").json()["path"]
        assert other == "texts/my-notes-2.txt"
        found = client.get("/api/recipe/schema", params={"base": f"text:{first}"}).json()["recipe"]
        assert found["data"]["path"] == str(folder / first)
        assert "character model of my-notes.txt" in found["about"]
        started: list[list[str]] = []
        monkeypatch.setattr(Processes, "start", lambda self, name, kind, words: started.append(words) or {})
        assert client.post("/api/start", json={"base": f"text:{first}", "name": "mine"}).status_code == 200
        assert started[0][:2] == ["train", str(folder / first)]

    def test_a_path_of_this_machine(self, client, tmp_path) -> None:
        (tmp_path / "table.csv").write_text("text,label\nfine,good\ndull,bad\n" * 20)
        found = client.post("/api/recipe/check", json={"base": f"text:{tmp_path / 'table.csv'}"}).json()["recipe"]
        assert found["objective"]["kind"] == "labels"

    def test_no_relative_path_leads_out_of_the_folder(self, client, folder) -> None:
        outside = folder.parent / "secret.txt"
        outside.write_text("hidden words\n" * 50)
        (folder / "link.txt").symlink_to(outside)
        (folder / "inside.txt").write_text("open words\n" * 50)
        codes = [
            client.post("/api/recipe/check", json={"base": f"text:{path}"}).status_code
            for path in ("../secret.txt", "link.txt", "inside.txt", outside)
        ]
        assert codes == [400, 400, 200, 200]

    @pytest.mark.parametrize(
        ("name", "stored"),
        [("日本.txt", "text.txt"), ("日本.csv.gz", "text.csv.gz"), ("über uns.md", "ber-uns.md"), ("_a.b.日本.TXT", "a.b.TXT")],
    )
    def test_names_in_every_script(self, client, name: str, stored: str) -> None:
        sent = client.post("/api/upload", params={"name": name}, content=b"some words")
        assert sent.json()["path"] == f"texts/{stored}"

    def test_what_is_no_text_is_refused(self, client, tmp_path, monkeypatch) -> None:
        for base in ("text:/etc/passwd", "text:nowhere.txt", f"text:{tmp_path}"):
            assert client.post("/api/recipe/check", json={"base": base}).status_code == 400
        assert client.post("/api/upload", params={"name": "run.py"}, content=b"x").status_code == 400
        monkeypatch.setattr("glassformer.web.routes.new_run.LARGEST_TEXT", 10)
        assert client.post("/api/upload", params={"name": "a.txt"}, content=b"x" * 11).status_code == 400
        assert not (tmp_path / "shown" / "texts").exists()

    def test_only_with_the_token(self, bare, folder) -> None:
        assert bare.post("/api/upload", params={"name": "a.txt"}, content=b"x").status_code in (401, 403)
        assert not (folder / "texts").exists()
