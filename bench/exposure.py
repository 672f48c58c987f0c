"""Why pretraining helps: right or wrong against how often a person's line was seen, and how often the place was hidden.

    python bench/exposure.py RUN [--split validation] [--json FILE]

Counts both exactly from the run's seed (nothing is trained), asks the run about the people of the split, and prints the share
of right answers by quarter of each count, with the odds ratio of one more time for each (logistic regression).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import glassformer as gf
from glassformer.data.data_kinds import PreparedData
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.auc import fit_logistic
from glassformer.evaluation.interval_estimates import wilson
from glassformer.foundation.files import write_json
from glassformer.knowledge.questions import Questions, subject
from glassformer.objectives.base import ObjectiveConfig
from glassformer.objectives.mixture import MixedBatches
from glassformer.objectives.spans import AHEAD, SpanBatches


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    run = gf.load(given.run)
    questions = run.data.part("questions").split(given.split)
    recipe = run.recipe
    counted = exposure_of(
        recipe.objective,
        run.data,
        questions,
        steps=run.checkpoint("last").step,
        context=recipe.model.context,
        batch_size=recipe.training.batch_size,
        seed=recipe.seed,
    )
    if counted is None:
        raise SystemExit("This run's objective hides no spans, so there is nothing to count.")
    right = np.array([one.answer == truth for one, truth in zip(run.ask(questions), questions.answers)], dtype=np.float64)
    found = {name: by_quarter(getattr(counted, name), right) for name in ("seen", "hidden")}
    scores = np.column_stack([counted.seen, counted.hidden]).astype(np.float64)
    weights = fit_logistic((scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-9), right)
    found["weights"] = dict(zip(("seen", "hidden"), weights[:2].tolist()))
    for name in ("seen", "hidden"):
        for row in found[name]:
            print(f"{name:7} {row['low']:6.0f} to {row['high']:6.0f}: {row['right']['value']:.3f} of {row['right']['n']}")
    print(f"weights of a logistic regression on both, in standard deviations: {found['weights']}")
    if given.json is not None:
        write_json(given.json, found)
    return found


@dataclass(frozen=True)
class Exposure:
    """For each question, int64 [N]: rows with the person's name and the answer, and those of them that hid the answer."""

    seen: np.ndarray
    hidden: np.ndarray


def exposure_of(
    objective: ObjectiveConfig,
    data: PreparedData,
    questions: Questions,
    *,
    steps: int,
    context: int,
    batch_size: int,
    seed: int,
) -> Exposure | None:
    """What ``steps`` steps of training showed of each question's answer; None where the objective hides no spans."""
    made: Any = objective.batches(data, context=context, batch_size=batch_size, seed=seed)
    parts = made.parts if isinstance(made, MixedBatches) else [made]
    spans = next((part for part in parts if isinstance(part, SpanBatches)), None)
    if spans is None or questions.answers is None:
        return None
    line_of, places = _telling_lines(spans, data.tokenizer, questions)
    seen, hidden = np.zeros(len(questions), np.int64), np.zeros(len(questions), np.int64)
    for block in range(-(-steps // AHEAD)):
        many = min(AHEAD, steps - block * AHEAD) * spans.rows
        lines = spans.lines_of(block * AHEAD, AHEAD)[:many]
        drawn = spans.drawn(block)
        asked = line_of[lines]
        about = asked >= 0
        title, skip, length = drawn.title[:many], drawn.skip[:many], drawn.length[:many]
        begin, end, name = (places[lines, column] for column in range(3))
        end, name = end - np.where(begin >= title, skip, 0), name - np.where(name > title, skip, 0)
        begin = begin - np.where(begin >= title, skip, 0)
        shown = about & (begin >= 0) & (end <= length) & (name > 0) & (name <= length)
        covers = (drawn.begin_RK[:many] <= begin[:, None]) & (drawn.end_RK[:many] >= end[:, None])
        np.add.at(seen, asked[shown], 1)
        np.add.at(hidden, asked[shown & covers.any(axis=1)], 1)
    return Exposure(seen, hidden)


def _telling_lines(spans: SpanBatches, tokenizer: Tokenizer, questions: Questions) -> tuple[np.ndarray, np.ndarray]:
    """For each line the question whose person it is about and whose answer it tells (or -1); begin and end of the answer
    and the end of the name, in tokens."""
    lines = spans.lines
    by_name = {subject(question): number for number, question in enumerate(questions.questions)}
    first_words = {name.split()[0] for name in by_name}
    line_of, places = np.full(len(lines), -1), np.zeros((len(lines), 3), np.int64)
    answers = questions.answers or ()
    for line, (start, length) in enumerate(zip(lines.starts_R.tolist(), lines.lengths_R.tolist())):
        ids = np.asarray(lines.tokens_N[start : start + length]).tolist()
        text = tokenizer.decode(ids)
        if not any(word in text for word in text.split() if word.strip(".,()") in first_words):
            continue
        name = next((name for name in by_name if name in text), None)
        if name is None or answers[by_name[name]] not in text:
            continue
        line_of[line] = by_name[name]
        places[line] = *_tokens_of(tokenizer, ids, text, answers[by_name[name]]), _tokens_of(tokenizer, ids, text, name)[1]
    return line_of, places


def _tokens_of(tokenizer: Tokenizer, ids: list[int], text: str, answer: str) -> tuple[int, int]:
    """The tokens that hold the first occurrence of the answer."""
    at = text.index(answer)
    ends = np.cumsum([len(tokenizer.decode([token_id])) for token_id in ids])
    return int(np.searchsorted(ends, at, side="right")), int(np.searchsorted(ends, at + len(answer), side="left")) + 1


def by_quarter(counts: np.ndarray, right: np.ndarray) -> list[dict[str, Any]]:
    """The share of right answers among people with the fewest, ..., the most; people with equal counts stay together."""
    edges = np.unique(np.quantile(counts, [0, 0.25, 0.5, 0.75, 1.0], method="inverted_cdf"))
    group = np.clip(np.searchsorted(edges, counts, side="right") - 1, 0, max(0, len(edges) - 2))
    rows = []
    for number in np.unique(group):
        inside = group == number
        share = wilson(int(right[inside].sum()), int(inside.sum()))
        rows.append({"low": float(counts[inside].min()), "high": float(counts[inside].max()), "right": share.to_dict()})
    return rows


if __name__ == "__main__":
    main()
