"""Pictures of answers hold the numbers they were given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glassformer.figures.save import inline_svg
from glassformer.knowledge.answer_metrics import AnswerSet, answer_outcomes
from glassformer.knowledge.answers import (
    answer_pictures,
    confidence_of_groups,
    coverage_figure,
    reliability_diagram,
    score_bars,
)
from glassformer.knowledge.questions import Questions


def test_reliability_has_a_point_for_each_bin():
    row = {"low": 0.2, "high": 0.3, "n": 7, "confidence": 0.24, "accuracy": {"value": 0.5, "low": 0.3, "high": 0.7, "n": 7}}
    figure = reliability_diagram([row], title="a title")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["7"]
    assert "a title" in inline_svg(figure)


def test_coverage_is_a_line():
    points = [{"coverage": 0.5, "accuracy": 1.0, "threshold": 0.7}, {"coverage": 1.0, "accuracy": 0.75, "threshold": 0.1}]
    (axes,) = coverage_figure(points).axes
    assert list(axes.get_lines()[0].get_ydata()) == [1.0, 0.75]


def test_groups_are_shares():
    figure = confidence_of_groups({"known": [0.91, 0.93, 0.2, 1.0], "nowhere": [0.1]}, threshold=0.4)
    (axes,) = figure.axes
    first, second = (patch.get_data().values for patch in axes.patches)
    assert first.sum() == pytest.approx(1.0)
    assert second.max() == 1.0


def test_scores_have_their_intervals():
    figure = score_bars({"a": {"value": 0.8, "low": 0.7, "high": 0.9}, "b": {"value": 0.5, "low": None, "high": None}})
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert list(axes.get_lines()[0].get_xdata()) == [0.7, 0.9]


def questions(many: int, prefix: str) -> Questions:
    asked = tuple(f"Where was {prefix}{n} born?" for n in range(many))
    return Questions("validation", asked, tuple(f"Q{n}" for n in range(many)), tuple(range(1, many + 1)))


def test_what_was_measured_is_drawn():
    rng = np.random.default_rng(0)
    items = replace(questions(80, "P"), nowhere=questions(60, "N"))
    said = AnswerSet([f"Q{n}" if n % 4 else "?" for n in range(80)], rng.random(80), {"read": rng.normal(size=80)})
    nobody = AnswerSet(["Q0"] * 60, rng.random(60), {"read": rng.normal(size=60)})
    pictures = answer_pictures(answer_outcomes(items, said, nobody).details)
    assert len(pictures) == 4
    assert all(inline_svg(figure).startswith("<svg") for figure, _ in pictures)
    assert "temperature" in pictures[0][1]
    assert len(answer_pictures(answer_outcomes(items, said).details)) == 2
    assert answer_pictures({}) == []
