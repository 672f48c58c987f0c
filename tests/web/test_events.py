"""One look for all readers; a slow reader is told to read again; an error is said and looking goes on."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from types import SimpleNamespace

from glassformer.web import events
from glassformer.web.events import MOST_WAITING, Hub, Look, Topic


def test_everybody_gets_what_one_look_found() -> None:
    async def journey() -> tuple[list[list[str]], int]:
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
        for stream in streams:
            await stream.aclose()
        return heard, len(hub.topics)

    heard, left = asyncio.run(journey())  # numbers of looks: the same for all readers, so none had one of its own
    assert all([json.loads(line) for line in one] == [{"n": 1}, {"error": "gone"}, {"n": 3}] for one in heard)
    assert left == 0


def test_a_slow_reader_is_told_to_read_again() -> None:
    async def journey() -> list[str]:
        topic = Topic(lambda: lambda: None, 1.0)
        queue: asyncio.Queue[str] = asyncio.Queue()
        topic.readers.add(queue)
        for number in range(MOST_WAITING + 1):
            topic.send(number)
        return [queue.get_nowait() for _ in range(queue.qsize())]

    assert asyncio.run(journey()) == ['data: {"reload": true}\n\n', f"data: {MOST_WAITING}\n\n"]


def test_a_look_that_takes_long_is_taken_seldom(monkeypatch) -> None:
    async def journey() -> tuple[int, list[float]]:
        looks = [0]

        def look() -> None:
            looks[0] += 1
            time.sleep(0.05)

        stream = Hub()._events("slow", lambda: look, 0.001)
        rests: list[float] = []

        async def rest(seconds: float) -> None:
            rests.append(seconds)
            resting.set()
            await asyncio.Event().wait()  # until it is cancelled

        resting = asyncio.Event()
        monkeypatch.setattr(events.asyncio, "sleep", rest)
        await anext(stream)
        await resting.wait()
        await stream.aclose()
        return looks[0], rests

    looks, (rested,) = asyncio.run(journey())
    assert looks == 1
    assert rested >= 10 * 0.05  # ten times as long as the look took


def test_opening_a_topic_holds_up_nobody(monkeypatch) -> None:
    """The first look at a long run reads all of its records: not in the thread that answers all requests."""
    opened: list[threading.Thread] = []

    def look() -> Look:
        opened.append(threading.current_thread())
        if len(opened) == 1:
            raise ValueError("damaged")
        now[0] += 3600.0  # reading it took an hour
        return lambda: {"n": len(opened)}

    now, rests = [0.0], list[float]()
    monkeypatch.setattr(events, "time", SimpleNamespace(monotonic=lambda: now[0]))
    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await sleep(0)

    monkeypatch.setattr(events.asyncio, "sleep", rest)

    async def journey() -> list[str]:
        hub = Hub()
        streams = [hub._events("topic", look, 0.01) for _ in range(3)]
        for stream in streams:
            assert await anext(stream) == "retry: 1000\n\n"
        heard = [await anext(streams[-1]) for _ in range(3)][:2]
        for stream in streams:
            await stream.aclose()
        return heard

    heard = asyncio.run(journey())
    assert heard == ['data: {"error": "damaged"}\n\n', 'data: {"n": 2}\n\n']
    assert len(opened) == 2  # once for all readers, and once more after it had failed
    assert threading.main_thread() not in opened
    assert set(rests) == {0.01}  # opening took long, looking does not


def test_who_joins_later_reads_again() -> None:
    """What the topic told before is not told again, and may have happened after the reader had read."""

    async def journey() -> list[str]:
        hub, changed = Hub(), iter([{"n": 1}])
        streams = [hub._events("topic", lambda: lambda: next(changed, None), 0.01) for _ in range(2)]
        await anext(streams[0])
        heard = [await anext(streams[0])]
        await anext(streams[1])
        heard.append(await anext(streams[1]))
        for stream in streams:
            await stream.aclose()
        return heard

    assert asyncio.run(journey()) == ['data: {"n": 1}\n\n', 'data: {"reload": true}\n\n']
