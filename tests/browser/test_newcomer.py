"""A newcomer's way: from the line that `make demo` ends with to a head of one's own model, in five clicks.

`GLASSFORMER_DEMO=FOLDER` takes a demo that was run before, so that the pictures of the docs show the real one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.foundation.yaml_text import parse_yaml

from .conftest import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow]
FEW = {"training.steps": 30, "model.width": 16, "model.heads": 4, "model.layers": 2, "model.context": 64}


@pytest.fixture
def demo(tmp_path: Path, tiny_text: Path) -> Path:
    made = os.environ.get("GLASSFORMER_DEMO")
    if made:
        return Path(shutil.copytree(made, tmp_path / "demo"))
    from glassformer.study.compare import compare

    changes = {**FEW, "data.path": str(tiny_text), "training.batch_size": 8, "training.lr": 0.01, "evaluation.every": 30}
    compare("demo", set=changes, out=tmp_path / "demo", jobs=1, seeds=2, store=False)
    return tmp_path / "demo"


@pytest.fixture
def server(demo: Path, tmp_path: Path) -> Iterator[Server]:
    started = Server(demo, tmp_path)
    started.start()
    yield started
    started.stop()


def test_five_clicks(open_page: Callable[..., Any], demo: Path, picture: Callable[..., None]) -> None:
    changes = parse_yaml((demo / "plan.yaml").read_text(encoding="utf-8"))["plan"]["changes"]
    page = open_page()  # the address opens the study itself
    page.get_by_role("heading", name="Verdicts").wait_for()
    verdicts = page.locator(".verdicts li")
    assert verdicts.count() == len(changes)
    assert "invalid" in page.locator(".verdicts").inner_text()  # the one that cheats
    picture(page, "journey-1-study")
    page.get_by_text("Trials: ").click()  # 1
    page.get_by_role("link", name="base seed-0: finished").click()  # 2
    page.get_by_role("heading", name="trials/base/seed-0", level=1).wait_for()
    page.locator("[data-points]").wait_for()
    page.get_by_text("at step ").first.wait_for()
    picture(page, "journey-2-run")
    page.get_by_role("link", name="Look").last.click()  # 3
    page.get_by_role("heading", name="last: layer").wait_for()
    page.get_by_role("button", name="induction").wait_for()
    picture(page, "journey-3-look", whole=True)
    page.get_by_role("button", name="layer 1, head 1", exact=True).click()  # 4
    page.get_by_role("heading", name="last: layer 1, head 1").wait_for()
    page.get_by_role("group", name="is read by").get_by_role("button").nth(10).hover()
    picture(page, "journey-4-head", whole=True)
    before = page.get_by_role("region", name="Next token").inner_text()
    page.get_by_role("button", name="Take this head out").click()  # 5
    page.get_by_role("heading", name="Next token, without 1.1").wait_for()
    assert page.get_by_role("region", name="Next token").inner_text() != before
    picture(page, "journey-5-ablated", whole=True)
