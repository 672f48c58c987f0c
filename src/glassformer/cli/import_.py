"""``glassformer import``: a Hugging Face folder -> a run of ours. No code of the folder is run, no pickle is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from glassformer.cli.console import print_result, remarks
from glassformer.cli.options import Json


def command(
    folder: Annotated[str, Argument(metavar="FOLDER_OR_NAME", help="A model's folder, or its name on the hub.")],
    out_: Annotated[Path, Option("--out", metavar="RUN", help="The new run's folder.")],
    context: Annotated[int | None, Option(min=1, help="Use a shorter context (models with rotary positions only).")] = None,
    json: Json = False,
) -> None:
    """Import a Hugging Face model as a run. GPT-2, Llama or BERT, or a classifier, to evaluate, check, predict, fine-tune."""
    from glassformer.networks.classifier_import import import_classifier, is_classifier
    from glassformer.pretrained.importing import import_run

    watch = remarks()
    if is_classifier(folder):
        directory, classifier = import_classifier(folder, out_)
        labels = list(classifier.label_names)
        document = {"run": str(directory.root), "class": classifier.class_name, "labels": labels, "notes": []}
        print_result(document, f"{directory.root} ({classifier.class_name}: {', '.join(labels)})", json=json)
        return
    directory, found = import_run(folder, out_, context=context)
    for note in found.notes:
        watch.say(note)
    name = found.architecture.class_of(found.model)
    print_result(
        {"run": str(directory.root), "class": name, "notes": list(found.notes)}, f"{directory.root} ({name})", json=json
    )
