"""Argmax attention returns the value of the best key, and tells the query nothing about how to change.

Beside it softmax at several temperatures and the straight-through estimator: argmax forward, softmax backward.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from glassformer.byhand.explorations.base import Findings, exploration, within
from glassformer.byhand.problem import Array
from glassformer.byhand.result import number, vector
from glassformer.foundation.errors import UnknownName
from glassformer.model.attention import attention_pattern, attention_scores

# The worked example: scores 3, 1, 1, -3; output (3, 2, -4)
WORKED_KEYS = ((0, 1, 2), (1, 1, 2), (-1, 1, -2), (0, -1, -2))
WORKED_VALUES = ((3, 2, -4), (3, -2, 4), (3, 2, 0), (3, 2, 0))
WORKED_QUERY = (-2, 1, 1)

Pattern = Callable[[Tensor], Tensor]


def argmax_pattern(scores_S: Tensor) -> Tensor:
    """All weight on the highest score (the first of equal ones)."""
    return torch.nn.functional.one_hot(scores_S.argmax(dim=-1), scores_S.shape[-1]).to(scores_S.dtype)


def straight_through_pattern(scores_S: Tensor) -> Tensor:
    """Forward exactly the argmax; backward the softmax."""
    soft_S = attention_pattern(scores_S)
    return argmax_pattern(scores_S) + (soft_S - soft_S.detach())


def tempered(temperature: float) -> Pattern:
    """Softmax of scores / temperature: towards the argmax as it goes to 0, towards the mean as it grows."""
    return lambda scores_S: attention_pattern(scores_S / temperature)


KINDS: dict[str, Pattern] = {
    "argmax": argmax_pattern,
    "softmax": attention_pattern,
    "straight-through": straight_through_pattern,
}


def output_with(pattern: Pattern, q_E: Tensor, k_SE: Tensor, v_SE: Tensor) -> Tensor:
    """Attention with another way from scores to weights; the scores are the model's."""
    return pattern(attention_scores(q_E[None], k_SE, scale=1.0)[0]) @ v_SE


def gradients(pattern: Pattern, q_E: Tensor, k_SE: Tensor, v_SE: Tensor, target_E: Tensor) -> dict[str, float]:
    """Lengths of the gradients of |output - target|^2 / 2 by query, keys and values; 0 where nothing depends on them."""
    tensors = {"query": q_E, "keys": k_SE, "values": v_SE}
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors.values()]
    loss = (output_with(pattern, *leaves) - target_E).square().sum() / 2
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    return {name: 0.0 if gradient is None else float(gradient.norm()) for name, gradient in zip(tensors, found)}


def largest_change(q_E: Tensor, k_SE: Tensor, v_SE: Tensor, step: float = 1e-3) -> float:
    """How much the argmax output moves when any entry of query or keys moves by ``step``: no trust in autograd needed."""
    before, worst = output_with(argmax_pattern, q_E, k_SE, v_SE), 0.0
    for tensor in (q_E, k_SE):
        for place in np.ndindex(tuple(tensor.shape)):
            for sign in (step, -step):
                tensor[place] += sign
                worst = max(worst, float((output_with(argmax_pattern, q_E, k_SE, v_SE) - before).norm()))
                tensor[place] -= sign
    return worst


def descend(pattern: Pattern, q_E: Tensor, k_SE: Tensor, v_SE: Tensor, target_E: Tensor, steps: int, lr: float) -> list[float]:
    """The loss while plain gradient descent changes the query alone."""
    query, losses = q_E.detach().clone(), []
    for _ in range(steps + 1):
        leaf = query.requires_grad_()
        loss = (output_with(pattern, leaf, k_SE, v_SE) - target_E).square().sum() / 2
        losses.append(float(loss.detach()))
        (gradient,) = torch.autograd.grad(loss, [leaf], allow_unused=True) if loss.requires_grad else (None,)
        query = query.detach() - (0.0 if gradient is None else lr * gradient)
    return losses


def example_tensors(example: str, n: int, d: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, keys and values: the worked example, or whole numbers drawn at random."""
    if example == "worked":
        arrays = (WORKED_QUERY, WORKED_KEYS, WORKED_VALUES)
    elif example == "random":
        rng = np.random.default_rng(seed)
        arrays = (rng.normal(size=d), rng.normal(size=(n, d)), rng.integers(-4, 5, size=(n, d)))  # type: ignore[assignment]
    else:
        raise UnknownName("argmax.example", example, ["worked", "random"])
    query, keys, values = (torch.as_tensor(np.asarray(array), dtype=torch.float64) for array in arrays)
    return query, keys, values


@exploration("argmax", "Why can argmax attention not be trained?")
def argmax(
    *, example: str = "worked", wanted: int = 3, n: int = 6, d: int = 4, steps: int = 60, lr: float = 0.05, seed: int = 0
) -> Findings:
    """The worked example (or, with example=random, n keys in d dimensions); the query shall learn to return one value."""
    within("n", n, 2, 512)
    within("d", d, 1, 512)
    within("steps", steps, 1, 5000)
    within("lr", lr, 1e-6, 100)
    query, keys, values = example_tensors(example, n, d, seed)
    scores = attention_scores(query[None], keys, scale=1.0)[0]
    within("wanted", wanted, 1, len(keys), "it is the number of a key")
    target, hard = values[wanted - 1], output_with(argmax_pattern, query, keys, values)
    table = {name: gradients(pattern, query, keys, values, target) for name, pattern in KINDS.items()}
    temperatures = np.geomspace(0.02, 50.0, 41)
    sweep = [gradients(tempered(t), query, keys, values, target)["query"] for t in temperatures.tolist()]
    away = [float((output_with(tempered(t), query, keys, values) - hard).norm()) for t in temperatures.tolist()]
    losses = {name: descend(pattern, query, keys, values, target, steps, lr) for name, pattern in KINDS.items()}
    moved = largest_change(query.clone(), keys.clone(), values)

    numbers = {
        "scores": scores,
        "output": hard,
        "wanted": wanted,
        "gradients": table,
        "largest_change_of_output": moved,
        "temperature": temperatures,
        "query_gradient_by_temperature": sweep,
        "distance_to_argmax_by_temperature": away,
        "losses": losses,
    }
    paragraph = _paragraph(scores.numpy(), hard.numpy(), wanted, table, losses)
    return Findings(numbers, paragraph, settings={"n": len(keys), "d": keys.shape[1]})


def _paragraph(
    scores: Array, hard: Array, wanted: int, table: dict[str, dict[str, float]], losses: dict[str, list[float]]
) -> str:
    ends = {name: number(row[-1]) for name, row in losses.items()}
    stuck = (
        ""
        if losses["softmax"][-1] <= 0.05 * losses["argmax"][0]
        else (
            " Softmax has not reached the value: gradients point downhill, and here the hill has a second valley, at the "
            "mixture of values that it ended in."
        )
    )
    return (
        f"The scores are {vector(scores)}, so argmax attention returns {vector(hard)}. Now let the query learn to return "
        f"value {wanted} instead. Moving the query or a key a little does not change which score is highest, so the output "
        "stays the same to the last digit: the gradients by query and keys are 0 (by the values "
        f"{number(table['argmax']['values'])}), and the loss stays at {ends['argmax']}. Softmax gives the query a gradient of "
        f"length {number(table['softmax']['query'])} and ends at {ends['softmax']}.{stuck} Straight-through returns the "
        f"argmax but passes the softmax's gradient back ({number(table['straight-through']['query'])} by the query); it ends "
        f"at {ends['straight-through']}, in jumps. Lowering the temperature brings softmax near the argmax, and its gradient "
        "to 0: that is the price."
    )
