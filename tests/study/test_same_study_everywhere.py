"""One study inline, on worker processes, on a Ray of three nodes, by submitit and on a SLURM: the same trials and verdicts.

In each the driver is killed in the middle and started again, and on Ray and SLURM a node is killed, too. Nothing that was
finished is trained again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.study.own_slurm import OwnSlurm, missing

import glassformer
from glassformer.study.study import Study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
SEEDS, TRIALS = 8, 16
LONGEST = 1500  # seconds, on a machine that does other work


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Three nodes of one core each."""
    pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        from ray.cluster_utils import Cluster

        small = {"num_cpus": 1, "object_store_memory": 80 << 20}
        nodes = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
        for _ in range(2):
            nodes.add_node(**small)
        yield nodes
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSlurm]:
    """Two nodes of one core each."""
    pytest.importorskip("submitit")
    if missing():
        pytest.skip(f"{missing()} is not installed (Debian: slurmctld slurmd slurm-client munge)")
    cluster = OwnSlurm(tmp_path_factory.mktemp("slurm"))
    yield cluster
    cluster.close()


class Driver:
    """``glassformer compare`` as a process of its own."""

    def __init__(self, folder: Path, recipe: dict[str, Any], **environment: str) -> None:
        self.folder, self.study, self.environment = folder, folder / "study", environment
        folder.mkdir()
        (folder / "mine.yaml").write_text(json.dumps(recipe))

    def start(self, *where: str) -> subprocess.Popen[str]:
        words = [
            "compare",
            "mine.yaml",
            "--vary",
            "model.positions=none",
            "--seeds",
            str(SEEDS),
            "--out",
            "study",
            "--no-store",
        ]
        source = str(Path(glassformer.__file__).parents[1])
        environment = {
            **os.environ,
            "PYTHONPATH": source,
            "OMP_NUM_THREADS": "1",
            "GLASSFORMER_CACHE": str(self.folder / "cache"),
            **self.environment,
        }
        out = (self.folder / "said").open("a")
        command = [sys.executable, "-m", "glassformer", *words, *where]
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=out, stderr=out, text=True)

    def finished(self) -> dict[str, tuple[int, int]]:
        """The trials that have ended, with what would change if one were trained or evaluated again."""
        found = {}
        for state in self.study.glob("trials/*/*/state.json"):
            evaluation = next(state.parent.glob("evaluations/*.json"), None)
            if evaluation is not None and json.loads(state.read_text())["status"] == "finished":
                log = state.parent / "metrics.jsonl"
                found[str(state.parent.relative_to(self.study))] = (evaluation.stat().st_mtime_ns, log.stat().st_mtime_ns)
        return found

    def wait(self, driver: subprocess.Popen[str], enough: Callable[[], bool]) -> None:
        end = time.monotonic() + LONGEST
        while driver.poll() is None and not enough():
            assert time.monotonic() < end, (self.folder / "said").read_text()[-2000:]
            time.sleep(0.1)


def steps_of(trial: Path) -> list[int]:
    lines = [json.loads(line) for line in (trial / "metrics.jsonl").read_text().splitlines()]
    return [line["step"] for line in lines if "validation_loss" in line]


def small(recipe: dict[str, Any]) -> dict[str, Any]:
    training = recipe["training"] | {"steps": 20}
    return {**recipe, "training": training, "evaluation": {"every": 10}, "checkpoint": {"every": 5}}


def run_with_kills(one: Driver, *where: str, disturb: Callable[[subprocess.Popen[str]], None] = lambda driver: None) -> Study:
    """The driver is killed after four trials and started again; ``disturb`` is called when three more have ended."""
    begun, first = time.monotonic(), one.start(*where)
    one.wait(first, lambda: len(one.finished()) >= 4)
    assert first.poll() is None, (one.folder / "said").read_text()[-2000:]
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = one.finished()
    second = one.start(*where)
    one.wait(second, lambda: len(one.finished()) >= len(before) + 3)
    disturb(second)
    one.wait(second, lambda: False)
    assert second.returncode == 0, (one.folder / "said").read_text()[-2000:]
    after = one.finished()
    assert {trial: after[trial] for trial in before} == before  # what was finished was not touched
    assert len(after) == TRIALS
    assert all(steps_of(one.study / trial) == [10, 20] for trial in after)  # every step once, also where it was resumed
    print(f"{' '.join(where[:2])}: {len(before)} of {TRIALS} when killed, {time.monotonic() - begun:.0f} s in all")
    return Study.load(one.study)


def assert_same(study: Study, inline: Study) -> None:
    words = [[one.to_dict() | {"sentence": ""} for one in own.verdicts] for own in (study, inline)]
    assert words[0] == words[1]  # sentences name the command, and so the folder
    for variant in ("base", "model.positions=none"):
        assert study.seed_values(variant).tolist() == inline.seed_values(variant).tolist()


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Study]:
    """The study in one process, made by the first test that needs it."""
    return {}


@pytest.fixture
def expected(inline: dict[str, Study], recipe: dict[str, Any], tmp_path: Path) -> Study:
    if not inline:
        inline["made"] = run_with_kills(Driver(tmp_path / "inline", small(recipe)), "--on", "inline")
    return inline["made"]


def test_worker_processes(expected, recipe, tmp_path):
    one = Driver(tmp_path / "local", small(recipe))
    assert_same(run_with_kills(one, "--on", "local", "--jobs", "2"), expected)


def test_submitit_without_a_cluster(expected, recipe, tmp_path):
    one = Driver(tmp_path / "submitit", small(recipe), GLASSFORMER_SUBMITIT="local")
    assert_same(run_with_kills(one, "--on", "slurm", "--jobs", "2"), expected)


def test_ray_of_three_nodes_of_which_one_is_killed(expected, recipe, tmp_path, nodes):
    def lose_a_node(driver: subprocess.Popen[str]) -> None:
        nodes.remove_node(next(node for node in nodes.list_all_nodes() if node is not nodes.head_node), allow_graceful=False)

    one = Driver(tmp_path / "ray", small(recipe))
    assert_same(run_with_kills(one, "--on", "ray", "--address", str(nodes.address), disturb=lose_a_node), expected)


def test_slurm_with_a_cancelled_job_a_requeued_one_and_a_killed_node(expected, recipe, tmp_path, slurm):
    one = Driver(tmp_path / "slurm", small(recipe), SLURM_CONF=slurm.environment["SLURM_CONF"])
    met = []

    def a_running_job(driver: subprocess.Popen[str]) -> str:
        one.wait(driver, lambda: bool(set(slurm.jobs("RUNNING")) - set(met)))
        met.append(next(iter(set(slurm.jobs("RUNNING")) - set(met))))
        return met[-1]

    def disturb(driver: subprocess.Popen[str]) -> None:
        slurm.ask("scancel", a_running_job(driver))
        slurm.ask("scontrol", "requeue", a_running_job(driver))
        a_running_job(driver)
        slurm.processes["two"].kill()

    assert_same(run_with_kills(one, "--on", "slurm", "--time", "0.5", disturb=disturb), expected)
    assert len(met) == 3
    slurm.wait(lambda: slurm.jobs() == [])  # nothing is left in the queue
