"""Answers that come late, early, twice or out of order: the page shows what was asked for last, and buttons do what they say.

Every answer here is held until the moment it would do harm; nothing depends on how fast the machine is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
from playwright.sync_api import expect

from glassformer.runs.directory import RunDirectory

from .conftest import LONGEST

pytestmark = pytest.mark.browser

STREAMS = """() => { window.streams = []; window.EventSource = class {
  static OPEN = 1;
  constructor(address) { this.address = address; window.streams.push(this); }
  close() { this.closed = true; } }; }"""
"""From now on the test says what is streamed."""


class Held:
    """The answers to the requests of one address: while ``on``, they are read from the server but not given to the page."""

    def __init__(self, page: Any, address: str, *, on: bool = True, answer: Callable[[Any], Any] | None = None) -> None:
        self.page, self.on, self.answer, self.waiting = page, on, answer, list[Any]()
        page.route(address, self._take)

    def _take(self, route: Any) -> None:
        if self.answer is None:
            given: dict[str, Any] = {"response": route.fetch()}
        else:
            given = {"json": self.answer(route.request)}
        if self.on:
            self.waiting.append((route, given))
        else:
            route.fulfill(**given)

    def wait(self, count: int = 1) -> None:
        """Until so many answers wait; each was written by now."""
        until(self.page, lambda: len(self.waiting) >= count)

    def release(self, **other: Any) -> None:
        """Gives the oldest answer, or another, to the page, and lets the page do with it what it does."""
        route, given = self.waiting.pop(0)
        with self.page.expect_event("requestfinished", lambda request: request == route.request):
            route.fulfill(**(other or given))
        settle(self.page)


def until(page: Any, reached: Callable[[], Any]) -> None:
    """Waits for something that the page asks for; the limit is for a page that never does."""
    for _ in range(LONGEST // 10):
        if reached():
            return
        page.wait_for_timeout(10)
    pytest.fail("it was not asked for")


def settle(page: Any) -> None:
    """What the page does with an answer that is there is done."""
    page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 50)), 50))")


def stream(page: Any, news: dict[str, Any]) -> None:
    # Braces: a promise must not be waited for, its answer may be held.
    page.evaluate("(news) => { window.streams.at(-1).onmessage({ data: JSON.stringify(news) }); }", news)


def new_run(folder: Any, name: str, status: str = "finished") -> RunDirectory:
    run = RunDirectory(folder / name)
    run.write_recipe({"model": {"width": 3}})
    run.write_state(status, step=1)
    return run


def go(page: Any, server: Any, place: str) -> None:
    page.evaluate("() => document.querySelector('main').replaceChildren()")  # the heading that is waited for is the next one
    page.goto(server.at(place))
    page.get_by_role("heading", level=1).wait_for()


# Lists and pages of what trains


def test_what_happens_before_the_stream_is_open_is_shown(open_page, server, folder) -> None:
    page = open_page()
    go(page, server, "studies")
    held: list[Any] = []
    page.route("**/api/folder/events", lambda route: held.append(route))
    page.goto(server.at("runs"))
    page.get_by_role("heading", name="2 runs").wait_for()
    new_run(folder, "later")
    until(page, lambda: held)
    held[0].continue_()
    page.get_by_role("link", name="later").wait_for()


def test_the_list_as_it_was_does_not_come_back(open_page, server, folder) -> None:
    page = open_page()
    folders = Held(page, "**/api/folder", on=False)
    go(page, server, "byhand")
    page.evaluate(STREAMS)
    go(page, server, "runs")
    new_run(folder, "later")
    folders.on = True
    stream(page, {"changed": True})
    folders.wait()
    new_run(folder, "latest")
    folders.on = False
    stream(page, {"changed": True})
    page.get_by_role("heading", name="4 runs").wait_for()
    folders.release()
    assert page.get_by_role("heading", name="4 runs").is_visible()
    folders.on = True
    stream(page, {"changed": True})
    folders.wait()
    folders.on = False
    new_run(folder, "last")
    stream(page, {"changed": True})
    page.get_by_role("heading", name="5 runs").wait_for()
    folders.release(status=500, json={"error": "It was too much."})
    assert page.get_by_role("heading", name="5 runs").is_visible()


def test_a_row_can_be_pressed_while_its_run_trains(open_page, server) -> None:
    page = open_page()
    go(page, server, "byhand")
    page.evaluate(STREAMS)
    steps = [60]

    def folder(request: Any) -> Any:
        document = page.request.get(request.url).json()
        for row in document["runs"]:
            row["step"] = steps[0]
        return document

    Held(page, "**/api/folder", on=False, answer=folder)
    go(page, server, "runs")
    page.get_by_role("link", name="letters").hover()
    page.mouse.down()
    steps[0] = 61
    stream(page, {"changed": True})
    page.get_by_role("cell", name="61").first.wait_for()
    page.mouse.up()
    page.get_by_role("heading", name="letters", level=1).wait_for()


def test_a_run_that_has_ended_does_not_run_again(open_page, server, folder) -> None:
    page = open_page()
    runs = Held(page, "**/api/run?*", on=False)
    run = new_run(folder, "later")
    go(page, server, "byhand")
    page.evaluate(STREAMS)
    with run.held():
        run.write_state("running", step=1)
        go(page, server, "run/later")
        page.get_by_role("button", name="Stop").wait_for()
        runs.on = True
        stream(page, {"progress": {"status": "running"}})
        runs.wait()
        run.write_state("finished", step=2)
    runs.on = False
    stream(page, {"progress": {"status": "finished"}})
    page.get_by_text("finished", exact=True).wait_for()
    runs.release()
    assert page.get_by_text("finished", exact=True).is_visible()
    assert page.get_by_role("button", name="Resume").is_visible()


def test_a_stop_is_asked_for_once(open_page, server, folder) -> None:
    page = open_page()
    stops = Held(page, "**/api/stop", answer=lambda request: {"stopped": "later"})
    run = new_run(folder, "later")
    with run.held():
        run.write_state("running", step=1)
        go(page, server, "run/later")
        stop = page.get_by_role("button", name="Stop")
        stop.click()
        stops.wait()
        stop.click()
        settle(page)
        assert len(stops.waiting) == 1
        stops.release()
        page.get_by_text("Asking").wait_for(state="hidden")


CURVES = """async () => {
  const { curvePlot } = await import("/static/plot.js");
  const asked = [], ask = () => new Promise((done, fail) => asked.push({ done, fail }));
  const plot = curvePlot(ask, { label: "curves" }), said = () => plot.element.querySelector("p").textContent;
  const settle = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
  const curve = (...step) => [{ label: "loss", step, value: step.map((at) => 10 * at) }];
  document.body.append(plot.element);
  const seen = [];
  asked[0].done(curve(1, 2, 3)); await settle(); seen.push(said());
  plot.append("loss", [3, 4], [30, 40]); await settle(); seen.push(plot.element.querySelector(".plot").dataset.points);
  plot.load(); plot.append("loss", [5], [50]); asked[1].done(curve(1, 2, 3, 4)); await settle(); seen.push(said());
  plot.load(); plot.load(); asked[3].done(curve(1, 2, 3, 4, 5, 6)); await settle();
  asked[2].fail(new Error("too late")); await settle(); seen.push(said());
  plot.load(); plot.close(); asked[4].fail(new Error("nobody asks any more")); await settle();
  return seen;
}"""


def test_curves_lose_and_repeat_no_point(open_page, server) -> None:
    page = open_page()
    found = page.evaluate(CURVES)
    assert found == ["loss: 30 at step 3", "4", "loss: 50 at step 5", "loss: 60 at step 6"]


def study_of(*finished: bool, page: bool = False) -> dict[str, Any]:
    kept = {"step": 60, "steps": 60}
    trials = [
        {"name": name, "status": "finished" if one else "running", **kept} for name, one in zip(["letters", "pairs"], finished)
    ]
    drawn = {"title": "A study", "subtitle": "", "blocks": [], "footer": f"{sum(finished)} of them", "tainted": None}
    return {"damaged": None if page else "made up", "page": drawn if page else None, "trials": trials, "started": None}


def test_trials_that_have_finished_stay_finished(open_page, server) -> None:
    page = open_page()
    page.evaluate(STREAMS)
    found = [study_of(False, False)]
    studies = Held(page, "**/api/study?*", on=False, answer=lambda request: found[0])
    page.goto(server.at("study/made-up"))
    page.get_by_text("Trials: 0 of 2 finished").wait_for()
    studies.on, found[0] = True, study_of(True, False)
    stream(page, {"changed": True, "trials": found[0]["trials"]})
    studies.wait()
    stream(page, {"trials": study_of(True, True)["trials"]})
    page.get_by_text("Trials: 2 of 2 finished").wait_for()
    studies.release()
    assert page.get_by_text("Trials: 2 of 2 finished").is_visible()
    stream(page, {"changed": True})
    studies.wait()
    studies.on, found[0] = False, {**study_of(True, True), "damaged": "made up again"}
    stream(page, {"changed": True})
    page.get_by_text("made up again").wait_for()
    studies.release(status=500, json={"error": "It was too much."})
    assert page.get_by_text("It was too much.").count() == 0


def test_a_trial_can_be_pressed_while_the_report_changes(open_page, server) -> None:
    page = open_page()
    page.evaluate(STREAMS)
    found = [study_of(True, False, page=True)]
    Held(page, "**/api/study?*", on=False, answer=lambda request: found[0])
    page.goto(server.at("study/made-up"))
    page.get_by_role("link", name=re.compile("letters: finished")).hover()
    page.mouse.down()
    found[0] = study_of(True, True, page=True)
    stream(page, {"changed": True})
    page.get_by_text("2 of them").wait_for()
    page.mouse.up()
    page.get_by_role("heading", name="letters", level=1).wait_for()


def test_a_part_that_is_left_listens_no_more(open_page, server) -> None:
    page = open_page()
    page.evaluate(STREAMS)
    Held(page, "**/api/study?*", on=False, answer=lambda request: study_of(True, True))
    for place in ("runs", "run/letters", "study/made-up"):
        go(page, server, place)
        page.wait_for_function("() => window.streams.length && !window.streams.at(-1).closed")
        go(page, server, "studies")
        page.get_by_role("heading", name="Studies", level=1).wait_for()
        page.wait_for_function("() => window.streams.every((one) => one.closed)")


# A new run


def accepted(page: Any) -> Any:
    page.locator(".verdict-line").get_by_text("accepted").wait_for()
    return page.get_by_role("button", name="Start")


def test_a_recipe_that_is_not_here_yet_cannot_be_started(open_page, server) -> None:
    page = open_page()
    go(page, server, "new?base=run:letters")
    start = accepted(page)
    schemas = Held(page, "**/api/recipe/schema?*")
    page.get_by_label("Begin with").select_option("run:pairs")
    assert start.is_disabled()
    schemas.wait()
    page.get_by_label("a study").check()  # asks for a check, which has nothing to check yet
    page.get_by_label("a study").uncheck()
    settle(page)
    assert start.is_disabled()
    schemas.release()
    accepted(page)
    assert start.is_enabled()


def test_the_form_is_that_of_the_recipe_chosen_last(open_page, server) -> None:
    page = open_page()
    go(page, server, "new?base=run:letters")
    accepted(page)
    steps = page.locator('[data-key="training.steps"]')
    schemas = Held(page, "**/api/recipe/schema?*")
    page.get_by_label("Begin with").select_option("docstrings-char")
    schemas.wait()
    schemas.on = False
    page.get_by_label("Begin with").select_option("run:pairs")
    expect(steps).to_have_value("60")
    schemas.release()
    assert steps.input_value() == "60"
    schemas.on = True
    page.get_by_label("Begin with").select_option("docstrings-char")
    schemas.wait()
    schemas.on = False
    page.get_by_label("Begin with").select_option("run:pairs")
    expect(steps).to_have_value("60")
    schemas.release(status=500, json={"error": "It was too much."})
    assert steps.input_value() == "60"


def test_what_is_starting_is_not_started_twice(open_page, server) -> None:
    page = open_page()
    starts = Held(page, "**/api/start", answer=lambda request: {})
    go(page, server, "new?base=run:letters")
    start = accepted(page)
    start.click()
    starts.wait()
    with page.expect_response("**/api/recipe/check"):
        page.locator('[data-key="training.steps"]').fill("61")
    settle(page)
    assert start.is_disabled()
    with page.expect_response("**/api/recipe/check"):
        page.locator('[data-key="model.heads"]').fill("3")
    page.get_by_text(re.compile("heads=3")).first.wait_for()
    starts.release(status=409, json={"error": "There is one already."})
    page.get_by_text("There is one already.").wait_for()
    assert start.is_disabled()  # the recipe as it is now was refused
    page.locator('[data-key="model.heads"]').fill("4")
    accepted(page)
    assert start.is_enabled()


def test_who_leaves_while_a_run_starts_is_not_called_back(open_page, server) -> None:
    page = open_page()
    page.route("**/api/start", lambda route: route.fulfill(json={}))
    go(page, server, "new?base=run:letters")
    start = accepted(page)
    page.get_by_label("Name of its folder").fill("mine")
    folders = Held(page, "**/api/folder", answer=lambda request: {"started": [], "studies": [], "runs": [{"name": "mine"}]})
    start.click()
    folders.wait()
    page.goto(server.at("byhand"))
    page.get_by_role("row", name=re.compile("^softmax")).wait_for()
    folders.release()
    assert page.evaluate("location.hash") == "#/byhand"


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
