"""Answers that come late, early, twice or out of order: the page shows what was asked for last, and buttons do what they say.

Every answer here is held until the moment it would do harm; nothing depends on how fast the machine is.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
from playwright.sync_api import expect

from .held import STREAMS, Held, go, new_run, stream, until, wait_for_page

pytestmark = pytest.mark.browser

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
    expect(page.get_by_role("link", name="later")).to_be_visible()


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
    expect(page.get_by_role("heading", name="letters", level=1)).to_be_visible()


def test_a_run_that_has_ended_does_not_run_again(open_page, server, folder) -> None:
    page = open_page()
    runs = Held(page, "**/api/run?*", on=False)
    run = new_run(folder, "later")
    go(page, server, "byhand")
    page.evaluate(STREAMS)
    with run.lock():
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
    with run.lock():
        run.write_state("running", step=1)
        go(page, server, "run/later")
        stop = page.get_by_role("button", name="Stop")
        stop.click()
        stops.wait()
        stop.click()
        wait_for_page(page)
        assert len(stops.waiting) == 1
        stops.release()
        page.get_by_text("Asking").wait_for(state="hidden")


CURVES = """async () => {
  const { curvePlot } = await import("/static/plot.js");
  const asked = [], ask = () => new Promise((done, fail) => asked.push({ done, fail }));
  const plot = curvePlot(ask, { label: "curves" }), said = () => plot.element.querySelector("p").textContent;
  const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
  const curve = (...step) => [{ label: "loss", step, value: step.map((at) => 10 * at) }];
  document.body.append(plot.element);
  const seen = [];
  asked[0].done(curve(1, 2, 3)); await drawn(); seen.push(said());
  plot.append("loss", [3, 4], [30, 40]); await drawn(); seen.push(plot.element.querySelector(".plot").dataset.points);
  plot.load(); plot.append("loss", [5], [50]); asked[1].done(curve(1, 2, 3, 4)); await drawn(); seen.push(said());
  plot.load(); plot.load(); asked[3].done(curve(1, 2, 3, 4, 5, 6)); await drawn();
  asked[2].fail(new Error("too late")); await drawn(); seen.push(said());
  plot.load(); plot.close(); asked[4].fail(new Error("nobody asks any more")); await drawn();
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
    expect(page.get_by_role("heading", name="letters", level=1)).to_be_visible()


def test_a_part_that_is_left_listens_no_more(open_page, server) -> None:
    page = open_page()
    page.evaluate(STREAMS)
    Held(page, "**/api/study?*", on=False, answer=lambda request: study_of(True, True))
    for place in ("runs", "run/letters", "study/made-up"):
        go(page, server, place)
        page.wait_for_function("() => window.streams.length && !window.streams.at(-1).closed")
        go(page, server, "studies")
        page.get_by_role("heading", name="Studies", level=1).wait_for()
        assert page.evaluate("() => window.streams.every((one) => one.closed)")


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
    wait_for_page(page)
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
    wait_for_page(page)
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
