"""The evaluation object: its JSON and back, its table by hand, and text that cannot become markup."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.refusals import refused

from glassformer.data.reading.corpus import Document
from glassformer.data.token_files import TokenSplit, split_of_documents
from glassformer.data.tokenizers.byte import ByteTokenizerConfig
from glassformer.evaluation.language_baselines import trivial_baselines
from glassformer.evaluation.language_metrics import (
    LANGUAGE_METRICS,
    DocumentLosses,
    EvaluatedText,
    PositionLosses,
    language_outcomes,
)
from glassformer.evaluation.results import (
    Baseline,
    Evaluation,
    EvaluationTools,
    Evaluator,
    Outcomes,
    Units,
    save_evaluation,
    saved_evaluation,
    text_table,
)
from glassformer.foundation.errors import RunError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json, write_json
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.run import load


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


def test_positions_of_one_window_have_no_error(found: Evaluation) -> None:
    assert found.to_dict()["loss_by_position"]["standard_error"] == [pytest.approx(2.0), pytest.approx(2.0), None, None]
    assert found.details["loss_by_position"]["n"] == [2, 2, 1, 1]


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
    assert "14.3% of the predicted tokens are UNK, which stands for what training never saw" in text


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


def units(sums: list[float], weights: list[float]) -> Units:
    return Units(np.array(sums), np.array(weights))


def test_by_hand() -> None:
    """Three documents of 4, 0 and 2 tokens with 6, 0 and 5 nats: 11 nats of 6 tokens."""
    found = units([6.0, 0.0, 5.0], [4.0, 0.0, 2.0])
    assert found.values.tolist() == [1.5, 0.0, 2.5]
    assert found.value == pytest.approx(11 / 6)
    assert found.value != pytest.approx(found.values.mean())  # long units count for more


def test_where_nothing_weighs_anything_there_is_no_value() -> None:
    assert math.isnan(units([0.0, 2.0], [0.0, 0.0]).value)


def test_the_value_does_not_depend_on_order_or_on_the_cut_of_equal_units() -> None:
    one, other = units([6.0, 5.0, 3.0], [4.0, 2.0, 7.0]), units([3.0, 5.0, 6.0], [7.0, 2.0, 4.0])
    assert one.value == pytest.approx(other.value)
    assert one.value == pytest.approx(units([11.0, 3.0], [6.0, 7.0]).value)


def test_a_copy_through_json_is_the_same() -> None:
    found = units([6.0, 5.25], [4.0, 2.0])
    again = Units.from_dict(json.loads(json.dumps(found.to_dict())))
    assert (again.sums.tolist(), again.weights.tolist()) == ([6.0, 5.25], [4.0, 2.0])


@pytest.mark.parametrize("document", [{"sums": [1, 2, 3], "weights": [1, 2]}, {"sums": [[1, 2]], "weights": [[3, 4]]}])
def test_sums_that_are_not_one_to_a_weight_are_a_sentence(document) -> None:
    with refused(RunError, "units-shape"):
        Units.from_dict(document)


def test_the_figures_of_weighted_means() -> None:
    """Two documents of equal weight: the mean of 1 and 3 with Student's interval of one degree of freedom, 2 +- 12.706."""
    made = Outcomes.of_units({"loss": units([1.0, 3.0], [1.0, 1.0]), "right": units([5.0], [8.0])}, unit="question")
    assert list(made.figures) == ["loss", "right"]
    loss = made.figures["loss"]
    assert (loss.value, loss.n) == (2.0, 2)
    assert (loss.low, loss.high) == (pytest.approx(2 - 12.7062, abs=1e-3), pytest.approx(2 + 12.7062, abs=1e-3))
    assert made.figures["right"] == Estimate(0.625, n=1)  # one unit: a value, no interval
    assert (made.unit, made.scope) == ("question", "2 questions")
    assert (made.ids, dict(made.details), made.notes) == (None, {}, ())


def test_stretches_of_one_text_are_neighbours_not_a_sample() -> None:
    """Windows that wander slowly: their interval is wider than that of as many questions, and is that of blocks."""
    slow = np.sin(np.arange(60) / 9.0)
    made = {
        unit: Outcomes.of_units({"loss": Units(slow, np.ones(60))}, unit=unit).figures["loss"]
        for unit in ("question", "window", "block")
    }
    assert made["window"] == made["block"]
    widths = {unit: one.high - one.low for unit, one in made.items() if one.high is not None and one.low is not None}
    assert widths["window"] > 2 * widths["question"]


def test_a_scope_replaces_the_count_of_units() -> None:
    assert Outcomes.of_units({"loss": units([1.0], [2.0])}, unit="text", scope="a page").scope == "a page"


def test_thousands_are_counted_readably() -> None:
    assert Outcomes.of_units({"right": units([1.0] * 1234, [1.0] * 1234)}, unit="text").scope == "1,234 texts"


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


def test_what_was_kept_comes_back(trained: Path, tmp_path: Path) -> None:
    run = load(shutil.copytree(trained, tmp_path / "run"))
    result = run.evaluate()
    assert result.step is not None
    kept = save_evaluation(run.directory, "validation", result)
    again = saved_evaluation(run.directory, "validation", result.step)
    assert again is not None
    assert again.loss == kept.loss == result.loss
    assert saved_evaluation(run.directory, "validation", result.step + 1) is None


def test_a_file_of_another_schema_is_refused(trained: Path, tmp_path: Path) -> None:
    run = load(shutil.copytree(trained, tmp_path / "run"))
    result = run.evaluate()
    assert result.step is not None
    save_evaluation(run.directory, "validation", result)
    file = run.directory.evaluation_file("validation", result.step)
    write_json(file, {**read_json(file), "schema": 0})
    with refused(RunError, "evaluation-schema", str(file), "schema 0"):
        saved_evaluation(run.directory, "validation", result.step)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_of_a_run_that_may_only_be_read_it_is_given_as_it_is(trained: Path, tmp_path: Path) -> None:
    run = load(shutil.copytree(trained, tmp_path / "run"))
    result = run.evaluate()
    run.folder.chmod(0o555)
    assert save_evaluation(run.directory, "validation", result) is result


CONFIG = ModelConfig.parse({"width": 12, "heads": 3, "layers": 1, "context": 8})


def text_of(*documents: str) -> TokenSplit:
    given = (Document(document + "\n", "here", number + 1) for number, document in enumerate(documents))
    return split_of_documents("here", TOKENIZER, given)


@pytest.fixture
def evaluator() -> Evaluator:
    model, untrained = (build_model(CONFIG, TOKENIZER.size, seed=seed).eval() for seed in (1, 2))
    training = text_of("the cat sat", "on a mat").tokens
    tools = EvaluationTools(tokenizer=TOKENIZER, context=8)
    return Evaluator(NextTokenConfig(), model, untrained, trivial_baselines(training, TOKENIZER.size), tools, step=7)


def test_an_untrained_model_knows_nothing(evaluator) -> None:
    result = evaluator.measure("here", text_of("the cat", "an old red hen", "sat"), notes=["a note"]).to_dict()
    assert result["metrics"]["loss"]["value"] == pytest.approx(math.log(TOKENIZER.size), rel=0.05)
    assert result["metrics"]["loss"]["n"] == 3
    assert result["baselines"]["uniform"]["loss"]["value"] == pytest.approx(math.log(TOKENIZER.size))
    assert {"uniform", "unigram", "untrained"} <= set(result["baselines"])
    assert result["baselines"]["unigram"]["loss"]["value"] < result["baselines"]["uniform"]["loss"]["value"]


def test_progress_goes_to_the_end(evaluator) -> None:
    seen: list[tuple[float, float]] = []

    class Listener:
        def say(self, sentence: str) -> None: ...

        def progress(self, what: str, done: float, total: float, facts: object = None) -> None:
            seen.append((done, total))

    evaluator.measure("here", text_of("the cat", "an old red hen"), watch=Listener())
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


def test_taint_stays_with_every_figure(evaluator) -> None:
    tainted = replace(evaluator, tainted="it sees the future")
    assert tainted.measure("here", text_of("the cat", "sat")).to_dict()["tainted"] is True


def test_predictions_by_the_definition(evaluator, tmp_path) -> None:
    """Each line is the loss of one token given those before it in its window."""
    text = text_of("ab\\c")
    evaluator.write_predictions(tmp_path / "p.tsv", text)
    title, *lines = (tmp_path / "p.tsv").read_text().splitlines()
    assert title == "position\tid\ttoken\tnats"
    logits = evaluator.network(torch.from_numpy(text.tokens[None, :-1].astype(np.int64)))
    expected = torch.nn.functional.cross_entropy(
        logits[0], torch.from_numpy(text.tokens[1:].astype(np.int64)), reduction="none"
    )
    rows = [line.split("\t") for line in lines]
    assert [int(row[0]) for row in rows] == list(range(1, len(text.tokens)))
    assert [int(row[1]) for row in rows] == text.tokens[1:].tolist()
    assert [float(row[3]) for row in rows] == pytest.approx(expected.tolist(), abs=1e-4)
    assert [row[2] for row in rows] == ["b", "\\\\", "c", "<0x0A>"]


def test_one_line_and_four_columns_whatever_the_token(evaluator, tmp_path) -> None:
    class Odd(type(TOKENIZER)):  # type: ignore[misc]
        def token_text(self, token_id: int) -> str:
            return ["\t", "\n", "\r", "\r\n", "\\n", "\x85", "\u2028"][token_id % 7]

    odd = replace(evaluator, tools=replace(evaluator.tools, tokenizer=Odd.from_settings(TOKENIZER.settings())))
    odd.write_predictions(tmp_path / "p.tsv", replace(text_of("x" * 19), tokens=np.arange(20)))
    lines = (tmp_path / "p.tsv").read_text().splitlines()
    assert len(lines) == 20
    assert all(len(line.split("\t")) == 4 for line in lines)
    assert [line.split("\t")[2] for line in lines[1:8]] == ["\\n", "\\r", "\\r\\n", "\\\\n", "\\x85", "\\u2028", "\\t"]
