"""The kernels of a decoding step equal the operations they replace, and compile for GPUs."""

from __future__ import annotations

import pytest

LINEAR = """
from glassformer.generation.cuda.kernels import linear
from glassformer.model.norms.layer import LayerNorm
from glassformer.model.norms.rms import RMSNorm
torch.set_grad_enabled(False)
torch.manual_seed(0)
dtype, tolerance = (torch.bfloat16, 2e-2) if device == "cuda" else (torch.float32, 1e-5)
for rows, inputs, outputs in [(1, 37, 5), (20, 150, 33), (70, 64, 300), (70, 130, 20)]:
    x = (3 * torch.randn(rows, inputs) + 1).to(device, dtype)
    for bias in (True, False):
        layer = torch.nn.Linear(inputs, outputs, bias=bias).to(device, dtype)
        for norm in (LayerNorm(inputs, bias=bias), RMSNorm(inputs, eps=1e-6), None):
            if norm is not None:
                for parameter in norm.to(device, dtype).parameters():
                    parameter.normal_()
            for activation in (None, torch.nn.ReLU(), torch.nn.GELU()):
                normed = x if norm is None else norm(x)
                expected = layer(normed) if activation is None else activation(layer(normed))
                found = linear(x, layer, norm=norm, activation=activation)
                size = expected.float().abs().max().item()
                assert_close(found.float(), expected.float(), rtol=tolerance, atol=tolerance * size)
                before = torch.randn(rows, outputs, device=device).to(dtype)
                after = before.clone()
                assert linear(x, layer, norm=norm, activation=activation, out=after, add=True) is after
                assert_close(after.float(), (before + expected).float(), rtol=tolerance, atol=tolerance * size)
scores = torch.full((70, 20), float("nan"), device=device)
linear(x, layer, out=scores)
assert_close(scores, layer(x).float(), rtol=tolerance, atol=tolerance)
"""
ATTENTION = """
from glassformer.model.attention import attend
from glassformer.generation.cuda import kernels as module
from glassformer.generation.cuda.kernels import decode_attention
module.MANY_PROGRAMS = MANY
rows, heads, capacity, width = 5, 3, 150, WIDTH
generator = torch.Generator().manual_seed(0)
def drawn(*shape):
    return torch.randn(*shape, generator=generator).to(device)
for dtype, tolerance in [(torch.bfloat16, 2e-2) if device == "cuda" else (torch.float32, 1e-5)]:
    q, k, v = drawn(rows, 3 * heads * width).to(dtype).unflatten(-1, (3, heads, width)).unbind(1)
    buffers = [drawn(rows + 2, heads, capacity, width).to(dtype) for _ in range(2)]
    keys, values = (buffer[:rows] for buffer in buffers)
    at = torch.tensor([0, 1, 64, 65, 149], device=device)
    expected_buffers = [buffer.clone() for buffer in buffers]
    for row, place in enumerate(at.tolist()):
        expected_buffers[0][row, :, place], expected_buffers[1][row, :, place] = k[row], v[row]
    z = decode_attention(q, k, v, keys, values, at, 0.3)
    for buffer, expected in zip(buffers, expected_buffers):
        assert torch.equal(buffer, expected)
    visible = torch.arange(capacity, device=device) <= at[:, None, None, None]
    expected = attend(q.float().unsqueeze(2), keys.float(), values.float(), visible, scale=0.3).squeeze(2)
    assert z.shape == (rows, heads, width)
    assert z.dtype == dtype
    assert_close(z.float(), expected, rtol=tolerance, atol=tolerance)
"""
SAMPLING = """
from glassformer.generation.cuda.kernels import sample_tokens
from glassformer.generation.sampling import Sampling, choose
generator = torch.Generator().manual_seed(0)
for vocabulary, rows in [(65, 40), (1, 3), (2500, 9)]:
    for temperature in [0.0, 1.0, 0.7]:
        scores = (3 * torch.randn(rows, vocabulary, generator=generator)).to(device)
        seeds = torch.randint(-2**62, 2**62, (rows,), generator=generator).to(device)
        index = torch.randint(0, 2**20, (rows,), generator=generator).to(device)
        expected = choose(scores, Sampling(temperature=temperature), seen_BV=None, seeds_B=seeds, index_B=index).ids_B
        scores[1, vocabulary // 2] = float("nan")
        position, first = torch.clamp(torch.arange(rows, device=device) + 5, max=8), index - 2
        ends = torch.stack([torch.full_like(index, -7), position, index, seeds])
        tokens = torch.full((rows, 6), -7, device=device)
        sample_tokens(scores, ends, first, tokens, temperature, last_position=8, needs_recomputation=-1)
        fine = torch.arange(rows, device=device) != 1
        assert torch.equal(ends[0][fine], expected[fine]), (vocabulary, temperature)
        assert 0 <= ends[0, 1] < vocabulary
        assert torch.equal(tokens[fine, 2], expected[fine])
        assert tokens[1, 2] == -1
        assert (tokens[:, [0, 1, 3, 4, 5]] == -7).all()
        assert torch.equal(ends[2], index + 1)
        assert torch.equal(ends[3], seeds)
        assert ends[1].tolist() == [min(row + 6, 8) for row in range(rows)]
"""
COMPILED = """
import re, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from glassformer.generation.cuda import kernels

capability, shared = CAPABILITY
pdl = capability >= 90
TYPES = {name: "*i64" for name in ("position_ptr", "seeds_ptr", "index_ptr", "last_ptr", "first_ptr", "output_tokens_ptr")}
TYPES |= {name: "*fp32" for name in ("scores_ptr",)}
TYPES |= {name: "fp32" for name in ("eps", "scale", "temperature")}

def compiled(kernel, constants, **options):
    constants = constants | {"PDL": pdl}
    signature = {
        name: "constexpr" if name in constants else TYPES.get(name, "*bf16" if name.endswith("_ptr") else "i32")
        for name in kernel.arg_names
    }
    aligned = {(at,): [["tt.divisibility", 16]] for at, name in enumerate(kernel.arg_names) if name.endswith("_ptr")}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options | {"launch_pdl": pdl})
    assert result.metadata.shared <= shared, (constants, result.metadata.shared)
    lines = result.asm["ptx"].split(chr(10))
    waits = [at for at, line in enumerate(lines) if "griddepcontrol.wait" in line]
    touched = [at for at, line in enumerate(lines) if re.search(r"ld\\.global|st\\.global|cp\\.async", line)]
    assert touched
    assert not pdl or waits[0] < touched[0], constants

for width in (16, 64, kernels.WIDEST_HEAD):
    for block, warps in ((16, 1), (128, 4)):
        compiled(kernels._attend, {"WIDTH": width, "BLOCK": block}, num_warps=warps, num_stages=1)
for rows, outputs in ((1, 384), (256, 65), (256, 384)):
    for add in (False, True):
        row_block, columns, depth, warps, stages = kernels.tiles(rows, outputs, add=add)
        flags = {"NORMED": not add, "CENTRED": not add, "SHIFTED": not add, "BIASED": True, "ACTIVATION": 0 if add else 2}
        sizes = {"INPUTS": 384, "OUTPUTS": outputs, "ROWS": row_block, "COLUMNS": columns, "DEPTH": depth}
        compiled(kernels._linear, flags | sizes | {"ADDED": add}, num_warps=warps, num_stages=stages)
for vocabulary in (1, 1024):
    compiled(kernels._sample, {"SAMPLED": True, "BLOCK": vocabulary}, num_warps=4)
"""
CAPABILITIES = {"Ampere": (80, 166_912), "Ada": (89, 101_376), "Hopper": (90, 232_448)}
"""Compute capability, and the bytes of shared memory one program may have (CUDA C++ Programming Guide)."""


def test_a_linear_layer_with_norm_activation_and_sum_equals_torch(run_with_kernels) -> None:
    assert run_with_kernels(LINEAR) == ""


@pytest.mark.parametrize("width", [5, 20, 64])
@pytest.mark.parametrize("many", [1, 1000], ids=["one warp each", "few programs"])
def test_attention_equals_the_definition_and_extends_the_cache(run_with_kernels, width, many) -> None:
    assert run_with_kernels(ATTENTION.replace("MANY\n", f"{many}\n").replace("WIDTH", str(width))) == ""


def test_draws_what_sampling_draws(run_with_kernels) -> None:
    assert run_with_kernels(SAMPLING) == ""


@pytest.mark.parametrize("generation", CAPABILITIES)
def test_compiles_fits_and_waits(run_with_kernels, generation) -> None:
    """What the interpreter cannot see: the kernels fit in a GPU's shared memory, and touch no memory before they have waited
    for the kernel before. Compiling needs no GPU."""
    assert run_with_kernels(COMPILED.replace("CAPABILITY", repr(CAPABILITIES[generation])), interpreted=False) == ""
