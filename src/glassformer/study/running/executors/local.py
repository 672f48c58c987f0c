"""Worker processes on this machine: long-lived, one thread each, sharing the GPUs where there are any. Imports no torch.

Two processes of one thread do more on two cores than one of two threads (30,000 tokens a second against 17,000 to 25,000), and
the numbers do not depend on how many run at once. A worker reads tasks and writes answers as JSON lines. It lives for many
tasks, because importing torch takes seconds, and ends when its driver is gone. It is started as ``python -c``, not through
multiprocessing, so that a user's script needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, final

from glassformer.foundation.machine import cores
from glassformer.study.running.executors.base import ATTEMPTS, Ended, Event, Executor, Started, Task, Waiting

PER_GPU = 6  # with four, one in four is loading, compiling or saving at any time, and the GPU waits (docs/lab)
PROCESS_BYTES = 600 << 20  # what one process of torch takes on a GPU before its first tensor
SLACK = 1.5  # workspaces and fragments, beside what a plan counts
POLL_SECONDS = 0.5  # without an answer; then progress is shown
WORKERS_PER_PROGRAM = 3  # each of them compiles it once
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
NEEDS_GPU = "GLASSFORMER_WORKER_NEEDS_GPU"
"""Set for workers that were given a GPU: one that does not see it ends, instead of training on the CPU."""
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from glassformer.study.running.executors.local import main; main()"
)
"""The program of a worker; its argument is the driver's ``sys.path``."""
BLOCKING_SYNC = 4  # CU_CTX_SCHED_BLOCKING_SYNC of CUDA's driver
MPS_CONTROL = "nvidia-cuda-mps-control"
MPS_SECONDS = 20.0  # that the service has to end
MPS_DEFAULT_FOLDER = Path("/tmp/nvidia-mps")
"""Where every process finds a service that was started without naming a folder."""
MPS_GUARD = """
nvidia-cuda-mps-control -d || { echo no; exit 1; }
echo yes
cat > /dev/null  # until the study is over, or dead
echo quit | nvidia-cuda-mps-control
rm -rf "$CUDA_MPS_PIPE_DIRECTORY"
"""


def per_gpu(needed_bytes: int, free_bytes: int, most: int = PER_GPU) -> int:
    """How many trials share one GPU: as many as fit into its free memory, ``most`` at most, one at least."""
    return max(1, min(most, int(free_bytes // (SLACK * needed_bytes + PROCESS_BYTES))))


@final
class LocalExecutor(Executor):
    """``jobs`` processes; ``gpus`` are the GPUs they share in turn, with ``gpu_bytes`` free on each; logs go to ``logs``.

    No more processes share a GPU than its memory takes, whatever ``jobs`` says.
    """

    def __init__(self, jobs: int, *, logs: Path, gpus: Sequence[str] = (), gpu_bytes: int = 0) -> None:
        super().__init__()
        self.jobs, self._logs, self._gpus, self._gpu_bytes = jobs, logs, list(gpus), gpu_bytes
        self._news: queue.Queue[tuple[_Worker, str | None]] = queue.Queue()
        self._workers: list[_Worker] = []
        self._tried: dict[str, int] = {}
        """How often the process of a task died, by label."""
        self._ran: set[str] = set()
        """Programs of which a task has ended: their kernels are in torch's cache on disk."""
        self._mps = MultiProcessService()
        self._deaths = 0

    @property
    def gpus(self) -> int:
        return len(self._gpus)

    def fit(self, needed_bytes: int) -> None:
        if self._gpus and needed_bytes:
            most = -(-self.jobs // len(self._gpus))
            self.jobs = min(self.jobs, len(self._gpus) * per_gpu(needed_bytes, self._gpu_bytes, most))

    def warm_up(self, count: int) -> None:
        if self.jobs > len(self._gpus) > 0:
            self._mps.start()
        while len(self._workers) < min(count, self.jobs):
            number = len(self._workers)
            gpu = self._gpus[number % len(self._gpus)] if self._gpus else None
            self._workers.append(_Worker(number + 1, self._logs, self._news, gpu, self._environment(gpu)))

    def _environment(self, gpu: str | None) -> dict[str, str]:
        """One thread to compute with. Without a limit every process that compiles for a GPU would start one more per core."""
        if gpu is None:
            return {**os.environ, **ONE_THREAD}
        compiling = {"TORCHINDUCTOR_COMPILE_THREADS": str(max(1, cores() // self.jobs))}
        own = {"CUDA_VISIBLE_DEVICES": gpu, NEEDS_GPU: "yes", **self._mps.environment}
        return {**compiling, **os.environ, **ONE_THREAD, **own}

    def run(self, tasks: Sequence[Task]) -> Iterator[Event]:
        self._waiting.extend(tasks)
        self.warm_up(len(self._waiting))
        while True:
            yield from self._hand_out()
            if all(worker.task is None for worker in self._workers):
                return
            try:
                worker, line = self._news.get(timeout=POLL_SECONDS)
            except queue.Empty:
                yield Waiting()
                continue
            if line is None:
                yield from self._lost(worker)
            elif "ready" not in (answer := json.loads(line)) and (task := worker.task) is not None:
                worker.task = None
                self._ran.add(task.program)
                self._tried.pop(task.label, None)
                yield Ended(task, answer)

    def _hand_out(self) -> Iterator[Event]:
        for worker in self._workers[: self.jobs]:
            if self._waiting and worker.task is None:
                task = self._next_for(worker)
                worker.give(task)
                if task.label not in self._tried:
                    yield Started(task)

    def _next_for(self, worker: _Worker) -> Task:
        """The first task in order. On a GPU one without a program comes first, which others may wait for; then one of the
        program that the worker has compiled; then one of the program with most tasks for each of its workers. A program that
        has workers enough, or whose first worker is still compiling, comes last: what one has compiled others find on disk."""
        chosen, first = self._waiting[0], {task.program: task for task in reversed(self._waiting)}
        if self._gpus and not first.keys() & {"", worker.program}:
            waiting = Counter(task.program for task in self._waiting)
            held = Counter(other.task.program for other in self._workers if other.task is not None)

            def cost(program: str) -> tuple[bool, bool, float]:
                compiling = held[program] > 0 and program not in self._ran
                return held[program] >= WORKERS_PER_PROGRAM, compiling, -waiting[program] / (held[program] + 1)

            chosen = first[min(waiting, key=cost)]
        elif self._gpus:
            chosen = first.get("") or first[worker.program]
        self._waiting.remove(chosen)
        return chosen

    def _lost(self, worker: _Worker) -> Iterator[Event]:
        """Replaces a process that ended by itself, and puts its task in front of the others, up to ``ATTEMPTS`` times."""
        if worker not in self._workers:
            return
        task, code, at = worker.task, worker.process.wait(), self._workers.index(worker)
        worker.end()
        self._deaths += 1
        if self._deaths > 1:  # one may have another cause, and processes beside the service slow all that share it
            self._mps.give_up()
        if self._stopping:
            del self._workers[at]
        else:
            self._workers[at] = _Worker(worker.number, self._logs, self._news, worker.gpu, self._environment(worker.gpu))
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        if task is None:
            return
        self._tried[task.label] = self._tried.get(task.label, 0) + 1
        if self._tried[task.label] < ATTEMPTS and not self._stopping:
            self._waiting.appendleft(task)
        else:
            del self._tried[task.label]
            yield Ended(task, {"lost": f"its process ended {how}; its last words are in {worker.log}"})

    def stop(self) -> None:
        super().stop()
        for worker in self._workers:
            worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        super().stop()
        for worker in self._workers:
            worker.end()
        self._workers = []
        self._mps.close()


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
        self.program = ""
        """Of the last task that had one."""
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

    def give(self, task: Task) -> None:
        assert self.process.stdin is not None
        self.task, self.program = task, task.program or self.program
        with suppress(BrokenPipeError):  # it has just ended; the thread that reads from it will say so
            self.process.stdin.write(json.dumps(vars(task)) + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


# -- inside a worker process ---------------------------------------------------------------------------------------------


def main() -> None:
    """Serves standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a plugin prints goes where logs go, not between the answers
    tasks = listen(sys.stdin, lambda: os._exit(0))
    if NEEDS_GPU in os.environ:
        sleep_while_waiting()
    from glassformer.study.running.perform_task import perform

    gc.freeze()  # what was imported stays, so that a collection between two trials is quick
    own_process = functools.partial(perform, own_process=True)
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    serve(tasks, answers, own_process)


def sleep_while_waiting() -> None:
    """Makes this process wait for its GPU asleep, before torch is imported: CUDA's waiting takes a core (15 workers on an H200:
    90 % of 16 cores, so 25 %). Without CUDA's driver nothing happens."""
    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuInit(0)
        for number in range(len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))):
            driver.cuDevicePrimaryCtxSetFlags(number, BLOCKING_SYNC)


def listen(stream: IO[str], at_the_end: Callable[[], Any]) -> queue.Queue[Task]:
    """A queue of the tasks that arrive. A thread reads them, so that the end of the stream (a dead driver) is seen at once."""
    tasks: queue.Queue[Task] = queue.Queue()

    def read() -> None:
        for line in stream:
            tasks.put(Task(**json.loads(line)))
        at_the_end()

    threading.Thread(target=read, daemon=True).start()
    return tasks


def serve(tasks: queue.Queue[Task], answers: IO[str], perform: Callable[[Task], dict[str, Any]]) -> None:
    """Answers each task, until one was stopped by a signal."""
    while True:
        task = tasks.get()
        answer = perform(task)
        print(json.dumps(answer), file=answers, flush=True)
        if answer.get("status") == "stopped":
            return


# -- several processes on one GPU ----------------------------------------------------------------------------------------


@final
class MultiProcessService:
    """NVIDIA's Multi-Process Service for the workers of a study; where there is none, the processes take turns.

    With it their kernels run side by side (shakespeare-char on one H200: four processes 4.54 ms for a step of one, three
    without the service 5.47, one alone 5.03). It lives in a temporary folder, and a guardian process ends it with the
    study, however that ends.
    """

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        """Variables by which a process finds the service."""
        self._guardian: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts it, once. Does nothing where one runs already, and on machines that have none or refuse it."""
        running = "CUDA_MPS_PIPE_DIRECTORY" in os.environ or (MPS_DEFAULT_FOLDER / "control").exists()
        if self._guardian is not None or running or shutil.which(MPS_CONTROL) is None:
            return
        folder = tempfile.mkdtemp(prefix="glassformer-mps-")
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        # It numbers GPUs as its workers do only if it sees all of them.
        inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        self._guardian = subprocess.Popen(
            ["sh", "-c", MPS_GUARD],
            env={**inherited, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for the driver
        )
        assert self._guardian.stdout is not None
        if self._guardian.stdout.readline().strip() == "yes":
            self.environment = variables
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def give_up(self) -> None:
        """A fault of one process ends the work of all that share the service, so later processes do without."""
        self.environment = {}

    def close(self) -> None:
        if self._guardian is None:
            return
        for stream in (self._guardian.stdin, self._guardian.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        with suppress(subprocess.TimeoutExpired):
            self._guardian.wait(MPS_SECONDS)
        self.environment, self._guardian = {}, None
