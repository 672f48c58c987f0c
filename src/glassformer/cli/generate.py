"""``glassformer generate``: text from a run's model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal, final

from typer import Argument, Option

from glassformer.cli.console import SETTINGS, print_json, remarks
from glassformer.cli.options import CheckpointOption, Json, Plugin, RunArgument, lines_of
from glassformer.foundation.errors import DataError, UsageError


def command(
    run: RunArgument,
    prompt: Annotated[str | None, Argument(metavar="[PROMPT]", help="The text to continue.")] = None,
    prompts: Annotated[Path | None, Option(metavar="FILE", help="Read prompts from this file, one per line.")] = None,
    max_new_tokens: Annotated[int, Option(min=0, help="Generate at most this many tokens.")] = 200,
    temperature: Annotated[float, Option(min=0.0, help="Divides the logits; 0 is greedy decoding.")] = 0.8,
    top_k: Annotated[int | None, Option(min=1, help="Sample from the k most likely tokens.")] = None,
    top_p: Annotated[float | None, Option(help="Sample from the fewest tokens whose probabilities sum to p (nucleus).")] = None,
    repetition_penalty: Annotated[float, Option(help="Above 1, tokens that already occurred become less likely.")] = 1.0,
    stop: Annotated[list[str] | None, Option(metavar="TEXT", help="Stop when this text is generated. Repeatable.")] = None,
    samples: Annotated[int, Option(min=1, help="Number of texts per prompt.")] = 1,
    seed: Annotated[int, Option(help="Random seed for sampling.")] = 0,
    precision: Annotated[
        Literal["float32", "bf16"],
        Option(help="float32: exactly the reference implementation's text. bf16: several times as fast on a GPU."),
    ] = "float32",
    checkpoint: CheckpointOption = "last",
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Generate text with a causal model. The same seed gives the same text."""
    from glassformer.run import load

    if prompt is not None and prompts is not None:
        raise UsageError("PROMPT and --prompts are both given; give one of them.")
    texts = [prompt or ""] if prompts is None else lines_of(prompts)
    if not texts:
        raise DataError("has no prompts; write one per line.", file=prompts)
    loaded = load(run, plugins=plugin or (), watch=remarks())
    stream = _Stream(texts[0]) if not json and len(texts) == 1 and samples == 1 else None
    results = loaded.generate(
        [text for text in texts for _ in range(samples)],
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        stop=stop or (),
        seed=seed,
        checkpoint=checkpoint,
        precision=precision,
        watch=remarks(),
        on_text=stream,
        exact_pieces=not sys.stdout.isatty(),  # a file gets exactly the text; a person does not wait for it
    )
    if json:
        print_json({"samples": [sample.to_dict() for sample in results]})
    elif stream is not None:
        stream("\n")
    else:
        for number, sample in enumerate(results, start=1):
            heading = "" if SETTINGS.quiet else f"--- {number}\n"
            sys.stdout.write(f"{heading}{sample.prompt}{sample.text}\n")


@final
class _Stream:
    """Writes a text as it comes. The prompt waits for the first piece: what is said while a run is read stands before it."""

    def __init__(self, prompt: str) -> None:
        self._waiting = prompt

    def __call__(self, piece: str) -> None:
        sys.stdout.write(self._waiting + piece)
        sys.stdout.flush()
        self._waiting = ""
