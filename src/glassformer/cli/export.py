"""``glassformer export``: a run -> a folder that Hugging Face's transformers opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from glassformer.cli.console import print_result, remarks
from glassformer.cli.options import CheckpointOption, Json, Plugin, RunArgument
from glassformer.foundation.errors import UsageError


def command(
    run: RunArgument,
    folder: Annotated[Path, Argument(metavar="DIR", help="A new folder for the export.")],
    merge: Annotated[bool, Option("--merge", help="Merge the adapter of a fine-tuned encoder into its weights.")] = False,
    onnx: Annotated[bool, Option("--onnx", help="Write a classifier for onnxruntime instead; any pooling.")] = False,
    bare: Annotated[bool, Option("--bare", help="Write a head that transformers lacks (model.pool: mean) apart.")] = False,
    checkpoint: CheckpointOption = "last",
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Export a run as a Hugging Face folder. As GPT-2, Llama or BERT, or a fine-tuned encoder as a peft adapter."""
    from glassformer.run import load

    watch = remarks()
    if onnx and (merge or bare):
        raise UsageError("--onnx writes one graph; drop --merge and --bare.", reason="onnx-with-merge")
    loaded = load(run, plugins=plugin or (), watch=watch)
    if onnx:
        exported = loaded.save_onnx(folder, checkpoint=checkpoint)
    else:
        exported = loaded.save_pretrained(folder, checkpoint=checkpoint, merge=merge, bare=bare)
    for note in exported.notes:
        watch.say(note)
    document = {"folder": str(exported.folder), "class": exported.class_name, "notes": list(exported.notes)}
    print_result(document, f"{exported.folder} ({exported.class_name})", json=json)
    if exported.class_name.isidentifier() and not onnx:  # an adapter of peft has no class of its own
        watch.say(f"In Python: transformers.{exported.class_name}.from_pretrained({str(exported.folder)!r})")
