"""Tables as people send them, each dirty in one way -> read right, refused, or silently wrong: by ours, by pandas, by pyarrow.

python bench/dirty_tables.py [--only NAME] [--json]

Writes each table to a temporary folder and reads its columns `text` and `label` (or those that the table names). A reader is
right if it gives every row, up to white space around a cell. "line": it refuses and names the line that is wrong. "refused": it
refuses without that line. "WRONG": it gives other rows and says nothing; "noted": other rows, with a note that says what may
be wrong. Where no reading is right ("must refuse"), every row that is given is WRONG.

pandas and pyarrow are asked twice: with what they find out by themselves (pandas: `sep=None` and its Python engine; all cells
as texts, nothing taken for a missing value, rows with too few or too many cells refused), and "given" what ours found.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import Labels
from glassformer.data.reading.corpus import format_by_name
from glassformer.data.reading.layouts import Layout, layout_of
from glassformer.data.reading.tables import cells
from glassformer.foundation.errors import DataError, GlassformerError

Cells = Sequence[tuple[str, ...]]
Columns = tuple[str | int, ...]
NAMED: Columns = ("text", "label")
ROWS = [("late, and wet", "post"), ('a "dog" | a cat; loud', "pets"), ("two\nlines", "post"), ("plain", "pets")]
GERMAN = [("schöne Grüße, größer", "ä"), ("ein Müßiggänger", "ö"), ("für 5 €", "ä")]
FRENCH = [("«\u00a0voilà\u00a0» dit-il", "é"), ("déjà vu, hélas", "è")]
RUSSIAN = [("посылка пришла поздно", "почта"), ("собака громко лает", "звери")]
POLISH = [("wędrówka przez góry, długa", "a"), ("żółty liść w środę", "b")]


@dataclass(frozen=True)
class Table:
    """``rows``: what is right, None if it must be refused; ``line``: where a refusal should point."""

    name: str
    data: bytes
    rows: Cells | None
    line: int | None = None
    columns: Columns = NAMED
    file: str = "t.csv"


def written(
    rows: Sequence[Sequence[str]], *, header: Sequence[str] = ("text", "label"), ends: str = "\r\n", **form: Any
) -> str:
    """As Python's csv module writes it."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator=ends, **form).writerows([header, *rows])
    return stream.getvalue()


def separators() -> list[Table]:
    quoted_header = written([("1", "late", "post")], header=("id", "text, raw", "label"), delimiter=";")
    unquoted = "text;label\nlate, wet;post\ndry, early;mail\nslow, cold;post\n"
    ten = "".join(f"text {n};label {n}\n" for n in range(10))
    return [
        Table("commas", written(ROWS).encode(), ROWS),
        Table("semicolons", written(ROWS, delimiter=";").encode(), ROWS),
        Table("tabs in a .csv", written(ROWS, delimiter="\t").encode(), ROWS),
        Table("vertical bars", written(ROWS, delimiter="|").encode(), ROWS),
        Table("sep=; above", b"sep=;\r\n" + written(ROWS, delimiter=";").encode(), ROWS),
        Table("sep= and a tab above", b"sep=\t\r\n" + written(ROWS, delimiter="\t").encode(), ROWS),
        Table(
            "semicolons, a comma in each text",
            unquoted.encode(),
            [("late, wet", "post"), ("dry, early", "mail"), ("slow, cold", "post")],
        ),
        Table("semicolons, a comma in the header", quoted_header.encode(), [("late", "post")], columns=("text, raw", "label")),
        Table("carets", written(ROWS, delimiter="^").encode(), ROWS),
        Table(
            "a space after each comma",
            b'text, label\nlate, post\n"a dog", "pets, or not"\n"a cat", "pets"\n',
            [("late", "post"), ("a dog", "pets, or not"), ("a cat", "pets")],
        ),
        Table(
            "a space after commas, quotes at the end only",
            b'text, label\nlate, "post"\nwet, "mail"\n',
            [("late", "post"), ("wet", "mail")],
        ),
        Table(
            "one column, semicolons in the texts",
            b"text\nlate; wet\ndry; early\n",
            [("late; wet",), ("dry; early",)],
            None,
            ("text",),
        ),
        Table("semicolons, no header", ten.encode(), [(f"text {n}", f"label {n}") for n in range(10)], columns=(1, 2)),
        Table("columns aligned by spaces", b"text     label\nlate     post\nwet      post\n", None),
        Table("each line in quotes", b'"text,label"\n"late,post"\n"wet,post"\n', None),
        Table(
            "2,000 columns",
            written([["x"] * 1998 + ["late", "post"]], header=[*(f"c{n}" for n in range(1998)), "text", "label"]).encode(),
            [("late", "post")],
        ),
    ]


def encodings() -> list[Table]:
    text, russian = written(GERMAN), written(RUSSIAN)
    chinese = written([("包裹来得太晚", "邮政"), ("狗叫得很大声", "动物")])
    plain = "text,label\n" + "the parcel came late,post\n" * 12_000
    return [
        Table("UTF-8 with a mark", text.encode("utf-8-sig"), GERMAN),
        Table("UTF-16 with a mark", text.encode("utf-16"), GERMAN),
        Table("UTF-16, big end first, with a mark", b"\xfe\xff" + text.encode("utf-16-be"), GERMAN),
        Table("UTF-16 without a mark", text.encode("utf-16-le"), GERMAN),
        Table("UTF-16, big end first, without a mark", text.encode("utf-16-be"), GERMAN),
        Table(
            "UTF-16 without a mark, Chinese", chinese.encode("utf-16-le"), [("包裹来得太晚", "邮政"), ("狗叫得很大声", "动物")]
        ),
        Table("UTF-16, packed", gzip.compress(text.encode("utf-16")), GERMAN, file="t.csv.gz"),
        Table("Windows-1252", text.encode("cp1252"), GERMAN),
        Table("Windows-1252, French quotes", written(FRENCH).encode("cp1252"), FRENCH),
        Table("Windows-1252, packed", gzip.compress(text.encode("cp1252")), GERMAN, file="t.csv.gz"),
        Table("Windows-1252, one letter", "text,label\nschön,a\ndry,b\n".encode("cp1252"), [("schön", "a"), ("dry", "b")], 2),
        Table("Windows-1251 (Cyrillic)", russian.encode("cp1251"), RUSSIAN),
        Table("KOI8-R (Cyrillic)", russian.encode("koi8-r"), RUSSIAN),
        Table(
            "Shift JIS",
            written([("荷物が遅れた", "郵便"), ("犬がうるさい", "動物")]).encode("shift-jis"),
            [("荷物が遅れた", "郵便"), ("犬がうるさい", "動物")],
        ),
        Table("GB 18030", chinese.encode("gb18030"), [("包裹来得太晚", "邮政"), ("狗叫得很大声", "动物")]),
        Table("Windows-1250 (Polish)", written(POLISH).encode("cp1250"), POLISH),
        Table("old Mac's letters", written(GERMAN[:2]).encode("mac_roman"), GERMAN[:2]),
        Table("UTF-8, then a row of Windows-1252", text.encode() + "Straße,b\r\n".encode("cp1252"), None, 5),
        Table("Windows-1252, then rows of UTF-8", text.encode("cp1252") + "Straße,b\r\nnaïve,ä\r\n".encode(), None, 5),
        Table(
            "Windows-1252, then UTF-8 after 300 kB",
            ("text,label\nschöne Grüße,ä\n".encode("cp1252") + plain[11:].encode() + "Straße,b\n".encode()),
            None,
            12_003,
        ),
        Table("Windows-1252 after 300 kB of ASCII", (plain + "schöne Grüße,ä\n").encode("cp1252"), None, 12_002),
        Table("a letter cut in two at the end", "text,label\nwet,post\nschön".encode()[:-2], None, 3),
        Table(
            "a mark inside (files joined)",
            ("\ufeff" + written(ROWS[:1])).encode() + "\ufeffwet,mail\r\n".encode(),
            [ROWS[0], ("wet", "mail")],
        ),
    ]


def quotes() -> list[Table]:
    stray = b'text\tlabel\n"Yes," he said. "No."\tx\n"Why?" she asked\ty\n'
    pandas_tsv = written([('he said "hi"', "x"), ("plain", "y")], delimiter="\t", ends="\n")
    return [
        Table("a line break in a quoted cell", b'text,label\n"a\r\nb",x\n"c\nd",y\n', [("a\r\nb", "x"), ("c\nd", "y")]),
        Table("a lone carriage return in a quoted cell", b'text,label\r\n"a\rb",x\r\nc,y\r\n', [("a\rb", "x"), ("c", "y")]),
        Table("everything in quotes", written(ROWS, quoting=csv.QUOTE_ALL).encode(), ROWS),
        Table("a quote inside a bare cell", b'text,label\na 5" pipe,x\nb,y\n', [('a 5" pipe', "x"), ("b", "y")]),
        Table("a word in quotes begins a bare cell", b'text,label\n"late" again,x\nb,y\n', None, 2),
        Table(
            "quotes with backslashes",
            b'text,label\nz,z\n"he said \\"hi, you\\"",x\nb,y\n',
            [("z", "z"), ('he said "hi, you"', "x"), ("b", "y")],
            3,
        ),
        Table("a quote left open", b'text,label\na,x\n"late,y\nb,x\nc,y\n', None, 3),
        Table("a quote left open, a closed one later", b'text,label\na,x\n"late,y\nb,x\n"c, d",y\n', None, 3),
        Table("a quote left open, an inch mark later", b'text,label\na,x\n"late,y\nb,x\npipe 5",y\n', None, 3),
        Table("apostrophes for quotes", b"'text','label'\n'late, wet','post'\n", [("late, wet", "post")], 1),
        Table("curly quotes", "text,label\n“late, wet”,post\n".encode(), [("“late, wet”", "post")], 2),
        Table(".tsv, quotes are signs", stray, [('"Yes," he said. "No."', "x"), ('"Why?" she asked', "y")], file="t.tsv"),
        Table(
            ".tsv, one sentence in quotes", b'text\tlabel\n"Yes."\tx\nNo.\ty\n', [('"Yes."', "x"), ("No.", "y")], file="t.tsv"
        ),
        Table(".tsv, quotes doubled", pandas_tsv.encode(), [('he said "hi"', "x"), ("plain", "y")], file="t.tsv"),
        Table(
            ".tsv, a tab in quotes",
            written([("a\tb", "x"), ("c", "y")], delimiter="\t").encode(),
            [("a\tb", "x"), ("c", "y")],
            2,
            file="t.tsv",
        ),
        Table(".tsv, a line break in quotes", written(ROWS, delimiter="\t").encode(), ROWS, 4, file="t.tsv"),
        Table(
            ".tsv, everything in quotes",
            written(ROWS[:1], delimiter="\t", quoting=csv.QUOTE_ALL).encode(),
            ROWS[:1],
            file="t.tsv",
        ),
        Table("tabs in a .csv, quotes are signs", stray, [('"Yes," he said. "No."', "x"), ('"Why?" she asked', "y")], 2),
    ]


def rows() -> list[Table]:
    good = [("late", "post"), ("wet", "mail")]
    return [
        Table("a row too short", b"text,label\nlate,post\nwet\ndry,mail\n", None, 3),
        Table("a row too long", b"text,label\nlate,post\nwet,mail,x\ndry,mail\n", None, 3),
        Table("a row too long, after a cell of two lines", b'text,label\n"a\nb",post\nwet,mail,x\ndry,mail\n', None, 4),
        Table("cut off in the last row", b"text,label\nlate,post\nwet", None, 3),
        Table("empty lines", b"\ntext,label\n\nlate,post\n\n\nwet,mail\n\n", good),
        Table("lines of spaces", b"text,label\nlate,post\n   \nwet,mail\n", good, 3),
        Table("rows of separators only", b"text,label\nlate,post\nwet,mail\n,\n,\n", [*good, ("", ""), ("", "")]),
        Table("a separator at the end of each line", b"text,label,\nlate,post,\nwet,mail,\n", good),
        Table("a separator at the end of each row, not of the header", b"text,label\nlate,post,\nwet,mail,\n", good, 2),
        Table("comments above", b"# from the shop\n# 2026\ntext,label\nlate,post\nwet,mail\n", good),
        Table("a comment inside", b"text,label\nlate,post\n# checked\nwet,mail\n", None, 3),
        Table("a title above", b"Complaints of May\n\ntext,label\nlate,post\nwet,mail\n", good),
        Table("the header again (files joined)", b"text,label\nlate,post\ntext,label\nwet,mail\n", None, 3),
        Table("files joined without a line end", b"text,label\nlate,posttext,label\nwet,mail\n", None, 2),
        Table("old Mac's line ends", b"text,label\rlate,post\rwet,mail\r", good),
        Table("carriage return twice", b"text,label\r\r\nlate,post\r\r\nwet,mail\r\r\n", good),
        Table("mixed line ends", b"text,label\r\nlate,post\nwet,mail\r\n", good),
        Table("no line end at the end", b"text,label\nlate,post\nwet,mail", good),
        Table(
            "odd white space in cells",
            "text,label\nla\u2028te,a\u0085b\nw\x0bet,m\x0cail\n".encode(),
            [("la\u2028te", "a\u0085b"), ("w\x0bet", "m\x0cail")],
        ),
        Table("DOS's end of file", b"text,label\nlate,post\nwet,mail\n\x1a", good, 4),
        Table("a NUL byte", b"text,label\nlate,post\nw\0et,mail\n", None, 3),
        Table("NUL bytes at the end", b"text,label\nlate,post\nwet,mail\n" + b"\0" * 100, None, 4),
        Table("a cell of 2 MB", f"text,label\n{'x' * (2 << 20)},post\n".encode(), [("x" * (2 << 20), "post")]),
        Table("packed", gzip.compress(written(ROWS).encode()), ROWS, file="t.csv.gz"),
        Table("packed, cut off", gzip.compress(written(ROWS * 1000).encode())[:-30], None, file="t.csv.gz"),
        Table("empty file", b"", []),
        Table("a header alone", b"text,label\n", []),
    ]


def values() -> list[Table]:
    def column(*cells: str) -> Table:
        named = [(f"text {at}", cell) for at, cell in enumerate(cells)]
        return Table("labels " + ", ".join(cells), written(named, ends="\n").encode(), named)

    numbers = [("late", "3,5"), ("wet", "0,25")]
    return [
        column("NA", "None", "null", "nan", "#N/A", "", "-"),
        column("007", "08", "0"),
        column("12345678901234567890123", "9007199254740993"),
        column("TRUE", "False", "yes", "0"),
        column("1.10", "1e5", "inf", "1_000"),
        column("2026-01-02", "02.01.2026", "1/2/26 13:00"),
        Table("decimal commas", written(numbers, delimiter=";").encode(), numbers),
        Table("decimal commas, not quoted", b"text,label\nlate,3,5\nwet,0,25\n", None, 2),
        Table(
            "commas between thousands", b'text,label\nlate,"1,234"\nwet,"12,000.5"\n', [("late", "1,234"), ("wet", "12,000.5")]
        ),
        Table("texts that are numbers", b"text,label\n1.0,a\n02,b\n", [("1.0", "a"), ("02", "b")]),
        Table("NA as a text", b"text,label\nNA,a\nNone,b\nnull,b\n", [("NA", "a"), ("None", "b"), ("null", "b")]),
    ]


def headers() -> list[Table]:
    return [
        Table("a column twice, another one asked", b"id,id,text,label\n1,2,late,post\n", [("late", "post")]),
        Table("the asked column twice", b"text,text,label\n1,late,post\n", None, 1),
        Table("no header, columns by number", b"late,post\nwet,mail\n", [("late", "post"), ("wet", "mail")], columns=(1, 2)),
        Table("no header, columns by name", b"late,post\nwet,mail\n", None, 1),
        Table("spaces around the names", b" text , label \nlate,post\n", [("late", "post")]),
        Table("names in capitals", b"Text,LABEL\nlate,post\n", None, 1),
        Table("a column without a name", b",text,label\n0,late,post\n1,wet,mail\n", [("late", "post"), ("wet", "mail")]),
    ]


def parquets(folder: Path) -> list[Table]:
    """Types of parquet, as text by the rules of labels: whole numbers, truth values and decimals in JSON's spelling."""
    import pyarrow
    import pyarrow.parquet as parquet

    def table(name: str, right: Cells | None, line: int | None = None, **columns: Any) -> Table:
        parquet.write_table(pyarrow.table(columns), folder / "made.parquet")
        return Table(f"parquet: {name}", (folder / "made.parquet").read_bytes(), right, line, file="t.parquet")

    texts, huge = ["late", "wet"], 2**64 - 1
    return [
        table("texts", [("late", "a"), ("wet", "b")], text=texts, label=["a", "b"]),
        table("dictionaries", [("late", "a"), ("wet", "b")], text=texts, label=pyarrow.array(["a", "b"]).dictionary_encode()),
        table(
            "large strings", [("late", "a"), ("wet", "b")], text=pyarrow.array(texts, pyarrow.large_string()), label=["a", "b"]
        ),
        table("whole numbers", [("late", "1"), ("wet", "2")], text=texts, label=pyarrow.array([1, 2], pyarrow.int8())),
        table(
            "huge whole numbers",
            [("late", str(huge)), ("wet", "1")],
            text=texts,
            label=pyarrow.array([huge, 1], pyarrow.uint64()),
        ),
        table("truth values", [("late", "true"), ("wet", "false")], text=texts, label=[True, False]),
        table("a missing whole number", None, 2, text=texts, label=pyarrow.array([1, None])),
        table("a missing text", None, 2, text=["late", None], label=["a", "b"]),
        table("bytes", None, 1, text=[b"late", b"wet"], label=["a", "b"]),
    ]


# Readers: (file, columns) -> rows; they raise where they refuse.


def ours(file: Path, columns: Columns) -> Cells:
    named = dict(zip(("text_column", "label_column"), columns))
    return [row for _, row in cells(file, format_by_name(file), named)]


def noted(file: Path, columns: Columns) -> bool:
    """Whether a note of ours says that the encoding was guessed, or a quote may be open."""
    named = dict(zip(("text_column", "label_column"), columns))
    try:
        notes = Labels(DataConfig.parse({"path": str(file), "split": {"validation": 0}, **named}, at="data")).notes
    except GlassformerError:  # too few rows for a classifier
        return False
    return any("If it does not say" in note or "quote left open" in note for note in notes)


def _as_cells(frame: Any, columns: Columns) -> Cells:
    chosen = [frame.iloc[:, one - 1] if isinstance(one, int) else frame[one] for one in columns]
    if missing := [one for column in chosen for one in column.isna() if one]:
        raise ValueError(f"{len(missing)} cells are missing")  # a row that is too short
    return [tuple(map(_text, row)) for row in zip(*chosen)]


def _text(cell: Any) -> str:
    """By the rules of labels."""
    if isinstance(cell, bytes):
        raise ValueError("bytes are no text")
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _given(file: Path) -> Layout:
    kind = format_by_name(file)
    return layout_of(file, kind) if kind in ("csv", "tsv") else Layout()


def _pandas(file: Path, columns: Columns, **found: Any) -> Cells:
    import pandas

    if file.suffix == ".parquet":
        return _as_cells(pandas.read_parquet(file), columns)
    header = None if isinstance(columns[0], int) else 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns of rows that are too long
        return _as_cells(
            pandas.read_csv(file, dtype=str, keep_default_na=False, index_col=False, header=header, **found), columns
        )


def pandas_alone(file: Path, columns: Columns) -> Cells:
    return _pandas(file, columns, sep=None, engine="python", encoding="utf-8-sig")


def pandas_given(file: Path, columns: Columns) -> Cells:
    layout = _given(file)
    return _pandas(
        file,
        columns,
        sep=layout.delimiter,
        quoting=csv.QUOTE_MINIMAL if layout.quoted else csv.QUOTE_NONE,
        skipinitialspace=layout.spaced,
        encoding=layout.encoding or "utf-8-sig",
        skiprows=int(layout.says_so),
        low_memory=False,
    )


def _pyarrow(file: Path, columns: Columns, layout: Layout) -> Cells:
    import pyarrow
    from pyarrow import csv as arrow
    from pyarrow import parquet

    if file.suffix == ".parquet":
        table = parquet.read_table(file)
    else:
        numbered = isinstance(columns[0], int)
        read = arrow.ReadOptions(
            use_threads=False,  # else it names no rows
            encoding=layout.encoding or "utf8",
            skip_rows=int(layout.says_so),
            autogenerate_column_names=numbered,
        )
        quotes = '"' if layout.quoted else False
        parse = arrow.ParseOptions(delimiter=layout.delimiter, quote_char=quotes, newlines_in_values=True)
        columns = tuple(f"f{one - 1}" if isinstance(one, int) else one for one in columns)
        texts = dict.fromkeys(columns, pyarrow.string())
        convert = arrow.ConvertOptions(column_types=texts, strings_can_be_null=False, include_columns=list(columns))
        table = arrow.read_csv(file, read, parse, convert)
    chosen = [table.column(one).to_pylist() for one in columns]
    if any(cell is None for column in chosen for cell in column):
        raise ValueError("cells are missing")
    return [tuple(map(_text, row)) for row in zip(*chosen)]


def pyarrow_alone(file: Path, columns: Columns) -> Cells:
    return _pyarrow(file, columns, Layout("\t" if file.name.startswith("t.tsv") else ","))


def pyarrow_given(file: Path, columns: Columns) -> Cells:
    return _pyarrow(file, columns, _given(file))


READERS: dict[str, Callable[[Path, Columns], Cells]] = {
    "ours": ours,
    "pandas": pandas_alone,
    "pandas, given": pandas_given,
    "pyarrow": pyarrow_alone,
    "pyarrow, given": pyarrow_given,
}


def outcome(table: Table, reader: str, file: Path) -> tuple[str, str]:
    """(right, line, refused, noted or WRONG; what was said)."""
    try:
        found = READERS[reader](file, table.columns)
    except Exception as error:  # whatever a library raises is its refusal
        said = f"{type(error).__name__}: {error}".replace("\n", " ")
        lines = {error.line} if isinstance(error, DataError) else set(map(int, re.findall(r"(?:line|[Rr]ow #?)\s*(\d+)", said)))
        return ("line" if table.line is not None and lines == {table.line} else "refused"), said
    stripped, right = ([tuple(cell.strip() for cell in row) for row in one] for one in (found, table.rows or []))
    if table.rows is not None and stripped == right:
        return "right", ""
    return ("noted" if reader == "ours" and noted(file, table.columns) else "WRONG"), f"{str(found[:3])[:200]}"


def tables(folder: Path) -> list[Table]:
    return [*separators(), *encodings(), *quotes(), *rows(), *values(), *headers(), *parquets(folder)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="tables whose name contains this, with what each reader said")
    parser.add_argument("--json", action="store_true", help="everything that was said, as one JSON document")
    options = parser.parse_args()
    found: dict[str, dict[str, tuple[str, str]]] = {}
    with tempfile.TemporaryDirectory() as place:
        for number, table in enumerate(tables(Path(place))):
            if options.only and options.only not in table.name:
                continue
            file = Path(place) / str(number) / table.file
            file.parent.mkdir()
            file.write_bytes(table.data)
            name = table.name + (" (must refuse)" if table.rows is None else "")
            found[name] = {reader: outcome(table, reader, file) for reader in READERS}
    if options.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return
    print(f"| {'table':58} | {' | '.join(READERS)} |")
    print("|---" * (len(READERS) + 1) + "|")
    for name, by_reader in found.items():
        print(f"| {name:58} | {' | '.join(word for word, _ in by_reader.values())} |")
        if options.only:
            for reader, (_, said) in by_reader.items():
                print(f"  {reader}: {said}")
    for reader in READERS:
        print(reader, len(found), dict(Counter(by_reader[reader][0] for by_reader in found.values())))


if __name__ == "__main__":
    main()
