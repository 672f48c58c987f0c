"""The exercises of the course: files with blanks, and their grader with basic and hidden cases. Imports no torch.

A lesson's file (``static/NAME.txt``) has functions with blanks. The grader runs a completed file in a process of its own, calls
each function on basic cases, whose values it shows when one fails, and on hidden ones, of which it shows the number alone, and
compares with the solutions below.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.foundation.errors import DataError, UnknownName

LONGEST = 60.0
"""Seconds that a completed file may take."""
HIDDEN = 20
"""Hidden cases of each function."""
Draw = np.random.Generator
Cases = Callable[[Draw], tuple[Any, ...]]


@dataclass(frozen=True)
class Task:
    """One function: its solution, basic cases, and how a hidden case is drawn."""

    solution: Callable[..., Any]
    basic: Sequence[tuple[Any, ...]]
    draw: Cases

    @property
    def name(self) -> str:
        return self.solution.__name__


# Solutions, in the order of the lessons.


def _softmax(scores: Any) -> Any:
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention(query: Any, keys: Any, values: Any) -> Any:
    weights = _softmax(keys @ query)
    return weights, weights @ values


def query_that_averages(keys: Any, a: int, b: int, beta: float) -> Any:
    return beta * (keys[a] + keys[b])


def most_frequent_pair(words: Any) -> Any:
    counts = Counter((left, right) for word in words for left, right in zip(word, word[1:]))  # noqa: RUF007
    return min(counts, key=lambda pair: (-counts[pair], pair))


def merge(symbols: Any, pair: Any) -> Any:
    found: list[str] = []
    at = 0
    while at < len(symbols):
        whole = tuple(symbols[at : at + 2]) == tuple(pair)
        found.append("".join(pair) if whole else symbols[at])
        at += 2 if whole else 1
    return found


def next_token_loss(logits: Any, target: int) -> Any:
    return -math.log(_softmax(np.asarray(logits, float))[target])


def perplexity(losses: Any) -> Any:
    return math.exp(sum(losses) / len(losses))


def unigram_loss(train: str, text: str) -> Any:
    counts = Counter(train)
    return -sum(math.log(counts[sign] / len(train)) for sign in text) / len(text)


def sinusoidal(length: int, width: int) -> Any:
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width)


def alibi(length: int, slope: float) -> Any:
    return -slope * np.abs(np.arange(length)[:, None] - np.arange(length)) + 0.0  # 0 instead of -0


def causal_pattern(scores: Any) -> Any:
    return _softmax(np.where(np.tri(len(scores), dtype=bool), scores, -np.inf))


def sees_the_future(f: Any, x: Any) -> Any:
    before = np.array(f(np.array(x, float)))
    for at in range(1, len(x)):
        changed = np.array(x, float)
        changed[at] += 1.0
        if not np.allclose(np.array(f(changed))[:at], before[:at], atol=1e-12):
            return True
    return False


def accuracy_at_coverage(confidences: Any, right: Any, coverage: float) -> Any:
    count = math.ceil(coverage * len(right))
    order = np.argsort(-np.asarray(confidences))[:count]
    return float(np.mean(np.asarray(right, float)[order]))


def exact_match(answers: Any, truths: Any) -> Any:
    return sum(one.strip() == other.strip() for one, other in zip(answers, truths)) / len(truths)


def majority_accuracy(train_labels: Any, test_labels: Any) -> Any:
    counts = Counter(train_labels)
    label = min(counts, key=lambda one: (-counts[one], one))
    return sum(one == label for one in test_labels) / len(test_labels)


def macro_f1(true: Any, predicted: Any, classes: int) -> Any:
    scores = []
    for label in range(classes):
        both = sum(one == label == other for one, other in zip(true, predicted))
        either = sum(one == label for one in true) + sum(one == label for one in predicted)
        scores.append(2 * both / either if either else 0.0)
    return sum(scores) / classes


def entropy(weights: Any) -> Any:
    weights = np.asarray(weights, float)
    return float(-(weights * np.log(np.where(weights > 0, weights, 1.0))).sum(axis=-1).mean()) + 0.0


def induction_score(weights: Any, n: int) -> Any:
    return float(np.mean([weights[n + at][at + 1] for at in range(n)]))


def split_heads(x: Any, heads: int) -> Any:
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def scaled_attention(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    return _softmax(q @ k.T / math.sqrt(q.shape[1])) @ v


def layer_norm(x: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def feed_forward(x: Any, w_in: Any, b_in: Any, w_out: Any, b_out: Any) -> Any:
    return np.maximum(x @ w_in + b_in, 0.0) @ w_out + b_out


def pre_block(x: Any, attention: Any, feedforward: Any, norm: Any) -> Any:
    x = x + attention(norm(x))
    return x + feedforward(norm(x))


def best_step(steps: Any, validation: Any) -> Any:
    return steps[int(np.argmin(validation))]


def overfits(train: Any, validation: Any) -> Any:
    at = int(np.argmin(validation))
    return bool(validation[-1] > validation[at] and train[-1] < train[at])


def smoothed(values: Any, width: int) -> Any:
    return [float(np.mean(values[max(0, at - width) : at + 1])) for at in range(len(values))]


def cross_attention(queries: Any, keys: Any, values: Any, padding: Any) -> Any:
    scores = np.where(padding, -np.inf, queries @ keys.T / math.sqrt(keys.shape[1]))
    return _softmax(scores) @ values


def shifted(target: Any, start: int, end: int) -> Any:
    return [start, *target], [*target, end]


def smoothed_loss(logits: Any, target: int, epsilon: float) -> Any:
    logs = np.log(_softmax(np.asarray(logits, float)))
    return float(-(1 - epsilon) * logs[target] - epsilon * logs.mean())


def _letters(draw: Draw, count: int, size: int = 4) -> list[str]:
    return [str(one) for one in draw.choice(list("abcdefgh")[:size], count)]


def _running_sum(x: Any) -> Any:
    return np.cumsum(x)


def _minus_mean(x: Any) -> Any:
    return x - np.mean(x)


def _reversed(x: Any) -> Any:
    return x[::-1]


def _first_two_swapped(x: Any) -> Any:
    return np.concatenate([x[1::-1], x[2:]])


def _squared(x: Any) -> Any:
    return x**2


def _half(x: Any) -> Any:
    return 0.5 * x


SEQUENCES = (_running_sum, _minus_mean, _reversed, _first_two_swapped, _squared)
EYE = np.eye(3)


def _orthonormal(draw: Draw) -> tuple[Any, ...]:
    keys = np.linalg.qr(draw.normal(size=(6, 6)))[0][:4]
    a, b = (int(one) for one in draw.choice(4, 2, replace=False))
    return keys, a, b, float(draw.uniform(5, 30))


TASKS: dict[str, tuple[Task, ...]] = {
    "1-attention": (
        Task(
            attention,
            [
                (np.zeros(2), np.eye(2), np.array([[1.0], [3.0]])),
                (np.array([1000.0, 0.0]), np.eye(2), np.array([[1.0], [3.0]])),
            ],
            lambda draw: (draw.normal(size=3), draw.normal(size=(5, 3)), draw.normal(size=(5, 2))),
        ),
        Task(query_that_averages, [(EYE, 0, 1, 10.0)], _orthonormal),
    ),
    "2-tokens": (
        Task(
            most_frequent_pair,
            [([list("low"), list("lower")],), ([list("cd"), list("ab")],), ([list("bbb"), list("ac")],)],
            lambda draw: ([_letters(draw, 6) for _ in range(4)],),
        ),
        Task(
            merge,
            [(list("aaab"), ("a", "a")), (["ab", "c"], ("b", "c"))],
            lambda draw: (_letters(draw, 12, 2), tuple(_letters(draw, 2, 2))),
        ),
    ),
    "3-gpt": (
        Task(
            next_token_loss,
            [([0.0, 0.0], 1), ([1000.0, 0.0], 0)],
            lambda draw: ((draw.normal(size=7) * draw.choice([1.0, 30.0])).tolist(), int(draw.integers(7))),
        ),
        Task(perplexity, [([math.log(2), math.log(8)],)], lambda draw: (draw.uniform(0.1, 4, 9).tolist(),)),
        Task(unigram_loss, [("aaab", "aba")], lambda draw: ("abcd" + "".join(_letters(draw, 30)), "".join(_letters(draw, 8)))),
    ),
    "4-positions": (
        Task(sinusoidal, [(3, 4)], lambda draw: (int(draw.integers(2, 12)), 2 * int(draw.integers(1, 8)))),
        Task(alibi, [(3, 1.0)], lambda draw: (int(draw.integers(2, 9)), float(draw.uniform(0.1, 2)))),
    ),
    "5-leak": (
        Task(causal_pattern, [(np.zeros((3, 3)),)], lambda draw: (draw.normal(size=(5, 5)) * 3,)),
        Task(
            sees_the_future,
            [(one, np.array([1.0, 2.0, 3.0])) for one in (_running_sum, _minus_mean, _first_two_swapped)],
            lambda draw: (SEQUENCES[int(draw.integers(len(SEQUENCES)))], draw.normal(size=5)),
        ),
    ),
    "6-knowledge": (
        Task(
            accuracy_at_coverage,
            [([0.9, 0.1, 0.5, 0.7], [True, False, False, True], 0.5), ([0.9, 0.1, 0.5], [True, False, False], 0.5)],
            lambda draw: (draw.permutation(9).tolist(), (draw.random(9) < 0.5).tolist(), float(draw.uniform(0.1, 1))),
        ),
        Task(
            exact_match,
            [(["Rome", " Oslo", "bern"], ["Rome", "Oslo", "Bern"])],
            lambda draw: (_letters(draw, 9, 3), [f" {one} " for one in _letters(draw, 9, 3)]),
        ),
    ),
    "7-labels": (
        Task(
            majority_accuracy,
            [([1, 1, 0], [0, 0, 1]), ([0, 1], [0, 0, 1])],
            lambda draw: (draw.integers(0, 3, 9).tolist(), draw.integers(0, 3, 7).tolist()),
        ),
        Task(
            macro_f1,
            [([0, 0, 1], [0, 1, 1], 2), ([0, 0], [0, 0], 2)],
            lambda draw: (draw.integers(0, 3, 9).tolist(), draw.integers(0, 3, 9).tolist(), 4),
        ),
    ),
    "8-looking": (
        Task(entropy, [(np.eye(3),), (np.full((2, 4), 0.25),)], lambda draw: (_softmax(draw.normal(size=(4, 4)) * 3),)),
        Task(
            induction_score,
            [(np.eye(4)[[0, 1, 1, 2]], 2)],
            lambda draw: (_softmax(draw.normal(size=(8, 8)) * 2), 4),
        ),
    ),
    "9-scale": (
        Task(
            split_heads,
            [(np.arange(8.0).reshape(2, 4), 2)],
            lambda draw: (draw.normal(size=(5, 12)), int(draw.choice([1, 2, 3, 4]))),
        ),
        Task(
            scaled_attention,
            [(EYE[:2], EYE[:, :2], EYE[:, :2], EYE[:, :2])],
            lambda draw: (draw.normal(size=(4, 6)), *(draw.normal(size=(6, 3)) for _ in range(3))),
        ),
    ),
    "10-blocks": (
        Task(layer_norm, [(np.array([[1.0, 3.0], [5.0, 9.0]]),)], lambda draw: (draw.normal(size=(3, 5)) * 4 + 2,)),
        Task(
            feed_forward,
            [(np.array([[1.0, -1.0]]), np.eye(2), np.array([0.5, 0.0]), np.eye(2), np.array([1.0, -1.0]))],
            lambda draw: tuple(draw.normal(size=size) for size in ((3, 4), (4, 8), (8,), (8, 4), (4,))),
        ),
        Task(
            pre_block,
            [(np.array([[1.0, 2.0]]), _half, _squared, _half)],
            lambda draw: (draw.normal(size=(3, 4)), _half, _squared, _minus_mean),
        ),
    ),
    "11-curves": (
        Task(
            best_step,
            [([10, 20, 30], [2.0, 1.0, 1.5])],
            lambda draw: (list(range(10, 100, 10)), np.round(draw.uniform(1, 2, 9), 1).tolist()),
        ),
        Task(
            overfits,
            [([3.0, 2.0, 1.0], [3.0, 2.0, 2.5]), ([3.0, 2.0, 1.0], [3.0, 2.0, 1.9]), ([3.0, 1.0, 2.0], [3.0, 2.0, 2.5])],
            lambda draw: (draw.uniform(1, 3, 5).tolist(), draw.uniform(1, 3, 5).tolist()),
        ),
        Task(smoothed, [([1.0, 3.0, 5.0], 1)], lambda draw: (draw.normal(size=8).tolist(), int(draw.integers(0, 4)))),
    ),
    "12-pairs": (
        Task(
            cross_attention,
            [
                (np.zeros((2, 3)), EYE, EYE, np.array([False, False, False])),
                (np.zeros((1, 3)), EYE, EYE, np.array([False, True, False])),
            ],
            lambda draw: (*(draw.normal(size=(n, 4)) for n in (3, 5, 5)), np.arange(5) >= draw.integers(1, 6)),
        ),
        Task(shifted, [([5, 6], 0, 1), ([], 0, 1)], lambda draw: (draw.integers(2, 9, int(draw.integers(5))).tolist(), 0, 1)),
        Task(
            smoothed_loss,
            [([0.0, 2.0], 1, 0.2), ([0.0, 5.0], 1, 0.0)],
            lambda draw: (draw.normal(size=6).tolist(), int(draw.integers(6)), float(draw.uniform(0, 0.5))),
        ),
    ),
}
"""By lesson, in the order of its file."""


def lesson_named(number: str) -> str:
    """``3`` -> 3-gpt."""
    found = next((name for name in TASKS if name.split("-")[0] == number.strip() or name == number.strip()), None)
    if found is None:
        raise UnknownName("The course", number, [name.split("-")[0] for name in TASKS])
    return found


def template(lesson: str) -> str:
    """The file with blanks."""
    return files("glassformer.course").joinpath("static", f"{lesson}.txt").read_text(encoding="utf-8")


def file_name(lesson: str) -> str:
    """The name under which a student keeps it."""
    return f"lesson_{lesson.replace('-', '_')}.py"


def solution_text(lesson: str) -> str:
    """A completed file: the template's head and the grader's own solutions, for teachers and tests."""
    helpers = [_softmax, *(task.solution for task in TASKS[lesson])]
    head = "import math\nfrom collections import Counter\nfrom typing import Any\n\nimport numpy as np\n\n\n"
    return head + "\n\n".join(inspect.getsource(one) for one in helpers)


def grade(lesson: str, file: Path) -> dict[str, Any]:
    """Runs a completed file in a process of its own: ``{"lesson", "passed", "tasks"}``, each task with its cases."""
    if not file.is_file():
        raise DataError("does not exist; `glassformer course write N` writes it with blanks.", file=file, reason="missing-file")
    words = [sys.executable, "-c", "from glassformer.course.grading import main; main()", lesson, str(file)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return _failed(lesson, f"it ran longer than {LONGEST:.0f} s; is there a loop without an end?")
    last = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        document: dict[str, Any] = json.loads(last[0])
    except ValueError:
        error = done.stderr.strip().splitlines()[-1:] or ["no result"]
        places = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', done.stderr)
        return _failed(lesson, f"the file does not run: {f'line {places[-1]}: ' if places else ''}{error[0]}")
    return document


def _failed(lesson: str, why: str) -> dict[str, Any]:
    none = {"basic": [0, 0], "hidden": [0, HIDDEN]}
    return {"lesson": lesson, "passed": False, "tasks": [{"name": one.name, **none, "said": why} for one in TASKS[lesson]]}


def main() -> None:
    """The process that runs a student's file: lesson and file as arguments, one JSON document as the last line."""
    lesson, file = sys.argv[1:3]
    names = runpy.run_path(file)
    results = [judge(task, names.get(task.name)) for task in TASKS[lesson]]
    passed = all(one["basic"][0] == one["basic"][1] and one["hidden"][0] == one["hidden"][1] for one in results)
    sys.stdout.write("\n" + json.dumps({"lesson": lesson, "passed": passed, "tasks": results}) + "\n")


def judge(task: Task, function: Any) -> dict[str, Any]:
    """How many basic and hidden cases a function gets right; ``said``: what was wrong with the first basic one."""
    if not callable(function):
        return {"name": task.name, "basic": [0, len(task.basic)], "hidden": [0, HIDDEN], "said": f"there is no {task.name}()."}
    draw = np.random.default_rng(sum(map(ord, task.name)))
    hidden = [task.draw(draw) for _ in range(HIDDEN)]
    wrong = [(case, problem) for case in task.basic if (problem := _problem(task, function, case)) is not None]
    hidden_wrong = [problem for case in hidden if (problem := _problem(task, function, case)) is not None]
    said = ""
    if wrong:
        case, problem = wrong[0]
        said = f"{task.name}({', '.join(_shown(one) for one in case)}) {problem}"
    elif hidden_wrong:
        raised = next((f"; one {problem}" for problem in hidden_wrong if problem.startswith("raises")), "")
        hint = "think of other sizes, ties, large numbers and ends."
        said = f"{task.name}: {len(hidden_wrong)} hidden cases are wrong{raised}; {hint}"
    basic = [len(task.basic) - len(wrong), len(task.basic)]
    return {"name": task.name, "basic": basic, "hidden": [HIDDEN - len(hidden_wrong), HIDDEN], "said": said}


def _problem(task: Task, function: Any, case: tuple[Any, ...]) -> str | None:
    """What is wrong with the answer to a case, or None. Each call gets copies: a function may change what it is given."""
    wanted = task.solution(*_copies(case))
    try:
        found = function(*_copies(case))
    except Exception as error:  # a student's code may raise anything
        return f"raises {type(error).__name__}: {error}"
    if _same(found, wanted):
        return None
    if found is None:
        return f"gives nothing (is there a return?), not {_shown(wanted)}"
    # As few digits as show the difference.
    texts = ((_shown(found, digits), _shown(wanted, digits)) for digits in (4, 8, 16))
    return next((f"gives {one}, not {other}" for one, other in texts if one != other), f"gives {found!r}, not {wanted!r}")


def _copies(case: tuple[Any, ...]) -> list[Any]:
    return [np.array(one) if isinstance(one, np.ndarray) else list(one) if isinstance(one, list) else one for one in case]


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple) and wanted and isinstance(wanted[0], str):
        return isinstance(found, tuple | list) and tuple(found) == wanted
    if isinstance(wanted, tuple):
        return isinstance(found, tuple | list) and len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], str):
        return isinstance(found, tuple | list) and list(found) == wanted
    if isinstance(wanted, bool):
        return isinstance(found, bool | np.bool_) and bool(found) == wanted
    try:
        array = np.asarray(found, dtype=float)
    except (TypeError, ValueError):
        return False
    expected = np.asarray(wanted, dtype=float)
    return array.shape == expected.shape and bool(np.allclose(array, expected, rtol=1e-6, atol=1e-8))


def _shown(value: Any, digits: int = 4) -> str:
    """As a student would type it: a number of numpy as a number, floats rounded."""
    if callable(value):
        return getattr(value, "__name__", "f").strip("_")
    if isinstance(value, np.ndarray) and value.ndim:
        return np.array2string(value, precision=digits, separator=", ", threshold=40).replace("\n", "")
    if isinstance(value, np.ndarray | np.generic):
        value = value.item()
    if isinstance(value, tuple | list):
        inside = ", ".join(_shown(one, digits) for one in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(round(value, digits) if isinstance(value, float) else value)
