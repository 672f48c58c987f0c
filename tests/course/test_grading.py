"""The grader: its own solutions pass, blanks and wrong answers do not; loops without an end are ended."""

from __future__ import annotations

import ast
from pathlib import Path

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


WRONG = {
    "attention": lambda query, keys, values: (keys @ query, (keys @ query) @ values),  # no softmax
    "next_token_loss": lambda logits, target: -np.log(np.exp(logits)[target] / np.exp(logits).sum()),  # overflows
    "merge": lambda symbols, pair: "|".join(symbols).replace("|".join(pair), "".join(pair)).split("|"),
    "causal_pattern": lambda scores: np.tril(grading._softmax(scores)),  # masked after the softmax
    "layer_norm": lambda x, eps=1e-5: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True, ddof=1),
    "pre_block": lambda x, attention, feedforward, norm: norm(x + feedforward(norm(x + attention(x)))),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_usual_mistake_is_found(name: str) -> None:
    task = next(task for tasks in TASKS.values() for task in tasks if task.name == name)
    with np.errstate(all="ignore"):
        found = judge(task, WRONG[name])
    assert found["basic"][0] < found["basic"][1] or found["hidden"][0] < HIDDEN
    assert found["said"]


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
