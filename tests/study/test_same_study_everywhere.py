"""One study inline, on worker processes, on a Ray of three nodes and by submitit: the same trials and verdicts.

In each the driver is killed in the middle and started again, and on Ray a node is killed, too. Nothing that was finished is
trained again.
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


class Driver:
    """``glassformer compare`` as a process of its own."""

    def __init__(self, folder: Path, recipe: dict[str, Any]) -> None:
        self.folder, self.study = folder, folder / "study"
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
            "GLASSFORMER_SUBMITIT": "local",
            "GLASSFORMER_CACHE": str(self.folder / "cache"),
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


def test_the_same_study_in_four_places_with_kills(recipe, tmp_path, nodes):
    recipe["training"] |= {"steps": 20}
    recipe["evaluation"], recipe["checkpoint"] = {"every": 10}, {"every": 5}
    places = {
        "inline": ["--on", "inline"],
        "local": ["--on", "local", "--jobs", "2"],
        "slurm": ["--on", "slurm", "--jobs", "2"],
        "ray": ["--on", "ray", "--address", str(nodes.address)],
    }
    studies, report = {}, []
    for name, where in places.items():
        begun, one = time.monotonic(), Driver(tmp_path / name, recipe)
        first = one.start(*where)
        one.wait(first, lambda one=one: len(one.finished()) >= 4)
        assert first.poll() is None, (one.folder / "said").read_text()[-2000:]
        first.send_signal(signal.SIGKILL)
        first.wait()
        before = one.finished()
        second = one.start(*where)
        lost = 0
        if name == "ray":
            one.wait(second, lambda one=one, before=before: len(one.finished()) >= len(before) + 3)
            node = next(node for node in nodes.list_all_nodes() if node is not nodes.head_node)
            nodes.remove_node(node, allow_graceful=False)
            lost = 1
        one.wait(second, lambda: False)
        assert second.returncode == 0, (one.folder / "said").read_text()[-2000:]
        after = one.finished()
        assert {trial: after[trial] for trial in before} == before  # what was finished was not touched
        assert len(after) == TRIALS
        assert all(steps_of(one.study / trial) == [10, 20] for trial in after)  # every step once, also where it was resumed
        studies[name] = Study.load(one.study)
        report.append(f"{name}: {len(before)} of {TRIALS} when killed, {lost} node lost, {time.monotonic() - begun:.0f} s")
    print("\n".join(report))
    inline = studies.pop("inline")
    for study in studies.values():
        assert [one.to_dict() for one in study.verdicts] == [
            {**one.to_dict(), "sentence": other.sentence} for one, other in zip(inline.verdicts, study.verdicts)
        ]  # sentences name the command, and so the folder
        for variant in ("base", "model.positions=none"):
            assert study.seed_values(variant).tolist() == inline.seed_values(variant).tolist()
