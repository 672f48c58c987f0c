"""A real Ray cluster of two nodes on this machine: the same answers, lost processes tried again, no telemetry."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

ray = pytest.importorskip("ray")

import glassformer  # noqa: E402
from glassformer.foundation.errors import UsageError  # noqa: E402
from glassformer.study.compare import compare  # noqa: E402
from glassformer.study.running.executors.base import ATTEMPTS, Ended, Started, Task, Waiting  # noqa: E402
from glassformer.study.running.executors.ray import RayExecutor  # noqa: E402

# Ray leaves sockets and files to the garbage collector; that is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Two nodes of one core each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        nodes = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20},
        )
        nodes.add_node(num_cpus=1, object_store_memory=80 << 20)
        yield nodes
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture
def cluster(nodes: Any) -> str:
    return str(nodes.address)


def task(label: str, folder: Path, *plugins: Path) -> Task:
    return Task("nothing", label, {"cwd": str(folder), "plugins": [str(plugin) for plugin in plugins]})


@pytest.mark.slow
def test_a_study_on_two_nodes_gives_the_numbers_of_one_process(cluster, recipe, tmp_path):
    """Also that a change that diverges and one that leaks are told alike."""
    recipe["training"] |= {"steps": 8}
    recipe["checkpoint"] = {"every": 4}
    vary: dict[str, list[Any]] = {"model.positions": ["none"], "model.merge": ["reweight"]}
    here = compare(recipe, vary, seeds=2, out=tmp_path / "here", on="inline")
    there = compare(recipe, vary, seeds=2, out=tmp_path / "there", on="ray", address=cluster)
    assert [one.to_dict() for one in there.verdicts] == [one.to_dict() for one in here.verdicts]
    for name in ("base", "model.positions=none"):
        assert there.seed_values(name).tolist() == here.seed_values(name).tolist()
    assert not ray.is_initialized()  # the connection was ours, and is ended


@pytest.mark.slow
def test_lost_processes_are_tried_again_and_both_nodes_work(cluster, tmp_path):
    deadly, count = tmp_path / "deadly.py", tmp_path / "count"
    deadly.write_text(
        f"import os, signal\nwith open({str(count)!r}, 'a') as f: f.write('x')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with closing(RayExecutor(address=cluster)) as executor:
        assert executor._slots() == 2
        events = list(executor.run([task("harmless", tmp_path), task("deadly", tmp_path, deadly)]))
    answers = {event.task.label: event.answer for event in events if isinstance(event, Ended)}
    assert [event.task.label for event in events if isinstance(event, Started)] == ["harmless", "deadly"]
    assert answers["harmless"]["status"] == "failed"
    assert f"lost {ATTEMPTS} times" in answers["deadly"]["lost"]
    assert count.read_text() == "x" * ATTEMPTS


def test_a_stop_lets_nothing_more_begin(cluster, tmp_path):
    sleeper, asleep = tmp_path / "sleeper.py", tmp_path / "asleep"
    sleeper.write_text(
        f"import pathlib, time\npathlib.Path({str(asleep)!r}).touch()\nfor _ in range(600):\n    time.sleep(0.1)\n"
    )
    with closing(RayExecutor(address=cluster, jobs=1)) as executor:
        assert executor._slots() == 1
        ended = []
        for event in executor.run([task("sleeps", tmp_path, sleeper), task("never", tmp_path)]):
            if isinstance(event, Waiting) and asleep.exists():  # before, an interrupt may break an import of a library
                executor.stop()
            if isinstance(event, Ended):
                ended.append((event.task.label, event.answer["status"]))
    assert ended == [("sleeps", "stopped")]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_no_cluster_at_that_address_is_said_at_once(address, monkeypatch):
    def ask_ray(*_: Any, **__: Any) -> None:
        pytest.fail("Ray itself would try for many minutes")

    monkeypatch.setattr(ray, "init", ask_ray)
    with refused(UsageError, "no-ray-cluster"):
        RayExecutor(address=address)


def test_nothing_is_reported_home(cluster):
    with closing(RayExecutor(address=cluster)):
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


SLEEPS = """
import os, pathlib, time, ray
here, node = pathlib.Path({folder!r}), ray.get_runtime_context().get_node_id()
with open(here / "started", "a") as file:
    file.write({label!r} + " " + node + "\\n")
while not (here / node).exists():
    time.sleep(0.1)
"""


def test_the_task_of_a_lost_node_is_done_by_another(cluster, nodes, tmp_path):
    """Last in this file: it leaves one node. Both cores are busy, so one of the tasks is on the node that is lost."""
    labels, started = ("first", "second"), tmp_path / "started"
    for label in labels:
        (tmp_path / f"{label}.py").write_text(SLEEPS.format(folder=str(tmp_path), label=label))
    second = next(node for node in nodes.list_all_nodes() if node is not nodes.head_node)
    answers, lost = {}, False
    with closing(RayExecutor(address=cluster)) as executor:
        deadline = time.monotonic() + 400
        for event in executor.run([task(label, tmp_path, tmp_path / f"{label}.py") for label in labels]):
            rows = started.read_text().splitlines() if started.exists() else []
            if len(rows) == 2 and not lost:
                nodes.remove_node(second, allow_graceful=False)
                lost = True
                (tmp_path / nodes.head_node.node_id).touch()  # who is there may end; nobody on the lost node ever does
            if isinstance(event, Ended):
                answers[event.task.label] = event.answer
            assert time.monotonic() < deadline, rows
    rows = [row.split() for row in started.read_text().splitlines()]
    assert {label: answer["status"] for label, answer in answers.items()} == {"first": "failed", "second": "failed"}
    assert all("nothing" in answer["reason"] for answer in answers.values())  # an answer of work, which knows no such task
    again = [label for label, _ in rows if sum(label == one for one, _ in rows) == 2]
    assert len(rows) == 3
    assert len(set(again)) == 1
    assert [node for _, node in rows].count(second.node_id) == 1


OWN = """
import json, sys, warnings
from contextlib import closing, suppress
warnings.simplefilter("ignore")
from glassformer.study.running.executors.base import Ended, Task
from glassformer.study.running.executors.ray import RayExecutor
tasks = [Task("nothing", str(number), {"cwd": sys.argv[1], "plugins": []}) for number in range(3)]
with closing(RayExecutor(jobs=1)) as executor:
    print(json.dumps({event.task.label: event.answer["status"] for event in executor.run(tasks) if isinstance(event, Ended)}))
"""


@pytest.mark.slow
def test_without_an_address_a_ray_of_its_own_is_started_and_ended(tmp_path):
    source = str(Path(glassformer.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "RAY_DISABLE_IMPORT_WARNING": "1", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", OWN, str(tmp_path)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=570, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[-2] == '{"0": "failed", "1": "failed", "2": "failed"}'


STUDY_ON_RAY = """
import json, sys, warnings
warnings.simplefilter("ignore")
from glassformer.study.compare import compare
recipe, vary, out, address = json.loads(sys.argv[1])
study = compare(recipe, vary, seeds=2, out=out, on="ray", address=address, store=False)
print(json.dumps({name: study.seed_values(name).tolist() for name in ("base", "model.positions=none")}))
"""


def wait_for_listener(address: str) -> None:
    host, port = address.split(":")
    end = time.monotonic() + 180
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection((host, int(port)), 5):
            return
        time.sleep(0.2)
    raise AssertionError(f"nothing listens at {address}")


def wait_for_core(program: str, address: str, environment: dict[str, str]) -> None:
    """Until a node with a core has joined: on a busy machine that takes longer than a study needs to begin."""
    end, words = time.monotonic() + 180, [program, "status", "--address", address]
    while "/1.0 CPU" not in (
        said := subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout
    ):
        assert time.monotonic() < end, said
        time.sleep(1)


@pytest.mark.slow
def test_a_node_with_disks_of_its_own_sends_records(recipe, text_file, tmp_path):
    """A head without cores, and one node that does not see the study's folder: an empty disk is mounted over it."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    alone = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs tmpfs {hidden} && exec "$@"', "sh"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root, for a mount of its own")
    text = tmp_path / "letters.txt"  # texts are on every node
    text.write_text(text_file.read_text())
    recipe["data"]["path"], recipe["training"]["steps"] = str(text), 6
    vary = {"model.positions": ["none"]}
    here = compare(recipe, vary, seeds=2, out=tmp_path / "here", on="inline", store=False)
    source = str(Path(glassformer.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    environment["RAY_AUTH_MODE"] = "disabled"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    program, plain = str(Path(sys.executable).with_name("ray")), ["--block", "--object-store-memory", str(80 << 20)]
    at = ["--port", address.split(":")[1], "--node-ip-address", "127.0.0.1", "--include-dashboard", "false"]
    head = [program, "start", "--head", *at, "--num-cpus", "0", *plain]
    node = [*alone, program, "start", "--address", address, "--num-cpus", "1", *plain]
    cluster = []
    try:
        for words in (head, node):
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            cluster.append(subprocess.Popen(words, env=environment, start_new_session=True, **quiet))
            wait_for_listener(address)
        wait_for_core(program, address, environment)
        asked = json.dumps([recipe, vary, str(hidden / "there"), address])
        words = [sys.executable, "-c", STUDY_ON_RAY, asked]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=500, check=False, cwd=hidden)
        assert done.returncode == 0, done.stderr[-2000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert found == {name: here.seed_values(name).tolist() for name in found}
        assert not list(hidden.rglob("*.safetensors"))  # records, no weights
        assert len(list(hidden.rglob("state.json"))) == 4
    finally:
        for one in reversed(cluster):
            os.killpg(one.pid, signal.SIGTERM)
            one.wait(60)


HOLDS = """
import json, os, pathlib, time, ray
here = pathlib.Path({folder!r})
(here / {label!r}).write_text(json.dumps([ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")]))
while not (here / "go").exists():
    time.sleep(0.1)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("share", "at_once"), [(None, 6), (0.5, 2), (1, 1)])
def test_as_many_trials_as_their_shares_of_a_gpu_run_at_once(share, at_once, tmp_path):
    """Scheduling alone: the node says that it has a GPU, and has none. So the tasks are not trainings."""
    here = tmp_path / "here"
    here.mkdir()
    program = OWN_GPU.format(share=share, at_once=at_once, here=str(here), holds=HOLDS)
    environment = {**os.environ, "PYTHONPATH": str(Path(glassformer.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["begun"] == found["started"] == at_once
    assert found["gpus"] == [[["0"], "0"]] * at_once
    assert found["refused"] == "no-room"


OWN_GPU = """
import json, pathlib, sys, time, warnings
from contextlib import closing
warnings.simplefilter("ignore")
import ray
from glassformer.foundation.errors import UsageError
from glassformer.study.running.executors.base import Ended, Started, Task
from glassformer.study.running.executors.ray import RayExecutor
ray.init("local", num_cpus=8, num_gpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20)
here, tasks = pathlib.Path({here!r}), []
for number in range({at_once} + 1):
    plugin = here / f"holds_{{number}}.py"
    plugin.write_text({holds!r}.format(folder=str(here), label=f"{{number}}"))
    tasks.append(Task("nothing", f"{{number}}", {{"cwd": str(here), "plugins": [str(plugin)]}}))
begun = started = 0
with closing(RayExecutor(gpus_per_trial={share})) as executor:
    since = None
    for event in executor.run(tasks):
        marks = [file for file in here.iterdir() if file.name.isdigit() and file.read_text()]
        if not (here / "go").exists():
            started += isinstance(event, Started)
            begun = len(marks)
            since = since or (time.monotonic() if begun >= {at_once} else None)
            if since is not None and time.monotonic() - since > 3:  # time for one too many
                gpus = [json.loads(file.read_text()) for file in marks]
                gpus = [[[str(one) for one in ids], visible] for ids, visible in gpus]
                (here / "go").touch()
try:
    RayExecutor(gpus_per_trial=2)
except UsageError as error:
    refused = error.reason
print(json.dumps({{"begun": begun, "started": started, "gpus": gpus, "refused": refused}}))
"""


def test_slots_follow_gpus_and_shares(monkeypatch):
    """The bookkeeping alone."""
    executor = RayExecutor.__new__(RayExecutor)
    resources = {"CPU": 16.0, "GPU": 2.0}
    executor._ray = type("Resources", (), {"cluster_resources": staticmethod(lambda: resources)})
    executor._fixed, executor._jobs, executor._cpus = None, None, 1
    for share, slots in ((1 / 6, 12), (0.5, 4), (1, 2), (2, 1), (0.0, 16)):
        executor._share = share
        assert executor._slots() == slots
    executor._share, executor._jobs = 0.5, 3
    assert executor._slots() == 3
    executor._cpus = 8
    assert executor._slots() == 2
    assert executor.gpus == 2
