"""The evaluation object: its JSON and back, its table by hand, and text that cannot become markup."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from glassformer.evaluation.language_metrics import (
    LANGUAGE_METRICS,
    DocumentLosses,
    EvaluatedText,
    PositionLosses,
    language_outcomes,
)
from glassformer.evaluation.results import Evaluation, text_table
from glassformer.foundation.estimate import Estimate


@pytest.fixture
def found() -> Evaluation:
    text = EvaluatedText(
        np.array([1, 1, 2, 0, 1, 2, 2, 1]), np.array([0, 3, 6]), np.array([np.nan, 1.0, 2.0]), np.array([1, 2, 1]), 0
    )
    positions = PositionLosses(4)
    positions.add(np.arange(6.0))
    return Evaluation.of(
        "validation",
        language_outcomes(DocumentLosses.collect(np.arange(1.0, 8.0), text), positions),
        {"uniform": language_outcomes(DocumentLosses.collect(np.full(7, np.log(3)), text))},
        metrics=tuple(LANGUAGE_METRICS.values()),
        trivial=["uniform"],
        step=1200,
        notes=["A note <b>."],
    )


def test_json_and_back(found: Evaluation) -> None:
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert set(document) >= {"metrics", "baselines", "tainted"}
    assert document["tainted"] is False
    assert set(document["metrics"]["loss"]) == {"value", "low", "high", "n"}
    assert document["metrics"]["loss"]["value"] == pytest.approx(4.0)
    assert document["metrics"]["bits_per_byte"]["value"] is None
    assert document["baselines"]["uniform"]["perplexity"]["value"] == pytest.approx(3.0)
    assert document["loss_by_position"]["mean"] == [2.0, 3.0, 2.0, 3.0]
    again = Evaluation.from_dict(document)
    assert again.to_dict() == document
    assert again.metrics == found.metrics
    assert (again.details["tokens"], again.details["documents"], again.step, again.units) == (7, 3, 1200, None)
    kept = Evaluation.from_dict(json.loads(json.dumps(found.to_file_dict(), allow_nan=False)))
    assert kept.units is not None
    np.testing.assert_allclose(kept.units["loss"].sums, [3.0, 12.0, 13.0])
    assert "bits_per_byte" not in kept.units  # a token of unknown length
    assert kept.metric("loss") == LANGUAGE_METRICS["loss"]


def test_a_file_that_kept_losses_by_document_is_read(found: Evaluation) -> None:
    """As versions wrote it that knew no other objective."""
    before = {key: value for key, value in found.to_dict().items() if key not in ("scope", "described", "trivial")}
    assert found.outcomes is not None
    losses = {name: values.tolist() for name, values in found.outcomes.raw.arrays().items()}
    again = Evaluation.from_dict({**before, "losses": losses})
    assert again.units is not None
    np.testing.assert_allclose(again.units["loss"].values, found.units["loss"].values)  # type: ignore[index]
    assert again.trivial == ("uniform", "unigram", "untrained")
    assert again.scope == "7 predicted tokens in 3 documents"


def test_positions_of_one_window_have_no_error(found: Evaluation) -> None:
    assert found.to_dict()["loss_by_position"]["standard_error"] == [pytest.approx(2.0), pytest.approx(2.0), None, None]
    assert found.positions is not None
    assert found.positions.n == (2, 2, 1, 1)


def test_the_table_names_every_figure_beside_the_baselines(found: Evaluation) -> None:
    header, *rows = found.rows()
    assert header == ["metric", "model", "uniform"]
    assert found.rows(full=True)[0] == [*header, "what it is"]
    assert [row[0] for row in rows] == list(LANGUAGE_METRICS)
    assert dict(row[:2] for row in rows)["bits_per_byte"] == "-"
    assert rows[0][1].startswith("4.000 [")
    assert rows[1][2] == "3.000"
    assert found.cells()[0] == [
        "loss",
        found.metrics["loss"],
        Estimate(found.baselines["uniform"]["loss"].value),
        "nats per token",
    ]
    text = str(found)
    assert "bits_per_byte is not defined: 14.3% of the tokens are UNK" in text
    assert "validation at step 1,200: 7 predicted tokens in 3 documents; in brackets 95 % intervals" in text
    assert "not better than the uniform baseline" in text
    assert "14.3% of the predicted tokens are UNK, which is easier to guess" in text


def test_alignment_by_hand() -> None:
    assert (
        text_table([["a", "model", "what"], ["loss", "1.5", "nats"]])
        == "a     model  what\n----  -----  ----\nloss    1.5  nats"
    )


def test_html_is_escaped(found: Evaluation) -> None:
    page = found._repr_html_()
    assert "A note &lt;b&gt;." in page
    assert "<b>" not in page
    assert "http" not in page


def test_a_taint_is_said_everywhere(found: Evaluation) -> None:
    tainted = Evaluation("test", {"loss": Estimate(1.0)}, tainted="sees the future <i>")
    assert tainted.to_dict()["tainted"] is True
    assert Evaluation.from_dict(tainted.to_dict()).tainted == "sees the future <i>"
    assert str(tainted).startswith("TAINTED: sees the future")
    assert "sees the future &lt;i&gt;" in tainted._repr_html_()


def of_one(nats: np.ndarray, text: EvaluatedText) -> Evaluation:
    return Evaluation.of("one", language_outcomes(DocumentLosses.collect(nats, text)), {}, metrics=())


def test_one_document_says_so() -> None:
    text = EvaluatedText(np.zeros(2600, np.int64))
    found = of_one(np.ones(2599), text)
    assert "2,599 predicted tokens in 1 document, in 3 blocks" in found.about()
    short = EvaluatedText(np.zeros(26, np.int64))
    about = of_one(np.ones(25), short).about()
    assert about == "one: 25 predicted tokens in 1 document"


def test_reading_results_loads_no_torch() -> None:
    code = "import sys, glassformer.evaluation.results; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
