"""``glassformer tokenizer``: train, encode, decode, show. Imports no torch."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from glassformer.cli.console import out, print_json, print_result, print_table, say, watching
from glassformer.cli.options import Json, changes_of
from glassformer.foundation.errors import DataError, UsageError
from glassformer.foundation.progress import Watcher

app = typer.Typer(help="Train, use and inspect tokenizers.", no_args_is_help=True, rich_markup_mode=None)

TokenizerArgument = Annotated[Path, Argument(metavar="TOK", help="A tokenizer's file, or the folder of a run or model.")]
MOST_PIECES = 400  # more than a screen of them helps nobody
TextFile = Annotated[Path | None, Option("--file", metavar="FILE", help="Read the text from this file.")]


@app.command("train")
def train_command(
    files: Annotated[list[Path], Argument(metavar="FILE...", help="Text files (gzip is read too).")],
    out_file: Annotated[Path, Option("--out", metavar="TOK", help="The file to write, e.g. tokenizer.json.")],
    vocab: Annotated[int | None, Option(metavar="N", help="Size of the vocabulary.")] = None,
    kind: Annotated[str, Option(metavar="bpe|char|word|byte", help="Kind of tokenizer.")] = "bpe",
    level: Annotated[str | None, Option(metavar="byte|char", help="With bpe: merge bytes (default) or characters.")] = None,
    settings: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Change one setting of the tokenizer, e.g. min_count=3. Repeatable."),
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace TOK if it exists.")] = False,
    json: Json = False,
) -> None:
    """Train a tokenizer on text files. A bpe tokenizer is written as a Hugging Face tokenizer.json."""
    from glassformer.data.tokenizers.base import TOKENIZERS
    from glassformer.data.tokenizers.bpe import BPETokenizerConfig

    chosen = changes_of(settings) | ({} if level is None else {"level": level})
    if "vocab" in TOKENIZERS.get(kind).model_fields:
        chosen |= {} if vocab is None else {"vocab": vocab}
    elif vocab is not None:
        say(f"--vocab {vocab} has no effect: a tokenizer of kind {kind!r} has no such setting.")
    config = TOKENIZERS.parse({"kind": kind, **chosen})
    target = out_file / "tokenizer.json" if out_file.is_dir() else out_file
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists; choose another --out, or replace it with --overwrite.", reason="file-exists")
    with watching() as watcher:
        callbacks: list[Any] = [_counting(watcher, files)]
        if isinstance(config, BPETokenizerConfig):
            callbacks.append(partial(watcher.progress, "merging"))
        tokenizer = config.train(lambda: _lines(files), *callbacks)
    tokenizer.save(target)
    document = {"file": str(target), "kind": tokenizer.kind, "size": tokenizer.size, "asked": vocab}
    print_result(document, f"{target}: {tokenizer.kind}, {tokenizer.size:,} tokens", json=json)
    if vocab is not None and tokenizer.size < vocab:
        say(f"The tokenizer has {tokenizer.size:,} tokens, not {vocab:,}: no further token occurs often enough in this text.")


@app.command("encode")
def encode_command(
    tok: TokenizerArgument,
    text: Annotated[str | None, Argument(metavar="[TEXT]", help="The text; without it and --file, standard input.")] = None,
    file: TextFile = None,
    json: Json = False,
) -> None:
    """Print the token ids of a text, and each token. No START or STOP is added."""
    from glassformer.data.tokenizers.files import load_tokenizer

    if text is not None and file is not None:
        raise UsageError("TEXT and --file are both given; give one of them.", reason="two-texts")
    tokenizer = load_tokenizer(tok)
    ids = tokenizer.encode(_whole(file) if file else _standard_input() if text is None else text)
    pieces = [tokenizer.token_text(one) for one in ids]
    if json:
        print_json({"ids": ids, "pieces": pieces})
        return
    sys.stdout.write(" ".join(map(str, ids)) + "\n")
    if len(pieces) <= MOST_PIECES:
        say(" | ".join(map(visible, pieces)))


@app.command("decode")
def decode_command(
    tok: TokenizerArgument,
    ids: Annotated[list[str] | None, Argument(metavar="IDS", help="12 7 300 or 12,7,300; without, standard input.")] = None,
    json: Json = False,
) -> None:
    """Print the text of token ids."""
    from glassformer.data.tokenizers.files import load_tokenizer

    tokenizer = load_tokenizer(tok)
    text = tokenizer.decode(_ids(" ".join(ids) if ids else _standard_input()))
    if json:
        print_json({"text": text})
    else:
        sys.stdout.write(text + "\n")


@app.command("show")
def show_command(
    tok: TokenizerArgument,
    word: Annotated[str | None, Argument(metavar="[WORD]", help="Show the merges of this word.")] = None,
    file: TextFile = None,
    picture: Annotated[Path | None, Option("--out", metavar="FILE", help="Draw the merges of WORD: .svg or .png.")] = None,
    limit: Annotated[int, Option(min=0, help="Number of merges and tokens to list; 0 for all.")] = 20,
    json: Json = False,
) -> None:
    """Show the merges in order and the longest tokens. With --file also the rarest and those never produced.

    With WORD: the steps by which it is merged. A word in the middle of a text begins with a space: " word".
    """
    from glassformer.data.tokenizers.files import load_tokenizer
    from glassformer.data.tokenizers.inspection import count_tokens, describe, follow

    tokenizer = load_tokenizer(tok)
    if picture is not None and word is None:
        raise UsageError("--out draws the merges of a word; give WORD too.", reason="picture-without-word")
    if word is not None:
        words = follow(tokenizer, word)
        if picture is not None:
            _draw(words, picture)
        if json:
            print_json({"words": words})
        else:
            _print_words(words)
        return
    usage = None if file is None else count_tokens(tokenizer, _lines([file]))
    facts = describe(tokenizer, usage, top=limit or tokenizer.size)
    if json:
        print_json(facts)
    else:
        _print_facts(facts, limit or None)


def _print_facts(facts: dict[str, Any], limit: int | None) -> None:
    level = f", {facts['level']} level" if facts["level"] else ""
    marks = ", ".join(f"{name} {token_id}" for name, token_id in facts["marks"].items()) or "none"
    rows = [["tokens", f"{facts['size']:,}"], ["merges", f"{len(facts['merges']):,}"], ["marks (ids)", marks]]
    for what, value in facts["bytes_per_token"].items():
        rows.append([f"bytes per token, {what}", "not known" if value is None else f"{value:.3f}"])
    print_table(f"{facts['kind']}{level}", ["", ""], rows)
    merges = facts["merges"]
    if merges:
        shown = [
            [str(m["rank"]), visible(m["left"]), visible(m["right"]), visible(m["merged"]), str(m["id"])]
            for m in merges[:limit]
        ]
        print_table("\nmerges in order", ["merge", "left", "right", "token", "id"], shown)
        if len(shown) < len(merges):
            out().print(f"... and {len(merges) - len(shown):,} more (--limit 0 lists all)")
    sizes = ["-" if token["bytes"] is None else str(token["bytes"]) for token in facts["longest"]]
    longest = [[str(token["id"]), visible(token["text"]), size] for token, size in zip(facts["longest"], sizes)]
    print_table("\nlongest tokens", ["id", "token", "bytes"], longest)
    if facts["rarest"] is None:
        say("With --file TEXT: the rarest tokens of that text, and those it never uses.")
        return
    rarest = [[str(token["id"]), visible(token["text"]), f"{token['count']:,}"] for token in facts["rarest"]]
    print_table("\nrarest tokens in this text", ["id", "token", "times"], rarest)
    never = facts["never_produced"]
    names = "  ".join(visible(token["text"]) for token in never[:limit])
    more = f"  ... and {len(never) - limit:,} more" if limit is not None and len(never) > limit else ""
    out().print(f"\nnever produced by this text: {len(never):,} of {facts['size']:,} tokens\n{names}{more}")


def _print_words(words: Sequence[dict[str, Any]]) -> None:
    for word in words:
        names = [f"{step['rank']}: {visible(step['left'])} + {visible(step['right'])}" for step in word["steps"]]
        margin = max(map(len, ["symbols", *names])) + 3
        rows = [("symbols", word["symbols"]), *((name, step["tokens"]) for name, step in zip(names, word["steps"]))]
        lines = [visible(word["word"]), *(name.ljust(margin) + "  ".join(map(visible, tokens)) for name, tokens in rows)]
        lines += ["ids".ljust(margin) + " ".join(map(str, word["ids"])), ""]
        sys.stdout.write("\n".join(lines) + "\n")


def _draw(words: Sequence[dict[str, Any]], file: Path) -> None:
    """One word's merges as a picture."""
    from glassformer.figures.save import save_figure
    from glassformer.figures.token_merges import MergeRow, draw_merges

    if len(words) != 1:
        cut = " | ".join(visible(word["word"]) for word in words)
        raise UsageError(
            f"A picture shows one word, but this text has {len(words)}: {cut}; give one of them.", reason="several-words"
        )
    (word,) = words
    rows = [MergeRow("symbols", [(visible(symbol), 1) for symbol in word["symbols"]])]
    for step in word["steps"]:
        pieces = [(visible(token), span) for token, span in zip(step["tokens"], step["spans"])]
        rows.append(
            MergeRow(f"merge {step['rank']}: {visible(step['left'])} + {visible(step['right'])}", pieces, step["place"])
        )
    save_figure(draw_merges(rows, f"{visible(word['word'])}: {len(rows) - 1} merges"), file)
    say(f"{file} written.")


def visible(text: str) -> str:
    """Spaces as a sign that can be seen, and line ends and the like as Python writes them."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text).replace(" ", "␣")


def _lines(files: Sequence[Path]) -> Iterator[str]:
    """Lines with their endings: one text each, as the trainers of Hugging Face's library read files."""
    from glassformer.data.reading.readers import lines, to_text

    for file in files:
        for number, line in lines(file):
            yield to_text(line, file, number)


def _whole(file: Path) -> str:
    from glassformer.data.reading.readers import pieces

    return "".join(text for _, text in pieces(file))


def _standard_input() -> str:
    from glassformer.data.reading.readers import to_text

    return to_text(sys.stdin.buffer.read(), "standard input", 1)


def _ids(text: str) -> list[int]:
    words = re.split(r"[\s,]+", text.strip().strip("[]").strip())
    try:
        return [int(word) for word in words if word]
    except ValueError:
        wrong = next(word for word in words if not re.fullmatch(r"[+-]?\d+", word))
        raise UsageError(
            f"IDS: {wrong!r} is not a whole number; write ids like 12 7 300 or 12,7,300.", reason="not-an-id"
        ) from None


def _counting(watcher: Watcher, files: Sequence[Path]) -> Callable[[int], None]:
    try:
        total = sum(file.stat().st_size for file in files)
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror}); check the path.", file=error.filename, reason="unreadable"
        ) from None
    done = 0

    def tell(more: int) -> None:
        nonlocal done
        done += more
        watcher.progress("reading", done, max(total, done))

    return tell
