"""Answers -> paragraphs: what is possible, why, what to do, and what least squares would have given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from glassformer.byhand.solving.certificate import limit_sentence
from glassformer.byhand.wording import number, some_keys, vector

if TYPE_CHECKING:
    from glassformer.byhand.solving.solver import Answer, Answers

LINES_IN_FULL = 16  # rows of an identity that are told one by one


def tell(answer: Answer) -> str:
    """Three paragraphs: possible or not, the best within the bound, least squares beside it."""
    return "\n\n".join([_possible(answer), _best(answer), _beside(answer)])


def tell_all(answers: Answers) -> str:
    """One line a key, and the whole in one sentence."""
    n = len(answers.rows)
    good = sum(row.reachable is True for row in answers.rows)
    if good == n:
        head = f"identity: possible in the limit. Each of the {n} keys can be selected by a query of its own."
    else:
        head = f"identity: not possible; {good} of the {n} keys can be selected."
    lines = []
    for row in answers.rows[:LINES_IN_FULL]:
        verdict = {True: "yes", False: "no", None: "not decided"}[row.reachable]
        lines.append(
            f"key {row.place + 1}: {verdict}; q = {vector(row.query)}, its weight {number(float(row.weights[row.place]))} "
            f"(least squares at the same length {number(float(row.least_squares.weights[row.place]))})"
        )
    proofs = [f"Not possible, because {row.reach.certificate.sentence()}" for row in answers.rows if row.reach.certificate]
    return "\n\n".join([head, "\n".join(lines), *proofs[:LINES_IN_FULL]])


def _possible(answer: Answer) -> str:
    reach, asked = answer.reach, answer.problem.goal.text
    if answer.reachable is None:
        return (
            f"{asked}: not decided. Neither a direction nor a certificate passed its check in float64, so nothing is claimed "
            "beyond the best query below."
        )
    if not answer.reachable:
        assert reach.certificate is not None
        return (
            f"{asked}: not possible, because {reach.certificate.sentence()} {limit_sentence(reach.best_weights, reach.best_kl)}"
        )
    if reach.attained and not np.any(reach.start):
        return f"{asked}: possible exactly. q = 0 gives every key the same score, so all weights are 1/{len(answer.goal)}."
    if reach.attained:
        return (
            f"{asked}: possible exactly, by q = {vector(reach.start)} of length {number(float(np.linalg.norm(reach.start)))}."
        )
    return f"{asked}: possible in the limit of long queries. {_direction(answer)}"


def _direction(answer: Answer) -> str:
    margin = answer.reach.margin
    assert margin is not None
    used = [int(i) for i in np.flatnonzero(answer.goal)]
    tie = "leads" if len(used) == 1 else "tie and lead"
    text = (
        f"Along u = {vector(margin.direction)}, of length 1, {some_keys(used)} {tie} every other key by at least "
        f"{number(margin.low)} (k.u), and no direction gives more than {number(margin.high)}."
    )
    if np.any(answer.reach.start):
        return (
            f"{text} Add q0 = {vector(answer.reach.start)}, which sets their proportions: q0 + t u reaches the goal as t grows."
        )
    if answer.enough is not None and answer.enough > 0:
        text += f" |q| = {number(answer.enough)} along u is enough for a share of 99 %."
    return text


def _best(answer: Answer) -> str:
    best, length = answer.best, float(np.linalg.norm(answer.query))
    text = (
        f"Best query with |q| <= {number(best.bound)}: q = {vector(best.query)}, |q| = {number(length)}, weights "
        f"{vector(best.weights)}, KL {number(best.kl)} nats. Proved: no such query has a KL lower by more than "
        f"{number(best.gap)}."
    )
    if answer.output is not None:
        text += f" Attention returns {vector(answer.output)}."
    return text


def _beside(answer: Answer) -> str:
    beside = answer.least_squares
    own = float(np.linalg.norm(beside.query))
    return (
        f"Least squares against the logits {vector(beside.logits)} says q = {vector(beside.query)}, of length {number(own)}: "
        f"weights {vector(beside.own_weights)}, KL {number(beside.own_kl)} nats. "
        f"With the length of the best query instead: weights {vector(beside.weights)}, KL {number(beside.kl)} nats."
    )
