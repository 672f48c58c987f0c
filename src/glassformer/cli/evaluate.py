"""``glassformer evaluate``: figures with intervals, beside trivial baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glassformer.cli.console import out, print_json, print_table, remarks, watching
from glassformer.cli.options import AllowLeaks, CheckpointOption, Json, Plugin, RunArgument, changes_of
from glassformer.foundation.errors import UsageError

if TYPE_CHECKING:
    from glassformer.evaluation.interval_estimates import TwoCheckpoints
    from glassformer.evaluation.results import Evaluation


def command(
    run: RunArgument,
    split: Annotated[
        str | None,
        Option(
            metavar="train|validation|test|test:NAME", help="Default: validation. The run records each use of the test split."
        ),
    ] = None,
    data: Annotated[Path | None, Option(metavar="FILE", help="Evaluate this file instead of a split.")] = None,
    text: Annotated[list[str] | None, Option(metavar="TEXT", help="Evaluate this text on its own. Repeatable.")] = None,
    checkpoint: CheckpointOption = "last",
    predictions: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write one line per item as TSV: each token's loss, each label, or each answer."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="The same weights with this changed, e.g. model.merge=concat. Repeatable."),
    ] = None,
    length: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Windows of N tokens instead of model.context, with the loss by position."),
    ] = None,
    against: Annotated[
        Path | None,
        Option(metavar="RUN", help="Compare item by item with another run: what only one of them got right (McNemar)."),
    ] = None,
    plugin: Plugin = None,
    allow_leaks: AllowLeaks = False,
    recheck: Annotated[bool, Option("--recheck", help="Check again even if these weights and build passed before.")] = False,
    json: Json = False,
) -> None:
    """Measure a model on held-out data, beside baselines. Every metric has a 95 % interval.

    Language models: loss, perplexities, bits per byte. Labels: accuracy, macro F1. Answers: exact match, calibration.
    """
    from glassformer.run import load

    _refuse_contradictions(split, data, text, against)
    if length is not None and against is not None:
        raise UsageError("--length and --against are both given; give one of them.")
    if set_ and (against is not None or length is not None):
        raise UsageError("--set cannot be combined with --against or --length; drop one.", reason="set-and-another")
    loaded = load(run, plugins=plugin or (), recheck=recheck, watch=remarks())
    changed = loaded.altered(changes_of(set_), checkpoint) if set_ else None
    own_texts: dict[str, Evaluation] = {}
    settings: dict[str, Any] = {"model": changed, "checkpoint": checkpoint, "allow_leaks": allow_leaks}
    with watching() as watch:
        if text:
            results = loaded.evaluate_texts(text, predictions=predictions, length=length, watch=watch, **settings)
        else:
            results = [
                loaded.evaluate(split, data=data, predictions=predictions, length=length, watch=watch, **settings),
            ]
        if data is None and length is None:
            own_texts = loaded.evaluate_own_texts(watch=watch, **settings)
    paired = None
    if against is not None:
        other = load(against, plugins=plugin or (), recheck=recheck, watch=remarks())
        paired = loaded.against(other, split, data=data, checkpoint=checkpoint, allow_leaks=allow_leaks)
    if json:
        print_json(_document(results, results if text else list(own_texts.values()), paired))
    else:
        if text and own_texts:  # one table: the recipe's texts, then those given here
            own_texts |= {result.name: result for result in results}
        _print(results, own_texts, paired)
        for title, header, rows in () if text else loaded.recipe.objective.tables(results[0].details):
            out().print()
            print_table(title, header, [["-" if cell is None else str(cell) for cell in row] for row in rows], numbers=False)
        for result in results if length is not None else []:
            out().print(f"\n{positions_table(result)}")


def positions_table(result: Evaluation) -> str:
    """The loss by position, in groups that double in size: 0, 1, 2-3, 4-7, ..."""
    from glassformer.evaluation.results import text_table

    curve = result.details["loss_by_position"]
    rows, first, end = [["position in the window", "loss", "tokens"]], 0, len(curve["mean"])
    while first < end:
        last = min(end, max(1, 2 * first)) - 1
        counts = curve["n"][first : last + 1]
        mean = sum(loss * n for loss, n in zip(curve["mean"][first : last + 1], counts)) / sum(counts)
        rows.append([str(first) if first == last else f"{first}-{last}", f"{mean:.4f}", f"{sum(counts):,}"])
        first = last + 1
    return text_table(rows)


def _refuse_contradictions(split: str | None, data: Path | None, text: list[str] | None, against: Path | None) -> None:
    if data is not None and text:
        raise UsageError("--data and --text are both given; give one of them.")
    if text and against is not None:
        raise UsageError("--against counts right answers, but --text gives texts without answers; give a file with --data.")
    if split is not None and (data is not None or text):
        raise UsageError(
            f"--split {split} has no effect with {'--data' if data is not None else '--text'}, which has no splits; drop it."
        )
    if split is not None and split not in ("train", "validation", "test") and not split.startswith("test:"):
        raise UsageError(f"--split {split!r} is not a split; give train, validation, test or test:NAME.")


def _document(results: list[Evaluation], texts: list[Evaluation], paired: TwoCheckpoints | None) -> dict[str, Any]:
    """The JSON of an evaluation; of several texts, all of them together and each on its own."""
    document = results[0].to_dict() if len(results) == 1 else all_texts(results).to_dict()
    document |= {} if paired is None else {"against": paired.to_dict()}
    return {**document, "texts": [result.to_dict() for result in texts]} if texts else document


def all_texts(results: list[Evaluation]) -> Evaluation:
    """The metrics over several texts, each counted as one document."""
    from glassformer.evaluation.language_metrics import LANGUAGE_METRICS, DocumentLosses, language_outcomes
    from glassformer.evaluation.results import Evaluation

    losses = DocumentLosses.of_texts([result.outcomes.raw for result in results if result.outcomes is not None])
    first, metrics = results[0], tuple(LANGUAGE_METRICS.values())
    name = f"{len(results)} texts"
    return Evaluation.of(name, language_outcomes(losses), {}, metrics=metrics, step=first.step, tainted=first.tainted)


def _print(results: list[Evaluation], own_texts: dict[str, Evaluation], paired: TwoCheckpoints | None) -> None:
    for result in results:
        out().print(str(result))
    if paired is not None:
        out().print(f"\n{paired}")
    if own_texts:
        out().print(f"\nTexts, each on its own:\n{texts_table(own_texts)}")


def texts_table(results: dict[str, Evaluation]) -> str:
    """One row per text: length, perplexity, unknown tokens, and the bigram baseline."""
    from glassformer.evaluation.results import text_table

    rows = [["text", "tokens", "loss", "perplexity", "UNK", "bigram perplexity", "untrained perplexity"]]
    for name, result in results.items():
        figures = [result.metrics["loss"], result.metrics["perplexity"], result.metrics["unknown_share"]]
        figures += [result.baselines[one]["perplexity"] for one in ("bigram", "untrained") if one in result.baselines]
        rows.append(
            [
                name if len(name) <= 40 else f"{name[:39]}…",
                f"{result.details['tokens']:,}",
                *(str(figure) for figure in figures),
            ]
        )
    return text_table([row + [""] * (len(rows[0]) - len(row)) for row in rows])
