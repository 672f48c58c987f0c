"""``glassformer predict``: a table of texts -> the same table with labels and probabilities."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import print_json, remarks, say, watching
from glassformer.cli.options import CheckpointOption, Json, Plugin, RunArgument
from glassformer.foundation.errors import DataError, UsageError

PARQUET = b"PAR1"  # how such files begin


def command(
    run: RunArgument,
    table: Annotated[str, Argument(metavar="FILE", help="Texts: .csv, .tsv, .jsonl or .parquet; - for standard input.")],
    out: Annotated[Path | None, Option(metavar="FILE", help="Write the table here; without it, to standard output.")] = None,
    text_column: Annotated[str | None, Option(metavar="NAME", help="The column of texts, if not named as in training.")] = None,
    pair_column: Annotated[str | None, Option(metavar="NAME", help="The column of second texts, likewise.")] = None,
    precision: Annotated[float | None, Option(metavar="P", help="Withhold until this share is right on validation.")] = None,
    coverage: Annotated[float | None, Option(metavar="P", help="Answer only this share, the surest (on validation).")] = None,
    abstain_below: Annotated[float | None, Option(metavar="P", help="Withhold answers less probable than this.")] = None,
    no_temperature: Annotated[bool, Option("--no-temperature", help="Give uncalibrated probabilities.")] = False,
    batch_size: Annotated[int | None, Option(metavar="N", min=1, help="Texts of a pass; default 8, on a GPU 32.")] = None,
    checkpoint: CheckpointOption = "last",
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Label every row of a table. All columns stay; added are the label, its probability and that of every class.

    A run of several labels adds them all with ; between them, a run of numbers the number and an interval for 90 % of them.

    A row without a text, and a withheld answer, has no label. `ask` labels texts typed by hand.
    """
    from glassformer.data.config import DataConfig
    from glassformer.data.reading.corpus import format_by_name, layout_notes
    from glassformer.data.reading.sources import source_at
    from glassformer.data.reading.tables import DEFAULTS, named
    from glassformer.data.reading.whole_tables import WholeTable, table_writer
    from glassformer.prediction import PIECE
    from glassformer.run import load

    if json and out is None:
        raise UsageError("--json reports on a written table; give --out FILE too.", reason="json-without-out")
    source = source_at(table, DataConfig(path=table))
    file = source.files[0]
    kind = _kind_of_input(file) if table == "-" else format_by_name(file)
    if kind in ("text", "label-text"):
        raise UsageError(
            f"{table} is not a table; give a .csv, .tsv, .jsonl or .parquet file (`ask --questions` reads a text per line).",
            reason="not-a-table",
        )
    loaded = load(run, plugins=plugin or (), watch=remarks())
    predictor = loaded.predictor(checkpoint, batch_size=batch_size)
    below, sentence = predictor.threshold(precision=precision, coverage=coverage, abstain_below=abstain_below)
    if sentence:
        say(sentence)
    reading = loaded.reading_of_labels()
    text: Any = text_column or reading.get("text_column") or DEFAULTS["text_column"]
    pair: Any = pair_column or reading.get("pair_column")
    rows = WholeTable(file, kind, numbered=isinstance(text, int))
    for note in layout_notes(replace(source, format=kind)):
        say(note)
    text, pair = named(str(text), rows.names), None if pair is None else named(str(pair), rows.names)
    for option, column in (("--text-column", text), ("--pair-column", pair)):
        if column is not None and column not in rows.names:
            raise DataError(
                f"there is no column {column!r}; the columns are {', '.join(rows.names[:20])}. Name one with {option}.",
                file=table,
                reason="no-text-column",
            )
    added = predictor.columns()
    if taken := [name for name in added if name in rows.names]:
        raise DataError(
            f"it already has a column {taken[0]!r}, which predict would write; rename it.", file=table, reason="column-taken"
        )
    counted = {"rows": 0, "answered": 0, "abstained": 0, "unlike": 0}
    to_kind = kind if out is None else format_by_name(out)
    if to_kind in ("text", "label-text"):
        raise UsageError(f"--out {out} must end in .csv, .tsv, .jsonl or .parquet.", reason="not-a-table")
    layout = rows.layout if to_kind == kind else None
    with watching() as watch, table_writer(out, to_kind, layout, [*rows.names, *added]) as write:
        pieces = predictor.predict_rows(
            rows.pieces(PIECE), text=text, pair=pair, abstain_below=below, temperature=not no_temperature
        )
        for piece in pieces:
            write(piece)
            counted["rows"] += len(piece)
            counted["abstained"] += sum(bool(row.get("abstained", row["predicted"] is None)) for row in piece)
            counted["unlike"] += sum(bool(row["unlike"]) for row in piece)
            watch.progress("predicting", counted["rows"], counted["rows"])
    counted["answered"] = counted["rows"] - counted["abstained"]
    heat = None if predictor.reference is None or no_temperature else predictor.reference.temperature
    if json:
        print_json({**counted, "out": str(out), "threshold": below, "temperature": heat})
        return
    say(
        f"{counted['rows']:,} rows: {counted['answered']:,} answered, {counted['abstained']:,} withheld or empty, "
        f"{counted['unlike']:,} unlike anything seen in training."
    )


def _kind_of_input(file: Path) -> Any:
    """parquet or jsonl if standard input begins like that, packed or not; else csv (any separator)."""
    from glassformer.data.reading.readers import open_bytes

    with file.open("rb") as raw:
        if raw.read(len(PARQUET)) == PARQUET:
            return "parquet"
    with open_bytes(file) as stream:
        return "jsonl" if stream.read(64).removeprefix(BOM_UTF8).lstrip().startswith(b"{") else "csv"
