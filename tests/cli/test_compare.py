"""``glassformer compare``: words and flags to a study; verdicts on standard output, everything else on standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.foundation.yaml_text import dump_yaml
from glassformer.study.running.execution import Execution

RECIPE = {
    "model": {"width": 16, "layers": 1, "heads": 2, "context": 8},
    "training": {"steps": 80, "batch_size": 16, "lr": 0.03, "device": "cpu"},
    "evaluation": {"every": 80},
    "checkpoint": {"every": 80},
}


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("abcabcabcabd\nbcabcabcabca\ncabcabcabcab\n" * 20)
    Path("mine.yaml").write_text(dump_yaml({"data": {"path": "text.txt", "document": "line"}, **RECIPE}))
    return "mine.yaml"


def test_verdicts_on_standard_output_and_the_rest_on_standard_error(cli, recipe) -> None:
    words = ["compare", recipe, "--vary", "model.positions=none,learned", "--seeds", 2, "--on", "inline", "--out", "study"]
    answer = cli(*words, "--json")
    assert answer.code == 0, answer.err
    document = answer.json
    (verdict,) = document["verdicts"]
    assert (verdict["variant"], verdict["verdict"], verdict["seeds"]) == ("model.positions=none", "not decided", 2)
    assert set(verdict["difference"]) >= {"value", "low", "high", "n"}
    assert Path(document["report"]).is_file()
    assert "model.positions=learned is left out" in answer.err
    assert "With 2 seeds nothing will be decided" in answer.err
    again = cli(*words)  # nothing is left to do
    assert again.code == 0
    assert "a verdict needs at least 6 seeds" in again.out
    assert again.out.rstrip().endswith(f"Report: {Path('study/report.html').resolve()}")
    assert cli("report", "study", "--out", "page.html").code == 0
    assert "model.positions=none" in Path("page.html").read_text(encoding="utf-8")
    assert cli("compare", "study", "--on", "inline", "--json").json["verdicts"] == document["verdicts"]
    plan = cli("compare", "study/plan.yaml", "--on", "inline", "--out", "anew", "--json")
    assert plan.json["verdicts"] == document["verdicts"]


@pytest.fixture
def requested(monkeypatch) -> dict[str, Any]:
    """What the command line hands on: to the plan, and to where it runs."""
    found: dict[str, Any] = {}

    def plan_studies(source: Any, vary: Any, **options: Any) -> list[str]:
        found.update(options, source=source, vary=vary)
        return ["planned"]

    def run_study(planned: Any, how: Any) -> None:
        found["how"] = (planned, how)
        raise KeyboardInterrupt

    monkeypatch.setattr("glassformer.study.planning.planned_study.plan_studies", plan_studies)
    monkeypatch.setattr("glassformer.study.compare.run_study", run_study)
    return found


def test_all_flags_reach_the_plan(cli, recipe, requested) -> None:
    Path("p.py").write_text("")
    flags = (
        "--vary a=1,2 --vary b=3 --cross --seeds 7 --looks 6,8 --max-seeds 8 --metric bits_per_byte --margin 0.5 --effect 0.2 "
        "--match flops --tune training.lr=0.1,0.2 --tune-tries 2 --tune-seeds 3 --budget-hours 2.5 --on ray --address auto "
        "--gpus-per-trial 0.25 --minutes 9 "
        "--jobs 3 --out there --set x=1 --allow-leaks --plugin p.py --first-seed 5 --no-store --baseline bank"
    )
    assert cli("compare", recipe, *flags.split()).code == 130
    planned, how = requested.pop("how")
    assert requested == {
        "source": recipe,
        "vary": ["a=1,2", "b=3"],
        "also": (),
        "confirm": None,
        "cross": True,
        "set": {"x": 1},
        "out": Path("there"),
        "pieces": 1,
        "settings": {
            "seeds": 7,
            "first_seed": 5,
            "looks": [6, 8],
            "max_seeds": 8,
            "metric": "bits_per_byte",
            "margin": 0.5,
            "planned_effect": 0.2,
            "match": "flops",
            "equal": None,
            "tune": {"grid": {"training.lr": [0.1, 0.2]}, "tries": 2, "seeds": 3},
            "budget_hours": 2.5,
            "allow_leaks": True,
        },
    }
    shared = {"on": "ray", "jobs": 3, "address": "auto", "gpus_per_trial": 0.25, "minutes": 9.0}
    expected = Execution(**shared, store=False, baseline="bank", plugins=[Path("p.py")], watch=how.watch)
    assert (planned, how) == ("planned", expected)


def test_a_range_of_tuning_is_drawn_from(cli, recipe, requested):
    cli("compare", recipe, "--vary", "a=1", "--tune", "training.lr={low: 0.1, high: 0.2}", "--tune-tries", 5)
    assert requested["settings"]["tune"] == {"grid": {"training.lr": {"low": 0.1, "high": 0.2}}, "tries": 5, "seeds": 4}
    answer = cli("compare", recipe, "--vary", "a=1", "--tune-tries", 5)
    assert (answer.code, "add --tune KEY=A,B" in answer.sentence) == (2, True)


def test_several_sets_have_a_study_each_and_a_page_over_all(cli, recipe) -> None:
    Path("other.txt").write_text("xyzxyzxyzxyw\nyzxyzxyzxyzx\nzxyzxyzxyzxy\n" * 20)
    Path("other.yaml").write_text(dump_yaml({"data": {"path": "other.txt", "document": "line"}, **RECIPE}))
    flags = ["--vary", "model.positions=none", "--seeds", 2, "--set", "training.steps=30"]
    words = ["compare", recipe, "--also", "other.yaml", *flags]
    answer = cli(*words, "--on", "inline", "--out", "both", "--json")
    assert answer.code == 0, answer.err
    document = answer.json
    assert [(one["variant"], one["verdict"]) for one in document["verdicts"]] == [("model.positions=none", "not decided")]
    assert list(document["sets"]) == ["mine", "other"]
    assert Path(document["report"]) == Path("both/report.html")
    again = cli(*words, "--on", "inline", "--out", "both")  # nothing is left to do
    assert again.out.startswith("Over all sets\n[not decided] model.positions=none is not decided over 2 sets")
    assert cli("report", "both", "--out", "page.html").code == 0
    assert "over all sets" in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--confirm", "nothing"], 1, "nothing is not a study"),
        (["--confirm", "nothing", "--also", "mine.yaml"], 2, "--also adds a set to a RECIPE with --vary"),
        (["--confirm", "nothing", "--margin", "0.3"], 2, "--confirm takes all settings"),
        (["mine.yaml", "--also", "gone.yaml", "--vary", "model.positions=none"], 2, "There is no file gone.yaml"),
    ],
)
def test_what_confirms_and_what_adds_a_set_is_one_sentence(cli, recipe, words, code, sentence) -> None:
    answer = cli("compare", *words, "--on", "inline")
    assert (answer.code, sentence in answer.sentence) == (code, True), answer.err
    assert not Path("studies").exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--vary", "model.positoins=none"], 2, "There is no key 'model.positoins'"),
        (["--vary", "model.positions=learned"], 2, "No change is left to compare"),
        (["--vary", "model.positions=none", "--seeds", "1"], 2, "one seed cannot show the noise"),
        (["--vary", "model.positions"], 2, "is not of the form key=value,value"),
        (["--vary", "model.positions=none", "--looks", "6,x"], 2, "--looks '6,x' must be whole numbers"),
        ([], 2, "nothing is varied; give --vary"),
        (["--vary", "data.path=gone.txt"], 1, "gone.txt"),
    ],
)
def test_bad_input_is_one_sentence(cli, recipe, words, code, sentence) -> None:
    answer = cli("compare", recipe, *words, "--on", "inline", "--out", "study")
    assert answer.code == code
    assert sentence in answer.sentence


def test_a_plan_changed_after_it_began(cli, recipe) -> None:
    words = ["compare", recipe, "--vary", "model.positions=none", "--seeds", 2, "--on", "inline", "--out", "study", "--quiet"]
    assert cli(*words).code == 0
    answer = cli(*words, "--margin", 0.2)
    assert (answer.code, "margin was 0.01 when the study began and is 0.2 now" in answer.sentence) == (2, True)
    file = Path("study/plan.yaml")
    file.write_text(file.read_text().replace("margin: 0.01", "margin: 0.001"))
    answer = cli("compare", "study")
    assert answer.code == 2
    assert "was changed after the study began" in answer.sentence


def test_a_damaged_trial_folder_is_one_sentence_and_the_numbers_are_the_same(cli, recipe) -> None:
    words = ["compare", recipe, "--vary", "model.positions=none", "--seeds", 2, "--on", "inline", "--out", "study", "--json"]
    before = cli(*words).json
    trial = Path("study/trials/base/seed-1")
    (file,) = (trial / "evaluations").glob("validation-step-80.json")
    file.write_text(file.read_text()[:-40])
    answer = cli(*words)
    assert answer.code == 0, answer.err
    (sentence,) = [line for line in answer.err.splitlines() if "damaged" in line]
    assert f"{trial} is damaged" in sentence
    assert sentence.count("The trial is run again; the old files are in study/damaged") == 1
    assert answer.json["verdicts"] == before["verdicts"]
