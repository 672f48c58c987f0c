"""No trial is trained twice: what makes two trials the same, what is stored and reused, what damage and other code do to it."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.refusals import refused

from glassformer.assembly import prepare_data
from glassformer.foundation.errors import RunError
from glassformer.foundation.progress import SILENT
from glassformer.model.slots import MERGES, MergeConfig
from glassformer.recipe import Recipe, load_recipe
from glassformer.study.compare import compare
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import FIRST_TUNING_SEED, StudyPlan, Trial
from glassformer.study.planning.variant_facts import Facts
from glassformer.study.running.trial_results import TrialResult
from glassformer.study.running.trial_store import (
    MACHINE,
    StudyStore,
    TrialStore,
    data_checksum,
    machine_of,
    training_code_sha256,
    trial_key,
)

ANY_MACHINE = dict.fromkeys(MACHINE, "x")
SMALL = {"data": {"set": "docstrings"}, "model": {"width": 8}, "training": {"steps": 4}}
ANY_RECIPE = {**SMALL, "seed": 3, "about": "words"}


def key(recipe=ANY_RECIPE, data="d", plugins=(), machine=ANY_MACHINE) -> str:
    found = trial_key(recipe, data=data, plugins=plugins, machine=machine)
    assert found is not None
    return found


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    (folder / "checkpoints" / "step-4").mkdir(parents=True)
    (folder / "recipe.yaml").write_text("a: 1\n")
    (folder / "checkpoints" / "step-4" / "weights").write_bytes(bytes(range(64)))
    (folder / ".lock").write_text("")
    return folder


def test_only_what_changes_a_bit_makes_another_origin():
    same = key({**SMALL, "seed": 9, "about": "other words"})
    assert same == key()
    others = [
        key({**SMALL, "model": {"width": 16}}),
        key(data="e"),
        key(plugins=[{"file": "p.py", "sha256": "1"}]),
        key(plugins=[{"file": "p.py", "sha256": "1", "imports": {"helper.py": "2"}}]),
        key(machine={**ANY_MACHINE, "torch": "9"}),
    ]
    assert len({key(), *(one for one in others)}) == 6


def test_another_judged_text_or_other_questions_make_another_origin(tmp_path):
    """A stored trial holds figures of the judged text: after an edit of that file it would tell old ones."""
    for name in ("train", "judged"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} {n} cats\n" for n in range(40)))
    data = {"path": str(tmp_path / "train.txt"), "validation": str(tmp_path / "judged.txt"), "document": "line"}
    sizes = {"width": 8, "layers": 1, "heads": 2, "context": 8}
    recipe = Recipe.parse({"data": data, "tokenizer": "byte", "model": sizes, "training": {"steps": 2}})
    before = data_checksum(prepare_data(recipe).record)
    assert data_checksum(prepare_data(recipe).record) == before
    (tmp_path / "judged.txt").write_text((tmp_path / "judged.txt").read_text().replace("a", "e"))
    assert data_checksum(prepare_data(recipe).record) != before
    asked = {"sha256": "0", "fingerprints": {"train": "0"}, "parts": {"questions": {"files": {"dev": {"sha256": "1"}}}}}
    other = {**asked, "parts": {"questions": {"files": {"dev": {"sha256": "2"}}}}}
    assert data_checksum(asked) != data_checksum(other)


def test_nothing_stands_for_a_parent_that_is_not_a_run_here_or_for_an_unknown_machine():
    assert trial_key({**ANY_RECIPE, "init_from": "nowhere"}, data="d", plugins=(), machine=ANY_MACHINE) is None
    assert trial_key(ANY_RECIPE, data="d", plugins=(), machine={}) is None


def test_the_code_is_part_of_it_and_machines_are_told_by_what_matters():
    assert len(training_code_sha256()) == 64
    assert machine_of({"torch": "9", "cores": 2}) == {**dict.fromkeys(MACHINE), "torch": "9"}


def test_a_kept_run_comes_back_whole(store, run, tmp_path):
    store.save(key(), 3, run)
    assert store.seeds(key()) == [3]
    assert store.copy_to(key(), 3, tmp_path / "there" / "seed-3")
    there = tmp_path / "there" / "seed-3"
    assert (there / "checkpoints" / "step-4" / "weights").read_bytes() == bytes(range(64))
    assert sorted(path.name for path in there.iterdir()) == ["checkpoints", "recipe.yaml"]
    assert not store.copy_to(key(), 3, there)  # what is there is not replaced
    assert not store.copy_to(key(), 4, tmp_path / "there" / "seed-4")
    (run / "recipe.yaml").write_text("b: 2\n")  # the run's own copy is its own
    assert store.copy_to(key(), 3, tmp_path / "again")


def test_it_remembers_which_trained_models_were_checked_and_drops_what_leaks(store, run):
    other = key(data="e")
    store.save(key(), 3, run)
    store.save(other, 3, run, checked=True)
    assert not store.checked(key())
    assert store.checked(other)
    store.save(key(), 4, run)
    store.save(key(), 3, run, checked=True)  # trained once more, and checked this time
    assert store.checked(key())
    assert store.evict(key()) == 2
    assert store.seeds(key()) == []
    assert store.contains(other, 3)


def test_a_damaged_one_is_removed_with_a_sentence(store, run, tmp_path):
    store.save(key(), 3, run)
    (store.path(key(), 3) / "recipe.yaml").write_text("a: 2\n")
    with refused(RunError, "damaged-stored-trial"):
        store.copy_to(key(), 3, tmp_path / "there")
    assert store.seeds(key()) == []


def test_it_is_listed_and_emptied(store, run):
    assert store.entries() == []
    store.save(key(), 3, run)
    store.save(key(), 5, run)
    assert [row["seed"] for row in store.entries()] == [3, 5]
    assert store.entries()[0]["bytes"] > 64
    assert store.empty() == 2
    assert store.entries() == []


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
    assert study_store.key("own", own) is study_store.key("own", own) is None
    assert len(study_store.watch.sentences) == 1
    assert study_store.watch.sentences[0].startswith("model.merge=own: a class of this notebook or program")
    assert study_store.key("base", recipe) is not None  # the baseline is made of our own parts


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
    before = study_store.key("base", tuned)
    assert before == study_store.key("base", tuned)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    assert study_store.key("base", tuned) != before


def test_bad_runs_of_the_baseline_and_those_of_tuning_are_known(study_store, made_up):
    study_store, recipe = study_store
    stored = {100: (1.2, "finished"), 101: (5.0, "finished"), 102: (1.2, "diverged"), FIRST_TUNING_SEED: (1.2, "finished")}
    for seed, (loss, status) in stored.items():
        trial = Trial("base", seed, {}, f"base/seed-{seed}")
        run = made_up.run(study_store.directory.trial(trial), recipe, loss, status=status)
        (run.checkpoint(24) / "weights").write_bytes(b"made up")
        study_store.save(trial, TrialResult(trial, status))
    runs = study_store.baseline_runs(recipe)
    assert {seed: one.problem is None for seed, one in runs.items()} == {100: True, 101: False, 102: False}


def test_a_study_with_one_more_change_trains_only_that_change(ask, tmp_path):
    first, said = ask("a/first", "alibi")
    assert said.taken() == ""
    assert len(TrialStore().entries()) == 4
    second, said = ask("b/second", "alibi", "rotary")
    assert said.taken().startswith("4 of 6 trials are reused from earlier studies")
    assert list(second.seed_values("base")) == list(first.seed_values("base"))
    assert first.verdicts[0].difference.value == second.verdicts[0].difference.value

    file = next(path for path in TrialStore().root.rglob("state.json"))
    file.write_text(json.dumps({"status": "finished", "step": 9}))
    _, said = ask("c/third", "alibi", "rotary")
    assert any("was damaged and has been removed" in sentence for sentence in said.sentences)
    assert said.taken().startswith("5 of 6 trials")

    _, said = ask("d/fourth", "alibi", store=False)
    assert said.taken() == ""
    assert TrialStore().empty() == 6
    assert TrialStore().entries() == []
    assert first.seed_values("base") is not None


def test_the_first_margin_stands(ask):
    ask("studies/first", "alibi")
    study, said = ask("studies/second", "alibi", margin=0.2)
    assert any("The margin of the first study, 0.01, stands" in sentence for sentence in said.sentences)
    assert study.earlier["model.positions=alibi"].margin == 0.01


def test_a_run_that_diverged_was_not_checked_after_training(study_store, made_up):
    study_store, recipe = study_store
    trial = Trial("base", 0, {}, "base/seed-0")
    made_up.run(study_store.directory.trial(trial), recipe, status="diverged")
    study_store.save(trial, TrialResult(trial, "diverged"))
    assert [*study_store.baseline_runs(recipe)] == [0]
    assert not TrialStore().checked(study_store.key("base", recipe))
