"""``glassformer translate``: a source text in, its translation out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from glassformer.cli.console import out, print_json, remarks, say
from glassformer.cli.options import CheckpointOption, Json, Plugin, RunArgument
from glassformer.foundation.errors import UsageError


def command(
    run: RunArgument,
    text: Annotated[str | None, Argument(metavar="[TEXT]", help="The text to translate.")] = None,
    file: Annotated[
        str | None, Option(metavar="F", help="A text per line, or pairs (a table, or SOURCE,TARGET files).")
    ] = None,
    beams: Annotated[int | None, Option(min=1, help="Width of the beam search; by default the recipe's (1 is greedy).")] = None,
    length_penalty: Annotated[
        float | None, Option(help="With beams: divide log probabilities by length to this power.")
    ] = None,
    temperature: Annotated[float, Option(min=0.0, help="Above 0, sample instead of taking the best.")] = 0.0,
    top_k: Annotated[int | None, Option(min=1, help="Sample from the k most likely tokens.")] = None,
    top_p: Annotated[float | None, Option(help="Sample from the fewest tokens whose probabilities sum to p (nucleus).")] = None,
    seed: Annotated[int, Option(help="Random seed for sampling.")] = 0,
    predictions: Annotated[Path | None, Option(metavar="FILE", help="Write the translations to it, one per line.")] = None,
    checkpoint: CheckpointOption = "last",
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Translate a text, or a file line by line. Needs a run whose objective is translate."""
    from glassformer.run import load

    if (text is None) == (file is None):
        raise UsageError("Give a TEXT, or a file with --file, but not both.")
    loaded = load(run, plugins=plugin or (), watch=remarks())
    items = [text] if text is not None else loaded.questions(str(file))
    found = loaded.translate(
        items,
        beams=beams,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        checkpoint=checkpoint,
    )
    if predictions is not None:
        from glassformer.foundation.files import write_atomically

        write_atomically(predictions, "".join(f"{one.text}\n" for one in found))
        say(f"Wrote {len(found)} translations to {predictions}.")
    if json:
        print_json({"translations": [one.to_dict() for one in found]})
        return
    for one in found if predictions is None else []:
        out().print(one.text, highlight=False)
        for other in one.alternatives if text is not None else []:
            out().print(f"    or: {other}", highlight=False)
