"""What an evaluation may use without being given it, and what every baseline has to have."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from glassformer.data.tokenizers.byte import ByteTokenizerConfig
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes, Units

TOKENIZER = ByteTokenizerConfig().train(lambda: iter(()))


class Constant(Baseline):
    """The same loss for every item."""

    trivial = False

    def __init__(self, loss: float) -> None:
        self.loss = loss

    def evaluate(self, items, tools) -> Outcomes:
        for _ in items:
            tools.keep_going()
            tools.progress(1)
        weights = np.ones(len(items))
        return Outcomes.of_units({"loss": Units(self.loss * weights, weights)}, unit="item")

    def arrays(self) -> dict[str, np.ndarray]:
        return {"loss": np.array(self.loss)}

    @classmethod
    def from_arrays(cls, arrays) -> Constant:
        return cls(float(arrays["loss"]))


def test_nobody_has_to_listen() -> None:
    tools = EvaluationTools(TOKENIZER, context=9)
    assert Constant(2.5).evaluate("abc", tools).figures["loss"].value == 2.5
    assert (tools.batch_size, tools.device) == (32, None)


def test_a_stop_that_was_asked_for_ends_the_evaluation_where_it_is() -> None:
    seen: list[int] = []

    def stop() -> None:
        if len(seen) == 2:
            raise InterruptedError

    tools = EvaluationTools(TOKENIZER, context=9, keep_going=stop, progress=seen.append)
    with pytest.raises(InterruptedError):
        Constant(2.5).evaluate("abcde", tools)
    assert seen == [1, 1]


def test_tools_are_not_changed_on_the_way() -> None:
    with pytest.raises(FrozenInstanceError):
        EvaluationTools(TOKENIZER, context=9).context = 7  # type: ignore[misc]


def test_a_baseline_evaluates_and_need_not_keep_anything() -> None:
    with pytest.raises(TypeError, match="evaluate"):
        type("Idle", (Baseline,), {})()
    bare = type("Bare", (Baseline,), {"evaluate": Constant.evaluate, "loss": 1.5})
    assert bare().arrays() == {}
    assert isinstance(bare.from_arrays({}), bare)


def test_a_baseline_is_trivial_unless_it_says_otherwise() -> None:
    assert Baseline.trivial
    again = Constant.from_arrays(Constant(1.75).arrays())
    assert (again.loss, again.trivial) == (1.75, False)
