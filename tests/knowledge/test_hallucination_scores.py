"""Scores from the network alone: nats by hand, other wordings, and names it has read against names it has not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from glassformer.knowledge.answer_metrics import AnswerSet
from glassformer.knowledge.hallucination_scores import continuation_nats, retrieval_scores
from glassformer.knowledge.questions import Questions, subject


def test_nats_are_those_of_the_scores(prepared):
    made = prepared("answers")
    prompts, told = [[3, 4, 5], [6]], [[7, 8], [9, 1, 2]]
    found = continuation_nats(made.network, prompts, told, batch_size=1)
    for row, (before, after) in enumerate(zip(prompts, told)):
        with torch.no_grad():
            scores = torch.log_softmax(made.network(torch.tensor([before + after])), dim=-1)[0]
        by_hand = -sum(float(scores[len(before) + at - 1, token]) for at, token in enumerate(after))
        np.testing.assert_allclose(found[row], by_hand, rtol=1e-5)
    np.testing.assert_allclose(continuation_nats(made.network, prompts, told), found, rtol=1e-5)
    assert continuation_nats(made.network, [[3]], [[]]).tolist() == [0.0]


def test_each_score_for_each_question(prepared):
    made = prepared({"kind": "mixture", "parts": {"spans": {"share": 0.5}, "answers": {"share": 0.5}}, "judged_by": "answers"})
    items = made.data.split("validation")
    answered = AnswerSet(list(items.answers), np.full(len(items), 0.5))
    scores = retrieval_scores(made.network, made.data.tokenizer, items, answered)
    assert set(scores) == {"confidence", "agreement", "familiarity", "reading"}
    assert all(len(one) == len(items) and np.isfinite(one).all() for one in scores.values())
    sure = replace(answered, answers=["a"] * len(items))  # short enough for an untrained network to find it possible
    both, one = (
        retrieval_scores(made.network, made.data.tokenizer, replace(items, wordings=wordings), sure)["agreement"]
        for wordings in (items.wordings, ())
    )
    assert (both > -29).all()
    assert not np.allclose(both, one)


def test_other_wordings_are_those_of_each_question(prepared):
    """What one question is asked in is another wording for the next; with none left, the answer agrees as far as it is sure."""
    made = prepared("answers")
    assert "<mask>" not in made.data.tokenizer.marks
    names = [subject(question) for question in made.data.split("validation").questions[:3]]
    wordings = ("Where was {name} born?", "What is the birth place of {name}?")
    texts = [wordings[0].replace("{name}", names[0]), wordings[1].replace("{name}", names[1]), f"Where is {names[2]} from?"]

    def agreement(texts, wordings, **more):
        asked = Questions("x", tuple(texts), None, tuple(range(len(texts))), wordings=wordings)
        said = AnswerSet(["a"] * len(texts), np.full(len(texts), 0.3))
        return retrieval_scores(made.network, made.data.tokenizer, asked, said, **more).get("agreement")

    together = agreement(texts, wordings)
    alone = [agreement([text], wordings)[0] for text in texts]
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    end, prompt = (made.data.tokenizer.mark_id(mark) for mark in ("<end>", "<answer>"))
    other = [*made.data.tokenizer.encode(wordings[1].replace("{name}", names[0])), prompt]
    np.testing.assert_allclose(
        -alone[0], continuation_nats(made.network, [other], [[*made.data.tokenizer.encode("a"), end]])[0], rtol=1e-4
    )
    assert agreement(texts[:1], wordings[:1]) is None
    np.testing.assert_allclose(agreement(texts[:1], wordings[:1], required=["agreement"]), np.log([0.3]))
    np.testing.assert_allclose(agreement([texts[0], texts[2]], wordings[:1])[0], np.log(0.3))


def test_a_name_that_was_learned_is_familiar(prepared):
    made = prepared("spans")
    tokenizer, known = made.data.tokenizer, "Ab Cd"
    ids = torch.tensor([tokenizer.encode(known)])
    before = continuation_nats(made.network, [ids[0, :1].tolist()], [ids[0, 1:].tolist()])
    optimizer = torch.optim.Adam(made.network.parameters(), 1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        scores = made.network(ids[:, :-1])
        torch.nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
    after = continuation_nats(made.network, [ids[0, :1].tolist()], [ids[0, 1:].tolist()])
    assert after[0] < before[0] / 3
