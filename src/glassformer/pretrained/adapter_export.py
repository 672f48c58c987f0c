"""Exports a tuned encoder: as an adapter in peft's format, or as a plain folder with everything merged.

With ``model.pool: own`` plain peft and transformers compute the same logits from these files. With mean or first the encoder
is theirs, and the linear head is in head.safetensors, with its pooling in head.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.foundation.files import read_json, write_json
from glassformer.pretrained.folders import CONFIG
from glassformer.pretrained.heads import TwoLayerHead
from glassformer.pretrained.tuning.base import EncoderSizes, TuningConfig
from glassformer.pretrained.tuning.lora import LoraConfig, lora_maps
from glassformer.pretrained.tuning.prefix import Prefix
from glassformer.pretrained.tuning.prompt import Prompt

ADAPTER, ADAPTER_CONFIG, HEAD, HEAD_CONFIG = "adapter_model.safetensors", "adapter_config.json", "head.safetensors", "head.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = (
    "tokenizer.json",
    TOKENIZER_CONFIG,
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
_CLASSES = {
    "bert": "BertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "camembert": "CamembertForSequenceClassification",
    "electra": "ElectraForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
}


@dataclass(frozen=True)
class Answers:
    """What the scores of a network are: of these labels, one or ``several`` at once; or, with ``scale`` (the mean and the
    deviation of the training numbers), a number. An export multiplies the scale into its last layer: its score is the
    number itself."""

    names: Sequence[str]
    several: bool = False
    scale: tuple[float, float] | None = None

    @property
    def problem_type(self) -> str:
        """transformers' word for it."""
        several = "multi_label_classification" if self.several else "single_label_classification"
        return several if self.scale is None else "regression"

    @property
    def reading(self) -> str:
        """Python that makes an answer of the logits."""
        return "[:, 0]" if self.scale is not None else ".sigmoid()" if self.several else ".softmax(-1)"


def save_adapter(network: Any, folder: Path, *, answers: Answers) -> str:
    """Writes the trained weights in peft's format: lora, prompt and prefix. The base model is named in the config.

    Returns a description of the folder.
    """
    tuning: TuningConfig = network.config.tuning
    own = network.config.pool == "own"
    tensors, settings = _adapter(network.encoder, network.reader, tuning, network.sizes, own=own)
    folder.mkdir(parents=True, exist_ok=True)
    if own:
        # peft wraps the model once more for methods that change its layers than for those that only add inputs
        prefix = "base_model.model." if isinstance(tuning, LoraConfig) else "base_model."
        tensors |= {f"{prefix}{name}": tensor for name, tensor in _head_tensors(network, answers).items()}
        write_json(folder / CONFIG, _settings(network, class_of(network), answers))  # peft has no place for labels
    else:
        _save_head(network, folder, answers)
    common = {
        "base_model_name_or_path": base_name(network),
        "task_type": "SEQ_CLS" if own else "FEATURE_EXTRACTION",
        "inference_mode": True,
        "modules_to_save": ["classifier", "score", "pre_classifier"] if own else None,
    }
    _save(tensors, folder / ADAPTER)
    write_json(folder / ADAPTER_CONFIG, {**common, **settings})
    _copy_tokenizer(network, folder)
    return f"peft {tuning.kind}"


def base_name(network: Any) -> str:
    """The base model's name on the hub, or its folder's name: a path of this machine would mean nothing elsewhere."""
    name: str = network.config.folder
    return network.folder.resolve().name if Path(name).expanduser().is_dir() else name


def class_of(network: Any) -> str:
    """The class of transformers with this network's head."""
    return _CLASSES[network.encoder.config.model_type]


def save_merged(network: Any, folder: Path, *, answers: Answers) -> str:
    """Writes a plain folder that transformers opens without peft; returns its class. Prompts and prefixes cannot be merged.

    Without a head of its own (mean, first) config.json names no labels: transformers would put a random head under them.
    """
    if isinstance(network.reader, Prompt | Prefix):
        raise UsageError(
            f"model.tuning={network.config.tuning.kind} adds inputs that a plain folder cannot store; export it as an adapter "
            "(without --merge).",
            reason="needs-adapter",
        )
    own = network.config.pool == "own"
    tensors = merged_tensors(network.encoder)
    if own:
        base = network.encoder.base_model_prefix
        tensors = {f"{base}.{name}": tensor for name, tensor in tensors.items()}
        pooler = getattr(network.head, "pooler", None)
        if isinstance(pooler, nn.Module):
            tensors |= {f"{base}.pooler.{name}": tensor for name, tensor in pooler.state_dict().items()}
        tensors |= _head_tensors(network, answers)
    folder.mkdir(parents=True, exist_ok=True)
    class_name = class_of(network) if own else type(network.encoder).__name__
    write_json(folder / CONFIG, _settings(network, class_name, answers if own else None))
    _save(tensors, folder / "model.safetensors")
    if not own:
        _save_head(network, folder, answers)
    _copy_tokenizer(network, folder)
    return class_name


def _settings(network: Any, class_name: str, answers: Answers | None) -> dict[str, Any]:
    """config.json: the encoder's settings, without the path it was read from, and the labels where the class has a head."""
    document = {**network.encoder.config.to_dict(), "architectures": [class_name]}
    for key in ("_name_or_path", "id2label", "label2id", "num_labels", "problem_type"):
        document.pop(key, None)
    if answers is None:
        return document
    document |= {"id2label": {str(at): name for at, name in enumerate(answers.names)}, "problem_type": answers.problem_type}
    return {**document, "label2id": {name: at for at, name in enumerate(answers.names)}, "num_labels": len(answers.names)}


def _copy_tokenizer(network: Any, folder: Path) -> None:
    """The tokenizer's files; texts are cut at the run's context there too (``tokenizer(text, truncation=True)``)."""
    for name in TOKENIZER_FILES:
        if (network.folder / name).is_file():
            shutil.copyfile(network.folder / name, folder / name)
    stated = folder / TOKENIZER_CONFIG
    settings = read_json(stated) if stated.is_file() else {"tokenizer_class": "PreTrainedTokenizerFast"}
    padding = getattr(network.encoder.config, "pad_token_id", None)
    if "pad_token" not in settings and isinstance(padding, int):  # without it transformers does not batch texts
        settings["pad_token"] = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).id_to_token(padding)
    write_json(stated, {**settings, "model_max_length": network.dims.context})


def merged_tensors(encoder: nn.Module) -> dict[str, Tensor]:
    """The encoder's tensors under their usual names, with LoRA's products added in."""
    maps = dict(lora_maps(encoder))
    found: dict[str, Tensor] = {}
    for name, tensor in encoder.state_dict().items():
        parent, _, last = name.rpartition(".")
        if parent in maps:  # lora_A and lora_B
            continue
        if parent.endswith(".base") and parent.removesuffix(".base") in maps:
            tuned = maps[parent.removesuffix(".base")]
            name = f"{parent.removesuffix('.base')}.{last}"
            tensor = tuned.merged().detach() if last == "weight" else tensor
        found[name] = tensor
    return found


def loading_snippet(class_name: str, *, base: str | None, own: bool, answers: Answers) -> str:
    """Python that opens an export. ``base``: of an adapter; ``own``: with its head, which gives logits of the labels."""
    config = "AutoConfig, " if base is not None and own else ""
    lines = [f"from transformers import {config}AutoTokenizer, {class_name}"]
    if base is not None:
        lines.append("from peft import PeftModel")
    lines += ["", 'tokenizer = AutoTokenizer.from_pretrained("FOLDER")']
    if base is None:
        lines.append(f'model = {class_name}.from_pretrained("FOLDER").eval()')
    else:
        labels = ', config=AutoConfig.from_pretrained("FOLDER")' if own else ""
        lines.append(f'base = {class_name}.from_pretrained("{base}"{labels})  # or the path of its folder')
        lines.append('model = PeftModel.from_pretrained(base, "FOLDER").eval()')
    if own:
        lines += [
            'batch = tokenizer(["a text"], truncation=True, padding=True, return_tensors="pt")',
            f"{'probabilities' if answers.scale is None else 'numbers'} = model(**batch).logits{answers.reading}",
        ]
    return "\n".join(lines)


def _adapter(
    encoder: nn.Module, reader: nn.Module, tuning: TuningConfig, sizes: EncoderSizes, *, own: bool
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, settings) as peft names them."""
    if isinstance(tuning, LoraConfig):
        base = f"base_model.model.{str(encoder.base_model_prefix) + '.' if own else ''}"
        tensors = {}
        for name, module in lora_maps(encoder):
            tensors[f"{base}{name}.lora_A.weight"] = module.lora_A.detach()
            tensors[f"{base}{name}.lora_B.weight"] = module.lora_B.detach()
        settings = {"peft_type": "LORA", "r": tuning.rank, "lora_alpha": tuning.alpha, "lora_dropout": tuning.dropout}
        return tensors, {**settings, "target_modules": list(tuning.targets), "bias": "none"}
    added = {
        "num_virtual_tokens": tuning.places(),
        "token_dim": sizes.width,
        "num_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_transformer_submodules": 1,
    }
    if isinstance(reader, Prompt):
        return {"prompt_embeddings": reader.prompt.detach()}, {"peft_type": "PROMPT_TUNING", **added}
    if isinstance(reader, Prefix):
        settings = {"peft_type": "PREFIX_TUNING", **added, "encoder_hidden_size": sizes.width, "prefix_projection": False}
        return {"prompt_embeddings": reader.prefix.detach()}, settings
    raise UsageError(
        f"model.tuning={tuning.kind} has no adapter; export the run as a plain folder instead.", reason="no-adapter"
    )


def head_layers(network: Any) -> dict[str, nn.Module]:
    """The layers of the head by the names they have in transformers."""
    head = network.head
    if not isinstance(head, TwoLayerHead):
        return {"classifier": head.classifier}
    if network.encoder.config.model_type == "distilbert":
        return {"pre_classifier": head.dense, "classifier": head.out_proj}
    return {"classifier.dense": head.dense, "classifier.out_proj": head.out_proj}


def _head_tensors(network: Any, answers: Answers) -> dict[str, Tensor]:
    """The tensors of the head as transformers names them; of numbers, the last layer in the numbers' own units."""
    layers = list(head_layers(network).items())
    found = {f"{name}.{part}": tensor for name, layer in layers for part, tensor in layer.state_dict().items()}
    if answers.scale is not None:
        (mean, deviation), last = answers.scale, layers[-1][0]
        found[f"{last}.weight"] = found[f"{last}.weight"] * deviation
        found[f"{last}.bias"] = found[f"{last}.bias"] * deviation + mean
    return found


def _save_head(network: Any, folder: Path, answers: Answers) -> None:
    if network.config.pool == "own":
        raise ConfigError("the head of model.pool=own is part of the model's own files.", reason="head-in-own-files")
    _save(_head_tensors(network, answers), folder / HEAD)
    facts = {"pool": network.config.pool, "virtual": network.head.virtual, "labels": list(answers.names)}
    write_json(folder / HEAD_CONFIG, {**facts, "problem_type": answers.problem_type})


def _save(tensors: dict[str, Tensor], file: Path) -> None:
    save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}, file, {"format": "pt"})
