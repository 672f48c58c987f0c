"""Pictures of answers: one for each thing measured, none for what was not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glassformer.figures.encode import inline_svg
from glassformer.knowledge.answer_metrics import GivenAnswers, answer_outcomes
from glassformer.knowledge.answer_pictures import answer_pictures
from glassformer.knowledge.questions import Questions


def questions(many: int, prefix: str) -> Questions:
    asked = tuple(f"Where was {prefix}{n} born?" for n in range(many))
    return Questions("validation", asked, tuple(f"Q{n}" for n in range(many)), tuple(range(1, many + 1)))


def test_what_was_measured_is_drawn():
    rng = np.random.default_rng(0)
    items = replace(questions(80, "P"), nowhere=questions(60, "N"))
    said = GivenAnswers([f"Q{n}" if n % 4 else "?" for n in range(80)], rng.random(80), {"read": rng.normal(size=80)})
    nobody = GivenAnswers(["Q0"] * 60, rng.random(60), {"read": rng.normal(size=60)})
    pictures = answer_pictures(answer_outcomes(items, said, nobody).details)
    assert len(pictures) == 4
    assert all(inline_svg(figure).startswith("<svg") for figure, _ in pictures)
    assert "temperature" in pictures[0][1]
    assert len(answer_pictures(answer_outcomes(items, said).details)) == 2
    assert answer_pictures({}) == []
