"""``glassformer export``: a run -> a folder that Hugging Face's transformers opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, remarks
from glassformer.cli.options import CheckpointOption, Json, Plugin, RunArgument


def command(
    run: RunArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the export.")],
    merge: Annotated[bool, typer.Option("--merge", help="A tuned encoder as one plain folder instead of an adapter.")] = False,
    checkpoint: CheckpointOption = "last",
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Write a run's model as GPT-2, Llama or BERT of transformers, or what tuning added to an encoder as peft's adapter."""
    from glassformer.run import load

    watch = remarks()
    exported = load(run, plugins=plugin or (), watch=watch).save_pretrained(folder, checkpoint=checkpoint, merge=merge)
    for note in exported.notes:
        watch.say(note)
    if json:
        print_json({"folder": str(exported.folder), "class": exported.class_name, "notes": list(exported.notes)})
    else:
        out().print(f"{exported.folder} ({exported.class_name})", markup=False)
