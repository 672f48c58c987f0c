"""Somebody who watches a run and keeps what it said."""

from __future__ import annotations


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def progress(self, *_: object) -> None: ...
