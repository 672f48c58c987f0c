"""Question pairs as an objective: loss on the answer alone, every question once an epoch, judged beside guessers."""

from __future__ import annotations

import pytest
import torch

from glassformer.foundation.errors import DataError
from glassformer.knowledge.answers import AHEAD
from glassformer.model.losses import IGNORED, summed_cross_entropy


def test_rows_are_question_answer_end_with_loss_on_the_answer(prepared):
    made = prepared("answers")
    batch, tokenizer = made.batches().batch(0), made.data.tokenizer
    pairs = dict(zip(made.data.part("questions").split("train").questions, made.data.part("questions").split("train").answers))
    for ids, targets in zip(batch["ids"].tolist(), batch["targets"].tolist()):
        question, _, rest = tokenizer.decode(ids).partition("<answer>")
        assert rest.startswith(pairs[question])
        assert tokenizer.decode([target for target in targets if target != IGNORED]) == f"{pairs[question]}<end>"
    assert "(learned: " in made.objective.show(batch, tokenizer)[0]


def test_a_batch_depends_on_seed_and_step_alone_and_each_question_comes_once_an_epoch(prepared):
    made = prepared("answers")
    one, other = made.batches(rows=9), made.batches(rows=9)
    one.batch(AHEAD + 3)
    for step in (0, 8, AHEAD + 1):
        assert torch.equal(one.batch(step)["ids"], other.batch(step)["ids"])
        assert torch.equal(one.batch(step)["targets"], one.on(torch.device("cpu")).batch(step)["targets"])
    asked = [row for step in range(9) for row in map(tuple, one.batch(step)["ids"].tolist())]
    assert len(set(asked)) == 81
    assert one.steps_per_epoch == 9
    assert not torch.equal(one.batch(0)["ids"], made.batches(rows=9, seed=1).batch(0)["ids"])


def test_the_loss_is_that_of_the_scores(prepared):
    made = prepared("answers")
    batch = made.batches().batch(0)
    expected = summed_cross_entropy(made.network(batch["ids"]), batch["targets"])
    torch.testing.assert_close(made.objective.loss(made.network, batch, dropout_seed=None, smoothing=0.0), expected)
    assert made.objective.count(batch) == (batch["targets"] != IGNORED).sum()


def test_a_question_longer_than_the_context_is_a_sentence(prepared):
    with pytest.raises(DataError, match=r"train\.tsv, line \d+: the question with its answer takes \d+ tokens"):
        prepared("answers").batches(context=30)


def test_evaluation_baselines_predictions_and_sample(prepared):
    made = prepared("answers")
    items = made.data.split("validation")
    found = made.objective.evaluate(made.network, items, made.tools)
    assert found.figures["exact_match"].n == 15
    assert "nowhere_confident" in found.figures
    assert made.objective.validation_metrics(made.network, items, made.tools) == {
        "exact_match": found.units["exact_match"].value
    }
    baselines = made.objective.fit_baselines(made.data)
    assert list(baselines) == list(made.objective.baselines)
    assert baselines["open book"].evaluate(items, made.tools).figures["exact_match"].value == 1.0
    rows = made.objective.predict(made.network, items, made.tools)
    assert [row["question"] for row in rows] == list(items.questions)
    text, caption = made.objective.sample(made.network, made.data, made.tools)
    assert text.count("\n") == 7
    assert "validation" in caption


def test_the_open_book_reads_what_the_tokenizer_loses(prepared, tmp_path):
    """Names are found, and places spelled, by their capitals."""
    people = [f"{first} {last}" for first in ("Ann", "Bob", "Eve", "Kim") for last in ("Day", "Lee", "Roe")]
    towns = ["Oslo", "New York", "Rome"] * 4
    lines = [f"{name} was born in {town}.\n" for name, town in zip(people, towns)]
    (tmp_path / "text.txt").write_text("Where? " + "".join(lines), encoding="utf-8")
    asked = "".join(f"Where was {name} born?\t{town}\n" for name, town in zip(people, towns))
    (tmp_path / "questions.tsv").write_text(asked, encoding="utf-8")
    data = {"path": str(tmp_path / "text.txt"), "questions": str(tmp_path / "questions.tsv"), "split": {"validation": 0.3}}
    made = prepared("answers", data=data, tokenizer={"kind": "word", "lowercase": True, "min_count": 1})
    assert "Ann" not in made.data.tokenizer.decode(made.data.part("text").split("train").tokens.tolist())
    found = made.objective.fit_baselines(made.data)["open book"].evaluate(made.data.split("validation"), made.tools)
    assert found.figures["exact_match"].value == 1.0


def test_the_open_book_reads_the_text_that_the_network_reads(prepared):
    made = prepared("answers")
    text = made.data.part("text")
    assert made.objective.fit_baselines(made.data)["open book"].guesser.text == made.data.tokenizer.decode(
        text.split("train").tokens.tolist()
    )
