"""The wiring: what a run leaves behind, going on, and what is refused before anything is touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tests.graphs import captured_everywhere, stand_in
from tests.refusals import refused
from torch.nn.modules.module import register_module_forward_hook

from glassformer import experiment
from glassformer.experiment import _ending_recorded, folder_of, train
from glassformer.foundation.errors import ConfigError, DataError, Diverged, Interrupted, OutOfMemory, RunError
from glassformer.foundation.stopwatch import Stopwatch
from glassformer.foundation.yaml_text import parse_yaml
from glassformer.recipe import load_recipe
from glassformer.run import load
from glassformer.runs import checkpoint
from glassformer.runs.callbacks import Callback
from glassformer.runs.checkpoint import checkpoint_checksums, load_checkpoint, read_snapshot, verify_checkpoint
from glassformer.runs.directory import RunDirectory
from glassformer.training.signals import StopSignal
from glassformer.training.step import TrainingLoss

pytestmark = pytest.mark.usefixtures("unchecked")


def state_of_folder(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def last_sums(folder: Path) -> dict[str, str]:
    run = RunDirectory(folder)
    return checkpoint_checksums(run, run.steps()[-1])


def test_the_overlap_of_the_splits_is_computed_once_for_many_runs(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    calls, known = [], experiment.share_in_train
    monkeypatch.setattr(experiment, "share_in_train", lambda *splits: calls.append(splits) or known(*splits))
    one, two = (train({**tiny, "seed": seed}, out=tmp_path / f"run-{seed}") for seed in (1, 2))
    shares = [RunDirectory(run.folder).read_environment()["overlap"] for run in (one, two)]
    assert len(calls) == 1
    assert shares[0] == shares[1]


def test_validation_may_be_left_for_after_the_run(tiny, tmp_path) -> None:
    class Seen(Callback):
        def __init__(self) -> None:
            self.steps, self.evaluations = 0, 0

        def on_step(self, record: Mapping[str, Any]) -> None:
            self.steps += 1

        def on_evaluation(self, record: Mapping[str, Any]) -> None:
            self.evaluations += 1

    seen = Seen()
    plain = train(tiny, out=tmp_path / "plain")
    run = train({**tiny, "evaluation": {"while_training": False}}, out=tmp_path / "run", callbacks=[seen])
    assert last_sums(run.folder) == last_sums(plain.folder)
    assert (seen.steps, seen.evaluations) == (tiny["training"]["steps"], 0)
    assert not [record for record in run.records() if "validation_loss" in record]
    assert run.records()[-1]["tokens"] == plain.records()[-1]["tokens"]
    assert run.records()[-1]["tokens_per_second"] > 0
    assert run.evaluate().loss == plain.evaluate().loss
    for other in ({"evaluation": {"while_training": False, "patience": 2}}, {"checkpoint": {"best": True}}):
        settings = {**tiny, "evaluation": {"while_training": False}, **other}
        with refused(ConfigError, "best-without-evaluations" if "checkpoint" in other else "bad-value"):
            load_recipe(settings)


def test_checkpoints_written_meanwhile_are_the_same(tiny, tmp_path, monkeypatch) -> None:
    tiny = {**tiny, "checkpoint": {"every": 1, "keep": 2}, "training": {**tiny["training"], "average": "ema"}}
    train(tiny, out=tmp_path / "at-once")
    monkeypatch.setattr(checkpoint, "IN_BACKGROUND", 0)
    train(tiny, out=tmp_path / "meanwhile")
    assert last_sums(tmp_path / "at-once") == last_sums(tmp_path / "meanwhile")
    assert RunDirectory(tmp_path / "at-once").steps() == RunDirectory(tmp_path / "meanwhile").steps()


def test_what_a_run_leaves_behind(tiny, tmp_path) -> None:
    run = train(tiny, out=tmp_path / "run")
    folder = RunDirectory(tmp_path / "run")
    assert sorted(path.name for path in folder.root.iterdir()) == [
        "baselines.npz",
        "checkpoints",
        "environment.json",
        "metrics.jsonl",
        "recipe.yaml",
        "state.json",
        "timing.json",
        "tokenizer.json",
    ]
    resolved = parse_yaml(folder.recipe_file.read_text())
    assert resolved["schema"] == 1
    assert load_recipe(folder.read_recipe()) == load_recipe(tiny)
    assert folder.steps() == [4, 6]  # of 2, 4, 6 the last two
    assert folder.read_state()["status"] == run.status == "finished"
    environment = json.loads(folder.environment_file.read_text())
    assert {"torch", "python", "threads", "device", "precision", "data", "recipe_fingerprint", "weight_decay"} <= set(
        environment
    )
    records = run.records()
    assert [record["step"] for record in records if "loss" in record] == [1, 2, 3, 4, 5, 6]
    assert [record["step"] for record in records if "validation_loss" in record] == [3, 6]


def test_the_same_recipe_gives_the_same_bits_and_another_seed_others(tiny, tmp_path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train(tiny, out=tmp_path / name, seed=seed)
    assert last_sums(tmp_path / "a") == last_sums(tmp_path / "b") != last_sums(tmp_path / "c")


def test_a_process_that_compiles_nothing_does_not_import_torchs_compiler(tiny, tmp_path) -> None:
    """It is a second and more of every process; checks, steps, evaluation and saving do without."""
    program = (
        "import json, sys, glassformer as gf\n"
        "run = gf.train(json.loads(sys.argv[1]), out=sys.argv[2])\n"
        "run.evaluate()\n"
        "assert run.status == 'finished'\n"
        "sys.exit(str(found) if (found := {'torch._dynamo', 'torch._inductor', 'sympy'} & set(sys.modules)) else 0)\n"
    )
    words = [sys.executable, "-c", program, json.dumps(tiny), str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_step_that_cannot_be_captured_is_recorded_as_it_runs_and_goes_on_so(tiny, tmp_path, monkeypatch) -> None:
    """Unbroken, resumed and plain: the same bits. (Captured it would have others: its rate is rounded to float32.)"""
    train(tiny, out=tmp_path / "plain")
    wait = stand_in(monkeypatch)
    captured_everywhere(monkeypatch)
    train(tiny, out=tmp_path / "captured")
    hook = register_module_forward_hook(lambda module, given, result: wait() if isinstance(module, TrainingLoss) else None)
    try:
        train(tiny, out=tmp_path / "refused")
        shutil.copytree(tmp_path / "refused", tmp_path / "resumed")
        shutil.rmtree(RunDirectory(tmp_path / "resumed").checkpoint(6))  # as if it had been killed after step 4
        train(tiny, out=tmp_path / "resumed", resume=True)
    finally:
        hook.remove()
    forms = {name: RunDirectory(tmp_path / name).read_environment()["step_form"] for name in ("captured", "refused", "resumed")}
    assert forms["captured"] == {"compiled": False, "captured": True}
    assert forms["refused"] == forms["resumed"] == {"compiled": False, "captured": False}
    assert last_sums(tmp_path / "refused") == last_sums(tmp_path / "resumed") == last_sums(tmp_path / "plain")
    assert last_sums(tmp_path / "captured") != last_sums(tmp_path / "plain")


def test_going_on_to_more_steps(tiny, tmp_path) -> None:
    """With a schedule that does not look at the end, going on is the same as having meant to from the start."""
    tiny["training"]["schedule"] = "constant"
    train(tiny, set={"training.steps": 4}, out=tmp_path / "short")
    run = train(tiny, set={"training.steps": 10}, out=tmp_path / "short", resume=True)
    train(tiny, set={"training.steps": 10}, out=tmp_path / "long")
    assert last_sums(tmp_path / "short") == last_sums(tmp_path / "long")
    assert run.recipe.training.steps == 10
    steps = [record["step"] for record in run.records() if "loss" in record]
    assert steps == list(range(1, 11))


@pytest.mark.parametrize("fault", ["missing", "damaged"])
def test_without_its_optimizer_a_run_cannot_go_on_but_another_can_begin_from_it(tiny, tmp_path, fault: str) -> None:
    """To begin again from the first step, as where all is damaged, would throw good weights away."""
    train(tiny, out=tmp_path / "run")
    for file in (tmp_path / "run").rglob("optimizer.safetensors"):
        file.unlink() if fault == "missing" else file.write_bytes(b"")
    before = state_of_folder(tmp_path / "run")
    for steps in (6, 9):
        with pytest.raises(RunError, match=rf"step-6/optimizer\.safetensors is {fault}.* Copy the file back, .*init_from="):
            train(tiny, set={"training.steps": steps}, out=tmp_path / "run", resume=True)
    assert state_of_folder(tmp_path / "run") == before
    run = train(tiny, set={"init_from": str(tmp_path / "run"), "training.steps": 1}, out=tmp_path / "new")
    assert run.status == "finished"


def test_resuming_a_finished_run_changes_nothing(tiny, tmp_path) -> None:
    train(tiny, out=tmp_path / "run")
    before = state_of_folder(tmp_path / "run")
    run = train(tiny, out=tmp_path / "run", resume=True)
    after = state_of_folder(tmp_path / "run")
    assert after == before
    assert run.status == "finished"


def test_resuming_what_is_not_there(tiny, tmp_path) -> None:
    (tmp_path / "newer").mkdir()
    with refused(RunError, "nothing-to-resume"):
        train(tiny, out=tmp_path / "new", resume=True)
    assert not (tmp_path / "new").exists()
    assert train(tiny, out=tmp_path / "new", resume="or begin").status == "finished"
    with refused(RunError, "nothing-to-resume", "'new'"):
        train(tiny, out=tmp_path / "neww", resume=True)


def test_a_beginning_that_was_killed_before_the_recipe_begins_again(tiny, tmp_path, monkeypatch) -> None:
    def killed(self: RunDirectory, recipe: dict[str, Any]) -> None:
        raise SystemExit(137)

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write_recipe", killed)
        with pytest.raises(SystemExit):
            train(tiny, out=tmp_path / "run")
    assert (tmp_path / "run" / "environment.json").exists()
    assert train(tiny, out=tmp_path / "run", resume=True).status == "finished"


def test_a_used_folder_is_refused_and_untouched(tiny, tmp_path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.tex").write_text("mine")
    for resume in (False, True):
        with refused(RunError, "folder-not-empty"):
            train(tiny, out=tmp_path / "used", resume=resume)
    assert state_of_folder(tmp_path / "used") == {"thesis.tex": b"mine"}
    train(tiny, out=tmp_path / "run")
    with refused(RunError, "folder-not-empty", "--resume"):
        train(tiny, out=tmp_path / "run")


@pytest.mark.parametrize(
    "changes", [{"model.width": 16}, {"seed": 9}, {"training.lr": 0.5}, {"model.dropout": 0.0}, {"training.batch_size": 8}]
)
def test_another_recipe_cannot_go_on(tiny, tmp_path, changes) -> None:
    train(tiny, out=tmp_path / "run")
    before = state_of_folder(tmp_path / "run")
    (key,) = changes
    with refused(ConfigError, "another-recipe", key):
        train(tiny, set=changes, out=tmp_path / "run", resume=True)
    assert state_of_folder(tmp_path / "run") == before


@pytest.mark.parametrize(
    "changes",
    [
        {"training.steps": 8, "about": "longer"},
        {"evaluation.every": 1},
        {"checkpoint.every": 1, "checkpoint.keep": 5},
        {"training.accumulate": 4},
        {"training.out_of_memory": "halve"},
    ],
)
def test_what_may_change(tiny, tmp_path, changes) -> None:
    train(tiny, out=tmp_path / "run")
    resumed = train(tiny, set=changes, out=tmp_path / "run", resume=True)
    assert resumed.summary()["status"] == "finished"
    assert resumed.recipe == load_recipe(tiny, changes)


def test_changed_data_cannot_go_on(tiny, tiny_text, tmp_path) -> None:
    own = tmp_path / "own.txt"
    own.write_text(tiny_text.read_text())
    tiny["data"]["path"] = str(own)
    train(tiny, out=tmp_path / "run")
    before = state_of_folder(tmp_path / "run")
    own.write_text(tiny_text.read_text().replace("cat", "cow"))
    with refused(DataError, "text-changed", "own.txt"):
        train(tiny, set={"training.steps": 9}, out=tmp_path / "run", resume=True)
    assert state_of_folder(tmp_path / "run") == before  # it still says finished


def test_divergence_keeps_the_last_good_checkpoint(tiny, tmp_path) -> None:
    tiny["training"].update(lr=1e30, clip=None, schedule={"kind": "constant", "warmup": 0})
    tiny["checkpoint"]["every"] = 1
    with refused(Diverged, "diverged"):
        train(tiny, out=tmp_path / "run")
    folder = RunDirectory(tmp_path / "run")
    state = folder.read_state()
    assert state["status"] == "diverged"
    assert "Diverged at step" in state["reason"]
    for step in folder.steps():
        verify_checkpoint(folder.checkpoint(step))


def test_the_best_checkpoint_is_kept(tiny, tmp_path, monkeypatch) -> None:
    losses = iter([2.0, 1.0, 3.0, 4.0, 5.0])
    monkeypatch.setattr(experiment, "_validation", lambda *arguments: {"validation_loss": next(losses)})
    tiny["evaluation"]["every"], tiny["training"]["steps"] = 2, 10
    tiny["checkpoint"] = {"every": 2, "best": True}
    run = train(tiny, out=tmp_path / "run")
    assert RunDirectory(tmp_path / "run").steps() == [4, 8, 10]
    assert run.checkpoint("best").step == 4


def test_the_run_goes_on_with_its_own_threads(tiny, tmp_path, monkeypatch) -> None:
    import torch

    before = torch.get_num_threads()
    train(tiny, set={"training.steps": 2}, out=tmp_path / "run", threads=2)
    torch.set_num_threads(before)
    chosen: list[int | None] = []
    choose = experiment.choose_runtime
    monkeypatch.setattr(experiment, "choose_runtime", lambda **o: chosen.append(o["threads"]) or choose(**o))
    try:
        train(tiny, out=tmp_path / "run", resume=True)
    finally:
        torch.set_num_threads(before)
    assert chosen == [2]


def test_starting_from_another_run(tiny, trained, tmp_path) -> None:
    changes = {
        "init_from": str(trained),
        "model.width": 12,
        "training.lr": 1e-9,
        "training.weight_decay": 0.0,
        "model.dropout": 0.0,
    }
    run = train(tiny, set=changes, out=tmp_path / "run")
    begun, ended = run.checkpoint("last").model, load(trained).checkpoint("last").model
    assert all((begun[name] - ended[name]).abs().max() < 1e-5 for name in begun)
    with refused(ConfigError, "weights-of-parent-do-not-fit"):
        train(tiny, set={**changes, "model.width": 8}, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_epochs_are_steps_of_the_data(tiny, tmp_path) -> None:
    run = train(tiny, set={"training.epochs": 1.0}, out=tmp_path / "run")
    windows_per_step = tiny["training"]["batch_size"] * tiny["model"]["context"]
    assert run.summary()["steps"] == pytest.approx(run.data.split("train").num_tokens / windows_per_step, abs=2)


@pytest.mark.parametrize(
    ("content", "changes", "words"),
    [
        (b"short\n", {}, "tokens, but model.context=16 needs at least 17"),
        (b"", {}, "empty"),
        (b"good line\nbad \xff\xfe line\n" * 40, {}, "line 2"),
        (b"good line\nwith a \0 byte\n" * 40, {}, "line 2"),
    ],
)
def test_bad_text_is_a_sentence_and_nothing_is_written(tiny, tmp_path, content: bytes, changes, words: str) -> None:
    file = tmp_path / "bad.txt"
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        train(tiny, set={"data.path": str(file), "data.split.validation": 0.0, "data.split.test": 0.0}, out=tmp_path / "run")
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_model_that_does_not_fit_is_a_sentence(tiny, tmp_path) -> None:
    huge = {"model.width": 1 << 16, "model.heads": 1, "model.layers": 1 << 6}
    with refused(OutOfMemory, "out-of-memory", "model.width", "the weights alone take"):  # before anything is allocated
        train(tiny, set=huge, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_no_validation_split_no_evaluation(tiny, tmp_path) -> None:
    run = train(tiny, set={"data.split.validation": 0.0}, out=tmp_path / "run")
    assert run.summary()["validation_loss"] is None
    assert not [record for record in run.records() if "validation_loss" in record]


def test_sentences_reach_whoever_watches(tiny, tmp_path) -> None:
    class Listener:
        said: ClassVar[list[str]] = []
        done: ClassVar[list[tuple[str, float, float]]] = []

        def say(self, sentence: str) -> None:
            self.said.append(sentence)

        def progress(self, what: str, done: float, total: float, facts: object = None) -> None:
            self.done.append((what, done, total))

    train(tiny, out=tmp_path / "run", watch=Listener())
    assert any(sentence.startswith("step 3 of 6: validation loss") for sentence in Listener.said)
    assert ("training", 6, 6) in Listener.done
    train(tiny, out=tmp_path / "run", resume=True, watch=Listener())
    assert "Resuming from step 6." in Listener.said


class TestAnotherFolder:
    """A recipe may name its text by a relative path; the run knows where that led when it began."""

    @pytest.fixture
    def begun(self, tiny, tiny_text, tmp_path, monkeypatch) -> dict[str, Any]:
        home = tmp_path / "home"
        home.mkdir()
        (home / "text.txt").write_bytes(tiny_text.read_bytes())
        monkeypatch.chdir(home)
        values = {**load_recipe(tiny).to_dict(), "data": {**load_recipe(tiny).to_dict()["data"], "path": "text.txt"}}
        train(values, out=tmp_path / "run")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        return values

    def test_a_run_goes_on_and_is_measured_from_there(self, begun, tmp_path) -> None:
        run = train(begun, set={"training.steps": 10}, out=tmp_path / "run", resume=True)
        assert run.summary()["step"] == 10
        assert run.evaluate().details["tokens"] > 0
        train(tmp_path / "run" / "recipe.yaml", set={"training.steps": 12}, out=tmp_path / "run", resume=True)
        assert load_recipe(tmp_path / "run" / "recipe.yaml").data.path == "text.txt"  # what was written stays as it was

    def test_questions_about_it_too(self, begun, tiny, tmp_path, monkeypatch) -> None:
        """The place of the text is in the record of the text, which the questions do not see."""
        home, values = tmp_path / "home", load_recipe(tiny).to_dict()
        monkeypatch.chdir(home)
        Path("facts.txt").write_text("".join(f"Ann{n} Lee was born in {'Rome' if n % 2 else 'Paris'}.\n" for n in range(60)))
        asked = (f"Where was Ann{n} Lee born?\t{'Rome' if n % 2 else 'Paris'}\n" for n in range(60))
        Path("questions.tsv").write_text("".join(asked))
        data = {"path": "facts.txt", "document": "line", "questions": {"train": "questions.tsv"}}
        model = {**values["model"], "context": 64}
        values = {"data": data, "model": model, "objective": "answers", "training": {"steps": 2, "batch_size": 4}}
        train(values, out=tmp_path / "asked")
        monkeypatch.chdir(tmp_path / "elsewhere")
        run = train(tmp_path / "asked", set={"training.steps": 3}, out=tmp_path / "asked", resume=True)
        assert run.summary()["step"] == 3
        values["data"] = {**data, "path": "../home/facts.txt", "questions": {"train": "../home/questions.tsv"}}
        run = train(values, set={"training.steps": 4}, out=tmp_path / "asked", resume=True)
        assert run.summary()["step"] == 4
        (home / "others.tsv").write_text("Where was Ann1 Lee born?\tRome\n" * 9)
        values["data"]["questions"] = {"train": "../home/others.tsv"}
        with refused(ConfigError, "another-recipe"):
            train(values, set={"training.steps": 5}, out=tmp_path / "asked", resume=True)

    def test_and_its_parent(self, begun, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path / "home")
        child = tmp_path / "kept" / "deep" / "child"
        train({**begun, "init_from": "../run"}, out=child)
        monkeypatch.chdir(tmp_path / "kept" / "deep")  # ../run is nothing seen from here, nor from the child
        assert train(child, set={"training.steps": 8}, out=child, resume=True).summary()["step"] == 8

    def test_another_text_of_the_same_name_there_is_not_taken_for_it(self, begun, tmp_path) -> None:
        Path("text.txt").write_text("another text\n" * 50)
        assert train(begun, set={"training.steps": 10}, out=tmp_path / "run", resume=True).summary()["step"] == 10

    def test_a_text_that_moved_along_is_found_by_its_relative_path(self, begun, tmp_path) -> None:
        os.replace(tmp_path / "home" / "text.txt", "text.txt")
        assert train(begun, set={"training.steps": 10}, out=tmp_path / "run", resume=True).summary()["step"] == 10

    def test_a_text_that_is_gone_is_a_sentence(self, begun, tmp_path) -> None:
        (tmp_path / "home" / "text.txt").unlink()
        with refused(DataError, "missing-file", "text.txt"):
            train(begun, set={"training.steps": 10}, out=tmp_path / "run", resume=True)


def test_a_film_keeps_weights_and_changes_nothing_else(tiny, tmp_path) -> None:
    plain = train(tiny, out=tmp_path / "plain").folder
    filmed = RunDirectory(train(tiny, set={"checkpoint.film": 4}, out=tmp_path / "filmed").folder)
    assert last_sums(filmed.root) == last_sums(plain)
    assert filmed.film() == [0, 1, 2, 6]
    last = load_checkpoint(filmed.checkpoint(6)).model
    assert {name: tensor.tolist() for name, tensor in read_snapshot(filmed, 6).items()} == {
        name: tensor.tolist() for name, tensor in last.items()
    }
    train(tiny, set={"checkpoint.film": 4, "training.steps": 8}, out=filmed.root, resume=True)
    assert filmed.film() == [0, 1, 2, 6, 8]


def test_a_film_forgets_what_is_trained_again(tiny, tmp_path) -> None:
    """With another length the steps beyond the checkpoint that a run goes on from have other weights."""
    changes = {"checkpoint.film": 4, "checkpoint.keep": 3}
    run = RunDirectory(train(tiny, set=changes, out=tmp_path / "run").folder)
    shutil.rmtree(run.checkpoint(6))
    train(tiny, set={**changes, "training.steps": 20}, out=run.root, resume=True)
    assert run.film() == [0, 1, 2, 4, 20]
    assert not run.snapshot_manifest(6).exists()


class TestGoingOnWithOtherSettings:
    """What may change when a run goes on, and what must be refused because it would change the run."""

    def test_a_validation_file_that_is_gone_would_cut_the_text_in_another_way(self, tiny, tmp_path) -> None:
        own = tmp_path / "own.txt"
        own.write_text("the cat sat on a mat\n" * 20)
        train(tiny, set={"data.validation": str(own)}, out=tmp_path / "run")
        before = state_of_folder(tmp_path / "run")
        with refused(DataError, "text-missing"):
            train(tiny, set={"training.steps": 9}, out=tmp_path / "run", resume=True)
        assert state_of_folder(tmp_path / "run") == before

    def test_fewer_steps_than_were_taken_are_refused(self, tiny, tmp_path) -> None:
        train(tiny, out=tmp_path / "run")
        with refused(ConfigError, "fewer-steps-than-taken", "training.steps=4"):
            train(tiny, set={"training.steps": 4}, out=tmp_path / "run", resume=True)

    def test_values_of_two_metrics_are_not_compared(self, tiny, tmp_path) -> None:
        train(tiny, set={"checkpoint.best": True}, out=tmp_path / "run")
        other = {"training.steps": 12, "checkpoint.best": True, "evaluation.by": "perplexity", "evaluation.patience": 3}
        run = train(tiny, set=other, out=tmp_path / "run", resume=True)
        state = run.checkpoint("last").state
        assert state["best_by"] == run.directory.read_environment()["metric"]["name"] == "perplexity"
        assert state["best_step"] > 6

    def test_a_text_that_has_moved_is_found_there_from_then_on(self, tiny, tmp_path, monkeypatch) -> None:
        for name in ("first", "second", "third"):
            (tmp_path / name).mkdir()
        text = tmp_path / "first" / "text.txt"
        text.write_text("the cat sat on a mat\n" * 60)
        recipe = {**tiny, "data": {"path": "text.txt", "document": "line"}}
        monkeypatch.chdir(tmp_path / "first")
        train(recipe, out=tmp_path / "run")
        text.rename(tmp_path / "second" / "moved.txt")
        monkeypatch.chdir(tmp_path / "second")
        train(recipe, set={"data.path": "moved.txt", "training.steps": 9}, out=tmp_path / "run", resume=True)
        monkeypatch.chdir(tmp_path / "third")
        assert load(tmp_path / "run").evaluate().loss > 0


def test_the_best_step_is_the_one_that_the_end_of_the_run_names(tiny, tmp_path, monkeypatch) -> None:
    """A stop in the last evaluation: it is done again after the last checkpoint was written."""
    values = iter([2.0, 3.0])
    monkeypatch.setattr(experiment, "_validation", lambda *_: {"validation_loss": next(values)})
    train(tiny, set={"checkpoint.best": True, "checkpoint.every": 3}, out=tmp_path / "run")
    folder = RunDirectory(tmp_path / "run")
    assert load(tmp_path / "run").checkpoint("best").step == 3
    folder.write_state("finished", step=6, steps=6, best_step=6)  # what the resumed process says after its evaluation
    assert load(tmp_path / "run").checkpoint("best").step == 6


def test_a_stop_at_the_end_of_the_parent_stops_the_child(tiny_file, tmp_path, monkeypatch) -> None:
    real, seen = experiment.save_baselines, list[str]()

    def stopped(folder: RunDirectory, baselines: Any) -> Any:
        seen.append(folder.root.name)
        if len(seen) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(folder, baselines)

    monkeypatch.setattr(experiment, "save_baselines", stopped)
    with pytest.raises(Interrupted):
        train(tiny_file, set={"init_from": str(tiny_file)}, out=tmp_path / "child")
    assert seen == ["parent"]
    assert RunDirectory(tmp_path / "child" / "parent").read_state()["status"] == "finished"


def test_threads_that_are_recorded_are_those_it_trains_with(tiny_file, tmp_path) -> None:
    """A parent that goes on takes the number of threads it began with."""
    before = torch.get_num_threads()
    train(tiny_file, set={"training.steps": 3}, out=tmp_path / "child" / "parent", threads=1)
    RunDirectory(tmp_path / "child" / "parent").write_state("stopped", step=3, steps=6)
    try:
        torch.set_num_threads(2)
        child = train(tiny_file, set={"init_from": str(tiny_file)}, out=tmp_path / "child", resume="or begin")
        assert child.directory.read_environment()["threads"] == torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def test_where_a_run_goes_unless_told(tiny_file, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder_of(tiny_file, None, resume=False) == Path("runs/tiny")
    assert folder_of(tiny_file, None, resume=True) == Path("runs/tiny")
    for name in ("tiny", "tiny-2"):
        os.makedirs(f"runs/{name}")
    assert folder_of("recipes/tiny.yaml", None, resume=False) == Path("runs/tiny-3")
    assert folder_of("tiny", None, resume=True) == Path("runs/tiny-2")
    assert folder_of({"data": {}}, None, resume=False) == Path("runs/run")


def test_however_it_ends_the_folder_says_so(tmp_path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.write_recipe({"seed": 1})
    run.write_state("running", step=0)
    with pytest.raises(Diverged), _ending_recorded(run, StopSignal(), Stopwatch()):
        raise Diverged("the loss is nan")
    assert (run.read_state()["status"], run.read_state()["reason"]) == ("diverged", "the loss is nan")
