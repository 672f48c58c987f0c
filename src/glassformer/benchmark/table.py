"""Benchmark documents -> a heading and the rows of a table. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Table = tuple[list[str], list[list[str]]]
"""The names of the columns, and the rows."""


def shown(figure: Mapping[str, Any]) -> str:
    """``12.3 (11.9 to 12.8)``: the median and the spread."""
    value, low, high = (three_digits(figure[key]) for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def rows_of(document: Mapping[str, Any]) -> Table:
    """One row for each program or mixer."""
    if document["benchmark"] == "attention":
        return _attention_rows(document)
    shares, peaks = document.get("share_of_matrix_rate", {}), document.get("peak_bytes")
    columns = ["program", "tokens/s", "we are times as fast"]
    columns += ["share of the matrix rate"] if shares else []
    columns += ["GPU memory at most"] if peaks else []
    rows = [
        [name, *rate_and_ratio(document, name), *([shown(shares[name])] if shares else [])]
        + ([f"{peaks[name] / 2**30:.2f} GiB" if name in peaks else ""] if peaks else [])
        for name in document["tokens_per_second"]
    ]
    return columns, rows


def rate_and_ratio(document: Mapping[str, Any], name: str) -> list[str]:
    ratios = document["times_as_fast_as"]
    return [shown(document["tokens_per_second"][name]), shown(ratios[name]) if name in ratios else ""]


def _attention_rows(document: Mapping[str, Any]) -> Table:
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
    rates = [f"matrix products {three_digits(machine['matrix_flops']['value'] / 1e9)} GFLOP/s"]
    if "memory_bytes" in machine:
        rates.append(f"memory {three_digits(machine['memory_bytes']['value'] / 1e9)} GB/s")
    return f"{machine['date']}, {where} ({', '.join(rates)}): {sizes}; {work}."
