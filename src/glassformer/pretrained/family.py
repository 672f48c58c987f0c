"""Published language models as tables: ``families/*.yaml`` -> their settings and tensor names as ours, and back.

A table holds the model's recipe with ``$setting`` where a number comes from config.json, and the name of every tensor. The
same recipe is read forwards to import (settings -> our config) and backwards to export (our config -> settings, or what
does not fit). A new family is a new file; what it may say is at the head of families/llama.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, final

import torch

from glassformer.data.pairs.pair_batches import END, PAD, START
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.foundation.registry import Slot
from glassformer.foundation.yaml_text import read_yaml
from glassformer.model.config import LISTS, ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.network import MODELS
from glassformer.pretrained.translation_rules import ACTIVATION_NAMES, ACTIVATIONS, Rule, Settings, marks_of

FOLDER = Path(__file__).with_name("families")
ROPE = {"rope_theta": 10000.0, "partial_rotary_factor": 1.0}
"""Settings inside ``rope_parameters``, with what they are when they are absent."""
WINDOW = "window"
"""Not a setting but three: sliding_window, use_sliding_window and layer_types; or nanochat's window_pattern."""
VALUES = "value_embedding"
"""Not a setting: nanochat has value embeddings in every other layer, the last among them."""
OUTPUT = "output"
"""Not a setting but two, tie_word_embeddings and scale_decoder_outputs, and whether there is a matrix of the head (T5)."""
OWN_HEAD = "lm_head.weight"
PLACES = "places"
"""Not a setting: max_position_embeddings without the rows before the first token's, pad_token_id + 1 of them (RoBERTa)."""
ABSENT = object()
"""What a translation gives where our part has no such setting."""
JOINS = ("kind", "encoder", "decoder", "embeddings", "cross")
"""What a recipe of an encoder-decoder says beside its two sides."""


class Translation(NamedTuple):
    """How a setting of theirs becomes one of ours, and back. A ``KeyError``: there is no such value."""

    to_ours: Callable[[Any], Any]
    to_theirs: Callable[[Any], Any]


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _projection(name: str) -> tuple[str, str]:
    """T5's name of a feed-forward -> our kind, and our activation of a gated one."""
    gated, _, activation = name.rpartition("-")
    if not gated:
        return ACTIVATIONS[activation], ""
    return "gated", {"gelu": "gelu-tanh", "silu": "silu", "relu": "relu"}[activation]


def _head_name(head: Mapping[str, Any]) -> str:
    names = {("tied", "inverse-sqrt"): "scaled", ("tied", "one"): "tied", ("untied", None): "untied"}
    return names[head["kind"], head.get("bias") or head.get("scale")]


def _number_before(number: int) -> int:
    if number < 1:
        raise KeyError("1 or more")
    return number - 1


TRANSLATIONS: dict[str, Translation] = {
    "same": Translation(lambda value: value, lambda value: value),
    "tied": Translation(lambda flag: "tied" if flag else "untied", {"tied": True, "untied": False}.__getitem__),
    "activation": Translation(ACTIVATIONS.__getitem__, ACTIVATION_NAMES.__getitem__),
    "root": Translation(lambda flag: "sqrt" if flag else 1.0, {"sqrt": True, 1.0: False}.__getitem__),
    "projection": Translation(lambda name: _projection(name)[0], {**ACTIVATION_NAMES, "gated": "gated-gelu"}.__getitem__),
    "gate": Translation(
        lambda name: _projection(name)[1] or ABSENT,
        {"gelu-tanh": "gated-gelu", "silu": "gated-silu", "relu": "gated-relu"}.__getitem__,
    ),
    "t5_head": Translation(
        {
            "scaled": {"kind": "tied", "scale": "inverse-sqrt"},
            "tied": {"kind": "tied"},
            "untied": {"kind": "untied"},
        }.__getitem__,
        _head_name,
    ),
    "at_least_one": Translation(lambda value: value, lambda value: max(1, value)),
    "next": Translation(lambda number: number + 1, _number_before),
    "inverse_root": Translation(lambda value: value**-0.5, lambda scale: _whole(round(scale**-2.0, 6))),
}


@dataclass(frozen=True)
class Placeholder:
    """``$name`` in a table, or ``$one,other:translation``: the largest of several settings, in our form."""

    names: tuple[str, ...]
    translation: Translation

    @classmethod
    def of(cls, value: Any) -> Placeholder | None:
        if not isinstance(value, str) or not value.startswith("$"):
            return None
        names, _, how = value[1:].partition(":")
        return cls(tuple(names.split(",")), TRANSLATIONS[how or "same"])


@dataclass(frozen=True)
class TensorEntry:
    """A line of a table: one layer of ours (or one tensor), and the layers of theirs that it is made of."""

    ours: str
    theirs: tuple[str, ...]
    bias: bool | str | None = None
    """Whether theirs has a bias: true, false, the setting that says so, or (None) wherever ours has."""
    always: bool = False
    """Whether theirs has the tensor even where ours has none: zeros are written."""
    transposed: bool = False
    heads_outside: bool = False
    """Theirs holds queries, keys and values of one head side by side, head after head."""
    turned_back: tuple[int, ...] = ()
    """Parts whose heads have their halves swapped there: the same rotation in the other direction."""
    each: str | None = None
    """The setting that says how many experts there are; their number stands where a name has an N between dots."""
    zero: bool = False
    """Ours has no place for it: theirs must be zero, and is not written."""

    def parts(self, captured: Mapping[str, Any], end: str = "") -> tuple[str, ...]:
        """The names of their tensors, in the order in which ours holds them."""
        names = self.theirs
        if self.each is not None:
            names = tuple(name.replace(".N.", f".{n}.") for n in range(captured[self.each]) for name in self.theirs)
        return tuple(name + end for name in names)

    @classmethod
    def of(cls, ours: str, value: Any, *, inside: tuple[str, str] = ("", "")) -> TensorEntry:
        options: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {"names": value}
        names, number = options.pop("names"), inside[1].rpartition(".")[0].rpartition(".")[2]
        theirs = tuple(  # a name that begins with a slash stands beside the layers, with their number
            name[1:].replace("N", number) if name.startswith("/") else inside[1] + name
            for name in ([names] if isinstance(names, str) else names)
        )
        options = {key: tuple(option) if isinstance(option, list) else option for key, option in options.items()}
        return cls(inside[0] + ours, theirs, **options)


@final
class Family:
    """One table. ``name``: the class of an export, unless ``class_of`` says otherwise; ``classes``: those that are read."""

    def __init__(self, file: Path) -> None:
        table = read_yaml(file)
        self.name, self.model_type = table["class"], table["model_type"]
        self.prefix: str = table["prefix"]
        """Of tensor names in a class with a head, absent in the bare model."""
        self.classes = (self.name, table["bare"], *table.get("also", ()))
        self.spare = tuple(table.get("spare", ()))
        """Ends of the names of tensors that are no weights: masks, positions, rotations computed from the settings."""
        self.unused = tuple(table.get("unused", ()))
        """Beginnings of the names of weights that our model does not use; leaving them out is reported."""
        self.heads: list[dict[str, Any]] = table.get("heads", [])
        """Heads that a model of this family may have, each with the tensor by which it is known; the last without."""
        self.defaults: dict[str, Any] = table["settings"]
        self.only: dict[str, list[Any]] = table.get("only", {})
        self.recipe: dict[str, Any] = table["model"]
        self.reads_source = self.recipe.get("kind") == "encoder-decoder"
        self.templates = _templates(self.recipe) if self.reads_source else {"": self.recipe}
        self.tensors: dict[str, Any] = table["tensors"]
        self.in_layers: dict[str, Any] = table["layer_tensors"] if self.reads_source else {"": table["layer_tensors"]}
        self.layers_called: dict[str, str] = table["layers"] if self.reads_source else {"": table["layers"]}
        self.repeats: list[str] | dict[str, str] = table.get("copies", [])
        """Names of tensors that some files hold twice: of the token table, or each with the name it is read by."""

    # -- settings -> our config

    def read(self, settings: Settings, tensors: Set[str]) -> dict[str, Any]:
        """The ``model`` section of a recipe. Raises a ``DataError`` naming an unsupported setting."""
        for name, allowed in self.only.items():
            settings.must(name, *allowed)
        if OUTPUT in self.defaults:
            settings = Settings({**settings.values, OUTPUT: _output(settings, tensors)}, settings.file)
        head = next(({"head": one["head"]} for one in self.heads if one.get("tensor") in (None, *tensors)), {})
        sides = {side: self._side({**template, **head}, settings) for side, template in self.templates.items()}
        values = sides[""] if not self.reads_source else self._joined(settings, **sides)
        try:
            unfit = self.objections(MODELS.parse(values))
        except ConfigError:
            return values  # whoever parses it again names the setting
        if unfit:
            raise DataError(
                f"the settings ask for a model that cannot become ours: {'; '.join(unfit)}.",
                file=settings.file,
                reason="bad-setting",
            )
        return values

    def _side(self, template: dict[str, Any], settings: Settings) -> dict[str, Any]:
        layers = settings.whole(*next((each, 1) for each in Placeholder.of(template["layers"]).names))  # type: ignore[union-attr]
        of_layers = [self._filled(template, settings, layer) for layer in range(layers)]
        values: dict[str, Any] = dict(of_layers[0])
        for slot in LISTS:
            if slot in values and any(each[slot] != values[slot] for each in of_layers):
                values[slot] = [each[slot] for each in of_layers]
        return _simplified(values)

    def _joined(self, settings: Settings, encoder: dict[str, Any], decoder: dict[str, Any]) -> dict[str, Any]:
        """Both sides as one section: the decoder's values, and what is different in the encoder."""
        joins = {key: self._filled(self.recipe[key], settings, 0) for key in ("embeddings", "cross")}
        different = {key: value for key, value in encoder.items() if key != "causal" and decoder[key] != value}
        del decoder["causal"]
        return {"kind": self.recipe["kind"], **decoder, **joins, **({"encoder": different} if different else {})}

    def _filled(self, template: Any, settings: Settings, layer: int) -> Any:
        if isinstance(template, Mapping):
            if template.keys() == {"any"}:
                return template["any"]
            filled = {key: self._filled(value, settings, layer) for key, value in template.items()}
            return {key: value for key, value in filled.items() if value is not ABSENT}
        if isinstance(template, str) and "|" in template:
            return template.split("|")[0]
        place = Placeholder.of(template)
        if place is None:
            return template
        found = [self._setting(name, settings, layer) for name in place.names]
        value = found[0] if len(found) == 1 else max(found)
        try:
            return place.translation.to_ours(value)
        except KeyError:
            known = ", ".join(ACTIVATIONS)
            raise settings.refusal(place.names[0], f"is an activation we do not have; use one of {known}") from None

    def _setting(self, name: str, settings: Settings, layer: int) -> Any:
        if name == WINDOW:
            return _window(settings, layer, self.defaults)
        if name == VALUES:
            return _values(settings.whole("n_layer", self.defaults["n_layer"]), layer)
        if name == PLACES:
            rows = self._setting("max_position_embeddings", settings, layer)
            return rows - self._setting("pad_token_id", settings, layer) - 1
        if name in ROPE:
            return _rope(settings, name, self.defaults.get(name, ROPE[name]))
        default = self.defaults[name]
        if isinstance(default, str) and default.startswith("$"):  # as large as another setting
            return settings.whole(name, self._setting(default[1:], settings, layer))
        if isinstance(default, bool):
            return settings.flag(name, default)
        if isinstance(default, int):
            return settings.whole(name, default, least=0 if name == "pad_token_id" else 1)
        if isinstance(default, float):
            return settings.number(name, default)
        value = settings.values.get(name, default)
        return default if value is None else value

    # -- our config -> settings

    def objections(self, config: ModelConfig) -> list[str]:
        """Why this class cannot represent a model of ours, one reason per part, as ``key=value is not ...``."""
        if config.reads_source != self.reads_source:
            return [f"model.kind={config.kind}"]
        captured, wrong = self._captured(config)
        if not wrong:
            shapes = _shapes(config)
            for entry in self._entries(config):
                if f"{entry.ours}.bias" in shapes and not self._has_bias(entry, captured, shapes):
                    wrong.append(f"a bias of {re.sub(r'blocks[.][0-9]+[.]', '', entry.ours)}")
        return list(dict.fromkeys(wrong))

    def class_of(self, config: ModelConfig) -> str:
        """The class for a model of ours."""
        return next((one["class"] for one in self.heads if one["head"]["kind"] == config.head.kind), self.name)

    def write(self, config: ModelConfig, dims: Dims, tokenizer: Tokenizer) -> dict[str, Any]:
        """The settings of config.json without a suitable default."""
        captured, _ = self._captured(config)
        written = {name: allowed[0] for name, allowed in self.only.items() if allowed}
        written |= {name: value for name, value in captured.items() if name not in (*ROPE, WINDOW, OUTPUT, PLACES)}
        if PLACES in captured:
            written["max_position_embeddings"] = captured[PLACES] + captured["pad_token_id"] + 1
        pattern = "window_pattern" in self.defaults
        rope = {name: captured[name] for name in ROPE if name in captured}
        if rope:
            written |= {"rope_parameters": {"rope_type": "default", **rope}, **rope}
        if pattern:
            written["window_pattern"] = _pattern(captured[WINDOW])
        elif WINDOW in captured:
            windows = captured[WINDOW]
            written["sliding_window"] = next(filter(None, windows), None)
            if "layer_types" in self.defaults:
                written["layer_types"] = ["sliding_attention" if each else "full_attention" for each in windows]
            if "use_sliding_window" in self.defaults:
                written["use_sliding_window"] = any(windows)
        if OUTPUT in captured:
            written |= {
                "tie_word_embeddings": captured[OUTPUT] != "untied",
                "scale_decoder_outputs": captured[OUTPUT] == "scaled",
            }
        return {**(_marks_of_pairs(tokenizer) if self.reads_source else marks_of(tokenizer)), **written}

    def _captured(self, config: ModelConfig) -> tuple[dict[str, Any], list[str]]:
        """The settings that a model of ours stands for, and what has no place in this family."""
        captured: dict[str, Any] = {}
        wrong: list[str] = []
        windows: list[int | None] = []
        for side, part in _sides(config).items():
            template = self.templates[side]
            for layer in range(max(1, part.layers)):
                found: dict[str, Any] = {}
                plain = _defaults_of(part, layer, template.keys())
                whole = _whole_form(part, layer)
                head = whole["head"] if "head" in template else whole.pop("head")  # of an encoder nothing uses it, or see below
                _match(template, whole, plain, "model", found, wrong)
                if self.heads:
                    of_head = dict[str, Any]()
                    fitting = [one["head"] for one in self.heads if one["head"]["kind"] == head["kind"]] or [
                        self.heads[0]["head"]
                    ]
                    _match(fitting[0], head, None, "model.head", of_head, wrong)
                    wrong += [
                        f"model.head has another {name} than the layers"
                        for name, value in of_head.items()
                        if found.setdefault(name, value) != value
                    ]
                windows.append(found.pop(WINDOW, None))
                if VALUES in found and (values := found.pop(VALUES)) != _values(config.layers, layer):
                    wrong.append(f"model.mixer.values={_shown(values)} in layer {layer}")
                for name, value in found.items():
                    if captured.setdefault(name, value) != value:
                        wrong.append(f"{name} is not the same in every layer")
        if self.reads_source:
            joined: Any = config
            cross, usual = ({**one.to_dict(), "fused": True} for one in (joined.cross, type(joined.cross)()))
            _match(self.recipe["cross"], cross, usual, "model.cross", captured, wrong)
            _match_value(self.recipe["embeddings"], joined.embeddings, "model.embeddings", captured, wrong)
        if any(WINDOW in str(value) for value in _leaves(self.recipe) if str(value).startswith("$")):
            captured[WINDOW] = windows
            if "window_pattern" in self.defaults:
                asked = Settings({"window_pattern": _pattern(windows), "sequence_len": config.context}, "")
                if windows != [_window(asked, layer, {}) for layer in range(len(windows))]:
                    wrong.append("model.mixer.window is not a quarter of the context and none in the last layer")
            if len({each for each in windows if each}) > 1:
                wrong.append("model.mixer.window has several lengths")
        return captured, wrong

    # -- tensors

    def rules(self, config: ModelConfig, dims: Dims) -> list[Rule]:
        """The mapping of our tensors to their names, without ``prefix``."""
        captured, shapes = self._captured(config)[0], _shapes(config, dims.vocabulary)
        rules, sides = [], _sides(config)
        for entry in self._entries(config):
            part = sides.get(entry.ours.partition(".")[0], config)
            if entry.zero:
                rules.append(Rule(entry.ours, entry.theirs, ()))
                continue
            if entry.ours in shapes:  # one tensor
                rules.append(Rule(entry.ours, entry.theirs, (shapes[entry.ours][0],)))
                continue
            weight, bias = f"{entry.ours}.weight", f"{entry.ours}.bias"
            if weight not in shapes and not entry.always:
                continue
            names = entry.parts(captured, ".weight")
            shape = shapes.get(weight, torch.Size((dims.context if entry.ours == "positions.table" else 1,)))
            rows = _rows(shape[0] * shape[1] if len(shape) == 3 else shape[0], len(names), entry, part)
            layout: dict[str, Any] = {"heads": dims.heads if entry.heads_outside else 0, "turned_back": entry.turned_back}
            rules.append(Rule(weight, names, rows, entry.transposed, head_width=dims.head_width, **layout))
            if self._has_bias(entry, captured, shapes):
                rules.append(Rule(bias, entry.parts(captured, ".bias"), rows, head_width=dims.head_width, **layout))
        return rules

    def copies(self, config: ModelConfig) -> dict[str, str]:
        """Names of duplicates of a tensor in some files, and the name it is read by."""
        if isinstance(self.repeats, dict):
            return self.repeats
        head, table = (
            ("decoder.head.weight", "encoder.embedding.weight") if self.reads_source else ("head.weight", "embedding.weight")
        )
        names = [TensorEntry.of("", self.tensors[ours]).theirs[0] for ours in (head, table)]
        of_head = (config if not self.reads_source else _sides(config)["decoder"]).head
        tied = getattr(of_head, "tied", of_head.kind == "tied")
        return {**dict.fromkeys(self.repeats, names[1]), **({names[0]: names[1]} if tied else {})}

    def _entries(self, config: ModelConfig) -> list[TensorEntry]:
        entries = [TensorEntry.of(ours, theirs) for ours, theirs in self.tensors.items()]
        for side, part in _sides(config).items():
            for layer in range(part.layers):
                inside = f"{side}.blocks.{layer}.".removeprefix("."), f"{self.layers_called[side]}.{layer}."
                entries += [TensorEntry.of(ours, theirs, inside=inside) for ours, theirs in self.in_layers[side].items()]
        return entries

    def _has_bias(self, entry: TensorEntry, captured: Mapping[str, Any], shapes: Mapping[str, Any]) -> bool:
        if entry.bias is None:
            return f"{entry.ours}.bias" in shapes
        return bool(captured[entry.bias]) if isinstance(entry.bias, str) else entry.bias


@cache
def families() -> tuple[Family, ...]:
    """Every table; those in which a plain model of ours is exported first."""
    files = sorted(FOLDER.glob("*.yaml"), key=lambda file: (file.stem not in ("gpt2", "llama"), file.stem))
    return tuple(Family(file) for file in files)


def _shapes(config: ModelConfig, vocabulary: int = 1) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in config.shapes(vocabulary).named_parameters()}


def _templates(recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The recipe of each side of an encoder-decoder."""
    both = {key: value for key, value in recipe.items() if key not in JOINS}
    encoder = {key: value for key, value in both.items() if key != "head"}
    return {
        "encoder": {**encoder, **recipe.get("encoder", {}), "causal": False},
        "decoder": {**both, **recipe.get("decoder", {}), "causal": True},
    }


def _sides(config: Any) -> dict[str, ModelConfig]:
    """An encoder-decoder as two Transformers; any other model under no name."""
    return {side: config.side(side) for side in ("encoder", "decoder")} if config.reads_source else {"": config}


def _output(settings: Settings, tensors: Set[str]) -> str:
    """How T5 makes scores: vectors divided by the root of the width (T5), or not (T5 1.1, there with a matrix of its own)."""
    if settings.flag("scale_decoder_outputs", settings.flag("tie_word_embeddings", True)):
        return "scaled"
    return "untied" if OWN_HEAD in tensors else "tied"


def _marks_of_pairs(tokenizer: Tokenizer) -> dict[str, int]:
    start, end, pad = (tokenizer.mark_id(mark) for mark in (START, END, PAD))
    return {"decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": pad}


def _rows(rows: int, parts: int, entry: TensorEntry, config: ModelConfig) -> tuple[int, ...]:
    """The rows of each of their tensors in ours."""
    if entry.ours.endswith(".qkv") and parts == 3:
        dims = config.dims(vocabulary=1)
        of_keys = (getattr(config.of_layer(0).mixer, "kv_heads", None) or dims.heads) * dims.head_width
        return dims.attention_width, of_keys, of_keys
    return (rows // parts,) * parts


def _rope(settings: Settings, name: str, default: float) -> float:
    """A number of the rotation, from newer or older files; any way to stretch it is refused."""
    newer, older = settings.values.get("rope_parameters"), settings.values.get("rope_scaling")
    for key, group in (("rope_parameters", newer), ("rope_scaling", older)):
        if group is None:
            continue
        if not isinstance(group, Mapping):
            raise settings.refusal(key, "must be a mapping")
        if group.get("rope_type", group.get("type", "default")) != "default":
            raise settings.refusal(key, "stretches or cuts the rotation, and ours is the plain one; it can be 'default'")
    if isinstance(newer, Mapping) and name in newer:
        return Settings(newer, settings.file).number(name, default)
    older_name = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}[name]
    return settings.number(name, settings.number(older_name, default))


def _window(settings: Settings, layer: int, defaults: Mapping[str, Any]) -> int | None:
    """The window of a layer; one that is as long as the context is none. A folder without ``layer_types`` (older ones) has them
    in an order that its family fixes: those of its defaults in turns, or a window from layer ``max_window_layers`` on."""
    pattern = settings.values.get("window_pattern")
    if isinstance(pattern, str) and pattern:  # tiled over the layers; S: a quarter of the context in whole hundred and 28s
        context, last = settings.whole("sequence_len"), settings.values.get("n_layer", len(pattern)) - 1
        quarter = 1 - (-context // 4 // 128) * 128  # the token itself and so many before it
        return quarter if pattern[layer % len(pattern)] in "Ss" and layer != last and quarter < context else None
    kinds = settings.values.get("layer_types")
    if settings.values.get("sliding_window", defaults.get("sliding_window")) is None:
        return None
    if not settings.flag("use_sliding_window", bool(kinds) or defaults.get("use_sliding_window", True)):
        return None
    kinds = kinds or defaults.get("layer_types")
    if isinstance(kinds, Sequence) and kinds[layer % len(kinds)] == "full_attention":
        return None
    whole_layers = settings.whole("max_window_layers", defaults.get("max_window_layers", 0), least=0)
    if not kinds and "max_window_layers" in defaults and layer < whole_layers:
        return None
    window = settings.whole("sliding_window", defaults.get("sliding_window"))
    return None if window >= settings.whole("max_position_embeddings", window) else window


def _pattern(windows: Sequence[int | None]) -> str:
    return "".join("S" if each else "L" for each in windows)


def _values(layers: int, layer: int) -> dict[str, Any]:
    """nanochat's value embeddings: in every other layer, the last among them."""
    return {"kind": "embedding", "gate": 12} if layer % 2 == (layers - 1) % 2 else {"kind": "none"}


def _simplified(values: dict[str, Any]) -> dict[str, Any]:
    """Without sizes that are what they would be anyway."""
    if values.get("head_width") is not None and values["head_width"] * values["heads"] == values["width"]:
        del values["head_width"]
    mixers = values.get("mixer", [])
    for mixer in mixers if isinstance(mixers, list) else [mixers]:
        if mixer.get("kv_heads") == values["heads"]:
            del mixer["kv_heads"]
        if mixer.get("bias") == values.get("bias", True):
            del mixer["bias"]
    return values


def _whole_form(config: ModelConfig, layer: int) -> dict[str, Any]:
    """Our config as it holds in one layer, with every size spelt out."""
    choices, dims = config.of_layer(layer), config.dims(vocabulary=1)
    values = {**config.to_dict(), **{slot: choice.to_dict() for slot, choice in choices._asdict().items()}}
    values["head_width"] = dims.head_width
    del values["init"]  # where the weights began
    mixer, feedforward = values["mixer"], values["feedforward"]
    if mixer["kind"] in ("dot", "grouped"):
        mixer |= {"kind": "dot", "kv_heads": mixer["kv_heads"] or config.heads, "fused": True}
        mixer["bias"] = config.bias if mixer["bias"] is None else mixer["bias"]
        mixer["scale"] = dims.head_width**-0.5 if mixer["scale"] is None else mixer["scale"]
    if "inner" in feedforward:
        feedforward |= {"inner": choices.feedforward.inner_width(dims), "expansion": None}  # type: ignore[attr-defined]
    return values


def _defaults_of(config: ModelConfig, layer: int, named: Set[str]) -> dict[str, Any]:
    """What ``_whole_form`` has where a recipe says nothing: a part or setting that a table does not name must be this."""
    choices = {**config.of_layer(layer)._asdict(), "head": config.head}
    plain = {slot: type(choice)().to_dict() for slot, choice in choices.items() if slot in named}
    sizes = {"width": config.width, "heads": config.heads, "layers": config.layers, "bias": config.bias}
    values = {**ModelConfig().to_dict(), **plain, **sizes, "vocabulary": config.vocabulary}
    values["head_width"] = config.width // config.heads
    if values["mixer"]["kind"] in ("dot", "grouped"):
        values["mixer"] |= {"kind": "dot", "kv_heads": config.heads, "bias": config.bias, "fused": True}
        values["mixer"]["scale"] = config.dims(vocabulary=1).head_width ** -0.5
    if "inner" in values["feedforward"]:
        values["feedforward"] |= {"expansion": None}
    return values


def _leaves(template: Any) -> list[Any]:
    if isinstance(template, Mapping):
        return [leaf for value in template.values() for leaf in _leaves(value)]
    return [template]


def _match(template: Any, ours: Any, plain: Any, at: str, captured: dict[str, Any], wrong: list[str]) -> None:
    """Lays our values over a table: fills ``captured`` with settings of theirs and ``wrong`` with what does not fit."""
    if not isinstance(template, Mapping):
        _match_value(template, ours, at, captured, wrong)
        return
    if template.keys() == {"any"}:
        return
    if "kind" in template:
        before = len(wrong)
        _match_value(template["kind"], ours["kind"], at, captured, wrong)
        first = template["kind"].split("|")[0]
        if len(wrong) > before or (Placeholder.of(first) is None and first != ours["kind"]):
            return  # its settings say nothing here
        if not isinstance(plain, Mapping) or plain["kind"] != ours["kind"]:  # a part within a part
            plain = Slot.every[at].get(ours["kind"])().to_dict()
    for key, value in ours.items():
        if key in template and key != "kind":
            nested_plain = plain.get(key) if isinstance(plain, Mapping) else None
            _match(template[key], value, nested_plain, f"{at}.{key}", captured, wrong)
        elif key != "kind" and isinstance(plain, Mapping) and value != plain.get(key):
            wrong.append(f"{at}.{key}={_shown(value)}")


def _match_value(template: Any, ours: Any, at: str, captured: dict[str, Any], wrong: list[str]) -> None:
    place = Placeholder.of(template)
    if place is not None:
        try:
            captured.update(dict.fromkeys(place.names, place.translation.to_theirs(ours)))
        except KeyError as error:
            known = place.translation.to_theirs
            choices = " or ".join(getattr(known, "__self__", {})) or str(error)
            wrong.append(f"{at}={_shown(ours)} is not {choices}")
        return
    allowed = template.split("|") if isinstance(template, str) else [template]
    if ours not in allowed:
        wrong.append(f"{at}={_shown(ours)} is not {' or '.join(map(_shown, allowed))}")


def _shown(value: Any) -> str:
    """A setting as a recipe has it: a part by its name."""
    if isinstance(value, Mapping):
        value = value.get("kind", value)
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
