"""Decimals -> whole numbers -> yes or no without rounding: separation by the simplex method, linear dependences.

Keys are taken as the decimals a person reads (0.1 is one tenth, not the double next to it), so "this key is the mean of
those two" is decided, not guessed from a small residual. Meant for problems of paper size; says nothing about lengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from glassformer.byhand.numbers import Array

Integers = list[list[int]]
MAX_WORK = 600_000  # entries rewritten, all pivots together: about a second


@dataclass(frozen=True)
class Separated:
    """A direction along which the members tie and every other key is strictly lower. Any positive multiple does it too."""

    direction: list[int]


@dataclass(frozen=True)
class Mixed:
    """No such direction: ``sum outside_j k_j = sum members_i k_i``, outside >= 0, each side with sum 1."""

    outside: dict[int, Fraction]
    members: dict[int, Fraction]


def as_fractions(rows: Array) -> list[list[Fraction]]:
    """Every number as the shortest decimal that stands for it."""
    return [[Fraction(repr(float(number))) for number in row] for row in rows]


def as_integers(rows: Array) -> Integers:
    """The rows times their common denominator. A common positive factor changes no question asked here."""
    fractions = as_fractions(rows)
    common = math.lcm(*(number.denominator for row in fractions for number in row))
    return [[int(number * common) for number in row] for row in fractions]


def separate(keys: Integers, members: list[int]) -> Separated | Mixed | None:
    """Is there u with equal k_i.u over the members and a smaller k_j.u for every other key? None: too large to decide here.

    Farkas: exactly one of the two answers exists. Members enter through differences to the first of them, twice with
    opposite signs because their coefficients may be negative.
    """
    first, *rest = members
    outside = [j for j in range(len(keys)) if j not in set(members)]
    down = [[a - b for a, b in zip(keys[j], keys[first])] for j in outside]
    along = [[a - b for a, b in zip(keys[i], keys[first])] for i in rest]
    columns = [[*c, 1] for c in down] + [[*c, 0] for c in along] + [[-x for x in c] + [0] for c in along]
    solution, farkas = _feasible(columns, [0] * len(keys[0]) + [1])
    if farkas is not None:
        return Separated(farkas[:-1])
    if solution is None:
        return None
    mu, plus, minus = solution[: len(down)], solution[len(down) : len(down) + len(rest)], solution[len(down) + len(rest) :]
    slopes = {i: b - a for i, a, b in zip(rest, plus, minus) if a != b}
    weights = {first: 1 - sum(slopes.values(), Fraction(0)), **slopes}
    return Mixed({j: m for j, m in zip(outside, mu) if m}, {i: weight for i, weight in weights.items() if weight})


def _feasible(columns: Integers, right: list[int]) -> tuple[list[Fraction] | None, list[int] | None]:
    """Some x >= 0 with sum x_c column_c = right (right >= 0), or y with y.column_c <= 0 for all c and y.right > 0.

    Phase one of the simplex method on whole numbers: every entry is an integer over one common denominator, the last
    pivot (Edmonds), so that no fraction is ever reduced. Bland's rule: no cycles, however degenerate the keys. Neither
    x nor y when the work goes beyond ``MAX_WORK``.
    """
    m, n = len(right), len(columns)
    table = [[column[i] for column in columns] + [int(i == k) for k in range(m)] + [right[i]] for i in range(m)]
    cost = [-sum(row[c] for row in table) for c in range(n)] + [0] * m + [-sum(right)]
    basis, denominator, work = list(range(n, n + m)), 1, 0
    while (enter := next((c for c in range(n) if cost[c] < 0), None)) is not None:
        if (work := work + m * (n + m)) > MAX_WORK:
            return None, None
        leave = _leaving_row(table, basis, enter)
        pivot_row, pivot = table[leave], table[leave][enter]
        for row in (*(r for r in table if r is not pivot_row), cost):
            factor = row[enter]
            row[:] = [(pivot * a - factor * b) // denominator for a, b in zip(row, pivot_row)]
        basis[leave], denominator = enter, pivot
    if cost[-1] != 0:
        return None, [denominator - cost[n + k] for k in range(m)]
    x = [Fraction(0)] * n
    for i, column in enumerate(basis):
        if column < n:
            x[column] = Fraction(table[i][-1], denominator)
    return x, None


def _leaving_row(table: Integers, basis: list[int], enter: int) -> int:
    """The row with the smallest ratio right / entry; among equals the one whose variable has the smallest number."""
    best = -1
    for i, row in enumerate(table):
        if row[enter] <= 0:
            continue
        order = 1 if best < 0 else table[best][-1] * row[enter] - row[-1] * table[best][enter]
        if order > 0 or (order == 0 and basis[i] < basis[best]):
            best = i
    assert best >= 0, "phase one is never unbounded"
    return best


def dependences(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """A basis of all c with sum c_i row_i = 0: Gauss-Jordan on the transpose."""
    n, width = len(rows), len(rows[0])
    table = [[rows[i][e] for i in range(n)] for e in range(width)]
    pivots: list[int] = []
    for column in range(n):
        at = len(pivots)
        found = next((r for r in range(at, width) if table[r][column]), None)
        if found is None:
            continue
        table[at], table[found] = table[found], table[at]
        table[at] = [x / table[at][column] for x in table[at]]
        for r in range(width):
            if r != at and (factor := table[r][column]):
                table[r] = [x - factor * y for x, y in zip(table[r], table[at])]
        pivots.append(column)
    basis = []
    for free in (c for c in range(n) if c not in pivots):
        vector = [Fraction(0)] * n
        vector[free] = Fraction(1)
        for r, column in enumerate(pivots):
            vector[column] = -table[r][free]
        basis.append(vector)
    return basis
