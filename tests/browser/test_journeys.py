"""What people do in the page, in a real browser: by what they read and press, never by how it is styled."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
from playwright.sync_api import expect

from glassformer.experiment import train
from glassformer.runs.directory import RunDirectory

pytestmark = pytest.mark.browser
TABS = ["runs", "studies", "look", "generate", "ask", "translate", "tokens", "byhand", "new", "words"]

NAMELESS = """() => [...document.querySelectorAll("input, select, textarea, button, img, a[href]")]
    .filter((one) => one.checkVisibility() && !(one.labels && one.labels.length) && !one.getAttribute("aria-label"))
    .filter((one) => !one.textContent.trim() && !one.alt).map((one) => one.outerHTML)"""
"""Controls and pictures that a screen reader would have no name for."""


@pytest.mark.slow
def test_a_text_of_my_own_becomes_a_run_and_words_are_explained(open_page, server, folder, tiny_text, picture) -> None:
    page = open_page()
    page.goto(server.at("new"))
    page.get_by_text("The recipe is accepted").wait_for()
    page.set_input_files("input[type=file]", str(tiny_text))
    page.get_by_text("A character model of tiny.txt").wait_for()
    page.get_by_text("The recipe is accepted").wait_for()
    page.get_by_text("FLOPs in all").wait_for()
    picture(page, "new")
    page.locator("[data-key='training.steps']").fill("4")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("heading", name="tiny", level=1).wait_for()
    assert (folder / "texts" / "tiny.txt").read_bytes() == tiny_text.read_bytes()
    page.get_by_text("finished", exact=True).wait_for()
    page.goto(server.at("words/margin"))
    expect(page.locator("dt[aria-current]")).to_have_text("margin")


def test_train_from_the_page_see_the_curve_grow_stop_and_resume_to_the_end(open_page, server, folder, picture) -> None:
    page = open_page()
    page.goto(server.at("run/letters"))
    page.get_by_role("link", name="New from this").click()
    page.get_by_label("Name of its folder").fill("mine")
    page.locator('[data-key="training.steps"]').fill("100000")
    page.get_by_text("The recipe is accepted").wait_for()
    page.get_by_text("FLOPs in all").wait_for()
    page.get_by_role("button", name="Start").click()
    page.get_by_role("heading", name="mine", level=1).wait_for()
    plot = page.locator("[data-points]")
    plot.wait_for()
    for _ in range(2):  # it goes on for hours: the curve has time to grow, however slow the page is
        before = int(plot.get_attribute("data-points") or 0)
        page.wait_for_function("(before) => document.querySelector('[data-points]').dataset.points > before", arg=before)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped", exact=True).wait_for()
    last = RunDirectory(folder / "mine").read_state()["step"] + 5
    page.get_by_label("Train until step").fill(str(last))
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("finished", exact=True).wait_for()
    page.get_by_text(re.compile(rf"loss: [\d.]+ at step {last:,}")).first.wait_for()
    assert RunDirectory(folder / "mine").read_state()["status"] == "finished"
    assert RunDirectory(folder / "mine").steps()[-1] == last
    page.get_by_role("button", name="Measure").click()
    page.get_by_role("columnheader", name="bigram").wait_for()
    page.evaluate("scrollTo(0, 0)")
    picture(page, "run")
    page.get_by_role("heading", name="What it writes").scroll_into_view_if_needed()
    page.get_by_text(f"at step {last:,}", exact=True).wait_for()
    assert page.locator(".samples pre").inner_text().strip()


@pytest.mark.slow
def test_ctrl_enter_starts_what_was_accepted(open_page, server, folder) -> None:
    page = open_page()
    page.goto(server.at("run/letters"))
    page.get_by_role("link", name="New from this").click()
    page.get_by_label("Name of its folder").fill("by-keyboard")
    steps = page.locator('[data-key="training.steps"]')
    steps.fill("3")
    page.get_by_text("The recipe is accepted").wait_for()
    page.get_by_text("FLOPs in all").wait_for()
    steps.press("Control+Enter")
    page.get_by_role("heading", name="by-keyboard", level=1).wait_for()


def test_a_run_without_a_checkpoint_offers_nothing_that_needs_one(open_page, server, folder) -> None:
    run = RunDirectory(folder / "begun")
    run.write_recipe({"model": {"width": 3}})
    run.write_state("finished", step=0)
    page = open_page()
    page.goto(server.at("run/begun"))
    page.get_by_role("link", name="New from this").wait_for()
    assert page.get_by_role("main").get_by_role("link", name=re.compile("Look|Generate|Walk")).count() == 0


def test_ticks_stand_at_whole_parts_of_an_epoch(open_page, server) -> None:
    page = open_page()
    asked = "async ([low, high, unit]) => (await import('/static/plot.js')).ticks(low, high, unit)"
    assert page.evaluate(asked, [0, 1233, 411]) == pytest.approx([411 * at / 2 for at in range(7)])
    assert page.evaluate(asked, [0, 2, 1]) == [0, 1, 2]
    assert page.evaluate(asked, [20, 300, 1]) == [50, 100, 150, 200, 250, 300]


def test_the_list_of_runs_fits_a_phone(open_page, server) -> None:
    page = open_page(width=390, height=844)
    page.get_by_role("columnheader", name="training loss").wait_for()
    table = page.get_by_role("region", name="Table of runs")
    assert table.evaluate("(box) => box.scrollWidth - box.clientWidth") == 0


COUNTED = """() => {
  window.counted = new Set();
  const main = document.querySelector("main"), shown = () => main.innerText.match(/\\d of \\d finished/g) || [];
  const note = () => shown().forEach((one) => window.counted.add(one));
  new MutationObserver(note).observe(main, { childList: true, characterData: true, subtree: true });
  note();
}"""
"""The page notes every count that it shows: the test may look too seldom."""


@pytest.mark.slow
def test_a_study_live(open_page, server, folder, picture) -> None:
    page = open_page()
    page.goto(server.at("new?study=yes&base=run:letters"))
    page.locator('[data-key="training.steps"]').fill("240")  # some seconds a trial: the page looks once a second
    page.get_by_label("What is varied").fill("model.positions=none")
    page.get_by_label("Seeds", exact=True).fill("2")
    page.get_by_label("Name of its folder").fill("positions")
    page.get_by_text("1 change and the base recipe, 4 runs in all").wait_for()
    page.get_by_role("button", name="Start").click()
    page.get_by_role("heading", name="Study positions").wait_for()
    page.evaluate(COUNTED)
    page.get_by_text("4 of 4 finished").wait_for()  # of those that have begun
    assert page.evaluate("() => window.counted.size") > 2, "the count of finished trials did not move while the study ran"
    page.locator(".verdicts").get_by_text("not decided", exact=True).first.wait_for()
    expect(page.locator(".verdicts li")).to_have_count(1)
    page.get_by_alt_text(re.compile("Differences with intervals")).wait_for()
    picture(page, "study")
    trial = page.get_by_role("link", name=re.compile("seed-0: finished")).first
    if not trial.is_visible():  # folded since the page was opened, or open: that does not change by itself
        page.get_by_text("4 of 4 finished").click()
    trial.click()
    page.get_by_role("link", name="Study positions").wait_for()
    assert page.get_by_role("heading", level=1).inner_text().startswith("positions/trials/")


def probabilities(page, region: str = "Next token") -> dict[str, float]:
    """The table of next tokens as a person reads it: token -> percent now."""
    rows = page.get_by_role("region", name=region).locator("tbody tr").all()
    cells = [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]
    place = 1 if len(cells[0]) == 3 else 2
    return {row[0]: float(row[place].strip("<% ")) for row in cells}


def test_look_ablate_and_slide_through_training(open_page, server, picture) -> None:
    page = open_page()
    page.goto(server.at("look/letters"))
    page.get_by_label("Text", exact=True).fill("the cat sat on a mat")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.get_by_role("group", name="is read by").get_by_role("button")).to_have_count(20)  # that text, not the first one
    page.get_by_role("button", name="layer 1, head 2").click()
    page.get_by_role("heading", name="last: layer 1, head 2").wait_for()
    page.get_by_role("group", name="is read by").get_by_role("button").nth(19).hover()
    page.get_by_text(re.compile("^19 “t” reads ")).wait_for()
    page.get_by_role("button", name="induction").wait_for()  # the scores of heads come after the maps
    picture(page, "look", whole=True)
    before = probabilities(page)
    page.get_by_role("button", name="Take this head out").click()
    page.get_by_role("heading", name="Next token, without 1.2").wait_for()
    after = probabilities(page, "Next token, without 1.2")
    assert set(before) <= set(after)
    assert any(after[token] != before[token] for token in before)
    picture(page, "ablate", whole=True)
    page.get_by_role("button", name="Put this head back").click()
    page.get_by_role("heading", name="Next token", exact=True).wait_for()
    assert probabilities(page) == before
    page.get_by_label("moment of training").fill("0")
    page.get_by_role("heading", name="untrained: layer 1, head 2").wait_for()
    assert probabilities(page) != before
    page.get_by_role("button", name="Play").click()
    page.get_by_role("heading", name="last: layer 1, head 2").wait_for()
    assert probabilities(page) == before
    page.get_by_text("More readouts").click()
    page.get_by_role("button", name="What each head is worth").click()
    page.get_by_alt_text(re.compile("Effects of heads, the largest first")).wait_for()


def test_look_at_two_runs_side_by_side(open_page, server, picture) -> None:
    page = open_page()
    page.goto(server.at("look/letters?text=the cat sat on a mat"))
    page.get_by_label("Side by side with").select_option("pairs")
    page.get_by_role("heading", name="pairs: layer").wait_for()
    page.get_by_role("heading", name="letters: layer").wait_for()
    page.get_by_text("positions do not correspond").wait_for()  # characters here, pairs of them there
    rows = page.get_by_text(re.compile("^\\d+ “.*” reads "))
    page.get_by_role("group", name="is read by").last.get_by_role("button").nth(19).hover()
    expect(rows.nth(1)).to_have_text(re.compile("^19 “t”"))
    expect(rows.nth(0)).not_to_have_text(re.compile("^19 “t”"))  # it stays where it was, on its own last token
    page.get_by_role("heading", name="Next token: pairs").wait_for()
    page.get_by_role("heading", name="Next token: letters").wait_for()
    picture(page, "side-by-side", whole=True)


PLACE = re.compile(r"query 1 at (\S+), (\S+)")


def test_by_hand(open_page, server, picture) -> None:
    page = open_page()
    answered: list[list[float]] = []
    page.on(
        "requestfinished", lambda one: answered.append(one.post_data_json["queries"][0]) if one.url.endswith("/plane") else None
    )

    def until_answered() -> None:
        """The weights of the place where the query is now."""
        place = [float(one) for one in PLACE.match(query.get_attribute("aria-label")).groups()]
        while answered[-1:] != [place]:
            page.wait_for_timeout(10)

    page.goto(server.at("byhand"))
    weights = page.get_by_role("row", name=re.compile("^softmax"))
    weights.wait_for()
    before = weights.inner_text()
    query = page.get_by_role("button", name=re.compile("^query 1"))
    box = query.locator("circle").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 60, steps=5)
    page.mouse.up()
    until_answered()
    expect(weights).not_to_have_text(before, use_inner_text=True)
    dragged = weights.inner_text()
    page.keyboard.press("Tab")
    query.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    until_answered()
    expect(weights).not_to_have_text(dragged, use_inner_text=True)
    page.get_by_role("button", name="Can it?").click()
    page.get_by_text(re.compile("select 1: possible")).first.wait_for()
    picture(page, "byhand")
    page.get_by_role("button", name="One head or two").click()
    page.get_by_role("row", name=re.compile("mean of the heads")).wait_for()


SHOWN_IN_PIECES = """(text) =>
    [...document.querySelectorAll(".piece")].map((piece) => piece.innerText).join("").replace(/[␣·]/g, " ") === text"""


def test_generate_and_tokens(open_page, server, picture) -> None:
    page = open_page()
    page.goto(server.at("generate/letters"))
    page.get_by_label("Prompt").fill("the cat")
    page.get_by_role("button", name="Generate").click()
    page.get_by_text(re.compile(r"tokens, ended by")).wait_for()
    page.get_by_text("At this place the model thought of").wait_for()
    written = page.get_by_role("region", name="Generated text").inner_text()
    assert written.startswith("the cat")
    assert len(written) > len("the cat")
    chances = page.get_by_role("table").inner_text()
    page.get_by_role("region", name="Generated text").press("ArrowRight")
    page.wait_for_function("(before) => document.querySelector('table').innerText !== before", arg=chances)
    picture(page, "generate")
    page.goto(server.at("tokens/pairs"))
    page.get_by_label("Text", exact=True).fill("the cat sat")
    page.get_by_text(re.compile(r"\d+ tokens \(bpe")).wait_for()
    page.wait_for_function(SHOWN_IN_PIECES, arg="the cat sat")  # it is asked for after a pause in the typing
    page.get_by_text("merges").first.wait_for()
    picture(page, "tokens")


def test_ask(open_page, server, people, picture) -> None:
    page = open_page()
    page.goto(server.at("ask/people"))
    page.get_by_label("Questions").fill("\n".join(people))
    page.get_by_role("button", name="Ask").click()
    page.get_by_text(people[0]).last.wait_for()
    page.get_by_role("meter", name="confidence").first.wait_for()
    assert page.get_by_text("I don't know", exact=True).count() == 0
    page.get_by_label("Abstain").fill("1")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("I don't know", exact=True).first.wait_for()
    picture(page, "ask")


def test_a_number_comes_with_its_interval_and_nothing_to_abstain_from(open_page, server, folder, tmp_path) -> None:
    texts = ["one two", "three", "two three", "one"]
    rows = [f"{at % 7}.5\t{texts[at % 4]}" for at in range(80)]
    (tmp_path / "rows.tsv").write_text("\n".join(["label\ttext", *rows]) + "\n", encoding="utf-8")
    recipe = {
        "data": {"path": str(tmp_path / "rows.tsv"), "text_column": "text", "label_column": "label"},
        "tokenizer": {"kind": "word", "min_count": 1},
        "model": {"width": 8, "layers": 1, "heads": 2, "context": 8, "causal": False, "head": "classifier"},
        "objective": "regression",
        "training": {"steps": 5, "batch_size": 8, "device": "cpu"},
    }
    (expected,) = train(recipe, out=folder / "numbers").ask(["one two"])
    page = open_page()
    page.goto(server.at("ask"))  # of all runs here, it alone answers
    page.get_by_label("Texts").fill("one two")
    page.get_by_role("button", name="Predict").click()
    answer = page.get_by_role("article")
    expect(answer).to_contain_text("90 % of such numbers: ")
    low = float(answer.inner_text().split("such numbers: ")[1].split(" to ")[0])
    assert low == pytest.approx(expected.low, rel=1e-2)
    expect(page.get_by_label("Abstain")).to_have_count(0)
    page.goto(server.at("translate"))
    expect(page.get_by_text("No run of this folder translates.")).to_be_visible()


def test_translate_and_see_which_word_reads_which(open_page, server, folder, picture) -> None:
    recipe = {
        "data": {"set": {"kind": "rewriting", "task": "copy", "pairs": 200, "held_out": 20, "length": 4}},
        "tokenizer": {"kind": "word", "marks": False, "min_count": 1},
        "model": {"kind": "encoder-decoder", "width": 16, "layers": 1, "heads": 2, "context": 16},
        "objective": "translate",
        "training": {"steps": 40, "batch_size": 32, "lr": 1e-2, "device": "cpu"},
    }
    texts = ["a b c", "d d"]
    expected = train(recipe, out=folder / "copies").translate(texts, beams=3)
    page = open_page()
    page.goto(server.at("translate/copies"))
    page.get_by_label("Texts").fill("\n".join(texts))
    page.get_by_label("Beams").fill("3")
    page.get_by_role("button", name="Translate").click()
    answers = page.get_by_role("article")
    expect(answers).to_have_count(2)
    for at, one in enumerate(expected):
        expect(answers.nth(at).get_by_role("paragraph").first).to_have_text(texts[at])
        expect(answers.nth(at).get_by_role("strong")).to_have_text(one.text)
        expect(answers.nth(at).get_by_role("listitem")).to_have_text(one.alternatives)
    picture(page, "translate")
    page.get_by_label("Beams").fill("0")  # refused by the form: nothing is asked, the answers stay
    page.get_by_role("button", name="Translate").click()
    expect(answers).to_have_count(2)
    page.get_by_role("link", name="which word reads which").first.click()
    expect(page.get_by_label("Text", exact=True)).to_have_value("a b c")
    expect(page.get_by_text("<end>").first).to_be_visible()


def test_translating_with_a_run_that_does_not_says_so(open_page, server) -> None:
    page = open_page()
    page.goto(server.at("translate/letters"))
    page.get_by_label("Texts").fill("the cat")
    page.get_by_role("button", name="Translate").click()
    page.get_by_role("alert").wait_for()
    expect(page.get_by_role("alert")).to_contain_text("translates nothing")


def test_asking_a_run_that_cannot_answer_says_so(open_page, server) -> None:
    page = open_page()
    page.goto(server.at("ask/letters"))
    page.get_by_label("Questions").fill("the cat")
    page.get_by_role("button", name="Ask").click()
    page.get_by_role("alert").wait_for()
    expect(page.get_by_role("alert")).to_contain_text("answers")


def test_a_bad_recipe_is_refused_while_one_types(open_page, server, folder) -> None:
    page = open_page()
    page.goto(server.at("new?base=run:letters"))
    page.locator('[data-key="model.heads"]').fill("3")
    page.get_by_text(re.compile(r"heads=3")).first.wait_for()
    assert page.get_by_role("button", name="Start").is_disabled()
    page.locator('[data-key="model.heads"]').fill("4")
    page.get_by_text("The recipe is accepted").wait_for()
    assert page.get_by_role("button", name="Start").is_enabled()
    assert not (folder / ".page").exists()  # nothing was started


def test_nothing_starts_while_a_change_is_not_yet_checked(open_page, server) -> None:
    """The answer to the old recipe and the cost of the new one may both come before the answer to the change."""
    page = open_page()
    held = []
    page.route(
        "**/api/recipe/check",
        lambda route: held.append(route) if "model.heads" in route.request.post_data else route.continue_(),
    )
    page.goto(server.at("new?base=run:letters"))
    page.get_by_text("The recipe is accepted").wait_for()
    start = page.get_by_role("button", name="Start")
    assert start.is_enabled()
    with page.expect_request("**/api/recipe/check"):
        page.locator('[data-key="model.heads"]').fill("3")
        assert start.is_disabled()
    page.get_by_role("button", name="What would it cost?").click()
    page.get_by_text(re.compile(r"heads=3")).first.wait_for()  # the cost's refusal
    assert held
    assert start.is_disabled()
    held[0].continue_()
    page.locator(".verdict-line").get_by_text(re.compile(r"heads=3")).wait_for()
    assert start.is_disabled()


FORM = """async ([model, changes]) => {
  const { recipeForm } = await import("/static/form.js");
  const found = await (await fetch("/api/recipe/schema?base=docstrings-char")).json();
  const form = recipeForm(found.schema, { ...found.recipe, model: model || found.recipe.model }, () => {});
  for (const [key, value] of changes) {
    const control = form.element.querySelector(`[data-key="${key}"]`);
    control.value = value;
    control.dispatchEvent(new Event(control.tagName === "SELECT" ? "change" : "input"));
  }
  return form.changes();
}"""


def test_what_the_form_shows_is_what_it_sends(open_page, server) -> None:
    page = open_page()
    norm, eps, positions = "model.norm", "model.norm.eps", "model.positions"
    for model, changes, expected in (
        (None, [(eps, "0.5")], {eps: 0.5}),
        (None, [(eps, "0.5"), (norm, "rms")], {norm: "rms"}),
        (None, [(eps, "0.5"), (norm, "rms"), (norm, "layer")], {}),  # drawn anew, as the recipe has it
        (None, [(eps, "0.5"), ("model", "pretrained"), ("model", "transformer")], {}),
        (None, [(norm, "rms"), (eps, "0.5"), (positions, "t5")], {norm: {"kind": "rms", "eps": 0.5}, positions: "t5"}),
        # a part of another variant that is left as it is by default, with a setting of its own
        ({"kind": "pretrained"}, [("model", "transformer"), (eps, "0.5")],
         {"model": {"kind": "transformer", "norm": {"kind": "layer", "eps": 0.5}}}),
    ):  # fmt: skip
        assert page.evaluate(FORM, [model, changes]) == expected, changes


def test_damaged_deleted_and_hostile_runs(open_page, server, folder, make_hostile) -> None:
    evil = make_hostile(folder)
    (folder / "pairs" / "recipe.yaml").write_text("schema: 1\nmodel: [")
    page = open_page()
    page.get_by_text("damaged", exact=True).wait_for()
    page.get_by_role("link", name=evil).wait_for()
    assert page.locator("img").count() == 0
    page.get_by_role("link", name="pairs").click()
    page.get_by_text("This run is damaged, the others are not").wait_for()
    page.goto(server.at("run/gone"))
    page.get_by_text("There is no run 'gone' here").wait_for()
    page.get_by_role("link", name="To the runs").click()
    page.get_by_role("link", name="letters").wait_for()


@pytest.fixture
def make_hostile():
    def make(folder) -> str:
        name = "<img src=x onerror=alert(1)>"
        run = RunDirectory(folder / name)
        run.write_recipe({"about": "<script>alert(1)</script>", "model": {"width": 1}})
        run.write_state("finished", step=1)
        return name

    return make


def test_search_sort_and_curves_together(open_page, server, picture) -> None:
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("bpe")
    page.get_by_role("heading", name="1 run").wait_for()
    page.get_by_label("Search runs").fill("")
    page.get_by_role("button", name=re.compile("^run")).click()
    expect(page.locator("td.name")).to_have_text(["pairs", "letters"])
    for name in ("pairs", "letters"):
        page.get_by_label(f"Choose {name}").check()
    picture(page, "runs")
    page.get_by_role("link", name="Curves of 2 together").click()
    page.get_by_text("One run of each is no verdict").wait_for()
    said = page.get_by_text(re.compile("letters, loss of each batch: ")).first
    said.wait_for()
    for name in ("letters", "pairs"):
        expect(said).to_have_text(re.compile(rf"{name}, validation loss: [\d.]+ at step 60"))
    row = page.get_by_role("row", name=re.compile(r"^pairs \d"))
    assert " bpe " in " ".join(row.inner_text().split())  # the setting in which they differ


@pytest.mark.slow
def test_two_pages_at_once(open_page, server, folder) -> None:
    one, two = open_page(), open_page()
    run = RunDirectory(folder / "later")
    run.write_recipe({"model": {"width": 3}})
    run.write_state("finished", step=1)
    for page in (one, two):
        page.get_by_role("link", name="later").wait_for()
        page.get_by_role("heading", name="3 runs").wait_for()
    one.goto(server.at("byhand"))
    two.goto(server.at("run/letters"))
    one.get_by_role("row", name=re.compile("^softmax")).wait_for()
    two.get_by_text(re.compile(r"validation loss: [\d.]+ at step 60")).first.wait_for()
    with run.lock():
        run.write_state("running", step=1)
        two.goto(server.at("run/later"))
        two.get_by_text("running", exact=True).wait_for()
        run.write_state("finished", step=2)
    two.get_by_text("finished", exact=True).wait_for()
    one.goto(server.at("runs"))
    expect(one.get_by_role("row", name=re.compile("later finished 2 "))).to_be_visible()


@pytest.mark.slow
def test_the_server_killed_and_started_again(open_page, server, folder) -> None:
    page = open_page()
    page.get_by_role("link", name="letters").wait_for()
    server.stop(kill=True)
    page.get_by_text("Offline").wait_for()
    run = RunDirectory(folder / "meanwhile")
    run.write_recipe({"model": {"width": 3}})
    run.write_state("finished", step=1)
    server.start()
    page.get_by_role("link", name="meanwhile").wait_for()
    page.get_by_text("Offline").wait_for(state="hidden")
    page.get_by_role("heading", name="3 runs").wait_for()
    page.get_by_role("link", name="meanwhile").click()
    expect(page.get_by_role("heading", name="meanwhile", level=1)).to_be_visible()  # the page that was open is let in again


@pytest.mark.parametrize("width", [390, 1280])
def test_every_part_fits_and_is_labelled(open_page, server, width, picture) -> None:
    page = open_page(width=width, height=844, color_scheme="dark" if width == 390 else "light")
    for tab in [*TABS, "walk/letters", "run/letters"]:
        page.goto(server.at(tab))
        if tab in TABS:
            page.locator(f'nav [href="#/{tab}"][aria-current=page]').wait_for()
            page.get_by_role("heading", level=1).wait_for()
        elif tab == "walk/letters":
            expect(page.locator("[data-step]").last).to_be_visible()  # its steps, not only their layers
        else:
            page.get_by_role("heading", name="letters", level=1).wait_for()
        expect(page.locator("main .state[role=status]")).to_have_count(0)  # all that was being loaded is there
        wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 1, f"{tab} is wider than the screen by {wide}"
        nameless = page.evaluate(NAMELESS)
        assert nameless == [], tab
    if width == 390:
        picture(page, "narrow-dark")
