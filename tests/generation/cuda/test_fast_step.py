"""The fast step gives the scores of the forward pass with a cache, leaves the same cache, and writes the same sequences."""

from __future__ import annotations

import json

import pytest
import torch

PROGRAM = """
import glassformer.generation.cuda.fast_step as fast_step
from glassformer.generation.cuda import decoder as decode
from glassformer.model.config import ModelConfig
from glassformer.generation.cuda.kernels.sample import sample_tokens
from glassformer.generation.cuda.kernels.residual import ResidualStream, embed
from glassformer.model.kv_cache import ModelCache
from glassformer.generation.sampling import Sampling
from glassformer.generation.sequence import TokenSequence
from glassformer.model.transformer import build_model
torch.set_grad_enabled(False)
fast_step.usable = lambda tensor: tensor.dtype == dtype
dtype, tolerance = (torch.bfloat16, 4e-2) if device == "cuda" else (torch.float32, 1e-4)
config = {"width": 36, "layers": 2, "heads": 3, "context": 14} | CHOICES
model = build_model(ModelConfig.model_validate(config), 23, seed=1).eval()
for parameter in model.parameters():
    parameter.mul_(4.0)
model = model.to(device, dtype)
"""
SCORES = """
assert fast_step.fits(model)
caches = [ModelCache(layers=2, capacity=14, rows=6) for _ in range(2)]
fast = fast_step.FastStep(model)
for _ in range(2):  # the second time a recording does it
    for parameter in model.parameters():
        parameter.mul_(1.12)  # as training would change them
    fast.refresh(model)
rows = 5
ids = torch.randint(23, (rows, 14), generator=torch.Generator().manual_seed(0)).to(device)
shifts = torch.tensor([0, 1, 2, 0, 3], device=device)  # rows that do not stand at the same place
for cache in caches:
    cache.place_whole(torch.arange(rows, device=device))
    model.features(ids[:, :4], cache=cache)
for step in range(9):
    at = 1 + shifts + step
    last = ids.gather(1, at.unsqueeze(1))
    caches[0].place(at.unsqueeze(1), 14)
    expected = model(last, position_ids_BT=at.unsqueeze(1), cache=caches[0])[:, -1].float()
    scores = torch.empty(rows, 23, device=device)
    residual = ResidualStream.empty(rows, model.embedding.weight)
    embed(residual, last[:, 0].contiguous(), model.embedding.weight, at, fast_step.position_table(model.positions))
    fast.compute_scores(scores, model, residual, at, caches[1])
    assert_close(scores, expected, rtol=tolerance, atol=tolerance * expected.abs().max().item())
for layers in zip(*(cache.layers for cache in caches)):
    for name in ("key", "value"):
        one, other = (layer._buffers[name].float() for layer in layers)
        assert_close(one, other, rtol=tolerance, atol=tolerance * one.abs().max().item())
assert expected.std() > 0.1
"""
WINDOWS = """
caches = [ModelCache(layers=2, capacity=14, rows=6) for _ in range(2)]
ids = torch.randint(23, (3, 9), generator=torch.Generator().manual_seed(0)).to(device)
caches[0].place_whole(torch.arange(1, 4, device=device))
caches[1].place_whole(slice(1, 4))  # on a GPU copied by a kernel
model.features(ids, cache=caches[0])
fast_step.read_windows(model, ids, caches[1])
for layers in zip(*(cache.layers for cache in caches)):
    for name in ("key", "value"):
        one, other = (layer._buffers[name] for layer in layers)
        assert one[1:4, :, :9].abs().amax(dim=-1).min() > 0
        assert torch.equal(one, other)
"""
TEXTS = """
def write(fast, sampling):
    sequences = [TokenSequence(row=row, ids=[row], seed=9 + row, context=14, max_new_tokens=20 + row) for row in range(5)]
    decoder = decode.Decoder(model, sampling, rows=3, capacity=14, stride=4)
    decoder.exact, decoder.to_compare, decoder.fast = False, 0, fast_step.FastStep(model) if fast else None
    decoder.residual = ResidualStream.empty(3, model.embedding.weight)
    decoder.write(iter(sequences))
    return [sequence.new_ids for sequence in sequences]
decode.sample_tokens, decode.embed, decode.position_table = sample_tokens, embed, fast_step.position_table
decode.read_windows = fast_step.read_windows
for sampling in [Sampling(), Sampling(temperature=0), Sampling(temperature=0.8, top_k=5)]:
    assert write(True, sampling) == write(False, sampling)
model = build_model(ModelConfig.model_validate(config | {"layers": 0}), 23, seed=1).eval().to(device, dtype)
assert fast_step.fits(model)
assert write(True, Sampling()) == write(False, Sampling())
"""
FITTING = [
    {},
    {"bias": False, "norm": "rms", "positions": "rotary", "head": "untied", "feedforward": "relu"},
    {"feedforward": "gated", "merge": "shift", "positions": "sinusoidal"},
]
OTHERS = [
    {"block": "post"},
    {"positions": "alibi"},
    {"mixer": "average"},
    {"norm": "none"},
    {"mixer": {"kind": "dot", "fused": False}},
]


REPLACED = {
    "an adapted map of the feed-forward": (
        "model.blocks[0].feedforward.up = Scaled(model.blocks[0].feedforward.up)",
        True,
    ),
    "another activation": ("model.blocks[0].feedforward.activation = torch.nn.Tanh()", True),
    "an adapted map of the attention": ("model.blocks[0].attention.output = Scaled(model.blocks[0].attention.output)", False),
    "a module in the place of a tap": ("model.blocks[1].middle = torch.nn.ReLU()", False),
    "another embedding": ("model.embedding = Scaled(model.embedding)", False),
    "another head": ("model.head.__class__ = type('Own', (type(model.head),), {'forward': lambda self, x: -x})", False),
    "weights of several precisions": ("model.final_norm.double()", False),
    "weights laid out otherwise": (
        "weight = model.blocks[0].attention.output.weight; weight.data = weight.data.T.contiguous().T",
        False,
    ),
    "a wide model": ("fast_step.WIDEST = 35", False),
    "wide heads": ("fast_step.WIDEST_HEAD = 11", False),
    "autocast": ("fast_step.torch.is_autocast_enabled = lambda device: True", False),
}
SCALED = """
class Scaled(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.weight = inner, inner.weight
    def forward(self, x):
        return self.inner(x) * 3
"""
KEPT = """
decode.sample_tokens, decode.FastStep, decode.fits = sample_tokens, fast_step.FastStep, fast_step.fits
decode.ResidualStream, decode.embed, decode.position_table = ResidualStream, embed, fast_step.position_table
decode.read_windows = fast_step.read_windows
class Run:
    def __init__(self, step, state, together):
        self.step = step
    def __call__(self, rows, length, steps):
        for _ in range(steps):
            self.step()(rows, length)
decode.CUDAGraphSteps, decode.can_capture, decode.kernels.AVAILABLE = Run, lambda model: True, True
decode.rounds_as_float32 = lambda model: False
from glassformer.generation.generate import generate
def write(model):
    return generate(model, [[1], [2, 3]], max_new_tokens=12, temperature=0)
before = write(model)
kept = decode._KEPT[model]
assert kept.fast is not None
for parameter in model.parameters():
    parameter.mul_(-0.7)
for layer in kept.cache.layers:
    for buffer in layer._buffers.values():
        buffer.fill_(float("nan"))  # nothing of the sequences before is read
asked, decode.next_scores = decode.next_scores, None  # who reads such a number asks the definition
after = write(model)
decode.next_scores = asked
assert decode._KEPT[model] is kept
assert after != before
assert after == generate(model, [[1], [2, 3]], max_new_tokens=12, temperature=0, use_cache=False)
"""


@pytest.mark.parametrize("choices", FITTING, ids=json.dumps)
def test_equals_the_forward_pass_with_a_memory(run_with_kernels, choices) -> None:
    assert run_with_kernels(PROGRAM.replace("CHOICES", repr(choices)) + SCORES) == ""


@pytest.mark.parametrize("choices", FITTING, ids=json.dumps)
def test_reading_windows_leaves_the_memory_of_the_forward_pass(run_with_kernels, choices) -> None:
    assert run_with_kernels(PROGRAM.replace("CHOICES", repr(choices)) + WINDOWS) == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="in bf16 the tokens of the two ways may differ")
@pytest.mark.parametrize("program", [TEXTS, KEPT], ids=["sequences", "kept decoder, weights changed in place"])
def test_writes_the_texts_that_the_forward_pass_writes(run_with_kernels, program) -> None:
    assert run_with_kernels(PROGRAM.replace("CHOICES", "{}") + program) == ""


@pytest.mark.parametrize("choices", OTHERS, ids=json.dumps)
def test_models_of_other_parts_do_not_fit(run_with_kernels, choices) -> None:
    assert run_with_kernels(PROGRAM.replace("CHOICES", repr(choices)) + "assert not fast_step.fits(model)") == ""


def test_parts_that_somebody_replaced_do_not_fit_or_are_run_as_they_are(run_with_kernels) -> None:
    program = PROGRAM.replace("CHOICES", "{}") + SCALED + "import copy\noriginal = model\n"
    for name, (change, fitting) in REPLACED.items():
        program += f"model = copy.deepcopy(original)\n{change}\nassert fast_step.fits(model) is {fitting}, {name!r}\n"
        program += "fast_step.WIDEST = fast_step.WIDEST_HEAD = 999\n"
        if fitting:
            program += SCORES
    assert run_with_kernels(program) == ""
