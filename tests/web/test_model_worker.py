"""Jobs in one thread; a stream that ends with its reader; an error of a job reaches whoever waits."""

from __future__ import annotations

import asyncio
import threading

from glassformer.web.model_worker import ModelWorker


def test_one_thread_does_all() -> None:
    async def journey() -> set[str]:
        shop = ModelWorker()
        return set(await asyncio.gather(*(shop.do(lambda: threading.current_thread().name) for _ in range(5))))

    (name,) = asyncio.run(journey())
    assert name.startswith("models")


def test_a_stream_hands_on_words_and_errors() -> None:
    async def journey() -> list[object]:
        shop, heard = ModelWorker(), list[object]()

        def job(say) -> None:
            say(1)
            say({"two": 2})
            raise ValueError("three")

        try:
            async for word in shop.stream(job):
                heard.append(word)
        except ValueError as error:
            heard.append(str(error))
        return heard

    assert asyncio.run(journey()) == [1, {"two": 2}, "three"]


def test_a_reader_that_leaves_ends_the_work() -> None:
    async def journey() -> int:
        shop, said = ModelWorker(), [0]

        def job(say) -> None:
            for number in range(1_000_000):
                say(number)
                said[0] = number
                threading.Event().wait(0.001)

        stream = shop.stream(job)
        await anext(stream)
        await stream.aclose()
        await shop.do(lambda: None)  # the thread is free again
        return said[0]

    assert asyncio.run(journey()) < 10_000
