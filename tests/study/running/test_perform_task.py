"""One task wherever it runs: a trial from any state of its folder to the same numbers, and an answer for every ending."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import experiment
from glassformer.checking import gate
from glassformer.checking.gate import raise_or_warn
from glassformer.checks.check_report import CheckReport, Finding
from glassformer.experiment import train
from glassformer.foundation.files import read_json
from glassformer.foundation.progress import SILENT
from glassformer.recipe import load_recipe
from glassformer.runs.directory import RunDirectory
from glassformer.study.running import perform_task as work
from glassformer.study.running.executors.base import Task
from glassformer.study.running.executors.local import NEEDS_GPU
from glassformer.study.running.perform_task import perform


def trial(recipe: dict[str, Any], study: Path, *, check: Any = None, **more: Any) -> Task:
    study.mkdir(exist_ok=True)
    values = {
        "cwd": os.getcwd(),
        "plugins": [],
        "study": str(study),
        "folder": str(study / "trials" / "x" / "seed-0"),
        "recipe": load_recipe(recipe).to_dict(),
        "allow_leaks": False,
        "check": check,
        "check_trained": False,
        "store": False,
        "split": "validation",
        "planned_flops": 0.0,
    }
    return Task("trial", "x, seed 0", {**values, **more})


@pytest.fixture(scope="module")
def passed() -> dict[str, Any]:
    """What a check that found nothing looks like; so that not every test has to make one."""
    return {"subject": "x", "findings": [], "tested": {}, "cannot_tell": {}, "not_judged": {}, "notes": [], "seconds": 0.0}


def losses(study: Path) -> list[float]:
    file = next((study / "trials" / "x" / "seed-0" / "evaluations").glob("*.json"))
    return list(read_json(file)["units"]["loss"]["sums"])


def test_inspecting_tells_cost_and_checks(recipe):
    values = {"cwd": os.getcwd(), "plugins": [], "recipe": load_recipe(recipe).to_dict()}
    answer = perform(Task("inspect", "base", values))
    assert answer["status"] == "finished"
    assert answer["check"]["passed"]
    assert (answer["steps"], answer["tokens"], answer["device"]) == (24, 24 * 10 * 7, "cpu")
    assert answer["parameters"] > 1000
    assert json.loads(json.dumps(answer)) == answer
    leaking = {**values, "recipe": load_recipe(recipe, {"model.merge": "reweight"}).to_dict()}
    assert not perform(Task("inspect", "cheat", leaking))["check"]["passed"]


def test_a_process_of_its_own_takes_a_check_that_passed_before(recipe, monkeypatch, tmp_path):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    checked, check = [], gate.check_model
    monkeypatch.setattr(gate, "check_model", lambda *given, **more: checked.append(1) or check(*given, **more))
    values = {"cwd": os.getcwd(), "plugins": [], "recipe": load_recipe(recipe).to_dict()}
    first, second = (perform(Task("inspect", "base", values), own_process=True) for _ in range(2))
    assert len(checked) == 1
    assert first["check"]["tested"] == second["check"]["tested"]
    perform(Task("inspect", "base", values))  # in the user's process, where a part may have been changed
    perform(Task("inspect", "base", {**values, "recheck": True}), own_process=True)  # with --no-store
    assert len(checked) == 3
    leaking = {**values, "recipe": load_recipe(recipe, {"model.merge": "reweight"}).to_dict()}
    for _ in range(2):
        assert not perform(Task("inspect", "cheat", leaking), own_process=True)["check"]["passed"]
    assert len(checked) == 5


def test_a_process_that_lost_its_gpu_ends_so_that_another_takes_its_task(recipe, monkeypatch):
    values = {"cwd": os.getcwd(), "plugins": [], "recipe": load_recipe(recipe).to_dict()}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv(NEEDS_GPU, "yes")
    with pytest.raises(SystemExit, match="does not see it"):
        perform(Task("inspect", "base", values), own_process=True)
    monkeypatch.delenv(NEEDS_GPU)

    def broken(values: object) -> object:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(work, "_inspect", broken)
    assert perform(Task("inspect", "base", values))["status"] == "failed"
    with pytest.raises(SystemExit, match="device-side assert"):
        perform(Task("inspect", "base", values), own_process=True)


def test_a_trial_is_a_run_with_its_evaluation_and_leaves_the_process_as_it_was(recipe, tmp_path, passed):
    torch.set_num_threads(2)
    try:
        answer = perform(trial(recipe, tmp_path / "study", check=passed))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert answer["status"] == "finished"
    run = RunDirectory(tmp_path / "study" / "trials" / "x" / "seed-0")
    assert run.read_state()["status"] == "finished"
    assert run.read_environment()["threads"] == 1
    assert len(losses(tmp_path / "study")) > 5


def test_done_again_nothing_is_trained_and_a_lost_evaluation_is_made_again(recipe, tmp_path, passed):
    task = trial(recipe, tmp_path / "study", check=passed)
    perform(task)
    run = RunDirectory(Path(task.values["folder"]))
    before, metrics = losses(tmp_path / "study"), run.metrics_file.read_bytes()
    run.evaluation_file("validation", 24).unlink()
    assert perform(task)["status"] == "finished"
    assert losses(tmp_path / "study") == before
    assert run.metrics_file.read_bytes() == metrics


@pytest.mark.parametrize("first", [True, False])
def test_the_untrained_network_is_measured_for_the_first_seed(recipe, tmp_path, passed, first):
    assert perform(trial(recipe, tmp_path / "study", check=passed, check_trained=first))["status"] == "finished"
    file = next((tmp_path / "study" / "trials" / "x" / "seed-0" / "evaluations").glob("*.json"))
    assert {"unigram", "bigram"} <= read_json(file)["baselines"].keys()
    assert ("untrained" in read_json(file)["baselines"]) == first == ("untrained" in read_json(file)["trivial"])


def test_what_may_refuse_a_trial_comes_before_the_evaluation_that_ends_it(recipe, tmp_path, passed, monkeypatch):
    """Killed in between, it is not taken for a trial that passed."""
    task = trial(recipe, tmp_path / "study", check=passed)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(work, "record_facts", killed)
        assert perform(task)["status"] != "finished"
    run = RunDirectory(Path(task.values["folder"]))
    assert not run.evaluation_file("validation", 24).exists()
    assert perform(task)["status"] == "finished"
    assert run.evaluation_file("validation", 24).exists()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, text_file, passed) -> tuple[dict[str, Any], list[float]]:
    recipe = {
        "data": {"path": str(text_file), "document": "line"},
        "model": {"width": 6, "layers": 1, "heads": 2, "context": 5},
        "training": {"steps": 9, "batch_size": 4, "lr": 0.05},
        "checkpoint": {"every": 3},
        "evaluation": {"every": 9},
    }
    folder = tmp_path_factory.mktemp("whole") / "study"
    assert perform(trial(recipe, folder, check=passed))["status"] == "finished"
    return recipe, losses(folder)


class TestInterruptedAnywhere:
    """The folder in a state a kill can leave behind, or worse: the numbers are those of an undisturbed trial."""

    def begun(self, recipe: dict[str, Any], tmp_path: Path) -> RunDirectory:
        """A trial that was stopped after step 6."""
        folder = tmp_path / "study" / "trials" / "x" / "seed-0"
        train(recipe, set={"training.steps": 9}, out=folder, threads=1)
        run = RunDirectory(folder)
        for name in ("step-9",):
            (run.checkpoints / name).rename(run.checkpoints / ".gone")
        run.write_state("running", step=6, steps=9)
        return run

    def test_half_done(self, undisturbed, tmp_path, passed):
        recipe, expected = undisturbed
        self.begun(recipe, tmp_path)
        answer = perform(trial(recipe, tmp_path / "study", check=passed))
        assert (answer["status"], answer["notes"]) == ("finished", [])
        assert losses(tmp_path / "study") == expected

    def test_killed_before_there_was_a_recipe(self, undisturbed, tmp_path, passed):
        recipe, expected = undisturbed
        run = self.begun(recipe, tmp_path)
        for file in run.root.iterdir():
            if file.is_dir() or file.name not in ("tokenizer.json", "environment.json"):
                os.system(f"rm -rf '{file}'")
        (run.root / ".recipe.yaml.abc.draft").write_text("half")
        assert perform(trial(recipe, tmp_path / "study", check=passed))["status"] == "finished"
        assert losses(tmp_path / "study") == expected

    @pytest.mark.parametrize("name", ["state.json", "environment.json", "tokenizer.json", "recipe.yaml"])
    def test_a_damaged_folder_is_set_aside_and_the_trial_run_again(self, undisturbed, tmp_path, passed, name):
        recipe, expected = undisturbed
        run = self.begun(recipe, tmp_path)
        (run.root / name).write_bytes(b"\xff{")
        answer = perform(trial(recipe, tmp_path / "study", check=passed))
        assert answer["status"] == "finished"
        assert len(answer["notes"]) == 1
        assert "The trial is run again" in answer["notes"][0]
        assert losses(tmp_path / "study") == expected
        assert (tmp_path / "study" / "damaged" / "trials-x-seed-0" / name).read_bytes() == b"\xff{"


def test_a_leak_gives_no_number(recipe, tmp_path):
    recipe["model"]["merge"] = "reweight"
    answer = perform(trial(recipe, tmp_path / "study"))
    assert answer["status"] == "leak"
    assert "causality" in answer["reason"]
    allowed = perform(trial(recipe, tmp_path / "study", allow_leaks=True))
    assert allowed["status"] == "finished"
    run = RunDirectory(Path(tmp_path / "study" / "trials" / "x" / "seed-0"))
    assert read_json(run.evaluation_file("validation", 24))["tainted"]


def test_a_leak_that_hides_in_zeros_is_found_in_the_trained_model(recipe, tmp_path, passed):
    """``check`` says the fresh model passed; the first seed's trained model is looked at all the same."""
    recipe["model"]["merge"] = "reweight"
    answer = perform(trial(recipe, tmp_path / "study", check=passed, check_trained=True))
    assert answer["status"] == "leak"
    blind = perform(trial(recipe, tmp_path / "study", check=passed, check_trained=False))
    assert blind["status"] == "finished"


@pytest.mark.parametrize("law", ["causality", "path"])
def test_a_leak_of_the_step_is_told_from_one_of_the_trained_model(recipe, tmp_path, passed, monkeypatch, law):
    found = Finding(law=law, where="the compiled loss", from_position=1, to_position=0, size=1.0, example={})

    def path_checks(report: CheckReport, *_: Any, allow_leaks: bool, **__: Any) -> CheckReport:
        broken = CheckReport("the fast paths", findings=(found,), tested={law: "tried"})
        raise_or_warn(broken, "Checks of the fast paths", allow_leaks, SILENT)
        return report.joined(broken)

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "require_step", path_checks)
        answer = perform(trial(recipe, tmp_path / "study", check=passed))
        assert (answer["status"], answer["before_training"], answer["only_differs"]) == ("leak", True, law == "path")
        allowed = perform(trial(recipe, tmp_path / "study", check=passed, allow_leaks=True))
        assert (allowed["status"], allowed["before_training"], allowed["only_differs"]) == ("finished", True, law == "path")
    recipe["model"]["merge"] = "reweight"
    trained = perform(trial(recipe, tmp_path / "other", check=passed, check_trained=True))
    assert (trained["status"], trained["before_training"]) == ("leak", False)


def test_an_inspection_leaves_what_the_last_trial_has_compiled(recipe, monkeypatch):
    monkeypatch.setattr(work, "_compiled", ["program"])
    monkeypatch.setattr(work, "_inspect", lambda values: {"status": "finished"})
    values = {"cwd": ".", "plugins": [], "recipe": recipe}
    perform(Task("inspect", "base", values), own_process=True)
    assert work._compiled == ["program"]
    perform(Task("inspect", "base", values))  # in the user's process nothing is kept
    assert work._compiled == []


def test_a_run_that_diverges_says_so(recipe, tmp_path, passed):
    recipe["training"] |= {"lr": 1e30, "clip": None}
    answer = perform(trial(recipe, tmp_path / "study", check=passed))
    assert answer["status"] == "diverged"
    assert RunDirectory(tmp_path / "study" / "trials" / "x" / "seed-0").read_state()["status"] == "diverged"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_was_compiled_serves_the_next_trial_of_the_same_program_alone(recipe, tmp_path, passed):
    """The same values as where every trial finds nothing compiled; another network between them is compiled on its own."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    recipes = [load_recipe(recipe, {"training.compile": True, **more}).to_dict() for more in ({}, {"seed": 1}, {"seed": 2})]
    other = load_recipe(recipe, {"training.compile": True, "model.feedforward": "gated"}).to_dict()
    found, graphs = {}, {}
    for way, programs in (("together", ["p", "p", "q", "p"]), ("alone", ["", "", "", ""])):
        for number, (values, program) in enumerate(zip([*recipes[:2], other, recipes[2]], programs)):
            counters.clear()
            task = trial(values, tmp_path / f"{way}-{number}", check=passed)
            answer = perform(Task(task.kind, task.label, task.values, program), own_process=True)
            assert answer["status"] == "finished", answer
            graphs[way, number] = counters["stats"]["unique_graphs"] > 0
            found[way, number] = losses(tmp_path / f"{way}-{number}")
    assert [graphs["together", number] for number in range(4)] == [True, False, True, True]
    assert all(graphs["alone", number] for number in range(4))
    assert all(found["together", number] == found["alone", number] for number in range(4))


def test_what_the_user_must_mend_stops_the_study(recipe, tmp_path, passed):
    recipe["data"]["path"] = str(tmp_path / "gone.txt")
    answer = perform(trial(recipe, tmp_path / "study", check=passed))
    assert (answer["status"], answer["exit_code"]) == ("refused", 1)
    assert "gone.txt" in answer["reason"]
    task = trial(recipe, tmp_path / "study", cwd=str(tmp_path / "not here"))
    assert perform(task)["status"] == "refused"
    task = trial(recipe, tmp_path / "study")
    answer = perform(Task("trial", "x", {**task.values, "study": str(tmp_path / "elsewhere")}))
    assert "give --out a folder that all nodes share" in answer["reason"]


def test_anything_else_is_a_failed_trial(recipe, tmp_path, passed):
    plugin = tmp_path / "fragile.py"
    plugin.write_text(
        "from glassformer.model.slots import MERGES, Merge, MergeConfig\n"
        "@MERGES.variant('fragile')\n"
        "class FragileConfig(MergeConfig):\n"
        "    'Breaks when used.'\n"
        "    def build(self, dims):\n"
        "        return Fragile()\n"
        "class Fragile(Merge):\n"
        "    def forward(self, z_BHTE):\n"
        "        raise ZeroDivisionError('broken by design')\n"
    )
    from glassformer.foundation.plugins import load_plugins
    from glassformer.model.slots import MERGES

    load_plugins([plugin])
    try:
        recipe["model"]["merge"] = "fragile"
        answer = perform(trial(recipe, tmp_path / "study", check=passed, plugins=[str(plugin)]))
        assert answer["status"] == "failed"
        assert answer["reason"].endswith("fragile.py, line 9: ZeroDivisionError: broken by design")
    finally:
        del MERGES._variants["fragile"]
