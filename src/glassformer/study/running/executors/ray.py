"""Tasks on a Ray cluster: the same work as Ray tasks, one core (and a share of a GPU) each, tried again when a node is lost.

Ray is an optional extra and is imported only here. Nothing is sent anywhere: no dashboard, no usage statistics. A node that
sees the study's folder writes there; from any other a trial comes back as a record without weights (study/trial_record.py).
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any, final

from glassformer.foundation.errors import MissingDependency, UsageError
from glassformer.study.running.executors.base import ATTEMPTS, Ended, Event, Executor, Started, Task, Waiting
from glassformer.study.running.executors.local import ONE_THREAD, PER_GPU, POLL_SECONDS, per_gpu

SMALLEST_SHARE = 1e-4  # of a GPU: Ray rounds to it, and six sixths rounded up are more than one
CONNECT_SECONDS = 10.0  # to wait for an answer at an address


@final
class RayExecutor(Executor):
    """``address``: of a running cluster (``auto``: the one of this machine); None starts one for the time of the study."""

    def __init__(
        self, *, address: str | None = None, jobs: int | None = None, gpus_per_trial: float | None = None, cpus: int = 1
    ) -> None:
        """``gpus_per_trial``: a number or a fraction; None: as many share a GPU as its memory takes, at most ``PER_GPU``.

        ``cpus``: cores of one trial, one for each of its processes.
        """
        super().__init__()
        self._ray, self._ours = _connected(address, jobs)
        self._fixed, self._share = gpus_per_trial, gpus_per_trial
        if self._share is None:  # small models leave most of a GPU idle
            self._share = 1 / PER_GPU if self.gpus else 0.0
        self._cpus = cpus
        self._require_room()
        self._perform = self._ray.remote(num_cpus=cpus, max_retries=ATTEMPTS - 1)(_perform)
        self._jobs = jobs
        self._gpu_bytes: int | None = None
        self._running: dict[Any, Task] = {}

    @property
    def gpus(self) -> int:
        return 0 if self._fixed == 0 else int(self._ray.cluster_resources().get("GPU", 0))

    @property
    def travels(self) -> bool:
        return True

    def fit(self, needed_bytes: int) -> None:
        if self._fixed is not None or not self.gpus or not needed_bytes:
            return
        if self._gpu_bytes is None:  # asked once, on a node: the driver may have no GPU
            self._gpu_bytes = int(self._ray.get(self._ray.remote(num_cpus=0, num_gpus=1 / PER_GPU)(_free_gpu_bytes).remote()))
        self._share = 1 / per_gpu(needed_bytes, self._gpu_bytes) if self._gpu_bytes else self._share

    def _require_room(self) -> None:
        """Raises if no node can take a trial: Ray would let it wait for ever."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(node.get("CPU", 0) >= self._cpus and node.get("GPU", 0) >= (self._share or 0.0) for node in nodes):
            have = "; ".join(f"{node.get('CPU', 0):g} cores, {node.get('GPU', 0):g} GPUs" for node in nodes)
            raise UsageError(
                f"A trial needs {self._cpus} cores and {self._share or 0:g} GPUs of one node; the cluster has {have}. See "
                "--gpus-per-trial and --processes.",
                reason="no-room",
            )

    def _slots(self) -> int:
        """How many tasks run at once, by cores and by GPUs; a cluster may grow or shrink."""
        resources = self._ray.cluster_resources()
        total = max(1, int(resources.get("CPU", 1) / self._cpus))
        if self._share:
            total = max(1, min(total, int(resources.get("GPU", 0) / self._share + 1e-9)))
        return total if self._jobs is None else min(total, self._jobs)

    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        self._waiting.extend(tasks)
        while self._waiting or self._running:
            # Not all at once: what was handed to Ray cannot be withdrawn, and a pair should finish before the next begins.
            while self._waiting and len(self._running) < self._slots():
                task = self._waiting.popleft()
                share = math.floor((self._share or 0.0) / SMALLEST_SHARE + 1e-9) * SMALLEST_SHARE
                self._running[self._perform.options(num_gpus=share).remote(vars(task))] = task
                yield Started(task)
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=POLL_SECONDS)
            if not ready:
                yield Waiting()
            for reference in ready:
                yield Ended(self._running.pop(reference), self._answer(reference))

    def _answer(self, reference: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._ray.get(reference)
        except self._ray.exceptions.TaskCancelledError:
            return {"status": "stopped", "reason": "Stopped.", "signal": 15}
        except self._ray.exceptions.RayError as error:
            return {"lost": f"its node or process was lost {ATTEMPTS} times ({type(error).__name__})"}
        return answer

    def stop(self) -> None:
        super().stop()
        for reference in self._running:
            self._ray.cancel(reference)  # comes as an interrupt, which lets a trial finish its step and save

    def close(self) -> None:
        super().stop()
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running = {}
        if self._ours:
            self._ray.shutdown()


def _perform(task: dict[str, Any]) -> dict[str, Any]:
    """Runs on the node, in a process that does nothing else, and imports torch only there."""
    os.environ |= ONE_THREAD  # torch reads it when it is imported
    from glassformer.study.running.perform_task import perform

    return perform(Task(**task), own_process=True)


def _free_gpu_bytes() -> int:
    import torch

    return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else 0


def _connected(address: str | None, jobs: int | None) -> tuple[Any, bool]:
    """Ray, and whether we made the connection and so end it: a notebook may have made one before."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError as error:
        raise MissingDependency("--on ray needs the package Ray: pip install 'glassformer[ray]'.") from error
    if ray.is_initialized():
        return ray, False
    _require_listener(address)
    own: dict[str, Any] = {"include_dashboard": False, "num_cpus": jobs} if address is None else {}
    try:
        ray.init(address=address or "local", log_to_driver=False, configure_logging=False, **own)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.AuthenticationError) as error:
        raise UsageError(f"--address {address}: no Ray cluster answers there ({error}).", reason="no-ray-cluster") from error
    return ray, True


def _require_listener(address: str | None) -> None:
    """Raises if nothing listens at ``host:port``; Ray itself would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():  # "auto", or none
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"--address {address}: no Ray cluster answers there ({error}).", reason="no-ray-cluster") from error
