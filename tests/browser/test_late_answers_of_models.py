"""Answers of a model that come late or out of order, and attention by hand: what is shown belongs to what was asked last."""

from __future__ import annotations

import re
from typing import Any

import pytest

from .held import Held, go

pytestmark = [pytest.mark.browser, pytest.mark.slow]


# Looking, asking, counting


def test_the_answers_are_those_to_the_questions_asked_last(open_page, server) -> None:
    def answered(request: Any) -> Any:
        questions = request.post_data_json["questions"]
        more = {"confidence": 0.5, "abstained": False, "alternatives": []}
        return {"answers": [{"question": one, "answer": f"about {one}", **more} for one in questions]}

    page = open_page()
    answers = Held(page, "**/api/ask", answer=answered)
    go(page, server, "ask/letters")
    for question in ("first", "second"):
        page.get_by_label("Questions").fill(question)
        page.get_by_role("button", name="Ask").click()
        answers.wait(1 if question == "first" else 2)
    answers.waiting.reverse()
    answers.release()
    page.get_by_text("about second").wait_for()
    answers.release()
    assert page.get_by_text("about second").is_visible()
    assert page.get_by_text("about first").count() == 0


def test_tokens_of_a_text_that_was_typed_over_are_not_shown(open_page, server) -> None:
    page = open_page()
    go(page, server, "tokens/letters")
    tokens = Held(page, "**/api/tokens?*")
    page.get_by_label("Text", exact=True).fill("first")
    tokens.wait()
    page.evaluate("() => { window.setTimeout = () => 0; }")  # the pause after which the next text is asked for has no end
    page.get_by_label("Text", exact=True).fill("second one")
    route, given = tokens.waiting.pop()
    route.fulfill(**given)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.evaluate("() => fetch('/api/folder').then((answer) => answer.json())")
    assert page.locator(".piece").count() != len("first")


def test_a_readout_belongs_to_the_look_that_is_shown(open_page, server) -> None:
    def readout(request: Any) -> Any:
        return {"blocks": [{"kind": "paragraph", "text": f"measured: {request.post_data_json['kind']}"}]}

    page = open_page()
    looks, readouts = Held(page, "**/api/look"), Held(page, "**/api/look/readout", answer=readout)
    go(page, server, "look/letters?text=the cat sat")
    page.get_by_text("More readouts").click()
    effects, rollout = page.get_by_role("button", name="What each head is worth"), page.get_by_role("button", name="Rollout")
    assert effects.is_disabled()  # there is no look yet
    looks.wait()
    looks.on = False
    looks.release()
    page.get_by_role("button", name="induction").wait_for()
    effects.click()
    readouts.wait()
    readouts.on = False
    rollout.click()
    page.get_by_text("measured: rollout").wait_for()
    readouts.release()
    assert page.get_by_text("measured: rollout").is_visible()
    page.get_by_label("Text", exact=True).fill("the hen")
    page.get_by_role("button", name="Look", exact=True).click()
    page.get_by_text("measured: ").wait_for(state="hidden")


def test_the_button_of_a_head_says_what_it_does_next(open_page, server) -> None:
    page = open_page()
    looks = Held(page, "**/api/look", on=False)
    go(page, server, "look/letters?text=the cat sat")
    page.get_by_role("button", name="induction").wait_for()
    looks.on = True
    page.get_by_role("button", name="Take this head out").click()
    looks.wait()
    page.get_by_role("button", name="Put this head back").click()
    looks.wait(2)
    looks.release()
    looks.release()
    page.get_by_role("button", name="Take this head out").wait_for()
    assert page.get_by_role("heading", name="Next token", exact=True).is_visible()


# By hand


def test_an_arrow_is_moved_by_one_key_after_another(open_page, server) -> None:
    page = open_page()
    planes = Held(page, "**/api/byhand/plane", on=False)
    go(page, server, "byhand")
    page.get_by_role("row", name=re.compile("^softmax")).wait_for()
    query = page.get_by_role("button", name=re.compile("^query 1"))
    assert query.get_attribute("aria-label") == "query 1 at 1, 1"
    query.focus()
    planes.on = True
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
        planes.wait()
        planes.release()  # between two keys
    assert query.get_attribute("aria-label") == "query 1 at 0.7, 1"


def test_weights_of_other_keys_are_not_shown(open_page, server) -> None:
    page = open_page()
    planes = Held(page, "**/api/byhand/plane", on=False)
    go(page, server, "byhand")
    page.get_by_role("row", name=re.compile("^softmax")).wait_for()
    query = page.get_by_role("button", name=re.compile("^query 1"))
    query.focus()
    planes.on = True
    page.keyboard.press("ArrowLeft")
    planes.wait()
    page.get_by_role("button", name="One more key").click()
    planes.release()  # of three keys
    planes.wait()
    cells = [page.locator(".weights tr").nth(at).locator("th, td").count() for at in range(2)]
    assert cells[0] == cells[1]
    planes.release()
    page.get_by_role("columnheader", name="key 4").wait_for()


def test_the_solution_is_that_of_the_goal_set_last(open_page, server) -> None:
    def solved(request: Any) -> Any:
        goal = request.post_data_json["goal"]
        return {"title": f"Solved: {goal}", "text": "", "result": {}, "picture": "data:,"}

    page = open_page()
    listed, solutions = Held(page, "**/api/byhand"), Held(page, "**/api/byhand/solve", answer=solved)
    go(page, server, "byhand")
    explore = page.get_by_role("button", name="Explore")
    assert explore.is_disabled()  # there is nothing to choose from yet
    listed.wait()
    listed.release()
    assert explore.is_enabled()
    for number in (1, 2):
        page.get_by_label("Goal", exact=True).fill(f"select {number}")
        page.get_by_role("button", name="Can it?").click()
        solutions.wait(number)
    solutions.waiting.reverse()
    solutions.release()
    solutions.release()
    assert page.get_by_role("heading", name="Solved: select 2").is_visible()
    assert page.get_by_text("Solved: select 1").count() == 0
