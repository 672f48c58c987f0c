"""``glassformer ask``: answers to questions, with their confidence, or "I don't know"."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import out, print_json, remarks, say
from glassformer.cli.options import CheckpointOption, Json, Plugin, RunArgument
from glassformer.foundation.errors import UsageError


def command(
    run: RunArgument,
    question: Annotated[
        str | None,
        Argument(metavar="[QUESTION]", help='For example "Where was Ann Lee born?"; for a classifier, the text to label.'),
    ] = None,
    questions: Annotated[
        Path | None,
        Option(metavar="FILE.tsv", help="Read questions from this file, one per line: QUESTION, or QUESTION<tab>ANSWER."),
    ] = None,
    pair: Annotated[str | None, Option(metavar="TEXT", help="The second text, for a classifier of text pairs.")] = None,
    beams: Annotated[int, Option(min=1, help="Width of the beam search; above 1 also prints the alternatives.")] = 1,
    abstain_below: Annotated[float | None, Option(metavar="P", help='Answer "I don\'t know" below this confidence.')] = None,
    abstain: Annotated[
        bool,
        Option("--abstain", help='Answer "I don\'t know" where the rule that `evaluate` fitted says: not in training data.'),
    ] = False,
    predictions: Annotated[Path | None, Option(metavar="FILE", help="Write the answers to this file, one per line.")] = None,
    checkpoint: CheckpointOption = "last",
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Answer a question, or label a text, with a confidence.

    The confidence is the probability of the whole answer, or of the label. Needs a run whose objective is answers or labels.
    """
    from glassformer.data.labels.labelled_texts import KINDS
    from glassformer.run import load

    if (question is None) == (questions is None):
        raise UsageError("Give a QUESTION, or a file with --questions, but not both.")
    if pair is not None and questions is not None:
        raise UsageError(f"--pair is the second text of one QUESTION, but {questions} has its own second texts; drop --pair.")
    loaded = load(run, plugins=plugin or (), watch=remarks())
    second = None if pair is None else [pair]
    items = loaded.questions(questions) if questions is not None else loaded.question_texts([question or ""], pairs=second)
    answers = loaded.ask(items, beams=beams, abstain_below=abstain_below, abstain=abstain, checkpoint=checkpoint)
    if predictions is not None:
        from glassformer.foundation.files import write_atomically

        write_atomically(predictions, "".join(f"{one.text}\n" for one in answers))
        say(f"Wrote {len(answers)} answers to {predictions}.")
    if json:
        print_json({"answers": [one.to_dict() for one in answers], **_right(items, answers)})
        return
    for one in answers if predictions is None else []:
        arrow = " ->" if loaded.recipe.objective.ask_reads in KINDS else ""
        out().print(f"{one.question}{arrow} {one}")
        for text, confidence in () if one.abstained else one.alternatives:
            other = f"{text}: {confidence:.0%}" if one.several else f"or: {text} ({confidence:.0%})"
            out().print(f"    {other}")
    if found := _right(items, answers):
        say(f"{found['right']} of {found['answered']} given answers are right; abstained on {found['abstained']}.")


def _right(items: Any, answers: list[Any]) -> dict[str, int]:
    """How many were right, where the file says what is."""
    if items.answers is None:
        return {}
    given = [one.answer == truth for one, truth in zip(answers, items.answers) if not one.abstained]
    return {"right": sum(given), "answered": len(given), "abstained": len(answers) - len(given)}
