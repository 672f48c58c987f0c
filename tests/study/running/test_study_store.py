"""No trial is trained twice: what a study keeps, what the next one takes, what damage and other code do to it."""

from __future__ import annotations

import json
import shutil

import pytest

from glassformer.foundation.progress import SILENT
from glassformer.model.slots import MERGES, MergeConfig
from glassformer.recipe import load_recipe
from glassformer.study.compare import compare
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import FIRST_TUNING_SEED, StudyPlan, Trial
from glassformer.study.planning.variants import Facts
from glassformer.study.running.study_store import StudyStore
from glassformer.study.running.trial_results import TrialResult
from glassformer.study.running.trial_store import TrialStore, machine_of

MADE_ON = machine_of({"threads": 1, "torch": "9.9"})


class Said:
    """A watcher that keeps the sentences."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def progress(self, *args: object) -> None:
        SILENT.progress("", 0, 0)

    def taken(self) -> str:
        return next((one for one in self.sentences if "reused from earlier studies" in one), "")


@pytest.fixture
def ask(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def asked(out: str, *positions: str, **more):
        watch = Said()
        vary = {"model.positions": list(positions)}
        return compare(recipe, vary, seeds=2, out=tmp_path / out, on="inline", watch=watch, **more), watch

    return asked


@pytest.fixture
def study_store(recipe, tmp_path, monkeypatch):
    """Between the store and a study of which nothing but its baseline is known."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    plan = StudyPlan.parse({"base": recipe, "changes": [{"name": "own", "set": {"model.merge": "own"}}]})
    facts = {name: Facts("r", "d", "x", machine=MADE_ON) for name in ("base", "own")}
    values = load_recipe(recipe).to_dict()
    return StudyStore(TrialStore(), plan, StudyDirectory(tmp_path / "study"), facts, lambda trial: values, Said()), values


def test_a_class_of_a_notebook_is_neither_kept_nor_taken(study_store, monkeypatch):
    """Edited in place it has the name it had, and the store would give out what the old one was."""
    study_store, recipe = study_store
    monkeypatch.setattr(MERGES, "_variants", dict(MERGES._variants))

    @MERGES.variant("own")
    class OwnConfig(MergeConfig):
        """This class, or one that was edited since."""

    own = load_recipe(recipe, {"model.merge": "own"}).to_dict()
    assert study_store.origin("own", own) is study_store.origin("own", own) is None
    assert len(study_store.watch.sentences) == 1
    assert study_store.watch.sentences[0].startswith("model.merge=own: a class of this notebook or program")
    assert study_store.origin("base", recipe) is not None  # the baseline is made of our own parts


def test_a_trial_of_a_plugin_that_was_edited_meanwhile_is_not_kept(study_store, made_up):
    study_store, recipe = study_store
    trial = Trial("base", 0, {}, "base/seed-0")
    for plugins, kept in (([{"file": "p.py", "sha256": "1"}], 0), ([], 1)):
        made_up.run(study_store.directory.trial(trial), recipe, plugins=plugins)
        study_store.save(trial, TrialResult(trial, "finished"))
        assert len(TrialStore().entries()) == kept


def test_other_pretrained_weights_in_the_same_folder_are_another_origin(study_store, bert_folder, tmp_path):
    pytest.importorskip("transformers")
    study_store, recipe = study_store
    folder = shutil.copytree(bert_folder, tmp_path / "encoder")
    model = {"kind": "pretrained", "folder": str(folder), "context": 12}
    tuned = load_recipe({"data": recipe["data"], "objective": "labels", "model": model, "training": {"steps": 3}}).to_dict()
    before = study_store.origin("base", tuned)
    assert before == study_store.origin("base", tuned)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    assert study_store.origin("base", tuned).group != before.group


def test_bad_runs_of_the_baseline_and_those_of_tuning_are_known(study_store, made_up):
    study_store, recipe = study_store
    for seed, (loss, status) in {0: (1.2, "finished"), 1: (5.0, "finished"), 2: (1.2, "diverged")}.items():
        trial = Trial("base", seed, {}, f"base/seed-{seed}")
        run = made_up.run(study_store.directory.trial(trial), recipe, loss, status=status)
        (run.checkpoint(24) / "weights").write_bytes(b"made up")
        study_store.save(trial, TrialResult(trial, status))
    assert study_store.seeds("base", recipe) == [0, 1, 2]
    assert study_store.unusable([0, 1, 2], recipe) == [1, 2]
    assert study_store.unusable([FIRST_TUNING_SEED], recipe) == []


def test_a_study_with_one_more_change_trains_only_that_change(ask, tmp_path):
    first, said = ask("a/first", "alibi")
    assert said.taken() == ""
    assert len(TrialStore().entries()) == 4
    second, said = ask("b/second", "alibi", "rotary")
    assert said.taken().startswith("4 of 6 trials are reused from earlier studies")
    assert list(second.seed_values("base")) == list(first.seed_values("base"))
    assert first.verdicts[0].difference == second.verdicts[0].difference

    file = next(path for path in TrialStore().root.rglob("state.json"))
    file.write_text(json.dumps({"status": "finished", "step": 9}))
    _, said = ask("c/third", "alibi", "rotary")
    assert any("is damaged and was removed" in sentence for sentence in said.sentences)
    assert said.taken().startswith("5 of 6 trials")

    _, said = ask("d/fourth", "alibi", store=False)
    assert said.taken() == ""
    assert TrialStore().empty() == 6
    assert TrialStore().entries() == []
    assert first.seed_values("base") is not None


def test_the_same_runs_are_not_judged_again_by_other_rules(ask):
    ask("studies/first", "alibi")
    study, said = ask("studies/second", "alibi", margin=0.2)
    assert any("margin of 0.01, which still applies" in sentence for sentence in said.sentences)
    assert study.earlier["model.positions=alibi"].margin == 0.01


def test_a_run_that_diverged_was_not_checked_after_training(study_store, made_up):
    study_store, recipe = study_store
    trial = Trial("base", 0, {}, "base/seed-0")
    made_up.run(study_store.directory.trial(trial), recipe, status="diverged")
    study_store.save(trial, TrialResult(trial, "diverged"))
    assert study_store.seeds("base", recipe) == [0]
    assert not TrialStore().checked(study_store.origin("base", recipe))
