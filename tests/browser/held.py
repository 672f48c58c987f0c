"""Answers of the server that a test holds until they would do harm, and streams that it speaks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glassformer.runs.directory import RunDirectory

from .conftest import LONGEST

STREAMS = """() => { window.streams = []; window.EventSource = class {
  static OPEN = 1;
  constructor(address) { this.address = address; window.streams.push(this); }
  close() { this.closed = true; } }; }"""
"""From now on the test says what is streamed."""


class Held:
    """The answers to the requests of one address: while ``on``, they are read from the server but not given to the page."""

    def __init__(self, page: Any, address: str, *, on: bool = True, answer: Callable[[Any], Any] | None = None) -> None:
        self.page, self.on, self.answer, self.waiting = page, on, answer, list[Any]()
        page.route(address, self._take)

    def _take(self, route: Any) -> None:
        if self.answer is None:
            given: dict[str, Any] = {"response": route.fetch()}
        else:
            given = {"json": self.answer(route.request)}
        if self.on:
            self.waiting.append((route, given))
        else:
            route.fulfill(**given)

    def wait(self, count: int = 1) -> None:
        """Until so many answers wait; each was written by now."""
        until(self.page, lambda: len(self.waiting) >= count)

    def release(self, **other: Any) -> None:
        """Gives the oldest answer, or another, to the page, and lets the page do with it what it does."""
        route, given = self.waiting.pop(0)
        with self.page.expect_event("requestfinished", lambda request: request == route.request):
            route.fulfill(**(other or given))
        settle(self.page)


def until(page: Any, reached: Callable[[], Any]) -> None:
    """Waits for something that the page asks for; the limit is for a page that never does."""
    for _ in range(LONGEST // 10):
        if reached():
            return
        page.wait_for_timeout(10)
    pytest.fail("it was not asked for")


def settle(page: Any) -> None:
    """What the page does with an answer that is there is done."""
    page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 50)), 50))")


def stream(page: Any, news: dict[str, Any]) -> None:
    # Braces: a promise must not be waited for, its answer may be held.
    page.evaluate("(news) => { window.streams.at(-1).onmessage({ data: JSON.stringify(news) }); }", news)


def new_run(folder: Any, name: str, status: str = "finished") -> RunDirectory:
    run = RunDirectory(folder / name)
    run.write_recipe({"model": {"width": 3}})
    run.write_state(status, step=1)
    return run


def go(page: Any, server: Any, place: str) -> None:
    page.evaluate("() => document.querySelector('main').replaceChildren()")  # the heading that is waited for is the next one
    page.goto(server.at(place))
    page.get_by_role("heading", level=1).wait_for()
