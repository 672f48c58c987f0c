"""Measuring one model on any text: the reference implementation's losses, baselines counted once, predictions line by line."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

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
