"""Facts about each variant before training: cost, check results, settings from matching and tuning. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from glassformer.checks.check_report import CheckReport
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.files import read_versioned, write_json
from glassformer.foundation.plugins import plugin_checksums
from glassformer.study.planning.conditions import Condition, LeakKind, times, unequal
from glassformer.study.planning.plan import BASE

SCHEMA = 1
_LAWS = {
    "causality": "a later token",
    "batch": "other rows of the batch",
    "state": "earlier calls",
    "padding": "tokens that are hidden",
    "cache": "pieces read with a cache",
}


@dataclass(frozen=True)
class Facts:
    """One variant. ``recipe`` and ``data`` are fingerprints of its training, ``documents`` of its evaluation data."""

    recipe: str
    data: str
    documents: str
    parameters: int = 0
    step_flops: int = 0
    steps: int = 0
    tokens: int = 0
    memory_bytes: int = 0
    device: str = "cpu"
    check: dict[str, Any] | None = None
    """The check report; None before the check."""
    leak: str | None = None
    """The leak found by the check, or by a trial in its step or its trained model, or what could not be judged; None when every
    law holds."""
    leaks_in_step: bool = False
    """A trial found the leak before training, in its compiled or CUDA-graph step."""
    step_differs: bool = False
    """Not a leak: the trial's compiled or captured step gives other numbers than the eager one."""
    matched: dict[str, Any] = field(default_factory=dict)
    tuned: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    machine: dict[str, Any] = field(default_factory=dict)
    """Software and hardware on which bit-identity depends; empty where not known."""
    parent: str = ""
    """A checksum of the weights it starts from; empty without a parent, or if unknown."""
    asked: str = ""
    """``training_fingerprint`` of its recipe."""
    settings: dict[str, Any] = field(default_factory=dict)
    """``training_values`` of its recipe: what decides whether another baseline is nearly the same."""

    rows: float = 0.0
    """Of a batch, as they were drawn; likewise ``tokens``."""
    epochs: float | None = None
    start: dict[str, list[float]] = field(default_factory=dict)
    """By part and shape: the standard deviations of its weights at the start, in order of size."""
    same_start: str = ""
    """A matrix that starts alike with every seed."""
    function: list[float] = field(default_factory=list)
    """Outputs with weights that depend on their shapes alone: equal for networks that compute the same."""
    order: str = ""
    """A checksum of drawn batches."""
    judged_share: float | None = None
    """How much of what it draws for training is text that it is judged on; None: not known."""
    judged_in_train: float = 0.0
    """How much of the judged text stands in its training text, where that is not the baseline's."""
    read_by_parents: float = 0.0
    """How much of the judged text stands in that of its parents."""
    chances: int | None = None
    """How often a pass in training draws random numbers: the places with dropout. None: not known."""
    judged_flops: float = 0.0
    """FLOPs of a forward pass when it is judged, for each token."""
    judge: str = ""
    """Where the baseline's evaluator judges it and not its own: what its evaluations are called by."""

    def inspected(self, answer: Mapping[str, Any]) -> Facts:
        """A copy with the results of the worker's inspection: size, cost, checks."""
        if "lost" in answer or answer["status"] != "finished":
            raise RunError(
                f"The variant could not be inspected: {answer.get('lost') or answer['reason']}", reason="not-inspected"
            )
        for reason, sentence in answer.get("misstated", {}).items():
            raise ConfigError(sentence, reason=reason)
        report = CheckReport.from_dict(answer["check"])
        leak = " ".join(finding.sentence for finding in report.findings) or report.doubts or None
        keys = ("parameters", "step_flops", "memory_bytes", "steps", "tokens", "device", "machine", "check")
        measured = ("rows", "epochs", "start", "same_start", "function", "order", "judged_share", "judged_flops", "chances")
        found = {key: answer[key] for key in measured if key in answer}
        return replace(self, leak=leak or self.leak, **{key: answer[key] for key in keys}, **found)

    def uninspected(self, reason: str) -> Facts:
        """A copy of a change that could not even be inspected: it costs its own verdict, and is not trained."""
        return replace(self, leak=reason, check=CheckReport("", cannot_tell={"state": reason}).to_dict())

    @property
    def adapted(self) -> dict[str, Any]:
        """The settings from matching and tuning."""
        return {**self.matched, **self.tuned}

    @property
    def cheats(self) -> str:
        """A short description of the leak; one found during training in full."""
        findings = (self.check or {}).get("findings", ())
        if self.leak is None or not findings:
            return self.leak or ""
        who = [_LAWS[law] for law in dict.fromkeys(finding["law"] for finding in findings)]
        where = ", ".join(dict.fromkeys(finding["where"] for finding in findings))
        verb = "changes" if len(who) == 1 and who[0] == _LAWS["causality"] else "change"
        return f"{' and '.join(who)} {verb} its predictions (at {where})"

    @property
    def leak_kind(self) -> LeakKind:
        """Where the leak was found; *unjudged*: nowhere, but the check of the untrained model could not judge every law."""
        if self.leak is None or self.check is None or self.check["findings"]:
            return "in step" if self.leaks_in_step else "untrained" if self.leak else ""
        return "unjudged" if self.check.get("cannot_tell") else "in step" if self.leaks_in_step else "trained"

    @property
    def flops(self) -> int:
        """FLOPs of the whole run."""
        return self.step_flops * self.steps


DRAWS = ("data", "tokenizer", "objective", "init_from", "training.batch_size", "training.epochs", "model.context")
"""Settings with which another order of the text is no surprise."""
COSTS = ("training.steps", "training.epochs", "training.batch_size", "training.device", "training.accumulate")
"""Settings of training whose effect is counted as a cost, or is none."""
DROPOUT = "model.dropout"
AREAS = ("model", "objective", "init_from", "tokenizer", "data", "dropout", "training")
"""A change is about the first of these that it sets."""
CHANCES = (DROPOUT, "model.layers", "model.kind", "objective")
"""Settings with which another number of places with dropout is no surprise."""
MUCH, TOTAL = 0.002, 0.5
"""The share of judged text in what is drawn for training, from which it is said, and from which it is refused."""
OTHER_START = 0.05
"""The relative difference of standard deviations from which two starts differ."""


def differences(base: Facts, own: Facts, sets: Collection[str]) -> list[Condition]:
    """What else differs between a change, which sets these keys, and the baseline, by what was counted before training."""
    found = []
    if (own.judged_share or 0.0) > max(MUCH, 2.0 * (base.judged_share or 0.0)):
        text = f"training on the judged text ({100 * (own.judged_share or 0.0):.2g} % of what it draws)"
        found.append(Condition("judged text", text))
    if own.judged_in_train > MUCH:
        found.append(Condition("judged text", f"{100 * own.judged_in_train:.2g} % of the judged text in its training text"))
    if own.read_by_parents > max(MUCH, 2.0 * base.read_by_parents):
        text = f"a parent that was trained on {100 * own.read_by_parents:.2g} % of the judged text"
        found.append(Condition("judged text", text))
    found += _more_when_judged(base, own)
    found += _beside(base, own, sets)
    counted = base.chances is not None and own.chances is not None and not any(key.startswith(CHANCES) for key in sets)
    if counted and own.chances != base.chances:
        places = "place" if own.chances == 1 else "places"
        found.append(Condition("dropout", f"dropout in {own.chances} {places} instead of {base.chances}"))
    if not any(key.startswith(("model.init", "init_from")) for key in sets):  # a parent is said as such
        found += _other_start(base, own)
    if own.same_start and not base.same_start:
        found.append(Condition("seeds", f"one and the same start for all seeds ({own.same_start})"))
    drawn_otherwise = own.order != base.order and own.order and base.order
    if drawn_otherwise and (own.judge or not any(key.startswith(DRAWS) for key in sets)):  # a plugin's own way to draw
        found.append(Condition("data order", "the text in another order"))
    return found


def _beside(base: Facts, own: Facts, sets: Collection[str]) -> list[Condition]:
    """Settings that go with a change but are not what it is about, from which a reader may think that nothing else changed."""
    areas = {key: "dropout" if key == DROPOUT else key.partition(".")[0] for key in sets}
    about = next((area for area in AREAS if area in areas.values()), "")
    others = {"dropout", "training"} | ({"tokenizer", "data"} if about == "model" else set())
    found = []
    for key in sorted(key for key, area in areas.items() if area in others - {about} and key not in COSTS):
        was, now = base.settings.get(key), own.settings.get(key)
        found.append(Condition("training", f"its own {key}" + (f"={now:g} instead of {was:g}" if _numbers(was, now) else "")))
    return found


def _more_when_judged(base: Facts, own: Facts) -> list[Condition]:
    """A condition where a change computes more when it is judged than its training steps explain."""
    if not (base.judged_flops and own.judged_flops and base.step_flops and own.step_flops and base.tokens and own.tokens):
        return []
    ratio = own.judged_flops / base.judged_flops
    trained = (own.flops / own.tokens) / (base.flops / base.tokens)
    if ratio <= 1.1 * max(1.0, trained):
        return []
    return [Condition("flops when judged", f"{times(ratio)} the FLOPs when it is judged", base.judged_flops, own.judged_flops)]


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _other_start(base: Facts, own: Facts) -> list[Condition]:
    """A condition where parts that both have start with other standard deviations; it names the one that differs most."""
    ratios: dict[float, str] = {}
    for key in base.start.keys() & own.start.keys():
        noise = 4.0 / math.sqrt(2.0 * math.prod(map(int, key.rpartition(" ")[2].split("x"))))
        pairs = zip(base.start[key], own.start[key]) if len(base.start[key]) == len(own.start[key]) else ()
        for theirs, its in pairs:
            ratio = min(theirs, its) / max(theirs, its) if max(theirs, its) > 0.0 else 1.0
            if ratio < 1.0 - max(OTHER_START, noise):
                part = key.rpartition(" ")[0] or "its weights"
                ratios[ratio] = f"{part}: standard deviation {its:.2g} instead of {theirs:.2g}"
    if not ratios:
        return []
    example, same = ratios[min(ratios)], bool(own.function) and len(own.function) == len(base.function)
    if same and all(abs(one - other) <= 1e-4 * max(1.0, abs(one)) for one, other in zip(base.function, own.function)):
        return [Condition("start", f"the baseline's own network and nothing but another start ({example})")]
    return [Condition("start", f"another start of parts that both have ({example})")]


def require_comparable(facts: Mapping[str, Facts], demanded: Sequence[str]) -> None:
    """Raises, before anything is trained, for text that is trained on and judged, and for what the plan demands to be equal."""
    costs = {name: {"parameters": one.parameters, "flops": one.flops, "tokens": one.tokens} for name, one in facts.items()}
    for name, one in facts.items():
        if (one.judged_share or 0.0) >= TOTAL:
            raise ConfigError(
                f"{name} trains on the text that it is judged on: {100 * (one.judged_share or 0.0):.0f} % of what its "
                "objective draws stands there and not in the training text; draw batches from the split train.",
                reason="trained-on-judged-text",
            )
        missed = unequal([what for what in demanded if what != "time"], costs[BASE], costs[name])
        if missed:
            raise ConfigError(
                f"equal={', '.join(demanded)}: {name} has {missed[0].text}; drop it, drop the demand, or use --match.",
                reason="not-equal",
            )


@dataclass(frozen=True)
class VariantBook:
    """All variants of a study, and the plugins they were made with (file and sha256)."""

    variants: Mapping[str, Facts]
    plugins: tuple[dict[str, Any], ...] = ()

    def write(self, file: Path) -> None:
        facts = {name: {**asdict(one), "notes": list(one.notes)} for name, one in self.variants.items()}
        write_json(file, {"schema": SCHEMA, "plugins": list(self.plugins), "variants": facts})

    @classmethod
    def read(cls, file: Path) -> VariantBook:
        """Reads the file; empty if there is none."""
        if not file.is_file():
            return cls({})

        def book(document: Mapping[str, Any]) -> VariantBook:
            facts = {name: Facts(**{**one, "notes": tuple(one["notes"])}) for name, one in document["variants"].items()}
            return cls(facts, tuple(document["plugins"]))

        return read_versioned(file, SCHEMA, book, "remove it, and it will be made again")

    def require_same_plugins(self, now: list[dict[str, Any]], file: Path) -> None:
        """Raises if a plugin changed since the study began: the same names could mean other models."""
        if self.variants and plugin_checksums(self.plugins) != plugin_checksums(now):
            names = ", ".join(plugin["file"] for plugin in (*self.plugins, *now)) or "none"
            raise ConfigError(
                f"{file}: the plugins, or files they import, are not those the study began with ({names}); give the "
                "same files, unchanged, or begin a new study with another --out.",
                reason="plugins-changed",
            )

    def require_same_data(self, name: str, facts: Facts, file: Path) -> None:
        before = self.variants.get(name)
        if before is not None and before.data != facts.data:
            raise ConfigError(
                f"{file}: the data of {name!r} changed since the study began; put the old files back, "
                "or begin a new study with another --out.",
                reason="data-changed",
            )
        if before is not None and before.parent and before.parent != facts.parent:
            raise ConfigError(
                f"{file}: the run that {name!r} starts from (init_from) has other weights than when the study began; "
                "put the old run back, or begin a new study with another --out.",
                reason="parent-changed",
            )
