"""A worker thread for everything that needs torch, so that the server stays responsive; opened runs are cached.

torch is imported by the first job, not by the server, so that the list of runs appears first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

from glassformer.runs.directory import RunDirectory

if TYPE_CHECKING:
    from glassformer.run import Run

T = TypeVar("T")
MOST_OPEN = 4
"""The number of runs cached in memory."""


class Gone(Exception):
    """The client disconnected; its job ends."""


@final
class ModelWorker:
    """One worker thread. Only its jobs use models."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="models")
        self._open: OrderedDict[Path, tuple[tuple[Any, ...], Run]] = OrderedDict()

    async def do(self, job: Callable[[], T]) -> T:
        """Queues a job and returns its result."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    def warm(self) -> None:
        """Imports what the jobs need, in the background."""
        self._thread.submit(_import_all)

    def run(self, directory: RunDirectory) -> Run:
        """The run, cached until its checkpoints change. To be called by jobs only."""
        from glassformer.run import load

        now = (directory.steps()[-1:], directory.recipe_file.stat().st_mtime_ns)
        known = self._open.pop(directory.root, None)
        if known is None or known[0] != now:
            known = now, load(directory.root)
        self._open[directory.root] = known
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        return known[1]

    async def stream(self, job: Callable[[Callable[[Any], None]], None]) -> AsyncIterator[Any]:
        """Streams what a job emits. If the client disconnects, the job's next output raises ``Gone``."""
        loop, words, left = asyncio.get_running_loop(), asyncio.Queue[Any](), [False]

        def hand_on(word: Any) -> None:
            if left[0]:
                raise Gone
            loop.call_soon_threadsafe(words.put_nowait, (word,))

        def work() -> None:
            try:
                job(hand_on)
            except Gone:
                pass
            except BaseException as error:
                loop.call_soon_threadsafe(words.put_nowait, error)
            finally:
                loop.call_soon_threadsafe(words.put_nowait, None)

        self._thread.submit(work)
        try:
            while (word := await words.get()) is not None:
                if isinstance(word, BaseException):
                    raise word
                yield word[0]
        finally:
            left[0] = True

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _import_all() -> None:
    import glassformer.recipe_cost
    import glassformer.run
    import glassformer.study.reporting.study_report  # noqa: F401
