"""The order in which gradients of pieces are added: by hand, and the same for any number of processes."""

from __future__ import annotations

import pytest
import torch

from glassformer.training.parallel.tree import PairwiseSum, is_power_of_two, share_of


class Written:
    """A summand that writes down how it was added."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: Written) -> Written:
        return Written(f"({self.text}+{other.text})")


def summed(names: str) -> str:
    total = PairwiseSum()
    for name in names:
        total.add(Written(name))  # type: ignore[arg-type]
    return total.total.text  # type: ignore[attr-defined,no-any-return]


def test_the_tree_by_hand() -> None:
    assert summed("a") == "a"
    assert summed("ab") == "(a+b)"
    assert summed("abcdefgh") == "(((a+b)+(c+d))+((e+f)+(g+h)))"


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_processes_share_one_tree(world: int) -> None:
    """The lower levels inside a process, the upper ones between neighbours: the tree of one process that has all pieces."""
    names = "abcdefgh"
    parts = [summed("".join(names[piece] for piece in share_of(8, rank, world))) for rank in range(world)]
    while len(parts) > 1:
        parts = [f"({left}+{right})" for left, right in zip(parts[::2], parts[1::2])]
    assert parts == [summed(names)]


def test_the_order_can_be_seen() -> None:
    """Sums of floats depend on it: added one after another, the same numbers give other bits."""
    numbers = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    tree, row = PairwiseSum(), numbers[0]
    for number in numbers:
        tree.add(number)
    for number in numbers[1:]:
        row = row + number
    assert not torch.equal(tree.total, row)
    torch.testing.assert_close(tree.total, row)


def test_powers_of_two() -> None:
    assert [number for number in range(-1, 17) if is_power_of_two(number)] == [1, 2, 4, 8, 16]
