"""``glassformer translate``: a source text in, its translation out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, remarks, say
from glassformer.cli.options import CheckpointOption, Json, Plugin, RunArgument
from glassformer.foundation.errors import UsageError


def command(
    run: RunArgument,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The text to translate.")] = None,
    file: Annotated[
        str | None,
        typer.Option(metavar="F", help="Translate this file: one text per line, or pairs (a table, or SOURCE,TARGET files)."),
    ] = None,
    beams: Annotated[
        int | None, typer.Option(min=1, help="Width of the beam search; by default the recipe's (1 is greedy).")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="With beams: log probabilities are divided by the length to this power.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="Above 0, sample instead of taking the best.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k most likely tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the fewest tokens whose probabilities add up to p (nucleus).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for sampling.")] = 0,
    predictions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the translations to this file, one per line.")
    ] = None,
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
        out().print(one.text, markup=False, highlight=False)
        for other in one.alternatives if text is not None else []:
            out().print(f"    or: {other}", markup=False, highlight=False)
