"""A network and its answers -> scores for detecting hallucinated answers, from the network's own probabilities.

``confidence``: probability of the answer. ``agreement``: its probability under other wordings of the question (and in a
sentence with a masked span). ``familiarity``: the likelihood of the person's name, low for names not in the training text.
``reading``: the log-likelihood gain of a line with the name and the answer over the same line with other family names.
``answer_metrics.retrieved_or_made_up`` measures how well the scores work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from glassformer.data.batches import Batch
from glassformer.data.tokenizers.base import MASK, Tokenizer
from glassformer.knowledge.answer_metrics import AnswerSet
from glassformer.knowledge.questions import SLOT, Questions, answer_ids, subject
from glassformer.model.losses import IGNORED
from glassformer.objectives.spans import answer_marks
from glassformer.objectives.token_targets import row_nats

STATEMENT = f"{SLOT} was born in"
CHANGED = 4
"""Names with other family names that a person's own is compared with."""
FAINTEST = -30.0
"""Log probabilities are clipped here, so that an impossible token does not dominate a mean."""


def retrieval_scores(
    network: Any,
    tokenizer: Tokenizer,
    questions: Questions,
    answers: AnswerSet,
    families: Sequence[str] = (),
    required: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Each score for each question, higher for answers more likely retrieved; float64 [N].

    ``families``: family names to compare each person's own with; those of the other questions by default. ``agreement`` is
    present if a question has another wording, or if ``required``; without other wordings it equals the confidence.
    """
    assert answers.confidence is not None
    scores = {"confidence": np.log(np.maximum(answers.confidence, np.exp(FAINTEST)))}
    names = [subject(question) for question in questions.questions]
    others = _other_wordings(tokenizer, questions, names)
    if any(others) or "agreement" in required:
        _, end = answer_marks(tokenizer)
        replies = [[*answer_ids(tokenizer, answer or "?"), end] for answer in answers.answers]
        rows = [(prompt, own, at) for at, (prompts, own) in enumerate(zip(others, replies)) for prompt in prompts]
        found = -continuation_nats(network, [prompt for prompt, _, _ in rows], [own for _, own, _ in rows])
        at, counts = np.array([at for _, _, at in rows], np.int64), np.array([len(prompts) for prompts in others])
        sums = np.bincount(at, np.maximum(found, FAINTEST), minlength=len(others))
        scores["agreement"] = np.where(counts > 0, sums / np.maximum(counts, 1), scores["confidence"])
    scores["familiarity"] = -continuation_nats(network, *_read(tokenizer, names))
    scores["reading"] = _reading(network, tokenizer, names, answers.answers, families)
    return scores


def _other_wordings(tokenizer: Tokenizer, questions: Questions, names: Sequence[str]) -> list[list[list[int]]]:
    """For each question its prompts in the other wordings."""
    (answer, _), found = answer_marks(tokenizer), []
    for name, question in zip(names, questions.questions):
        worded = [wording.replace(SLOT, name) for wording in questions.wordings]
        prompts = [[*tokenizer.encode(one), answer] for one in worded if one != question]
        if MASK in tokenizer.marks:
            sentence, stop = tokenizer.encode(STATEMENT.replace(SLOT, name)), tokenizer.encode(".")
            prompts.append([*sentence, tokenizer.mark_id(MASK), *stop, answer])
        found.append(prompts)
    return found


def _reading(
    network: Any, tokenizer: Tokenizer, names: Sequence[str], answers: Sequence[str], families: Sequence[str]
) -> np.ndarray:
    """log p(line) minus the mean over lines with other family names."""

    def lines(about: Sequence[str]) -> list[str]:
        return [f"{STATEMENT.replace(SLOT, name)} {answer}." for name, answer in zip(about, answers)]

    own = -continuation_nats(network, *_read(tokenizer, lines(names)))
    others = _others(names, families)
    changed = np.zeros(len(names))
    for which in range(CHANGED):
        mixed = [" ".join([*name.split()[:-1], some[which]]) for name, some in zip(names, others)]
        changed -= continuation_nats(network, *_read(tokenizer, lines(mixed))) / CHANGED
    return own - changed


def _others(names: Sequence[str], families: Sequence[str]) -> list[list[str]]:
    """For each name ``CHANGED`` other family names: of the next questions, or from ``families``."""
    own = [name.split()[-1] for name in names]
    if not families:
        return [[own[(at + shift) % len(names)] for shift in range(1, CHANGED + 1)] for at in range(len(names))]
    found = []
    for family in own:
        usable = [one for one in families if one != family] or [family]
        found.append([usable[which % len(usable)] for which in range(CHANGED)])
    return found


def _read(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
    """Beginnings of lines as (first token, the others)."""
    ids = [tokenizer.encode(text) for text in texts]
    return [one[:1] for one in ids], [one[1:] for one in ids]


def continuation_nats(
    network: Any, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]], *, batch_size: int = 256
) -> np.ndarray:
    """float64 [N]: the loss in nats of each continuation given its prompt, truncated to the context."""
    found = [np.zeros(0)]
    pairs = [(list(prompt), list(continuation)) for prompt, continuation in zip(prompts, continuations)]
    for begin in range(0, len(pairs), batch_size):
        rows = pairs[begin : begin + batch_size]
        width = min(network.dims.context + 1, max(len(before) + len(after) for before, after in rows))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        targets = torch.full((len(rows), width), IGNORED)
        for row, (before, after) in enumerate(rows):
            text = torch.tensor((before + after)[:width], dtype=torch.long)
            ids[row, : len(text)] = text
            targets[row, len(before) : len(text)] = text[len(before) :]
        found.append(np.zeros(len(rows)) if width < 2 else row_nats(network, Batch(ids=ids[:, :-1], targets=targets[:, 1:])))
    return np.concatenate(found)
