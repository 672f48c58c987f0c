"""The window rule on paper, and the ends of a text."""

from __future__ import annotations

import pytest

from glassformer.generation.sequence import Text, window_start


@pytest.mark.parametrize(
    ("length", "context", "start"),
    [
        (1, 8, 0),
        (8, 8, 0),
        (9, 8, 4),
        (12, 8, 4),
        (13, 8, 8),
        (16, 8, 8),
        (17, 8, 12),
        (5, 1, 4),
        (7, 5, 2),
        (8, 5, 4),
        (100, 3, 97),
    ],
)
def test_the_window_moves_by_half_a_context(length, context, start):
    assert window_start(length, context) == start


@pytest.mark.parametrize("context", [1, 2, 3, 7, 8, 64])
def test_the_window_is_full_enough_and_never_too_long(context):
    for length in range(1, 5 * context):
        seen = length - window_start(length, context)
        assert 1 <= seen <= context
        assert seen == length or seen > context - max(1, context // 2)


def make_text(**changes) -> Text:
    return Text(**({"row": 3, "ids": [5, 6], "key": 1, "context": 4, "max_new_tokens": 3} | changes))


def test_ends_when_it_is_long_enough():
    text = make_text()
    for token in (7, 8):
        text.accept(token)
        assert text.reason is None
    text.accept(9)
    assert (text.reason, text.new, text.ids, text.window) == ("length", [7, 8, 9], [5, 6, 7, 8, 9], [7, 8, 9])


def test_nothing_to_write_ends_at_once():
    assert make_text(max_new_tokens=0).reason == "length"


def test_a_stop_id_ends_it_and_is_not_part_of_it():
    heard = []
    text = make_text(stop_ids={8}, on_token=lambda row, token: heard.append((row, token)))
    text.accept(7)
    text.accept(8)
    assert (text.reason, text.new, heard) == ("stop id", [7], [(3, 7)])


def test_the_caller_ends_it_and_the_last_id_is_part_of_it():
    text = make_text(stop=lambda row, new: (row, new) == (3, [7, 8]))
    text.accept(7)
    assert text.reason is None
    text.accept(8)
    assert (text.reason, text.new) == ("stop", [7, 8])


@pytest.mark.parametrize("length", [1, 3, 4, 5, 6, 9])
def test_room_is_the_number_of_ids_chosen_from_one_window(length):
    text = make_text(ids=list(range(length)), max_new_tokens=50)
    start, room = text.start, text.room
    for _ in range(room - 1):
        text.accept(1)
        assert text.start == start
    text.accept(1)
    assert text.start > start


@pytest.mark.parametrize("rules", [{}, {"stop": lambda row, new: False}])
def test_many_ids_are_taken_up_to_the_end(rules):
    text = make_text(**rules)
    assert text.watched == bool(rules)
    text.accept_all([7, 8])
    assert (text.reason, text.new, text.ids) == (None, [7, 8], [5, 6, 7, 8])
    text.accept_all([9, 10, 11])
    assert (text.reason, text.new, text.ids) == ("length", [7, 8, 9], [5, 6, 7, 8, 9])
    text.accept_all([12])
    assert text.new == [7, 8, 9]


@pytest.mark.parametrize("rules", [{}, {"on_token": lambda row, token: None}])
def test_many_ids_are_taken_up_to_the_windows_end(rules):
    """Ids 5, 6 leave room for three in a window of 4: the last of them makes it move, and what follows saw another one."""
    text = make_text(max_new_tokens=50, **rules)
    text.accept_all([7, 8, 9, 10, 11])
    assert (text.ids, text.start, text.window, text.reason) == ([5, 6, 7, 8, 9], 2, [7, 8, 9], None)
    text.accept_all([1, 2, 3])
    assert (text.ids, text.start) == ([5, 6, 7, 8, 9, 1, 2], 4)
