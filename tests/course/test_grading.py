"""The grader: its own solutions pass, blanks and wrong answers do not; loops without an end are ended."""

from __future__ import annotations

import ast
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.course import grading
from glassformer.course.grading import HIDDEN, TASKS, file_name, grade, judge, lesson_named, solution_text, template
from glassformer.foundation.errors import DataError, UnknownName


@pytest.mark.parametrize("lesson", TASKS)
class TestEveryLesson:
    def test_its_file_has_a_blank_for_each_task_and_says_what_is_asked(self, lesson: str) -> None:
        functions = [node for node in ast.parse(template(lesson)).body if isinstance(node, ast.FunctionDef)]
        assert [one.name for one in functions] == [task.name for task in TASKS[lesson]]
        for one in functions:
            about, blank = one.body
            assert ast.get_docstring(one)
            assert isinstance(about, ast.Expr)
            assert isinstance(blank, ast.Expr)
            assert blank.value.value is Ellipsis  # type: ignore[attr-defined]

    def test_the_blank_file_passes_no_task(self, lesson: str) -> None:
        names: dict[str, object] = {}
        exec(template(lesson), names)
        for task in TASKS[lesson]:
            found = judge(task, names[task.name])
            assert (found["basic"][0], found["hidden"][0]) == (0, 0)

    def test_the_solutions_pass(self, lesson: str) -> None:
        names: dict[str, object] = {}
        exec(solution_text(lesson), names)
        for task in TASKS[lesson]:
            found = judge(task, names[task.name])
            assert found == {"name": task.name, "basic": [len(task.basic)] * 2, "hidden": [HIDDEN, HIDDEN], "said": ""}

    def test_cases_are_the_same_every_time_and_not_all_alike(self, lesson: str) -> None:
        for task in TASKS[lesson]:
            draws = [np.random.default_rng(5) for _ in range(2)]
            one, other = ([repr(task.draw(draw)) for _ in range(5)] for draw in draws)
            assert one == other
            assert len(set(one)) > 1


def _whole_matrix_normed(x: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean()) / np.sqrt(x.var() + eps)


def _attention_scaled_by_the_input(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return grading._softmax((x @ w_q) @ (x @ w_k).T / np.sqrt(x.shape[1])) @ (x @ w_v)


def _once_per_word(words: Any) -> Any:
    counts = Counter(pair for word in words for pair in set(pairwise(word)))
    return min(counts, key=lambda pair: (-counts[pair], pair))


def _only_the_last_changed(f: Any, x: Any) -> bool:
    changed = x.copy()
    changed[-1] += 1
    return bool((f(x)[:-1] != f(changed)[:-1]).any())


def _first_half_sines(length: int, width: int) -> Any:
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _shared_by_the_others(logits: Any, target: int, epsilon: float) -> Any:
    shares = np.full(len(logits), epsilon / (len(logits) - 1))
    shares[target] = 1 - epsilon
    return -(shares * np.log(grading._softmax(np.asarray(logits)))).sum()


# fmt: off
WRONG: dict[str, list[Any]] = {
    "attention": [
        lambda query, keys, values: (keys @ query, (keys @ query) @ values),  # no softmax
        lambda query, keys, values: grading._softmax(keys @ query) @ values,  # no weights
    ],
    "most_frequent_pair": [
        lambda words: Counter(pair for word in words for pair in pairwise(word)).most_common(1)[0][0],  # the first seen
        _once_per_word,
    ],
    "merge": [lambda symbols, pair: "|".join(symbols).replace("|".join(pair), "".join(pair)).split("|")],
    "next_token_loss": [lambda logits, target: -np.log(np.exp(logits)[target] / np.exp(logits).sum())],  # overflows
    "perplexity": [lambda losses: np.mean(np.exp(losses))],
    "unigram_loss": [
        lambda train, text: -np.mean([np.log(train.count(one) / len(train)) for one in set(text)]),  # each once
        lambda train, text: -np.mean([np.log(text.count(one) / len(text)) for one in text]),  # shares of the text itself
    ],
    "sinusoidal": [_first_half_sines],
    "causal_pattern": [lambda scores: np.tril(grading._softmax(scores))],  # masked after the softmax
    "sees_the_future": [_only_the_last_changed],
    "exact_match": [lambda answers, truths: grading.exact_match(map(str.lower, answers), [one.lower() for one in truths])],
    "majority_accuracy": [lambda train, test: np.bincount(test).max() / len(test)],  # of the test labels
    "scaled_attention": [_attention_scaled_by_the_input],
    "layer_norm": [
        lambda x, eps=1e-5: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True, ddof=1),
        _whole_matrix_normed,
    ],
    "feed_forward": [
        lambda x, w_in, b_in, w_out, b_out: np.maximum(np.maximum(x @ w_in + b_in, 0) @ w_out + b_out, 0),
        lambda x, w_in, b_in, w_out, b_out: np.maximum(x @ w_in, 0) @ w_out + b_out,
    ],
    "pre_block": [lambda x, attention, feedforward, norm: norm(x + feedforward(norm(x + attention(x))))],
    "smoothed_loss": [_shared_by_the_others],
}
# fmt: on


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, found in WRONG.items() for at in range(len(found))])
def test_a_usual_mistake_is_shown_by_a_basic_case(name: str, at: int) -> None:
    task = next(task for tasks in TASKS.values() for task in tasks if task.name == name)
    with np.errstate(all="ignore"):
        found = judge(task, WRONG[name][at])
    assert found["basic"][0] < found["basic"][1]
    assert found["said"].startswith(f"{name}(")


def _said(lesson: str, name: str, function: Any) -> str:
    (task,) = (task for task in TASKS[lesson] if task.name == name)
    return str(judge(task, function)["said"])


def test_answers_are_shown_as_a_student_types_them() -> None:
    assert _said("11-curves", "smoothed", lambda values, width: list(np.array(values))).endswith(
        "gives [1.0, 3.0, 5.0], not [1.0, 2.0, 4.0]"
    )
    assert "gives nothing" in _said("3-gpt", "perplexity", lambda losses: None)


def test_a_difference_behind_the_fourth_digit_is_shown() -> None:
    found, wanted = _said("10-blocks", "layer_norm", lambda x: grading.layer_norm(x) + 1e-5).split(" gives ")[1].split(", not ")
    assert found != wanted


def test_an_error_in_a_hidden_case_is_named() -> None:
    def only_twos(logits: Any, target: int) -> Any:
        if len(logits) != 2:
            raise IndexError("seven")
        return grading.next_token_loss(logits, target)

    assert "raises IndexError: seven" in _said("3-gpt", "next_token_loss", only_twos)


def test_a_function_may_change_what_it_is_given() -> None:
    (task,) = (task for task in TASKS["11-curves"] if task.name == "smoothed")

    def clears(values: list[float], width: int) -> list[float]:
        found = grading.smoothed(values, width)
        values.clear()
        return found

    assert judge(task, clears)["hidden"] == [HIDDEN, HIDDEN]


def test_a_whole_file_in_a_process_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / file_name("2-tokens")
    file.write_text("print('hello')\n" + solution_text("2-tokens"))
    assert grade("2-tokens", file)["passed"]
    file.write_text("good = 1\n\ndef broken(:\n")
    found = grade("2-tokens", file)
    assert not found["passed"]
    assert "line 3: SyntaxError" in found["tasks"][0]["said"]


def test_a_loop_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading, "LONGEST", 1.0)
    file = tmp_path / "loop.py"
    file.write_text("while True: pass\n")
    found = grade("1-attention", file)
    assert not found["passed"]
    assert "longer than" in found["tasks"][0]["said"]


def test_what_is_not_there(tmp_path: Path) -> None:
    assert lesson_named("3") == "3-gpt"
    assert lesson_named("3-gpt") == "3-gpt"
    with pytest.raises(UnknownName):
        lesson_named("99")
    with refused(DataError, "missing-file"):
        grade("3-gpt", tmp_path / "absent.py")
