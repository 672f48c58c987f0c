"""Server-sent events: a topic is polled once for all its subscribers, and only while there are any."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, final

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from glassformer.web.replies import dumped

HEARTBEAT = 15.0
"""Seconds between keep-alive messages."""
REST = 10
"""Pause between polls as a multiple of a poll's duration: polling a large folder takes at most a tenth of a core."""
MOST_WAITING = 64
"""The queue length of a slow subscriber; beyond it, it must reload everything."""

RELOAD = 'data: {"reload": true}\n\n'

Look = Callable[[], Any]
"""The polling function, called in a thread: returns what is new, or None; at its first call something, never None."""


@final
class Topic:
    """A polled topic and its subscribers. ``open`` makes the polling function, in a thread, before the first poll."""

    def __init__(self, open: Callable[[], Look], pause: float) -> None:
        self.open, self.pause = open, pause
        self.opened = False
        self.readers: set[asyncio.Queue[str]] = set()
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        look: Look | None = None
        while self.readers:
            began = time.monotonic()
            try:
                if look is None:
                    look = await run_in_threadpool(self.open)
                    began = time.monotonic()
                self.opened = True
                news = await run_in_threadpool(look)
            except Exception as error:  # a damaged or deleted run: reported, and polled again
                news = {"error": str(error)}
            if news is not None:
                self.send(news)
            await asyncio.sleep(max(self.pause, REST * (time.monotonic() - began)))

    def send(self, news: Any) -> None:
        text = f"data: {dumped(news)}\n\n"
        for queue in self.readers:
            if queue.qsize() >= MOST_WAITING:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(RELOAD)
            queue.put_nowait(text)


@final
class Hub:
    """All topics of one server."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}

    def stream(self, name: str, look: Callable[[], Look], *, pause: float = 0.5) -> StreamingResponse:
        """The events of a topic from now on. ``look`` makes the polling function when the topic is opened."""
        return StreamingResponse(self._events(name, look, pause), media_type="text/event-stream")

    async def _events(self, name: str, look: Callable[[], Look], pause: float) -> AsyncIterator[str]:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(look, pause)
        queue: asyncio.Queue[str] = asyncio.Queue()
        topic.readers.add(queue)
        if topic.opened:  # earlier news is not sent again, and the reader may have read the page before it
            queue.put_nowait(RELOAD)
        if topic.task is None or topic.task.done():
            topic.task = asyncio.get_running_loop().create_task(topic.run())
        try:
            yield "retry: 1000\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            topic.readers.discard(queue)
            if not topic.readers:
                self.topics.pop(name, None)
                topic.task.cancel()
