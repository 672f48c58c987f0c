"""``glassformer data list|show|stats|labels``: which sets there are, what is in one, how large and clean it is. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from glassformer.cli.console import out, print_json, print_table, say, watching
from glassformer.cli.options import Json, Plugin, Set, changes_of
from glassformer.foundation.errors import UsageError, did_you_mean
from glassformer.foundation.plugins import load_plugins

app = typer.Typer(no_args_is_help=True, help="Inspect named sets and your own files before training.")

SourceArgument = Annotated[str, Argument(metavar="SET|PATH", help="A named set, a file, a folder, or - (standard input).")]
ShownArgument = Annotated[
    str, Argument(metavar="SET|PATH|RECIPE", help="A named set, a file, a folder, - (standard input), or a recipe.")
]
DocumentOption = Annotated[
    str | None, Option("--document", metavar="line|block|file", help="What counts as one document (recipe key data.document).")
]
ColumnOption = Annotated[
    str | None, Option("--text-column", metavar="NAME|N", help="The column of a jsonl, csv or tsv file with the text.")
]


@app.command("list")
def list_command(json: Json = False) -> None:
    """List the named sets, and whether their files are on this machine."""
    from glassformer.data.describe import list_sets

    sets = list_sets()
    if json:
        print_json({"sets": sets})
        return
    rows = [[row["name"], "yes" if row["here"] else "no", row["about"]] for row in sets]
    print_table("Sets (data.set)", ["name", "here", "what it is"], rows, numbers=False)
    say("You can also use your own text: data.path takes a file, a folder, or - for standard input.")


@app.command("show")
def show_command(
    source: ShownArgument,
    count: Annotated[int, Option(min=1, help="Number of documents to print.")] = 5,
    characters: Annotated[int, Option(min=1, help="Characters to print of each.")] = 500,
    document: DocumentOption = None,
    text_column: ColumnOption = None,
    set_: Set = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Print the first documents as training sees them. For a recipe, the first training batch."""
    load_plugins(plugin or ())
    if _is_recipe(source):
        _show_batch(source, count, changes_of(set_), json)
        return
    from glassformer.data.describe import first_documents

    config, _ = _configured(source, document, text_column, set_)
    found = first_documents(config, count=count, characters=characters)
    if json:
        print_json(found)
        return
    for number, one in enumerate(found["documents"], start=1):
        label = f", label {one['label']}" if "label" in one else ""
        more = f"{label} (cut)" if one["cut"] else label
        out().print(f"--- {number}: {one['source']}, line {one['line']}{more}", style="bold")
        out().print(one["text"], end="" if one["text"].endswith("\n") else "\n")
    for note in found["notes"]:
        say(note)


def _is_recipe(source: str) -> bool:
    from glassformer.data.reading.named_sets import SETS

    if source in SETS:
        return False
    if Path(source).suffix in (".yaml", ".yml"):
        return True
    from glassformer.recipe import built_in_recipes

    return not Path(source).exists() and source in built_in_recipes()


def _show_batch(source: str, count: int, changes: dict[str, Any], json: bool) -> None:
    """The first rows of the first batch, as a person reads them."""
    from glassformer.assembly import batches_of, prepare_data
    from glassformer.recipe import load_recipe

    recipe = load_recipe(source, changes)
    data = prepare_data(recipe)
    batches = batches_of(recipe, data)
    batch = batches.batch(0)
    rows = recipe.objective.show_with(batch, data)
    every = max(1, len(rows) // count)  # parts of a mixture stand one under the other: some of each
    shown = rows[::every][:count]
    shapes = {name: list(shape) for name, shape in batch.shapes}
    if json:
        print_json({"objective": recipe.objective.kind, "rows": shown, "shapes": shapes, "notes": data.notes})
        return
    kinds = {name: str(batch[name].dtype).removeprefix("torch.") for name in shapes}
    out().print(", ".join(f"{name} {kinds[name]} {shape}" for name, shape in shapes.items()))
    for number, row in enumerate(shown, start=1):
        out().print(f"{number}: {row}")
    for note in (*data.notes, *getattr(batches, "notes", ())):
        say(note)


@app.command("stats")
def stats_command(
    source: SourceArgument,
    document: DocumentOption = None,
    text_column: ColumnOption = None,
    tokenizer: Annotated[str, Option(metavar="KIND", help="Tokenizer to count with: char, byte, word or bpe.")] = "char",
    test: Annotated[bool, Option("--test", help="Include the test split.")] = False,
    picture: Annotated[Path | None, Option("--out", metavar="FILE", help="Plot document lengths: .png, .svg or .pdf.")] = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Change one key of data or tokenizer, e.g. tokenizer.vocab=100. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Count documents, tokens, characters and duplicates. Also overlap between splits, and bad lines."""
    from glassformer.data.describe import measure
    from glassformer.data.tokenizers.base import TOKENIZERS

    config, settings = _configured(source, document, text_column, set_)
    kind = TOKENIZERS.parse({"kind": tokenizer, **settings})
    with watching() as watch:

        def progress(what: str, done: int, total: int | None) -> None:
            if total:
                watch.progress(what, done, total)

        facts, lengths = measure(config, kind, test=test, progress=progress)
    if picture is not None:
        from glassformer.figures.histogram import histogram
        from glassformer.figures.save import save_figure

        save_figure(histogram(lengths, title=f"{facts['source']}: lengths of documents"), picture)
        say(f"Plotted the document lengths in {picture}.")
    if json:
        print_json(facts)
        return
    _print_facts(facts)


@app.command("labels")
def labels_command(
    source: SourceArgument,
    text_column: ColumnOption = None,
    label_column: Annotated[str | None, Option(metavar="NAME|N", help="The column of a table with the labels.")] = None,
    set_: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="A key of data, e.g. data.format=csv.")] = None,
    json: Json = False,
) -> None:
    """Find what may be wrong with labelled texts. Contradictions, suspect labels, copies, balance, scripts.

    A label is suspect if a bag of words fitted without that text is sure of another one.
    """
    from glassformer.data.labels.labelled_texts import Labels
    from glassformer.evaluation.label_quality import SHOWN, label_quality

    config, _ = _configured(source, None, text_column, set_)
    if label_column is not None:
        number = int(label_column) if label_column.isdecimal() else label_column
        config = config.model_copy(update={"label_column": number})
    labels = Labels(config.model_copy(update={"split": config.split.model_copy(update={"validation": 0.0, "test": 0.0})}))
    facts = {
        "source": source,
        "columns": labels.columns,
        **label_quality(labels.split("train")),
        "notes": labels.notes,
    }
    if json:
        print_json(facts)
        return
    rows = [[name, f"{count:,}", f"{count / facts['texts']:.1%}"] for name, count in facts["classes"].items()]
    print_table(f"{source}: {facts['texts']:,} texts", ["class", "texts", "share"], rows)
    near = facts["near_duplicates"]["count"]
    shares = ", ".join(f"{name.lower()} {share:.1%}" for name, share in facts["scripts"]["shares"].items())
    columns = "; ".join(f"{name}: {what}" for name, what in facts["columns"].items())
    for note in (
        *([f"Columns: {columns}."] if columns else ()),
        *facts["notes"][1:],
        f"{facts['copies']:,} texts repeat an earlier one, up to case and spacing; near-duplicates: "
        f"{'too many texts to compare' if near is None else f'{near:,}'}.",
        f"{len(facts['contradictions']):,} texts occur with different labels.",
        f"Letters: {shares}; {facts['scripts']['count']:,} texts are mostly in a rare script.",
        f"{len(facts['suspects']):,} labels are suspect.",
    ):
        out().print(note)
    if facts["contradictions"]:
        found = [[", ".join(one["ids"][:4]), ", ".join(one["labels"][:4]), one["text"]] for one in facts["contradictions"]]
        print_table("Contradictory labels", ["texts", "labels", "it says"], found[:SHOWN], numbers=False)
    if facts["suspects"]:
        found = [
            [one["id"], one["label"], one["rather"], f"{one['probability_of_other']:.0%}", one["text"]]
            for one in facts["suspects"][:SHOWN]
        ]
        print_table("Suspect labels", ["text", "label", "rather", "probability", "it says"], found, numbers=False)


def _configured(source: str, document: str | None, column: str | None, changes: list[str] | None) -> tuple[Any, dict[str, Any]]:
    """The data config, and settings of the tokenizer (``--set tokenizer.vocab=100``)."""
    from glassformer.data.config import DataConfig
    from glassformer.data.reading.named_sets import SETS
    from glassformer.foundation.config import override

    if source not in SETS and source != "-" and not Path(source).expanduser().exists():
        raise UsageError(
            f"There is no set and no file {source!r}.{did_you_mean(source, SETS)} Sets: {', '.join(SETS)}; or give the path of "
            "a text.",
            reason="no-set-or-file",
        )
    values: dict[str, Any] = {"data": {"set" if source in SETS else "path": source}, "tokenizer": {}}
    if document is not None:
        values["data"]["document"] = document
    if column is not None:
        values["data"]["text_column"] = int(column) if column.isdecimal() else column
    values = override(values, changes_of(changes))
    return DataConfig.parse(values["data"], at="data"), values["tokenizer"]


def _print_facts(facts: dict[str, Any]) -> None:
    columns = ["split", "documents", "tokens", "words", "characters", "bytes", "UNK", "repeated"]
    rows = [
        [
            name,
            *(f"{split[key]:,}" for key in ("documents", "tokens", "words", "characters", "bytes")),
            f"{split['unknown_share']:.2%}",
            f"{split['repeated_documents']:,}",
        ]
        for name, split in facts["splits"].items()
    ]
    size = f"{facts['tokenizer']['kind']}, {facts['tokenizer']['size']:,} ids"
    print_table(f"{facts['source']} ({size}; sha256 {facts['sha256'][:12]})", columns, rows)
    quantiles = list(next(iter(facts["splits"].values()))["tokens_per_document"])
    lengths = [
        [name, *(f"{split['tokens_per_document'][key]:,.0f}" for key in quantiles)] for name, split in facts["splits"].items()
    ]
    out().print()
    print_table("Tokens per document", ["split", *quantiles], lengths)
    for note in facts["notes"]:
        say(note)
    if facts["unopened"]:
        say("The test split was not opened; add --test to include it.")
