"""Runs on the page are what the command line prints; a damaged run hides no other; a folder is read without its metrics."""

from __future__ import annotations

from glassformer.foundation.files import open_file
from glassformer.runs.overview import overview
from glassformer.runs.records import MetricsLog
from glassformer.web.app_state import AppState
from glassformer.web.routes.runs import _watch


def test_the_list_is_that_of_the_command(page, trained_folder) -> None:
    document = page.get("/api/folder").json()
    expected = overview(trained_folder.resolve())
    assert document["differing"] == expected["differing"]
    assert document["runs"] == [{**row, "study": None} for row in expected["runs"]]
    assert (document["studies"], document["started"]) == ([], [])


def test_one_run_in_detail(page, trained_folder) -> None:
    run = page.get("/api/run", params={"run": "run"}).json()
    assert (run["status"], run["step"], run["checkpoints"]) == ("finished", 6, [5, 6])
    assert "width: 8" in run["recipe"]
    assert any(line.startswith("passed") and "causality" in line for line in run["checks"])
    assert run["evaluation"] is None
    assert run["main"] == ["loss", "validation_loss"]
    assert page.get("/api/run/cost", params={"run": "run"}).json()["parameters"] > 0
    measured = page.post("/api/run/evaluate", json={"run": "run"}).json()["evaluation"]
    assert measured[0]["kind"] == "table"
    assert page.get("/api/run", params={"run": "run"}).json()["evaluation"] == measured


def test_what_it_writes(page, trained_folder) -> None:
    from glassformer.run import load
    from glassformer.run_report import sample_blocks

    found = page.get("/api/run/sample", params={"run": "run"}).json()
    assert found["step"] == 6
    assert found["blocks"][0]["text"] == sample_blocks(load(trained_folder / "run"))[1].text


def test_ancestors_in_the_folder_can_be_followed(client, folder, make_run) -> None:
    run, outside = make_run(folder / "child"), folder.parent / "elsewhere"
    make_run(outside)
    lineage = [
        {"run": str(folder / "one"), "step": 2},
        {"run": str(outside), "step": 9},
        {"run": str(folder / "gone"), "step": 1},
    ]
    run.write_environment({"ancestry": lineage})
    shown = client.get("/api/run", params={"run": "child"}).json()["ancestry"]
    assert [one["name"] for one in shown] == ["one", None, None]
    assert [one["step"] for one in shown] == [2, 9, 1]


def test_curves_are_thinned_and_cut(page) -> None:
    found = page.get("/api/run/curves", params={"run": "run", "key": "loss"}).json()
    assert found["curves"]["loss"]["step"] == [1, 2, 3, 4, 5, 6]
    assert list(found["curves"]) == ["loss"]
    near = page.get("/api/run/curves", params={"run": "run", "low": 3, "high": 4, "points": 2}).json()["curves"]
    assert near["loss"]["of"] == 4  # with one point on either side, so that lines leave the picture


def test_a_damaged_run_is_shown_as_such(client, folder) -> None:
    (folder / "one" / "recipe.yaml").write_text("schema: 1\nmodel: [")
    rows = {row["name"]: row["status"] for row in client.get("/api/folder").json()["runs"]}
    assert rows == {"one": "damaged", "two": "finished"}
    run = client.get("/api/run", params={"run": "one"}).json()
    assert run["status"] == "damaged"
    assert "line" in run["health"][0]["text"]
    (folder / "two" / "state.json").write_text("[]")
    assert client.get("/api/run", params={"run": "two"}).json()["status"] == "damaged"
    assert client.get("/api/run", params={"run": "gone"}).status_code == 404


class Counted:
    """A stream that notes how much is asked of it."""

    def __init__(self, stream, read: list[int]) -> None:
        self.stream, self.asked = stream, read

    def read(self, size: int = -1) -> bytes:
        content = self.stream.read(size)
        self.asked.append(len(content))
        return content

    def seek(self, *words: int) -> int:
        return self.stream.seek(*words)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


def test_a_folder_is_listed_without_reading_its_metrics_whole(client, folder, monkeypatch) -> None:
    with (folder / "one" / "metrics.jsonl").open("a") as stream:
        for step in range(3, 40_000):
            stream.write(f'{{"step": {step}, "loss": 1.0, "filler": "{"x" * 60}"}}\n')
    read: list[int] = []
    monkeypatch.setattr("glassformer.runs.records.open_file", lambda file: Counted(open_file(file), read))
    assert client.get("/api/folder").status_code == 200
    assert read
    assert 0 < sum(read) <= (1 << 20) + (1 << 17)
    assert (folder / "one" / "metrics.jsonl").stat().st_size > 3 << 20


def test_new_points_are_told_as_they_come(folder) -> None:
    state = AppState.of(folder)
    look = _watch(state, "one")
    first = look()
    assert (first["progress"]["status"], first["curves"]) == ("finished", {})
    assert look() is None
    log = MetricsLog(state.folder.run("one").metrics_file)
    log.append({"step": 3, "loss": 1.25})
    assert look()["curves"] == {"loss": {"step": [3], "value": [1.25], "of": 1}}
    log.cut_after(1)
    assert look() == {"reload": True}


def test_a_report_is_shown_in_a_box(client, folder) -> None:
    assert client.get("/api/run/report", params={"run": "one"}).status_code == 404
    (folder / "one" / "report.html").write_text("<p>figures</p>")
    answer = client.get("/api/run/report", params={"run": "one"})
    assert answer.text == "<p>figures</p>"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "script" not in answer.headers["content-security-policy"]
