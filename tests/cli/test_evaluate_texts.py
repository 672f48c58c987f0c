"""Several single texts: the figures over all of them, and the table with one line for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glassformer.cli.evaluate import all_texts, texts_table
from glassformer.data.reading.corpus import Document
from glassformer.data.token_files import TokenSplit, split_of_documents
from glassformer.data.tokenizers.byte import ByteTokenizerConfig
from glassformer.evaluation.language_baselines import trivial_baselines
from glassformer.evaluation.results import EvaluationTools, Evaluator
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model
from glassformer.objectives.next_token import NextTokenConfig

TOKENIZER = ByteTokenizerConfig().train(lambda: iter(()))
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


def test_several_texts_as_one(evaluator) -> None:
    results = [evaluator.measure(name, text_of(name)) for name in ("the cat sat", "hen")]
    together = all_texts(results)
    tokens = [len(TOKENIZER.encode(name + "\n")) - 1 for name in ("the cat sat", "hen")]
    losses = [result.to_dict()["metrics"]["loss"]["value"] for result in results]
    expected = sum(loss * n for loss, n in zip(losses, tokens)) / sum(tokens)
    assert together.to_dict()["metrics"]["loss"]["value"] == pytest.approx(expected)
    assert together.to_dict()["metrics"]["loss"]["n"] == 2


def test_what_one_is_all_are(evaluator) -> None:
    """The name counts the texts; the step and the mark of a broken law stay."""
    tainted = replace(evaluator, tainted="it sees the future")
    together = all_texts([tainted.measure(name, text_of(name)) for name in ("the cat", "hen", "a mat")])
    assert together.to_dict()["tainted"] is True
    assert (together.name, together.step) == ("3 texts", 7)


def test_one_line_for_each_text(evaluator) -> None:
    results = {name: evaluator.measure(name, text_of(name)) for name in ("the cat sat", "hen")}
    title, *lines = texts_table(results).splitlines()
    assert title.split()[:5] == ["text", "tokens", "loss", "perplexity", "UNK"]
    rows = [line for line in lines if line.startswith(("the cat sat", "hen"))]
    assert len(rows) == 2
    for row, (name, result) in zip(rows, results.items()):
        assert row.removeprefix(name).split()[0] == str(len(name))  # the tokens that are predicted: all but the first
        assert str(result.metrics["loss"]) in row
        assert str(result.baselines["bigram"]["perplexity"]) in row
        assert str(result.baselines["untrained"]["perplexity"]) in row


def test_a_baseline_that_was_not_measured_leaves_its_cell_empty(evaluator) -> None:
    result = evaluator.measure("hen", text_of("hen"))
    bare = texts_table({"hen": replace(result, baselines={})})
    assert str(result.metrics["perplexity"]) in bare
    assert str(result.baselines["untrained"]["perplexity"]) not in bare
