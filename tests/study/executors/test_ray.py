"""A real Ray cluster of two nodes on this machine: the same answers, lost processes tried again, no telemetry."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from glassformer.foundation.errors import UsageError  # noqa: E402
from glassformer.study.compare import compare  # noqa: E402
from glassformer.study.executors.base import ATTEMPTS, Ended, Started, Task  # noqa: E402
from glassformer.study.executors.ray import RayExecutor  # noqa: E402

# Ray leaves sockets and files to the garbage collector; that is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of two nodes of one core each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        nodes = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20},
        )
        nodes.add_node(num_cpus=1, object_store_memory=80 << 20)
        yield nodes.address
        ray.shutdown()
        nodes.shutdown()


def task(label: str, folder: Path, *plugins: Path) -> Task:
    return Task("nothing", label, {"cwd": str(folder), "plugins": [str(plugin) for plugin in plugins]})


def test_a_study_on_two_nodes_gives_the_numbers_of_one_process(cluster, recipe, tmp_path):
    """Also that a change that diverges and one that leaks are told alike."""
    recipe["training"] |= {"steps": 8}
    recipe["checkpoint"] = {"every": 4}
    vary: dict[str, list[Any]] = {"model.positions": ["none"], "model.merge": ["reweight"]}
    here = compare(recipe, vary, seeds=2, out=tmp_path / "here", on="inline")
    there = compare(recipe, vary, seeds=2, out=tmp_path / "there", on="ray", address=cluster)
    assert [one.plain() for one in there.verdicts] == [one.plain() for one in here.verdicts]
    for name in ("base", "model.positions=none"):
        assert there.seed_values(name).tolist() == here.seed_values(name).tolist()
    assert not ray.is_initialized()  # the connection was ours, and is ended


def test_lost_processes_are_tried_again_and_both_nodes_work(cluster, tmp_path):
    deadly, count = tmp_path / "deadly.py", tmp_path / "count"
    deadly.write_text(
        f"import os, signal\nwith open({str(count)!r}, 'a') as f: f.write('x')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with RayExecutor(address=cluster) as executor:
        assert executor.slots == 2
        events = list(executor.run([task("harmless", tmp_path), task("deadly", tmp_path, deadly)]))
    answers = {event.task.label: event.answer for event in events if isinstance(event, Ended)}
    assert [event.task.label for event in events if isinstance(event, Started)] == ["harmless", "deadly"]
    assert answers["harmless"]["status"] == "failed"
    assert f"lost {ATTEMPTS} times" in answers["deadly"]["lost"]
    assert count.read_text() == "x" * ATTEMPTS


def test_a_stop_lets_nothing_more_begin(cluster, tmp_path):
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(60)\n")
    with RayExecutor(address=cluster, jobs=1) as executor:
        assert executor.slots == 1
        ended = []
        for event in executor.run([task("sleeps", tmp_path, sleeper), task("never", tmp_path)]):
            if isinstance(event, Started):
                executor.stop()
            if isinstance(event, Ended):
                ended.append((event.task.label, event.answer["status"]))
    assert ended == [("sleeps", "stopped")]


def test_no_cluster_at_that_address():
    with pytest.raises(UsageError, match="no Ray cluster answers there"):
        RayExecutor(address="127.0.0.1:1")


def test_nothing_is_reported_home(cluster):
    with RayExecutor(address=cluster):
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
