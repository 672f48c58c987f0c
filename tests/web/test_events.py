"""One look for all readers; a slow reader is told to read again; an error is said and looking goes on."""

from __future__ import annotations

import asyncio
import json
import threading
import time

from glassformer.web.events import MOST_WAITING, Hub, Look, Topic


def test_everybody_gets_what_one_look_found() -> None:
    async def journey() -> tuple[list[list[str]], int, int]:
        hub, looks = Hub(), [0]

        def look() -> object:
            looks[0] += 1
            if looks[0] == 2:
                raise ValueError("gone")
            return {"n": looks[0]} if looks[0] < 4 else None

        streams = [hub._events("topic", lambda: look, 0.01) for _ in range(20)]
        heard = []
        for stream in streams:
            assert await anext(stream) == "retry: 1000\n\n"
        for stream in streams:
            heard.append([(await anext(stream)).removeprefix("data: ").strip() for _ in range(3)])
        asked = looks[0]
        for stream in streams:
            await stream.aclose()
        return heard, asked, len(hub.topics)

    heard, asked, left = asyncio.run(journey())
    assert all([json.loads(line) for line in one] == [{"n": 1}, {"error": "gone"}, {"n": 3}] for one in heard)
    assert asked < 20  # not one look for each reader
    assert left == 0


def test_a_slow_reader_is_told_to_read_again() -> None:
    async def journey() -> list[str]:
        topic = Topic(lambda: lambda: None, 1.0)
        queue: asyncio.Queue[str] = asyncio.Queue()
        topic.readers.add(queue)
        for number in range(MOST_WAITING + 1):
            topic.tell(number)
        return [queue.get_nowait() for _ in range(queue.qsize())]

    assert asyncio.run(journey()) == ['data: {"reload": true}\n\n', f"data: {MOST_WAITING}\n\n"]


def test_a_look_that_takes_long_is_taken_seldom() -> None:
    async def journey() -> int:
        looks = [0]

        def look() -> None:
            looks[0] += 1
            time.sleep(0.05)

        stream = Hub()._events("slow", lambda: look, 0.001)
        await anext(stream)
        await asyncio.sleep(0.45)
        await stream.aclose()
        return looks[0]

    assert asyncio.run(journey()) == 1  # the next would come after ten times as long


def test_opening_a_topic_holds_up_nobody() -> None:
    """The first look at a long run reads all of its records: not in the thread that answers all requests."""
    opened: list[threading.Thread] = []

    def look() -> Look:
        opened.append(threading.current_thread())
        if len(opened) == 1:
            raise ValueError("damaged")
        time.sleep(0.1)
        return lambda: {"n": len(opened)}

    async def journey() -> tuple[list[str], float]:
        hub = Hub()
        streams = [hub._events("topic", look, 0.01) for _ in range(3)]
        for stream in streams:
            assert await anext(stream) == "retry: 1000\n\n"
        heard = [await anext(streams[-1]) for _ in range(2)]
        began = time.monotonic()
        await anext(streams[-1])
        rested = time.monotonic() - began
        for stream in streams:
            await stream.aclose()
        return heard, rested

    heard, rested = asyncio.run(journey())
    assert heard == ['data: {"error": "damaged"}\n\n', 'data: {"n": 2}\n\n']
    assert len(opened) == 2  # once for all readers, and once more after it had failed
    assert threading.main_thread() not in opened
    assert rested < 0.9  # opening took long, looking does not
