"""The conformance suite of model parts, as test cases for any test runner; for built-in variants and a user's own.

    @pytest.mark.parametrize("case", cases("model.mixer", "mine"), ids=str)
    def test_conforms(case):
        case.run()

A case builds a tiny model around the variant (no two sizes equal) and raises ``CheckFailed`` when the variant violates a
requirement or its own declarations. One example after another meets every requirement alone; then the variant is paired with
every kind of positions (or mixer) that it declares to fit, a block with a feed-forward that reads earlier tokens, and all with
lists; each in a decoder and in an encoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import safetensors.torch
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from glassformer.checks.check import check_model
from glassformer.checks.check_report import short_error
from glassformer.checks.forward_passes import largest
from glassformer.checks.subject import our_subject
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import CheckFailed, ConfigError, UsageError
from glassformer.foundation.registry import Slot
from glassformer.model.accounting import PartCost, looked_at, parts_of
from glassformer.model.attention_context import OwnLosses
from glassformer.model.config import LISTS, ModelConfig
from glassformer.model.losses import summed_cross_entropy
from glassformer.model.network import MODELS
from glassformer.model.slots import EMBEDDINGS, MIXERS, POSITIONS, PartConfig
from glassformer.model.transformer import Transformer

SIZES = {"width": 12, "heads": 3, "layers": 2, "context": 11}
ROWS, LENGTH, VOCABULARY = 5, 7, 13
CROSS_SLOT = "model.cross"
SLOTS = (
    *(path for path in Slot.every if path.startswith("model.") and path.split(".")[1] in ModelConfig.model_fields),
    CROSS_SLOT,
)
"""The slots of a model's parts: those of its config, those inside a part (``model.mixer.qk``), that of an encoder-decoder."""
LONGER = 5
"""Positions beyond the context at which a variant without weights of single positions is tried."""
CLOSE = 1e-9
"""In float64: the largest difference, relative to the largest score, between two ways to compute the same."""
ATTENTION_SLOTS = tuple(path for path in SLOTS if path.startswith("model.mixer."))


@dataclass(frozen=True)
class VariantExample:
    """A variant with one of its ``examples`` of settings, in a tiny model."""

    slot: str
    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    causal: bool = True
    beside: dict[str, Any] = field(default_factory=dict)
    """Choices in other slots, by their key in ``model``."""
    entry: int | None = None
    """Its place in a list of two over the layers; None: it is in every layer."""
    device: str = "cpu"

    def __str__(self) -> str:
        settings = ",".join(f"{key}={value}" for key, value in self.settings.items())
        paired = "".join(f" with {key}={value}" for key, value in self.beside.items())
        listed = "" if self.entry is None else f" as entry {self.entry} of a list"
        encoder = "" if self.causal else " in an encoder"
        return f"{self.slot}={self.kind}{f'({settings})' if settings else ''}{paired}{listed}{encoder}"

    @cached_property
    def part(self) -> PartConfig:
        return Slot.every[self.slot].parse({"kind": self.kind, **self.settings})

    @cached_property
    def config(self) -> ModelConfig:
        """A model config in which the variant has an effect."""
        section, _, inside = self.slot.removeprefix("model.").partition(".")
        chosen: Any = {"kind": "dot", inside: self.part} if inside else self.part
        if self.slot == "model.mixer" and MIXERS.get(self.kind).borrows_keys:
            chosen = ["dot", chosen]
        elif self.entry is not None:
            chosen = [chosen, self.other] if self.entry == 0 else [self.other, chosen]
        around: dict[str, Any] = {**SIZES, "causal": self.causal, section: chosen}
        if self.slot == CROSS_SLOT:
            return MODELS.parse({"kind": "encoder-decoder", **around, **self.beside})
        if self.slot == "model.mixer" and "embedding" not in MIXERS.get(self.kind).accepts_positions:
            around["positions"] = next(
                name for name in POSITIONS.names() if POSITIONS.get(name).applies_to in MIXERS.get(self.kind).accepts_positions
            )
        if self.slot == "model.embedding" and not EMBEDDINGS.get(self.kind).can_be_tied:
            around["head"] = "untied"
        if self.slot == "model.positions":
            applies_to = POSITIONS.get(self.kind).applies_to
            mixers = ("dot", *MIXERS.names())
            around["mixer"] = next(name for name in mixers if applies_to in MIXERS.get(name).accepts_positions)
        return ModelConfig.parse({**around, **self.beside})

    @property
    def other(self) -> str:
        """What the other layers of a list have: the usual choice, or for that one another that fits."""
        names = {"model.mixer": ("dot", "average"), "model.positions": ("none", "rotary"), "model.merge": ("concat", "shift")}
        names |= {"model.norm": ("layer", "rms"), "model.feedforward": ("gelu", "relu"), "model.block": ("pre", "no_residual")}
        usual, instead = names[self.slot]
        return instead if self.kind == usual else usual

    def model(self, seed: int = 1) -> Any:
        """A Transformer; for a part that attends to a source, an encoder-decoder."""
        return self.config.build(VOCABULARY, seed=seed).to(self.device)

    def scores(self, model: Any, ids_BT: Tensor, **more: Any) -> Tensor:
        """What the model makes of the ids; of an encoder-decoder they are the target's, with other ids as sources."""
        if self.slot != CROSS_SLOT:
            return model(ids_BT, **more)
        source_BS = self.ids(SIZES["context"])[:1].flip(1).expand(len(ids_BT), -1)
        return model.given(model.encode(source_BS))(ids_BT, **more)

    def costs(self) -> tuple[PartCost, ...]:
        """By the formulas, of a pass over whole contexts."""
        if self.slot == CROSS_SLOT:
            return self.config.cost(VOCABULARY, batch=ROWS).parts
        return parts_of(self.config, VOCABULARY, batch=ROWS)

    def ids(self, length: int = LENGTH) -> Tensor:
        return torch.randint(VOCABULARY, (ROWS, length), generator=torch.Generator().manual_seed(2)).to(self.device)

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
        """Raises ``CheckFailed`` when the requirement is not met, or when the variant's code raises."""
        try:
            self.requirement(self.variant)
        except CheckFailed:
            raise
        except Exception as error:  # of code that is not ours
            raise CheckFailed(f"{self.variant}: {short_error(error)}", reason="raised") from error

    def __str__(self) -> str:
        return f"{self.variant}-{self.name}"


def cases(slot: str | None = None, kind: str | None = None, device: str = "cpu") -> list[ConformanceCase]:
    """All cases of all variants, of one slot, or of one variant; each with all of its ``examples``."""
    if slot is not None and slot not in SLOTS:
        raise UsageError(f"slot={slot!r} is not part of a model; conformance tests {', '.join(SLOTS)}.", reason="unknown-slot")
    found: list[ConformanceCase] = []
    pairs: dict[str, ConformanceCase] = {}
    for path in SLOTS if slot is None else (slot,):
        for name in Slot.every[path].names() if kind is None else (kind,):
            examples = Slot.every[path].get(name).examples
            pools = getattr(Slot.every[path].get(name), "pools", False)  # a pooled output may depend on all tokens
            for settings in examples:
                example = VariantExample(path, name, settings, causal=not pools, device=device)
                found += [ConformanceCase(example, title, requirement) for title, requirement in REQUIREMENTS.items()]
                in_encoder = replace(example, causal=False)
                if not pools and path != CROSS_SLOT and _fits(in_encoder):
                    first = settings is examples[0]  # further settings by the quick form
                    found.append(
                        ConformanceCase(in_encoder, *(("laws", check_laws) if first else ("together", check_together)))
                    )
            for example in paired(path, name):  # a mixer with positions and these positions with the mixer are one model
                there = replace(example, device=device)
                pairs.setdefault(fingerprint(example.config.to_dict()), ConformanceCase(there, "together", check_together))
    return [*found, *pairs.values()]


def paired(path: str, name: str) -> Iterator[VariantExample]:
    """The variant with every kind of positions or mixer that it declares to fit, in lists or beside one; in a decoder and in
    an encoder."""
    partners: list[dict[str, Any]] = [{}, {"mixer": ["dot", "average"]}]
    if path == "model.mixer" or path in ATTENTION_SLOTS:
        accepted = MIXERS.get(name if path == "model.mixer" else "dot").accepts_positions
        partners = [{"positions": at} for at in POSITIONS.names() if POSITIONS.get(at).applies_to in accepted]
    if path == "model.positions":
        acts = POSITIONS.get(name).applies_to
        partners = [{"mixer": mixer} for mixer in MIXERS.names() if acts in MIXERS.get(mixer).accepts_positions]
    if path == "model.block":
        partners.append({"feedforward": "convolved"})  # which needs the mask and a cache, where most need the vectors alone
    if path == CROSS_SLOT:
        partners += [{"block": "post"}, {"positions": "t5", "stack": "shared"}]
    settings = Slot.every[path].get(name).examples[0]
    examples = [VariantExample(path, name, settings, beside=beside) for beside in partners]
    if path.removeprefix("model.") in LISTS:
        last = 1 if path == "model.positions" and POSITIONS.get(name).applies_to == "embedding" else 2
        examples += [VariantExample(path, name, settings, entry=entry) for entry in range(last)]
    for example in (
        replace(one, causal=causal) for one in examples for causal in ((True,) if path == CROSS_SLOT else (True, False))
    ):
        if _fits(example):
            yield example


def _fits(example: VariantExample) -> bool:
    """Whether the combination is one that the model allows; else it is refused in a sentence."""
    try:
        example.config  # noqa: B018
    except ConfigError:
        return False
    return True


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
    parse = MODELS.parse if variant.slot == CROSS_SLOT else ModelConfig.parse
    variant.require(parse(config.to_dict()) == config, "its config is not what its plain values are read back as.")


def check_shapes(variant: VariantExample) -> None:
    model, seen = variant.model().eval(), {}
    watched = {name: module for name, module in model.named_modules() if name.endswith((".mixer", ".merge", ".feedforward"))}
    with ExitStack() as stack:
        for name, module in watched.items():
            hook = module.register_forward_hook(lambda module, inputs, output, name=name: seen.update({name: output.shape}))
            stack.callback(hook.remove)
        scores = variant.scores(model, variant.ids(SIZES["context"]))
    dims = model.dims
    length = SIZES["context"]
    per_head, per_token = (ROWS, dims.heads, length, dims.head_width), (ROWS, length, dims.width)
    for name, shape in seen.items():
        expected = per_head if name.endswith(".mixer") else per_token
        variant.require(shape == expected, f"{name} gives {tuple(shape)}, not {expected}.")
    of_scores = (ROWS, VOCABULARY) if variant.pools else (ROWS, length, VOCABULARY)
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


@torch.no_grad()
def check_together(variant: VariantExample) -> None:
    """The laws in a quick form, in float64, except those that a part declares to break: later tokens, other rows, hidden
    tokens, the cache in pieces, the reference implementation; and more positions than the context."""
    model, ids_BT = variant.model().double().eval(), variant.ids()
    breaks = {law for part in variant.config.parts for law in part.breaks}
    read = partial(variant.scores, model)
    scores = read(ids_BT)
    variant.require(bool(scores.isfinite().all()), "a score is not finite.")
    others_BT = (ids_BT + 1) % VOCABULARY

    def same(found: Tensor, expected: Tensor, law: str, sentence: str) -> None:
        if law not in breaks and found.numel():
            distance = float((found - expected).abs().max())
            variant.require(distance <= CLOSE * largest(scores), f"{sentence} (by {distance:.1g}).")

    if variant.causal and not variant.pools:
        for cut in (1, LENGTH // 2, LENGTH - 1):
            later_BT = torch.cat([ids_BT[:, :cut], others_BT[:, cut:]], dim=1)
            same(read(later_BT)[:, :cut], scores[:, :cut], "causality", f"scores before {cut} depend on later tokens")
    same(read(torch.cat([ids_BT[:1], others_BT[1:]]))[0], scores[0], "batch", "a row depends on the others of its batch")
    hidden_BS = torch.zeros_like(ids_BT, dtype=torch.bool)
    hidden_BS[0, 0], hidden_BS[1, 3], hidden_BS[2, LENGTH - 2 :] = True, True, True
    seen = torch.ones(ROWS, dtype=torch.bool) if variant.pools else ~hidden_BS
    masked = read(ids_BT, key_padding_mask_BS=hidden_BS)
    changed = read(torch.where(hidden_BS, others_BT, ids_BT), key_padding_mask_BS=hidden_BS)
    same(changed[seen], masked[seen], "padding", "scores depend on hidden tokens")
    for keywords, plain in (({}, scores), ({"key_padding_mask_BS": hidden_BS}, masked)):
        with looked_at(model):
            same(read(ids_BT, **keywords)[seen], plain[seen], "path", "looking changes the scores")
    if variant.causal and not variant.pools and not breaks & {"causality", "batch"}:
        _read_in_pieces(variant, model, ids_BT, scores, same)
    _read_further(variant, model, ids_BT, scores)


def _read_in_pieces(
    variant: VariantExample,
    model: Transformer,
    ids_BT: Tensor,
    scores: Tensor,
    same: Callable[[Tensor, Tensor, str, str], None],
) -> None:
    """A first piece, then token by token; rows of unequal length where the cache knows them."""
    subject = our_subject(model)
    if variant.slot == CROSS_SLOT:  # its source is another one than ours
        scores = subject.scores(ids_BT)
    assert subject.new_cache is not None
    for lengths in ([3] * ROWS, [3, 1, 2, 3, 2]) if subject.ragged else ([3] * ROWS,):
        cache = subject.new_cache()
        cache.read(ids_BT[:, :3], lengths)
        for further in range(LENGTH - 3):
            at_B1 = torch.tensor(lengths, device=ids_BT.device).unsqueeze(1) + further
            found = cache.read(ids_BT.gather(1, at_B1))[:, 0]
            expected = scores.gather(1, at_B1.unsqueeze(-1).expand(-1, -1, scores.shape[-1]))[:, 0]
            same(found, expected, "cache", f"token {further + 4} from a cache has other scores than in a whole pass")


def _read_further(variant: VariantExample, model: Transformer, ids_BT: Tensor, scores: Tensor) -> None:
    """With a longer context the same weights give the same scores, and longer rows run; unless a weight is for one position."""
    longer = variant.config.model_copy(update={"context": SIZES["context"] + LONGER}).build(VOCABULARY, seed=1)
    wanted, own = longer.state_dict(), model.state_dict()
    if any(wanted[name].shape != tensor.shape for name, tensor in own.items()):
        return
    longer.to(variant.device).double().eval().load_state_dict(own)
    distance = float((variant.scores(longer, ids_BT) - scores).abs().max())
    variant.require(
        distance <= CLOSE * largest(scores), f"a longer model.context changes the scores of short rows by {distance:.1g}."
    )
    variant.require(
        bool(variant.scores(longer, variant.ids(SIZES["context"] + LONGER)).isfinite().all()),
        "a score beyond the context is not finite.",
    )


def check_fast_path(variant: VariantExample) -> None:
    """With a hook on every tap the reference implementation runs; the logits must equal those without hooks."""
    model = variant.model().double().eval()
    key_padding_mask_BS = torch.zeros_like(variant.ids(), dtype=torch.bool)
    key_padding_mask_BS[0, 0], key_padding_mask_BS[1, 3] = True, True
    for keywords in ({}, {"key_padding_mask_BS": key_padding_mask_BS}):
        fast = variant.scores(model, variant.ids(), **keywords)
        with looked_at(model):
            reference = variant.scores(model, variant.ids(), **keywords)
        distance = float((fast - reference).detach().abs().max())
        variant.require(
            distance <= 1e-12, f"looking changes the scores by {distance:.1g}: fast path and reference implementation differ."
        )


def check_flop_count(variant: VariantExample) -> None:
    """As torch counts them on the reference implementation."""
    model = variant.model().eval()
    with looked_at(model), torch.no_grad(), FlopCounterMode(display=False) as counter:
        variant.scores(model, variant.ids(SIZES["context"]))
    counted = sum(part.forward_flops for part in variant.costs())
    real = counter.get_total_flops()
    variant.require(counted == real, f"the formulas say {counted} FLOPs, torch counts {real}.")


def check_gradients(variant: VariantExample) -> None:
    """Every parameter, except what the part declares as ``untrained``, which no gradient may reach."""
    model = variant.model()
    ids_BT, targets = variant.ids(SIZES["context"]), variant.targets(SIZES["context"])
    for _ in range(2 if variant.part.starts_silent else 1):
        model.zero_grad()
        model.collect(own := OwnLosses())
        loss = summed_cross_entropy(variant.scores(model, ids_BT), targets)
        sum(own.sums.values(), loss).backward()
        torch.optim.SGD(model.parameters(), lr=0.01).step()
    untrained = variant.part.untrained(model.dims)
    read = "decoder." if variant.slot == CROSS_SLOT and variant.kind == "none" else ""  # no gradient reaches an unread source
    for name, parameter in model.named_parameters():
        if not name.startswith(read):
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        variant.require(bool(gradient.isfinite().all()), f"the gradient of {name} is not finite.")
        rows = next((rows for ending, rows in untrained.items() if name.endswith(ending)), None)
        if rows is not None:
            variant.require(not gradient[rows].any(), f"{name} is declared untrained, but a gradient reaches it.")
            gradient = torch.cat([gradient[: rows.start], gradient[rows.stop :]])
        variant.require(bool(gradient.any()) or not gradient.numel(), f"no gradient reaches {name}.")


def check_own_losses(variant: VariantExample) -> None:
    """Those that are declared and no others; each a sum, so that a batch has what its pieces have together."""
    model, ids_BT = variant.model().double().eval(), variant.ids(SIZES["context"])

    @torch.no_grad()
    def sums(ids_BT: Tensor) -> dict[str, Tensor]:
        model.collect(own := OwnLosses())
        variant.scores(model, ids_BT)
        return own.sums

    whole, pieces = sums(ids_BT), [sums(ids_BT[:2]), sums(ids_BT[2:])]
    variant.require(
        set(whole) == set(model.own_losses),
        f"it adds the losses {sorted(whole)}, and ``own_losses`` declares {sorted(model.own_losses)}.",
    )
    for name, of_batch in whole.items():
        together = sum(float(piece[name]) for piece in pieces)
        variant.require(
            math.isclose(float(of_batch), together, rel_tol=1e-5, abs_tol=1e-9),  # parts may sum in float32
            f"its loss {name} is {float(of_batch):.6g} of a batch and {together:.6g} of its pieces; add a sum over tokens.",
        )


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


def check_names(variant: VariantExample) -> None:
    """What the modules of the variant call their parts has no effect on how these start. (An ``init_weights`` reads what is in
    its module by name, so there the names stay.)"""
    plain, renamed = variant.model(), variant.model()
    for module in list(renamed.modules()):
        if type(module).__module__ == type(variant.part).__module__ and not hasattr(module, "init_weights"):
            for number, name in enumerate(list(module._modules)):
                module._modules[f"renamed_{number}"] = module._modules.pop(name)
    for model in (plain, renamed):
        for module in model.modules():
            if isinstance(module, Transformer):
                module.initialise(seed=3)
    pairs = zip(plain.named_parameters(), renamed.parameters(), strict=True)
    different = [name for (name, one), other in pairs if not torch.equal(one, other)]
    variant.require(not different, f"renaming its attributes changes the start of {', '.join(different[:3])}.")


def check_save_and_load(variant: VariantExample) -> None:
    model, fresh = variant.model(seed=3).eval(), variant.model(seed=4).eval()
    data = safetensors.torch.save({name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()})
    fresh.load_state_dict(safetensors.torch.load(data), strict=True)
    variant.require(
        torch.equal(*(variant.scores(one, variant.ids()) for one in (model, fresh))),
        "a saved and loaded model gives other scores.",
    )


def check_learning(variant: VariantExample) -> None:
    """Some steps on one batch (20, unless the variant states more) lower its loss."""
    model, ids_BT, steps = variant.model(), variant.ids(), variant.part.steps_to_learn
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    losses = []
    for step in range(steps + 1):
        torch.manual_seed(step)
        loss = summed_cross_entropy(variant.scores(model, ids_BT), variant.targets()) / variant.targets().numel()
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
    "flops": check_flop_count,
    "gradients": check_gradients,
    "own losses": check_own_losses,
    "seed": check_seed,
    "names": check_names,
    "file": check_save_and_load,
    "learns": check_learning,
}


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
