"""The proof of exact resume: real processes, one kill; and that it would find a difference."""

from __future__ import annotations

import json
import random
import sys

import pytest
from tests.refusals import refused

from glassformer.checking import verify_resume as module
from glassformer.checking.verify_resume import ResumeProof, verify_resume
from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.runs.directory import RunDirectory


def test_a_killed_run_ends_in_the_same_bits(tiny, tmp_path) -> None:
    said: list[str] = []

    class Listener:
        def say(self, sentence: str) -> None:
            said.append(sentence)

        def progress(self, *arguments: object) -> None: ...

    longer = {"training.steps": 400, "checkpoint.every": 7, "evaluation.every": 400}
    proof = verify_resume(tiny, set=longer, kills=1, times=1, seed=4, folder=tmp_path, watch=Listener())
    (step,) = proof.broken[0]["killed_at_steps"]
    assert 0 < step < 400  # in the middle of training, not before and not after
    assert proof.same
    assert set(proof.unbroken) == {"model.safetensors", "optimizer.safetensors"}
    assert proof.broken[0]["sha256"] == proof.unbroken
    assert said[0].startswith("Unbroken run: 400 steps in ")
    assert said[1].endswith(", same bits.")
    saved = proof.broken[0]["resumed_from_steps"]
    assert saved[-1] > 0
    assert all(step % 7 == 0 for step in saved)
    assert list(tmp_path.iterdir()) == []  # nothing stays behind
    assert json.loads(json.dumps(proof.to_dict())) == proof.to_dict()


def pretend(monkeypatch, sums: list[dict[str, str]]) -> list[str]:
    """Training is pretended: each finished run has the next of ``sums``."""
    done: list[str] = []
    monkeypatch.setattr(module, "_train", lambda file, run, plugins, processes: done.append(run.root.name))
    monkeypatch.setattr(
        module, "_kill_at", lambda file, run, plugins, processes, chance, step: done.append(f"kill {run.root.name}") or 3
    )
    monkeypatch.setattr(RunDirectory, "steps", lambda self: [6])
    monkeypatch.setattr(module, "checkpoint_checksums", lambda run, step: sums.pop(0))
    return done


def test_other_bits_are_found(tiny, monkeypatch) -> None:
    done = pretend(monkeypatch, [{"model": "a"}, {"model": "a"}, {"model": "b"}])
    proof = verify_resume(tiny, kills=2, times=2)
    assert not proof.same
    assert [run["same"] for run in proof.broken] == [True, False]
    assert [run["killed_at_steps"] for run in proof.broken] == [[3, 3], [3, 3]]
    assert done == ["unbroken", *(["kill broken-1"] * 2), "broken-1", *(["kill broken-2"] * 2), "broken-2"]


def test_a_run_that_patience_ended_before_its_first_checkpoint_is_no_proof(tiny, monkeypatch) -> None:
    pretend(monkeypatch, [{"model": "a"}, {"model": "a"}])
    monkeypatch.setattr(RunDirectory, "read_state", lambda self: {"status": "finished", "step": 6, "steps": 1000})
    with refused(GlassformerError, "saves-too-seldom", "checkpoint.every=100"):
        verify_resume(tiny, set={"training.steps": 1000, "checkpoint.every": None}, kills=1)


def test_a_run_that_fails_by_itself_is_no_proof(tiny, monkeypatch) -> None:
    failing = [sys.executable, "-c", "import sys; sys.exit('Error: no text')"]
    monkeypatch.setattr(module, "_command", lambda *arguments: failing)
    with refused(GlassformerError, "run-failed", "Error: no text"):
        verify_resume(tiny)


def test_plugins_are_known_before_the_recipe_is_read(tiny, tmp_path, monkeypatch) -> None:
    plugin = tmp_path / "short_schedule.py"
    plugin.write_text(
        "from glassformer.training.slots import SCHEDULES, ScheduleConfig\n"
        "@SCHEDULES.variant('of-a-test')\n"
        "class Mine(ScheduleConfig):\n"
        '    """A schedule of a test."""\n'
        "    def lr_multiplier(self, step: int, steps: int) -> float:\n"
        "        return 1.0\n"
    )
    pretend(monkeypatch, [{"model": "a"}, {"model": "a"}])
    assert verify_resume(tiny, set={"training.schedule": "of-a-test"}, plugins=[plugin]) == ResumeProof(
        True,
        {"model": "a"},
        [
            {
                "killed_at_steps": [3, 3],
                "resumed_from_steps": [6, 6],
                "processes": [1, 1, 1],
                "sha256": {"model": "a"},
                "same": True,
            }
        ],
    )
    from glassformer.training.slots import SCHEDULES

    del SCHEDULES._variants["of-a-test"]


def test_a_run_too_short_to_be_killed_is_no_proof(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_reached", lambda run: 0)  # as if nothing had been seen before it was over
    with refused(GlassformerError, "ended-before-kill"):
        verify_resume(tiny, kills=1, folder=tmp_path)


@pytest.mark.parametrize(
    ("steps", "kills", "remedy"),
    [
        (6, 6, "use --kills 5 or fewer, or set training.steps=7 or more."),
        (6, 9, "use --kills 5 or fewer, or set training.steps=10 or more."),
        (1, 2, "set training.steps=3 or more."),
    ],
)
def test_more_kills_than_the_recipe_has_steps_for_are_refused_untrained(
    tiny, tmp_path, monkeypatch, steps: int, kills: int, remedy: str
) -> None:
    done = pretend(monkeypatch, [{"model": "a"}])
    with pytest.raises(UsageError) as refusal:
        verify_resume(tiny, set={"training.steps": steps}, kills=kills, folder=tmp_path)
    asked = f"--kills {kills} is too many for a run of training.steps={steps}"
    assert str(refusal.value) == f"{asked}: each kill needs a separate step before the last one; {remedy}"
    assert done == []
    assert list(tmp_path.iterdir()) == []


def test_as_many_kills_as_there_are_steps_in_between_are_tried(tiny, monkeypatch) -> None:
    done = pretend(monkeypatch, [{"model": "a"}, {"model": "a"}])
    assert verify_resume(tiny, kills=5).same
    assert done == ["unbroken", *(["kill broken-1"] * 5), "broken-1"]


@pytest.mark.parametrize("longer", [{"training.epochs": 2}, {"training.steps": 90, "evaluation.patience": 1}])
def test_kills_that_only_the_run_shows_to_be_too_many_are_refused_after_it(tiny, monkeypatch, longer) -> None:
    done = pretend(monkeypatch, [{"model": "a"}])  # ends at step 6, by its text or by its patience
    with pytest.raises(GlassformerError) as refusal:
        verify_resume(tiny, set=longer, kills=6)
    assert str(refusal.value) == (
        "--kills 6 is too many for a run that ended at step 6: each kill needs a separate step before the last one; "
        "use --kills 5 or fewer, or make the run longer."
    )
    assert done == ["unbroken"]


@pytest.mark.parametrize(("steps", "every"), [(6, 5), (6, 9)])
def test_checkpoints_too_seldom_to_resume_from_are_refused_untrained(tiny, tmp_path, monkeypatch, steps, every) -> None:
    done = pretend(monkeypatch, [{"model": "a"}])
    with refused(UsageError, "saves-too-seldom", f"checkpoint.every={every}"):
        verify_resume(tiny, set={"training.steps": steps, "checkpoint.every": every}, kills=1, folder=tmp_path)
    assert done == []


def test_a_run_that_ended_before_a_checkpoint_was_due_is_no_proof(tiny, monkeypatch) -> None:
    pretend(monkeypatch, [{"model": "a"}])  # it ends at step 6
    with refused(GlassformerError, "saves-too-seldom", "checkpoint.every=5"):
        verify_resume(tiny, set={"training.steps": 100, "checkpoint.every": 5}, kills=1)


def test_one_kill_falls_behind_the_first_checkpoint() -> None:
    for seed in range(200):
        targets = module._targets(random.Random(seed), 3, 8, 12)
        assert targets == sorted(set(targets))
        assert len(targets) == 3
        assert targets[0] >= 1
        assert 8 < targets[-1] < 12
