"""The model card of an export: model, training data, metrics, checks; from the files of the run. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.runs.directory import RunDirectory

SHOWN = ("loss", "perplexity", "document_perplexity", "bits_per_byte", "accuracy", "exact_match")


def model_card(run: RunDirectory, class_name: str, *, parameters: int, step: int, notes: Sequence[str] = ()) -> str:
    """Markdown with the hub's front matter. No licence is written: that is the user's choice."""
    recipe = run.read_recipe()
    environment = run.read_environment() if run.environment_file.is_file() else {}
    opener = class_name if class_name in ("BertModel", "RobertaModel") else f"AutoModelFor{_task(class_name)}"
    loader = "AutoModel" if opener == class_name else opener
    sections = [
        "---\nlibrary_name: transformers\ntags:\n- glassformer\n---",
        f"# {run.root.resolve().name}",
        str(recipe.get("about") or "").strip(),
        f"A {class_name} with {parameters:,} parameters, made with Glassformer (step {step} of the run).",
        f'```python\nfrom transformers import AutoTokenizer, {loader}\n\ntokenizer = AutoTokenizer.from_pretrained("FOLDER")\n'
        f'model = {loader}.from_pretrained("FOLDER")\n```',
        *(f"Note: {note}" for note in notes),
        "## Data",
        _data(recipe, environment),
        "## Figures",
        _figures(run, step),
        "## Checks",
        _checks(environment),
        "## Recipe",
        f"```yaml\n{dump_yaml(recipe).strip()}\n```",
        "## Licence",
        "None is stated: it is for whoever publishes this to choose (`license:` in the head of this file).",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _task(class_name: str) -> str:
    return "MaskedLM" if class_name.endswith("MaskedLM") else "CausalLM"


def _data(recipe: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    imported = environment.get("imported")
    if imported:
        sums = ", ".join(f"{name} (sha256 `{sha256}`)" for name, sha256 in imported.get("sha256", {}).items())
        return f"Not trained here: the weights were imported from {sums}."
    record = environment.get("data") or {}
    source = record.get("source") or recipe.get("data", {}).get("set") or recipe.get("data", {}).get("path")
    lines = [f"Trained on {source}" + (f" (sha256 `{record['sha256']}`)." if record.get("sha256") else ".")]
    for name, split in (record.get("splits") or {}).items():
        lines.append(f"- {name}: {split.get('tokens', '?'):,} tokens" if isinstance(split.get("tokens"), int) else f"- {name}")
    return "\n".join(lines)


def _figures(run: RunDirectory, step: int) -> str:
    """All evaluations saved in the run for this step, with intervals, beside the baselines."""
    parts = []
    for file in sorted(run.evaluations.glob(f"*-step-{step}.json")):
        document = read_json(file)
        columns = {"model": document["metrics"], **document.get("baselines", {})}
        shown = [name for name in SHOWN if _estimate(document["metrics"].get(name)) is not None]
        head = f"| {document.get('name', file.stem)} | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}"
        rows = [
            "| " + " | ".join([name, *(_shown(figures.get(name)) for figures in columns.values())]) + " |" for name in shown
        ]
        taint = f"TAINTED: {document.get('taint', 'a check failed')}\n\n" if document.get("tainted") else ""
        parts.append(taint + "\n".join([head, *rows]))
    if not parts:
        return "None were measured for this checkpoint; `glassformer report RUN` measures the validation split and keeps it."
    return "\n\n".join([*parts, "Intervals are 95 %."])


def _estimate(figure: Any) -> Estimate | None:
    if not isinstance(figure, Mapping) or figure.get("value") is None:
        return None
    return Estimate(value=figure["value"], low=figure.get("low"), high=figure.get("high"), n=figure.get("n") or 0)


def _shown(figure: Any) -> str:
    estimate = _estimate(figure)
    return "" if estimate is None else str(estimate)


def _checks(environment: Mapping[str, Any]) -> str:
    checks = environment.get("checks")
    if not checks:
        return "Not recorded in the run; `glassformer check` tests the laws on the actual model."
    broken = {finding["law"] for finding in checks.get("findings") or []}
    lines = [f"- {law}: {'broken' if law in broken else 'passed'}" for law in checks.get("tested") or {}]
    lines += [f"- {law}: cannot tell" for law in checks.get("not_judged") or {}]
    if environment.get("tainted"):
        lines.append(f"- TAINTED: {environment['tainted']}")
    return "\n".join(lines) or ("All passed." if checks.get("passed") else "Some are broken.")
