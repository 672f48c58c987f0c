"""How far a study has come: counted from trials and steps, told to whoever watches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.foundation.progress import duration
from glassformer.study.planning.plan import Trial
from glassformer.study.planning.variant_facts import Facts
from glassformer.study.running.progress import ProgressTracker, StudyProgress, last_step

FACTS = {name: Facts("r", "d", "x", steps=10, step_flops=flops) for name, flops in (("base", 1), ("big", 3))}
TRIALS = [Trial(name, seed, {}, f"{name}/seed-{seed}") for seed in (0, 1) for name in ("base", "big")]


class Watch:
    def __init__(self) -> None:
        self.seen: list[StudyProgress] = []

    def say(self, sentence: str) -> None: ...

    def progress(self, *_: object) -> None:
        raise AssertionError("the whole progress is wanted")

    def study_progress(self, progress: StudyProgress) -> None:
        self.seen.append(progress)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def tracker(tmp_path: Path, clock: Clock, watch: object) -> ProgressTracker:
    return ProgressTracker(watch, FACTS, lambda trial: tmp_path / trial.folder, lambda name: 1.5, clock)  # type: ignore[arg-type]


def test_time_left_follows_the_work_of_this_session(tmp_path, clock):
    watch = Watch()
    counted = tracker(tmp_path, clock, watch)
    counted.begin(TRIALS, {TRIALS[0].label: True})  # 10 of 80 FLOPs were done by an earlier session
    assert watch.seen[-1].left is None
    counted.start(TRIALS[1])
    clock.now += 6.0
    counted.end(TRIALS[1], usable=False, seconds=6.0)  # 30 FLOPs in 6 s: the other 40 take 8 s
    progress = watch.seen[-1]
    assert progress.left == pytest.approx(8.0)
    assert (progress.done, progress.total) == (2, 4)
    assert progress.busy == pytest.approx(6.0 / 3600)
    base, big = progress.rows
    assert (base.name, base.done, base.failed, base.planned, base.mean) == ("base", 1, 0, 2, 1.5)
    assert (big.done, big.failed, big.planned) == (1, 1, 2)


def test_running_trials_count_by_their_steps(tmp_path, clock):
    watch = Watch()
    counted = tracker(tmp_path, clock, watch)
    counted.begin(TRIALS, {})
    counted.start(TRIALS[0])
    folder = tmp_path / TRIALS[0].folder
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"step": 5, "loss": 2.0}\n')
    clock.now += 1.0
    counted.report()
    assert watch.seen[-1].rows[0].running == (0.5,)
    assert watch.seen[-1].left == pytest.approx(15.0)  # 5 of 80 FLOPs in one second


def test_a_watcher_that_knows_only_bars(tmp_path, clock):
    told = []

    class Bars:
        def say(self, sentence: str) -> None: ...

        def progress(self, what, done, total, facts=None):
            told.append((what, done, total, facts))

    counted = tracker(tmp_path, clock, Bars())
    counted.begin(TRIALS, {})
    clock.now += 2.0
    counted.end(TRIALS[0], usable=True, seconds=2.0)
    assert told == [("trials", 0, 4, {}), ("trials", 1, 4, {"time left": "14 s"})]


def test_last_step_reads_the_end_of_a_long_file(tmp_path):
    assert last_step(tmp_path) == 0
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(json.dumps({"step": step, "words": "x" * 50}) + "\n" for step in range(1, 500)) + '{"step": 99')
    assert last_step(tmp_path) == 499
    file.write_text("not a record\n")
    assert last_step(tmp_path) == 0


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_durations(seconds, text):
    assert duration(seconds) == text
