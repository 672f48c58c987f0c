"""The one door: recipes with changes, plans, studies to go on with; what is refused; real runs in this process."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

import glassformer as gf
from glassformer.foundation.errors import ConfigError, RunError, UnknownName, UsageError
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.study.compare import compare
from glassformer.study.planning.plan import StudyPlan


class Said(list):
    def say(self, sentence: str) -> None:
        self.append(sentence)

    def progress(self, *_: object) -> None: ...


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> tuple[Any, Said, dict[str, Any]]:
    recipe = {
        "data": {"path": str(text_file), "document": "line"},
        "model": {"width": 12, "layers": 1, "heads": 3, "context": 7},
        "training": {"steps": 16, "batch_size": 12, "lr": 0.05, "device": "cpu"},
        "evaluation": {"every": 16},
        "checkpoint": {"every": 16},
    }
    said = Said()
    vary = {"model.mixer": ["none"], "checkpoint.every": [8], "model.merge": ["reweight"], "training.lr": [0.05, 1e-7]}
    study = compare(recipe, vary, seeds=6, out=tmp_path_factory.mktemp("studies") / "real", on="inline", watch=said)
    return study, said, recipe


class TestRealRuns:
    """One real study, in this process, and everything that can be asked of it afterwards."""

    def test_words(self, done):
        study, _, _ = done
        words = {verdict.variant: verdict.verdict for verdict in study.verdicts}
        assert words["model.merge=reweight"] == "invalid"  # leaks
        assert words["training.lr=1e-07"] == "invalid"  # learns nothing
        assert "train longer or at another training.lr) in 6 of 6 seeds" in study.verdict("training.lr=1e-07").reason
        assert words["model.mixer=none"] in ("better", "worse", "not decided", "same")

    def test_the_baseline_against_itself_is_the_same_to_the_last_bit(self, done):
        study, _, _ = done
        verdict = study.verdict("checkpoint.every=8")  # how often it saves changes nothing
        assert verdict.verdict == "same"
        assert verdict.difference.value == 0.0

    def test_what_was_said_before_the_first_run(self, done):
        _, said, _ = done
        assert said[0] == "training.lr=0.05 is left out: it is the same as the baseline."
        assert "Power: with 6 seeds and 4 changes, 80 % of studies find a true difference that is" in said[1]

    def test_cost_stands_beside_each_result(self, done):
        study, _, _ = done
        base = study.table[0]
        assert base["parameters"] == sum(p.numel() for p in study.runs()[0].model.parameters())
        assert base["tokens"] == 16 * 12 * 7
        assert base["tokens_per_second"] > 0
        assert base["memory_bytes"] > 4 * base["parameters"]
        loss = study.runs()[0].evaluation().metrics["loss"].value
        assert loss == pytest.approx(study.seed_values("base")[0], abs=1e-12)

    def test_gone_on_with_it_runs_nothing_and_says_the_same(self, done):
        study, _, _ = done
        before = study.to_dict()
        files = sorted(study.folder.rglob("metrics.jsonl"))
        stamps = [file.stat().st_mtime_ns for file in files]
        again = gf.compare(study.folder, on="inline")
        assert again.to_dict() == before
        assert [file.stat().st_mtime_ns for file in files] == stamps

    def test_another_plan_in_the_same_folder_is_refused(self, done):
        study, _, recipe = done
        with refused(ConfigError, "plan-setting-changed", "margin was 0.01"):
            gf.compare(study.folder, margin=0.5, on="inline")
        recipe["training"] = {**recipe["training"], "lr": 0.04}
        vary = {"model.mixer": ["none"], "checkpoint.every": [8], "model.merge": ["reweight"], "training.lr": [1e-7]}
        with refused(ConfigError, "recipe-changed", "'base'"):
            gf.compare(recipe, vary, seeds=6, out=study.folder, on="inline")

    def test_a_second_process_is_refused(self, done):
        study, _, _ = done
        with study.directory.alone(), refused(RunError, "study-in-use"):
            gf.compare(study.folder, on="inline")

    def test_gf_has_it(self, done):
        study, _, _ = done
        assert isinstance(gf.Study.load(study.folder), type(study))


class TestFolder:
    def test_the_default_folder_is_taken_again_by_the_same_plan_only(self, recipe, monkeypatch):
        seen = []

        class Stub:
            def __init__(self, plan: Any, directory: Any, *_: Any, **__: Any) -> None:
                seen.append(str(directory.root))

            def run(self) -> None: ...

        monkeypatch.setattr("glassformer.study.compare.StudyRunner", Stub)
        Path("mine.yaml").write_text(dump_yaml(recipe))
        for width in (24, 24, 36, 24):
            compare("mine.yaml", {"model.width": [width]})
        assert seen == ["studies/mine", "studies/mine", "studies/mine-2", "studies/mine"]


class TestRefused:
    """Bad input: a sentence, before anything is written."""

    @pytest.mark.parametrize(
        ("vary", "more", "error", "sentence"),
        [
            ({"model.positoins": ["alibi"]}, {}, ConfigError, r"There is no key 'model.positoins'. Did you mean 'positions'"),
            ({"model.positions": ["alibii"]}, {}, UnknownName, "Did you mean 'alibi'"),
            ({"model.positions": ["learned"]}, {}, ConfigError, "No change is left to compare"),
            ({}, {}, UsageError, "nothing is varied; give --vary"),
            ({"seed": [1, 2]}, {}, ConfigError, "sets seed"),
            ({"model.merge": ["shift"]}, {"seeds": 1}, ConfigError, "one seed cannot show the noise"),
            ({"model.merge": ["shift"]}, {"metric": "los"}, UnknownName, "Did you mean 'loss'"),
            ({"model.merge": ["shift"]}, {"metric": "accuracy"}, ConfigError, "metric has no 'accuracy'"),
            ({"model.merge": ["shift"]}, {"looks": [8, 6]}, ConfigError, "must be rising numbers of seeds"),
            ({"model.merge": ["shift"]}, {"on": "moon"}, UsageError, "--on moon is unknown"),
            ({"model.merge": ["shift"]}, {"jobs": 0}, UsageError, "--jobs 0 must be 1 or more"),
            ({"model.merge": ["shift"]}, {"address": "auto"}, UsageError, "works only with --on ray"),
            ({"model.merge": ["shift"]}, {"margin": -1.0}, ConfigError, "margin=-1.0 is not accepted"),
            ({"model.merge": ["shift"]}, {"match": "weight"}, ConfigError, "match='weight' is not accepted"),
            ({"model.merge": ["shift"]}, {"tune": {"grid": {"training.lr": [1.0]}}}, ConfigError, "nothing to choose"),
        ],
    )
    def test_a_sentence(self, recipe, vary, more, error, sentence):
        with pytest.raises(error, match=sentence):
            compare(recipe, vary, out="study", **{"on": "inline", **more})
        assert not list(Path("study").rglob("*.*ml"))  # a mended call may use the same folder

    def test_a_plan_with_vary(self, recipe):
        plan = StudyPlan.parse({"base": recipe, "changes": [{"name": "x", "set": {"model.width": 24}}]})
        with refused(UsageError, "vary-beside-plan"):
            compare(plan, {"model.width": [36]})

    def test_a_file_that_is_nothing(self):
        Path("odd.yaml").write_text("- 1\n- 2\n")
        with pytest.raises(ConfigError, match="is not a recipe"):
            compare("odd.yaml", {"model.width": [36]})
        Path("odd.yaml").write_bytes(b"\xff\xfe")
        with refused(ConfigError, "not-utf-8"):
            compare("odd.yaml", {"model.width": [36]})
        with pytest.raises(ConfigError, match=r"There is no file no\.yaml"):
            compare("no.yaml", {"model.width": [36]})
        Path("empty").mkdir()
        with refused(RunError, "not-a-study"):
            compare("empty")


def test_a_run_that_diverges_makes_its_change_invalid(recipe):
    recipe["training"] |= {"steps": 6}
    study = compare(recipe, {"training.clip": [None]}, set={"training.lr": 0.05}, seeds=2, out="s", on="inline")
    assert study.verdicts[0].verdict == "not decided"  # below 6 seeds nothing is decided
    bad = compare(recipe, {"training.lr": [1e30]}, set={"training.clip": None}, seeds=2, out="bad", on="inline")
    assert bad.verdicts[0].verdict == "invalid"
    assert "diverged in 2 of 2 seeds" in bad.verdicts[0].reason


def test_leaks_that_are_allowed_are_trained_and_tainted(recipe):
    recipe["training"] |= {"steps": 6}
    study = compare(recipe, {"model.merge": ["reweight"]}, seeds=2, out="s", on="inline", allow_leaks=True)
    verdict = study.verdicts[0]
    assert verdict.verdict == "invalid"
    assert "a check found a leak) in 2 of 2 seeds" in verdict.reason
    assert len(study.finished("model.merge=reweight")) == 2
    assert math.isfinite(study.table[1]["loss"]["value"])


def test_minutes_end_a_study_between_trials_and_the_same_command_continues(recipe, tmp_path) -> None:
    recipe["training"] |= {"steps": 4}
    vary = {"model.positions": ["none"]}
    place = {"out": tmp_path / "study", "on": "inline", "store": False}
    first = compare(recipe, vary, seeds=2, minutes=1e-6, **place)
    begun = len(list((tmp_path / "study" / "trials").glob("*/*/state.json")))
    assert begun < 4
    assert first.verdicts[0].verdict == "not decided"
    whole = compare(recipe, vary, seeds=2, **place)
    assert len(list((tmp_path / "study" / "trials").glob("*/*/state.json"))) == 4
    other = compare(recipe, vary, seeds=2, out=tmp_path / "other", on="inline", store=False)
    assert whole.seed_values("base").tolist() == other.seed_values("base").tolist()
    with refused(UsageError, "bad-minutes"):
        compare(recipe, vary, seeds=2, minutes=0, **place)
