"""``glassformer course``: the list, a file with blanks, its grade; exit code 3 until it passes."""

from __future__ import annotations

from pathlib import Path

from glassformer.course.grading import TASKS, solution_text


def test_the_list(cli) -> None:
    document = cli("course", "--json").json
    assert [row["lesson"] for row in document["lessons"]] == list(TASKS)
    assert "glassformer course check N" in cli("course").out


def test_write_complete_and_check(cli) -> None:
    file = Path(cli("course", "write", "8").out.strip())
    assert file.name == "lesson_8_looking.py"
    answer = cli("course", "check", "8")
    assert answer.code == 3
    assert "0 of 20" in answer.out
    assert "gives nothing" in answer.out  # a basic case is shown, hidden ones are not
    again = cli("course", "write", "8")
    assert (again.code, "exists" in again.sentence) == (2, True)
    file.write_text(solution_text("8-looking"))
    answer = cli("course", "check", "8", "--json")
    assert answer.code == 0
    assert answer.json["passed"]


def test_what_is_no_action(cli) -> None:
    assert cli("course", "grade", "8").code == 2
    assert cli("course", "check").code == 2
    assert cli("course", "check", "99").code == 2
