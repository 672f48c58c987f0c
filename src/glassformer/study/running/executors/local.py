"""Tasks on this machine: long-lived worker processes of one thread each, which share the GPUs where there are any.

On two cores, two processes of one thread do more than one process of two threads (measured: 30,000 tokens a second
against 17,000 to 25,000), and the numbers do not depend on how many run at once. Imports no torch.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from glassformer.study.running.executors.base import ATTEMPTS, Ended, Event, Executor, Started, Task, Waiting
from glassformer.study.running.executors.machine import cores, per_gpu
from glassformer.study.running.executors.mps import SharedGPU
from glassformer.study.running.executors.worker import NEEDS_GPU, START

PATIENCE = 0.5  # seconds without news after which progress is looked at
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@final
class LocalExecutor(Executor):
    """``jobs`` processes; ``gpus`` are the GPUs they share in turn, with ``gpu_bytes`` free on each; logs go to ``logs``.

    No more processes share a GPU than its memory takes, whatever ``jobs`` says.
    """

    def __init__(self, jobs: int, *, logs: Path, gpus: Sequence[str] = (), gpu_bytes: int = 0, compiling: bool = False) -> None:
        super().__init__()
        self.jobs, self._logs, self._gpus, self._gpu_bytes = jobs, logs, list(gpus), gpu_bytes
        self._news: queue.Queue[tuple[_Worker, str | None]] = queue.Queue()
        self._workers: list[_Worker] = []
        self._shared_gpu = SharedGPU()

    @property
    def slots(self) -> int:
        return self.jobs

    @property
    def gpus(self) -> int:
        return len(self._gpus)

    def fit(self, needed_bytes: int) -> None:
        if self._gpus and needed_bytes:
            asked = -(-self.jobs // len(self._gpus))
            self.jobs = min(self.jobs, len(self._gpus) * per_gpu(needed_bytes, self._gpu_bytes, asked))

    def warm_up(self, count: int) -> None:
        if self.jobs > len(self._gpus) > 0:
            self._shared_gpu.start()
        while len(self._workers) < min(count, self.jobs):
            number = len(self._workers)
            gpu = self._gpus[number % len(self._gpus)] if self._gpus else None
            self._workers.append(_Worker(number + 1, self._logs, self._news, gpu, self._environment(gpu)))

    def _environment(self, gpu: str | None) -> dict[str, str]:
        """One thread to compute with. Without a limit every process that compiles for a GPU would start one more per core."""
        if gpu is None:
            return {**os.environ, **ONE_THREAD}
        compiling = {"TORCHINDUCTOR_COMPILE_THREADS": str(max(1, cores() // self.jobs))}
        own = {"CUDA_VISIBLE_DEVICES": gpu, NEEDS_GPU: "yes", **self._shared_gpu.environment}
        return {**compiling, **os.environ, **ONE_THREAD, **own}

    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        self._waiting.extend(tasks)
        self.warm_up(len(self._waiting))
        while True:
            yield from self._hand_out()
            if not any(worker.task for worker in self._workers):
                return
            try:
                worker, line = self._news.get(timeout=PATIENCE)
            except queue.Empty:
                yield Waiting()
                continue
            event = self._lost(worker) if line is None else self._answered(worker, json.loads(line))
            if event is not None:
                yield event

    def _hand_out(self) -> Iterator[Event]:
        for worker in self._workers[: self.jobs]:
            if self._waiting and worker.task is None:
                worker.give(self._waiting.popleft())
                assert worker.task is not None
                yield Started(worker.task)

    def _answered(self, worker: _Worker, answer: dict[str, Any]) -> Event | None:
        if "ready" in answer:
            return None
        task, worker.task = worker.task, None
        return None if task is None else Ended(task, answer)

    def _lost(self, worker: _Worker) -> Event | None:
        """A process that ended by itself is replaced, and its task goes to the new one, a few times."""
        if worker not in self._workers:
            return None
        task, attempt, code = worker.task, worker.attempt, worker.process.wait()
        at = self._workers.index(worker)
        worker.end()
        self._shared_gpu.give_up()
        if self._stopping:
            del self._workers[at]
        else:
            fresh = self._environment(worker.gpu)
            self._workers[at] = _Worker(worker.number, self._logs, self._news, worker.gpu, fresh)
        worker.task = None
        if task is None:
            return None
        if attempt < ATTEMPTS and not self._stopping:
            self._workers[at].give(task, attempt + 1)
            return None
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        return Ended(task, {"lost": f"its process ended {how}; its last words are in {worker.log}"})

    def stop(self) -> None:
        super().stop()
        for worker in self._workers:
            worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        super().stop()
        for worker in self._workers:
            worker.end()
        self._workers = []
        self._shared_gpu.close()


@final
class _Worker:
    """One process, the task it has, and the thread that reads its answers."""

    def __init__(
        self,
        number: int,
        logs: Path,
        news: queue.Queue[tuple[_Worker, str | None]],
        gpu: str | None,
        environment: dict[str, str],
    ) -> None:
        self.number, self.gpu = number, gpu
        self.task: Task | None = None
        self.attempt = 0
        self.log = logs / f"worker-{number}.log"
        logs.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C reaches the driver alone, which lets workers save what they have
            )
        threading.Thread(target=self._read, args=(news,), daemon=True).start()

    def _read(self, news: queue.Queue[tuple[_Worker, str | None]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            news.put((self, line))
        news.put((self, None))

    def give(self, task: Task, attempt: int = 1) -> None:
        assert self.process.stdin is not None
        self.task, self.attempt = task, attempt
        with suppress(BrokenPipeError):  # it has just ended; the thread that reads from it will say so
            self.process.stdin.write(json.dumps(task.to_dict()) + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
