"""The page of a run: everything on it, nothing fetched, nothing that is not the run's own."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

import glassformer as gf
from glassformer.pages.page import FigureBlock
from glassformer.run_report import curves_figure, run_page, write_report


@pytest.fixture(scope="module")
def page(trained, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("report") / "run"
    shutil.copytree(trained, folder)
    file = write_report(gf.load(folder))
    assert file == folder / "report.html"
    return file.read_text(encoding="utf-8")


def test_it_says_what_matters(page) -> None:
    for words in ("What it reached", "How it got there", "What it cost", "What it writes", "How to run it again"):
        assert words in page
    for words in ("unigram", "perplexity", "mixer (dot)", "glassformer train", "sha256 of the data", "never"):
        assert words in page


def test_perplexity_is_a_curve_too(page) -> None:
    assert "Perplexity by token, e to the loss, on a logarithmic axis." in page


def test_curves_are_of_the_loss_and_of_what_the_run_is_judged_by(tmp_path, unchecked) -> None:
    """A classifier records balanced accuracy and more, which nobody asked to see as a curve."""
    (tmp_path / "animals.txt").write_text("".join(f"dog it did bark at {n}\ncat it did purr at {n}\n" for n in range(20)))
    recipe = {
        "data": {"path": str(tmp_path / "animals.txt"), "format": "label-text", "split": {"validation": 0.3}},
        "tokenizer": {"kind": "word", "min_count": 1},
        "objective": "labels",
        "model": {"width": 8, "layers": 1, "heads": 1, "context": 8, "causal": False, "head": "classifier"},
        "training": {"steps": 4, "batch_size": 8},
        "evaluation": {"every": 2},
    }
    run = gf.train(recipe, out=tmp_path / "run")
    assert "validation_balanced_accuracy" in run.records()[-1]
    shown = [axes.get_ylabel() for axes in curves_figure([run.folder]).axes]
    assert [label.split(" (")[0] for label in shown] == ["loss", "accuracy"]
    pictures = [block.alt for block in run_page(run).sections if isinstance(block, FigureBlock)]
    assert sum(alt.startswith("Training and validation") for alt in pictures) == 2


def test_the_figure_of_a_language_model_has_its_perplexity(trained) -> None:
    loss, perplexity = curves_figure([trained]).axes
    assert (loss.get_ylabel(), perplexity.get_ylabel()) == ("loss (nats per token)", "perplexity by token")
    assert (loss.get_yscale(), perplexity.get_yscale()) == ("linear", "log")
    for before, after in zip(loss.get_lines(), perplexity.get_lines(), strict=True):
        np.testing.assert_allclose(after.get_ydata(), np.exp(before.get_ydata()))


def test_it_needs_nothing_from_anywhere(page) -> None:
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", page)
    assert "<script src" not in page
    assert "@import" not in page


def test_a_run_without_validation(tiny, tmp_path, unchecked) -> None:
    run = gf.train(tiny, set={"data.split.validation": 0.0}, out=tmp_path / "run")
    text = write_report(run, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "There is no validation text, so nothing was measured." in text


def test_the_page_is_plain_data(trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    page = run_page(gf.load(tmp_path / "run"))
    assert page.title == "Run run"
    assert page.subtitle == "finished at step 12"
    assert page.tainted is None


def test_openings_of_the_test_split_are_shown(trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    run = gf.load(tmp_path / "run")
    run.evaluate("test")
    assert "1 times" in write_report(run).read_text(encoding="utf-8")


def test_where_the_seconds_went_is_on_the_page(page, trained) -> None:
    (timing,) = gf.load(trained).directory.timings()
    assert {"data", "checks", "first step", "steps", "evaluations", "saving"} <= set(timing["seconds"])
    assert "Time by phase" in page
