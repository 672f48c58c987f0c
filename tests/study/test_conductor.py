"""From a plan to verdicts with an executor that makes everything up: looks, budgets, failures, stops, tuning."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.foundation.errors import CheckFailed, ConfigError, Interrupted, RunError
from glassformer.recipe import load_recipe
from glassformer.study.conductor import Conductor
from glassformer.study.directory import StudyDirectory
from glassformer.study.executors.base import Ended, Event, Executor, Started, Task, Waiting
from glassformer.study.ledger import Ledger
from glassformer.study.plan import StudyPlan
from glassformer.study.sequential import USUAL_LOOKS
from glassformer.study.store import TrialStore, machine_of
from glassformer.study.study import Study

PASSED = {"subject": "x", "findings": [], "tested": {}, "not_judged": {}, "notes": [], "seconds": 0.0}
MADE_ON = machine_of({"threads": 1, "torch": "9.9"})
FINDING = {"law": "causality", "where": "merge", "from_position": 1, "to_position": 0, "size": 1.0, "example": {}}


class MakesUp(Executor):
    """Answers tasks at once: ``loss(variant, seed, recipe)`` is the loss of a trial, or the answer of one that fails."""

    def __init__(self, made_up: Any, loss: Callable[..., Any], leaks: Sequence[str], seconds: float) -> None:
        super().__init__()
        self.made_up, self.loss, self.leaks = made_up, loss, leaks
        self.done: list[str] = []
        self.needed: list[int] = []
        self.closed, self.seconds = False, seconds

    @property
    def slots(self) -> int:
        return 1

    def fit(self, needed_bytes: int) -> None:
        self.needed.append(needed_bytes)

    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        self._waiting.extend(tasks)
        while self._waiting:
            task = self._waiting.popleft()
            yield Started(task)
            yield Waiting()
            yield Ended(task, self.answer(task))
            self.done.append(task.label)

    def answer(self, task: Task) -> dict[str, Any]:
        if task.kind == "inspect":
            findings = [FINDING] if task.label in self.leaks else []
            figures = {"parameters": 9, "step_flops": 7, "memory_bytes": 5, "steps": 24, "tokens": 1680, "device": "cpu"}
            return {"status": "finished", "check": {**PASSED, "findings": findings}, "machine": MADE_ON, **figures}
        variant, _, rest = task.label.partition(", seed ")
        found = self.loss(variant, int(rest.split(" ")[0]), task.values["recipe"])
        if isinstance(found, dict):
            return {"seconds": 1.0, **found}
        many = type(self.made_up)(np.resize(self.made_up.tokens, 600))
        wave = np.sin(np.arange(600.0) * (1 + task.values["recipe"]["seed"]))
        tainted = "it leaks" if isinstance(found, Tainted) else None
        made = many.run(Path(task.values["folder"]), task.values["recipe"], found + 0.002 * wave, tainted=tainted)
        (made.checkpoint(24) / "weights").write_bytes(b"made up")
        before = getattr(found, "before_training", False)
        return {"status": "finished", "seconds": self.seconds, "notes": [], "before_training": before}

    def close(self) -> None:
        self.closed = True


class Tainted(float):
    """A loss of a model in which a check found a leak, measured all the same."""

    before_training: bool

    def __new__(cls, loss: float, *, before_training: bool = False) -> Tainted:
        made = super().__new__(cls, loss)
        made.before_training = before_training
        return made


class Said(list):
    def say(self, sentence: str) -> None:
        self.append(sentence)

    def progress(self, *_: object) -> None: ...


def luck(seed: int) -> float:
    return 0.01 * np.sin(7.0 * seed)


@pytest.fixture
def conduct(made_up, recipe, tmp_path):
    """Runs a plan of made-up trials; gives the study, the executor and what was said."""

    def conduct(
        loss,
        *changes: str,
        leaks: Sequence[str] = (),
        seconds: float = 3600.0,
        out: str = "study",
        store: TrialStore | None = None,
        baseline: str = "paired",
        **plan: Any,
    ) -> tuple[Study, MakesUp, Said]:
        named = [{"name": name, "set": {"model.positions": name}} for name in changes or ("alibi", "rotary")]
        planned = StudyPlan.parse({"base": recipe, "changes": named, **{"seeds": 6, **plan}})
        directory = StudyDirectory(tmp_path / out)

        def resolve(settings: Any) -> dict[str, Any]:
            return load_recipe(recipe, settings).to_dict()

        planned, _ = directory.begin(planned, resolve)
        executor, said = MakesUp(made_up, loss, leaks, seconds), Said()
        try:
            study = Conductor(
                planned, directory, resolve, lambda: executor, plugins=(), watch=said, store=store, baseline=baseline
            ).run()
        finally:
            conduct.executor, conduct.said = executor, said
        return study, executor, said

    return conduct


@pytest.fixture
def store(tmp_path, monkeypatch) -> TrialStore:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return TrialStore()


def words(study: Study) -> dict[str, str]:
    return {verdict.variant: verdict.verdict for verdict in study.verdicts}


def effects(**effect: float) -> Callable[..., float]:
    """Seeds that go together, a difference per variant, and a little of its own for each pair."""

    def loss(variant: str, seed: int, recipe: Any) -> float:
        own = 0.0 if variant == "base" else 0.001 * np.cos(5.0 * seed + len(variant))
        return 1.5 + luck(seed) + effect.get(variant, 0.0) + own

    return loss


def test_a_plain_study_in_pairs(conduct):
    study, executor, _ = conduct(effects(alibi=-0.1))
    assert words(study) == {"alibi": "better", "rotary": "same"}
    assert executor.done[:6] == ["base", "alibi", "rotary", "base, seed 0", "alibi, seed 0", "rotary, seed 0"]
    assert len(executor.done) == 3 + 18
    assert executor.closed
    assert executor.needed[-1] == 5
    assert study.directory.results_file.is_file()


def test_done_again_nothing_is_run_and_the_table_is_the_same(conduct):
    first, _, _ = conduct(effects(alibi=-0.1))
    again, executor, _ = conduct(effects(alibi=99.0))
    assert executor.done == []
    assert not executor.closed  # it was never opened
    assert again.to_dict() == first.to_dict()


class TestLooks:
    def test_seeds_are_added_only_for_what_is_undecided(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            own = {"alibi": -0.1, "rotary": 0.03 * np.sin(3.3 * seed)}.get(variant, 0.0)
            return 1.5 + luck(seed) + own + (0.0005 * np.cos(9.0 * seed) if variant == "alibi" else 0.0)

        study, _, _ = conduct(loss, seeds=None, looks=list(USUAL_LOOKS))
        assert words(study) == {"alibi": "better", "rotary": "not decided"}
        seeds = {name: len(study.finished(name)) for name in ("base", "alibi", "rotary")}
        assert seeds == {"base": 16, "alibi": 6, "rotary": 16}

    def test_all_decided_at_the_first_look(self, conduct):
        study, _, _ = conduct(effects(alibi=-0.1), seeds=None, max_seeds=16)
        assert words(study) == {"alibi": "better", "rotary": "same"}
        assert len(study.finished("base")) == 6

    def test_interrupted_between_looks_it_ends_the_same(self, conduct, tmp_path):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            return 1.5 + luck(seed) + (0.03 * np.sin(3.3 * seed) if variant == "rotary" else 0.0)

        plan = {"seeds": None, "max_seeds": 16}

        def mortal(variant: str, seed: int, recipe: Any) -> Any:
            return {"status": "refused", "reason": "no room", "exit_code": 1} if seed == 6 else loss(variant, seed, recipe)

        with pytest.raises(RunError, match="no room"):
            conduct(mortal, "rotary", **plan)
        interrupted, _, _ = conduct(loss, "rotary", **plan)
        os.rename(tmp_path / "study", tmp_path / "interrupted")
        whole, _, _ = conduct(loss, "rotary", **plan)
        assert len(whole.finished("rotary")) == 16
        assert [one.to_dict() for one in whole.verdicts] == [one.to_dict() for one in interrupted.verdicts]


class TestChecksFirst:
    def test_a_leaking_change_is_invalid_and_not_trained(self, conduct):
        study, executor, said = conduct(effects(), leaks=["alibi"])
        assert words(study) == {"alibi": "invalid", "rotary": "same"}
        assert not any(label.startswith("alibi, ") for label in executor.done)
        assert any(sentence.startswith("alibi is not trained: causality") for sentence in said)

    def test_a_leaking_baseline_stops_everything(self, conduct):
        with pytest.raises(CheckFailed, match="The baseline itself fails a check"):
            conduct(effects(), leaks=["base"])
        assert conduct.executor.done[-1] == "rotary"

    def test_a_leak_found_after_training_is_remembered(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if variant == "alibi" and seed == 0:
                return {"status": "leak", "reason": "sees the future once trained"}
            return effects()(variant, seed, recipe)

        study, executor, said = conduct(loss)
        assert words(study) == {"alibi": "invalid", "rotary": "same"}
        assert words(Study.load(study.folder))["alibi"] == "invalid"
        assert "alibi, seed 1" not in executor.done
        assert "alibi leaks once it is trained: 5 trials of it not begun." in said
        assert [line.name for line in Ledger.beside(study.folder).attempts()] == ["rotary"]  # nobody saw a figure of alibi
        assert study.verdict("alibi").sentence.startswith("alibi is invalid: it cheats once it is trained: sees the future")

    def test_a_leak_of_the_step_was_found_before_training(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            found = {"status": "leak", "reason": "causality at the compiled loss.", "before_training": True}
            return found if variant == "alibi" else effects()(variant, seed, recipe)

        study, _, said = conduct(loss)
        told = "alibi is invalid: it cheats in the step that trains it: causality at the compiled loss."
        assert study.verdict("alibi").sentence == told
        assert Study.load(study.folder).verdict("alibi").sentence == told
        assert "alibi leaks in the step that trains it: 5 trials of it not begun." in said

    @pytest.mark.parametrize(
        ("before_training", "where"), [(True, "cheats in the step that trains it"), (False, "cheats once it is trained")]
    )
    def test_where_leaks_are_allowed_it_is_told_when_one_was_found(self, conduct, before_training, where):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            own = effects()(variant, seed, recipe)
            return Tainted(own, before_training=before_training) if variant == "alibi" else own

        study, _, _ = conduct(loss, "alibi", seeds=2, allow_leaks=True)
        assert where in study.verdict("alibi").sentence

    def test_of_a_model_that_leaks_once_trained_no_figure_is_given_and_nothing_is_kept(self, conduct, store):
        """Another seed was done, and kept, before the one that is checked after training."""

        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if variant == "alibi" and seed == 2:
                return {"status": "leak", "reason": "sees the future once trained"}
            return effects()(variant, seed, recipe)

        conduct(loss, "alibi", seeds=2, first_seed=0, out="pilot", store=store)
        assert len(store.entries()) == 4
        study, executor, _ = conduct(loss, "alibi", first_seed=2, store=store)
        assert len(executor.done) == 2 + 6 + 1
        assert {one["seed"] for one in store.entries()} == {0, 1, 2, 3, 4, 5, 6, 7}
        assert len(store.entries()) == 8  # the baseline's
        (row,) = [row for row in study.table if row["variant"] == "alibi"]
        assert row["loss"]["value"] is None

    def test_where_leaks_are_allowed_nothing_of_it_is_kept_either(self, conduct, store):
        """Only the first seed is checked after training, so only its figures are marked by themselves."""

        def loss(variant: str, seed: int, recipe: Any) -> float:
            own = effects()(variant, seed, recipe)
            return Tainted(own) if (variant, seed) == ("alibi", 0) else own

        study, executor, _ = conduct(loss, "alibi", seeds=2, allow_leaks=True, store=store)
        assert len(executor.done) == 2 + 4
        assert words(study) == {"alibi": "invalid"}
        assert [one["seed"] for one in store.entries()] == [0, 1]  # the baseline's
        assert study.book.variants["alibi"].leak == "it leaks"

    def test_the_seed_that_is_checked_after_training_is_taken_only_from_what_was_checked(self, conduct, store):
        def dies(variant: str, seed: int, recipe: Any) -> Any:
            failed = {"status": "failed", "reason": "no room"}
            return failed if (variant, seed) == ("alibi", 0) else effects()(variant, seed, recipe)

        conduct(dies, "alibi", seeds=3, store=store)  # seed 0, the one to be checked, gave nothing
        assert len(store.entries()) == 5
        _, executor, _ = conduct(effects(), "alibi", seeds=2, first_seed=1, out="second", store=store)
        assert executor.done[2:] == ["alibi, seed 1"]
        _, executor, said = conduct(effects(), "alibi", seeds=2, first_seed=1, out="third", store=store)
        assert executor.done[2:] == []
        assert any(sentence.startswith("4 of 4 trials are taken") for sentence in said)

    def test_of_a_bank_too_one_run_is_known_to_have_been_checked(self, conduct, store):
        def dies(variant: str, seed: int, recipe: Any) -> Any:
            return {"status": "failed", "reason": "no room"} if seed == 0 else effects()(variant, seed, recipe)

        conduct(dies, "alibi", seeds=7, store=store)  # the baseline's seeds 1 to 6 are kept, and none was checked
        study, executor, _ = conduct(effects(), "alibi", seeds=2, first_seed=9, out="second", store=store, baseline="bank")
        assert study.plan.bank == (1, 2, 3, 4, 5, 6)
        assert executor.done[2:] == ["base, seed 1", "alibi, seed 9", "alibi, seed 10"]

    def test_the_other_changes_go_on_to_their_next_look(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if variant == "alibi":
                return {"status": "leak", "reason": "sees the future once trained"}
            return 1.5 + luck(seed) + (0.03 * np.sin(3.3 * seed) if variant == "rotary" else 0.0)

        study, _, _ = conduct(loss, seeds=None, looks=[6, 8])
        assert len(study.finished("rotary")) == 8


class TestFailures:
    @pytest.mark.parametrize(
        "answer", [{"status": "failed", "reason": "ZeroDivisionError"}, {"lost": "its process ended by signal 9"}]
    )
    def test_a_failed_trial_makes_its_change_invalid_and_is_tried_again_next_time(self, conduct, answer):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            return answer if (variant, seed) == ("alibi", 3) else effects(alibi=-0.1)(variant, seed, recipe)

        study, executor, _ = conduct(loss)
        assert words(study) == {"alibi": "invalid", "rotary": "same"}
        assert "no result in 1 of 6 seeds (seed 3)" in study.verdict("alibi").reason
        assert words(Study.load(study.folder))["alibi"] == "invalid"
        study, executor, _ = conduct(effects(alibi=-0.1))
        assert executor.done == ["alibi, seed 3"]
        assert words(study) == {"alibi": "better", "rotary": "same"}

    def test_a_bad_baseline_saves_the_changes(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            return 5.0 if variant == "base" and seed in (0, 2) else effects()(variant, seed, recipe)

        study, executor, said = conduct(loss)
        assert set(words(study).values()) == {"invalid"}
        assert "in 2 of 6 seeds (seeds 0 and 2); nothing can be compared with it" in study.verdicts[0].reason
        assert executor.done[3:] == [f"base, seed {seed}" for seed in range(6)]
        assert any("12 trials of changes are not begun" in sentence for sentence in said)
        _, executor, said = conduct(loss)  # gone on with: they are not begun then, either
        assert executor.done == []
        assert any("12 trials of changes are not begun" in sentence for sentence in said)

    def test_what_the_user_must_mend_ends_the_study_with_a_sentence(self, conduct):
        refused = {"status": "refused", "reason": "model.merge has no 'mine'.", "exit_code": 2}
        with pytest.raises(ConfigError, match=r"no 'mine'.*belongs into such a file"):
            conduct(lambda *_: refused)
        assert conduct.executor.closed

    def test_a_damaged_trial_is_said_set_aside_and_run_again(self, conduct, tmp_path):
        study, _, _ = conduct(effects(alibi=-0.1))
        before = study.to_dict()
        folder = tmp_path / "study" / "trials" / "alibi" / "seed-4"
        (folder / "evaluations" / "validation-step-24.json").write_text('{"half": ')
        study, executor, said = conduct(effects(alibi=-0.1))
        assert executor.done == ["alibi, seed 4"]
        assert any("seed-4 is damaged" in sentence and "run again" in sentence for sentence in said)
        assert (tmp_path / "study" / "damaged" / "trials-alibi-seed-4").is_dir()
        assert study.to_dict() == before


class TestBudget:
    def test_no_trial_is_begun_beyond_it(self, conduct):
        study, executor, said = conduct(effects(), "alibi", budget_hours=4.5)  # every trial takes an hour
        assert executor.done[2:] == ["base, seed 0", "alibi, seed 0", "base, seed 1", "alibi, seed 1", "base, seed 2"]
        assert any("budget of 4.5 hours is used up: 7 trials are not begun" in sentence for sentence in said)
        assert study.verdicts[0].verdict == "not decided"
        study, executor, _ = conduct(effects(), "alibi", budget_hours=100.0)  # a larger one goes on
        assert len(executor.done) == 7
        assert words(study) == {"alibi": "same"}

    def test_a_look_that_would_go_beyond_it_is_not_begun(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            return 1.5 + luck(seed) + (0.03 * np.sin(3.3 * seed) if variant == "rotary" else 0.0)

        # made-up trials say 1680 tokens at 840 a second: 2 s each, 24 s for the first look, 8 s for the second
        study, _, said = conduct(loss, "rotary", seeds=None, max_seeds=16, seconds=2.0, budget_hours=30 / 3600)
        assert any("The look at 8 seeds would take about 8 s" in sentence for sentence in said)
        assert len(study.finished("base")) == 6
        study, _, _ = conduct(loss, "rotary", seeds=None, max_seeds=16, seconds=2.0, budget_hours=40 / 3600)
        assert len(study.finished("base")) == 8

    def test_what_was_taken_from_earlier_studies_costs_nothing(self, conduct, store):
        def loss(variant: str, seed: int, recipe: Any) -> float:
            return 1.5 + luck(seed) + (0.03 * np.sin(3.3 * seed) if variant == "rotary" else 0.0)

        conduct(loss, "rotary", seeds=7, seconds=2.0, out="first", store=store)
        # 14 of 16 trials are kept: two of 2 s are left to be trained for the look at 8
        hours = 5 / 3600
        study, executor, said = conduct(
            loss, "rotary", seeds=None, looks=[6, 8], seconds=2.0, budget_hours=hours, out="second", store=store
        )
        assert executor.done[2:] == ["base, seed 7", "rotary, seed 7"]
        assert len(study.finished("rotary")) == 8
        assert not any("budget" in sentence for sentence in said)


GRID = {"grid": {"training.lr": [0.01, 0.1]}, "seeds": 2}


class TestTuning:
    def loss(self, variant: str, seed: int, recipe: Any) -> float:
        """Each variant has its own best rate."""
        best = {"base": 0.1, "alibi": 0.01}[variant]
        return 1.5 + luck(seed) + 3 * abs(recipe["training"]["lr"] - best) + 0.001 * np.cos(seed + len(variant))

    def test_every_variant_is_compared_at_its_own_best(self, conduct):
        study, executor, said = conduct(self.loss, "alibi", tune=GRID)
        tuning = [label for label in executor.done if "grid" in label]
        assert len(tuning) == 2 * 2 * 2
        assert {label.split("seed ")[1].split(" ")[0] for label in tuning} == {"1000000", "1000001"}
        rates = {name: facts.tuned["training.lr"] for name, facts in study.book.variants.items()}
        assert rates == {"base": 0.1, "alibi": 0.01}
        assert words(study) == {"alibi": "same"}
        assert any("alibi is tuned: training.lr=0.01, the best of 2 settings" in sentence for sentence in said)
        again, executor, _ = conduct(self.loss, "alibi", tune=GRID)
        assert executor.done == []
        assert again.to_dict() == study.to_dict()

    def test_a_search_without_changes_measures_what_it_found(self, conduct):
        study, executor, _ = conduct(self.loss, changes=[], tune=GRID)
        assert study.book.variants["base"].tuned == {"training.lr": 0.1}
        assert len([label for label in executor.done if "grid" in label]) == 4
        assert len(executor.done) == 4 + 1 + 6  # the grid, what is known of the variant, six seeds of the best setting
        assert words(study) == {}
        study.write()

    def test_a_setting_that_fails_is_not_chosen(self, conduct):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if recipe["training"]["lr"] == 0.1:
                return {"status": "diverged", "reason": "not finite"}
            return self.loss(variant, seed, recipe)

        study, _, _ = conduct(loss, "alibi", tune=GRID)
        assert {facts.tuned["training.lr"] for facts in study.book.variants.values()} == {0.01}

    def test_no_setting_that_works(self, conduct):
        with pytest.raises(RunError, match="base has no setting of its grid without a problem"):
            conduct(lambda *_: {"status": "failed", "reason": "x"}, "alibi", tune=GRID)


class TestStops:
    def test_a_signal_lets_the_study_end_and_go_on_later(self, conduct, tmp_path):
        def loss(variant: str, seed: int, recipe: Any) -> Any:
            if (variant, seed) == ("rotary", 2):
                os.kill(os.getpid(), signal.SIGTERM)
            return effects(alibi=-0.1)(variant, seed, recipe)

        with pytest.raises(Interrupted, match="the same command goes on") as stopped:
            conduct(loss)
        assert stopped.value.code == 143
        assert conduct.executor.closed
        assert any(sentence.startswith("Stopping") for sentence in conduct.said)
        lines = Ledger.beside(tmp_path / "study").attempts()
        assert [(line.name, line.verdict, line.p) for line in lines] == [("alibi", "begun", None), ("rotary", "begun", None)]
        _, _, said = conduct(effects(), "rotary", first_seed=6, out="second")
        assert any(sentence.startswith("rotary: Second study of this change on this text, after") for sentence in said)
        study, executor, _ = conduct(effects(alibi=-0.1))
        assert "base, seed 0" not in executor.done
        assert words(study) == {"alibi": "better", "rotary": "same"}

    def test_what_ends_before_a_run_of_a_change_was_no_attempt(self, conduct, tmp_path):
        refused = {"status": "refused", "reason": "no such key", "exit_code": 2}
        with pytest.raises(ConfigError):
            conduct(lambda variant, seed, recipe: effects()(variant, seed, recipe) if variant == "base" else refused)
        assert Ledger.beside(tmp_path / "study").attempts() == []

    def test_a_trial_that_was_interrupted_ends_the_study(self, conduct):
        with pytest.raises(Interrupted) as stopped:
            conduct(lambda *_: {"status": "stopped", "reason": "Stopped.", "signal": 2})
        assert stopped.value.code == 130


def test_a_parent_that_was_replaced_on_the_way_is_refused(conduct, monkeypatch):
    monkeypatch.setattr("glassformer.study.variant_data.parent_sum", lambda init_from: "weights")
    conduct(effects(), seeds=2)
    monkeypatch.setattr("glassformer.study.variant_data.parent_sum", lambda init_from: "other weights")
    with pytest.raises(ConfigError, match="has other weights than when the study began"):
        conduct(effects(), "alibi", "rotary", "none", seeds=2)


def test_data_that_changed_on_the_way_are_refused(conduct, recipe, text_file, tmp_path):
    copy = tmp_path / "copy.txt"
    copy.write_text(text_file.read_text())
    recipe["data"]["path"] = str(copy)
    conduct(effects())
    copy.write_text(text_file.read_text() + "abcabc\n")
    with pytest.raises(ConfigError, match="the data of 'base' changed since the study began"):
        conduct(effects())
