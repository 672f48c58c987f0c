"""The conformance suite of model parts, as test cases for any test runner; for built-in variants and a user's own.

    @pytest.mark.parametrize("case", cases("model.mixer", "mine"), ids=str)
    def test_conforms(case):
        case.run()

A case builds a tiny model around the variant (no two sizes equal) and raises ``CheckFailed`` when the variant violates a
requirement or its own declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from glassformer.checks.check import check_model
from glassformer.foundation.errors import CheckFailed, UsageError
from glassformer.foundation.registry import Slot
from glassformer.model.accounting import parts_of
from glassformer.model.config import ModelConfig
from glassformer.model.losses import summed_cross_entropy
from glassformer.model.slots import MIXERS, POSITIONS, PartConfig
from glassformer.model.tap import Tap
from glassformer.model.transformer import Transformer, build_model

SIZES = {"width": 12, "heads": 3, "layers": 2, "context": 11}
ROWS, LENGTH, VOCABULARY = 5, 7, 13
ATTENTION_SLOTS = ("model.mixer.qk", "model.mixer.scores", "model.mixer.normaliser", "model.mixer.output")
SLOTS = (
    "model.positions",
    "model.mixer",
    *ATTENTION_SLOTS,
    "model.merge",
    "model.norm",
    "model.feedforward",
    "model.block",
    "model.stack",
    "model.head",
)


@dataclass(frozen=True)
class VariantExample:
    """A variant with one of its ``examples`` of settings, in a tiny model."""

    slot: str
    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    causal: bool = True

    def __str__(self) -> str:
        settings = ",".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.slot}={self.kind}{f'({settings})' if settings else ''}{'' if self.causal else ' in an encoder'}"

    @cached_property
    def part(self) -> PartConfig:
        part: PartConfig = Slot.every[self.slot].parse({"kind": self.kind, **self.settings})
        return part

    @cached_property
    def config(self) -> ModelConfig:
        """A model config in which the variant has an effect."""
        section, _, inside = self.slot.removeprefix("model.").partition(".")
        chosen = {"kind": "dot", inside: self.part} if inside else self.part
        around: dict[str, Any] = {**SIZES, "causal": self.causal, section: chosen}
        if self.slot == "model.mixer" and "embedding" not in MIXERS.get(self.kind).accepts_positions:
            around["positions"] = next(
                name for name in POSITIONS.names() if POSITIONS.get(name).applies_to in MIXERS.get(self.kind).accepts_positions
            )
        if self.slot == "model.positions":
            applies_to = POSITIONS.get(self.kind).applies_to
            mixers = ("dot", *MIXERS.names())
            around["mixer"] = next(name for name in mixers if applies_to in MIXERS.get(name).accepts_positions)
        return ModelConfig.parse(around)

    def model(self, seed: int = 1) -> Transformer:
        return build_model(self.config, VOCABULARY, seed=seed)

    def ids(self, length: int = LENGTH) -> Tensor:
        return torch.randint(VOCABULARY, (ROWS, length), generator=torch.Generator().manual_seed(2))

    @property
    def pools(self) -> bool:
        """Whether the model has one output per row."""
        return self.config.head.pools

    def targets(self, length: int = LENGTH) -> Tensor:
        """Training targets: the next token at each position, or a label of each row."""
        return self.ids(length)[:, 0] if self.pools else self.ids(length).roll(-1, 1)

    def require(self, met: bool, sentence: str) -> None:
        if not met:
            raise CheckFailed(f"{self}: {sentence}")


@dataclass(frozen=True)
class ConformanceCase:
    """One requirement on one variant with one example of its settings."""

    variant: VariantExample
    name: str
    requirement: Callable[[VariantExample], None] = field(repr=False, compare=False)

    def run(self) -> None:
        """Raises ``CheckFailed`` when the requirement is not met."""
        self.requirement(self.variant)

    def __str__(self) -> str:
        return f"{self.variant}-{self.name}"


def cases(slot: str | None = None, kind: str | None = None) -> list[ConformanceCase]:
    """All cases of all variants, of one slot, or of one variant; each with all of its ``examples``."""
    if slot is not None and slot not in SLOTS:
        raise UsageError(f"slot={slot!r} is not part of a model; conformance tests {', '.join(SLOTS)}.", reason="unknown-slot")
    found = []
    for path in SLOTS if slot is None else (slot,):
        for name in Slot.every[path].names() if kind is None else (kind,):
            for settings in Slot.every[path].get(name).examples:
                pools = getattr(Slot.every[path].get(name), "pools", False)  # a pooled output may depend on all tokens
                example = VariantExample(path, name, settings, causal=not pools)
                found += [ConformanceCase(example, title, requirement) for title, requirement in REQUIREMENTS.items()]
                if not pools:
                    in_encoder = VariantExample(path, name, settings, causal=False)
                    found.append(ConformanceCase(in_encoder, "laws", check_laws))
    return found


def conform(slot: str, kind: str) -> dict[str, str]:
    """Runs all cases of a variant; returns the messages of those that failed, by the case's name."""
    failed = {}
    for case in cases(slot, kind):
        try:
            case.run()
        except CheckFailed as error:
            failed[str(case)] = str(error)
    return failed


def check_docstring(variant: VariantExample) -> None:
    line = type(variant.part).one_line()
    variant.require(line.endswith("."), f"the first line of its docstring is no sentence: {line!r}.")


def check_config_round_trip(variant: VariantExample) -> None:
    config = variant.config
    variant.require(ModelConfig.parse(config.to_dict()) == config, "its config is not what its plain values are read back as.")


def check_shapes(variant: VariantExample) -> None:
    model, seen = variant.model().eval(), {}
    watched = {name: module for name, module in model.named_modules() if name.endswith((".mixer", ".merge", ".feedforward"))}
    with ExitStack() as stack:
        for name, module in watched.items():
            hook = module.register_forward_hook(lambda module, inputs, output, name=name: seen.update({name: output.shape}))
            stack.callback(hook.remove)
        scores = model(variant.ids())
    dims = model.dims
    per_head, per_token = (ROWS, dims.heads, LENGTH, dims.head_width), (ROWS, LENGTH, dims.width)
    for name, shape in seen.items():
        expected = per_head if name.endswith(".mixer") else per_token
        variant.require(shape == expected, f"{name} gives {tuple(shape)}, not {expected}.")
    of_scores = (ROWS, VOCABULARY) if variant.pools else (ROWS, LENGTH, VOCABULARY)
    variant.require(scores.shape == of_scores, f"the scores are {tuple(scores.shape)}, not {of_scores}.")
    variant.require(bool(scores.isfinite().all()), "a score is not finite.")


def check_laws(variant: VariantExample) -> None:
    """Causality, batch, padding, cache: each holds, or is declared in ``breaks`` and really broken."""
    report = check_model(variant.model())
    declared = type(variant.part).breaks
    undeclared = [finding.sentence for finding in report.findings if finding.law not in declared]
    variant.require(not undeclared, f"a law is broken that is not declared in ``breaks``. {' '.join(undeclared)}")
    for law in declared - report.broken:
        unjudged = law in report.not_judged or law in report.cannot_tell  # a broken law can mask the ones that presume it
        variant.require(unjudged, f"``breaks`` declares {law!r}, but the check finds that it holds.")


def check_fast_path(variant: VariantExample) -> None:
    """With a hook on every tap the reference implementation runs; the logits must equal those without hooks."""
    model = variant.model().double().eval()
    key_padding_mask_BS = torch.zeros(ROWS, LENGTH, dtype=torch.bool)
    key_padding_mask_BS[0, 0], key_padding_mask_BS[1, 3] = True, True
    for keywords in ({}, {"key_padding_mask_BS": key_padding_mask_BS}):
        fast = model(variant.ids(), **keywords)
        with looked_at(model):
            reference = model(variant.ids(), **keywords)
        distance = float((fast - reference).detach().abs().max())
        variant.require(
            distance <= 1e-12, f"looking changes the scores by {distance:.1g}: fast path and reference implementation differ."
        )


def check_parameter_count(variant: VariantExample) -> None:
    counted = sum(part.parameters for part in parts_of(variant.config, VOCABULARY))
    real = sum(parameter.numel() for parameter in variant.model().parameters())
    variant.require(counted == real, f"the formulas say {counted} parameters, the model has {real}.")


def check_flop_count(variant: VariantExample) -> None:
    """As torch counts them on the reference implementation."""
    model = variant.model().eval()
    with looked_at(model), torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(variant.ids())
    counted = sum(part.forward_flops for part in parts_of(variant.config, VOCABULARY, batch=ROWS, length=LENGTH))
    real = counter.get_total_flops()
    variant.require(counted == real, f"the formulas say {counted} FLOPs, torch counts {real}.")


def check_gradients(variant: VariantExample) -> None:
    """Every parameter, except what the part declares as ``untrained``, which no gradient may reach."""
    model = variant.model()
    summed_cross_entropy(model(variant.ids(SIZES["context"])), variant.targets(SIZES["context"])).backward()
    untrained = variant.part.untrained(model.dims)
    for name, parameter in model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        variant.require(bool(gradient.isfinite().all()), f"the gradient of {name} is not finite.")
        rows = next((rows for ending, rows in untrained.items() if name.endswith(ending)), None)
        if rows is not None:
            variant.require(not gradient[rows].any(), f"{name} is declared untrained, but a gradient reaches it.")
            gradient = torch.cat([gradient[: rows.start], gradient[rows.stop :]])
        variant.require(bool(gradient.any()) or not gradient.numel(), f"no gradient reaches {name}.")


def check_seed(variant: VariantExample) -> None:
    """Every parameter is initialised from the seed: no uninitialised memory, equal seeds give equal models, others differ."""
    with _uninitialised_is_nan():
        model = variant.model(seed=3)
    for name, tensor in model.state_dict().items():
        variant.require(
            bool(tensor.isfinite().all()), f"{name} is not initialised; define ``init_weights(generator)`` in its module."
        )
    twin, other = variant.model(seed=3).state_dict(), variant.model(seed=4).state_dict()
    variant.require(
        all(torch.equal(tensor, twin[name]) for name, tensor in model.state_dict().items()), "equal seeds give other models."
    )
    variant.require(any(not torch.equal(tensor, other[name]) for name, tensor in twin.items()), "the seed changes nothing.")


def check_save_and_load(variant: VariantExample) -> None:
    model, fresh = variant.model(seed=3).eval(), variant.model(seed=4).eval()
    data = safetensors.torch.save({name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()})
    fresh.load_state_dict(safetensors.torch.load(data), strict=True)
    variant.require(torch.equal(model(variant.ids()), fresh(variant.ids())), "a saved and loaded model gives other scores.")


def check_learning(variant: VariantExample) -> None:
    """Some steps on one batch (20, unless the variant states more) lower its loss."""
    model, ids_BT, steps = variant.model(), variant.ids(), variant.part.steps_to_learn
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    losses = []
    for step in range(steps + 1):
        torch.manual_seed(step)
        loss = summed_cross_entropy(model(ids_BT), variant.targets()) / variant.targets().numel()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    variant.require(
        losses[-1] < 0.9 * losses[0], f"{steps} steps on one batch take the loss from {losses[0]:.3f} to {losses[-1]:.3f}."
    )


REQUIREMENTS: dict[str, Callable[[VariantExample], None]] = {
    "docstring": check_docstring,
    "plain values": check_config_round_trip,
    "shapes": check_shapes,
    "laws": check_laws,
    "fast path": check_fast_path,
    "parameters": check_parameter_count,
    "flops": check_flop_count,
    "gradients": check_gradients,
    "seed": check_seed,
    "file": check_save_and_load,
    "learns": check_learning,
}


@contextmanager
def looked_at(model: nn.Module) -> Iterator[None]:
    """Inside the ``with`` every tap has a hook, so every mixer runs its reference implementation."""
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, Tap):
                stack.callback(module.register_forward_hook(lambda tap, inputs, output: None).remove)
        yield


@contextmanager
def _uninitialised_is_nan() -> Iterator[None]:
    """torch fills uninitialised memory with NaN, so that it shows."""
    switch: Any = torch.utils.deterministic
    before, fills = torch.get_deterministic_debug_mode(), switch.fill_uninitialized_memory
    torch.set_deterministic_debug_mode("warn")
    switch.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        switch.fill_uninitialized_memory = fills
