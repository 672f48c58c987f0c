"""The page of looks in a real browser, by journeys: open, point, choose a head, compare, film; large, narrow, dark, offline."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.lens.look import Look
from glassformer.lens.page import render
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
TEXT = b"the cat sat, the cat"


def look(text: bytes = TEXT, *, seed: int = 1, name: str = "last", layers: int = 2, heads: int = 3, **more: Any) -> Look:
    config = ModelConfig.parse({"width": 4 * heads, "heads": heads, "layers": layers, "context": 512, **more})
    network = build_model(config, 256, seed=seed).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(6.0)
    return Look(network, ByteTokenizer(), list(text), hide=[3], name=name)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def opened(browser, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Page text -> a tab that shows it; afterwards nothing was complained about and nothing asked for."""
    complaints: list[str] = []
    requests: list[str] = []

    def show(page: str, *, width: int = 1280, scheme: str = "light") -> Any:
        file = tmp_path / "page.html"
        file.write_text(page, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(file.as_uri())
        tab.wait_for_selector("[data-ready=yes]", timeout=400_000)
        return tab

    yield show
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_open_point_and_choose_a_head(opened) -> None:
    one = look()
    tab = opened(render([one], title="one"))
    assert tab.locator(".thumb").count() == 6
    tab.get_by_role("button", name="layer 1, head 2", exact=True).click()
    assert tab.locator(".thumb[aria-pressed=true]").get_attribute("title") == "layer 1, head 2"
    tab.get_by_role("group", name="is read by").locator(".token").nth(8).hover()
    key = int(one.attention[1, 2, 8].argmax())
    assert tab.locator(".said").inner_text().startswith(f"8 “s” reads {key} “")
    assert "after 8 “s”" in tab.locator(".lens caption").inner_text()
    reads = tab.get_by_role("group", name="reads").locator(".token")
    assert reads.nth(3).get_attribute("title") == "3: 0.00 %"  # hidden
    box = tab.locator("canvas.large").bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 5, box["y"] + box["height"] - 5)
    assert tab.locator(".said").inner_text().startswith("19 “t” reads")


def test_the_keyboard_alone(opened) -> None:
    tab = opened(render([look()], title="keys"))
    tab.keyboard.press("Tab")
    for _ in range(2):  # from wherever it opens to the first head
        tab.keyboard.press("ArrowUp")
        tab.keyboard.press("ArrowLeft")
        tab.keyboard.press("ArrowLeft")
    assert tab.evaluate("document.activeElement.title") == "layer 0, head 0"
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    assert tab.locator(".thumb[aria-pressed=true]").get_attribute("title") == "layer 1, head 1"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "large"
    for _ in range(4):
        tab.keyboard.press("ArrowUp")
    assert tab.locator(".said").inner_text().startswith("15 “")  # four above the last of 20 tokens


def test_it_opens_on_the_most_telling_head_and_the_last_token(opened) -> None:
    one = look()
    tab = opened(render([one], title="first"))
    rows = one.head_table()
    wanted = min((row["entropy"], row["layer"], row["head"]) for row in rows)[1:]  # none of these random heads stands out
    assert all(row[name] < 0.3 for row in rows for name in ("previous", "duplicate", "induction") if row.get(name) is not None)
    chosen = tab.locator(".thumb[aria-pressed=true]").get_attribute("title")
    assert chosen == f"layer {wanted[0]}, head {wanted[1]}"
    spread = round(np.exp(min(row["entropy"] for row in rows)))
    assert tab.locator(".panel h2").inner_text().endswith("(on 1 token)" if spread == 1 else f"(over {spread} tokens)")
    assert all("token" in name for name in tab.locator(".thumb span").all_inner_texts())  # each head has a word
    assert tab.locator(".said").inner_text().startswith("19 “t” ")
    assert tab.locator(".legend").inner_text().split() == ["weight", "0", "1"]


def test_the_table_sorts_and_chooses(opened) -> None:
    one = look()
    tab = opened(render([one], title="table"))
    tab.get_by_role("button", name="distance").click()
    best = max(one.head_table(), key=lambda row: row["distance"])
    first = tab.locator(".heads tbody tr").first
    assert first.locator("td").nth(0).inner_text() == str(best["layer"])
    assert first.locator("td").nth(1).inner_text() == str(best["head"])
    first.click()
    chosen = tab.locator(".thumb[aria-pressed=true]").get_attribute("title")
    assert chosen == f"layer {best['layer']}, head {best['head']}"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_side_by_side(opened, width: int, scheme: str) -> None:
    tab = opened(render([look(seed=2, name="untrained"), look()], title="two", kind="compare"), width=width, scheme=scheme)
    first, second = (tab.locator("canvas.large").nth(at).bounding_box() for at in range(2))
    assert (first["y"] == second["y"]) == (width == 1280)  # beside each other, or one under the other
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tab.locator(".panel").first.get_by_role("group", name="is read by").locator(".token").nth(5).hover()
    assert [text[:5] for text in tab.locator(".said").all_inner_texts()] == ["5 “a”", "5 “a”"]
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")


def test_side_by_side_with_other_tokens(opened) -> None:
    """Each map is pointed at on its own, and that is said."""
    tab = opened(render([look(b"a cat", seed=2, name="other", layers=1), look()], title="two", kind="compare"))
    assert "positions do not correspond" in tab.locator(".notes").inner_text()
    tab.locator(".panel").last.get_by_role("group", name="is read by").locator(".token").nth(17).hover()
    assert [text[:4] for text in tab.locator(".said").all_inner_texts()] == ["4 “t", "17 “"]  # it opened on the last token
    tab.get_by_role("button", name="layer 1, head 2", exact=True).click()
    titles = [title.split(" (")[0] for title in tab.locator(".panel h2").all_inner_texts()]  # without the head's word
    assert titles == ["other: layer 0, head 2", "last: layer 1, head 2"]


def test_the_film(opened) -> None:
    moments = [look(seed=seed, name=f"step {10**seed}") for seed in range(1, 4)]
    tab = opened(render(moments, title="film", kind="film"))
    assert tab.locator(".film output").inner_text() == "step 1000"
    before = tab.locator("canvas.large").evaluate("canvas => canvas.toDataURL()")
    tab.get_by_role("slider").focus()
    tab.keyboard.press("ArrowLeft")
    assert tab.locator(".film output").inner_text() == "step 100"
    assert tab.locator("canvas.large").evaluate("canvas => canvas.toDataURL()") != before
    tab.get_by_role("button", name="Play").click()
    tab.locator(".film output", has_text="step 1000").wait_for(timeout=400_000)
    assert tab.locator("canvas.large").evaluate("canvas => canvas.toDataURL()") == before


def test_without_a_pattern(opened) -> None:
    tab = opened(render([look(mixer="none", positions="none")], title="none"))
    assert "forms no attention pattern" in tab.locator(".note").first.inner_text()
    tab.get_by_role("group", name="loss").locator(".token").nth(4).hover()
    assert "after 4 “c”" in tab.locator(".lens caption").inner_text()


@pytest.mark.parametrize("tokens", [256, pytest.param(512, marks=pytest.mark.slow)])
def test_144_maps(opened, tokens: int) -> None:
    page = render([look(bytes(97 + (at * at) % 23 for at in range(tokens)), layers=12, heads=12)], title="large")
    started = time.perf_counter()
    tab = opened(page)
    waited = time.perf_counter() - started
    assert tab.locator(".thumb").count() == 144
    drawn = tab.evaluate("performance.now()") / 1000
    print(f"{tokens} tokens: {len(page) / 1e6:.1f} MB, open and drawn after {waited:.2f} s (page clock {drawn:.2f} s)")
    took = tab.evaluate(
        """() => { const start = performance.now();
        document.querySelectorAll('.thumb')[77].click();
        return performance.now() - start }"""
    )
    print(f"another head after {took:.0f} ms")
    assert tab.locator(".thumb[aria-pressed=true]").get_attribute("title") == "layer 6, head 5"
    assert tab.locator(".said").inner_text().startswith(f"{tokens - 1} “")
