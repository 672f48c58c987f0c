"""A run -> its page: curves beside baselines, figures with intervals, cost by part, a sample, how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from glassformer.assembly import tools_for
from glassformer.evaluation.results import Evaluation
from glassformer.figures.curves import NATS, Curve, Points, cost_by_part, curve_panels, learning_curves, loss_by_position
from glassformer.foundation.config import flatten
from glassformer.foundation.files import write_atomically
from glassformer.foundation.metrics import TRAIN, VALIDATION, Metric
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.model.accounting import Cost, in_megabytes
from glassformer.pages.html import render
from glassformer.pages.page import Banner, Block, Cell, FigureBlock, Fold, Heading, KeyValues, Listing, Page, Paragraph, Table
from glassformer.recipe import DESCRIPTIVE
from glassformer.run import Run
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import abilities_of, last_validation, metric_of, progress_of
from glassformer.runs.records import MetricsLog

PERPLEXITY = "perplexity by token"


def write_report(run: Run, out: Path | str | None = None, *, watch: Watcher = SILENT) -> Path:
    """Writes the self-contained page of a run and gives its place."""
    file, page = Path(out) if out is not None else run.directory.report_file, render(run_page(run, watch=watch))
    try:
        write_atomically(file, page)
    except PermissionError:
        if out is not None:
            raise
        file = Path(f"{run.folder.resolve().name}-report.html")  # a run of a colleague's, which may only be read
        watch.say(f"{run.folder} is not writable, so the page is written to {file}.")
        write_atomically(file, page)
    return file


def write_curves(folders: Sequence[Path], out: Path | str, *, warn: Callable[[str], None] | None = None) -> Path:
    """Several runs on one page: how they stand, in what they differ, and their curves in one picture for each metric."""
    runs, names, records = _several(folders, warn)
    settings = [flatten(run.read_recipe()) for run in runs]
    differing = [
        key
        for key in dict.fromkeys(key for one in settings for key in one)
        if key not in DESCRIPTIVE and len({repr(one.get(key)) for one in settings}) > 1
    ]
    rows: list[list[Cell]] = []
    for name, run, own in zip(names, runs, settings):
        progress, metric = progress_of(run), metric_of(run)
        value = last_validation(run, metric.recorded)
        shown = [str(own.get(key, "")) for key in differing]
        rows.append([name, progress["status"], progress.get("step"), None if value is None else round(value, 4), *shown])
    header = ["run", "status", "step", "last validation", *differing]
    pictures: list[Block] = []
    panels, by = _panels(runs, names, records)
    for unit, curves in panels.items():
        caption = f"{unit.capitalize()} by {by}; dotted lines are training, lines with marks validation."
        picture = learning_curves(curves, unit=unit, steps_per_epoch=1.0 if by == "epoch" else None)
        pictures.append(FigureBlock(picture, caption=caption, alt=caption))
    page = Page(title=f"{len(runs)} runs", subtitle=", ".join(names), sections=[Table(header, rows), *pictures])
    write_atomically(Path(out), render(page))
    return Path(out)


def curves_figure(folders: Sequence[Path], *, warn: Callable[[str], None] | None = None) -> Figure:
    """The learning curves of one or several runs in one figure: the loss, and beside it what the runs are judged by.

    Beside the loss of language models stands their perplexity.
    """
    panels, by = _panels(*_several(folders, warn))
    if NATS in panels:
        panels |= {PERPLEXITY: [_perplexity(one) for one in panels[NATS]]}
    return curve_panels(panels, by=by, log=(PERPLEXITY,))


def _several(
    folders: Sequence[Path], warn: Callable[[str], None] | None
) -> tuple[list[RunDirectory], list[str], list[list[dict[str, Any]]]]:
    """Runs, their names (paths where two are called the same) and their records."""
    runs = [RunDirectory(Path(folder)) for folder in folders]
    for run in runs:
        run.require()
    names = [run.root.name for run in runs]
    if len({*names}) < len(names):
        names = [str(run.root) for run in runs]
    return runs, names, [MetricsLog(run.metrics_file).read(warn) for run in runs]


def _panels(
    runs: Sequence[RunDirectory], names: Sequence[str], records: Sequence[list[dict[str, Any]]]
) -> tuple[dict[str, list[Curve]], str]:
    """The curves of the loss and of what the runs are judged by, by unit; by epoch where all runs count epochs."""
    epochs = [
        run.read_environment().get("steps_per_epoch") if flatten(run.read_recipe()).get("training.epochs") else None
        for run in runs
    ]
    by, panels = "epoch" if all(epochs) else "step", dict[str, list[Curve]]()
    described = {one.name: one for one in map(metric_of, runs)}
    for name in dict.fromkeys(["loss", *described]):
        curves = [_curve(one, name, label) for label, one in zip(names, records)]
        if name != "loss" and not any(one.train or one.validation for one in curves):
            continue  # not measured yet
        unit = f"{name} ({described[name].unit})" if name in described else name
        panels[unit] = [one.scaled(1 / steps) if by == "epoch" and steps else one for one, steps in zip(curves, epochs)]
    return panels, by


def run_page(run: Run, *, watch: Watcher = SILENT) -> Page:
    """The page of one run. Measures the model where that was not done yet."""
    evaluation = run.evaluation(watch=watch) if "validation" in run.data.names else None
    metric = run.recipe.objective.metric(run.recipe.evaluation.by)
    recipe = run.recipe
    piece = recipe.training.batch_size // recipe.training.accumulate
    cost = recipe.model.cost(run.tokenizer.size, outputs=recipe.objective.outputs(run.data), batch=piece)
    sections: list[Block] = [Paragraph(recipe.about)] if recipe.about else []
    sections += [Paragraph(f"Note: {note}") for note in run.directory.notes()]
    sections += [Banner(str(one), "warning" if one.tone == "warning" else "note") for one in run.diagnosis()]
    if evaluation is None:
        sections.append(Paragraph("There is no validation text, so nothing was measured."))
    else:
        table = Table(evaluation.header(), evaluation.cells(), caption=evaluation.about(), tainted=evaluation.tainted)
        sections += [Heading("What it reached"), table]
        sections += [Paragraph(note) for note in (*evaluation.reasons(), *evaluation.notes)]
        wrong = recipe.objective.tables(evaluation.details)
        sections += [Heading("What it does wrong")] if wrong else []
        sections += [Table(header, rows, caption=title, tainted=evaluation.tainted) for title, header, rows in wrong]
    sections += _curves(run, evaluation, metric)
    sections += _cost(run, cost)
    sections += sample_blocks(run)
    sections += _again(run)
    return Page(
        title=f"Run {run.folder.name}",
        subtitle=f"{run.status} at step {run.summary()['step']}",
        sections=sections,
        tainted=run.tainted,
    )


def _curves(run: Run, evaluation: Evaluation | None, metric: Metric) -> list[Block]:
    """The loss and what the run is judged by, in training and validation; by epoch where training counts epochs."""
    records = run.records()
    per_epoch, described = epochs_of(run), {one.name: one for one in run.recipe.objective.metrics}
    blocks: list[Block] = [Heading("How it got there")]
    for name in dict.fromkeys(["loss", metric.name]):
        curve = _curve(records, name)
        if curve.train is None and curve.validation is None:
            continue
        unit = f"{name} ({described[name].unit})" if name in described else NATS if name == "loss" else name
        by = "epoch" if per_epoch else "step"
        caption = f"{name.capitalize()} by {by}. Level lines are the baselines on the same validation data."
        if name in described:
            caption = " ".join([caption, *_best(curve, described[name], per_epoch)])
        picture = learning_curves([curve], baselines=_levels(evaluation, name), unit=unit, steps_per_epoch=per_epoch)
        alt = f"Training and validation {name} against {by}s."
        blocks.append(FigureBlock(picture, caption=caption, alt=alt, tainted=run.tainted))
    if "perplexity" in {one.name for one in run.recipe.objective.metrics}:
        curve = _perplexity(_curve(records, "loss"))
        if curve.train is not None or curve.validation is not None:
            levels = _levels(evaluation, "perplexity")
            picture = learning_curves([curve], baselines=levels, unit=PERPLEXITY, log=True)
            caption = "Perplexity by token, e to the loss, on a logarithmic axis. Level lines are the baselines."
            blocks.append(FigureBlock(picture, caption=caption, alt="Perplexity against steps.", tainted=run.tainted))
    for picture, caption in run.recipe.objective.pictures({} if evaluation is None else evaluation.details):
        blocks.append(FigureBlock(picture, caption=caption, alt=caption, tainted=run.tainted))
    if evaluation is not None and "loss_by_position" in evaluation.details:
        curve = evaluation.details["loss_by_position"]  # None where it is not known, which becomes NaN
        means, errors = (np.array(curve[key], dtype=float) for key in ("mean", "standard_error"))
        picture = loss_by_position({"model": means}, {"model": errors})
        caption = (
            "Loss by position in the window: what more context is worth. The band is two standard errors wide on each side."
        )
        blocks.append(FigureBlock(picture, caption=caption, alt=caption, tainted=run.tainted))
    return blocks


def epochs_of(run: Run) -> float | None:
    """Steps of an epoch, where the recipe counts epochs."""
    known = run.directory.read_environment().get("steps_per_epoch")
    return known if run.recipe.training.epochs is not None and isinstance(known, int | float) and known > 0 else None


def _curve(records: list[dict[str, Any]], name: str, label: str = "") -> Curve:
    """One metric: in training, at the evaluations where it was measured there or else at every step, and in validation."""
    measured = Points.from_records(records, TRAIN + name)
    return Curve(
        label,
        measured or Points.from_records(records, name),
        Points.from_records(records, VALIDATION + name),
        measured is not None,
    )


def _perplexity(loss: Curve) -> Curve:
    """The curve of a loss once more, as e to the loss; a loss beyond all numbers is infinite, which shows as a gap."""
    with np.errstate(over="ignore"):
        return loss.mapped(lambda one: Points(one.steps, np.exp(one.values)))


def _best(curve: Curve, metric: Metric, per_epoch: float | None) -> list[str]:
    """Where training and validation were best, as a sentence; of single batches the best is luck, so it is left out."""
    said = []
    for what, points in (("training", curve.train if curve.measured else None), ("validation", curve.validation)):
        if points is not None and np.isfinite(points.values).any():
            values = {at: float(value) for at, value in enumerate(points.values) if np.isfinite(value)}
            at = metric.best(values)
            step = points.steps[at]
            when = f"epoch {step / per_epoch:.3g}" if per_epoch else f"step {step:,.0f}"
            said.append(f"{what} {values[at]:.4f} at {when}")
    return [f"Best: {'; '.join(said)}."] if said else []


def _levels(evaluation: Evaluation | None, name: str) -> dict[str, float]:
    if evaluation is None:
        return {}
    values = {baseline: figures[name].value for baseline, figures in evaluation.baselines.items() if name in figures}
    return {baseline: value for baseline, value in values.items() if value is not None}


def _cost(run: Run, cost: Cost) -> list[Block]:
    rows: list[list[Cell]] = [[part.name, part.copies, part.parameters, part.forward_flops] for part in cost.parts]
    rows.append(["all", None, cost.parameters, cost.forward_flops])
    evaluations = [record for record in run.records() if "seconds" in record]
    facts: dict[str, Cell] = {
        "FLOPs of one step (forward and backward)": cost.step_flops * run.recipe.training.accumulate,
        "weights": in_megabytes(cost.weight_bytes),
        "activations, one micro-batch": in_megabytes(cost.activation_bytes),
        "tokens per second": round(evaluations[-1]["tokens_per_second"]) if evaluations else None,
        "seconds of training, over all starts": round(evaluations[-1]["seconds"], 1) if evaluations else None,
    }
    return [
        Heading("What it cost"),
        FigureBlock(
            cost_by_part({part.name: part.parameters for part in cost.parts if part.parameters}, unit="parameters"),
            caption="Parameters by part.",
            alt="Bars of the number of parameters of each kind of part.",
        ),
        Table(["part", "copies", "parameters", "FLOPs forward, one micro-batch"], rows),
        KeyValues(facts),
        *_seconds(run),
    ]


def _seconds(run: Run) -> list[Block]:
    """Where the seconds went, of each process that worked on the run."""
    starts = run.directory.timings()
    if not starts:
        return []
    names = list(dict.fromkeys(name for start in starts for name in start["seconds"]))
    numbers = [""] if len(starts) == 1 else [f" of start {number}" for number in range(1, len(starts) + 1)]
    columns = [f"{kind}{number}" for number in numbers for kind in ("seconds", "CPU seconds")]
    rows: list[list[Cell]] = [
        [name, *(f"{start[kind].get(name, 0.0):.2f}" for start in starts for kind in ("seconds", "cpu"))] for name in names
    ]
    rows.append(["all", *(f"{start['whole'][kind]:.2f}" for start in starts for kind in ("seconds", "cpu"))])
    return [Table(["phase", *columns], rows, caption="Time by phase, from the start of the command to its end.")]


def sample_blocks(run: Run) -> list[Block]:
    """What the run's model writes, where it writes anything."""
    found = run.recipe.objective.sample(run.model, run.data, tools_for(run.recipe, run.tokenizer))
    heading = abilities_of(run.recipe.to_dict())["says"]
    return [] if found is None else [Heading(heading), Listing(found[0], caption=found[1])]


def _again(run: Run) -> list[Block]:
    environment = run.directory.read_environment()
    keys = ("glassformer", "python", "torch", "device_name", "precision", "threads", "platform")
    plugins = "".join(f" --plugin {shlex.quote(one['file'])}" for one in environment.get("plugins", []))
    data = environment.get("data", {})
    facts = {key: environment.get(key) for key in keys}
    facts |= {"data": data.get("source"), "sha256 of the data": data.get("sha256")}
    openings = run.directory.openings()
    facts["test split opened"] = f"{len(openings)} times" if openings else "never"
    return [
        Heading("How to run it again"),
        Listing(f"glassformer train {shlex.quote(str(run.directory.recipe_file))}{plugins} --out NEW"),
        KeyValues(facts, caption="The same build, device and number of threads give the same bits."),
        Fold("The recipe, resolved", [Listing(dump_yaml(run.recipe.to_dict()))]),
    ]
