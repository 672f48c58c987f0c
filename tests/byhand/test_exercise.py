"""The task on the sheet: what is given and asked, nothing of the answer."""

from __future__ import annotations

from glassformer.byhand.exercise import task_of


def test_a_goal() -> None:
    task = task_of({"goal": "select 2", "keys": "1,0;0,1", "bound": 5})
    assert "key 1 = (1, 0)" in task
    assert "|q| at most 5" in task
    assert "select 2" in task


def test_an_exploration_shows_its_settings() -> None:
    task = task_of({"explore": "argmax", "settings": {}})
    assert task.startswith("Exercise (argmax). ")
    assert "Given: " in task


def test_the_worked_keys() -> None:
    assert "key 4 = (0.43, -0.83, 0.35)" in task_of({"goal": "identity", "keys": "worked"})
