"""Benchmark documents -> tables: rows for the terminal, Markdown for docs/performance.md. Imports no torch.

``python -m glassformer.benchmark.table FILE.json...`` prints the Markdown of saved documents.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.foundation.files import read_json


def shown(figure: Mapping[str, Any]) -> str:
    """``12.3 (11.9 to 12.8)``: the median and the spread."""
    value, low, high = (_three_digits(figure[key]) for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def rows_of(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and one row for each program or mixer."""
    if document["benchmark"] == "attention":
        return _attention_rows(document)
    if "cpu_seconds" in document:
        return _seconds_rows(document)
    shares, first, peaks = document.get("share_of_matrix_rate", {}), document.get("first_job"), document.get("peak_bytes")
    columns = ["program", "tokens/s", "we are times as fast"]
    columns += ["share of the matrix rate"] if shares else []
    columns += ["GPU memory at most"] if peaks else []
    columns += ["first job of a process, tokens/s", "we are times as fast"] if first else []
    rows = [
        [name, *_rate_and_ratio(document, name), *([shown(shares[name])] if shares else [])]
        + ([f"{peaks[name] / 2**30:.2f} GiB" if name in peaks else ""] if peaks else [])
        + (_rate_and_ratio(first, name) if first else [])
        for name in document["tokens_per_second"]
    ]
    return columns, rows


def _rate_and_ratio(document: Mapping[str, Any], name: str) -> list[str]:
    ratios = document["times_as_fast_as"]
    return [shown(document["tokens_per_second"][name]), shown(ratios[name]) if name in ratios else ""]


def _seconds_rows(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    base, kinds = document["times_as_long_as"], ("seconds", "ratio", "cpu_seconds", "cpu_ratio")
    columns = ["command", "seconds", f"times `{base}`", "processor seconds", f"times `{base}`"]
    rows = [[name, *(shown(document[kind][name]) for kind in kinds)] for name in document["seconds"]]
    if losses := document.get("validation_loss"):
        columns.append("validation loss")
        rows = [[*row, f"{losses[row[0]]:.4f}" if row[0] in losses else ""] for row in rows]
    return columns, rows


def _attention_rows(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    last = f"{document['settings']['lengths'][-1]:,}"
    columns = ["mixer", f"time at {last}", f"memory at {last}", "time grows as n^", "memory n^", "formula n^"]
    rows = [
        [
            mixer["mixer"],
            f"{1e3 * mixer['seconds'][-1]:.2f} ms",
            f"{mixer['bytes'][-1] / 2**20:.1f} MiB",
            *(_growth(mixer[kind]) for kind in ("time", "memory")),
            _growth(mixer["formula"]) if any(mixer["flops"]) else "-",
        ]
        for mixer in document["mixers"]
    ]
    return columns, rows


def _growth(growth: Mapping[str, Any]) -> str:
    return f"{growth['exponent']:.2f}" + ("" if growth["error"] is None else f" ± {growth['error']:.2f}")


def heading(document: Mapping[str, Any]) -> str:
    """What was measured, on what, when."""
    machine, settings = document["machine"], document["settings"]
    if "cpu_seconds" in document:
        load = f", load {machine['load']}" if "load" in machine else ""
        work = ", ".join(f"{key} {value}" for key, value in settings.items())
        return f"{machine['date']}, {machine['cores']} cores{load}, Python {machine['python']}: {work}."
    threads = f"{machine['threads']} thread{'s' if machine['threads'] != 1 else ''}"
    where = f"{machine['device']}, {threads}, {machine['precision']}, torch {machine['torch']}"
    if document["benchmark"] == "attention":
        work = "one forward and backward pass of a mixer alone, one row"
        best = f"the best of {settings['repeats']} passes"
        return f"{machine['date']}, {where}: width {settings['width']}, {settings['heads']} heads; {work}, {best}."
    sizes = f"{settings['layers']} layers, {settings['heads']} heads, width {settings['width']}, context {settings['context']}"
    if document["benchmark"] == "generate":
        work = f"writing {settings['new']} tokens after prompts of {settings['prompt']}, {settings['rows']} at once"
    else:
        work = f"training steps of {settings['batch']} x {settings['context']} tokens, dropout {settings['dropout']}"
    rates = [f"matrix products {_three_digits(machine['matrix_flops']['value'] / 1e9)} GFLOP/s"]
    if "memory_bytes" in machine:
        rates.append(f"memory {_three_digits(machine['memory_bytes']['value'] / 1e9)} GB/s")
    return f"{machine['date']}, {where} ({', '.join(rates)}): {sizes}; {work}."


def markdown(document: Mapping[str, Any]) -> str:
    """A sentence and a table."""
    columns, rows = rows_of(document)
    lines = [columns, ["---"] * len(columns), *rows]
    return heading(document) + "\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


if __name__ == "__main__":
    print("\n".join(markdown(read_json(Path(name))) for name in sys.argv[1:]))
