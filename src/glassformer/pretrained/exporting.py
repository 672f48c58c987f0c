"""A run's model and tokenizer -> a folder that transformers opens: safetensors, settings, tokenizer, model card."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.data.pairs.pair_batches import never_written
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json, whole_folder, write_atomically, write_json
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.model.config import ModelConfig
from glassformer.model.network import Network
from glassformer.model.transformer import Transformer
from glassformer.pretrained.family import Family, families
from glassformer.pretrained.folders import CONFIG, GENERATION_CONFIG, WEIGHTS
from glassformer.pretrained.tokenizer_conversion import TOKENIZER, TOKENIZER_CONFIG, config_of, document_of
from glassformer.pretrained.translation_rules import to_theirs
from glassformer.runs.directory import RunDirectory

CARD = "README.md"
CARD_METRICS = ("loss", "perplexity", "document_perplexity", "bits_per_byte", "accuracy", "macro_f1", "exact_match")


@dataclass(frozen=True)
class Exported:
    """What was written, and notes for the user."""

    folder: Path
    class_name: str
    notes: tuple[str, ...]


def fitting_architecture(config: ModelConfig) -> Family:
    """The transformers class that can represent every part; raises naming the obstacles of the nearest one."""
    fitting = (architecture for architecture in families() if architecture.reads_source == config.reads_source)
    found = {architecture: architecture.objections(config) for architecture in fitting}
    nearest = min(found, key=lambda architecture: len(found[architecture]))
    if not found[nearest]:
        return nearest
    remedy = "train a variant with parts of GPT-2, Llama, BERT, T5 or BART (docs/huggingface.md lists them)"
    if config.head.kind == "classifier":
        remedy = "`glassformer export RUN DIR --onnx` takes every classifier"
    raise ConfigError(
        f"This model has no class in transformers: {'; '.join(found[nearest])}, which {nearest.name}, the nearest one, has no "
        f"place for; {remedy}.",
        reason="no-class",
    )


def export(run: RunDirectory, model: Network, tokenizer: Tokenizer, folder: Path, *, step: int) -> Exported:
    """Writes the folder atomically. The files of the run are read for the model card, and not modified."""
    config = getattr(model, "config", None)
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            f"model.kind={run.read_recipe()['model'].get('kind', 'transformer')} is not built from our parts, so transformers "
            f"has no class for it; its weights are in {run.checkpoint(step)}, as safetensors.",
            reason="own-network-not-exported",
        )
    architecture = fitting_architecture(config)
    if not model.dims.scores_tokens:
        raise ConfigError(
            f"This model has no class in transformers: its {model.dims.num_outputs} outputs are not scores of its "
            f"{model.dims.vocabulary} tokens; its weights are in {run.checkpoint(step)}, as safetensors.",
            reason="no-class",
        )
    document = document_of(tokenizer)
    class_name = architecture.class_of(config)
    settings = {
        "architectures": [class_name],
        "model_type": architecture.model_type,
        "vocab_size": model.dims.vocabulary,
        "dtype": "float32",
        **architecture.write(config, model.dims, tokenizer),
    }
    if ends := run.eos_token_ids:
        settings["eos_token_id"] = ends[0] if len(ends) == 1 else ends
    weights = _prefixed(to_theirs(_tensors(model), architecture.rules(config, model.dims)), architecture, config)
    notes = _notes(config, tokenizer, class_name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not empty; choose another folder for the export.", reason="folder-not-empty")
    with whole_folder(folder) as draft:
        save_file(weights, draft / WEIGHTS, metadata={"format": "pt"})
        write_json(draft / CONFIG, settings)
        write_json(draft / TOKENIZER, document)
        write_json(draft / TOKENIZER_CONFIG, config_of(tokenizer, document, config.context))
        if config.reads_source:
            marks = {name: settings[name] for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id")}
            suppressed = {
                "suppress_tokens": never_written(tokenizer),
                "max_length": config.context,
                "_from_model_config": False,
            }
            write_json(draft / GENERATION_CONFIG, {**marks, **suppressed})
        parameters = sum(parameter.numel() for parameter in model.parameters())
        write_atomically(draft / CARD, model_card(run, class_name, parameters=parameters, step=step, notes=notes))
        (draft / WEIGHTS).chmod(0o644)
    return Exported(folder, class_name, notes)


@torch.no_grad()
def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Our tensors by name; computed positions become a table."""
    tensors: dict[str, Tensor] = dict(model.named_parameters())
    if not isinstance(model, Transformer):
        return tensors
    if type(model.config.of_layer(0).positions).applies_to == "embedding" and "positions.table.weight" not in tensors:
        weight, places = model.embedding.weight, torch.arange(model.dims.context, device=model.embedding.weight.device)
        nothing_1TD = torch.zeros(1, model.dims.context, model.dims.width, device=weight.device, dtype=weight.dtype)
        tensors["positions.table.weight"] = model.positions.embed(nothing_1TD, places.unsqueeze(0))[0]
    return tensors


def _prefixed(tensors: dict[str, Tensor], architecture: Family, config: ModelConfig) -> dict[str, Tensor]:
    """Adds the prefix of a class with a head; the head's own names have none."""
    if not architecture.class_of(config).endswith(("LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForConditionalGeneration")):
        return tensors
    heads = ("lm_head.", "embed_out.", "cls.")
    return {name if name.startswith(heads) else architecture.prefix + name: tensor for name, tensor in tensors.items()}


def _notes(config: ModelConfig, tokenizer: Tokenizer, class_name: str) -> tuple[str, ...]:
    notes = []
    if not config.causal and config.head.kind != "masked":
        notes.append(f"{class_name} gives vectors and no scores of the vocabulary, so model.head={config.head.kind} ends here.")
    if tokenizer.marks:
        notes.append(f"The marks {', '.join(tokenizer.marks)} are special tokens there: a text that spells one out becomes it.")
    tokenizer = getattr(tokenizer, "inner", tokenizer)  # without the marks
    if tokenizer.settings().get("lowercase"):
        notes.append("The tokenizer lowercases before it cuts words there, and after it here: 'St.' may be cut differently.")
    if tokenizer.kind == "word":
        notes.append("Decoding there puts a space between all words; the ids are the same.")
    return tuple(notes)


def model_card(
    run: RunDirectory, class_name: str, *, parameters: int, step: int, notes: Sequence[str] = (), loading: str | None = None
) -> str:
    """Markdown with the hub's front matter. No licence is written: that is the user's choice. ``loading``: Python that opens
    the folder."""
    recipe = run.read_recipe()
    environment = run.read_environment() if run.environment_file.is_file() else {}
    places = sorted(_places([recipe, environment.get("data")]), key=len, reverse=True)
    recipe, environment = _without_places(recipe, places), _without_places(environment, places)
    loader = "AutoModelForMaskedLM" if class_name.endswith("MaskedLM") else "AutoModelForCausalLM"
    if class_name.endswith("ForConditionalGeneration"):
        loader = "AutoModelForSeq2SeqLM"
    if class_name in ("BertModel", "RobertaModel"):
        loader = "AutoModel"
    loading = loading or (
        f'from transformers import AutoTokenizer, {loader}\n\ntokenizer = AutoTokenizer.from_pretrained("FOLDER")\n'
        f'model = {loader}.from_pretrained("FOLDER")'
    )
    sections = [
        "---\nlibrary_name: transformers\ntags:\n- glassformer\n---",
        f"# {run.root.resolve().name}",
        str(recipe.get("about") or "").strip(),
        f"A {class_name} with {parameters:,} parameters, made with Glassformer (step {step} of the run).",
        f"```python\n{loading}\n```",
        *(f"Note: {note}" for note in notes),
        "## Data",
        _about_data(recipe, environment),
        "## Figures",
        _metric_tables(run, step),
        "## Checks",
        _about_checks(environment),
        "## Recipe",
        f"```yaml\n{dump_yaml(recipe).strip()}\n```",
        "## Licence",
        "None is stated: it is for whoever publishes this to choose (`license:` in the head of this file).",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _without_places(value: Any, places: Sequence[str]) -> Any:
    """A document whose texts name files and folders without the way to them: a card is published."""
    if isinstance(value, Mapping):
        return {name: _without_places(one, places) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_places(one, places) for one in value]
    for place in places if isinstance(value, str) else ():
        value = re.sub(rf"(?<![\w./-]){re.escape(place)}(?![\w-])", Path(place).name.replace("\\", r"\\"), value)
    return value


def _places(value: Any) -> set[str]:
    """Every absolute path among the values of a document."""
    if isinstance(value, Mapping):
        return _places(list(value.values()))
    if isinstance(value, list | tuple):
        return {place for one in value for place in _places(one)}
    is_place = isinstance(value, str) and "\n" not in value and Path(value).is_absolute() and Path(value).name != ""
    return {value} if is_place else set()


def _about_data(recipe: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
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


def _metric_tables(run: RunDirectory, step: int) -> str:
    """All evaluations saved in the run for this step, with intervals, beside the baselines."""
    parts = []
    for file in sorted(run.evaluations.glob(f"*-step-{step}.json")):
        document = read_json(file)
        columns = {"model": document["metrics"], **document.get("baselines", {})}
        shown = [name for name in CARD_METRICS if _cell(document["metrics"].get(name))]
        head = f"| {document.get('name', file.stem)} | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}"
        rows = ["| " + " | ".join([name, *(_cell(figures.get(name)) for figures in columns.values())]) + " |" for name in shown]
        taint = f"TAINTED: {document.get('taint', 'a check failed')}\n\n" if document.get("tainted") else ""
        parts.append(taint + "\n".join([head, *rows]))
    if not parts:
        return "None were measured for this checkpoint; `glassformer report RUN` measures the validation split and keeps it."
    return "\n\n".join([*parts, "Intervals are 95 %."])


def _cell(figure: Any) -> str:
    """Empty where there is no such figure."""
    return str(Estimate.from_dict(figure)) if isinstance(figure, dict) and figure.get("value") is not None else ""


def _about_checks(environment: Mapping[str, Any]) -> str:
    checks = environment.get("checks")
    if not checks:
        return "Not recorded in the run; `glassformer check` tests the laws on the actual model."
    lines = [f"- {law}: {outcome}" for law, outcome in checks["judged"].items()]
    if environment.get("tainted"):
        lines.append(f"- TAINTED: {environment['tainted']}")
    return "\n".join(lines)
