"""A worker process of the local executor: reads tasks as JSON lines, does them, writes the answers as JSON lines.

Lives for many tasks, because importing torch takes seconds. Ends at once when its driver is gone, however that ended.
Started as ``python -c`` (and not through multiprocessing), so that a user's script needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

from glassformer.study.running.executors.base import Task

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from glassformer.study.running.executors.worker import main; main()"
)
"""The program of a worker; its argument is the driver's ``sys.path``."""
NEEDS_GPU = "GLASSFORMER_WORKER_NEEDS_GPU"
"""Set for workers that were given a GPU: one that does not see it ends, instead of training on the CPU."""


def main() -> None:
    """Serves standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a plugin prints goes where logs go, not between the answers
    tasks = listen(sys.stdin, lambda: os._exit(0))
    from glassformer.study.running.work import perform

    serve(tasks, answers, functools.partial(perform, own_process=True))


def listen(stream: IO[str], at_the_end: Callable[[], Any]) -> queue.Queue[Task]:
    """Tasks as they come. A thread reads them, because only so the end of the stream (the driver's death) is seen at once."""
    tasks: queue.Queue[Task] = queue.Queue()

    def read() -> None:
        for line in stream:
            tasks.put(Task.from_dict(json.loads(line)))
        at_the_end()

    threading.Thread(target=read, daemon=True).start()
    return tasks


def serve(tasks: queue.Queue[Task], answers: IO[str], perform: Callable[[Task], dict[str, Any]]) -> None:
    """One answer per task. After a task that was stopped by a signal there is nothing more to do."""
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    while True:
        answer = perform(tasks.get())
        print(json.dumps(answer), file=answers, flush=True)
        if answer.get("status") == "stopped":
            return
