"""Checks a tiny model of every causal class of transformers, each in its own process with a time limit -> a table.

    python bench/zoo.py [--workers N] [--limit SECONDS] [--out zoo] [CLASS...]
    python docs/make_zoo.py zoo/zoo.json       # then docs/zoo.md

Writes zoo.json and zoo.html. Interrupted, it resumes: zoo.jsonl has the entries of the same code and libraries.
A crash, a timeout or a failed build is an entry with a reason, never an exception. The limit is CPU time, so that a busy
machine changes no entry. Every entry also says whether the check left the model unchanged: bit-identical logits, same dtype,
same tensors, same mode.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import multiprocessing
import os
import signal
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.check import check_model
from glassformer.checks.check_report import short_error
from glassformer.checks.tiny_model import CONTEXT, causal_classes, tiny_model
from glassformer.foundation.files import code_sha256

LIMIT_SECONDS = 60.0
"""CPU seconds for building a class and checking it."""
PATIENCE = 20.0
"""The limit on wall-clock time as a multiple of the CPU limit, for processes that hang and for busy machines."""
ON_THE_WALL = "on the wall"
LAWS = ("causality", "batch", "state", "padding", "cache")
SIGNS = {"passed": "holds", "broken": "BROKEN", "cannot tell": "?"}
HEADINGS = ("class", *LAWS, "s", "remark")
STORED = "zoo.jsonl"
"""Entries in order of completion, so that an interrupted zoo can resume."""


@dataclass
class _Job:
    name: str
    process: Any
    answers: Connection
    started: float


def run_zoo(
    names: Sequence[str],
    *,
    workers: int = 1,
    limit: float = LIMIT_SECONDS,
    say: Callable[[str], None] = lambda line: None,
    known: Mapping[str, dict[str, Any]] | None = None,
    store: Callable[[dict[str, Any]], None] = lambda entry: None,
) -> list[dict[str, Any]]:
    """One entry for each class, in the order of the names. ``store`` gets each as soon as it is there; those in ``known`` are
    not made again."""
    import transformers  # imported in the parent, so that forked children need not

    transformers.logging.set_verbosity_error()
    order, running = list(names), list[_Job]()
    entries: dict[str, dict[str, Any]] = {name: known[name] for name in order if known and name in known}
    waiting = [name for name in order if name not in entries]
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
    while waiting or running:
        while waiting and len(running) < max(1, workers):
            running.append(_start(context, waiting.pop(0), limit))
        time.sleep(0.02)
        for job in list(running):
            entry = _poll(job, limit)
            if entry is not None:
                running.remove(job)
                entries[job.name] = entry
                store(entry)
                say(f"{len(entries)}/{len(order)} {job.name}: {in_words(entry)}")
    return [entries[name] for name in order]


def _start(context: Any, name: str, limit: float) -> _Job:
    answers, end = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(name, end, limit), daemon=True)
    process.start()
    end.close()
    return _Job(name, process, answers, time.monotonic())


def _poll(job: _Job, limit: float) -> dict[str, Any] | None:
    """The process's result; a reason if it died or timed out; None while it runs."""
    try:
        if job.answers.poll():
            entry: dict[str, Any] = job.answers.recv()
            job.process.join()
            return entry
    except EOFError:
        job.process.join()
        code = job.process.exitcode
        late = code is not None and -code in (getattr(signal, "SIGXCPU", None), signal.SIGKILL)
        reason = f"not done within {limit:.0f} s of one core" if late else f"the process ended with code {code}"
        return {"class": job.name, "built": True, "error": reason}
    if time.monotonic() - job.started <= PATIENCE * limit:
        return None
    job.process.kill()
    job.process.join()
    return {"class": job.name, "built": True, "error": f"not done within {PATIENCE * limit:.0f} s {ON_THE_WALL}"}


def _child(name: str, end: Connection, limit: float) -> None:
    with suppress(ImportError, ValueError, OSError):  # where there is no such limit, the wall is one
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (max(1, math.ceil(limit)), max(2, math.ceil(limit) + 1)))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # what models print is not part of the table
        os.dup2(nowhere.fileno(), 2)
        end.send(examine(name))


def examine(name: str) -> dict[str, Any]:
    """The entry of one class."""
    try:
        model = tiny_model(name)
    except Exception as error:  # a third-party class may raise anything
        return {"class": name, "built": False, "error": short_error(error)}
    twin = copy.deepcopy(model)
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        report = check_model(model, context=CONTEXT)
    except Exception as error:
        return {"class": name, "built": True, "error": short_error(error)}
    seconds = {"seconds": round(time.perf_counter() - wall, 2), "cpu_seconds": round(time.process_time() - cpu, 2)}
    plain = report.to_dict()
    findings = [
        {
            **{key: finding[key] for key in ("law", "where", "from_position", "to_position", "size")},
            "example": _without_tokens(finding),
        }
        for finding in plain["findings"]
    ]
    return {
        "class": name,
        "built": True,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **{key: plain[key] for key in ("passed", "judged", "cannot_tell", "not_judged", "notes")},
        "findings": findings,
        **seconds,
        "unchanged": same_model(twin, model),
    }


def _without_tokens(finding: dict[str, Any]) -> dict[str, Any]:
    """The example without its token lists."""
    return {key: value for key, value in finding["example"].items() if not isinstance(value, list) or key == "pieces"}


def same_model(first: nn.Module, second: nn.Module) -> bool:
    """Whether both have the same tensors, dtypes and modes, and bit-identical logits."""
    if [m.training for m in first.modules()] != [m.training for m in second.modules()]:
        return False
    mine, yours = (dict(_tensors(model)) for model in (first, second))
    if mine.keys() != yours.keys() or not all(_equal(mine[key], yours[key]) for key in mine):
        return False
    ids_BT = torch.arange(3, 3 + 2 * (CONTEXT // 4)).view(2, -1)
    scores = []
    for model in (first, second):
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                output = model(input_ids=ids_BT)
        except Exception:  # a model that does not run has no logits to compare
            return True
        scores.append(output.logits if hasattr(output, "logits") else output[0])
    return _equal(*scores)


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, Tensor):
                yield f"{name}.{key}", value


def _equal(first: Tensor, second: Tensor) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return bool(torch.equal(first, second) or ((first == second) | (first.isnan() & second.isnan())).all())


def in_words(entry: dict[str, Any]) -> str:
    """The verdict in a few words."""
    if "error" in entry:
        return f"{'cannot tell' if entry['built'] else 'not built'}: {entry['error']}"
    judged = entry["judged"]
    broken = [law for law, outcome in judged.items() if outcome == "broken"]
    untold = [law for law, outcome in judged.items() if outcome == "cannot tell"]
    if broken:
        return f"breaks {' and '.join(broken)}"
    return f"cannot tell {' and '.join(untold)}" if untold else "passed"


def document(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The JSON form: versions, a summary, all entries."""
    import transformers

    return {
        "mapped": len(causal_classes()),
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
        "code": code_sha256(),
        "summary": summary(entries),
        "classes": list(entries),
    }


def summary(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many were built, judged, broken; how long it took; whether any model was changed."""
    judged = [entry for entry in entries if "judged" in entry]
    seconds = [entry["cpu_seconds"] for entry in judged]
    return {
        "classes": len(entries),
        "built": sum(entry["built"] for entry in entries),
        "judged_for_causality": sum(entry["judged"].get("causality") in ("passed", "broken") for entry in judged),
        "every_law_judged": sum("cannot tell" not in entry["judged"].values() for entry in judged),
        "with_a_broken_law": sum("broken" in entry["judged"].values() for entry in judged),
        "changed_by_the_check": [entry["class"] for entry in judged if not entry["unchanged"]],
        "median_cpu_seconds": round(statistics.median(seconds), 2) if seconds else None,
        "longest_cpu_seconds": max(seconds, default=None),
    }


def rows(entries: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The cells of the table, a row for each class."""
    found = []
    for entry in entries:
        if "judged" not in entry:
            found.append((entry["class"], *([""] * len(LAWS)), "", in_words(entry)))
            continue
        cells = [SIGNS.get(entry["judged"].get(law, ""), "-") for law in LAWS]
        found.append((entry["class"], *cells, f"{entry['cpu_seconds']:.1f}", _remark(entry)))
    return found


def _remark(entry: dict[str, Any]) -> str:
    parts = [
        f"{finding['law']}: {finding['size']:.2g} at {finding['where']}{_how(finding['example'])}"
        for finding in entry["findings"]
    ]
    reasons: dict[str, list[str]] = {}
    for law, reason in entry["cannot_tell"].items():
        if not reason.startswith("it presumes"):
            reasons.setdefault(reason, []).append(law)
    parts += [f"{', '.join(laws)}: {reason}" for reason, laws in reasons.items()]
    return "; ".join(part[:160] for part in parts)


def _how(example: dict[str, Any]) -> str:
    words = [f"{key} {example[key]}" for key in ("side", "pieces", "rows", "path") if key in example]
    return f" ({', '.join(words)})" if words else ""


def sentence(found: dict[str, Any]) -> str:
    """The summary in a paragraph."""
    counts = found["summary"]
    return (
        f"transformers {found['transformers']}, torch {found['torch']}: of {counts['classes']} causal classes{_missing(found)} "
        f"{counts['built']} could be built small; {counts['judged_for_causality']} were judged for causality, "
        f"{counts['every_law_judged']} for every law that applies to them, and {counts['with_a_broken_law']} break a law. "
        f"A check took {counts['median_cpu_seconds']} s of one core (median), {counts['longest_cpu_seconds']} s at most. "
        f"Models that were not bit for bit the same afterwards: {', '.join(counts['changed_by_the_check']) or 'none'}."
    )


def _missing(found: dict[str, Any]) -> str:
    """A remark if only some classes were tested."""
    mapped, tried = found.get("mapped", 0), found["summary"]["classes"]
    return f" (there are {mapped}; {mapped - tried} were not tried)" if mapped > tried else ""


def markdown(found: dict[str, Any]) -> str:
    lines = [
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows(found["classes"])),
    ]
    return sentence(found) + "\n\n" + "\n".join(lines) + "\n"


def page(found: dict[str, Any]) -> str:
    """A self-contained HTML page without scripts."""
    head = "".join(f"<th>{escape(name)}</th>" for name in HEADINGS)
    body = "".join(
        "<tr>" + "".join(f"<td class='{_css(cell)}'>{escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row in rows(found["classes"])
    )
    style = "body{font:14px sans-serif;margin:2em}td,th{padding:2px 8px;text-align:left}"
    style += ".broken{background:#fbb}.ask{background:#ffb}"
    return (
        f"<!doctype html><meta charset='utf-8'><title>The laws on every causal class</title><style>{style}</style>"
        f"<h1>The laws on every causal class</h1><p>{escape(sentence(found))}</p><table><tr>{head}</tr>\n{body}</table>\n"
    )


def _css(cell: str) -> str:
    return {"BROKEN": "broken", "?": "ask"}.get(cell, "")


def stored_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """The entries of an interrupted run of the same code and libraries, by class; without wall-clock timeouts."""
    file, found = folder / STORED, dict[str, dict[str, Any]]()
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        with suppress(ValueError, KeyError):  # a line that was cut off
            document = json.loads(line)
            if document["build"] == _build() and not document["entry"].get("error", "").endswith(ON_THE_WALL):
                found[document["entry"]["class"]] = document["entry"]
    return found


def store_entry(entry: dict[str, Any], folder: Path) -> None:
    """Appends an entry for ``stored_entries``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / STORED).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"build": _build(), "entry": entry}) + "\n")


def _build() -> list[str]:
    import transformers

    return [code_sha256(), transformers.__version__, torch.__version__]


def write(entries: Sequence[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Writes ``zoo.json`` and ``zoo.html``; returns the document."""
    found = document(entries)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zoo.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (folder / "zoo.html").write_text(page(found), encoding="utf-8")
    return found


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("classes", nargs="*", metavar="CLASS", help="classes of transformers; default: every causal class")
    parser.add_argument("--workers", type=int, default=1, help="classes checked at once")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="most CPU seconds per class")
    parser.add_argument("--out", type=Path, default=Path("zoo"), help="folder for zoo.json and zoo.html")
    options = parser.parse_args(words)
    entries = run_zoo(
        options.classes or causal_classes(),
        workers=options.workers,
        limit=options.limit,
        say=print,
        known=stored_entries(options.out),
        store=lambda entry: store_entry(entry, options.out),
    )
    print(sentence(write(entries, options.out)))


if __name__ == "__main__":
    main()
