"""Readouts on demand: figures with words for those who cannot see them; what cannot be drawn is a sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.foundation.errors import UsageError
from glassformer.lens.look import Look
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model
from glassformer.web.routes.look import MOST_HEADS, READOUTS


@pytest.fixture(scope="module")
def run() -> Any:
    """As much of a run as readouts ask for."""
    network = build_model(ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": 16}), 256, seed=1).eval()
    return SimpleNamespace(look=lambda text, model=None: Look(network, ByteTokenizer(), list(text.encode())))


def test_effects_over_several_texts(run) -> None:
    one, table = READOUTS["effects"](run, run.look("the cat"), "a mat\n\nan old hen")
    assert "this text and 2 more" in one.caption
    labels = {label.get_text() for label in one.figure.axes[0].get_yticklabels()}
    assert labels == {f"{layer}.{head}" for layer in range(2) for head in range(3)}
    assert "[" in one.alt  # an interval
    assert len(labels) < MOST_HEADS
    sizes = [abs(row[1].value) for row in table.rows]
    assert sizes == sorted(sizes, reverse=True)  # the largest effect first


def test_rollout_is_a_map_of_the_text(run) -> None:
    (one,) = READOUTS["rollout"](run, run.look("the cat"), "")
    assert [label.get_text() for label in one.figure.axes[0].get_yticklabels()] == ["t", "h", "e", "␣", "c", "a", "t"]


def test_patching(run) -> None:
    look = run.look("the cat")
    likeliest = int(look.scores[-1].argmax())
    other = next(
        text for text in (f"the ca{chr(at)}" for at in range(97, 123)) if run.look(text).scores[-1].argmax() != likeliest
    )
    one, table = READOUTS["patching"](run, look, other)
    back = [abs(float(row[2])) for row in table.rows]
    assert back == sorted(back, reverse=True)
    assert "comes next" in one.caption
    assert [label.get_text() for label in one.figure.axes[0].get_yticklabels()] == ["embedded", "layer 0", "layer 1"]
    for wrong, sentence in (("", "type one"), ("a", "equally many"), ("the cat", "nothing to restore")):
        with pytest.raises(UsageError, match=sentence):
            READOUTS["patching"](run, look, wrong)
