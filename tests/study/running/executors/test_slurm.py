"""Jobs of a cluster through submitit: as processes of this machine, without SLURM, and on a SLURM of our own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.study.own_slurm import OwnSlurm, missing

pytest.importorskip("submitit", reason="the extra [slurm] is not installed")

from glassformer.foundation.errors import UsageError
from glassformer.study.compare import compare
from glassformer.study.running.executors.base import ATTEMPTS, Ended, Started, Task
from glassformer.study.running.executors.slurm import WITHOUT_SLURM, SlurmExecutor

# submitit leaves its processes and streams to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITHOUT_SLURM, "local")


def task(label: str, folder: Path, *plugins: Path) -> Task:
    return Task("nothing", label, {"cwd": str(folder), "plugins": [str(plugin) for plugin in plugins]})


@pytest.mark.slow
def test_a_study_by_jobs_gives_the_numbers_of_one_process(recipe: dict[str, Any], tmp_path: Path) -> None:
    recipe["training"] |= {"steps": 6}
    vary = {"model.positions": ["none"]}
    here = compare(recipe, vary, seeds=2, out=tmp_path / "here", on="inline", store=False)
    there = compare(recipe, vary, seeds=2, out=tmp_path / "there", on="slurm", store=False)
    assert [one.to_dict() for one in there.verdicts] == [one.to_dict() for one in here.verdicts]
    assert there.seed_values("base").tolist() == here.seed_values("base").tolist()


@pytest.mark.slow
def test_a_lost_job_is_queued_again_a_few_times(tmp_path: Path) -> None:
    deadly, count = tmp_path / "deadly.py", tmp_path / "count"
    deadly.write_text(
        f"import os, signal\nwith open({str(count)!r}, 'a') as f: f.write('x')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with closing(SlurmExecutor(tmp_path / "jobs", jobs=2)) as executor:
        events = list(executor.run([task("harmless", tmp_path), task("deadly", tmp_path, deadly)]))
    answers = {event.task.label: event.answer for event in events if isinstance(event, Ended)}
    assert {event.task.label for event in events if isinstance(event, Started)} == {"harmless", "deadly"}
    assert answers["harmless"]["status"] == "failed"  # there is no such task
    assert "lost" in answers["deadly"]
    assert count.read_text() == "x" * ATTEMPTS


@pytest.mark.slow
def test_what_has_not_begun_can_be_withdrawn_and_a_stop_ends_the_rest(tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(600)\n")
    with closing(SlurmExecutor(tmp_path / "jobs", jobs=1)) as executor:
        running = executor.run([task(name, tmp_path, sleeper) for name in ("first", "second", "third")])
        assert any(isinstance(event, Started) for event in running)
        assert [one.label for one in executor.withdraw(unless=lambda one: one.label == "third")] == ["second"]
        executor.stop()
        begun = time.monotonic()
        ended = [event for event in running if isinstance(event, Ended)]
        assert time.monotonic() - begun < 120
    assert [event.task.label for event in ended] == ["first"]
    assert ended[0].answer["status"] == "stopped"


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(UsageError, "bad-gpus", "0.5"):
        SlurmExecutor(tmp_path / "jobs", gpus_per_trial=0.5)
    monkeypatch.delenv(WITHOUT_SLURM)
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused(UsageError, "no-slurm"):
        SlurmExecutor(tmp_path / "jobs")
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
    assert os.environ["PATH"] == str(tmp_path)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnSlurm]:
    if missing():
        pytest.skip(f"{missing()} is not installed (Debian: slurmctld slurmd slurm-client munge)")
    with closing(OwnSlurm(tmp_path / "slurm")) as cluster:
        monkeypatch.delenv(WITHOUT_SLURM)
        monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        yield cluster


@pytest.mark.slow
def test_jobs_of_a_cluster(slurm: OwnSlurm, tmp_path: Path) -> None:
    """Two nodes of one core: what waits can be withdrawn, a stop ends the rest, and a killed driver's jobs do not stay."""
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(600)\n")
    left = SlurmExecutor(tmp_path / "jobs", hours=0.5)
    assert any(isinstance(event, Started) for event in left.run([task(f"{n}", tmp_path, sleeper) for n in range(3)]))
    slurm.wait(lambda: len(slurm.jobs()) == 3)  # its driver is killed now: nobody closes it
    with closing(SlurmExecutor(tmp_path / "jobs", hours=0.5)) as executor:
        running = executor.run([task(name, tmp_path, sleeper) for name in ("first", "second", "third", "fourth")])
        begun = [next(event for event in running if isinstance(event, Started)) for _ in range(2)]
        assert {event.task.label for event in begun} == {"first", "second"}
        slurm.wait(lambda: len(slurm.jobs()) == 4)  # and none of the first driver
        assert [one.label for one in executor.withdraw(unless=lambda one: one.label == "third")] == ["fourth"]
        executor.stop()
        ended = {event.task.label: event.answer["status"] for event in running if isinstance(event, Ended)}
    assert ended == dict.fromkeys(("first", "second", "third"), "stopped")
    slurm.wait(lambda: slurm.jobs() == [])


@pytest.mark.slow
def test_jobs_that_slurm_refuses_or_would_never_start(slurm: OwnSlurm, tmp_path: Path) -> None:
    with closing(SlurmExecutor(tmp_path / "a", partition="none")) as executor, refused(UsageError, "jobs-refused"):
        list(executor.run([task("one", tmp_path)]))
    with closing(SlurmExecutor(tmp_path / "b", hours=4)) as executor, refused(UsageError, "never-starts", "Partition"):
        list(executor.run([task("one", tmp_path), task("two", tmp_path)]))
    slurm.wait(lambda: slurm.jobs() == [])
