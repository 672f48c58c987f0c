"""A link inside the served folder leads nowhere, whatever its name and whichever route is asked: nothing outside is opened."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from glassformer.runs.checkpoint import MANIFEST, MODEL, OPTIMIZER, STATE, save_snapshot
from glassformer.runs.directory import RunDirectory
from glassformer.web.processes import Processes
from glassformer.web.security import TOKEN_HEADER
from glassformer.web.server import make_app

OPENED: list[str] = []
WATCHED: list[Path] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes whatever is opened or listed outside, unless it is opened in a way that follows no link."""
    if not WATCHED or event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], str | os.PathLike):
        return
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_NOFOLLOW:
        return
    if Path(os.path.realpath(arguments[0])).is_relative_to(WATCHED[0]):
        OPENED.append(f"{event} {arguments[0]}")


sys.addaudithook(_watch)


def names_in_a_run(run: RunDirectory) -> list[Path]:
    """Every file and folder that RunDirectory spells, and the files of a checkpoint."""
    step = run.steps()[-1]
    spelled = [path for path in vars(run).values() if isinstance(path, Path) and path != run.root]
    spelled += [run.evaluation_file("validation", step), run.snapshot(step), run.snapshot_manifest(step)]
    spelled += [run.checkpoint(step), *(run.checkpoint(step) / name for name in (MODEL, OPTIMIZER, STATE, MANIFEST))]
    return spelled


def whole_run(trained_folder: Path, place: Path) -> RunDirectory:
    """A trained run that has all its files."""
    shutil.copytree(trained_folder / "run", place)
    run = RunDirectory(place)
    run.report_file.write_text("a report")
    run.prediction_file.write_bytes(b"of a classifier")
    run.add_note("a note")
    run.record_opening(split="test")
    run.lock_file.write_text("1 here")
    save_snapshot(run, run.steps()[-1], {})
    run.evaluations.mkdir(exist_ok=True)
    if not run.evaluation_file("validation", run.steps()[-1]).exists():
        run.evaluation_file("validation", run.steps()[-1]).write_text("{}")
    shutil.copytree(place, run.parent)
    return run


def everything_below(folder: Path) -> dict[str, Any]:
    return {str(file): file.read_bytes() if file.is_file() else None for file in sorted(folder.rglob("*"))}


def ask_every_route(client: TestClient, name: str) -> list[str]:
    """Each route once, with words that reach the run."""
    words = {"run": name, "study": name, "text": "a", "base": f"run:{name}", "name": name, "prompt": "a", "questions": ["a"]}
    wanted = {
        "/api/generate": ("run", "prompt"), "/api/ask": ("run", "questions"), "/api/look": ("run", "text"),
        "/api/recipe/check": ("base",), "/api/recipe/cost": ("base",), "/api/start": ("base", "name"),
    }  # fmt: skip
    answers = []
    for route in client.app.routes:  # type: ignore[attr-defined]
        for method in set(route.methods) - {"HEAD"}:
            if method == "GET" and not route.path.endswith("/events"):
                answers.append(client.get(route.path.replace("{name:path}", "app.js"), params=words).text)
            elif method == "POST":
                body = {key: words[key] for key in wanted.get(route.path, words)}
                answers.append(client.post(route.path, json=body).text)
    return answers


@pytest.fixture
def no_processes(monkeypatch) -> None:
    monkeypatch.setattr(Processes, "start", lambda self, name, kind, words: {})


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_no_file_of_a_run_leads_out(trained_folder, tmp_path, no_processes, every: int) -> None:
    """Each file and folder in turn is a link; of four, one is tried in every run of the tests."""
    shown, outside = tmp_path / "shown", tmp_path / "outside"
    outside.mkdir()
    plain = whole_run(trained_folder, shown / "plain")
    names = [path.relative_to(plain.root) for path in names_in_a_run(plain)]
    assert len(names) > 20
    app = make_app(shown, token="t", host="127.0.0.1", port=1, warm=False)
    client = TestClient(app, base_url="http://127.0.0.1:1", headers={TOKEN_HEADER: "t"}, raise_server_exceptions=False)
    for number, name in list(enumerate(names))[::every]:
        run, target = shown / f"linked-{number}", outside / f"{number}-{name.name}"
        shutil.copytree(plain.root, run)
        os.rename(run / name, target)
        (run / name).symlink_to(target)
        before = everything_below(outside)
        WATCHED.append(outside.resolve())
        try:
            answers = ask_every_route(client, run.name)
        finally:
            WATCHED.clear()
        assert OPENED == [], f"{name} was followed"
        assert everything_below(outside) == before, f"{name} was written through"
        assert not any("Traceback" in answer or "bug in Glassformer" in answer for answer in answers), name
        shutil.rmtree(run)
    assert client.get("/api/run", params={"run": "plain"}).json()["status"] == "finished"


@pytest.mark.parametrize("link", ["log", "folder", "record"])
def test_a_start_writes_through_no_link(trained_folder, tmp_path, link) -> None:
    shown, outside = tmp_path / "shown", tmp_path / "outside"
    whole_run(trained_folder, shown / "run")
    outside.mkdir()
    (outside / "mine.log").write_text("precious")
    (outside / "mine.json").write_text('{"precious": 1}')
    page = shown / ".page"
    if link == "folder":
        page.symlink_to(outside)
    else:
        page.mkdir()
        (page / {"log": "mine.log", "record": "mine.json"}[link]).symlink_to(
            outside / {"log": "mine.log", "record": "mine.json"}[link]
        )
    app = make_app(shown, token="t", host="127.0.0.1", port=1, warm=False)
    client = TestClient(app, base_url="http://127.0.0.1:1", headers={TOKEN_HEADER: "t"})
    answer = client.post("/api/start", json={"base": "run:run", "name": "mine"})
    assert answer.status_code >= 400
    assert "link" in answer.json()["error"]
    assert (outside / "mine.log").read_text() == "precious"
    assert (outside / "mine.json").read_text() == '{"precious": 1}'
    assert sorted(path.name for path in outside.iterdir()) == ["mine.json", "mine.log"]
    assert "precious" not in client.get("/api/folder").text


def test_the_process_that_the_page_starts_follows_no_link_either(trained_folder, tmp_path) -> None:
    shown, outside = (tmp_path / "shown").resolve(), tmp_path / "outside"
    run = whole_run(trained_folder, shown / "run")
    os.rename(run.metrics_file, outside)
    run.metrics_file.symlink_to(outside)
    before = outside.read_bytes()
    processes = Processes(shown)
    words = ["train", str(run.recipe_file), "--set", "training.steps=8", "--out", str(run.root), "--resume"]
    processes.start("run", "run", words)
    processes.wait("run", 120)
    found = processes.find("run")
    assert found is not None
    assert "is a link" in found["said"]
    assert outside.read_bytes() == before
