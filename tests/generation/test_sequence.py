"""The window rule on paper, and the ends of a sequence."""

from __future__ import annotations

import pytest

from glassformer.generation.sequence import TokenSequence, window_start


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


def make_text(**changes) -> TokenSequence:
    return TokenSequence(**({"prompt_index": 3, "ids": [5, 6], "seed": 1, "context": 4, "max_new_tokens": 3} | changes))


def test_ends_when_it_is_long_enough():
    sequence = make_text()
    for token in (7, 8):
        sequence.accept(token)
        assert sequence.reason is None
    sequence.accept(9)
    assert (sequence.reason, sequence.new_ids, sequence.ids, sequence.window) == (
        "length",
        [7, 8, 9],
        [5, 6, 7, 8, 9],
        [7, 8, 9],
    )


def test_nothing_to_write_ends_at_once():
    assert make_text(max_new_tokens=0).reason == "length"


def test_a_stop_id_ends_it_and_is_not_part_of_it():
    heard = []
    sequence = make_text(stop_ids={8}, on_token=lambda row, token: heard.append((row, token)))
    sequence.accept(7)
    sequence.accept(8)
    assert (sequence.reason, sequence.new_ids, heard) == ("stop id", [7], [(3, 7)])


def test_the_caller_ends_it_and_the_last_id_is_part_of_it():
    sequence = make_text(stop=lambda row, new: (row, new) == (3, [7, 8]))
    sequence.accept(7)
    assert sequence.reason is None
    sequence.accept(8)
    assert (sequence.reason, sequence.new_ids) == ("stop", [7, 8])


@pytest.mark.parametrize("length", [1, 3, 4, 5, 6, 9])
def test_room_is_the_number_of_ids_chosen_from_one_window(length):
    sequence = make_text(ids=list(range(length)), max_new_tokens=50)
    start, room = sequence.start, sequence.room
    for _ in range(room - 1):
        sequence.accept(1)
        assert sequence.start == start
    sequence.accept(1)
    assert sequence.start > start


@pytest.mark.parametrize("rules", [{}, {"stop": lambda row, new: False}])
def test_many_ids_are_taken_up_to_the_end(rules):
    sequence = make_text(**rules)
    assert sequence.watched == bool(rules)
    sequence.accept_all([7, 8])
    assert (sequence.reason, sequence.new_ids, sequence.ids) == (None, [7, 8], [5, 6, 7, 8])
    sequence.accept_all([9, 10, 11])
    assert (sequence.reason, sequence.new_ids, sequence.ids) == ("length", [7, 8, 9], [5, 6, 7, 8, 9])
    sequence.accept_all([12])
    assert sequence.new_ids == [7, 8, 9]


@pytest.mark.parametrize("rules", [{}, {"on_token": lambda row, token: None}])
def test_many_ids_are_taken_up_to_the_windows_end(rules):
    """Ids 5, 6 leave room for three in a window of 4: the last of them makes it move, and what follows saw another one."""
    sequence = make_text(max_new_tokens=50, **rules)
    sequence.accept_all([7, 8, 9, 10, 11])
    assert (sequence.ids, sequence.start, sequence.window, sequence.reason) == ([5, 6, 7, 8, 9], 2, [7, 8, 9], None)
    sequence.accept_all([1, 2, 3])
    assert (sequence.ids, sequence.start) == ([5, 6, 7, 8, 9, 1, 2], 4)
