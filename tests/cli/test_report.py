"""``glassformer report``: a page, and with --json what it holds in short."""

from __future__ import annotations

import json
import shutil

from tests.study.conftest import MadeUp
from tests.study.test_size_study import made

from glassformer.study.several_studies import SetStudy

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
WORSE = [one + 0.5 for one in GOOD]


def test_a_page(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    answer = cli("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert answer.code == 0
    assert answer.out.strip() == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")


def test_of_a_run_the_figures_are_told(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    told = cli("report", tmp_path / "run", "--json").json
    assert told["report"] == str(tmp_path / "run" / "report.html")
    assert (told["kind"], told["name"], told["status"], told["tainted"]) == ("run", "run", "finished", None)
    measured = cli("evaluate", tmp_path / "run", "--json").json
    assert told["metrics"] == measured["metrics"]
    assert told["step"] == measured["step"]


def test_of_several_runs_how_they_stand(cli, trained, tmp_path) -> None:
    for name in ("one", "other"):
        shutil.copytree(trained, tmp_path / name)
    told = cli("report", tmp_path / "one", tmp_path / "other", "--out", tmp_path / "page.html", "--json").json
    assert (told["report"], told["kind"]) == (str(tmp_path / "page.html"), "runs")
    assert [(one["name"], one["status"], one["metric"]) for one in told["runs"]] == [
        ("one", "finished", "loss"),
        ("other", "finished", "loss"),
    ]
    assert told["runs"][0]["last_validation"] > 0.0


def test_of_a_study_the_verdicts_are_told(cli, tmp_path) -> None:
    study = MadeUp().study(tmp_path / "study", {"base": WORSE, "alibi": GOOD})
    told = cli("report", tmp_path / "study", "--json").json
    (verdict,) = study.verdicts
    assert told == {
        "report": str(tmp_path / "study" / "report.html"),
        "kind": "study",
        "name": "study",
        "metric": "loss",
        "verdicts": [{"variant": "alibi", "verdict": "better", "sentence": verdict.sentence}],
    }


def test_of_a_study_on_several_sets_those_over_all_are_told(cli, tmp_path) -> None:
    folder = tmp_path / "both"
    SetStudy.begin(folder, ["a", "b", "c"])
    for name in "abc":
        MadeUp().study(folder / name, {"base": WORSE, "alibi": GOOD}, documents=name)  # the same documents would be one text
    told = cli("report", folder, "--json").json
    assert (told["kind"], told["name"], told["sets"]) == ("study on several sets", "both", ["a", "b", "c"])
    assert [(one["variant"], one["verdict"]) for one in told["verdicts"]] == [("alibi", "better")]


def test_of_a_study_at_several_sizes_the_trends_are_told_and_a_table_is_of_one(cli, tmp_path) -> None:
    sizes = made(tmp_path / "sizes")
    told = cli("report", sizes.folder, "--json").json
    assert (told["kind"], told["sizes"]) == ("study at several sizes", list(sizes.studies))
    assert [one["trend"] for one in told["trends"]] == [one.word for one in sizes.trends]
    refused = cli("report", sizes.folder, "--table", "csv")
    assert (refused.code, str(sizes.folder) in refused.sentence) == (2, True)


def test_what_is_no_run(cli, tmp_path) -> None:
    answer = cli("report", tmp_path)
    assert answer.code == 1
    assert "is not a run" in answer.sentence


class TestForAPaper:
    def test_curves_of_several_runs_in_one_vector_figure(self, cli, trained, tmp_path) -> None:
        shutil.copytree(trained, tmp_path / "other")
        answer = cli("report", trained, tmp_path / "other", "--figure", tmp_path / "curves-of-both.svg")
        assert answer.code == 0, answer.err
        text = (tmp_path / "curves-of-both.svg").read_text(encoding="utf-8")
        assert all(name in text for name in (f"{trained.name}, validation", "other, validation"))
        assert cli("report", trained, "--figure", tmp_path / "curves.pdf").code == 0
        assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")

    def test_reproducibility_of_a_run(self, cli, trained, tmp_path) -> None:
        assert cli("report", trained, "--reproducibility", tmp_path / "made.json").code == 0
        document = json.loads((tmp_path / "made.json").read_text())
        assert document["seeds"] == [5]
        assert len(document["data"][0]["sha256"]) == 64
        assert document["environments"][0]["torch"]

    def test_what_only_a_study_has(self, cli, trained, tmp_path) -> None:
        assert cli("report", trained, "--table", "latex").code == 2
        assert cli("report", trained, "--figure", tmp_path / "differences.svg").code == 2
        assert cli("report", trained, "--figure", tmp_path / "curves.doc").code == 2
