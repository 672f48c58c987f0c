"""Stop strings across token borders, with half characters, and where the text is cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from glassformer.foundation.errors import UsageError
from glassformer.generation.stop_strings import StopStrings


def decode_bytes(ids: Sequence[int]) -> str:
    return bytes(ids).decode("utf-8", errors="replace")


def first_stop(stop: StopStrings, text: str) -> int | None:
    """After how many bytes of ``text`` the stop is seen, when they come one by one."""
    ids = list(text.encode())
    return next((count for count in range(1, len(ids) + 1) if stop(0, ids[:count])), None)


@pytest.mark.parametrize(
    ("strings", "text", "after"),
    [
        (["\n\n"], "one\n\ntwo", 5),
        (["END", "two"], "one two END", 7),
        (["é"], "caf" * 20 + "é!", 62),  # two bytes, seen when both are there
        (["is a long stop string"], "x" * 100 + "this is a long stop string, y", 126),
        (["absent"], "nothing here", None),
        ([], "nothing to stop at", None),
    ],
)
def test_stops_with_the_last_byte_of_the_string(strings, text, after):
    assert first_stop(StopStrings(decode_bytes, strings), text) == after


def test_looks_only_at_the_end():
    lengths = []

    def decode(ids: Sequence[int]) -> str:
        lengths.append(len(ids))
        return decode_bytes(ids)

    StopStrings(decode, ["abc"])(0, list(b"x" * 1000))
    assert lengths == [11]


def test_cuts_before_the_first_string():
    stop = StopStrings(decode_bytes, ["two", "one"])
    assert stop.cut("zero one two") == "zero "
    assert stop.cut("zero") == "zero"


def test_an_empty_string_is_refused():
    with pytest.raises(UsageError, match="stop='' cannot be used: an empty string would end"):
        StopStrings(decode_bytes, ["a", ""])
